//! `schema`, `crds`, `completions`: texts that are made of the program itself.

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use super::{Exit, Failure, command, output};
use crate::api::crds;
use crate::core::config::FileKind;

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which file's schema
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
    #[arg(value_enum)]
    shell: Shell,
}

pub fn schema(args: &SchemaArgs) -> Result<Exit, Failure> {
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

pub fn crds() -> Result<Exit, Failure> {
    output::print(&crds::to_yaml().map_err(Failure::new)?)?;
    Ok(Exit::Done)
}

pub fn completions(args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(None), "gitwork", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
