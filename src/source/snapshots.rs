//! The files of single revisions of a source, outside of a read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::kinds::KindIndex;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::model::snapshot::{ObjectError, Snapshot};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::fixes::{FixedFiles, fixed_files};
use gitwork_core::render::renderer::RenderedChange;
use gitwork_git::{FetchError, Reference, Repository, RepositoryError, split_revision};

use crate::error::SourceReadError;
use crate::origin::Origin;
use crate::reading::{Reading, SourceState};

/// A file of a commit.
pub struct FileAt {
    /// Its content.
    pub text: Arc<[u8]>,
    /// The commit.
    pub commit: CommitId,
}

/// The files of single revisions of one source. All calls block.
pub struct SourceSnapshots<'a> {
    /// The source's path in its repository.
    path: &'a RepoPath,
    origin: &'a mut Origin,
    reading: &'a Reading,
}

impl<'a> SourceSnapshots<'a> {
    pub(crate) fn new(path: &'a RepoPath, origin: &'a mut Origin, reading: &'a Reading) -> Self {
        Self { path, origin, reading }
    }

    /// The commit of a revision (`git rev-parse`) of the repository that the source is in. In a
    /// mirror, names are those of the remote's branches and tags, and `HEAD` is the source's
    /// reference.
    pub fn resolve(
        &mut self,
        revision: &str,
        cancel: &Arc<AtomicBool>,
    ) -> Result<CommitId, SourceReadError> {
        let Origin::Mirror { mirror, reference, .. } = &mut *self.origin else {
            let resolve = |repository: &Repository, _: &RepoPath| Ok(repository.resolve(revision)?);
            return self.origin.with_repository(self.path, resolve);
        };
        if !self.reading.has_read() && !mirror.has_fetched() {
            mirror.fetch(reference, cancel)?;
        }
        let known = mirror.resolve(revision);
        if !matches!(known, Err(RepositoryError::RevisionMissing { .. })) {
            return Ok(known?);
        }
        // What another source fetched is not fresh enough.
        let name = split_revision(revision).0.to_owned();
        for reference in [Reference::Branch(name.clone()), Reference::Tag(name)] {
            match mirror.fetch(&reference, cancel) {
                Ok(_) => return Ok(mirror.resolve(revision)?),
                Err(FetchError::ReferenceMissing { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(known?)
    }

    /// A file of the repository in a revision, with the commit; `None` without the file. `path` is
    /// from the repository's root.
    pub fn file(
        &mut self,
        revision: &str,
        path: &RepoPath,
        bytes_max: usize,
        cancel: &Arc<AtomicBool>,
    ) -> Result<Option<FileAt>, SourceReadError> {
        let commit = self.resolve(revision, cancel)?;
        self.origin.with_repository(self.path, |repository, _| {
            let Some(blob) = repository.entry(commit, path)? else { return Ok(None) };
            let snapshot = repository.snapshot(commit, &RepoPath::root())?;
            let text = snapshot.snapshot().objects.blob(blob, bytes_max)?;
            Ok(Some(FileAt { text, commit }))
        })
    }

    /// Renders one commit of the repository that the source is in.
    pub fn render(&mut self, commit: CommitId) -> Result<Desired, SourceReadError> {
        let snapshot = self.origin.with_repository(self.path, |repository, path| {
            Ok(repository.snapshot(commit, path)?)
        })?;
        // The last rendered works are a good start: most works of two revisions are equal.
        Ok(self.reading.renderer.clone().render(&snapshot.snapshot())?)
    }

    /// Renders two states of the source, as far as they differ: a commit, and `head`. Without
    /// `head` it is the folder on disk, or the last fetched commit. `is_whole`: renders all of
    /// both.
    pub fn change(
        &mut self,
        base: CommitId,
        head: Option<CommitId>,
        is_whole: bool,
    ) -> Result<RenderedChange, SourceReadError> {
        let commit = |origin: &Origin, commit| {
            let snapshot =
                |repository: &Repository, path: &RepoPath| Ok(repository.snapshot(commit, path)?);
            origin.with_repository(self.path, snapshot)
        };
        let base = commit(self.origin, base)?;
        let renderer = &self.reading.renderer;
        let render = |head: &Snapshot<'_>| match is_whole {
            true => renderer.render_whole_change(&base.snapshot(), head),
            false => renderer.render_change(&base.snapshot(), head),
        };
        let head = match (head, &mut *self.origin) {
            (Some(head), _) => head,
            (None, Origin::Mirror { mirror, .. }) => mirror.resolve("HEAD")?,
            (None, Origin::Directory(directory)) => {
                return Ok(render(&directory.snapshot()?.snapshot())?);
            }
        };
        Ok(render(&commit(self.origin, head)?.snapshot())?)
    }

    /// Which of these files and folders a read has, and a commit has not or has otherwise. If the
    /// commit does not have the source's folder, these are all.
    pub fn changed_since(
        &mut self,
        read: &SourceState,
        commit: CommitId,
        paths: BTreeSet<RepoPath>,
    ) -> Result<BTreeSet<RepoPath>, SourceReadError> {
        let before = self
            .origin
            .with_repository(self.path, |repository, path| Ok(repository.snapshot(commit, path)?));
        let before = match before {
            Err(SourceReadError::Repository(RepositoryError::PathMissing { .. })) => {
                return Ok(paths);
            }
            found => found?,
        };
        self.with_files(read, |now, _| {
            let before = before.snapshot();
            let mut changed = BTreeSet::new();
            for path in paths {
                if now.entry(&path)? != before.entry(&path)? {
                    changed.insert(path);
                }
            }
            Ok(changed)
        })
    }

    /// The files that fixes of the selected problems change, and the state that they give. Nothing
    /// is written. Only a folder on disk has files to fix; `None` for a mirror.
    pub fn fixed(
        &mut self,
        is_selected: impl Fn(&Diagnostic) -> bool,
    ) -> Result<Option<(FixedFiles, Desired)>, SourceReadError> {
        let mut renderer = self.reading.renderer.clone();
        match &mut *self.origin {
            Origin::Mirror { .. } => Ok(None),
            Origin::Directory(directory) => {
                let files = directory.snapshot()?;
                let render = |snapshot: &Snapshot<'_>| renderer.render(snapshot);
                Ok(Some(fixed_files(&files.snapshot(), is_selected, render)?))
            }
        }
    }

    /// Calls `act` with the snapshot of a read, and with the kinds that its CRDs define.
    pub fn with_files<T>(
        &mut self,
        read: &SourceState,
        act: impl FnOnce(&Snapshot<'_>, &KindIndex) -> Result<T, ObjectError>,
    ) -> Result<T, SourceReadError> {
        let kinds = self.reading.renderer.kinds();
        match &mut *self.origin {
            Origin::Mirror { mirror, .. } => {
                let commit = read.desired.commit.map_or_else(|| mirror.resolve("HEAD"), Ok)?;
                let snapshot = mirror.snapshot(commit, self.path)?;
                Ok(act(&snapshot.snapshot(), kinds)?)
            }
            Origin::Directory(directory) => Ok(act(&directory.snapshot()?.snapshot(), kinds)?),
        }
    }
}
