//! The upper levels: the source's path, `clusters`, and each cluster's folder.

use std::collections::BTreeMap;
use std::sync::Arc;

use gitwork_api::names::NameError;

use super::entries::{bad_name, bad_object, gitlink, is_manifest, link, object_problem, stray};
use crate::config::file_names::{
    APPROVALS, CLUSTER_FILE, CLUSTERS, GROUP_FILE, GROUPS, SOURCE_FILE, is_misnamed,
};
use crate::config::path_patterns::PathPatterns;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, GroupName, ObjectId, RepoPath, WorkKey, WorkName};
use crate::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Tree};

/// What stands at a source's path.
#[derive(Debug, Default)]
pub struct Top {
    /// The blob of gitwork.yaml.
    pub source_file: Option<ObjectId>,
    /// Folder name to the cluster's tree.
    pub clusters: BTreeMap<ClusterName, ObjectId>,
    /// Folder name to the group's tree.
    pub groups: BTreeMap<GroupName, ObjectId>,
    /// Files of the `approvals` folder by name.
    pub approvals: BTreeMap<String, ObjectId>,
    /// What is wrong at this level.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the source's path and the folders `clusters` and `groups`, but nothing below them.
pub fn top(root: ObjectId, objects: &dyn Objects) -> Result<Top, ObjectError> {
    let mut top = Top::default();
    let Some(tree) = top.tree(&RepoPath::root(), root, objects)? else { return Ok(top) };
    if let Some(entry) = tree.get(SOURCE_FILE) {
        if entry.kind == EntryKind::Blob {
            top.source_file = Some(entry.id);
        } else {
            top.report(Code::UnexpectedShape, SOURCE_FILE, "gitwork.yaml must be a file");
        }
    }
    let files = tree.iter().filter(|(_, entry)| entry.kind == EntryKind::Blob);
    for (name, _) in files.filter(|(name, _)| is_misnamed(name, SOURCE_FILE)) {
        let file = RepoPath::root().join(name);
        top.diagnostics.push(Diagnostic::misnamed(&file, SOURCE_FILE, Scope::Source));
    }
    match tree.get(GROUPS) {
        Some(Entry { kind: EntryKind::Tree, id }) => {
            let path = RepoPath::root().join(GROUPS);
            if let Some(tree) = top.tree(&path, *id, objects)? {
                read_groups(&tree, &mut top);
            }
        }
        // It may stand in the place of any group's folder.
        Some(_) => top.report(Code::UnexpectedShape, GROUPS, "\"groups\" is not a folder"),
        None => {}
    }
    if let Some(Entry { kind: EntryKind::Tree, id }) = tree.get(APPROVALS) {
        match objects.tree(*id) {
            Ok(tree) => read_approvals(&tree, &mut top),
            Err(why) if why.is_of_object() => {
                let message = format!("no approval was read: {}", object_problem(&why));
                top.report(Code::BadApproval, APPROVALS, message);
            }
            Err(why) => return Err(why),
        }
    }
    match tree.get(CLUSTERS) {
        Some(Entry { kind: EntryKind::Tree, id }) => {
            let path = RepoPath::root().join(CLUSTERS);
            if let Some(tree) = top.tree(&path, *id, objects)? {
                read_clusters(&tree, &mut top);
            }
        }
        Some(_) => top.report(Code::NoClusters, CLUSTERS, "\"clusters\" is not a folder"),
        None if tree.contains_key(GROUPS) => {}
        None => {
            let message = "there is no folder \"clusters\" at the source's path";
            top.report(Code::NoClusters, CLUSTERS, message);
        }
    }
    Ok(top)
}

impl Top {
    /// A folder of the upper levels; `None` if its object cannot be used, which is reported.
    fn tree(
        &mut self,
        path: &RepoPath,
        id: ObjectId,
        objects: &dyn Objects,
    ) -> Result<Option<Arc<Tree>>, ObjectError> {
        match objects.tree(id) {
            Ok(tree) => Ok(Some(tree)),
            Err(why) if why.is_of_object() => {
                self.diagnostics.push(bad_object(path, Scope::Source, &why));
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }

    /// Reports a problem of a file or folder at the source's path.
    fn report(&mut self, code: Code, name: &str, message: impl Into<String>) {
        let at = Location::file(&RepoPath::root().join(name));
        self.diagnostics.push(Diagnostic::new(code, at, Scope::Source, message));
    }
}

fn read_approvals(tree: &Tree, top: &mut Top) {
    let files = tree.iter().filter(|(name, entry)| {
        // A README beside them is no approval.
        entry.kind == EntryKind::Blob && Digest::parse(name).is_some()
    });
    top.approvals.extend(files.map(|(name, entry)| (name.clone(), entry.id)));
    let (found, most) = (top.approvals.len(), limits::APPROVALS_MAX);
    if found > most {
        top.approvals.clear();
        top.report(
            Code::BadApproval,
            APPROVALS,
            format!("found {found} approvals, but the limit is {most}; no approval was read"),
        );
    }
}

fn read_clusters(tree: &Tree, top: &mut Top) {
    let names = Names { folder: CLUSTERS, what: "a cluster", owners: "clusters" };
    let scope = |cluster: &ClusterName| Scope::Cluster(cluster.clone());
    top.clusters = names.read(tree, ClusterName::parse, scope, &mut top.diagnostics);
    if top.clusters.len() > limits::CLUSTERS_MAX {
        let (found, most) = (top.clusters.len(), limits::CLUSTERS_MAX);
        let message = format!("{found} clusters; a source has at most {most}");
        top.report(Code::TooManyFiles, CLUSTERS, message);
        // The source is frozen by that: to read all of it would be work for nothing.
        top.clusters.clear();
    }
}

fn read_groups(tree: &Tree, top: &mut Top) {
    let names = Names { folder: GROUPS, what: "a group", owners: "groups" };
    let scope = |group: &GroupName| Scope::Group(group.clone());
    top.groups = names.read(tree, GroupName::parse, scope, &mut top.diagnostics);
    if top.groups.len() > limits::GROUPS_MAX {
        let (found, most) = (top.groups.len(), limits::GROUPS_MAX);
        let message = format!("{found} groups; a source has at most {most}");
        top.report(Code::TooManyFiles, GROUPS, message);
        top.groups.clear();
    }
}

/// A folder whose folders have the names of clusters or groups.
struct Names {
    folder: &'static str,
    /// What a folder in it is, for messages.
    what: &'static str,
    /// The same, for several.
    owners: &'static str,
}

impl Names {
    /// The trees of the folders by name. A link or submodule with a valid name freezes the scope of
    /// that name.
    fn read<N: Ord>(
        &self,
        tree: &Tree,
        parse: impl Fn(&str) -> Result<N, NameError>,
        scope: impl Fn(&N) -> Scope,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> BTreeMap<N, ObjectId> {
        let folder = RepoPath::root().join(self.folder);
        let mut found = Vec::with_capacity(tree.len());
        for (name, entry) in tree {
            if name.starts_with('.') {
                continue;
            }
            let path = || folder.join(name);
            let problem = match (entry.kind, parse(name)) {
                (EntryKind::Tree, Ok(name)) => {
                    found.push((name, entry.id));
                    continue;
                }
                (EntryKind::Blob, _) if !is_manifest(name) => continue,
                (EntryKind::Blob, _) => {
                    let why = format!("it stands beside the {}' folders", self.owners);
                    stray(&path(), Scope::Source, &why)
                }
                // It may be the renamed folder of any of them: nothing is deleted, all else goes
                // on.
                (_, Err(why)) => bad_name(&path(), self.what, name, &why, Scope::Source),
                (EntryKind::Symlink, Ok(name)) => link(&path(), scope(&name)),
                (EntryKind::Gitlink, Ok(name)) => gitlink(&path(), scope(&name)),
            };
            diagnostics.push(problem);
        }
        // At once, as the names are sorted.
        found.into_iter().collect()
    }
}

/// What stands in the folder of a cluster or a group.
#[derive(Debug, Default)]
pub struct OwnerFolder {
    /// The blob of cluster.yaml or group.yaml.
    pub config_file: Option<ObjectId>,
    /// Folder name to the work's tree.
    pub works: BTreeMap<String, ObjectId>,
    /// Names of links and submodules, which may stand in the place of a work folder. Each freezes
    /// the work of its name.
    pub blocked: BTreeMap<String, (ObjectId, BlockedEntry)>,
    /// What is wrong at this level.
    pub diagnostics: Vec<Diagnostic>,
}

/// What stands in the place of a work folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedEntry {
    /// A symbolic link.
    Link,
    /// A submodule.
    Submodule,
}

impl BlockedEntry {
    /// The error for a work that it stands in the place of.
    pub fn problem(self, path: &RepoPath, scope: Scope) -> Diagnostic {
        match self {
            Self::Link => link(path, scope),
            Self::Submodule => gitlink(path, scope),
        }
    }
}

/// Reads `clusters/<cluster>`, but nothing below it.
pub fn cluster(
    name: &ClusterName,
    tree: ObjectId,
    objects: &dyn Objects,
    ignore: &PathPatterns,
) -> Result<OwnerFolder, ObjectError> {
    let scope = Scope::Cluster(name.clone());
    owner_folder(&cluster_path(name), CLUSTER_FILE, (tree, objects), ignore, &scope)
}

/// Reads `groups/<group>`, but nothing below it.
pub fn group(
    name: &GroupName,
    tree: ObjectId,
    objects: &dyn Objects,
    ignore: &PathPatterns,
) -> Result<OwnerFolder, ObjectError> {
    let scope = Scope::Group(name.clone());
    owner_folder(&group_path(name), GROUP_FILE, (tree, objects), ignore, &scope)
}

fn owner_folder(
    at: &RepoPath,
    config_file: &str,
    (tree, objects): (ObjectId, &dyn Objects),
    ignore: &PathPatterns,
    scope: &Scope,
) -> Result<OwnerFolder, ObjectError> {
    let mut folder = OwnerFolder::default();
    let tree = match objects.tree(tree) {
        Ok(tree) => tree,
        Err(why) if why.is_of_object() => {
            folder.diagnostics.push(bad_object(at, scope.clone(), &why));
            return Ok(folder);
        }
        Err(why) => return Err(why),
    };
    for (name, entry) in tree.iter() {
        let path = at.join(name);
        if name.starts_with('.') || ignore.is_match(&path, entry.kind == EntryKind::Tree) {
            continue;
        }
        match entry.kind {
            EntryKind::Tree => {
                folder.works.insert(name.clone(), entry.id);
            }
            EntryKind::Blob if name == config_file => folder.config_file = Some(entry.id),
            EntryKind::Blob if is_misnamed(name, config_file) => {
                folder.diagnostics.push(Diagnostic::misnamed(&path, config_file, scope.clone()));
            }
            EntryKind::Blob if !is_manifest(name) => {}
            EntryKind::Blob => {
                let owner = if matches!(scope, Scope::Group(_)) { "group" } else { "cluster" };
                let why = format!("it stands in the {owner}'s folder, but in no work folder");
                folder.diagnostics.push(stray(&path, scope.clone(), &why));
            }
            // Without the file, nothing is known of what all works inherit.
            EntryKind::Symlink if name == config_file => {
                folder.diagnostics.push(link(&path, scope.clone()));
            }
            EntryKind::Symlink => {
                folder.blocked.insert(name.clone(), (entry.id, BlockedEntry::Link));
            }
            EntryKind::Gitlink => {
                folder.blocked.insert(name.clone(), (entry.id, BlockedEntry::Submodule));
            }
        }
    }
    Ok(folder)
}

/// The key that a work folder's own name gives. Without a valid name, no work has it.
pub fn folder_key(path: &RepoPath, cluster: &ClusterName) -> WorkKey {
    let name = path.name();
    let work = WorkName::parse(name).unwrap_or_else(|_| WorkName::of_unnamed_folder(name));
    WorkKey { cluster: cluster.clone(), work }
}

/// The work folder that a file is in, or that stands at its path: `clusters/<cluster>/<folder>` or
/// `groups/<group>/<folder>`.
pub fn work_folder_of(file: &RepoPath) -> Option<RepoPath> {
    let mut parts = file.parts();
    let parts = [parts.next()?, parts.next()?, parts.next()?];
    [CLUSTERS, GROUPS]
        .contains(&parts[0])
        .then(|| parts.iter().fold(RepoPath::root(), |path, part| path.join(part)))
}

/// The group whose folder a file or folder is in: that of `groups/<group>/...`.
pub fn group_of(path: &RepoPath) -> Option<GroupName> {
    let mut parts = path.parts();
    let is_in_groups = parts.next() == Some(GROUPS);
    GroupName::parse(parts.next().filter(|_| is_in_groups)?).ok()
}

/// Whether a work folder is one of a group: it can be there without a work on a cluster that has
/// left the group.
pub fn is_of_group(folder: &RepoPath) -> bool {
    group_of(folder).is_some()
}

/// `groups/<group>`.
pub fn group_path(name: &GroupName) -> RepoPath {
    RepoPath::root().join(GROUPS).join(name.as_str())
}

/// `clusters/<cluster>`.
pub fn cluster_path(name: &ClusterName) -> RepoPath {
    RepoPath::root().join(CLUSTERS).join(name.as_str())
}
