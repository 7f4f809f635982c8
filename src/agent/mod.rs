//! The work agent of a managed cluster: applies the ManifestWorks of its cluster namespace on the hub and reports
//! their status. A drop-in for the work agent of OCM's klusterlet.
//!
//! [`core`] decides; the rest reads, watches and writes. Watches only note who has to look at what; passes, one per
//! work at a time, read the latest state and act.

mod apply;
mod config;
pub mod core;
mod discovery;
mod executor;
pub mod flags;
mod follow;
mod items;
mod kubeconfig;
pub mod lease;
pub mod metrics;
mod pass;
mod queue;
mod removal;
pub mod run;
pub mod serve;
pub mod server;
mod state;
mod tracking;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::{Semaphore, watch as signal};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use tracing::warn;

use self::core::feedback::RawJson;
use self::core::identity::{WORK_GROUP, hub_hash};
use self::core::manifest::Mapping;
use self::discovery::Discovery;
use self::executor::Executors;
use self::metrics::Metrics;
use self::queue::Queue;
use self::server::{RateLimit, Server, path};
use self::state::State;
use self::tracking::{Key, KindId};

/// How long passes under way have to end. With what follows it stays within the 10 s that an agent has to end.
const SHUTDOWN: Duration = Duration::from_secs(7);

/// What an agent is told at its start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The cluster's namespace on the hub.
    pub cluster_name: String,
    /// See [`core::identity::hub_hash`].
    pub hub_hash: String,
    pub agent_id: String,
    /// How often objects are read that cannot be watched.
    pub status_sync_interval: Duration,
    pub eviction_grace: Duration,
    pub raw: RawJson,
    /// Works that are applied at a time.
    pub workers: usize,
    /// Whether answers about executors are kept until roles or bindings change.
    pub caches_executors: bool,
}

impl Settings {
    /// With the defaults of the command line. `hub_server`: as in the kubeconfig, byte for byte.
    pub fn new(cluster_name: &str, hub_server: &str) -> Self {
        let hash = hub_hash(hub_server);
        Self {
            cluster_name: cluster_name.into(),
            agent_id: hash.clone(),
            hub_hash: hash,
            status_sync_interval: Duration::from_secs(10),
            eviction_grace: Duration::from_secs(3600),
            raw: RawJson { enabled: false, bytes_max: 1024 },
            workers: 10,
            caches_executors: false,
        }
    }
}

/// One running agent.
pub struct Agent {
    settings: Settings,
    hub: Server,
    cluster: Server,
    metrics: Arc<Metrics>,
    discovery: Discovery,
    executors: Executors,
    queue: Queue<Key>,
    state: Mutex<State>,
    /// Failures in a row of AppliedManifestWorks.
    failures: Mutex<HashMap<Arc<str>, u32>>,
    follows: Mutex<HashMap<KindId, AbortHandle>>,
    /// Passes that may apply at a time.
    slots: Semaphore,
    synced: signal::Sender<Synced>,
    started: Instant,
}

/// What has been listed once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Synced {
    works: bool,
    applied: bool,
}

impl Agent {
    pub fn new(
        settings: Settings,
        (hub, hub_limit): (Client, Option<RateLimit>),
        (cluster, cluster_limit): (Client, Option<RateLimit>),
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            hub: Server::new(hub, "hub", hub_limit, metrics.clone()),
            cluster: Server::new(cluster, "cluster", cluster_limit, metrics.clone()),
            metrics,
            discovery: Discovery::default(),
            executors: Executors::default(),
            queue: Queue::new(),
            state: Mutex::default(),
            failures: Mutex::default(),
            follows: Mutex::default(),
            slots: Semaphore::new(settings.workers.max(1)),
            synced: signal::Sender::new(Synced::default()),
            started: Instant::now(),
            settings,
        })
    }

    /// Works until `stop` is done, then begins nothing more and lets passes end that are under way: they may be in the
    /// middle of writes that belong together. When this returns, or is dropped, nothing is written any more, so that
    /// another agent can take over.
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
            warn!(passes = passes.len(), "ended in the middle of passes: API servers are slow");
        }
    }

    /// Whether all works and applied works are known.
    pub fn is_ready(&self) -> bool {
        *self.synced.borrow() == Synced { works: true, applied: true }
    }

    /// From the next request on: the hub's credentials have changed.
    pub fn set_hub_client(&self, client: Client) {
        self.hub.set_client(client);
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    async fn work(self: Arc<Self>, passes: &mut JoinSet<()>) {
        let mut synced = self.synced.subscribe();
        // Before all is known, a work would be taken for new, and an applied work for one without a work.
        if synced.wait_for(|synced| synced.works && synced.applied).await.is_err() {
            return;
        }
        // More passes than may apply: one that gives way to others must not keep them from starting.
        let open = Arc::new(Semaphore::new(self.settings.workers.max(1) * 4));
        loop {
            let Ok(permit) = open.clone().acquire_owned().await else { return };
            let key = self.queue.next().await;
            while passes.try_join_next().is_some() {}
            let agent = self.clone();
            passes.spawn(async move {
                agent.pass(&key).await;
                agent.queue.done(&key);
                drop(permit);
            });
        }
    }

    async fn pass(self: &Arc<Self>, key: &Key) {
        match key {
            Key::Work(name) => self.pass_work(name).await,
            Key::Applied(name) => self.pass_applied(name).await,
        }
        let state = self.state();
        self.metrics.works.set(i64::try_from(state.works.len()).unwrap_or(i64::MAX));
        self.metrics.objects.set(i64::try_from(state.tracking.count()).unwrap_or(i64::MAX));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn applied_failures(&self) -> MutexGuard<'_, HashMap<Arc<str>, u32>> {
        lock(&self.failures)
    }

    /// The path of one ManifestWork of this cluster.
    fn work_path(&self, name: &str) -> String {
        path(&work_mapping("manifestworks", true), &self.settings.cluster_name, Some(name))
    }

    fn works_path(&self) -> String {
        path(&work_mapping("manifestworks", true), &self.settings.cluster_name, None)
    }

    /// The path of an AppliedManifestWork, or of all.
    fn applied_path(&self, name: Option<&str>) -> String {
        path(&work_mapping("appliedmanifestworks", false), "", name)
    }
}

/// What an agent follows on account of its works. It ends with the agent's run.
struct Followed(Arc<Agent>);

impl Drop for Followed {
    fn drop(&mut self) {
        for (_, follow) in lock(&self.0.follows).drain() {
            follow.abort();
        }
        self.0.executors.stop();
    }
}

fn work_mapping(resource: &str, namespaced: bool) -> Mapping {
    Mapping {
        group: WORK_GROUP.into(),
        version: "v1".into(),
        resource: resource.into(),
        namespaced,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// A hub and a cluster in one that have one new work, and hold up the first write until the test lets it go.
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
                return json_answer(200, &work(&[core::identity::WORK_FINALIZER]));
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
            let settings = Settings::new("edge", "https://hub.example.com");
            Agent::new(settings, (client.clone(), None), (client, None), Metrics::new().into())
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
    async fn an_agent_that_is_stopped_ends_what_it_has_begun() {
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
    async fn an_agent_that_is_stopped_does_not_wait_for_ever() {
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
    async fn an_agent_that_is_dropped_writes_nothing_more() {
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
