//! What a plan needs from Git's history: the ancestry of the head, the last state of removed works,
//! and the commits that changed works.

use std::collections::BTreeSet;
use std::time::Instant;

use super::error::EngineError;
use super::source_access::SourceAccess;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_retry::log_error;
use gitwork_source::SourceReadError;
use gitwork_sync::facts::SourceFacts;
use gitwork_sync::git_history::AncestryLookup;

/// Rounds of queries about the ancestry of one head: one for the old head, one for all commits, one
/// for the commits of approvals.
const ANCESTRY_ROUNDS: usize = 3;

/// Whether Git's history of the head is known, as a plan needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AncestryQuery {
    /// All of it is known, or the source has no commits.
    Known,
    /// The last read of Git's history failed, and the wait after it has not ended.
    Waiting,
    /// A fetch uses the source; its end makes the next plan due.
    SourceBusy,
    /// Commits are still unknown after [`ANCESTRY_ROUNDS`].
    Incomplete,
}

/// Asks Git which of the applied commits the head builds on. Nothing is planned before that is
/// [`AncestryQuery::Known`].
pub(super) async fn ask_ancestry(
    source: &mut SourceAccess,
    facts: &mut SourceFacts,
    now: Instant,
) -> Result<AncestryQuery, EngineError> {
    let Some(head) = facts.desired().and_then(|desired| desired.commit) else {
        return Ok(AncestryQuery::Known);
    };
    for _ in 0..ANCESTRY_ROUNDS {
        let commits = match facts.ancestry_lookup(now) {
            AncestryLookup::Known => return Ok(AncestryQuery::Known),
            AncestryLookup::Due(commits) => commits,
            AncestryLookup::Wait => return Ok(AncestryQuery::Waiting),
        };
        let asked = commits.clone();
        match source.query(move |reader, cancel| reader.unreached(head, &asked, cancel)).await? {
            Some(Ok(unreached)) => facts.history.set_ancestry(head, &commits, &unreached),
            Some(Err(error)) => {
                log_error!(error, &error, source = %source.id(), "cannot read Git's history; the \
                    hub stays as it is");
                facts.history.postpone(now);
            }
            None => return Ok(AncestryQuery::SourceBusy),
        }
    }
    Ok(if facts.knows_ancestry() { AncestryQuery::Known } else { AncestryQuery::Incomplete })
}

/// Asks Git for the final `deleteOption` of removed works, and whether it ever had them. Without
/// the answer nothing is deleted.
pub(super) async fn ask_removed_works(
    source: &mut SourceAccess,
    facts: &mut SourceFacts,
    now: Instant,
) -> Result<(), EngineError> {
    let candidates = facts.removals_to_look_up(now);
    let Some(desired) = facts.desired().cloned().filter(|_| !candidates.is_empty()) else {
        return Ok(());
    };
    let (asked, applied) = (candidates.clone(), facts.recorded_commits());
    let query = source
        .query(move |reader, cancel| reader.last_known_states(&desired, &asked, &applied, cancel));
    match query.await? {
        Some(Ok(found)) => facts.history.set_last_known(&candidates, found),
        Some(Err(error)) => {
            log_error!(
                error, &error, source = %source.id(), works = candidates.len(),
                "cannot read Git's history of removed works; they are not deleted"
            );
            facts.history.postpone(now);
        }
        None => {}
    }
    Ok(())
}

/// Asks Git for the commit that last changed each of these work folders, and gives them in the same
/// order. It is informative: a failure holds nothing back.
pub(super) async fn last_changed(
    source: &mut SourceAccess,
    head: Option<CommitId>,
    folders: Vec<Option<RepoPath>>,
) -> Result<Vec<Option<CommitId>>, EngineError> {
    let unknown = vec![None; folders.len()];
    let Some(head) = head.filter(|_| folders.iter().any(Option::is_some)) else {
        return Ok(unknown);
    };
    // To sort and to find many folders would keep the engine from all else.
    let query = source.query(move |reader, cancel| -> Result<_, SourceReadError> {
        let asked: BTreeSet<RepoPath> = folders.iter().flatten().cloned().collect();
        let found = reader.last_changed(head, &asked, cancel)?;
        let commit_of = |folder: &Option<RepoPath>| found.get(folder.as_ref()?).copied();
        Ok(folders.iter().map(commit_of).collect())
    });
    match query.await? {
        Some(Ok(found)) => Ok(found),
        Some(Err(error)) => {
            log_error!(warn, &error, source = %source.id(), "cannot read the history of the works");
            Ok(unknown)
        }
        None => Ok(unknown),
    }
}
