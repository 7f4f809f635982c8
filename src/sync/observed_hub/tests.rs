use proptest::prelude::*;
use serde_json::json;

use super::*;
use gitwork_core::model::name::{ClusterName, WorkName};

/// An event of the hub.
#[derive(Debug, Clone)]
enum Event {
    Listed(Vec<ObservedWork>),
    Changed(ObservedWork),
    Gone(WorkKey),
    LookedUp(WorkKey, Option<ObservedWork>),
    Deleted(WorkKey),
}

pub(crate) fn key(cluster: u8, work: u8) -> WorkKey {
    WorkKey {
        cluster: ClusterName::parse(&format!("edge-{cluster}")).unwrap(),
        work: WorkName::parse(&format!("work-{work}")).unwrap(),
    }
}

/// A work of one of this many clusters, with one of this many names.
pub(crate) fn any_key(clusters: u8, works: u8) -> impl Strategy<Value = WorkKey> {
    (0..clusters, 0..works).prop_map(|(cluster, work)| key(cluster, work))
}

fn a_key() -> impl Strategy<Value = WorkKey> {
    any_key(4, 3)
}

fn a_work() -> impl Strategy<Value = ObservedWork> {
    let commit = prop_oneof![
        (1..4u8).prop_map(|number| format!("{number}{number}").repeat(20)),
        Just("AB".repeat(20)),
        Just("ab".repeat(20)),
        Just("main".to_owned()),
    ];
    let owner = prop_oneof![4 => Just("fleet"), 1 => Just("other")];
    (a_key(), owner, proptest::option::of(commit), 1..50u32).prop_map(|(key, owner, commit, at)| {
        let annotations = commit.map(|commit| json!({"gitwork.dev/commit": commit}));
        ObservedWork::from_manifest_work(json!({
            "metadata": {
                "namespace": key.cluster.as_str(), "name": key.work.as_str(), "uid": "uid",
                "resourceVersion": at.to_string(), "generation": 1,
                "labels": {"gitwork.dev/source": owner}, "annotations": annotations,
            },
        }))
        .unwrap()
    })
}

fn an_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => proptest::collection::vec(a_work(), 0..8).prop_map(Event::Listed),
        6 => a_work().prop_map(Event::Changed),
        2 => a_key().prop_map(Event::Gone),
        2 => a_key().prop_map(|key| Event::LookedUp(key, None)),
        2 => a_work().prop_map(|work| Event::LookedUp(work.key.clone(), Some(work))),
        2 => a_key().prop_map(Event::Deleted),
    ]
}

proptest! {
    #[test]
    fn counts_equal_those_of_all_works(events in proptest::collection::vec(an_event(), 0..40)) {
        let source = SourceId::parse("fleet").unwrap();
        let mut hub = ObservedHub::new(source.clone());
        hub.record_list(WorksByCluster::new());
        for event in events {
            match event {
                Event::Listed(works) => hub.record_list(works.into_iter().collect()),
                Event::Changed(work) => _ = hub.record_change(work),
                Event::Gone(key) => _ = hub.record_gone(&key),
                Event::LookedUp(key, found) => _ = hub.record_lookup(&key, found),
                Event::Deleted(key) => {
                    let (uid, resource_version) = ("uid".into(), "1".into());
                    let effect = Effect::Delete { uid, resource_version };
                    hub.record_response(&key, &effect, None);
                }
            }
            let observed = hub.observed().unwrap();
            let commits = rewind::commits_on_works(&source, observed);
            prop_assert_eq!(&**hub.commits_on_works().unwrap(), &commits);
            let has_works = observed.works.values().any(|work| work.is_ours(&source));
            prop_assert_eq!(hub.has_works(), has_works);
        }
    }
}
