//! Which rule of OCM's agent the `Update` strategy follows for a kind.

use super::object::{Object, group_version, text};

/// How the content of one kind is compared and written.
pub(crate) enum Rule {
    /// The manifest's spec is ignored.
    MetadataOnly,
    /// These fields are compared and written.
    Fields(&'static [&'static str]),
    ConfigMap,
    Secret,
    Service,
    ClusterRole,
    Binding,
    Crd,
    StorageClass,
    CsiDriver,
    Webhooks,
    Unsupported,
    /// Everything but metadata and status.
    Whole,
}

/// The rule of library-go for the kind of a manifest.
pub(crate) fn rule(manifest: &Object) -> Rule {
    let (group, version) = group_version(text(manifest, &["apiVersion"]));
    let kind = text(manifest, &["kind"]);
    match (group, version, kind) {
        ("", "v1", "Namespace" | "Pod" | "ServiceAccount") => Rule::MetadataOnly,
        ("", "v1", "ConfigMap") => Rule::ConfigMap,
        ("", "v1", "Secret") => Rule::Secret,
        ("", "v1", "Service") => Rule::Service,
        ("networking.k8s.io", "v1", "NetworkPolicy")
        | ("policy", "v1", "PodDisruptionBudget")
        | (
            "admissionregistration.k8s.io",
            "v1" | "v1beta1",
            "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding",
        )
        | (
            "monitoring.coreos.com",
            "v1",
            "ServiceMonitor" | "PrometheusRule" | "Alertmanager" | "Prometheus",
        ) => Rule::Fields(&["spec"]),
        ("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass") => {
            Rule::Fields(&["driver", "deletionPolicy", "parameters"])
        }
        ("rbac.authorization.k8s.io", "v1", "Role") => Rule::Fields(&["rules"]),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole") => Rule::ClusterRole,
        ("rbac.authorization.k8s.io", "v1", "RoleBinding" | "ClusterRoleBinding") => Rule::Binding,
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => Rule::Crd,
        ("storage.k8s.io", "v1", "StorageClass") => Rule::StorageClass,
        ("storage.k8s.io", "v1", "CSIDriver") => Rule::CsiDriver,
        (
            "admissionregistration.k8s.io",
            "v1",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => Rule::Webhooks,
        ("migration.k8s.io", "v1alpha1", "StorageVersionMigration") => Rule::Unsupported,
        _ => Rule::Whole,
    }
}
