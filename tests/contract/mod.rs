//! What gitwork relies on from a hub. The same list runs on the simulated hub and on a real kube-apiserver, so
//! that the simulation cannot drift from the real thing.
//!
//! Tests look at the state of the world: the raw object that the hub has, not the calls that were made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use gitwork::core::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkKey, WorkName};
use gitwork::core::observed::{AGENT_FINALIZER, ObservedWork};
use gitwork::core::plan::{Effect, MetadataChange};
use gitwork::core::work::{DeleteOption, WorkBody};
use gitwork::hub::{Hub, HubError, HubEvent};
use serde_json::{Value, json};

mod deletes;
mod reads;
mod records;
mod writes;

/// A hub with one cluster namespace, and the hands of other users on it. All of these panic where the hub
/// refuses.
pub trait Fixture: Send + Sync {
    fn hub(&self) -> &dyn Hub;
    /// A cluster whose namespace exists; it has no agent.
    fn cluster(&self) -> ClusterName;
    /// A POST of a whole ManifestWork by another user; answers it as stored.
    fn create(&self, work: Value) -> BoxFuture<'_, Value>;
    /// A merge patch (RFC 7386) by another user; answers the work as stored.
    fn patch<'a>(&'a self, key: &'a WorkKey, patch: Value) -> BoxFuture<'a, Value>;
    /// A merge patch of the status, `{"status": …}`, as the agent sends it.
    fn patch_status<'a>(&'a self, key: &'a WorkKey, patch: Value) -> BoxFuture<'a, Value>;
    /// A DELETE by another user.
    fn delete<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, ()>;
    /// The raw object; `None` where there is none.
    fn read<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, Option<Value>>;
}

macro_rules! contract {
    ($($module:ident :: $name:ident,)*) => {
        /// Runs every test, one after the other. Each uses names of its own.
        pub async fn all(fixture: &dyn Fixture) {
            $(
                eprintln!(concat!("contract: ", stringify!($name)));
                $module::$name(&Case::new(fixture, stringify!($name))).await;
            )*
        }
    };
}

contract! {
    writes::a_created_work_reads_back_as_it_was_written,
    writes::a_taken_name_is_told_and_left_alone,
    writes::a_cluster_without_namespace_is_told,
    writes::an_invalid_work_is_refused,
    writes::an_update_replaces_all_that_is_ours_and_nothing_else,
    writes::an_update_that_changes_nothing_leaves_no_trace,
    writes::no_write_lands_on_a_work_that_has_changed,
    writes::no_write_lands_on_a_work_that_is_gone,
    writes::an_adopted_work_is_ours_and_the_consent_is_used_up,
    writes::a_released_work_keeps_its_content,
    deletes::a_set_delete_option_changes_nothing_else,
    deletes::a_delete_without_agent_is_done_at_once,
    deletes::a_delete_waits_for_the_agent,
    deletes::a_work_made_anew_is_not_deleted_for_the_old_one,
    reads::defaults_that_the_hub_fills_in_are_no_difference,
    reads::numbers_that_the_hub_writes_in_its_own_way_are_no_difference,
    reads::empty_metadata_that_the_hub_drops_is_no_difference,
    reads::a_manual_edit_is_seen,
    reads::the_agents_progress_is_seen,
    reads::a_list_holds_one_source_or_all,
    reads::a_watch_begins_with_the_whole_state_and_follows_it,
    reads::a_watch_tells_when_a_work_leaves_the_source,
    reads::a_watch_is_silent_about_other_sources,
    records::a_record_reads_back_and_is_written_over_the_one_that_was_read_only,
}

/// One test's own names on the hub.
pub struct Case<'a> {
    fixture: &'a dyn Fixture,
    source: SourceId,
    key: WorkKey,
}

const COMMIT: ObjectId = ObjectId([7; 20]);
/// No hub needs this long; it only ends a test that would hang.
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

    /// Does what must succeed and leave the work there.
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

    /// A ManifestWork of nobody that gitwork knows.
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

/// What an update from `there` to `body` changes, as the planner would say it for works without labels of the
/// user's.
fn update(there: &ObservedWork, body: &Arc<WorkBody>) -> Effect {
    let resource_version = there.resource_version.clone();
    Effect::Update { body: body.clone(), resource_version, metadata: MetadataChange::default() }
}

/// Every effect that has a precondition, for a work as it was seen.
fn preconditioned(there: &ObservedWork, body: &Arc<WorkBody>) -> Vec<Effect> {
    let resource_version = || there.resource_version.clone();
    vec![
        update(there, body),
        Effect::Adopt {
            body: body.clone(),
            resource_version: resource_version(),
            metadata: MetadataChange::default(),
        },
        Effect::SetDeleteOption {
            delete_option: DeleteOption::Orphan,
            resource_version: resource_version(),
        },
        Effect::Release { resource_version: resource_version() },
        Effect::Delete { uid: there.uid.clone(), resource_version: resource_version() },
    ]
}

/// The first event that `wanted` takes. Interruptions may come at any time; the state is listed again then.
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
