//! The rollouts of groups: which wave each member is in, and the content that its works are of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::facts::Facts;
use crate::model::name::{ClusterName, GroupName};
use crate::render::desired::WantedWorks;
use crate::render::groups::{Certainty, ClusterLabels, Membership, PlacedWaves};
use crate::render::layout;
use crate::rollout::{GroupRollout, RolloutMember};

/// The rollouts of groups with these members, without their works. A cluster that only may be in a
/// group takes part, and gets nothing.
pub(super) fn rollouts(
    members: &BTreeMap<ClusterName, Vec<Membership>>,
    labels: &ClusterLabels<'_>,
    facts: Option<&Facts>,
) -> BTreeMap<GroupName, GroupRollout> {
    let mut all: BTreeMap<GroupName, GroupRollout> = BTreeMap::new();
    let mut placed: BTreeMap<GroupName, Option<PlacedWaves>> = BTreeMap::new();
    for (cluster, groups) in members {
        for member in groups {
            let Some(rollout) = &member.group.rollout else { continue };
            let of_cluster = Facts::of(facts, cluster);
            let waves = &rollout.waves;
            let placed = placed.entry(member.group.name.clone());
            let placed = placed.or_insert_with(|| member.group.placed_waves(facts));
            let rules = placed.as_ref().map_or(&waves.rules, |placed| &placed.rules);
            let (wave, certainty) = match &*placed {
                Some(placed) => placed.wave_of(cluster),
                None => waves.wave_of(cluster, labels.get(cluster).copied(), &of_cluster),
            };
            let rollout = all.entry(member.group.name.clone()).or_insert_with(|| GroupRollout {
                content: rollout.content,
                rules: rules.clone(),
                members: BTreeMap::new(),
            });
            let is_certain = [certainty, member.certainty] == [Certainty::Member; 2];
            let member =
                RolloutMember { wave, is_blocked: !is_certain, ..RolloutMember::default() };
            rollout.members.insert(cluster.clone(), member);
        }
    }
    all
}

/// Adds their works to the rollouts, and their content to the works. `unread`: the clusters with
/// work folders of groups that could not be read.
pub(super) fn assign(
    rollouts: &BTreeMap<GroupName, GroupRollout>,
    unread: &BTreeSet<(GroupName, ClusterName)>,
    works: &mut WantedWorks,
) -> BTreeMap<GroupName, Arc<GroupRollout>> {
    let mut all = rollouts.clone();
    if all.is_empty() {
        return BTreeMap::new();
    }
    for (group, cluster) in unread {
        let rollout = all.get_mut(group);
        if let Some(member) = rollout.and_then(|rollout| rollout.members.get_mut(cluster)) {
            member.is_blocked = true;
        }
    }
    let clusters = rollouts.values().flat_map(|rollout| rollout.members.keys());
    for cluster in clusters.collect::<BTreeSet<_>>() {
        let mut of_cluster = works.cluster(cluster);
        for (key, work) in Arc::make_mut(&mut of_cluster) {
            let Some(group) = layout::group_of(&work.path) else { continue };
            let Some(rollout) = all.get_mut(&group) else { continue };
            let Some(member) = rollout.members.get_mut(cluster) else { continue };
            Arc::make_mut(&mut member.works).push(key.clone());
            let work = Arc::make_mut(work);
            work.group_content = Some(Box::new(member.earlier.unwrap_or(rollout.content)));
            work.is_earlier = member.earlier.is_some();
        }
        works.set_cluster(cluster, of_cluster);
    }
    all.into_iter().map(|(name, rollout)| (name, Arc::new(rollout))).collect()
}
