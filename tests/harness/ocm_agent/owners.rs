//! Owner references, and the deletion of what left a work: "owner reference convention" and
//! "DeleteAppliedResources". Written from upstream's behaviour alone, because it judges other
//! code.

use serde_json::{Value, json};

use super::json::{is_deleting, list, name, set_metadata, text, uid};
use super::requests::{Address, RequestError, Requests};

const WORK_API_VERSION: &str = "work.open-cluster-management.io/v1";
const APPLIED_KIND: &str = "AppliedManifestWork";

/// An AppliedManifestWork as an owner.
pub fn reference(applied: &Value) -> Value {
    json!({"apiVersion": WORK_API_VERSION, "kind": APPLIED_KIND, "name": name(applied),
        "uid": uid(applied)})
}

/// The same owner with upstream's removal marker.
pub fn removal(owner: &Value) -> Value {
    let mut owner = owner.clone();
    owner["uid"] = format!("{}-", text(&owner, "/uid")).into();
    owner
}

fn removes(owner: &Value) -> bool {
    text(owner, "/uid").ends_with('-')
}

/// The owners of an object after a required one is added, replaced or removed. References match by
/// name, kind and group, and not by uid.
pub fn merge(existing: &[Value], required: &Value) -> Vec<Value> {
    let identity = |owner: &Value| {
        let version = text(owner, "/apiVersion");
        let group = version.split_once('/').map_or("", |(group, _)| group);
        [group, text(owner, "/kind"), text(owner, "/name")].map(str::to_owned)
    };
    let mut merged = existing.to_vec();
    let found = merged.iter().position(|owner| identity(owner) == identity(required));
    match (found, removes(required)) {
        (Some(index), true) => drop(merged.remove(index)),
        (Some(index), false) => merged[index] = required.clone(),
        (None, true) => {}
        (None, false) => merged.push(required.clone()),
    }
    merged
}

/// An object to create: without keys and owners that carry removal markers.
pub fn cleaned(manifest: &Value) -> Value {
    let mut object = manifest.clone();
    for field in ["labels", "annotations"] {
        let fields = object.pointer_mut(&format!("/metadata/{field}"));
        if let Some(Value::Object(fields)) = fields {
            fields.retain(|key, _| !key.ends_with('-'));
        }
    }
    let owners = list(&object, "/metadata/ownerReferences").iter();
    let owners: Vec<Value> = owners.filter(|owner| !removes(owner)).cloned().collect();
    let owners = if owners.is_empty() { Value::Null } else { Value::Array(owners) };
    set_metadata(&mut object, "ownerReferences", owners);
    object
}

/// Adds or removes an owner of a live object, if that changes something. A conflict is an error.
pub async fn apply(
    cluster: &Requests,
    at: &Address,
    live: &Value,
    required: &Value,
) -> Result<(), RequestError> {
    let existing = list(live, "/metadata/ownerReferences");
    let merged = merge(existing, required);
    if merged == existing {
        return Ok(());
    }
    let patch = json!({"metadata": {"uid": uid(live),
        "resourceVersion": text(live, "/metadata/resourceVersion"), "ownerReferences": merged}});
    cluster.merge(at, &patch).await.map(|_| ())
}

/// An entry of `status.appliedResources`.
pub fn address(resource: &Value) -> Address {
    let field = |name: &str| resource[name].as_str().unwrap_or_default().to_owned();
    Address {
        group: field("group"),
        version: field("version"),
        resource: field("resource"),
        namespace: field("namespace"),
        name: field("name"),
    }
}

/// Deletes resources, or drops the owner from those that have another. Returns those that still
/// exist and are going, and what failed.
pub async fn delete_applied(
    cluster: &Requests,
    resources: &[Value],
    owner: &Value,
) -> (Vec<Value>, Vec<RequestError>) {
    let (mut pending, mut errors) = (Vec::new(), Vec::new());
    for resource in resources {
        match delete_one(cluster, resource, owner).await {
            Ok(Deletion::Forgotten) => {}
            Ok(Deletion::Pending) => pending.push(resource.clone()),
            Err(error) => errors.push(error),
        }
    }
    (pending, errors)
}

enum Deletion {
    /// It is gone, or it is not this owner's.
    Forgotten,
    /// It is going.
    Pending,
}

async fn delete_one(
    cluster: &Requests,
    resource: &Value,
    owner: &Value,
) -> Result<Deletion, RequestError> {
    let at = address(resource);
    let Some(live) = cluster.get(&at).await? else { return Ok(Deletion::Forgotten) };
    let owners = list(&live, "/metadata/ownerReferences");
    if !owners.iter().any(|one| one["uid"] == owner["uid"]) {
        return Ok(Deletion::Forgotten);
    }
    let is_other_work = |one: &Value| {
        one["apiVersion"] == WORK_API_VERSION
            && one["kind"] == APPLIED_KIND
            && one["uid"] != owner["uid"]
    };
    if owners.iter().any(is_other_work) {
        apply(cluster, &at, &live, &removal(owner)).await?;
        return Ok(Deletion::Forgotten);
    }
    if resource["uid"] != live["metadata"]["uid"] {
        return Ok(Deletion::Forgotten);
    }
    if is_deleting(&live) {
        return Ok(Deletion::Pending);
    }
    // Only the uid is a precondition: an owner that comes between the two requests is not seen.
    match cluster.delete_uid(&at, uid(&live)).await {
        Ok(()) => Ok(Deletion::Pending),
        Err(RequestError::NotFound(_) | RequestError::Conflict(_)) => Ok(Deletion::Forgotten),
        Err(error) => Err(error),
    }
}
