//! The rules for rollouts: no cluster takes a content before its wave is due. They read the works
//! on the hub, the texts of the commits, and the records that gitwork wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::{ClusterName, GroupName};
use gitwork_core::plan::record::Record;
use serde_json::Value;
use tokio::time::Instant;

use super::{GroupRules, STALENESS, Seen, content_of, is_member, text_of};
use crate::fleet::check::Write;
use crate::fleet::groups::repository::{APPROVED_WAVE, SOAK, Texts, WAVES};
use crate::fleet::groups::{GROUPS, LABELLED, key_on};
use crate::moves::listed;
use crate::world::CLUSTERS;

/// Requests of a former leader may arrive for so long while the next one already writes.
const LATE: Duration = Duration::from_secs(60);

/// The texts of a group's works at a commit.
type Content = BTreeMap<&'static str, String>;

/// A cluster took a content.
#[derive(Debug, Clone, Copy)]
struct Begun {
    at: Instant,
    /// Identifies the process.
    process: usize,
    /// The process had lost the Lease when the request arrived, and may be the leader again.
    is_abandoned: bool,
}

/// What gitwork and operators did.
#[derive(Debug, Default)]
pub struct RolloutHistory {
    /// The clusters that took each content, or had it.
    begun: BTreeMap<(ClusterName, Content), Begun>,
    /// The clusters that took the mark of a content in their turn. The text of the marked work may
    /// be the same as before.
    marked: BTreeSet<(ClusterName, Digest)>,
    /// For each recorded content: the last wave that the record names.
    recorded: BTreeMap<Digest, usize>,
    /// When each content was recorded as rejected.
    rejected: BTreeMap<Digest, Instant>,
    /// The contents that were recorded as good: clusters that join get one of them.
    good: BTreeSet<Digest>,
    /// The content of each group that the last record names, and whether it was rejected.
    last: BTreeMap<GroupName, (Digest, bool)>,
    /// The contents with an approval of [`APPROVED_WAVE`].
    approved: BTreeSet<Digest>,
}

/// A cluster that may take a content.
struct Candidate<'a> {
    works: &'static [&'static str],
    cluster: &'a ClusterName,
    content: &'a Content,
    /// As the work is marked.
    digest: Option<Digest>,
    process: usize,
}

/// The position of the wave of a cluster; the last one has all clusters that are in no other.
fn wave_of(works: &[&str], cluster: &ClusterName) -> usize {
    let named = CLUSTERS.iter().position(|name| *name == cluster.as_str()).unwrap_or_default();
    if works == LABELLED { named.min(WAVES.len()) } else { 0 }
}

/// The group that a work is of, and its works.
fn group_of(work: &str) -> Option<(&'static str, &'static [&'static str])> {
    GROUPS.into_iter().find(|(_, works)| works.contains(&work))
}

/// The part of a text that is the same on all clusters.
fn common(text: &str) -> &str {
    text.split_once(" on ").map_or(text, |(common, _)| common)
}

impl RolloutHistory {
    /// An operator approves [`APPROVED_WAVE`] for a content.
    pub fn approve(&mut self, content: Digest) {
        self.approved.insert(content);
    }

    /// Gitwork wrote a record.
    pub fn observe_record(&mut self, record: &Record) {
        let labelled = GroupName::parse(GROUPS[0].0).unwrap();
        for (group, known) in &record.rollouts {
            if known.rejected.is_some() {
                self.rejected.entry(known.content).or_insert_with(Instant::now);
            }
            self.good.extend(known.last_good);
            self.last.insert(group.clone(), (known.content, known.rejected.is_some()));
            let Some(begun) = &known.begun else { continue };
            let waves = if *group == labelled { &WAVES[..] } else { &[] };
            let position = waves.iter().position(|wave| wave == begun).unwrap_or(waves.len());
            let last = self.recorded.entry(known.content).or_default();
            *last = position.max(*last);
        }
    }
}

impl GroupRules {
    /// Whether a write gives a work a content that its cluster has, at least in part, or the last
    /// good one: until the cluster gets that of the branch.
    pub(super) fn keeps_content(&self, write: &Write<'_>, after: Option<&Value>) -> bool {
        let Some(rollouts) = &self.rollouts else { return false };
        let Some(digest) = after.and_then(content_of) else { return false };
        let Some((_, works)) = group_of(write.key.work.as_str()) else { return false };
        let seen = self.seen();
        let others = works.iter().map(|work| key_on(&write.key.cluster, work));
        let others =
            others.filter(|key| key != write.key).filter_map(|key| seen.get(&key)?.content);
        let mut contents = others.chain(write.before.and_then(content_of));
        contents.any(|content| content == digest) || rollouts.lock().unwrap().good.contains(&digest)
    }

    /// Judges a write that gives a work another text, or takes it away.
    pub(super) fn judge_rollout(
        &self,
        write: &Write<'_>,
        after: Option<&Value>,
        commits: &[Texts],
    ) -> Result<(), String> {
        let Some(rollouts) = &self.rollouts else { return Ok(()) };
        let work = write.key.work.as_str();
        let Some((_, works)) = group_of(work) else { return Ok(()) };
        let text = after.and_then(text_of).map(common);
        let of_group = |texts: &Texts| -> Content {
            let of_group = works.iter().filter_map(|work| Some((*work, texts.get(work)?.clone())));
            of_group.collect()
        };
        let contents: BTreeSet<Content> = commits.iter().map(of_group).collect();
        let fits = |content: &&Content| content.get(work).map(String::as_str) == text;
        let contents: Vec<&Content> = contents.iter().filter(fits).collect();
        let cluster = &write.key.cluster;
        let process = std::sync::Arc::as_ptr(write.reads) as usize;
        let digest = after.and_then(content_of);
        let is_known = |content: &Content| {
            let history = rollouts.lock().unwrap();
            let is_marked = |digest| history.marked.contains(&(cluster.clone(), digest));
            let is_good = |digest| history.good.contains(&digest);
            history.begun.contains_key(&(cluster.clone(), content.clone()))
                || digest.is_some_and(|digest| is_marked(digest) || is_good(digest))
        };
        let leaves = after.is_none() && !self.is_certain_member(work, cluster);
        // If nothing of a group is left, it leaves all clusters at once.
        let is_free = |content: &Content| leaves || content.is_empty();
        let is_same = text.is_some() && write.before.and_then(text_of).map(common) == text;
        let judge = |content: &Content| {
            let candidate = Candidate { works, cluster, content, digest, process };
            let may = is_same || is_free(content) || is_known(content);
            if may { Ok(()) } else { self.judge_turn(&candidate) }
        };
        let takes_turn = |content: &&Content| {
            let candidate = Candidate { works, cluster, content, digest, process };
            self.judge_turn(&candidate).is_ok()
        };
        let marks = is_same && contents.iter().any(takes_turn);
        let results: Vec<(&Content, Result<(), String>)> =
            contents.into_iter().map(|content| (content, judge(content))).collect();
        let begun = Begun { at: Instant::now(), process, is_abandoned: write.is_abandoned };
        let mut history = rollouts.lock().unwrap();
        history.marked.extend(digest.filter(|_| marks).map(|digest| (cluster.clone(), digest)));
        let mut found = Err("no commit wants it so".to_owned());
        for (content, result) in results {
            if result.is_ok() && !leaves && (!is_same || self.has(works, cluster, content)) {
                let key = (cluster.clone(), content.clone());
                if is_same {
                    history.begun.entry(key).or_insert(begun);
                } else {
                    // It may have had the content before, and lost it.
                    history.begun.insert(key, begun);
                }
            }
            found = if found.is_ok() { found } else { result };
        }
        // Others judge what is in no commit.
        if leaves { Ok(()) } else { found }
    }

    /// Judges what a write takes away from a work whose last content was rejected: nothing that
    /// this content has, until a later one is rolled out.
    pub(super) fn judge_return(
        &self,
        write: &Write<'_>,
        after: Option<&Value>,
    ) -> Result<(), String> {
        let Some(rollouts) = &self.rollouts else { return Ok(()) };
        let work = write.key.work.as_str();
        let Some((group, _)) = group_of(work) else { return Ok(()) };
        let last = rollouts.lock().unwrap().last.get(&GroupName::parse(group).unwrap()).copied();
        let rejected = last.filter(|(_, is_rejected)| *is_rejected);
        let texts = rejected.and_then(|(content, _)| self.repository.texts_with(content));
        let Some(text) = texts.as_ref().and_then(|texts| texts.get(work)) else { return Ok(()) };
        let objects = |work: Option<&Value>| work.map(listed).unwrap_or_default();
        let (before, after) = (objects(write.before), objects(after));
        let lost = before.difference(&after).find(|id| self.objects(work, text).contains(*id));
        match lost.filter(|_| self.is_certain_member(work, &write.key.cluster)) {
            Some(lost) => Err(format!("it takes {} of the rejected content away", lost.name)),
            None => Ok(()),
        }
    }

    /// Whether all that may be members are done with a content that a record calls good.
    pub fn judge_good(&self, record: &Record) -> Result<(), String> {
        let Some(rollouts) = &self.rollouts else { return Ok(()) };
        for (group, known) in &record.rollouts {
            let Some(good) = known.last_good else { continue };
            if rollouts.lock().unwrap().good.contains(&good) {
                continue;
            }
            let Some((_, works)) = GROUPS.into_iter().find(|(name, _)| *name == group.as_str())
            else {
                continue;
            };
            let Some(texts) = self.repository.texts_with(good) else { continue };
            let of_group = works.iter().filter_map(|it| Some((*it, texts.get(it)?.clone())));
            let (content, seen) = (of_group.collect::<Content>(), self.seen());
            let all = CLUSTERS.map(|name| ClusterName::parse(name).unwrap());
            let mut members = all.iter().filter(|it| self.is_certain_member(works[0], it));
            if let Some(other) = members.find(|it| !is_done(&seen, it, &content, Duration::ZERO)) {
                return Err(format!("{group}: {other} is not done with {content:?}"));
            }
        }
        Ok(())
    }

    /// Whether the cluster has all of a content, applied or not.
    fn has(&self, works: &[&str], cluster: &ClusterName, content: &Content) -> bool {
        let all = self.seen();
        works.iter().all(|work| {
            let text = all.get(&key_on(cluster, work)).and_then(|seen| seen.text.as_deref());
            text.map(common) == content.get(work).map(String::as_str)
        })
    }

    /// Whether the cluster was a member in any picture of the hub that a process may act on.
    fn is_certain_member(&self, work: &str, cluster: &ClusterName) -> bool {
        self.recent_facts().iter().all(|facts| is_member(facts, work, cluster))
    }

    /// Whether the cluster may take the content now.
    fn judge_turn(&self, candidate: &Candidate<'_>) -> Result<(), String> {
        let Candidate { works, cluster, content, digest, process } = *candidate;
        let wave = wave_of(works, cluster);
        let history = self.rollouts.as_ref().map(|history| history.lock().unwrap());
        let Some(history) = history else { return Ok(()) };
        let all = CLUSTERS.map(|name| ClusterName::parse(name).unwrap());
        let others = all.iter().filter(|other| *other != cluster);
        let members: Vec<&ClusterName> =
            others.filter(|other| self.is_certain_member(works[0], other)).collect();
        let seen = self.seen();
        let has_begun = |from: usize| {
            let mut begun = history.begun.keys().filter(|(_, known)| known == content);
            begun.any(|(other, _)| wave_of(works, other) >= from)
        };
        for other in &members {
            let of_other = wave_of(works, other);
            if of_other < wave {
                let soak = if has_begun(wave) || works != LABELLED { Duration::ZERO } else { SOAK };
                let soak = if of_other == 0 { soak } else { Duration::ZERO };
                if !is_done(&seen, other, content, soak) {
                    return Err(format!("{other}, of an earlier wave, is not done"));
                }
            } else if works != LABELLED {
                let begun = history.begun.get(&((*other).clone(), content.clone()));
                let is_late = |begun: &Begun| {
                    let is_of_other = begun.process != process || begun.is_abandoned;
                    is_of_other && begun.at.elapsed() < LATE
                };
                let takes_place = begun.is_some_and(|begun| !is_late(begun));
                if takes_place
                    && is_there(&seen, other, content)
                    && !is_done(&seen, other, content, Duration::ZERO)
                {
                    return Err(format!("{other} is in progress"));
                }
            }
        }
        let Some(digest) = digest else { return Ok(()) };
        if history.rejected.get(&digest).is_some_and(|at| at.elapsed() > LATE) {
            return Err("its content was rejected".into());
        }
        if works == LABELLED
            && WAVES.get(wave) == Some(&APPROVED_WAVE)
            && !history.approved.contains(&digest)
        {
            return Err("nobody has approved its wave".into());
        }
        match history.recorded.get(&digest) {
            Some(recorded) if *recorded >= wave => Ok(()),
            found => Err(format!("the record names no such wave: {found:?}")),
        }
    }
}

/// Whether a cluster has some of the content.
fn is_there(
    seen: &BTreeMap<gitwork_core::model::name::WorkKey, Seen>,
    cluster: &ClusterName,
    content: &Content,
) -> bool {
    content.iter().any(|(work, text)| {
        let there = seen.get(&key_on(cluster, work));
        there.and_then(|seen| seen.text.as_deref()).map(common) == Some(text)
    })
}

/// Whether a cluster was done with the content for so long, at a time at which a process may have
/// seen it so.
fn is_done(
    seen: &BTreeMap<gitwork_core::model::name::WorkKey, Seen>,
    cluster: &ClusterName,
    content: &Content,
    soak: Duration,
) -> bool {
    content.iter().all(|(work, text)| {
        let ready = seen.get(&key_on(cluster, work)).into_iter().flat_map(|seen| &seen.ready);
        let mut ready = ready.filter(|(on_cluster, _)| common(on_cluster) == text);
        ready.any(|(_, ready)| {
            let is_recent = ready.until.is_none_or(|until| until.elapsed() <= STALENESS);
            is_recent && ready.since.elapsed() >= soak
        })
    })
}
