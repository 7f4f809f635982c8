//! Real Git servers on the loopback, for the integration tests and the demo: `git http-backend`
//! behind HTTP or TLS, `sshd`, a proxy that records requests, and repositories.
//!
//! ```ignore
//! let folder = tempfile::tempdir().unwrap();
//! let repo = Repo::create(&folder.path().join("fleet.git"));
//! repo.commit("main", &[("clusters/edge-7/web/deployment.yaml", Some("kind: Deployment"))]);
//! let server = GitServer::http(folder.path()).start();
//! let url = server.url("fleet.git");
//! ```
//!
//! Servers are threads of this process. Their children live as long as one connection.

mod certificates;
mod http;
mod proxy;
mod repo;
pub mod signing;
mod ssh;

pub use certificates::{Authority, Identity};
pub use http::{Access, Builder, Fault, GitServer};
pub use proxy::Proxy;
pub use repo::Repo;
pub use ssh::{SshServer, keygen};
