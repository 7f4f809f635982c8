//! The hub: reads, writes and watches of ManifestWorks behind one trait, [`Hub`].
//!
//! [`KubeHub`] is a hub behind an API server. The tests have another one in memory; the same
//! contract tests run on both.
//!
//! ```no_run
//! # use gitwork_core::model::name::SourceId;
//! # async fn example(source: SourceId) -> Result<(), Box<dyn std::error::Error>> {
//! use gitwork_hub::{Hub, KubeHub, client};
//!
//! let hub = KubeHub::connect(client::connector(None, None)).await?;
//! let works = hub.list(Some(&source)).await?;
//! # Ok(())
//! # }
//! ```

pub mod client;
mod connection;
pub mod credentials;
pub mod directives;
mod error_class;
pub mod events;
pub mod execute;
pub mod facts;
pub mod fleet;
mod fleet_error;
mod fleet_resource;
mod follow;
mod hub;
mod kube_hub;
pub mod lease;
mod lease_client;
pub mod limits;
mod list;
mod message;
mod record;
mod request;
pub mod request_metrics;
mod resource_list;
mod resource_watch;
mod response;
mod retrying_hub;
pub mod source_report;
mod watch;
mod work_client;
mod work_kind;

pub use error_class::class_of_request;
pub use gitwork_sync::hub::{HubError, HubEvent, StoredRecord};
pub use hub::{Hub, NAMESPACE, read_contents};
pub use kube_hub::KubeHub;
pub use lease_client::LeaseClient;
pub use retrying_hub::{RetryingHub, retry_transient};

pub(crate) use message::{bounded, unavailable};
