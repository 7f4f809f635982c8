//! The common part of `status` and `tree`: selection, output format, and `--watch`.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::argument_error::ArgumentError;
use super::completion;
use super::source_args::{self, Filter, FilterArgs, HubArgs};
use gitwork_core::model::name::{ClusterName, SourceId, WorkKey, WorkName};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::style::{ColorMode, TextStyle};
use gitwork_core::text::table::Table;
use gitwork_report::outputs::WorksOutput;
use gitwork_report::status::print;
use gitwork_report::status::print::Layout;
use gitwork_report::status::source_report::{ReportedSource, SourceReport};
use gitwork_report::status::tree::WorkTree;
use gitwork_report::status::{State, WorkStatus, aggregate};

#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Select works of this source
    #[arg(
        long,
        value_name = "ID",
        value_parser = source_args::source_id,
        add = completion::sources(),
    )]
    pub(super) source_id: Option<SourceId>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Select works by state, as in failed,progressing (`unreachable` is allowed too)
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        value_parser = state_filter,
        help_heading = "Filters"
    )]
    pub(super) state: Vec<StateFilter>,
    #[command(flatten)]
    pub(super) hub: HubArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ViewFormat::Table)]
    pub(super) output: ViewFormat,
    /// Exit with 4 if changes are held: for an approval, a signature, a window or a taken name
    #[arg(long, conflicts_with = "watch")]
    pub(super) exit_code: bool,
    /// Watch for changes until Ctrl-C: in place on a terminal, else one line for each transition
    #[arg(short = 'w', long)]
    pub(super) watch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViewFormat {
    /// A table
    Table,
    /// A table with all details
    Wide,
    Json,
    Yaml,
}

/// What the view shows of the works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Works,
    Objects,
}

/// A value of `--state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateFilter {
    State(State),
    Unreachable,
}

fn state_filter(text: &str) -> Result<StateFilter, ArgumentError> {
    if text == "unreachable" {
        return Ok(StateFilter::Unreachable);
    }
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.map(StateFilter::State).ok_or_else(|| {
        let all: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        ArgumentError::State(all.join(", "))
    })
}

/// The selection and the output format of a view.
#[derive(Debug)]
pub struct ViewOptions {
    pub view: View,
    pub format: ViewFormat,
    pub(super) filter: Filter,
    pub(super) states: Vec<StateFilter>,
}

impl ViewOptions {
    /// All works, as a table.
    #[cfg(test)]
    pub(super) fn table_of_all() -> Self {
        let filter = FilterArgs::default().filter().unwrap();
        Self { view: View::Works, format: ViewFormat::Table, filter, states: Vec::new() }
    }

    /// Whether a work is selected.
    pub fn matches(&self, tree: &WorkTree) -> bool {
        self.matches_name(&tree.work.cluster, &tree.work.work)
            && (self.states.is_empty()
                || self.states.iter().any(|wanted| match wanted {
                    StateFilter::State(state) => tree.work.state == *state,
                    StateFilter::Unreachable => tree.work.unreachable,
                }))
    }

    /// Whether a work is selected by its name, in any state.
    pub fn matches_name(&self, cluster: &str, work: &str) -> bool {
        let key = ClusterName::parse_place(cluster)
            .and_then(|cluster| Ok(WorkKey { cluster, work: WorkName::parse(work)? }));
        key.is_ok_and(|key| self.filter.matches(&key))
    }

    /// Whether a state is selected.
    pub fn matches_state(&self, state: Option<State>, unreachable: bool) -> bool {
        self.states.is_empty()
            || self.states.iter().any(|wanted| match wanted {
                StateFilter::State(wanted) => state == Some(*wanted),
                StateFilter::Unreachable => unreachable,
            })
    }

    /// Whether works are printed as a table or a tree.
    pub fn is_text(&self) -> bool {
        matches!(self.format, ViewFormat::Table | ViewFormat::Wide)
    }

    /// A table with a header for this view.
    pub fn table(&self) -> Table {
        match self.view {
            View::Works => print::work_table(self.is_wide()),
            View::Objects => print::tree_table(),
        }
    }

    fn is_wide(&self) -> bool {
        self.format == ViewFormat::Wide
    }

    /// Adds works to the table of this view, and takes its lines.
    pub fn lines(
        &self,
        table: &mut Table,
        works: &[&WorkTree],
        width: Option<usize>,
    ) -> Vec<String> {
        // The stream removes colour if it is not wanted.
        let style = ColorMode::Colored;
        let layout = Layout { wide: self.is_wide(), width, style, now: Timestamp::now() };
        match self.view {
            View::Works => print::add_works(table, works.iter().map(|tree| &tree.work), &layout),
            View::Objects => print::add_trees(table, works.iter().copied(), &layout),
        }
        table.take_lines(width, style)
    }

    /// The lines about held changes, then the summary.
    pub fn end(&self, works: &[&WorkTree], reports: &[ReportedSource]) -> Vec<String> {
        let note =
            |line: String| ColorMode::Colored.styled(TextStyle::Note, escape_untrusted(&line));
        let waiting = reports.iter().flat_map(ReportedSource::lines);
        let mut lines: Vec<String> = waiting.map(note).collect();
        lines.push(aggregate(works.iter().map(|tree| &tree.work)));
        lines
    }

    /// The table or tree, then the lines about held changes, then the summary.
    pub fn text(
        &self,
        works: &[&WorkTree],
        reports: &[ReportedSource],
        width: Option<usize>,
    ) -> Vec<String> {
        let mut lines = self.lines(&mut self.table(), works, width);
        lines.extend(self.end(works, reports));
        lines
    }

    /// The works and the reports of their sources, for JSON and YAML.
    pub(super) fn value(&self, works: &[&WorkTree], reports: &[ReportedSource]) -> Value {
        let summary = aggregate(works.iter().map(|tree| &tree.work));
        let sources = reports.iter().map(without_works).collect();
        match self.view {
            View::Works => {
                let works: Vec<&WorkStatus> = works.iter().map(|tree| &tree.work).collect();
                json!(WorksOutput { summary, works, sources })
            }
            View::Objects => json!(WorksOutput { summary, works: works.to_vec(), sources }),
        }
    }
}

/// The report of a source without its works, which are shown separately.
fn without_works(one: &ReportedSource) -> ReportedSource {
    let report = SourceReport { works: Vec::new(), ..one.report.clone() };
    ReportedSource { report, source: one.source.clone() }
}
