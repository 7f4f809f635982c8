//! `delete work`: deletes what `create work` created.

use std::collections::BTreeSet;

use clap::Args;
use kube::api::{DeleteParams, Preconditions};

use super::created_work::{WorkOnHub, read_all, request, works};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::hub::{connect, runtime};
use crate::output;
use crate::source_args::{HubArgs, cluster_name, work_name};
use gitwork_core::model::name::{ClusterName, WorkName};
use gitwork_core::model::operation_error::describe;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DeleteWorkArgs {
    /// Name of the ManifestWork
    #[arg(value_name = "NAME", value_parser = work_name)]
    name: WorkName,
    /// Clusters, separated by commas
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = cluster_name,
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
            let WorkOnHub::Created(live) = there else {
                let is_absent = matches!(there, WorkOnHub::Absent);
                match is_absent {
                    true => output::error(&format!("{key} does not exist")),
                    false => output::note(&format!("{key} is being deleted already")),
                }
                failed |= is_absent;
                continue;
            };
            let metadata = live.metadata;
            let preconditions =
                Preconditions { uid: metadata.uid, resource_version: metadata.resource_version };
            let params = DeleteParams {
                dry_run: args.dry_run,
                preconditions: Some(preconditions),
                ..DeleteParams::background()
            };
            let api = works(client.clone(), &key.cluster);
            match request(&key, || api.delete(key.work.as_str(), &params)).await {
                Ok(_) if args.dry_run => output::print(&format!("would delete {key}\n"))?,
                Ok(_) => output::print(&format!("deleted {key}\n"))?,
                Err(why) => {
                    output::error(&describe(&why));
                    failed = true;
                }
            }
        }
        Ok(if failed { Exit::Failed } else { Exit::Done })
    })
}
