//! Owner references, and the other metadata that a manifest shares with its live object.

use serde_json::{Value, json};

use super::identity::{APPLIED_KIND, WORK_API_VERSION};
use super::object::{Object, edit_metadata, group_version, list, meta};

/// The AppliedManifestWork that owns what its work applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name of the AppliedManifestWork.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Owner {
    /// The owner reference that an object is to have. Where the work does not own the object, a uid
    /// that ends in a dash says that the reference is to go.
    pub fn reference(&self, owned: bool) -> Value {
        let uid = if owned { self.uid.clone() } else { format!("{}-", self.uid) };
        json!({"apiVersion": WORK_API_VERSION, "kind": APPLIED_KIND, "name": self.name, "uid": uid})
    }
}

fn field<'a>(reference: &'a Value, name: &str) -> &'a str {
    reference.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Name, kind and group: what library-go takes for the same reference.
fn key(reference: &Value) -> (&str, &str, &str) {
    let (group, _) = group_version(field(reference, "apiVersion"));
    (field(reference, "name"), field(reference, "kind"), group)
}

/// Brings one reference into a list. `None` where nothing changes.
pub fn merge_owner(existing: &[Value], required: &Value) -> Option<Vec<Value>> {
    let index = existing.iter().position(|reference| key(reference) == key(required));
    let goes = field(required, "uid").ends_with('-');
    let mut merged = existing.to_vec();
    match index {
        Some(index) if goes => {
            merged.remove(index);
        }
        Some(index) if existing.get(index) != Some(required) => {
            if let Some(slot) = merged.get_mut(index) {
                *slot = required.clone();
            }
        }
        None if !goes => merged.push(required.clone()),
        _ => return None,
    }
    Some(merged)
}

/// The merge patch that brings one reference into a live object, bound to the version that was
/// read. `None` where nothing changes.
pub fn owner_patch(live: &Object, required: &Value) -> Option<Value> {
    let merged = merge_owner(list(live, &["metadata", "ownerReferences"]), required)?;
    Some(json!({"metadata": {
        "uid": meta(live, "uid"),
        "resourceVersion": meta(live, "resourceVersion"),
        "ownerReferences": merged,
    }}))
}

/// Whether a live object has our reference, by uid.
pub fn is_owned_by(live: &Object, owner_uid: &str) -> bool {
    list(live, &["metadata", "ownerReferences"]).iter().any(|one| field(one, "uid") == owner_uid)
}

/// Whether another work holds the object too.
pub fn is_shared(live: &Object, owner_uid: &str) -> bool {
    let references = list(live, &["metadata", "ownerReferences"]);
    references.iter().any(|one| is_work(one) && field(one, "uid") != owner_uid)
}

/// Whether a reference is to an AppliedManifestWork.
fn is_work(reference: &Value) -> bool {
    field(reference, "apiVersion") == WORK_API_VERSION && field(reference, "kind") == APPLIED_KIND
}

/// The uid of the only AppliedManifestWork that owns an object; `None` if none does, or several do.
pub fn sole_owner(references: &[Value]) -> Option<&str> {
    let mut works = references.iter().filter(|one| is_work(one)).map(|one| field(one, "uid"));
    let first = works.next().filter(|uid| !uid.is_empty())?;
    works.all(|uid| uid == first).then_some(first)
}

/// What is sent to create a manifest: without marks of removal. Owner references of the manifest
/// are lost.
pub fn for_create(manifest: &Object, owner: &Value) -> Object {
    let mut object = manifest.clone();
    edit_metadata(&mut object, |metadata| {
        for field in ["labels", "annotations"] {
            if let Some(Value::Object(pairs)) = metadata.get_mut(field) {
                pairs.retain(|key, _| !key.ends_with('-'));
            }
        }
        metadata.remove("ownerReferences");
        if !field(owner, "uid").ends_with('-') {
            metadata.insert("ownerReferences".into(), json!([owner]));
        }
        for server_set in ["resourceVersion", "creationTimestamp", "managedFields"] {
            metadata.remove(server_set);
        }
    });
    object
}

/// The metadata of a live object with the labels, annotations and owner of a manifest merged in.
pub struct MergedMetadata {
    /// The merged metadata, without `managedFields`.
    pub metadata: Object,
    /// Whether it differs from that of the live object.
    pub changed: bool,
}

/// A key `name-` in the manifest removes `name`; what the manifest does not name stays.
pub fn merge_metadata(live: &Object, manifest: &Object, owner: &Value) -> MergedMetadata {
    let mut metadata = match live.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        _ => Object::new(),
    };
    let mut changed = false;
    for name in ["labels", "annotations"] {
        let Some(Value::Object(wanted)) = manifest.get("metadata").and_then(|m| m.get(name)) else {
            continue;
        };
        let mut pairs = match metadata.remove(name) {
            Some(Value::Object(pairs)) => pairs,
            _ => Object::new(),
        };
        for (key, value) in wanted {
            if let Some(gone) = key.strip_suffix('-') {
                changed |= pairs.remove(gone).is_some();
            } else if pairs.get(key) != Some(value) {
                pairs.insert(key.clone(), value.clone());
                changed = true;
            }
        }
        if !pairs.is_empty() {
            metadata.insert(name.into(), Value::Object(pairs));
        }
    }
    if let Some(merged) = merge_owner(list(live, &["metadata", "ownerReferences"]), owner) {
        metadata.insert("ownerReferences".into(), Value::Array(merged));
        changed = true;
    }
    metadata.remove("managedFields");
    MergedMetadata { metadata, changed }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::tests::object;
    use super::*;

    fn owner() -> Owner {
        Owner { name: "hash-web".into(), uid: "u1".into() }
    }

    #[test]
    fn owner_references_match_by_name_kind_and_group_and_a_dash_removes() {
        let ours = owner().reference(true);
        let old = json!({"apiVersion": "work.open-cluster-management.io/v1alpha1",
            "kind": "AppliedManifestWork", "name": "hash-web", "uid": "old"});
        let other =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "hash-web", "uid": "u2"});
        assert_eq!(merge_owner(&[], &ours), Some(vec![ours.clone()]));
        assert_eq!(
            merge_owner(&[other.clone(), old.clone()], &ours),
            Some(vec![other.clone(), ours.clone()])
        );
        assert_eq!(merge_owner(std::slice::from_ref(&ours), &ours), None);
        let gone = owner().reference(false);
        assert_eq!(merge_owner(&[other.clone(), old], &gone), Some(vec![other.clone()]));
        assert_eq!(merge_owner(&[other], &gone), None);
    }

    #[test]
    fn who_holds_an_object() {
        let other_work = Owner { name: "hash-b".into(), uid: "u2".into() }.reference(true);
        let live = object(json!({"metadata": {"ownerReferences": [owner().reference(true)]}}));
        assert!(is_owned_by(&live, "u1") && !is_shared(&live, "u1"));
        let live =
            object(json!({"metadata": {"ownerReferences": [owner().reference(true), other_work]}}));
        assert!(is_shared(&live, "u1"));
        let co_owned = object(json!({"metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u3"}]}}));
        assert!(!is_shared(&co_owned, "u1"), "owners of other kinds protect nothing");
    }

    #[test]
    fn metadata_is_merged_and_removed_by_a_dash() {
        let live = object(
            json!({"metadata": {"name": "a", "labels": {"keep": "1", "go": "1", "set": "0"},
            "finalizers": ["f"], "managedFields": []}}),
        );
        let manifest = object(json!({"metadata": {"labels": {"go-": "", "set": "1"}}}));
        let merged = merge_metadata(&live, &manifest, &owner().reference(true));
        assert!(merged.changed);
        assert_eq!(
            Value::Object(merged.metadata.clone()),
            json!({"name": "a", "labels": {"keep": "1", "set": "1"}, "finalizers": ["f"],
                "ownerReferences": [owner().reference(true)]})
        );
        let again = object(json!({"metadata": merged.metadata}));
        assert!(!merge_metadata(&again, &manifest, &owner().reference(true)).changed);
    }

    #[test]
    fn marks_of_removal_are_not_created() {
        let manifest = object(json!({"metadata": {"name": "a", "labels": {"go-": "", "set": "1"},
            "ownerReferences": [{"uid": "theirs"}]}}));
        assert_eq!(
            Value::Object(for_create(&manifest, &owner().reference(false))),
            json!({"metadata": {"name": "a", "labels": {"set": "1"}}})
        );
        let owned = for_create(&manifest, &owner().reference(true));
        assert_eq!(owned["metadata"]["ownerReferences"], json!([owner().reference(true)]));
    }
}
