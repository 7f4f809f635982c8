//! The state of works and sources, read from the agents' reports. Pure.
//!
//! - [`view`]: the part of a work's status that the daemon keeps, bounded.
//! - [`tree`]: a work with its objects.
//! - [`live`]: works that a view follows.
//! - [`print`]: tables, trees and transitions for a terminal.
//! - [`source`]: the state of all works of a source at one commit.
//! - [`work_states`]: the states of works, which statuses share by cluster.
//! - [`incremental`]: a status that follows from the one before it.
//! - [`transition`]: differences between two states of a source, for logs and Events.
//! - [`source_report`]: the daemon's report on a source, stored on the hub.
//! - here: single works for `gitwork status`, and the summary line over all clusters.

pub mod incremental;
pub mod live;
pub mod print;
pub mod print_rollouts;
pub mod source;
pub mod source_report;
mod source_work;
pub mod transition;
pub mod tree;
pub mod work_states;

use std::collections::BTreeSet;

use gitwork_api::cluster::CONDITION_AVAILABLE;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use gitwork_core::model::status_view as view;
pub use gitwork_core::model::work_state::State;

use gitwork_core::model::name::ClusterName;
use gitwork_core::model::work::{ANNOTATION_COMMIT, ANNOTATION_PATH, LABEL_SOURCE};
use gitwork_core::model::work_state::{Conditions, MESSAGE_CHARS_MAX, first_failure, judge, text};
use gitwork_core::text::truncate::truncate_chars;

/// One line of the status table.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// The managed cluster: the namespace of the ManifestWork.
    pub cluster: String,
    /// The name of the ManifestWork.
    pub work: String,
    /// The state by the agent's conditions, or by the daemon's report.
    pub state: State,
    /// When the state began (RFC 3339), if the agent reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The agent's message for a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The reason of the condition that determines the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Manifests of the work, and how many of them the agent has applied.
    pub manifests: usize,
    /// Manifests with the condition Applied. See `manifests`.
    pub manifests_applied: usize,
    /// The label `gitwork.dev/source`; absent if gitwork does not own the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The annotation `gitwork.dev/commit`: the commit that last changed the work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The annotation `gitwork.dev/path`: the work folder in Git.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The hub cannot reach the cluster: the status may be stale.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
    /// State, reason and message come from the daemon's report, not from the agent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reported: bool,
}

/// Reads one ManifestWork as returned by the API server.
pub fn of_work(object: &Value, is_unreachable: impl Fn(&ClusterName) -> bool) -> WorkStatus {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let conditions = Conditions::of(object.get("status"), generation);
    let deleted = text(object, "/metadata/deletionTimestamp");
    let (state, condition) =
        if deleted.is_some() { (State::Deleting, None) } else { judge(&conditions) };
    let owned = |text: &str| truncate_chars(text, MESSAGE_CHARS_MAX).into_owned();
    let field = |condition: Option<&Value>, name: &str| {
        condition.and_then(|condition| text(condition, name)).map(owned)
    };
    let annotation = |name: &str| {
        let annotations = object.pointer("/metadata/annotations");
        annotations.and_then(|all| all.get(name)).and_then(Value::as_str).map(owned)
    };
    let cluster = text(object, "/metadata/namespace").unwrap_or_default();
    let (manifests, manifests_applied) = manifests(object);
    WorkStatus {
        cluster: owned(cluster),
        work: owned(text(object, "/metadata/name").unwrap_or_default()),
        state,
        since: deleted.map(owned).or_else(|| field(condition, "/lastTransitionTime")),
        message: matches!(state, State::Failed | State::Degraded)
            .then(|| failure(object).or_else(|| field(condition, "/message")))
            .flatten(),
        reason: field(condition, "/reason"),
        manifests,
        manifests_applied,
        source: object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(LABEL_SOURCE))
            .and_then(Value::as_str)
            .map(owned),
        commit: annotation(ANNOTATION_COMMIT),
        path: annotation(ANNOTATION_PATH),
        unreachable: ClusterName::parse(cluster).is_ok_and(|name| is_unreachable(&name)),
        reported: false,
    }
}

fn manifest_statuses(object: &Value) -> &[Value] {
    let all = object.pointer("/status/resourceStatus/manifests").and_then(Value::as_array);
    all.map_or(&[], Vec::as_slice)
}

fn manifests(object: &Value) -> (usize, usize) {
    let wanted = object.pointer("/spec/workload/manifests").and_then(Value::as_array);
    let applied = manifest_statuses(object)
        .iter()
        .filter(|manifest| Conditions::of(Some(manifest), None).is("Applied", "True").is_some());
    (wanted.map_or(0, Vec::len), applied.count())
}

/// The agent's message about the first manifest that it could not apply, with the object's name.
fn failure(object: &Value) -> Option<String> {
    first_failure(manifest_statuses(object))
}

/// The clusters whose condition `ManagedClusterConditionAvailable` is not True.
pub fn unreachable(managed_clusters: &[Value]) -> BTreeSet<ClusterName> {
    let lost = managed_clusters.iter().filter(|cluster| {
        let conditions = Conditions::of(cluster.get("status"), None);
        let condition = conditions.get(CONDITION_AVAILABLE);
        condition.is_some_and(|condition| text(condition, "/status") != Some("True"))
    });
    lost.filter_map(|cluster| ClusterName::parse(text(cluster, "/metadata/name")?).ok()).collect()
}

/// The summary of all works in one line: `97/100 clusters applied, 2 progressing, 1 failed:
/// edge-7`.
pub fn aggregate<'a>(works: impl IntoIterator<Item = &'a WorkStatus>) -> String {
    let works = works.into_iter().map(|work| (work.cluster.as_str(), work.state, work.unreachable));
    Clusters::new(works).line(NAMES_SHOWN)
}

/// Clusters that the line names for each state.
pub(crate) const NAMES_SHOWN: usize = 3;

/// All clusters, each with its worst state and whether it is unreachable.
#[derive(Debug, Clone, Default)]
pub struct Clusters<'a> {
    /// Sorted by name; each once.
    all: Vec<(&'a str, State, bool)>,
    /// How many reachable clusters have each state, in the order of `State::ALL`.
    counts: [usize; State::ALL.len()],
    lost: usize,
}

impl<'a> Clusters<'a> {
    /// From `(cluster, state, unreachable)` of each work.
    pub fn new(works: impl IntoIterator<Item = (&'a str, State, bool)>) -> Self {
        let mut all: Vec<(&str, State, bool)> = Vec::new();
        let mut is_sorted = true;
        for (name, state, lost) in works {
            // The works of one cluster are usually adjacent, and clusters sorted.
            match all.last_mut() {
                Some((last, worst, _)) if *last == name => *worst = (*worst).min(state),
                last => {
                    is_sorted &= last.is_none_or(|(last, _, _)| *last < name);
                    all.push((name, state, lost));
                }
            }
        }
        if !is_sorted {
            // What is known first of a cluster counts: the order of equal names stays.
            all.sort_by_key(|(name, _, _)| *name);
            all.dedup_by(|(name, state, _), (kept, worst, _)| {
                let is_same = kept == name;
                *worst = if is_same { (*worst).min(*state) } else { *worst };
                is_same
            });
        }
        let mut clusters = Self { all, ..Self::default() };
        for (_, state, lost) in &clusters.all {
            match lost {
                true => clusters.lost += 1,
                false => clusters.counts[*state as usize] += 1,
            }
        }
        clusters
    }

    /// How many clusters there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is no cluster.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How many reachable clusters have a worst state that matches.
    fn count_with(&self, admits: impl Fn(State) -> bool) -> usize {
        let found = State::ALL.into_iter().filter(|state| admits(*state));
        found.map(|state| self.count(state)).sum()
    }

    /// How many reachable clusters have applied all of their works.
    pub fn applied(&self) -> usize {
        self.count_with(State::is_applied)
    }

    /// How many reachable clusters have this worst state.
    pub fn count(&self, state: State) -> usize {
        self.counts[state as usize]
    }

    /// How many clusters are unreachable.
    pub fn unreachable(&self) -> usize {
        self.lost
    }

    /// The verdict over all clusters. Unreachable clusters cannot fail it. If all are unreachable
    /// it is pending.
    pub fn verdict(&self) -> RolloutVerdict {
        if self.count_with(State::is_failure) > 0 {
            RolloutVerdict::Failure
        } else if self.count_with(State::is_open) > 0
            || (!self.is_empty() && self.lost == self.len())
        {
            RolloutVerdict::Pending
        } else {
            RolloutVerdict::Success
        }
    }

    /// The summary line. It names up to `names` clusters for each state that needs attention.
    pub fn line(&self, names: usize) -> String {
        self.line_of("cluster", names, |_| None)
    }

    /// How many of all items have applied all of their works.
    pub(crate) fn applied_of(&self, noun: &str) -> String {
        let plural = if self.len() == 1 { "" } else { "s" };
        format!("{}/{} {noun}{plural} applied", self.applied(), self.len())
    }

    /// The summary line for other items than clusters, for example `work`. `note`: what is said
    /// of the items of a state behind their names.
    pub(crate) fn line_of(
        &self,
        noun: &str,
        names: usize,
        note: impl Fn(State) -> Option<String>,
    ) -> String {
        let mut reported = self.applied_of(noun);
        for state in [State::Pending, State::Progressing, State::Deleting, State::Suspended] {
            let count = self.count(state);
            if count > 0 {
                reported.push_str(&format!(", {count} {state}"));
            }
        }
        for state in [State::Held, State::Frozen, State::Degraded, State::Failed] {
            let count = self.count(state);
            if count > 0 {
                let names = self.few(count, names, |other, lost| other == state && !lost);
                let note = note(state).map_or_else(String::new, |note| format!(" ({note})"));
                reported.push_str(&format!(", {count} {state}{names}{note}"));
            }
        }
        if self.lost > 0 {
            let names = self.few(self.lost, names, |_, lost| lost);
            reported.push_str(&format!(", {} unreachable{names}", self.lost));
        }
        reported
    }

    /// The first names of clusters that match, of which there are `count`.
    fn few(&self, count: usize, names: usize, admits: impl Fn(State, bool) -> bool) -> String {
        let found = self.all.iter().filter(|(_, state, lost)| admits(*state, *lost));
        let shown = found.take(names).map(|(name, _, _)| *name).collect::<Vec<_>>().join(", ");
        match count.saturating_sub(names) {
            _ if names == 0 => String::new(),
            0 => format!(": {shown}"),
            more => format!(": {shown} and {more} more"),
        }
    }
}

/// The result of a commit's rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutVerdict {
    /// A reachable cluster has not finished, or no cluster is reachable.
    Pending,
    /// All reachable clusters have applied the commit.
    Success,
    /// Git has an error, or a reachable cluster needs attention.
    Failure,
}

#[cfg(test)]
mod tests;
