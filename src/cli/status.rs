//! `status` and `tree`: gitwork's works on the hub, their state on the clusters, and their objects.

use clap::Args;

use super::completion;
use super::error::CommandError;
use super::exit::Exit;
use super::view::show;
use super::view_args::{View, ViewArgs};

#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    view: ViewArgs,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  gitwork status                                   list every work of every cluster
  gitwork status --state failed,degraded -o wide   list works with problems, with all details
  gitwork status --cluster 'edge-*' --watch        watch until Ctrl-C
  gitwork status -o json | jq .summary             use it in a script";

/// Runs `gitwork status`.
pub fn status(args: &StatusArgs) -> Result<Exit, CommandError> {
    show(&args.view, View::Works)
}

#[derive(Debug, Args)]
#[command(after_help = TREE_EXAMPLES)]
pub struct TreeArgs {
    /// Cluster, or one of its works; `*` and `?` are wildcards in both names
    #[arg(
        value_name = "CLUSTER[/WORK]",
        conflicts_with_all = ["cluster", "work"],
        add = completion::cluster_works(),
    )]
    which: Option<String>,
    #[command(flatten)]
    view: ViewArgs,
}

const TREE_EXAMPLES: &str = "\
Examples:
  gitwork tree edge-7/web             show each object of one work: state, feedback, problems
  gitwork tree edge-7 -o wide         show all conditions as well
  gitwork tree --state failed         show all works that have failed
  gitwork tree edge-7/web --watch     watch until Ctrl-C";

/// Runs `gitwork tree`.
pub fn tree(args: TreeArgs) -> Result<Exit, CommandError> {
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
