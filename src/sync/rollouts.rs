//! The rollouts of one source: which clusters of each group wait for their wave, and what the
//! record keeps. No clock: time is passed in.
//!
//! How far a cluster has come is read from the hub, again whenever its works change. Only the
//! times since when clusters are as they are have to be kept here. A new process reads them from
//! the hub where it has them, and else begins them again: a cluster soaks longer then, never
//! shorter. What has to be remembered is in the record: the last wave that began, and the content
//! that failed.

mod basis;
mod cluster;
mod inputs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use self::basis::Basis;
use self::cluster::ClusterProgress;
pub use self::inputs::GroupRecords;
pub(crate) use self::inputs::RolloutInputs;
use gitwork_core::config::window;
use gitwork_core::limits;
use gitwork_core::model::approval::{RolloutApproval, RolloutStep};
use gitwork_core::model::cluster_revisions::ChangedClusters;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, CommitId, GroupName, WorkKey};
use gitwork_core::plan::PlanInputs;
use gitwork_core::plan::rollout_progress::{GroupProgress, WaveProgress};
use gitwork_core::plan::rollouts::{
    GroupRecord, RejectedContent, RolloutControl, RolloutWait, RolloutWaitCause, RolloutWaits,
    WaitingWorks,
};
use gitwork_core::render::desired::{Desired, UncertainMembers};
use gitwork_core::rollout::earlier::{EarlierContent, EarlierContents};
use gitwork_core::rollout::{
    ActiveCluster, ClusterState, Gate, GroupRollout, Rollout, RolloutMember, RolloutProgress, Wave,
    later,
};

/// How far the clusters of a group have come.
type ClustersOfGroup = BTreeMap<ClusterName, ClusterProgress>;

/// The rollouts of one source.
#[derive(Debug, Default)]
pub struct Rollouts {
    /// `None` before the first update.
    basis: Option<Basis>,
    clusters: BTreeMap<GroupName, ClustersOfGroup>,
    /// What the record is to have before the next write.
    records: GroupRecords,
    /// The groups whose rollouts have not ended: the status of their works decides what happens
    /// next.
    open: BTreeSet<GroupName>,
    /// What works wait for.
    causes: Vec<Arc<RolloutWait>>,
    /// When something changes because of the time alone.
    recheck: Option<Timestamp>,
    /// How far each has come.
    progress: Vec<GroupProgress>,
    /// What clusters keep or get in place of the content of Git's head; `None` before the first
    /// update.
    earlier: Option<EarlierContents>,
    /// What operators may ask for.
    controls: Vec<RolloutControl>,
    /// The clusters that get the last good content back, each with the position of its wave.
    returning: BTreeMap<ClusterName, usize>,
    /// Works that Git was read with an earlier content for, which their cluster is no longer to
    /// have.
    outdated: BTreeSet<WorkKey>,
}

/// One group's rollout at one plan.
struct GroupView<'a> {
    inputs: RolloutInputs<'a>,
    group: &'a GroupName,
    rollout: &'a GroupRollout,
    clusters: &'a ClustersOfGroup,
    /// The states of the clusters that have the content.
    states: BTreeMap<ClusterName, ClusterState>,
    /// The clusters that get nothing.
    blocked: BTreeSet<ClusterName>,
    record: GroupRecord,
    /// How far it has come, with its waves.
    progress: RolloutProgress,
    waves: Vec<Wave>,
    /// The record had no room for it.
    is_unrecorded: bool,
}

impl Rollouts {
    /// What the record is to have before the next write.
    pub(crate) fn records(&self) -> &GroupRecords {
        &self.records
    }

    /// The groups whose rollouts have not ended.
    pub(crate) fn open(&self) -> &BTreeSet<GroupName> {
        &self.open
    }

    /// When something changes because of the time alone.
    pub(crate) fn recheck(&self) -> Option<Timestamp> {
        self.recheck
    }

    /// How far each has come.
    pub(crate) fn progress(&self) -> &[GroupProgress] {
        &self.progress
    }

    /// What clusters keep or get in place of the content of Git's head; `None` before the first
    /// update.
    pub(crate) fn earlier(&self) -> Option<&EarlierContents> {
        self.earlier.as_ref()
    }

    /// The position of the wave of a cluster that gets the last good content back.
    pub(crate) fn returning_wave(&self, cluster: &ClusterName) -> Option<usize> {
        self.returning.get(cluster).copied()
    }

    /// Whether the work waits until Git is read again: its cluster is no longer to have the earlier
    /// content that it was read with.
    pub(crate) fn is_outdated(&self, key: &WorkKey) -> bool {
        self.outdated.contains(key)
    }

    /// What operators may ask for, by group.
    pub(crate) fn controls(&self) -> &[RolloutControl] {
        &self.controls
    }

    /// Updates the rollouts, and gives the works that wait.
    pub(crate) fn update(&mut self, inputs: RolloutInputs<'_>) -> RolloutWaits {
        self.read_clusters(inputs);
        self.basis = Some(Basis::of(inputs));
        self.judge(inputs)
    }

    /// Reads the clusters again that the hub or Git has otherwise.
    fn read_clusters(&mut self, inputs: RolloutInputs<'_>) {
        let rollouts = &inputs.plan.desired.rollouts;
        let changed = self.basis.as_ref().map(|basis| basis.changed(inputs));
        let read = |of_group: &mut ClustersOfGroup, key: (&GroupName, &ClusterName)| {
            let Some(rollout) = rollouts.get(key.0) else { return };
            let Some(member) = rollout.members.get(key.1) else { return };
            let known = of_group.entry(key.1.clone()).or_default();
            known.read(key, (rollout, member), inputs);
        };
        if let Some(ChangedClusters::Some(names)) = changed {
            for (group, of_group) in &mut self.clusters {
                names.iter().for_each(|name| read(of_group, (group, name)));
            }
            return;
        }
        self.clusters.retain(|group, _| rollouts.contains_key(group));
        for (group, rollout) in rollouts {
            let of_group = self.clusters.entry(group.clone()).or_default();
            of_group.retain(|name, _| rollout.members.contains_key(name));
            rollout.members.keys().for_each(|name| read(of_group, (group, name)));
        }
    }

    /// Judges all waves by the clusters as they were read.
    fn judge(&mut self, inputs: RolloutInputs<'_>) -> RolloutWaits {
        self.recheck = None;
        self.open.clear();
        self.progress.clear();
        self.controls.clear();
        self.returning.clear();
        self.outdated.clear();
        let desired = inputs.plan.desired;
        let before = std::mem::replace(&mut self.records, kept_records(inputs.recorded, desired));
        let mut clusters = std::mem::take(&mut self.clusters);
        self.update_states(&mut clusters, inputs);
        let groups = desired.rollouts.iter();
        let groups =
            groups.filter_map(|(group, rollout)| Some((group, &**rollout, clusters.get(group)?)));
        let mut views: Vec<GroupView<'_>> =
            groups.map(|group| GroupView::new(group, &before, inputs)).collect();
        find_room(&mut views);
        let (mut waits, mut earlier) = (BTreeMap::new(), EarlierContents::new());
        let mut causes = Vec::new();
        for view in views {
            self.recheck = [self.recheck, view.progress.recheck].into_iter().flatten().min();
            let of_group = view.add_waits(&self.causes, &mut waits);
            self.progress.push(view.report(&of_group));
            causes.extend(of_group);
            self.controls.push(view.control());
            if view.progress.wave.is_some() {
                self.open.insert(view.group.clone());
            }
            let content = view.earlier();
            for (cluster, wave) in view.returning(&content) {
                let last = self.returning.entry(cluster.clone()).or_default();
                *last = wave.max(*last);
            }
            self.outdated.extend(view.outdated(&content).cloned());
            if !content.clusters.is_empty() {
                earlier.insert(view.group.clone(), content);
            }
            let record = view.record_to_keep();
            self.records.extend(record.map(|record| (view.group.clone(), record)));
        }
        self.earlier = Some(earlier);
        self.causes = causes;
        self.clusters = clusters;
        RolloutWaits::new(waits)
    }

    /// Updates the states of all clusters for this time.
    fn update_states(
        &mut self,
        clusters: &mut BTreeMap<GroupName, ClustersOfGroup>,
        inputs: RolloutInputs<'_>,
    ) {
        for (group, of_group) in clusters {
            let Some(rollout) = inputs.plan.desired.rollouts.get(group) else { continue };
            for (cluster, known) in of_group {
                known.update(cluster, rollout.content, inputs);
                let recheck = known.recheck();
                self.recheck = [self.recheck, recheck].into_iter().flatten().min();
            }
        }
    }
}

impl<'a> GroupView<'a> {
    /// How far the rollout of a group has come. `before`: what the record was to have.
    fn new(
        (group, rollout, clusters): (&'a GroupName, &'a GroupRollout, &'a ClustersOfGroup),
        before: &GroupRecords,
        inputs: RolloutInputs<'a>,
    ) -> Self {
        let states = clusters.iter();
        let states = states.filter_map(|(name, known)| Some((name.clone(), known.state?)));
        let states = states.collect();
        let members = rollout.members.iter().filter(|(_, member)| member.is_blocked);
        let blocked = members.map(|(cluster, _)| cluster.clone()).collect();
        let recorded = inputs.recorded.get(group);
        // Without a place for the record, this process knows more than the hub.
        let known = before.get(group).filter(|known| known.content == rollout.content);
        // A hub without a namespace for gitwork has no record at all.
        let record = match known.or(recorded).or_else(|| before.get(group)) {
            Some(record) if record.content == rollout.content => record.clone(),
            Some(record) => record.followed_by(rollout.content),
            None => GroupRecord::new(rollout.content),
        };
        let (progress, waves) = Default::default();
        let is_unrecorded = false;
        let mut view = GroupView {
            inputs,
            group,
            rollout,
            clusters,
            states,
            blocked,
            record,
            progress,
            waves,
            is_unrecorded,
        };
        view.add_commit();
        view.advance();
        view
    }
}

/// Leaves out what the record has no room for. Rollouts that have not ended come first.
fn find_room(views: &mut [GroupView<'_>]) {
    let mut room = limits::ROLLOUTS_BYTES_MAX;
    for has_ended in [false, true] {
        for view in views.iter_mut().filter(|view| view.has_ended() == has_ended) {
            let bytes = view.record_bytes();
            if bytes > room && (has_ended || view.recorded() != Some(&view.record)) {
                view.is_unrecorded = true;
                view.progress.active.retain(|_, active| *active != ActiveCluster::ToApply);
            } else {
                room = room.saturating_sub(bytes);
            }
        }
    }
}

/// The records of groups that could not be read: they may still have a rollout.
fn kept_records(recorded: &GroupRecords, desired: &Desired) -> GroupRecords {
    let frozen = &desired.frozen;
    let is_unread = |group: &GroupName| {
        frozen.source
            || frozen.deletes
            || frozen.groups.contains_key(group)
            || frozen.groups_beside_unnamed.is_some()
    };
    let kept = recorded.iter().filter(|(group, _)| is_unread(group));
    kept.map(|(group, record)| (group.clone(), record.clone())).collect()
}

impl GroupView<'_> {
    /// What the hub has of its record.
    fn recorded(&self) -> Option<&GroupRecord> {
        self.inputs.recorded.get(self.group)
    }

    fn has_ended(&self) -> bool {
        self.progress.wave.is_none() && self.progress.breach.is_none()
    }

    /// Keeps a commit of the content, and those of other contents as long as a cluster has them.
    fn add_commit(&mut self) {
        let Some(commit) = self.inputs.plan.desired.commit else { return };
        let content = self.rollout.content;
        if self.record.commits.contains_key(&content) {
            return;
        }
        let on_hub = self.clusters.values().flat_map(|known| &known.works.contents);
        let on_hub = on_hub.copied().flatten();
        let needed: BTreeSet<Digest> = self.record.last_good.into_iter().chain(on_hub).collect();
        self.record.commits.retain(|content, _| needed.contains(content));
        while self.record.commits.len() >= limits::ROLLOUT_CONTENTS_MAX {
            let last_good = self.record.last_good;
            let others = self.record.commits.keys().copied();
            let Some(one) = others.into_iter().find(|one| Some(*one) != last_good) else { break };
            self.record.commits.remove(&one);
        }
        self.record.commits.insert(content, commit);
    }

    /// What the record is to have before the next write.
    fn record_to_keep(&self) -> Option<GroupRecord> {
        let record = &self.record;
        let has_content = record.commits.contains_key(&record.content) && !self.states.is_empty();
        let is_remembered = record.begun.is_some() || record.rejected.is_some() || has_content;
        match self.recorded() {
            recorded if self.is_unrecorded => recorded.filter(|_| !self.has_ended()).cloned(),
            // Nothing has been done yet that depends on it.
            recorded if !is_remembered => recorded.cloned(),
            // There is nothing more to remember. The rest goes with the next content.
            Some(recorded)
                if self.has_ended()
                    && recorded.content == record.content
                    && recorded.last_good == record.last_good =>
            {
                Some(recorded.clone())
            }
            _ => Some(record.clone()),
        }
    }

    /// Whether the content has come to its end, and was applied somewhere.
    fn is_good(&self) -> bool {
        let mut states = self.states.values();
        self.has_ended()
            && self.record.rejected.is_none()
            && self.record.commits.contains_key(&self.rollout.content)
            && !self.are_members_unknown()
            && states.any(|state| matches!(state, ClusterState::Succeeded { .. }))
    }

    /// The contents that clusters without this one keep or get: what they have, or the last good
    /// one if they have none.
    fn earlier(&self) -> EarlierContent {
        let head = self.rollout.content;
        let returns_to = self.returns_to().map(|(good, _)| good);
        let mut clusters = BTreeMap::new();
        for (cluster, member) in &self.rollout.members {
            let content = match self.progress.active.get(cluster) {
                Some(ActiveCluster::ToApply) => None,
                _ if member.is_blocked => None,
                _ if self.states.contains_key(cluster) => {
                    returns_to.filter(|_| self.takes_part(cluster))
                }
                _ => self.content_of(cluster),
            };
            let is_known = |one: &Digest| *one != head && self.record.commits.contains_key(one);
            clusters.extend(content.filter(is_known).map(|content| (cluster.clone(), content)));
        }
        let needed: BTreeSet<&Digest> = clusters.values().collect();
        let mut commits = self.record.commits.clone();
        commits.retain(|content, _| needed.contains(content));
        EarlierContent { head, commits, clusters }
    }

    /// The works of clusters that Git was read with another earlier content for than `wanted`.
    fn outdated(&self, wanted: &EarlierContent) -> impl Iterator<Item = &WorkKey> {
        let members = self.rollout.members.iter();
        let outdated = members.filter(|(cluster, member)| {
            member.earlier.is_some() && member.earlier.as_ref() != wanted.clusters.get(*cluster)
        });
        outdated.flat_map(|(_, member)| member.works.iter())
    }

    /// The content that a cluster without this one has, or else the last good one.
    fn content_of(&self, cluster: &ClusterName) -> Option<Digest> {
        let known = self.clusters.get(cluster);
        let mut on_hub = known.into_iter().flat_map(|known| &known.works.contents);
        match (on_hub.next(), on_hub.next()) {
            (None, _) => self.record.last_good,
            (Some(one), None) => *one,
            // It is between two of them.
            _ => None,
        }
    }

    /// The content that clusters get back after this one failed, with its commit.
    fn returns_to(&self) -> Option<(Digest, CommitId)> {
        let step = RolloutStep::Return(self.record.attempt());
        let returns = || self.rollout.rules.returns || self.is_approved(step);
        let is_restored = self.inputs.plan.policy.restored.is_some();
        let may = self.record.rejected.is_some() && !is_restored && returns();
        self.last_good().filter(|_| may)
    }

    /// The clusters that give this content up for an earlier one, each with the position of its
    /// wave.
    fn returning<'a>(
        &'a self,
        earlier: &'a EarlierContent,
    ) -> impl Iterator<Item = (&'a ClusterName, usize)> {
        let clusters = earlier.clusters.keys();
        let returning = clusters.filter(|cluster| self.states.contains_key(*cluster));
        returning.filter_map(|cluster| Some((cluster, self.rollout.members.get(cluster)?.wave)))
    }

    /// The last good content, if it is another one, with its commit.
    fn last_good(&self) -> Option<(Digest, CommitId)> {
        let good = self.record.last_good.filter(|good| *good != self.rollout.content)?;
        Some((good, *self.record.commits.get(&good)?))
    }

    /// How far the rollout has come. Updates the record.
    fn advance(&mut self) {
        (self.progress, self.waves) = self.next_progress();
        if self.is_good() {
            self.record.last_good = Some(self.rollout.content);
        }
    }

    fn next_progress(&mut self) -> (RolloutProgress, Vec<Wave>) {
        self.retry();
        self.stop();
        let counted = self.counted_states();
        let states = counted.as_ref().unwrap_or(&self.states);
        let (first, deadline) = (&self.record.first, self.rollout.rules.deadline);
        let now = self.inputs.now;
        let blocked = &self.blocked;
        let progress_of =
            |waves: &[Wave]| Rollout { waves, states, blocked, first, deadline, now }.progress();
        let begun = self.taken();
        let mut waves = self.waves(begun);
        let mut progress = progress_of(&waves);
        if begun.is_some() && progress.wave > begun {
            // Clusters that joined a wave late have to soak before a further wave begins.
            waves = self.waves(None);
            progress = progress_of(&waves);
        }
        if let Some(breach) = progress.breach.as_ref().filter(|_| self.record.rejected.is_none()) {
            let wave = waves.get(breach.wave).map(|wave| wave.name.clone()).unwrap_or_default();
            let clusters = breach.clusters.iter().take(limits::ROLLOUT_CLUSTERS_MAX).cloned();
            let clusters = clusters.collect();
            self.record.rejected = Some(RejectedContent { wave, clusters });
        }
        let is_held = self.record.rejected.is_some() || self.is_restored() || self.is_paused();
        if is_held || self.are_members_unknown() {
            progress.active.retain(|_, active| *active != ActiveCluster::ToApply);
        }
        let begins = progress.active.values().any(|active| *active == ActiveCluster::ToApply);
        if begins
            && self.begun() < progress.wave
            && let Some(wave) = progress.wave.and_then(|wave| waves.get(wave))
        {
            self.record.begun = Some(wave.name.clone());
        }
        (progress, waves)
    }

    /// Continues a rollout that was stopped, if somebody has approved that.
    fn retry(&mut self) {
        let retry = RolloutStep::Retry(self.record.attempt());
        if self.record.rejected.is_none() || !self.is_approved(retry) {
            return;
        }
        if let Some(rejected) = self.record.rejected.take() {
            self.record.excused.extend(rejected.clusters);
            self.record.retries = self.record.retries.saturating_add(1);
        }
    }

    /// Stops the rollout if somebody wants that, or if it was stopped before the hub was restored
    /// from an older backup.
    fn stop(&mut self) {
        let attempt = self.record.attempt();
        let steps = [RolloutStep::Stop(attempt), RolloutStep::Return(attempt)];
        let is_asked = steps.into_iter().any(|step| self.is_approved(step));
        let known = self.inputs.known_rejected.get(self.group);
        let was_rejected = self.is_restored() && known == Some(&self.rollout.content);
        if (is_asked || was_rejected) && self.record.rejected.is_none() {
            let wave = self.record.begun.clone().unwrap_or_default();
            self.record.rejected = Some(RejectedContent { wave, clusters: BTreeSet::new() });
        }
    }

    fn step(&self, step: RolloutStep) -> RolloutApproval {
        RolloutApproval { group: self.group.clone(), content: self.rollout.content, step }
    }

    /// What operators want of the rollout.
    fn steps(&self) -> impl Iterator<Item = &RolloutStep> {
        let PlanInputs { desired, policy, .. } = self.inputs.plan;
        let all = policy.approved.rollouts.iter().chain(&desired.approved.rollouts);
        let (group, content) = (self.group, self.rollout.content);
        let ours = all.filter(move |one| one.group == *group && one.content == content);
        ours.map(|one| &one.step)
    }

    /// Whether the hub was restored from a backup, and nobody has confirmed that.
    fn is_restored(&self) -> bool {
        self.inputs.plan.policy.restored.is_some()
    }

    /// The number of the last pause, or 0.
    fn pauses(&self) -> u32 {
        let pauses = self.steps().filter_map(|step| match step {
            RolloutStep::Pause(number) => Some(*number),
            _ => None,
        });
        pauses.max().unwrap_or_default()
    }

    fn is_paused(&self) -> bool {
        let last = self.pauses();
        let resumed =
            |step: &RolloutStep| matches!(step, RolloutStep::Resume(number) if *number >= last);
        last > 0 && !self.steps().any(resumed)
    }

    fn control(&self) -> RolloutControl {
        let current = self.progress.wave.and_then(|wave| self.waves.get(wave));
        let waiting = current.filter(|wave| wave.gate == Some(Gate::Approval));
        RolloutControl {
            group: self.group.clone(),
            content: self.rollout.content,
            waves: self.waves.iter().map(|wave| wave.name.clone()).collect(),
            has_ended: self.has_ended(),
            is_stopped: self.record.rejected.is_some(),
            is_paused: self.is_paused(),
            has_last_good: self.last_good().is_some(),
            waiting_wave: waiting.map(|wave| wave.name.clone()),
            attempt: self.record.attempt(),
            pauses: self.pauses(),
        }
    }

    fn is_approved(&self, step: RolloutStep) -> bool {
        let PlanInputs { desired, policy, .. } = self.inputs.plan;
        let step = &self.step(step);
        [&policy.approved, &desired.approved].iter().any(|all| all.rollouts.contains(step))
    }

    /// Clusters that had failed before an approved retry do not count again. `None` if all count.
    fn counted_states(&self) -> Option<BTreeMap<ClusterName, ClusterState>> {
        if self.record.excused.is_empty() {
            return None;
        }
        let mut states = self.states.clone();
        for cluster in &self.record.excused {
            if let Some(state) = states.get_mut(cluster)
                && !matches!(state, ClusterState::Succeeded { .. })
            {
                *state = ClusterState::Skipped;
            }
        }
        Some(states)
    }

    /// The waves. `begun`: nothing soaks in those before this one.
    fn waves(&self, begun: Option<usize>) -> Vec<Wave> {
        let rules = &self.rollout.rules.waves;
        let mut clusters: Vec<Vec<ClusterName>> = vec![Vec::new(); rules.len()];
        for (cluster, _) in self.clusters.iter().filter(|(_, known)| known.takes_part) {
            let member = self.rollout.members.get(cluster);
            let of_wave = member.and_then(|member| clusters.get_mut(member.wave));
            of_wave.into_iter().for_each(|of_wave| of_wave.push(cluster.clone()));
        }
        let waves = rules.iter().zip(clusters).enumerate();
        let wave = |(index, (rules, clusters)): (usize, (_, Vec<ClusterName>))| {
            let rules: &gitwork_core::rollout::WaveRules = rules;
            let is_over = begun.is_some_and(|begun| index < begun);
            let needs = self.needs_approval(index);
            let zone = self.inputs.zone;
            let closed = || window::closed(&[&rules.window], zone, self.inputs.now);
            let gate = match needs {
                true => Some(Gate::Approval),
                false => closed().map(|closed| Gate::Window(closed.until)),
            };
            let soak = if is_over { std::time::Duration::ZERO } else { rules.soak };
            Wave { soak, gate, ..rules.wave(clusters.into_iter().collect()) }
        };
        waves.map(wave).collect()
    }

    /// The position of the last wave that has begun.
    fn begun(&self) -> Option<usize> {
        let name = self.record.begun.as_ref()?;
        self.rollout.rules.waves.iter().position(|wave| wave.name == *name)
    }

    /// The position of the last wave that has begun, and of which a cluster has the content.
    fn taken(&self) -> Option<usize> {
        (0..=self.begun()?).rev().find(|wave| self.is_taken(*wave))
    }

    /// Whether a cluster of the wave has the content.
    fn is_taken(&self, wave: usize) -> bool {
        let mut members = self.rollout.members.iter().filter(|(_, member)| member.wave == wave);
        members.any(|(cluster, _)| self.states.contains_key(cluster))
    }

    /// Whether somebody has to approve the wave before further clusters get the content. A wave
    /// that was empty so far has not begun, even if later ones have.
    fn needs_approval(&self, index: usize) -> bool {
        let Some(rules) = self.rollout.rules.waves.get(index) else { return false };
        let has_begun = || self.begun().is_some_and(|begun| index <= begun) && self.is_taken(index);
        let wave = || RolloutStep::Wave(rules.name.clone());
        rules.needs_approval && !has_begun() && !self.is_approved(wave())
    }

    /// Whether any cluster may be in the group: it may be one of an early wave.
    fn are_members_unknown(&self) -> bool {
        let uncertain = self.inputs.plan.desired.frozen.groups.get(self.group);
        uncertain == Some(&UncertainMembers::Everyone)
    }

    fn takes_part(&self, cluster: &ClusterName) -> bool {
        self.clusters.get(cluster).is_some_and(|known| known.takes_part)
    }

    /// The works of clusters that must not get the content now, those included that the content no
    /// longer has. Gives what they wait for, by wave. `known`: what works waited for before, so
    /// that what is equal is the same.
    fn add_waits(
        &self,
        known: &[Arc<RolloutWait>],
        waits: &mut BTreeMap<ClusterName, Vec<WaitingWorks>>,
    ) -> Vec<Arc<RolloutWait>> {
        let mut causes: BTreeMap<(usize, bool), Arc<RolloutWait>> = BTreeMap::new();
        for (cluster, member) in &self.rollout.members {
            let has_content =
                self.states.contains_key(cluster) || self.progress.active.contains_key(cluster);
            // What only a rejected content has stays while the cluster returns.
            if member.earlier.is_none() && (has_content || member.works.is_empty()) {
                continue;
            }
            let wait = causes.entry((member.wave, member.is_blocked));
            let wait = wait.or_insert_with(|| {
                let wait = self.wait(member);
                let same = known.iter().find(|known| ***known == wait);
                same.cloned().unwrap_or_else(|| Arc::new(wait))
            });
            let on_hub = self.clusters.get(cluster);
            let removed = on_hub.map(|known| known.works.removed.clone()).unwrap_or_default();
            let works = WaitingWorks { works: member.works.clone(), removed, wait: wait.clone() };
            waits.entry(cluster.clone()).or_default().push(works);
        }
        causes.into_values().collect()
    }

    /// How far it has come, for people. `waits`: what clusters without the content wait for.
    fn report(&self, waits: &[Arc<RolloutWait>]) -> GroupProgress {
        let (progress, waves) = (&self.progress, &self.waves);
        let with_clusters = waves.iter().filter(|wave| !wave.clusters.is_empty());
        let current = progress.wave.and_then(|index| waves.get(index));
        // A later wave may need its approval already. The rollout does not wait for it yet.
        let is_told = |wait: &&Arc<RolloutWait>| match wait.cause {
            RolloutWaitCause::Turn { .. } => false,
            RolloutWaitCause::Approval(_) | RolloutWaitCause::Window(_) => {
                current.is_some_and(|wave| wave.name == wait.wave)
            }
            _ => true,
        };
        let next = waits.iter().find(is_told);
        let soaking = current.into_iter().flat_map(|wave| {
            let soaking = wave.clusters.iter().filter_map(|cluster| self.states.get(cluster));
            soaking.filter_map(|state| match state {
                ClusterState::Succeeded { since } => Some(later(*since, wave.soak)),
                _ => None,
            })
        });
        GroupProgress {
            group: self.group.to_string(),
            content: self.rollout.content.to_string(),
            waves: with_clusters.map(|wave| self.report_wave(wave)).collect(),
            wave: current.map(|wave| wave.name.clone()),
            soaking_until: soaking.max().filter(|until| *until > self.inputs.now),
            waits_for: next.map(ToString::to_string),
            held: next.is_some_and(|wait| wait.is_held()),
            rejected: self.record.rejected.is_some(),
            approval: next.and_then(|wait| Some(wait.approval.as_ref()?.1.to_string())),
        }
    }

    fn report_wave(&self, wave: &Wave) -> WaveProgress {
        let (name, clusters) = (wave.name.clone(), wave.clusters.len());
        let mut counts = WaveProgress { name, clusters, ..WaveProgress::default() };
        for cluster in &wave.clusters {
            let state = self.states.get(cluster);
            let count = match (self.progress.active.get(cluster), state) {
                (Some(ActiveCluster::ToApply), _) | (_, None | Some(ClusterState::ToApply)) => {
                    &mut counts.waiting
                }
                (_, Some(ClusterState::Offline { .. })) => &mut counts.offline,
                (Some(ActiveCluster::Progressing), _) => &mut counts.progressing,
                (Some(ActiveCluster::Soaking), _) => &mut counts.soaking,
                (None, Some(ClusterState::Succeeded { .. } | ClusterState::Skipped)) => {
                    &mut counts.done
                }
                // Without a place, its deadline has passed.
                (Some(ActiveCluster::Failed) | None, _) => &mut counts.failed,
            };
            *count += 1;
        }
        counts
    }

    fn wait(&self, member: &RolloutMember) -> RolloutWait {
        let progress = &self.progress;
        let wave = member.wave;
        let rules = &self.rollout.rules.waves;
        let name = |index: usize| rules.get(index).map(|wave| wave.name.clone());
        let title = name(wave).unwrap_or_default();
        let approval = self.step(RolloutStep::Wave(title.clone()));
        let needs_approval = self.needs_approval(wave);
        let restored = self.inputs.plan.policy.restored.as_ref();
        let cause = match (&self.record.rejected, progress.gate) {
            _ if self.is_unrecorded => RolloutWaitCause::RecordFull,
            _ if let Some(approval) = restored => RolloutWaitCause::Restored(approval.clone()),
            _ if member.is_blocked => RolloutWaitCause::Blocked,
            _ if self.are_members_unknown() => RolloutWaitCause::MembersUnknown,
            (Some(rejected), _) => RolloutWaitCause::Stopped {
                wave: rejected.wave.clone(),
                clusters: rejected.clusters.clone(),
                retry: self.step(RolloutStep::Retry(self.record.attempt())),
                returns_to: self.returns_to().map(|(_, commit)| commit),
            },
            _ if self.is_paused() => RolloutWaitCause::Paused,
            _ if needs_approval => RolloutWaitCause::Approval(approval),
            (None, Some(Gate::Window(until))) if progress.wave == Some(wave) => {
                RolloutWaitCause::Window(until)
            }
            _ => RolloutWaitCause::Turn {
                behind: progress.wave.filter(|current| *current < wave).and_then(name),
                gate: progress.gate,
            },
        };
        RolloutWait::new(self.group.clone(), title, cause, &self.inputs.plan.desired.source)
    }

    /// What its record takes as text, about.
    fn record_bytes(&self) -> usize {
        let lists = [&self.record.excused, &self.record.first];
        let rejected = self.record.rejected.iter().map(|one| &one.clusters);
        let names = lists.into_iter().chain(rejected).flatten();
        let names: usize = names.map(|name| name.as_str().len() + 3).sum();
        names + self.group.as_str().len() + 400 + 115 * self.record.commits.len()
    }
}
