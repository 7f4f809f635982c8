//! The clusters of groups that are delivered as ManifestWorkReplicaSets.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Renderer;
use crate::model::name::{ClusterName, GroupName, WorkKey};
use crate::model::work::DesiredWork;
use crate::render::desired::{Frozen, FrozenObjects};
use crate::render::layout;
use crate::render::work_folder::Rendered;

impl Renderer {
    /// The works that clusters get by sets, which are among `works`.
    pub(super) fn delivered_works(
        &self,
        works: &BTreeMap<WorkKey, DesiredWork>,
    ) -> BTreeMap<ClusterName, Vec<Arc<DesiredWork>>> {
        let mut all: BTreeMap<ClusterName, Vec<Arc<DesiredWork>>> = BTreeMap::new();
        for (group, rendered) in self.delivered_folders() {
            let set = rendered.key.as_ref().and_then(|key| works.get(key));
            let Some(set) = set.filter(|set| set.path == rendered.path) else { continue };
            let set = Arc::new(set.clone());
            for cluster in self.delivered.get(group).into_iter().flatten() {
                all.entry(cluster.clone()).or_default().push(set.clone());
            }
        }
        all
    }

    /// Freezes what the clusters of a set have, if its folder could not be read: they may have
    /// works of their own from before, which are kept until the set has replaced them.
    pub(super) fn freeze_delivered(
        &self,
        works: &BTreeMap<WorkKey, DesiredWork>,
        frozen: &mut Frozen,
    ) {
        for (group, rendered) in self.delivered_folders() {
            let set = rendered.key.as_ref().and_then(|key| works.get(key));
            if set.is_some_and(|set| set.path == rendered.path) {
                continue;
            }
            let objects = match &rendered.work {
                Some(work) => FrozenObjects::of(work),
                None => rendered.frozen.in_folder(&rendered.path),
            };
            for cluster in self.delivered.get(group).into_iter().flatten() {
                frozen.folders.insert((cluster.clone(), rendered.path.clone()));
                let Some(WorkKey { work, .. }) = rendered.key.clone() else { continue };
                let key = WorkKey { cluster: cluster.clone(), work };
                if !works.contains_key(&key) {
                    frozen.works.insert(key.clone());
                    frozen.objects.entry(key).or_insert_with(|| objects.clone());
                }
            }
        }
    }

    /// The work folders of groups with sets.
    fn delivered_folders(&self) -> impl Iterator<Item = (&GroupName, &Rendered)> {
        let places = self.clusters.iter().filter(|(place, _)| {
            // Most sources have none.
            !self.delivered.is_empty() && place.replica_set_namespace().is_some()
        });
        let folders = places.flat_map(|(_, cluster)| cluster.certain_works());
        folders.filter_map(|folder| {
            let group = layout::group_of(&folder.rendered.path)?;
            let (group, _) = self.delivered.get_key_value(&group)?;
            Some((group, &*folder.rendered))
        })
    }
}
