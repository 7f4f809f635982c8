//! The strategy `Update`: some kinds are merged into the live object, all others replace it.

use gitwork_agent_core::spec_hash::spec_hash;
use serde_json::{Map, Value};

use super::apply::ApplyError;
use super::json::{list, set_metadata, text, uid};
use super::owners;
use super::requests::{Address, Mapping, RequestError, Requests};

const SPEC_HASH: &str = "operator.openshift.io/spec-hash";

/// What is compared and written of a kind that upstream has a typed handler for.
enum Content {
    Fields(&'static [&'static str]),
    ClusterRole,
    Secret,
    Service,
    StorageClass,
    CsiDriver,
    Webhooks,
    /// Upstream has a routine of its own that is not written here.
    Unsupported,
}

fn content(group: &str, kind: &str) -> Option<Content> {
    Some(match (group, kind) {
        // Changes of their spec are ignored.
        ("", "Namespace" | "Pod" | "ServiceAccount") => Content::Fields(&[]),
        ("", "ConfigMap") => Content::Fields(&["data", "binaryData"]),
        ("", "Secret") => Content::Secret,
        ("", "Service") => Content::Service,
        ("networking.k8s.io", "NetworkPolicy")
        | ("policy", "PodDisruptionBudget")
        | ("apiextensions.k8s.io", "CustomResourceDefinition") => Content::Fields(&["spec"]),
        ("rbac.authorization.k8s.io", "Role") => Content::Fields(&["rules"]),
        ("rbac.authorization.k8s.io", "ClusterRole") => Content::ClusterRole,
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            Content::Fields(&["subjects", "roleRef"])
        }
        ("storage.k8s.io", "StorageClass") => Content::StorageClass,
        ("storage.k8s.io", "CSIDriver") => Content::CsiDriver,
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => Content::Webhooks,
        ("snapshot.storage.k8s.io", "VolumeSnapshotClass")
        | ("admissionregistration.k8s.io" | "monitoring.coreos.com", _) => Content::Unsupported,
        _ => return None,
    })
}

/// Applies a manifest. Its owners become the one that is required.
pub async fn update(
    cluster: &Requests,
    at: &Address,
    mapping: &Mapping,
    manifest: &Value,
    owner: &Value,
) -> Result<Value, ApplyError> {
    let mut required = manifest.clone();
    set_metadata(&mut required, "ownerReferences", vec![owner.clone()].into());
    match content(&at.group, text(manifest, "/kind")) {
        None => replace(cluster, at, &required).await,
        Some(Content::Unsupported) => Err(ApplyError::Unsupported),
        Some(content) => {
            let mut at = at.clone();
            if !mapping.is_namespaced {
                at.namespace.clear();
            }
            prepare(&content, &mut required);
            let Some(live) = cluster.get(&at).await? else {
                return Ok(cluster.create(&at, &owners::cleaned(&required)).await?);
            };
            match content {
                Content::StorageClass => storage_class(cluster, &at, &live, required).await,
                Content::CsiDriver => csi_driver(cluster, &at, &live, &required).await,
                content => merge(cluster, &at, (&live, &required), &content).await,
            }
        }
    }
}

/// Replaces the live object, unless it has the content already. Upstream also skips this where its
/// memory says that nothing has changed; a replacement without a change is none either.
async fn replace(cluster: &Requests, at: &Address, required: &Value) -> Result<Value, ApplyError> {
    let Some(live) = cluster.get(at).await? else {
        return Ok(cluster.create(at, &owners::cleaned(required)).await?);
    };
    let mut wanted = required.clone();
    let merged = with_metadata(&live, required);
    for field in ["labels", "annotations", "ownerReferences", "finalizers", "resourceVersion"] {
        set_metadata(&mut wanted, field, merged["metadata"][field].clone());
    }
    if merged == live && contents(&live) == contents(&wanted) {
        return Ok(live);
    }
    Ok(cluster.replace(at, &wanted).await?)
}

fn contents(object: &Value) -> Map<String, Value> {
    let mut fields = object.as_object().cloned().unwrap_or_default();
    fields.retain(|key, _| key != "metadata" && key != "status");
    fields
}

/// Writes the required content into the live object.
async fn merge(
    cluster: &Requests,
    at: &Address,
    (live, required): (&Value, &Value),
    content: &Content,
) -> Result<Value, ApplyError> {
    let mut wanted = with_metadata(live, required);
    let fields: &[&str] = match content {
        Content::Fields(fields) => fields,
        Content::ClusterRole if required.get("aggregationRule").is_some() => &["aggregationRule"],
        Content::ClusterRole => &["rules", "aggregationRule"],
        Content::Secret => &["data", "type"],
        Content::Service if is_same_service(live, &wanted, required) => &[],
        Content::Webhooks => &["webhooks"],
        _ => &["spec"],
    };
    for field in fields {
        let target = wanted.as_object_mut().unwrap();
        match required.get(*field) {
            Some(value) => drop(target.insert((*field).to_owned(), value.clone())),
            None => drop(target.remove(*field)),
        }
    }
    if matches!(content, Content::Webhooks) {
        keep_authorities(live, &mut wanted);
    }
    if wanted == *live {
        return Ok(live.clone());
    }
    let recreates = matches!(content, Content::Secret) && live["type"] != wanted["type"];
    if recreates {
        return recreate(cluster, at, live, required).await;
    }
    match cluster.replace(at, &wanted).await {
        Err(RequestError::Other(error))
            if matches!(content, Content::Secret)
                && error.to_string().contains("field is immutable") =>
        {
            recreate(cluster, at, live, required).await
        }
        outcome => Ok(outcome?),
    }
}

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The whole object is compared, without the defaults of the API server. What cannot change in
/// place is deleted and created.
async fn storage_class(
    cluster: &Requests,
    at: &Address,
    live: &Value,
    mut required: Value,
) -> Result<Value, ApplyError> {
    if let Some(is_default) = live["metadata"]["annotations"].get(DEFAULT_CLASS) {
        set_annotation(&mut required, DEFAULT_CLASS, is_default.clone());
    }
    let mut wanted = required.clone();
    wanted["metadata"] = with_metadata(live, &required)["metadata"].clone();
    if wanted == *live {
        return Ok(live.clone());
    }
    let fixed = ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"];
    if fixed.iter().any(|field| wanted[*field] != live[*field]) {
        return recreate(cluster, at, live, &required).await;
    }
    Ok(cluster.replace(at, &wanted).await?)
}

/// Another hash of the spec deletes and creates the object.
async fn csi_driver(
    cluster: &Requests,
    at: &Address,
    live: &Value,
    required: &Value,
) -> Result<Value, ApplyError> {
    let hash = |object: &Value| object["metadata"]["annotations"][SPEC_HASH].clone();
    let wanted = with_metadata(live, required);
    if hash(live) != hash(required) {
        return recreate(cluster, at, live, required).await;
    }
    if wanted == *live {
        return Ok(live.clone());
    }
    Ok(cluster.replace(at, &wanted).await?)
}

/// A webhook without an authority gets that of the live webhook of its name.
fn keep_authorities(live: &Value, wanted: &mut Value) {
    for webhook in wanted["webhooks"].as_array_mut().into_iter().flatten() {
        let mut of_name = list(live, "/webhooks").iter();
        let of_name = of_name.find(|one| one["name"] == webhook["name"]);
        if let Some(bundle) = of_name.and_then(|one| one["clientConfig"].get("caBundle"))
            && webhook["clientConfig"].get("caBundle").is_none()
        {
            webhook["clientConfig"]["caBundle"] = bundle.clone();
        }
    }
}

/// The object gets a new uid.
async fn recreate(
    cluster: &Requests,
    at: &Address,
    live: &Value,
    required: &Value,
) -> Result<Value, ApplyError> {
    cluster.delete_uid(at, uid(live)).await?;
    Ok(cluster.create(at, &owners::cleaned(required)).await?)
}

/// Only metadata, with the hash of the spec in it, selector and type are compared.
fn is_same_service(live: &Value, wanted: &Value, required: &Value) -> bool {
    wanted == live
        && ["selector", "type"].iter().all(|field| {
            let default = if *field == "type" { "ClusterIP".into() } else { Value::Null };
            let of = |object: &Value| match &object["spec"][*field] {
                Value::Null => default.clone(),
                value => value.clone(),
            };
            of(live) == of(required)
        })
}

fn prepare(content: &Content, required: &mut Value) {
    match content {
        Content::Service | Content::CsiDriver => {
            // Its own test compares it with hashes of the Go structs, in `tests/spec-hash`.
            let hash = required.as_object().and_then(spec_hash).unwrap_or_default();
            set_annotation(required, SPEC_HASH, hash.into());
        }
        Content::Secret => fold_string_data(required),
        _ => {}
    }
}

fn set_annotation(object: &mut Value, name: &str, value: Value) {
    let mut annotations = object["metadata"]["annotations"].clone();
    if annotations.is_null() {
        annotations = Map::new().into();
    }
    annotations[name] = value;
    set_metadata(object, "annotations", annotations);
}

fn fold_string_data(secret: &mut Value) {
    use base64::Engine as _;
    let fields = secret.as_object_mut().unwrap();
    if text(&Value::Object(fields.clone()), "/type").is_empty() {
        fields.insert("type".to_owned(), "Opaque".into());
    }
    let Some(Value::Object(texts)) = fields.remove("stringData") else { return };
    let data = fields.entry("data").or_insert_with(|| Map::new().into());
    for (key, value) in texts {
        let bytes = value.as_str().unwrap_or_default().as_bytes();
        data[key] = base64::engine::general_purpose::STANDARD.encode(bytes).into();
    }
}

/// The live object with the labels, annotations and owners that are required. A key `name-`
/// removes `name`; keys that are not mentioned stay.
fn with_metadata(live: &Value, required: &Value) -> Value {
    let mut merged = live.clone();
    for field in ["labels", "annotations"] {
        let mut fields = live["metadata"][field].as_object().cloned().unwrap_or_default();
        for (key, value) in required["metadata"][field].as_object().into_iter().flatten() {
            match key.strip_suffix('-') {
                Some(removed) => drop(fields.remove(removed)),
                None => drop(fields.insert(key.clone(), value.clone())),
            }
        }
        let fields = if fields.is_empty() { Value::Null } else { Value::Object(fields) };
        set_metadata(&mut merged, field, fields);
    }
    let existing = list(live, "/metadata/ownerReferences");
    let required = list(required, "/metadata/ownerReferences");
    let owners = required.iter().fold(existing.to_vec(), |all, one| owners::merge(&all, one));
    let owners = if owners.is_empty() { Value::Null } else { Value::Array(owners) };
    set_metadata(&mut merged, "ownerReferences", owners);
    merged
}
