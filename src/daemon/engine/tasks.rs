//! The due effects of a plan, each with the commit that its work gets as the last change.

use std::collections::BTreeSet;
use std::time::Instant;

use super::error::EngineError;
use super::git_history;
use super::source_access::SourceAccess;
use gitwork_core::plan::{Plan, Reason};
use gitwork_core::render::desired::Desired;
use gitwork_hub::execute::Task;
use gitwork_sync::state::SyncState;

/// The due effects of the plan for `desired`.
pub(super) async fn due_tasks(
    source: &mut SourceAccess,
    state: &SyncState,
    desired: &Desired,
    plan: &Plan,
    now: Instant,
) -> Result<Vec<Task>, EngineError> {
    let due = state.due(plan, now);
    let mut tasks = Vec::with_capacity(due.len());
    let mut changed = BTreeSet::new();
    for (step, effect) in due {
        let (key, effect) = (step.key.clone(), effect.clone());
        // An edit on the hub is corrected: the work keeps its commit in Git.
        let commit = matches!(step.reason, Reason::EditedOnHub { .. })
            .then(|| state.facts().hub.commit_of(&key))
            .flatten();
        if commit.is_none() {
            changed.extend(desired.works.get(&key).map(|work| work.path.clone()));
        }
        tasks.push(Task { key, effect, commit });
    }
    let commits = git_history::last_changed(source, desired.commit, changed).await?;
    for task in tasks.iter_mut().filter(|task| task.commit.is_none()) {
        let path = desired.works.get(&task.key).map(|work| &work.path);
        task.commit = path.and_then(|path| commits.get(path).copied()).or(desired.commit);
    }
    Ok(tasks)
}
