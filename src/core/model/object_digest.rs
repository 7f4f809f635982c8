//! A short digest of an object's identity, to compare the objects of many works.

use serde_json::Value;

use super::digest::Digest;
use super::value_path::value_at;

/// A digest of an object's API group, kind, namespace and name. Two objects of one cluster have the
/// same digest only by a collision of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectDigest(u64);

impl ObjectDigest {
    /// The core group is the empty text; so is the namespace of a cluster-scoped object.
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let Digest(bytes) = Digest::of([group, kind, namespace, name].join("\n").as_bytes());
        let [a, b, c, d, e, f, g, h, ..] = bytes;
        Self(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The digest of a manifest's object; `None` if the manifest does not name one.
    pub fn of_manifest(manifest: &Value) -> Option<Self> {
        let text = |pointer| value_at(manifest, pointer).and_then(Value::as_str);
        let (api_version, kind) = (text("/apiVersion")?, text("/kind")?);
        let namespace = text("/metadata/namespace").unwrap_or_default();
        Some(Self::of_names(api_version, kind, namespace, text("/metadata/name")?))
    }

    /// The digest of an object with these fields of its manifest.
    pub(crate) fn of_names(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self::new(group, kind, namespace, name)
    }

    /// The digest of the object that an agent reports as `resourceMeta`.
    pub(crate) fn of_resource_meta(meta: &Value) -> Option<Self> {
        let text = |field| meta.get(field).and_then(Value::as_str);
        let (group, namespace) = (text("group"), text("namespace"));
        let [group, namespace] = [group, namespace].map(Option::unwrap_or_default);
        Some(Self::new(group, text("kind")?, namespace, text("name")?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn version_and_content_are_no_part_of_the_identity() {
        let manifest = |api_version: &str, namespace: &str, data: &str| {
            let metadata = json!({"namespace": namespace, "name": "web"});
            ObjectDigest::of_manifest(&json!({
                "apiVersion": api_version, "kind": "Deployment", "metadata": metadata,
                "spec": data,
            }))
        };
        let web = manifest("apps/v1", "shop", "a");
        assert!(web.is_some());
        assert_eq!(web, manifest("apps/v1beta1", "shop", "b"));
        assert_ne!(web, manifest("apps/v1", "shop2", "a"));
        assert_ne!(web, manifest("v1", "shop", "a"));
        let meta = json!({
            "ordinal": 3, "group": "apps", "version": "v1", "kind": "Deployment",
            "resource": "deployments", "namespace": "shop", "name": "web",
        });
        assert_eq!(web, ObjectDigest::of_resource_meta(&meta));
        assert_eq!(ObjectDigest::of_manifest(&json!({"kind": "Deployment"})), None);
    }
}
