//! The hub, the managed clusters, the Git server and the programs between them, and how far their
//! state is from Git.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use gitwork_api::work::ManifestWork;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::Value;

use crate::gate::Gate;
use crate::git::{Git, Key};
use crate::git_server::{GitServer, Repo};
use crate::harness::process::Port;
use crate::harness::requests::Requests;
use crate::harness::{Cluster, ClusterOptions, ControlPlane, apply, crds};
use crate::programs::Program;
use crate::report::Event;

pub const SOURCE: &str = "soak";
pub const NAMESPACE: &str = "apps";
/// These have an API server and an agent. The other clusters are namespaces on the hub.
pub const MANAGED: [&str; 2] = ["edge-1", "edge-2"];
const AWAY: usize = 48;
pub const CLUSTERS: usize = MANAGED.len() + AWAY;
const WEBHOOK_SECRET: &str = "soak";

/// The revision of each existing work.
type Seen = Arc<Mutex<BTreeMap<Key, String>>>;

pub struct Managed {
    pub cluster: Cluster,
    pub gate: Gate,
    seen: Seen,
}

impl Managed {
    /// Starts a managed cluster. `rolls_out`: its Deployments get Pods.
    async fn start(plane: &ControlPlane, name: &'static str, rolls_out: bool) -> Managed {
        let options = ClusterOptions {
            controller_manager: rolls_out,
            scheduler_and_kwok: rolls_out,
            crds: crds::managed(),
        };
        let cluster = plane.start(name, options).await;
        cluster.create_namespace(NAMESPACE).await;
        let gate = Gate::to(port_of(&cluster));
        let seen = follow_maps(&cluster, name);
        Managed { cluster, gate, seen }
    }
}

pub struct World {
    pub begun: Instant,
    pub folder: PathBuf,
    /// Keeps the folder until the end.
    _plane: ControlPlane,
    pub hub: Cluster,
    pub hub_gate: Gate,
    pub managed: Vec<Managed>,
    pub server: GitServer,
    git: Mutex<Git>,
    pub daemon: Program,
    pub agents: Vec<Program>,
    on_hub: Seen,
    requests: Mutex<Requests>,
    /// The daemon's writes of works so far.
    pub daemon_writes: AtomicUsize,
    /// Held while no push may happen.
    pushing: tokio::sync::Mutex<()>,
    events: Mutex<Vec<Event>>,
    pub cache: PathBuf,
    pub metrics: u16,
    webhook: u16,
}

impl World {
    pub async fn start(
        folder: &Path,
        [gitwork, gitwork_agent]: &[PathBuf; 2],
        (works, seed): (usize, u64),
    ) -> World {
        let plane = ControlPlane::boot().await.unwrap();
        let options = ClusterOptions { crds: crds::hub(), ..Default::default() };
        let hub = plane.start("hub", options).await;
        let hub_gate = Gate::to(port_of(&hub));
        let mut managed = Vec::new();
        for (number, name) in MANAGED.iter().enumerate() {
            // Deployments roll out on one cluster and never on the others.
            managed.push(Managed::start(&plane, name, number == 0).await);
        }
        let clusters = clusters();
        for cluster in &clusters[MANAGED.len()..] {
            hub.create_namespace(cluster).await;
        }
        let repo = Repo::create(&folder.join("git").join("fleet.git"));
        let server = GitServer::http(&folder.join("git")).start();
        let git = Git::new(repo, seed, &clusters, MANAGED.len(), works / CLUSTERS);
        let ports = [(); 3].map(|()| Port::reserve().unwrap());
        let [metrics, webhook, page] = [0, 1, 2].map(|port: usize| ports[port].number());
        drop(ports);
        let ports = [metrics, webhook, page];
        let config = configure_daemon(folder, &hub, &hub_gate, &server, ports).await;
        let arguments = ["run", "--config", &config].map(str::to_owned).to_vec();
        let daemon = Program::new("gitwork", gitwork, folder, arguments);
        let mut agents = Vec::new();
        for (name, managed) in MANAGED.iter().zip(&managed) {
            let arguments = configure_agent(folder, name, &hub, &hub_gate, managed).await;
            let name = format!("agent-{name}");
            agents.push(Program::new(&name, gitwork_agent, folder, arguments));
        }
        let requests = Mutex::new(hub.requests());
        let on_hub = follow_works(&hub);
        World {
            begun: Instant::now(),
            folder: folder.to_owned(),
            _plane: plane,
            hub,
            hub_gate,
            managed,
            server,
            git: Mutex::new(git),
            daemon,
            agents,
            on_hub,
            requests,
            daemon_writes: AtomicUsize::new(0),
            pushing: tokio::sync::Mutex::default(),
            events: Mutex::default(),
            cache: cache(folder),
            metrics,
            webhook,
        }
    }

    pub fn git(&self) -> MutexGuard<'_, Git> {
        self.git.lock().unwrap()
    }

    /// Prevents pushes while the returned guard lives.
    pub async fn pause(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.pushing.lock().await
    }

    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        std::iter::once(&self.daemon).chain(&self.agents)
    }

    pub fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Records an event for the report, and prints it.
    pub fn record(&self, kind: &'static str, text: &str) {
        let event = Event { seconds: self.seconds(), kind, text: text.to_owned() };
        print!("{event}");
        self.events.lock().unwrap().push(event);
    }

    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// Sends a push webhook to the daemon, as a forge does. The daemon may not run.
    pub fn hint(&self) {
        let send = || -> std::io::Result<()> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.webhook))?;
            let wait = Some(Duration::from_secs(2));
            stream.set_read_timeout(wait)?;
            stream.set_write_timeout(wait)?;
            write!(
                stream,
                "POST /hook/{SOURCE} HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: \
                 0\r\n\
                 X-Gitlab-Token: {WEBHOOK_SECRET}\r\n\r\n"
            )?;
            stream.read_to_end(&mut Vec::new()).map(drop)
        };
        let _away = send();
    }

    /// Works on the hub that do not match Git.
    pub fn behind_on_hub(&self) -> BTreeSet<Key> {
        differing(&self.git(), &self.on_hub.lock().unwrap(), |_| true)
    }

    /// Works on the managed clusters that do not match Git.
    pub fn behind_on_clusters(&self) -> BTreeSet<Key> {
        let git = self.git();
        let of = |(name, managed): (&&str, &Managed)| {
            differing(&git, &managed.seen.lock().unwrap(), |key| key.0 == *name)
        };
        MANAGED.iter().zip(&self.managed).flat_map(of).collect()
    }

    /// Requests to the hub since the last call: writes of works by the daemon, and by the agents.
    ///
    /// # Panics
    /// If the daemon has deleted a work that Git did not drop.
    pub fn writes(&self) -> (usize, usize) {
        let made = self.requests.lock().unwrap().take();
        let of = |program: &'static str| {
            made.iter().filter(move |request| {
                request.user_agent.starts_with(program)
                    && request.is_write()
                    && request.resource.starts_with("manifestworks")
            })
        };
        let git = self.git();
        for request in of("gitwork").filter(|request| request.verb.starts_with("delete")) {
            let key = (request.namespace.clone(), request.name.clone());
            assert!(git.removed.contains(&key), "Git did not request this: {request}");
        }
        let writes = of("gitwork").count();
        self.daemon_writes.fetch_add(writes, Ordering::Relaxed);
        (writes, of("work-agent").count())
    }

    /// The ManifestWorks of all namespaces or of one.
    pub fn works(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        works(&self.hub, namespace)
    }
}

/// The works of Git that differ, and the works that should not exist.
fn differing(
    git: &Git,
    seen: &BTreeMap<Key, String>,
    ours: impl Fn(&Key) -> bool,
) -> BTreeSet<Key> {
    let wanted = &git.wanted;
    let all = wanted.works.keys().chain(seen.keys());
    let known = |key: &&Key| !wanted.broken.contains(*key) && !git.held.contains(*key);
    all.filter(|key| ours(key))
        .filter(known)
        .filter(|key| wanted.works.get(*key) != seen.get(*key))
        .cloned()
        .collect()
}

pub fn works(hub: &Cluster, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = ApiResource::erase::<ManifestWork>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(hub.client(), namespace, &kind),
        None => Api::all_with(hub.client(), &kind),
    }
}

fn clusters() -> Vec<String> {
    let away = (0..AWAY).map(|number| format!("away-{number:02}"));
    MANAGED.iter().map(|name| (*name).to_owned()).chain(away).collect()
}

fn port_of(cluster: &Cluster) -> u16 {
    cluster.url().rsplit(':').next().unwrap().parse().unwrap()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Writes the daemon's configuration and returns its path.
async fn configure_daemon(
    folder: &Path,
    hub: &Cluster,
    gate: &Gate,
    server: &GitServer,
    [metrics, webhook, page]: [u16; 3],
) -> String {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/gitwork.yaml");
    apply(hub.client(), &std::fs::read_to_string(deploy).unwrap()).await.unwrap();
    let kubeconfig = hub.kubeconfig_for("gitwork", "gitwork").await;
    let kubeconfig = write(folder, "daemon.kubeconfig", &gate.in_place_of(&hub.url(), &kubeconfig));
    let secret = write(folder, "webhook.secret", WEBHOOK_SECRET);
    let cache = cache(folder).display().to_string();
    let url = server.url("fleet.git");
    let config = format!(
        "kubeconfig: {kubeconfig}\ncache: {cache}\nlisten: 127.0.0.1:{metrics}\npage: {{bind: \
         \"127.0.0.1:{page}\"}}\n\
         webhook: {{listen: \"127.0.0.1:{webhook}\", secretFile: {secret}}}\nsources:\n- id: \
         {SOURCE}\n  repo: {url}\n  \
         branch: main\n  intervalSeconds: 20\n  rewind: hold\n  statusBranch: {{intervalSeconds: \
         5}}\n"
    );
    write(folder, "daemon.yaml", &config)
}

fn cache(folder: &Path) -> PathBuf {
    folder.join("cache")
}

/// Writes an agent's kubeconfigs and returns its arguments.
async fn configure_agent(
    folder: &Path,
    name: &str,
    hub: &Cluster,
    hub_gate: &Gate,
    managed: &Managed,
) -> Vec<String> {
    let to_hub = hub_gate.in_place_of(&hub.url(), &hub.accept(name).await);
    let to_hub = write(folder, &format!("{name}.hub.kubeconfig"), &to_hub);
    let cluster = &managed.cluster;
    let to_cluster = managed.gate.in_place_of(&cluster.url(), &cluster.kubeconfig());
    let to_cluster = write(folder, &format!("{name}.kubeconfig"), &to_cluster);
    vec![
        "agent".to_owned(),
        "--workload-source-driver=kube".to_owned(),
        format!("--spoke-cluster-name={name}"),
        format!("--namespace={NAMESPACE}"),
        format!("--workload-source-config={to_hub}"),
        format!("--kubeconfig={to_cluster}"),
        "--listen=127.0.0.1:0".to_owned(),
        // A killed agent leaves a Lease behind, for which the next one waits.
        "--leader-election-lease-duration=40s".to_owned(),
        "--leader-election-renew-deadline=30s".to_owned(),
        "--leader-election-retry-period=5s".to_owned(),
    ]
}

/// The works of the source on the hub, in the order of the list.
fn follow_works(hub: &Cluster) -> Seen {
    let labels = watcher::Config::default().labels(&format!("gitwork.dev/source={SOURCE}"));
    let revision = |work: &DynamicObject| {
        let manifests = work.data.pointer("/spec/workload/manifests").and_then(Value::as_array)?;
        let revision = manifests.iter().find_map(|manifest| manifest.pointer("/data/revision"));
        Some(revision.and_then(Value::as_str).unwrap_or_default().to_owned())
    };
    follow(works(hub, None), labels, move |work| {
        let key = (work.metadata.namespace.clone()?, work.metadata.name.clone()?);
        Some((key, revision(work)?))
    })
}

/// The ConfigMaps of works on a managed cluster, in the order of the list.
fn follow_maps(cluster: &Cluster, name: &'static str) -> Seen {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), NAMESPACE);
    follow(maps, watcher::Config::default(), move |map| {
        let work = map.metadata.name.clone().filter(|name| name.starts_with("work-"))?;
        let revision = map.data.as_ref().and_then(|data| data.get("revision"));
        Some(((name.to_owned(), work), revision.cloned().unwrap_or_default()))
    })
}

fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    read: impl Fn(&K) -> Option<(Key, String)> + Send + 'static,
) -> Seen
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let seen = Seen::default();
    let current = Arc::clone(&seen);
    tokio::spawn(async move {
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        let mut listed = BTreeMap::new();
        loop {
            // Retries while the server is down.
            let event = match events.try_next().await {
                Ok(Some(event)) => event,
                Ok(None) => return,
                Err(_) => continue,
            };
            match event {
                watcher::Event::Init => listed.clear(),
                watcher::Event::InitApply(object) => listed.extend(read(&object)),
                watcher::Event::InitDone => *current.lock().unwrap() = std::mem::take(&mut listed),
                watcher::Event::Apply(object) => current.lock().unwrap().extend(read(&object)),
                watcher::Event::Delete(object) => {
                    if let Some((key, _)) = read(&object) {
                        current.lock().unwrap().remove(&key);
                    }
                }
            }
        }
    });
    seen
}
