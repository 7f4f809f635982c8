//! The limits of this crate, each with its reason.

use std::time::Duration;

use gitwork_admission_rules::limits::MANIFESTS_BYTES_MAX;

// What a plan of gitwork accepts, the webhook accepts by default.
const _: () = assert!(MANIFESTS_BYTES_MAX == gitwork_core::limits::WORK_BYTES_MAX);

/// The largest limit on manifests that an operator may set. etcd stores 1.5 MiB by default, and the
/// API server accepts 3 MiB.
pub const MANIFESTS_BYTES_CEILING: usize = 8 * 1024 * 1024;
/// Connections at once; others wait in the kernel's queue. Each API server keeps up to 25 idle ones
/// to a webhook, and opens more under load. Each takes some 40 KB.
pub const CONNECTIONS_MAX: usize = 512;
/// From the accepted connection to the head of its first request, TLS included.
pub const CONNECTION_SETUP: Duration = Duration::from_secs(5);
/// For the head of each further request. An API server closes a connection after 90 s without one.
pub const KEEP_ALIVE: Duration = Duration::from_secs(100);
/// After this time, the next answer asks the client to connect again. Without an answer the
/// connection is closed `KEEP_ALIVE` later: a client that does not read cannot keep it for ever.
pub const CONNECTION_LIFE: Duration = Duration::from_secs(600);
/// The head of a request, in bytes. API servers send less than 1 KiB.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The header fields of a request. API servers send about ten.
pub const HEADERS_MAX: usize = 64;
/// A request from its head to its answer. The API server waits for 10 s at most by
/// `deploy/admission.yaml`, and its own error would say less.
pub const REQUEST: Duration = Duration::from_secs(8);
/// For the body of a request. API servers send it at once.
pub const BODY_READ: Duration = Duration::from_secs(4);
/// The body of a request beside the manifests, in bytes: the status, `managedFields`, the user.
pub const BODY_BYTES_BESIDE: usize = 4 * 1024 * 1024;
/// The bodies of all requests at once, in bytes. Further ones wait.
pub const BODIES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Requests that are answered at once; others wait.
pub const REQUESTS_AT_ONCE: usize = 256;
/// Questions to the API server at once; others wait.
pub const ACCESS_REVIEWS_AT_ONCE: usize = 64;
/// One request to the API server. A write waits for it.
pub const API_CALL: Duration = Duration::from_secs(5);
/// One response of the API server, in bytes: a Secret or a configuration.
pub const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Between two looks at the certificates until there is one: two replicas that start at once may
/// be in each other's way.
pub const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Between two reads of mounted certificates.
pub const FILES_CHECK: Duration = Duration::from_secs(5);
/// A mounted file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Between two warnings about questions without an answer.
pub const WARN_INTERVAL: Duration = Duration::from_secs(10);
/// From SIGTERM until no more connections are accepted. The readiness probe fails meanwhile, and
/// API servers learn that this replica is gone.
pub const SHUTDOWN_NOTICE: Duration = Duration::from_secs(4);
/// For the requests that are being answered after that.
pub const SHUTDOWN_DRAIN: Duration = Duration::from_secs(4);
/// The shortest lifetime of certificates: tests use it. There must be several checks in an overlap.
pub const CERTIFICATE_LIFETIME_MIN: Duration = Duration::from_secs(30);
/// The lifetime of certificates by default.
pub const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// The longest lifetime of certificates.
pub const CERTIFICATE_LIFETIME_MAX: Duration = Duration::from_secs(3650 * 24 * 3600);

/// The body of a request, in bytes: an update has the new and the old object. JSON may take more
/// than what the limit counts, as the API server escapes some characters.
pub fn body_bytes_max(manifests_bytes_max: usize) -> usize {
    2 * manifests_bytes_max + BODY_BYTES_BESIDE
}
