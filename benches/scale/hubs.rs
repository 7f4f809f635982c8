//! A million works over ten hubs: ten sources of 100,000 works, each with the planner and the
//! status of a daemon of its own, one after the other in one process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gitwork_core::plan::DesiredChange;
use gitwork_core::plan::directives::Directives;
use gitwork_sync::hub::HubEvent;

use super::{World, desired_of, key, memory, milliseconds, observed, print};

const HUBS: usize = 10;
const WORKS: usize = 100_000;
const COMMITS: usize = 10;
const EVENTS: usize = 10_000;

/// The works of a hub.
fn works_of(hub: usize) -> std::ops::Range<usize> {
    hub * WORKS..(hub + 1) * WORKS
}

/// The number of a work of a hub, which differs from round to round.
fn some_work(hub: usize, round: usize) -> usize {
    hub * WORKS + (round * 7_919 + 31) % WORKS
}

/// Prints what ten hubs cost, one figure in each line.
pub fn measure() {
    let before = memory();
    let (mut hubs, mut first) = (Vec::new(), Vec::new());
    for hub in 0..HUBS {
        let mut world = World::new(desired_of(works_of(hub)));
        let began = Instant::now();
        assert_eq!(world.pass(), WORKS);
        let listed = world.desired.works.values().map(|work| observed(work, 1, "first")).collect();
        world.state.facts_mut().set_event(HubEvent::Listed(listed));
        world.state.set_record(None);
        assert_eq!(world.pass(), 0);
        world.publish();
        first.push(began.elapsed());
        hubs.push(world);
    }
    let works: usize = hubs.iter().map(|world| world.status.as_ref().unwrap().works.len()).sum();
    assert_eq!(works, HUBS * WORKS);
    print("ten hubs: works", works as f64);
    print("ten hubs: first plan, list and status of one, at most: ms", longest(first));
    print("ten hubs: memory with what Git wants, for each work: bytes", {
        (memory() - before) * 1_048_576.0 / works as f64
    });
    print("ten hubs: memory with what Git wants: MiB", memory() - before);
    passes(&mut hubs);
    commits(&mut hubs);
    events(&mut hubs);
}

fn longest(times: Vec<Duration>) -> f64 {
    milliseconds(times.into_iter().max().unwrap())
}

fn passes(hubs: &mut [World]) {
    let of_all = hubs.iter_mut().map(|world| {
        world.state.facts_mut().mark_changed();
        let began = Instant::now();
        assert_eq!(world.pass(), 0);
        began.elapsed()
    });
    print("ten hubs: one pass without news on one, at most: ms", longest(of_all.collect()));
}

/// Commits that change one work on each hub, up to the response to its write.
fn commits(hubs: &mut [World]) {
    let mut times = Vec::new();
    for round in 0..COMMITS {
        for (hub, world) in hubs.iter_mut().enumerate() {
            let (number, before) = (some_work(hub, round), Arc::clone(&world.desired));
            world.commit(number, &format!("commit {round}"));
            let desired = Arc::clone(&world.desired);
            let began = Instant::now();
            let change = DesiredChange::between(&before, &desired);
            let replaced = world.state.facts_mut().replace_desired(&desired, Some(&change));
            world.state.facts_mut().directives.set(Some(Directives::default()), world.begin);
            assert_eq!(world.pass(), 1);
            let outcome = world.outcome(number, 100 + round);
            world.state.set_outcome(&outcome, world.begin, 0);
            world.publish();
            times.push(began.elapsed());
            drop((replaced, before));
            assert_eq!(world.pass(), 0);
        }
    }
    print("ten hubs: one commit on one, from comparing to the stored work, at most: ms", {
        longest(times.clone())
    });
    let mean = times.iter().sum::<Duration>() / times.len() as u32;
    print("ten hubs: the same, on average: ms", milliseconds(mean));
}

/// Events of agents of all hubs in turn, each with the status that follows from it.
fn events(hubs: &mut [World]) {
    let mut spent = Duration::ZERO;
    for round in 0..EVENTS {
        let hub = round % HUBS;
        let world = &mut hubs[hub];
        let work = &world.desired.works[&key(some_work(hub, round))];
        let work = observed(work, 1_000 + round, &format!("event {round}"));
        let began = Instant::now();
        world.change(work);
        world.publish();
        spent += began.elapsed();
    }
    print("ten hubs: one event of an agent, with the status, on average: ms", {
        milliseconds(spent) / EVENTS as f64
    });
}
