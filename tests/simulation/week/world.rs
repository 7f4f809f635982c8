//! The world of the story: Git, the hub, a process of gitwork and the clusters, in virtual time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::config::Budgets;
use gitwork_core::model::name::{ClusterName, SourceId};
use gitwork_report::status::source::SourceStatus;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::clusters;
use super::history::History;
use super::repository::Repository;
use super::workloads::Clusters;
use crate::fleet::check::{Checker, OperatorPolicy};
use crate::fleet::connection::FaultRates;
use crate::fleet::git::Git;
use crate::fleet::groups::hub_facts::{FactsOnHub, HubFacts};
use crate::fleet::machine_clock::{DailyHours, MachineClock};
use crate::fleet::process::{HubReads, Process, ProcessOptions};
use crate::hub::SimulatedHub;

/// The agents act this often.
const TICK: Duration = Duration::from_secs(5);
/// The hours from the midnight at which the clock of a world begins (a Friday, in UTC) to the start
/// of the story: a Sunday at 19:00.
const START_HOUR: i64 = 2 * 24 + 19;
/// The stores that cannot be reached at any time.
const UNREACHABLE: usize = 8;
const HOUR: i64 = 3_600;
/// The hub says so after this time, as OCM does, and that the others are back. They have caught up
/// by then: gitwork would count stores that are back and have not as failed, if their deadline
/// passed while they were away.
const REACH_LAG: SignedDuration = SignedDuration::from_secs(300);
/// How long a new process may take until it has planned.
const SETTLE_TICKS: usize = 24;
/// The shortest time between two commits of the status branch.
const PUBLISH: SignedDuration = SignedDuration::from_secs(60);

/// The longest line that GitHub shows on a commit.
const LINE_CHARS: usize = 140;

/// A time of the operators, who are in Berlin.
pub fn local(text: &str) -> Timestamp {
    let time: DateTime = text.parse().unwrap();
    time.to_zoned(TimeZone::get("Europe/Berlin").unwrap()).unwrap().timestamp()
}

pub struct World {
    pub id: SourceId,
    pub hub: SimulatedHub,
    pub repository: Repository,
    pub facts: FactsOnHub,
    pub clusters: Clusters,
    pub history: History,
    pub clock: MachineClock,
    pub process: Option<Process>,
    /// The stores that lose their network this hour.
    offline: BTreeSet<ClusterName>,
    /// Clusters that the hub does not know, or no longer.
    pub unregistered: BTreeSet<ClusterName>,
    /// Nobody reaches the hub.
    pub is_hub_dead: bool,
    /// The clusters that the hub calls unreachable.
    reach: watch::Sender<Arc<BTreeSet<ClusterName>>>,
    /// When the hub says that again.
    reach_due: Option<Timestamp>,
    hour: i64,
    published: Timestamp,
    /// A status that the status branch does not have yet.
    unpublished: Option<Arc<SourceStatus>>,
    /// The lines on commits, each with its time.
    pub lines: Vec<(Timestamp, String)>,
    random: fastrand::Rng,
    checker: Checker,
    started: u64,
}

impl World {
    pub fn new() -> Self {
        let facts = clusters::facts();
        let id = SourceId::parse("fleet").unwrap();
        let names: Vec<&str> = facts.managed_clusters.keys().map(ClusterName::as_str).collect();
        let hub = SimulatedHub::new(&names, 0);
        let clock = MachineClock::new(START_HOUR);
        hub.keep_times(&clock);
        let (budgets, hours) = (Budgets::default(), DailyHours::default());
        let operator = OperatorPolicy { budgets, hours, clock: clock.clone() };
        let checker = Checker::new(&hub, &id, &Git::new(&id), operator, false).for_story();
        let mut history = History::default();
        for (cluster, facts) in &facts.managed_clusters {
            history.add(cluster, facts);
        }
        Self {
            clusters: Clusters::new(&hub, &checker.agents),
            repository: Repository::new(),
            facts: FactsOnHub::new(HubFacts::of(&facts), None),
            history,
            process: None,
            offline: BTreeSet::new(),
            unregistered: BTreeSet::new(),
            is_hub_dead: false,
            reach: watch::Sender::default(),
            reach_due: None,
            hour: 0,
            published: clock.now(),
            unpublished: None,
            lines: Vec::new(),
            random: fastrand::Rng::with_seed(0),
            started: 0,
            id,
            hub,
            clock,
            checker,
        }
    }

    /// Starts gitwork on a new machine.
    pub fn start(&mut self) {
        self.started += 1;
        let setting = ProcessOptions {
            hub: &self.hub,
            checker: &self.checker,
            budgets: &Budgets::default(),
            allow_delete_all: false,
            crashed: &Arc::new(Notify::new()),
            fault_rates: FaultRates::default(),
            hours: DailyHours::default(),
            machine_clock: &self.clock,
            bug: None,
            is_restarted: self.started > 1,
            seed: self.started,
        };
        let source = self.repository.source(&self.id, self.started);
        let (reads, reach) = (source.reads.clone(), Some(self.reach.subscribe()));
        let hub_reads = HubReads { facts: Some(&self.facts), reach };
        let process = Process::start_engine(&setting, source, reads, hub_reads);
        process.set_leading(true);
        self.process = Some(process);
    }

    /// The last status of the source.
    pub fn status(&self) -> Option<Arc<SourceStatus>> {
        self.process.as_ref()?.status.as_ref()?.borrow().clone()
    }

    /// Lets time pass until a time of the operators.
    pub async fn until(&mut self, time: &str) {
        let end = local(time);
        assert!(self.clock.now() < end, "{time} has passed");
        while self.clock.now() < end {
            self.tick().await;
        }
    }

    /// Lets time pass in which nothing is due, with the machine of gitwork switched off. Nobody
    /// notices, and the next process has nothing to write.
    pub async fn quiet_until(&mut self, time: &str) {
        let process = self.process.take().expect("a process");
        process.stop().await.unwrap();
        self.until(time).await;
        self.start();
        let specs = self.hub.specs();
        for _ in 0..SETTLE_TICKS {
            self.tick().await;
        }
        assert!(self.hub.specs() == specs, "the next process changes works");
    }

    /// What a restore changes is no write of gitwork.
    pub fn see_restore(&mut self) {
        self.history.is_restoring = true;
        self.clusters.meet_restored_hub();
        let cut = self.history.clusters().into_iter().collect();
        self.clusters.act(self.clock.now(), &cut, &mut self.history);
        self.history.is_restoring = false;
    }

    pub async fn tick(&mut self) {
        sleep(TICK).await;
        let now = self.clock.now();
        self.change_network(now);
        let cut = self.cut();
        self.history.observe_cut(now, &cut);
        self.clusters.act(now, &cut, &mut self.history);
        self.report(now);
        assert_eq!(self.checker.violation(), None);
        assert!(self.process.as_ref().is_none_or(|process| !process.has_ended()));
    }

    /// The clusters whose agents cannot reach the hub.
    pub fn cut(&self) -> BTreeSet<ClusterName> {
        if self.is_hub_dead {
            return self.history.clusters().into_iter().collect();
        }
        self.offline.union(&self.unregistered).cloned().collect()
    }

    /// Other stores lose their network every hour. The hub learns that later.
    fn change_network(&mut self, now: Timestamp) {
        let hour = now.as_second() / HOUR;
        if hour != self.hour {
            self.hour = hour;
            let members = self.history.members().map(|(cluster, _)| cluster);
            let others = members.filter(|cluster| !self.offline.contains(*cluster)).cloned();
            let mut others: Vec<ClusterName> = others.collect();
            self.random.shuffle(&mut others);
            let offline: BTreeSet<ClusterName> = others.into_iter().take(UNREACHABLE).collect();
            self.reach_due = Some(now + REACH_LAG);
            self.offline = offline;
        }
        if self.reach_due.take_if(|at| *at <= now).is_some() {
            let unreachable: BTreeSet<ClusterName> =
                self.offline.union(&self.unregistered).cloned().collect();
            self.facts.change(|facts| {
                for (cluster, facts) in &mut facts.clusters {
                    let is_unreachable = unreachable.contains(cluster);
                    if facts.is_unreachable != is_unreachable {
                        Arc::make_mut(facts).is_unreachable = is_unreachable;
                    }
                }
            });
            self.reach.send_replace(Arc::new(unreachable));
        }
    }

    /// What gitwork reports: the line on the commit, and the status branch.
    fn report(&mut self, now: Timestamp) {
        let Some(feed) = self.process.as_mut().and_then(|process| process.status.as_mut()) else {
            return;
        };
        if feed.has_changed().unwrap_or_default()
            && let Some(status) = feed.borrow_and_update().clone()
        {
            let line = status.line(LINE_CHARS);
            if self.lines.last().is_none_or(|(_, last)| *last != line) {
                self.lines.push((now, line));
            }
            self.unpublished = Some(status);
        }
        if self.published + PUBLISH <= now
            && let Some(status) = self.unpublished.take()
        {
            self.published = now;
            self.repository.publish(&status);
        }
    }
}
