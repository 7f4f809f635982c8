//! Entries of folders: which files are read, and what is reported of the others.

use gitwork_api::names::NameError;

use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::name::RepoPath;
use crate::model::snapshot::ObjectError;
use crate::text::truncate::truncate_chars;

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
    let name = shortened(name);
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

/// An error for a folder or file whose Git object cannot be used.
pub(super) fn bad_object(path: &RepoPath, scope: Scope, why: &ObjectError) -> Diagnostic {
    let code = Code::BadObject;
    Diagnostic::new(code, Location::file(path), scope, object_problem(why))
}

/// Why a Git object cannot be used.
pub(super) fn object_problem(why: &ObjectError) -> String {
    let message = match why {
        ObjectError::TooLarge { size, limit, .. } => {
            format!("its Git object has {size} bytes; the limit is {limit}")
        }
        why => why.to_string(),
    };
    shortened(&message)
}

/// A text of a file or tree as a message shows it.
pub(super) fn shortened(text: &str) -> String {
    truncate_chars(text, limits::MESSAGE_TEXT_CHARS_MAX).into_owned()
}

/// An error for a submodule.
pub(super) fn gitlink(path: &RepoPath, scope: Scope) -> Diagnostic {
    Diagnostic::new(Code::Gitlink, Location::file(path), scope, "this is a submodule")
}
