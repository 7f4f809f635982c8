//! `schema`, `crds` and `completions`: texts that the program generates.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::error::CommandError;
use super::exit::Exit;
use super::output;
use gitwork_api::crds;
use gitwork_core::config::FileKind;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::report::outputs::OutputKind;

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
    shell: Shell,
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

/// Runs `gitwork completions`.
pub fn completions(
    args: &CompletionsArgs,
    command: &mut clap::Command,
) -> Result<Exit, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "gitwork", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
