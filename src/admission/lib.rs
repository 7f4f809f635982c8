//! The admission webhooks of ManifestWorks and ManifestWorkReplicaSets: an HTTPS server that
//! answers as [`gitwork_admission_rules`] decides, and the upkeep of its certificates.

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
