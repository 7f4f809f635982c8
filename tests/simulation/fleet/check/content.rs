//! Checks what a write leaves on the hub: only gitwork's own fields change, and a recent commit
//! wants the result.

use gitwork_core::model::name::{CommitId, WorkKey};
use gitwork_core::model::work::{ANNOTATION_COMMIT, ANNOTATION_HASH};
use serde_json::Value;
use tokio::time::Instant;

use super::removal::final_states;
use super::transition::HubState;
use super::{IN_FLIGHT, owner, prune};
use crate::fleet::git::{Commit, ReadLog, is_trusted, number};
use crate::fleet::machine_clock::{DailyHours, MachineClock};
use crate::git_work::{GitWork, config_map};
use crate::moves::{delete_option, manifests, strategy};

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
    hub: &HubState<'_>,
    closed: &dyn Fn(DailyHours) -> Option<&'static str>,
) -> Result<(), String> {
    let mut found = Vec::new();
    for head in recent {
        let content = &commits[*head].content;
        let work = content.works.get(hub.key);
        if !is_trusted(commits, *head) {
            found.push(format!("commit {head} is not signed"));
        } else if content.freezes(hub.key) {
            found.push(format!("commit {head} freezes it"));
        } else if work.is_some_and(|work| work.suspend) {
            found.push(format!("commit {head} suspends it"));
        } else {
            let options = || match (work, hub.before) {
                (Some(work), _) => vec![work.deletion_policy()],
                (None, Some(before)) => {
                    let states = final_states(commits, *head, hub.key, before);
                    states.into_iter().map(|(option, _)| option).collect()
                }
                (None, None) => Vec::new(),
            };
            let wants_it = work.is_some_and(|work| differs(hub.key, work, hub.after).is_none());
            let why = if wants_it { Ok(()) } else { hub.check_move(content, &options()) };
            match why.map(|()| closed(content.hours)) {
                Ok(None) => return Ok(()),
                Ok(Some(why)) => found.push(why.into()),
                Err(why) => found.push(format!("commit {head}: {why}")),
            }
        }
    }
    Err(found.join("; "))
}

/// How a work on the hub differs from Git; `None` if it does not.
pub fn differs(key: &WorkKey, work: &GitWork, on_hub: &Value) -> Option<String> {
    if manifests(on_hub) != work.manifests() {
        return Some(format!("other manifests of {key} than {}", on_hub["spec"]["workload"]));
    }
    if delete_option(on_hub) != work.deletion_policy() {
        return Some(format!("the deleteOption {:?}", work.deletion_policy()));
    }
    for (name, object) in &work.objects {
        let strategy = strategy(on_hub, &config_map(name));
        if strategy.as_deref() != object.strategy {
            return Some(format!(
                "the strategy {:?} for {name}, not {strategy:?}",
                object.strategy
            ));
        }
    }
    if prune(on_hub) != work.prune {
        return Some(format!("prune: {}", work.prune));
    }
    let label = &on_hub["metadata"]["labels"]["team"];
    let team = work.labels.get("team").map_or(Value::Null, |team| team.as_str().into());
    (*label != team).then(|| format!("the label team {team}, not {label}"))
}
