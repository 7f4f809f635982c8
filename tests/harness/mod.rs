//! A real Kubernetes control plane for the integration tests, the demo and the benches.
//!
//! One etcd for a test process; a hub and any number of managed clusters on it, each with an API
//! server of its own, kept apart by key prefix; on a managed cluster that asks for it the
//! controllers, the scheduler and a played kubelet, so that workloads really roll out.
//! Where it cannot be had, tests fail and say what to install: none is ever skipped.
//!
//! ```ignore
//! // Tests share a hub; each takes namespaces, the cluster namespaces of OCM, of its own.
//! let hub = harness::hub().await;
//! let edge = hub.namespace("edge").await; // "edge-0"
//! let works = Api::<ManifestWork>::namespaced(hub.client(), &edge);
//!
//! // The program, as the admin or as a ServiceAccount that may do what RBAC says.
//! let kubeconfig = hub.kubeconfig_path_for(&edge, "gitwork").await;
//! Command::new(env!("CARGO_BIN_EXE_gitwork")).arg("--kubeconfig").arg(kubeconfig);
//!
//! // What `kubectl apply --server-side -f` would do.
//! apply(hub.client(), &fs::read_to_string("deploy/gitwork.yaml")?).await?;
//!
//! // What it asked of the API server.
//! let mut requests = hub.requests();
//! // … let it run …
//! let made = requests.take();
//! let writes = made.iter().filter(|r| r.user_agent.starts_with("gitwork") && r.is_write());
//! assert_eq!(tally(writes), BTreeMap::from([("patch manifestworks".to_owned(), 1)]));
//!
//! // A managed cluster that tests share, where Deployments roll out and owners own.
//! let managed = harness::managed().await;
//!
//! // A cluster of one's own: to restart it, to count all that it does, to name its namespaces.
//! let plane = ControlPlane::shared().await;
//! let hub = plane.start("hub", ClusterOptions { crds: crds::hub(), ..Default::default() }).await;
//! let kubeconfig = hub.accept_as_file("cluster1").await; // its agent's, with an agent's rights
//! hub.kill();
//! hub.restart().await.unwrap();
//! ```
//!
//! Nothing outlives the process that started it, however that dies: every child waits on the
//! end of its standard input.
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
mod apply;
pub mod binaries;
mod cluster;
mod control_plane;
pub mod crds;
mod credentials;
pub mod fault_proxy;
pub mod faults;
pub mod go_module;
pub mod process;
pub mod requests;
mod wait;
mod workloads;

pub use apply::{apply, apply_all};
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
