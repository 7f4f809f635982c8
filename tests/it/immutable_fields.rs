//! The fields that gitwork takes for immutable, on a real API server: it refuses each change that
//! `gitwork plan` marks, and accepts those that it does not.

use std::time::Duration;

use gitwork_core::model::kinds::KindIndex;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::harness::{self, eventually};

/// Also read by the unit tests of `gitwork_core::plan::immutable`.
const CHANGES: &str = include_str!("../immutable-fields.yaml");

const DEADLINE: Duration = Duration::from_secs(60);

/// The objects of one kind, in the test's namespace if they have one.
fn api_of(client: &Client, object: &Value, namespace: &str) -> Api<DynamicObject> {
    let text = |field: &str| object[field].as_str().unwrap().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let is_namespaced = KindIndex::default().is_namespaced(group, &kind).unwrap();
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.clone(),
        plural: KindIndex::built_in(group, &kind).unwrap().to_owned(),
        kind,
    };
    match is_namespaced {
        true => Api::namespaced_with(client.clone(), namespace, &resource),
        false => Api::all_with(client.clone(), &resource),
    }
}

/// One object on the API server.
struct Stored {
    api: Api<DynamicObject>,
    manifest: Value,
    name: String,
}

impl Stored {
    async fn create(client: &Client, manifest: &Value, namespace: &str) -> Self {
        let api = api_of(client, manifest, namespace);
        let name = manifest["metadata"]["name"].as_str().unwrap().to_owned();
        let stored = Self { api, manifest: manifest.clone(), name };
        let created = stored.apply(manifest, false).await;
        created.unwrap_or_else(|why| panic!("{} {}: {why}", manifest["kind"], stored.name));
        if manifest["kind"] == "CustomResourceDefinition" {
            stored.established().await;
        }
        stored
    }

    /// Applies a manifest, as with the update strategy `ServerSideApply`.
    async fn apply(&self, manifest: &Value, dry_run: bool) -> Result<DynamicObject, kube::Error> {
        let params = PatchParams { dry_run, ..PatchParams::apply("immutable-fields").force() };
        self.api.patch(&self.name, &params, &Patch::Apply(manifest)).await
    }

    /// Writes what a controller does.
    async fn set_status(&self, status: &Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api.patch_status(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Before that, the names of a CustomResourceDefinition may change.
    async fn established(&self) {
        let probe = || async {
            let found = self.api.get(&self.name).await.map_err(|why| why.to_string())?;
            let conditions = found.data["status"]["conditions"].as_array().cloned();
            let is_established =
                |one: &Value| one["type"] == "Established" && one["status"] == "True";
            match conditions.unwrap_or_default().iter().any(is_established) {
                true => Ok(()),
                false => Err(format!("{} is not established", found.name_any())),
            }
        };
        eventually("the definition", DEADLINE, probe).await.unwrap();
    }

    /// The answers to a change: to the whole manifest, and to the fields of the live object.
    async fn change(&self, patch: &Value) -> [Result<(), String>; 2] {
        let mut manifest = self.manifest.clone();
        crate::cases::merge(&mut manifest, patch.clone());
        let params = PatchParams { dry_run: true, ..PatchParams::default() };
        let merged = self.api.patch(&self.name, &params, &Patch::Merge(patch)).await;
        [self.apply(&manifest, true).await, merged].map(|answer| match answer {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 422 => Err(status.message.clone()),
            Err(why) => panic!("{} {} {patch}: {why}", self.manifest["kind"], self.name),
        })
    }
}

#[tokio::test]
async fn api_server_refuses_to_change_immutable_fields() {
    let hub = harness::hub().await;
    let (client, namespace) = (hub.client(), hub.namespace("immutable").await);
    let documents = gitwork_yaml::read(CHANGES.as_bytes()).documents;
    let (mut refused, mut accepted, mut wrong) = (0, 0, Vec::new());
    for document in documents.into_iter().map(|document| document.value) {
        let list = |name: &str| document[name].as_array().cloned().unwrap_or_default();
        for needed in list("needs") {
            Stored::create(&client, &needed, &namespace).await;
        }
        let stored = Stored::create(&client, &document["object"], &namespace).await;
        if let Some(status) = document.get("status") {
            stored.set_status(status).await;
        }
        let kind = &document["object"]["kind"];
        for change in list("refused") {
            let says = change["says"].as_str().unwrap();
            for answer in stored.change(&change["patch"]).await {
                refused += 1;
                if !answer.as_ref().is_err_and(|why| why.contains(says)) {
                    wrong.push(format!("{kind} {change}: {answer:?}"));
                }
            }
        }
        for patch in list("accepted") {
            for answer in stored.change(&patch).await {
                accepted += 1;
                if answer.is_err() {
                    wrong.push(format!("{kind} {patch}: {answer:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(refused > 100 && accepted > 50, "{refused} refused, {accepted} accepted");
}
