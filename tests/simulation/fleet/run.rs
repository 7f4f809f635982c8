//! One world from its seed: what is in it, and how its time goes by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gitwork::core::config::Budgets;
use gitwork::core::name::{SourceId, WorkKey};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Tally;
use super::bugs::Bug;
use super::check::{Allowed, Checker};
use super::git::{Git, SimulatedSource};
use super::line::Weather;
use super::neighbour::Neighbour;
use super::process::{Process, Setting};
use super::story::{Deed, Step};
use super::wall::{Hours, Wall};
use crate::simulation::agents::Object;
use crate::simulation::hub::{Backup, SimulatedHub};
use crate::simulation::world::{CLUSTERS, SOURCE};

pub struct World {
    pub(super) id: SourceId,
    pub(super) seed: u64,
    pub(super) random: fastrand::Rng,
    pub(super) git: Git,
    pub(super) hub: SimulatedHub,
    pub(super) checker: Checker,
    /// The one that leads, and one that takes itself for the leader.
    pub(super) processes: Vec<Process>,
    pub(super) weather: Weather,
    pub(super) backup: Option<Backup>,
    /// The clock of gitwork's machine, and the operator's hours for changes.
    pub(super) wall: Wall,
    pub(super) hours: Hours,
    /// Windows for changes matter in this world.
    pub(super) has_hours: bool,
    /// Commits have to be signed.
    pub(super) signatures: bool,
    /// The works of a cluster go and come back under their names.
    pub(super) revolves: bool,
    pub(super) neighbour: Option<Neighbour>,
    /// What others have made on the clusters.
    pub(super) foreign: BTreeSet<Object>,
    /// What the agents have acted on last.
    pub(super) stepped: BTreeMap<WorkKey, String>,
    /// The operator's own look at Git.
    pub(super) operator: SimulatedSource,
    began: Instant,
    budgets: Budgets,
    crashed: Arc<Notify>,
    started: u64,
    bug: Option<Bug>,
}

fn weather(random: &mut fastrand::Rng) -> Weather {
    match random.u8(..4) {
        0 => Weather::default(),
        1 => Weather { slow: 10, stale_list: 50, ..Weather::default() },
        2 => Weather { request_lost: 10, answer_lost: 10, slow: 5, ..Weather::default() },
        _ => Weather {
            request_lost: 4,
            answer_lost: 4,
            conflict: 4,
            throttled: 4,
            refused: 4,
            slow: 4,
            stale_list: 20,
        },
    }
}

fn budgets(random: &mut fastrand::Rng) -> Budgets {
    match random.u8(..3) {
        0 => Budgets::default(),
        1 => Budgets { works: Some(2), percent: Some(30), cluster: Some(1) },
        _ => Budgets { works: Some(9), percent: Some(100), cluster: Some(3) },
    }
}

impl World {
    pub fn new(seed: u64, bug: Option<Bug>, traced: bool) -> Self {
        let id = SourceId::parse(SOURCE).unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let (git, hub) = (Git::new(&id), SimulatedHub::new(&CLUSTERS, seed));
        let budgets = budgets(&mut random);
        let wall = Wall::new(random.i64(0..24));
        let has_hours = random.u8(..4) == 0;
        let hours = if has_hours { Hours::any(&mut random) } else { Hours::default() };
        let (signatures, revolves) = (random.u8(..4) == 0, random.u8(..8) == 0);
        if signatures {
            git.ask_for_signatures();
        }
        let allowed = Allowed { budgets: budgets.clone(), hours, wall: wall.clone() };
        let checker = Checker::new(&hub, &id, &git, allowed, traced);
        checker.agents.lock().unwrap().slip = bug.and_then(Bug::slip);
        let neighbour = (random.u8(..5) == 0).then(|| Neighbour::new(&checker, &mut random, &wall));
        let mut operator = git.source(&id, seed, None);
        operator.patient = false;
        let weather = weather(&mut random);
        Self {
            id,
            seed,
            random,
            git,
            hub,
            checker,
            processes: Vec::new(),
            weather,
            backup: None,
            wall,
            hours,
            has_hours,
            signatures,
            revolves,
            neighbour,
            foreign: BTreeSet::new(),
            stepped: BTreeMap::new(),
            operator,
            began: Instant::now(),
            budgets,
            crashed: Arc::new(Notify::new()),
            started: 0,
            bug,
        }
    }

    /// Lives through the story, up to the first thing that must not be, and gives every step its dice.
    pub async fn live(&mut self, story: &mut Vec<Step>) -> Tally {
        self.first_commit();
        self.start();
        self.start_neighbour();
        let mut lived = 0;
        for step in story.iter_mut() {
            let dice = step.dice.get_or_insert(self.random.get_seed());
            self.random.seed(*dice);
            match step.deed {
                Deed::Act => self.act().await,
                Deed::Wait => self.pass_time().await,
                Deed::Rest => self.come_to_rest().await,
            }
            lived += 1;
            if step.deed != Deed::Act && self.checker.violation().is_some() {
                break;
            }
        }
        story.truncate(lived);
        self.processes.drain(..).for_each(Process::kill);
        if let Some(process) = self.neighbour.take().and_then(|neighbour| neighbour.process) {
            process.kill();
        }
        Tally { writes: self.checker.effects(), virtual_seconds: self.began.elapsed().as_secs() }
    }

    /// One more process.
    pub(super) fn start(&mut self) {
        self.started += 1;
        let seed = self.seed.wrapping_mul(31).wrapping_add(self.started);
        let setting = Setting {
            id: &self.id,
            hub: &self.hub,
            git: &self.git,
            checker: &self.checker,
            budgets: &self.budgets,
            crashed: &self.crashed,
            weather: self.weather,
            hours: self.hours,
            wall: &self.wall,
            bug: self.bug,
            seed,
        };
        self.processes.push(Process::start(&setting));
        self.checker.trace(|| "a process starts".into());
    }

    /// The time on the clusters, which is right.
    pub(super) fn cluster_time(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.began.elapsed()).unwrap_or_default();
        Timestamp::UNIX_EPOCH.saturating_add(elapsed).unwrap_or_default()
    }

    async fn pass_time(&mut self) {
        let milliseconds = match self.random.u8(..8) {
            0 => 0,
            1 | 2 => self.random.u64(..2_000),
            3..6 => self.random.u64(..30_000),
            _ => self.random.u64(..200_000),
        };
        self.wait(Duration::from_millis(milliseconds)).await;
    }

    /// Lets time go by. A process that comes to the write that it is to die at is killed and started anew.
    pub(super) async fn wait(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let crashed = tokio::select! {
                biased;
                () = self.crashed.notified() => true,
                () = sleep(end - Instant::now()) => false,
            };
            if !crashed {
                break;
            }
            self.checker.trace(|| "killed at a write".into());
            self.processes.drain(..).for_each(Process::kill);
            self.start();
        }
        let neighbour = self.neighbour.as_ref().and_then(|neighbour| neighbour.process.as_ref());
        if self.processes.iter().chain(neighbour).any(Process::has_ended) {
            self.checker.fail(|| "an engine came to its end by itself".into());
        }
    }
}
