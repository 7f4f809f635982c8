//! A real Kubernetes control plane for the integration tests, the demo and the benches.
//!
//! One etcd for each test process. On it run a hub and any number of managed clusters, each with
//! its own API server and key prefix. A managed cluster can have the controllers, the scheduler and
//! a simulated kubelet, so that workloads really roll out. If the control plane cannot start, tests
//! fail and list what to install. No test is skipped.
//!
//! ```ignore
//! // Tests share a hub. Each uses its own namespaces, which are OCM's cluster namespaces.
//! let hub = harness::hub().await;
//! let edge = hub.namespace("edge").await; // "edge-0"
//! let works = Api::<ManifestWork>::namespaced(hub.client(), &edge);
//!
//! // The program, as the admin or as a ServiceAccount with the rights of RBAC.
//! let kubeconfig = hub.kubeconfig_path_for(&edge, "gitwork").await;
//! Command::new(env!("CARGO_BIN_EXE_gitwork")).arg("--kubeconfig").arg(kubeconfig);
//!
//! // As `kubectl apply --server-side -f` does.
//! apply(hub.client(), &fs::read_to_string("deploy/gitwork.yaml")?).await?;
//!
//! // The requests that it sent to the API server.
//! let mut requests = hub.requests();
//! // … let it run …
//! let made = requests.take();
//! let writes = made.iter().filter(|r| r.user_agent.starts_with("gitwork") && r.is_write());
//! assert_eq!(tally(writes), BTreeMap::from([("patch manifestworks".to_owned(), 1)]));
//!
//! // The shared managed cluster, where Deployments roll out and garbage collection runs.
//! let managed = harness::managed().await;
//!
//! // A separate cluster: to restart it, to count all requests, to choose its namespaces.
//! let plane = ControlPlane::shared().await;
//! let hub = plane.start("hub", ClusterOptions { crds: crds::hub(), ..Default::default() }).await;
//! let kubeconfig = hub.accept_as_file("cluster1").await; // its agent's, with an agent's rights
//! hub.kill();
//! hub.restart().await.unwrap();
//! ```
//!
//! No process outlives the process that started it: every child ends when its standard input
//! closes.
#![allow(
    dead_code,
    unused_imports,
    reason = "each of the tests, the demo and the benches uses a part"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "what is for tests fails by panicking"
)]

mod accept;
mod agent_program;
mod apply;
pub mod binaries;
mod cluster;
mod control_plane;
pub mod crds;
mod credentials;
pub mod fault_proxy;
pub mod faults;
pub mod git_server;
pub mod go_module;
pub mod placements;
pub mod process;
pub mod requests;
pub mod resources;
pub mod source_status;
mod wait;
mod workloads;

pub use agent_program::agent_program;
pub use apply::{apply, apply_all, delete_all};
pub use cluster::{Cluster, ClusterOptions};
pub use control_plane::ControlPlane;
pub use requests::tally;
pub use wait::eventually;

/// [`ControlPlane::hub`] of the control plane that tests share.
pub async fn hub() -> &'static Cluster {
    ControlPlane::shared().await.hub().await
}

/// [`ControlPlane::managed`] of the control plane that tests share.
pub async fn managed() -> &'static Cluster {
    ControlPlane::shared().await.managed().await
}

/// [`ControlPlane::managed_by_ocm`] of the control plane that tests share.
pub async fn managed_by_ocm() -> &'static Cluster {
    ControlPlane::shared().await.managed_by_ocm().await
}
