//! The facts that the daemon publishes as `facts.json` on the status branch: of a clone that has
//! the branch, or of the remote.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::output;
use gitwork_core::config::commit_status::StatusBranchConfig;
use gitwork_core::limits;
use gitwork_core::model::facts::{Facts, FactsError};
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::model::operation_error::{ErrorClass, OperationError, describe};
use gitwork_core::model::snapshot::ObjectError;
use gitwork_core::render::desired::Desired;
use gitwork_git::{Repository, RepositoryError};
use gitwork_report::status_branch::{FACTS_FILE, SUMMARY_FILE};
use gitwork_source::{Source, SourceConfig, SourceLocation, SourceReadError};
use serde_json::Value;

/// Why the facts of a status branch cannot be used.
#[derive(Debug, thiserror::Error)]
enum PublishedFactsError {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Source(#[from] SourceReadError),
    #[error(transparent)]
    Invalid(#[from] FactsError),
}

impl OperationError for PublishedFactsError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "Facts"
    }
}

/// The facts on the status branch `branch` of the clone that a source is read from; `None` for a
/// source that is no clone, and if the clone has no such branch. Says where they are from.
pub(super) fn published_facts(config: &SourceConfig, branch: &str) -> Option<Arc<Facts>> {
    let folder = match &config.repository {
        SourceLocation::Directory(folder) => folder.as_path(),
        SourceLocation::Git { remote, .. } => Path::new(&remote.url),
    };
    let repository = Repository::open(folder).ok()?;
    references(branch).iter().find_map(|reference| match read(&repository, reference) {
        Ok(found) => found.map(|(facts, commit)| {
            output::note(&format!("facts of clusters: {reference}:{FACTS_FILE}, commit {commit}"));
            Arc::new(facts)
        }),
        Err(why) => {
            let why = describe(&why);
            output::note(&format!("cannot use {reference}:{FACTS_FILE}: {why}"));
            None
        }
    })
}

/// What was fetched comes first: a local branch may be old.
fn references(branch: &str) -> [String; 2] {
    [format!("refs/remotes/origin/{branch}"), format!("refs/heads/{branch}")]
}

/// The names of the clusters on the status branch of a clone, if it has one that can be read. Says
/// nothing.
pub(super) fn clusters_in_clone(folder: &Path) -> Vec<String> {
    let facts = file_in_clone(folder, FACTS_FILE).and_then(|text| Facts::read(&text).ok());
    let clusters = facts.into_iter().flat_map(|facts| facts.managed_clusters.into_keys());
    clusters.map(|cluster| cluster.to_string()).collect()
}

/// The id of the source on the status branch of a clone, if it has one that can be read. Says
/// nothing.
pub(super) fn source_in_clone(folder: &Path) -> Option<String> {
    let summary: Value = serde_json::from_slice(&file_in_clone(folder, SUMMARY_FILE)?).ok()?;
    Some(summary.get("source")?.as_str()?.to_owned())
}

fn file_in_clone(folder: &Path, file: &str) -> Option<Vec<u8>> {
    let repository = Repository::open(folder).ok()?;
    let branch = StatusBranchConfig::default().branch;
    let mut found = references(&branch).into_iter().filter_map(|reference| {
        let commit = repository.resolve(&reference).ok()?;
        text(&repository, commit, file).ok().flatten()
    });
    found.next()
}

/// Gives a source that is read from a remote the facts on its status branch, if what was read needs
/// some and nothing has named others. Says where they are from. Answers whether to read it again.
pub(super) fn add_fetched_facts(
    source: &mut Source,
    read: &Desired,
    branch: &str,
    cancel: &Arc<AtomicBool>,
) -> bool {
    if !matches!(source.config().repository, SourceLocation::Git { .. }) {
        return false;
    }
    if read.needed_facts.is_none() || source.config().facts.is_some() {
        return false;
    }
    match fetch(source, branch, cancel) {
        Ok(None) => false,
        Ok(Some((facts, commit))) => {
            output::note(&format!(
                "facts of clusters: {FACTS_FILE} of the branch {branch}, commit {commit}"
            ));
            source.set_facts(Arc::new(facts));
            true
        }
        Err(why) => {
            let why = describe(&why);
            output::note(&format!("cannot use {FACTS_FILE} of the branch {branch}: {why}"));
            false
        }
    }
}

/// The facts on a branch of the remote, and the abbreviated commit; `None` without the branch or
/// the file.
fn fetch(
    source: &mut Source,
    branch: &str,
    cancel: &Arc<AtomicBool>,
) -> Result<Option<(Facts, String)>, PublishedFactsError> {
    let file = RepoPath::root().join(FACTS_FILE);
    let found = match source.snapshots().file(branch, &file, limits::FACTS_BYTES_MAX, cancel) {
        Err(SourceReadError::Repository(RepositoryError::RevisionMissing { .. })) => {
            return Ok(None);
        }
        found => found?,
    };
    let Some(found) = found else { return Ok(None) };
    Ok(Some((Facts::read(&found.text)?, found.commit.short())))
}

/// The facts of a reference, and its abbreviated commit; `None` without the reference or the file.
fn read(
    repository: &Repository,
    reference: &str,
) -> Result<Option<(Facts, String)>, PublishedFactsError> {
    let commit = match repository.resolve(reference) {
        Ok(commit) => commit,
        Err(RepositoryError::RevisionMissing { .. }) => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let Some(text) = text(repository, commit, FACTS_FILE)? else { return Ok(None) };
    Ok(Some((Facts::read(&text)?, commit.short())))
}

/// The text of a file at the top of a commit; `None` without it.
fn text(
    repository: &Repository,
    commit: CommitId,
    name: &str,
) -> Result<Option<Vec<u8>>, PublishedFactsError> {
    let file = RepoPath::root().join(name);
    let Some(blob) = repository.entry(commit, &file)? else { return Ok(None) };
    let snapshot = repository.snapshot(commit, &RepoPath::root())?;
    Ok(Some(snapshot.snapshot().objects.blob(blob, limits::FACTS_BYTES_MAX)?.to_vec()))
}
