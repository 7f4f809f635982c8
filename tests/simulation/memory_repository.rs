//! A repository in memory: paths and texts into a content-addressed store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use gitwork_core::config::tenancy::Tenancy;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{ObjectId, SourceId};
use gitwork_core::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Snapshot, Tree};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;

/// Trees and blobs by id; equal content has equal ids, as in Git.
#[derive(Clone, Default)]
pub struct MemoryObjects {
    trees: BTreeMap<ObjectId, Arc<Tree>>,
    blobs: BTreeMap<ObjectId, Arc<[u8]>>,
    /// How many trees and blobs were read: the cost of a pass.
    pub reads: std::cell::Cell<usize>,
}

/// One file: its bytes, or where a link points to.
#[derive(Debug, Clone)]
pub enum File {
    Bytes(Vec<u8>),
    Link(String),
    Submodule,
    /// A folder whose object is none.
    BadFolder,
}

impl From<&str> for File {
    fn from(text: &str) -> Self {
        File::Bytes(text.as_bytes().to_vec())
    }
}

fn id(kind: &str, bytes: &[u8]) -> ObjectId {
    let digest = Digest::of(&[kind.as_bytes(), b"\0", bytes].concat());
    ObjectId(digest.0[..20].try_into().unwrap())
}

impl MemoryObjects {
    /// Stores the files and returns the id of their tree.
    pub fn add(&mut self, files: &BTreeMap<String, File>) -> ObjectId {
        let mut here = Tree::new();
        let mut below: BTreeMap<String, BTreeMap<String, File>> = BTreeMap::new();
        for (path, file) in files {
            if let Some((folder, rest)) = path.split_once('/') {
                below.entry(folder.into()).or_default().insert(rest.into(), file.clone());
                continue;
            }
            let (kind, bytes) = match file {
                File::Bytes(bytes) => (EntryKind::Blob, bytes.clone()),
                File::Link(target) => (EntryKind::Symlink, target.clone().into_bytes()),
                File::Submodule => (EntryKind::Gitlink, Vec::new()),
                File::BadFolder => (EntryKind::Tree, b"no tree".to_vec()),
            };
            let id = self.add_blob(bytes);
            here.insert(path.clone(), Entry { kind, id });
        }
        for (folder, files) in below {
            let id = self.add(&files);
            here.insert(folder, Entry { kind: EntryKind::Tree, id });
        }
        self.add_tree(here)
    }

    pub fn add_blob(&mut self, bytes: Vec<u8>) -> ObjectId {
        let id = id("blob", &bytes);
        self.blobs.insert(id, bytes.into());
        id
    }

    pub fn add_tree(&mut self, tree: Tree) -> ObjectId {
        let mut bytes = Vec::new();
        for (name, entry) in &tree {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&[0, entry.kind as u8]);
            bytes.extend_from_slice(&entry.id.0);
        }
        let id = id("tree", &bytes);
        self.trees.insert(id, Arc::new(tree));
        id
    }

    fn missing(&self, id: ObjectId) -> ObjectError {
        if self.trees.contains_key(&id) || self.blobs.contains_key(&id) {
            return ObjectError::Malformed(id, "it is of another kind".into());
        }
        ObjectError::Missing(id)
    }

    /// Removes an object, to simulate a damaged repository.
    pub fn lose(&mut self, id: ObjectId) {
        self.trees.remove(&id);
        self.blobs.remove(&id);
    }
}

impl Objects for MemoryObjects {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.reads.set(self.reads.get() + 1);
        self.trees.get(&id).cloned().ok_or_else(|| self.missing(id))
    }
    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        self.reads.set(self.reads.get() + 1);
        let blob = self.blobs.get(&id).cloned().ok_or_else(|| self.missing(id))?;
        if blob.len() > limit {
            return Err(ObjectError::TooLarge { id, size: blob.len() as u64, limit });
        }
        Ok(blob)
    }
}

/// Every file below `folder`, by its path from there.
pub fn files_below(folder: &Path) -> BTreeMap<String, File> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            let below = files_below(&entry.path());
            found.extend(below.into_iter().map(|(path, file)| (format!("{name}/{path}"), file)));
        } else if kind.is_symlink() {
            let target = std::fs::read_link(entry.path()).unwrap();
            found.insert(name, File::Link(target.into_os_string().into_string().unwrap()));
        } else {
            found.insert(name, File::Bytes(std::fs::read(entry.path()).unwrap()));
        }
    }
    found
}

/// A small repository: `(path, text)` pairs.
pub fn files(pairs: &[(&str, &str)]) -> BTreeMap<String, File> {
    pairs.iter().map(|(path, text)| ((*path).to_owned(), File::from(*text))).collect()
}

pub fn source() -> SourceId {
    SourceId::parse("fleet").unwrap()
}

/// Renders a repository from nothing.
pub fn render(files: &BTreeMap<String, File>) -> Desired {
    render_within(files, Tenancy::default())
}

/// As `render`, with what the hub says of clusters.
pub fn render_with_facts(files: &BTreeMap<String, File>, facts: Facts) -> Desired {
    let mut objects = MemoryObjects::default();
    let root = objects.add(files);
    let mut renderer = Renderer::new(source());
    renderer.set_facts(Some(Arc::new(facts)));
    renderer.render(&Snapshot { commit: None, root, objects: &objects }).unwrap()
}

/// As `render`, with the operator's policy.
pub fn render_within(files: &BTreeMap<String, File>, tenancy: Tenancy) -> Desired {
    let mut objects = MemoryObjects::default();
    let root = objects.add(files);
    let mut renderer = Renderer::new(source()).with_tenancy(tenancy);
    renderer.render(&Snapshot { commit: None, root, objects: &objects }).unwrap()
}
