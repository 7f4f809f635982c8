//! Kinds that Kubernetes had before the minors of the table, and kinds that it advises against.

use crate::table::Kind;

/// Why another kind or version should be used.
pub(crate) struct Deprecation {
    pub(crate) message: String,
    /// What to do, where another version of the kind is no answer.
    pub(crate) help: Option<&'static str>,
}

/// A kind that no minor of the table has.
pub(super) struct Removed {
    group: &'static str,
    version: &'static str,
    kinds: &'static [&'static str],
    /// The minor that removed it.
    minor: u16,
    /// The `apiVersion` that replaces it; empty if none does.
    replacement: &'static str,
}

const fn removed(
    (group, version): (&'static str, &'static str),
    kinds: &'static [&'static str],
    minor: u16,
    replacement: &'static str,
) -> Removed {
    Removed { group, version, kinds, minor, replacement }
}

const WORKLOADS: &[&str] =
    &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "ControllerRevision"];
const RBAC: &[&str] = &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
const REVIEWS: &[&str] = &[
    "LocalSubjectAccessReview",
    "SelfSubjectAccessReview",
    "SelfSubjectRulesReview",
    "SubjectAccessReview",
];
const FLOWS: &[&str] = &["FlowSchema", "PriorityLevelConfiguration"];
const WEBHOOKS: &[&str] = &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];
const STORAGE: &[&str] = &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"];

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const FLOW_GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// From the deprecation guide of Kubernetes.
const REMOVED: &[Removed] = &[
    removed(("extensions", "v1beta1"), WORKLOADS, 16, "apps/v1"),
    removed(("extensions", "v1beta1"), &["NetworkPolicy"], 16, "networking.k8s.io/v1"),
    removed(("extensions", "v1beta1"), &["PodSecurityPolicy"], 16, ""),
    removed(("extensions", "v1beta1"), &["Ingress"], 22, "networking.k8s.io/v1"),
    removed(("apps", "v1beta1"), WORKLOADS, 16, "apps/v1"),
    removed(("apps", "v1beta2"), WORKLOADS, 16, "apps/v1"),
    removed(("batch", "v2alpha1"), &["CronJob"], 21, "batch/v1"),
    removed(("batch", "v1beta1"), &["CronJob"], 25, "batch/v1"),
    removed(("autoscaling", "v2beta1"), &["HorizontalPodAutoscaler"], 25, "autoscaling/v2"),
    removed(("autoscaling", "v2beta2"), &["HorizontalPodAutoscaler"], 26, "autoscaling/v2"),
    removed(("policy", "v1beta1"), &["PodDisruptionBudget"], 25, "policy/v1"),
    removed(("policy", "v1beta1"), &["PodSecurityPolicy"], 25, ""),
    removed(
        ("networking.k8s.io", "v1beta1"),
        &["Ingress", "IngressClass"],
        22,
        "networking.k8s.io/v1",
    ),
    removed((RBAC_GROUP, "v1beta1"), RBAC, 22, "rbac.authorization.k8s.io/v1"),
    removed((RBAC_GROUP, "v1alpha1"), RBAC, 22, "rbac.authorization.k8s.io/v1"),
    removed(
        ("admissionregistration.k8s.io", "v1beta1"),
        WEBHOOKS,
        22,
        "admissionregistration.k8s.io/v1",
    ),
    removed(
        ("apiextensions.k8s.io", "v1beta1"),
        &["CustomResourceDefinition"],
        22,
        "apiextensions.k8s.io/v1",
    ),
    removed(
        ("apiregistration.k8s.io", "v1beta1"),
        &["APIService"],
        22,
        "apiregistration.k8s.io/v1",
    ),
    removed(("authentication.k8s.io", "v1beta1"), &["TokenReview"], 22, "authentication.k8s.io/v1"),
    removed(("authorization.k8s.io", "v1beta1"), REVIEWS, 22, "authorization.k8s.io/v1"),
    removed(
        ("certificates.k8s.io", "v1beta1"),
        &["CertificateSigningRequest"],
        22,
        "certificates.k8s.io/v1",
    ),
    removed(("coordination.k8s.io", "v1beta1"), &["Lease"], 22, "coordination.k8s.io/v1"),
    removed(("scheduling.k8s.io", "v1beta1"), &["PriorityClass"], 22, "scheduling.k8s.io/v1"),
    removed(("scheduling.k8s.io", "v1alpha1"), &["PriorityClass"], 22, "scheduling.k8s.io/v1"),
    removed(("storage.k8s.io", "v1beta1"), STORAGE, 22, "storage.k8s.io/v1"),
    removed(("storage.k8s.io", "v1beta1"), &["CSIStorageCapacity"], 27, "storage.k8s.io/v1"),
    removed(("discovery.k8s.io", "v1beta1"), &["EndpointSlice"], 25, "discovery.k8s.io/v1"),
    removed(("events.k8s.io", "v1beta1"), &["Event"], 25, "events.k8s.io/v1"),
    removed(("node.k8s.io", "v1beta1"), &["RuntimeClass"], 25, "node.k8s.io/v1"),
    removed((FLOW_GROUP, "v1beta1"), FLOWS, 26, "flowcontrol.apiserver.k8s.io/v1"),
    removed((FLOW_GROUP, "v1beta2"), FLOWS, 29, "flowcontrol.apiserver.k8s.io/v1"),
    removed((FLOW_GROUP, "v1beta3"), FLOWS, 32, "flowcontrol.apiserver.k8s.io/v1"),
];

impl Removed {
    pub(super) fn has_group(group: &str) -> bool {
        REMOVED.iter().any(|one| one.group == group)
    }

    pub(super) fn find(group: &str, version: &str, kind: &str) -> Option<&'static Self> {
        let is_it = |one: &&Removed| {
            one.group == group && one.version == version && one.kinds.contains(&kind)
        };
        REMOVED.iter().find(is_it)
    }

    pub(super) fn message(&self, api_version: &str, kind: &str, runs: &str) -> String {
        let instead = match self.replacement {
            "" => String::new(),
            replacement => format!("; use {replacement}"),
        };
        format!("{api_version} {kind} was removed in 1.{}{runs}{instead}", self.minor)
    }
}

/// What the API server warns of at each use of a kind.
pub(super) fn deprecated(kind: &Kind) -> Option<Deprecation> {
    let (message, help) = match (kind.group, kind.kind) {
        ("", "Endpoints") => (
            "v1 Endpoints is deprecated since 1.33; use discovery.k8s.io/v1 EndpointSlice",
            "Use an EndpointSlice, which has other fields. The API server still accepts Endpoints, \
             and no known version removes them.",
        ),
        ("", "ComponentStatus") => (
            "v1 ComponentStatus is deprecated since 1.19",
            "Remove the object. The API server reports the health of its components by itself.",
        ),
        _ => return None,
    };
    Some(Deprecation { message: message.to_owned(), help: Some(help) })
}
