//! The commands of `gitwork`: arguments in, library calls, text out. Data goes to stdout, the rest to stderr.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

mod adopt;
mod approve;
mod compare;
mod daemon_file;
mod documents;
mod explain;
mod output;
mod read_args;
mod render;
mod report_args;
mod run;
mod signer_args;
mod source_args;
mod status;
mod suspend;
mod view_args;
mod watch;

/// Push YAML to Git, get ManifestWorks on an Open Cluster Management hub.
#[derive(Debug, Parser)]
#[command(name = "gitwork", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  gitwork validate                                  every problem of the repository in this folder
  gitwork render --cluster edge-7                   the ManifestWorks of one cluster
  gitwork plan --base origin/main                   what this branch changes, without any cluster
  gitwork run --repo https://git.example/fleet.git  keep the hub in step with Git
  gitwork status                                    clusters x works, as the hub has them
  gitwork tree edge-7/web                           one work down to its objects
  gitwork explain edge-7/web/deployment/shop/web    where it comes from, and why it is not there

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 there are changes, 4 something is held
(3 and 4 with `--exit-code` only)";

#[derive(Debug, Subcommand)]
enum Command {
    /// Keep the hub in step with Git
    ///
    /// Of several processes that run with the same source id one leads it, by a Lease on the hub, and writes; the others stand by and
    /// take over when it ends. With --once there is no waiting for the lead.
    Run(Box<run::RunArgs>),
    /// Print the ManifestWorks of a repository; no cluster is needed
    Render(Box<render::RenderArgs>),
    /// Report every error and warning of a repository; no cluster is needed
    Validate(Box<render::ValidateArgs>),
    /// Show what would change: between two commits, or between Git and the hub
    Plan(Box<compare::PlanArgs>),
    /// Let one thing through that is held, and no other
    Approve(Box<approve::ApproveArgs>),
    /// Leave a source, a cluster or a work as it is, until it is resumed
    Suspend(suspend::SuspendArgs),
    /// End a suspension
    Resume(suspend::ResumeArgs),
    /// Have the daemon fetch and sync a source now
    Reconcile(suspend::ReconcileArgs),
    /// Take over a ManifestWork that somebody else made
    Adopt(Box<adopt::AdoptArgs>),
    /// Show what the hub has, and how far the clusters are with it
    Status(Box<status::StatusArgs>),
    /// Show each work down to its objects, with feedback values and conditions
    Tree(Box<status::TreeArgs>),
    /// Tell where a work or an object comes from, and why it is (not) on its cluster
    Explain(Box<explain::ExplainArgs>),
    /// Print the JSON Schema of a configuration file
    Schema(documents::SchemaArgs),
    /// Print the CRDs of the OCM kinds that gitwork uses
    Crds,
    /// Print a completion script for a shell
    Completions(documents::CompletionsArgs),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    Usage,
    /// `plan --exit-code`: there are changes.
    Changes,
    /// `--exit-code`: something waits for an approval, a signature, a window or a name that is taken.
    Held,
}

impl Exit {
    pub const ALL: [Exit; 5] = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Changes, Exit::Held];

    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Changes => 3,
            Exit::Held => 4,
        }
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// An error with all of its causes.
    fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { exit: Exit::Failed, message: crate::error::with_causes(&*error.into()) }
    }
    fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into() }
    }
}

/// Parses `arguments`, the program's name first, and runs the command.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut command = command(arguments.first().map(Path::new));
    let parsed = command
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is no failure of ours.
            let _printed = error.print();
            return ExitCode::from(
                if error.use_stderr() { Exit::Usage } else { Exit::Done }.code(),
            );
        }
    };
    let result = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Render(args) => render::render(&args),
        Command::Validate(args) => render::validate(&args),
        Command::Plan(args) => compare::plan(&args),
        Command::Approve(args) => approve::approve(&args),
        Command::Suspend(args) => suspend::suspend(&args),
        Command::Resume(args) => suspend::resume(&args),
        Command::Reconcile(args) => suspend::reconcile(&args),
        Command::Adopt(args) => adopt::adopt(&args),
        Command::Status(args) => status::status(&args),
        Command::Tree(args) => status::tree(*args),
        Command::Explain(args) => explain::explain(&args),
        Command::Schema(args) => documents::schema(&args),
        Command::Crds => documents::crds(),
        Command::Completions(args) => documents::completions(&args),
    };
    let exit = result.unwrap_or_else(|failure| {
        output::error(&failure.message);
        failure.exit
    });
    ExitCode::from(exit.code())
}

/// The command line as clap knows it. As `kubectl-gitwork` the same binary is `kubectl gitwork`.
pub fn command(program: Option<&Path>) -> clap::Command {
    let stem = program.and_then(Path::file_stem).and_then(|stem| stem.to_str());
    if stem.is_some_and(|stem| stem.starts_with("kubectl-")) {
        Cli::command().bin_name("kubectl gitwork")
    } else {
        Cli::command()
    }
}

/// A runtime for the commands that speak to a hub.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command(None).debug_assert();
        let plugin = command(Some(Path::new("/usr/local/bin/kubectl-gitwork")));
        assert_eq!(plugin.get_bin_name(), Some("kubectl gitwork"));
    }
}
