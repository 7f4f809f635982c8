//! The `Update` strategy: what is written to a live object so that it is as its manifest says.
//!
//! OCM's agent has one rule for kinds that library-go knows and another for all others; so has
//! this: see `update_rule`.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::object::{Object, at, edit_metadata, meta, same_meaning, text};
use super::owner::{MergedMetadata, merge_metadata};
use super::spec_hash::spec_hash;
use super::update_rule::{Rule, rule};

/// Set on a live Service or CSIDriver: SHA-256 of the spec that was applied (library-go).
const APPLIED_SPEC_HASH: &str = "operator.openshift.io/spec-hash";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const EPHEMERAL_PROFILE: &str = "security.openshift.io/csi-ephemeral-volume-profile";

/// What brings a live object to its manifest.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// It is as it should be.
    Nothing,
    /// PUT, bound to the version that was read.
    Replace(Object),
    /// The change is not possible in place: DELETE, then POST.
    Recreate,
    /// The strategy cannot apply the manifest.
    Unsupported(UpdateError),
}

/// Why the strategy `Update` cannot apply a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The kind is `StorageVersionMigration`: OCM's agent has no client for it. It is the message
    /// of library-go.
    #[error("missing migrationClient")]
    StorageVersionMigration,
    /// A Secret has two different values for one key.
    #[error("Secret.stringData[{key}] conflicts with Secret.data[{key}]")]
    ConflictingSecretData {
        /// The key.
        key: String,
    },
    /// A CSIDriver for ephemeral volumes does not say which pods may use it.
    #[error(
        "CSIDriver {name} lists Ephemeral in volumeLifecycleModes and has no label \
         {EPHEMERAL_PROFILE}; set it"
    )]
    EphemeralWithoutProfile {
        /// The name of the CSIDriver.
        name: String,
    },
}

/// Decides what to write. `content_unchanged` says that the content (all but metadata and status)
/// was as the manifest says when this agent last looked, and is unchanged since: server-side
/// defaults would otherwise make most kinds look different for ever.
pub fn update(manifest: &Object, live: &Object, owner: &Value, content_unchanged: bool) -> Update {
    let rule = rule(manifest);
    if matches!(rule, Rule::Unsupported) {
        return Update::Unsupported(UpdateError::StorageVersionMigration);
    }
    let mut merged = merge_metadata(live, manifest, owner);
    if matches!(rule, Rule::StorageClass) {
        keep_default_class(live, &mut merged);
    }
    if content_unchanged {
        return replace_if(merged.changed, live.clone(), merged);
    }
    match rule {
        Rule::MetadataOnly => replace_if(merged.changed, live.clone(), merged),
        Rule::Fields(fields) => with_fields(manifest, live, merged, fields),
        Rule::ConfigMap => config_map(manifest, live, merged),
        Rule::Secret => secret(manifest, live, merged),
        Rule::Service => service(manifest, live, merged),
        Rule::ClusterRole => cluster_role(manifest, live, merged),
        Rule::Binding => binding(manifest, live, merged),
        Rule::Crd => crd(manifest, live, merged),
        Rule::StorageClass => storage_class(manifest, live, merged),
        Rule::CsiDriver => csi_driver(manifest, live, merged),
        Rule::Webhooks => webhooks(manifest, live, merged),
        Rule::Unsupported | Rule::Whole => whole(manifest, live, merged),
    }
}

fn replace_if(differs: bool, mut object: Object, merged: MergedMetadata) -> Update {
    if !differs {
        return Update::Nothing;
    }
    object.insert("metadata".into(), Value::Object(merged.metadata));
    Update::Replace(object)
}

/// Copies fields of the manifest, present or not, into a live object.
fn copy_fields(manifest: &Object, live: &Object, fields: &[&str]) -> Object {
    let mut object = live.clone();
    for field in fields {
        match manifest.get(*field) {
            Some(value) => object.insert((*field).into(), value.clone()),
            None => object.remove(*field),
        };
    }
    object
}

fn with_fields(
    manifest: &Object,
    live: &Object,
    merged: MergedMetadata,
    fields: &[&str],
) -> Update {
    let same = fields.iter().all(|field| same_meaning(manifest.get(*field), live.get(*field)));
    replace_if(merged.changed || !same, copy_fields(manifest, live, fields), merged)
}

fn whole(manifest: &Object, live: &Object, merged: MergedMetadata) -> Update {
    let content = |object: &Object| {
        let mut content = object.clone();
        content.remove("metadata");
        content.remove("status");
        content
    };
    let differs = merged.changed || content(manifest) != content(live);
    let mut object = manifest.clone();
    keep_job_selector(&mut object, live);
    // A kind without a status subresource would lose its status.
    if let (None, Some(status)) = (object.get("status"), live.get("status")) {
        object.insert("status".into(), status.clone());
    }
    replace_if(differs, object, merged)
}

/// The API server generates the selector of a Job, and labels of its pods, at the creation only. A
/// PUT without them is rejected, also if nothing else differs.
fn keep_job_selector(object: &mut Object, live: &Object) {
    let is_job = text(object, &["apiVersion"]) == "batch/v1" && text(object, &["kind"]) == "Job";
    let Some(selector) = at(live, &["spec", "selector"]) else { return };
    if !is_job || at(object, &["spec", "selector"]).is_some() {
        return;
    }
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    spec.insert("selector".into(), selector.clone());
    let Some(Value::Object(template)) = spec.get_mut("template") else { return };
    edit_metadata(template, |metadata| {
        let generated = at(live, &["spec", "template", "metadata", "labels"]);
        let mut labels = generated.and_then(Value::as_object).cloned().unwrap_or_default();
        labels.extend(pairs(metadata, "labels"));
        metadata.insert("labels".into(), Value::Object(labels));
    });
}

fn pairs(object: &Object, field: &str) -> Object {
    object.get(field).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn config_map(manifest: &Object, live: &Object, merged: MergedMetadata) -> Update {
    let mut data = pairs(manifest, "data");
    // OpenShift puts a CA bundle into ConfigMaps that ask for one.
    let injects_ca = meta_has(live, "labels", "config.openshift.io/inject-trusted-cabundle");
    let injects_service_ca =
        meta_has(live, "annotations", "service.beta.openshift.io/inject-cabundle");
    for (key, injected) in [("ca-bundle.crt", injects_ca), ("service-ca.crt", injects_service_ca)] {
        if let (true, Some(value)) = (injected, at(live, &["data", key])) {
            data.entry(key).or_insert_with(|| value.clone());
        }
    }
    let same =
        data == pairs(live, "data") && pairs(manifest, "binaryData") == pairs(live, "binaryData");
    let mut object = copy_fields(manifest, live, &["binaryData"]);
    object.insert("data".into(), Value::Object(data));
    replace_if(merged.changed || !same, object, merged)
}

fn meta_has(object: &Object, field: &str, key: &str) -> bool {
    at(object, &["metadata", field, key]).and_then(Value::as_str) == Some("true")
}

fn secret(manifest: &Object, live: &Object, merged: MergedMetadata) -> Update {
    let mut data = pairs(manifest, "data");
    for (key, value) in pairs(manifest, "stringData") {
        let bytes = ByteString(value.as_str().unwrap_or_default().as_bytes().to_vec());
        let encoded = serde_json::to_value(&bytes).unwrap_or_default();
        match data.get(&key) {
            Some(other) if *other != encoded => {
                return Update::Unsupported(UpdateError::ConflictingSecretData { key });
            }
            _ => data.insert(key, encoded),
        };
    }
    let kind = |object: &Object| match text(object, &["type"]) {
        "" => "Opaque".to_owned(),
        other => other.to_owned(),
    };
    if kind(manifest) != kind(live) {
        return Update::Recreate;
    }
    if kind(live) == "kubernetes.io/service-account-token" {
        // The control plane fills these in: only what the manifest names is set.
        let mut kept = pairs(live, "data");
        kept.extend(data);
        data = kept;
    }
    let same = data == pairs(live, "data");
    let mut object = live.clone();
    object.insert("data".into(), Value::Object(data));
    replace_if(merged.changed || !same, object, merged)
}

/// Notes the applied spec's hash on the object. Says whether it was another one.
fn note_spec_hash(manifest: &Object, merged: &mut MergedMetadata) -> bool {
    let hash = spec_hash(manifest).unwrap_or_default();
    let mut annotations = pairs(&merged.metadata, "annotations");
    let old = annotations.insert(APPLIED_SPEC_HASH.into(), Value::String(hash.clone()));
    merged.metadata.insert("annotations".into(), Value::Object(annotations));
    let other = old != Some(Value::String(hash));
    merged.changed |= other;
    other
}

fn service(manifest: &Object, live: &Object, mut merged: MergedMetadata) -> Update {
    note_spec_hash(manifest, &mut merged);
    let selector = ["spec", "selector"];
    let wanted_type = match text(manifest, &["spec", "type"]) {
        "" => "ClusterIP",
        other => other,
    };
    let same = same_meaning(at(manifest, &selector), at(live, &selector))
        && wanted_type == text(live, &["spec", "type"]);
    replace_if(merged.changed || !same, copy_fields(manifest, live, &["spec"]), merged)
}

fn cluster_role(manifest: &Object, live: &Object, merged: MergedMetadata) -> Update {
    if manifest.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
        // The control plane writes the rules.
        return with_fields(manifest, live, merged, &["aggregationRule"]);
    }
    with_fields(manifest, live, merged, &["rules", "aggregationRule"])
}

fn binding(manifest: &Object, live: &Object, merged: MergedMetadata) -> Update {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let default_group = |value: &mut Value| {
        if let Value::Object(fields) = value
            && text(fields, &["apiGroup"]).is_empty()
        {
            fields.insert("apiGroup".into(), RBAC.into());
        }
    };
    let mut manifest = manifest.clone();
    if let Some(role) = manifest.get_mut("roleRef") {
        default_group(role);
    }
    if let Some(Value::Array(subjects)) = manifest.get_mut("subjects") {
        for subject in subjects {
            if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
                default_group(subject);
            }
        }
    }
    with_fields(&manifest, live, merged, &["subjects", "roleRef"])
}

fn crd(manifest: &Object, live: &Object, merged: MergedMetadata) -> Update {
    let mut wanted = manifest.clone();
    if let Some(Value::Object(spec)) = wanted.get_mut("spec") {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        if let Some(Value::Object(names)) = spec.get_mut("names") {
            let kind = text(names, &["kind"]).to_owned();
            names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
            names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
        }
        let service = ["conversion", "webhook", "clientConfig", "service"];
        let found = service.iter().try_fold(&mut *spec, |fields, key| {
            fields.get_mut(*key).and_then(Value::as_object_mut)
        });
        if let Some(service) = found {
            service.entry("port").or_insert_with(|| json!(443));
        }
    }
    with_fields(&wanted, live, merged, &["spec"])
}

/// Which class is the default is the cluster's to say, once somebody has said it.
fn keep_default_class(live: &Object, merged: &mut MergedMetadata) {
    let path = ["metadata", "annotations", DEFAULT_CLASS];
    let Some(value) = at(live, &path) else { return };
    let mut annotations = pairs(&merged.metadata, "annotations");
    annotations.insert(DEFAULT_CLASS.into(), value.clone());
    merged.metadata.insert("annotations".into(), Value::Object(annotations));
    // Only this annotation may have differed: look again.
    let compared = |metadata: &Object, field: &str| pairs(metadata, field);
    let old = pairs(live, "metadata");
    merged.changed = ["labels", "annotations"]
        .iter()
        .any(|f| compared(&old, f) != compared(&merged.metadata, f))
        || old.get("ownerReferences") != merged.metadata.get("ownerReferences");
}

const STORAGE_CLASS_FIXED: &[&str] =
    &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"];

fn storage_class(manifest: &Object, live: &Object, merged: MergedMetadata) -> Update {
    let mut wanted = manifest.clone();
    wanted.entry("reclaimPolicy").or_insert_with(|| "Delete".into());
    wanted.entry("volumeBindingMode").or_insert_with(|| "Immediate".into());
    if STORAGE_CLASS_FIXED.iter().any(|field| !same_meaning(wanted.get(*field), live.get(*field))) {
        return Update::Recreate;
    }
    with_fields(
        &wanted,
        live,
        merged,
        &["allowVolumeExpansion", "mountOptions", "allowedTopologies"],
    )
}

fn csi_driver(manifest: &Object, live: &Object, mut merged: MergedMetadata) -> Update {
    let ephemeral = at(manifest, &["spec", "volumeLifecycleModes"])
        .and_then(Value::as_array)
        .is_some_and(|modes| modes.iter().any(|mode| mode == "Ephemeral"));
    if ephemeral && at(manifest, &["metadata", "labels", EPHEMERAL_PROFILE]).is_none() {
        return Update::Unsupported(UpdateError::EphemeralWithoutProfile {
            name: meta(manifest, "name").into(),
        });
    }
    if note_spec_hash(manifest, &mut merged) {
        return Update::Recreate;
    }
    replace_if(merged.changed, live.clone(), merged)
}

/// What is sent to create an object: some kinds get a note of what was applied.
pub fn prepare_create(manifest: &Object) -> Object {
    let mut object = manifest.clone();
    if let Some(hash) = spec_hash(manifest) {
        edit_metadata(&mut object, |metadata| {
            let mut annotations = pairs(metadata, "annotations");
            annotations.insert(APPLIED_SPEC_HASH.into(), hash.into());
            metadata.insert("annotations".into(), Value::Object(annotations));
        });
    }
    object
}

fn webhooks(manifest: &Object, live: &Object, merged: MergedMetadata) -> Update {
    let bundles: BTreeMap<&str, &Value> = super::object::list(live, &["webhooks"])
        .iter()
        .filter_map(|hook| {
            Some((hook.get("name")?.as_str()?, hook.pointer("/clientConfig/caBundle")?))
        })
        .collect();
    let mut wanted = manifest.clone();
    if let Some(Value::Array(hooks)) = wanted.get_mut("webhooks") {
        for hook in hooks {
            let name = hook.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let Some(Value::Object(client)) = hook.get_mut("clientConfig") else { continue };
            if let (None, Some(bundle)) = (client.get("caBundle"), bundles.get(name.as_str())) {
                client.insert("caBundle".into(), (*bundle).clone());
            }
        }
    }
    with_fields(&wanted, live, merged, &["webhooks"])
}

#[cfg(test)]
#[path = "update_tests.rs"]
mod tests;
