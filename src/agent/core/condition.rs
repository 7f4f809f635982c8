//! Conditions, as `meta.SetStatusCondition` of Kubernetes' apimachinery treats them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub const APPLIED: &str = "Applied";
pub const AVAILABLE: &str = "Available";
pub const PROGRESSING: &str = "Progressing";
pub const COMPLETE: &str = "Complete";
pub const DELETING: &str = "Deleting";
pub const FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";

/// The CRD's bound, in characters.
const MESSAGE_CHARS_MAX: usize = 32_768;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    pub last_transition_time: String,
    pub reason: String,
    pub message: String,
}

fn is_zero(generation: &i64) -> bool {
    *generation == 0
}

/// A condition before it is known when it came to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: String,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
    /// 0: not said.
    pub observed_generation: i64,
}

impl Finding {
    pub fn new(
        kind: &str,
        status: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let message = bounded(message.into());
        Self { kind: kind.into(), status, reason, message, observed_generation: 0 }
    }
    pub fn at(self, generation: i64) -> Self {
        Self { observed_generation: generation, ..self }
    }
}

fn bounded(message: String) -> String {
    if message.len() <= MESSAGE_CHARS_MAX {
        return message;
    }
    message.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// The form that the API has times in: whole seconds, UTC.
pub fn api_time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Whether an API server would take the name for a condition's type.
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

/// Sets a condition: in place where its type is there, and with a new time only where the status changes.
pub fn set(conditions: &mut Vec<Condition>, finding: Finding, now: Timestamp) {
    let Finding { kind, status, reason, message, observed_generation } = finding;
    match conditions.iter_mut().find(|condition| condition.kind == kind) {
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
            kind,
            status: status.into(),
            observed_generation,
            last_transition_time: api_time(now),
            reason: reason.into(),
            message,
        }),
    }
}

pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}

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
        set(&mut conditions, Finding::new("A", "True", "R", "m").at(1), early);
        set(&mut conditions, Finding::new("A", "True", "S", "n").at(2), late);
        assert_eq!(conditions[0].last_transition_time, "2026-01-01T00:00:00Z");
        assert_eq!((conditions[0].reason.as_str(), conditions[0].observed_generation), ("S", 2));
        set(&mut conditions, Finding::new("A", "False", "S", "n"), late);
        assert_eq!(conditions[0].last_transition_time, "2026-01-01T00:01:00Z");
        assert_eq!(
            serde_json::to_string(&conditions[0]).unwrap(),
            r#"{"type":"A","status":"False","lastTransitionTime":"2026-01-01T00:01:00Z","reason":"S","message":"n"}"#
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
            Finding::new("A", "True", "R", "ä".repeat(40_000)).message.chars().count(),
            MESSAGE_CHARS_MAX
        );
    }
}
