//! The state of a work, read from the conditions that its cluster's agent reports. Pure.

use std::fmt;

use gitwork_api::truncate::truncate_chars;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// What becomes of a work. A condition counts only where its `observedGeneration` is the work's
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The agent failed to apply a manifest.
    Failed,
    /// The agent reports the condition Degraded.
    Degraded,
    /// Its files in Git cannot be read: the work is kept as it was.
    Frozen,
    /// A change that Git asks for waits for somebody's word.
    Held,
    /// The work is being deleted.
    Deleting,
    /// The agent has not yet acted on what the hub has.
    Pending,
    /// The agent reports the condition Progressing.
    Progressing,
    /// Suspended in Git: nothing is written, as was asked for.
    Suspended,
    /// All manifests are applied; not all of their objects are known to be there.
    Applied,
    /// All objects are there, as the agent sees it.
    Available,
    /// The condition Complete is True.
    Complete,
}

impl State {
    /// Every state, the worst first.
    pub const ALL: [State; 11] = [
        State::Failed,
        State::Degraded,
        State::Frozen,
        State::Held,
        State::Deleting,
        State::Pending,
        State::Progressing,
        State::Suspended,
        State::Applied,
        State::Available,
        State::Complete,
    ];
    /// The word that tables, metrics and status files have, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Failed => "failed",
            State::Degraded => "degraded",
            State::Frozen => "frozen",
            State::Held => "held",
            State::Deleting => "deleting",
            State::Pending => "pending",
            State::Progressing => "progressing",
            State::Suspended => "suspended",
            State::Applied => "applied",
            State::Available => "available",
            State::Complete => "complete",
        }
    }
    /// The cluster has taken the work.
    pub fn is_applied(self) -> bool {
        matches!(self, State::Applied | State::Available | State::Complete)
    }
    /// A user must fix something first.
    pub fn is_failure(self) -> bool {
        matches!(self, State::Failed | State::Degraded | State::Frozen)
    }
    /// It is on its way, or waits for somebody.
    pub fn is_open(self) -> bool {
        matches!(self, State::Held | State::Deleting | State::Pending | State::Progressing)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Text of a cluster is shown up to this many characters.
pub const MESSAGE_CHARS_MAX: usize = 1_000;

/// The text at a JSON pointer.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// The conditions of a work or of one of its manifests. An agent may write anything into them: what
/// is no condition counts as none.
pub struct Conditions<'a> {
    /// As they are in the status.
    pub all: &'a [Value],
    generation: Option<i64>,
}

impl<'a> Conditions<'a> {
    /// The conditions of a status. `generation`: that of the work; `None` for a manifest.
    pub fn of(status: Option<&'a Value>, generation: Option<i64>) -> Self {
        let all = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
        Self { all: all.map_or(&[], Vec::as_slice), generation }
    }

    /// The condition, where it is about the present generation.
    pub fn get(&self, kind: &str) -> Option<&'a Value> {
        self.all.iter().find(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(kind)
                && (self.generation.is_none()
                    || condition.get("observedGeneration").and_then(Value::as_i64)
                        == self.generation)
        })
    }

    /// The condition if it has this status.
    pub fn is(&self, kind: &str, status: &str) -> Option<&'a Value> {
        let is_status =
            |condition: &&Value| condition.get("status").and_then(Value::as_str) == Some(status);
        self.get(kind).filter(is_status)
    }
}

/// What the conditions make of a work or manifest, and the one that says so.
pub fn judge<'a>(conditions: &Conditions<'a>) -> (State, Option<&'a Value>) {
    if let Some(failed) = conditions.is("Applied", "False") {
        return (State::Failed, Some(failed));
    }
    let Some(applied) = conditions.is("Applied", "True") else {
        return (State::Pending, conditions.get("Applied"));
    };
    let known = [
        ("Degraded", "True", State::Degraded),
        ("Complete", "True", State::Complete),
        ("Progressing", "True", State::Progressing),
        ("Available", "False", State::Progressing),
        ("Available", "True", State::Available),
    ];
    for (kind, status, state) in known {
        if let Some(condition) = conditions.is(kind, status) {
            return (state, Some(condition));
        }
    }
    (State::Applied, Some(applied))
}

/// The first manifest that the agent could not apply, with its message.
pub fn first_failure(manifests: &[Value]) -> Option<String> {
    manifests.iter().find_map(|manifest| {
        let failed = Conditions::of(Some(manifest), None).is("Applied", "False")?;
        let text = format!("{}: {}", object_name(manifest), condition_message(manifest, failed));
        Some(truncate_chars(&text, MESSAGE_CHARS_MAX).into_owned())
    })
}

/// `Deployment shop/web`, of one entry of `status.resourceStatus.manifests`.
pub(crate) fn object_name(manifest: &Value) -> String {
    let name = |field: &str| text(manifest, &format!("/resourceMeta/{field}")).unwrap_or_default();
    let namespace = name("namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{}", name("kind"), name("name"))
}

/// Whether the entry of a manifest is about a Secret.
pub fn is_secret(manifest: &Value) -> bool {
    let meta = |field: &str| text(manifest, &format!("/resourceMeta/{field}"));
    meta("kind") == Some("Secret") || meta("resource") == Some("secrets")
}

/// A condition's message. An API server may quote a Secret's data in what it says of one, so that
/// is not shown.
pub fn condition_message<'a>(manifest: &Value, condition: &'a Value) -> &'a str {
    if is_secret(manifest) {
        "what was said of this Secret is not shown, as it may quote its data"
    } else {
        text(condition, "/message").unwrap_or_default()
    }
}
