//! References of a mirror that keep the commits a source still needs, whatever becomes of its
//! branch: a group's clusters may have a content whose commit was since removed by a force-push.

use std::collections::BTreeSet;
use std::path::Path;

use super::address::Address;
use super::fetch::libgit2_url;
use super::repository::oid;
use gitwork_core::model::name::{CommitId, SourceId};

/// The namespace of these references. Each source has its own part.
const NAMESPACE: &str = "refs/gitwork/kept/";

/// Keeps commits for a source, and no others that were kept for it before.
pub(super) fn set(
    git: &git2::Repository,
    source: &SourceId,
    commits: &BTreeSet<CommitId>,
) -> Result<(), git2::Error> {
    let folder = format!("{NAMESPACE}{source}/");
    let mut missing: BTreeSet<String> = commits.iter().map(|id| format!("{folder}{id}")).collect();
    for reference in git.references_glob(&format!("{folder}*"))? {
        let mut reference = reference?;
        if !reference.name().is_ok_and(|name| missing.remove(name)) {
            reference.delete()?;
        }
    }
    for id in commits {
        let name = format!("{folder}{id}");
        if missing.contains(&name) {
            git.reference(&name, oid(*id), true, "keep")?;
        }
    }
    Ok(())
}

/// Whether any commit is kept for a source.
pub(super) fn any(git: &git2::Repository) -> bool {
    let found = git.references_glob(&format!("{NAMESPACE}*"));
    found.is_ok_and(|mut found| found.next().is_some())
}

/// Copies what is kept in one repository, with its history, into another one.
pub(super) fn copy(from: &Path, to: &git2::Repository) -> Result<(), git2::Error> {
    let mut remote = to.remote_anonymous(&libgit2_url(&Address::Local(from.to_owned())))?;
    remote.fetch(&[format!("+{NAMESPACE}*:{NAMESPACE}*")], None, None)
}
