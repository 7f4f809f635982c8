//! Programs for a hub that run until a signal ends them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use gitwork_hub::client::{self, Connect};

use super::error::CommandError;
use super::exit::Exit;
use super::hub::{Workers, new_runtime};
use super::memory;
use super::signals::Signals;
use super::source_args::HubArgs;

/// Runs `program` with the hub until SIGTERM or SIGINT, which ends the future that it gets.
pub fn run_until_signal<R, E>(
    hub: HubArgs,
    program: impl FnOnce(Connect, LocalBoxFuture<'static, ()>) -> R,
) -> Result<Exit, CommandError>
where
    R: Future<Output = Result<(), E>>,
    CommandError: From<E>,
{
    let runtime = new_runtime(Workers::OfEachCore)?;
    let result = runtime.block_on(async {
        // First of all: a signal without a handler ends the program at once.
        let signals = Signals::install()?;
        memory::give_back();
        let stop = async move { signals.until_end(&BTreeMap::new()).await };
        program(client::connector(hub.kubeconfig, hub.context), stop.boxed_local()).await?;
        Ok(Exit::Done)
    });
    // A request that hangs in the network must not delay the exit.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}
