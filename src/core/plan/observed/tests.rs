use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gitwork_api::work::ManifestWorkStatus;
use proptest::collection::{btree_map, btree_set};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::limits;
use crate::model::name::{ClusterName, CommitId, RepoPath, SourceId, WorkKey, WorkName};
use crate::model::work::{DeletionPolicy, WorkBody};
use crate::model::work_state::State;
use crate::model::works_by_cluster::WorksByCluster;
use crate::plan::effect::Effect;
use crate::plan::request::{Request, request};

fn work() -> Value {
    json!({
        "metadata": {
            "namespace": "edge-1", "name": "web", "uid": "u", "resourceVersion": "7",
            "generation": 3,
            "labels": {
                "gitwork.dev/source": "fleet", "app.kubernetes.io/managed-by": "gitwork",
                "team": "a",
            },
            "annotations": {
                "gitwork.dev/managed-keys": r#"{"labels":["team"]}"#,
                "gitwork.dev/path": "clusters/edge-1/web",
                "gitwork.dev/prune": "false",
            },
            "finalizers": [AGENT_FINALIZER],
        },
        "spec": {
            "deleteOption": {"propagationPolicy": "Orphan"},
            "workload": {"manifests": [{"kind": "ConfigMap"}]},
        },
        "status": {"conditions": [
            {"type": "Available", "status": "False", "observedGeneration": 9},
            {"type": "Applied", "status": "True", "observedGeneration": 3},
        ]},
    })
}

#[test]
fn a_late_event_does_not_bring_back_an_older_state() {
    let version = |version: &str, uid: &str| {
        let mut work = work();
        work["metadata"]["resourceVersion"] = version.into();
        work["metadata"]["uid"] = uid.into();
        read(work)
    };
    for (known, event, is_newer) in [
        (version("10", "u"), version("9", "u"), false),
        (version("10", "u"), version("11", "u"), true),
        (version("10", "u"), version("9", "created again"), true),
        (version("x", "u"), version("9", "u"), true),
    ] {
        let mut observed = Observed::default();
        observed.record_change(known.clone());
        observed.record_change(event.clone());
        let expected = if is_newer { &event } else { &known };
        assert_eq!(observed.works.get(&known.key), Some(expected));
    }
}

#[test]
fn response_after_the_watched_deletion_is_dropped() {
    let source = SourceId::parse("fleet").unwrap();
    let mut going = work();
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let (there, going) = (read(work()), read(going));
    let key = there.key.clone();
    let delete = Effect::Delete { uid: "u".into(), resource_version: "7".into() };
    // The watch, or a list, reports the end before the answer to the deletion comes.
    for end in [Observed::record_gone as fn(&mut Observed, &_, &_), |o: &mut Observed, id, _| {
        o.record_list(id, WorksByCluster::new());
    }] {
        let mut observed = Observed::default();
        observed.record_change(there.clone());
        end(&mut observed, &source, &key);
        observed.record_response(&key, &delete, Some(going.clone()));
        observed.record_lookup(&key, Some(there.clone()));
        assert!(observed.works.is_empty());
        // A work that was created again under the same name is another one.
        let recreated = ObservedWork { uid: "v".into(), ..there.clone() };
        observed.record_lookup(&key, Some(recreated));
        assert_eq!(observed.works.len(), 1);
        observed.settle();
        assert!(observed.gone.is_empty());
    }
}

#[test]
fn a_work_that_came_back_in_the_watch_stays() {
    let source = SourceId::parse("fleet").unwrap();
    let there = read(work());
    let mut observed = Observed::default();
    observed.record_change(there.clone());
    // Its label was removed and set again, or a list was older than what is there.
    observed.record_gone(&source, &there.key);
    observed.record_change(there.clone());
    observed.record_lookup(&there.key, Some(there.clone()));
    assert_eq!(observed.works.len(), 1);
    // Or the hub was restored.
    observed.record_gone(&source, &there.key);
    observed.record_list(&source, [(there.key.clone(), there.clone())].into());
    observed.record_lookup(&there.key, Some(there.clone()));
    assert_eq!(observed.works.len(), 1);
}

#[test]
fn a_list_removes_only_works_of_the_source() {
    let source = SourceId::parse("fleet").unwrap();
    let mut foreign = work();
    foreign["metadata"]["name"] = "foreign".into();
    foreign["metadata"]["labels"]["gitwork.dev/source"] = "another".into();
    let (ours, foreign) = (read(work()), read(foreign));
    let mut observed = Observed::default();
    observed.record_change(ours.clone());
    observed.record_change(foreign.clone());
    observed.record_list(&source, WorksByCluster::new());
    assert_eq!(observed.works.keys().collect::<Vec<_>>(), [&foreign.key]);
    observed.record_gone(&source, &foreign.key);
    assert_eq!(observed.works.len(), 1, "a watch of ours knows nothing of foreign works");
    observed.record_lookup(&foreign.key, None);
    assert!(observed.works.is_empty());
}

/// A work by its cluster, its name and its source.
fn work_of(cluster: u8, name: u8, source: &str) -> ObservedWork {
    let mut work = work();
    work["metadata"]["namespace"] = format!("edge-{cluster}").into();
    work["metadata"]["name"] = format!("web-{name}").into();
    work["metadata"]["labels"]["gitwork.dev/source"] = source.into();
    read(work)
}

proptest! {
    #[test]
    fn a_list_replaces_the_works_of_the_source(
        before in btree_map((0..3u8, 0..4u8), any::<bool>(), 0..8),
        listed in btree_set((0..3u8, 0..4u8), 0..8),
    ) {
        let id = SourceId::parse("fleet").unwrap();
        let mut observed = Observed::default();
        let known = |((cluster, name), is_ours): (&(u8, u8), &bool)| {
            work_of(*cluster, *name, if *is_ours { "fleet" } else { "another" })
        };
        before.iter().map(known).for_each(|work| observed.record_change(work));
        let all = observed.works.clone();
        let list = listed.iter().map(|(cluster, name)| work_of(*cluster, *name, "fleet"));
        let list: WorksByCluster<ObservedWork> = list.collect();
        let (mut in_parts, mut parts) = (observed.clone(), observed.begin_list(list.clone()));
        prop_assert_eq!(observed.record_list(&id, list.clone()), all.clone());
        while !in_parts.advance_list(&id, &mut parts, 1) {}
        prop_assert_eq!(&in_parts, &observed);
        prop_assert_eq!(&parts.into_replaced(), &all);
        let (mut works, mut gone) = (list.clone(), BTreeMap::new());
        for (key, work) in all.iter().filter(|(key, _)| !list.contains_key(key)) {
            if work.is_ours(&id) {
                gone.insert(key.clone(), (work.uid.clone(), work.source.clone()));
            } else {
                works.insert(key.clone(), work.clone());
            }
        }
        prop_assert_eq!(&observed.works, &works);
        prop_assert_eq!(&observed.gone, &gone);
    }
}

#[test]
fn works_of_a_cluster_hold_its_name_and_their_source_once() {
    let all = || (0..3).map(|name| work_of(1, name, "fleet"));
    let mut observed = Observed::default();
    all().for_each(|work| observed.record_change(work));
    for works in [observed.works, all().collect()] {
        let names: BTreeSet<_> = works
            .iter()
            .flat_map(|(key, work)| [(key, work), (&work.key, work)])
            .map(|(key, work)| {
                (key.cluster.as_str().as_ptr(), work.source.as_ref().unwrap().as_ptr())
            })
            .collect();
        assert_eq!((works.len(), names.len()), (3, 1));
    }
    let mixed: WorksByCluster<ObservedWork> =
        [work_of(1, 0, "fleet"), work_of(1, 1, "another"), work_of(2, 0, "fleet")]
            .into_iter()
            .collect();
    let names = mixed.iter().map(|(key, work)| format!("{key} {}", work.source.as_ref().unwrap()));
    let expected = ["edge-1/web-0 fleet", "edge-1/web-1 another", "edge-2/web-0 fleet"];
    assert!(names.eq(expected));
}

fn read(work: Value) -> ObservedWork {
    ObservedWork::from_manifest_work(work).unwrap()
}

#[test]
fn a_work_is_read() {
    let mut value = work();
    let work = read(value.clone());
    assert_eq!(work.key.to_string(), "edge-1/web");
    assert_eq!((work.generation, work.prune, work.deleting), (3, false, false));
    assert_eq!(work.delete_option, DeletionPolicy::Orphan);
    assert_eq!(work.owned().labels, ["team".to_owned()].into());
    assert!(work.agent.seen && work.agent.has_settled() && work.agent.has_orphaned());
    value["metadata"]["generation"] = 4.into();
    let later = read(value).agent;
    assert!(later.seen && !later.has_settled() && !later.has_orphaned());
}

/// OCM's agent leaves `Applied` as it was for a work that has lost its manifests.
#[test]
fn an_empty_work_waits_for_no_agent() {
    let mut work = work();
    work["metadata"]["generation"] = 4.into();
    for (manifests, waits) in [(json!([{"kind": "ConfigMap"}]), true), (json!([]), false)] {
        work["spec"]["workload"] = json!({"manifests": manifests});
        let read = read(work.clone());
        assert_eq!(!read.agent.has_settled(), waits);
        assert_eq!(!read.agent.has_orphaned(), waits);
    }
}

#[test]
fn the_digest_covers_only_what_gitwork_set() {
    let before = read(work()).digest;
    let changed = |pointer: &str, key: &str, value: Value| {
        let mut work = work();
        work.pointer_mut(pointer).unwrap()[key] = value;
        read(work).digest != before
    };
    for (pointer, key, expected) in [
        ("/spec", "executor", true),
        ("/metadata/labels", "team", true),
        ("/metadata/labels", "app.kubernetes.io/managed-by", true),
        ("/metadata/labels", "foreign", false),
        ("/metadata/annotations", "foreign", false),
        ("/metadata/annotations", "gitwork.dev/path", true),
        ("/metadata/annotations", "gitwork.dev/managed-keys", true),
        ("/metadata/annotations", "gitwork.dev/commit", false),
        ("/metadata/annotations", "gitwork.dev/content-hash", false),
        ("/metadata/annotations", "gitwork.dev/adopt", false),
        ("/metadata", "finalizers", false),
        ("/status", "conditions", false),
    ] {
        assert_eq!(changed(pointer, key, "x".into()), expected, "{pointer}/{key}");
    }
}

#[test]
fn a_work_without_owner_marks_is_unowned() {
    let bare = || {
        let mut work = work();
        work["metadata"]["labels"] = json!({"team": "a"});
        work["metadata"]["annotations"] = json!({"note": "b"});
        work
    };
    assert!(read(bare()).unowned && !read(work()).unowned);
    for (pointer, value) in [
        ("labels", json!({"gitwork.dev/source": "another"})),
        ("labels", json!({"app.kubernetes.io/managed-by": "Helm"})),
        ("labels", json!({"work.open-cluster-management.io/manifestworkreplicaset": "a.b"})),
        ("labels", json!({"open-cluster-management.io/addon-name": "x"})),
        ("annotations", json!({"gitwork.dev/path": "clusters/edge-1/web"})),
        ("ownerReferences", json!([{"kind": "ManagedClusterAddOn"}])),
    ] {
        let mut work = bare();
        work["metadata"][pointer] = value;
        assert!(!read(work.clone()).unowned, "{work}");
    }
}

#[test]
fn an_unreadable_work_is_an_error_that_names_the_field() {
    for (field, value, expected) in [
        ("namespace", json!(null), "a ManifestWork on the hub has no metadata.namespace"),
        ("uid", json!(1), "a ManifestWork on the hub has no metadata.uid"),
        (
            "name",
            json!("A"),
            "a ManifestWork on the hub has the metadata.name \"A\", which has the character 'A'; \
             only lower-case letters, digits, '-' and '.' are allowed",
        ),
    ] {
        let mut work = work();
        work["metadata"][field] = value;
        let why = ObservedWork::from_manifest_work(work).unwrap_err();
        assert_eq!(why.to_string(), expected);
    }
}

#[test]
fn hostile_annotations_count_as_not_set() {
    let huge = "x".repeat(limits::ANNOTATION_BYTES_MAX + 1);
    for (key, value) in [
        ("gitwork.dev/managed-keys", huge.as_str()),
        ("gitwork.dev/managed-keys", "{\"labels\": 1}"),
        ("gitwork.dev/managed-keys", &"[".repeat(10_000)),
        ("gitwork.dev/path", &huge),
        ("gitwork.dev/commit", &huge),
        ("gitwork.dev/adopt", &huge),
        ("gitwork.dev/content-hash", &huge),
    ] {
        let mut work = work();
        work["metadata"]["annotations"][key] = value.into();
        let read = read(work);
        let unset = match key {
            "gitwork.dev/managed-keys" => *read.owned() == ManagedKeys::default(),
            "gitwork.dev/path" => read.path.is_none(),
            "gitwork.dev/commit" => read.commit.is_none(),
            "gitwork.dev/adopt" => read.adopt.is_none(),
            _ => read.written.is_none(),
        };
        assert!(unset, "{key}");
    }
}

/// Why works are not read as the types of `gitwork_api`: those reject a status as a whole.
#[test]
fn an_invalid_entry_of_the_status_hides_no_other() {
    let mut work = work();
    work["spec"]["workload"]["manifests"] = json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "a", "name": "b"}},
    ]);
    let meta = json!({"version": "v1", "kind": "ConfigMap", "resource": "configmaps",
        "namespace": "a", "name": "b"});
    let applied = json!({"type": "Applied", "status": "True", "observedGeneration": 3});
    work["status"] = json!({
        "conditions": [7, {"type": "Complete", "lastTransitionTime": "yesterday"}, applied],
        "resourceStatus": {"manifests": [
            {"resourceMeta": "none", "conditions": {}},
            {"resourceMeta": meta, "statusFeedback": 3, "conditions": [{"type": 7}, applied]},
        ]},
    });
    let typed = serde_json::from_value::<ManifestWorkStatus>(work["status"].clone());
    assert!(typed.is_err());
    let observed = read(work);
    assert!(observed.agent.applied && observed.agent.has_tried());
    assert_eq!((observed.status.state, observed.status.manifests_applied), (State::Applied, 1));
    let applied: Vec<Option<bool>> = observed.objects.iter().map(|one| one.applied).collect();
    assert_eq!(applied, [Some(true)]);
}

/// A work with this spec, and the API server's response to its creation if it adds no default.
fn created(spec: Value) -> (WorkBody, Value) {
    let source = SourceId::parse("fleet").unwrap();
    let path = RepoPath::parse("clusters/edge-1/web").unwrap();
    let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    let body = WorkBody::new(&source, &path, spec, labels, BTreeMap::new(), true);
    let effect = Effect::Create { body: Arc::new(body.clone()) };
    let commit = CommitId::parse(&"a".repeat(40));
    let Request::Create(sent) = request(&created_key(), &effect, commit) else {
        panic!("no create")
    };
    let mut response = sent.into_value();
    let managed = json!([{"manager": "gitwork", "operation": "Update",
        "apiVersion": "work.open-cluster-management.io/v1", "time": "2026-11-30T01:02:03Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:workload": {}}}}]);
    for (field, value) in [
        ("uid", json!("u")),
        ("resourceVersion", json!("7")),
        ("generation", json!(1)),
        ("creationTimestamp", json!("2026-11-30T01:02:03Z")),
        ("managedFields", managed),
    ] {
        response["metadata"][field] = value;
    }
    (body, response)
}

fn created_key() -> WorkKey {
    WorkKey {
        cluster: ClusterName::parse("edge-1").unwrap(),
        work: WorkName::parse("web").unwrap(),
    }
}

fn from_created(body: &WorkBody, response: &Value) -> Option<ObservedWork> {
    ObservedWork::from_created(format!("{response}\n").as_bytes(), &created_key(), body)
}

#[test]
fn response_to_a_creation_reads_the_same_without_its_manifests() {
    let config_map = |data: &str| {
        let metadata = json!({"name": "a", "namespace": "shop"});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": data}})
    };
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r", "labels": {"a": "b"}}, "rules": [{"verbs": ["*"]}]});
    let config = |resource: &str, strategy: &str| {
        json!({"resourceIdentifier": {"resource": resource, "namespace": "*", "name": "*"},
            "updateStrategy": {"type": strategy}})
    };
    let rule = json!({"group": "rbac.authorization.k8s.io", "resource": "clusterroles",
        "namespace": "", "name": "r"});
    let selectively = json!({"propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": {"orphaningRules": [rule]}});
    let float = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "b": 1.0});
    let manifests = [config_map("<&>\u{2028}\"}"), role];
    for spec in [
        json!({"workload": {"manifests": []}}),
        json!({"workload": {"manifests": manifests}}),
        json!({"workload": {"manifests": [config_map(&"x".repeat(10_000)), float]}}),
        json!({"workload": {"manifests": manifests}, "deleteOption": selectively}),
        json!({"workload": {"manifests": manifests},
            "deleteOption": {"propagationPolicy": "Orphan"}, "executor": {"subject": {}}}),
        json!({"workload": {"manifests": manifests}, "manifestConfigs": [
            config("configmaps", "ReadOnly"), config("clusterroles", "CreateOnly"),
        ]}),
    ] {
        let (body, response) = created(spec);
        let read = from_created(&body, &response);
        assert_eq!(read, Some(ObservedWork::from_manifest_work(response).unwrap()));
        let read = read.unwrap();
        assert_eq!((read.digest, read.written), (body.digest, Some(body.digest)));
        assert!(read.commit.is_some() && read.written_at.is_some());
    }
}

#[test]
fn response_to_a_creation_that_differs_is_read_whole() {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let (body, response) = created(json!({"workload": {"manifests": [manifest]}}));
    assert!(from_created(&body, &response).is_some());
    for (pointer, field, value) in [
        ("/spec", "deleteOption", json!({"propagationPolicy": "Foreground"})),
        ("/spec/workload/manifests/0", "data", json!({"a": "b"})),
        ("/metadata/labels", "team", json!("b")),
        ("/metadata/labels", "other", json!("b")),
        ("/metadata/annotations", "gitwork.dev/prune", json!("false")),
        ("/metadata/annotations", "gitwork.dev/content-hash", json!("0".repeat(64))),
        ("/metadata", "name", json!("other")),
        ("/metadata", "namespace", json!("edge-2")),
        ("/metadata", "finalizers", json!(["a"])),
        ("/metadata", "ownerReferences", json!([{}])),
        ("/metadata", "deletionTimestamp", json!("2026-11-30T01:02:03Z")),
        ("", "status", json!({})),
        ("", "kind", json!("Status")),
    ] {
        let mut other = response.clone();
        other.pointer_mut(pointer).unwrap()[field] = value;
        assert_eq!(from_created(&body, &other), None, "{pointer}/{field}");
    }
    let text = response.to_string();
    for other in ["", "}", &text[1..], &text[..text.len() - 1], &format!("[{text}]")] {
        assert_eq!(
            ObservedWork::from_created(other.as_bytes(), &created_key(), &body),
            None,
            "{other}"
        );
    }
    let unnamed = json!({"apiVersion": "v1", "kind": "A", "metadata": {"generateName": "a"}});
    let (body, response) = created(json!({"workload": {"manifests": [unnamed]}}));
    assert_eq!(from_created(&body, &response), None, "{response}");
}
