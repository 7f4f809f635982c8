//! A ManifestWork that `create work` created: its mark, and what the hub has under its name.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream;
use kube::Client;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::work_command_error::WorkCommandError;
use crate::hub::works;
use crate::limits;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::model::work::{LABEL_MANAGED_BY, LABEL_SOURCE};
use gitwork_hub::limits::HUB_CALL;
use gitwork_hub::retry_transient;

/// The annotation of works that `create work` created. No others are changed or deleted.
pub(super) const ANNOTATION_CREATED_BY: &str = "gitwork.dev/created-by";
/// Its value.
pub(super) const CREATE_WORK: &str = "create-work";
/// The annotation with the Placement whose clusters have the work.
pub(super) const ANNOTATION_PLACEMENT: &str = "gitwork.dev/placement";

/// What the hub has under the name of a work.
#[derive(Debug)]
pub(super) enum WorkOnHub {
    Absent,
    /// `create work` created it.
    Created(Box<DynamicObject>),
    /// It is being deleted.
    Deleting,
    /// Another owner has it: who, as far as the hub tells.
    Foreign(String),
}

/// Sends a request for a work. Retries it for a short time if the hub is unavailable.
pub(super) async fn request<T, F>(
    key: &WorkKey,
    mut call: impl FnMut() -> F,
) -> Result<T, WorkCommandError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    retry_transient(|| {
        let sent = timeout(HUB_CALL, call());
        async move {
            match sent.await {
                Ok(Ok(found)) => Ok(found),
                Ok(Err(source)) => Err(WorkCommandError::Request { key: key.clone(), source }),
                Err(_) => Err(WorkCommandError::Late { key: key.clone() }),
            }
        }
    })
    .await
}

/// What the hub has under this name.
pub(super) async fn read(client: &Client, key: &WorkKey) -> Result<WorkOnHub, WorkCommandError> {
    let api = works(client.clone(), &key.cluster);
    let found = request(key, || api.get_opt(key.work.as_str())).await?;
    Ok(found.map_or(WorkOnHub::Absent, WorkOnHub::of))
}

/// Acts on what the hub has: first on `there`, and after a conflict on what `read` finds then. The
/// agent of a cluster writes the status of its works at any time.
pub(super) async fn act_on_newest<T>(
    mut there: WorkOnHub,
    act: impl AsyncFn(&WorkOnHub) -> Result<T, WorkCommandError>,
    read: impl AsyncFn() -> Result<WorkOnHub, WorkCommandError>,
) -> Result<T, WorkCommandError> {
    for _ in 1..limits::WORK_WRITES_MAX {
        match act(&there).await {
            Err(why) if why.is_conflict() => there = read().await?,
            done => return done,
        }
    }
    act(&there).await
}

/// What the hub has under this name on each of the clusters, in their order.
pub(super) async fn read_all(
    client: &Client,
    clusters: &[ClusterName],
    work: &WorkName,
) -> Result<Vec<(WorkKey, WorkOnHub)>, WorkCommandError> {
    let read_one = |cluster: &ClusterName| {
        let key = WorkKey { cluster: cluster.clone(), work: work.clone() };
        async move { read(client, &key).await.map(|found| (key, found)) }
    };
    let reads: Vec<_> = clusters.iter().map(read_one).collect();
    let answers: Vec<Result<_, _>> =
        stream::iter(reads).buffered(limits::WORK_REQUESTS_MAX).collect().await;
    answers.into_iter().collect()
}

impl WorkOnHub {
    fn of(work: DynamicObject) -> Self {
        if work.metadata.deletion_timestamp.is_some() {
            return Self::Deleting;
        }
        let annotations = work.metadata.annotations.as_ref();
        let mark = annotations.and_then(|all| all.get(ANNOTATION_CREATED_BY));
        let is_created = mark.is_some_and(|mark| mark == CREATE_WORK);
        match owner(&work) {
            Some(owner) => Self::Foreign(owner),
            None if is_created => Self::Created(Box::new(work)),
            None => Self::Foreign("another client".to_owned()),
        }
    }
}

/// The owner that a work has, whoever created it.
pub(super) fn owner(work: &DynamicObject) -> Option<String> {
    let labels = work.metadata.labels.as_ref();
    let label = |key: &str| labels.and_then(|all| all.get(key));
    if let Some(source) = label(LABEL_SOURCE) {
        return Some(format!("the source {source}"));
    }
    let owner = work.metadata.owner_references.iter().flatten().next();
    if let Some(owner) = owner {
        return Some(format!("{} {}", owner.kind, owner.name));
    }
    let replica_set = label("work.open-cluster-management.io/manifestworkreplicaset");
    let replica_set = replica_set.map(|name| format!("ManifestWorkReplicaSet {name}"));
    replica_set.or_else(|| label(LABEL_MANAGED_BY).cloned())
}

/// The annotations of a work that is created. `placement`: the Placement that selects its clusters.
pub(super) fn marks(placement: Option<&str>) -> BTreeMap<String, String> {
    let mark = (ANNOTATION_CREATED_BY.to_owned(), CREATE_WORK.to_owned());
    let placement = placement.map(|name| (ANNOTATION_PLACEMENT.to_owned(), name.to_owned()));
    [mark].into_iter().chain(placement).collect()
}

/// A new ManifestWork.
pub(super) fn new_work(key: &WorkKey, spec: &Value, marks: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {
            "namespace": key.cluster.as_str(),
            "name": key.work.as_str(),
            "annotations": marks,
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(metadata: &Value) -> String {
        let work = json!({"apiVersion": "a/v1", "kind": "b", "metadata": metadata});
        match WorkOnHub::of(serde_json::from_value(work).unwrap()) {
            WorkOnHub::Absent => "absent".to_owned(),
            WorkOnHub::Created(_) => "created".to_owned(),
            WorkOnHub::Deleting => "deleting".to_owned(),
            WorkOnHub::Foreign(owner) => owner,
        }
    }

    fn conflict() -> WorkCommandError {
        let status = json!({"status": "Failure", "code": 409, "reason": "Conflict",
            "message": "changed"});
        let status: kube::core::Status = serde_json::from_value(status).unwrap();
        let key = WorkKey {
            cluster: ClusterName::parse("edge-1").unwrap(),
            work: WorkName::parse("web").unwrap(),
        };
        WorkCommandError::Request { key, source: kube::Error::Api(Box::new(status)) }
    }

    #[tokio::test]
    async fn write_that_meets_another_one_is_repeated_on_the_newest_state() {
        // The work is gone after some conflicts.
        for (conflicts, is_done) in [(0, true), (4, true), (5, false)] {
            let reads = std::cell::Cell::new(0);
            let act = async |_: &WorkOnHub| match reads.get() < conflicts {
                true => Err(conflict()),
                false => Ok(reads.get()),
            };
            let read = async || {
                reads.set(reads.get() + 1);
                Ok(WorkOnHub::Absent)
            };
            let result = act_on_newest(WorkOnHub::Deleting, act, read).await;
            assert_eq!(result.ok(), is_done.then_some(conflicts));
        }
    }

    #[test]
    fn only_works_with_the_mark_and_without_another_owner_are_ours() {
        let marks = json!(marks(None));
        assert_eq!(state(&json!({"annotations": marks})), "created");
        assert_eq!(state(&json!({})), "another client");
        assert_eq!(state(&json!({"annotations": {ANNOTATION_CREATED_BY: "x"}})), "another client");
        let adopted = json!({"annotations": marks, "labels": {LABEL_SOURCE: "fleet"}});
        assert_eq!(state(&adopted), "the source fleet");
        let owners = json!([{"apiVersion": "a", "kind": "Addon", "name": "x", "uid": "1"}]);
        assert_eq!(state(&json!({"annotations": marks, "ownerReferences": owners})), "Addon x");
        let deleting = json!({"annotations": marks, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(state(&deleting), "deleting");
    }
}
