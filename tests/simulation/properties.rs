//! Properties of the pure steps around a hub: reading any object, and writing over any object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gitwork_core::model::name::{RepoPath, SourceId};
use gitwork_core::model::work::{
    DeletionPolicy, DesiredWork, OWN_ANNOTATIONS, OWN_LABELS, WorkBody,
};
use gitwork_core::plan::observed::{Observed, ObservedWork};
use gitwork_core::plan::request;
use gitwork_core::plan::request::Request;
use gitwork_core::plan::{Effect, LastKnownStates, PlanPolicy, Reason};
use gitwork_core::render::desired::{Desired, Frozen};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::patch::{json_patch, merge_patch};
use super::{checked_plan, key};

/// JSON with meaningful field names in unlikely places.
fn any_json() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "metadata",
        "spec",
        "status",
        "labels",
        "annotations",
        "finalizers",
        "conditions",
        "type",
        "Applied",
        "True",
        "gitwork.dev/managed-keys",
        "gitwork.dev/source",
        "deleteOption",
        "generation",
        "propagationPolicy",
        "selectivelyOrphans",
        "orphaningRules",
        "observedGeneration",
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "deletionTimestamp",
        "{\"labels\":[\"a\"]}",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        names.clone().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map("[a-d]|x\\.io/[a-d]", "[a-c]{0,2}", 0..4)
}

fn body() -> impl Strategy<Value = Arc<WorkBody>> {
    (texts(), texts(), any::<bool>(), "[a-c]{0,2}").prop_map(
        |(labels, annotations, prune, text)| {
            let source = SourceId::parse("fleet").unwrap();
            let path = RepoPath::parse("clusters/edge-1/web").unwrap();
            let spec = json!({"workload": {"manifests": [{"text": text}]}});
            Arc::new(WorkBody::new(&source, &path, spec, labels, annotations, prune))
        },
    )
}

fn put(map: &mut Value, texts: &BTreeMap<String, String>) {
    for (key, value) in texts {
        map[key] = value.clone().into();
    }
}

/// A work that gitwork wrote once, with the changes of others since.
fn on_hub(
    body: &WorkBody,
    foreign: &(BTreeMap<String, String>, BTreeMap<String, String>),
    version: &str,
) -> Value {
    let mut work = body.to_manifest_work(&key("edge-1", "web"), None);
    put(&mut work["metadata"]["labels"], &foreign.0);
    put(&mut work["metadata"]["annotations"], &foreign.1);
    work["metadata"]["uid"] = "u".into();
    work["metadata"]["resourceVersion"] = version.into();
    work["metadata"]["generation"] = 1.into();
    work
}

fn desired(body: Option<Arc<WorkBody>>) -> Desired {
    let source = SourceId::parse("fleet").unwrap();
    let work = body.map(|body| DesiredWork {
        key: key("edge-1", "web"),
        path: RepoPath::parse("clusters/edge-1/web").unwrap(),
        body,
        delete_option: DeletionPolicy::Foreground,
        prune: true,
        suspend: false,
        objects: Arc::default(),
        depends_on: Default::default(),
        group_content: None,
        is_earlier: false,
    });
    let works = work.into_iter().map(|work| (work.key.clone(), Arc::new(work))).collect();
    let frozen = Frozen::default();
    Desired {
        delivered: BTreeMap::new(),
        source,
        commit: None,
        works,
        frozen,
        rules: Default::default(),
        approved: Default::default(),
        suspended: Default::default(),
        needed_facts: None,
        rollouts: BTreeMap::new(),
        later: BTreeMap::new(),
        facts: None,
        diagnostics: Vec::new(),
    }
}

fn observed(work: &Value) -> Observed {
    let work = ObservedWork::from_manifest_work(work.clone()).unwrap();
    Observed { works: [(work.key.clone(), work)].into(), ..Observed::default() }
}

/// Applies a plan's only effect to the work.
fn apply(work: &mut Value, effect: &Effect) {
    match request::request(&key("edge-1", "web"), effect, None) {
        Request::JsonPatch(operations) => json_patch(work, &operations.into_value()).unwrap(),
        Request::MergePatch(patch) => merge_patch(work, &patch),
        Request::Create(_) | Request::Delete { .. } => panic!("{effect:?} is no patch"),
    }
}

/// The foreign entries of a map: neither gitwork's own nor a user's through Git.
fn foreign(map: &Value, own: &[&str], users: &BTreeMap<String, String>) -> BTreeMap<String, Value> {
    let own: BTreeSet<&str> = own.iter().copied().chain(users.keys().map(String::as_str)).collect();
    let all = map.as_object().into_iter().flatten();
    all.filter(|(key, _)| !own.contains(key.as_str()) && !key.starts_with("gitwork.dev/"))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

proptest! {
    #[test]
    fn reading_any_object_does_not_panic(
        mut object in any_json(), metadata in any_json(), rest in any_json(),
    ) {
        let _ = ObservedWork::from_manifest_work(object.clone());
        if let Value::Object(fields) = &mut object {
            fields.insert("metadata".into(), metadata);
            fields.insert("spec".into(), rest.clone());
            fields.insert("status".into(), rest);
            let required =
                [("name", "web"), ("namespace", "edge-1"), ("uid", "u"), ("resourceVersion", "1")];
            for (name, value) in required {
                if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
                    metadata.insert(name.into(), value.into());
                }
            }
        }
        let is_object = object.get("metadata").is_some_and(Value::is_object);
        prop_assert_eq!(ObservedWork::from_manifest_work(object).is_ok(), is_object);
    }

    #[test]
    fn plan_does_not_depend_on_order_of_hub_events(
        (listed_works, watched_works) in
            prop::collection::btree_set(("[ab]", "[a-e]", 0..3_u8), 0..16)
                .prop_map(|works| works.into_iter().collect::<Vec<_>>())
                .prop_flat_map(|works| {
                    (Just(works.clone()).prop_shuffle(), Just(works).prop_shuffle())
                }),
        wanted in body(),
    ) {
        let desired = desired(Some(wanted.clone()));
        let work = |(cluster, name, state): &(String, String, u8)| {
            let mut work = on_hub(&wanted, &Default::default(), "1");
            // Each name occurs in one state only.
            work["metadata"]["name"] = format!("{name}-{state}").into();
            work["metadata"]["namespace"] = cluster.clone().into();
            if *state == 1 {
                work["metadata"]["labels"]["gitwork.dev/source"] = "another".into();
            }
            if *state == 2 {
                let applied = json!({"type": "Applied", "status": "True", "observedGeneration": 1});
                work["status"] = json!({"conditions": [applied]});
            }
            ObservedWork::from_manifest_work(work).unwrap()
        };
        let mut listed = Observed::default();
        listed.record_list(&desired.source, listed_works.iter().map(work).collect());
        let mut watched = Observed::default();
        watched_works.iter().for_each(|one| watched.record_change(work(one)));
        let (last_known, policy) = (LastKnownStates::new(), PlanPolicy::default());
        let planned = checked_plan(&desired, &listed, &last_known, &policy);
        let owned = listed_works.iter().filter(|(_, _, state)| *state != 1).count();
        prop_assert_eq!(planned.steps.len(), 1 + owned);
        prop_assert_eq!(planned, checked_plan(&desired, &watched, &last_known, &policy));
    }

    #[test]
    fn update_corrects_own_fields_and_keeps_foreign_fields(
        old in body(), new in body(), others in (texts(), texts()),
    ) {
        let mut work = on_hub(&old, &others, "1");
        let before = work.clone();
        let (last_known, policy) = (LastKnownStates::new(), PlanPolicy::default());
        let desired = desired(Some(new.clone()));
        let planned = checked_plan(&desired, &observed(&work), &last_known, &policy);
        prop_assert_eq!(planned.steps.len(), 1);
        let step = planned.steps.first().unwrap();
        match &step.effect {
            Some(effect) => apply(&mut work, effect),
            None => prop_assert_eq!(&step.reason, &Reason::UpToDate),
        }
        let after = checked_plan(&desired, &observed(&work), &last_known, &policy);
        prop_assert!(after.is_settled(), "{after:?}");
        let (old, new) = (old.metadata(), new.metadata());
        for (map, own, old, new) in [
            ("labels", OWN_LABELS.as_slice(), &old.labels, &new.labels),
            ("annotations", OWN_ANNOTATIONS.as_slice(), &old.annotations, &new.annotations),
        ] {
            let ours: BTreeMap<String, String> =
                old.iter().chain(new).map(|(k, v)| (k.clone(), v.clone())).collect();
            let (before, after) = (&before["metadata"][map], &work["metadata"][map]);
            prop_assert_eq!(foreign(before, own, &ours), foreign(after, own, &ours));
            for (key, value) in new {
                prop_assert_eq!(&after[key], value);
            }
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                prop_assert!(after.get(key).is_none(), "{} stays", key);
            }
        }
    }

    #[test]
    fn release_removes_exactly_gitworks_own_metadata(
        old in body(), others in (texts(), texts()),
    ) {
        let mut work = on_hub(&old, &others, "1");
        let before = work.clone();
        apply(&mut work, &Effect::Release { resource_version: "1".into() });
        prop_assert_eq!(&work["spec"], &before["spec"]);
        for map in ["labels", "annotations"] {
            let none = BTreeMap::new();
            let left = &work["metadata"][map];
            let foreign_before = foreign(&before["metadata"][map], &OWN_LABELS, &none);
            prop_assert_eq!(foreign(left, &OWN_LABELS, &none), foreign_before);
            let mut keys = left.as_object().unwrap().keys();
            prop_assert!(keys.all(|key| !key.starts_with("gitwork.dev/")));
        }
        let (last_known, policy) = (LastKnownStates::new(), PlanPolicy::default());
        let released = checked_plan(&desired(None), &observed(&work), &last_known, &policy);
        prop_assert!(released.steps.is_empty(), "{released:?}");
    }
}
