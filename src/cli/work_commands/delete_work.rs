//! `delete work`: deletes what `create work` created.

use std::collections::BTreeSet;

use clap::Args;
use kube::api::{DeleteParams, Preconditions};
use kube::{Client, ResourceExt as _};

use super::super::completion;
use super::created_work::{WorkOnHub, act_on_newest, read, read_all, request};
use super::work_command_error::WorkCommandError;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::hub::{connect, runtime, works};
use crate::output;
use crate::source_args::{HubArgs, cluster_name, work_name};
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::model::operation_error::describe;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DeleteWorkArgs {
    /// Name of the ManifestWork
    #[arg(value_name = "NAME", value_parser = work_name, add = completion::works())]
    name: WorkName,
    /// Clusters, separated by commas
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = cluster_name,
        add = completion::cluster_list(),
        required = true
    )]
    clusters: Vec<ClusterName>,
    /// Have the hub check the deletions without carrying them out
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    hub: HubArgs,
}

const EXAMPLES: &str = "\
Examples:
  gitwork delete work web --clusters edge-1,edge-2 --dry-run    show what would be deleted
  gitwork delete work web --clusters edge-1,edge-2              delete it

The agents on the clusters then delete the objects, as the deleteOption of the work says. A
ManifestWork of another owner is an error. Then nothing is deleted.";

/// Runs `gitwork delete work`.
pub fn delete_work(args: &DeleteWorkArgs) -> Result<Exit, CommandError> {
    let clusters: BTreeSet<ClusterName> = args.clusters.iter().cloned().collect();
    let clusters: Vec<ClusterName> = clusters.into_iter().collect();
    runtime()?.block_on(async {
        let client = connect(&args.hub).await?;
        let there = read_all(&client, &clusters, &args.name).await?;
        let mut is_foreign = false;
        for (key, there) in &there {
            if let WorkOnHub::Foreign(owner) = there {
                output::error(&format!("{key} belongs to {owner}; nothing is deleted"));
                is_foreign = true;
            }
        }
        if is_foreign {
            return Ok(Exit::Failed);
        }
        let mut failed = false;
        for (key, there) in there {
            let act = async |there: &WorkOnHub| delete(args, &client, (&key, there)).await;
            match act_on_newest(there, act, async || read(&client, &key).await).await {
                Ok(text) => output::print(&text)?,
                Err(why) => {
                    output::error(&describe(&why));
                    failed = true;
                }
            }
        }
        Ok(if failed { Exit::Failed } else { Exit::Done })
    })
}

/// Deletes a work, and says so.
async fn delete(
    args: &DeleteWorkArgs,
    client: &Client,
    (key, there): (&WorkKey, &WorkOnHub),
) -> Result<String, WorkCommandError> {
    let live = match there {
        WorkOnHub::Created(live) => live,
        WorkOnHub::Deleting => return Ok(format!("{key} is being deleted already\n")),
        WorkOnHub::Absent => return Err(WorkCommandError::Absent { key: key.clone() }),
        WorkOnHub::Foreign(owner) => {
            return Err(WorkCommandError::Foreign { key: key.clone(), owner: owner.clone() });
        }
    };
    let (uid, resource_version) = (live.metadata.uid.clone(), live.resource_version());
    let params = DeleteParams {
        dry_run: args.dry_run,
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::background()
    };
    let api = works(client.clone(), &key.cluster);
    request(key, || api.delete(key.work.as_str(), &params)).await?;
    Ok(match args.dry_run {
        true => format!("would delete {key}\n"),
        false => format!("deleted {key}\n"),
    })
}
