//! `render` and `validate`: a repository without any cluster.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::read_args::ReadArgs;
use super::source_args::FilterArgs;
use super::{Exit, Failure, output};
use crate::core::desired::Desired;
use crate::core::report::{self, Style};
use crate::core::work::DesiredWork;
use crate::core::{sarif, yaml};
use crate::source::{Source, SourceConfig};

#[derive(Debug, Args)]
pub struct RenderArgs {
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Write each ManifestWork to DIR/<cluster>/<work>.yaml instead of stdout
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = RenderFormat::Yaml)]
    output: RenderFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RenderFormat {
    Yaml,
    Json,
}

#[derive(Debug, Args)]
pub struct ValidateArgs {
    #[command(flatten)]
    source: ReadArgs,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Text,
    Json,
    /// For code scanning: a forge shows the problems on the lines of a pull request
    Sarif,
}

/// Reads a source once, with every place told from the repository's root.
pub fn read(config: SourceConfig) -> Result<Desired, Failure> {
    if std::io::stderr().is_terminal()
        && matches!(config.repository, crate::source::Repository::Git { .. })
    {
        output::note("fetching …");
    }
    let path = config.path.clone();
    let mut source = Source::open(config).map_err(Failure::new)?;
    let read = source.read(&Arc::new(AtomicBool::new(false))).map_err(Failure::new)?;
    drop(source);
    // It was the source's too until here: now nothing of it has to be copied.
    let mut desired = Arc::unwrap_or_clone(read.desired);
    desired.tell_from_root(&path);
    Ok(desired)
}

pub fn render(args: &RenderArgs) -> Result<Exit, Failure> {
    let filter = args.filter.filter()?;
    let desired = read(args.source.operated()?.config)?;
    output::diagnostics(&desired.diagnostics);
    let works: Vec<&DesiredWork> =
        desired.works.values().filter(|work| filter.admits(&work.key)).collect();
    match &args.out {
        Some(folder) => write_out(folder, &works, &desired, args.output)?,
        None => print_out(&works, &desired, args.output)?,
    }
    Ok(exit(&desired))
}

pub fn validate(args: &ValidateArgs) -> Result<Exit, Failure> {
    let desired = read(args.source.operated()?.config)?;
    let text = match args.output {
        ReportFormat::Text => report::text(&desired.diagnostics, Style::Coloured),
        ReportFormat::Json => report::json(&desired.diagnostics),
        // Every place is told from the repository's root already.
        ReportFormat::Sarif => {
            format!("{:#}\n", sarif::sarif(&desired.diagnostics))
        }
    };
    output::print(&text)?;
    Ok(exit(&desired))
}

fn exit(desired: &Desired) -> Exit {
    if desired.diagnostics.iter().any(super::super::core::diagnostic::Diagnostic::is_error) {
        Exit::Failed
    } else {
        Exit::Done
    }
}

fn manifest_work(work: &DesiredWork, desired: &Desired) -> Value {
    work.body.to_manifest_work(&work.key, desired.commit)
}

fn print_out(
    works: &[&DesiredWork],
    desired: &Desired,
    format: RenderFormat,
) -> Result<(), Failure> {
    if format == RenderFormat::Json {
        let items: Vec<Value> = works.iter().map(|work| manifest_work(work, desired)).collect();
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": items });
        return output::print(&format!("{list:#}\n"));
    }
    for work in works {
        output::print(&format!("---\n{}", yaml::write(&manifest_work(work, desired))))?;
    }
    Ok(())
}

fn write_out(
    folder: &Path,
    works: &[&DesiredWork],
    desired: &Desired,
    format: RenderFormat,
) -> Result<(), Failure> {
    let failed = |path: &Path, why: std::io::Error| {
        Failure::new(format!("cannot write {}: {why}", path.display()))
    };
    for work in works {
        let cluster = folder.join(work.key.cluster.as_str());
        std::fs::create_dir_all(&cluster).map_err(|why| failed(&cluster, why))?;
        let value = manifest_work(work, desired);
        let (ending, text) = match format {
            RenderFormat::Yaml => ("yaml", yaml::write(&value)),
            RenderFormat::Json => ("json", format!("{value:#}\n")),
        };
        let file = cluster.join(format!("{}.{ending}", work.key.work));
        std::fs::write(&file, text).map_err(|why| failed(&file, why))?;
    }
    output::note(&format!("{} ManifestWorks written to {}", works.len(), folder.display()));
    Ok(())
}
