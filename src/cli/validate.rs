//! `validate`: every problem of a repository, without any cluster.

use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};

use super::error::CommandError;
use super::exit::Exit;
use super::fixes;
use super::no_match::no_match;
use super::output;
use super::read_args::{ConfiguredSource, ReadArgs, StrictArgs};
use super::render::{Opened, located, open, read};
use super::source_args::{Filter, FilterArgs};
use super::sources::sources;
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::name::SourceId;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::fixes::FixedFiles;
use gitwork_core::text::diagnostics;
use gitwork_core::text::escape::json_text;
use gitwork_core::text::sarif;
use gitwork_core::text::style::ColorMode;
use gitwork_source::{SourceLocation, Sources};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ValidateArgs {
    #[command(flatten)]
    strict: StrictArgs,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// Report only problems of what changed since this revision: problems that are new, and all
    /// problems of files that changed
    #[arg(long, value_name = "REVISION", help_heading = "Filters")]
    changed_since: Option<String>,
    /// Print at most this many problems, errors first; a last line counts the others. Copies of one
    /// mistake on several clusters count as one, except in JSON and SARIF
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max: Option<u32>,
    /// Correct what has one certain correction, in the files of the folder: quote values, rename
    /// fields and files, add fields. Then report what is left
    #[arg(long, conflicts_with = "changed_since")]
    fix: bool,
    /// With --fix: print what would change, and change nothing
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ReportFormat::Text)]
    output: ReportFormat,
}

const EXAMPLES: &str = "\
Examples:
  gitwork validate                                the repository in this folder
  gitwork validate --changed-since origin/main    only what this branch changed
  gitwork validate --cluster 'edge-*' --max 20    the worst problems of some clusters
  gitwork validate --fix --dry-run                what can be corrected without a decision
  gitwork validate --fix                          correct it
  gitwork validate -o sarif > gitwork.sarif       for code scanning";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Text,
    Json,
    /// SARIF, for code scanning: a forge shows the problems at the lines of a pull request
    Sarif,
}

/// Runs `gitwork validate`.
pub fn validate(args: &ValidateArgs) -> Result<Exit, CommandError> {
    let filter = args.filter.filter()?;
    let sources_of = args.source.configured_sources()?;
    let with_errors = |source: ConfiguredSource| source.with_schema_errors(args.strict);
    let configured: Vec<ConfiguredSource> = sources_of.into_iter().map(with_errors).collect();
    if args.fix {
        return fix(args, &filter, configured);
    }
    let (states, is_complete) = match <[_; 1]>::try_from(configured) {
        Ok([source]) => {
            let mut opened = open_to_check(&sources(), source, &filter)?;
            let desired = read(&mut opened, Instant::now(), args.changed_since.as_deref())?;
            (vec![located(opened, desired)], true)
        }
        Err(sources) => read_all(sources, args.changed_since.as_deref(), &filter),
    };
    let all: Vec<&Desired> = states.iter().collect();
    if is_complete && let Some(error) = no_match(&args.filter, &filter, &all, &[]) {
        return Err(error);
    }
    let mut found: Vec<Diagnostic> = states.into_iter().flat_map(|one| one.diagnostics).collect();
    found.retain(|one| filter.concerns(&one.scope));
    output::print(&text(args, &found))?;
    Ok(if is_complete && !args.strict.fails(&found) { Exit::Done } else { Exit::Failed })
}

/// Opens a source whose works are checked and not shown.
fn open_to_check(
    sources: &Sources,
    configured: ConfiguredSource,
    filter: &Filter,
) -> Result<Opened, CommandError> {
    let (source, status_branch) = open(sources, configured)?;
    Ok((filter.select_clusters(source).without_texts(), status_branch))
}

/// Corrects the files of a folder, and reports what is left.
fn fix(
    args: &ValidateArgs,
    filter: &Filter,
    configured: Vec<ConfiguredSource>,
) -> Result<Exit, CommandError> {
    let Ok([configured]) = <[_; 1]>::try_from(configured) else {
        let message = "--fix is for one source; name one with --source-id, or a folder with --repo";
        return Err(CommandError::usage(message));
    };
    let SourceLocation::Directory(folder) = &configured.config.repository else {
        let message = "--fix needs a folder on disk, without --branch, --tag, --semver or --commit";
        return Err(CommandError::usage(message));
    };
    let path = configured.config.path.clone();
    let folder = folder.join(path.as_str());
    let mut opened = open_to_check(&sources(), configured, filter)?;
    let before = read(&mut opened, Instant::now(), None)?;
    if let Some(error) = no_match(&args.filter, filter, &[&before], &[]) {
        return Err(error);
    }
    let is_selected = |found: &Diagnostic| filter.concerns(&found.scope);
    let fixed = opened.0.snapshots().fixed(is_selected)?;
    let (files, after) = fixed.unwrap_or_else(|| (FixedFiles::new(), (*before).clone()));
    fixes::report(&files, &path, args.dry_run);
    let desired = if args.dry_run {
        output::print(&fixes::diffs(&files, &path))?;
        before
    } else {
        fixes::write(&folder, &files)?;
        Arc::new(after)
    };
    let mut found = located(opened, desired).diagnostics;
    found.retain(|one| filter.concerns(&one.scope));
    if !args.dry_run {
        output::print(&text(args, &found))?;
    }
    Ok(if args.strict.fails(&found) { Exit::Failed } else { Exit::Done })
}

fn text(args: &ValidateArgs, found: &[Diagnostic]) -> String {
    let max = args.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    match (args.output, args.max) {
        (ReportFormat::Json, _) => diagnostics::json(found, max),
        (ReportFormat::Sarif, _) => json_text(&sarif::sarif(found, max)),
        (ReportFormat::Text, None) => diagnostics::text(found, ColorMode::Colored),
        (ReportFormat::Text, Some(_)) => {
            let see_all = "see all without --max";
            diagnostics::bounded_text(found, (max, see_all), ColorMode::Colored)
        }
    }
}

/// What several sources want, and whether all of them could be read. Each message begins with the
/// id of its source. Errors of reading go to stderr.
fn read_all(
    configured: Vec<ConfiguredSource>,
    changed_since: Option<&str>,
    filter: &Filter,
) -> (Vec<Desired>, bool) {
    let (began, sources) = (Instant::now(), sources());
    // Sources of one repository share a fetch if all are open before the first one is read.
    let open = |source: ConfiguredSource| {
        (source.config.id.clone(), open_to_check(&sources, source, filter))
    };
    let all: Vec<(SourceId, Result<Opened, CommandError>)> =
        configured.into_iter().map(open).collect();
    let (mut states, mut is_complete) = (Vec::new(), true);
    for (id, opened) in all {
        let desired = opened.and_then(|mut opened| {
            let desired = read(&mut opened, began, changed_since)?;
            Ok(located(opened, desired))
        });
        match desired {
            Ok(mut desired) => {
                for one in &mut desired.diagnostics {
                    one.message = format!("source {id}: {}", one.message);
                }
                states.push(desired);
            }
            Err(error) => {
                output::error(&format!("source {id}: {}", error.message()));
                is_complete = false;
            }
        }
    }
    (states, is_complete)
}
