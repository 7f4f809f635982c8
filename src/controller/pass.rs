//! The passes of a leader: over one replica set, the facts, or a completed work.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use gitwork_core::model::name::ClusterName;
use gitwork_kube::api_status::ApiStatus;
use gitwork_replica_sets::decision::{SetDecision, SetInputs, SetWorks, decide};
use gitwork_replica_sets::names::SetKey;
use gitwork_replica_sets::replica_set::ReplicaSet;
use gitwork_replica_sets::write::{SetWrite, WriteFailure};
use gitwork_retry::operation_error::{OperationError as _, describe};
use gitwork_retry::{RetryClass, delay, log_error, spread_by_quarter};
use tokio::time::Instant;

use crate::hub_api::{HubRequestCause, HubRequestError};
use crate::limits;
use crate::set_writer::{SetWriter, delete_completed};
use crate::shared::{PassKey, SharedController};
use crate::store::{ControllerState, SetEntry, WriteRetry};

/// A decision under way.
struct DecidedSet {
    set: Arc<ReplicaSet>,
    decision: SetDecision,
    /// The writes that are due now.
    writes: Vec<SetWrite>,
    /// When the first of the others is due.
    due: Option<Instant>,
}

/// Runs passes for ever.
pub(crate) async fn run_passes(shared: &SharedController) {
    loop {
        let key = shared.queue.next().await;
        let again = match &key {
            PassKey::Facts => facts_pass(shared),
            PassKey::Set(set) => set_pass(shared, set).await,
            PassKey::Completed(cluster, name) => completed_pass(shared, cluster, name).await,
        };
        shared.queue.done(&key);
        if let Some(at) = again {
            shared.queue.add_at(key, at);
        }
    }
}

/// Takes the facts of now, and queues the sets that they concern.
fn facts_pass(shared: &SharedController) -> Option<Instant> {
    let now = Instant::now().into_std();
    let mut state = shared.lock();
    let (sets, until) = state.refresh_facts(now, shared.clock.now())?;
    if state.is_ready() {
        shared.ready.notify_one();
    }
    drop(state);
    for key in sets {
        shared.queue.add(PassKey::Set(key));
    }
    until.map(Instant::from_std)
}

/// Deletes a completed work whose time has come.
async fn completed_pass(
    shared: &SharedController,
    cluster: &ClusterName,
    name: &str,
) -> Option<Instant> {
    let id = (cluster.clone(), name.to_owned());
    let work = shared.lock().completed.get(&id).cloned()?;
    if shared.clock.now() < work.delete_at {
        return Some(shared.instant_of(work.delete_at));
    }
    match delete_completed(shared, &work).await {
        Ok(()) => {
            tracing::info!(%cluster, work = name, "deleted a completed ManifestWork");
            None
        }
        // It has changed: its event queues it again.
        Err(error) if error.status().is_some_and(ApiStatus::is_conflict) => None,
        Err(error) => {
            log_error!(warn, &error, "a completed ManifestWork stays for now");
            Some(Instant::now() + delay(0, error.retry_class(), fastrand::u64(..)))
        }
    }
}

/// One pass over a replica set. Gives when the next one is due.
async fn set_pass(shared: &SharedController, key: &SetKey) -> Option<Instant> {
    let first = decided(&mut shared.lock(), shared, key)?;
    let step = if first.writes.is_empty() {
        first
    } else {
        let failed = carry_out(shared, &first).await;
        let mut state = shared.lock();
        let again = decided(&mut state, shared, key)?;
        // The set itself could not be written: the next pass tries again.
        if let Some(wait) = failed {
            return Some(Instant::now() + wait);
        }
        if is_undone(&first, &again) {
            return Some(Instant::now() + limits::UNDONE_WRITE);
        }
        note_undone(&mut state, key, &first, &again);
        decided(&mut state, shared, key)?
    };
    let recheck = step.decision.recheck.map(|at| shared.instant_of(at));
    let more = (!step.writes.is_empty()).then(Instant::now);
    let status = match &step.decision.status {
        Some(status) => write_status(shared, &step.set, status).await,
        None => None,
    };
    [recheck, more, step.due, status].into_iter().flatten().min()
}

/// Decides for a set. `None` if there is none, or not everything was read yet.
fn decided(
    state: &mut ControllerState,
    shared: &SharedController,
    key: &SetKey,
) -> Option<DecidedSet> {
    if !state.is_ready() {
        return None;
    }
    let now = Instant::now();
    let set = state.sets.get(key)?.set.clone();
    let mut decision = decision_of(state, shared, &set, now)?;
    let retries = &mut state.sets.get_mut(key)?.retries;
    let is_wanted = |cluster: &ClusterName| {
        decision.writes.iter().any(|write| write.cluster() == Some(cluster))
    };
    // A cluster that needs no write any more has recovered, or has left.
    let before = retries.len();
    retries.retain(|cluster, retry| is_waiting(retry, now) || is_wanted(cluster));
    if retries.len() < before {
        // The status must not name its failure any more.
        decision = decision_of(state, shared, &set, now)?;
    }
    let retries = &state.sets.get(key)?.retries;
    let retry_of = |write: &SetWrite| write.cluster().and_then(|cluster| retries.get(cluster));
    let is_due = |write: &&SetWrite| retry_of(write).is_none_or(|retry| retry.due <= now);
    let writes = decision.writes.iter().filter(is_due).cloned().collect();
    let due = retries.values().map(|retry| retry.due).filter(|due| *due > now).min();
    Some(DecidedSet { set, decision, writes, due })
}

fn decision_of(
    state: &ControllerState,
    shared: &SharedController,
    set: &ReplicaSet,
    now: Instant,
) -> Option<SetDecision> {
    let none = SetWorks::new();
    let failures = failures(state.sets.get(&set.key)?, now);
    Some(decide(&SetInputs {
        set,
        facts: state.facts.as_deref()?,
        groups: &state.groups,
        works: state.works_of(set).unwrap_or(&none),
        failures: &failures,
        now: shared.clock.now(),
    }))
}

fn is_waiting(retry: &WriteRetry, now: Instant) -> bool {
    retry.due > now
}

/// The failures for a decision. One that is tried again now blocks its cluster no more.
fn failures(entry: &SetEntry, now: Instant) -> BTreeMap<ClusterName, WriteFailure> {
    let all = entry.retries.iter().filter_map(|(cluster, retry)| {
        let failure = retry.failure.clone()?;
        let needs_action = failure.needs_action && is_waiting(retry, now);
        Some((cluster.clone(), WriteFailure { needs_action, ..failure }))
    });
    all.collect()
}

/// Carries out the writes that are due. Gives the wait if a write of the set itself failed.
async fn carry_out(shared: &SharedController, step: &DecidedSet) -> Option<Duration> {
    let writer = &SetWriter { shared, set: &step.set };
    let sent = step.writes.iter().map(|write| async move { (write, writer.write(write).await) });
    // The semaphore bounds the writes in flight of all sets.
    let mut answers = stream::iter(sent).buffer_unordered(limits::WRITES_IN_FLIGHT);
    let (mut done, mut failed, mut wait) = (0_usize, 0_usize, None);
    while let Some((write, result)) = answers.next().await {
        let result = result.map_err(|error| (write.cluster(), error));
        match result {
            Ok(()) => {
                done += 1;
                note_success(shared, &step.set.key, write);
            }
            Err((Some(cluster), error)) => {
                failed += 1;
                note_failure(shared, &step.set.key, cluster, &error);
            }
            Err((None, error)) => wait = Some(set_failed(shared, &step.set.key, &error)),
        }
    }
    let replica_set = &step.set.key;
    tracing::info!(%replica_set, done, failed, "wrote what the replica set asks for");
    shared.count();
    wait
}

fn note_success(shared: &SharedController, key: &SetKey, write: &SetWrite) {
    if let SetWrite::Delete { cluster, name, reason, .. } = write {
        tracing::info!(
            replica_set = %key, %cluster, work = name, reason = reason.as_str(),
            "deleted a ManifestWork"
        );
    }
    let mut state = shared.lock();
    let Some(entry) = state.sets.get_mut(key) else { return };
    match write.cluster() {
        Some(cluster) => drop(entry.retries.remove(cluster)),
        None => entry.failures = 0,
    }
}

/// Notes a write that failed. It is tried again by its own backoff, and delays no other cluster.
fn note_failure(
    shared: &SharedController,
    key: &SetKey,
    cluster: &ClusterName,
    error: &HubRequestError,
) {
    let class = error.retry_class();
    // The object has changed since it was read: nobody has to know.
    let is_stale = class == RetryClass::Stale;
    let mut state = shared.lock();
    let Some(entry) = state.sets.get_mut(key) else { return };
    let count = entry.retries.get(cluster).map_or(0, |retry| retry.count);
    let failure = (!is_stale)
        .then(|| WriteFailure { message: describe(error), needs_action: error.needs_action() });
    let due = Instant::now() + delay(count, class, fastrand::u64(..));
    entry
        .retries
        .insert(cluster.clone(), WriteRetry { failure, due, count: count.saturating_add(1) });
    drop(state);
    if is_stale || count > 0 {
        log_error!(debug, error, replica_set = %key, %cluster, "the write is tried again");
    } else {
        log_error!(warn, error, replica_set = %key, %cluster, "the write is tried again");
    }
}

/// Notes a write of the set itself that failed. Gives the wait before the next try.
fn set_failed(shared: &SharedController, key: &SetKey, error: &HubRequestError) -> Duration {
    let mut state = shared.lock();
    let count = state.sets.get(key).map_or(0, |entry| entry.failures);
    if let Some(entry) = state.sets.get_mut(key) {
        entry.failures = entry.failures.saturating_add(1);
    }
    drop(state);
    if error.retry_class() == RetryClass::Stale {
        log_error!(debug, error, replica_set = %key, "the write is tried again");
    } else {
        log_error!(warn, error, replica_set = %key, "the write is tried again");
    }
    delay(count, error.retry_class(), fastrand::u64(..))
}

/// Whether a write of the set itself succeeded and is wanted again.
fn is_undone(first: &DecidedSet, again: &DecidedSet) -> bool {
    let is_of_set = |write: &&SetWrite| write.cluster().is_none();
    again.writes.iter().filter(is_of_set).any(|write| first.writes.contains(write))
}

/// Delays writes that succeeded and are wanted again: something on the hub undoes them.
fn note_undone(state: &mut ControllerState, key: &SetKey, first: &DecidedSet, again: &DecidedSet) {
    let Some(entry) = state.sets.get_mut(key) else { return };
    if first.set.generation != again.set.generation {
        return;
    }
    for write in &again.writes {
        let Some(cluster) = write.cluster() else { continue };
        if !first.writes.iter().any(|before| is_repeated(before, write)) {
            continue;
        }
        let message = format!(
            "the hub did not keep what was written to the ManifestWork of {cluster}; look for an \
             admission webhook that changes it"
        );
        let failure = Some(WriteFailure { message, needs_action: true });
        let due = Instant::now() + spread_by_quarter(limits::UNDONE_WRITE, fastrand::u64(..));
        entry.retries.insert(cluster.clone(), WriteRetry { failure, due, count: 1 });
    }
}

/// Whether a write of a work's content or metadata is made a second time.
fn is_repeated(before: &SetWrite, write: &SetWrite) -> bool {
    let name = |write: &SetWrite| match write {
        SetWrite::Create { cluster, name, .. } => Some((cluster.clone(), name.clone())),
        SetWrite::Update { work, .. } | SetWrite::UpdateMetadata { work, .. } => {
            Some((work.cluster.clone(), work.name.clone()))
        }
        _ => None,
    };
    let is_same_kind = discriminant(before) == discriminant(write);
    is_same_kind && name(write).is_some_and(|of| Some(of) == name(before))
}

/// Writes the status, unless that was done a short time ago. Gives when to try again.
async fn write_status(
    shared: &SharedController,
    set: &Arc<ReplicaSet>,
    status: &serde_json::Value,
) -> Option<Instant> {
    let now = Instant::now();
    let written = shared.lock().sets.get(&set.key).and_then(|entry| entry.status_written);
    let next = written.map(|written| written + limits::STATUS_INTERVAL);
    if let Some(next) = next.filter(|next| *next > now) {
        return Some(next);
    }
    if let Some(entry) = shared.lock().sets.get_mut(&set.key) {
        entry.status_written = Some(now);
    }
    let _permit = shared.writes.acquire().await;
    match (SetWriter { shared, set }).write_status(status).await {
        Ok(()) => None,
        Err(HubRequestError { cause: HubRequestCause::Status(status), .. })
            if status.is_not_found() =>
        {
            None
        }
        Err(error) => Some(Instant::now() + set_failed(shared, &set.key, &error)),
    }
}
