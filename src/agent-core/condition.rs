//! Conditions, set as `meta.SetStatusCondition` of Kubernetes' apimachinery does.

use gitwork_api::truncate::truncate_chars;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

// Types of conditions that the agent sets, on a work or on one of its manifests.
/// The manifests are applied.
pub const APPLIED: &str = "Applied";
/// The objects exist on the cluster.
pub const AVAILABLE: &str = "Available";
/// From a condition rule: work is under way.
pub const PROGRESSING: &str = "Progressing";
/// From a condition rule: the work has done its job and is not applied any more.
pub const COMPLETE: &str = "Complete";
/// The work is being deleted.
pub const DELETING: &str = "Deleting";
/// Whether the feedback values could be read.
pub const FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";

/// The CRD's bound, in characters.
const MESSAGE_CHARS_MAX: usize = 32_768;

/// A condition to set. [`set`] adds the transition time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCondition {
    /// The condition's type.
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// A CamelCase word for programs.
    pub reason: &'static str,
    /// Details for people, at most 32,768 characters.
    pub message: String,
    /// The `metadata.generation` that the condition is about, if it is about one.
    pub observed_generation: Option<i64>,
}

impl NewCondition {
    /// A condition about no particular generation. Cuts a message that is too long for the CRD.
    pub fn new(
        kind: &str,
        status: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let message = truncate_chars(&message.into(), MESSAGE_CHARS_MAX).into_owned();
        Self { kind: kind.into(), status, reason, message, observed_generation: None }
    }

    /// The same condition about one generation of the work.
    pub fn at(self, generation: i64) -> Self {
        Self { observed_generation: Some(generation), ..self }
    }
}

/// A time as the Kubernetes API has it: in whole seconds.
pub fn api_time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Whether an API server accepts the name as the type of a condition.
pub fn is_condition_type(name: &str) -> bool {
    let (prefix, name) = name.rsplit_once('/').map_or((None, name), |(p, n)| (Some(p), n));
    let edge = |c: char| c.is_ascii_alphanumeric();
    let name_is_fine = name.starts_with(edge)
        && name.ends_with(edge)
        && name.chars().all(|c| edge(c) || matches!(c, '-' | '_' | '.'));
    let label = |label: &str| {
        let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        label.starts_with(small)
            && label.ends_with(small)
            && label.chars().all(|c| small(c) || c == '-')
    };
    name_is_fine
        && name.len() <= 63
        && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(label))
}

/// Sets a condition. A condition of the same type keeps its position, and its transition time
/// unless its status changes.
pub fn set(conditions: &mut Vec<Condition>, finding: NewCondition, now: Timestamp) {
    let NewCondition { kind, status, reason, message, observed_generation } = finding;
    match conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(condition) => {
            if condition.status != status {
                condition.last_transition_time = api_time(now);
                status.clone_into(&mut condition.status);
            }
            reason.clone_into(&mut condition.reason);
            condition.message = message;
            condition.observed_generation = observed_generation;
        }
        None => conditions.push(Condition {
            type_: kind,
            status: status.into(),
            observed_generation,
            last_transition_time: api_time(now),
            reason: reason.into(),
            message,
        }),
    }
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of a type is there and `True`.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_transition_time_moves_with_the_status_only() {
        let mut conditions = Vec::new();
        let (early, late) = (time("2026-01-01T00:00:00.7Z"), time("2026-01-01T00:01:00Z"));
        set(&mut conditions, NewCondition::new("A", "True", "R", "m").at(1), early);
        set(&mut conditions, NewCondition::new("A", "True", "S", "n").at(2), late);
        assert_eq!(conditions[0].last_transition_time.0, time("2026-01-01T00:00:00Z"));
        assert_eq!(
            (conditions[0].reason.as_str(), conditions[0].observed_generation),
            ("S", Some(2))
        );
        set(&mut conditions, NewCondition::new("A", "False", "S", "n"), late);
        assert_eq!(conditions[0].last_transition_time.0, time("2026-01-01T00:01:00Z"));
        assert_eq!(
            serde_json::to_value(&conditions[0]).unwrap(),
            serde_json::json!({"type": "A", "status": "False", "reason": "S", "message": "n",
                "lastTransitionTime": "2026-01-01T00:01:00Z"})
        );
    }

    #[test]
    fn types() {
        for (name, fine) in [
            ("Complete", true),
            ("example.com/My_Type", true),
            ("has space", false),
            ("", false),
            ("-a", false),
            ("Example.com/a", false),
            ("/a", false),
        ] {
            assert_eq!(is_condition_type(name), fine, "{name}");
        }
    }

    #[test]
    fn messages_fit_the_crd() {
        assert_eq!(
            NewCondition::new("A", "True", "R", "ä".repeat(40_000)).message.chars().count(),
            MESSAGE_CHARS_MAX
        );
    }
}
