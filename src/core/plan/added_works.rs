//! The works that Git has now and did not have before a removal: they must not make a budget for
//! deletions larger.

use std::cell::OnceCell;
use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::config::file::Config;
use crate::config::file_names::CLUSTER_FILE;
use crate::config::path_patterns::PathPatterns;
use crate::config::{ClusterFile, FileKind};
use crate::model::diagnostic::Scope;
use crate::model::facts::Facts;
use crate::model::name::{ClusterName, ObjectId, RepoPath};
use crate::model::snapshot::{EntryKind, ObjectError, Objects};
use crate::plan::folder_removal::Folders;
use crate::plan::last_known::AddedSince;
use crate::render::config_file::read_config;
use crate::render::desired::Desired;
use crate::render::groups::{Certainty, GroupConfigs, GroupDefaults, GroupInputs, Memberships};
use crate::render::layout;

/// The works that Git has now and did not have before a removal.
pub struct AddedWorks<'a> {
    desired: &'a Desired,
    facts: Option<&'a Facts>,
    /// By the tree before: one commit mostly removes many works.
    known: BTreeMap<ObjectId, Arc<AddedSince>>,
}

impl<'a> AddedWorks<'a> {
    /// Compares with `desired`, the works of the head. `facts`: those that it was rendered with.
    pub fn new(desired: &'a Desired, facts: Option<&'a Facts>) -> Self {
        Self { desired, facts, known: BTreeMap::new() }
    }

    /// Those works whose folders were not in the tree `before` at the source's path, or whose
    /// clusters were not members of the groups there. Works that could not be read count, too.
    pub fn since(
        &mut self,
        before: ObjectId,
        objects: &dyn Objects,
    ) -> Result<Arc<AddedSince>, ObjectError> {
        let added = match self.known.entry(before) {
            Occupied(known) => return Ok(known.get().clone()),
            Vacant(place) => {
                place.insert(Arc::new(added(self.desired, self.facts, before, objects)?))
            }
        };
        Ok(added.clone())
    }
}

fn added(
    desired: &Desired,
    facts: Option<&Facts>,
    before: ObjectId,
    objects: &dyn Objects,
) -> Result<AddedSince, ObjectError> {
    let frozen = &desired.frozen;
    let mut earlier = EarlierTree {
        folders: Folders::new(before, objects),
        members: OnceCell::new(),
        facts,
        root: before,
        objects,
    };
    let mut added = AddedSince::default();
    for (key, work) in &desired.works {
        if !earlier.has(&key.cluster, &work.path, &[Certainty::Member])? {
            added.works.insert(key.clone());
        }
    }
    // It may be unknown now, too, whether the cluster is in the group.
    let in_doubt = [Certainty::Member, Certainty::Possible];
    for (key, claims) in &frozen.objects {
        let mut was_there = claims.folders.is_empty();
        for folder in &claims.folders {
            was_there = was_there || earlier.has(&key.cluster, folder, &in_doubt)?;
        }
        if !was_there {
            added.works.insert(key.clone());
        }
    }
    for (cluster, folder) in &frozen.folders {
        if !earlier.has(cluster, folder, &in_doubt)? {
            added.folders.insert((cluster.clone(), folder.clone()));
        }
    }
    Ok(added)
}

/// The tree before a removal.
struct EarlierTree<'a> {
    folders: Folders<'a>,
    /// The members of its groups, found at the first question about one.
    members: OnceCell<Memberships>,
    facts: Option<&'a Facts>,
    root: ObjectId,
    objects: &'a dyn Objects,
}

impl EarlierTree<'_> {
    /// Whether the cluster had the folder: if it is one of a group, as a member of such a
    /// certainty.
    fn has(
        &mut self,
        cluster: &ClusterName,
        folder: &RepoPath,
        certainty: &[Certainty],
    ) -> Result<bool, ObjectError> {
        let parent = self.folders.read(&folder.parent().unwrap_or_else(RepoPath::root))?;
        let entry = parent.as_ref().and_then(|tree| tree.get(folder.name()));
        if entry.is_none_or(|entry| entry.kind != EntryKind::Tree) {
            return Ok(false);
        }
        let Some(group) = layout::group_of(folder) else { return Ok(true) };
        let groups = self.members()?.by_cluster.get(cluster).into_iter().flatten();
        let mut groups = groups.filter(|one| certainty.contains(&one.certainty));
        Ok(groups.any(|one| one.group.name == group))
    }

    fn members(&self) -> Result<&Memberships, ObjectError> {
        if let Some(known) = self.members.get() {
            return Ok(known);
        }
        let found = members(self.facts, self.root, self.objects)?;
        Ok(self.members.get_or_init(|| found))
    }
}

/// The members of the groups of a tree.
fn members(
    facts: Option<&Facts>,
    root: ObjectId,
    objects: &dyn Objects,
) -> Result<Memberships, ObjectError> {
    let top = layout::top(root, objects)?;
    let ignore = PathPatterns::new(&[]).0;
    // Only the members matter.
    let defaults = GroupDefaults::without_file(&ignore);
    let mut known = GroupConfigs::new();
    let mut groups = Vec::with_capacity(top.groups.len());
    for (name, tree) in &top.groups {
        let group = GroupInputs::read(name, *tree, defaults, objects, &mut known)?;
        groups.push(Arc::new(group));
    }
    // Many clusters may have one cluster.yaml.
    let mut by_file: HashMap<ObjectId, Arc<BTreeMap<String, String>>> = HashMap::new();
    let mut labels: BTreeMap<&ClusterName, Arc<BTreeMap<String, String>>> = BTreeMap::new();
    for (name, tree) in &top.clusters {
        let Some(blob) = layout::cluster(name, *tree, objects, &ignore)?.config_file else {
            labels.insert(name, Arc::default());
            continue;
        };
        let found = match by_file.entry(blob) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(slot) => {
                let path = layout::cluster_path(name).join(CLUSTER_FILE);
                let (kind, scope) = (FileKind::Cluster, Scope::Cluster(name.clone()));
                let file: Option<Config<ClusterFile>> =
                    read_config(&path, Some(blob), kind, &scope, objects, &mut Vec::new())?;
                slot.insert(Arc::new(file.map(|file| file.value.labels).unwrap_or_default()))
            }
        };
        labels.insert(name, found.clone());
    }
    let labels = labels.iter().map(|(name, labels)| (*name, &**labels)).collect();
    Ok(Memberships::find(&groups, &labels, facts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::name::WorkKey;
    use crate::render::test_repository::{TestRepository, files, render};

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, name: a}\n";

    #[test]
    fn works_of_clusters_that_joined_a_group_are_added() {
        let before = files(&[
            ("groups/g/group.yaml", "clusters: [a]"),
            ("groups/g/web/x.yaml", MAP),
            ("clusters/a/own/x.yaml", MAP),
        ]);
        let now = files(&[
            ("groups/g/group.yaml", "clusters: [a, b]"),
            ("groups/g/web/x.yaml", MAP),
            ("groups/g/more/x.yaml", &MAP.replace("name: a", "name: b")),
        ]);
        let mut objects = TestRepository::default();
        let before = objects.add(&before);
        let desired = render(&now, "[]");
        let added = AddedWorks::new(&desired, None).since(before, &objects).unwrap();
        let added: Vec<String> = added.works.iter().map(WorkKey::to_string).collect();
        assert_eq!(added, ["a/more", "b/more", "b/web"]);
    }

    #[test]
    fn works_that_could_not_be_read_are_added_if_their_folders_were_not_there() {
        let before = files(&[
            ("clusters/a/own/x.yaml", MAP),
            ("clusters/a/named/x.yaml", &MAP.replace("name: a", "name: b")),
        ]);
        let now = files(&[
            ("clusters/a/own/x.yaml", "a: [b"),
            ("clusters/a/named/work.yaml", "name: ["),
            ("clusters/a/new/x.yaml", "a: [b"),
            ("clusters/a/unnamed/work.yaml", "name: ["),
        ]);
        let mut objects = TestRepository::default();
        let before = objects.add(&before);
        let desired = render(&now, "[]");
        let added = AddedWorks::new(&desired, None).since(before, &objects).unwrap();
        let works: Vec<String> = added.works.iter().map(WorkKey::to_string).collect();
        assert_eq!(works, ["a/new", "a/unnamed"]);
        let folders: Vec<String> =
            added.folders.iter().map(|(cluster, path)| format!("{cluster}: {path}")).collect();
        assert_eq!(folders, ["a: clusters/a/new", "a: clusters/a/unnamed"]);
    }
}
