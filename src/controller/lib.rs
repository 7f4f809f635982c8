//! The controller of ManifestWorkReplicaSets: it watches them, their Placements and their works,
//! writes what [`gitwork_replica_sets`] decides, and deletes completed works. One replica leads, by
//! a Lease.
//!
//! ```no_run
//! use gitwork_controller::{ControllerError, ControllerOptions, run};
//! use gitwork_hub::client;
//! use gitwork_runtime::clock::WallClock;
//!
//! # async fn start(options: ControllerOptions) -> Result<(), ControllerError> {
//! let stop = std::future::pending();
//! run(client::connector(None, None), options, WallClock::system(), stop).await
//! # }
//! ```

pub mod collection_watch;
mod controller_lease;
mod controller_metrics;
pub mod hub_api;
pub mod limits;
mod ocm_lease;
mod pass;
mod run;
mod set_writer;
mod shared;
mod store;

pub use ocm_lease::OcmLeaseName;
pub use run::{ControllerError, ControllerOptions, run};
