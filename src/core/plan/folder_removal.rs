//! The last known state of a work that Git no longer has: the last content of its folder, under the
//! settings of cluster, group and source in the commit that removed it. Pure.
//!
//! OCM's agent reads a deleteOption when it applies a work, not when the work is deleted. So a
//! commit that removes a work and changes its deleteOption has to be read this way.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::config::file::Config;
use crate::config::file_names::{
    CLUSTER_FILE, CLUSTERS, GROUP_FILE, GROUPS, SOURCE_FILE, WORK_FILE,
};
use crate::config::{Budgets, FileKind, GroupFile, SourceFile, WorkFile};
use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::digest::Digest;
use crate::model::facts::Facts;
use crate::model::name::{ClusterName, CommitId, ObjectId, RepoPath, SourceId, WorkKey, WorkName};
use crate::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Snapshot, Tree};
use crate::plan::last_known::{LastKnownState, LastKnownStates};
use crate::render::config_file::read_config;
use crate::render::layout;
pub use crate::render::layout::is_of_group;
use crate::render::renderer::Renderer;

/// The removal of a work folder, or of a cluster from the group that has the folder.
#[derive(Clone)]
pub struct FolderRemoval<'a> {
    /// The work that the folder made.
    pub key: &'a WorkKey,
    /// The work folder, from the source's path.
    pub folder: &'a RepoPath,
    /// The commit that removed the folder.
    pub removed_by: CommitId,
    /// The tree at the source's path in the last commit that had the folder.
    pub before: ObjectId,
    /// The same in the commit that removed it; `None` where the whole path went with it.
    pub after: Option<ObjectId>,
    /// The trees and blobs of both commits.
    pub objects: &'a dyn Objects,
    /// What the hub says of clusters.
    pub facts: Option<Arc<Facts>>,
}

/// What Git last said of the work; `None` if it was not readable then; the state on the hub counts.
pub fn last_known_state(
    source: &SourceId,
    removal: &FolderRemoval<'_>,
) -> Result<Option<LastKnownState>, ObjectError> {
    let left = group_folder(removal)?;
    let removal = &FolderRemoval { before: left.unwrap_or(removal.before), ..removal.clone() };
    let mut just_it = Overlay::new(removal.objects);
    let Some(root) = just_it.reduced(removal)? else { return Ok(None) };
    let render = |root, objects: &Overlay<'_>| {
        let mut renderer = Renderer::new(source.clone()).without_other_works();
        renderer.set_facts(removal.facts.clone());
        renderer.render(&Snapshot { commit: None, root, objects })
    };
    let desired = render(root, &just_it)?;
    let guessed = desired.diagnostics.iter().any(|found| found.code == Code::GuessedPlural);
    let desired = if guessed {
        // An orphaning rule names the plural, and the CRD that tells it stands elsewhere in the
        // repository.
        let mut whole = Overlay::new(removal.objects);
        let Some(root) = whole.whole(removal)? else { return Ok(None) };
        render(root, &whole)?
    } else {
        desired
    };
    let budgets = budgets_of(removal.before, removal.objects)?;
    Ok(desired.works.get(removal.key).map(|work| LastKnownState {
        removed_by: left.is_none().then_some(removal.removed_by),
        delete_option: work.delete_option.clone(),
        prune: work.prune,
        depends_on: work.depends_on.clone(),
        budgets: left.is_none().then_some(budgets),
        added_since: None,
    }))
}

/// Adds what Git last said of the work, and answers its last state. If that is unknown, it adds the
/// works that the work depended on.
pub fn add_to<'f>(
    found: &'f mut LastKnownStates,
    source: &SourceId,
    removal: &FolderRemoval<'_>,
) -> Result<Option<&'f mut LastKnownState>, ObjectError> {
    let key = removal.key;
    match last_known_state(source, removal)? {
        Some(state) => found.insert(key.clone(), state),
        None => found.insert_dependencies(key.clone(), last_dependencies(removal)?),
    }
    Ok(found.works.get_mut(key))
}

/// The works that the work depended on, by its last work.yaml: all that is known if it has no
/// [`last_known_state`]. Names that no work can have are left out.
pub fn last_dependencies(removal: &FolderRemoval<'_>) -> Result<Arc<[WorkKey]>, ObjectError> {
    let root = group_folder(removal)?.unwrap_or(removal.before);
    let snapshot = Snapshot { commit: None, root, objects: removal.objects };
    let entries = work_config(removal.folder, &snapshot)?.unwrap_or_default().depends_on;
    let dependencies = entries.into_iter().filter_map(|entry| {
        let cluster = entry.cluster.as_deref().unwrap_or(removal.key.cluster.as_str());
        let cluster = ClusterName::parse(cluster).ok()?;
        Some(WorkKey { cluster, work: WorkName::parse(&entry.work).ok()? })
    });
    Ok(dependencies.collect())
}

/// The name that a work folder gave its work; `None` if there was no folder, or its name cannot be
/// read.
pub fn work_name(
    folder: &RepoPath,
    snapshot: &Snapshot<'_>,
) -> Result<Option<WorkName>, ObjectError> {
    let Some(config) = work_config(folder, snapshot)? else { return Ok(None) };
    Ok(WorkName::parse(config.name.as_deref().unwrap_or(folder.name())).ok())
}

/// The work.yaml of a work folder, with nothing set if there is none; `None` if there is no folder,
/// or the file cannot be read.
fn work_config(
    folder: &RepoPath,
    snapshot: &Snapshot<'_>,
) -> Result<Option<WorkFile>, ObjectError> {
    let mut folders = Folders::new(snapshot.root, snapshot.objects);
    let Some(tree) = folders.read(folder)? else { return Ok(None) };
    let blob = match tree.get(WORK_FILE) {
        None => None,
        Some(Entry { kind: EntryKind::Blob, id }) => Some(*id),
        Some(_) => return Ok(None),
    };
    let (kind, scope, path) = (FileKind::Work, Scope::Source, folder.join(WORK_FILE));
    let mut problems = Vec::new();
    let config: Option<Config<WorkFile>> =
        read_config(&path, blob, kind, &scope, snapshot.objects, &mut problems)?;
    if problems.iter().any(Diagnostic::is_error) {
        return Ok(None);
    }
    Ok(Some(config.map(|config| config.value).unwrap_or_default()))
}

/// The tree that still has the work folder of a group: the cluster has left the group, and no
/// commit is known for that. `None` if the folder is removed.
fn group_folder(removal: &FolderRemoval<'_>) -> Result<Option<ObjectId>, ObjectError> {
    match removal.after {
        Some(after) if is_of_group(removal.folder) => has_folder(removal, after),
        _ => Ok(None),
    }
}

/// The tree `root`, if it has the work folder.
fn has_folder(
    removal: &FolderRemoval<'_>,
    root: ObjectId,
) -> Result<Option<ObjectId>, ObjectError> {
    let mut folders = Folders::new(root, removal.objects);
    Ok(folders.read(removal.folder)?.map(|_| root))
}

/// Folders below a tree, each read once.
pub(super) struct Folders<'a> {
    root: ObjectId,
    objects: &'a dyn Objects,
    known: BTreeMap<RepoPath, Option<Arc<Tree>>>,
}

impl<'a> Folders<'a> {
    pub(super) fn new(root: ObjectId, objects: &'a dyn Objects) -> Self {
        Self { root, objects, known: BTreeMap::new() }
    }

    /// `None` where there is no such folder, or a malformed one.
    pub(super) fn read(&mut self, path: &RepoPath) -> Result<Option<Arc<Tree>>, ObjectError> {
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let id = match path.parent() {
            None => Some(self.root),
            Some(parent) => {
                match self.read(&parent)?.as_ref().and_then(|tree| tree.get(path.name())) {
                    Some(Entry { kind: EntryKind::Tree, id }) => Some(*id),
                    _ => None,
                }
            }
        };
        let tree = id.map(|id| readable(self.objects, id)).transpose()?.flatten();
        self.known.insert(path.clone(), tree.clone());
        Ok(tree)
    }
}

/// A tree; `None` for one that is malformed: its commit said nothing there.
fn readable(objects: &dyn Objects, id: ObjectId) -> Result<Option<Arc<Tree>>, ObjectError> {
    match objects.tree(id) {
        Ok(tree) => Ok(Some(tree)),
        Err(why) if why.is_of_object() => Ok(None),
        Err(why) => Err(why),
    }
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

/// An object store with some trees and files of our own making before it.
struct Overlay<'a> {
    base: &'a dyn Objects,
    trees: BTreeMap<ObjectId, Arc<Tree>>,
    blobs: BTreeMap<ObjectId, Arc<[u8]>>,
}

/// The folder of a cluster or a group, with the folder that it is in.
struct OwnerFolder {
    /// `clusters` or `groups`.
    among: &'static str,
    name: String,
    /// cluster.yaml or group.yaml.
    config_file: &'static str,
    tree: Tree,
}

impl Objects for Overlay<'_> {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.trees.get(&id).map_or_else(|| self.base.tree(id), |tree| Ok(tree.clone()))
    }
    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        self.blobs.get(&id).map_or_else(|| self.base.blob(id, limit), |blob| Ok(blob.clone()))
    }
}

impl<'a> Overlay<'a> {
    fn new(base: &'a dyn Objects) -> Self {
        Self { base, trees: BTreeMap::new(), blobs: BTreeMap::new() }
    }

    fn add(&mut self, tree: Tree) -> Entry {
        let text: Vec<String> = tree
            .iter()
            .map(|(name, entry)| format!("{name}\0{:?}\0{}", entry.kind, entry.id))
            .collect();
        let id = id_of(&text.join("\n"));
        self.trees.insert(id, Arc::new(tree));
        Entry { kind: EntryKind::Tree, id }
    }

    /// The folder `name` of a tree; empty where there is none, or a malformed one.
    fn folder(&self, tree: &Tree, name: &str) -> Result<Tree, ObjectError> {
        let Some(Entry { kind: EntryKind::Tree, id }) = tree.get(name) else {
            return Ok(Tree::new());
        };
        Ok(readable(self, *id)?.map(Arc::unwrap_or_clone).unwrap_or_default())
    }

    /// A repository of just that one work; `None` if the folder was not there.
    fn reduced(&mut self, removal: &FolderRemoval<'_>) -> Result<Option<ObjectId>, ObjectError> {
        let before = self.tree(removal.before)?;
        let mut owners = self.owners(removal, &before)?;
        for owner in &mut owners {
            let mut works = Tree::new();
            let is_its = removal.folder.parts().next() == Some(owner.among);
            let name = removal.folder.name();
            if is_its {
                let Some(work) = owner.tree.get(name) else { return Ok(None) };
                works.insert(name.to_owned(), work.clone());
            }
            owner.tree = works;
        }
        self.judged(removal, Tree::new(), owners)
    }

    /// The whole repository as it was before.
    fn whole(&mut self, removal: &FolderRemoval<'_>) -> Result<Option<ObjectId>, ObjectError> {
        let root = (*self.tree(removal.before)?).clone();
        let owners = self.owners(removal, &root)?;
        self.judged(removal, root, owners)
    }

    /// The folders of the cluster, and of the group that has the work folder.
    fn owners(
        &self,
        removal: &FolderRemoval<'_>,
        root: &Tree,
    ) -> Result<Vec<OwnerFolder>, ObjectError> {
        let cluster = removal.key.cluster.to_string();
        let group = layout::group_of(removal.folder).map(|group| group.to_string());
        let all =
            [Some((CLUSTERS, cluster, CLUSTER_FILE)), group.map(|name| (GROUPS, name, GROUP_FILE))];
        let mut owners = Vec::new();
        for (among, name, config_file) in all.into_iter().flatten() {
            let tree = self.folder(&self.folder(root, among)?, &name)?;
            owners.push(OwnerFolder { among, name, config_file, tree });
        }
        Ok(owners)
    }

    /// With the configuration of the commit that removed the work, or where that has none, of the
    /// one before: a file that is removed together with the work does not change its last known
    /// state. `None` if a group has no readable configuration.
    fn judged(
        &mut self,
        removal: &FolderRemoval<'_>,
        mut root: Tree,
        owners: Vec<OwnerFolder>,
    ) -> Result<Option<ObjectId>, ObjectError> {
        let mut commits = Vec::new();
        for commit in [Some(removal.before), removal.after].into_iter().flatten() {
            commits.extend(readable(self, commit)?);
        }
        for commit in &commits {
            root.extend(commit.get(SOURCE_FILE).map(|file| (SOURCE_FILE.to_owned(), file.clone())));
        }
        for OwnerFolder { among, name, config_file, mut tree } in owners {
            for commit in &commits {
                let there = self.folder(&self.folder(commit, among)?, &name)?;
                let file = there.get(config_file);
                tree.extend(file.map(|file| (config_file.to_owned(), file.clone())));
            }
            if among == GROUPS {
                let Some(file) = self.with_member(tree.get(GROUP_FILE), removal.key)? else {
                    return Ok(None);
                };
                tree.insert(GROUP_FILE.to_owned(), file);
            }
            let mut all = self.folder(&root, among)?;
            let owner = self.add(tree);
            all.insert(name, owner);
            let all = self.add(all);
            root.insert(among.to_owned(), all);
        }
        Ok(Some(self.add(root).id))
    }

    /// A group.yaml by which the work's cluster is the only one in the group, or which makes a
    /// replica set; `None` if the file cannot be read.
    fn with_member(
        &mut self,
        file: Option<&Entry>,
        key: &WorkKey,
    ) -> Result<Option<Entry>, ObjectError> {
        let Some(blob) = file.filter(|file| file.kind == EntryKind::Blob) else { return Ok(None) };
        let path = RepoPath::root().join(GROUP_FILE);
        let config: Option<Config<GroupFile>> = read_config(
            &path,
            Some(blob.id),
            FileKind::Group,
            &Scope::Source,
            self,
            &mut Vec::new(),
        )?;
        let Some(Config { document, .. }) = config else { return Ok(None) };
        let mut value = document.value;
        let Some(fields) = value.as_object_mut() else { return Ok(None) };
        for condition in ["clusters", "selector", "placement", "exclude", "deliver"] {
            fields.remove(condition);
        }
        match key.cluster.replica_set_namespace() {
            None => {
                fields.insert("clusters".to_owned(), json!([key.cluster.as_str()]));
            }
            Some(namespace) => {
                // Its strategy decides about no last state.
                for field in ["overrides", "rollout"] {
                    fields.remove(field);
                }
                let placement = json!({"name": "any", "namespace": namespace});
                fields.insert("placement".to_owned(), placement);
                fields.insert("deliver".to_owned(), json!("ManifestWorkReplicaSet"));
            }
        }
        let text = value.to_string();
        let id = id_of(&text);
        self.blobs.insert(id, text.as_bytes().into());
        Ok(Some(Entry { kind: EntryKind::Blob, id }))
    }
}

/// An id that no object of the base has.
fn id_of(text: &str) -> ObjectId {
    let digest = Digest::of(format!("made by an overlay\0{text}").as_bytes());
    let mut id = ObjectId([0; 20]);
    id.0.iter_mut().zip(digest.0).for_each(|(to, from)| *to = from);
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::added_works::AddedWorks;
    use crate::render::test_repository::{TestFile, TestFiles, TestRepository, files, render};

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, name: a}\n";

    fn key(cluster: &str, work: &str) -> WorkKey {
        let (cluster, work) =
            (ClusterName::parse(cluster).unwrap(), WorkName::parse(work).unwrap());
        WorkKey { cluster, work }
    }

    #[test]
    fn name_of_a_folder_is_that_of_its_work_file_if_it_can_be_read() {
        let mut all = files(&[
            ("clusters/a/plain/x.yaml", MAP),
            ("clusters/a/empty/work.yaml", ""),
            ("clusters/a/named/work.yaml", "name: web\n"),
            ("clusters/a/other/work.yaml", "prune: false\n"),
            ("clusters/a/bad/work.yaml", "name: ["),
            ("clusters/a/Bad_/x.yaml", MAP),
            ("clusters/a/file", ""),
        ]);
        all.insert("clusters/a/link/work.yaml".into(), TestFile::Link("x.yaml".into()));
        let mut objects = TestRepository::default();
        let root = objects.add(&all);
        let snapshot = Snapshot { commit: None, root, objects: &objects };
        for (folder, expected) in [
            ("plain", Some("plain")),
            ("empty", Some("empty")),
            ("named", Some("web")),
            ("other", Some("other")),
            ("bad", None),
            ("Bad_", None),
            ("file", None),
            ("link", None),
            ("gone", None),
        ] {
            let path = RepoPath::parse(&format!("clusters/a/{folder}")).unwrap();
            let name = work_name(&path, &snapshot).unwrap();
            assert_eq!(name.as_ref().map(WorkName::as_str), expected, "{folder}");
        }
    }

    /// A malformed folder of another cluster, or in the commit that removed the work, does not keep
    /// the removal from being known.
    #[test]
    fn removal_is_known_beside_malformed_folders() {
        let mut before = files(&[
            ("clusters/a/web/x.yaml", MAP),
            ("clusters/a/web/work.yaml", "deleteOption: {propagationPolicy: Orphan}\n"),
        ]);
        before.insert("clusters/b".into(), TestFile::BadFolder);
        let after: TestFiles = [("clusters".to_owned(), TestFile::BadFolder)].into();
        let now = files(&[("clusters/a/new/x.yaml", MAP), ("clusters/b/shop/x.yaml", MAP)]);
        let mut objects = TestRepository::default();
        let (before, after) = (objects.add(&before), objects.add(&after));
        let folder = RepoPath::parse("clusters/a/web").unwrap();
        let removal = FolderRemoval {
            key: &key("a", "web"),
            folder: &folder,
            removed_by: ObjectId([7; 20]),
            before,
            after: Some(after),
            objects: &objects,
            facts: None,
        };
        let source = SourceId::parse("fleet").unwrap();
        let state = last_known_state(&source, &removal).unwrap().unwrap();
        assert_eq!(state.delete_option.policy(), "Orphan");
        let desired = render(&now, "[]");
        let added = AddedWorks::new(&desired, None).since(before, &objects).unwrap();
        assert_eq!(added.works, [key("a", "new"), key("b", "shop")].into());
    }
}
