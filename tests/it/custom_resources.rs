//! A real API server takes the generated CRDs, and does with objects what OCM's would make it do.

use std::time::Duration;

use gitwork_api::cluster::ManagedClusterSet;
use gitwork_api::crds;
use gitwork_api::placement::PlacementDecision;
use gitwork_api::work::{DeleteOption, ManifestWork, PropagationPolicy};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::harness::{ClusterOptions, ControlPlane, eventually};

/// Far beyond what anything here takes on an idle machine.
const DEADLINE: Duration = Duration::from_secs(300);

fn works(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<ManifestWork>(&()))
}

fn work(name: &str, spec: &Value) -> DynamicObject {
    let mut object = DynamicObject::new(name, &ApiResource::erase::<ManifestWork>(&()));
    object.data = json!({"spec": spec});
    object
}

/// The API server's response to a work: its message, or the stored spec.
async fn create(api: &Api<DynamicObject>, name: &str, spec: Value) -> Result<Value, String> {
    match api.create(&PostParams::default(), &work(name, &spec)).await {
        Ok(made) => Ok(made.data["spec"].clone()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn real_api_server_serves_the_generated_crds_as_ocm_does() {
    let plane = ControlPlane::shared().await;
    let options = ClusterOptions { crds: crds::all(), ..ClusterOptions::default() };
    let hub = plane.start("ocm-kinds", options).await;
    let client = hub.client();
    let namespace = hub.namespace("cluster").await;
    accepted_whole(client.clone()).await;
    fills_in_defaults(client.clone(), &namespace).await;
    refuses_invalid_specs(client.clone(), &namespace).await;
    reads_as_the_types_have_it(client.clone(), &namespace).await;
    // Last, as it changes a kind of this cluster.
    a_newer_ocm_is_left_as_it_is(client, &namespace).await;
}

/// No CRD has a complaint, and what `gitwork crds` prints changes nothing on a hub that has it.
async fn accepted_whole(client: Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    for document in crds::to_yaml().unwrap().split("---\n").filter(|text| !text.is_empty()) {
        let printed: CustomResourceDefinition = serde_yaml::from_str(document).unwrap();
        let name = printed.name_any();
        let stored = api.get(&name).await.unwrap();
        let conditions = stored.status.iter().flat_map(|s| s.conditions.iter().flatten());
        let complaints: Vec<_> = conditions
            .filter(|c| match c.type_.as_str() {
                "Established" | "NamesAccepted" => c.status != "True",
                _ => c.status == "True",
            })
            .collect();
        assert!(complaints.is_empty(), "{name}: {complaints:?}");
        let params = PatchParams::apply("gitwork-crds").force();
        let again = api.patch(&name, &params, &Patch::Apply(&printed)).await.unwrap();
        assert_eq!(again.metadata.generation, stored.metadata.generation, "{name}");
    }
}

async fn fills_in_defaults(client: Client, namespace: &str) {
    let api = works(client.clone(), namespace);
    let manifest = json!({
        "apiVersion": "example.com/v1", "kind": "Any", "metadata": {"name": "a"}, "free": [1, {}],
    });
    let selector = json!({"resource": "pods", "name": "a"});
    let sent = json!({
        "deleteOption": {},
        "workload": {"manifests": [manifest]},
        "manifestConfigs": [{
            "resourceIdentifier": selector,
            "updateStrategy": {"serverSideApply": {"ignoreFields": [{"jsonPaths": [".a"]}]}},
        }],
    });
    let stored = create(&api, "filled", sent).await.unwrap();
    assert_eq!(
        stored,
        json!({
            "deleteOption": {"propagationPolicy": "Foreground"},
            "workload": {"manifests": [manifest]},
            "manifestConfigs": [{
                "resourceIdentifier": selector,
                "feedbackScrapeType": "Poll",
                "updateStrategy": {
                    "type": "Update",
                    "serverSideApply": {
                        "fieldManager": "work-agent",
                        "ignoreFields": [{"condition": "OnSpokePresent", "jsonPaths": [".a"]}],
                    },
                },
            }],
        })
    );

    let null = create(&api, "null", json!({"workload": {"manifests": null}})).await;
    assert_eq!(
        null,
        Ok(json!({"workload": {}})),
        "a null is taken as absent, so none is ever read"
    );

    let sets: Api<ManagedClusterSet> = Api::all(client);
    let bare = ManagedClusterSet::new("bare", Default::default());
    let made = sets.create(&PostParams::default(), &bare).await.unwrap();
    let selector = made.spec.cluster_selector.unwrap();
    assert_eq!(selector.selector_type.as_str(), "ExclusiveClusterSetLabel");
}

async fn refuses_invalid_specs(client: Client, namespace: &str) {
    let api = works(client, namespace);
    let selector = json!({"resource": "pods", "name": "a"});
    let config = |rules: Value| {
        let mut config = rules;
        config["resourceIdentifier"] = selector.clone();
        json!({"manifestConfigs": [config]})
    };
    let value = json!({"name": "a", "path": ".x"});
    for (spec, complaint) in [
        (json!({"deleteOption": {"propagationPolicy": "Archive"}}), "Unsupported value"),
        (json!({"workload": {"manifests": [{"kind": "Any"}]}}), "apiVersion"),
        (
            json!({"executor": {"subject": {"type": "ServiceAccount", "serviceAccount": {
                "namespace": "A", "name": "a",
            }}}}),
            "should match",
        ),
        (
            config(json!({"updateStrategy": {"serverSideApply": {"fieldManager": "me"}}})),
            "should match '^work-agent'",
        ),
        (
            config(json!({"conditionRules": [{"type": "CEL", "condition": ""}]})),
            "Condition is required for CEL rules",
        ),
        (
            config(json!({"feedbackRules": [{"type": "JSONPaths", "jsonPaths": [value, value]}]})),
            "Duplicate value",
        ),
    ] {
        let refusal = create(&api, "refused", spec.clone()).await.unwrap_err();
        assert!(refusal.contains(complaint), "{spec}: {refusal}");
    }
}

async fn reads_as_the_types_have_it(client: Client, namespace: &str) {
    let params = PostParams::default();
    let mut spec = gitwork_api::work::ManifestWorkSpec::default();
    let policy = Some(PropagationPolicy::Orphan);
    spec.delete_option = Some(DeleteOption { propagation_policy: policy, ..Default::default() });
    let typed: Api<ManifestWork> = Api::namespaced(client.clone(), namespace);
    let made = typed.create(&params, &ManifestWork::new("typed", spec.clone())).await.unwrap();
    assert_eq!(made.spec, spec);

    // One object without spec leaves the list readable.
    let mut bare = work("bare", &Value::Null);
    bare.data = json!({});
    works(client.clone(), namespace).create(&params, &bare).await.unwrap();
    let names: Vec<String> =
        typed.list(&Default::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["bare", "filled", "null", "typed"]);

    let decisions: Api<PlacementDecision> = Api::namespaced(client, namespace);
    decisions.create(&params, &PlacementDecision::new("d", Default::default())).await.unwrap();
    let status = json!({"status": {"decisions": [{"clusterName": "c", "reason": ""}]}});
    let merge = Patch::Merge(&status);
    let reported = decisions.patch_status("d", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(reported.status.unwrap().decisions[0].cluster_name, "c");
}

/// A hub of a newer OCM: one field and one value more than gitwork knows. Reading a work with them,
/// changing it and writing it back leaves both.
async fn a_newer_ocm_is_left_as_it_is(client: Client, namespace: &str) {
    let crd_name = "manifestworks.work.open-cluster-management.io";
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut newer = serde_json::to_value(definitions.get(crd_name).await.unwrap()).unwrap();
    let spec = newer.pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec");
    let properties = &mut spec.unwrap()["properties"];
    properties["archive"] = json!({"type": "object", "properties": {"days": {"type": "integer"}}});
    let policy = &mut properties["deleteOption"]["properties"]["propagationPolicy"];
    policy["enum"].as_array_mut().unwrap().push(json!("Archive"));
    let newer: CustomResourceDefinition = serde_json::from_value(newer).unwrap();
    definitions.replace(crd_name, &PostParams::default(), &newer).await.unwrap();

    let sent = json!({"archive": {"days": 3}, "deleteOption": {"propagationPolicy": "Archive"}});
    let raw = works(client.clone(), namespace);
    let params = PatchParams::apply("somebody").force();
    let object = work("newer", &sent);
    let object = Patch::Apply(&object);
    let served = || async {
        let stored = raw.patch("newer", &params, &object).await.map_err(|e| e.to_string())?;
        if stored.data["spec"] == sent { Ok(()) } else { Err(format!("{:?}", stored.data)) }
    };
    eventually("the newer ManifestWork to be served", DEADLINE, served).await.unwrap();

    let typed: Api<ManifestWork> = Api::namespaced(client, namespace);
    let mut read = typed.get("newer").await.unwrap();
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    read.spec.workload.get_or_insert_default().manifests.push(manifest.clone());
    typed.replace("newer", &PostParams::default(), &read).await.unwrap();
    let mut expected = sent;
    expected["workload"] = json!({"manifests": [manifest]});
    assert_eq!(raw.get("newer").await.unwrap().data["spec"], expected);
}
