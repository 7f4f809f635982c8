//! All ManifestWorks that concern one source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::digest::Digest;
use crate::model::in_step::InStep;
use crate::model::name::{ClusterName, SourceId, WorkKey, WorkName};
use crate::model::works_by_cluster::WorksByCluster;
use crate::plan::effect::Effect;
use crate::plan::observed::content::WorkContent;
use crate::plan::observed::work::ObservedWork;

/// How the hub stored one of gitwork's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NormalizedWrite {
    /// `WorkBody::digest` of the request, or the digest of the deleteOption if only that was sent.
    pub written: Digest,
    /// The digest of the response.
    pub stored: Digest,
}

/// A ManifestWork that a ManifestWorkReplicaSet of the source has on a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct DeliveredWork {
    /// The set.
    pub set: WorkKey,
    /// The work. It is the set's, and never written.
    pub work: ObservedWork,
}

/// The uid of a work that is gone, and the source that it belonged to.
pub type GoneWork = (Arc<str>, Option<Arc<str>>);

/// Every ManifestWork of one source on the hub, and the foreign works that have a name that the
/// source wants.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// The works.
    pub works: WorksByCluster<ObservedWork>,
    /// The last writes that the hub stored differently from the request. They are not kept beyond
    /// the process: after a restart such a work is written once more.
    pub normalized: BTreeMap<WorkKey, NormalizedWrite>,
    /// Works of the source that are gone since the last plan: the response to a write or a look-up
    /// from before must not bring them back.
    pub gone: BTreeMap<WorkKey, GoneWork>,
    /// The content of works that give objects to others, as it was last read. It counts only for a
    /// work that still has it: see [`Self::content`].
    pub contents: BTreeMap<WorkKey, WorkContent>,
    /// Works created during a hold that neither a list nor the watch has shown: only a look-up or
    /// the response to a write. What the hub had when they were created may be unknown, too.
    pub unlisted: BTreeSet<WorkKey>,
    /// The ManifestWorks of those sets that take part in moves, as they were last read.
    pub delivered: BTreeMap<WorkKey, DeliveredWork>,
    /// The sets whose ManifestWorks were read.
    pub read_sets: BTreeSet<WorkKey>,
    /// A complete list came since the last plan: it is unknown whether the list or the response to
    /// a write is newer.
    pub is_relisted: bool,
}

impl Observed {
    /// Records the complete state of the source's works, and gives the works before. See
    /// [`Self::begin_list`].
    pub fn record_list(
        &mut self,
        source: &SourceId,
        works: WorksByCluster<ObservedWork>,
    ) -> WorksByCluster<ObservedWork> {
        self.record_all(source, self.begin_list(works))
    }

    /// Records the complete state of the source's replica sets.
    pub fn record_sets(&mut self, source: &SourceId, sets: WorksByCluster<ObservedWork>) {
        self.record_all(source, self.begin(sets, |place| place.replica_set_namespace().is_some()));
    }

    fn record_all(
        &mut self,
        source: &SourceId,
        mut list: ListRecording,
    ) -> WorksByCluster<ObservedWork> {
        self.advance_list(source, &mut list, usize::MAX);
        list.replaced
    }

    /// Begins to record the complete state of the source's works. Foreign works are not part of
    /// such a list, and stay. So do replica sets: see [`Self::record_sets`]. Until the recording
    /// has ended, no plan may be made, and no other change recorded.
    pub fn begin_list(&self, works: WorksByCluster<ObservedWork>) -> ListRecording {
        self.begin(works, |place| place.replica_set_namespace().is_none())
    }

    /// `is_listed`: whether objects of this place are part of the list.
    fn begin(
        &self,
        listed: WorksByCluster<ObservedWork>,
        is_listed: impl Fn(&ClusterName) -> bool,
    ) -> ListRecording {
        let places = self.works.clusters().filter(|place| is_listed(place));
        let places = places.cloned().collect::<Vec<_>>().into_iter();
        ListRecording { listed, places, replaced: WorksByCluster::new() }
    }

    /// Records the next clusters of a list, with some `works_at_once` works before. Gives whether
    /// all of it is recorded.
    pub fn advance_list(
        &mut self,
        source: &SourceId,
        list: &mut ListRecording,
        works_at_once: usize,
    ) -> bool {
        let end = list.replaced.len().saturating_add(works_at_once);
        while list.replaced.len() < end {
            let Some(place) = list.places.next() else {
                self.end_list(std::mem::take(&mut list.listed));
                return true;
            };
            let before = self.works.cluster(&place);
            let names = list.listed.of_cluster(&place).map(|(key, _)| &key.work);
            let is_ours = |(_, work): &(&WorkKey, &ObservedWork)| work.is_ours(source);
            let (ours, foreign): (Vec<_>, Vec<_>) =
                missing(&before, names).into_iter().partition(is_ours);
            self.gone.extend(ours.into_iter().map(|(key, work)| (key.clone(), gone_work(work))));
            let foreign = foreign.into_iter().map(|(key, work)| (key.clone(), work.clone()));
            self.works.set_cluster(&place, Arc::new(foreign.collect()));
            list.replaced.set_cluster(&place, before);
        }
        false
    }

    fn end_list(&mut self, listed: WorksByCluster<ObservedWork>) {
        // A listed work that was gone has come back: the hub was restored, or the list is older.
        self.gone.retain(|key, _| !listed.contains_key(key));
        self.unlisted.retain(|key| !listed.contains_key(key));
        self.works.append(listed);
        let Self { works, normalized, .. } = self;
        normalized.retain(|key, _| works.contains_key(key));
        self.is_relisted = true;
    }

    /// The ManifestWork that a set has on a cluster.
    pub fn delivered_by(&self, set: &WorkKey, cluster: &ClusterName) -> Option<&ObservedWork> {
        let all = WorkKey::entries_of(&self.delivered, cluster).map(|(_, one)| one);
        let mut of_set = all.filter(|one| one.set == *set).map(|one| &one.work);
        of_set.find(|work| !work.deleting)
    }

    /// The content of a work, if it was read and the work still has it.
    pub fn content(&self, key: &WorkKey) -> Option<&WorkContent> {
        let (content, work) = (self.contents.get(key)?, self.works.get(key)?);
        (content.digest() == work.digest).then_some(content)
    }

    /// Records that no request is in flight: no response is still to come.
    pub fn settle(&mut self) {
        self.gone.clear();
        self.is_relisted = false;
    }

    /// Whether the hub has to be asked about a work that was just created: a list that came since
    /// does not have it.
    pub fn may_have_gone(&self, key: &WorkKey) -> bool {
        self.is_relisted && !self.works.contains_key(key)
    }

    /// Records a work from the watch. If the work was gone, it has come back: its label was set
    /// again, or the list was older.
    pub fn record_change(&mut self, work: ObservedWork) {
        self.gone.remove(&work.key);
        if !self.is_outdated(&work) {
            self.unlisted.remove(&work.key);
        }
        self.record(work);
    }

    /// Records the state of a work, unless a newer one is known: a watch may deliver a state that
    /// is older than the response to a write.
    fn record(&mut self, mut work: ObservedWork) {
        if !self.is_outdated(&work) {
            work.key = self.works.shared_key(work.key);
            let cluster = work.key.cluster.clone();
            if let Some((_, neighbour)) = self.works.of_cluster(&cluster).next() {
                work.share_names(&cluster, neighbour.source.as_ref());
            }
            self.works.insert(work.key.clone(), work);
        }
    }

    /// Whether a newer state of the work is known.
    fn is_outdated(&self, work: &ObservedWork) -> bool {
        self.works.get(&work.key).is_some_and(|known| known.is_newer_than(work))
    }

    /// Records a work that did not come with a list or from the watch, as [`Self::record`] does.
    fn record_unlisted(&mut self, work: ObservedWork) {
        let known = self.works.get(&work.key);
        let is_known = known.is_some_and(|known| known.uid == work.uid);
        if work.created_during_hold && !is_known {
            self.unlisted.insert(work.key.clone());
        }
        self.record(work);
    }

    /// Records that a work no longer belongs to the source. The next write finds out whether the
    /// name is free.
    pub fn record_gone(&mut self, source: &SourceId, key: &WorkKey) {
        if let Some(work) = self.works.get(key).filter(|work| work.is_ours(source)) {
            self.gone.insert(key.clone(), gone_work(work));
            self.forget(key);
        }
    }

    /// Records the work that the hub has under a name, of any owner.
    pub fn record_lookup(&mut self, key: &WorkKey, there: Option<ObservedWork>) {
        match there.filter(|work| !self.is_gone(work)) {
            Some(work) => self.record_unlisted(work),
            None => self.forget(key),
        }
    }

    /// Whether this very work is known to be gone.
    fn is_gone(&self, work: &ObservedWork) -> bool {
        self.gone.get(&work.key).is_some_and(|gone| *gone == gone_work(work))
    }

    /// Records the hub's response to gitwork's own write, and whether the hub stored the write as
    /// it was sent. Only the response to the write shows that: a later read may have an edit.
    pub fn record_response(
        &mut self,
        key: &WorkKey,
        effect: &Effect,
        answer: Option<ObservedWork>,
    ) {
        let answer = answer.filter(|work| !self.is_gone(work));
        let (Some(mut work), false) = (answer, matches!(effect, Effect::Release { .. })) else {
            return self.forget(key);
        };
        if work.key == *key {
            // The plan has these names already.
            work.key = key.clone();
        }
        let is_as_sent = match effect {
            Effect::Create { body } | Effect::Update { body, .. } | Effect::Adopt { body, .. } => {
                work.digest == body.digest
            }
            Effect::SetDeleteOption { delete_option, .. } => work.delete_option == *delete_option,
            Effect::Delete { .. } | Effect::Release { .. } => true,
        };
        match effect.written_digest().filter(|_| !is_as_sent) {
            Some(written) => {
                let write = NormalizedWrite { written, stored: work.digest };
                self.normalized.insert(key.clone(), write);
            }
            None => drop(self.normalized.remove(key)),
        }
        self.record_unlisted(work);
    }

    fn forget(&mut self, key: &WorkKey) {
        self.works.remove(key);
        self.normalized.remove(key);
        self.unlisted.remove(key);
    }

    /// Whether `there` is how the hub stores this effect: to write it again would change nothing.
    pub(crate) fn is_normalized(&self, there: &ObservedWork, effect: &Effect) -> bool {
        self.normalized.get(&there.key).is_some_and(|write| {
            write.stored == there.digest && effect.written_digest() == Some(write.written)
        })
    }

    /// Whether `there` has this content, as it was sent or as the hub stores it.
    pub fn has_content(&self, there: &ObservedWork, content: Digest) -> bool {
        let write = self.normalized.get(&there.key);
        let is_stored =
            |write: &NormalizedWrite| write.stored == there.digest && write.written == content;
        there.digest == content || write.is_some_and(is_stored)
    }

    /// Whether `there` is how the hub stored gitwork's last write of it.
    pub(crate) fn is_as_stored(&self, there: &ObservedWork) -> bool {
        self.normalized.get(&there.key).is_some_and(|write| write.stored == there.digest)
    }
}

/// A complete list that is recorded cluster by cluster: that of many works takes too long for one
/// step.
#[derive(Debug)]
pub struct ListRecording {
    listed: WorksByCluster<ObservedWork>,
    /// The clusters that had works before, and are still to be compared.
    places: std::vec::IntoIter<ClusterName>,
    replaced: WorksByCluster<ObservedWork>,
}

impl ListRecording {
    /// The works before, as far as the list is recorded. They take a while to drop.
    pub fn into_replaced(self) -> WorksByCluster<ObservedWork> {
        self.replaced
    }
}

impl FromIterator<ObservedWork> for WorksByCluster<ObservedWork> {
    /// Works of one cluster in a row share its name, and those of one source the source's.
    fn from_iter<I: IntoIterator<Item = ObservedWork>>(works: I) -> Self {
        let mut last: Option<(ClusterName, Option<Arc<str>>)> = None;
        let with_key = |mut work: ObservedWork| {
            if let Some((cluster, source)) = &last {
                work.share_names(cluster, source.as_ref());
            }
            last = Some((work.key.cluster.clone(), work.source.clone()));
            (work.key.clone(), work)
        };
        works.into_iter().map(with_key).collect()
    }
}

/// The works of a cluster that a list lacks, whose names are sorted. Looks at nothing else of the
/// others.
fn missing<'a>(
    before: &'a BTreeMap<WorkKey, ObservedWork>,
    listed: impl Iterator<Item = &'a WorkName>,
) -> Vec<(&'a WorkKey, &'a ObservedWork)> {
    let mut listed = InStep::new(listed.map(|name| (name, ())));
    before.iter().filter(|(key, _)| listed.get(&key.work).is_none()).collect()
}

/// Identifies a work that is gone. Without its label a work belongs to another, and may still be
/// there.
fn gone_work(work: &ObservedWork) -> GoneWork {
    (work.uid.clone(), work.source.clone())
}
