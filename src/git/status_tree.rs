//! Git trees of the status branch, written without a working tree.

use std::collections::BTreeMap;
use std::io::Write as _;

use git2::{Buf, ErrorClass, ErrorCode, ObjectType, OdbLookupFlags, Oid};

use crate::limits;
use gitwork_core::model::name::RepoPath;
use gitwork_report::status_branch::FileChange;

const FILE_MODE: i32 = 0o100_644;
const FOLDER_MODE: i32 = 0o040_000;
/// Before the files of a repository, whose priority is 1 (libgit2: `GIT_LOOSE_PRIORITY`).
const MEMORY_FIRST: i32 = 1_000;

/// The changes in one folder; `None` removes a file.
#[derive(Default)]
struct FolderChanges {
    files: BTreeMap<String, Option<Oid>>,
    folders: BTreeMap<String, FolderChanges>,
}

/// Writes the changes on top of a tree, and returns the new tree. Only trees on the paths of the
/// changes are read and written. Many changes become packs: a file for each object would cost more
/// than all the rest.
pub(super) fn build(
    git: &git2::Repository,
    mut base: Option<Oid>,
    mut changes: impl ExactSizeIterator<Item = FileChange>,
) -> Result<Oid, git2::Error> {
    if changes.len() <= limits::STATUS_LOOSE_FILES_MAX {
        return TreeWriter::new(git).write(base, changes);
    }
    // Its objects stay in memory until they are packed.
    let in_memory = git2::Repository::open(git.path())?;
    let objects = in_memory.odb()?;
    let memory = objects.add_new_mempack_backend(MEMORY_FIRST)?;
    loop {
        let mut writer = TreeWriter::new(&in_memory);
        let tree = writer.write(base, changes.by_ref().take(limits::STATUS_PACKED_FILES_MAX))?;
        pack(git, &in_memory, writer.written)?;
        memory.reset()?;
        if changes.len() == 0 {
            return Ok(tree);
        }
        base = Some(tree);
    }
}

/// Packs those objects of a repository in memory that `git` does not have.
fn pack(
    git: &git2::Repository,
    in_memory: &git2::Repository,
    written: Vec<Oid>,
) -> Result<(), git2::Error> {
    let objects = git.odb()?;
    objects.refresh()?;
    let mut packed = in_memory.packbuilder()?;
    for id in written {
        if !objects.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
            packed.insert_object(id, None)?;
        }
    }
    if packed.object_count() == 0 {
        return Ok(());
    }
    let mut pack = Buf::new();
    packed.write_buf(&mut pack)?;
    let mut writer = objects.packwriter()?;
    writer.write_all(&pack).map_err(|why| {
        let message = format!("cannot write a pack: {why}");
        git2::Error::new(ErrorCode::GenericError, ErrorClass::Odb, message)
    })?;
    writer.commit()?;
    Ok(())
}

/// Writes trees and the files in them.
struct TreeWriter<'a> {
    git: &'a git2::Repository,
    /// All of them, also those that were there.
    written: Vec<Oid>,
}

impl<'a> TreeWriter<'a> {
    fn new(git: &'a git2::Repository) -> Self {
        Self { git, written: Vec::new() }
    }

    fn write(
        &mut self,
        base: Option<Oid>,
        changes: impl Iterator<Item = FileChange>,
    ) -> Result<Oid, git2::Error> {
        let mut top = FolderChanges::default();
        let objects = self.git.odb()?;
        for FileChange { path, content } in changes {
            // Writes nothing for an object that is there, as `Repository::blob` would.
            let write = |content: String| objects.write(ObjectType::Blob, content.as_bytes());
            let blob = content.map(write).transpose()?;
            self.written.extend(blob);
            let mut folder = &mut top;
            for part in path.parent().unwrap_or_else(RepoPath::root).parts() {
                folder = folder.folders.entry(part.to_owned()).or_default();
            }
            folder.files.insert(path.name().to_owned(), blob);
        }
        match self.write_folder(base, &top)? {
            Some(tree) => Ok(tree),
            None => self.git.treebuilder(None)?.write(),
        }
    }

    /// Writes one folder; `None` if it becomes empty. At most three levels deep, because gitwork
    /// chooses the paths.
    fn write_folder(
        &mut self,
        base: Option<Oid>,
        changes: &FolderChanges,
    ) -> Result<Option<Oid>, git2::Error> {
        let tree = base.map(|base| self.git.find_tree(base)).transpose()?;
        let mut builder = self.git.treebuilder(tree.as_ref())?;
        for (name, below) in &changes.folders {
            let base = tree.as_ref().and_then(|tree| Some(tree.get_name(name)?.id()));
            match self.write_folder(base, below)? {
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
        let written = if builder.is_empty() { None } else { Some(builder.write()?) };
        self.written.extend(written);
        Ok(written)
    }
}

fn drop_entry(builder: &mut git2::TreeBuilder<'_>, name: &str) -> Result<(), git2::Error> {
    if builder.get(name)?.is_some() { builder.remove(name) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: usize) -> FileChange {
        let path = format!("clusters/c{}/w{number}.yaml", number % 7);
        FileChange {
            path: RepoPath::parse(&path).unwrap(),
            content: Some(format!("n: {number}\n")),
        }
    }

    fn files(git: &git2::Repository, folder: &str, is: fn(&str) -> bool) -> usize {
        let all = std::fs::read_dir(git.path().join("objects").join(folder)).unwrap();
        all.filter(|entry| is(entry.as_ref().unwrap().file_name().to_str().unwrap())).count()
    }

    #[test]
    fn many_files_become_packs_and_the_same_tree() {
        let folder = tempfile::tempdir().unwrap();
        let git = git2::Repository::init_bare(folder.path()).unwrap();
        let all = || (0..limits::STATUS_PACKED_FILES_MAX + 1_000).map(file);
        let packs = |git: &git2::Repository| files(git, "pack", |name| name.ends_with(".pack"));
        let first = build(&git, None, [file(0)].into_iter()).unwrap();
        let tree = build(&git, Some(first), all()).unwrap();
        assert_eq!(packs(&git), 2);
        // The blob and the three trees of the first file.
        assert_eq!(files(&git, "", |name| name.len() == 2), 4, "loose objects");
        assert_eq!(build(&git, Some(tree), all()).unwrap(), tree);
        assert_eq!(packs(&git), 2, "nothing is written twice");

        let other = tempfile::tempdir().unwrap();
        let other = git2::Repository::init_bare(other.path()).unwrap();
        let objects = other.odb().unwrap();
        let _memory = objects.add_new_mempack_backend(MEMORY_FIRST).unwrap();
        assert_eq!(TreeWriter::new(&other).write(None, all()).unwrap(), tree);
        let again = git2::Repository::open(folder.path()).unwrap();
        let found = again.find_tree(tree).unwrap();
        let path = std::path::Path::new("clusters/c4/w5002.yaml");
        let blob = again.find_blob(found.get_path(path).unwrap().id()).unwrap();
        assert_eq!(blob.content(), b"n: 5002\n");

        let gone = (0..300).map(|number| FileChange { content: None, ..file(number) });
        let less = git.find_tree(build(&git, Some(tree), gone).unwrap()).unwrap();
        assert!(less.get_path(std::path::Path::new("clusters/c3/w3.yaml")).is_err());
    }
}
