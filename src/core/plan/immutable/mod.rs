//! Fields that Kubernetes never lets change, of built-in kinds.
//!
//! The API server rejects a change of such a field, or the agent deletes the object and creates it
//! again (OCM work agent, `Update`: Secret, StorageClass, CSIDriver). A move does neither.
//!
//! The rules are Kubernetes' validations of updates. A test makes each change on a real API server.
//!
//! Two manifests are compared, not the object on the cluster. So a field counts only if both
//! manifests have it, or if it is known what the API server has without it.

mod advice;
mod compare;
mod rules;
#[cfg(test)]
mod tests;

use gitwork_api::work::IgnoreField;
use gitwork_rules::{ignored_fields, jq};
use schemars::JsonSchema;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use crate::model::kinds;
use crate::plan::work_spec::{AgentWrite, WorkSpec};

/// Work of all jq expressions of one object.
const JQ_WORK_MAX: usize = 200_000;

/// What an agent makes of the change of a field that cannot change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImmutableOutcome {
    /// It cannot apply the object.
    Fails,
    /// It deletes the object and creates it again.
    Recreates,
}

/// The change of a field that cannot change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct ImmutableChange {
    /// As in `spec.selector`.
    pub field: String,
    /// What the agent makes of it.
    pub outcome: ImmutableOutcome,
    /// What to do; absent if the agent creates the object again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

impl ImmutableChange {
    /// The first field that differs in two manifests of one object and cannot change.
    pub fn between(before: &Value, after: &Value, write: AgentWrite) -> Option<Self> {
        let (group, kind) = group_and_kind(after);
        let mut changed =
            rules::of_kind(group, kind).iter().filter_map(|rule| rule.changed(before, after));
        let outcome = match (write, group, kind) {
            (AgentWrite::Update, "", "Secret")
            | (AgentWrite::Update, "storage.k8s.io", "CSIDriver" | "StorageClass") => {
                ImmutableOutcome::Recreates
            }
            _ => ImmutableOutcome::Fails,
        };
        let is_driver = (write, kind) == (AgentWrite::Update, "CSIDriver");
        let is_other_driver = || is_driver && before.get("spec") != after.get("spec");
        // The agent creates a CSIDriver again for any other spec.
        let field = changed.next().or_else(|| is_other_driver().then(|| "spec".into()))?;
        let advice =
            (outcome == ImmutableOutcome::Fails).then(|| advice::advice(group, kind, &field));
        Some(Self { field: field.into_owned(), outcome, advice })
    }

    /// As [`Self::between`], of an object that stays in its work. `work` is the work afterwards.
    /// `None` also if its agent does not write the object, or leaves the field as it is.
    pub fn in_work(work: &WorkSpec, before: &Value, after: &Value) -> Option<Self> {
        let object = kinds::guessed_identity(after);
        let write = work.agent_write(&object)?;
        match work.ignored_fields(&object) {
            [] => Self::between(before, after, write),
            ignored => {
                let rules: Vec<IgnoreField> =
                    ignored.iter().map(IgnoreField::deserialize).collect::<Result<_, _>>().ok()?;
                let mut work = JQ_WORK_MAX;
                let mut without = |manifest: &Value| {
                    let mut delete =
                        |expression: &str, value| jq::delete_within(expression, value, &mut work);
                    ignored_fields::without(manifest.clone(), &rules, &mut delete).ok()
                };
                Self::between(&without(before)?, &without(after)?, write)
            }
        }
    }

    /// What happens, why, and what to do.
    pub fn words(&self) -> String {
        let Self { field, outcome, advice } = self;
        match outcome {
            ImmutableOutcome::Recreates => {
                format!("its agent deletes it and creates it again: {field} cannot change")
            }
            ImmutableOutcome::Fails => {
                let advice = advice.map_or_else(String::new, |advice| format!("; {advice}"));
                format!(
                    "must be recreated: {field} cannot change, so its agent cannot apply it{advice}"
                )
            }
        }
    }
}

fn group_and_kind(manifest: &Value) -> (&str, &str) {
    let text = |field| manifest.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    (group, text("kind"))
}

/// API group, kind and field of every rule, with the agent's `ServerSideApply`.
pub fn all_fields() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    rules::KINDS.iter().flat_map(|(group, kinds, rules)| {
        kinds.iter().flat_map(move |kind| rules.iter().map(move |rule| (*group, *kind, rule.field)))
    })
}
