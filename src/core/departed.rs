//! Git's last word on a work that it no longer has: the work folder as it last stood, under what the commit that
//! removed it says of its cluster and source. Pure.
//!
//! OCM's agent reads a deleteOption when it applies a work, not when the work is deleted. So a commit that
//! drops a work and changes what deletion does has to be read this way to be respected.

use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::config::{Budgets, FileKind, SourceFile};
use super::configfile::Config;
use super::desired::{Desired, Renderer, read_config};
use super::diagnostic::{Code, Scope};
use super::digest::Digest;
use super::layout::{CLUSTER_FILE, CLUSTERS, SOURCE_FILE};
use super::name::{CommitId, ObjectId, RepoPath, SourceId, WorkKey};
use super::plan::LastStood;
use super::snapshot::{Entry, EntryKind, ObjectError, Objects, Snapshot, Tree};

/// A work folder's end.
pub struct Removal<'a> {
    pub key: &'a WorkKey,
    /// The work folder, from the source's path.
    pub folder: &'a RepoPath,
    pub removed_by: CommitId,
    /// The tree at the source's path in the last commit that had the folder.
    pub before: ObjectId,
    /// The same in the commit that removed it; `None` where the whole path went with it.
    pub after: Option<ObjectId>,
    pub objects: &'a dyn Objects,
}

/// What Git last said of the work; `None` where it was not readable then, so that the hub's own word stands.
pub fn last_stood(
    source: &SourceId,
    removal: &Removal<'_>,
) -> Result<Option<LastStood>, ObjectError> {
    let mut just_it = Overlay::new(removal.objects);
    let Some(root) = just_it.reduced(removal)? else { return Ok(None) };
    let desired = render(source, root, &just_it)?;
    let guessed = desired.diagnostics.iter().any(|found| found.code == Code::GuessedPlural);
    let desired = if guessed {
        // An orphaning rule names the plural, and the CRD that tells it stands elsewhere in the repository.
        let mut whole = Overlay::new(removal.objects);
        let root = whole.whole(removal)?;
        render(source, root, &whole)?
    } else {
        desired
    };
    let budgets = budgets_of(removal.before, removal.objects)?;
    Ok(desired.works.get(removal.key).map(|work| LastStood {
        removed_by: Some(removal.removed_by),
        delete_option: work.delete_option.clone(),
        prune: work.prune,
        budgets: Some(budgets),
        brought: None,
    }))
}

/// Those works of `desired` whose folders were not in the tree `before` at the source's path.
pub fn brought(
    desired: &Desired,
    before: ObjectId,
    objects: &dyn Objects,
) -> Result<BTreeSet<WorkKey>, ObjectError> {
    let mut parents: BTreeMap<Option<RepoPath>, Option<Arc<Tree>>> = BTreeMap::new();
    let mut brought = BTreeSet::new();
    for (key, work) in &desired.works {
        let parent = match parents.entry(work.path.parent()) {
            Occupied(known) => known.into_mut(),
            Vacant(place) => {
                let found = tree_at(before, place.key().as_ref(), objects)?;
                place.insert(found)
            }
        };
        let entry = parent.as_ref().and_then(|tree| tree.get(work.path.name()));
        if entry.is_none_or(|entry| entry.kind != EntryKind::Tree) {
            brought.insert(key.clone());
        }
    }
    Ok(brought)
}

/// The folder at a path below `root`; `None` where there is none.
fn tree_at(
    root: ObjectId,
    path: Option<&RepoPath>,
    objects: &dyn Objects,
) -> Result<Option<Arc<Tree>>, ObjectError> {
    let mut tree = objects.tree(root)?;
    for name in path.iter().flat_map(|path| path.parts()) {
        tree = match tree.get(name) {
            Some(Entry { kind: EntryKind::Tree, id }) => objects.tree(*id)?,
            _ => return Ok(None),
        };
    }
    Ok(Some(tree))
}

/// What the gitwork.yaml in the tree `root` says of budgets; nothing where it cannot be read.
fn budgets_of(root: ObjectId, objects: &dyn Objects) -> Result<Budgets, ObjectError> {
    let tree = objects.tree(root)?;
    let file = tree.get(SOURCE_FILE).filter(|entry| entry.kind == EntryKind::Blob);
    let path = RepoPath::root().join(SOURCE_FILE);
    let blob = file.map(|file| file.id);
    let (kind, scope) = (FileKind::Source, Scope::Source);
    let config: Option<Config<SourceFile>> =
        read_config(&path, blob, kind, &scope, objects, &mut Vec::new())?;
    Ok(config.map(|config| config.value.budgets).unwrap_or_default())
}

fn render(
    source: &SourceId,
    root: ObjectId,
    objects: &dyn Objects,
) -> Result<Desired, ObjectError> {
    Renderer::new(source.clone()).render(&Snapshot { commit: None, root, objects })
}

/// An object store with some trees of our own making before it.
struct Overlay<'a> {
    base: &'a dyn Objects,
    trees: BTreeMap<ObjectId, Arc<Tree>>,
}

impl Objects for Overlay<'_> {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.trees.get(&id).map_or_else(|| self.base.tree(id), |tree| Ok(tree.clone()))
    }
    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        self.base.blob(id, limit)
    }
}

impl<'a> Overlay<'a> {
    fn new(base: &'a dyn Objects) -> Self {
        Self { base, trees: BTreeMap::new() }
    }

    fn add(&mut self, tree: Tree) -> Entry {
        let text: Vec<String> = tree
            .iter()
            .map(|(name, entry)| format!("{name}\0{:?}\0{}", entry.kind, entry.id))
            .collect();
        let digest = Digest::of(format!("made by an overlay\0{}", text.join("\n")).as_bytes());
        let mut id = ObjectId([0; 20]);
        id.0.iter_mut().zip(digest.0).for_each(|(to, from)| *to = from);
        self.trees.insert(id, Arc::new(tree));
        Entry { kind: EntryKind::Tree, id }
    }

    /// The folder `name` of a tree; empty where there is none.
    fn folder(&self, tree: &Tree, name: &str) -> Result<Tree, ObjectError> {
        match tree.get(name) {
            Some(Entry { kind: EntryKind::Tree, id }) => Ok((*self.tree(*id)?).clone()),
            _ => Ok(Tree::new()),
        }
    }

    /// A repository of just that one work.
    fn reduced(&mut self, removal: &Removal<'_>) -> Result<Option<ObjectId>, ObjectError> {
        let before = self.tree(removal.before)?;
        let clusters = self.folder(&before, CLUSTERS)?;
        let cluster = self.folder(&clusters, removal.key.cluster.as_str())?;
        let name = removal.folder.name();
        let Some(work) = cluster.get(name) else { return Ok(None) };
        let works = [(name.to_owned(), work.clone())].into();
        self.judged(removal, Tree::new(), Tree::new(), works).map(Some)
    }

    /// The whole repository as it was before.
    fn whole(&mut self, removal: &Removal<'_>) -> Result<ObjectId, ObjectError> {
        let root = (*self.tree(removal.before)?).clone();
        let clusters = self.folder(&root, CLUSTERS)?;
        let cluster = self.folder(&clusters, removal.key.cluster.as_str())?;
        self.judged(removal, root, clusters, cluster)
    }

    /// With the configuration of the commit that removed the work, or where that has none, of the one before: a
    /// file that goes together with the work does not change its last word.
    fn judged(
        &mut self,
        removal: &Removal<'_>,
        mut root: Tree,
        mut clusters: Tree,
        mut cluster: Tree,
    ) -> Result<ObjectId, ObjectError> {
        let name = removal.key.cluster.as_str();
        for from in [Some(removal.before), removal.after].into_iter().flatten() {
            let from = self.tree(from)?;
            let from_cluster = self.folder(&self.folder(&from, CLUSTERS)?, name)?;
            root.extend(from.get(SOURCE_FILE).map(|file| (SOURCE_FILE.to_owned(), file.clone())));
            let file = from_cluster.get(CLUSTER_FILE);
            cluster.extend(file.map(|file| (CLUSTER_FILE.to_owned(), file.clone())));
        }
        let cluster = self.add(cluster);
        clusters.insert(name.to_owned(), cluster);
        let clusters = self.add(clusters);
        root.insert(CLUSTERS.to_owned(), clusters);
        Ok(self.add(root).id)
    }
}
