//! Selects clusters by their names, labels and claims, as files of groups do.

use gitwork_api::escape::pointer_token;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::model::name::ClusterName;
use gitwork_api::names::{check_label_value, check_qualified_name};

/// Selects clusters. All given conditions must match.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct MemberSelector {
    /// Labels of the ManagedCluster. Labels in `cluster.yaml` override them.
    pub label_selector: MemberLabelSelector,
    /// Claims that the cluster reports: `status.clusterClaims` of the ManagedCluster.
    pub claim_selector: MemberClaimSelector,
}

/// Selects clusters by their labels.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct MemberLabelSelector {
    /// Labels that a cluster must have.
    pub match_labels: BTreeMap<String, String>,
    /// Requirements for labels.
    #[schemars(length(max = 100))]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// Selects clusters by their claims.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct MemberClaimSelector {
    /// Requirements for claims.
    #[schemars(length(max = 100))]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// Requirement for one label or claim.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct SelectorRequirement {
    /// Label key, or name of the claim.
    pub key: String,
    /// Relation between the cluster's value and `values`.
    pub operator: SelectorOperator,
    /// Values, for `In` and `NotIn`.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub values: Vec<String>,
}

/// Relation between a cluster's label or claim and the values of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum SelectorOperator {
    /// It has one of the values.
    In,
    /// It has none of the values, or is absent.
    NotIn,
    /// It is there.
    Exists,
    /// It is absent.
    DoesNotExist,
}

/// What is wrong with a `group.yaml`, beyond its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupProblem {
    /// JSON pointer to the place.
    pub pointer: String,
    /// What is wrong; reads after the field's name, or alone at the top.
    pub message: String,
}

impl MemberSelector {
    /// Whether it has no requirement: it would select every cluster.
    fn is_empty(&self) -> bool {
        let Self { label_selector, claim_selector } = self;
        label_selector.match_labels.is_empty()
            && label_selector.match_expressions.is_empty()
            && claim_selector.match_expressions.is_empty()
    }
}

impl MemberSelector {
    /// What is wrong with it. `place`: the JSON pointer to the mapping that has it.
    pub(super) fn check(&self, place: &str, add: &mut dyn FnMut(String, String)) {
        if self.is_empty() {
            let message = "selects every cluster; write `clusters: [\"*\"]` for that";
            add(format!("{place}/selector"), message.to_owned());
        }
        self.problems(&mut |pointer, message| add(format!("{place}{pointer}"), message));
    }

    fn problems(&self, add: &mut dyn FnMut(String, String)) {
        let Self { label_selector, claim_selector } = self;
        let at = "/selector/labelSelector";
        for (key, value) in &label_selector.match_labels {
            let problem = check_qualified_name(key).or_else(|| check_label_value(value));
            if let Some(problem) = problem {
                let key = pointer_token(key);
                add(
                    format!("{at}/matchLabels/{key}"),
                    format!("has a key or value that {problem}"),
                );
            }
        }
        let lists = [
            (at, &label_selector.match_expressions, true),
            ("/selector/claimSelector", &claim_selector.match_expressions, false),
        ];
        for (at, requirements, is_label) in lists {
            for (index, requirement) in requirements.iter().enumerate() {
                let at = format!("{at}/matchExpressions/{index}");
                requirement.problems(is_label, &mut |field, message| {
                    add(format!("{at}/{field}"), message);
                });
            }
        }
    }
}

impl SelectorRequirement {
    fn problems(&self, is_label: bool, add: &mut dyn FnMut(&str, String)) {
        use SelectorOperator::{DoesNotExist, Exists, In, NotIn};
        match self.operator {
            In | NotIn if self.values.is_empty() => {
                add("values", "needs a value for In and NotIn".to_owned());
            }
            Exists | DoesNotExist if !self.values.is_empty() => {
                add("values", "must be empty for Exists and DoesNotExist".to_owned());
            }
            _ => {}
        }
        if !is_label {
            if self.key.is_empty() {
                add("key", "is empty".to_owned());
            }
            return;
        }
        check_qualified_name(&self.key).into_iter().for_each(|problem| add("key", problem));
        let mut values = self.values.iter().enumerate();
        // One message: the others have the same cause.
        if let Some((index, problem)) =
            values.find_map(|(index, value)| Some((index, check_label_value(value)?)))
        {
            add(&format!("values/{index}"), problem);
        }
    }
}

/// What is wrong with the name of a cluster that may have wildcards.
pub(super) fn pattern_problem(pattern: &str) -> Option<String> {
    let is_plain = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-' | '*');
    if !pattern.contains('*') {
        return ClusterName::parse(pattern).err().map(|why| why.to_string());
    }
    if let Some(other) = pattern.chars().find(|c| !is_plain(*c)) {
        let message = "only lower-case letters, digits, '-' and '*' are allowed";
        return Some(format!("has the character {other:?}; {message}"));
    }
    (pattern.len() > 2 * 63).then(|| "is longer than 126 characters".to_owned())
}
