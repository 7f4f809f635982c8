//! What Git, the hub and operators say about one source, and what is still to be read before a
//! plan can follow from it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use crate::git_history::{AncestryLookup, GitHistory};
use crate::hub::{HubError, HubEvent};
use crate::observed_hub::ObservedHub;
use crate::operator_directives::OperatorDirectives;
use crate::source_record::SourceRecord;
use crate::verification_base::VerificationBase;
use crate::works_to_read::WorksToRead;
use gitwork_core::model::approval::Rewind;
use gitwork_core::model::cluster_revisions::ClusterRevisions;
use gitwork_core::model::name::{CommitId, GroupName, RepoPath, SourceId, WorkKey};
use gitwork_core::model::works_by_cluster::WorksByCluster;
use gitwork_core::plan::cluster_inputs::{DesiredChange, changed_clusters};
use gitwork_core::plan::incremental::InputRevisions;
use gitwork_core::plan::observed::{ListRecording, ObservedWork, WorkContent};
use gitwork_core::plan::rewind;
use gitwork_core::plan::rewind::AppliedCommits;
use gitwork_core::plan::{PlanInputs, PlanPolicy};
use gitwork_core::render::desired::Desired;

/// The facts of one source.
#[derive(Debug)]
pub struct SourceFacts {
    /// The desired state in Git; `None` before the first read.
    desired: Option<Arc<Desired>>,
    /// When the works of each cluster changed in Git.
    desired_revisions: ClusterRevisions,
    /// Works of which something is read before a plan.
    to_read: WorksToRead,
    /// Somebody requires signatures, and the commit of the desired state has them.
    is_signed: bool,
    /// The works on the hub.
    pub hub: ObservedHub,
    /// Works whose status decides about works that depend on them.
    awaited: BTreeSet<WorkKey>,
    /// Groups with a rollout that goes on by the status of their works.
    in_rollout: BTreeSet<GroupName>,
    /// What Git's history shows.
    pub history: GitHistory,
    /// What operators say on the hub.
    pub directives: OperatorDirectives,
    /// The source's record on the hub.
    pub record: SourceRecord,
    /// The number of changes, without those of directives and record.
    revision: u64,
}

/// A desired state that another one has replaced; `None` for the first one.
#[derive(Debug)]
pub struct ReplacedDesired(pub Option<Arc<Desired>>);

impl SourceFacts {
    /// `known_record_generation`: what this machine remembers of the source's record on the hub.
    pub(crate) fn new(source: SourceId, known_record_generation: u64) -> Self {
        Self {
            desired: None,
            desired_revisions: ClusterRevisions::default(),
            to_read: WorksToRead::default(),
            is_signed: false,
            hub: ObservedHub::new(source),
            awaited: BTreeSet::new(),
            in_rollout: BTreeSet::new(),
            history: GitHistory::default(),
            directives: OperatorDirectives::default(),
            record: SourceRecord::new(known_record_generation),
            revision: 0,
        }
    }

    /// Sets the works that others wait for in the current plan, and the groups that are being
    /// rolled out: from now on, any change of the status of these works may lead to another plan.
    pub(crate) fn set_awaited(
        &mut self,
        works: BTreeSet<WorkKey>,
        in_rollout: BTreeSet<GroupName>,
    ) {
        (self.awaited, self.in_rollout) = (works, in_rollout);
    }

    /// Whether the work is of a group that is being rolled out.
    fn is_in_rollout(&self, key: &WorkKey) -> bool {
        let Some(desired) = &self.desired else { return false };
        let rollouts = self.in_rollout.iter().filter_map(|group| desired.rollouts.get(group));
        let mut members = rollouts.filter_map(|rollout| rollout.members.get(&key.cluster));
        members.any(|member| member.works.contains(key))
    }

    /// The desired state in Git; `None` before the first read.
    pub fn desired(&self) -> Option<&Arc<Desired>> {
        self.desired.as_ref()
    }

    /// Whether Git, the hub, directives and record are known. Nothing is planned before.
    pub fn is_ready(&self) -> bool {
        self.desired.is_some()
            && self.hub.is_listed()
            && self.directives.is_known()
            && self.record.is_known()
    }

    /// The commits that were applied, according to the hub, without abandoned ones; none before the
    /// hub was listed.
    pub fn applied(&self) -> impl Iterator<Item = CommitId> + '_ {
        let on_works = self.hub.commits_on_works().into_iter();
        on_works.flat_map(|commits| rewind::applied(commits, self.record.current()))
    }

    /// The last applied commit of the record, and the abandoned ones. Only gitwork writes them.
    pub fn recorded_commits(&self) -> Vec<CommitId> {
        let record = self.record.current();
        let abandoned = record.into_iter().flat_map(|record| record.abandoned.iter().copied());
        record.and_then(|record| record.commit).into_iter().chain(abandoned).collect()
    }

    /// The applied commits that are known now, with abandoned ones.
    pub fn known_commits(&self) -> AppliedCommits {
        AppliedCommits {
            on_works: self.hub.commits_on_works().cloned().unwrap_or_default(),
            recorded: self.record.current().and_then(|record| record.commit),
        }
    }

    /// Sets the desired state. Gives whether it differs from the one before.
    pub fn set_desired(&mut self, desired: &Arc<Desired>) -> bool {
        self.replace_desired(desired, None).is_some()
    }

    /// As [`Self::set_desired`], with what differs from the state before, if that is known. Gives
    /// the state before, which takes a while to drop; `None` if nothing differs.
    pub fn replace_desired(
        &mut self,
        desired: &Arc<Desired>,
        change: Option<&DesiredChange>,
    ) -> Option<ReplacedDesired> {
        if self.desired.as_ref().is_some_and(|before| Arc::ptr_eq(before, desired)) {
            return None;
        }
        let before = self.desired.replace(desired.clone());
        match &before {
            Some(before) => {
                let known = change.and_then(|change| change.since(before)).cloned();
                let changed = known.unwrap_or_else(|| changed_clusters(before, desired));
                self.desired_revisions.add(&changed);
            }
            None => self.desired_revisions.mark_all(),
        }
        self.hub.forget_unwanted(|key| desired.works.contains_key(key));
        self.history.forget_removed();
        // A suspension that was set before the push must take effect.
        self.directives.ask_again();
        self.mark_changed();
        Some(ReplacedDesired(before))
    }

    /// Records the result of a look-up. Gives whether another owner has the name. As in
    /// [`Self::set_desired`], the work of another owner counts only if Git wants its name.
    pub(crate) fn record_lookup(&mut self, key: &WorkKey, found: Option<ObservedWork>) -> bool {
        let desired = self.desired.as_ref();
        let is_wanted = desired.is_some_and(|desired| desired.works.contains_key(key));
        self.hub.record_lookup(key, found.filter(|work| is_wanted || self.hub.is_ours(work)))
    }

    /// Whether somebody requires signatures, and the commit of the desired state has them.
    pub fn is_signed(&self) -> bool {
        self.is_signed
    }

    /// Sets whether somebody requires signatures, and the commit of the desired state has them.
    pub fn set_signed(&mut self, is_signed: bool) {
        if std::mem::replace(&mut self.is_signed, is_signed) != is_signed {
            self.mark_changed();
        }
    }

    /// From which commit the next ones are verified; `None` before the hub is known.
    pub fn verification_base(&self) -> Option<VerificationBase> {
        let directives = self.directives.known()?;
        if !self.hub.is_listed() || !self.record.is_known() {
            return None;
        }
        let has_works = self.hub.has_works();
        Some(VerificationBase::new(self.record.current(), has_works, &directives.approvals))
    }

    /// Records an event of the hub. See [`Self::begin_list`] for long lists.
    pub fn set_event(&mut self, event: HubEvent) {
        let is_changed = match event {
            HubEvent::Listed(works) => {
                let mut list = self.begin_list(works);
                return while !self.advance_list(&mut list, usize::MAX) {};
            }
            HubEvent::Changed(work) => {
                self.read_record_after(&work);
                // A removed work that was looked up waits for its agent, as a work of a move does,
                // and as those do that depend on it: any change of its status may lead to another
                // plan.
                let waits_for_agent = self.history.has_looked_up(&work.key)
                    || self.hub.is_moving(&work.key)
                    || self.awaited.contains(&work.key)
                    || self.is_in_rollout(&work.key);
                let differs = self.hub.record_change(*work);
                differs.is_some_and(|differs| differs || waits_for_agent)
            }
            HubEvent::ListedSets(sets) => self.hub.record_sets(sets),
            HubEvent::Gone(key) => self.hub.record_gone(&key),
            HubEvent::Interrupted(_) => false,
        };
        if is_changed {
            self.mark_changed();
        }
    }

    /// Begins to record a list of the source's works: that of many works takes several steps.
    /// Nothing else may be recorded or planned until [`Self::advance_list`] has recorded all of it.
    pub fn begin_list(&mut self, works: WorksByCluster<ObservedWork>) -> ListRecording {
        if self.hub.is_listed() {
            // Events may be missing before the list: the hub may have been replaced or restored.
            self.record.ask_again(None);
        }
        self.hub.begin_list(works)
    }

    /// Records the next clusters of a list, with some `works_at_once` works before. Gives whether
    /// all of it is recorded.
    pub fn advance_list(&mut self, list: &mut ListRecording, works_at_once: usize) -> bool {
        let is_recorded = self.hub.advance_list(list, works_at_once);
        self.mark_changed();
        is_recorded
    }

    /// Reads the record again if a work names a commit that is not known to be part of Git's head:
    /// another process may have read Git later and applied it. The work itself proves nothing.
    fn read_record_after(&mut self, work: &ObservedWork) {
        let Some(commit) = work.commit.filter(|_| self.hub.is_ours(work)) else { return };
        let known = [
            self.hub.commit_of(&work.key),
            self.record.current().and_then(|record| record.commit),
            self.desired.as_ref().and_then(|desired| desired.commit),
        ];
        let is_known = known.contains(&Some(commit)) || self.history.ancestry().is_reached(commit);
        if !is_known && self.record.is_known() {
            self.record.ask_again(None);
        }
    }

    /// This process has become the leader: another one may have written works, directives and
    /// record. Directives and record are read again before the next plan.
    pub fn begin_term(&mut self, now: Instant) {
        self.directives.ask_again();
        self.record.ask_again(None);
        self.hub.begin_term(now);
    }

    /// When the next read of directives or record is due.
    pub fn next_read(&self) -> Option<Instant> {
        self.directives.due().into_iter().chain(self.record.due()).min()
    }

    /// What to look up about the head's history before the next plan. As for removed works, the
    /// end of the wait after a failure does not wake the loop.
    pub fn ancestry_lookup(&mut self, now: Instant) -> AncestryLookup {
        let waits = self.history.is_waiting(now);
        match self.unknown_commits() {
            Some(commits) if commits.is_empty() => AncestryLookup::Known,
            Some(commits) if !waits => AncestryLookup::Due(commits),
            _ => AncestryLookup::Wait,
        }
    }

    /// Whether the history of the head is known.
    pub fn knows_ancestry(&self) -> bool {
        self.unknown_commits().is_some_and(|commits| commits.is_empty())
    }

    /// Commits whose relation to the head is unknown; `None` before Git and the hub are known.
    fn unknown_commits(&self) -> Option<BTreeSet<CommitId>> {
        let desired = self.desired.as_ref().filter(|_| self.hub.is_listed())?;
        let Some(head) = desired.commit else { return Some(BTreeSet::new()) };
        let ancestry = self.history.ancestry();
        let is_rewound = !ancestry.is_clear() && !ancestry.rewound(self.applied()).is_empty();
        // The commits of approvals matter only if there is a rewind.
        let approved = if is_rewound { self.approved_rewinds() } else { BTreeSet::new() };
        let approved = approved.into_iter().map(|rewind| rewind.to);
        Some(ancestry.unknown_commits(head, self.applied().chain(approved)))
    }

    /// Removed works whose history in Git is needed before the next plan. The end of the wait after
    /// a failure does not wake the loop: while a fetch uses the source it would wake without end.
    pub fn removals_to_look_up(&mut self, now: Instant) -> Vec<(WorkKey, RepoPath)> {
        let waits = self.history.is_waiting(now);
        match (&self.desired, self.hub.observed()) {
            (Some(desired), Some(observed)) if !waits => {
                let revisions = InputRevisions {
                    desired: &self.desired_revisions,
                    observed: self.hub.revisions(),
                };
                self.to_read.update(desired, observed, revisions);
                self.history.not_looked_up(self.to_read.removed())
            }
            _ => Vec::new(),
        }
    }

    /// Finds what to read before the next plan in clusters with some `works_max` works. Gives
    /// whether none is left.
    pub(crate) fn find_works_to_read(&mut self, works_max: usize) -> bool {
        let (Some(desired), Some(observed)) = (&self.desired, self.hub.observed()) else {
            return true;
        };
        let revisions =
            InputRevisions { desired: &self.desired_revisions, observed: self.hub.revisions() };
        self.to_read.advance(desired, observed, revisions, works_max)
    }

    /// Works whose content on the hub is needed before the next plan: objects move from them.
    pub fn contents_to_read(&mut self, now: Instant) -> Vec<WorkKey> {
        let (Some(desired), Some(observed)) = (&self.desired, self.hub.observed()) else {
            return Vec::new();
        };
        let revisions =
            InputRevisions { desired: &self.desired_revisions, observed: self.hub.revisions() };
        self.to_read.update(desired, observed, revisions);
        let moving = self.to_read.moving().with_receiving_sets(desired);
        self.hub.contents_to_read(moving, now)
    }

    /// ManifestWorkReplicaSets whose ManifestWorks are read before the next plan, as of the last
    /// [`Self::contents_to_read`].
    pub fn sets_to_read(&self) -> Vec<WorkKey> {
        self.hub.sets_to_read()
    }

    /// Records the ManifestWorks of a set. Without them, none of its objects moves.
    pub fn set_works_of_set(&mut self, set: &WorkKey, read: Result<Vec<ObservedWork>, HubError>) {
        self.hub.record_set_works(set, read.ok());
    }

    /// Records the content of works. After a failure, the next read is due at `retry`.
    pub fn set_contents(
        &mut self,
        read: Vec<(WorkKey, Result<Option<WorkContent>, HubError>)>,
        retry: Instant,
    ) {
        for (key, content) in read {
            match content {
                Ok(content) => self.hub.record_content(key, content),
                Err(_) => self.hub.postpone_contents(retry),
            }
        }
    }

    /// The rewinds that operators approve, on the hub and in Git.
    pub(crate) fn approved_rewinds(&self) -> BTreeSet<Rewind> {
        let on_hub = self.directives.known().map(|found| &found.approvals);
        let in_git = self.desired.as_ref().map(|desired| &desired.approved);
        let approvals = on_hub.into_iter().chain(in_git);
        approvals.flat_map(|approvals| &approvals.rewinds).cloned().collect()
    }

    /// The inputs of a plan; `None` before Git and the hub are known.
    pub(crate) fn inputs<'a>(&'a self, policy: &'a PlanPolicy) -> Option<PlanInputs<'a>> {
        let (desired, observed) = (self.desired.as_ref()?, self.hub.observed()?);
        Some(PlanInputs { desired, observed, last_known: self.history.last_known(), policy })
    }

    /// When the works of each cluster changed.
    pub(crate) fn revisions(&self) -> InputRevisions<'_> {
        InputRevisions { desired: &self.desired_revisions, observed: self.hub.revisions() }
    }

    /// Works of which something is read before a plan.
    #[cfg(test)]
    pub(super) fn to_read(&self) -> &WorksToRead {
        &self.to_read
    }

    /// Marks a change that leads to another plan.
    pub fn mark_changed(&mut self) {
        self.revision += 1;
    }

    /// The number of changes so far: a plan of another revision is of an older state.
    pub(crate) fn revision(&self) -> u64 {
        self.revision + self.directives.revision() + self.record.revision()
    }
}

#[cfg(test)]
pub(crate) mod tests;
