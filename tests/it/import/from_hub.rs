//! Works of a real hub, imported and adopted.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, ObjectList, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::works::{
    config_map, manifest_work, workload, works_of_every_kind, works_with_hard_texts,
};
use super::{EQUAL_SPECS, files, run};
use crate::cli::{code, err, out};
use crate::harness;

/// A cluster of the hub with works that another client made, and an empty folder.
struct Fixture {
    cluster: String,
    works: Api<DynamicObject>,
    kubeconfig: String,
    folder: TempDir,
}

impl Fixture {
    async fn start(works: Vec<Value>) -> Self {
        let hub = harness::hub().await;
        let cluster = hub.namespace("import").await;
        let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::<DynamicObject>::namespaced_with(hub.client(), &cluster, &resource);
        for mut work in works {
            work["metadata"]["namespace"] = cluster.as_str().into();
            let name = work["metadata"]["name"].as_str().unwrap().to_owned();
            // An object of two works would be a conflict.
            let text = work.to_string().replace("\"shop\"", &format!("\"shop-{name}\""));
            let work: Value = serde_json::from_str(&text).unwrap();
            let params = PatchParams::apply("somebody");
            api.patch(&name, &params, &Patch::Apply(work)).await.unwrap();
        }
        let kubeconfig = hub.kubeconfig_path().display().to_string();
        Self { cluster, works: api, kubeconfig, folder: tempfile::tempdir().unwrap() }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(self.folder.path(), &[arguments, &["--kubeconfig", &self.kubeconfig]].concat())
    }

    /// Imports works of this cluster.
    fn import(&self, flags: &[&str]) -> Output {
        self.run(&[&["import", "--cluster", &self.cluster], flags].concat())
    }

    async fn list(&self, labels: &str) -> ObjectList<DynamicObject> {
        self.works.list(&ListParams::default().labels(labels)).await.unwrap()
    }

    async fn generations(&self) -> BTreeMap<String, Option<i64>> {
        let works = self.list("").await;
        works.iter().map(|work| (work.name_any(), work.metadata.generation)).collect()
    }
}

fn all_works() -> Vec<Value> {
    [works_of_every_kind(), works_with_hard_texts()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn works_of_a_hub_are_selected_and_those_of_owners_are_skipped() {
    let work = |name: &str, metadata: Value| {
        let manifests = vec![config_map("shop", name, json!({}))];
        let mut work = manifest_work(name, workload(manifests));
        let fields = work["metadata"].as_object_mut().unwrap();
        fields.extend(metadata.as_object().unwrap().clone());
        work
    };
    let replica_set = "work.open-cluster-management.io/manifestworkreplicaset";
    let fixture = Fixture::start(vec![
        work("plain", json!({})),
        work("other", json!({})),
        work("ours", json!({"labels": {"gitwork.dev/source": "fleet"}})),
        work("set", json!({"labels": {replica_set: "default.web"}})),
    ])
    .await;
    let cluster = &fixture.cluster;
    let missed = fixture.import(&["--work", "plian"]);
    assert_eq!(code(&missed), Some(2));
    assert!(err(&missed).contains("no work matches plian; did you mean plain?"), "{missed:?}");
    let missed = fixture.run(&["import", "--cluster", &format!("{cluster}x")]);
    assert_eq!(code(&missed), Some(2));
    assert!(err(&missed).contains(&format!("did you mean {cluster}?")), "{missed:?}");
    let output = fixture.import(&["--work", "pl*"]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    assert_eq!(out(&output), format!("created clusters/{cluster}/plain (1 file)\n"));
    let output = fixture.import(&["--work", "o*"]);
    assert_eq!(out(&output), format!("created clusters/{cluster}/other (1 file)\n"));
    let line = format!("skipped {cluster}/ours: the source fleet owns it");
    assert!(err(&output).contains(&line), "{}", err(&output));
    let output = fixture.import(&["--work", "set"]);
    assert_eq!((code(&output), out(&output)), (Some(0), String::new()));
    let line = format!("skipped {cluster}/set: ManifestWorkReplicaSet default.web");
    assert!(err(&output).contains(&line), "{}", err(&output));
    assert_eq!(files(fixture.folder.path()).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn adoption_of_an_imported_work_changes_no_content() {
    let fixture = Fixture::start(all_works()).await;
    let output = fixture.import(&[]);
    assert_eq!(code(&output), Some(0), "{}", err(&output));
    let source = ["--source-id", "imported", "--cluster", &fixture.cluster];
    let plan = fixture.run(&[&["plan", "-o", "json"], &source[..]].concat());
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let steps = plan["steps"].as_array().unwrap();
    assert_eq!(steps.len(), all_works().len());
    let mut unchanged = 0;
    for step in steps {
        assert!(step["reason"].to_string().contains("onflict"), "each name is taken: {step}");
        let changes = step["changes"].as_str().unwrap();
        unchanged += usize::from(changes == "no changes but the owner\n");
        // Entries of rules become exact ones; no object changes.
        let objects = ["ConfigMap ", "Deployment ", "Mouse ", "ClusterRole ", "Namespace "];
        assert!(!objects.iter().any(|kind| changes.contains(kind)), "{step}");
    }
    assert!(unchanged >= EQUAL_SPECS.len(), "{unchanged}");
    let work = format!("{}/orphans", fixture.cluster);
    let adopt = fixture.run(&["adopt", &work, "--source-id", "imported"]);
    assert_eq!(out(&adopt), "no changes but the owner\n", "{}", err(&adopt));
}

/// Only labels and annotations are written: the agent has nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn imported_works_of_no_owner_are_adopted_without_a_new_generation() {
    let fixture = Fixture::start(all_works()).await;
    assert_eq!(code(&fixture.import(&[])), Some(0));
    let before = fixture.generations().await;
    let source = format!("imported-{}", fixture.cluster);
    let flags = ["run", "--once", "--repo", ".", "--adopt", "unowned", "--source-id", &source];
    let once = fixture.run(&flags);
    assert_eq!(code(&once), Some(1), "the other specs still conflict: {}", err(&once));
    assert_eq!(fixture.generations().await, before);
    let adopted = fixture.list(&format!("gitwork.dev/source={source}")).await;
    let adopted: BTreeSet<String> = adopted.iter().map(ResourceExt::name_any).collect();
    assert_eq!(adopted, EQUAL_SPECS.map(str::to_owned).into());
}
