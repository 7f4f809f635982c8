//! Decides for the admission webhooks of ManifestWorks and ManifestWorkReplicaSets: whether a write
//! is allowed, what to ask the API server first, and when the webhooks' certificates change. Pure:
//! requests, answers and time are passed in.
//!
//! ```
//! use gitwork_admission_rules::policy::{NilExecutor, ReviewPolicy};
//! use gitwork_admission_rules::review::review;
//! use gitwork_admission_rules::reviewed_kind::ReviewedKind;
//! use serde_json::json;
//!
//! let request = json!({
//!     "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
//!     "request": {
//!         "uid": "1", "operation": "CREATE", "namespace": "edge-7",
//!         "resource": {"group": "work.open-cluster-management.io", "version": "v1",
//!             "resource": "manifestworks"},
//!         "userInfo": {"username": "ann"},
//!         "object": {"spec": {"workload": {"manifests": []}}},
//!     },
//! });
//! let policy = ReviewPolicy { manifests_bytes_max: 512_000, nil_executor: NilExecutor::Allowed };
//! let body = request.to_string();
//! let review = review(ReviewedKind::ManifestWork, body.as_bytes(), &policy).unwrap();
//! // There is nothing to ask.
//! assert!(review.question.is_none());
//! let verdict = review.verdict(None);
//! assert_eq!(
//!     verdict.response()["response"]["status"]["message"],
//!     "spec.workload.manifests: manifests should not be empty",
//! );
//! ```

mod access;
mod executor;
mod json_text;
pub mod limits;
mod manifest_rules;
pub mod policy;
pub mod review;
#[cfg(test)]
mod review_tests;
pub mod reviewed_kind;
pub mod rotation;
mod verdict;

pub use access::{AccessAnswer, AccessQuestion, RequestUser};
pub use verdict::AdmissionVerdict;
