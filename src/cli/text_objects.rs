//! Files in memory, as the objects of a commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use gitwork_core::model::name::{ObjectId, RepoPath};
use gitwork_core::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Tree};

/// Texts by path.
pub(super) type Texts = BTreeMap<RepoPath, Vec<u8>>;

/// Files in memory as the trees and blobs of a commit, numbered in the order of their making.
#[derive(Debug, Default)]
pub(super) struct TextObjects {
    trees: BTreeMap<ObjectId, Arc<Tree>>,
    blobs: BTreeMap<ObjectId, Arc<[u8]>>,
}

impl TextObjects {
    fn next_id(&self) -> ObjectId {
        let mut id = [0; 20];
        let number = (self.trees.len() + self.blobs.len()) as u64;
        id.iter_mut().zip(number.to_be_bytes()).for_each(|(to, from)| *to = from);
        ObjectId(id)
    }

    /// Adds a folder with these files, and returns the id of its tree.
    pub fn add_folder(&mut self, texts: &Texts) -> ObjectId {
        let mut tree = Tree::new();
        let mut folders: BTreeMap<&str, Texts> = BTreeMap::new();
        for (path, text) in texts {
            match path.as_str().split_once('/') {
                Some((folder, rest)) => {
                    let rest = rest.split('/').fold(RepoPath::root(), |at, name| at.join(name));
                    folders.entry(folder).or_default().insert(rest, text.clone());
                }
                None => {
                    let id = self.next_id();
                    self.blobs.insert(id, text.clone().into());
                    tree.insert(path.as_str().to_owned(), Entry { kind: EntryKind::Blob, id });
                }
            }
        }
        for (name, texts) in folders {
            let id = self.add_folder(&texts);
            tree.insert(name.to_owned(), Entry { kind: EntryKind::Tree, id });
        }
        let id = self.next_id();
        self.trees.insert(id, Arc::new(tree));
        id
    }
}

impl Objects for TextObjects {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.trees.get(&id).cloned().ok_or(ObjectError::Missing(id))
    }

    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        let blob = self.blobs.get(&id).cloned().ok_or(ObjectError::Missing(id))?;
        if blob.len() > limit {
            return Err(ObjectError::TooLarge { id, size: blob.len() as u64, limit });
        }
        Ok(blob)
    }
}
