//! What must hold at every write, whoever makes it: judged by the raw objects on the hub and by what the commits are
//! meant to say, without a line of the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gitwork::core::approval::{Approval, Approved, Target};
use gitwork::core::budget::Budget;
use gitwork::core::config::Budgets;
use gitwork::core::name::{CommitId, SourceId, WorkKey};
use gitwork::core::observed::ObservedWork;
use gitwork::core::plan::Effect;
use gitwork::core::work::{ANNOTATION_COMMIT, ANNOTATION_HASH, DeleteOption};
use gitwork::hub::HubError;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::git::{Commit, Git, Head, Reads, ancestry, is_trusted, manifests, number, removal};
use super::wall::{Hours, Wall};
use crate::simulation::agents::{Agents, Object};
use crate::simulation::hub::{SimulatedHub, is_deleting};
use crate::simulation::world::GitWork;

/// How old a process' picture of the hub may be: the longest cut, a wait for an answer and a slow event.
const STALENESS: Duration = Duration::from_secs(240);
/// How long a write that was on its way may come after a newer commit was read.
const ON_ITS_WAY: Duration = Duration::from_secs(90);

/// A state of one work on the hub.
#[derive(Debug, Clone)]
struct Seen {
    until: Option<Instant>,
    uid: String,
    /// Whose it is.
    source: Option<String>,
    deleting: bool,
    prune: bool,
}

struct State {
    start: Instant,
    history: BTreeMap<WorkKey, Vec<Seen>>,
    /// When each object, by its uid, was first which source's.
    owned_since: BTreeMap<(String, String), Instant>,
    approved: Approved,
    /// Changes that may be made while a window is closed.
    changes: Approved,
    violation: Option<String>,
    trace: Option<Vec<String>>,
    effects: usize,
}

/// What the operator allows gitwork.
pub struct Allowed {
    pub budgets: Budgets,
    pub hours: Hours,
    /// The clock that the hours go by.
    pub wall: Wall,
}

/// Cloning it gives another hand on the same.
#[derive(Clone)]
pub struct Checker {
    hub: SimulatedHub,
    /// Whose writes are judged, and what that source's commits say.
    source: SourceId,
    git: Git,
    pub agents: Arc<Mutex<Agents>>,
    allowed: Arc<Allowed>,
    state: Arc<Mutex<State>>,
}

fn owner(work: &Value) -> Option<&str> {
    work["metadata"]["labels"]["gitwork.dev/source"].as_str()
}

fn uid(work: &Value) -> &str {
    work["metadata"]["uid"].as_str().unwrap_or_default()
}

fn prune(work: &Value) -> bool {
    work["metadata"]["annotations"]["gitwork.dev/prune"] != "false"
}

/// What of an object gitwork writes, and is no mere record of the write.
fn content(work: &Value) -> (&Value, &Value, Vec<(&String, &Value)>) {
    let annotations = work["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations =
        annotations.filter(|(name, _)| *name != ANNOTATION_COMMIT && *name != ANNOTATION_HASH);
    (&work["spec"], &work["metadata"]["labels"], annotations.collect())
}

/// Git's last words on a work: one where its files could be read, else the hub's own word may stand too.
struct LastWords(Vec<(DeleteOption, bool)>);

fn last_words(commits: &[Commit], head: usize, key: &WorkKey, on_hub: &Value) -> LastWords {
    let own = (DeleteOption::from_value(&on_hub["spec"]["deleteOption"]), prune(on_hub));
    let Some((last_in, removed_by)) = removal(commits, head, key) else {
        return LastWords(vec![own]);
    };
    let (before, after) = (&commits[last_in].wanted, &commits[removed_by].wanted);
    let work = &before.works[key];
    let mut words = vec![(work.delete_option.clone(), work.prune)];
    if before.freezes(key) || after.freezes(key) {
        words.push(own);
    }
    LastWords(words)
}

impl Checker {
    pub fn new(
        hub: &SimulatedHub,
        source: &SourceId,
        git: &Git,
        allowed: Allowed,
        traced: bool,
    ) -> Self {
        let state = State {
            start: Instant::now(),
            history: BTreeMap::new(),
            owned_since: BTreeMap::new(),
            approved: Approved::new(),
            changes: Approved::new(),
            violation: None,
            trace: traced.then(Vec::new),
            effects: 0,
        };
        let agents = Arc::default();
        let (hub, git, state) = (hub.clone(), git.clone(), Arc::new(Mutex::new(state)));
        Self { hub, source: source.clone(), git, agents, allowed: Arc::new(allowed), state }
    }

    /// One that judges the writes of another source on the same hub.
    pub fn of_neighbour(&self, source: &SourceId, git: &Git, allowed: Allowed) -> Self {
        let (source, git, allowed) = (source.clone(), git.clone(), Arc::new(allowed));
        Self { source, git, allowed, ..self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Notes an event for whoever reads the trace of a failure.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        let mut state = self.lock();
        let since = state.start.elapsed();
        if let Some(trace) = &mut state.trace {
            trace.push(format!("{:>9.3} s  {}", since.as_secs_f64(), line()));
        }
    }

    pub fn fail(&self, why: impl FnOnce() -> String) {
        let mut state = self.lock();
        if state.violation.is_none() {
            state.violation = Some(why());
        }
    }

    pub fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    pub fn take_trace(&self) -> Vec<String> {
        self.lock().trace.take().unwrap_or_default()
    }

    /// How many writes have reached the hub.
    pub fn effects(&self) -> usize {
        self.lock().effects
    }

    pub fn approve(&self, approvals: &[Approval]) {
        let mut state = self.lock();
        for approval in approvals {
            match approval {
                Approval::Deletions(works) => state.approved.extend(works.iter().cloned()),
                Approval::Changes { works, .. } => state.changes.extend(works.iter().cloned()),
                Approval::Rewind(_) | Approval::Restored { .. } => {}
            }
        }
    }

    /// Takes in what has become of a work, whoever did it.
    pub fn look(&self, key: &WorkKey) {
        let work = self.hub.object(key);
        let now = Instant::now();
        let mut state = self.lock();
        let State { history, owned_since, .. } = &mut *state;
        let seen = work.map(|work| Seen {
            until: None,
            uid: uid(&work).into(),
            source: owner(&work).map(str::to_owned),
            deleting: is_deleting(&work),
            prune: prune(&work),
        });
        if let Some((seen, source)) =
            seen.as_ref().and_then(|seen| Some((seen, seen.source.clone()?)))
        {
            owned_since.entry((seen.uid.clone(), source)).or_insert(now);
        }
        let all = history.entry(key.clone()).or_default();
        if let Some(last) = all.last_mut().filter(|last| last.until.is_none()) {
            let same = seen.as_ref().is_some_and(|seen| {
                (&seen.uid, &seen.source, seen.deleting, seen.prune)
                    == (&last.uid, &last.source, last.deleting, last.prune)
            });
            if same {
                return;
            }
            last.until = Some(now);
        }
        all.extend(seen);
    }

    /// Judges one write that was made, or refused.
    pub fn wrote(
        &self,
        key: &WorkKey,
        effect: &Effect,
        commit: Option<CommitId>,
        before: Option<&Value>,
        answer: &Result<Option<ObservedWork>, HubError>,
        reads: &Reads,
    ) {
        self.trace(|| {
            let how = answer.as_ref().err().map_or("done".into(), ToString::to_string);
            format!("write {key}: {}: {how}", effect.name())
        });
        if answer.is_err() {
            return;
        }
        self.lock().effects += 1;
        let after = self.hub.object(key);
        let judged = self.judge(key, effect, commit, before, after.as_deref(), reads);
        if let Err(why) = judged {
            self.fail(|| format!("{} of {key}: {why}", effect.name()));
        }
        self.look(key);
    }

    /// Notes what the process was told.
    pub fn answered(
        &self,
        key: &WorkKey,
        effect: &Effect,
        began: Instant,
        answer: &Result<Option<ObservedWork>, HubError>,
    ) {
        self.trace(|| {
            let how = answer.as_ref().err().map_or("done".into(), ToString::to_string);
            let took = began.elapsed().as_millis();
            format!("  told of {key}: {}: {how} after {took} ms", effect.name())
        });
    }

    fn judge(
        &self,
        key: &WorkKey,
        effect: &Effect,
        commit: Option<CommitId>,
        before: Option<&Value>,
        after: Option<&Value>,
        reads: &Reads,
    ) -> Result<(), String> {
        if let Some(before) = before {
            untouched(self.source.as_str(), before, after)?;
            if let (Some(after), Effect::Update { .. } | Effect::SetDeleteOption { .. }) =
                (after, effect)
                && content(before) == content(after)
            {
                return Err("it changes nothing".into());
            }
        }
        let nobody_is = json!(null);
        let was = before.unwrap_or(&nobody_is);
        let is = after.unwrap_or(&nobody_is);
        let may_at_any_time = self.is_let_through(key, effect, was) || puts_back(was, is);
        let closed = |hours: Hours| {
            (!may_at_any_time && self.is_closed(hours))
                .then_some("at this hour nothing may be changed")
        };
        let wall = &self.allowed.wall;
        self.git.with(|commits, heads| match effect {
            Effect::Create { .. } | Effect::Update { .. } | Effect::Adopt { .. } => {
                wanted(commits, reads, wall, key, is, &closed)
            }
            Effect::Delete { .. } | Effect::SetDeleteOption { .. } | Effect::Release { .. } => {
                if is_deleting(was) || before.is_none() {
                    return Ok(());
                }
                let head = judged_commit(commits, reads, wall, commit)?;
                if let Some(why) = closed(commits[head].wanted.hours) {
                    return Err(why.into());
                }
                self.farewell(commits, head, key, effect, was)?;
                if matches!(effect, Effect::Delete { .. }) {
                    self.let_go_of(key, was)?;
                    let late = candidates(reads, wall);
                    self.budget(commits, heads, (head, &late), key, uid(was))?;
                }
                Ok(())
            }
        })
    }

    fn is_ours(&self, seen: &Seen) -> bool {
        seen.source.as_deref() == Some(self.source.as_str())
    }

    /// Whether the hours were closed for as long as the write may have been on its way.
    fn is_closed(&self, hours: Hours) -> bool {
        let Allowed { hours: operators, wall, .. } = &*self.allowed;
        if [*operators, hours].into_iter().all(|hours| hours == Hours::default()) {
            return false;
        }
        wall.recently().into_iter().all(|at| !operators.are_open(at) || !hours.are_open(at))
    }

    /// Somebody has approved of just this write.
    fn is_let_through(&self, key: &WorkKey, effect: &Effect, was: &Value) -> bool {
        let version = effect.body().map_or_else(|| uid(was).into(), |body| body.digest.to_string());
        let target = Target { key: key.clone(), uid: version };
        let state = self.lock();
        state.changes.contains(&target) || state.approved.contains(&target)
    }

    /// A farewell is one that the commit asks for, with Git's last word.
    fn farewell(
        &self,
        commits: &[Commit],
        head: usize,
        key: &WorkKey,
        effect: &Effect,
        was: &Value,
    ) -> Result<(), String> {
        let wanted = &commits[head].wanted;
        if wanted.freezes(key) {
            return Err("it is frozen".into());
        }
        if wanted.works.contains_key(key) {
            return Err("Git has it".into());
        }
        let LastWords(words) = last_words(commits, head, key, was);
        let hub = DeleteOption::from_value(&was["spec"]["deleteOption"]);
        let fits = |(option, prune): &(DeleteOption, bool)| match effect {
            Effect::Release { .. } => !prune,
            Effect::SetDeleteOption { delete_option, .. } => *prune && option == delete_option,
            _ => *prune && *option == hub,
        };
        if words.iter().any(fits) {
            return Ok(());
        }
        Err(format!("Git's last words were {words:?}, the hub has {hub:?}"))
    }

    /// What is to stay on the cluster is no more the work's, and what is to go still is.
    fn let_go_of(&self, key: &WorkKey, was: &Value) -> Result<(), String> {
        let agents = self.agents.lock().unwrap();
        let option = DeleteOption::from_value(&was["spec"]["deleteOption"]);
        if option == DeleteOption::Foreground {
            return match agents.would_stay(key, was) {
                Some(object) => Err(format!("{object:?} would stay on {}", key.cluster)),
                None => Ok(()),
            };
        }
        // What is in the work no more goes in any case.
        if was["spec"]["workload"]["manifests"].as_array().is_none_or(Vec::is_empty) {
            return Ok(());
        }
        let stays = |object: &Object| match &option {
            DeleteOption::SelectivelyOrphan(rules) => rules.contains(&object.1),
            _ => true,
        };
        match agents.would_go(key, uid(was)).into_iter().find(stays) {
            Some(object) => Err(format!("{object:?} would be deleted with it")),
            None => Ok(()),
        }
    }

    /// The deletion budget, by what every picture of the hub must have shown that may have been planned from. `late`: the
    /// commits that the process followed just before.
    fn budget(
        &self,
        commits: &[Commit],
        heads: &[Head],
        (head, late): (usize, &[usize]),
        key: &WorkKey,
        its_uid: &str,
    ) -> Result<(), String> {
        let state = self.lock();
        let wanted = &commits[head].wanted;
        let since_of = |seen: &Seen| {
            let source = self.source.to_string();
            state.owned_since.get(&(seen.uid.clone(), source))
        };
        let is_approved = |key: &WorkKey, uid: &str| {
            state.approved.contains(&Target { key: key.clone(), uid: uid.into() })
        };
        if is_approved(key, its_uid) {
            return Ok(());
        }
        let since = self.allowed.wall.awake_ago(STALENESS).unwrap_or(state.start);
        let steady = |seen: &&Seen, first: bool| seen.until.is_none() && first;
        let goes = |other: &WorkKey, seen: &Seen| {
            self.is_ours(seen)
                && !wanted.works.contains_key(other)
                && !wanted.freezes(other)
                && removal(commits, head, other)
                    .is_none_or(|(last, _)| commits[last].wanted.works[other].prune)
                && seen.prune
        };
        // What every picture shows that is to go, and what some do.
        let mut dropped: BTreeSet<&WorkKey> = BTreeSet::new();
        dropped.insert(key);
        let mut may_go = dropped.clone();
        for (other, history) in &state.history {
            let recent: Vec<&Seen> = history
                .iter()
                .filter(|seen| seen.until.is_none_or(|until| until >= since))
                .collect();
            if recent.iter().any(|seen| goes(other, seen)) {
                may_go.insert(other);
            }
            let Some(seen) = recent.last().filter(|seen| steady(seen, recent.len() == 1)) else {
                continue;
            };
            let long = since_of(seen).is_some_and(|at| *at < since);
            if !seen.deleting && long && goes(other, seen) && !is_approved(other, &seen.uid) {
                dropped.insert(other);
            }
        }
        // The branch as it was before the last of these went.
        let lacks = |at: &Head, key: &WorkKey| {
            let wanted = &commits[at.commit].wanted;
            !wanted.works.contains_key(key) && !wanted.freezes(key)
        };
        let heads: Vec<Head> =
            heads.iter().filter(|at| is_trusted(commits, at.commit)).copied().collect();
        let Some(now_at) = heads.iter().rposition(|at| at.commit == head) else { return Ok(()) };
        let gone_at = |key: &WorkKey| {
            (0..=now_at).rev().take_while(|index| lacks(&heads[*index], key)).last()
        };
        let Some(last) = may_go.iter().filter_map(|key| gone_at(key)).max() else {
            return Ok(());
        };
        let made = state.owned_since.get(&(its_uid.to_owned(), self.source.to_string()));
        if made.is_some_and(|made| *made > heads[last].at) {
            // A process that still follows an older commit has made it, after Git had dropped it.
            return Ok(());
        }
        // What no commit before this one had was not dropped by it: a second process has read a newer one.
        let never = last == 0;
        let before = last.checked_sub(1).map(|index| &commits[heads[index].commit].wanted);
        // It may have been made for one of these, by a write that was on its way.
        let earlier = heads[..last].iter().map(|at| at.commit).filter(|at| late.contains(at));
        let earlier: Vec<usize> = earlier.collect();
        let mut ours: BTreeSet<&WorkKey> = BTreeSet::new();
        let mut kept: BTreeSet<&WorkKey> = BTreeSet::new();
        for (other, history) in &state.history {
            for seen in history.iter().filter(|seen| seen.until.is_none_or(|until| until >= since))
            {
                if !self.is_ours(seen) {
                    continue;
                }
                ours.insert(other);
                let stays = wanted.works.contains_key(other) || wanted.freezes(other);
                let old = never
                    || since_of(seen).is_some_and(|at| *at < heads[last].at)
                    || before.is_some_and(|before| {
                        before.works.contains_key(other) || before.freezes(other)
                    })
                    || earlier.iter().any(|at| commits[*at].wanted.works.contains_key(other));
                if stays && old && !seen.deleting {
                    kept.insert(other);
                }
            }
        }
        let budget = Budget::of(&self.allowed.budgets, &wanted.budgets);
        let told = || {
            let before = last.checked_sub(1).map(|index| heads[index].commit);
            let names = |keys: &BTreeSet<&WorkKey>| {
                keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            };
            format!(
                "commit {head}, after commit {before:?}, deletes {}; keeps {:?} of {:?}; {budget:?}",
                names(&dropped),
                names(&kept),
                names(&ours)
            )
        };
        if kept.is_empty() {
            return Err(format!("nothing would stay: {}", told()));
        }
        let count = dropped.len();
        if count > budget.works && count * 100 > budget.percent * ours.len() {
            return Err(format!("over the budget of works: {}", told()));
        }
        let of_cluster = dropped.iter().filter(|other| other.cluster == key.cluster).count();
        let stay = kept.iter().any(|other| other.cluster == key.cluster);
        if of_cluster > budget.cluster && !stay {
            return Err(format!("nothing would stay on the cluster: {}", told()));
        }
        Ok(())
    }
}

/// What stands now is what gitwork has written before, by the hub's own word.
fn puts_back(was: &Value, is: &Value) -> bool {
    let hash = |work: &Value| work["metadata"]["annotations"][ANNOTATION_HASH].clone();
    hash(was).is_string() && hash(was) == hash(is)
}

/// What is not gitwork's is as it was.
fn untouched(source: &str, before: &Value, after: Option<&Value>) -> Result<(), String> {
    let metadata = &before["metadata"];
    if owner(before) != Some(source) && metadata["annotations"]["gitwork.dev/adopt"] != source {
        return Err("it is not ours".into());
    }
    let Some(after) = after else { return Ok(()) };
    let same = [
        ("status", &before["status"], &after["status"]),
        ("finalizers", &metadata["finalizers"], &after["metadata"]["finalizers"]),
        ("labels", &metadata["labels"]["foreign"], &after["metadata"]["labels"]["foreign"]),
    ];
    match same.iter().find(|(_, before, after)| before != after) {
        Some((what, before, after)) => {
            Err(format!("the {what} of others are changed from {before} to {after}"))
        }
        None => Ok(()),
    }
}

/// The commits that the process may write for: the last that it read, and the ones that it had just before.
fn candidates(reads: &Reads, wall: &Wall) -> Vec<usize> {
    let reads = reads.lock().unwrap();
    let on_its_way_since = wall.awake_ago(ON_ITS_WAY);
    let mut candidates = Vec::new();
    let mut superseded: Option<Instant> = None;
    for (at, commit) in reads.iter().rev() {
        if superseded.is_some_and(|by| on_its_way_since.is_some_and(|since| by < since)) {
            break;
        }
        if candidates.last() != Some(commit) {
            candidates.push(*commit);
        }
        superseded = Some(*at);
    }
    candidates
}

fn judged_commit(
    commits: &[Commit],
    reads: &Reads,
    wall: &Wall,
    commit: Option<CommitId>,
) -> Result<usize, String> {
    let head = commit.and_then(|id| number(commits, id)).ok_or("it has no commit")?;
    if !is_trusted(commits, head) {
        return Err(format!("commit {head}, or one before it, is not signed"));
    }
    if candidates(reads, wall).contains(&head) {
        return Ok(head);
    }
    Err(format!("it is for commit {head}, which is not what was read last"))
}

/// What stands on the hub now is what a commit of late wants.
fn wanted(
    commits: &[Commit],
    reads: &Reads,
    wall: &Wall,
    key: &WorkKey,
    after: &Value,
    closed: &dyn Fn(Hours) -> Option<&'static str>,
) -> Result<(), String> {
    let mut found = Vec::new();
    for head in candidates(reads, wall) {
        match commits[head].wanted.readable(key) {
            _ if !is_trusted(commits, head) => found.push(format!("commit {head} is not signed")),
            Some(work) if work.suspend => found.push(format!("commit {head} suspends it")),
            Some(work) => match differs(key, work, after) {
                None => match closed(commits[head].wanted.hours) {
                    None => return Ok(()),
                    Some(why) => found.push(why.into()),
                },
                Some(how) => found.push(format!("commit {head} wants {how}")),
            },
            None => found.push(format!("commit {head} does not have it")),
        }
    }
    Err(found.join("; "))
}

/// How a work on the hub is not as Git wants it.
pub fn differs(key: &WorkKey, work: &GitWork, on_hub: &Value) -> Option<String> {
    if on_hub["spec"]["workload"]["manifests"] != Value::Array(manifests(key, work)) {
        return Some(format!("other manifests than {}", on_hub["spec"]["workload"]));
    }
    if DeleteOption::from_value(&on_hub["spec"]["deleteOption"]) != work.delete_option {
        return Some(format!("the deleteOption {:?}", work.delete_option));
    }
    if prune(on_hub) != work.prune {
        return Some(format!("prune: {}", work.prune));
    }
    let label = &on_hub["metadata"]["labels"]["team"];
    let team = work.labels.get("team").map_or(Value::Null, |team| team.as_str().into());
    (*label != team).then(|| format!("the label team {team}, not {label}"))
}

/// How many commits a branch has behind it.
pub fn depth(commits: &[Commit], head: usize) -> usize {
    ancestry(commits, head).count()
}
