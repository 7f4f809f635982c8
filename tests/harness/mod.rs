//! A real Kubernetes control plane for the integration tests, the demo and the benches.
//!
//! One etcd for a test process; a hub and any number of managed clusters on it, each with an API
//! server of its own, kept apart by key prefix; on a managed cluster that asks for it the
//! controllers, the scheduler and a played kubelet, so that workloads really roll out.
//! Where it cannot be had, tests fail and say what to install: none is ever skipped.
//!
//! ```ignore
//! let hub = ControlPlane::shared().await.hub().await;
//! let namespace = hub.namespace("cluster1").await;
//! let works = Api::<ManifestWork>::namespaced(hub.client(), &namespace);
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

pub mod binaries;
mod cluster;
mod control_plane;
pub mod crds;
mod credentials;
mod process;
mod wait;
mod workloads;

pub use cluster::{Cluster, ClusterOptions};
pub use control_plane::ControlPlane;
pub use wait::eventually;
