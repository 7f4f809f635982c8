//! A ManifestWork's status: what was there, with the outcomes of a pass folded in.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::condition::{
    self, APPLIED, AVAILABLE, COMPLETE, Condition, FEEDBACK_SYNCED, Finding, PROGRESSING,
};
use super::feedback::{Feedback, FeedbackValue};
use super::work::ResourceMeta;

/// Conditions with such a reason come from condition rules.
const RULE_REASON: &str = "ConditionRule";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkStatus {
    pub conditions: Vec<Condition>,
    pub resource_status: ResourceStatus,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceStatus {
    pub manifests: Vec<ManifestStatus>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManifestStatus {
    pub resource_meta: ResourceMeta,
    pub status_feedback: StatusFeedback,
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusFeedback {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeedbackValue>,
}

/// How applying one manifest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// With what there is to say about a fight over the object.
    Complete {
        note: Option<String>,
    },
    Failed(String),
    /// The ignored fields could not be taken out.
    IgnoreFieldsFailed(String),
}

impl Applied {
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete { .. })
    }

    fn finding(&self) -> Finding {
        match self {
            Self::Complete { note } => Finding::new(
                APPLIED,
                "True",
                "AppliedManifestComplete",
                match note {
                    Some(note) => format!("Apply manifest complete; {note}"),
                    None => "Apply manifest complete".into(),
                },
            ),
            Self::Failed(error) => Finding::new(
                APPLIED,
                "False",
                "AppliedManifestFailed",
                format!("Failed to apply manifest: {error}"),
            ),
            Self::IgnoreFieldsFailed(error) => Finding::new(
                APPLIED,
                "False",
                "AppliedManifestSSAIgnoreFieldError",
                format!("Failed to process ignoreFields: {error}"),
            ),
        }
    }
}

/// What was seen of one live object.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    Available {
        feedback: Feedback,
        rules: Vec<Finding>,
    },
    Absent,
    /// The object could not be read.
    Failed(String),
    /// It has no resource, version or name to be asked for by.
    Incomplete,
}

/// Folds the outcomes of applying, one for each manifest in the work's order, into a status.
pub fn fold_applied(
    status: &mut WorkStatus,
    generation: i64,
    outcomes: &[(ResourceMeta, Applied)],
    now: Timestamp,
) {
    let old = std::mem::take(&mut status.resource_status.manifests);
    status.resource_status.manifests = outcomes
        .iter()
        .map(|(meta, applied)| manifest_status(&old, meta, applied, generation, now))
        .collect();
    if outcomes.is_empty() {
        return;
    }
    let finding = if outcomes.iter().all(|(_, applied)| applied.is_complete()) {
        Finding::new(APPLIED, "True", "AppliedManifestWorkComplete", "Apply manifest work complete")
    } else {
        Finding::new(APPLIED, "False", "AppliedManifestWorkFailed", "Failed to apply manifest work")
    };
    condition::set(&mut status.conditions, finding.at(generation), now);
}

fn manifest_status(
    old: &[ManifestStatus],
    meta: &ResourceMeta,
    applied: &Applied,
    generation: i64,
    now: Timestamp,
) -> ManifestStatus {
    let mut status = former(old, meta).cloned().unwrap_or_default();
    status.resource_meta = meta.clone();
    // Of another generation: it is made anew, at the end of the list and with a new time (OCM 1.2).
    status.conditions.retain(|one| one.kind != APPLIED || one.observed_generation == generation);
    condition::set(&mut status.conditions, applied.finding().at(generation), now);
    status
}

/// The former status of a manifest: of the same place, or of the only one of that name.
pub fn former<'a>(old: &'a [ManifestStatus], meta: &ResourceMeta) -> Option<&'a ManifestStatus> {
    if let Some(same) = old.iter().find(|one| one.resource_meta == *meta) {
        return Some(same);
    }
    let mut same_object = old.iter().filter(|one| one.resource_meta.same_object(meta));
    let found = same_object.next()?;
    same_object.next().is_none().then_some(found)
}

/// Whether a manifest has done what it is for and is not applied any more.
pub fn is_complete(status: &WorkStatus, meta: &ResourceMeta) -> bool {
    let manifests = &status.resource_status.manifests;
    manifests
        .iter()
        .find(|one| one.resource_meta.same_object(meta))
        .is_some_and(|one| condition::is_true(&one.conditions, COMPLETE))
}

/// Folds what was seen of live objects into the list of a status: pairs of a place in the list and a finding.
pub fn fold_seen(
    status: &mut WorkStatus,
    generation: i64,
    seen: impl IntoIterator<Item = (usize, Seen)>,
    now: Timestamp,
) {
    for (place, seen) in seen {
        if let Some(manifest) = status.resource_status.manifests.get_mut(place) {
            fold_one(manifest, generation, seen, now);
        }
    }
    aggregate(status, generation, now);
}

fn fold_one(manifest: &mut ManifestStatus, generation: i64, seen: Seen, now: Timestamp) {
    let finding = match &seen {
        Seen::Available { .. } => {
            Finding::new(AVAILABLE, "True", "ResourceAvailable", "Resource is available")
        }
        Seen::Absent => {
            Finding::new(AVAILABLE, "False", "ResourceNotAvailable", "Resource is not available")
        }
        Seen::Failed(error) => Finding::new(
            AVAILABLE,
            "Unknown",
            "FetchingResourceFailed",
            format!("Failed to fetch resource: {error}"),
        ),
        Seen::Incomplete => Finding::new(
            AVAILABLE,
            "Unknown",
            "IncompleteResourceMeta",
            "Resource meta is incomplete",
        ),
    };
    condition::set(&mut manifest.conditions, finding, now);
    // Without the object, what was known of it stays.
    let Seen::Available { feedback, rules } = seen else { return };
    if manifest.status_feedback.values != feedback.values {
        manifest.conditions.retain(|one| one.kind != FEEDBACK_SYNCED);
        manifest.status_feedback.values = feedback.values;
    }
    condition::set(&mut manifest.conditions, feedback.synced, now);
    for finding in rules {
        condition::set(&mut manifest.conditions, finding.at(generation), now);
    }
    drop_outdated_rules(&mut manifest.conditions, generation);
}

fn is_of_rule(condition: &Condition) -> bool {
    condition.reason.starts_with(RULE_REASON)
}

fn drop_outdated_rules(conditions: &mut Vec<Condition>, generation: i64) {
    conditions.retain(|one| !is_of_rule(one) || one.observed_generation == generation);
}

/// What the manifests' conditions come to for the work.
fn aggregate(status: &mut WorkStatus, generation: i64, now: Timestamp) {
    let manifests = &status.resource_status.manifests;
    let mut findings = vec![available(manifests)];
    let mut kinds: Vec<&str> = manifests
        .iter()
        .flat_map(|manifest| &manifest.conditions)
        .filter(|condition| is_of_rule(condition) && condition.kind != AVAILABLE)
        .map(|condition| condition.kind.as_str())
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

fn available(manifests: &[ManifestStatus]) -> Finding {
    let count = |wanted: &str| {
        let of = |one: &ManifestStatus| {
            condition::find(&one.conditions, AVAILABLE).is_some_and(|c| c.status == wanted)
        };
        manifests.iter().filter(|one| of(one)).count()
    };
    let total = ["True", "False", "Unknown"].map(count).iter().sum::<usize>();
    match (count("False"), count("Unknown"), count("True")) {
        (0, 0, 0) => Finding::new(
            AVAILABLE,
            "Unknown",
            "ResourcesStatusUnknown",
            // The space at the end is upstream's.
            "cannot get any available resource ",
        ),
        (0, 0, _) => {
            Finding::new(AVAILABLE, "True", "ResourcesAvailable", "All resources are available")
        }
        (0, unknown, _) => Finding::new(
            AVAILABLE,
            "Unknown",
            "ResourcesStatusUnknown",
            format!("{unknown} of {total} resources have unknown status"),
        ),
        (missing, _, _) => Finding::new(
            AVAILABLE,
            "False",
            "ResourcesNotAvailable",
            format!("{missing} of {total} resources are not available"),
        ),
    }
}

fn of_rules(manifests: &[ManifestStatus], kind: &str) -> Finding {
    let contributing: Vec<&Condition> = manifests
        .iter()
        .flat_map(|manifest| &manifest.conditions)
        .filter(|condition| is_of_rule(condition) && condition.kind == kind)
        .collect();
    // One that is still progressing makes the work progress; otherwise one that is not there yet counts.
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
    Finding::new(kind, status, "ConditionRulesAggregated", message)
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
