//! The upper levels: the source's path, `clusters`, and each cluster's folder.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entries::{bad_name, bad_object, gitlink, is_manifest, link, object_problem, stray};
use crate::config::file_names::{APPROVALS, CLUSTER_FILE, CLUSTERS, GROUPS, SOURCE_FILE};
use crate::config::path_patterns::PathPatterns;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::digest::Digest;
use crate::model::name::{ClusterName, ObjectId, RepoPath, WorkKey, WorkName};
use crate::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Tree};

/// What stands at a source's path.
#[derive(Debug, Default)]
pub struct Top {
    /// The blob of gitwork.yaml.
    pub source_file: Option<ObjectId>,
    /// Folder name to the cluster's tree.
    pub clusters: BTreeMap<ClusterName, ObjectId>,
    /// Files of the `approvals` folder by name.
    pub approvals: BTreeMap<String, ObjectId>,
    /// What is wrong at this level.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the source's path and the `clusters` folder, but nothing below it.
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
    if tree.contains_key(GROUPS) {
        let message = "groups are not supported by this version; nothing is deleted while the \
                       folder is there";
        top.report(Code::NotSupported, GROUPS, message);
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
    let folder = RepoPath::root().join(CLUSTERS);
    for (name, entry) in tree {
        let path = folder.join(name);
        if name.starts_with('.') {
            continue;
        }
        let problem = match (entry.kind, ClusterName::parse(name)) {
            (EntryKind::Tree, Ok(cluster)) => {
                top.clusters.insert(cluster, entry.id);
                continue;
            }
            (EntryKind::Blob, _) if !is_manifest(name) => continue,
            (EntryKind::Blob, _) => {
                stray(&path, Scope::Source, "it stands beside the clusters' folders")
            }
            // It may be the renamed folder of any cluster that has none: nothing is deleted there.
            (_, Err(why)) => bad_name(&path, "a cluster", name, &why, Scope::Source),
            (EntryKind::Symlink, Ok(cluster)) => link(&path, Scope::Cluster(cluster)),
            (EntryKind::Gitlink, Ok(cluster)) => gitlink(&path, Scope::Cluster(cluster)),
        };
        top.diagnostics.push(problem);
    }
    if top.clusters.len() > limits::CLUSTERS_MAX {
        let (found, most) = (top.clusters.len(), limits::CLUSTERS_MAX);
        let message = format!("{found} clusters; a source has at most {most}");
        top.report(Code::TooManyFiles, CLUSTERS, message);
        // The source is frozen by that: to read all of it would be work for nothing.
        top.clusters.clear();
    }
}

/// What stands in one cluster's folder.
#[derive(Debug, Default)]
pub struct ClusterFolder {
    /// The blob of cluster.yaml.
    pub cluster_file: Option<ObjectId>,
    /// Folder name to the work's tree.
    pub works: BTreeMap<String, ObjectId>,
    /// Names of links and submodules, which may stand in the place of a work folder. Each freezes
    /// the work of its name.
    pub blocked: BTreeMap<String, (ObjectId, Diagnostic)>,
    /// What is wrong at this level.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads `clusters/<cluster>`, but nothing below it.
pub fn cluster(
    name: &ClusterName,
    tree: ObjectId,
    objects: &dyn Objects,
    ignore: &PathPatterns,
) -> Result<ClusterFolder, ObjectError> {
    let mut folder = ClusterFolder::default();
    let at = cluster_path(name);
    let tree = match objects.tree(tree) {
        Ok(tree) => tree,
        Err(why) if why.is_of_object() => {
            folder.diagnostics.push(bad_object(&at, Scope::Cluster(name.clone()), &why));
            return Ok(folder);
        }
        Err(why) => return Err(why),
    };
    for (entry_name, entry) in tree.iter() {
        let path = at.join(entry_name);
        if entry_name.starts_with('.') || ignore.is_match(&path, entry.kind == EntryKind::Tree) {
            continue;
        }
        match entry.kind {
            EntryKind::Tree => {
                folder.works.insert(entry_name.clone(), entry.id);
            }
            EntryKind::Blob if entry_name == CLUSTER_FILE => folder.cluster_file = Some(entry.id),
            EntryKind::Blob if !is_manifest(entry_name) => {}
            EntryKind::Blob => {
                let why = "it stands in the cluster's folder, but in no work folder";
                folder.diagnostics.push(stray(&path, Scope::Cluster(name.clone()), why));
            }
            // Without the file, nothing is known of what all works inherit.
            EntryKind::Symlink if entry_name == CLUSTER_FILE => {
                folder.diagnostics.push(link(&path, Scope::Cluster(name.clone())));
            }
            EntryKind::Symlink => {
                let scope = Scope::Work(folder_key(&path, name));
                folder.blocked.insert(entry_name.clone(), (entry.id, link(&path, scope)));
            }
            EntryKind::Gitlink => {
                let scope = Scope::Work(folder_key(&path, name));
                folder.blocked.insert(entry_name.clone(), (entry.id, gitlink(&path, scope)));
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

/// The work folder that a file is in, or that stands at its path: `clusters/<cluster>/<folder>`.
pub fn work_folder_of(file: &RepoPath) -> Option<RepoPath> {
    let mut parts = file.parts();
    let parts = [parts.next()?, parts.next()?, parts.next()?];
    (parts[0] == CLUSTERS)
        .then(|| parts.iter().fold(RepoPath::root(), |path, part| path.join(part)))
}

/// `clusters/<cluster>`.
pub fn cluster_path(name: &ClusterName) -> RepoPath {
    RepoPath::root().join(CLUSTERS).join(name.as_str())
}
