//! Which clusters of one Placement get the template now.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::config::rollout::Threshold;
use gitwork_core::config::window::ChangeWindows;
use gitwork_core::model::name::ClusterName;
use gitwork_core::rollout::ocm::{GroupKey, OcmRollout, OcmStrategy, PlacementGroup};
use gitwork_core::rollout::rules::REST;
use gitwork_core::rollout::{
    ActiveCluster, ClusterState, DecisionGroupRules, Rollout, RolloutRules, Wave, WaveRules,
};
use jiff::Timestamp;

use crate::decision_groups::RolloutGroup;
use crate::strategy::{MandatoryKey, RolloutKind, SetStrategy};

/// The rollout of a template to the clusters of one Placement.
#[derive(Clone, Copy)]
pub(crate) struct SetRollout<'a> {
    pub strategy: &'a SetStrategy,
    /// In the order of their indexes.
    pub groups: &'a [RolloutGroup],
    /// The clusters that have the template.
    pub states: &'a BTreeMap<ClusterName, ClusterState>,
    /// Clusters that get nothing until somebody acts.
    pub blocked: &'a BTreeSet<ClusterName>,
    pub now: Timestamp,
}

/// How far it has come.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct SetProgress {
    /// Clusters that get the template now.
    pub begins: BTreeSet<ClusterName>,
    /// Clusters that have failed, or were not done within the deadline.
    pub failed: BTreeSet<ClusterName>,
    /// Clusters that have succeeded a shorter time ago than the soak time.
    pub soaking: BTreeSet<ClusterName>,
    /// More have failed than may.
    pub is_stopped: bool,
    /// When something changes because of the time alone.
    pub recheck: Option<Timestamp>,
}

/// What is wrong if the Placement lacks a mandatory group: nobody knows which clusters come first.
/// Gives the field, and what to do.
pub(crate) fn missing_group(
    strategy: &SetStrategy,
    groups: &[RolloutGroup],
    placement: &str,
) -> Option<String> {
    // An empty Placement has a reason of its own.
    if groups.iter().all(|group| group.clusters.is_empty()) || strategy.kind == RolloutKind::All {
        return None;
    }
    let missing = strategy.mandatory.iter().find(|key| !groups.iter().any(|one| key.is_of(one)))?;
    let field = strategy.kind.field();
    Some(format!(
        "{field}.mandatoryDecisionGroups: Placement {placement} has no decision group {missing}; \
         correct it here or in the Placement's decisionStrategy; until then no work changes"
    ))
}

impl MandatoryKey {
    fn is_of(&self, group: &RolloutGroup) -> bool {
        match self {
            Self::Name(name) => group.name == *name,
            Self::Index(index) => group.index == *index,
        }
    }
}

impl SetRollout<'_> {
    /// By gitwork's waves.
    pub fn progress(&self) -> SetProgress {
        let SetStrategy { deadline, .. } = *self.strategy;
        let waves = self.waves();
        let none = BTreeSet::new();
        let (states, now) = (self.states, self.now);
        let blocked = self.blocked;
        let found =
            Rollout { waves: &waves, states, blocked, first: &none, deadline, now }.progress();
        let mut progress = progress_of(found.active, found.timed_out);
        (progress.is_stopped, progress.recheck) = (found.breach.is_some(), found.recheck);
        progress
    }

    /// Mandatory groups, one after the other; then all other clusters, or the other groups.
    fn waves(&self) -> Vec<Wave> {
        let SetStrategy { kind, max_failures, soak, deadline, .. } = *self.strategy;
        let is_all = kind == RolloutKind::All;
        let max_concurrency = match kind {
            RolloutKind::Progressive(most) => most,
            RolloutKind::All | RolloutKind::ProgressivePerGroup => None,
        };
        let rest = WaveRules {
            name: REST.to_owned(),
            max_concurrency,
            max_failures: if is_all { Threshold::Percent(100) } else { max_failures },
            soak,
            needs_approval: false,
            window: ChangeWindows::default(),
        };
        let rules = RolloutRules { deadline, waves: vec![rest], returns: false };
        let of_groups = DecisionGroupRules {
            mandatory: if is_all { Vec::new() } else { self.group_keys() },
            is_per_group: kind == RolloutKind::ProgressivePerGroup,
        };
        let names: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        let waves = of_groups.waves(&names, &rules);
        let clusters = self.groups.iter().map(|group| &group.clusters);
        // The Placement has all of these mandatory groups.
        waves.map(|waves| waves.with_clusters(clusters)).unwrap_or_default()
    }

    /// By OCM's algorithm.
    pub fn upstream_progress(&self) -> SetProgress {
        let SetStrategy { kind, max_failures, soak, deadline, .. } = *self.strategy;
        let groups: Vec<PlacementGroup> = self
            .groups
            .iter()
            .map(|group| PlacementGroup {
                name: group.name.clone(),
                clusters: group.clusters.clone(),
            })
            .collect();
        let strategy = match kind {
            RolloutKind::All => OcmStrategy::All,
            RolloutKind::Progressive(max_concurrency) => {
                OcmStrategy::Progressive { mandatory: self.group_keys(), max_concurrency }
            }
            RolloutKind::ProgressivePerGroup => {
                OcmStrategy::ProgressivePerGroup { mandatory: self.group_keys() }
            }
        };
        let (strategy, groups, states, now) = (&strategy, &groups[..], self.states, self.now);
        let rollout = OcmRollout { strategy, groups, states, max_failures, soak, deadline, now };
        let found = rollout.progress();
        let mut progress = progress_of(found.active, found.timed_out);
        (progress.is_stopped, progress.recheck) = (found.breach, found.recheck);
        progress
    }

    /// The mandatory groups that the Placement has: OCM ignores others. The engine counts
    /// positions, and indexes may have gaps.
    fn group_keys(&self) -> Vec<GroupKey> {
        let key = |key: &MandatoryKey| {
            let position = self.groups.iter().position(|group| key.is_of(group))?;
            Some(match key {
                MandatoryKey::Name(name) => GroupKey::Name(name.clone()),
                MandatoryKey::Index(_) => GroupKey::Index(position),
            })
        };
        self.strategy.mandatory.iter().filter_map(key).collect()
    }
}

fn progress_of(
    active: BTreeMap<ClusterName, ActiveCluster>,
    timed_out: BTreeSet<ClusterName>,
) -> SetProgress {
    let mut progress = SetProgress { failed: timed_out, ..SetProgress::default() };
    for (cluster, active) in active {
        match active {
            ActiveCluster::ToApply => progress.begins.insert(cluster),
            ActiveCluster::Failed => progress.failed.insert(cluster),
            ActiveCluster::Soaking => progress.soaking.insert(cluster),
            ActiveCluster::Progressing => false,
        };
    }
    progress
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::SignedDuration;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000).unwrap()
    }

    /// The clusters c1 to c6 in three groups with the indexes 0, 2 and 4, as removed groups leave
    /// gaps.
    fn groups() -> Vec<RolloutGroup> {
        let name = |number: i64| ClusterName::parse(&format!("c{number}")).unwrap();
        let group = |index: i64| RolloutGroup {
            index: 2 * index,
            name: format!("g{index}"),
            clusters: [name(2 * index + 1), name(2 * index + 2)].into(),
        };
        (0..3).map(group).collect()
    }

    /// What begins, as `c1 c2|stopped`, by gitwork and by upstream. States are those of 90 s ago.
    fn begins(strategy: &SetStrategy, states: &str) -> [String; 2] {
        let since = now().checked_sub(SignedDuration::from_secs(90)).unwrap();
        let state = |text: &str| {
            let state = match &text[2..] {
                "P" => ClusterState::Progressing { since },
                "S" => ClusterState::Succeeded { since },
                _ => ClusterState::Failed { since },
            };
            (ClusterName::parse(&text[..2]).unwrap(), state)
        };
        let states = states.split_whitespace().map(state).collect();
        let (groups, blocked) = (groups(), BTreeSet::new());
        let rollout = SetRollout {
            strategy,
            groups: &groups,
            states: &states,
            blocked: &blocked,
            now: now(),
        };
        [rollout.progress(), rollout.upstream_progress()].map(|progress| {
            let names: Vec<&str> = progress.begins.iter().map(ClusterName::as_str).collect();
            let stopped = if progress.is_stopped { "|stopped" } else { "" };
            names.join(" ") + stopped
        })
    }

    fn strategy(kind: RolloutKind, mandatory: &[MandatoryKey], most: u32) -> SetStrategy {
        SetStrategy {
            kind,
            mandatory: mandatory.to_vec(),
            max_failures: Threshold::Count(most),
            soak: Duration::ZERO,
            deadline: None,
        }
    }

    /// The engine has the tests of the whole algorithms; here is what a strategy becomes.
    #[test]
    fn strategies_become_waves_or_upstream_rollouts() {
        let two = || RolloutKind::Progressive(Some(Threshold::Count(2)));
        let (by_index, by_name) = (MandatoryKey::Index(2), MandatoryKey::Name("g1".into()));
        for (strategy, states, expected) in [
            (strategy(RolloutKind::All, &[], 0), "c1F", ["c2 c3 c4 c5 c6", "c2 c3 c4 c5 c6"]),
            (strategy(two(), &[], 0), "c1S c2P", ["c3", "c3"]),
            (strategy(two(), std::slice::from_ref(&by_index), 0), "", ["c3 c4", "c3 c4"]),
            (strategy(two(), std::slice::from_ref(&by_name), 0), "", ["c3 c4", "c3 c4"]),
            (strategy(two(), &[MandatoryKey::Index(9)], 0), "", ["c1 c2", "c1 c2"]),
            (strategy(two(), &[], 0), "c1F c2S", ["|stopped", "|stopped"]),
            // M7: clusters elsewhere freeze upstream's rollout once mandatory groups are done.
            (strategy(two(), &[MandatoryKey::Index(0)], 0), "c1S c2S c3S c4P", ["c5", ""]),
            (strategy(RolloutKind::ProgressivePerGroup, &[], 0), "c1S c2S", ["c3 c4", "c3 c4"]),
            // M8: a tolerated failure in a later group holds upstream's next group.
            (strategy(RolloutKind::ProgressivePerGroup, &[], 1), "c1S c2S c3F c4S", ["c5 c6", ""]),
        ] {
            assert_eq!(begins(&strategy, states), expected, "{strategy:?} {states}");
        }
    }
}
