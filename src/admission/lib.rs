//! The admission webhooks of ManifestWorks and ManifestWorkReplicaSets: an HTTPS server that
//! answers as [`gitwork_admission_rules`] decides, and the upkeep of its certificates.
//!
//! ```no_run
//! use gitwork_admission::{AdmissionError, AdmissionOptions, run};
//! use gitwork_hub::client;
//! use gitwork_runtime::clock::WallClock;
//!
//! # async fn start(options: AdmissionOptions) -> Result<(), AdmissionError> {
//! let stop = std::future::pending();
//! run(client::connector(None, None), options, WallClock::system(), stop).await
//! # }
//! ```

mod admission_api;
mod admission_metrics;
mod certificate_upkeep;
pub mod limits;
mod mounted;
mod run;
mod self_made;
mod serving_certificate;
mod stored_certificates;
mod webhook_configuration;
mod webhook_server;
mod webhook_service;

pub use admission_api::{AdmissionApiError, ApiFailure};
pub use run::{AdmissionError, AdmissionOptions, CertificateSource, SelfMadeOptions, run};
pub use serving_certificate::CertificateError;
