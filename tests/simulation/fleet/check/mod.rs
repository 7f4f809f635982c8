//! The rules that hold at every write. The checker reads the raw objects on the hub and the content
//! of the commits. It uses no code of the planner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gitwork_core::config::Budgets;
use gitwork_core::model::approval::{Approval, Approved, Target};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::model::work::WorkBody;
use gitwork_core::plan::Effect;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::record::Record;
use gitwork_hub::HubError;
use serde_json::Value;
use tokio::time::Instant;

use super::git::{Git, ReadLog};
use super::groups::GroupRules;
use super::machine_clock::{DailyHours, MachineClock};
use crate::agents::Agents;
use crate::git_work::folder;
use crate::hub::{SimulatedHub, is_deleting};
use crate::moves::{describe, is_complete, listed, may_own};

mod budget;
mod content;
mod objects;
mod removal;
mod transition;

use budget::Deletion;
pub use content::differs;
use content::{
    check_foreign_fields, check_wanted, is_drift_correction, named_commit, recent_commits,
    written_fields,
};
use objects::Objects;
use removal::check_removal;
use transition::{HubState, OtherObjects};

/// The largest age of a process's picture of the hub: the longest cut, a response timeout and a
/// slow event.
const STALENESS: Duration = Duration::from_secs(240);
/// A write may arrive this long after the process read a newer commit.
const IN_FLIGHT: Duration = Duration::from_secs(90);

/// A state of one work on the hub.
#[derive(Debug, Clone)]
struct WorkState {
    since: Instant,
    /// When the next state began; `None` while this one lasts.
    until: Option<Instant>,
    uid: String,
    /// The source that owns the work.
    source: Option<String>,
    deleting: bool,
    prune: bool,
    /// The objects that it lists.
    objects: BTreeSet<Identity>,
    /// The objects that its agent may own, listed or not, from when on.
    may_own: Vec<(Instant, BTreeSet<Identity>)>,
}

impl WorkState {
    /// The objects that its agent may have owned since a time.
    fn owned_since(&self, since: Instant) -> impl Iterator<Item = &Identity> {
        let ends = self.may_own.iter().skip(1).map(|(began, _)| Some(*began)).chain([None]);
        let all = self.may_own.iter().zip(ends);
        let recent = all.filter(move |(_, end)| end.is_none_or(|end| end >= since));
        recent.flat_map(|((_, objects), _)| objects)
    }
}

struct State {
    start: Instant,
    history: BTreeMap<WorkKey, Vec<WorkState>>,
    /// When each source first owned each object, by uid and source.
    owned_since: BTreeMap<(String, String), Instant>,
    approved: Approved,
    /// Approved changes outside the change windows.
    changes: Approved,
    objects: Objects,
    violation: Option<String>,
    trace: Option<Vec<String>>,
    effects: usize,
}

impl State {
    fn trace(&mut self, line: impl FnOnce() -> String) {
        let since = self.start.elapsed();
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>9.3} s  {}", since.as_secs_f64(), line()));
        }
    }
}

/// The operator's settings for a source.
pub struct OperatorPolicy {
    pub budgets: Budgets,
    pub hours: DailyHours,
    /// The clock of the hours.
    pub clock: MachineClock,
}

/// One request of gitwork to the hub.
pub struct Write<'a> {
    pub key: &'a WorkKey,
    pub effect: &'a Effect,
    /// The commit that the write names.
    pub commit: Option<CommitId>,
    /// The object before the write.
    pub before: Option<&'a Value>,
    /// The commits that the process has read.
    pub reads: &'a ReadLog,
    /// The process has lost the Lease since it sent the request, and may be the leader again.
    pub is_abandoned: bool,
}

/// The result of a write, as the hub returns it.
pub type WriteResult = Result<Option<ObservedWork>, HubError>;

/// Checks the writes of one source. Clones share their state.
#[derive(Clone)]
pub struct Checker {
    hub: SimulatedHub,
    source: SourceId,
    git: Git,
    /// Whether it checks the first source.
    is_first: bool,
    pub agents: Arc<Mutex<Agents>>,
    operator: Arc<OperatorPolicy>,
    /// The rules of a source with groups, in place of the others.
    groups: Option<Arc<GroupRules>>,
    /// Whether a story has rules of its own, in place of all of them.
    is_story: bool,
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

fn outcome(result: &WriteResult) -> String {
    result.as_ref().err().map_or("done".into(), ToString::to_string)
}

impl Checker {
    pub fn new(
        hub: &SimulatedHub,
        source: &SourceId,
        git: &Git,
        operator: OperatorPolicy,
        traced: bool,
    ) -> Self {
        let state = State {
            start: Instant::now(),
            history: BTreeMap::new(),
            owned_since: BTreeMap::new(),
            approved: Approved::new(),
            changes: Approved::new(),
            objects: Objects::default(),
            violation: None,
            trace: traced.then(Vec::new),
            effects: 0,
        };
        let agents = Arc::default();
        let (hub, git, state) = (hub.clone(), git.clone(), Arc::new(Mutex::new(state)));
        let (source, operator) = (source.clone(), Arc::new(operator));
        Self {
            hub,
            source,
            git,
            is_first: true,
            agents,
            operator,
            groups: None,
            is_story: false,
            state,
        }
    }

    /// A checker for a source with groups, if there are rules for one.
    pub fn with_groups(self, groups: Option<Arc<GroupRules>>) -> Self {
        Self { groups, ..self }
    }

    /// A checker that leaves the rules to a story.
    pub fn for_story(self) -> Self {
        Self { is_story: true, ..self }
    }

    pub fn is_story(&self) -> bool {
        self.is_story
    }

    /// A checker for the writes of another source on the same hub. It shares the state.
    pub fn for_source(&self, source: &SourceId, git: &Git, operator: OperatorPolicy) -> Self {
        let (source, git, operator) = (source.clone(), git.clone(), Arc::new(operator));
        Self { source, git, is_first: false, operator, ..self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Adds a line to the trace, if there is one.
    pub fn trace(&self, line: impl FnOnce() -> String) {
        self.lock().trace(line);
    }

    /// Records a violation, if it is the first.
    pub fn fail(&self, why: impl FnOnce() -> String) {
        let mut state = self.lock();
        if state.violation.is_none() {
            state.violation = Some(why());
        }
    }

    /// The first violation.
    pub fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    /// An operator approves a wave of this content.
    pub fn approve_rollout(&self, content: Digest) {
        if let Some(groups) = &self.groups {
            groups.with_rollouts(|rollouts| rollouts.approve(content));
        }
    }

    /// Gitwork writes a record of the source.
    pub fn observe_record(&self, record: &Record) {
        if let Some(groups) = &self.groups {
            if let Err(why) = groups.judge_good(record) {
                self.fail(|| format!("the record calls a content good too early: {why}"));
            }
            groups.with_rollouts(|rollouts| rollouts.observe_record(record));
        }
    }

    pub fn take_trace(&self) -> Vec<String> {
        self.lock().trace.take().unwrap_or_default()
    }

    /// The number of writes that reached the hub.
    pub fn effects(&self) -> usize {
        self.lock().effects
    }

    /// Records what an operator approved.
    pub fn approve(&self, approvals: &[Approval]) {
        let mut state = self.lock();
        for approval in approvals {
            match approval {
                Approval::Deletions(works) => state.approved.extend(works.iter().cloned()),
                Approval::Changes { works, .. } => state.changes.extend(works.iter().cloned()),
                Approval::Rewind(_)
                | Approval::Restored { .. }
                | Approval::Origin { .. }
                | Approval::Trust { .. }
                | Approval::Rollout { .. } => {}
            }
        }
    }

    /// Records the state of a work on the hub after a change by any client.
    pub fn observe(&self, key: &WorkKey) {
        let work = self.hub.object(key);
        if let Some(groups) = &self.groups {
            groups.observe(key, work.as_deref());
        }
        let now = Instant::now();
        let mut state = self.lock();
        let State { history, owned_since, .. } = &mut *state;
        let current = work.map(|work| WorkState {
            since: now,
            until: None,
            uid: uid(&work).into(),
            source: owner(&work).map(str::to_owned),
            deleting: is_deleting(&work),
            prune: prune(&work),
            objects: listed(&work),
            may_own: vec![(now, may_own(&work))],
        });
        if let Some((current, source)) =
            current.as_ref().and_then(|current| Some((current, current.source.clone()?)))
        {
            owned_since.entry((current.uid.clone(), source)).or_insert(now);
        }
        let all = history.entry(key.clone()).or_default();
        if let Some(last) = all.last_mut().filter(|last| last.until.is_none()) {
            let same = current.as_ref().is_some_and(|current| {
                (&current.uid, &current.source, current.deleting, current.prune)
                    == (&last.uid, &last.source, last.deleting, last.prune)
                    && current.objects == last.objects
            });
            if same {
                let now_owned = current.into_iter().flat_map(|current| current.may_own);
                last.may_own.extend(now_owned);
                last.may_own.dedup_by(|next, before| next.1 == before.1);
                return;
            }
            last.until = Some(now);
        }
        all.extend(current);
    }

    /// Checks one write after the hub has answered it.
    pub fn check_write(&self, write: &Write<'_>, result: &WriteResult) {
        let (key, name) = (write.key, write.effect.name());
        self.trace(|| {
            let work = self.hub.object(key).filter(|_| result.is_ok());
            let content = work.map_or_else(String::new, |work| describe(&work));
            format!("write {key}: {name}: {}: {content}", outcome(result))
        });
        if result.is_err() {
            return;
        }
        if !self.is_first {
            self.disturb(key);
        }
        self.lock().effects += 1;
        let after = self.hub.object(key);
        if let Err(why) = self.judge(write, after.as_deref()) {
            self.fail(|| format!("{name} of {key}: {why}"));
        }
        self.observe(key);
    }

    /// Adds the response that the process received to the trace.
    pub fn trace_response(
        &self,
        key: &WorkKey,
        effect: &Effect,
        began: Instant,
        result: &WriteResult,
    ) {
        self.trace(|| {
            let (how, took) = (outcome(result), began.elapsed().as_millis());
            format!("  response for {key}: {}: {how} after {took} ms", effect.name())
        });
    }

    fn judge(&self, write: &Write<'_>, after: Option<&Value>) -> Result<(), String> {
        let Write { key, effect, before, .. } = *write;
        if let Some(before) = before {
            check_foreign_fields(self.source.as_str(), before, after)?;
            if let (Some(after), Effect::Update { .. } | Effect::SetDeleteOption { .. }) =
                (after, effect)
                && written_fields(before) == written_fields(after)
            {
                return Err("it changes nothing".into());
            }
        }
        if self.is_story {
            return Ok(());
        }
        let (was, is) = (before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null));
        let recent = recent_commits(write.reads, &self.operator.clock);
        if let Some(groups) = &self.groups {
            return groups.judge(write, after, &recent);
        }
        let is_free = self.is_approved(key, effect, was)
            || self.is_removal_approved(key, was, &recent)
            || self.is_content_approved(key, &recent)
            || is_drift_correction(was, is);
        let closed = |hours: DailyHours| {
            (!is_free && self.is_closed(hours)).then_some("the change window is closed")
        };
        match effect {
            Effect::Create { .. } | Effect::Update { .. } | Effect::Adopt { .. } => {
                let hub = HubState { key, before, after: is, others: &self.others(key) };
                self.git.with(|commits, _| check_wanted(commits, &recent, &hub, &closed))
            }
            Effect::Delete { .. } | Effect::SetDeleteOption { .. } | Effect::Release { .. } => {
                if is_deleting(was) || before.is_none() {
                    return Ok(());
                }
                self.judge_removal(write, was, &recent, &closed)
            }
        }
    }

    fn judge_removal(
        &self,
        write: &Write<'_>,
        was: &Value,
        recent: &[usize],
        closed: &dyn Fn(DailyHours) -> Option<&'static str>,
    ) -> Result<(), String> {
        let Write { key, effect, commit, .. } = *write;
        self.git.with(|commits, heads| {
            let head = named_commit(commits, recent, commit)?;
            if let Some(why) = closed(commits[head].content.hours) {
                return Err(why.into());
            }
            check_removal(commits, head, key, effect, was)?;
            if matches!(effect, Effect::Delete { .. }) {
                self.check_released(&commits[head].content.works, key, was)?;
                let (uid, objects) = (uid(was), &listed(was));
                self.check_budget(&Deletion { key, uid, objects, commits, heads, head, recent })?;
            }
            Ok(())
        })
    }

    /// The objects that other works of the source list on the work's cluster, in any picture of the
    /// hub that a process may plan from, and in every one.
    fn others(&self, key: &WorkKey) -> OtherObjects {
        let state = self.lock();
        let since = self.operator.clock.awake_ago(STALENESS).unwrap_or(state.start);
        let mut others = OtherObjects::default();
        let of_cluster =
            state.history.iter().filter(|(other, _)| other.cluster == key.cluster && *other != key);
        for (other, history) in of_cluster {
            let recent = history.iter().filter(|state| state.until.is_none_or(|it| it >= since));
            let recent: Vec<&WorkState> = recent.collect();
            let owned = recent.iter().flat_map(|state| state.owned_since(since));
            others.reported.extend(owned.cloned());
            let recent: Vec<&WorkState> =
                recent.into_iter().filter(|state| self.is_ours(state)).collect();
            others.possible.extend(recent.iter().flat_map(|state| state.objects.iter().cloned()));
            // No object moves to a work that is Complete.
            let is_complete = || self.hub.object(other).is_some_and(|work| is_complete(&work));
            if let [state] = recent[..]
                && state.until.is_none()
                && state.since < since
                && !is_complete()
            {
                let objects = state.objects.iter().map(|id| (other.clone(), id.clone()));
                others.certain.extend(objects);
            }
        }
        others
    }

    fn is_ours(&self, state: &WorkState) -> bool {
        state.source.as_deref() == Some(self.source.as_str())
    }

    /// Whether the change window was closed for as long as the write may have been in flight.
    fn is_closed(&self, hours: DailyHours) -> bool {
        let OperatorPolicy { hours: operators, clock, .. } = &*self.operator;
        if [*operators, hours].into_iter().all(|hours| hours == DailyHours::default()) {
            return false;
        }
        clock.recently().into_iter().all(|at| !operators.are_open(at) || !hours.are_open(at))
    }

    /// Whether an operator approved exactly this write.
    fn is_approved(&self, key: &WorkKey, effect: &Effect, was: &Value) -> bool {
        let version = effect.body().map_or_else(|| uid(was).into(), |body| body.digest.to_string());
        self.has_approval(key, version)
    }

    /// Whether an operator approved the removal of a work that Git no longer has. This covers what
    /// its objects need before, if they move to other works.
    fn is_removal_approved(&self, key: &WorkKey, was: &Value, recent: &[usize]) -> bool {
        let is_removed = self.git.with(|commits, _| {
            recent.iter().any(|commit| !commits[*commit].content.works.contains_key(key))
        });
        is_removed && self.has_approval(key, uid(was).into())
    }

    /// Whether an operator approved what Git has in the work. This covers what its moves need
    /// before.
    fn is_content_approved(&self, key: &WorkKey, recent: &[usize]) -> bool {
        if !self.lock().changes.iter().any(|target| target.key == *key) {
            return false;
        }
        self.git.with(|commits, _| {
            let works = recent.iter().filter_map(|at| commits[*at].content.works.get(key));
            works.into_iter().any(|work| {
                let (labels, annotations) = (work.labels.clone(), BTreeMap::new());
                let (spec, path) = (work.spec(), folder(key));
                let body =
                    WorkBody::new(&self.source, &path, spec, labels, annotations, work.prune);
                self.has_approval(key, body.digest.to_string())
            })
        })
    }

    fn has_approval(&self, key: &WorkKey, version: String) -> bool {
        let target = Target { key: key.clone(), uid: version };
        let state = self.lock();
        state.changes.contains(&target) || state.approved.contains(&target)
    }
}
