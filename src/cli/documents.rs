//! `schema`, `crds` and `completions`: texts that the program generates.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::error::CommandError;
use super::exit::Exit;
use super::output;
use gitwork_api::crds;
use gitwork_core::config::FileKind;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// The file that the schema is for
    #[arg(value_enum)]
    file: SchemaFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SchemaFile {
    /// gitwork.yaml
    Gitwork,
    /// cluster.yaml
    Cluster,
    /// work.yaml
    Work,
    /// <file>.config.yaml
    ManifestConfig,
    /// The file of `gitwork run --config`
    Daemon,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that the script is for
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `gitwork schema`.
pub fn schema(args: &SchemaArgs) -> Result<Exit, CommandError> {
    let kind = match args.file {
        SchemaFile::Gitwork => FileKind::Source,
        SchemaFile::Cluster => FileKind::Cluster,
        SchemaFile::Work => FileKind::Work,
        SchemaFile::ManifestConfig => FileKind::Manifest,
        SchemaFile::Daemon => FileKind::Daemon,
    };
    output::print(&format!("{:#}\n", kind.schema()))?;
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
