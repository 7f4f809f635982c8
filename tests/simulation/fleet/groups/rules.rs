//! The rules that hold at every write of a source with groups. They read the raw objects on the
//! hub, the texts of the commits, and what the hub said of clusters at any time. They use no code
//! of the renderer or the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_core::model::work::ANNOTATION_GROUP_CONTENT;
use gitwork_core::plan::Effect;
use serde_json::Value;
use tokio::time::Instant;

use self::rollouts::RolloutHistory;
use super::hub_facts::{FactsOnHub, HubFacts};
use super::repository::{GroupRepository, Texts, second_object, text_on};
use super::{BASE, DEPENDENT, LABELLED, PLACED};
use crate::fleet::check::Write;
use crate::git_work::config_map;
use crate::hub::generation;
use crate::key;
use crate::moves::manifests;

mod rollouts;

/// The largest age of a process's picture of the hub, its writes in flight included: the longest
/// cut, and slow requests, events and reads.
const STALENESS: Duration = Duration::from_secs(300);
/// A cluster has left a Placement if its decisions have agreed on that for so long: the grace
/// period of two minutes without the lags of two watches.
const GRACE: Duration = Duration::from_secs(75);
/// A shorter disagreement may pass unseen, as watches lag.
const UNSEEN: Duration = Duration::from_secs(45);
/// Between the points in time at which a cluster may have left.
const STEP: Duration = Duration::from_secs(5);

/// A work on the hub, as far as the order of writes needs it.
#[derive(Debug, Default)]
struct Seen {
    /// Since when it is there; `None` if it is not.
    there_since: Option<Instant>,
    /// Its text.
    text: Option<String>,
    /// The content of its group, as it is marked.
    content: Option<Digest>,
    /// The texts with which it was applied and available.
    ready: BTreeMap<String, Ready>,
}

/// A time in which a work was applied and available. Short interruptions may pass unseen.
#[derive(Debug, Clone, Copy)]
struct Ready {
    since: Instant,
    /// `None`: it still is.
    until: Option<Instant>,
}

/// The rules of one source.
pub struct GroupRules {
    repository: GroupRepository,
    facts: FactsOnHub,
    start: Instant,
    seen: Mutex<BTreeMap<WorkKey, Seen>>,
    /// `None` if changes reach all clusters at once.
    rollouts: Option<Mutex<RolloutHistory>>,
}

/// The text of a work's manifest.
pub fn text_of(work: &Value) -> Option<&str> {
    text_of_object(work, work["metadata"]["name"].as_str()?)
}

/// The text of one of its objects.
fn text_of_object<'a>(work: &'a Value, name: &str) -> Option<&'a str> {
    let found = manifests(work).iter().find(|manifest| manifest["metadata"]["name"] == name);
    found?["data"]["text"].as_str()
}

/// The content of its group, as a work is marked.
fn content_of(work: &Value) -> Option<Digest> {
    Digest::parse(work["metadata"]["annotations"][ANNOTATION_GROUP_CONTENT].as_str()?)
}

/// Whether the agent says that the present generation is applied and available.
pub fn is_ready(work: &Value) -> bool {
    let conditions = work["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_true = |kind: &str| {
        conditions.iter().any(|one| {
            one["type"] == kind
                && one["status"] == "True"
                && one["observedGeneration"].as_i64() == Some(generation(work))
        })
    };
    is_true("Applied") && is_true("Available")
}

/// Whether the cluster has the works of the group, by what the hub says.
pub fn is_member(facts: &HubFacts, work: &str, cluster: &ClusterName) -> bool {
    facts.site(cluster).is_some() && is_listed(facts, work, cluster)
}

/// Whether its label or the PlacementDecisions make the cluster a member, if it is there.
fn is_listed(facts: &HubFacts, work: &str, cluster: &ClusterName) -> bool {
    match work {
        _ if LABELLED.contains(&work) => facts.is_labelled(cluster),
        _ => facts.is_placed(cluster),
    }
}

impl GroupRules {
    pub fn new(repository: &GroupRepository, facts: &FactsOnHub) -> Self {
        let rollouts = repository.has_rollouts().then(Mutex::default);
        let (repository, facts) = (repository.clone(), facts.clone());
        Self { repository, facts, start: Instant::now(), seen: Mutex::default(), rollouts }
    }

    /// Lets the rules change what they know of rollouts.
    pub fn with_rollouts(&self, change: impl FnOnce(&mut RolloutHistory)) {
        if let Some(rollouts) = &self.rollouts {
            change(&mut rollouts.lock().unwrap());
        }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<WorkKey, Seen>> {
        self.seen.lock().unwrap()
    }

    /// Records a work on the hub after a change by any client; `None` if it is gone.
    pub fn observe(&self, key: &WorkKey, work: Option<&Value>) {
        let mut all = self.seen();
        let seen = all.entry(key.clone()).or_default();
        let now = Instant::now();
        for ready in seen.ready.values_mut() {
            ready.until.get_or_insert(now);
        }
        seen.text = work.and_then(text_of).map(str::to_owned);
        seen.content = work.and_then(content_of);
        let Some(work) = work else {
            seen.there_since = None;
            return;
        };
        seen.there_since.get_or_insert(now);
        if let Some(text) = text_of(work).filter(|_| is_ready(work)) {
            let ready = seen.ready.entry(text.to_owned());
            let ready = ready.or_insert(Ready { since: now, until: None });
            if ready.until.take().is_some_and(|until| until.elapsed() > STALENESS) {
                ready.since = now;
            }
        }
    }

    /// What the hub had at any time that a process may still act on.
    fn recent_facts(&self) -> Vec<HubFacts> {
        let history = self.facts.history();
        let ends = history.iter().skip(1).map(|(at, _)| Some(*at)).chain([None]);
        let is_recent = |end: Option<Instant>| end.is_none_or(|end| end.elapsed() <= STALENESS);
        let recent = history.iter().zip(ends).filter(|(_, end)| is_recent(*end));
        recent.map(|((_, facts), _)| facts.clone()).collect()
    }

    /// The texts that the work may have on its cluster now.
    fn wanted_texts(&self, key: &WorkKey, commits: &[Texts]) -> BTreeSet<String> {
        let facts = self.recent_facts();
        // The ManagedCluster itself is of a watch of its own, too: `sites` is empty without one.
        let is_member = |facts: &HubFacts| is_listed(facts, key.work.as_str(), &key.cluster);
        if !facts.iter().any(is_member) {
            return BTreeSet::new();
        }
        // Labels and PlacementDecisions lag independently of each other.
        let sites: BTreeSet<&str> =
            facts.iter().filter_map(|facts| facts.site(&key.cluster)).collect();
        let texts = commits.iter().filter_map(|texts| texts.get(key.work.as_str()));
        let on = |text: &String| {
            let on = |site: &&str| text_on(text, key.cluster.as_str(), site);
            sites.iter().map(on).collect::<Vec<_>>()
        };
        texts.flat_map(on).collect()
    }

    /// Judges a write. `commits`: those that its process may write for.
    pub fn judge(
        &self,
        write: &Write<'_>,
        after: Option<&Value>,
        commits: &[usize],
    ) -> Result<(), String> {
        let commits: Vec<Texts> = match self.keeps_content(write, after) {
            true => self.repository.all_texts(),
            false => commits.iter().map(|commit| self.repository.texts(*commit)).collect(),
        };
        let Write { key, effect, .. } = *write;
        match effect {
            Effect::Create { .. } => {
                self.judge_content(key, after, &commits)?;
                self.judge_order(key, &commits)?;
                self.judge_rollout(write, after, &commits)
            }
            Effect::Update { .. } => {
                self.judge_content(key, after, &commits)?;
                self.judge_return(write, after)?;
                self.judge_rollout(write, after, &commits)
            }
            Effect::Delete { .. } => {
                self.judge_deletion(key, &commits)?;
                self.judge_rollout(write, None, &commits)
            }
            Effect::Adopt { .. } | Effect::SetDeleteOption { .. } | Effect::Release { .. } => {
                Err("nobody asks for it".into())
            }
        }
    }

    fn judge_content(
        &self,
        key: &WorkKey,
        after: Option<&Value>,
        commits: &[Texts],
    ) -> Result<(), String> {
        let text = after.and_then(text_of).ok_or("it has no text")?;
        let wanted = self.wanted_texts(key, commits);
        if !wanted.contains(text) {
            return Err(format!("its text is {text:?}, and should be one of {wanted:?}"));
        }
        match self.second_object(key.work.as_str(), text) {
            Some(second) if after.and_then(|it| text_of_object(it, &second)) != Some(text) => {
                Err(format!("it lacks the object {second} with the text {text:?}"))
            }
            _ => Ok(()),
        }
    }

    /// The name of the second object of a work with this text.
    fn second_object(&self, work: &str, text: &str) -> Option<String> {
        self.rollouts.as_ref()?;
        second_object(work, text)
    }

    /// The objects that a work with this text has in Git.
    pub fn objects(&self, work: &str, text: &str) -> BTreeSet<Identity> {
        let names = [work.to_owned()].into_iter().chain(self.second_object(work, text));
        names.map(|name| config_map(&name)).collect()
    }

    /// A new work comes after the one that it depends on.
    fn judge_order(&self, key: &WorkKey, commits: &[Texts]) -> Result<(), String> {
        let is_dependent = |texts: &Texts| texts.contains_key(BASE);
        if key.work.as_str() != DEPENDENT || !commits.iter().all(is_dependent) {
            return Ok(());
        }
        let base = super::key_on(&key.cluster, BASE);
        let wanted = self.wanted_texts(&base, commits);
        let all = self.seen();
        let ready = all.get(&base).into_iter().flat_map(|seen| &seen.ready);
        let mut recently =
            ready.filter(|(_, ready)| ready.until.is_none_or(|until| until.elapsed() <= STALENESS));
        match recently.any(|(text, _)| wanted.contains(text)) {
            true => Ok(()),
            false => Err(format!("{base} was not available with one of {wanted:?}")),
        }
    }

    fn judge_deletion(&self, key: &WorkKey, commits: &[Texts]) -> Result<(), String> {
        let work = key.work.as_str();
        let is_in_git = commits.iter().all(|texts| texts.contains_key(work));
        let has_left = match PLACED.contains(&work) {
            true => self.has_left_placement(&key.cluster),
            false => self.recent_facts().iter().any(|facts| !is_member(facts, work, &key.cluster)),
        };
        if is_in_git && !has_left {
            return Err("Git has it, and its cluster has not left the group".into());
        }
        let dependent = super::key_on(&key.cluster, DEPENDENT);
        let all = self.seen();
        let since = all.get(&dependent).and_then(|seen| seen.there_since);
        let stays = since.is_some_and(|since| since.elapsed() > STALENESS);
        match work == BASE && stays && commits.iter().all(|texts| !texts.contains_key(DEPENDENT)) {
            true => Err(format!("{dependent}, which depends on it, is still there")),
            false => Ok(()),
        }
    }

    /// Whether the Placement did without the cluster for the grace period, up to a time at which a
    /// process may have seen it so. The ManagedCluster may also be gone.
    fn has_left_placement(&self, cluster: &ClusterName) -> bool {
        let now = Instant::now();
        let history = self.facts.history();
        let ends = history.iter().skip(1).map(|(at, _)| *at).chain([now]);
        let mut stays: Vec<(Instant, Instant)> = Vec::new();
        for ((since, facts), until) in history.iter().zip(ends) {
            if facts.site(cluster).is_none() && until + STALENESS >= now {
                return true;
            }
            let is_out = facts.agree() && !facts.is_placed(cluster);
            match stays.last_mut().filter(|(_, end)| end == since) {
                _ if is_out => {}
                Some((_, end)) => *end = until,
                None => stays.push((*since, until)),
            }
        }
        stays.retain(|(since, until)| *until - *since >= UNSEEN);
        let mut end = now;
        while end >= self.start + GRACE && end + STALENESS >= now {
            let begin = end - GRACE;
            if stays.iter().all(|(since, until)| *until <= begin || *since >= end) {
                return true;
            }
            end -= STEP;
        }
        false
    }
}

/// The works that the clusters should have, each with its text.
pub fn wanted(texts: &Texts, facts: &HubFacts, clusters: &[&str]) -> BTreeMap<WorkKey, String> {
    let mut wanted = BTreeMap::new();
    for cluster in clusters {
        for (work, text) in texts {
            let key = key(cluster, work);
            let Some(site) = facts.site(&key.cluster) else { continue };
            if is_member(facts, work, &key.cluster) {
                wanted.insert(key, text_on(text, cluster, site));
            }
        }
    }
    wanted
}
