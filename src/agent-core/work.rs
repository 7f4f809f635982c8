//! What a ManifestWork's spec asks for one manifest: its options, and whether the work owns it.

use gitwork_api::work::{
    ConditionRule, FeedbackRule, ManifestResourceMeta, ManifestWorkSpec, PropagationPolicy,
    ResourceIdentifier, UpdateStrategy,
};

/// Whether both name the same object. Their positions in the work may differ.
pub fn is_same_object(one: &ManifestResourceMeta, other: &ManifestResourceMeta) -> bool {
    one.group == other.group
        && one.version == other.version
        && one.kind == other.kind
        && one.resource == other.resource
        && one.name == other.name
        && one.namespace == other.namespace
}

/// Whether the object has all that a request for it needs: resource, version and name.
pub fn is_addressable(meta: &ManifestResourceMeta) -> bool {
    ![&meta.resource, &meta.version, &meta.name].into_iter().any(String::is_empty)
}

/// The options of one manifest, merged from all matching entries of `spec.manifestConfigs`. For
/// each field the first matching entry that sets it wins.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ManifestOptions {
    /// Empty: report no feedback.
    pub feedback_rules: Vec<FeedbackRule>,
    /// `None`: `Update`.
    pub update_strategy: Option<UpdateStrategy>,
    /// Empty: derive no conditions.
    pub condition_rules: Vec<ConditionRule>,
}

impl ManifestOptions {
    /// The options of one manifest (OCM: `FindManifestConfiguration`).
    pub fn of(spec: &ManifestWorkSpec, meta: &ManifestResourceMeta) -> Self {
        let mut found = Self::default();
        for config in &spec.manifest_configs {
            if !matches(&config.resource_identifier, meta) {
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

    /// Whether the work's status depends on the object's content.
    pub fn needs_content(&self) -> bool {
        !self.feedback_rules.is_empty() || !self.condition_rules.is_empty()
    }
}

/// Whether the work owns the object: the object gets the work's owner reference and is deleted
/// with the work. Orphaning rules name objects exactly; they know no wildcards.
pub fn is_owned(spec: &ManifestWorkSpec, meta: &ManifestResourceMeta) -> bool {
    let Some(option) = &spec.delete_option else { return true };
    match &option.propagation_policy {
        None | Some(PropagationPolicy::Foreground) => true,
        Some(PropagationPolicy::Orphan) => false,
        Some(PropagationPolicy::Other(policy)) if policy.is_empty() => true,
        Some(PropagationPolicy::SelectivelyOrphan | PropagationPolicy::Other(_)) => {
            let mut rules =
                option.selectively_orphans.iter().flat_map(|rules| &rules.orphaning_rules);
            !rules.any(|rule| {
                rule.group == meta.group
                    && rule.resource == meta.resource
                    && rule.namespace == meta.namespace
                    && rule.name == meta.name
            })
        }
    }
}

fn matches(identifier: &ResourceIdentifier, meta: &ManifestResourceMeta) -> bool {
    identifier.group == meta.group
        && identifier.resource == meta.resource
        && matches_wildcard(&identifier.namespace, &meta.namespace)
        && matches_wildcard(&identifier.name, &meta.name)
}

/// `*` stands for any text, the empty one included. Linear in `text` times the number of stars.
fn matches_wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(position) => rest = rest.get(position + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use gitwork_api::work::UpdateStrategyType;
    use serde_json::json;

    use super::*;

    fn meta(resource: &str, namespace: &str, name: &str) -> ManifestResourceMeta {
        ManifestResourceMeta {
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..ManifestResourceMeta::default()
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
            assert_eq!(matches_wildcard(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn options_are_merged_first_match_per_field() {
        let spec: ManifestWorkSpec = serde_json::from_value(json!({"manifestConfigs": [
            {"resourceIdentifier": {"resource": "configmaps", "namespace": "*", "name": "*"},
             "feedbackScrapeType": "Watch"},
            {"resourceIdentifier": {"resource": "configmaps", "namespace": "ns", "name": "web*"},
             "updateStrategy": {"type": "CreateOnly"}},
            {"resourceIdentifier": {"resource": "configmaps", "namespace": "ns", "name": "web"},
             "updateStrategy": {"type": "ReadOnly"},
             "feedbackRules": [{"type": "WellKnownStatus"}]},
        ]}))
        .unwrap();
        let found = ManifestOptions::of(&spec, &meta("configmaps", "ns", "web"));
        assert_eq!(found.update_strategy.unwrap().type_, UpdateStrategyType::CreateOnly);
        assert_eq!(found.feedback_rules.len(), 1);
        let other = ManifestOptions::of(&spec, &meta("configmaps", "other", "web"));
        assert_eq!(other, ManifestOptions::default());
    }

    #[test]
    fn orphan_rules_match_exactly() {
        let rule =
            |name| json!({"group": "", "resource": "configmaps", "namespace": "ns", "name": name});
        let selectively = |name| {
            json!({"propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {"orphaningRules": [rule(name)]}})
        };
        for (option, owned) in [
            (json!(null), true),
            (json!({"propagationPolicy": "Foreground"}), true),
            (json!({"propagationPolicy": "Orphan"}), false),
            (json!({"propagationPolicy": "SelectivelyOrphan"}), true),
            (selectively("web"), false),
            (selectively("*"), true),
        ] {
            let spec: ManifestWorkSpec =
                serde_json::from_value(json!({"deleteOption": option})).unwrap();
            assert_eq!(is_owned(&spec, &meta("configmaps", "ns", "web")), owned, "{option}");
        }
    }

    #[test]
    fn unknown_and_missing_values_keep_a_spec_readable() {
        let spec: ManifestWorkSpec = serde_json::from_value(json!({
            "fromNewerOcm": {"a": 1},
            "deleteOption": {"propagationPolicy": "Archive"},
            "executor": {"subject": {"type": "Robot"}},
            "manifestConfigs": [
                {"resourceIdentifier": {"namespace": "ns", "name": "web"},
                 "updateStrategy": {"type": "Magic"}, "feedbackRules": [{}],
                 "conditionRules": [{"condition": "A"}]},
                {},
            ],
        }))
        .unwrap();
        let web = meta("", "ns", "web");
        assert!(is_owned(&spec, &web), "an unknown policy orphans only listed objects");
        let options = ManifestOptions::of(&spec, &web);
        assert_eq!(options.update_strategy.unwrap().type_.as_str(), "Magic");
        assert_eq!(options.feedback_rules[0].type_.as_str(), "");
        assert_eq!(options.condition_rules[0].type_.as_str(), "");
    }
}
