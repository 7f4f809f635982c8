//! The facts that the daemon publishes as `facts.json` on the status branch, as far as a clone has
//! that branch.

use std::path::Path;
use std::sync::Arc;

use super::output;
use gitwork_core::limits;
use gitwork_core::model::facts::{Facts, FactsError};
use gitwork_core::model::name::RepoPath;
use gitwork_core::model::operation_error::{ErrorClass, OperationError, describe};
use gitwork_core::model::snapshot::ObjectError;
use gitwork_core::report::status_branch::FACTS_FILE;
use gitwork_git::{Repository, RepositoryError};
use gitwork_source::{SourceConfig, SourceLocation};

/// Why the facts of a status branch cannot be used.
#[derive(Debug, thiserror::Error)]
enum PublishedFactsError {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Object(#[from] ObjectError),
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
    // What was fetched comes first: a local branch may be old.
    let references = [format!("refs/remotes/origin/{branch}"), format!("refs/heads/{branch}")];
    references.iter().find_map(|reference| match read(&repository, reference) {
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
    let file = RepoPath::root().join(FACTS_FILE);
    let Some(blob) = repository.entry(commit, &file)? else { return Ok(None) };
    let snapshot = repository.snapshot(commit, &RepoPath::root())?;
    let text = snapshot.snapshot().objects.blob(blob, limits::FACTS_BYTES_MAX)?;
    Ok(Some((Facts::read(&text)?, commit.short())))
}
