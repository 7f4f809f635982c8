//! The folder of `render --out`, with a list of the files that gitwork wrote into it. A later run
//! removes those that are no longer rendered. It never removes any other file, nor one that was
//! changed since.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::bounded_file;
use super::output::OutputError;
use crate::limits;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, SourceId, WorkKey, WorkName};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::text::escape::json_text;

/// The file with the list, in the folder.
const LIST: &str = ".gitwork-rendered.json";

/// Why the folder is not written.
#[derive(Debug, thiserror::Error)]
pub enum RenderedFolderError {
    /// A file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The list is not one that gitwork wrote.
    #[error("{} is no list of rendered files: {problem}", .path.display())]
    List { path: PathBuf, problem: String },
    /// A file that is no longer rendered cannot be removed.
    #[error("cannot remove {}", .path.display())]
    Remove { path: PathBuf, source: io::Error },
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] OutputError),
}

impl OperationError for RenderedFolderError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "RenderedFolder"
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::List { .. } => vec!["remove it, or name another folder with --out".to_owned()],
            _ => Vec::new(),
        }
    }
}

/// A file that gitwork wrote.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RenderedFile {
    /// The source that it was rendered from.
    source: SourceId,
    /// The work folder in that source.
    folder: String,
    /// The SHA-256 of the file.
    sha256: Digest,
}

/// The list, by path below the folder.
type FileList = BTreeMap<String, RenderedFile>;

/// The folder of `render --out`.
#[derive(Debug)]
pub(super) struct RenderedFolder<'a> {
    folder: &'a Path,
    source: &'a SourceId,
    before: FileList,
    written: FileList,
}

/// What became of the files that are no longer rendered.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StaleFiles {
    /// Files that were removed.
    pub removed: Vec<PathBuf>,
    /// Files that were changed after gitwork wrote them, and are still there.
    pub changed: Vec<PathBuf>,
}

impl<'a> RenderedFolder<'a> {
    /// Reads the list in the folder, if there is one.
    pub fn open(folder: &'a Path, source: &'a SourceId) -> Result<Self, RenderedFolderError> {
        let path = folder.join(LIST);
        let mut before = FileList::new();
        if let Some(text) = read(&path, limits::RENDERED_LIST_BYTES_MAX)? {
            let invalid = |problem| RenderedFolderError::List { path: path.clone(), problem };
            before = serde_json::from_slice(&text).map_err(|why| invalid(why.to_string()))?;
            if let Some(bad) = before.keys().find(|path| key_of(path).is_none()) {
                return Err(invalid(format!("{bad:?} is not CLUSTER/WORK.yaml")));
            }
        }
        Ok(Self { folder, source, before, written: FileList::new() })
    }

    /// Writes the file of a work. `work_folder`: where the work is in the source.
    pub fn write(
        &mut self,
        key: &WorkKey,
        ending: &str,
        work_folder: &str,
        text: &str,
    ) -> Result<(), RenderedFolderError> {
        let name = format!("{}/{}.{ending}", key.cluster, key.work);
        let path = self.folder.join(&name);
        let failed = |source| OutputError::File { path: path.clone(), source };
        fs::create_dir_all(self.folder.join(key.cluster.as_str())).map_err(failed)?;
        fs::write(&path, text).map_err(failed)?;
        let (source, sha256) = (self.source.clone(), Digest::of(text.as_bytes()));
        let file = RenderedFile { source, folder: work_folder.to_owned(), sha256 };
        self.written.insert(name, file);
        Ok(())
    }

    /// Removes the files of this source that were not written this time, but for those that
    /// `is_kept` keeps by work and work folder. Then writes the list.
    pub fn finish(
        self,
        is_kept: impl Fn(&WorkKey, &str) -> bool,
    ) -> Result<StaleFiles, RenderedFolderError> {
        let Self { folder, source, before, mut written } = self;
        let mut stale = StaleFiles::default();
        for (name, file) in before {
            if written.contains_key(&name) {
                continue;
            }
            let Some(key) = key_of(&name) else { continue };
            if file.source != *source || is_kept(&key, &file.folder) {
                written.insert(name, file);
                continue;
            }
            let path = folder.join(&name);
            match is_unchanged(&path, file.sha256)? {
                None => {}
                Some(true) => {
                    let failed =
                        |source| RenderedFolderError::Remove { path: path.clone(), source };
                    fs::remove_file(&path).map_err(failed)?;
                    stale.removed.push(path);
                }
                Some(false) => {
                    written.insert(name, file);
                    stale.changed.push(path);
                }
            }
        }
        let path = folder.join(LIST);
        let failed = |source| OutputError::File { path: path.clone(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        fs::write(&path, json_text(&written)).map_err(failed)?;
        Ok(stale)
    }
}

/// The work of a path in the list; `None` if gitwork writes no such path.
fn key_of(path: &str) -> Option<WorkKey> {
    let (cluster, file) = path.split_once('/')?;
    let work = file.strip_suffix(".yaml").or_else(|| file.strip_suffix(".json"))?;
    Some(WorkKey {
        cluster: ClusterName::parse_place(cluster).ok()?,
        work: WorkName::parse(work).ok()?,
    })
}

/// Whether a file has this content; `None` if there is no file.
fn is_unchanged(path: &Path, sha256: Digest) -> Result<Option<bool>, RenderedFolderError> {
    let failed = |source| RenderedFolderError::Read { path: path.to_owned(), source };
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Ok(Some(false)),
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(failed(why)),
        _ => {}
    }
    let text = read(path, limits::RENDERED_FILE_BYTES_MAX)?;
    Ok(text.map(|text| Digest::of(&text) == sha256))
}

/// The first `most` bytes of a file, and one more if it has more; `None` if there is no file.
fn read(path: &Path, most: u64) -> Result<Option<Vec<u8>>, RenderedFolderError> {
    let failed = |source| RenderedFolderError::Read { path: path.to_owned(), source };
    bounded_file::read(path, most + 1).map_err(failed)
}
