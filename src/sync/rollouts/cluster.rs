//! How far one cluster has come with the content of one group.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::inputs::{RolloutInputs, is_suspended};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, GroupName, WorkKey};
use gitwork_core::model::status_view::ObjectHealth;
use gitwork_core::plan::PlanInputs;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::rollout::{ClusterState, GroupRollout, RolloutMember, later};

/// OCM's agent may report the health of the objects before an update for so long after it has
/// applied the update: it looks at each object every 10 to 30 seconds, and retries for a minute.
/// gitwork's agent says at which generation of the work it looked.
const HEALTH_DELAY: Duration = Duration::from_secs(120);

/// Kubernetes writes times in whole seconds, rounded down: what is said of a time may have happened
/// so much later.
const TIME_PRECISION: Duration = Duration::from_secs(1);

/// The works of a group that the hub has on one cluster.
#[derive(Debug, Default)]
pub(super) struct WorksOnHub {
    /// The contents of the group that they are marked with.
    pub contents: BTreeSet<Option<Digest>>,
    /// Those that the group no longer has.
    pub removed: Vec<WorkKey>,
    view: ClusterView,
}

/// How far one cluster has come.
#[derive(Debug, Default)]
pub(super) struct ClusterProgress {
    pub works: WorksOnHub,
    /// Without works of the group, or with suspended ones only, it has nothing to do.
    pub takes_part: bool,
    /// `None` if it has nothing of the content.
    pub state: Option<ClusterState>,
    times: ClusterTimes,
}

impl ClusterProgress {
    /// Reads the works on the hub again.
    pub fn read(
        &mut self,
        key: (&GroupName, &ClusterName),
        (rollout, member): (&GroupRollout, &RolloutMember),
        inputs: RolloutInputs<'_>,
    ) {
        self.works = WorksOnHub::of(key, (rollout.content, member), inputs.plan);
        // An earlier content may have no works for the cluster.
        self.takes_part = member.is_blocked
            || (member.earlier.is_some() && member.works.is_empty())
            || member.works.iter().any(|key| !is_suspended(key, inputs.plan));
    }

    /// Updates the state for this time.
    pub fn update(&mut self, cluster: &ClusterName, content: Digest, inputs: RolloutInputs<'_>) {
        let view = &self.works.view;
        if view.is_waiting() {
            (self.times, self.state) = (ClusterTimes::default(), None);
            return;
        }
        let is_offline = inputs.offline.contains(cluster);
        self.state = Some(self.times.state(view, content, is_offline, inputs.now));
    }

    /// When its health counts, if that is later than now.
    pub fn recheck(&self) -> Option<Timestamp> {
        self.times.counts_at
    }
}

impl WorksOnHub {
    fn of(
        (group, cluster): (&GroupName, &ClusterName),
        (content, member): (Digest, &RolloutMember),
        inputs: PlanInputs<'_>,
    ) -> Self {
        let PlanInputs { desired, observed, .. } = inputs;
        let mut found = Self::default();
        let prefix = format!("groups/{group}/");
        for (key, there) in observed.works.of_cluster(cluster) {
            let path = there.path.as_deref();
            let is_of_group = path.is_some_and(|path| path.starts_with(&prefix));
            if !is_of_group || !there.is_ours(&desired.source) {
                continue;
            }
            found.contents.insert(there.group_content.as_deref().copied());
            if !desired.works.contains_key(key) {
                found.removed.push(key.clone());
            }
        }
        let is_wanted = |key: &&WorkKey| !is_suspended(key, inputs);
        let wanted = member.works.iter().filter(is_wanted);
        found.view = ClusterView::of(wanted, &found, (content, member), inputs);
        found
    }
}

/// What the hub shows of the works of a group on one cluster.
#[derive(Debug, Default)]
struct ClusterView {
    works: usize,
    /// The cluster has works of the group that are marked with the content.
    is_marked: bool,
    /// Works that have what Git wants.
    equal: usize,
    /// The group has had other works, which the cluster still has.
    has_removed: bool,
    /// The cluster keeps or gets an earlier content.
    is_earlier: bool,
    /// Works that are applied at the generation that the hub has.
    applied: usize,
    /// Works whose objects are there.
    available: usize,
    /// When gitwork wrote the last of them, as far as known.
    written: Option<Timestamp>,
    health: ObjectHealth,
}

/// Since when a cluster is as it is. A new process reads that from the hub if the agent says when
/// it applied each generation, as gitwork's and OCM's since 1.2 do; else it begins the times again.
#[derive(Debug, Default)]
struct ClusterTimes {
    content: Option<Digest>,
    /// Since when it has the content.
    started: Timestamp,
    /// Since when all of it is applied.
    applied: Option<Timestamp>,
    /// Since when objects of it fail.
    failed: Option<Timestamp>,
    /// Until when its health does not count.
    counts_at: Option<Timestamp>,
    /// Since when it is healthy by a clock of the cluster that was ahead, and when that was seen
    /// first.
    ahead: Option<(Timestamp, Timestamp)>,
}

impl ClusterView {
    /// `works`: those of the group that Git wants. `on_hub`: those that the hub has.
    fn of<'a>(
        works: impl Iterator<Item = &'a WorkKey>,
        on_hub: &WorksOnHub,
        (content, member): (Digest, &RolloutMember),
        inputs: PlanInputs<'_>,
    ) -> Self {
        let PlanInputs { desired, observed, .. } = inputs;
        let mut view = Self {
            is_earlier: member.earlier.is_some(),
            is_marked: on_hub.contents.contains(&Some(content)),
            has_removed: !on_hub.removed.is_empty(),
            ..Self::default()
        };
        for (key, work) in works.filter_map(|key| Some((key, desired.works.get(key)?))) {
            view.works += 1;
            let there: Option<&ObservedWork> = observed.works.get(key);
            let Some(there) = there.filter(|there| there.is_ours(&desired.source)) else {
                continue;
            };
            view.equal += usize::from(observed.has_content(there, work.body.digest));
            view.applied += usize::from(there.agent.applied);
            view.available += usize::from(there.agent.available || there.agent.complete);
            view.written = view.written.max(there.written_at);
            view.health.add(&there.status.health);
        }
        view
    }

    /// Whether the cluster has nothing of the content, and is to get some.
    fn is_waiting(&self) -> bool {
        let differs = self.equal < self.works || (self.works > 0 && self.has_removed);
        !self.is_marked && (self.is_earlier || differs)
    }

    /// Since when the cluster has the content, if a new process can know that.
    fn started(&self, now: Timestamp) -> Timestamp {
        self.written.map_or(now, |written| written.min(now))
    }

    /// Since when the content is applied. What an agent says of a time before the last write is
    /// about an earlier content.
    fn applied_since(&self, now: Timestamp) -> Timestamp {
        let known = self.written.zip(self.health.applied);
        let known = known.filter(|(written, applied)| applied >= written);
        known.map_or(now, |(_, applied)| later(applied, TIME_PRECISION).min(now))
    }
}

impl ClusterTimes {
    /// The state of a cluster that has some of the content.
    fn state(
        &mut self,
        view: &ClusterView,
        content: Digest,
        is_offline: bool,
        now: Timestamp,
    ) -> ClusterState {
        if self.content != Some(content) {
            let started = view.started(now);
            *self = Self { content: Some(content), started, ..Self::default() };
        }
        self.counts_at = None;
        let since = self.started;
        let progressing = match is_offline {
            true => ClusterState::Offline { since },
            false => ClusterState::Progressing { since },
        };
        if view.works == 0 {
            return ClusterState::Skipped;
        }
        // With an earlier content in Git's place, the works say nothing of this one.
        let has_content = !view.is_earlier && view.equal == view.works;
        let is_applied = has_content && view.applied == view.works;
        if !is_applied {
            (self.applied, self.failed) = (None, None);
            return progressing;
        }
        let applied = *self.applied.get_or_insert_with(|| view.applied_since(now));
        let counts_at = match view.health.may_be_outdated {
            true => later(applied, HEALTH_DELAY),
            false => applied,
        };
        if now < counts_at {
            self.counts_at = Some(counts_at);
            // A deadline may be shorter. It ends once something is known of the health.
            return match is_offline {
                true => progressing,
                false => ClusterState::Progressing { since: since.max(counts_at) },
            };
        }
        if view.health.is_degraded {
            let since = *self.failed.get_or_insert(now);
            return if is_offline { progressing } else { ClusterState::Failed { since } };
        }
        self.failed = None;
        if view.health.is_progressing || view.available < view.works {
            return progressing;
        }
        // A clock of the cluster that is ahead must not make the soak endless.
        let since = view.health.since.map(|since| later(since, TIME_PRECISION));
        let healthy = since.map_or(applied, |since| self.healthy_since(since, now));
        ClusterState::Succeeded { since: healthy.max(counts_at) }
    }

    /// Since when it is healthy. `since`: by the clock of the cluster. One that is ahead must not
    /// make the soak endless.
    fn healthy_since(&mut self, since: Timestamp, now: Timestamp) -> Timestamp {
        match self.ahead {
            Some((known, seen)) if known == since => seen,
            _ if since <= now => since,
            _ => self.ahead.insert((since, now)).1,
        }
    }
}
