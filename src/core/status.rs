//! How far a cluster is with a ManifestWork, read from what its agent reports. Pure.
//!
//! - [`view`]: what is kept of each work's status for the daemon, bounded.
//! - [`tree`]: a work down to its objects; [`live`]: works that are followed; [`print`]: both for people.
//! - [`turn`]: what has changed between two states of a source, for logs and Events.
//! - [`source`]: the state of all works of a source, with the plan and Git's errors.
//! - here: the states, the line that sums them up, and single works for `gitwork status`.

pub mod live;
pub mod print;
pub mod source;
pub mod tree;
pub mod turn;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::name::ClusterName;
use super::work::{ANNOTATION_COMMIT, ANNOTATION_PATH, LABEL_SOURCE};

/// What becomes of a work. A condition counts only where its `observedGeneration` is the work's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The agent failed to apply a manifest.
    Failed,
    /// The agent reports the condition Degraded.
    Degraded,
    /// Its files in Git cannot be read: the work is kept as it was.
    Frozen,
    /// A change that Git asks for waits for somebody's word.
    Held,
    /// The work is being deleted.
    Deleting,
    /// The agent has not yet acted on what the hub has.
    Pending,
    /// The agent reports the condition Progressing.
    Progressing,
    /// Suspended in Git: nothing is written, as was asked for.
    Suspended,
    /// All manifests are applied; not all of their objects are known to be there.
    Applied,
    /// All objects are there, as the agent sees it.
    Available,
    /// The condition Complete is True.
    Complete,
}

impl State {
    /// Every state, the worst first.
    pub const ALL: [State; 11] = [
        State::Failed,
        State::Degraded,
        State::Frozen,
        State::Held,
        State::Deleting,
        State::Pending,
        State::Progressing,
        State::Suspended,
        State::Applied,
        State::Available,
        State::Complete,
    ];
    pub fn as_str(self) -> &'static str {
        match self {
            State::Failed => "failed",
            State::Degraded => "degraded",
            State::Frozen => "frozen",
            State::Held => "held",
            State::Deleting => "deleting",
            State::Pending => "pending",
            State::Progressing => "progressing",
            State::Suspended => "suspended",
            State::Applied => "applied",
            State::Available => "available",
            State::Complete => "complete",
        }
    }
    /// The cluster has taken the work.
    pub fn is_applied(self) -> bool {
        matches!(self, State::Applied | State::Available | State::Complete)
    }
    /// Somebody must mend something before it can become better.
    pub fn is_failure(self) -> bool {
        matches!(self, State::Failed | State::Degraded | State::Frozen)
    }
    /// It is on its way, or waits for somebody.
    pub fn is_open(self) -> bool {
        matches!(self, State::Held | State::Deleting | State::Pending | State::Progressing)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One line of the status table.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    pub cluster: String,
    pub work: String,
    pub state: State,
    /// When it came to be so (RFC 3339), as far as the agent says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What the agent says where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The reason of the condition that the state was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Manifests of the work, and how many of them the agent has applied.
    pub manifests: usize,
    pub manifests_applied: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The cluster has not been heard of lately: what it last said may be out of date.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
}

/// Text of a cluster is shown up to this many characters.
const MESSAGE_CHARS_MAX: usize = 1_000;

fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

struct Conditions<'a> {
    all: &'a [Value],
    generation: Option<i64>,
}

impl<'a> Conditions<'a> {
    fn of(status: Option<&'a Value>, generation: Option<i64>) -> Self {
        let all = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
        Self { all: all.map_or(&[], Vec::as_slice), generation }
    }
    /// The condition, where it is about the present generation.
    fn get(&self, kind: &str) -> Option<&'a Value> {
        self.all.iter().find(|condition| {
            text(condition, "/type") == Some(kind)
                && (self.generation.is_none()
                    || condition.get("observedGeneration").and_then(Value::as_i64)
                        == self.generation)
        })
    }
    fn is(&self, kind: &str, status: &str) -> Option<&'a Value> {
        self.get(kind).filter(|condition| text(condition, "/status") == Some(status))
    }
}

/// Reads one ManifestWork as the API server answers it.
pub fn of_work(object: &Value, is_unreachable: impl Fn(&ClusterName) -> bool) -> WorkStatus {
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let conditions = Conditions::of(object.get("status"), generation);
    let deleted = text(object, "/metadata/deletionTimestamp");
    let (state, condition) =
        if deleted.is_some() { (State::Deleting, None) } else { judge(&conditions) };
    let owned = |text: &str| text.chars().take(MESSAGE_CHARS_MAX).collect::<String>();
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
    }
}

fn judge<'a>(conditions: &Conditions<'a>) -> (State, Option<&'a Value>) {
    if let Some(failed) = conditions.is("Applied", "False") {
        return (State::Failed, Some(failed));
    }
    let Some(applied) = conditions.is("Applied", "True") else {
        return (State::Pending, conditions.get("Applied"));
    };
    let known = [
        ("Degraded", "True", State::Degraded),
        ("Complete", "True", State::Complete),
        ("Progressing", "True", State::Progressing),
        ("Available", "False", State::Progressing),
        ("Available", "True", State::Available),
    ];
    for (kind, status, state) in known {
        if let Some(condition) = conditions.is(kind, status) {
            return (state, Some(condition));
        }
    }
    (State::Applied, Some(applied))
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

/// What the agent says of the first manifest that it could not apply, with the object's name.
fn failure(object: &Value) -> Option<String> {
    first_failure(manifest_statuses(object))
}

fn first_failure(manifests: &[Value]) -> Option<String> {
    manifests.iter().find_map(|manifest| {
        let failed = Conditions::of(Some(manifest), None).is("Applied", "False")?;
        let told = format!("{}: {}", object_name(manifest), told_of(manifest, failed));
        Some(told.chars().take(MESSAGE_CHARS_MAX).collect())
    })
}

/// `Deployment shop/web`, of one entry of `status.resourceStatus.manifests`.
fn object_name(manifest: &Value) -> String {
    let name = |field: &str| text(manifest, &format!("/resourceMeta/{field}")).unwrap_or_default();
    let namespace = name("namespace");
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{slash}{}", name("kind"), name("name"))
}

fn is_secret(manifest: &Value) -> bool {
    let meta = |field: &str| text(manifest, &format!("/resourceMeta/{field}"));
    meta("kind") == Some("Secret") || meta("resource") == Some("secrets")
}

/// A condition's message. An API server may quote a Secret's data in what it says of one, so that is not shown.
fn told_of<'a>(manifest: &Value, condition: &'a Value) -> &'a str {
    if is_secret(manifest) {
        "what was said of this Secret is not shown, as it may quote its data"
    } else {
        text(condition, "/message").unwrap_or_default()
    }
}

/// The clusters that the hub has lost touch with: their condition `ManagedClusterConditionAvailable` is not True.
pub fn unreachable(managed_clusters: &[Value]) -> BTreeSet<ClusterName> {
    let lost = managed_clusters.iter().filter(|cluster| {
        let conditions = Conditions::of(cluster.get("status"), None);
        let condition = conditions.get("ManagedClusterConditionAvailable");
        condition.is_some_and(|condition| text(condition, "/status") != Some("True"))
    });
    lost.filter_map(|cluster| ClusterName::parse(text(cluster, "/metadata/name")?).ok()).collect()
}

/// The whole in one line: `97/100 clusters applied, 2 progressing, 1 failed: edge-7`.
pub fn aggregate<'a>(works: impl IntoIterator<Item = &'a WorkStatus>) -> String {
    let works = works.into_iter().map(|work| (work.cluster.as_str(), work.state, work.unreachable));
    Clusters::new(works).line(NAMES_SHOWN)
}

/// Clusters that a line names of one kind.
const NAMES_SHOWN: usize = 3;

/// All clusters, each as its worst work, and whether the hub has lost touch with it.
#[derive(Debug, Clone, Default)]
pub struct Clusters<'a>(BTreeMap<&'a str, (State, bool)>);

impl<'a> Clusters<'a> {
    /// From `(cluster, state, unreachable)` of each work.
    pub fn new(works: impl IntoIterator<Item = (&'a str, State, bool)>) -> Self {
        let mut clusters: BTreeMap<&str, (State, bool)> = BTreeMap::new();
        let mut add = |(cluster, state, unreachable)| {
            let worst = clusters.entry(cluster).or_insert((state, unreachable));
            worst.0 = worst.0.min(state);
        };
        // The works of one cluster mostly stand together: they are one look into the map.
        let mut last: Option<(&str, State, bool)> = None;
        for (cluster, state, unreachable) in works {
            last = Some(match last.take() {
                Some((name, worst, lost)) if name == cluster => (name, worst.min(state), lost),
                other => {
                    other.into_iter().for_each(&mut add);
                    (cluster, state, unreachable)
                }
            });
        }
        last.into_iter().for_each(&mut add);
        Self(clusters)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The clusters that can be reached and whose worst work is so.
    fn with(&self, admits: impl Fn(State) -> bool) -> Vec<&'a str> {
        let found = self.0.iter().filter(|(_, (state, lost))| !*lost && admits(*state));
        found.map(|(name, _)| *name).collect()
    }

    fn lost(&self) -> Vec<&'a str> {
        self.0.iter().filter(|(_, (_, lost))| *lost).map(|(name, _)| *name).collect()
    }

    /// How many clusters have taken all of their works.
    pub fn applied(&self) -> usize {
        self.with(State::is_applied).len()
    }

    /// How many clusters are so; those that cannot be reached are counted apart.
    pub fn count(&self, state: State) -> usize {
        self.with(|other| other == state).len()
    }

    /// How many clusters cannot be reached.
    pub fn unreachable(&self) -> usize {
        self.lost().len()
    }

    /// What it comes to. Clusters that cannot be reached fail nothing, and finish nothing on their own.
    pub fn verdict(&self) -> Verdict {
        if self.0.values().any(|(state, lost)| !lost && state.is_failure()) {
            Verdict::Failure
        } else if self.0.values().any(|(state, lost)| !lost && state.is_open())
            || (!self.0.is_empty() && self.0.values().all(|(_, lost)| *lost))
        {
            Verdict::Pending
        } else {
            Verdict::Success
        }
    }

    /// One line. It names up to `names` of the clusters that somebody should look at, of each kind.
    pub fn line(&self, names: usize) -> String {
        self.line_of("cluster", names)
    }

    /// The same of other things than clusters, as in "work".
    pub fn line_of(&self, noun: &str, names: usize) -> String {
        let mut told = format!(
            "{}/{} {noun}{} applied",
            self.applied(),
            self.len(),
            if self.len() == 1 { "" } else { "s" }
        );
        for state in [State::Pending, State::Progressing, State::Deleting, State::Suspended] {
            let count = self.count(state);
            if count > 0 {
                told.push_str(&format!(", {count} {state}"));
            }
        }
        let of = |state| self.with(|other| other == state);
        for (word, clusters) in [
            ("held", of(State::Held)),
            ("frozen", of(State::Frozen)),
            ("degraded", of(State::Degraded)),
            ("failed", of(State::Failed)),
            ("unreachable", self.lost()),
        ] {
            if !clusters.is_empty() {
                told.push_str(&format!(", {} {word}{}", clusters.len(), few(&clusters, names)));
            }
        }
        told
    }
}

/// What a commit has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Pending,
    Success,
    Failure,
}

fn few(clusters: &[&str], names: usize) -> String {
    let shown = clusters.iter().take(names).copied().collect::<Vec<_>>().join(", ");
    match clusters.len().saturating_sub(names) {
        _ if names == 0 => String::new(),
        0 => format!(": {shown}"),
        more => format!(": {shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(cluster: &str, conditions: &Value) -> Value {
        json!({
            "metadata": {
                "namespace": cluster, "name": "web", "generation": 2,
                "labels": { LABEL_SOURCE: "fleet" },
                "annotations": { ANNOTATION_COMMIT: "abc" },
            },
            "spec": { "workload": { "manifests": [{}, {}] } },
            "status": { "conditions": conditions },
        })
    }

    fn condition(kind: &str, status: &str, generation: i64) -> Value {
        json!({ "type": kind, "status": status, "observedGeneration": generation,
                "lastTransitionTime": "2026-01-02T03:04:05Z", "message": "because" })
    }

    #[test]
    fn conditions_of_an_older_generation_do_not_count() {
        let cases = [
            (json!([]), State::Pending),
            (json!([condition("Applied", "True", 1)]), State::Pending),
            (json!([condition("Applied", "False", 1)]), State::Pending),
            (json!([condition("Applied", "True", 2)]), State::Applied),
            (json!([condition("Applied", "False", 2)]), State::Failed),
            (
                json!([condition("Applied", "True", 2), condition("Available", "True", 1)]),
                State::Applied,
            ),
            (
                json!([condition("Applied", "True", 2), condition("Available", "True", 2)]),
                State::Available,
            ),
            (
                json!([condition("Applied", "True", 2), condition("Available", "False", 2)]),
                State::Progressing,
            ),
            (
                json!([
                    condition("Applied", "True", 2),
                    condition("Available", "True", 2),
                    condition("Progressing", "True", 2)
                ]),
                State::Progressing,
            ),
            (
                json!([condition("Applied", "True", 2), condition("Degraded", "True", 2)]),
                State::Degraded,
            ),
            (
                json!([condition("Applied", "True", 2), condition("Complete", "True", 2)]),
                State::Complete,
            ),
        ];
        for (conditions, expected) in cases {
            let status = of_work(&work("edge-1", &conditions), |_| false);
            assert_eq!(status.state, expected, "{conditions}");
        }
    }

    #[test]
    fn a_failure_names_the_object() {
        let mut object = work("edge-1", &json!([condition("Applied", "False", 2)]));
        object["status"]["resourceStatus"] = json!({ "manifests": [
            { "resourceMeta": { "kind": "ConfigMap", "namespace": "shop", "name": "a" },
              "conditions": [{ "type": "Applied", "status": "True" }] },
            { "resourceMeta": { "kind": "Deployment", "namespace": "shop", "name": "web" },
              "conditions": [{ "type": "Applied", "status": "False", "message": "no such image" }] },
        ]});
        let status = of_work(&object, |_| false);
        assert_eq!(status.message.as_deref(), Some("Deployment shop/web: no such image"));
        assert_eq!((status.manifests, status.manifests_applied), (2, 1));
    }

    #[test]
    fn one_line_tells_the_whole() {
        let of = |cluster: &str, kind: &str, status: &str| {
            let conditions = json!([condition("Applied", "True", 2), condition(kind, status, 2)]);
            of_work(&work(cluster, &conditions), |name| name.as_str() == "gone")
        };
        let failed =
            of_work(&work("edge-7", &json!([condition("Applied", "False", 2)])), |_| false);
        let works = [
            of("edge-1", "Available", "True"),
            of("edge-2", "Progressing", "True"),
            of("gone", "Available", "True"),
            of("edge-7", "Available", "True"),
            failed,
        ];
        assert_eq!(
            aggregate(works.iter()),
            "1/4 clusters applied, 1 progressing, 1 failed: edge-7, 1 unreachable: gone"
        );
    }

    #[test]
    fn what_is_said_of_a_secret_is_not_shown() {
        let mut object = work("edge-1", &json!([condition("Applied", "False", 2)]));
        object["status"]["resourceStatus"] = json!({ "manifests": [
            { "resourceMeta": { "kind": "Secret", "namespace": "shop", "name": "key" },
              "conditions": [{ "type": "Applied", "status": "False", "message": "CANARY" }] },
        ]});
        let message = of_work(&object, |_| false).message.unwrap();
        assert!(
            message.starts_with("Secret shop/key: ") && !message.contains("CANARY"),
            "{message}"
        );
    }

    #[test]
    fn verdicts_follow_the_clusters_that_can_be_reached() {
        use State::{Applied, Degraded, Frozen, Held, Pending, Progressing, Suspended};
        type Case = (&'static [(&'static str, State, bool)], Verdict);
        let cases: &[Case] = &[
            (&[], Verdict::Success),
            (&[("a", Applied, false)], Verdict::Success),
            (&[("a", Applied, false), ("b", Suspended, false)], Verdict::Success),
            (&[("a", Applied, false), ("b", Pending, true)], Verdict::Success),
            (&[("a", Applied, false), ("b", Degraded, true)], Verdict::Success),
            (&[("a", Applied, true)], Verdict::Pending),
            (&[("a", Applied, false), ("a", Progressing, false)], Verdict::Pending),
            (&[("a", Held, false)], Verdict::Pending),
            (&[("a", Progressing, false), ("b", Frozen, false)], Verdict::Failure),
        ];
        for (works, expected) in cases {
            assert_eq!(Clusters::new(works.iter().copied()).verdict(), *expected, "{works:?}");
        }
    }

    #[test]
    fn a_line_can_do_without_names() {
        let works: Vec<String> = (0..9).map(|n| format!("c{n}")).collect();
        let works = works.iter().map(|name| (name.as_str(), State::Failed, false));
        let clusters = Clusters::new(works);
        assert_eq!(clusters.line(1), "0/9 clusters applied, 9 failed: c0 and 8 more");
        assert_eq!(clusters.line(0), "0/9 clusters applied, 9 failed");
    }

    #[test]
    fn hostile_objects_do_no_harm() {
        for object in [json!(null), json!([]), json!({"status": {"conditions": 7}, "metadata": []})]
        {
            assert_eq!(of_work(&object, |_| false).state, State::Pending);
        }
    }
}
