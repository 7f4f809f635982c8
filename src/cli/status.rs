//! `status` and `tree`: what the hub has of gitwork's works, how far the clusters are with them, and each object.

use clap::Args;

use super::view_args::{View, ViewArgs, show};
use super::{Exit, Failure};

#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    view: ViewArgs,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  gitwork status                                   every work of every cluster
  gitwork status --state failed,degraded -o wide   what somebody should look at, with all that is known
  gitwork status --cluster 'edge-*' --watch        live, until Ctrl-C
  gitwork status -o json | jq .summary             for programs";

pub fn status(args: &StatusArgs) -> Result<Exit, Failure> {
    show(&args.view, View::Works)
}

#[derive(Debug, Args)]
#[command(after_help = TREE_EXAMPLES)]
pub struct TreeArgs {
    /// One cluster, or one of its works; `*` and `?` may stand in both names
    #[arg(value_name = "CLUSTER[/WORK]", conflicts_with_all = ["cluster", "work"])]
    which: Option<String>,
    #[command(flatten)]
    view: ViewArgs,
}

const TREE_EXAMPLES: &str = "\
Examples:
  gitwork tree edge-7/web             each object of one work: state, feedback values, what is wrong
  gitwork tree edge-7 -o wide         with all conditions
  gitwork tree --state failed         of all works that have failed
  gitwork tree edge-7/web --watch     live, until Ctrl-C";

pub fn tree(args: TreeArgs) -> Result<Exit, Failure> {
    let TreeArgs { which, mut view } = args;
    if let Some(which) = which {
        let (cluster, work) = match which.split_once('/') {
            Some((cluster, work)) => (cluster.to_owned(), Some(work.to_owned())),
            None => (which, None),
        };
        (view.filter.cluster, view.filter.work) = (Some(cluster), work);
    }
    show(&view, View::Objects)
}
