//! The Kubernetes side of the hub, behind a trait: the real one speaks to a kube-apiserver, the simulated
//! one of the tests lives in memory. One list of contract tests runs on both.

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::core::backoff::Setback;
use crate::core::directives::Directives;
use crate::core::name::{CommitId, SourceId, WorkKey};
use crate::core::observed::ObservedWork;
use crate::core::plan::Effect;
use crate::core::record::{Record, RecordError};
use crate::limits;

mod answer;
pub mod client;
pub mod count;
pub mod directives;
pub mod events;
pub mod execute;
pub mod fleet;
pub mod lease;
mod leases;
mod list;
mod record;
mod server;
mod told;
mod transport;
mod watch;

pub use server::KubeHub;

/// The namespace of gitwork's own objects, where nothing else is said: the one of `deploy/gitwork.yaml`.
pub const NAMESPACE: &str = "gitwork";

/// A change of what the hub has of one source.
#[derive(Debug, Clone, PartialEq)]
pub enum HubEvent {
    /// The complete state: what is not in here is not there.
    Listed(Vec<ObservedWork>),
    /// Created or changed.
    Changed(Box<ObservedWork>),
    /// Gone, or no longer labelled as this source's.
    Gone(WorkKey),
    /// The watch is broken and is being restarted; what is known may be stale, and nothing is absent for it.
    /// Once the hub answers again, `Listed` follows.
    Interrupted(HubError),
}

/// A record as the hub has it.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    pub record: Record,
    /// Opaque; sent back as the precondition of a write.
    pub resource_version: String,
}

/// Why the hub did not do what was asked. The message names the object and what to do, never a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// 409 on create: the name is taken.
    #[error("{key} exists already")]
    Exists { key: String },
    /// 409 on a write with a precondition, or 404 on an object that was there: look again and plan anew.
    #[error("{key} has changed on the hub in the meantime")]
    Stale { key: String },
    /// The cluster namespace does not exist or is being deleted.
    #[error(
        "the hub has no namespace {cluster:?} that takes works; is the managed cluster joined and accepted?"
    )]
    NoNamespace { cluster: String },
    /// 401 or 403.
    #[error("the hub forbids this: {message}")]
    Forbidden { message: String },
    /// The hub's API server or an admission webhook refused the object; only a change in Git mends it.
    #[error("the hub refuses {key}: {message}")]
    Refused { key: String, message: String },
    /// gitwork's own namespace is not there.
    #[error(
        "the hub has no namespace {namespace:?} for gitwork's own objects; make it, or name another with --namespace"
    )]
    NoHome { namespace: String },
    /// The record that a source has on the hub cannot be read.
    #[error(
        "the record in the Lease {namespace}/{name} cannot be used: {why}; delete that Lease to begin anew"
    )]
    BadRecord { namespace: String, name: String, why: RecordError },
    /// The ManifestWork CRD is not installed.
    #[error(
        "the hub does not know ManifestWork; install Open Cluster Management, or the CRD that `gitwork crds` prints"
    )]
    NoCrd,
    /// Time-outs, 429, 5xx, no connection: try again later. The write may have taken place.
    #[error("the hub did not answer: {message}")]
    Unavailable { message: String, retry_after_seconds: Option<u64> },
}

impl HubError {
    /// How long to leave a work alone after this.
    pub fn setback(&self) -> Setback {
        match self {
            Self::Stale { .. } => Setback::Stale,
            Self::Unavailable { retry_after_seconds, .. } => {
                Setback::Unavailable { retry_after_seconds: *retry_after_seconds }
            }
            Self::Exists { .. }
            | Self::NoNamespace { .. }
            | Self::Forbidden { .. }
            | Self::NoHome { .. }
            | Self::BadRecord { .. }
            | Self::NoCrd => Setback::Blocked,
            Self::Refused { .. } => Setback::Refused,
        }
    }
}

/// A message from outside on one line and within `limits::HUB_MESSAGE_CHARS_MAX`, for logs and commit statuses.
fn bounded(message: &str) -> String {
    let mut kept = String::new();
    for (count, character) in message.trim().chars().enumerate() {
        if count == limits::HUB_MESSAGE_CHARS_MAX {
            kept.push('…');
            break;
        }
        kept.push(if character.is_control() { ' ' } else { character });
    }
    kept
}

/// What gitwork needs of a hub. Every call ends within the implementation's time-out.
pub trait Hub: Send + Sync + 'static {
    /// The state of one source's works, then its changes, for ever. Reconnects by itself.
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent>;
    /// Every ManifestWork of one source, or of all with `None`.
    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>>;
    fn get<'a>(&'a self, key: &'a WorkKey)
    -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>>;
    /// What operators say on the hub about a source; nothing where nobody has said anything.
    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>>;
    /// The source's record; `None` where there is none.
    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>>;
    /// Writes the source's record over the one that was read, or makes it where there was none. `Stale` where
    /// another has written it since.
    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>>;
    /// Does one effect. Answers the work as it is afterwards; `None` where it is gone.
    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>>;
}
