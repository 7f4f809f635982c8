//! The commands of `gitwork`: parse arguments, call the libraries, print text. Data goes to stdout,
//! everything else to stderr.
//!
//! ```
//! // As `gitwork --version` does.
//! let exit = gitwork::main(["gitwork", "--version"].map(Into::into));
//! assert_eq!(exit, std::process::ExitCode::SUCCESS);
//! ```

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::env::CompleteEnv;

mod admission;
mod adopt;
mod adoption_changes;
mod approval_args;
mod approve;
mod argument_error;
mod bounded_file;
mod compare;
mod completion;
mod controller;
mod current_folder;
mod daemon_file;
mod documents;
mod error;
mod exit;
mod explain;
mod explain_code;
mod facts;
mod fixes;
mod hub;
mod hub_program;
mod hub_state;
mod import;
mod init;
mod limits;
mod memory;
mod new_files;
mod no_match;
mod output;
mod printer;
mod progress;
mod published_facts;
mod read_args;
mod render;
mod rendered_folder;
mod report_args;
mod rollout;
mod rollout_step;
mod run;
mod run_args;
mod run_setup;
mod schema_args;
mod serve;
mod signals;
mod signer_args;
mod source_args;
mod source_id;
mod sources;
mod status;
mod suspend;
mod text_objects;
mod trust;
mod validate;
mod view;
mod view_args;
mod watch;
mod work_commands;

pub use exit::Exit;

/// Sync YAML from Git to ManifestWorks on an Open Cluster Management hub
#[derive(Debug, Parser)]
#[command(name = "gitwork", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    /// When to use colour. By default on terminals, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = ColorWhen::Auto,
        help_heading = "Colour"
    )]
    color: ColorWhen,
    #[command(subcommand)]
    command: Command,
}

/// When the output has colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ColorWhen {
    Auto,
    Always,
    Never,
}

impl ColorWhen {
    /// Sets it for all streams of the program.
    fn apply(self) {
        let choice = match self {
            Self::Auto => return,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

const EXAMPLES: &str = "\
Examples:
  gitwork init --cluster edge-7                     make a first repository in this folder
  gitwork validate                                  report every problem in this repository
  gitwork render --cluster edge-7                   print the ManifestWorks of one cluster
  gitwork plan --base origin/main                   show the changes of this branch (no cluster)
  gitwork run --repo https://git.example/fleet.git  keep the hub in sync with Git
  gitwork status                                    list clusters and works with their state
  gitwork tree edge-7/web                           show one work and its objects
  gitwork explain edge-7/web/deployment/shop/web    show where an object comes from, and its state

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 changes found, 4 changes held
(3 and 4 with `--exit-code` only)";

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a first repository (needs no cluster)
    Init(init::InitArgs),
    /// Turn ManifestWorks of a hub, or objects in files, into work folders
    Import(Box<import::ImportArgs>),
    /// Keep the hub in sync with Git
    ///
    /// Run several replicas with the same source id for high availability. A Lease on the hub
    /// elects the leader, which writes; the others are on standby and take over when it stops. With
    /// --once there is no leader election.
    Run(Box<run_args::RunArgs>),
    /// Print the ManifestWorks of a repository (needs no cluster)
    Render(Box<render::RenderArgs>),
    /// Report every error and warning in a repository (needs no cluster)
    Validate(Box<validate::ValidateArgs>),
    /// Show what would change between two commits, or between Git and the hub
    Plan(Box<compare::PlanArgs>),
    /// Approve one held change
    Approve(Box<approve::ApproveArgs>),
    /// Begin to verify signatures from a commit that you have checked
    ///
    /// Needed if the hub has no record of a verified commit although it has works of the source, or
    /// if the branch no longer builds on the verified commit.
    Trust(trust::TrustArgs),
    /// Suspend syncing a source, a cluster or a work
    Suspend(suspend::SuspendArgs),
    /// Resume syncing after a suspension
    Resume(suspend::ResumeArgs),
    /// Fetch and sync a source now
    Reconcile(suspend::ReconcileArgs),
    /// Adopt an existing ManifestWork
    Adopt(Box<adopt::AdoptArgs>),
    /// List the works on the hub with their state on the clusters
    Status(Box<status::StatusArgs>),
    /// Show works and their objects, with feedback values and conditions
    Tree(Box<status::TreeArgs>),
    /// Show how far the rollouts of groups have come
    Rollout(Box<rollout::RolloutArgs>),
    /// Explain where a work or an object comes from, and its state on the cluster
    Explain(Box<explain::ExplainArgs>),
    /// Print what the hub says of clusters: labels, claims, and decisions of Placements
    ///
    /// The output is for `--facts` of `validate`, `render`, `plan` and `explain`.
    Facts(facts::FactsArgs),
    /// Create a ManifestWork without Git
    Create(work_commands::CreateArgs),
    /// Run the controller of ManifestWorkReplicaSets, for a hub without OCM's
    ///
    /// Run several replicas for high availability: a Lease elects the one that writes. It does not
    /// start where OCM's own controller leads.
    Controller(controller::ControllerArgs),
    /// Run the admission webhooks of ManifestWorks and ManifestWorkReplicaSets
    ///
    /// They reject works without manifests, without names, with duplicates, over the size limit, or
    /// with an executor that their author may not use. Run several replicas: they share their
    /// certificates.
    Admission(Box<admission::AdmissionArgs>),
    /// List ManifestWorks on the hub
    Get(work_commands::GetArgs),
    /// Delete a ManifestWork that was created without Git
    Delete(work_commands::DeleteArgs),
    /// Print the JSON Schema of a configuration file, or of the output of a command
    Schema(documents::SchemaArgs),
    /// Print the CRDs of the OCM kinds that gitwork uses
    Crds,
    /// Print a shell completion script
    Completions(documents::CompletionsArgs),
}

/// Answers the shell and ends the process, if the script of a shell asks for completions.
pub fn answer_shell() {
    CompleteEnv::with_factory(|| command(None)).var(completion::VARIABLE).complete();
}

/// Parses `arguments`, which start with the program's name, and runs the command.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    gitwork_git::memory::bound();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut command = command(arguments.first().map(Path::new));
    let parsed = command
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is not an error.
            let _printed = error.print();
            return ExitCode::from(
                if error.use_stderr() { Exit::Usage } else { Exit::Done }.code(),
            );
        }
    };
    cli.color.apply();
    let result = match cli.command {
        Command::Init(args) => init::init(&args),
        Command::Import(args) => import::import(&args),
        Command::Run(args) => run::run(&args),
        Command::Render(args) => render::render(&args),
        Command::Validate(args) => validate::validate(&args),
        Command::Plan(args) => compare::plan(&args),
        Command::Approve(args) => approve::approve(&args),
        Command::Trust(args) => trust::trust(&args),
        Command::Suspend(args) => suspend::suspend(&args),
        Command::Resume(args) => suspend::resume(&args),
        Command::Reconcile(args) => suspend::reconcile(&args),
        Command::Adopt(args) => adopt::adopt(&args),
        Command::Status(args) => status::status(&args),
        Command::Tree(args) => status::tree(*args),
        Command::Rollout(args) => rollout::rollout(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Facts(args) => facts::facts(&args),
        Command::Create(args) => work_commands::create(&args),
        Command::Controller(args) => controller::controller(args),
        Command::Admission(args) => admission::admission(*args),
        Command::Get(args) => work_commands::get(&args),
        Command::Delete(args) => work_commands::delete(&args),
        Command::Schema(args) => documents::schema(&args),
        Command::Crds => documents::crds(),
        Command::Completions(args) => documents::completions(&args),
    };
    let exit = result.unwrap_or_else(|error| {
        output::error(&error.message());
        error.exit()
    });
    ExitCode::from(exit.code())
}

/// The definition of the command line. A binary called `kubectl-gitwork` is `kubectl gitwork`.
pub fn command(program: Option<&Path>) -> clap::Command {
    let stem = program.and_then(Path::file_stem).and_then(|stem| stem.to_str());
    if stem.is_some_and(|stem| stem.starts_with("kubectl-")) {
        Cli::command().bin_name("kubectl gitwork")
    } else {
        Cli::command()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_well_formed() {
        command(None).debug_assert();
        let plugin = command(Some(Path::new("/usr/local/bin/kubectl-gitwork")));
        assert_eq!(plugin.get_bin_name(), Some("kubectl gitwork"));
    }
}
