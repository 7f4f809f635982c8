//! What a user does about a field that cannot change.

const RENAME: &str = "rename it, or remove it in one commit and add it again in a later one";

const STATEFUL_SET: &str = "delete it with `kubectl delete --cascade=orphan` after this change: \
    its agent creates it again, and its pods stay";

const VOLUME: &str = "use another name and copy the data: its volume can be lost if you remove it";

const CUSTOM_KIND: &str = "use another name: to remove it deletes all objects of its kind";

/// What to do about the field of an object that its agent cannot apply.
pub(super) fn advice(group: &str, kind: &str, field: &str) -> &'static str {
    match (group, kind) {
        // Pods with the labels of another selector would not be its own.
        ("apps", "StatefulSet") if field != "spec.selector" => STATEFUL_SET,
        ("", "PersistentVolume" | "PersistentVolumeClaim") => VOLUME,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => CUSTOM_KIND,
        _ => RENAME,
    }
}
