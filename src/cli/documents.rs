//! `schema`, `crds` and `completions`: texts that the program generates.

use std::io;

use clap::{Args, ValueEnum};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use super::completion;
use super::error::CommandError;
use super::exit::Exit;
use super::output;
use gitwork_api::crds;
use gitwork_core::config::FileKind;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_report::outputs::OutputKind;

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The file, or the output of a command with `-o json`, that the schema is for
    #[arg(value_enum, value_name = "FILE|OUTPUT")]
    what: SchemaName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SchemaName {
    /// gitwork.yaml
    Gitwork,
    /// cluster.yaml
    Cluster,
    /// group.yaml
    Group,
    /// work.yaml
    Work,
    /// <file>.config.yaml
    ManifestConfig,
    /// The file of `gitwork run --config`
    Daemon,
    /// `gitwork validate -o json`
    ValidateOutput,
    /// `gitwork plan -o json`, against the hub
    PlanOutput,
    /// `gitwork plan --base REVISION -o json`
    PlanBaseOutput,
    /// `gitwork explain -o json`
    ExplainOutput,
    /// `gitwork status -o json`
    StatusOutput,
    /// `gitwork tree -o json`
    TreeOutput,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that the script is for
    #[arg(value_enum)]
    shell: ShellName,
}

/// A shell that can complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShellName {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// Runs `gitwork schema`.
pub fn schema(args: &SchemaArgs) -> Result<Exit, CommandError> {
    let schema = match args.what {
        SchemaName::Gitwork => FileKind::Source.schema(),
        SchemaName::Cluster => FileKind::Cluster.schema(),
        SchemaName::Group => FileKind::Group.schema(),
        SchemaName::Work => FileKind::Work.schema(),
        SchemaName::ManifestConfig => FileKind::Manifest.schema(),
        SchemaName::Daemon => FileKind::Daemon.schema(),
        SchemaName::ValidateOutput => OutputKind::Validate.schema(),
        SchemaName::PlanOutput => OutputKind::Plan.schema(),
        SchemaName::PlanBaseOutput => OutputKind::PlanBase.schema(),
        SchemaName::ExplainOutput => OutputKind::Explain.schema(),
        SchemaName::StatusOutput => OutputKind::Status.schema(),
        SchemaName::TreeOutput => OutputKind::Tree.schema(),
    };
    output::print(&format!("{schema:#}\n"))?;
    Ok(Exit::Done)
}

/// The CRDs cannot be written as YAML.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct CrdError(serde_yaml::Error);

impl OperationError for CrdError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Bug
    }

    fn reason(&self) -> &'static str {
        "Crds"
    }
}

/// Runs `gitwork crds`.
pub fn crds() -> Result<Exit, CommandError> {
    output::print(&crds::to_yaml().map_err(CrdError)?)?;
    Ok(Exit::Done)
}

/// The script cannot be written, which a script in memory always can.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the script")]
struct ScriptError(#[source] io::Error);

impl OperationError for ScriptError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Bug
    }

    fn reason(&self) -> &'static str {
        "Completions"
    }
}

/// Runs `gitwork completions`. The script asks the program at each completion: it knows the names
/// of the repository that the command would read.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, CommandError> {
    let shell: &dyn EnvCompleter = match args.shell {
        ShellName::Bash => &Bash,
        ShellName::Elvish => &Elvish,
        ShellName::Fish => &Fish,
        ShellName::Powershell => &Powershell,
        ShellName::Zsh => &Zsh,
    };
    let mut script = Vec::new();
    shell
        .write_registration(completion::VARIABLE, "gitwork", "gitwork", "gitwork", &mut script)
        .map_err(ScriptError)?;
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
