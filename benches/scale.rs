//! Measures what planning and status of one source cost at 1,000, 10,000 and 100,000 works, what a
//! group of 1,000 clusters costs with rendering, and what a million works over ten hubs cost, in
//! the pure core: without a network, a hub or a Git repository. `docs/scaling.md` has the results.
//!
//! Each size runs in a process of its own, for its memory. Each figure is the shortest of several
//! rounds, because other programs on the machine only ever add time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark fails by panicking, prints its results, and is no part of the core"
)]
#![allow(clippy::disallowed_types, reason = "each size runs in a process of its own")]

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gitwork_core::config::source_rules::SourceRules;
use gitwork_core::model::approval::Approvals;
use gitwork_core::model::name::{
    ClusterName, CommitId, ObjectId, RepoPath, SourceId, WorkKey, WorkName,
};
use gitwork_core::model::work::{DeletionPolicy, DesiredWork, NamedObject, WorkBody};
use gitwork_core::model::works_by_cluster::WorksByCluster;
use gitwork_core::plan::DesiredChange;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::render::desired::{Desired, Frozen, Suspended};
use gitwork_report::status::source::SourceStatus;
use gitwork_sync::git_history::AncestryLookup;
use gitwork_sync::guards::GuardOptions;
use gitwork_sync::hub::{HubEvent, Outcome, Task};
use gitwork_sync::state::SyncState;
use jiff::Timestamp;
use serde_json::{Value, json};

#[path = "scale/groups.rs"]
mod groups;
#[path = "scale/hubs.rs"]
mod hubs;
#[allow(dead_code, reason = "a benchmark does not use every function")]
#[path = "../tests/simulation/memory_repository.rs"]
mod memory_repository;
#[path = "scale/rollouts.rs"]
mod rollouts;

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const WORKS_PER_CLUSTER: usize = 100;
const ROUNDS: usize = 9;
/// As the daemon plans at once.
const WORKS_AT_ONCE: usize = 5_000;
/// The number of works, in the environment of the process that measures one size.
const WORKS: &str = "GITWORK_SCALE_WORKS";
/// Set in the environment of the process that measures a group.
const GROUPS: &str = "GITWORK_SCALE_GROUPS";
/// Set in the environment of the process that measures ten hubs.
const HUBS: &str = "GITWORK_SCALE_HUBS";

fn main() {
    if let Ok(works) = std::env::var(WORKS) {
        return measure(works.parse().unwrap());
    }
    if std::env::var_os(GROUPS).is_some() {
        groups::measure();
        return rollouts::measure();
    }
    if std::env::var_os(HUBS).is_some() {
        return hubs::measure();
    }
    let program = std::env::current_exe().unwrap();
    let results = SIZES.map(|works| {
        let output = Command::new(&program).env(WORKS, works.to_string()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    });
    println!("| what | 1,000 | 10,000 | 100,000 | growth |\n|---|---|---|---|---|");
    for ((small, middle), large) in
        results[0].lines().zip(results[1].lines()).zip(results[2].lines())
    {
        let value = |line: &str| line.rsplit_once('\t').unwrap().1.parse::<f64>().unwrap();
        let (name, values) = (small.split('\t').next().unwrap(), [small, middle, large].map(value));
        let [a, b, c] = values.map(|value| format!("{value:.3}"));
        println!("| {name} | {a} | {b} | {c} | x{:.0} |", values[2] / values[0].max(0.001));
    }
    for part in [GROUPS, HUBS] {
        let output = Command::new(&program).env(part, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        println!("\n| what | |\n|---|---|");
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let (name, value) = line.rsplit_once('\t').unwrap();
            println!("| {name} | {:.1} |", value.parse::<f64>().unwrap());
        }
    }
}

/// Prints one figure, in milliseconds or MiB.
fn print(what: &str, value: f64) {
    println!("{what}\t{value}");
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// The shortest time of several rounds. `round`: prepares one, and gives what to measure.
fn shortest<T>(mut round: impl FnMut(usize) -> T, mut run: impl FnMut(T)) -> f64 {
    let times = (0..ROUNDS).map(|number| {
        let prepared = round(number);
        let began = Instant::now();
        run(prepared);
        began.elapsed()
    });
    milliseconds(times.min().unwrap())
}

/// The memory of this process, in MiB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1_024.0
}

fn source() -> SourceId {
    SourceId::parse("bench").unwrap()
}

fn commit(number: u8) -> CommitId {
    ObjectId([number; 20])
}

fn key(number: usize) -> WorkKey {
    let (cluster, work) = (number / WORKS_PER_CLUSTER, number % WORKS_PER_CLUSTER);
    WorkKey {
        cluster: ClusterName::parse(&format!("edge-{cluster:04}")).unwrap(),
        work: WorkName::parse(&format!("work-{work:03}")).unwrap(),
    }
}

fn desired_work(number: usize, text: &str) -> DesiredWork {
    let key = key(number);
    let path = RepoPath::parse(&format!("clusters/{}/{}", key.cluster, key.work)).unwrap();
    let manifest = |part: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": format!("{}-{part}", key.work), "namespace": "default" },
            "data": { "text": text },
        })
    };
    let manifests = [manifest(0), manifest(1), manifest(2)];
    let objects = NamedObject::all(manifests.iter().map(|one| (one, "configmaps")));
    let spec = json!({ "workload": { "manifests": manifests } });
    let body = WorkBody::new(&source(), &path, spec, BTreeMap::new(), BTreeMap::new(), true);
    DesiredWork {
        key,
        path,
        body: Arc::new(body),
        delete_option: DeletionPolicy::Foreground,
        prune: true,
        suspend: false,
        objects,
        depends_on: Arc::default(),
        group_content: None,
        is_earlier: false,
    }
}

fn desired(works: usize) -> Desired {
    desired_of(0..works)
}

/// What Git wants, with the works of these numbers.
fn desired_of(works: std::ops::Range<usize>) -> Desired {
    let works = works.map(|number| desired_work(number, "first"));
    Desired {
        delivered: BTreeMap::new(),
        source: source(),
        commit: Some(commit(1)),
        works: works.map(|work| (work.key.clone(), Arc::new(work))).collect(),
        frozen: Frozen::default(),
        rules: SourceRules::default(),
        approved: Approvals::default(),
        suspended: Suspended::default(),
        needed_facts: None,
        rollouts: BTreeMap::new(),
        later: BTreeMap::new(),
        facts: None,
        diagnostics: Vec::new(),
    }
}

/// The work as the hub has it after the write of its content, with the status of an agent.
fn observed(work: &DesiredWork, version: usize, message: &str) -> ObservedWork {
    let mut object = work.body.to_manifest_work(&work.key, Some(commit(1)));
    object["metadata"]["uid"] = format!("00000000-0000-4000-8000-{:.36}", work.key.cluster).into();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    object["metadata"]["generation"] = 1.into();
    object["status"] = status(message);
    ObservedWork::from_manifest_work(object).unwrap()
}

fn status(message: &str) -> Value {
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "AppliedManifestWorkComplete",
            "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": 1,
        })
    };
    json!({ "conditions": [condition("Applied"), condition("Available")] })
}

/// One source between passes, as the daemon has it.
struct World {
    state: SyncState,
    desired: Arc<Desired>,
    status: Option<Arc<SourceStatus>>,
    begin: Instant,
}

impl World {
    fn new(desired: Desired) -> Self {
        let begin = Instant::now();
        let desired = Arc::new(desired);
        let mut state = SyncState::new(source(), GuardOptions::default(), 0, begin);
        state.facts_mut().set_desired(&desired);
        state.facts_mut().set_event(HubEvent::Listed(Default::default()));
        state.facts_mut().directives.set(Some(Directives::default()), begin);
        state.set_record(None);
        Self { state, desired, status: None, begin }
    }

    /// All that the daemon does for a pass, up to the tasks. Gives the number of due effects.
    fn pass(&mut self) -> usize {
        let (state, now) = (&mut self.state, self.begin);
        if let AncestryLookup::Due(commits) = state.facts_mut().ancestry_lookup(now) {
            let head = self.desired.commit.unwrap();
            state.facts_mut().history.set_ancestry(head, &commits, &BTreeSet::new());
        }
        assert!(state.facts_mut().removals_to_look_up(now).is_empty());
        assert!(state.facts_mut().contents_to_read(now).is_empty());
        state.set_time(Timestamp::UNIX_EPOCH, &|_| None);
        state.update_contentions(now);
        let plan = state.plan(now).unwrap();
        black_box(state.record_to_write(&plan));
        state.due(&plan, now).len()
    }

    /// One step of a plan, as the daemon makes it; with the last one all that it does for a pass.
    /// Gives whether it was the last one.
    fn plan_step(&mut self, due: usize) -> bool {
        let is_ready = self.state.advance_plan(WORKS_AT_ONCE);
        if is_ready {
            assert_eq!(self.pass(), due);
        }
        is_ready
    }

    fn publish(&mut self) {
        let at = Timestamp::UNIX_EPOCH;
        let status = self.state.status(&BTreeMap::new(), &BTreeSet::new(), at).unwrap();
        if self.status.as_deref() != Some(&status) {
            self.status = Some(Arc::new(status));
        }
    }

    fn change(&mut self, work: ObservedWork) {
        self.state.facts_mut().set_event(HubEvent::Changed(Box::new(work)));
    }

    /// The next commit, which changes one work.
    fn commit(&mut self, number: usize, text: &str) {
        let mut next = (*self.desired).clone();
        let work = desired_work(number, text);
        next.works.insert(work.key.clone(), Arc::new(work));
        self.desired = Arc::new(next);
    }

    /// The outcome of the write that the plan has for a work.
    fn outcome(&mut self, number: usize, version: usize) -> Outcome {
        let plan = self.state.plan(self.begin).unwrap();
        let key = key(number);
        let (_, effect) = plan.effects().find(|(step, _)| step.key == key).unwrap();
        let task = Task { key: key.clone(), effect: effect.clone(), commit: self.desired.commit };
        let stored = observed(&self.desired.works[&key], version, "stored");
        Outcome { task, result: Ok(Some(stored)), attempts: 1 }
    }
}

/// The number of a work that differs from round to round.
fn some_work(round: usize, works: usize) -> usize {
    (round * 7_919 + 31) % works
}

/// Prints what one size costs, one figure in each line.
fn measure(works: usize) {
    let mut world = World::new(desired(works));
    let before = memory();
    let began = Instant::now();
    let (step, longest) = longest_step("the longest step of it: ms", || world.plan_step(works));
    print("first plan, all to create: ms", milliseconds(began.elapsed()));
    print(step, longest);
    let listed = world.desired.works.values().map(|work| observed(work, 1, "first")).collect();
    world.state.facts_mut().set_event(HubEvent::Listed(listed));
    world.state.set_record(None);
    assert_eq!(world.pass(), 0);
    let began = Instant::now();
    world.publish();
    print("first status: ms", milliseconds(began.elapsed()));
    measure_events(&mut world, works);
    measure_passes(&mut world, works);
    print("memory of hub, plan and status: MiB", memory() - before);
    measure_relist(&mut world);
}

/// Events of the hub, each with the status that follows from it.
fn measure_events(world: &mut World, works: usize) {
    let desired = Arc::clone(&world.desired);
    let event = |round: usize| {
        let work = &desired.works[&key(some_work(round, works))];
        observed(work, 10 + round, &format!("event {round}"))
    };
    let time = shortest(event, |work| {
        world.change(work);
        world.publish();
    });
    print("one status event of an agent, with the status: ms", time);
    let time = shortest(event, |work| {
        world.change(work);
        black_box(world.state.next_due());
    });
    print("one status event of an agent, when nothing is published: ms", time);
}

/// A list after a broken watch, with all that follows from it, in the steps that the daemon makes.
fn measure_relist(world: &mut World) {
    let desired = Arc::clone(&world.desired);
    let list = || -> WorksByCluster<ObservedWork> {
        desired.works.values().map(|work| observed(work, 1_000, "relisted")).collect()
    };
    let mut least: BTreeMap<&str, f64> = BTreeMap::new();
    for _ in 0..ROUNDS {
        // It holds the works before to the end of the round: the daemon drops them elsewhere.
        let mut recording = world.state.facts_mut().begin_list(list());
        let steps = [
            longest_step("the longest step of a list after a broken watch: ms", || {
                world.state.facts_mut().advance_list(&mut recording, WORKS_AT_ONCE)
            }),
            longest_step("the longest step of the plan after it: ms", || {
                world.state.set_record(None);
                world.plan_step(0)
            }),
            longest_step("the longest step of the status after it: ms", || {
                let (at, failed, away) = (Timestamp::UNIX_EPOCH, BTreeMap::new(), BTreeSet::new());
                let is_ready = world.state.advance_status(&failed, &away, at, WORKS_AT_ONCE);
                if is_ready {
                    world.publish();
                }
                is_ready
            }),
        ];
        for (name, time) in steps {
            let known = least.entry(name).or_insert(time);
            *known = known.min(time);
        }
    }
    least.into_iter().for_each(|(name, time)| print(name, time));
}

/// Repeats a step until it says that it is the last one, and gives the time of the longest.
fn longest_step(name: &str, mut step: impl FnMut() -> bool) -> (&str, f64) {
    let mut longest = Duration::ZERO;
    loop {
        let began = Instant::now();
        let is_last = step();
        longest = longest.max(began.elapsed());
        if is_last {
            return (name, milliseconds(longest));
        }
    }
}

/// Passes, each after the change of one work or of none.
fn measure_passes(world: &mut World, works: usize) {
    let mut round = 0;
    let time = shortest(
        |_| (),
        |()| {
            world.state.facts_mut().mark_changed();
            assert_eq!(world.pass(), 0);
        },
    );
    print("one pass without news: ms", time);
    let (mut compared, mut planned, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        round += 1;
        let number = some_work(round, works);
        let before = Arc::clone(&world.desired);
        world.commit(number, &format!("commit {round}"));
        let desired = Arc::clone(&world.desired);
        let began = Instant::now();
        let change = DesiredChange::between(&before, &desired);
        compared.push(began.elapsed());
        let began = Instant::now();
        let replaced = world.state.facts_mut().replace_desired(&desired, Some(&change));
        world.state.facts_mut().directives.set(Some(Directives::default()), world.begin);
        assert_eq!(world.pass(), 1);
        world.publish();
        planned.push(began.elapsed());
        // The daemon drops it on another thread.
        drop((replaced, before));
        let outcome = world.outcome(number, 100 + round);
        let began = Instant::now();
        world.state.set_outcome(&outcome, world.begin, 0);
        world.publish();
        written.push(began.elapsed());
    }
    let least = |times: Vec<Duration>| milliseconds(times.into_iter().min().unwrap());
    print("the same commit, compared with the last one before that: ms", least(compared));
    print("one commit that changes one work, plan and status: ms", least(planned));
    print("the response to its write, with the status: ms", least(written));
}
