//! The works that Git has now and did not have before a removal: they must not make a budget for
//! deletions larger.

use std::collections::btree_map::Entry::{Occupied, Vacant};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::config::file::Config;
use crate::config::file_names::CLUSTER_FILE;
use crate::config::path_patterns::PathPatterns;
use crate::config::{ClusterFile, FileKind};
use crate::model::diagnostic::Scope;
use crate::model::facts::Facts;
use crate::model::name::{ClusterName, ObjectId, RepoPath, WorkKey};
use crate::model::snapshot::{EntryKind, ObjectError, Objects};
use crate::plan::folder_removal::Folders;
use crate::render::config_file::read_config;
use crate::render::desired::Desired;
use crate::render::groups::{Certainty, GroupConfigs, GroupDefaults, GroupInputs, Memberships};
use crate::render::layout;

/// The works that Git has now and did not have before a removal.
pub struct AddedWorks<'a> {
    desired: &'a Desired,
    facts: Option<&'a Facts>,
    /// By the tree before: one commit mostly removes many works.
    known: BTreeMap<ObjectId, Arc<BTreeSet<WorkKey>>>,
}

impl<'a> AddedWorks<'a> {
    /// Compares with `desired`, the works of the head. `facts`: those that it was rendered with.
    pub fn new(desired: &'a Desired, facts: Option<&'a Facts>) -> Self {
        Self { desired, facts, known: BTreeMap::new() }
    }

    /// Those works whose folders were not in the tree `before` at the source's path, or whose
    /// clusters were not members of the groups there.
    pub fn since(
        &mut self,
        before: ObjectId,
        objects: &dyn Objects,
    ) -> Result<Arc<BTreeSet<WorkKey>>, ObjectError> {
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
) -> Result<BTreeSet<WorkKey>, ObjectError> {
    let mut folders = Folders::new(before, objects);
    let (mut added, mut of_groups) = (BTreeSet::new(), Vec::new());
    for (key, work) in &desired.works {
        let parent = folders.read(&work.path.parent().unwrap_or_else(RepoPath::root))?;
        let entry = parent.as_ref().and_then(|tree| tree.get(work.path.name()));
        if entry.is_none_or(|entry| entry.kind != EntryKind::Tree) {
            added.insert(key.clone());
        } else if let Some(group) = layout::group_of(&work.path) {
            of_groups.push((key, group));
        }
    }
    if !of_groups.is_empty() {
        let members = members(facts, before, objects)?;
        let was_member = |(key, group): &(&WorkKey, _)| {
            let groups = members.by_cluster.get(&key.cluster).into_iter().flatten();
            let mut groups = groups.filter(|one| one.certainty == Certainty::Member);
            groups.any(|one| one.group.name == *group)
        };
        let joined = of_groups.into_iter().filter(|one| !was_member(one));
        added.extend(joined.map(|(key, _)| key.clone()));
    }
    Ok(added)
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
        let added: Vec<String> = added.iter().map(WorkKey::to_string).collect();
        assert_eq!(added, ["a/more", "b/more", "b/web"]);
    }
}
