//! The clusters of groups that are delivered as ManifestWorkReplicaSets.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Renderer;
use crate::model::name::{ClusterName, GroupName, WorkKey, WorkName};
use crate::model::work::DesiredWork;
use crate::render::desired::{Frozen, FrozenObjects, WantedWorks};
use crate::render::groups::Certainty;
use crate::render::layout;
use crate::render::work_folder::Rendered;

impl Renderer {
    /// The works that clusters get by sets, which are among `works`.
    pub(super) fn delivered_works(
        &self,
        works: &WantedWorks,
    ) -> BTreeMap<ClusterName, Vec<Arc<DesiredWork>>> {
        let mut all: BTreeMap<ClusterName, Vec<Arc<DesiredWork>>> = BTreeMap::new();
        for (group, rendered) in self.delivered_folders() {
            let set = rendered.key.as_ref().and_then(|key| works.get(key));
            let Some(set) = set.filter(|set| set.path == rendered.path) else { continue };
            let clusters = self.delivered.get(group).into_iter().flatten();
            for (cluster, _) in clusters.filter(|(_, sure)| **sure == Certainty::Member) {
                all.entry(cluster.clone()).or_default().push(set.clone());
            }
        }
        all
    }

    /// Freezes what the clusters of a set have, if its folder could not be read: they may have
    /// works of their own from before, which are kept until the set has replaced them. On clusters
    /// that only may get the set, an object that a work drops may have moved to it.
    pub(super) fn freeze_delivered(&self, works: &WantedWorks, frozen: &mut Frozen) {
        for (group, rendered) in self.delivered_folders() {
            let set = rendered.key.as_ref().and_then(|key| works.get(key));
            let is_read = set.is_some_and(|set| set.path == rendered.path);
            let objects = match &rendered.work {
                Some(work) => FrozenObjects::of(work),
                None => rendered.uncommon().frozen.in_folder(&rendered.path),
            };
            let clusters = self.delivered.get(group).into_iter().flatten();
            let concerned = clusters.filter(|(_, sure)| !is_read || **sure == Certainty::Possible);
            for (cluster, _) in concerned {
                let key = frozen_key(cluster, rendered, works);
                if !is_read {
                    frozen.folders.insert((cluster.clone(), rendered.path.clone()));
                    frozen.works.extend(Some(&key).filter(|key| key.is_of_work()).cloned());
                }
                frozen.objects.entry(key).or_insert_with(|| objects.clone());
            }
        }
    }

    /// The work folders of groups with sets.
    fn delivered_folders(&self) -> impl Iterator<Item = (&GroupName, &Rendered)> {
        // Most sources have none.
        let clusters = Some(&self.clusters).filter(|_| !self.delivered.is_empty());
        let places = clusters.into_iter().flatten();
        let places = places.filter(|(place, _)| place.replica_set_namespace().is_some());
        let folders = places.flat_map(|(_, cluster)| cluster.certain_works());
        folders.filter_map(|folder| {
            let group = layout::group_of(&folder.rendered.path)?;
            let (group, _) = self.delivered.get_key_value(&group)?;
            Some((group, &*folder.rendered))
        })
    }
}

/// The key of the work that a cluster may have from a set's folder: the set's name, unless Git has
/// that name in another folder.
fn frozen_key(cluster: &ClusterName, rendered: &Rendered, works: &WantedWorks) -> WorkKey {
    let named = rendered.key.as_ref().map(|key| key.work.clone());
    let named = named.map(|work| WorkKey { cluster: cluster.clone(), work });
    let unnamed = || WorkKey {
        cluster: cluster.clone(),
        work: WorkName::of_unnamed_folder(rendered.path.name()),
    };
    named.filter(|key| !works.contains_key(key)).unwrap_or_else(unnamed)
}
