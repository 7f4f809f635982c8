//! `render` and `validate`: read a repository, without any cluster.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::error::CommandError;
use super::exit::Exit;
use super::output;
use super::published_facts::add_fetched_facts;
use super::read_args::{ConfiguredSource, ReadArgs, StrictArgs, is_unknown};
use super::rendered_folder::RenderedFolder;
use super::source_args::{Filter, FilterArgs};
use super::sources::sources;
use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::name::{SourceId, WorkKey};
use gitwork_core::model::work::DesiredWork;
use gitwork_core::render::desired::Desired;
use gitwork_core::text::diagnostics;
use gitwork_core::text::escape::json_text;
use gitwork_core::text::sarif;
use gitwork_core::text::style::ColorMode;
use gitwork_core::text::yaml;
use gitwork_source::{Source, SourceLocation, Sources};

#[derive(Debug, Args)]
pub struct RenderArgs {
    #[command(flatten)]
    strict: StrictArgs,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Write each ManifestWork to DIR/<cluster>/<work>.yaml instead of stdout, and remove files
    /// that an earlier run wrote there, that are no longer rendered, and that nobody changed
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Output format
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
    strict: StrictArgs,
    #[command(flatten)]
    source: ReadArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Text,
    Json,
    /// SARIF, for code scanning: a forge shows the problems at the lines of a pull request
    Sarif,
}

/// A source to read, and its status branch.
type Opened = (Source, String);

/// Opens a source to read it once.
fn open(sources: &Sources, configured: ConfiguredSource) -> Result<Opened, CommandError> {
    let ConfiguredSource { config, status_branch, .. } = configured;
    if std::io::stderr().is_terminal() && matches!(config.repository, SourceLocation::Git { .. }) {
        output::note("fetching …");
    }
    Ok((sources.open(config)?, status_branch))
}

/// Reads a source once. Locations are relative to the repository's root. A fetch for another source
/// counts too if it began after `began`.
fn read((mut source, status_branch): Opened, began: Instant) -> Result<Desired, CommandError> {
    let path = source.config().path.clone();
    let cancel = Arc::new(AtomicBool::new(false));
    let mut read = source.read_within(began.elapsed(), &cancel)?;
    if add_fetched_facts(&mut source, &read.desired, &status_branch, &cancel) {
        read = source.read_within(began.elapsed(), &cancel)?;
    }
    drop(source);
    // The source shared it; after the drop nothing has to be copied.
    let mut desired = Arc::unwrap_or_clone(read.desired);
    desired.locate_from_root(&path);
    Ok(desired)
}

/// Runs `gitwork render`.
pub fn render(args: &RenderArgs) -> Result<Exit, CommandError> {
    let filter = args.filter.filter()?;
    let source = args.source.configured_source()?.with_published_facts();
    let desired = read(open(&sources(), source)?, Instant::now())?;
    output::diagnostics(&desired.diagnostics);
    let works: Vec<&DesiredWork> =
        desired.works.values().filter(|work| filter.matches(&work.key)).collect();
    let is_hidden = || desired.diagnostics.iter().any(|found| may_hide(found, &filter));
    if works.is_empty()
        && !is_hidden()
        && let Some(error) = args.filter.no_match(&filter, || desired.works.keys())
    {
        return Err(error);
    }
    match &args.out {
        Some(folder) => write_out(folder, &works, &desired, (args.output, &filter))?,
        None => print_out(&works, &desired, args.output)?,
    }
    Ok(exit(args.strict, &desired.diagnostics))
}

/// Whether works that are selected may be missing because of a problem.
fn may_hide(found: &Diagnostic, filter: &Filter) -> bool {
    (found.is_error() || is_unknown(found))
        && match &found.scope {
            Scope::Source | Scope::Group(_) => true,
            Scope::Cluster(cluster) => filter.matches_cluster(cluster),
            Scope::Work(key) => filter.matches(key),
        }
}

/// Runs `gitwork validate`.
pub fn validate(args: &ValidateArgs) -> Result<Exit, CommandError> {
    let sources_of = args.source.configured_sources()?;
    let with_errors = |source: ConfiguredSource| source.with_schema_errors(args.strict);
    let configured: Vec<ConfiguredSource> = sources_of.into_iter().map(with_errors).collect();
    let (found, is_complete) = match <[_; 1]>::try_from(configured) {
        Ok([source]) => (read(open(&sources(), source)?, Instant::now())?.diagnostics, true),
        Err(sources) => validate_all(sources),
    };
    let text = match args.output {
        ReportFormat::Text => diagnostics::text(&found, ColorMode::Colored),
        ReportFormat::Json => diagnostics::json(&found),
        ReportFormat::Sarif => json_text(&sarif::sarif(&found)),
    };
    output::print(&text)?;
    Ok(if is_complete { exit(args.strict, &found) } else { Exit::Failed })
}

/// The diagnostics of several sources, and whether all sources could be read. Each message begins
/// with the id of its source. Errors of reading go to stderr.
fn validate_all(configured: Vec<ConfiguredSource>) -> (Vec<Diagnostic>, bool) {
    let (began, sources) = (Instant::now(), sources());
    // Sources of one repository share a fetch if all are open before the first one is read.
    let open = |source: ConfiguredSource| (source.config.id.clone(), open(&sources, source));
    let opened: Vec<(SourceId, Result<Opened, CommandError>)> =
        configured.into_iter().map(open).collect();
    let (mut found, mut is_complete) = (Vec::new(), true);
    for (id, source) in opened {
        match source.and_then(|source| read(source, began)) {
            Ok(desired) => found.extend(desired.diagnostics.into_iter().map(|one| {
                let message = format!("source {id}: {}", one.message);
                Diagnostic { message, ..one }
            })),
            Err(error) => {
                output::error(&format!("source {id}: {}", error.message()));
                is_complete = false;
            }
        }
    }
    (found, is_complete)
}

fn exit(strict: StrictArgs, diagnostics: &[Diagnostic]) -> Exit {
    if strict.fails(diagnostics) { Exit::Failed } else { Exit::Done }
}

fn manifest_work(work: &DesiredWork, desired: &Desired) -> Value {
    work.body.to_manifest_work(&work.key, desired.commit)
}

fn print_out(
    works: &[&DesiredWork],
    desired: &Desired,
    format: RenderFormat,
) -> Result<(), CommandError> {
    if format == RenderFormat::Json {
        let items: Vec<Value> = works.iter().map(|work| manifest_work(work, desired)).collect();
        let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": items });
        return output::json(&list);
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
    (format, filter): (RenderFormat, &Filter),
) -> Result<(), CommandError> {
    let mut rendered = RenderedFolder::open(folder, &desired.source)?;
    for work in works {
        let value = manifest_work(work, desired);
        let (ending, text) = match format {
            RenderFormat::Yaml => ("yaml", yaml::write(&value)),
            RenderFormat::Json => ("json", json_text(&value)),
        };
        rendered.write(&work.key, ending, work.path.as_str(), &text)?;
    }
    // A work that cannot be read is not absent.
    let is_kept =
        |key: &WorkKey, at: &str| !filter.matches(key) || desired.frozen.may_contain(key, Some(at));
    let stale = rendered.finish(is_kept)?;
    for path in &stale.changed {
        output::note(&format!(
            "{} is no longer rendered, but was changed since gitwork wrote it; remove it by hand",
            path.display()
        ));
    }
    for path in &stale.removed {
        output::note(&format!("removed {}, which is no longer rendered", path.display()));
    }
    output::note(&format!("{} ManifestWorks written to {}", works.len(), folder.display()));
    Ok(())
}
