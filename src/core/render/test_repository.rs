//! A repository in memory, for the tests of rendering. Equal content has equal ids, as in Git.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gitwork_core::config::tenancy::{Tenancy, TenantRule};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ObjectId, SourceId};
use gitwork_core::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Snapshot, Tree};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;

/// Trees and blobs by their ids.
#[derive(Debug, Default)]
pub(crate) struct TestRepository {
    trees: BTreeMap<ObjectId, Arc<Tree>>,
    blobs: BTreeMap<ObjectId, Arc<[u8]>>,
    manifest_reads: AtomicUsize,
}

/// What stands at a path.
#[derive(Debug, Clone)]
pub(crate) enum TestFile {
    Text(String),
    /// A symbolic link, with its target.
    Link(String),
    /// A folder whose object is no tree.
    BadFolder,
}

impl From<&str> for TestFile {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Files by their paths.
pub(crate) type TestFiles = BTreeMap<String, TestFile>;

pub(crate) fn files(pairs: &[(&str, &str)]) -> TestFiles {
    pairs.iter().map(|(path, text)| ((*path).to_owned(), TestFile::from(*text))).collect()
}

/// Renders the files. `policy`: the rules for tenants, as in the daemon's file.
pub(crate) fn render(files: &TestFiles, policy: &str) -> Desired {
    let mut repository = TestRepository::default();
    let root = repository.add(files);
    let rules: Vec<TenantRule> = serde_yaml::from_str(policy).unwrap();
    let source = SourceId::parse("fleet").unwrap();
    let mut renderer = Renderer::new(source).with_tenancy(Tenancy::from(rules));
    renderer.render(&Snapshot { commit: None, root, objects: &repository }).unwrap()
}

fn id(kind: &str, bytes: &[u8]) -> ObjectId {
    let digest = Digest::of(&[kind.as_bytes(), b"\0", bytes].concat());
    let mut id = ObjectId([0; 20]);
    id.0.copy_from_slice(&digest.0[..20]);
    id
}

impl TestRepository {
    /// How often a manifest file was read.
    pub(crate) fn manifest_reads(&self) -> usize {
        self.manifest_reads.load(Ordering::Relaxed)
    }

    /// Counts from zero.
    pub(crate) fn forget_manifest_reads(&self) {
        self.manifest_reads.store(0, Ordering::Relaxed);
    }

    /// Takes away a file's object, as in a damaged mirror.
    pub(crate) fn lose_blob(&mut self, text: &str) {
        self.blobs.remove(&id("blob", text.as_bytes()));
    }

    /// Stores the files, and gives the id of their tree.
    pub(crate) fn add(&mut self, files: &TestFiles) -> ObjectId {
        let mut tree = Tree::new();
        let mut below: BTreeMap<&str, TestFiles> = BTreeMap::new();
        for (path, file) in files {
            if let Some((folder, rest)) = path.split_once('/') {
                below.entry(folder).or_default().insert(rest.to_owned(), file.clone());
                continue;
            }
            let (kind, text) = match file {
                TestFile::Text(text) => (EntryKind::Blob, text.as_str()),
                TestFile::Link(target) => (EntryKind::Symlink, target.as_str()),
                TestFile::BadFolder => (EntryKind::Tree, "no tree"),
            };
            let id = id("blob", text.as_bytes());
            self.blobs.insert(id, text.as_bytes().into());
            tree.insert(path.clone(), Entry { kind, id });
        }
        for (folder, files) in below {
            let id = self.add(&files);
            tree.insert(folder.to_owned(), Entry { kind: EntryKind::Tree, id });
        }
        let text: Vec<String> = tree
            .iter()
            .map(|(name, Entry { kind, id })| format!("{name}\0{kind:?}\0{id}"))
            .collect();
        let id = id("tree", text.join("\n").as_bytes());
        self.trees.insert(id, Arc::new(tree));
        id
    }
}

impl Objects for TestRepository {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        let malformed = |_: &Arc<[u8]>| ObjectError::Malformed(id, "it is a blob".into());
        let found = self.trees.get(&id).cloned();
        found.ok_or_else(|| self.blobs.get(&id).map_or(ObjectError::Missing(id), malformed))
    }

    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        let blob = self.blobs.get(&id).cloned().ok_or(ObjectError::Missing(id))?;
        if blob.len() > limit {
            return Err(ObjectError::TooLarge { id, size: blob.len() as u64, limit });
        }
        let is_manifest = std::str::from_utf8(&blob).is_ok_and(|text| text.contains("apiVersion"));
        self.manifest_reads.fetch_add(usize::from(is_manifest), Ordering::Relaxed);
        Ok(blob)
    }

    fn for_thread(&self) -> Option<Box<dyn Objects + Send + '_>> {
        Some(Box::new(self))
    }
}
