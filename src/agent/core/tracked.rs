//! `AppliedManifestWork.status.appliedResources`: what a work has on the cluster, what has become stale, and how
//! that is deleted.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::object::{Object, is_deleting, meta};
use super::owner::{Owner, is_owned_by, is_shared, owner_patch};
use super::work::ResourceMeta;

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct AppliedResource {
    // In the order that upstream sorts by.
    pub group: String,
    pub version: String,
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl AppliedResource {
    pub fn new(meta: &ResourceMeta, uid: &str) -> Self {
        Self {
            group: meta.group.clone(),
            version: meta.version.clone(),
            resource: meta.resource.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: uid.into(),
        }
    }
    /// Version and uid do not count.
    fn same_object(&self, other: &Self) -> bool {
        (&self.group, &self.resource, &self.namespace, &self.name)
            == (&other.group, &other.resource, &other.namespace, &other.name)
    }
}

/// What was recorded and is not in the work any more.
pub fn stale(recorded: &[AppliedResource], current: &[AppliedResource]) -> Vec<AppliedResource> {
    let mut objects: Vec<_> =
        current.iter().map(|one| (&one.group, &one.resource, &one.namespace, &one.name)).collect();
    objects.sort_unstable();
    recorded
        .iter()
        .filter(|old| {
            let object = (&old.group, &old.resource, &old.namespace, &old.name);
            objects.binary_search(&object).is_err()
        })
        .cloned()
        .collect()
}

/// The list to record: what is in the work, and what is still being deleted.
pub fn record(
    current: Vec<AppliedResource>,
    pending: impl IntoIterator<Item = AppliedResource>,
) -> Vec<AppliedResource> {
    let mut all = current;
    for one in pending {
        if !all.iter().any(|other| other.same_object(&one)) {
            all.push(one);
        }
    }
    all.sort_by(|one, other| {
        let key = |a: &AppliedResource| {
            (
                a.group.clone(),
                a.version.clone(),
                a.resource.clone(),
                a.namespace.clone(),
                a.name.clone(),
            )
        };
        key(one).cmp(&key(other))
    });
    all
}

/// What to do about a recorded object that is to go.
#[derive(Debug, Clone, PartialEq)]
pub enum Removal {
    /// Nothing is left to do, and it needs no record.
    Forget,
    /// Another work holds it too: only our owner reference goes.
    Disown(Value),
    /// Somebody deletes it already.
    Await,
    /// DELETE in the background, bound to its uid.
    Delete,
}

/// Decides by the live object: only what is owned by us, and is still the object that we recorded, is deleted.
pub fn removal(recorded: &AppliedResource, live: Option<&Object>, owner: &Owner) -> Removal {
    let Some(live) = live else { return Removal::Forget };
    if !is_owned_by(live, &owner.uid) {
        return Removal::Forget;
    }
    if is_shared(live, &owner.uid) {
        return owner_patch(live, &owner.reference(false)).map_or(Removal::Forget, Removal::Disown);
    }
    if recorded.uid != meta(live, "uid") {
        return Removal::Forget;
    }
    if is_deleting(live) { Removal::Await } else { Removal::Delete }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::object::tests::object;
    use super::*;

    fn one(resource: &str, name: &str, version: &str) -> AppliedResource {
        AppliedResource {
            resource: resource.into(),
            name: name.into(),
            version: version.into(),
            namespace: "ns".into(),
            uid: "u".into(),
            ..AppliedResource::default()
        }
    }

    #[test]
    fn another_version_is_the_same_object() {
        let recorded =
            [one("configmaps", "a", "v1"), one("configmaps", "b", "v1"), one("secrets", "a", "v1")];
        let current = [one("configmaps", "a", "v2")];
        assert_eq!(stale(&recorded, &current), [recorded[1].clone(), recorded[2].clone()]);
        let all = record(current.to_vec(), [one("configmaps", "b", "v1")]);
        assert_eq!(
            all,
            [one("configmaps", "b", "v1"), one("configmaps", "a", "v2")],
            "the version sorts first"
        );
    }

    #[test]
    fn gotcha_08_and_23_what_is_deleted() {
        let owner = Owner { name: "hash-web".into(), uid: "amw".into() };
        let other = Owner { name: "hash-b".into(), uid: "amw2".into() };
        let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "cm"});
        let live = |owners: Value| {
            object(
                json!({"metadata": {"uid": "u", "resourceVersion": "1", "ownerReferences": owners}}),
            )
        };
        let recorded = one("configmaps", "a", "v1");
        let check = |live: Option<&Object>| removal(&recorded, live, &owner);
        assert_eq!(check(None), Removal::Forget);
        assert_eq!(check(Some(&live(json!([])))), Removal::Forget, "orphaned or adopted by others");
        assert_eq!(check(Some(&live(json!([owner.reference(true)])))), Removal::Delete);
        assert_eq!(check(Some(&live(json!([owner.reference(true), foreign])))), Removal::Delete);
        let Removal::Disown(patch) =
            check(Some(&live(json!([owner.reference(true), other.reference(true)]))))
        else {
            panic!()
        };
        assert_eq!(patch["metadata"]["ownerReferences"], json!([other.reference(true)]));
        let mut again = live(json!([owner.reference(true)]));
        again["metadata"]["uid"] = "recreated".into();
        assert_eq!(check(Some(&again)), Removal::Forget);
        again["metadata"]["uid"] = "u".into();
        again["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(check(Some(&again)), Removal::Await);
    }
}
