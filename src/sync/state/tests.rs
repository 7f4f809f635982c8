//! After any events, the plan and the status that are kept equal those from nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::facts::tests::{commit, desired, test_now};
use crate::git_history::AncestryLookup;
use crate::hub::{HubEvent, Task};
use crate::observed_hub::tests::{any_key, key};
use gitwork_core::limits;
use gitwork_core::model::name::RepoPath;
use gitwork_core::model::work::{DeletionPolicy, DesiredWork, NamedObject, WorkBody};
use gitwork_core::model::works_by_cluster::WorksByCluster;
use gitwork_core::plan::directives::{Directives, Suspension};
use gitwork_core::plan::moves::MovingWorks;
use gitwork_core::plan::observed::{AGENT_FINALIZER, WorkContent};
use gitwork_core::plan::{LastKnownState, LastKnownStates, plan, removed_candidates};
use gitwork_core::render::desired::{Desired, Frozen};

const CLUSTERS: u8 = 6;
const WORKS: u8 = 3;

/// Something that happens to a source.
#[derive(Debug, Clone)]
enum Event {
    /// A commit sets the objects of these works; none for a work that it removes.
    Commit(Vec<(WorkKey, Vec<u8>)>),
    /// A commit after which a work, a cluster or nothing is frozen or suspended.
    Freeze(Option<WorkKey>, bool),
    Suspend(Option<WorkKey>),
    /// The agent of a work reports its objects, applied or not.
    Agent(WorkKey, bool),
    /// Somebody else edits a work, takes it over, or deletes it.
    Edit(WorkKey),
    Foreign(WorkKey),
    Gone(WorkKey),
    /// The hub is listed again.
    Listed,
    /// All due effects are written; those of one cluster fail.
    Execute(u8),
    /// Time passes.
    Wait,
}

fn a_key() -> impl Strategy<Value = WorkKey> {
    any_key(CLUSTERS, WORKS)
}

fn an_event() -> impl Strategy<Value = Event> {
    let objects = proptest::collection::vec(0..4u8, 0..3);
    let works = proptest::collection::vec((a_key(), objects), 1..6);
    prop_oneof![
        4 => works.prop_map(Event::Commit),
        1 => (proptest::option::of(a_key()), any::<bool>())
            .prop_map(|(key, whole)| Event::Freeze(key, whole)),
        1 => proptest::option::of(a_key()).prop_map(Event::Suspend),
        6 => (a_key(), any::<bool>()).prop_map(|(key, applied)| Event::Agent(key, applied)),
        2 => a_key().prop_map(Event::Edit),
        1 => a_key().prop_map(Event::Foreign),
        1 => a_key().prop_map(Event::Gone),
        1 => Just(Event::Listed),
        8 => (0..CLUSTERS * 2).prop_map(Event::Execute),
        1 => Just(Event::Wait),
    ]
}

fn manifest(object: u8) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "shop", "name": format!("object-{object}")},
    })
}

fn desired_work(key: &WorkKey, objects: &[u8], version: u64) -> DesiredWork {
    let manifests: Vec<Value> = objects.iter().copied().map(manifest).collect();
    let named = NamedObject::all(manifests.iter().map(|one| (one, "configmaps")));
    let spec = json!({"workload": {"manifests": manifests}, "version": version % 2});
    let path = RepoPath::parse(&format!("clusters/{}/{}", key.cluster, key.work)).unwrap();
    let none = BTreeMap::new();
    let source = SourceId::parse("fleet").unwrap();
    DesiredWork {
        key: key.clone(),
        body: Arc::new(WorkBody::new(&source, &path, spec, none.clone(), none, true)),
        path,
        delete_option: DeletionPolicy::Foreground,
        prune: true,
        suspend: false,
        objects: named,
        depends_on: Default::default(),
        group_content: None,
        is_earlier: false,
    }
}

/// A source with its hub.
struct World {
    state: SyncState,
    desired: Desired,
    hub: BTreeMap<WorkKey, Value>,
    version: u64,
    failed_writes: BTreeMap<WorkKey, FailedWrite>,
    directives: Directives,
    status: Option<SourceStatus>,
    start: Instant,
}

impl World {
    fn new() -> Self {
        let (start, source) = (test_now(), SourceId::parse("fleet").unwrap());
        let mut state = SyncState::new(source, GuardOptions::default(), 0, start);
        state.facts_mut().set_event(HubEvent::Listed(WorksByCluster::new()));
        state.facts_mut().directives.set(Some(Directives::default()), start);
        state.set_record(None);
        let desired = desired(1);
        let mut world = Self {
            state,
            desired,
            hub: BTreeMap::new(),
            version: 0,
            failed_writes: BTreeMap::new(),
            directives: Directives::default(),
            status: None,
            start,
        };
        world.push();
        world
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_secs(self.version)
    }

    fn push(&mut self) {
        let desired = Arc::new(self.desired.clone());
        self.state.facts_mut().set_desired(&desired);
        self.state.facts_mut().directives.set(Some(self.directives.clone()), self.start);
    }

    fn changed(&mut self, key: &WorkKey) {
        self.version += 1;
        let Some(object) = self.hub.get_mut(key) else { return };
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let work = ObservedWork::from_manifest_work(object.clone()).unwrap();
        self.state.facts_mut().set_event(HubEvent::Changed(Box::new(work)));
    }

    fn commit(&mut self, works: &[(WorkKey, Vec<u8>)]) {
        for (key, objects) in works {
            self.desired.works.remove(key);
            if !objects.is_empty() && !self.desired.frozen.contains(key) {
                let work = desired_work(key, objects, self.version);
                self.desired.works.insert(key.clone(), Arc::new(work));
            }
        }
        self.push();
    }

    /// Freezes a work, its whole cluster, or nothing.
    fn freeze(&mut self, key: Option<&WorkKey>, is_cluster: bool) {
        self.desired.frozen = Frozen::default();
        if let Some(key) = key {
            let frozen = &mut self.desired.frozen;
            if is_cluster {
                frozen.clusters.insert(key.cluster.clone());
            } else {
                frozen.works.insert(key.clone());
            }
            let Desired { works, frozen, .. } = &mut self.desired;
            works.retain(|key, _| !frozen.contains(key));
        }
        self.push();
    }

    fn happens(&mut self, event: &Event) {
        // A part of a plan that other events come before.
        self.state.advance_plan(1);
        match event {
            Event::Commit(works) => self.commit(works),
            Event::Freeze(key, is_cluster) => self.freeze(key.as_ref(), *is_cluster),
            Event::Suspend(key) => {
                let one = |key: &WorkKey| (key.clone(), Arc::new(Suspension::default()));
                self.directives.suspensions.works = key.iter().map(one).collect();
                self.state.facts_mut().directives.set(Some(self.directives.clone()), self.start);
            }
            Event::Agent(key, applied) => {
                if let Some(object) = self.hub.get_mut(key) {
                    report(object, *applied);
                }
                self.changed(key);
            }
            Event::Edit(key) => {
                if let Some(object) = self.hub.get_mut(key) {
                    object["spec"]["edited"] = self.version.into();
                }
                self.changed(key);
            }
            Event::Foreign(key) => {
                if let Some(object) = self.hub.get_mut(key) {
                    object["metadata"]["labels"] = json!({"gitwork.dev/source": "other"});
                }
                self.changed(key);
            }
            Event::Gone(key) => {
                self.hub.remove(key);
                self.state.facts_mut().set_event(HubEvent::Gone(key.clone()));
            }
            Event::Listed => {
                let works = self.hub.values().cloned().map(ObservedWork::from_manifest_work);
                let works = works.map(Result::unwrap);
                let ours = works.filter(|work| work.is_ours(&self.desired.source)).collect();
                self.state.facts_mut().set_event(HubEvent::Listed(ours));
            }
            Event::Execute(fails) => self.execute(*fails),
            Event::Wait => self.version += 100,
        }
    }

    /// Writes all due effects.
    fn execute(&mut self, fails: u8) {
        let now = self.now();
        self.look_up();
        for (key, effect) in self.due() {
            let result = if key.cluster == self::key(fails, 0).cluster {
                let failed = FailedWrite { message: "no".into(), is_transient: false };
                self.failed_writes.insert(key.clone(), failed);
                Err(HubError::Unavailable { message: "no".into(), retry_after_seconds: None }
                    .into())
            } else {
                self.failed_writes.remove(&key);
                Ok(self.write(&key, &effect))
            };
            let task = Task { key, effect, commit: self.desired.commit };
            let outcome = Outcome { task, result, attempts: 1 };
            self.state.set_outcome(&outcome, now, self.version);
            self.check_status();
        }
    }

    /// The due effects of a new plan.
    fn due(&mut self) -> Vec<(WorkKey, Effect)> {
        let Some(plan) = self.pass() else { return Vec::new() };
        let due = self.state.due(&plan, self.now()).into_iter();
        due.map(|(step, effect)| (step.key.clone(), effect.clone())).collect()
    }

    /// Makes the due look-ups. Gives their works.
    fn look_up(&mut self) -> Vec<WorkKey> {
        let now = self.now();
        let due = self.state.take_lookups(now);
        for key in &due {
            let found = self.hub.get(key).cloned().map(ObservedWork::from_manifest_work);
            let found = Ok(found.transpose().unwrap());
            self.state.set_looked_up(key, found, now, self.version);
        }
        due
    }

    fn write(&mut self, key: &WorkKey, effect: &Effect) -> Option<ObservedWork> {
        self.version += 1;
        if matches!(effect, Effect::Delete { .. } | Effect::Release { .. }) {
            self.hub.remove(key);
            return None;
        }
        let before = self.hub.get(key).cloned();
        let mut object = match effect.body() {
            Some(body) => body.to_manifest_work(key, self.desired.commit),
            None => before.clone()?,
        };
        if let Effect::SetDeleteOption { delete_option, .. } = effect {
            object["spec"]["deleteOption"] = delete_option.to_value(None);
        }
        let old = |field: &str| before.as_ref().map(|before| before["metadata"][field].clone());
        let uid = old("uid").unwrap_or_else(|| format!("uid-{}", self.version).into());
        object["metadata"]["uid"] = uid;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let generation = old("generation").and_then(|one| one.as_i64()).unwrap_or_default();
        object["metadata"]["generation"] = (generation + 1).into();
        object["metadata"]["finalizers"] = old("finalizers").unwrap_or_else(|| json!([]));
        object["status"] = before.map(|before| before["status"].clone()).unwrap_or_default();
        self.hub.insert(key.clone(), object.clone());
        Some(ObservedWork::from_manifest_work(object).unwrap())
    }

    /// All that comes before a plan, and the plan, which equals the one from nothing.
    fn pass(&mut self) -> Option<Arc<Plan>> {
        let now = self.now();
        let facts = self.state.facts_mut();
        if !facts.record.is_known() {
            self.state.set_record(None);
        }
        let facts = self.state.facts_mut();
        if let AncestryLookup::Due(commits) = facts.ancestry_lookup(now) {
            let head = self.desired.commit.unwrap();
            facts.history.set_ancestry(head, &commits, &BTreeSet::new());
        }
        let removed = facts.removals_to_look_up(now);
        let known = |key: &WorkKey| LastKnownState {
            removed_by: Some(commit(2)),
            delete_option: DeletionPolicy::Foreground,
            prune: key.work != self::key(0, 1).work,
            budgets: None,
            added_since: None,
            depends_on: Default::default(),
        };
        let works = removed.iter().map(|(key, _)| (key.clone(), known(key))).collect();
        let found = LastKnownStates { works, ..LastKnownStates::default() };
        facts.history.set_last_known(&removed, found);
        let unread = facts.contents_to_read(now);
        let content =
            |key: &WorkKey| self.hub.get(key).cloned().map(WorkContent::from_manifest_work);
        let read = unread.into_iter().map(|key| (key.clone(), Ok(content(&key)))).collect();
        facts.set_contents(read, now);
        self.state.set_time(Timestamp::UNIX_EPOCH, &|_| None);
        self.state.update_contentions(now);
        self.check_reads();
        if self.version.is_multiple_of(2) {
            while !self.state.advance_plan(2) {}
        }
        let made = self.state.plan(now)?;
        assert_eq!(*made, self.plan_from_nothing(), "the plan");
        Some(made)
    }

    fn check_reads(&self) {
        let observed = self.state.facts.hub.observed().unwrap();
        let desired = self.state.facts.desired().unwrap();
        let revisions = self.state.facts.revisions();
        let mut to_read = self.state.facts.to_read().clone();
        to_read.update(desired, observed, revisions);
        assert!(to_read.removed().eq(&removed_candidates(desired, observed)));
        assert_eq!(to_read.moving(), MovingWorks::of(desired, observed));
    }

    fn plan_from_nothing(&self) -> Plan {
        let inputs = self.state.facts.inputs(self.state.guards.policy()).unwrap();
        plan(inputs.desired, inputs.observed, inputs.last_known, inputs.policy)
    }

    /// The status equals the one from nothing.
    fn check_status(&mut self) {
        let at = Timestamp::from_second(1_000_000 + self.version as i64).unwrap();
        let unreachable = BTreeSet::from([key(1, 0).cluster]);
        self.state.advance_status(&self.failed_writes, &unreachable, at, 1);
        let Some(status) = self.state.status(&self.failed_writes, &unreachable, at) else { return };
        let inputs = self.state.facts.inputs(self.state.guards.policy()).unwrap();
        let inputs = StatusInputs {
            desired: inputs.desired,
            observed: inputs.observed,
            plan: &self.plan_from_nothing(),
            contentions: &inputs.policy.contentions,
            record_generation: 0,
            failed_writes: &self.failed_writes,
            unreachable: &unreachable,
            rollouts: &[],
            now: at,
        };
        assert_eq!(status, SourceStatus::of(&inputs, self.status.as_ref()), "the status");
        self.status = Some(status);
    }
}

/// The agent reports each object of the present generation.
fn report(object: &mut Value, applied: bool) {
    let generation = object["metadata"]["generation"].clone();
    let condition = json!({
        "type": "Applied", "status": if applied { "True" } else { "False" }, "reason": "R",
        "message": "M", "observedGeneration": generation,
    });
    let manifests = object.pointer("/spec/workload/manifests").and_then(Value::as_array);
    let report = |(ordinal, manifest): (usize, &Value)| {
        json!({
            "resourceMeta": {
                "ordinal": ordinal, "group": "", "version": "v1", "kind": "ConfigMap",
                "resource": "configmaps", "namespace": "shop", "name": manifest["metadata"]["name"],
            },
            "conditions": [condition],
        })
    };
    let reports: Vec<Value> = manifests.into_iter().flatten().enumerate().map(report).collect();
    object["status"] = json!({"conditions": [condition], "resourceStatus": {"manifests": reports}});
    object["metadata"]["finalizers"] = json!([AGENT_FINALIZER]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn kept_plan_and_status_equal_those_from_nothing(
        events in proptest::collection::vec(an_event(), 1..40),
    ) {
        let mut world = World::new();
        for event in &events {
            world.happens(event);
            world.check_status();
            world.pass();
            world.check_status();
        }
    }
}

const FROM: (u8, u8) = (0, 0);
const TO: (u8, u8) = (0, 1);

/// An object has moved from one work to another, which has applied it. The first one still has it.
fn moved() -> World {
    let mut world = World::new();
    let [from, to] = [FROM, TO].map(|(cluster, work)| key(cluster, work));
    world.commit(&[(from.clone(), vec![0, 1])]);
    world.execute(CLUSTERS);
    world.happens(&Event::Agent(from.clone(), true));
    world.commit(&[(from.clone(), vec![1]), (to.clone(), vec![0])]);
    world.execute(CLUSTERS);
    world.happens(&Event::Agent(from, true));
    world.happens(&Event::Agent(to, true));
    world
}

impl World {
    fn begin_term(&mut self) {
        let now = self.now();
        self.state.facts_mut().begin_term(now);
        self.state.facts_mut().directives.set(Some(self.directives.clone()), now);
    }

    /// The response to a write is lost.
    fn lose_response(&mut self, key: WorkKey, effect: Effect) {
        let error = HubError::Unavailable { message: "no".into(), retry_after_seconds: None };
        let task = Task { key, effect, commit: None };
        let outcome = Outcome { task, result: Err(error.into()), attempts: 1 };
        self.state.set_outcome(&outcome, self.now(), 0);
    }

    /// The works with a due effect.
    fn due_works(&mut self) -> Vec<WorkKey> {
        self.due().into_iter().map(|(key, _)| key).collect()
    }
}

#[test]
fn object_leaves_its_work_after_its_new_work_is_read_in_this_term() {
    let mut world = moved();
    world.begin_term();
    let begin = world.now();
    let [from, to] = [FROM, TO].map(|(cluster, work)| key(cluster, work));
    assert_eq!(world.due_works(), []);
    assert_eq!(world.state.next_due(), Some(begin + limits::LATE_WRITE));
    world.version += limits::LATE_WRITE.as_secs() - 1;
    assert_eq!((world.look_up(), world.due_works()), (vec![], vec![]));
    // A look-up with another cause is too early.
    world.state.retries.look_up(&to);
    assert_eq!((world.look_up(), world.due_works()), (vec![to.clone()], vec![]));
    world.version += 1;
    assert_eq!((world.look_up(), world.due_works()), (vec![to.clone()], vec![from.clone()]));

    // A list may be older than the look-up.
    world.happens(&Event::Listed);
    assert_eq!(world.due_works(), []);
    assert_eq!((world.look_up(), world.due_works()), (vec![to], vec![from.clone()]));
    world.execute(CLUSTERS);
    assert_eq!(world.due_works(), []);
    let manifests = &world.hub[&from]["spec"]["workload"]["manifests"];
    assert_eq!(manifests, &json!([manifest(1)]));
}

/// A request of a former leader arrives after the list, and the watch has not shown it yet.
#[test]
fn object_stays_in_its_work_if_a_late_write_took_it_from_the_new_one() {
    let mut world = moved();
    world.begin_term();
    let to = key(TO.0, TO.1);
    assert_eq!(world.due_works(), []);
    world.version += 1;
    let object = world.hub.get_mut(&to).unwrap();
    object["spec"]["workload"]["manifests"] = json!([manifest(3)]);
    object["metadata"]["resourceVersion"] = world.version.to_string().into();
    object["metadata"]["generation"] = 9.into();
    world.version += limits::LATE_WRITE.as_secs();
    assert_eq!((world.look_up(), world.due_works()), (vec![to.clone()], vec![to]));
}

/// The response to a write of the new work is lost, so the hub may have done it.
#[test]
fn new_work_is_read_again_after_a_write_of_it_fails() {
    let mut world = moved();
    let [from, to] = [FROM, TO].map(|(cluster, work)| key(cluster, work));
    assert_eq!(world.due_works(), []);
    assert_eq!((world.look_up(), world.due_works()), (vec![to.clone()], vec![from.clone()]));
    world.commit(&[(to.clone(), vec![0, 2])]);
    let (key, effect) = world.due().into_iter().find(|(key, _)| *key == to).unwrap();
    world.lose_response(key, effect);
    assert!(!world.due_works().contains(&from));
    assert_eq!(world.look_up(), [to]);
    assert!(world.due_works().contains(&from));
}

#[test]
fn end_of_a_backoff_does_not_wake_the_loop_while_a_write_waits_for_a_look_up() {
    let mut world = moved();
    world.due();
    world.look_up();
    let (key, effect) = world.due().pop().unwrap();
    world.lose_response(key, effect);
    world.begin_term();
    let begin = world.now();
    world.version += limits::LATE_WRITE.as_secs() - 1;
    assert_eq!(world.due_works(), []);
    assert_eq!(world.state.next_due(), Some(begin + limits::LATE_WRITE));
}

/// Nothing polls and nothing is put off: the event itself asks for the plan that writes the work.
#[test]
fn work_is_due_at_the_event_that_makes_its_dependency_available() {
    let mut world = World::new();
    let [base, app] = [0, 1].map(|work| key(0, work));
    world.commit(&[(base.clone(), vec![0]), (app.clone(), vec![1])]);
    let dependent = Arc::make_mut(world.desired.works.get_mut(&app).unwrap());
    dependent.depends_on = [base.clone()].into();
    world.push();
    world.execute(CLUSTERS);
    assert_eq!(world.due_works(), []);
    assert_eq!(world.hub.keys().collect::<Vec<_>>(), [&base]);
    assert!(!world.state.wants_plan(world.now()));

    let generation = world.hub[&base]["metadata"]["generation"].clone();
    let conditions = ["Applied", "Available"]
        .map(|kind| json!({"type": kind, "status": "True", "observedGeneration": generation}));
    world.hub.get_mut(&base).unwrap()["status"] = json!({"conditions": conditions});
    world.changed(&base);
    assert!(world.state.wants_plan(world.now()));
    assert_eq!(world.due_works(), [app]);
}
