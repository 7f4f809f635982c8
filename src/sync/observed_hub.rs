//! The works of one source on the hub, as far as lists, watches, look-ups and writes show them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::confirmed_works::ConfirmedWorks;
use crate::work_counts::WorkCounts;
use gitwork_core::model::cluster_revisions::ClusterRevisions;
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::model::works_by_cluster::WorksByCluster;
use gitwork_core::plan::Effect;
use gitwork_core::plan::moves::{MovingWorks, remaining_owners};
use gitwork_core::plan::observed::{
    DeliveredWork, ListRecording, Observed, ObservedWork, WorkContent,
};
use gitwork_core::plan::{Plan, rewind};

/// In debug builds, the counts of a source with at most so many works are compared with those of
/// all its works after each change.
const CHECKED_WORKS_MAX: usize = 500;

/// The observed state of the hub, for one source.
#[derive(Debug)]
pub struct ObservedHub {
    source: SourceId,
    /// `None` before the first complete list.
    observed: Option<Observed>,
    /// What the observed works add up to. After a list they are counted once that is needed:
    /// recording many works takes long enough for one step.
    counts: OnceLock<WorkCounts>,
    /// When the works of each cluster changed, or what was read of them.
    revisions: ClusterRevisions,
    /// Works that take part in moves, as of the last [`Self::contents_to_read`].
    moving: BTreeSet<WorkKey>,
    /// ManifestWorkReplicaSets that take part in moves, as of then.
    sets: BTreeSet<WorkKey>,
    /// When contents may be read again after a failure.
    contents_due: Option<Instant>,
    /// Works of moves that were read again.
    confirmed: ConfirmedWorks,
}

impl ObservedHub {
    pub(crate) fn new(source: SourceId) -> Self {
        Self {
            source,
            observed: None,
            counts: OnceLock::new(),
            revisions: ClusterRevisions::default(),
            moving: BTreeSet::new(),
            sets: BTreeSet::new(),
            contents_due: None,
            confirmed: ConfirmedWorks::default(),
        }
    }

    /// Whether the hub was listed once.
    pub fn is_listed(&self) -> bool {
        self.observed.is_some()
    }

    /// The uids of all known works.
    pub fn uids(&self) -> BTreeSet<&str> {
        let works = self.observed.iter().flat_map(|observed| observed.works.values());
        works.map(|work| &*work.uid).collect()
    }

    /// The commit that last changed a work; `None` for an unknown work or commit.
    pub fn commit_of(&self, key: &WorkKey) -> Option<CommitId> {
        self.observed.as_ref()?.works.get(key)?.commit
    }

    /// The known works; `None` before the first list.
    pub fn observed(&self) -> Option<&Observed> {
        self.observed.as_ref()
    }

    /// The commits that the works name; `None` before the first list.
    pub(crate) fn commits_on_works(&self) -> Option<&Arc<BTreeSet<CommitId>>> {
        self.observed.as_ref().map(|_| self.counts().commits_on_works())
    }

    /// Whether the source has works.
    pub(crate) fn has_works(&self) -> bool {
        self.counts().has_works()
    }

    fn counts(&self) -> &WorkCounts {
        self.counts.get_or_init(|| {
            let observed = self.observed.as_ref();
            observed.map(|observed| WorkCounts::of(&self.source, observed)).unwrap_or_default()
        })
    }

    /// Whether the work is the source's.
    pub(crate) fn is_ours(&self, work: &ObservedWork) -> bool {
        work.is_ours(&self.source)
    }

    /// Whether another owner has the work.
    pub(crate) fn is_foreign(&self, key: &WorkKey) -> bool {
        let work = self.observed.as_ref().and_then(|observed| observed.works.get(key));
        work.is_some_and(|work| !work.is_ours(&self.source))
    }

    /// The works whose content must be read before the next plan: they give objects to others.
    pub(crate) fn contents_to_read(&mut self, moving: MovingWorks, now: Instant) -> Vec<WorkKey> {
        let Some(observed) = &mut self.observed else { return Vec::new() };
        for (key, _) in observed.contents.extract_if(.., |key, _| !moving.all.contains(key)) {
            self.revisions.mark(&key.cluster);
        }
        self.confirmed.retain(&moving.all);
        self.moving = moving.all;
        self.sets = moving.sets.into_iter().map(|(_, set)| set).collect();
        self.forget_delivered();
        self.contents_due = self.contents_due.filter(|due| *due > now);
        if self.contents_due.is_some() { Vec::new() } else { moving.unread.into_iter().collect() }
    }

    /// Records the content of a work; `None` if the work does not exist.
    pub(crate) fn record_content(&mut self, key: WorkKey, content: Option<WorkContent>) {
        if let (Some(observed), Some(content)) = (&mut self.observed, content) {
            self.revisions.mark(&key.cluster);
            observed.contents.insert(key, content);
        }
    }

    /// Records that contents could not be read: they are due again at `due`.
    pub(crate) fn postpone_contents(&mut self, due: Instant) {
        self.contents_due = Some(due);
    }

    /// When contents may be read again after a failure.
    pub(crate) fn contents_due(&self) -> Option<Instant> {
        self.contents_due
    }

    /// Whether a work takes part in a move, so that the status of its agent matters.
    pub(crate) fn is_moving(&self, key: &WorkKey) -> bool {
        self.moving.contains(key) || self.sets.contains(key)
    }

    /// ManifestWorkReplicaSets whose ManifestWorks are read before each plan: no watch shows them.
    pub(crate) fn sets_to_read(&self) -> Vec<WorkKey> {
        self.sets.iter().cloned().collect()
    }

    /// Records the ManifestWorks of a set. `None` if they could not be read: nothing is known of
    /// them then.
    pub(crate) fn record_set_works(&mut self, set: &WorkKey, works: Option<Vec<ObservedWork>>) {
        let Some(observed) = &mut self.observed else { return };
        let is_read = works.is_some();
        let of_set =
            |work: ObservedWork| (work.key.clone(), DeliveredWork { set: set.clone(), work });
        let now: BTreeMap<WorkKey, DeliveredWork> =
            works.into_iter().flatten().map(of_set).collect();
        let before: BTreeMap<WorkKey, DeliveredWork> =
            observed.delivered.extract_if(.., |_, one| one.set == *set).collect();
        for key in before.keys().chain(now.keys()) {
            if before.get(key) != now.get(key) {
                self.revisions.mark(&key.cluster);
            }
        }
        observed.delivered.extend(now);
        let was_read = match is_read {
            true => !observed.read_sets.insert(set.clone()),
            false => observed.read_sets.remove(set),
        };
        if was_read != is_read {
            self.revisions.mark(&set.cluster);
        }
    }

    /// Forgets the ManifestWorks of sets that no longer take part in moves.
    fn forget_delivered(&mut self) {
        let read = self.observed.iter().flat_map(|observed| observed.read_sets.iter());
        let left: Vec<WorkKey> = read.filter(|set| !self.sets.contains(*set)).cloned().collect();
        left.iter().for_each(|set| self.record_set_works(set, None));
    }

    /// This process has become the leader.
    pub(crate) fn begin_term(&mut self, now: Instant) {
        self.confirmed.begin_term(now);
    }

    /// Look-ups begin.
    pub(crate) fn begin_lookups(&mut self, now: Instant) {
        self.confirmed.begin_lookups(now);
    }

    /// Records that a write of a work failed.
    pub(crate) fn write_failed(&mut self, key: &WorkKey) {
        self.confirmed.write_failed(key);
    }

    /// The works that the writes of a plan rely on and that must be read again before them, by the
    /// work that is written.
    pub(crate) fn unconfirmed_owners(&self, plan: &Plan) -> BTreeMap<WorkKey, BTreeSet<WorkKey>> {
        let Some(observed) = self.observed.as_ref().filter(|_| !self.moving.is_empty()) else {
            return BTreeMap::new();
        };
        let writes = plan.effects().map(|(step, effect)| (&step.key, effect));
        let mut owners = remaining_owners(writes, &self.moving, observed, &self.source);
        owners.retain(|_, owners| {
            owners.retain(|owner| !self.confirmed.contains(owner));
            !owners.is_empty()
        });
        owners
    }

    /// When a look-up can confirm a work; `None` for any time.
    pub(crate) fn settles_at(&self) -> Option<Instant> {
        self.confirmed.settles_at()
    }

    /// Begins to record a complete list. Until [`Self::advance_list`] has recorded all of it, the
    /// works are neither those before nor those after it.
    pub(crate) fn begin_list(&mut self, works: WorksByCluster<ObservedWork>) -> ListRecording {
        self.confirmed.clear();
        self.observed.get_or_insert_default().begin_list(works)
    }

    /// Records the next part of a list. Gives whether all of it is recorded.
    pub(crate) fn advance_list(&mut self, list: &mut ListRecording, works_at_once: usize) -> bool {
        let observed = self.observed.get_or_insert_default();
        let is_recorded = observed.advance_list(&self.source, list, works_at_once);
        self.counts = OnceLock::new();
        self.revisions.mark_all();
        is_recorded
    }

    /// Records a complete list.
    #[cfg(test)]
    fn record_list(&mut self, works: WorksByCluster<ObservedWork>) {
        let mut list = self.begin_list(works);
        while !self.advance_list(&mut list, 1) {}
    }

    /// Records a complete list of the source's replica sets. Gives whether the hub was listed
    /// before.
    pub(crate) fn record_sets(&mut self, sets: WorksByCluster<ObservedWork>) -> bool {
        let Self { source, observed, counts, revisions, .. } = self;
        let Some(observed) = observed else { return false };
        let before = observed.works.replica_sets().map(|(key, _)| key);
        let changed: BTreeSet<WorkKey> = before.chain(sets.keys()).cloned().collect();
        let counted = |observed: &Observed| -> Vec<_> {
            changed.iter().map(|key| WorkCounts::counted(source, observed, key)).collect()
        };
        let before = counted(observed);
        observed.record_sets(source, sets);
        if let Some(counts) = counts.get_mut() {
            for (before, now) in before.into_iter().zip(counted(observed)) {
                counts.replace(before, now);
            }
        }
        changed.iter().for_each(|key| revisions.mark(&key.cluster));
        debug_assert!(self.has_right_counts(), "{changed:?}");
        true
    }

    /// When the works of each cluster changed, or what was read of them.
    pub(crate) fn revisions(&self) -> &ClusterRevisions {
        &self.revisions
    }

    /// Changes what is known of one work, and counts it; `None` before the first list.
    fn change<T>(
        &mut self,
        key: &WorkKey,
        change: impl FnOnce(&mut Observed, &SourceId) -> T,
    ) -> Option<T> {
        let Self { source, observed, counts, revisions, .. } = self;
        let observed = observed.as_mut()?;
        revisions.mark(&key.cluster);
        let before = WorkCounts::counted(source, observed, key);
        let result = change(observed, source);
        if let Some(counts) = counts.get_mut() {
            counts.replace(before, WorkCounts::counted(source, observed, key));
        }
        debug_assert!(self.has_right_counts(), "{key}");
        Some(result)
    }

    /// Whether the counts are those of all works; not checked for many works.
    fn has_right_counts(&self) -> bool {
        let Some(observed) = &self.observed else { return true };
        let is_ours = |work: &ObservedWork| work.is_ours(&self.source);
        observed.works.len() > CHECKED_WORKS_MAX
            || (**self.counts().commits_on_works()
                == rewind::commits_on_works(&self.source, observed)
                && self.counts().has_works() == observed.works.values().any(is_ours))
    }

    /// Records a change that the watch shows. Gives whether the plan may be another now; `None`
    /// before the first list.
    pub(crate) fn record_change(&mut self, work: ObservedWork) -> Option<bool> {
        let key = work.key.clone();
        self.change(&key, |observed, _| {
            let before = observed.works.get(&work.key);
            let differs = !before.is_some_and(|before| plans_alike(before, &work))
                || observed.unlisted.contains(&work.key);
            observed.record_change(work);
            differs
        })
    }

    /// Records a deletion that the watch shows. Gives whether the hub was listed before.
    pub(crate) fn record_gone(&mut self, key: &WorkKey) -> bool {
        self.change(key, |observed, source| observed.record_gone(source, key)).is_some()
    }

    /// Forgets the works of other owners whose names Git no longer has. The watch does not show
    /// what becomes of them, so that nothing may wait for it.
    pub(crate) fn forget_unwanted(&mut self, is_wanted: impl Fn(&WorkKey) -> bool) {
        let Some(observed) = &self.observed else { return };
        if observed.works.len() == self.counts().works() {
            return;
        }
        let unwanted =
            observed.works.iter().filter(|(key, work)| !self.is_ours(work) && !is_wanted(key));
        let unwanted: Vec<WorkKey> = unwanted.map(|(key, _)| key.clone()).collect();
        for key in unwanted {
            self.change(&key, |observed, _| observed.record_lookup(&key, None));
        }
    }

    /// Records the result of a look-up. Gives whether another owner has the name.
    pub(crate) fn record_lookup(&mut self, key: &WorkKey, found: Option<ObservedWork>) -> bool {
        let is_taken = found.as_ref().is_some_and(|work| !work.is_ours(&self.source));
        self.change(key, |observed, _| observed.record_lookup(key, found));
        self.confirmed.looked_up(key);
        is_taken
    }

    /// Records the response to a write that succeeded. Gives whether the work must be looked up:
    /// it may have been deleted since.
    pub(crate) fn record_response(
        &mut self,
        key: &WorkKey,
        effect: &Effect,
        response: Option<ObservedWork>,
    ) -> bool {
        let may_have_gone = self.change(key, |observed, _| {
            let may_have_gone = response.is_some() && observed.may_have_gone(key);
            observed.record_response(key, effect, response);
            may_have_gone
        });
        may_have_gone.unwrap_or_default()
    }

    /// Marks that all responses to the last plan have arrived.
    pub(crate) fn settle(&mut self) {
        self.observed.iter_mut().for_each(Observed::settle);
    }
}

/// Whether two states of a work lead to the same plan. The status of the agent does not matter.
fn plans_alike(a: &ObservedWork, b: &ObservedWork) -> bool {
    a.digest == b.digest
        && a.uid == b.uid
        && a.source == b.source
        && a.adopt == b.adopt
        && a.deleting == b.deleting
        && a.created_during_hold == b.created_during_hold
        && a.group_content == b.group_content
}

#[cfg(test)]
pub(crate) mod tests;
