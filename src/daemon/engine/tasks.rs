//! The due effects of a plan, each with the commit that its work gets as the last change.

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
    // The folders of the tasks, where they lack a commit.
    let mut folders = Vec::with_capacity(due.len());
    for (step, effect) in due {
        let (key, effect) = (step.key.clone(), effect.clone());
        // An edit on the hub is corrected: the work keeps its commit in Git.
        let commit = matches!(step.reason, Reason::EditedOnHub { .. })
            .then(|| state.facts().hub.commit_of(&key))
            .flatten();
        let in_git = desired.works.get(&key).filter(|_| commit.is_none());
        folders.push(in_git.map(|work| work.path.clone()));
        tasks.push(Task { key, effect, commit });
    }
    let commits = git_history::last_changed(source, desired.commit, folders).await?;
    for (task, changed) in tasks.iter_mut().zip(commits) {
        task.commit = task.commit.or(changed).or(desired.commit);
    }
    Ok(tasks)
}
