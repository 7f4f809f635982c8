//! One word for what a plan does with a work.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::effect::Effect;
use crate::plan::reason::Reason;

/// What a plan does with a work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Create the work.
    Create,
    /// Write new content.
    Update,
    /// Write content to a work of another owner.
    Adopt,
    /// Write the deleteOption ahead of a deletion.
    SetDeleteOption,
    /// Delete the work.
    Delete,
    /// Remove gitwork's labels and annotations.
    Release,
    /// Nothing now; something later without anybody's action.
    Wait,
    /// Nothing until somebody acts.
    Hold,
    /// Nothing: the hub has the work as Git wants it.
    Keep,
}

impl Action {
    /// Every action.
    pub const ALL: [Action; 9] = [
        Self::Create,
        Self::Update,
        Self::Adopt,
        Self::SetDeleteOption,
        Self::Delete,
        Self::Release,
        Self::Wait,
        Self::Hold,
        Self::Keep,
    ];

    /// The action of a step.
    pub fn of(effect: Option<&Effect>, reason: &Reason) -> Self {
        match effect {
            Some(effect) => Self::of_effect(effect),
            None => match reason {
                Reason::WaitingForAgent { .. }
                | Reason::WaitingToRelease { .. }
                | Reason::SharesObjects { complete: false, .. }
                | Reason::WaitsForWork { .. }
                | Reason::BeingDeleted { .. }
                | Reason::BackedOff { .. }
                | Reason::ReplicaSetGives { .. }
                | Reason::UnreadReplicaSet
                | Reason::WaitsForWave { .. } => Self::Wait,
                Reason::MovesObjects { moves }
                    if !moves.iter().any(|one| one.progress.is_held()) =>
                {
                    Self::Wait
                }
                Reason::UpToDate => Self::Keep,
                _ => Self::Hold,
            },
        }
    }

    fn of_effect(effect: &Effect) -> Self {
        match effect {
            Effect::Create { .. } => Self::Create,
            Effect::Update { .. } => Self::Update,
            Effect::Adopt { .. } => Self::Adopt,
            Effect::SetDeleteOption { .. } => Self::SetDeleteOption,
            Effect::Delete { .. } => Self::Delete,
            Effect::Release { .. } => Self::Release,
        }
    }

    /// The word for it in JSON, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Adopt => "adopt",
            Self::SetDeleteOption => "set-delete-option",
            Self::Delete => "delete",
            Self::Release => "release",
            Self::Wait => "wait",
            Self::Hold => "hold",
            Self::Keep => "keep",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Effect {
    /// The word for it in metrics and logs.
    pub fn name(&self) -> &'static str {
        Action::of_effect(self).as_str()
    }
}
