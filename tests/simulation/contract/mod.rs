//! The contract of a hub. The same tests run on the simulated hub and on a real kube-apiserver, so
//! that the simulation stays faithful.
//!
//! The tests read the raw objects on the hub, not the calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use gitwork_core::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkKey, WorkName};
use gitwork_core::model::work::{DeletionPolicy, WorkBody};
use gitwork_core::plan::observed::{AGENT_FINALIZER, ObservedWork};
use gitwork_core::plan::{Effect, MetadataChange};
use gitwork_hub::{Hub, HubError, HubEvent};
use serde_json::{Value, json};

mod deletes;
mod reads;
mod records;
mod writes;

/// A hub with one cluster namespace, and the requests of other clients to it. They panic if the hub
/// rejects them.
pub trait Fixture: Send + Sync {
    fn hub(&self) -> &dyn Hub;
    /// A cluster without an agent whose namespace exists.
    fn cluster(&self) -> ClusterName;
    /// A POST of a whole ManifestWork by another client. Returns the stored work.
    fn create(&self, work: Value) -> BoxFuture<'_, Value>;
    /// A merge patch (RFC 7386) by another client. Returns the stored work.
    fn patch<'a>(&'a self, key: &'a WorkKey, patch: Value) -> BoxFuture<'a, Value>;
    /// A merge patch of the status, `{"status": …}`, as the agent sends it.
    fn patch_status<'a>(&'a self, key: &'a WorkKey, patch: Value) -> BoxFuture<'a, Value>;
    /// A DELETE by another client.
    fn delete<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, ()>;
    /// The raw object; `None` if it does not exist.
    fn read<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, Option<Value>>;
}

macro_rules! contract {
    ($($module:ident :: $name:ident,)*) => {
        /// Runs every test, one after the other. Each uses its own names.
        pub async fn all(fixture: &dyn Fixture) {
            $(
                eprintln!(concat!("contract: ", stringify!($name)));
                $module::$name(&Case::new(fixture, stringify!($name))).await;
            )*
        }
    };
}

contract! {
    writes::created_work_reads_back_as_written,
    writes::name_conflict_is_reported_and_changes_nothing,
    writes::missing_cluster_namespace_is_reported,
    writes::invalid_work_is_rejected,
    writes::update_replaces_own_fields_and_keeps_foreign_fields,
    writes::update_without_change_leaves_no_trace,
    writes::stale_write_does_not_change_modified_work,
    writes::write_to_missing_work_fails,
    writes::adopted_work_is_owned_and_consent_is_removed,
    writes::released_work_keeps_its_content,
    deletes::setting_delete_option_changes_nothing_else,
    deletes::deletion_without_agent_is_immediate,
    deletes::deletion_waits_for_agent,
    deletes::recreated_work_is_not_deleted_for_the_old_one,
    reads::defaults_of_the_hub_are_no_difference,
    reads::number_formats_of_the_hub_are_no_difference,
    reads::dropped_empty_metadata_is_no_difference,
    reads::manual_edit_is_observed,
    reads::agent_progress_is_observed,
    reads::list_has_one_source_or_all,
    reads::watch_begins_with_whole_state_and_follows_it,
    reads::watch_reports_work_leaving_the_source,
    reads::watch_excludes_other_sources,
    records::record_update_requires_the_version_read,
}

/// The names of one test on the hub.
pub struct Case<'a> {
    fixture: &'a dyn Fixture,
    source: SourceId,
    key: WorkKey,
}

const COMMIT: ObjectId = ObjectId([7; 20]);
/// Ends a test that would hang; longer than any hub needs.
const DEADLINE: Duration = Duration::from_secs(30);

impl<'a> Case<'a> {
    fn new(fixture: &'a dyn Fixture, test: &str) -> Self {
        let name = test.replace('_', "-");
        let source: String = format!("contract-{name}").chars().take(60).collect();
        let source = SourceId::parse(source.trim_end_matches('-')).unwrap();
        let work = WorkName::parse(&name).unwrap();
        Self { fixture, source, key: WorkKey { cluster: fixture.cluster(), work } }
    }

    fn hub(&self) -> &'a dyn Hub {
        self.fixture.hub()
    }

    /// A second key of this test.
    fn other_key(&self) -> WorkKey {
        let work = WorkName::parse(&format!("{}-2", self.key.work)).unwrap();
        WorkKey { cluster: self.key.cluster.clone(), work }
    }

    fn body(&self, spec: Value) -> Arc<WorkBody> {
        self.body_with(spec, &[], &[])
    }

    fn body_with(
        &self,
        spec: Value,
        labels: &[(&str, &str)],
        annotations: &[(&str, &str)],
    ) -> Arc<WorkBody> {
        let path = RepoPath::parse("clusters/a/web").unwrap();
        let (labels, annotations) = (pairs(labels), pairs(annotations));
        Arc::new(WorkBody::new(&self.source, &path, spec, labels, annotations, true))
    }

    async fn execute(&self, effect: &Effect) -> Result<Option<ObservedWork>, HubError> {
        self.hub().execute(&self.key, effect, Some(COMMIT)).await
    }

    /// Executes an effect that must succeed and leave the work on the hub.
    async fn done(&self, effect: &Effect) -> ObservedWork {
        self.execute(effect).await.unwrap().expect("the hub answers the work as it is afterwards")
    }

    async fn create(&self, body: &Arc<WorkBody>) -> ObservedWork {
        self.done(&Effect::Create { body: body.clone() }).await
    }

    async fn get(&self) -> Option<ObservedWork> {
        self.hub().get(&self.key).await.unwrap()
    }

    async fn raw(&self) -> Value {
        self.fixture.read(&self.key).await.expect("the work is there")
    }

    /// Creates a ManifestWork of a client that gitwork does not know.
    async fn create_foreign(&self, labels: Value, annotations: Value) -> ObservedWork {
        let metadata = json!({
            "namespace": self.key.cluster.as_str(),
            "name": self.key.work.as_str(),
            "labels": labels,
            "annotations": annotations,
        });
        self.fixture
            .create(json!({
                "apiVersion": "work.open-cluster-management.io/v1",
                "kind": "ManifestWork",
                "metadata": metadata,
                "spec": spec("foreign"),
            }))
            .await;
        self.get().await.expect("it was just created")
    }
}

fn pairs(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The spec of a work with one ConfigMap.
fn spec(text: &str) -> Value {
    json!({ "workload": { "manifests": [{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "namespace": "default", "name": "a" },
        "data": { "text": text },
    }] } })
}

/// The changes of an update from `there` to `body`, as the planner finds them for works without
/// labels of users.
fn update(there: &ObservedWork, body: &Arc<WorkBody>) -> Effect {
    let resource_version = there.resource_version.clone();
    Effect::Update { body: body.clone(), resource_version, metadata: Box::default() }
}

/// Every effect with a precondition, for a work as observed.
fn preconditioned(there: &ObservedWork, body: &Arc<WorkBody>) -> Vec<Effect> {
    let resource_version = || there.resource_version.clone();
    vec![
        update(there, body),
        Effect::Adopt {
            body: body.clone(),
            resource_version: resource_version(),
            metadata: Box::default(),
        },
        Effect::SetDeleteOption {
            delete_option: DeletionPolicy::Orphan,
            resource_version: resource_version(),
        },
        Effect::Release { resource_version: resource_version() },
        Effect::Delete { uid: there.uid.clone(), resource_version: resource_version() },
    ]
}

/// The first event that matches `wanted`. Interruptions may come at any time; then the state is
/// listed again.
async fn event(
    events: &mut BoxStream<'static, HubEvent>,
    what: &str,
    wanted: impl Fn(&HubEvent) -> bool,
) -> HubEvent {
    let found = async {
        loop {
            let event = events.next().await.expect("a watch goes on for ever");
            if wanted(&event) {
                return event;
            }
        }
    };
    match tokio::time::timeout(DEADLINE, found).await {
        Ok(event) => event,
        Err(_) => panic!("no event in {DEADLINE:?}: {what}"),
    }
}
