//! The fields that differ, as values.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The fields in which two values differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct FieldDiff {
    /// In the order of the fields' names, list items in the list's; at most
    /// `limits::DIFF_FIELDS_MAX`.
    pub changes: Vec<FieldChange>,
    /// Changes past `limits::DIFF_FIELDS_MAX`: counted, not kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

impl FieldDiff {
    /// Whether the values are equal.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.left_out == 0
    }
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct FieldChange {
    /// As in `spec.template.spec.containers[name=web].image`; empty for the value as a whole.
    pub path: String,
    /// How it differs.
    #[serde(flatten)]
    pub change: ChangeKind,
}

/// How a field differs. Values are cut to `limits::DIFF_VALUE_BYTES_MAX`; what a Secret holds is
/// not in them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(tag = "change", rename_all = "camelCase")]
pub enum ChangeKind {
    /// The field is new.
    Added {
        /// The new value.
        after: Value,
    },
    /// The field is gone.
    Removed {
        /// The former value.
        before: Value,
    },
    /// The field has another value.
    Changed {
        /// The former value.
        before: Value,
        /// The new value.
        after: Value,
    },
    /// A text of several lines, as the lines of a unified diff.
    Text {
        /// Hunk headers, and lines that begin with `+`, `-` or a blank; at most
        /// `limits::DIFF_LINES_MAX`, and one that counts the rest.
        lines: Vec<String>,
    },
    /// The same items in another order.
    Reordered,
    /// A value of a Secret: it was not there before.
    SecretAdded,
    /// A value of a Secret: it is no longer there.
    SecretRemoved,
    /// A value of a Secret: it differs.
    SecretChanged,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
