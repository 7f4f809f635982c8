//! Executes the effects of a plan on the hub: with limits, fair to each cluster, with one outcome
//! each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, FuturesUnordered, StreamExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::{Hub, HubError};
use crate::limits;
use gitwork_core::model::name::ClusterName;
use gitwork_core::plan::Effect;
use gitwork_core::plan::observed::ObservedWork;
pub use gitwork_sync::hub::{ExecuteError, Outcome, Task};

#[cfg(test)]
mod tests;

/// How many effects may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecuteOptions {
    /// On the whole hub; at least 1.
    pub concurrency: usize,
    /// For one cluster; at least 1.
    pub per_cluster: usize,
}

impl Default for ExecuteOptions {
    fn default() -> Self {
        Self { concurrency: limits::HUB_IN_FLIGHT, per_cluster: limits::HUB_IN_FLIGHT_PER_CLUSTER }
    }
}

/// Executes `tasks`. The stream yields each outcome and ends after the last one. Dropped, it
/// abandons requests in flight.
///
/// Clusters take turns, in the order of their first tasks, and each has a limited share, so that a
/// slow or failing cluster delays others little. Deletions of a cluster come after its other
/// effects, and only if all creates and updates succeeded. A request without a response is retried,
/// up to `limits::HUB_ATTEMPTS_MAX` attempts; other failures are left to the next pass.
/// `Retry-After` halves the number in flight, and so does a hub that is slow to answer; it grows
/// again with each response. Once `stop` is true no task begins, and requests in flight end within
/// `limits::HUB_CALL`.
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

/// A waiting task.
struct Waiting {
    task: Task,
    attempts: u32,
}

/// A finished attempt.
struct Finished {
    waiting: Waiting,
    result: Result<Option<ObservedWork>, HubError>,
    began: Instant,
    /// It used a slot of failing clusters.
    is_failing: bool,
}

#[derive(Default)]
struct Cluster {
    /// Tasks that may begin: all but deletions, then deletions.
    queue: VecDeque<Waiting>,
    deletes: VecDeque<Waiting>,
    in_flight: usize,
    /// Tasks in backoff.
    backing_off: usize,
    write_failed: bool,
    /// Its last request had no response. Until one has, it gets one slot and a late turn.
    is_failing: bool,
    /// It is in a queue of turns.
    has_turn: bool,
}

struct Execution {
    hub: Arc<dyn Hub>,
    options: ExecuteOptions,
    stop: watch::Receiver<bool>,
    clusters: BTreeMap<ClusterName, Cluster>,
    turns: VecDeque<ClusterName>,
    /// Failing clusters. They come last and share half of the slots.
    failing_turns: VecDeque<ClusterName>,
    failing_in_flight: usize,
    in_flight: FuturesUnordered<BoxFuture<'static, Finished>>,
    /// By due time, and a number that makes the key unique.
    backing_off: BTreeMap<(Instant, u64), Waiting>,
    /// How many backoffs began so far.
    backoff_sequence: u64,
    /// How many may be in flight now: at most `options.concurrency`.
    window: usize,
    answers_at_this_window: usize,
    /// Those that took longer than `limits::HUB_SLOW`.
    slow_answers: usize,
    /// When the window was last halved.
    narrowed_at: Option<Instant>,
    /// Attempts without a response since the last response.
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
        let mut names = Vec::new();
        for task in tasks {
            let cluster = match clusters.get_mut(&task.key.cluster) {
                Some(cluster) => cluster,
                None => {
                    names.push(task.key.cluster.clone());
                    clusters.entry(task.key.cluster.clone()).or_default()
                }
            };
            let is_delete = matches!(task.effect, Effect::Delete { .. });
            let queue = if is_delete { &mut cluster.deletes } else { &mut cluster.queue };
            queue.push_back(Waiting { task, attempts: 0 });
        }
        let mut execution = Self {
            hub,
            options,
            stop,
            clusters,
            turns: VecDeque::new(),
            failing_turns: VecDeque::new(),
            failing_in_flight: 0,
            in_flight: FuturesUnordered::new(),
            backing_off: BTreeMap::new(),
            backoff_sequence: 0,
            window: options.concurrency.max(1),
            answers_at_this_window: 0,
            slow_answers: 0,
            narrowed_at: None,
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
            if self.in_flight.is_empty() && self.backing_off.is_empty() {
                return None;
            }
            let due = self.backing_off.keys().next().map(|(due, _)| *due);
            let backoff_end = sleep_until(due.unwrap_or_else(Instant::now));
            tokio::select! {
                // The order is fixed, so that a simulation can be replayed.
                biased;
                Some(finished) = self.in_flight.next() => self.finish(finished),
                () = backoff_end, if due.is_some() => self.requeue_due(),
                () = stopped(&mut self.stop) => {}
            }
        }
    }

    /// Begins tasks while slots are free.
    fn begin(&mut self) {
        while self.in_flight.len() < self.window {
            let Some(name) = self.next_turn() else { return };
            let share = self.share();
            let Some(cluster) = self.clusters.get_mut(&name) else { continue };
            cluster.has_turn = false;
            let share = if cluster.is_failing { 1 } else { share };
            if cluster.in_flight >= share {
                // It gets a turn again when a task ends.
                continue;
            }
            let Some(waiting) = cluster.queue.pop_front() else { continue };
            cluster.in_flight += 1;
            let is_failing = cluster.is_failing;
            self.failing_in_flight += usize::from(is_failing);
            self.in_flight.push(attempt(self.hub.clone(), waiting, is_failing));
            self.give_turn(&name);
        }
    }

    /// The next cluster. Failing clusters come last and have half of the slots.
    fn next_turn(&mut self) -> Option<ClusterName> {
        while let Some(name) = self.turns.pop_front() {
            match self.clusters.get(&name) {
                Some(cluster) if cluster.is_failing => self.failing_turns.push_back(name),
                Some(_) => return Some(name),
                None => {}
            }
        }
        if self.failing_in_flight < (self.window / 2).max(1) {
            return self.failing_turns.pop_front();
        }
        None
    }

    /// The slots of one cluster: the window, split among clusters with tasks.
    fn share(&self) -> usize {
        (self.window / self.clusters.len().max(1)).clamp(1, self.options.per_cluster.max(1))
    }

    fn give_turn(&mut self, name: &ClusterName) {
        let Some(cluster) = self.clusters.get_mut(name) else { return };
        if cluster.has_turn || cluster.queue.is_empty() {
            return;
        }
        cluster.has_turn = true;
        let turns = if cluster.is_failing { &mut self.failing_turns } else { &mut self.turns };
        turns.push_back(name.clone());
    }

    fn finish(&mut self, finished: Finished) {
        let Finished { waiting, result, began, is_failing } = finished;
        self.failing_in_flight -= usize::from(is_failing);
        let name = waiting.task.key.cluster.clone();
        let unavailable = matches!(result, Err(HubError::Unavailable { .. }));
        if let Some(cluster) = self.clusters.get_mut(&name) {
            cluster.in_flight -= 1;
            cluster.is_failing = unavailable;
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
                    return self.back_off(&name, waiting, due);
                }
            }
            _ => self.answered(began.elapsed()),
        }
        self.end(waiting, result.map_err(ExecuteError::from));
        self.advance(&name);
    }

    /// Halves the window after `Retry-After`, once for attempts that ran at the same time.
    fn narrow(&mut self, began: Instant) {
        if self.narrowed_at.is_none_or(|at| began >= at) {
            self.window = (self.window / 2).max(1);
            self.narrowed_at = Some(Instant::now());
            (self.answers_at_this_window, self.slow_answers) = (0, 0);
        }
    }

    /// Adds one slot after a whole window of responses, or halves the window if most of them were
    /// slow: the hub has too much to do. One slow cluster keeps its share.
    fn answered(&mut self, took: Duration) {
        self.unanswered = 0;
        self.answers_at_this_window += 1;
        self.slow_answers += usize::from(took > limits::HUB_SLOW);
        if self.answers_at_this_window < self.window {
            return;
        }
        let is_slow = self.slow_answers * 2 > self.answers_at_this_window;
        let most = self.options.concurrency.max(1);
        self.window = match is_slow {
            true => (self.window / 2).max(self.options.per_cluster).min(self.window),
            false => (self.window + 1).min(most),
        };
        (self.answers_at_this_window, self.slow_answers) = (0, 0);
    }

    fn back_off(&mut self, name: &ClusterName, waiting: Waiting, due: Instant) {
        self.backoff_sequence += 1;
        self.backing_off.insert((due, self.backoff_sequence), waiting);
        if let Some(cluster) = self.clusters.get_mut(name) {
            cluster.backing_off += 1;
        }
        self.give_turn(name);
    }

    /// Puts tasks whose backoff is over at the front of their queue.
    fn requeue_due(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.backing_off.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let waiting = entry.remove();
            let name = waiting.task.key.cluster.clone();
            if let Some(cluster) = self.clusters.get_mut(&name) {
                cluster.backing_off -= 1;
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

    /// Continues a cluster after a task ended: begins its deletions, or removes the cluster.
    fn advance(&mut self, name: &ClusterName) {
        let Some(cluster) = self.clusters.get_mut(name) else { return };
        if cluster.queue.is_empty() && cluster.in_flight + cluster.backing_off == 0 {
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

    /// Ends all tasks that are not in flight.
    fn abandon(&mut self, error: &ExecuteError) {
        let mut left: Vec<Waiting> = std::mem::take(&mut self.backing_off).into_values().collect();
        for cluster in self.clusters.values_mut() {
            left.extend(cluster.queue.drain(..));
            left.extend(cluster.deletes.drain(..));
            cluster.backing_off = 0;
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
    is_failing: bool,
) -> BoxFuture<'static, Finished> {
    waiting.attempts += 1;
    Box::pin(async move {
        let began = Instant::now();
        let Task { key, effect, commit } = &waiting.task;
        let result = hub.execute(key, effect, *commit).await;
        Finished { waiting, result, began, is_failing }
    })
}

/// When to retry in this pass; `None` to leave it to the next pass.
fn due(error: &HubError, attempts: u32) -> Option<Instant> {
    let wait =
        gitwork_retry::delay(attempts.saturating_sub(1), error.retry_class(), fastrand::u64(..));
    (attempts < limits::HUB_ATTEMPTS_MAX && wait <= limits::HUB_RETRY_MAX)
        .then(|| Instant::now() + wait)
}

/// Waits until `stop` becomes true; pending if it is true already or its sender is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let seen = *stop.borrow_and_update();
    if seen || stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
