//! The kinds with rules of their own for the strategy `Update`, on a real API server: an agent that
//! takes the place of OCM's agent changes none of their objects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::fixture::{Fixture, kind};
use crate::ocm_agent::world::is_applied;
use crate::ocm_agent_double::{OcmAgent, OrderChooser};

/// A cluster-scoped object that must not change, and one that must.
struct Case {
    api_version: &'static str,
    kind: &'static str,
    /// The manifest without `metadata`.
    manifest: Value,
    /// A merge patch of the manifest that the API server must get.
    change: Value,
    /// Whether the change is applied by deletion and creation.
    recreates: bool,
}

fn cases() -> Vec<Case> {
    let csi = json!({"spec": {"attachRequired": false, "volumeLifecycleModes": ["Persistent"],
        "tokenRequests": [{"audience": "vault"}]}});
    let class = json!({"provisioner": "example.com/disk", "parameters": {"type": "ssd"},
        "allowVolumeExpansion": true, "mountOptions": ["noatime"]});
    let schema = json!({"openAPIV3Schema": {"type": "object",
        "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({"spec": {"group": "{id}.example.com", "scope": "Namespaced",
        "names": {"kind": "Mouse", "plural": "mice"}, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": schema}]}});
    let hooks = |kind: &str| {
        json!({"webhooks": [{"name": "hook.example.com", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
            "clientConfig": {"service": {"name": "hook", "namespace": "none"}},
            "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": [kind]}]}]})
    };
    let fail = |kind: &str| {
        let mut changed = hooks(kind);
        changed["webhooks"][0]["failurePolicy"] = "Fail".into();
        changed
    };
    let hook = |kind: &'static str| Case {
        api_version: "admissionregistration.k8s.io/v1",
        kind,
        manifest: hooks("mice"),
        change: fail("mice"),
        recreates: false,
    };
    vec![
        Case {
            api_version: "storage.k8s.io/v1",
            kind: "CSIDriver",
            manifest: csi,
            change: json!({"spec": {"attachRequired": true}}),
            recreates: true,
        },
        Case {
            api_version: "storage.k8s.io/v1",
            kind: "StorageClass",
            manifest: class,
            change: json!({"parameters": {"type": "hdd"}}),
            recreates: true,
        },
        Case {
            api_version: "apiextensions.k8s.io/v1",
            kind: "CustomResourceDefinition",
            manifest: definition,
            change: json!({"spec": {"names": {"shortNames": ["mo"]}}}),
            recreates: false,
        },
        hook("MutatingWebhookConfiguration"),
        hook("ValidatingWebhookConfiguration"),
    ]
}

impl Case {
    fn name(&self, fixture: &Fixture<'_>) -> String {
        match self.kind {
            "CustomResourceDefinition" => format!("mice.{}.example.com", fixture.namespace),
            _ => format!("{}-{}", fixture.namespace, self.kind.to_lowercase()),
        }
    }

    fn manifest(&self, fixture: &Fixture<'_>) -> Value {
        let text = self.manifest.to_string().replace("{id}", &fixture.namespace);
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        manifest["apiVersion"] = self.api_version.into();
        manifest["kind"] = self.kind.into();
        manifest["metadata"] = json!({"name": self.name(fixture)});
        manifest
    }

    fn api(&self, fixture: &Fixture<'_>) -> Api<DynamicObject> {
        Api::all_with(fixture.cluster.clone(), &kind(self.api_version, self.kind))
    }
}

fn service(fixture: &Fixture<'_>) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": fixture.namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
}

/// The uid and the resourceVersion of each object, in the order of the manifests.
async fn versions(fixture: &Fixture<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for case in cases() {
        let object = case.api(fixture).get(&case.name(fixture)).await.unwrap();
        found.push((object.uid().unwrap(), object.resource_version().unwrap()));
    }
    let service = fixture.objects("v1", "Service").get("web").await.unwrap();
    found.push((service.uid().unwrap(), service.resource_version().unwrap()));
    found
}

/// Adds a manifest to the work.
async fn add_mark(fixture: &Fixture<'_>, manifests: &[Value], mark: &str) {
    let all: Vec<Value> =
        manifests.iter().cloned().chain([fixture.config_map(mark, "1")]).collect();
    fixture.patch_spec("kinds", json!({"workload": {"manifests": all}})).await;
}

/// Waits until an agent has made a pass over the work: it applied a manifest that was added.
async fn until_passed(fixture: &Fixture<'_>, manifests: &[Value], mark: &str) {
    add_mark(fixture, manifests, mark).await;
    fixture.condition("kinds", "Applied", "True").await;
    fixture.value(mark, "1").await;
}

/// The annotation that OCM's agent sets, with the hash of the Go struct.
async fn assert_spec_hashes(fixture: &Fixture<'_>) {
    let annotation = "operator.openshift.io/spec-hash";
    let service = fixture.objects("v1", "Service").get("web").await.unwrap();
    // sha256 of {"ports":[{"port":80,"targetPort":0}],"selector":{"app":"web"}}
    let expected = "c682bb9dc74de11bbd6972583d59d039aaa3b06db4e8f93430ed20cda3be1c66";
    assert_eq!(service.annotations()[annotation], expected);
    let driver = &cases()[0];
    let driver = driver.api(fixture).get(&driver.name(fixture)).await.unwrap();
    // sha256 of {"attachRequired":false,"volumeLifecycleModes":["Persistent"],
    // "tokenRequests":[{"audience":"vault"}]}
    let expected = "2160e0ea6e2cf0f7912e4d9d17ae5a52be032aad04b640233b4d68bf0879728c";
    assert_eq!(driver.annotations()[annotation], expected);
}

#[tokio::test]
async fn an_agent_that_takes_over_changes_no_object_of_a_special_kind() {
    let mut fixture = Fixture::start().await;
    let mut manifests: Vec<Value> = cases().iter().map(|case| case.manifest(&fixture)).collect();
    manifests.push(service(&fixture));
    fixture.create("kinds", manifests.clone(), json!({})).await;
    fixture.condition("kinds", "Applied", "True").await;
    until_passed(&fixture, &manifests, "settled").await;
    assert_spec_hashes(&fixture).await;
    let before = versions(&fixture).await;

    // A new agent knows nothing of the last writes. It compares, and writes nothing.
    fixture.kill().await;
    fixture.run();
    until_passed(&fixture, &manifests, "swapped").await;
    assert_eq!(versions(&fixture).await, before);

    // A change of a manifest arrives, for some kinds with a new object.
    for (case, manifest) in cases().iter().zip(&mut manifests) {
        json_patch(manifest, &case.change);
    }
    until_passed(&fixture, &manifests, "changed").await;
    for ((case, manifest), (old, new)) in
        cases().iter().zip(&manifests).zip(before.iter().zip(versions(&fixture).await))
    {
        assert_eq!(old.0 != new.0, case.recreates, "{}", case.kind);
        assert_ne!(old.1, new.1, "{}", case.kind);
        let found = case.api(&fixture).get(&case.name(&fixture)).await.unwrap();
        assert_has(&found.data, manifest, case.kind);
    }
    fixture.delete("kinds").await;
    fixture.is_gone(&fixture.works(), "kinds").await;
}

/// As [`until_passed`], with a new double of OCM's agent that runs until it has nothing to do.
async fn until_ocms_agent_passed(fixture: &Fixture<'_>, manifests: &[Value], mark: &str) {
    add_mark(fixture, manifests, mark).await;
    let Fixture { hub, cluster, cluster_name, settings, .. } = fixture;
    let (hub, cluster) = (hub.clone(), cluster.clone());
    let mut agent = OcmAgent::new(hub, cluster, cluster_name, &settings.hub_hash);
    let mut order = OrderChooser::explicit([]);
    let (works, maps) = (fixture.works(), fixture.config_maps());
    let probe = async || {
        let has_mark = maps.get_opt(mark).await.unwrap().is_some();
        (has_mark && is_applied(&works.get("kinds").await.unwrap())).then_some(())
    };
    agent.step_until(&mut order, mark, probe).await;
    agent.settle(&mut order).await;
}

/// Whichever agent is first, and back again: neither writes these objects after the other.
#[tokio::test]
async fn swap_to_ocms_agent_and_back_changes_no_object_of_a_special_kind() {
    for is_ours_first in [true, false] {
        let mut fixture = Fixture::start().await;
        fixture.kill().await;
        let mut manifests: Vec<Value> =
            cases().iter().map(|case| case.manifest(&fixture)).collect();
        manifests.push(service(&fixture));
        // OCM's agent compares a StorageClass without the API server's defaults: without these two
        // fields, each of its own passes deletes and creates the object.
        let class = manifests.iter_mut().find(|one| one["kind"] == "StorageClass").unwrap();
        json_patch(class, &json!({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}));
        fixture.create("kinds", manifests.clone(), json!({})).await;
        let mut before = None;
        for (number, is_ours) in [is_ours_first, !is_ours_first, is_ours_first].iter().enumerate() {
            let mark = format!("pass-{number}");
            if *is_ours {
                fixture.run();
                until_passed(&fixture, &manifests, &mark).await;
                fixture.kill().await;
            } else {
                until_ocms_agent_passed(&fixture, &manifests, &mark).await;
            }
            let found = versions(&fixture).await;
            assert_eq!(*before.get_or_insert(found.clone()), found, "{is_ours_first} {number}");
            assert_spec_hashes(&fixture).await;
        }
        fixture.run();
        fixture.delete("kinds").await;
        fixture.is_gone(&fixture.works(), "kinds").await;
    }
}

/// What the cluster says about a StorageClass or a webhook stays: which class is the default, and
/// the authority that another controller has put in.
#[tokio::test]
async fn default_class_and_injected_authorities_stay() {
    let fixture = Fixture::start().await;
    let class = &cases()[1];
    let hook = &cases()[4];
    let mut class_manifest = class.manifest(&fixture);
    let default = "storageclass.kubernetes.io/is-default-class";
    class_manifest["metadata"]["annotations"] = json!({default: "true"});
    let manifests = vec![class_manifest, hook.manifest(&fixture)];
    fixture.create("kinds", manifests.clone(), json!({})).await;
    fixture.condition("kinds", "Applied", "True").await;
    let patch = |value: Value| Patch::Merge(value);
    let parameters = PatchParams::default();
    let not_default = json!({"metadata": {"annotations": {default: "false"}}});
    class
        .api(&fixture)
        .patch(&class.name(&fixture), &parameters, &patch(not_default))
        .await
        .unwrap();
    let authority = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let bundle = STANDARD.encode(authority.cert.pem());
    let injected = Patch::Json::<()>(
        serde_json::from_value(json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle",
            "value": bundle}]))
        .unwrap(),
    );
    hook.api(&fixture).patch(&hook.name(&fixture), &parameters, &injected).await.unwrap();
    until_passed(&fixture, &manifests, "settled").await;
    let found = class.api(&fixture).get(&class.name(&fixture)).await.unwrap();
    assert_eq!(found.annotations()[default], "false");
    let found = hook.api(&fixture).get(&hook.name(&fixture)).await.unwrap();
    assert_eq!(found.data["webhooks"][0]["clientConfig"]["caBundle"], bundle);
    fixture.delete("kinds").await;
    fixture.is_gone(&fixture.works(), "kinds").await;
}

/// A merge patch (RFC 7396).
fn json_patch(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    for (key, value) in fields {
        json_patch(&mut target[key], value);
    }
}

/// Each field of the manifest but the metadata is in the object.
fn assert_has(found: &Value, wanted: &Value, context: &str) {
    match wanted {
        Value::Object(fields) => {
            let own = fields
                .iter()
                .filter(|(key, _)| !["metadata", "apiVersion", "kind"].contains(&key.as_str()));
            own.for_each(|(key, value)| assert_has(&found[key], value, context));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                assert_has(&found[index], item, context);
            }
        }
        other => assert_eq!(found, other, "{context}"),
    }
}
