//! Trees and blobs of a snapshot with some files changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::name::{ObjectId, RepoPath};
use crate::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Tree};

/// Another snapshot's objects, and changed ones.
pub(super) struct ChangedObjects<'a> {
    base: &'a dyn Objects,
    trees: BTreeMap<ObjectId, Arc<Tree>>,
    blobs: BTreeMap<ObjectId, Arc<[u8]>>,
}

impl<'a> ChangedObjects<'a> {
    /// Nothing is changed yet.
    pub(super) fn new(base: &'a dyn Objects) -> Self {
        Self { base, trees: BTreeMap::new(), blobs: BTreeMap::new() }
    }

    /// An id that no other object has: all other ids are digests.
    fn next_id(&self) -> ObjectId {
        let mut id = [0xff; 20];
        let number = (self.trees.len() + self.blobs.len()) as u64;
        id.iter_mut().zip(number.to_be_bytes()).for_each(|(to, from)| *to = from);
        ObjectId(id)
    }

    /// The regular file at a path that no link is on.
    pub(super) fn file(
        &self,
        root: ObjectId,
        path: &RepoPath,
    ) -> Result<Option<Entry>, ObjectError> {
        let mut at = Entry { kind: EntryKind::Tree, id: root };
        for part in path.parts() {
            if at.kind != EntryKind::Tree {
                return Ok(None);
            }
            let Some(entry) = self.tree(at.id)?.get(part).cloned() else { return Ok(None) };
            at = entry;
        }
        Ok(Some(at).filter(|entry| entry.kind == EntryKind::Blob))
    }

    /// The root with a file of this text at a path, or without the file. The folder of the file
    /// has to be there.
    pub(super) fn set(
        &mut self,
        root: ObjectId,
        path: &RepoPath,
        text: Option<&Arc<[u8]>>,
    ) -> Result<ObjectId, ObjectError> {
        let mut entry = None;
        if let Some(text) = text {
            let id = self.next_id();
            self.blobs.insert(id, text.clone());
            entry = Some(Entry { kind: EntryKind::Blob, id });
        }
        let (mut on_the_way, mut at) = (Vec::new(), root);
        for part in path.parts() {
            let tree = self.tree(at)?;
            if let Some(next) = tree.get(part).filter(|next| next.kind == EntryKind::Tree) {
                at = next.id;
            }
            on_the_way.push((tree, part));
        }
        for (tree, part) in on_the_way.into_iter().rev() {
            let mut tree = Tree::clone(&tree);
            match entry {
                Some(entry) => drop(tree.insert(part.to_owned(), entry)),
                None => drop(tree.remove(part)),
            }
            let id = self.next_id();
            self.trees.insert(id, Arc::new(tree));
            entry = Some(Entry { kind: EntryKind::Tree, id });
        }
        Ok(entry.map_or(root, |entry| entry.id))
    }
}

impl Objects for ChangedObjects<'_> {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.trees.get(&id).map_or_else(|| self.base.tree(id), |tree| Ok(tree.clone()))
    }

    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        let Some(blob) = self.blobs.get(&id) else { return self.base.blob(id, limit) };
        if blob.len() > limit {
            return Err(ObjectError::TooLarge { id, size: blob.len() as u64, limit });
        }
        Ok(blob.clone())
    }
}
