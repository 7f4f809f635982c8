//! Which folders of a pass are rendered before their turn.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::ahead::Job;
use super::cluster::RenderedCluster;
use super::content::FolderContent;
use super::pass::{OpenCluster, RenderPass};
use crate::model::facts::Facts;
use crate::model::name::ClusterName;
use crate::render::groups::Membership;
use crate::render::layout;

/// The facts, and the clusters of the last pass.
type Known<'a> = (Option<&'a Facts>, &'a BTreeMap<ClusterName, Arc<RenderedCluster>>);

impl RenderPass<'_> {
    /// Finds the folders to render before their turn: the first one of each content that is neither
    /// unchanged nor known.
    pub(super) fn plan_ahead(
        &self,
        clusters: &BTreeMap<ClusterName, OpenCluster>,
        groups: &BTreeMap<ClusterName, Vec<Membership>>,
        (facts, before): Known<'_>,
    ) {
        let mut ahead = self.ahead.borrow_mut();
        if !ahead.is_on() {
            return;
        }
        let content = self.content.borrow();
        let mut contents: HashSet<FolderContent> = HashSet::new();
        for (cluster, open) in clusters {
            let of_groups = groups.get(cluster).map(Vec::as_slice).unwrap_or_default();
            let Some(own) = &open.folder else { continue };
            let facts = Facts::of(facts, cluster);
            let before = before.get(cluster).filter(|one| one.inherited.is_same(&open.inherited));
            let is_kept =
                |before: &&Arc<RenderedCluster>| before.is_same(open.tree, of_groups, &facts);
            if before.is_some_and(|before| is_kept(&before)) {
                continue;
            }
            let owners = of_groups
                .iter()
                .map(|one| (layout::group_path(&one.group.name), &one.group.folder, Some(one)));
            let owners = std::iter::once((layout::cluster_path(cluster), own, None)).chain(owners);
            for (owner, folder, group) in owners {
                for (name, tree) in &folder.works {
                    let path = owner.join(name);
                    let known = before.and_then(|before| before.works.get(&path));
                    let of = FolderContent::of(*tree, group, &open.inherited);
                    if known.is_some_and(|known| known.tree == *tree)
                        || content.knows(&of)
                        || !contents.insert(of)
                    {
                        continue;
                    }
                    ahead.push(Job {
                        cluster: cluster.clone(),
                        path,
                        tree: *tree,
                        group: group.cloned(),
                        inherited: open.inherited.clone(),
                        facts: facts.clone(),
                    });
                }
            }
        }
    }
}
