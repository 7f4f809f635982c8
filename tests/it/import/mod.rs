//! `gitwork import`: what it makes renders to what it was made from.

mod from_hub;
mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use gitwork_agent_core::work::{ManifestOptions, is_owned};
use gitwork_api::work::{ManifestResourceMeta, ManifestWorkSpec};
use gitwork_core::model::work_digest::digest;
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{code, err, gitwork, out, write};
use works::{
    config_map, deployment, entry, manifest_work, with, workload, works_of_every_kind,
    works_with_hard_texts,
};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    gitwork(arguments).current_dir(folder).output().unwrap()
}

/// Imports works from a file into an empty folder.
fn import(works: &[Value], flags: &[&str]) -> (TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": works});
    write(folder.path(), "works.json", &list.to_string());
    let arguments = [&["import", "works.json"], flags].concat();
    let output = run(folder.path(), &arguments);
    (folder, output)
}

/// The specs that a folder renders to, by name of the work.
fn rendered(folder: &Path) -> BTreeMap<String, Value> {
    let output = run(folder, &["render", "-o", "json"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let works = list["items"].as_array().unwrap().iter();
    works
        .map(|work| (work["metadata"]["name"].as_str().unwrap().to_owned(), work["spec"].clone()))
        .collect()
}

fn files(folder: &Path) -> BTreeSet<String> {
    let walk = ignore::WalkBuilder::new(folder.join("clusters")).build();
    let paths = walk.filter_map(Result::ok).filter(|entry| entry.path().is_file());
    paths.map(|entry| entry.path().strip_prefix(folder).unwrap().display().to_string()).collect()
}

/// The object as the agent names it. `plurals`: of custom kinds.
fn meta(manifest: &Value) -> ManifestResourceMeta {
    let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    let resource = match text("/kind") {
        "Mouse" => "mice".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    };
    serde_json::from_value(json!({
        "ordinal": 0, "group": group, "version": version, "kind": text("/kind"),
        "resource": resource, "namespace": text("/metadata/namespace"),
        "name": text("/metadata/name"),
    }))
    .unwrap()
}

/// How the agent learns the feedback of an object: as the last matching entry says, if there is a
/// rule at all.
fn scrape_type(spec: &Value, meta: &ManifestResourceMeta, options: &ManifestOptions) -> String {
    let is_about = |entry: &&Value| {
        let mut probe = (*entry).clone();
        probe["updateStrategy"] = json!({"type": "ReadOnly"});
        let probe = with(workload(vec![]), json!({"manifestConfigs": [probe]}));
        let probe: ManifestWorkSpec = serde_json::from_value(probe).unwrap();
        ManifestOptions::of(&probe, meta).update_strategy.is_some()
    };
    let entries = spec["manifestConfigs"].as_array().into_iter().flatten().filter(is_about);
    let last = entries.filter_map(|entry| entry["feedbackScrapeType"].as_str()).next_back();
    let has_rule = *options != ManifestOptions::default();
    if has_rule { last.unwrap_or("Poll").to_owned() } else { String::new() }
}

/// What the agent does with each object of a spec: its content, its options, and whether the work
/// owns it. And what it does for the whole work.
fn by_agent(spec: &Value) -> (BTreeMap<String, String>, Value, Value) {
    let parsed: ManifestWorkSpec = serde_json::from_value(spec.clone()).unwrap();
    let manifests = spec["workload"]["manifests"].as_array().unwrap();
    let none = BTreeMap::new();
    let of = |manifest: &Value| {
        let meta = meta(manifest);
        let content = digest(workload(vec![manifest.clone()]), &none, &none);
        let options = ManifestOptions::of(&parsed, &meta);
        let name = format!("{} {}/{}", meta.kind, meta.namespace, meta.name);
        let scrape = scrape_type(spec, &meta, &options);
        (name, format!("{content} {options:?} {scrape} {}", is_owned(&parsed, &meta)))
    };
    let objects: BTreeMap<String, String> = manifests.iter().map(of).collect();
    assert_eq!(objects.len(), manifests.len(), "no object is there twice");
    let ttl = spec.pointer("/deleteOption/ttlSecondsAfterFinished").cloned().unwrap_or_default();
    (objects, spec.get("executor").cloned().unwrap_or_default(), ttl)
}

#[test]
fn imported_work_means_the_same_to_the_agent() {
    let all = [works_of_every_kind(), works_with_hard_texts()].concat();
    for work in all {
        let name = work["metadata"]["name"].as_str().unwrap();
        let (folder, output) = import(std::slice::from_ref(&work), &[]);
        assert_eq!(code(&output), Some(0), "{name}: {}", err(&output));
        let rendered = rendered(folder.path());
        assert_eq!(rendered.keys().collect::<Vec<_>>(), [name]);
        assert_eq!(by_agent(&rendered[name]), by_agent(&work["spec"]), "{name}");
    }
}

/// The works whose rendered spec is that of the original in every detail.
const EQUAL_SPECS: [&str; 12] = [
    "plain",
    "strategies",
    "conditions",
    "orphans",
    "orphan-all",
    "executor",
    "custom",
    "with-crd",
    "texts",
    "numbers",
    "names",
    "long",
];

/// Where no rule has a wildcard, and Namespaces come first, even the order is kept, so that
/// `adopt: unowned` adopts the works without consent.
#[test]
fn imported_work_has_the_digest_of_the_original() {
    let none = BTreeMap::new();
    let all = [works_of_every_kind(), works_with_hard_texts()].concat();
    let mut equal = Vec::new();
    for work in all {
        let name = work["metadata"]["name"].as_str().unwrap();
        let (folder, _) = import(std::slice::from_ref(&work), &[]);
        let after = digest(rendered(folder.path())[name].clone(), &none, &none);
        if after == digest(work["spec"].clone(), &none, &none) {
            equal.push(name.to_owned());
        }
    }
    assert_eq!(equal, EQUAL_SPECS);
}

#[test]
fn metadata_goes_to_work_yaml_and_what_has_no_place_is_named() {
    let mut work = manifest_work("web", workload(vec![config_map("shop", "web", json!({}))]));
    work["metadata"]["labels"] = json!({"app": "yes", "app.kubernetes.io/managed-by": "Helm"});
    work["metadata"]["annotations"] = json!({
        "example.com/note": "a: b",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    });
    work["spec"]["manifestConfigs"] = json!([entry(
        "",
        "secrets",
        "shop",
        "gone",
        json!({"updateStrategy": {"type": "Update"}})
    )]);
    let (folder, output) = import(&[work], &[]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let text = fs::read_to_string(folder.path().join("clusters/edge-1/web/work.yaml")).unwrap();
    assert_eq!(text, "annotations:\n  example.com/note: \"a: b\"\nlabels:\n  app: \"yes\"\n");
    for line in [
        "edge-1/web: left out the label app.kubernetes.io/managed-by: Helm",
        "edge-1/web: left out the rules for secrets/gone in namespace shop, which is no object",
    ] {
        assert!(err(&output).contains(line), "{line}: {}", err(&output));
    }
}

#[test]
fn values_of_secrets_are_warned_of_and_never_shown() {
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"namespace": "shop", "name": "db"}, "data": {"password": "Q0FOQVJZ"}});
    let work = manifest_work("web", workload(vec![secret]));
    let warning = "a commit brings the values of Secret shop/db into Git";
    let (folder, output) = import(std::slice::from_ref(&work), &["--dry-run"]);
    let shown = out(&output) + &err(&output);
    assert_eq!(code(&output), Some(0), "{shown}");
    assert!(shown.contains(warning) && shown.contains("clusters/edge-1/web/secret-db.yaml"));
    assert!(!shown.contains("Q0FOQVJZ"), "{shown}");
    assert_eq!(files(folder.path()), BTreeSet::new(), "a dry run writes nothing");
    let (folder, output) = import(std::slice::from_ref(&work), &[]);
    assert!(err(&output).contains(warning) && !err(&output).contains("Q0FOQVJZ"));
    let file = folder.path().join("clusters/edge-1/web/secret-db.yaml");
    assert!(fs::read_to_string(file).unwrap().contains("password: Q0FOQVJZ"));
    // A source may refuse such Secrets.
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "works.json", &work.to_string());
    write(folder.path(), "gitwork.yaml", "secrets: refuse\n");
    let output = run(folder.path(), &["import", "works.json"]);
    assert_eq!(code(&output), Some(1));
    assert!(err(&output).contains("edge-1/web is not imported"), "{}", err(&output));
    assert!(!err(&output).contains("Q0FOQVJZ"), "{}", err(&output));
    assert_eq!(files(folder.path()), BTreeSet::new());
}

#[test]
fn dry_run_shows_the_files_that_an_import_writes() {
    let work = works_of_every_kind().into_iter().find(|one| one["metadata"]["name"] == "custom");
    let (_, output) = import(&[work.clone().unwrap()], &["--dry-run"]);
    let (folder, written) = import(&[work.unwrap()], &[]);
    assert_eq!((code(&output), code(&written)), (Some(0), Some(0)));
    let expected: String = files(folder.path())
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(folder.path().join(&path)).unwrap();
            format!("---\n# {path}\n{text}")
        })
        .collect();
    assert_eq!(out(&output), expected);
    assert!(expected.contains("mouse-a.config.yaml\nresource: mice\n"), "{expected}");
    assert_eq!(out(&written), "created clusters/edge-1/custom (4 files)\n");
}

#[test]
fn folders_that_are_there_are_not_touched() {
    let works = [
        manifest_work("web", workload(vec![config_map("shop", "web", json!({}))])),
        manifest_work("db", workload(vec![config_map("shop", "db", json!({}))])),
    ];
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "works.json", &Value::from(works.to_vec()).to_string());
    let list = json!({"kind": "List", "apiVersion": "v1", "items": works});
    write(folder.path(), "works.json", &list.to_string());
    write(folder.path(), "clusters/edge-1/web/README.md", "mine\n");
    let output = run(folder.path(), &["import", "works.json"]);
    assert_eq!(code(&output), Some(1));
    let message = "error: edge-1/web is not imported: clusters/edge-1/web is there already; move \
                   it away to import the work";
    assert!(err(&output).contains(message), "{}", err(&output));
    let expected = ["clusters/edge-1/db/configmap-db.yaml", "clusters/edge-1/web/README.md"];
    assert_eq!(files(folder.path()), expected.map(str::to_owned).into());
    // The second time, all of them are there.
    let output = run(folder.path(), &["import", "works.json"]);
    assert_eq!((code(&output), out(&output)), (Some(1), String::new()));
}

#[test]
fn works_of_others_and_invalid_works_are_named() {
    let with_metadata = |name: &str, metadata: Value| {
        let mut work = manifest_work(name, workload(vec![config_map("shop", name, json!({}))]));
        work["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        work
    };
    let replica_set = "work.open-cluster-management.io/manifestworkreplicaset";
    let no_namespace = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let works = [
        with_metadata("ours", json!({"labels": {"gitwork.dev/source": "fleet"}})),
        with_metadata("set", json!({"labels": {replica_set: "default.web"}})),
        with_metadata("owned", json!({"ownerReferences": [{"kind": "Addon", "name": "x"}]})),
        with_metadata("web", json!({"namespace": null})),
        manifest_work("empty", json!({})),
        manifest_work("unscoped", workload(vec![no_namespace])),
        manifest_work("future", with(workload(vec![deployment("a")]), json!({"future": {"a": 1}}))),
    ];
    let (folder, output) = import(&works, &[]);
    assert_eq!(code(&output), Some(1));
    for line in [
        "skipped edge-1/ours: the source fleet owns it",
        "skipped edge-1/set: ManifestWorkReplicaSet default.web",
        "skipped edge-1/owned: Addon x owns it",
        "error: ManifestWork web is not imported: metadata.namespace is missing",
        "error: edge-1/empty is not imported: it has no spec.workload.manifests",
        "error: edge-1/unscoped is not imported: gitwork cannot render its folder",
        "error: edge-1/future is not imported: its folder would not render to the same",
    ] {
        assert!(err(&output).contains(line), "{line}: {}", err(&output));
    }
    assert_eq!(files(folder.path()), BTreeSet::new());
    let (_, output) = import(&works[..3], &[]);
    assert_eq!(code(&output), Some(0), "it is no error that others own works");
}

#[test]
fn settings_of_the_source_that_would_change_a_work_keep_it_out() {
    let work = manifest_work("web", workload(vec![deployment("a")]));
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "works.json", &work.to_string());
    let orphan = "defaults:\n  deleteOption: {propagationPolicy: Orphan}\n";
    write(folder.path(), "clusters/edge-1/cluster.yaml", orphan);
    let output = run(folder.path(), &["import", "works.json"]);
    assert_eq!(code(&output), Some(1));
    for words in ["would not render to the same", "propagationPolicy"] {
        assert!(err(&output).contains(words), "{words}: {}", err(&output));
    }
    assert_eq!(files(folder.path()), ["clusters/edge-1/cluster.yaml".to_owned()].into());
    // Values are not replaced in texts that were none of gitwork's.
    let script = config_map("shop", "script", json!({"run": "echo ${HOME}"}));
    write(folder.path(), "works.json", &manifest_work("b", workload(vec![script])).to_string());
    write(folder.path(), "clusters/edge-1/cluster.yaml", "defaults: {substitute: true}\n");
    let output = run(folder.path(), &["import", "works.json"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert_eq!(
        rendered(folder.path())["b"]["workload"]["manifests"][0]["data"]["run"],
        "echo ${HOME}"
    );
}

#[test]
fn object_of_two_works_is_reported() {
    let of = |name| manifest_work(name, workload(vec![deployment("a")]));
    let (_, output) = import(&[of("web"), of("db")], &[]);
    assert_eq!(code(&output), Some(1));
    for words in ["these works conflict with each other", "deployments.apps/a in namespace shop"] {
        assert!(err(&output).contains(words), "{words}: {}", err(&output));
    }
}

/// What `kubectl get -n shop -o yaml` prints.
const KUBECTL_LIST: &str = r#"
apiVersion: v1
kind: List
metadata:
  resourceVersion: ""
items:
- apiVersion: v1
  kind: ConfigMap
  metadata:
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: |
        {"apiVersion":"v1","kind":"ConfigMap"}
    creationTimestamp: "2026-01-01T00:00:00Z"
    name: settings
    namespace: shop
    resourceVersion: "123"
    uid: 5f5d0c4e-0000-0000-0000-000000000000
    managedFields: [{manager: kubectl}]
  data:
    mode: "0644"
    country: "no"
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: kube-root-ca.crt, namespace: shop}
  data: {ca.crt: x}
- apiVersion: v1
  kind: Pod
  metadata:
    name: web-1
    namespace: shop
    ownerReferences:
    - {apiVersion: apps/v1, controller: true, kind: ReplicaSet, name: web, uid: "1"}
  spec: {containers: [{name: web, image: nginx}]}
- apiVersion: v1
  kind: Service
  metadata: {name: web, namespace: shop, selfLink: /api, generation: 3}
  spec: {ports: [{port: 80}]}
  status: {loadBalancer: {}}
"#;

#[test]
fn objects_of_kubectl_become_a_work_without_what_the_cluster_added() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["import", "-", "--into", "edge-1/shop"];
    let mut child = gitwork(&arguments)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(KUBECTL_LIST.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    for line in [
        "skipped ConfigMap shop/kube-root-ca.crt: Kubernetes makes it",
        "skipped Pod shop/web-1: ReplicaSet web owns it",
    ] {
        assert!(err(&output).contains(line), "{line}: {}", err(&output));
    }
    let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "shop"},
        "data": {"mode": "0644", "country": "no"}});
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(rendered(folder.path())["shop"], workload(vec![settings, service]));
    let output = run(folder.path(), &["validate", "--strict"]);
    assert_eq!(code(&output), Some(0), "{}", out(&output));
}

#[test]
fn input_that_cannot_be_imported_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "cm.yaml", &config_map("shop", "web", json!({})).to_string());
    write(folder.path(), "bad.yaml", "kind: [\n");
    for (arguments, expected, exit) in [
        (vec!["cm.yaml"], "such as ConfigMap shop/web; name the work for them with --into", 2),
        (vec!["bad.yaml"], "bad.yaml:1:7", 1),
        (vec!["bad.yaml"], "bad.yaml is not valid YAML; nothing is imported", 1),
        (vec!["gone.yaml"], "cannot read gone.yaml", 1),
        (vec!["."], "cannot read .", 1),
        (vec!["--into", "edge-1/web"], "<FILE>", 2),
        (vec!["cm.yaml", "--into", "edge-1"], "name it as CLUSTER/WORK", 2),
        (vec!["--kubeconfig", "/does/not/exist"], "cannot read the kubeconfig", 1),
    ] {
        let output = run(folder.path(), &[&["import"], &arguments[..]].concat());
        assert_eq!(code(&output), Some(exit), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(expected), "{arguments:?}: {}", err(&output));
    }
    assert!(!folder.path().join("clusters").exists());
}

fn any_data() -> impl Strategy<Value = BTreeMap<String, String>> {
    let text = prop_oneof![
        any::<String>(),
        "[a-z:# |>&*!%@`'\"{}\\[\\],?.~\n\t-]{0,12}",
        "[0-9.eExob_:+-]{1,8}",
        "(yes|no|on|off|null|true|~|y|n|<<|=|---|\\.\\.\\.)",
    ];
    prop::collection::btree_map("[a-zA-Z0-9._-]{1,8}", text, 0..6)
}

/// Entries of `manifestConfigs` for Deployments, some with wildcards, some for no object.
fn any_entry() -> impl Strategy<Value = Value> {
    let namespace = prop::sample::select(vec!["shop", "*", "s*", "store"]);
    let name = prop::sample::select(vec!["a", "b", "ab", "a*", "*b", "*", "gone"]);
    let strategies = ["Update", "CreateOnly", "ServerSideApply", "ReadOnly"];
    let strategy = prop::option::of(prop::sample::select(strategies.to_vec()));
    let scrape = prop::option::of(prop::sample::select(vec!["Poll", "Watch"]));
    (namespace, name, strategy, any::<bool>(), scrape).prop_map(
        |(namespace, name, strategy, has_feedback, scrape)| {
            let mut fields = json!({});
            if let Some(strategy) = strategy {
                fields["updateStrategy"] = json!({ "type": strategy });
            }
            if has_feedback {
                fields["feedbackRules"] = json!([{"type": "WellKnownStatus"}]);
            }
            if let Some(scrape) = scrape {
                fields["feedbackScrapeType"] = scrape.into();
            }
            entry("apps", "deployments", namespace, name, fields)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn imported_rules_mean_the_same_to_the_agent(
        entries in prop::collection::vec(any_entry(), 0..6)
    ) {
        let manifests = ["a", "b", "ab"].map(deployment).to_vec();
        let configs = json!({ "manifestConfigs": entries });
        let work = manifest_work("web", with(workload(manifests), configs));
        let (folder, output) = import(std::slice::from_ref(&work), &[]);
        prop_assert_eq!(code(&output), Some(0), "{}", err(&output));
        prop_assert_eq!(by_agent(&rendered(folder.path())["web"]), by_agent(&work["spec"]));
    }

    #[test]
    fn imported_texts_and_names_are_those_of_the_work(
        all in prop::collection::vec((0..2_u8, "[a-b]{1,2}([.-]config)?", any_data()), 1..6)
    ) {
        let namespaces = ["shop", "store"];
        let mut seen = BTreeSet::new();
        let manifests: Vec<Value> = all
            .into_iter()
            .map(|(namespace, name, data)| (namespaces[usize::from(namespace)], name, data))
            .filter(|(namespace, name, _)| seen.insert((*namespace, name.clone())))
            .map(|(namespace, name, data)| config_map(namespace, &name, json!(data)))
            .collect();
        let work = manifest_work("web", workload(manifests));
        let (folder, output) = import(std::slice::from_ref(&work), &[]);
        prop_assert_eq!(code(&output), Some(0), "{}", err(&output));
        let none = BTreeMap::new();
        let after = digest(rendered(folder.path())["web"].clone(), &none, &none);
        prop_assert_eq!(after, digest(work["spec"].clone(), &none, &none));
    }
}
