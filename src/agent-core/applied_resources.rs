//! `AppliedManifestWork.status.appliedResources`: what a work has on the cluster, what has become
//! stale, and how that is deleted.

use std::collections::BTreeSet;

use gitwork_api::work::{AppliedManifestResourceMeta, ManifestResourceMeta};
use serde_json::{Value, json};

use super::object::{Object, is_deleting, meta};
use super::owner::{Owner, is_owned_by, is_shared, owner_patch};

/// The record of an applied object.
pub fn applied_resource(meta: &ManifestResourceMeta, uid: &str) -> AppliedManifestResourceMeta {
    AppliedManifestResourceMeta {
        group: meta.group.clone(),
        version: meta.version.clone(),
        resource: meta.resource.clone(),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: uid.into(),
        ..AppliedManifestResourceMeta::default()
    }
}

/// The list as the agent writes it: an empty group is explicit, as OCM's agent writes it.
pub fn applied_resources_patch(list: &[AppliedManifestResourceMeta]) -> Value {
    let mut list = json!(list);
    for resource in list.as_array_mut().into_iter().flatten() {
        if let Value::Object(fields) = resource {
            fields.entry("group").or_insert_with(|| "".into());
        }
    }
    list
}

/// What identifies the object: version and uid do not count.
fn object_key(one: &AppliedManifestResourceMeta) -> [&str; 4] {
    [&one.group, &one.resource, &one.namespace, &one.name]
}

/// The recorded objects that are not in the work any more.
pub fn stale_resources(
    recorded: &[AppliedManifestResourceMeta],
    current: &[AppliedManifestResourceMeta],
) -> Vec<AppliedManifestResourceMeta> {
    let current: BTreeSet<[&str; 4]> = current.iter().map(object_key).collect();
    recorded.iter().filter(|old| !current.contains(&object_key(old))).cloned().collect()
}

/// The list to record: the objects in the work, and those that are still being deleted. Sorted as
/// OCM's agent sorts it: by group, version, resource, namespace and name.
pub fn record(
    current: Vec<AppliedManifestResourceMeta>,
    pending: impl IntoIterator<Item = AppliedManifestResourceMeta>,
) -> Vec<AppliedManifestResourceMeta> {
    let mut all = current;
    for one in pending {
        if !all.iter().any(|other| object_key(other) == object_key(&one)) {
            all.push(one);
        }
    }
    fn order(a: &AppliedManifestResourceMeta) -> [&str; 5] {
        [&a.group, &a.version, &a.resource, &a.namespace, &a.name]
    }
    all.sort_by(|one, other| order(one).cmp(&order(other)));
    all
}

/// What to do about a recorded object that is to go.
#[derive(Debug, Clone, PartialEq)]
pub enum CleanupAction {
    /// Nothing is left to do, and it needs no record.
    Forget,
    /// Another work holds it too: only our owner reference goes.
    RemoveOwner(Value),
    /// Somebody deletes it already.
    Wait,
    /// DELETE in the background, bound to its uid.
    Delete,
}

/// Decides by the live object: only what is owned by us, and is still the object that we recorded,
/// is deleted.
pub fn cleanup_action(
    recorded: &AppliedManifestResourceMeta,
    live: Option<&Object>,
    owner: &Owner,
) -> CleanupAction {
    let Some(live) = live else { return CleanupAction::Forget };
    if !is_owned_by(live, &owner.uid) {
        return CleanupAction::Forget;
    }
    if is_shared(live, &owner.uid) {
        return owner_patch(live, &owner.reference(false))
            .map_or(CleanupAction::Forget, CleanupAction::RemoveOwner);
    }
    if recorded.uid != meta(live, "uid") {
        return CleanupAction::Forget;
    }
    if is_deleting(live) { CleanupAction::Wait } else { CleanupAction::Delete }
}

#[cfg(test)]
mod tests {
    use super::super::object::tests::object;
    use super::*;

    fn one(resource: &str, name: &str, version: &str) -> AppliedManifestResourceMeta {
        AppliedManifestResourceMeta {
            resource: resource.into(),
            name: name.into(),
            version: version.into(),
            namespace: "ns".into(),
            uid: "u".into(),
            ..AppliedManifestResourceMeta::default()
        }
    }

    #[test]
    fn another_version_is_the_same_object() {
        let recorded =
            [one("configmaps", "a", "v1"), one("configmaps", "b", "v1"), one("secrets", "a", "v1")];
        let current = [one("configmaps", "a", "v2")];
        assert_eq!(
            stale_resources(&recorded, &current),
            [recorded[1].clone(), recorded[2].clone()]
        );
        let all = record(current.to_vec(), [one("configmaps", "b", "v1")]);
        assert_eq!(
            all,
            [one("configmaps", "b", "v1"), one("configmaps", "a", "v2")],
            "the version sorts first"
        );
    }

    #[test]
    fn dropped_objects_are_deleted_released_or_left_by_their_owners() {
        let owner = Owner { name: "hash-web".into(), uid: "amw".into() };
        let other = Owner { name: "hash-b".into(), uid: "amw2".into() };
        let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "cm"});
        let live = |owners: Value| {
            object(json!({"metadata": {
                "uid": "u", "resourceVersion": "1", "ownerReferences": owners,
            }}))
        };
        let recorded = one("configmaps", "a", "v1");
        let check = |live: Option<&Object>| cleanup_action(&recorded, live, &owner);
        assert_eq!(check(None), CleanupAction::Forget);
        assert_eq!(
            check(Some(&live(json!([])))),
            CleanupAction::Forget,
            "orphaned or adopted by others"
        );
        assert_eq!(check(Some(&live(json!([owner.reference(true)])))), CleanupAction::Delete);
        assert_eq!(
            check(Some(&live(json!([owner.reference(true), foreign])))),
            CleanupAction::Delete
        );
        let CleanupAction::RemoveOwner(patch) =
            check(Some(&live(json!([owner.reference(true), other.reference(true)]))))
        else {
            panic!()
        };
        assert_eq!(patch["metadata"]["ownerReferences"], json!([other.reference(true)]));
        let mut again = live(json!([owner.reference(true)]));
        again["metadata"]["uid"] = "recreated".into();
        assert_eq!(check(Some(&again)), CleanupAction::Forget);
        again["metadata"]["uid"] = "u".into();
        again["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(check(Some(&again)), CleanupAction::Wait);
    }
}
