//! The clusters of a snapshot that are rendered, and whether the others matter to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::cluster::OpenClusters;
use super::rendered_change::{Selected, UnreadClusters};
use super::{GroupsByCluster, Renderer};
use crate::limits;
use crate::model::name::ClusterName;
use crate::render::desired::Desired;
use crate::render::work_folder::Dependency;

impl Renderer {
    /// Renders only some clusters, from the next snapshot on. Their works, and what is reported of
    /// them, are as if all were rendered: if others may matter to them, or none of them has works,
    /// all are rendered.
    pub fn select_clusters(
        &mut self,
        is_selected: impl Fn(&ClusterName) -> bool + Send + Sync + 'static,
    ) {
        self.selected = Selected::Matching(Arc::new(is_selected));
    }

    /// Leaves only the selected clusters, and counts the others.
    pub(super) fn select(
        &self,
        opened: &mut OpenClusters<'_>,
        groups: &GroupsByCluster,
    ) -> UnreadClusters {
        let mut unread = UnreadClusters::default();
        if matches!(self.selected, Selected::All) {
            return unread;
        }
        opened.retain(|(name, open)| {
            if self.selected.has(name) {
                return true;
            }
            // A folder of the cluster with the name of a group's folder replaces its work.
            let of_groups = groups.get(name).into_iter().flatten();
            let of_groups = of_groups.flat_map(|one| one.group.folder.works.keys());
            let works: BTreeSet<&String> = open.work_folders().chain(of_groups).collect();
            // Nothing is read of a folder that did not change.
            let before = open.before.filter(|_| !open.is_read());
            let works = before.map_or(works.len(), |before| before.works.len());
            unread.works += works;
            unread.clusters += usize::from(works > 0);
            false
        });
        unread
    }

    /// Whether a state of some clusters says of them what a state of all clusters would.
    pub(super) fn is_enough(&self, desired: &Desired) -> bool {
        let Selected::Matching(_) = self.selected else { return true };
        let frozen = &desired.frozen;
        let has_names = desired.named_works().next().is_some() || !frozen.clusters.is_empty();
        let is_small = desired.works.len() + self.unread.works <= limits::WORKS_MAX;
        let is_readable = !frozen.source && frozen.groups.is_empty();
        self.unread == UnreadClusters::default()
            || (has_names
                && is_small
                && is_readable
                && self.has_simple_groups()
                && !self.needs_crds()
                && !self.waits_for_others())
    }

    /// Whether the facts of a cluster alone decide what it gets from groups.
    pub(super) fn has_simple_groups(&self) -> bool {
        self.delivered.is_empty()
            && self.uncertain.is_empty()
            && self.rollouts.is_empty()
            && self.open_groups.is_none()
            && self.earlier.groups().next().is_none()
    }

    /// Whether a CRD of any cluster may name the plural of a kind that the works have.
    pub(super) fn needs_crds(&self) -> bool {
        let mut folders = self.clusters.values().flat_map(|cluster| cluster.works.values());
        folders.any(|folder| !folder.rendered.uncommon().custom_kinds.is_empty())
    }

    /// Whether works wait for works of other clusters.
    pub(super) fn waits_for_others(&self) -> bool {
        self.clusters.iter().any(|(name, cluster)| {
            let mut works = cluster.works.values().map(|folder| &folder.rendered.depends_on);
            works.any(|all| Dependency::keys(all, name).iter().any(|on| on.cluster != *name))
        })
    }
}
