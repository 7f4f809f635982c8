//! The work agent of a managed cluster: applies the ManifestWorks of its cluster namespace on the
//! hub and reports their status. A drop-in for the work agent of OCM's klusterlet.
//!
//! `gitwork_agent_core` decides; this crate reads, watches and writes. Watches only record changes
//! and queue passes. A pass reads the latest state and acts; one work has one pass at a time.

mod applied_works;
mod apply;
mod config;
mod discovery;
mod error;
mod executor;
pub mod flags;
mod follow;
mod hub_works;
mod items;
mod kubeconfig;
pub mod lease;
pub mod metrics;
mod mutex;
mod pass;
mod queue;
mod removal;
pub mod run;
pub mod serve;
pub mod server;
mod shared;
mod state;
mod tracking;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kube::Client;
use tokio::sync::{Semaphore, watch as signal};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use tracing::warn;

use self::applied_works::AppliedWorks;
use self::discovery::Discovery;
use self::executor::ExecutorPermissions;
use self::hub_works::HubWorks;
use self::metrics::AgentMetrics;
use self::mutex::lock;
use self::server::{ApiServer, RateLimit};
use self::shared::SharedState;
use self::state::WorkState;
use self::tracking::{KindId, QueueKey};
use gitwork_agent_core::feedback::RawJsonFeedback;
use gitwork_agent_core::identity::hub_hash;

/// Time limit for passes under way at shutdown. The whole shutdown must fit into 10 s.
const SHUTDOWN: Duration = Duration::from_secs(7);

/// The settings of one agent.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// The cluster's namespace on the hub.
    pub cluster_name: String,
    /// See [`gitwork_agent_core::identity::hub_hash`].
    pub hub_hash: String,
    /// `spec.agentID` of the AppliedManifestWorks that this agent manages.
    pub agent_id: String,
    /// Polling interval of objects that cannot be watched.
    pub status_sync_interval: Duration,
    /// How long applied objects stay after their ManifestWork is gone from the hub.
    pub eviction_grace: Duration,
    /// Raw JSON in feedback values.
    pub raw: RawJsonFeedback,
    /// Number of works that are applied at a time.
    pub workers: usize,
    /// Whether allowed permissions of executors are cached until roles or bindings change.
    pub caches_executors: bool,
}

impl AgentSettings {
    /// The defaults of the command line. `hub_server` is the address of the hub's API server as the
    /// kubeconfig has it, byte for byte.
    pub fn new(cluster_name: &str, hub_server: &str) -> Self {
        let hash = hub_hash(hub_server);
        Self {
            cluster_name: cluster_name.into(),
            agent_id: hash.clone(),
            hub_hash: hash,
            status_sync_interval: Duration::from_secs(10),
            eviction_grace: Duration::from_secs(3600),
            raw: RawJsonFeedback { enabled: false, bytes_max: 1024 },
            workers: 10,
            caches_executors: false,
        }
    }
}

/// One running agent: the watches and passes, and the parts that they use.
pub struct Agent {
    settings: AgentSettings,
    hub_works: HubWorks,
    applied_works: AppliedWorks,
    cluster: ApiServer,
    metrics: Arc<AgentMetrics>,
    discovery: Discovery,
    permissions: Arc<ExecutorPermissions>,
    shared: Arc<SharedState>,
    /// Guards the watches of tracked kinds.
    kind_watches: Mutex<HashMap<KindId, AbortHandle>>,
    /// Limits the passes that apply manifests at the same time.
    slots: Semaphore,
    synced: signal::Sender<Synced>,
    started: Instant,
}

/// The collections that were listed completely once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Synced {
    works: bool,
    applied: bool,
}

impl Agent {
    /// An agent that does nothing until [`Agent::run`].
    pub fn new(
        settings: AgentSettings,
        (hub, hub_limit): (Client, Option<RateLimit>),
        (cluster, cluster_limit): (Client, Option<RateLimit>),
        metrics: Arc<AgentMetrics>,
    ) -> Arc<Self> {
        let shared = Arc::new(SharedState::default());
        let cluster = ApiServer::new(cluster, "cluster", cluster_limit, metrics.clone());
        let (is_cached, workers) = (settings.caches_executors, settings.workers.max(1));
        Arc::new(Self {
            hub_works: HubWorks {
                server: ApiServer::new(hub, "hub", hub_limit, metrics.clone()),
                cluster_name: settings.cluster_name.clone(),
                shared: shared.clone(),
            },
            applied_works: AppliedWorks {
                server: cluster.clone(),
                hub_hash: settings.hub_hash.clone(),
                agent_id: settings.agent_id.clone(),
                shared: shared.clone(),
            },
            permissions: ExecutorPermissions::new(cluster.clone(), shared.clone(), is_cached),
            cluster,
            metrics,
            discovery: Discovery::default(),
            shared,
            kind_watches: Mutex::default(),
            slots: Semaphore::new(workers),
            synced: signal::Sender::new(Synced::default()),
            started: Instant::now(),
            settings,
        })
    }

    /// Runs until `stop` completes, then starts no more passes and waits for passes under way,
    /// which may be between writes that belong together. After it returns, or is dropped, this
    /// agent writes nothing, so another agent can start.
    pub async fn run(self: Arc<Self>, stop: impl Future<Output = ()>) {
        let _follows = self.follow_all();
        let _kinds = Followed(self.clone());
        let mut passes = JoinSet::new();
        tokio::select! {
            () = stop => {}
            () = self.clone().work(&mut passes) => {}
        }
        let ended = async { while passes.join_next().await.is_some() {} };
        if timeout(SHUTDOWN, ended).await.is_err() {
            warn!(passes = passes.len(), "stopped before all passes ended: API servers are slow");
        }
    }

    /// Whether all works and applied works were listed.
    pub fn is_ready(&self) -> bool {
        *self.synced.borrow() == Synced { works: true, applied: true }
    }

    /// Replaces the hub's client after a credential rotation, from the next request on.
    pub fn set_hub_client(&self, client: Client) {
        self.hub_works.server.set_client(client);
    }

    /// The agent's metrics.
    pub fn metrics(&self) -> &AgentMetrics {
        &self.metrics
    }

    async fn work(self: Arc<Self>, passes: &mut JoinSet<()>) {
        let mut synced = self.synced.subscribe();
        // Until both lists are complete, works look new and applied works look orphaned.
        if synced.wait_for(|synced| synced.works && synced.applied).await.is_err() {
            return;
        }
        // More passes than slots: a pass that gives up its slot must not keep others from starting.
        let open = Arc::new(Semaphore::new(self.settings.workers.max(1) * 4));
        loop {
            let Ok(permit) = open.clone().acquire_owned().await else { return };
            let key = self.shared.queue.next().await;
            while passes.try_join_next().is_some() {}
            let agent = self.clone();
            passes.spawn(async move {
                agent.pass(&key).await;
                agent.shared.queue.done(&key);
                drop(permit);
            });
        }
    }

    async fn pass(self: &Arc<Self>, key: &QueueKey) {
        match key {
            QueueKey::Work(name) => self.pass_work(name).await,
            QueueKey::Applied(name) => self.pass_applied(name).await,
        }
        let state = self.state();
        self.metrics.works.set(i64::try_from(state.works.len()).unwrap_or(i64::MAX));
        self.metrics.objects.set(i64::try_from(state.tracking.count()).unwrap_or(i64::MAX));
    }

    fn state(&self) -> MutexGuard<'_, WorkState> {
        self.shared.lock()
    }
}

/// Stops the watches of tracked kinds and roles when the agent's run ends.
struct Followed(Arc<Agent>);

impl Drop for Followed {
    fn drop(&mut self) {
        for (_, follow) in lock(&self.0.kind_watches).drain() {
            follow.abort();
        }
        self.0.permissions.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::sync::{Notify, oneshot};
    use tokio::task::yield_now;
    use tower::service_fn;

    use super::*;

    const WORK: &str = "/apis/work.open-cluster-management.io/v1/namespaces/edge/manifestworks/web";
    const APPLIED: &str = "/apis/work.open-cluster-management.io/v1/appliedmanifestworks";

    /// A hub and a cluster in one. They have one new work, and block the first write until the test
    /// releases it.
    #[derive(Default)]
    struct HeldUp {
        writes: Mutex<Vec<String>>,
        reached: Notify,
        go_on: Notify,
    }

    impl HeldUp {
        async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
            let path = request.uri().path().to_owned();
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=1"));
            if is_watch {
                std::future::pending::<()>().await;
            }
            if request.method() == Method::GET {
                let items = if path.ends_with("/manifestworks") { vec![work(&[])] } else { vec![] };
                return json_answer(
                    200,
                    &json!({"metadata": {"resourceVersion": "5"}, "items": items}),
                );
            }
            lock(&self.writes).push(format!("{} {path}", request.method()));
            if path == WORK {
                self.reached.notify_one();
                self.go_on.notified().await;
                return json_answer(200, &work(&[gitwork_agent_core::identity::WORK_FINALIZER]));
            }
            let status = json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "InternalError"});
            json_answer(500, &status)
        }

        fn agent(self: &Arc<Self>) -> Arc<Agent> {
            let servers = self.clone();
            let service = service_fn(move |request| {
                let servers = servers.clone();
                async move { Ok::<_, Infallible>(servers.answer(request).await) }
            });
            let client = Client::new(service, "default");
            let settings = AgentSettings::new("edge", "https://hub.example.com");
            Agent::new(settings, (client.clone(), None), (client, None), AgentMetrics::new().into())
        }
    }

    fn work(finalizers: &[&str]) -> Value {
        let version = (4 + finalizers.len()).to_string();
        json!({"metadata": {"name": "web", "uid": "u", "generation": 1, "resourceVersion": version,
            "finalizers": finalizers}, "spec": {"workload": {"manifests": []}}})
    }

    fn json_answer(code: u16, value: &Value) -> Response<Body> {
        Response::builder().status(code).body(Body::from(value.to_string().into_bytes())).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_agent_finishes_passes_under_way() {
        let servers = Arc::new(HeldUp::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let mut running = tokio::spawn(servers.agent().run(async {
            stopped.await.unwrap();
        }));
        servers.reached.notified().await;
        stop.send(()).unwrap();
        assert!(timeout(SHUTDOWN / 2, &mut running).await.is_err(), "it waits for the pass");
        servers.go_on.notify_one();
        running.await.unwrap();
        assert_eq!(*lock(&servers.writes), [format!("PATCH {WORK}"), format!("POST {APPLIED}")]);
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_agent_waits_for_a_bounded_time() {
        let servers = Arc::new(HeldUp::default());
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(servers.agent().run(async {
            stopped.await.unwrap();
        }));
        servers.reached.notified().await;
        stop.send(()).unwrap();
        let begun = Instant::now();
        running.await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), SHUTDOWN.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_agent_writes_nothing() {
        let servers = Arc::new(HeldUp::default());
        let running = tokio::spawn(servers.agent().run(std::future::pending()));
        servers.reached.notified().await;
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        servers.go_on.notify_one();
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(*lock(&servers.writes), [format!("PATCH {WORK}")]);
    }
}
