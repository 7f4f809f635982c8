//! `gitwork explain`: back to file, line and commit without a hub, and forward to the reason with
//! one.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;

use gitwork_core::model::name::SourceId;
use gitwork_hub::KubeHub;
use gitwork_hub::source_report::ReportStore;
use gitwork_report::outputs::OutputKind;
use gitwork_report::status::source_report::SourceReport;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{code, err, git, gitwork, out, write};
use crate::deploy;
use crate::output_schemas::assert_documented;
use crate::sync::fixture::{Sync, config_map};

const FILES: &[(&str, &str)] = &[
    ("gitwork.yaml", "defaults:\n  prune: true\n  labels:\n    team: a\n    tier: base\n"),
    (
        "clusters/edge-1/cluster.yaml",
        "values:\n  REGION: north\ndefaults:\n  labels:\n    team: b\n  deleteOption:\n    \
            propagationPolicy: Orphan\n",
    ),
    (
        "clusters/edge-1/web/work.yaml",
        "prune: false\nsubstitute: true\nlabels:\n  team: c\nmanifestConfigs:\n- \
            resourceIdentifier:\n    group: apps\n    resource: deployments\n    namespace: \
            shop\n    name: web\n  updateStrategy:\n    type: CreateOnly\n",
    ),
    (
        "clusters/edge-1/web/app.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n---\napiVersion: \
            apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: shop\nspec:\n  \
            selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web, \
            region: \"${REGION}\"}}\n    spec: {containers: [{name: web, image: \"web:1\"}]}\n",
    ),
    (
        "clusters/edge-1/web/app.config.yaml",
        "match:\n  kind: Deployment\nupdateStrategy:\n  type: Update\nfeedbackRules:\n- type: \
            WellKnownStatus\n",
    ),
    (
        "clusters/edge-1/old/cm.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: old\n  namespace: default\n",
    ),
];

fn clone() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        write(folder.path(), path, text);
    }
    git(folder.path(), &["init", "-q", "-b", "main"]);
    git(folder.path(), &["add", "."]);
    git(folder.path(), &["commit", "-q", "-m", "Bring the shop"]);
    folder
}

/// Without any kubeconfig at hand.
fn explain(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = gitwork(&["explain"]);
    command.args(arguments).current_dir(folder);
    command.env("HOME", folder).env_remove("KUBECONFIG").output().unwrap()
}

fn explained(folder: &Path, what: &str) -> Value {
    explained_with(folder, what, &[])
}

fn explained_with(folder: &Path, what: &str, arguments: &[&str]) -> Value {
    let output = explain(folder, &[&[what, "-o", "json"], arguments].concat());
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let explained = serde_json::from_slice(&output.stdout).unwrap();
    // A code is no work.
    if what.contains('/') {
        assert_documented(OutputKind::Explain, &explained, what);
    }
    explained
}

fn setting<'a>(explanation: &'a Value, name: &str) -> &'a Value {
    let all = explanation["git"]["settings"].as_array().unwrap();
    all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}: {all:?}"))
}

fn place(value: &Value) -> String {
    format!("{}:{}", value["file"].as_str().unwrap_or("-"), value["line"])
}

#[test]
fn each_setting_is_explained_with_its_source_and_matches_rendering() {
    let clone = clone();
    let work = explained(clone.path(), "edge-1/web");
    for (name, value, at, over) in [
        ("prune", json!(false), "clusters/edge-1/web/work.yaml:1", vec!["gitwork.yaml:2"]),
        ("suspend", json!(false), "-:null", vec![]),
        ("substitute", json!(true), "clusters/edge-1/web/work.yaml:2", vec![]),
        (
            "labels.team",
            json!("c"),
            "clusters/edge-1/web/work.yaml:4",
            vec!["gitwork.yaml:4", "clusters/edge-1/cluster.yaml:5"],
        ),
        ("labels.tier", json!("base"), "gitwork.yaml:5", vec![]),
        ("values.REGION", json!("north"), "clusters/edge-1/cluster.yaml:2", vec![]),
        (
            "deleteOption",
            json!({ "propagationPolicy": "Orphan" }),
            "clusters/edge-1/cluster.yaml:7",
            vec![],
        ),
    ] {
        let found = setting(&work, name);
        assert_eq!(found["value"], value, "{name}");
        assert_eq!(place(&found["setBy"]), at, "{name}");
        let overrides: Vec<String> =
            found["overrides"].as_array().into_iter().flatten().map(place).collect();
        assert_eq!(overrides, over, "{name}");
    }
    // What is rendered is what is explained.
    let rendered = gitwork(&["render", "-o", "json", "--work", "web"])
        .current_dir(clone.path())
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&rendered.stdout).unwrap();
    let there = &list["items"][0];
    assert_eq!(there["metadata"]["labels"]["team"], setting(&work, "labels.team")["value"]);
    assert_eq!(there["metadata"]["labels"]["tier"], setting(&work, "labels.tier")["value"]);
    assert_eq!(there["spec"]["deleteOption"], setting(&work, "deleteOption")["value"]);
    assert_eq!(there["metadata"]["annotations"]["gitwork.dev/prune"], "false");

    let object = explained(clone.path(), "edge-1/web/deployment/web");
    let strategy = setting(&object, "updateStrategy");
    assert_eq!(place(&strategy["setBy"]), "clusters/edge-1/web/app.config.yaml:4");
    assert_eq!(place(&strategy["overrides"][0]), "clusters/edge-1/web/work.yaml:12");
    let configs = there["spec"]["manifestConfigs"].as_array().unwrap();
    assert_eq!(configs.len(), 1);
    assert_eq!(configs[0]["updateStrategy"], strategy["value"]);
    assert_eq!(configs[0]["feedbackRules"], setting(&object, "feedbackRules")["value"]);
}

/// A group with values, overrides and settings, and a member with values and labels of its own.
fn group_with_values() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let values = "${COLOUR} ${SIZE} ${TAG} ${cluster.labels['city']} ${cluster.claims['region']}";
    for (path, text) in [
        ("gitwork.yaml", "defaults:\n  labels:\n    of: source\n    team: source\n"),
        (
            "groups/edge/group.yaml",
            "clusters: [edge-1]\nvalues:\n  COLOUR: blue\n  SIZE: 1\n  TAG: one\noverrides:\n- \
             clusters: ['edge-*']\n  values:\n    TAG: two\ndefaults:\n  substitute: true\n  \
             labels:\n    of: group\n",
        ),
        ("groups/edge/web/cm.yaml", &config_map("web", values)),
        ("clusters/edge-1/cluster.yaml", "values:\n  SIZE: 2\nlabels:\n  city: Ulm\n"),
    ] {
        write(folder.path(), path, text);
    }
    let facts = json!({"managedClusters": {"edge-1": {
        "labels": {"city": "Bonn"}, "claims": {"region": "eu"},
    }}});
    write(folder.path(), "facts.json", &facts.to_string());
    folder
}

/// The group's values and settings, its overrides for the cluster, and what the hub says of it.
#[test]
fn values_and_settings_of_a_group_are_explained_by_file_or_fact() {
    let folder = group_with_values();
    let output = explain(folder.path(), &["edge-1/web", "--facts", "facts.json", "-o", "json"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let work: Value = serde_json::from_slice(&output.stdout).unwrap();
    let group = "groups/edge/group.yaml";
    for (name, value, set_by, fact, over) in [
        ("values.COLOUR", json!("blue"), format!("{group}:3"), json!(null), vec![]),
        (
            "values.SIZE",
            json!(2),
            "clusters/edge-1/cluster.yaml:2".into(),
            json!(null),
            vec![format!("{group}:4")],
        ),
        ("values.TAG", json!("two"), format!("{group}:9"), json!(null), vec![format!("{group}:5")]),
        (
            "values.cluster.labels[\"city\"]",
            json!("Ulm"),
            "clusters/edge-1/cluster.yaml:4".into(),
            json!(null),
            vec![],
        ),
        (
            "values.cluster.claims[\"region\"]",
            json!("eu"),
            "-:null".into(),
            json!("ManagedCluster edge-1"),
            vec![],
        ),
        (
            "labels.of",
            json!("group"),
            format!("{group}:13"),
            json!(null),
            vec!["gitwork.yaml:3".to_owned()],
        ),
        ("labels.team", json!("source"), "gitwork.yaml:4".into(), json!(null), vec![]),
    ] {
        let found = setting(&work, name);
        assert_eq!(found["value"], value, "{name}");
        assert_eq!(place(&found["setBy"]), set_by, "{name}");
        assert_eq!(found["fact"], fact, "{name}");
        let overrides: Vec<String> =
            found["overrides"].as_array().into_iter().flatten().map(place).collect();
        assert_eq!(overrides, over, "{name}");
    }
}

#[test]
fn object_is_traced_to_file_line_and_commit() {
    let clone = clone();
    let object = explained(clone.path(), "edge-1/web/web");
    assert_eq!(object["object"], "Deployment shop/web");
    assert_eq!(place(&object["git"]["place"]), "clusters/edge-1/web/app.yaml:6");
    let change = &object["git"]["lastChange"];
    assert_eq!(change["author"], "Ann <ann@example.com>");
    assert_eq!(change["subject"], "Bring the shop");
    assert_eq!(change["commit"].as_str().unwrap().len(), 40);
    assert_eq!(
        (&object["answer"]["reason"], &object["git"]["uncommitted"]),
        (&json!("HubUnknown"), &Value::Null)
    );
    assert!(object["hubUnknown"].as_str().unwrap().contains("--kubeconfig"), "{object}");

    write(clone.path(), "clusters/edge-1/web/app.yaml", &format!("# more\n{}", FILES[3].1));
    let object = explained(clone.path(), "edge-1/web/namespace/shop");
    assert_eq!(object["git"]["uncommitted"], true);
    let text = out(&explain(clone.path(), &["edge-1/web/web"]));
    for words in [
        "Deployment shop/web",
        "clusters/edge-1/web/app.yaml:7",
        "Bring the shop",
        "uncommitted changes on disk",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn source_is_found_from_a_folder_of_a_work() {
    let clone = clone();
    let from_top = explained(clone.path(), "edge-1/web");
    let from_work = explained(&clone.path().join("clusters/edge-1/web"), "edge-1/web");
    assert_eq!(from_work["git"], from_top["git"]);
}

#[test]
fn diagnostic_is_explained_in_any_folder() {
    let folder = TempDir::new().unwrap();
    let text = out(&explain(folder.path(), &["gw403"]));
    assert!(text.starts_with("GW403: missing metadata.namespace\n"), "{text}");
    assert!(text.contains("error[GW403]: ConfigMap settings has no namespace"), "{text}");
    let value = explained(folder.path(), "GW403");
    assert_eq!((&value["code"], &value["severity"]), (&json!("GW403"), &json!("error")));
    let output = explain(folder.path(), &["GW4033"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("there is no diagnostic GW4033; did you mean GW403?"), "{message}");
}

#[test]
fn missing_or_unreadable_objects_are_reported() {
    let clone = clone();
    git(clone.path(), &["rm", "-rq", "clusters/edge-1/old"]);
    git(clone.path(), &["commit", "-q", "-m", "Drop the old one"]);
    let reported = |what: &str| {
        let output = explain(clone.path(), &[what, "-o", "json"]);
        let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (code(&output), value, err(&output))
    };
    let (exit, removed, _) = reported("edge-1/old");
    assert_eq!((exit, &removed["answer"]["reason"]), (Some(1), &json!("RemovedFromGit")));
    assert_eq!(removed["git"]["removedBy"]["subject"], "Drop the old one");
    let (exit, unknown, _) = reported("edge-1/wep");
    assert_eq!((exit, &unknown["answer"]["reason"]), (Some(2), &json!("NotInGit")));
    assert_eq!(unknown["answer"]["advice"], "did you mean edge-1/web?");
    let (_, unknown, _) = reported("edge-2/web");
    assert_eq!(unknown["answer"]["advice"], "did you mean edge-1/web?");
    let (exit, _, message) = reported("edge-1/web/deployment/wep");
    assert_eq!(exit, Some(1));
    assert!(message.contains("it has deployment/shop/web"), "{message}");
    assert_eq!(reported("edge-1").0, Some(2));

    write(clone.path(), "clusters/edge-1/web/app.yaml", "kind: [");
    let (exit, broken, _) = reported("edge-1/web");
    assert_eq!((exit, &broken["answer"]["reason"]), (Some(0), &json!("Frozen")));
    assert!(broken["answer"]["message"].as_str().unwrap().contains("app.yaml:1"), "{broken}");
}

/// The agent reports that the cluster refused the object of the work `web`.
async fn agent_fails_to_apply(sync: &Sync) {
    let generation = sync.until_there(0, "web").await.metadata.generation;
    let failed = json!({ "status": {
        "conditions": [{ "type": "Applied", "status": "False", "observedGeneration": generation,
            "reason": "AppliedManifestWorkFailed", "message": "failed",
            "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        "resourceStatus": { "manifests": [{
            "resourceMeta": { "ordinal": 0, "kind": "ConfigMap", "namespace": "default",
                "name": "web" },
            "conditions": [{ "type": "Applied", "status": "False",
                "reason": "AppliedManifestFailed",
                "message": "denied by policy", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        }] },
    } });
    let params = PatchParams::default();
    sync.works(0).patch_status("web", &params, &Patch::Merge(failed)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn object_is_traced_from_git_to_the_cluster() {
    let sync = Sync::new(1).await;
    sync.commit(&[(0, "web/cm.yaml", Some(&config_map("web", "one")))]);
    sync.engine(Arc::new(KubeHub::new(sync.hub.client())), sync.source()).once().await.unwrap();
    let cluster = &sync.clusters[0];
    let (kubeconfig, cache) = (sync.hub.kubeconfig_path(), sync.folder.path().join("cli-cache"));
    let explain = |what: &str| {
        // No --source-id: the hub knows which source the work is of.
        let output = gitwork(&["explain", &format!("{cluster}/{what}"), "-o", "json"])
            .args(["--branch", "main", "--repo", &sync.server.url("fleet.git")])
            .args([Path::new("--cache"), &cache, Path::new("--kubeconfig"), &kubeconfig])
            .output()
            .unwrap();
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        let explained = serde_json::from_slice::<Value>(&output.stdout).unwrap();
        assert_documented(OutputKind::Explain, &explained, what);
        explained
    };
    let reason = |what: &str| explain(what)["answer"]["reason"].as_str().unwrap().to_owned();
    // Another source reports a work of that name on another cluster.
    let elsewhere: SourceReport = serde_json::from_value(json!({
        "works": [{ "cluster": "a-cluster", "work": "web", "state": "suspended" }],
    }))
    .unwrap();
    let another = SourceId::parse(&format!("of-{cluster}")).unwrap();
    let installed = kube::Client::try_from(deploy::installed().await).unwrap();
    let reports = ReportStore::new(KubeHub::new(installed).leases());
    reports.set(&another, &elsewhere).await.unwrap();
    assert_eq!(reason("web"), "AgentPending");
    sync.agent_takes(0, "web").await;
    sync.agent_applies(0, "web").await;
    assert_eq!(reason("web"), "Applied");

    agent_fails_to_apply(&sync).await;
    let reported = explain("web/configmap/default/web");
    assert_eq!(reported["answer"]["reason"], "ApplyFailed");
    assert!(
        reported["answer"]["message"].as_str().unwrap().ends_with("denied by policy"),
        "{reported}"
    );
    assert_eq!(reported["git"]["source"], sync.id.as_str());
    assert_eq!(reported["hub"]["object"]["conditions"][0]["reason"], "AppliedManifestFailed");

    sync.commit(&[
        (0, "web/work.yaml", Some("suspend: true\n")),
        (0, "next/cm.yaml", Some(&config_map("next", "one"))),
    ]);
    let reported = explain("web");
    assert_eq!(reported["answer"]["reason"], "Suspended");
    assert!(
        reported["answer"]["advice"].as_str().unwrap().contains("web/work.yaml:1"),
        "{reported}"
    );
    // Nobody has made a ManagedCluster of this namespace.
    assert_eq!(reason("next"), "NoCluster");
}

#[test]
fn value_that_a_secret_uses_is_not_shown() {
    let folder = clone();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: shop}\n\
                  stringData: {token: \"x${TOKEN}\"}\n";
    write(folder.path(), "clusters/edge-1/web/key.yaml", secret);
    // What the work does not use, a Secret of another work may use.
    let values = "values:\n  REGION: north\n  TOKEN: c4n4ry\n  OTHER: c4n4ry\n";
    write(folder.path(), "clusters/edge-1/cluster.yaml", values);
    let explanation = explained(folder.path(), "edge-1/web");
    assert_eq!(setting(&explanation, "values.REGION")["value"], "north");
    for name in ["values.TOKEN", "values.OTHER"] {
        assert!(setting(&explanation, name)["value"].as_str().unwrap().contains("hidden"));
    }
    assert!(!explanation.to_string().contains("c4n4ry"), "{explanation}");
}

/// Also if a group, one of its overrides or the hub sets it.
#[test]
fn value_of_a_group_that_a_secret_uses_is_not_shown() {
    let folder = clone();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: shop}\n\
                  stringData: {a: \"x${TOKEN}\", b: \"${CHANGED}\", \
                  c: \"${cluster.claims['password']}\"}\n";
    let group = "clusters: [edge-1]\nvalues: {TOKEN: c4n4ry, OTHER: c4n4ry, CHANGED: any}\n\
                 overrides:\n- clusters: [edge-1]\n  values: {CHANGED: c4n4ry}\n\
                 defaults: {substitute: true}\n";
    write(folder.path(), "groups/secrets/group.yaml", group);
    write(folder.path(), "groups/secrets/keys/key.yaml", secret);
    let facts = r#"{"managedClusters": {"edge-1": {"claims": {"password": "c4n4ry"}}}}"#;
    write(folder.path(), "facts.json", facts);
    let path = folder.path().join("facts.json");
    let of_file = ["--facts", path.to_str().unwrap()];
    let explanation = explained_with(folder.path(), "edge-1/keys", &of_file);
    for name in ["TOKEN", "OTHER", "CHANGED", "cluster.claims[\"password\"]"] {
        let value = &setting(&explanation, &format!("values.{name}"))["value"];
        assert!(value.as_str().unwrap().contains("hidden"), "{name}: {value}");
    }
    assert!(!explanation.to_string().contains("c4n4ry"), "{explanation}");
}
