//! A plan's effects, done on the hub: bounded, fair to each cluster, and each with an outcome of its own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Hub, HubError};
use crate::core::backoff;
use crate::core::name::{ClusterName, CommitId, WorkKey};
use crate::core::observed::ObservedWork;
use crate::core::plan::Effect;
use crate::limits;

#[cfg(test)]
mod tests;

/// One effect to do. `commit` is kept on the work as the one that last changed it.
#[derive(Debug, Clone)]
pub struct Task {
    pub key: WorkKey,
    pub effect: Effect,
    pub commit: Option<CommitId>,
}

/// How much may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecuteOptions {
    pub concurrency: usize,
    pub per_cluster: usize,
}

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self { concurrency: limits::HUB_IN_FLIGHT, per_cluster: limits::HUB_IN_FLIGHT_PER_CLUSTER }
    }
}

/// What became of one task. There is exactly one for each.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub task: Task,
    /// The work as it is afterwards; `None` where it is gone.
    pub result: Result<Option<ObservedWork>, ExecuteError>,
    /// How often the hub was asked.
    pub attempts: u32,
}

/// Why a task was not done. All of these are tried again by a later pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    #[error(transparent)]
    Hub(#[from] HubError),
    /// Pruning comes after applying: what a deletion takes away may be part of a work that is not there yet.
    #[error(
        "not deleted, because writes to cluster {cluster:?} failed and deletions come after them"
    )]
    AfterFailedWrite { cluster: String },
    #[error("not done: gitwork ends, or a newer commit has come and all is planned anew")]
    Stopped,
}

/// Does `tasks`; the stream yields each outcome as it comes, and ends after the last one. Dropped, it abandons what
/// is in flight.
///
/// Clusters take turns, and none has more in flight than its share, so that the works of a slow or failing cluster
/// delay those of others as little as may be. Deletions of a cluster come after its other effects, and only where
/// its creates and updates have all succeeded. A hiccup (no answer) is tried again, up to
/// `limits::HUB_ATTEMPTS_MAX` times in all; what fails otherwise is left to the next pass. Once the hub asks for
/// patience (`Retry-After`), half as much is in flight, and more again as it answers. Once `stop` is true nothing is
/// begun any more and what is in flight is waited for (at most `limits::HUB_CALL`).
pub fn execute(
    hub: Arc<dyn Hub>,
    tasks: Vec<Task>,
    options: ExecuteOptions,
    stop: watch::Receiver<bool>,
) -> BoxStream<'static, Outcome> {
    let execution = Execution::new(hub, tasks, options, stop);
    stream::unfold(execution, |mut execution| async move {
        let outcome = execution.next().await?;
        Some((outcome, execution))
    })
    .boxed()
}

/// A task that waits for its turn.
struct Waiting {
    task: Task,
    attempts: u32,
}

/// An attempt that has come to its end.
struct Finished {
    waiting: Waiting,
    result: Result<Option<ObservedWork>, HubError>,
    began: Instant,
    /// It had one of the slots for troubled clusters.
    troubled: bool,
}

#[derive(Default)]
struct Cluster {
    /// What may begin now: all but the deletions, then these.
    queue: VecDeque<Waiting>,
    deletes: VecDeque<Waiting>,
    in_flight: usize,
    /// Tasks that wait for another attempt.
    resting: usize,
    write_failed: bool,
    /// The last task of it that ended had no answer. Until one has it gets one slot, and a late turn.
    troubled: bool,
    /// It is in a queue of turns.
    has_turn: bool,
}

struct Execution {
    hub: Arc<dyn Hub>,
    options: ExecuteOptions,
    stop: watch::Receiver<bool>,
    clusters: BTreeMap<ClusterName, Cluster>,
    turns: VecDeque<ClusterName>,
    /// The turns of troubled clusters, which share half of the slots and come after the others.
    troubled_turns: VecDeque<ClusterName>,
    troubled_in_flight: usize,
    in_flight: FuturesUnordered<BoxFuture<'static, Finished>>,
    /// By when it is due, and a number that makes the key its own.
    resting: BTreeMap<(Instant, u64), Waiting>,
    rested: u64,
    /// How many may be in flight now: at most `options.concurrency`.
    window: usize,
    answers_at_this_window: usize,
    narrowed: Option<Instant>,
    /// Attempts without an answer since the last answer.
    unanswered: usize,
    ready: VecDeque<Outcome>,
}

impl Execution {
    fn new(
        hub: Arc<dyn Hub>,
        tasks: Vec<Task>,
        options: ExecuteOptions,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let mut clusters: BTreeMap<ClusterName, Cluster> = BTreeMap::new();
        for task in tasks {
            let cluster = clusters.entry(task.key.cluster.clone()).or_default();
            let is_delete = matches!(task.effect, Effect::Delete { .. });
            let queue = if is_delete { &mut cluster.deletes } else { &mut cluster.queue };
            queue.push_back(Waiting { task, attempts: 0 });
        }
        let names: Vec<ClusterName> = clusters.keys().cloned().collect();
        let mut execution = Self {
            hub,
            options,
            stop,
            clusters,
            turns: VecDeque::new(),
            troubled_turns: VecDeque::new(),
            troubled_in_flight: 0,
            in_flight: FuturesUnordered::new(),
            resting: BTreeMap::new(),
            rested: 0,
            window: options.concurrency.max(1),
            answers_at_this_window: 0,
            narrowed: None,
            unanswered: 0,
            ready: VecDeque::new(),
        };
        for name in &names {
            execution.advance(name);
        }
        execution
    }

    async fn next(&mut self) -> Option<Outcome> {
        loop {
            if *self.stop.borrow() {
                self.abandon(&ExecuteError::Stopped);
            }
            if let Some(outcome) = self.ready.pop_front() {
                return Some(outcome);
            }
            self.begin();
            if self.in_flight.is_empty() && self.resting.is_empty() {
                return None;
            }
            let due = self.resting.keys().next().map(|(due, _)| *due);
            let wake = sleep_until(due.unwrap_or_else(Instant::now));
            tokio::select! {
                // In this order, so that a simulation can replay what happened.
                biased;
                Some(finished) = self.in_flight.next() => self.finish(finished),
                () = wake, if due.is_some() => self.wake(),
                () = stopped(&mut self.stop) => {}
            }
        }
    }

    /// Begins what there is room for.
    fn begin(&mut self) {
        while self.in_flight.len() < self.window {
            let Some(name) = self.next_turn() else { return };
            let share = self.share();
            let Some(cluster) = self.clusters.get_mut(&name) else { continue };
            cluster.has_turn = false;
            let share = if cluster.troubled { 1 } else { share };
            if cluster.in_flight >= share {
                // The end of one of them gives it a turn again.
                continue;
            }
            let Some(waiting) = cluster.queue.pop_front() else { continue };
            cluster.in_flight += 1;
            let troubled = cluster.troubled;
            self.troubled_in_flight += usize::from(troubled);
            self.in_flight.push(attempt(self.hub.clone(), waiting, troubled));
            self.give_turn(&name);
        }
    }

    /// Whose turn it is: troubled clusters come last, and have but half of the slots.
    fn next_turn(&mut self) -> Option<ClusterName> {
        while let Some(name) = self.turns.pop_front() {
            match self.clusters.get(&name) {
                Some(cluster) if cluster.troubled => self.troubled_turns.push_back(name),
                Some(_) => return Some(name),
                None => {}
            }
        }
        if self.troubled_in_flight < (self.window / 2).max(1) {
            return self.troubled_turns.pop_front();
        }
        None
    }

    /// How many one cluster may have in flight: the window, split among those that have something left.
    fn share(&self) -> usize {
        (self.window / self.clusters.len().max(1)).clamp(1, self.options.per_cluster.max(1))
    }

    fn give_turn(&mut self, name: &ClusterName) {
        let Some(cluster) = self.clusters.get_mut(name) else { return };
        if cluster.has_turn || cluster.queue.is_empty() {
            return;
        }
        cluster.has_turn = true;
        let turns = if cluster.troubled { &mut self.troubled_turns } else { &mut self.turns };
        turns.push_back(name.clone());
    }

    fn finish(&mut self, finished: Finished) {
        let Finished { waiting, result, began, troubled } = finished;
        self.troubled_in_flight -= usize::from(troubled);
        let name = waiting.task.key.cluster.clone();
        let unavailable = matches!(result, Err(HubError::Unavailable { .. }));
        if let Some(cluster) = self.clusters.get_mut(&name) {
            cluster.in_flight -= 1;
            cluster.troubled = unavailable;
        }
        match &result {
            Err(error @ HubError::Unavailable { retry_after_seconds, .. }) => {
                self.unanswered += 1;
                if retry_after_seconds.is_some() {
                    self.narrow(began);
                }
                if self.unanswered >= limits::HUB_UNANSWERED_MAX {
                    self.abandon(&error.clone().into());
                } else if let Some(due) = due(error, waiting.attempts) {
                    return self.rest(&name, waiting, due);
                }
            }
            _ => self.widen(),
        }
        self.end(waiting, result.map_err(ExecuteError::from));
        self.advance(&name);
    }

    /// The hub asks for patience. Attempts that began before the last time say nothing new.
    fn narrow(&mut self, began: Instant) {
        if self.narrowed.is_none_or(|at| began >= at) {
            self.window = (self.window / 2).max(1);
            self.narrowed = Some(Instant::now());
            self.answers_at_this_window = 0;
        }
    }

    /// The hub answers: after a whole window of answers one more may be in flight.
    fn widen(&mut self) {
        self.unanswered = 0;
        self.answers_at_this_window += 1;
        if self.answers_at_this_window >= self.window {
            self.answers_at_this_window = 0;
            self.window = (self.window + 1).min(self.options.concurrency.max(1));
        }
    }

    fn rest(&mut self, name: &ClusterName, waiting: Waiting, due: Instant) {
        self.rested += 1;
        self.resting.insert((due, self.rested), waiting);
        if let Some(cluster) = self.clusters.get_mut(name) {
            cluster.resting += 1;
        }
        self.give_turn(name);
    }

    /// Puts what has rested long enough back to the front of its cluster's queue.
    fn wake(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.resting.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let waiting = entry.remove();
            let name = waiting.task.key.cluster.clone();
            if let Some(cluster) = self.clusters.get_mut(&name) {
                cluster.resting -= 1;
                cluster.queue.push_front(waiting);
            }
            self.give_turn(&name);
        }
    }

    fn end(&mut self, waiting: Waiting, result: Result<Option<ObservedWork>, ExecuteError>) {
        let Waiting { task, attempts } = waiting;
        let is_content = matches!(
            task.effect,
            Effect::Create { .. } | Effect::Update { .. } | Effect::Adopt { .. }
        );
        if let (Some(cluster), true, Err(_)) =
            (self.clusters.get_mut(&task.key.cluster), is_content, &result)
        {
            cluster.write_failed = true;
        }
        self.ready.push_back(Outcome { task, result, attempts });
    }

    /// Goes on with a cluster of which something has ended: to its deletions, once all else is done, or on to
    /// forget it.
    fn advance(&mut self, name: &ClusterName) {
        let Some(cluster) = self.clusters.get_mut(name) else { return };
        if cluster.queue.is_empty() && cluster.in_flight + cluster.resting == 0 {
            cluster.queue = std::mem::take(&mut cluster.deletes);
            if cluster.queue.is_empty() {
                self.clusters.remove(name);
                return;
            }
            if cluster.write_failed {
                let withheld = std::mem::take(&mut cluster.queue);
                self.clusters.remove(name);
                for waiting in withheld {
                    let cluster = name.to_string();
                    self.end(waiting, Err(ExecuteError::AfterFailedWrite { cluster }));
                }
                return;
            }
        }
        self.give_turn(name);
    }

    /// Ends all that is not in flight.
    fn abandon(&mut self, error: &ExecuteError) {
        let mut left: Vec<Waiting> = std::mem::take(&mut self.resting).into_values().collect();
        for cluster in self.clusters.values_mut() {
            left.extend(cluster.queue.drain(..));
            left.extend(cluster.deletes.drain(..));
            cluster.resting = 0;
        }
        self.clusters.retain(|_, cluster| cluster.in_flight > 0);
        for waiting in left {
            self.end(waiting, Err(error.clone()));
        }
    }
}

fn attempt(
    hub: Arc<dyn Hub>,
    mut waiting: Waiting,
    troubled: bool,
) -> BoxFuture<'static, Finished> {
    waiting.attempts += 1;
    Box::pin(async move {
        let began = Instant::now();
        let Task { key, effect, commit } = &waiting.task;
        let result = hub.execute(key, effect, *commit).await;
        Finished { waiting, result, began, troubled }
    })
}

/// When to try again in this pass; `None` where that is for the next pass.
fn due(error: &HubError, attempts: u32) -> Option<Instant> {
    let wait = backoff::delay(attempts.saturating_sub(1), error.setback(), fastrand::u64(..));
    (attempts < limits::HUB_ATTEMPTS_MAX && wait <= limits::HUB_RETRY_MAX)
        .then(|| Instant::now() + wait)
}

/// Waits until `stop` becomes true; for ever where nobody can say so any more, or has said it already.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let seen = *stop.borrow_and_update();
    if seen || stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
