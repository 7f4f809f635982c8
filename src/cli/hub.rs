//! The connection to the hub, and the async runtime for it.

use std::io;
use std::sync::OnceLock;

use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use tokio::runtime::Runtime;

use super::error::CommandError;
use super::source_args::HubArgs;
use gitwork_core::model::name::ClusterName;
use gitwork_core::model::operation_error::{ErrorClass, OperationError, describe};
use gitwork_hub::client as hub_client;
use gitwork_hub::client::ClientError;
use gitwork_hub::fleet::FleetError;

/// A client for the hub that the arguments name.
pub async fn connect(args: &HubArgs) -> Result<kube::Client, CommandError> {
    Ok(client(args).await?)
}

/// As [`connect`], with the hub's own error.
pub async fn client(args: &HubArgs) -> Result<kube::Client, ClientError> {
    let config = hub_client::config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    hub_client::client(config)
}

/// As [`connect`], with the error of views of the fleet.
pub async fn fleet_client(args: &HubArgs) -> Result<kube::Client, FleetError> {
    client(args).await.map_err(|error| FleetError::NoHub(describe(&error)))
}

/// The ManifestWorks of a cluster.
pub fn works(client: kube::Client, cluster: &ClusterName) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
    Api::namespaced_with(client, cluster.as_str(), &ApiResource::from_gvk(&kind))
}

/// The async runtime did not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the async runtime")]
struct RuntimeError(#[source] io::Error);

impl OperationError for RuntimeError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "Runtime"
    }
}

/// A new async runtime, with a worker for each core or with one.
pub fn new_runtime(workers: Workers) -> Result<Runtime, CommandError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if workers == Workers::One {
        builder.worker_threads(1);
    }
    Ok(builder.enable_all().build().map_err(RuntimeError)?)
}

/// The threads of an async runtime that do not block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workers {
    OfEachCore,
    /// For a program whose requests are those of one task: they wake no other thread.
    One,
}

/// The async runtime of this command. A client of a hub works only in the runtime in which it was
/// made, so there is one.
pub fn runtime() -> Result<&'static Runtime, CommandError> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = new_runtime(Workers::OfEachCore)?;
    Ok(RUNTIME.get_or_init(|| runtime))
}
