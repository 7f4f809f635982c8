//! What a ManifestWork says of one of its manifests: "Config lookup", `ownedByTheWork`, and the
//! order of manifests.

use regex::Regex;
use serde_json::Value;

use super::json::{list, text};

/// The rules for one manifest. Each is that of the first matching entry that has it.
#[derive(Clone, Debug, Default)]
pub struct ManifestConfig {
    pub update_strategy: Option<Value>,
    pub feedback_rules: Vec<Value>,
    pub condition_rules: Vec<Value>,
}

/// The rules of `manifestConfigs` for a manifest.
pub fn find(work: &Value, meta: &Value) -> ManifestConfig {
    let mut found = ManifestConfig::default();
    for entry in list(work, "/spec/manifestConfigs") {
        if !matches(&entry["resourceIdentifier"], meta) {
            continue;
        }
        if found.update_strategy.is_none() {
            found.update_strategy = entry.get("updateStrategy").cloned();
        }
        if found.feedback_rules.is_empty() {
            found.feedback_rules = list(entry, "/feedbackRules").to_vec();
        }
        if found.condition_rules.is_empty() {
            found.condition_rules = list(entry, "/conditionRules").to_vec();
        }
    }
    found
}

/// Group and resource are equal; namespace and name may have wildcards.
fn matches(identifier: &Value, meta: &Value) -> bool {
    let is_equal = |field: &str| text(identifier, field) == text(meta, field);
    let fits = |field: &str| wildcard(text(identifier, field), text(meta, field));
    is_equal("/group") && is_equal("/resource") && fits("/namespace") && fits("/name")
}

fn wildcard(pattern: &str, name: &str) -> bool {
    if pattern == name || pattern == "*" {
        return true;
    }
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    Regex::new(&format!("^{}$", parts.join(".*"))).is_ok_and(|pattern| pattern.is_match(name))
}

/// Whether the work owns the resource. If not, applying it removes the owner reference.
pub fn is_owned(work: &Value, meta: &Value) -> bool {
    let policy = match work.pointer("/spec/deleteOption") {
        None | Some(Value::Null) => return true,
        Some(option) => option["propagationPolicy"].as_str().unwrap_or("Foreground"),
    };
    match policy {
        "Foreground" => true,
        "Orphan" => false,
        _ => {
            let rules = list(work, "/spec/deleteOption/selectivelyOrphans/orphaningRules");
            let fields = ["/group", "/resource", "/namespace", "/name"];
            !rules.iter().any(|rule| fields.iter().all(|f| text(rule, f) == text(meta, f)))
        }
    }
}

/// The kinds in the order in which manifests are applied. The group does not count.
const ORDER: [&[&str]; 7] = [
    &[
        "PriorityClass",
        "Namespace",
        "CustomResourceDefinition",
        "StorageClass",
        "PersistentVolume",
        "PodSecurityPolicy",
    ],
    &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    &["NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount"],
    &["Secret", "ConfigMap", "PersistentVolumeClaim"],
    &["Service"],
    &[
        "DaemonSet",
        "Pod",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "StatefulSet",
        "Job",
        "CronJob",
    ],
    &[
        "APIService",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ],
];

/// The place of a kind in the order. Manifests of one place keep their order.
pub fn order_of(kind: &str) -> usize {
    ORDER.iter().position(|kinds| kinds.contains(&kind)).unwrap_or(ORDER.len())
}
