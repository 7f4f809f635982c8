//! Entries of folders: which files are read, and what is reported of the others.

use gitwork_api::names::NameError;

use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::name::RepoPath;

/// How the names of the files end that are read.
pub(super) const MANIFEST_ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];

/// Whether a file of this name is read.
pub(super) fn is_manifest(name: &str) -> bool {
    MANIFEST_ENDINGS.iter().any(|end| name.ends_with(end))
}

/// An error for a folder whose name cannot be a cluster's or a work's.
pub(super) fn bad_name(
    path: &RepoPath,
    what: &str,
    name: &str,
    why: &NameError,
    scope: Scope,
) -> Diagnostic {
    let message = format!("the folder name {name:?} cannot be the name of {what}: it {why}");
    Diagnostic::new(Code::BadName, Location::file(path), scope, message)
}

/// A warning for a file that no work is made of.
pub(super) fn stray(path: &RepoPath, scope: Scope, why: &str) -> Diagnostic {
    let message = format!("this file belongs to no work: {why}");
    Diagnostic::new(Code::StrayFile, Location::file(path), scope, message)
}

/// An error for a symbolic link that is not followed.
pub(super) fn link(path: &RepoPath, scope: Scope) -> Diagnostic {
    let message = "a symbolic link may point to a file of its own work folder only";
    Diagnostic::new(Code::SymlinkOutside, Location::file(path), scope, message)
}

/// An error for a submodule.
pub(super) fn gitlink(path: &RepoPath, scope: Scope) -> Diagnostic {
    Diagnostic::new(Code::Gitlink, Location::file(path), scope, "this is a submodule")
}
