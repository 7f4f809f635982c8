//! `render`: the ManifestWorks of a repository, without any cluster.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::compare::render_base;
use super::error::CommandError;
use super::exit::Exit;
use super::no_match::no_match;
use super::output;
use super::published_facts::add_fetched_facts;
use super::read_args::{ConfiguredSource, ReadArgs, StrictArgs};
use super::rendered_folder::RenderedFolder;
use super::source_args::{Filter, FilterArgs};
use super::sources::sources;
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DesiredWork;
use gitwork_core::render::desired::Desired;
use gitwork_core::text::escape::json_text;
use gitwork_core::text::style::count;
use gitwork_core::text::yaml;
use gitwork_report::review;
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

/// A source to read, and its status branch.
pub(super) type Opened = (Source, String);

/// Opens a source to read it once.
pub(super) fn open(
    sources: &Sources,
    configured: ConfiguredSource,
) -> Result<Opened, CommandError> {
    let ConfiguredSource { config, status_branch, threads, .. } = configured;
    if std::io::stderr().is_terminal() && matches!(config.repository, SourceLocation::Git { .. }) {
        output::note("fetching …");
    }
    Ok((sources.open(config)?.with_threads(threads), status_branch))
}

/// Reads a source once. A fetch for another source counts too if it began after `began`.
/// `changed_since`: leaves out diagnostics of what did not change since this revision.
pub(super) fn read(
    (source, status_branch): &mut Opened,
    began: Instant,
    changed_since: Option<&str>,
) -> Result<Arc<Desired>, CommandError> {
    let cancel = Arc::new(AtomicBool::new(false));
    let mut read = source.read_within(began.elapsed(), &cancel)?;
    if add_fetched_facts(source, &read.desired, status_branch, &cancel) {
        read = source.read_within(began.elapsed(), &cancel)?;
    }
    let Some(revision) = changed_since else { return Ok(read.desired) };
    let base = source.snapshots().resolve(revision, &cancel)?;
    let found = &read.desired.diagnostics;
    let places = found.iter().flat_map(|one| {
        one.related.iter().map(|(at, _)| at).chain([&one.location]).map(|at| at.file.clone())
    });
    let changed = source.snapshots().changed_since(&read, base, places.collect())?;
    let base = render_base(source, base)?;
    let diagnostics =
        review::problems_of_changes(&base, &read.desired, |file| changed.contains(file));
    Ok(Arc::new(Desired { diagnostics, ..(*read.desired).clone() }))
}

/// A state that was read, with locations relative to the repository's root.
pub(super) fn located((source, _): Opened, desired: Arc<Desired>) -> Desired {
    let path = source.config().path.clone();
    // The source shared it; after the drop nothing has to be copied.
    drop(source);
    let mut desired = Arc::unwrap_or_clone(desired);
    desired.locate_from_root(&path);
    desired
}

/// Runs `gitwork render`.
pub fn render(args: &RenderArgs) -> Result<Exit, CommandError> {
    let filter = args.filter.filter()?;
    let source = args.source.configured_source()?.with_published_facts();
    let (source, status_branch) = open(&sources(), source)?;
    let mut opened = (filter.select_clusters(source), status_branch);
    let desired = read(&mut opened, Instant::now(), None)?;
    let mut desired = located(opened, desired);
    desired.diagnostics.retain(|one| filter.concerns(&one.scope));
    output::diagnostics(&desired.diagnostics);
    let works = desired.works.values().filter(|work| filter.matches(&work.key));
    let works: Vec<&DesiredWork> = works.map(|work| &**work).collect();
    if let Some(error) = no_match(&args.filter, &filter, &[&desired], &[]) {
        return Err(error);
    }
    match &args.out {
        Some(folder) => write_out(folder, &works, &desired, (args.output, &filter))?,
        None => print_out(&works, &desired, args.output)?,
    }
    Ok(exit(args.strict, &desired.diagnostics))
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
        let values = works.iter().map(|work| manifest_work(work, desired));
        return print_list(values);
    }
    for work in works {
        let text = format!("---\n{}", yaml::write(&manifest_work(work, desired)));
        // The reader may have closed the pipe.
        if !output::write(&text)? {
            break;
        }
    }
    Ok(())
}

/// Writes a List as indented JSON, one item after the other: all of them may take much memory.
fn print_list(items: impl Iterator<Item = Value>) -> Result<(), CommandError> {
    let mut before = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n";
    for item in items {
        if !output::write(&format!("{before}{}", indented(&json_text(&item))))? {
            return Ok(());
        }
        before = ",\n";
    }
    let is_empty = before != ",\n";
    let end = if is_empty { format!("{}]", before.trim_end()) } else { "\n  ]".to_owned() };
    output::print(&format!("{end},\n  \"kind\": \"List\"\n}}\n"))
}

/// The lines of an item, without the last line break. Texts in JSON have no line breaks.
fn indented(item: &str) -> String {
    let mut text = String::with_capacity(item.len() + item.len() / 4);
    for line in item.lines() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str("    ");
        text.push_str(line);
    }
    text
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
    let works = count(works.len(), "ManifestWork");
    output::note(&format!("{works} written to {}", folder.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn item_of_a_list_is_printed_as_in_the_whole_list() {
        let items = [json!({"a": ["x\n\u{2028}y\u{1b}", {}], "b": {"c": []}}), json!(1)];
        let lines: Vec<String> = items.iter().map(|item| indented(&json_text(item))).collect();
        let whole = json_text(&json!({ "items": items }));
        assert_eq!(whole, format!("{{\n  \"items\": [\n{}\n  ]\n}}\n", lines.join(",\n")));
    }
}
