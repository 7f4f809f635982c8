//! `validate --fix`: carries out the fixes of problems that have one certain correction.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::bounded_file;
use super::output;
use gitwork_core::model::name::RepoPath;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::render::fixes::{FixedFile, FixedFiles};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::fix::diff_of;
use gitwork_core::text::style::{ColorMode, count};

/// Why a file is not fixed.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// The file cannot be read or written.
    #[error("cannot fix {}", .path.display())]
    File { path: PathBuf, source: io::Error },
    /// The file has changed since it was read.
    #[error("{} has changed in the meantime; nothing of it was written", .path.display())]
    Changed { path: PathBuf },
    /// The file, or a folder on its path, is a link.
    #[error("{} is a link; nothing is written through it", .path.display())]
    Link { path: PathBuf },
    /// Something has the new name of the file.
    #[error("cannot rename {} to {}: there is such a file", .path.display(), .name)]
    NameTaken { path: PathBuf, name: String },
}

impl OperationError for FixError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "Fix"
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Changed { .. } => vec!["run the command again".to_owned()],
            _ => Vec::new(),
        }
    }
}

/// What the fixes would change. `path`: that of the source in its repository.
pub(super) fn diffs(files: &FixedFiles, path: &RepoPath) -> String {
    let mut out = String::new();
    for (file, fixed) in files {
        let (old, new) = (path.join_path(file), path.join_path(&fixed.path));
        let texts = (&*fixed.before, &*fixed.after);
        out.push_str(&diff_of((&old, &new), texts, ColorMode::Colored));
    }
    out
}

/// Reports on stderr what the fixes change, with the places of the text before. `path`: that of the
/// source in its repository.
pub(super) fn report(files: &FixedFiles, path: &RepoPath, is_dry_run: bool) {
    let mut changes = 0;
    for (file, fixed) in files {
        let place = escape_untrusted(path.join_path(file).as_str());
        for change in &fixed.changes {
            let what = escape_untrusted(&change.what);
            output::note(&format!("{place}:{}:{}: {what}", change.at.line, change.at.column));
        }
        let is_renamed = fixed.path != *file;
        if is_renamed {
            output::note(&format!("{place}: renamed to {}", fixed.path.name()));
        }
        changes += fixed.changes.len() + usize::from(is_renamed);
    }
    let (changes, of) = (count(changes, "problem"), count(files.len(), "file"));
    match is_dry_run {
        _ if files.is_empty() => output::note("nothing to fix"),
        true => output::note(&format!("would fix {changes} in {of}")),
        false => output::note(&format!("fixed {changes} in {of}")),
    }
}

/// Writes the files below the folder of the source. Each of them is either as before or as after.
pub(super) fn write(folder: &Path, files: &FixedFiles) -> Result<(), FixError> {
    files.iter().try_for_each(|(file, fixed)| write_file(folder, file, fixed))
}

fn write_file(folder: &Path, file: &RepoPath, fixed: &FixedFile) -> Result<(), FixError> {
    let path = folder.join(file.as_str());
    let failed = |source| FixError::File { path: path.clone(), source };
    check_links(folder, file)?;
    let most = fixed.before.len() as u64 + 1;
    let found = bounded_file::read(&path, most).map_err(failed)?;
    if found.as_deref() != Some(&*fixed.before) {
        return Err(FixError::Changed { path });
    }
    let target = folder.join(fixed.path.as_str());
    if fixed.path != *file && !is_free(&path, &target).map_err(failed)? {
        return Err(FixError::NameTaken { path, name: fixed.path.name().to_owned() });
    }
    if fixed.before == fixed.after {
        return fs::rename(&path, &target).map_err(failed);
    }
    let name = format!(".{}.{}.gitwork-fix", file.name(), std::process::id());
    let unfinished = path.with_file_name(name);
    let written = replace(&path, &unfinished, &fixed.after);
    if let Err(source) = written.and_then(|()| fs::rename(&unfinished, &target)) {
        let _gone = fs::remove_file(&unfinished);
        return Err(failed(source));
    }
    // Where capitals do not count, the old name is the new file.
    let is_old = fixed.path != *file && !is_free(&path, &target).map_err(failed)?;
    if is_old { fs::remove_file(&path).map_err(failed) } else { Ok(()) }
}

/// Writes the new text into a file of its own, with the permissions of the old one.
fn replace(path: &Path, unfinished: &Path, text: &[u8]) -> io::Result<()> {
    let permissions = fs::metadata(path)?.permissions();
    let mut file = OpenOptions::new().write(true).create_new(true).open(unfinished)?;
    file.set_permissions(permissions)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Fails if a folder on the path, or the file, is a link.
fn check_links(folder: &Path, file: &RepoPath) -> Result<(), FixError> {
    let mut path = folder.to_owned();
    for part in file.parts() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => return Err(FixError::Link { path }),
            Ok(_) => {}
            Err(source) => return Err(FixError::File { path, source }),
        }
    }
    Ok(())
}

/// Whether nothing has a name, or only the file itself, where capitals do not count.
fn is_free(path: &Path, target: &Path) -> io::Result<bool> {
    let inode = |found: fs::Metadata| (found.dev(), found.ino());
    match fs::symlink_metadata(target) {
        Ok(found) => Ok(inode(found) == inode(fs::symlink_metadata(path)?)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(true),
        Err(why) => Err(why),
    }
}
