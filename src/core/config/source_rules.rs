//! The rules of a repository that judge its next commit. Pure.

use serde::{Deserialize, Serialize};

use crate::config::Budgets;
use crate::config::window::ChangeWindows;

/// Deletion budgets and change windows of one `gitwork.yaml`. A commit cannot loosen the rules that
/// judge it: those of the last commit that left nothing held count, too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceRules {
    /// How many works one plan may delete.
    pub budgets: Budgets,
    /// When changes may be made.
    pub windows: ChangeWindows,
}
