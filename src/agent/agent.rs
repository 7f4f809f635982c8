//! One running agent: its watches queue passes, and its reconcilers run them.

use std::sync::Arc;
use std::time::Duration;

use gitwork_agent_core::ReportSettings;
use gitwork_agent_core::feedback::RawJsonFeedback;
use gitwork_agent_core::identity::hub_hash;
use kube::Client;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::applied_pass::AppliedReconciler;
use super::applied_works::AppliedWorks;
use super::apply::ManifestApplier;
use super::discovery::Discovery;
use super::executor::ExecutorPermissions;
use super::follow::{PREREQUISITES, follow_applied_works, follow_prerequisites, follow_works};
use super::hub_works::HubWorks;
use super::kind_watches::{KindWatchSettings, KindWatches};
use super::metrics::AgentMetrics;
use super::pass::WorkReconciler;
use super::removal::ObjectRemover;
use super::server::ApiServer;
use super::shared::SharedState;
use super::steps::ClusterAccess;
use super::throttle::RateLimit;
use super::tracking::QueueKey;

/// Time limit for passes under way at shutdown. The whole shutdown must fit into 10 s.
const SHUTDOWN: Duration = Duration::from_secs(7);

/// After so long without a pass, unused memory is returned to the system: soon, and again when the
/// connections that a burst of passes has opened are closed.
const QUIET: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(35)];

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
    /// What the status on the hub may say about objects of the cluster.
    pub report: ReportSettings,
    /// Whether the status reports on objects that a work's executor may not read, as OCM's agent
    /// does.
    pub reports_without_executor: bool,
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
            report: ReportSettings {
                raw: RawJsonFeedback { enabled: false, bytes_max: 1024 },
                secret_values: false,
            },
            reports_without_executor: false,
            workers: 10,
            caches_executors: false,
        }
    }
}

/// One agent: the watches, the queue of passes, and the reconcilers that run them.
pub struct Agent {
    works: WorkReconciler,
    applied: AppliedReconciler,
    kind_watches: KindWatches,
    shared: Arc<SharedState>,
    metrics: Arc<AgentMetrics>,
    workers: usize,
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
        let workers = settings.workers.max(1);
        let cluster = ApiServer::new(cluster, "cluster", cluster_limit, metrics.clone());
        let kind_watches = KindWatches::new(KindWatchSettings {
            cluster: cluster.clone(),
            shared: shared.clone(),
            metrics: metrics.clone(),
            poll_interval: settings.status_sync_interval,
        });
        let applied_works = Arc::new(AppliedWorks {
            server: cluster.clone(),
            hub_hash: settings.hub_hash,
            agent_id: settings.agent_id,
            shared: shared.clone(),
        });
        let remover = Arc::new(ObjectRemover { cluster: cluster.clone(), shared: shared.clone() });
        let applied = AppliedReconciler {
            applied_works: applied_works.clone(),
            remover: remover.clone(),
            shared: shared.clone(),
            eviction_grace: settings.eviction_grace,
        };
        let caches = settings.caches_executors;
        let permissions = ExecutorPermissions::new(cluster.clone(), shared.clone(), caches);
        let access = ClusterAccess {
            server: cluster,
            discovery: Discovery::default(),
            permissions,
            shared: shared.clone(),
        };
        let hub_works = Arc::new(HubWorks {
            server: ApiServer::new(hub, "hub", hub_limit, metrics.clone()),
            cluster_name: settings.cluster_name,
            shared: shared.clone(),
        });
        let works = WorkReconciler {
            hub_works,
            applied_works,
            applier: ManifestApplier {
                cluster: access,
                report: settings.report,
                reports_without_executor: settings.reports_without_executor,
                metrics: metrics.clone(),
                started: Instant::now(),
            },
            remover,
            shared: shared.clone(),
            apply_slots: Semaphore::new(workers),
            metrics: metrics.clone(),
        };
        Arc::new(Self { works, applied, kind_watches, shared, metrics, workers })
    }

    /// Runs until `stop` completes, then starts no more passes and waits for passes under way,
    /// which may be between writes that belong together. After it returns, or is dropped, this
    /// agent writes nothing, so another agent can start.
    pub async fn run(self: Arc<Self>, stop: impl Future<Output = ()>) {
        let _follows = self.follow();
        let _kinds = StopsWatches(self.clone());
        let mut passes = JoinSet::new();
        tokio::select! {
            () = stop => {}
            () = self.clone().run_passes(&mut passes) => {}
        }
        finish(passes).await;
    }

    /// Whether all works and applied works were listed.
    pub fn is_ready(&self) -> bool {
        self.shared.listed.borrow().is_complete()
    }

    /// Replaces the hub's client after a credential rotation, from the next request on.
    pub fn set_hub_client(&self, client: Client) {
        self.works.hub_works.server.set_client(client);
    }

    /// Starts the watches that always run. They stop when the set is dropped.
    fn follow(&self) -> JoinSet<()> {
        let mut follows = JoinSet::new();
        let WorkReconciler { hub_works, applied_works, .. } = &self.works;
        follows.spawn(follow_works(hub_works.clone(), applied_works.clone()));
        follows.spawn(follow_applied_works(applied_works.clone()));
        for kind in PREREQUISITES {
            let cluster = applied_works.server.clone();
            follows.spawn(follow_prerequisites(cluster, kind, self.shared.clone()));
        }
        follows
    }

    async fn run_passes(self: Arc<Self>, passes: &mut JoinSet<()>) {
        let mut listed = self.shared.listed.subscribe();
        // Until both lists are complete, works look new and applied works look orphaned.
        if listed.wait_for(|listed| listed.is_complete()).await.is_err() {
            return;
        }
        // More passes than apply slots: a pass that gives up its apply slot must not keep others
        // from starting.
        let pass_slots = Arc::new(Semaphore::new(self.workers * 4));
        loop {
            let Ok(pass_slot) = pass_slots.clone().acquire_owned().await else { return };
            let key = self.next_key().await;
            while passes.try_join_next().is_some() {}
            let agent = self.clone();
            passes.spawn(async move {
                agent.pass(&key).await;
                agent.shared.queue.done(&key);
                drop(pass_slot);
            });
        }
    }

    /// Waits for the next key that is due. Returns unused memory to the system as soon as there has
    /// been none for a while: a burst of works leaves more of it than all works need.
    async fn next_key(&self) -> QueueKey {
        for quiet in QUIET {
            if let Ok(key) = timeout(quiet, self.shared.queue.next()).await {
                return key;
            }
            gitwork_runtime::heap::trim();
        }
        self.shared.queue.next().await
    }

    async fn pass(&self, key: &QueueKey) {
        match key {
            QueueKey::Work(name) => self.works.pass(name).await,
            QueueKey::Applied(name) => self.applied.pass(name).await,
        }
        self.kind_watches.update();
        let state = self.shared.lock();
        self.metrics.works.set(i64::try_from(state.works.len()).unwrap_or(i64::MAX));
        self.metrics.objects.set(i64::try_from(state.tracking.count()).unwrap_or(i64::MAX));
    }
}

/// Waits for passes under way, at most [`SHUTDOWN`]. Aborts those that have not ended then.
async fn finish(mut passes: JoinSet<()>) {
    let ended = async { while passes.join_next().await.is_some() {} };
    if timeout(SHUTDOWN, ended).await.is_err() {
        warn!(passes = passes.len(), "stopped before all passes ended: API servers are slow");
    }
}

/// Stops the watches of tracked kinds and of roles when the agent's run ends.
struct StopsWatches(Arc<Agent>);

impl Drop for StopsWatches {
    fn drop(&mut self) {
        self.0.kind_watches.stop();
        self.0.works.applier.cluster.permissions.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::Notify;
    use tokio::task::yield_now;

    use super::*;
    use crate::mutex::lock;

    /// A pass of two writes, whose first response comes when the test says so.
    #[derive(Default)]
    struct SlowPass {
        writes: Mutex<Vec<&'static str>>,
        response: Notify,
    }

    impl SlowPass {
        fn start(self: &Arc<Self>) -> JoinSet<()> {
            let (mut passes, pass) = (JoinSet::new(), self.clone());
            passes.spawn(async move {
                lock(&pass.writes).push("finalizer");
                pass.response.notified().await;
                lock(&pass.writes).push("AppliedManifestWork");
            });
            passes
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_agent_finishes_passes_under_way() {
        let pass = Arc::new(SlowPass::default());
        let mut finishing = tokio::spawn(finish(pass.start()));
        assert!(timeout(SHUTDOWN / 2, &mut finishing).await.is_err(), "it waits for the pass");
        pass.response.notify_one();
        finishing.await.unwrap();
        assert_eq!(*lock(&pass.writes), ["finalizer", "AppliedManifestWork"]);
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_agent_waits_for_a_bounded_time_and_then_writes_nothing() {
        let pass = Arc::new(SlowPass::default());
        let begun = Instant::now();
        finish(pass.start()).await;
        assert_eq!(begun.elapsed().as_secs(), SHUTDOWN.as_secs());
        pass.response.notify_one();
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(*lock(&pass.writes), ["finalizer"]);
    }
}
