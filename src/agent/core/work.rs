//! `ManifestWork.spec` as the agent reads it, and its parts.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkSpec {
    pub workload: Workload,
    pub delete_option: Option<DeleteOption>,
    pub manifest_configs: Vec<ManifestConfig>,
    pub executor: Option<Executor>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Workload {
    pub manifests: Vec<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeleteOption {
    pub propagation_policy: String,
    pub selectively_orphans: Option<SelectivelyOrphan>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SelectivelyOrphan {
    pub orphaning_rules: Vec<ResourceIdentifier>,
}

/// Names an object, or with `*` several, without its version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceIdentifier {
    pub group: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManifestConfig {
    pub resource_identifier: ResourceIdentifier,
    pub feedback_rules: Vec<FeedbackRule>,
    pub update_strategy: Option<UpdateStrategy>,
    pub condition_rules: Vec<ConditionRule>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FeedbackRule {
    #[serde(rename = "type")]
    pub kind: String,
    pub json_paths: Vec<JsonPathRule>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct JsonPathRule {
    pub name: String,
    pub version: String,
    pub path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UpdateStrategy {
    #[serde(rename = "type")]
    pub kind: String,
    pub server_side_apply: Option<ServerSideApply>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerSideApply {
    pub force: bool,
    pub field_manager: String,
    pub ignore_fields: Vec<IgnoreField>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IgnoreField {
    pub condition: String,
    pub json_paths: Vec<String>,
    pub json_pointers: Vec<String>,
    pub jq_path_expressions: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConditionRule {
    pub condition: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub cel_expressions: Vec<String>,
    pub message: String,
    pub message_expression: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Executor {
    pub subject: ExecutorSubject,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExecutorSubject {
    #[serde(rename = "type")]
    pub kind: String,
    pub service_account: Option<ServiceAccount>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(default)]
pub struct ServiceAccount {
    pub namespace: String,
    pub name: String,
}

/// What a manifest is called on the cluster: `status.resourceStatus.manifests[].resourceMeta`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceMeta {
    pub ordinal: i32,
    pub group: String,
    pub version: String,
    pub kind: String,
    pub resource: String,
    pub name: String,
    pub namespace: String,
}

impl ResourceMeta {
    /// Whether both name the same object; the place in the list does not count.
    pub fn same_object(&self, other: &Self) -> bool {
        Self { ordinal: 0, ..self.clone() } == Self { ordinal: 0, ..other.clone() }
    }
    /// Whether an object can be asked for by it.
    pub fn is_complete(&self) -> bool {
        ![&self.resource, &self.version, &self.name].into_iter().any(String::is_empty)
    }
}

/// What a manifest's config options come to: the first entry that says something counts for each option.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ManifestOptions {
    pub feedback_rules: Vec<FeedbackRule>,
    pub update_strategy: Option<UpdateStrategy>,
    pub condition_rules: Vec<ConditionRule>,
}

impl ManifestOptions {
    /// Whether the object's content is needed for the work's status.
    pub fn needs_content(&self) -> bool {
        !self.feedback_rules.is_empty() || !self.condition_rules.is_empty()
    }
}

impl WorkSpec {
    /// The options of one manifest (OCM: `FindManifestConfiguration`).
    pub fn options(&self, meta: &ResourceMeta) -> ManifestOptions {
        let mut found = ManifestOptions::default();
        for config in &self.manifest_configs {
            if !config.resource_identifier.matches(meta) {
                continue;
            }
            if found.feedback_rules.is_empty() {
                found.feedback_rules.clone_from(&config.feedback_rules);
            }
            if found.update_strategy.is_none() {
                found.update_strategy.clone_from(&config.update_strategy);
            }
            if found.condition_rules.is_empty() {
                found.condition_rules.clone_from(&config.condition_rules);
            }
        }
        found
    }

    /// Whether the object is to go with the work, and so is to have its owner reference. Orphaning rules name
    /// objects exactly: no wildcards.
    pub fn owns(&self, meta: &ResourceMeta) -> bool {
        let Some(option) = &self.delete_option else { return true };
        match option.propagation_policy.as_str() {
            "" | "Foreground" => true,
            "Orphan" => false,
            _ => !option.selectively_orphans.iter().flat_map(|rules| &rules.orphaning_rules).any(
                |rule| {
                    rule.group == meta.group
                        && rule.resource == meta.resource
                        && rule.namespace == meta.namespace
                        && rule.name == meta.name
                },
            ),
        }
    }
}

impl ResourceIdentifier {
    fn matches(&self, meta: &ResourceMeta) -> bool {
        self.group == meta.group
            && self.resource == meta.resource
            && wildcard_match(&self.namespace, &meta.namespace)
            && wildcard_match(&self.name, &meta.name)
    }
}

/// `*` stands for any text. Linear in `text` times the number of stars.
fn wildcard_match(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(place) => rest = rest.get(place + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(resource: &str, namespace: &str, name: &str) -> ResourceMeta {
        ResourceMeta {
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..ResourceMeta::default()
        }
    }

    #[test]
    fn wildcards() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("*", "x", true),
            ("web-*", "web-1", true),
            ("web-*", "aweb-1", false),
            ("*-db", "a-db", true),
            ("a*b*c", "a1b2c", true),
            ("a*a", "a", false),
            ("", "", true),
            ("", "x", false),
            ("a.b", "axb", false),
        ] {
            assert_eq!(wildcard_match(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn gotcha_14_options_are_merged_first_match_per_field() {
        let spec: WorkSpec = serde_json::from_value(json!({"manifestConfigs": [
            {"resourceIdentifier": {"resource": "configmaps", "namespace": "*", "name": "*"},
             "feedbackScrapeType": "Watch"},
            {"resourceIdentifier": {"resource": "configmaps", "namespace": "ns", "name": "web*"},
             "updateStrategy": {"type": "CreateOnly"}},
            {"resourceIdentifier": {"resource": "configmaps", "namespace": "ns", "name": "web"},
             "updateStrategy": {"type": "ReadOnly"}, "feedbackRules": [{"type": "WellKnownStatus"}]},
        ]}))
        .unwrap();
        let found = spec.options(&meta("configmaps", "ns", "web"));
        assert_eq!(found.update_strategy.unwrap().kind, "CreateOnly");
        assert_eq!(found.feedback_rules.len(), 1);
        let other = spec.options(&meta("configmaps", "other", "web"));
        assert_eq!(other, ManifestOptions::default());
    }

    #[test]
    fn gotcha_07_orphan_rules_match_exactly() {
        let rule =
            |name| json!({"group": "", "resource": "configmaps", "namespace": "ns", "name": name});
        for (option, owned) in [
            (json!(null), true),
            (json!({"propagationPolicy": "Foreground"}), true),
            (json!({"propagationPolicy": "Orphan"}), false),
            (json!({"propagationPolicy": "SelectivelyOrphan"}), true),
            (
                json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule("web")]}}),
                false,
            ),
            (
                json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule("*")]}}),
                true,
            ),
        ] {
            let spec: WorkSpec = serde_json::from_value(json!({"deleteOption": option})).unwrap();
            assert_eq!(spec.owns(&meta("configmaps", "ns", "web")), owned, "{option}");
        }
    }
}
