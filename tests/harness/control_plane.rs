//! The etcd that all clusters of one test process share.

use std::env;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::binaries::{Binaries, Program};
use super::cluster::{Cluster, ClusterOptions};
use super::crds;
use super::process::{Folder, Port, Process};
use super::wait::eventually;

/// It takes 0.1 s on an idle machine.
const ETCD_START: Duration = Duration::from_secs(300);

static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();

/// The programs, a running etcd, and the clusters that tests share.
pub struct ControlPlane {
    etcd: Arc<Etcd>,
    clusters_started: AtomicU32,
    hub: OnceCell<Cluster>,
    managed: OnceCell<Cluster>,
    managed_by_ocm: OnceCell<Cluster>,
}

/// One running etcd. It ends, and its folder is removed, with the last cluster on it.
pub(super) struct Etcd {
    process: Process,
    url: String,
    pub(super) binaries: Binaries,
    folder: Folder,
    _ports: [Port; 2],
}

impl ControlPlane {
    /// The control plane of this process, started by the first caller.
    ///
    /// # Panics
    /// If it cannot be started; the message lists what to install.
    pub async fn shared() -> &'static ControlPlane {
        SHARED.get_or_try_init(ControlPlane::boot).await.unwrap_or_else(|e| fail(&e))
    }

    /// A separate control plane, for a program that ends it before the process ends. Finds or
    /// builds the programs, which takes minutes, and starts etcd.
    pub async fn boot() -> Result<ControlPlane> {
        let binaries = tokio::task::spawn_blocking(|| Binaries::find(|name| env::var_os(name)));
        let etcd = Arc::new(Etcd::start(binaries.await??).await?);
        Ok(ControlPlane {
            etcd,
            clusters_started: AtomicU32::new(0),
            hub: OnceCell::new(),
            managed: OnceCell::new(),
            managed_by_ocm: OnceCell::new(),
        })
    }

    /// The shared hub, with the kinds of a hub. Use your own namespace on it.
    pub async fn hub(&self) -> &Cluster {
        let options = || ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
        self.hub.get_or_init(|| self.start("hub", options())).await
    }

    /// The shared managed cluster, where Deployments roll out.
    pub async fn managed(&self) -> &Cluster {
        self.managed.get_or_init(|| self.start("managed", managed())).await
    }

    /// The shared managed cluster of the doubles of OCM's agent. A double lists all
    /// AppliedManifestWorks of its cluster at each step, so it must not have those of other tests.
    pub async fn managed_by_ocm(&self) -> &Cluster {
        self.managed_by_ocm.get_or_init(|| self.start("managed-by-ocm", managed())).await
    }

    /// A separate cluster, for tests that stop it or need it empty. It ends when it is dropped.
    ///
    /// # Panics
    /// If it does not become ready, with the last lines of its log.
    pub async fn start(&self, name: &str, options: ClusterOptions) -> Cluster {
        self.launch(name, options).await.unwrap_or_else(|error| fail(&error))
    }

    /// [`ControlPlane::start`] for programs that report an error themselves.
    pub async fn launch(&self, name: &str, options: ClusterOptions) -> Result<Cluster> {
        let number = self.clusters_started.fetch_add(1, Ordering::Relaxed);
        Cluster::start(self.etcd.clone(), &format!("{name}-{number}"), options).await
    }

    /// The folder with the files and logs of etcd, the API servers and the other programs.
    pub fn folder(&self) -> &Path {
        self.etcd.folder.path()
    }

    /// The process id of etcd.
    pub fn pid(&self) -> u32 {
        self.etcd.process.id()
    }
}

impl Etcd {
    async fn start(binaries: Binaries) -> Result<Etcd> {
        let ports = [Port::reserve()?, Port::reserve()?];
        let [url, peer_url] =
            [0, 1].map(|n: usize| format!("http://127.0.0.1:{}", ports[n].number()));
        let folder = Folder::create()?;
        let mut command = binaries.command(Program::Etcd)?;
        command
            .arg("--name=etcd")
            .arg(format!("--data-dir={}", folder.path().join("etcd").display()))
            .arg(format!("--listen-client-urls={url}"))
            .arg(format!("--advertise-client-urls={url}"))
            .arg(format!("--listen-peer-urls={peer_url}"))
            .arg(format!("--initial-advertise-peer-urls={peer_url}"))
            .arg(format!("--initial-cluster=etcd={peer_url}"))
            .args(["--socket-reuse-port", "--log-level=warn"])
            // Without disk flushes: the data is temporary, and each write would wait for the disk.
            .arg("--unsafe-no-fsync")
            // Benchmarks write more than the 2 GB that it holds by default.
            .arg("--quota-backend-bytes=8000000000")
            // Entries of the raft log stay in memory until a snapshot.
            .arg("--snapshot-count=5000");
        let mut process = Process::start(command, "etcd", folder.path())?;
        let port = ports[0].number();
        let probe = || {
            let death = process.death();
            async move {
                match (death, TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await) {
                    (Some(death), _) => Ok(Err(anyhow!(death))),
                    (None, Ok(_)) => Ok(Ok(())),
                    (None, Err(error)) => Err(error.to_string()),
                }
            }
        };
        eventually("etcd to listen", ETCD_START, probe).await??;
        Ok(Etcd { process, url, binaries, folder, _ports: ports })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A managed cluster where Deployments roll out.
fn managed() -> ClusterOptions {
    ClusterOptions { controller_manager: true, scheduler_and_kwok: true, crds: crds::managed() }
}

fn fail(error: &anyhow::Error) -> ! {
    panic!("{error:#}")
}
