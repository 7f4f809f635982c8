//! `facts`: what the hub says of clusters and Placements; and the same for the daemon.

use std::time::Duration;

use clap::Args;
use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::error::CommandError;
use super::exit::Exit;
use super::hub::{self, runtime};
use super::output;
use super::source_args::HubArgs;
use gitwork_core::model::facts::Facts;
use gitwork_daemon::facts_feed::{FactsFeed, facts_feed};
use gitwork_hub::facts;
use gitwork_hub::retry_transient;
use gitwork_runtime::clock::WallClock;

#[derive(Debug, Args)]
pub struct FactsArgs {
    #[command(flatten)]
    hub: HubArgs,
}

/// Runs `gitwork facts`.
pub fn facts(args: &FactsArgs) -> Result<Exit, CommandError> {
    output::print(&facts_of_hub(&args.hub)?.text())?;
    Ok(Exit::Done)
}

/// What the hub says of clusters and Placements.
pub(super) fn facts_of_hub(args: &HubArgs) -> Result<Facts, CommandError> {
    runtime()?.block_on(async {
        let client = hub::connect(args).await?;
        let time = Timestamp::now();
        Ok(retry_transient(|| facts::list(&client, time)).await?)
    })
}

/// Reads the facts of the hub once a source needs them.
pub(super) fn watch_facts(
    args: &HubArgs,
    placement_grace: Duration,
    stop: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> FactsFeed {
    let (feed, reader) = facts_feed(WallClock::system(), placement_grace);
    let args = args.clone();
    let watch = move || {
        let args = args.clone();
        async move {
            let client = hub::fleet_client(&args).await?;
            let version = facts::version(&client).await;
            Ok((facts::watch(&client), version))
        }
        .boxed()
    };
    tasks.spawn(reader.run(watch, stop.clone()));
    feed
}
