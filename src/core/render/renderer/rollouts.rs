//! The rollouts of groups: which wave each member is in, and the content that its works are of.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::facts::Facts;
use crate::model::name::{ClusterName, GroupName, WorkKey};
use crate::model::work::DesiredWork;
use crate::render::groups::{Certainty, ClusterLabels, Membership};
use crate::render::layout;
use crate::rollout::{GroupRollout, RolloutMember};

/// The rollouts of groups with these members, without their works. A cluster that only may be in a
/// group is no member.
pub(super) fn rollouts(
    members: &BTreeMap<ClusterName, Vec<Membership>>,
    labels: &ClusterLabels<'_>,
    facts: Option<&Facts>,
) -> BTreeMap<GroupName, GroupRollout> {
    let mut all: BTreeMap<GroupName, GroupRollout> = BTreeMap::new();
    for (cluster, groups) in members {
        for member in groups.iter().filter(|one| one.certainty == Certainty::Member) {
            let Some(waves) = &member.group.rollout else { continue };
            let of_cluster = Facts::of(facts, cluster);
            let wave = waves.wave_of(cluster, labels.get(cluster).copied(), &of_cluster);
            let rollout = all.entry(member.group.name.clone()).or_insert_with(|| GroupRollout {
                content: waves.content,
                rules: waves.rules.clone(),
                members: BTreeMap::new(),
            });
            let works = Vec::new();
            rollout.members.insert(cluster.clone(), RolloutMember { wave, works });
        }
    }
    all
}

/// Adds their works to the rollouts, and their content to the works.
pub(super) fn assign(
    rollouts: &BTreeMap<GroupName, GroupRollout>,
    works: &mut BTreeMap<WorkKey, DesiredWork>,
) -> BTreeMap<GroupName, Arc<GroupRollout>> {
    let mut all = rollouts.clone();
    if all.is_empty() {
        return BTreeMap::new();
    }
    for (key, work) in works {
        let Some(group) = layout::group_of(&work.path) else { continue };
        let Some(rollout) = all.get_mut(&group) else { continue };
        let Some(member) = rollout.members.get_mut(&key.cluster) else { continue };
        member.works.push(key.clone());
        work.group_content = Some(rollout.content);
    }
    all.into_iter().map(|(name, rollout)| (name, Arc::new(rollout))).collect()
}
