//! The due effects of a plan, each with the commit that its work gets as the last change.

use std::collections::BTreeSet;
use std::time::Instant;

use super::error::EngineError;
use super::git_history;
use super::source_access::SourceAccess;
use gitwork_core::model::name::RepoPath;
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
    // The folders of the tasks that lack a commit.
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
    let changed: BTreeSet<RepoPath> = folders.iter().flatten().cloned().collect();
    let commits = git_history::last_changed(source, desired.commit, changed).await?;
    for (task, folder) in tasks.iter_mut().zip(folders).filter(|(task, _)| task.commit.is_none()) {
        let changed = folder.and_then(|folder| commits.get(&folder).copied());
        task.commit = changed.or(desired.commit);
    }
    Ok(tasks)
}
