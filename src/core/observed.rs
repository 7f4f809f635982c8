//! What the hub has, reduced to what planning needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::digest::Digest;
use super::name::{ClusterName, NameError, SourceId, WorkKey, WorkName};
use super::plan::Effect;
use super::rival::Rival;
use super::status::view::StatusView;
use super::work::{
    self, ANNOTATION_ADOPT, ANNOTATION_COMMIT, ANNOTATION_HASH, ANNOTATION_KEYS,
    ANNOTATION_NEWCOMER, ANNOTATION_PATH, ANNOTATION_PRUNE, DeleteOption, LABEL_SOURCE,
    OWN_ANNOTATIONS, OWN_LABELS,
};
use crate::limits;

/// OCM's agent puts it on a work before it applies anything of it, and takes it off a deleted one once the
/// objects are gone from the cluster (OCM work agent, names and finalizers).
pub const AGENT_FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// One ManifestWork on the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedWork {
    pub key: WorkKey,
    pub uid: String,
    /// Opaque; sent back as the precondition of a write.
    pub resource_version: String,
    pub generation: i64,
    /// The value of `gitwork.dev/source`; `None` for a work that is no gitwork's.
    pub source: Option<String>,
    /// The source that an operator allows to take this work over (`gitwork.dev/adopt`).
    pub adopt: Option<String>,
    /// The digest of what is there now, over the same parts as `WorkBody::digest`: the spec, the labels and
    /// annotations that gitwork set. Equal to the desired digest exactly where there is nothing to write.
    pub digest: Digest,
    /// `gitwork.dev/content-hash`: the digest of what gitwork last wrote. Differs from `digest` after a manual edit.
    pub written: Option<Digest>,
    /// `gitwork.dev/commit`.
    pub commit: Option<String>,
    /// `gitwork.dev/path`.
    pub path: Option<String>,
    /// `spec.deleteOption` on the hub.
    pub delete_option: DeleteOption,
    /// From `gitwork.dev/prune`.
    pub prune: bool,
    /// `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Made while deletions of its source were held.
    pub newcomer: bool,
    /// From `gitwork.dev/keys`.
    pub owned: OwnedKeys,
    /// Nobody seems to own it: it has no label of a source or of another tool, none of OCM's controllers, no owner
    /// references, and no annotation of gitwork's.
    pub unowned: bool,
    /// Who has edited it, where the hub has not what gitwork wrote last.
    pub edited_by: Option<Arc<Rival>>,
    /// There is no `metadata.labels` at all: a JSON Patch has to make it first.
    pub labels_absent: bool,
    /// As `labels_absent`, for `metadata.annotations`.
    pub annotations_absent: bool,
    pub agent: AgentView,
    /// What the cluster's agent reports.
    pub status: StatusView,
}

/// The labels and annotations that a user set through Git: gitwork takes off again what Git drops, and no other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OwnedKeys {
    pub labels: BTreeSet<String>,
    pub annotations: BTreeSet<String>,
}

/// How far the cluster's work agent has come with a work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentView {
    /// The agent's finalizer is on the work: an agent has seen it, and its objects may exist.
    pub seen: bool,
    /// `observedGeneration` of the work's condition `Applied`.
    pub applied_generation: Option<i64>,
    /// The condition `Applied` is True: every manifest of that generation was applied.
    pub applied: bool,
    /// The condition `Complete` is True: OCM's agent does nothing more for such a work, so a change of its
    /// deleteOption is never observed (OCM work agent, ManifestWorkController).
    pub complete: bool,
    /// The work has no manifests. OCM's agent says nothing of `Applied` then, and deletes what the work had before,
    /// whatever the deleteOption is (OCM work agent, AppliedManifestWork reconciler): there is nothing to wait for.
    pub is_empty: bool,
}

impl AgentView {
    /// Whether the agent has acted, or will never act, on what the hub has at `generation`.
    pub fn has_settled(&self, generation: i64) -> bool {
        let has_nothing_to_do = !self.seen || self.complete || self.is_empty;
        has_nothing_to_do || self.applied_generation == Some(generation)
    }

    /// Whether every object that the deleteOption of `generation` keeps is let go of. The agent orphans an
    /// object by taking its owner reference off as it applies the manifest (OCM work agent, Orphan timing), so
    /// all of them must have been applied at this generation; an unseen work has no objects.
    pub fn has_orphaned(&self, generation: i64) -> bool {
        let has_applied = self.applied && self.applied_generation == Some(generation);
        !self.seen || self.is_empty || has_applied
    }
}

/// What the hub made of a write of gitwork's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredForm {
    /// `WorkBody::digest` of what was sent, or the digest of the deleteOption where only that was.
    pub written: Digest,
    /// The digest of the hub's answer.
    pub stored: Digest,
}

/// The uid of a work, and whose it was.
type Went = (String, Option<String>);

/// Every ManifestWork of one source that the hub has, and those foreign ones whose name is in its way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    pub works: BTreeMap<WorkKey, ObservedWork>,
    /// The last writes that the hub did not store as they were sent. It lives as long as the process: after a
    /// restart such a work is written once more.
    pub stored: BTreeMap<WorkKey, StoredForm>,
    /// Works of the source that went since the last plan, by uid and source: the answer to a write or a look of before then
    /// must not bring them back.
    pub went: BTreeMap<WorkKey, Went>,
    /// A complete list came since the last plan: which of it and an answer to a write is the newer one is not known.
    pub listed_anew: bool,
}

impl Observed {
    /// Takes in the complete state of the source's works. Foreign ones are not part of such a list, and stay.
    pub fn listed(&mut self, source: &SourceId, works: Vec<ObservedWork>) {
        // Built anew, so that its nodes are full: one that grows in order leaves half of each empty.
        let listed = works.into_iter().map(|work| (work.key.clone(), work));
        let mut listed: BTreeMap<WorkKey, ObservedWork> = listed.collect();
        for (key, work) in self.works.extract_if(.., |_, work| work.is_ours(source)) {
            if listed.get(&key).is_none_or(|now| now.uid != work.uid) {
                self.went.insert(key, went(&work));
            }
        }
        // What was told to be gone and is listed has come back: the hub was restored, or the list is an older one.
        self.went.retain(|key, _| !listed.contains_key(key));
        self.works.append(&mut listed);
        let Self { works, stored, .. } = self;
        stored.retain(|key, _| works.contains_key(key));
        self.listed_anew = true;
    }

    /// Takes in that nothing is under way any more: no answer is still to come.
    pub fn at_rest(&mut self) {
        self.went.clear();
        self.listed_anew = false;
    }

    /// Whether it has to be asked for what became of a work that was just made: a list that came since does not have it.
    pub fn may_have_gone(&self, key: &WorkKey) -> bool {
        self.listed_anew && !self.works.contains_key(key)
    }

    /// Takes in a work that the watch tells of. Where it told before that the work is gone, the work has come back: its
    /// label was put on again, or the list was an older one.
    pub fn changed(&mut self, work: ObservedWork) {
        self.went.remove(&work.key);
        self.take_in(work);
    }

    /// Takes in a work as it is now, or was a moment ago: a watch may tell of a state that is older than the
    /// answer to a write, and must not bring it back.
    fn take_in(&mut self, work: ObservedWork) {
        if !self.works.get(&work.key).is_some_and(|known| known.is_newer_than(&work)) {
            self.works.insert(work.key.clone(), work);
        }
    }

    /// Takes in that a work is no more among the source's. Whether its name is free, the next write tells.
    pub fn gone(&mut self, source: &SourceId, key: &WorkKey) {
        if let Some(work) = self.works.get(key).filter(|work| work.is_ours(source)) {
            self.went.insert(key.clone(), went(work));
            self.forget(key);
        }
    }

    /// Takes in what the hub has under a name, whosever it is.
    pub fn looked_up(&mut self, key: &WorkKey, there: Option<ObservedWork>) {
        match there.filter(|work| !self.has_gone(work)) {
            Some(work) => self.take_in(work),
            None => self.forget(key),
        }
    }

    /// Whether the hub has told already that this very work is no more.
    fn has_gone(&self, work: &ObservedWork) -> bool {
        self.went.get(&work.key).is_some_and(|gone| *gone == went(work))
    }

    /// Takes in what the hub answered to gitwork's own write, and remembers where that is not what was written.
    /// Only the answer to the write itself will do for that: what is read later may hold somebody's edit.
    pub fn answered(&mut self, key: &WorkKey, effect: &Effect, answer: Option<ObservedWork>) {
        let answer = answer.filter(|work| !self.has_gone(work));
        let (Some(work), false) = (answer, matches!(effect, Effect::Release { .. })) else {
            return self.forget(key);
        };
        let as_written = match effect {
            Effect::Create { body } | Effect::Update { body, .. } | Effect::Adopt { body, .. } => {
                work.digest == body.digest
            }
            Effect::SetDeleteOption { delete_option, .. } => work.delete_option == *delete_option,
            Effect::Delete { .. } | Effect::Release { .. } => true,
        };
        match written(effect).filter(|_| !as_written) {
            Some(written) => {
                let form = StoredForm { written, stored: work.digest };
                self.stored.insert(key.clone(), form);
            }
            None => drop(self.stored.remove(key)),
        }
        self.take_in(work);
    }

    fn forget(&mut self, key: &WorkKey) {
        self.works.remove(key);
        self.stored.remove(key);
    }

    /// Whether `there` is what the hub makes of just this effect: to do it again would change nothing.
    pub fn is_stored_form(&self, there: &ObservedWork, effect: &Effect) -> bool {
        self.stored.get(&there.key).is_some_and(|form| {
            form.stored == there.digest && written(effect) == Some(form.written)
        })
    }

    /// Whether `there` is as the hub stored gitwork's last write of it.
    pub fn is_as_stored(&self, there: &ObservedWork) -> bool {
        self.stored.get(&there.key).is_some_and(|form| form.stored == there.digest)
    }
}

/// What tells a work that went from others. Without its label it is another's, and may still be there.
fn went(work: &ObservedWork) -> Went {
    (work.uid.clone(), work.source.clone())
}

/// The digest of the content that an effect writes, where it writes any.
fn written(effect: &Effect) -> Option<Digest> {
    match effect {
        Effect::Create { body } | Effect::Update { body, .. } | Effect::Adopt { body, .. } => {
            Some(body.digest)
        }
        Effect::SetDeleteOption { delete_option, .. } => {
            Some(Digest::of_json(&delete_option.to_value(None)))
        }
        Effect::Delete { .. } | Effect::Release { .. } => None,
    }
}

/// Why an object is no ManifestWork that gitwork can speak of. None of gitwork's own is one of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableWork {
    #[error("a ManifestWork on the hub has no {field}")]
    Missing { field: &'static str },
    #[error("a ManifestWork on the hub has the {field} {name:?}, which {why}")]
    BadName { field: &'static str, name: String, why: NameError },
}

impl ObservedWork {
    /// Reads a ManifestWork as the API server answers it. Whatever users and other programs may put into it,
    /// what cannot be read counts as not set.
    pub fn from_manifest_work(mut object: Value) -> Result<Self, UnreadableWork> {
        let spec = object.get_mut("spec").map(Value::take).unwrap_or_default();
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let key = key(metadata)?;
        let status = object.get("status").unwrap_or(&Value::Null);
        let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
        let manifests =
            spec.pointer("/workload/manifests").and_then(Value::as_array).map_or(0, Vec::len);
        let labels = texts(metadata, "labels");
        let annotations = texts(metadata, "annotations");
        let owned = owned_keys(&annotations);
        let delete_option =
            DeleteOption::from_value(spec.get("deleteOption").unwrap_or(&Value::Null));
        let ours = |all: &BTreeMap<&str, &str>, own: &[&str], users: &BTreeSet<String>| {
            let keys = own.iter().copied().chain(users.iter().map(String::as_str));
            let there = keys.filter_map(|key| Some((key.to_owned(), (*all.get(key)?).to_owned())));
            there.collect::<BTreeMap<String, String>>()
        };
        let digest = work::digest(
            spec,
            &ours(&labels, &OWN_LABELS, &owned.labels),
            &ours(&annotations, &OWN_ANNOTATIONS, &owned.annotations),
        );
        let written = annotations.get(ANNOTATION_HASH).and_then(|text| Digest::parse(text));
        let edited = labels.contains_key(LABEL_SOURCE) && written != Some(digest);
        let rival = || Arc::new(Rival::of(metadata, &owned.labels, &owned.annotations));
        let edited_by = edited.then(rival);
        let short = |all: &BTreeMap<&str, &str>, key: &str, limit: usize| {
            all.get(key).filter(|text| text.len() <= limit).map(|text| (*text).to_owned())
        };
        Ok(Self {
            key,
            uid: required(metadata, "uid", "metadata.uid")?.to_owned(),
            resource_version: required(metadata, "resourceVersion", "metadata.resourceVersion")?
                .to_owned(),
            generation,
            // Kept whatever it is: a work with a label that gitwork would not write is still another's.
            source: labels.get(LABEL_SOURCE).map(|text| (*text).to_owned()),
            adopt: short(&annotations, ANNOTATION_ADOPT, 63),
            digest,
            written,
            commit: short(&annotations, ANNOTATION_COMMIT, 64),
            path: short(&annotations, ANNOTATION_PATH, limits::PATH_BYTES_MAX),
            delete_option,
            prune: annotations.get(ANNOTATION_PRUNE) != Some(&"false"),
            newcomer: annotations.contains_key(ANNOTATION_NEWCOMER),
            deleting: metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null()),
            unowned: is_unowned(metadata, &labels, &annotations),
            owned,
            edited_by,
            labels_absent: !metadata.get("labels").is_some_and(Value::is_object),
            annotations_absent: !metadata.get("annotations").is_some_and(Value::is_object),
            agent: agent_view(metadata, status, manifests == 0),
            status: StatusView::of(status, generation, manifests),
        })
    }

    pub fn is_ours(&self, source: &SourceId) -> bool {
        self.source.as_deref() == Some(source.as_str())
    }

    /// Whether this is a later state of the same object. Kubernetes' resourceVersions are numbers that grow; where
    /// they are none, nothing is known.
    fn is_newer_than(&self, other: &Self) -> bool {
        let number = |work: &Self| work.resource_version.parse::<u64>().ok();
        match (number(self), number(other)) {
            (Some(a), Some(b)) => self.uid == other.uid && a > b,
            _ => false,
        }
    }
}

fn required<'a>(
    metadata: &'a Value,
    name: &str,
    field: &'static str,
) -> Result<&'a str, UnreadableWork> {
    metadata.get(name).and_then(Value::as_str).ok_or(UnreadableWork::Missing { field })
}

fn key(metadata: &Value) -> Result<WorkKey, UnreadableWork> {
    let cluster = required(metadata, "namespace", "metadata.namespace")?;
    let name = required(metadata, "name", "metadata.name")?;
    let bad = |field, name: &str| {
        let name = name.chars().take(limits::WORK_NAME_CHARS_MAX).collect();
        move |why| UnreadableWork::BadName { field, name, why }
    };
    Ok(WorkKey {
        cluster: ClusterName::parse(cluster).map_err(bad("metadata.namespace", cluster))?,
        work: WorkName::parse(name).map_err(bad("metadata.name", name))?,
    })
}

/// A map of texts; entries of any other type are left out.
fn texts<'a>(metadata: &'a Value, field: &str) -> BTreeMap<&'a str, &'a str> {
    let all = metadata.get(field).and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// OCM labels the works of its add-ons and of ManifestWorkReplicaSets in this domain.
const OCM_DOMAIN: &str = "open-cluster-management.io/";

fn is_unowned(
    metadata: &Value,
    labels: &BTreeMap<&str, &str>,
    annotations: &BTreeMap<&str, &str>,
) -> bool {
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    let is_owners = |key: &&str| OWN_LABELS.contains(key) || key.contains(OCM_DOMAIN);
    owners.is_none_or(Vec::is_empty)
        && !labels.keys().any(is_owners)
        && !annotations.keys().any(|key| OWN_ANNOTATIONS.contains(key))
}

/// An annotation that gitwork did not write like this owns nothing. The digest differs then, so it is put back.
fn owned_keys(annotations: &BTreeMap<&str, &str>) -> OwnedKeys {
    annotations
        .get(ANNOTATION_KEYS)
        .filter(|text| text.len() <= limits::ANNOTATION_BYTES_MAX)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn agent_view(metadata: &Value, status: &Value, is_empty: bool) -> AgentView {
    let condition = |kind: &str| {
        let all = status.get("conditions").and_then(Value::as_array)?;
        all.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
    };
    let is_true = |condition: Option<&Value>| {
        condition.and_then(|c| c.get("status")).and_then(Value::as_str) == Some("True")
    };
    let finalizers = metadata.get("finalizers").and_then(Value::as_array);
    let applied = condition("Applied");
    AgentView {
        seen: finalizers.into_iter().flatten().any(|f| f.as_str() == Some(AGENT_FINALIZER)),
        applied_generation: applied
            .and_then(|c| c.get("observedGeneration"))
            .and_then(Value::as_i64),
        applied: is_true(applied),
        complete: is_true(condition("Complete")),
        is_empty,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work() -> Value {
        json!({
            "metadata": {
                "namespace": "edge-1", "name": "web", "uid": "u", "resourceVersion": "7", "generation": 3,
                "labels": {"gitwork.dev/source": "fleet", "app.kubernetes.io/managed-by": "gitwork", "team": "a"},
                "annotations": {
                    "gitwork.dev/keys": r#"{"labels":["team"]}"#,
                    "gitwork.dev/path": "clusters/edge-1/web",
                    "gitwork.dev/prune": "false",
                },
                "finalizers": [AGENT_FINALIZER],
            },
            "spec": {
                "deleteOption": {"propagationPolicy": "Orphan"},
                "workload": {"manifests": [{"kind": "ConfigMap"}]},
            },
            "status": {"conditions": [
                {"type": "Available", "status": "False", "observedGeneration": 9},
                {"type": "Applied", "status": "True", "observedGeneration": 3},
            ]},
        })
    }

    #[test]
    fn a_late_event_does_not_bring_back_an_older_state() {
        let version = |version: &str, uid: &str| {
            let mut work = work();
            work["metadata"]["resourceVersion"] = version.into();
            work["metadata"]["uid"] = uid.into();
            read(work)
        };
        for (known, told, taken) in [
            (version("10", "u"), version("9", "u"), false),
            (version("10", "u"), version("11", "u"), true),
            (version("10", "u"), version("9", "made anew"), true),
            (version("x", "u"), version("9", "u"), true),
        ] {
            let mut observed = Observed::default();
            observed.changed(known.clone());
            observed.changed(told.clone());
            let expected = if taken { &told } else { &known };
            assert_eq!(observed.works.get(&known.key), Some(expected));
        }
    }

    #[test]
    fn a_late_answer_does_not_bring_back_a_work_that_went() {
        let source = SourceId::parse("fleet").unwrap();
        let mut going = work();
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let (there, going) = (read(work()), read(going));
        let key = there.key.clone();
        let delete = Effect::Delete { uid: "u".into(), resource_version: "7".into() };
        // The watch, or a list, tells of the end before the answer to the deletion comes.
        for told in [Observed::gone as fn(&mut Observed, &_, &_), |o: &mut Observed, id, _| {
            o.listed(id, Vec::new());
        }] {
            let mut observed = Observed::default();
            observed.changed(there.clone());
            told(&mut observed, &source, &key);
            observed.answered(&key, &delete, Some(going.clone()));
            observed.looked_up(&key, Some(there.clone()));
            assert!(observed.works.is_empty());
            // One of the same name that was made anew is another one.
            let anew = ObservedWork { uid: "v".into(), ..there.clone() };
            observed.looked_up(&key, Some(anew));
            assert_eq!(observed.works.len(), 1);
            observed.at_rest();
            assert!(observed.went.is_empty());
        }
    }

    #[test]
    fn a_work_that_the_watch_brought_back_stays() {
        let source = SourceId::parse("fleet").unwrap();
        let there = read(work());
        let mut observed = Observed::default();
        observed.changed(there.clone());
        // Its label was taken off and put on again, or a list was older than what is there.
        observed.gone(&source, &there.key);
        observed.changed(there.clone());
        observed.looked_up(&there.key, Some(there.clone()));
        assert_eq!(observed.works.len(), 1);
        // Or the hub was restored.
        observed.gone(&source, &there.key);
        observed.listed(&source, vec![there.clone()]);
        observed.looked_up(&there.key, Some(there.clone()));
        assert_eq!(observed.works.len(), 1);
    }

    #[test]
    fn a_list_takes_the_sources_works_away_and_no_other() {
        let source = SourceId::parse("fleet").unwrap();
        let mut foreign = work();
        foreign["metadata"]["name"] = "foreign".into();
        foreign["metadata"]["labels"]["gitwork.dev/source"] = "another".into();
        let (ours, foreign) = (read(work()), read(foreign));
        let mut observed = Observed::default();
        observed.changed(ours.clone());
        observed.changed(foreign.clone());
        observed.listed(&source, Vec::new());
        assert_eq!(observed.works.keys().collect::<Vec<_>>(), [&foreign.key]);
        observed.gone(&source, &foreign.key);
        assert_eq!(observed.works.len(), 1, "a watch of ours knows nothing of foreign works");
        observed.looked_up(&foreign.key, None);
        assert!(observed.works.is_empty());
    }

    fn read(work: Value) -> ObservedWork {
        ObservedWork::from_manifest_work(work).unwrap()
    }

    #[test]
    fn a_work_is_read() {
        let work = read(work());
        assert_eq!(work.key.to_string(), "edge-1/web");
        assert_eq!((work.generation, work.prune, work.deleting), (3, false, false));
        assert_eq!(work.delete_option, DeleteOption::Orphan);
        assert_eq!(work.owned.labels, ["team".to_owned()].into());
        assert!(work.agent.seen && work.agent.has_settled(3) && work.agent.has_orphaned(3));
        assert!(!work.agent.has_settled(4) && !work.agent.has_orphaned(4));
    }

    /// OCM's agent leaves `Applied` as it was for a work that has lost its manifests.
    #[test]
    fn of_a_work_without_manifests_nothing_is_waited_for() {
        let mut work = work();
        for (manifests, waits) in [(json!([{"kind": "ConfigMap"}]), true), (json!([]), false)] {
            work["spec"]["workload"] = json!({"manifests": manifests});
            let read = read(work.clone());
            assert_eq!(!read.agent.has_settled(4), waits);
            assert_eq!(!read.agent.has_orphaned(4), waits);
        }
    }

    #[test]
    fn the_digest_covers_what_gitwork_set_and_nothing_else() {
        let before = read(work()).digest;
        let changed = |pointer: &str, key: &str, value: Value| {
            let mut work = work();
            work.pointer_mut(pointer).unwrap()[key] = value;
            read(work).digest != before
        };
        for (pointer, key, expected) in [
            ("/spec", "executor", true),
            ("/metadata/labels", "team", true),
            ("/metadata/labels", "app.kubernetes.io/managed-by", true),
            ("/metadata/labels", "foreign", false),
            ("/metadata/annotations", "foreign", false),
            ("/metadata/annotations", "gitwork.dev/path", true),
            ("/metadata/annotations", "gitwork.dev/keys", true),
            ("/metadata/annotations", "gitwork.dev/commit", false),
            ("/metadata/annotations", "gitwork.dev/content-hash", false),
            ("/metadata/annotations", "gitwork.dev/adopt", false),
            ("/metadata", "finalizers", false),
            ("/status", "conditions", false),
        ] {
            assert_eq!(changed(pointer, key, "x".into()), expected, "{pointer}/{key}");
        }
    }

    #[test]
    fn a_work_is_unowned_where_nothing_says_whose_it_is() {
        let bare = || {
            let mut work = work();
            work["metadata"]["labels"] = json!({"team": "a"});
            work["metadata"]["annotations"] = json!({"note": "b"});
            work
        };
        assert!(read(bare()).unowned && !read(work()).unowned);
        for (pointer, value) in [
            ("labels", json!({"gitwork.dev/source": "another"})),
            ("labels", json!({"app.kubernetes.io/managed-by": "Helm"})),
            ("labels", json!({"work.open-cluster-management.io/manifestworkreplicaset": "a.b"})),
            ("labels", json!({"open-cluster-management.io/addon-name": "x"})),
            ("annotations", json!({"gitwork.dev/path": "clusters/edge-1/web"})),
            ("ownerReferences", json!([{"kind": "ManagedClusterAddOn"}])),
        ] {
            let mut work = bare();
            work["metadata"][pointer] = value;
            assert!(!read(work.clone()).unowned, "{work}");
        }
    }

    #[test]
    fn what_is_no_manifest_work_is_told() {
        for (field, value, expected) in [
            ("namespace", json!(null), "a ManifestWork on the hub has no metadata.namespace"),
            ("uid", json!(1), "a ManifestWork on the hub has no metadata.uid"),
            (
                "name",
                json!("A"),
                "a ManifestWork on the hub has the metadata.name \"A\", which has the character 'A'; only \
                 lower-case letters, digits, '-' and '.' are allowed",
            ),
        ] {
            let mut work = work();
            work["metadata"][field] = value;
            let why = ObservedWork::from_manifest_work(work).unwrap_err();
            assert_eq!(why.to_string(), expected);
        }
    }

    #[test]
    fn hostile_annotations_count_as_not_set() {
        let huge = "x".repeat(limits::ANNOTATION_BYTES_MAX + 1);
        for (key, value) in [
            ("gitwork.dev/keys", huge.as_str()),
            ("gitwork.dev/keys", "{\"labels\": 1}"),
            ("gitwork.dev/keys", &"[".repeat(10_000)),
            ("gitwork.dev/path", &huge),
            ("gitwork.dev/commit", &huge),
            ("gitwork.dev/adopt", &huge),
            ("gitwork.dev/content-hash", &huge),
        ] {
            let mut work = work();
            work["metadata"]["annotations"][key] = value.into();
            let read = read(work);
            let unset = match key {
                "gitwork.dev/keys" => read.owned == OwnedKeys::default(),
                "gitwork.dev/path" => read.path.is_none(),
                "gitwork.dev/commit" => read.commit.is_none(),
                "gitwork.dev/adopt" => read.adopt.is_none(),
                _ => read.written.is_none(),
            };
            assert!(unset, "{key}");
        }
    }
}
