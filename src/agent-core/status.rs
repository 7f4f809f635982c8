//! A ManifestWork's status: the old one, updated with the outcomes and observations of a pass.

use gitwork_api::work::{ManifestCondition, ManifestResourceMeta, ManifestWorkStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use super::condition::{
    self, APPLIED, AVAILABLE, COMPLETE, FEEDBACK_SYNCED, NewCondition, PROGRESSING,
};
use super::feedback::EvaluatedFeedback;
use super::object::Object;
use super::work::is_same_object;

/// Conditions with such a reason come from condition rules.
const RULE_REASON: &str = "ConditionRule";

/// The manifests' part of a status.
pub fn manifests(status: &ManifestWorkStatus) -> &[ManifestCondition] {
    status.resource_status.as_ref().map_or(&[], |all| &all.manifests)
}

/// The status as the agent writes it in a merge patch. Empty lists are explicit, or the patch
/// would leave the old ones; other empty fields are explicit as OCM's agent writes them.
pub fn status_patch(status: &ManifestWorkStatus) -> Value {
    let mut manifests = serde_json::json!(manifests(status));
    for manifest in manifests.as_array_mut().into_iter().flatten() {
        if let Value::Object(fields) = manifest {
            fields.entry("statusFeedback").or_insert_with(|| Value::Object(Object::new()));
        }
        if let Some(Value::Object(meta)) = manifest.get_mut("resourceMeta") {
            for field in ["group", "version", "kind", "resource", "name", "namespace"] {
                meta.entry(field).or_insert_with(|| "".into());
            }
        }
    }
    serde_json::json!({
        "conditions": status.conditions,
        "resourceStatus": {"manifests": manifests},
    })
}

/// The outcome of applying one manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyOutcome {
    /// The object is as the manifest says.
    Complete {
        /// A warning that another client keeps changing the object.
        note: Option<String>,
    },
    /// The manifest is not applied, for this reason.
    Failed(String),
    /// The ignored fields could not be removed.
    IgnoreFieldsFailed(String),
}

impl ApplyOutcome {
    /// Whether the manifest is applied.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete { .. })
    }

    fn finding(&self) -> NewCondition {
        match self {
            Self::Complete { note } => NewCondition::new(
                APPLIED,
                "True",
                "AppliedManifestComplete",
                match note {
                    Some(note) => format!("Apply manifest complete; {note}"),
                    None => "Apply manifest complete".into(),
                },
            ),
            Self::Failed(error) => NewCondition::new(
                APPLIED,
                "False",
                "AppliedManifestFailed",
                format!("Failed to apply manifest: {error}"),
            ),
            Self::IgnoreFieldsFailed(error) => NewCondition::new(
                APPLIED,
                "False",
                "AppliedManifestSSAIgnoreFieldError",
                format!("Failed to process ignoreFields: {error}"),
            ),
        }
    }
}

/// The observed state of one live object.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// The object exists.
    Available {
        /// The values that the feedback rules select.
        feedback: EvaluatedFeedback,
        /// The conditions that the condition rules derive.
        rules: Vec<NewCondition>,
    },
    /// The object does not exist.
    Absent,
    /// The object could not be read.
    Failed(String),
    /// It has no resource, version or name to be asked for by.
    Incomplete,
}

/// Folds the outcomes of applying, one for each manifest in the work's order, into a status.
pub fn record_apply_outcomes(
    status: &mut ManifestWorkStatus,
    generation: i64,
    outcomes: &[(ManifestResourceMeta, ApplyOutcome)],
    now: Timestamp,
) {
    let all = status.resource_status.get_or_insert_default();
    let old = std::mem::take(&mut all.manifests);
    all.manifests = outcomes
        .iter()
        .map(|(meta, applied)| manifest_status(&old, meta, applied, generation, now))
        .collect();
    if outcomes.is_empty() {
        return;
    }
    let finding = if outcomes.iter().all(|(_, applied)| applied.is_complete()) {
        NewCondition::new(
            APPLIED,
            "True",
            "AppliedManifestWorkComplete",
            "Apply manifest work complete",
        )
    } else {
        NewCondition::new(
            APPLIED,
            "False",
            "AppliedManifestWorkFailed",
            "Failed to apply manifest work",
        )
    };
    condition::set(&mut status.conditions, finding.at(generation), now);
}

fn manifest_status(
    old: &[ManifestCondition],
    meta: &ManifestResourceMeta,
    applied: &ApplyOutcome,
    generation: i64,
    now: Timestamp,
) -> ManifestCondition {
    let mut status = previous_status(old, meta).cloned().unwrap_or_default();
    status.resource_meta = meta.clone();
    // A condition about another generation is replaced, at the end of the list and with a new time
    // (OCM 1.2).
    status.conditions.retain(|one| one.type_ != APPLIED || is_about(one, generation));
    condition::set(&mut status.conditions, applied.finding().at(generation), now);
    status
}

/// The former status of a manifest: of the same ordinal, or of the only one of that name.
pub fn previous_status<'a>(
    old: &'a [ManifestCondition],
    meta: &ManifestResourceMeta,
) -> Option<&'a ManifestCondition> {
    let mut same_object = old.iter().filter(|one| is_same_object(&one.resource_meta, meta));
    let at_same_position =
        same_object.clone().find(|one| one.resource_meta.ordinal == meta.ordinal);
    if at_same_position.is_some() {
        return at_same_position;
    }
    let found = same_object.next()?;
    same_object.next().is_none().then_some(found)
}

/// Whether a manifest has done what it is for and is not applied any more.
pub fn is_complete(status: &ManifestWorkStatus, meta: &ManifestResourceMeta) -> bool {
    manifests(status)
        .iter()
        .find(|one| is_same_object(&one.resource_meta, meta))
        .is_some_and(|one| condition::is_true(&one.conditions, COMPLETE))
}

/// Records what was observed of live objects in the list of a status: pairs of an ordinal and an
/// observation.
pub fn record_observations(
    status: &mut ManifestWorkStatus,
    generation: i64,
    seen: impl IntoIterator<Item = (usize, Observation)>,
    now: Timestamp,
) {
    for (ordinal, seen) in seen {
        let all = status.resource_status.as_mut();
        if let Some(manifest) = all.and_then(|all| all.manifests.get_mut(ordinal)) {
            fold_one(manifest, generation, seen, now);
        }
    }
    aggregate(status, generation, now);
}

fn fold_one(manifest: &mut ManifestCondition, generation: i64, seen: Observation, now: Timestamp) {
    let finding = match &seen {
        Observation::Available { .. } => {
            NewCondition::new(AVAILABLE, "True", "ResourceAvailable", "Resource is available")
        }
        Observation::Absent => NewCondition::new(
            AVAILABLE,
            "False",
            "ResourceNotAvailable",
            "Resource is not available",
        ),
        Observation::Failed(error) => NewCondition::new(
            AVAILABLE,
            "Unknown",
            "FetchingResourceFailed",
            format!("Failed to fetch resource: {error}"),
        ),
        Observation::Incomplete => NewCondition::new(
            AVAILABLE,
            "Unknown",
            "IncompleteResourceMeta",
            "Resource meta is incomplete",
        ),
    };
    // OCM's agent leaves the generation out. With it, a reader of the status knows that the object
    // was read after the manifest was applied at that generation.
    let is_read = matches!(seen, Observation::Available { .. } | Observation::Absent);
    let applied = condition::find(&manifest.conditions, APPLIED);
    let observed_generation = applied.and_then(|applied| applied.observed_generation);
    let observed_generation = observed_generation.filter(|_| is_read);
    let finding = NewCondition { observed_generation, ..finding };
    condition::set(&mut manifest.conditions, finding, now);
    // Without the object, what was known of it stays.
    let Observation::Available { feedback, rules } = seen else { return };
    let known = manifest.status_feedback.get_or_insert_default();
    if known.values != feedback.values {
        manifest.conditions.retain(|one| one.type_ != FEEDBACK_SYNCED);
        known.values = feedback.values;
    }
    condition::set(&mut manifest.conditions, feedback.synced, now);
    for finding in rules {
        condition::set(&mut manifest.conditions, finding.at(generation), now);
    }
    drop_outdated_rules(&mut manifest.conditions, generation);
}

/// A condition without a generation counts as about generation 0.
fn is_about(condition: &Condition, generation: i64) -> bool {
    condition.observed_generation.unwrap_or_default() == generation
}

fn is_of_rule(condition: &Condition) -> bool {
    condition.reason.starts_with(RULE_REASON)
}

fn drop_outdated_rules(conditions: &mut Vec<Condition>, generation: i64) {
    conditions.retain(|one| !is_of_rule(one) || is_about(one, generation));
}

/// What the manifests' conditions come to for the work.
fn aggregate(status: &mut ManifestWorkStatus, generation: i64, now: Timestamp) {
    let manifests = manifests(status);
    let mut findings = vec![available(manifests)];
    let mut kinds: Vec<&str> = manifests
        .iter()
        .flat_map(|manifest| &manifest.conditions)
        .filter(|condition| is_of_rule(condition) && condition.type_ != AVAILABLE)
        .map(|condition| condition.type_.as_str())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    findings.extend(kinds.into_iter().map(|kind| of_rules(manifests, kind)));
    findings.sort_by(|one, other| one.kind.cmp(&other.kind));
    for finding in findings {
        condition::set(&mut status.conditions, finding.at(generation), now);
    }
    drop_outdated_rules(&mut status.conditions, generation);
}

fn available(manifests: &[ManifestCondition]) -> NewCondition {
    let count = |wanted: &str| {
        let of = |one: &ManifestCondition| {
            condition::find(&one.conditions, AVAILABLE).is_some_and(|c| c.status == wanted)
        };
        manifests.iter().filter(|one| of(one)).count()
    };
    let total = ["True", "False", "Unknown"].map(count).iter().sum::<usize>();
    match (count("False"), count("Unknown"), count("True")) {
        (0, 0, 0) => NewCondition::new(
            AVAILABLE,
            "Unknown",
            "ResourcesStatusUnknown",
            // The space at the end is upstream's.
            "cannot get any available resource ",
        ),
        (0, 0, _) => NewCondition::new(
            AVAILABLE,
            "True",
            "ResourcesAvailable",
            "All resources are available",
        ),
        (0, unknown, _) => NewCondition::new(
            AVAILABLE,
            "Unknown",
            "ResourcesStatusUnknown",
            format!("{unknown} of {total} resources have unknown status"),
        ),
        (missing, _, _) => NewCondition::new(
            AVAILABLE,
            "False",
            "ResourcesNotAvailable",
            format!("{missing} of {total} resources are not available"),
        ),
    }
}

fn of_rules(manifests: &[ManifestCondition], kind: &str) -> NewCondition {
    let contributing: Vec<&Condition> = manifests
        .iter()
        .flat_map(|manifest| &manifest.conditions)
        .filter(|condition| is_of_rule(condition) && condition.type_ == kind)
        .collect();
    // One that is still progressing makes the work progress; otherwise one that is not there yet
    // counts.
    let order = if kind == PROGRESSING {
        ["True", "Unknown", "False"]
    } else {
        ["False", "Unknown", "True"]
    };
    let status = order
        .into_iter()
        .find(|status| contributing.iter().any(|condition| condition.status == *status))
        .unwrap_or("Unknown");
    let message = match contributing.as_slice() {
        [one] if !one.message.is_empty() => one.message.clone(),
        several => format!("Aggregated from {} manifest conditions", several.len()),
    };
    NewCondition::new(kind, status, "ConditionRulesAggregated", message)
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
