//! The signers' policy in `gitwork.yaml` of one commit.

use gitwork_core::config::file_names::SOURCE_FILE;
use gitwork_core::config::signers::{SignerPolicy, SignerPolicyError};
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::model::snapshot::{EntryKind, ObjectError, Objects as _};
use gitwork_core::signature::policy::{CompiledPolicy, PolicyOrigin};
use gitwork_git::Repository;

use crate::error::VerifyError;

/// Why the policy of a commit is unknown: the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyFileError {
    /// The file or its folder is too large, or its Git object is none.
    #[error(transparent)]
    Object(ObjectError),
    /// The file is not valid YAML, or `signers` has the wrong form.
    #[error(transparent)]
    Unreadable(#[from] SignerPolicyError),
    /// `signers` has an invalid value at `pointer` (a JSON Pointer).
    #[error("signers{pointer} {message}")]
    Invalid { pointer: String, message: String },
}

/// The policy in `gitwork.yaml` of a commit; an empty one if there is no such file. The inner error
/// means that the file cannot be used.
pub(crate) fn policy_at(
    repository: &Repository,
    path: &RepoPath,
    commit: CommitId,
) -> Result<Result<CompiledPolicy, PolicyFileError>, VerifyError> {
    let snapshot = match repository.snapshot(commit, path) {
        Ok(snapshot) => snapshot,
        Err(
            gitwork_git::RepositoryError::PathMissing { .. }
            | gitwork_git::RepositoryError::NotAFolder { .. },
        ) => return Ok(compile(&SignerPolicy::default())),
        Err(error) => return Err(error.into()),
    };
    let tree = match snapshot.tree(snapshot.root) {
        Ok(tree) => tree,
        Err(error) if error.is_of_object() => return Ok(Err(PolicyFileError::Object(error))),
        Err(error) => return Err(error.into()),
    };
    let Some(entry) = tree.get(SOURCE_FILE).filter(|e| e.kind == EntryKind::Blob) else {
        return Ok(compile(&SignerPolicy::default()));
    };
    let bytes = match snapshot.blob(entry.id, gitwork_yaml::limits::FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.is_of_object() => return Ok(Err(PolicyFileError::Object(error))),
        Err(error) => return Err(error.into()),
    };
    let policy = SignerPolicy::in_file(&bytes).map_err(PolicyFileError::from);
    Ok(policy.and_then(|policy| compile(&policy)))
}

fn compile(policy: &SignerPolicy) -> Result<CompiledPolicy, PolicyFileError> {
    CompiledPolicy::new(policy, PolicyOrigin::Repository).map_err(|problems| {
        let first = problems.into_iter().next();
        let (pointer, message) =
            first.map(|problem| (problem.pointer, problem.message)).unwrap_or_default();
        PolicyFileError::Invalid { pointer, message }
    })
}

/// Whether `gitwork.yaml` of a commit requires signatures, or cannot be used.
pub fn requires_signatures(
    repository: &Repository,
    path: &RepoPath,
    commit: CommitId,
) -> Result<bool, VerifyError> {
    Ok(policy_at(repository, path, commit)?.map_or(true, |policy| !policy.is_empty()))
}
