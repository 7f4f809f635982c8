//! The real program is killed at any write, and its hub, Git server and forge fail at any request:
//! the end is that of an undisturbed run.
//!
//! `cargo test` runs a spread in which every write is killed before and after, and every request
//! meets a fault. `GITWORK_EVERY_FAULT=1` runs every fault at every request, on a machine that is
//! kept and on new ones.

mod fleet;
mod scenario;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use kube::Config;
use tokio::sync::OnceCell;

use crate::deploy;
use crate::harness::fault_proxy::{Fault, Target};
use scenario::{Story, tell};
use world::{Machine, World};

/// More stories at a time would wait for each other: each has a process that starts again and
/// again.
const AT_A_TIME: usize = 12;

/// So many runs share the kills before a write, as many those after one, and the other faults.
const RUNS: usize = 6;

/// How often a request with one name is met: those that are repeated for ever are alike.
const NUMBERS_MAX: usize = 4;

/// Events are written for people, each but once and none of them for certain: their first one is
/// met.
fn is_event(target: &Target) -> bool {
    target.name.starts_with("POST event")
}

fn is_git(target: &Target) -> bool {
    target.name.starts_with("git ")
}

fn is_forge(target: &Target) -> bool {
    target.name.starts_with("POST commit status")
}

fn is_write(target: &Target) -> bool {
    let reads = ["GET ", "LIST ", "WATCH ", "git upload-pack", "git receive-pack refs"];
    !reads.iter().any(|read| target.name.starts_with(read))
}

/// The faults that a server of this kind has.
fn faults_of(target: &Target) -> Vec<Fault> {
    let answer = |code| Fault::Answer { code, retry_after_seconds: None };
    let slow = Fault::Answer { code: 429, retry_after_seconds: Some(1) };
    let broken = [Fault::Close, Fault::LoseAnswer, Fault::HalfAnswer];
    let failing = [answer(500), answer(503), answer(504)];
    if is_forge(target) {
        // What a forge does not like waits for minutes by design, and the works do not depend on
        // it.
        return [&broken[..], &failing[..1]].concat();
    }
    if is_git(target) {
        return [&broken[..], &failing[..]].concat();
    }
    let is_list = target.name.starts_with("LIST") || target.name.starts_with("WATCH");
    let refused = answer(if is_list { 410 } else { 409 });
    [&broken[..], &failing[..], &[slow, Fault::Stall, refused]].concat()
}

/// What a run was, and what came of it.
struct Run {
    faults: BTreeMap<Target, Fault>,
    machine: Machine,
    story: Story,
    left: BTreeMap<Target, Fault>,
}

/// Runs the scenario with these faults. It continues while the program is down.
async fn run(
    faults: BTreeMap<Target, Fault>,
    machine: Machine,
    rights: &Config,
    expected: Option<&str>,
) -> Run {
    let world = World::new(machine, rights).await;
    world.proxy.set_faults(faults.clone());
    let story = tokio::select! {
        story = tell(&world, expected) => story,
        () = world.revive() => unreachable!("the proxy outlives the story"),
    };
    let left = world.proxy.faults_left();
    Run { faults, machine, story, left }
}

async fn run_all(
    expected: &str,
    rights: &Config,
    plans: Vec<(BTreeMap<Target, Fault>, Machine)>,
) -> Vec<Run> {
    let runs = plans
        .into_iter()
        .map(|(faults, machine)| async move { run(faults, machine, rights, Some(expected)).await });
    let runs: Vec<Run> = futures::stream::iter(runs).buffer_unordered(AT_A_TIME).collect().await;
    let wrong: Vec<String> = runs.iter().filter_map(|run| run.difference(expected)).collect();
    assert!(wrong.is_empty(), "{} of {} runs:\n{}", wrong.len(), runs.len(), wrong.join("\n"));
    runs
}

impl Run {
    /// How the end differs from that of an undisturbed run.
    fn difference(&self, expected: &str) -> Option<String> {
        let Self { faults, machine, story, left } = self;
        let text = similar::TextDiff::from_lines(expected, &story.end);
        (story.end != expected).then(|| {
            format!(
                "{machine:?} {faults:?}, of which were not met: {left:?}\n{}",
                text.unified_diff()
            )
        })
    }

    fn kills(&self) -> usize {
        let met =
            |(target, fault): &(&Target, &Fault)| fault.kills() && !self.left.contains_key(target);
        self.faults.iter().filter(met).count()
    }
}

/// An undisturbed run: its end, and the requests that are worth meeting, in their order.
async fn undisturbed(rights: &Config) -> &'static (String, Vec<Target>) {
    static ONCE: OnceCell<(String, Vec<Target>)> = OnceCell::const_new();
    ONCE.get_or_init(|| tell_undisturbed(rights)).await
}

async fn tell_undisturbed(rights: &Config) -> (String, Vec<Target>) {
    let Run { story, .. } = run(BTreeMap::new(), Machine::Same, rights, None).await;
    assert_eq!(story.starts, 1);
    let mut targets: Vec<Target> = story.calls.into_iter().map(|call| call.target).collect();
    targets.retain(|target| target.number <= if is_event(target) { 1 } else { NUMBERS_MAX });
    (story.end, targets)
}

/// Whether every fault is to meet every request.
fn is_every() -> bool {
    std::env::var("GITWORK_EVERY_FAULT").is_ok_and(|value| value == "1")
}

/// Deals pairs out to so many runs: neighbours in time go to different ones.
fn deal(pairs: Vec<(Target, Fault)>, runs: usize) -> Vec<BTreeMap<Target, Fault>> {
    let mut dealt = vec![BTreeMap::new(); runs];
    for (index, (target, fault)) in pairs.into_iter().enumerate() {
        // One request has one fault in a run.
        let mut free = (0..runs).map(|more| (index + more) % runs);
        let run = free.find(|run| !dealt[*run].contains_key(&target)).unwrap();
        dealt[run].insert(target, fault);
    }
    dealt
}

/// No run is without faults, and all that surely comes was met.
fn check_met(runs: &[Run], wanted: &[Target]) {
    let met = runs
        .iter()
        .flat_map(|run| run.faults.keys().filter(|target| !run.left.contains_key(target)).cloned());
    let met: BTreeSet<Target> = met.collect();
    // The number of hub requests, fetches and status writes depends on time; that they happen does
    // not.
    let names: BTreeSet<&str> = met.iter().map(|target| target.name.as_str()).collect();
    for target in wanted.iter().filter(|target| !is_event(target) && !is_forge(target)) {
        assert!(names.contains(target.name.as_str()), "nothing befell any {}", target.name);
        let is_certain = target.name.contains(" work ") || target.name.ends_with(" record");
        if is_write(target) && is_certain && target.name != "POST work a/taken" {
            assert!(met.contains(target), "nothing befell {target:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_killed_at_any_write_reaches_the_same_end_state() {
    let rights = deploy::installed().await;
    let (expected, targets) = undisturbed(&rights).await;
    insta::assert_snapshot!("the_end", expected);
    let targets: Vec<Target> = targets.iter().filter(|target| is_write(target)).cloned().collect();
    assert!(targets.len() >= 40, "{targets:?}");
    let mut plans = Vec::new();
    for kill in [Fault::KillBefore, Fault::KillAfter] {
        let pairs: Vec<(Target, Fault)> =
            targets.iter().map(|target| (target.clone(), kill)).collect();
        if is_every() {
            let singly = deal(pairs.clone(), pairs.len());
            plans.extend(singly.iter().cloned().map(|faults| (faults, Machine::Same)));
            plans.extend(singly.into_iter().map(|faults| (faults, Machine::New)));
        } else {
            let machines = [Machine::Same, Machine::New].into_iter().cycle();
            plans.extend(deal(pairs, RUNS).into_iter().zip(machines));
        }
    }
    let runs = run_all(expected, &rights, plans).await;
    check_met(&runs, &targets);
    for run in &runs {
        // Two writes that are held at the same time die together.
        let (starts, kills) = (run.story.starts, run.kills());
        assert!(starts > 1 && starts <= kills + 1, "{starts} starts for {kills} kills");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_at_any_daemon_request_does_not_change_the_end_state() {
    let rights = deploy::installed().await;
    let (expected, targets) = undisturbed(&rights).await;
    let plans = if is_every() {
        let pairs = |target: &Target| {
            let target = target.clone();
            faults_of(&target).into_iter().map(move |fault| (target.clone(), fault))
        };
        let pairs: Vec<(Target, Fault)> = targets.iter().flat_map(pairs).collect();
        let runs = pairs.len() / 6;
        deal(pairs, runs)
    } else {
        let one = |(index, target): (usize, &Target)| {
            let faults = faults_of(target);
            (target.clone(), faults[index % faults.len()])
        };
        deal(targets.iter().enumerate().map(one).collect(), RUNS)
    };
    let plans = plans.into_iter().map(|faults| (faults, Machine::Same)).collect();
    let runs = run_all(expected, &rights, plans).await;
    check_met(&runs, targets);
    assert!(runs.iter().all(|run| run.story.starts == 1), "no fault ends the program");
}
