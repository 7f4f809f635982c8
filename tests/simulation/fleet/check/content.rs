//! Checks what a write leaves on the hub: only gitwork's own fields change, and a recent commit
//! wants the result.

use gitwork_core::model::name::{CommitId, WorkKey};
use gitwork_core::model::work::{ANNOTATION_COMMIT, ANNOTATION_HASH, DeletionPolicy};
use serde_json::Value;
use tokio::time::Instant;

use super::{IN_FLIGHT, owner, prune};
use crate::simulation::fleet::git::{Commit, ReadLog, is_trusted, manifests, number};
use crate::simulation::fleet::machine_clock::{DailyHours, MachineClock};
use crate::simulation::world::GitWork;

/// The fields of an object that gitwork writes, without those that only record the write.
pub(super) fn written_fields(work: &Value) -> (&Value, &Value, Vec<(&String, &Value)>) {
    let annotations = work["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations =
        annotations.filter(|(name, _)| *name != ANNOTATION_COMMIT && *name != ANNOTATION_HASH);
    (&work["spec"], &work["metadata"]["labels"], annotations.collect())
}

/// Whether the write restores content that gitwork wrote before, by the hash on the hub.
pub(super) fn is_drift_correction(before: &Value, after: &Value) -> bool {
    let hash = |work: &Value| work["metadata"]["annotations"][ANNOTATION_HASH].clone();
    hash(before).is_string() && hash(before) == hash(after)
}

/// Whether the fields of other owners are unchanged.
pub(super) fn check_foreign_fields(
    source: &str,
    before: &Value,
    after: Option<&Value>,
) -> Result<(), String> {
    let metadata = &before["metadata"];
    if owner(before) != Some(source) && metadata["annotations"]["gitwork.dev/adopt"] != source {
        return Err("it is not ours".into());
    }
    let Some(after) = after else { return Ok(()) };
    let same = [
        ("status", &before["status"], &after["status"]),
        ("finalizers", &metadata["finalizers"], &after["metadata"]["finalizers"]),
        ("labels", &metadata["labels"]["foreign"], &after["metadata"]["labels"]["foreign"]),
    ];
    match same.iter().find(|(_, before, after)| before != after) {
        Some((field, before, after)) => {
            Err(format!("the {field} of others change from {before} to {after}"))
        }
        None => Ok(()),
    }
}

/// The commits that the process may write for: the last one that it read, and those that it read
/// shortly before.
pub(super) fn recent_commits(reads: &ReadLog, clock: &MachineClock) -> Vec<usize> {
    let reads = reads.lock().unwrap();
    let in_flight_since = clock.awake_ago(IN_FLIGHT);
    let mut recent = Vec::new();
    let mut superseded: Option<Instant> = None;
    for (at, commit) in reads.iter().rev() {
        if superseded.is_some_and(|by| in_flight_since.is_some_and(|since| by < since)) {
            break;
        }
        if recent.last() != Some(commit) {
            recent.push(*commit);
        }
        superseded = Some(*at);
    }
    recent
}

/// The commit that the write names, if it is verified and one of the recent commits.
pub(super) fn named_commit(
    commits: &[Commit],
    recent: &[usize],
    commit: Option<CommitId>,
) -> Result<usize, String> {
    let head = commit.and_then(|id| number(commits, id)).ok_or("it has no commit")?;
    if !is_trusted(commits, head) {
        return Err(format!("commit {head}, or one before it, is not signed"));
    }
    if recent.contains(&head) {
        return Ok(head);
    }
    Err(format!("it is for commit {head}, which is not what was read last"))
}

/// Whether a recent commit wants the work as it is on the hub now.
pub(super) fn check_wanted(
    commits: &[Commit],
    recent: &[usize],
    key: &WorkKey,
    after: &Value,
    closed: &dyn Fn(DailyHours) -> Option<&'static str>,
) -> Result<(), String> {
    let mut found = Vec::new();
    for head in recent {
        match commits[*head].content.readable(key) {
            _ if !is_trusted(commits, *head) => found.push(format!("commit {head} is not signed")),
            Some(work) if work.suspend => found.push(format!("commit {head} suspends it")),
            Some(work) => match differs(key, work, &without_kept(commits, *head, key, after)) {
                None => match closed(commits[*head].content.hours) {
                    None => return Ok(()),
                    Some(why) => found.push(why.into()),
                },
                Some(how) => found.push(format!("commit {head} wants {how}")),
            },
            None => found.push(format!("commit {head} does not have it")),
        }
    }
    Err(found.join("; "))
}

/// The work without objects that it keeps after Git's: while another work of the cluster cannot be
/// read, that work may have them.
fn without_kept(commits: &[Commit], head: usize, key: &WorkKey, after: &Value) -> Value {
    let content = &commits[head].content;
    let mut after = after.clone();
    if let Some(work) = content.readable(key)
        && content.hides_objects(&key.cluster)
        && let Some(Value::Array(there)) = after.pointer_mut("/spec/workload/manifests")
    {
        let wanted = manifests(key, work);
        if there.starts_with(&wanted) {
            there.truncate(wanted.len());
        }
    }
    after
}

/// How a work on the hub differs from Git; `None` if it does not.
pub fn differs(key: &WorkKey, work: &GitWork, on_hub: &Value) -> Option<String> {
    if on_hub["spec"]["workload"]["manifests"] != Value::Array(manifests(key, work)) {
        return Some(format!("other manifests than {}", on_hub["spec"]["workload"]));
    }
    if DeletionPolicy::from_value(&on_hub["spec"]["deleteOption"]) != work.delete_option {
        return Some(format!("the deleteOption {:?}", work.delete_option));
    }
    if prune(on_hub) != work.prune {
        return Some(format!("prune: {}", work.prune));
    }
    let label = &on_hub["metadata"]["labels"]["team"];
    let team = work.labels.get("team").map_or(Value::Null, |team| team.as_str().into());
    (*label != team).then(|| format!("the label team {team}, not {label}"))
}
