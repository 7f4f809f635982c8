//! One manifest of a work: what it says it is, and its turn.

use gitwork_api::work::ManifestResourceMeta;
use serde_json::Value;

use super::object::{Object, edit_metadata, group_version, meta, text};

/// One manifest with a name, a kind and an apiVersion.
#[derive(Debug, Clone)]
pub struct ParsedManifest {
    /// Its position in the list of the work's manifests, from 0.
    pub ordinal: usize,
    /// As in the work, but for its uid.
    pub object: Object,
}

/// Why a manifest cannot be applied by anyone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The manifest with this ordinal has no kind or no apiVersion.
    #[error("manifest {0} is not an object with apiVersion and kind; fix it in the ManifestWork")]
    NotAnObject(usize),
    /// The API server would choose another name at each create.
    #[error("generateName must not be set in manifest")]
    GenerateName,
    /// It has no `metadata.name`.
    #[error("name must be set in manifest")]
    NoName,
}

/// A resource of the Kubernetes API, as discovery reports it for a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceMapping {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, without the group.
    pub version: String,
    /// The plural name in URLs, such as `deployments`.
    pub resource: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

impl ParsedManifest {
    /// Reads the manifest at the position `ordinal`. Removes its uid, which the API server sets.
    pub fn parse(ordinal: usize, raw: Value) -> Result<Self, ManifestError> {
        let Value::Object(mut object) = raw else {
            return Err(ManifestError::NotAnObject(ordinal));
        };
        if text(&object, &["apiVersion"]).is_empty() || text(&object, &["kind"]).is_empty() {
            return Err(ManifestError::NotAnObject(ordinal));
        }
        if !meta(&object, "generateName").is_empty() {
            return Err(ManifestError::GenerateName);
        }
        if meta(&object, "name").is_empty() {
            return Err(ManifestError::NoName);
        }
        edit_metadata(&mut object, |metadata| {
            metadata.remove("uid");
        });
        Ok(Self { ordinal, object })
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        text(&self.object, &["kind"])
    }

    /// Group and version.
    pub fn group_version(&self) -> (&str, &str) {
        group_version(text(&self.object, &["apiVersion"]))
    }

    /// What goes into the status. Without a mapping the resource stays empty.
    pub fn resource_meta(&self, mapping: Option<&ResourceMapping>) -> ManifestResourceMeta {
        let (group, version) = self.group_version();
        let cluster_scoped = mapping.is_some_and(|mapping| !mapping.namespaced);
        ManifestResourceMeta {
            ordinal: api_ordinal(self.ordinal),
            group: group.into(),
            version: version.into(),
            kind: self.kind().into(),
            resource: mapping.map(|mapping| mapping.resource.clone()).unwrap_or_default(),
            name: meta(&self.object, "name").into(),
            namespace: if cluster_scoped {
                String::new()
            } else {
                meta(&self.object, "namespace").into()
            },
            ..ManifestResourceMeta::default()
        }
    }
}

/// A manifest's ordinal as the API has it.
pub fn api_ordinal(ordinal: usize) -> i32 {
    i32::try_from(ordinal).unwrap_or(i32::MAX)
}

/// When a kind's turn is (OCM 1.3): what others need comes first. The group does not count.
pub fn apply_order(kind: &str) -> u16 {
    match kind {
        "PriorityClass"
        | "Namespace"
        | "CustomResourceDefinition"
        | "StorageClass"
        | "PersistentVolume"
        | "PodSecurityPolicy" => 0,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => 1,
        "NetworkPolicy"
        | "ResourceQuota"
        | "LimitRange"
        | "PodDisruptionBudget"
        | "ServiceAccount" => 2,
        "Secret" | "ConfigMap" | "PersistentVolumeClaim" => 3,
        "Service" => 4,
        "DaemonSet"
        | "Pod"
        | "ReplicationController"
        | "ReplicaSet"
        | "Deployment"
        | "HorizontalPodAutoscaler"
        | "StatefulSet"
        | "Job"
        | "CronJob" => 5,
        "APIService"
        | "MutatingWebhookConfiguration"
        | "ValidatingWebhookConfiguration"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding" => 6,
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn manifests_that_nobody_can_apply() {
        for (raw, expected) in [
            (json!("text"), ManifestError::NotAnObject(3)),
            (json!({"kind": "Pod"}), ManifestError::NotAnObject(3)),
            (json!({"kind": "Pod", "apiVersion": "v1"}), ManifestError::NoName),
            (
                json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "a-"}}),
                ManifestError::GenerateName,
            ),
        ] {
            assert_eq!(ParsedManifest::parse(3, raw).unwrap_err(), expected);
        }
    }

    #[test]
    fn only_the_resource_meta_of_a_cluster_scoped_manifest_loses_its_namespace() {
        let raw = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "a", "namespace": "ns", "uid": "1"}});
        let manifest = ParsedManifest::parse(0, raw).unwrap();
        let mapping = ResourceMapping {
            group: "rbac.authorization.k8s.io".into(),
            version: "v1".into(),
            resource: "clusterroles".into(),
            namespaced: false,
        };
        let meta_of_it = manifest.resource_meta(Some(&mapping));
        assert_eq!(
            (meta_of_it.namespace.as_str(), meta_of_it.resource.as_str()),
            ("", "clusterroles")
        );
        assert_eq!(meta(&manifest.object, "namespace"), "ns");
        assert_eq!(meta(&manifest.object, "uid"), "");
        assert_eq!(manifest.resource_meta(None).resource, "");
    }

    #[test]
    fn turns() {
        let kinds = [
            "Namespace",
            "Role",
            "ServiceAccount",
            "Secret",
            "Service",
            "Deployment",
            "APIService",
            "Widget",
        ];
        let turns: Vec<u16> = kinds.iter().map(|kind| apply_order(kind)).collect();
        assert_eq!(turns, [0, 1, 2, 3, 4, 5, 6, 1000]);
    }
}
