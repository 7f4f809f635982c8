//! One world from its seed: its parts, and how its time passes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::config::{Budgets, ClusterBudget};
use gitwork_core::model::name::{SourceId, WorkKey};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::Totals;
use super::bugs::Bug;
use super::check::{Checker, OperatorPolicy};
use super::connection::FaultRates;
use super::election::Election;
use super::git::{Git, SimulatedSource};
use super::groups::Groups;
use super::machine_clock::{DailyHours, MachineClock};
use super::process::{Process, ProcessOptions};
use super::scenario::{Step, StepKind};
use super::second_source::SecondSource;
use super::seeds;
use crate::agents::Object;
use crate::hub::{Backup, SimulatedHub};
use crate::key;
use crate::world::{CLUSTERS, SOURCE};

pub struct World {
    pub(super) id: SourceId,
    pub(super) seed: u64,
    pub(super) random: fastrand::Rng,
    pub(super) git: Git,
    pub(super) hub: SimulatedHub,
    pub(super) checker: Checker,
    /// The leader, and at times a standby.
    pub(super) processes: Vec<Process>,
    pub(super) election: Election,
    pub(super) fault_rates: FaultRates,
    pub(super) backup: Option<Backup>,
    /// The clock of gitwork's machine, and the operator's hours for changes.
    pub(super) machine_clock: MachineClock,
    pub(super) hours: DailyHours,
    /// Whether this world has change windows.
    pub(super) has_hours: bool,
    /// Whether commits must be signed.
    pub(super) signatures: bool,
    /// Whether the works of a cluster are removed and created again under the same names.
    pub(super) replaces_works: bool,
    /// Whether objects move between works, and some clusters have OCM's agent.
    pub(super) has_moves: bool,
    pub(super) second_source: Option<SecondSource>,
    /// The groups of the source, which then has no other works.
    pub(super) groups: Option<Groups>,
    /// Objects that other clients created on the clusters.
    pub(super) foreign: BTreeSet<Object>,
    /// The version of each work that its agent acted on last.
    pub(super) acted_on: BTreeMap<WorkKey, String>,
    /// The operator's own reader of Git.
    pub(super) operator: SimulatedSource,
    began: Instant,
    budgets: Budgets,
    crashed: Arc<Notify>,
    started: u64,
    bug: Option<Bug>,
}

fn fault_rates(random: &mut fastrand::Rng) -> FaultRates {
    match random.u8(..4) {
        0 => FaultRates::default(),
        1 => FaultRates { slow: 10, stale_list: 50, ..FaultRates::default() },
        2 => FaultRates { request_lost: 10, response_lost: 10, slow: 5, ..FaultRates::default() },
        _ => FaultRates {
            request_lost: 4,
            response_lost: 4,
            conflict: 4,
            throttled: 4,
            rejected: 4,
            slow: 4,
            stale_list: 20,
        },
    }
}

fn budgets(seed: u64, random: &mut fastrand::Rng) -> Budgets {
    let clusters =
        if seeds::has_cluster_budgets(seed) { cluster_budgets() } else { Vec::default() };
    let of = |works, percent, cluster| Budgets {
        works: Some(works),
        percent: Some(percent),
        cluster: Some(cluster),
        ..Budgets::default()
    };
    let of_source = match random.u8(..3) {
        0 => Budgets::default(),
        1 => of(2, 30, 1),
        _ => of(9, 100, 3),
    };
    Budgets { clusters, ..of_source }
}

/// Two works of the first cluster may go, and one of both others.
fn cluster_budgets() -> Vec<ClusterBudget> {
    let of = |clusters: &[&str], works| {
        let clusters = clusters.iter().map(|&name| name.to_owned()).collect();
        ClusterBudget { clusters, works, percent: 0 }
    };
    vec![of(&CLUSTERS[..1], 2), of(&CLUSTERS[1..], 1)]
}

impl World {
    pub fn new(seed: u64, bug: Option<Bug>, traced: bool) -> Self {
        let id = SourceId::parse(SOURCE).unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        let (git, hub) = (Git::new(&id), SimulatedHub::new(&CLUSTERS, seed));
        let has_rollouts = seeds::has_rollouts(seed);
        let groups = seeds::has_groups(seed)
            .then(|| Groups::new(&mut fastrand::Rng::with_seed(!seed), has_rollouts, bug));
        let budgets = budgets(seed, &mut random);
        let machine_clock = MachineClock::new(random.i64(0..24));
        let has_hours = groups.is_none() && random.u8(..4) == 0;
        let hours = if has_hours { DailyHours::any(&mut random) } else { DailyHours::default() };
        let signatures = groups.is_none() && random.u8(..4) == 0;
        let replaces_works = random.u8(..8) == 0;
        if signatures {
            git.ask_for_signatures();
        }
        let operator =
            OperatorPolicy { budgets: budgets.clone(), hours, clock: machine_clock.clone() };
        let checker = Checker::new(&hub, &id, &git, operator, traced)
            .with_groups(groups.as_ref().map(Groups::rules));
        let mut agents = checker.agents.lock().unwrap();
        agents.agent_bug = bug.and_then(Bug::agent_bug);
        if seeds::has_moves(seed) {
            let count = random.usize(..=CLUSTERS.len());
            CLUSTERS.iter().take(count).for_each(|name| agents.use_ocm(&key(name, "api").cluster));
        }
        drop(agents);
        let has_moves = seeds::has_moves(seed);
        let second_source = (groups.is_none() && random.u8(..5) == 0)
            .then(|| SecondSource::new(&checker, &mut random, &machine_clock, has_moves));
        let mut operator = git.source(&id, seed, None);
        operator.has_latency = false;
        let fault_rates = fault_rates(&mut random);
        Self {
            id,
            seed,
            random,
            git,
            hub,
            checker,
            processes: Vec::new(),
            election: Election::new(seed),
            fault_rates,
            backup: None,
            machine_clock,
            hours,
            has_hours,
            signatures,
            replaces_works,
            has_moves,
            second_source,
            groups,
            foreign: BTreeSet::new(),
            acted_on: BTreeMap::new(),
            operator,
            began: Instant::now(),
            budgets,
            crashed: Arc::new(Notify::new()),
            started: 0,
            bug,
        }
    }

    /// Runs the scenario up to the first violation, and gives every step its seed.
    pub async fn run(&mut self, scenario: &mut Vec<Step>) -> Totals {
        match self.groups {
            Some(_) => self.first_group_commit(),
            None => self.first_commit(),
        }
        self.start();
        self.start_second_source();
        let mut done = 0;
        for step in scenario.iter_mut() {
            let seed = step.seed.get_or_insert(self.random.get_seed());
            self.random.seed(*seed);
            match step.kind {
                StepKind::Act => self.act().await,
                StepKind::Wait => self.pass_time().await,
                StepKind::Rest => self.converge().await,
            }
            done += 1;
            if step.kind != StepKind::Act && self.checker.violation().is_some() {
                break;
            }
        }
        scenario.truncate(done);
        self.processes.drain(..).for_each(Process::kill);
        if let Some(process) =
            self.second_source.take().and_then(|second_source| second_source.process)
        {
            process.kill();
        }
        Totals { writes: self.checker.effects(), virtual_seconds: self.began.elapsed().as_secs() }
    }

    /// Starts one more process.
    pub(super) fn start(&mut self) {
        self.started += 1;
        let seed = self.seed.wrapping_mul(31).wrapping_add(self.started);
        let setting = ProcessOptions {
            hub: &self.hub,
            checker: &self.checker,
            budgets: &self.budgets,
            // Other tests are about the budgets of groups.
            allow_delete_all: self.groups.is_some(),
            crashed: &self.crashed,
            fault_rates: self.fault_rates,
            hours: self.hours,
            machine_clock: &self.machine_clock,
            bug: self.bug,
            is_restarted: self.started > 1,
            seed,
        };
        let process = match &self.groups {
            None => Process::start(&setting, self.git.source(&self.id, seed, self.bug)),
            Some(groups) => {
                let source = groups.repository.source(&self.id, seed, self.bug);
                Process::start_with_facts(&setting, source, &groups.facts)
            }
        };
        self.processes.push(process);
        self.checker.trace(|| "a process starts".into());
    }

    /// The time on the clusters. No fault affects it.
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
        if self.has_moves {
            self.wait_while_agents_act(Duration::from_millis(milliseconds)).await;
        } else {
            self.wait(Duration::from_millis(milliseconds)).await;
        }
    }

    /// Lets time pass in parts. The agents do something after each part, so that they and gitwork
    /// act in turn.
    pub(super) async fn wait_while_agents_act(&mut self, time: Duration) {
        let mut left = time;
        for _ in 0..self.random.u8(..16) {
            let part = left.mul_f64(f64::from(self.random.u8(..32)) / 100.0);
            left -= part;
            self.wait(part).await;
            self.agent_acts();
        }
        self.wait(left).await;
    }

    /// Lets time pass. Kills a process that reaches its crash point, and starts another one.
    pub(super) async fn wait(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            self.elect();
            tokio::select! {
                biased;
                () = self.crashed.notified() => self.kill_crashed(),
                () = sleep_until(end) => break,
                () = sleep_until(self.election.next) => {}
            }
        }
        let second_source =
            self.second_source.as_ref().and_then(|second_source| second_source.process.as_ref());
        if self.processes.iter().chain(second_source).any(Process::has_ended) {
            self.checker.fail(|| "an engine ended by itself".into());
        }
    }

    /// Kills the processes that have reached their crash point. A standby or a new process goes on.
    fn kill_crashed(&mut self) {
        for process in self.processes.extract_if(.., |process| process.has_crashed()) {
            self.checker.trace(|| "killed at a write".into());
            process.kill();
        }
        if self.processes.is_empty() {
            self.start();
        }
    }
}
