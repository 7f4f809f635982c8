//! Git trees of the status branch, written without a working tree.

use std::collections::BTreeMap;

use git2::Oid;

use gitwork_core::model::name::RepoPath;
use gitwork_report::status_branch::FileChange;

const FILE_MODE: i32 = 0o100_644;
const FOLDER_MODE: i32 = 0o040_000;

/// The changes in one folder; `None` removes a file.
#[derive(Default)]
struct FolderChanges {
    files: BTreeMap<String, Option<Oid>>,
    folders: BTreeMap<String, FolderChanges>,
}

/// Writes the changes on top of a tree, and returns the new tree. Only trees on the paths of the
/// changes are read and written.
pub(super) fn build(
    git: &git2::Repository,
    base: Option<Oid>,
    changes: Vec<FileChange>,
) -> Result<Oid, git2::Error> {
    let mut top = FolderChanges::default();
    for FileChange { path, content } in changes {
        let blob = content.map(|content| git.blob(content.as_bytes())).transpose()?;
        let mut folder = &mut top;
        for part in path.parent().unwrap_or_else(RepoPath::root).parts() {
            folder = folder.folders.entry(part.to_owned()).or_default();
        }
        folder.files.insert(path.name().to_owned(), blob);
    }
    match write_folder(git, base, &top)? {
        Some(tree) => Ok(tree),
        None => git.treebuilder(None)?.write(),
    }
}

/// Writes one folder; `None` if it becomes empty. At most three levels deep, because gitwork
/// chooses the paths.
fn write_folder(
    git: &git2::Repository,
    base: Option<Oid>,
    changes: &FolderChanges,
) -> Result<Option<Oid>, git2::Error> {
    let tree = base.map(|base| git.find_tree(base)).transpose()?;
    let mut builder = git.treebuilder(tree.as_ref())?;
    for (name, below) in &changes.folders {
        let base = tree.as_ref().and_then(|tree| Some(tree.get_name(name)?.id()));
        match write_folder(git, base, below)? {
            Some(id) => drop(builder.insert(name, id, FOLDER_MODE)?),
            None => drop_entry(&mut builder, name)?,
        }
    }
    for (name, blob) in &changes.files {
        match blob {
            Some(id) => drop(builder.insert(name, *id, FILE_MODE)?),
            None => drop_entry(&mut builder, name)?,
        }
    }
    if builder.is_empty() { Ok(None) } else { builder.write().map(Some) }
}

fn drop_entry(builder: &mut git2::TreeBuilder<'_>, name: &str) -> Result<(), git2::Error> {
    if builder.get(name)?.is_some() { builder.remove(name) } else { Ok(()) }
}
