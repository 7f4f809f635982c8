//! What to do for one replica set.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::ClusterName;
use gitwork_core::rollout::ClusterState;
use jiff::Timestamp;
use serde_json::Value;

use crate::cluster_state::{TimedState, state, upstream_state};
use crate::decision_groups::{DecisionGroups, RolloutGroup, groups_of};
use crate::membership::{MemberPlacement, SetMembership};
use crate::names::{FINALIZER, label_value};
use crate::replica_set::ReplicaSet;
use crate::semantics::RolloutSemantics;
use crate::set_rollout::{SetProgress, SetRollout, missing_group};
use crate::set_status::{PlacementReport, StatusReport, deletion_status, status};
use crate::set_work::SetWork;
use crate::strategy::SetStrategy;
use crate::write::{SetWrite, WorkDeletion, WriteFailure, needs_metadata};

/// The works of a set, by cluster.
pub type SetWorks = BTreeMap<ClusterName, Vec<SetWork>>;

/// What a decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct SetInputs<'a> {
    /// The replica set.
    pub set: &'a ReplicaSet,
    /// What the hub says of clusters and Placements.
    pub facts: &'a Facts,
    /// The decision groups of the Placements.
    pub groups: &'a DecisionGroups,
    /// The set's works.
    pub works: &'a SetWorks,
    /// Clusters whose last write failed and is not yet tried again.
    pub failures: &'a BTreeMap<ClusterName, WriteFailure>,
    /// The time.
    pub now: Timestamp,
}

/// What to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SetDecision {
    /// The writes. Their order does not matter.
    pub writes: Vec<SetWrite>,
    /// The whole new status; `None` if it is the present one.
    pub status: Option<Value>,
    /// When to decide again, if nothing changes until then.
    pub recheck: Option<Timestamp>,
}

/// The works of a set on one cluster.
struct ClusterWorks<'a> {
    /// The one to keep.
    kept: Option<&'a SetWork>,
    /// Others, which are not being deleted.
    duplicates: Vec<&'a SetWork>,
    /// Names that works still have which are being deleted.
    deleting: Vec<&'a str>,
}

impl<'a> ClusterWorks<'a> {
    fn of(set: &ReplicaSet, works: &'a [SetWork]) -> Self {
        let (deleting, mut there): (Vec<&SetWork>, Vec<&SetWork>) =
            works.iter().partition(|work| work.is_deleting);
        let name = set.key.work_name(0);
        there.sort_by_key(|work| {
            let has_content = work.has_content(set.digest);
            (!has_content, work.name != name, work.created, work.name.clone())
        });
        let mut there = there.into_iter();
        Self {
            kept: there.next(),
            duplicates: there.collect(),
            deleting: deleting.into_iter().map(|work| work.name.as_str()).collect(),
        }
    }

    /// The name of a new work: a name that is being deleted cannot be used.
    fn free_name(&self, set: &ReplicaSet) -> String {
        let mut attempt = 0;
        loop {
            let name = set.key.work_name(attempt);
            // It ends: there are finitely many works.
            if !self.deleting.contains(&name.as_str()) {
                return name;
            }
            attempt += 1;
        }
    }
}

/// Decides for one replica set.
pub fn decide(inputs: &SetInputs<'_>) -> SetDecision {
    let set = inputs.set;
    if set.is_deleting {
        return decide_deletion(inputs);
    }
    if !set.finalizers.iter().any(|one| one == FINALIZER) {
        return SetDecision { writes: vec![SetWrite::AddFinalizer], ..SetDecision::default() };
    }
    let membership = SetMembership::of(set, inputs.facts);
    let works: BTreeMap<&ClusterName, ClusterWorks<'_>> =
        inputs.works.iter().map(|(name, works)| (name, ClusterWorks::of(set, works))).collect();
    let pass = SetPass { inputs, membership: &membership, works: &works };
    let mut decision = SetDecision::default();
    let mut reports = Vec::new();
    for (position, placement) in membership.placements.iter().enumerate() {
        let (progress, problem) = match pass.roll_out(position, placement, &mut decision) {
            Ok(progress) => (Some(progress), None),
            Err(problem) => (None, problem),
        };
        reports.push(pass.report(position, placement, progress, problem));
    }
    pass.update_metadata(&mut decision);
    pass.remove(&mut decision);
    let report = StatusReport {
        set,
        placements: reports,
        selected: membership.len(),
        failures: inputs.failures,
    };
    decision.status = status(&report, inputs.now);
    decision
}

/// Deletes all works, and removes the finalizer: at once, or once they are gone.
fn decide_deletion(inputs: &SetInputs<'_>) -> SetDecision {
    let set = inputs.set;
    if !set.finalizers.iter().any(|one| one == FINALIZER) {
        return SetDecision::default();
    }
    let works = || inputs.works.values().flatten();
    let there = works().filter(|work| !work.is_deleting);
    let mut writes: Vec<SetWrite> =
        there.map(|work| deletion(work, WorkDeletion::SetDeleted)).collect();
    let is_done = if set.is_foreground { works().next().is_none() } else { writes.is_empty() };
    if is_done {
        writes.push(SetWrite::RemoveFinalizer);
        return SetDecision { writes, ..SetDecision::default() };
    }
    let clusters: BTreeSet<&ClusterName> = works().map(|work| &work.cluster).collect();
    let status = deletion_status(set, &clusters, inputs.failures, inputs.now);
    SetDecision { writes, status, recheck: None }
}

fn deletion(work: &SetWork, reason: WorkDeletion) -> SetWrite {
    let (cluster, name, uid) = (work.cluster.clone(), work.name.clone(), work.uid.clone());
    SetWrite::Delete { cluster, name, uid, reason }
}

/// How far the rollout to one Placement has come, and the clusters that have succeeded.
type SetRolledOut = (SetProgress, BTreeSet<ClusterName>);

/// One decision under way.
struct SetPass<'a> {
    inputs: &'a SetInputs<'a>,
    membership: &'a SetMembership<'a>,
    works: &'a BTreeMap<&'a ClusterName, ClusterWorks<'a>>,
}

impl SetPass<'_> {
    fn kept(&self, cluster: &ClusterName) -> Option<&SetWork> {
        self.works.get(cluster).and_then(|works| works.kept)
    }

    /// Adds the writes of one Placement's rollout. An error if there is none: the Placement is
    /// missing, or the template or its strategy is invalid, which the error says of the strategy.
    /// Then its works stay as they are.
    fn roll_out(
        &self,
        position: usize,
        placement: &MemberPlacement<'_>,
        decision: &mut SetDecision,
    ) -> Result<SetRolledOut, Option<String>> {
        let set = self.inputs.set;
        let strategy = placement.reference.strategy.as_ref().map_err(|why| Some(why.clone()))?;
        let facts = placement.facts.filter(|_| set.template.is_some()).ok_or(None)?;
        let is_member = |cluster: &ClusterName| self.membership.position(cluster) == Some(position);
        let groups = groups_of(&placement.key, facts, self.inputs.groups, is_member);
        if set.semantics == RolloutSemantics::Gitwork
            && let Some(problem) = missing_group(strategy, &groups, &placement.reference.name)
        {
            return Err(Some(problem));
        }
        let (states, recheck) = self.states(position, placement);
        let progress = self.progress(strategy, &groups, &states);
        let times = [decision.recheck, recheck, progress.recheck];
        decision.recheck = times.into_iter().flatten().min();
        for cluster in &progress.begins {
            decision.writes.extend(self.content_write(cluster, &placement.reference.name));
        }
        let is_done = |(_, state): &(&ClusterName, &ClusterState)| {
            matches!(state, ClusterState::Succeeded { .. })
        };
        let is_counted = |cluster: &ClusterName| {
            is_member(cluster)
                && (set.semantics == RolloutSemantics::Upstream
                    || !progress.soaking.contains(cluster))
        };
        let done = states.iter().filter(is_done).map(|(cluster, _)| cluster.clone());
        let succeeded = done.filter(|cluster| is_counted(cluster)).collect();
        Ok((progress, succeeded))
    }

    fn progress(
        &self,
        strategy: &SetStrategy,
        groups: &[RolloutGroup],
        states: &BTreeMap<ClusterName, ClusterState>,
    ) -> SetProgress {
        let blocked = self.blocked(groups);
        let now = self.inputs.now;
        let rollout = SetRollout { strategy, groups, states, blocked: &blocked, now };
        match self.inputs.set.semantics {
            RolloutSemantics::Gitwork => rollout.progress(),
            RolloutSemantics::Upstream => rollout.upstream_progress(),
        }
    }

    /// Clusters that cannot get the template: they are being deleted, or the hub rejects the write.
    fn blocked(&self, groups: &[RolloutGroup]) -> BTreeSet<ClusterName> {
        let all = groups.iter().flat_map(|group| &group.clusters);
        let is_blocked = |cluster: &&ClusterName| {
            let failure = self.inputs.failures.get(*cluster);
            let has_template =
                self.kept(cluster).is_some_and(|work| work.has_content(self.inputs.set.digest));
            let is_rejected = failure.is_some_and(|one| one.needs_action) && !has_template;
            is_rejected || (self.is_leaving_the_hub(cluster) && self.kept(cluster).is_none())
        };
        all.filter(is_blocked).cloned().collect()
    }

    /// Whether the cluster is being deleted: nothing can be created in its namespace.
    fn is_leaving_the_hub(&self, cluster: &ClusterName) -> bool {
        let facts = self.inputs.facts.managed_clusters.get(cluster);
        facts.is_some_and(|facts| facts.is_deleting)
    }

    /// The states of the clusters that have the template, and when one of them changes next.
    fn states(
        &self,
        position: usize,
        placement: &MemberPlacement<'_>,
    ) -> (BTreeMap<ClusterName, ClusterState>, Option<Timestamp>) {
        let (set, now) = (self.inputs.set, self.inputs.now);
        let is_upstream = set.semantics == RolloutSemantics::Upstream;
        let label = label_value(&placement.reference.name);
        let mut states = BTreeMap::new();
        let mut recheck: Option<Timestamp> = None;
        for (cluster, works) in self.works {
            let Some(work) = works.kept.filter(|work| work.has_content(set.digest)) else {
                continue;
            };
            // Upstream also counts a cluster that has left, until its work is gone.
            let is_counted = match self.membership.position(cluster) {
                Some(of) => of == position,
                None => is_upstream && work.placement_label() == Some(&label),
            };
            if !is_counted {
                continue;
            }
            let TimedState { state, recheck: at } = if is_upstream {
                upstream_state(work, now).into()
            } else {
                state(work, set.has_progressing_rule, now)
            };
            recheck = [recheck, at].into_iter().flatten().min();
            states.insert((*cluster).clone(), state);
        }
        (states, recheck)
    }

    /// The write that gives a cluster the template; `None` if it has it.
    fn content_write(&self, cluster: &ClusterName, placement: &str) -> Option<SetWrite> {
        let set = self.inputs.set;
        let placement = placement.to_owned();
        let Some(work) = self.kept(cluster) else {
            if self.is_leaving_the_hub(cluster) {
                return None;
            }
            let works = self.works.get(cluster);
            let name = works.map_or_else(|| set.key.work_name(0), |works| works.free_name(set));
            return Some(SetWrite::Create { cluster: cluster.clone(), name, placement });
        };
        let has_template = work.has_content(set.digest);
        (!has_template).then(|| SetWrite::Update { work: Box::new(work.clone()), placement })
    }

    /// Labels of the set reach all works at once.
    fn update_metadata(&self, decision: &mut SetDecision) {
        let set = self.inputs.set;
        let written: BTreeSet<ClusterName> =
            decision.writes.iter().filter_map(SetWrite::cluster).cloned().collect();
        for (cluster, works) in self.works {
            let (Some(work), Some(position)) = (works.kept, self.membership.position(cluster))
            else {
                continue;
            };
            let Some(placement) = self.membership.placements.get(position) else { continue };
            let placement = placement.reference.name.clone();
            if !written.contains(*cluster) && needs_metadata(set, work, &placement) {
                let work = Box::new(work.clone());
                decision.writes.push(SetWrite::UpdateMetadata { work, placement });
            }
        }
    }

    /// Deletes the works of clusters that have certainly left, whatever their content, and second
    /// works of a cluster once the other one is applied.
    fn remove(&self, decision: &mut SetDecision) {
        for (cluster, works) in self.works {
            let has_left = self.membership.has_left(cluster);
            let is_applied = works.kept.is_some_and(|work| work.is_true(work.conditions.applied));
            let reason = if has_left { WorkDeletion::ClusterLeft } else { WorkDeletion::Duplicate };
            let kept = works.kept.filter(|_| has_left);
            let others = works.duplicates.iter().copied().filter(|_| has_left || is_applied);
            let removed = kept.into_iter().chain(others);
            decision.writes.extend(removed.map(|work| deletion(work, reason)));
        }
    }

    /// What the status says of one Placement.
    fn report(
        &self,
        position: usize,
        placement: &MemberPlacement<'_>,
        progress: Option<SetRolledOut>,
        problem: Option<String>,
    ) -> PlacementReport {
        let set = self.inputs.set;
        let mut report = PlacementReport::of(placement);
        report.problem = problem;
        for cluster in self.membership.of_position(position) {
            report.selected += 1;
            let Some(work) = self.kept(cluster) else { continue };
            report.count(work, work.has_content(set.digest));
        }
        if let Some((progress, succeeded)) = progress {
            report.has_rollout = true;
            report.is_stopped = progress.is_stopped;
            report.failed = progress.failed.into_iter().collect();
            report.succeeded = succeeded.len();
            report.soaking = progress.soaking.len();
        }
        report
    }
}
