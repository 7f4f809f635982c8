//! The views of `status` and `tree`: printed once, as the hub lists the works, or watched.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use super::error::CommandError;
use super::exit::Exit;
use super::hub::runtime;
use super::printer::Printer;
use super::progress::HubReadProgress;
use super::view_args::{View, ViewArgs, ViewFormat, ViewOptions};
use super::{output, watch};
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::text::table::Table;
use gitwork_core::text::yaml;
use gitwork_hub::fleet;
use gitwork_hub::fleet::{Fleet, FleetError, FleetList, Selection};
use gitwork_hub::retry_transient;
use gitwork_report::status::State;
use gitwork_report::status::source_report::ReportedSource;
use gitwork_report::status::tree::WorkTree;
use kube::Client;

/// Prints the selected works, once or with `--watch`.
pub fn show(args: &ViewArgs, view: View) -> Result<Exit, CommandError> {
    let filter = args.filter.filter()?;
    let options = ViewOptions { view, format: args.output, filter, states: args.state.clone() };
    let home = args.hub.namespace().to_owned();
    let selection =
        Selection { source: args.source_id.clone(), cluster: args.filter.one_cluster(), home };
    runtime()?.block_on(async {
        let client = super::hub::connect(&args.hub).await?;
        if args.watch {
            return watch::follow(&client, &selection, &options).await;
        }
        let mut shown = ShownWorks::new(&options);
        let read = read(&client, &selection, &mut shown, args.exit_code).await;
        let is_read = shown.printer.end()?;
        shown.progress.remove();
        if !is_read && !args.exit_code {
            return Ok(Exit::Done);
        }
        let Some(fleet) = read? else { return Ok(Exit::Done) };
        if let Err(why) = &fleet.unreachable {
            output::note_failure("cannot read which clusters are unreachable", why);
        }
        if let Err(why) = &fleet.reports {
            output::note_failure("cannot read which changes the daemon holds", why);
        }
        if let Some(error) = no_match(args, &options, (&client, &selection), &fleet.works).await {
            return Err(error);
        }
        print(args, shown, &fleet)
    })
}

/// The works of a table that are printed while the list comes.
struct ShownWorks<'a> {
    options: &'a ViewOptions,
    table: Table,
    progress: Arc<HubReadProgress>,
    printer: Printer,
    /// The printed works, by cluster, name and source: two sources can want works of one name.
    printed: HashSet<(String, String, Option<String>)>,
}

impl<'a> ShownWorks<'a> {
    fn new(options: &'a ViewOptions) -> Self {
        let progress = Arc::new(HubReadProgress::start());
        let printer = Printer::start(Arc::clone(&progress), output::write);
        Self { options, table: options.table(), progress, printer, printed: HashSet::new() }
    }

    /// Prints the works that are selected and new. Returns `false` if nothing can be printed any
    /// more.
    fn print(&mut self, works: &[WorkTree]) -> bool {
        if !self.options.is_text() {
            return true;
        }
        let works = self.new_works(works.iter().filter(|tree| self.options.matches(tree)));
        if works.is_empty() {
            return true;
        }
        let lines = self.lines(&works);
        self.printer.print(lines.join("\n") + "\n")
    }

    fn new_works<'b>(&mut self, works: impl Iterator<Item = &'b WorkTree>) -> Vec<&'b WorkTree> {
        let key = |WorkTree { work, .. }: &WorkTree| {
            (work.cluster.clone(), work.work.clone(), work.source.clone())
        };
        works.filter(|tree| self.printed.insert(key(tree))).collect()
    }

    /// The lines of these works. The first lines have the header.
    fn lines(&mut self, works: &[&WorkTree]) -> Vec<String> {
        self.options.lines(&mut self.table, works, output::width())
    }
}

/// Reads the hub, and shows the works as they come. `None` if they cannot be shown any more, and
/// the end is not asked for.
async fn read(
    client: &Client,
    selection: &Selection,
    shown: &mut ShownWorks<'_>,
    to_end: bool,
) -> Result<Option<Fleet>, FleetError> {
    let shown = RefCell::new(shown);
    let read = || async {
        let mut list = FleetList::start(client, selection).await?;
        while let Some(works) = list.next().await? {
            if !shown.borrow_mut().print(works) && !to_end {
                return Ok(None);
            }
            shown.borrow().progress.works(list.count());
        }
        Ok(Some(list.end()))
    };
    retry_transient(read).await
}

/// The error that `--cluster` and `--work` select none of these works, in any state.
async fn no_match(
    args: &ViewArgs,
    options: &ViewOptions,
    (client, selection): (&Client, &Selection),
    works: &[WorkTree],
) -> Option<CommandError> {
    let filter = &options.filter;
    let mut keys: Vec<WorkKey> = works.iter().filter_map(key_of).collect();
    if keys.iter().any(|key| filter.matches(key)) {
        return None;
    }
    if keys.is_empty() && selection.cluster.is_some() {
        // Only one cluster was read. The others have the names that may have been meant.
        let all = Selection { cluster: None, ..selection.clone() };
        let all = fleet::fleet(client, &all).await.ok();
        keys = all.iter().flat_map(|all| &all.works).filter_map(key_of).collect();
    }
    args.filter.no_match(filter, || keys.iter())
}

/// The name of a work; `None` if it is none that Git can have.
pub(super) fn key_of(tree: &WorkTree) -> Option<WorkKey> {
    let cluster = ClusterName::parse_place(&tree.work.cluster).ok()?;
    Some(WorkKey { cluster, work: WorkName::parse(&tree.work.work).ok()? })
}

/// Whether a change waits for a person or for a window. Suspended works are left alone on purpose,
/// and works are pending while objects move between them.
fn is_held(works: &[&WorkTree], reports: &[ReportedSource]) -> bool {
    let waits = |tree: &&WorkTree| {
        tree.work.reported && !matches!(tree.work.state, State::Suspended | State::Pending)
    };
    works.iter().any(waits)
        || reports
            .iter()
            .any(|report| report.report.error.is_some() || !report.report.holds.is_empty())
}

fn print(args: &ViewArgs, mut shown: ShownWorks<'_>, fleet: &Fleet) -> Result<Exit, CommandError> {
    let (options, all) = (shown.options, &fleet.works);
    let reports = fleet.reports.as_deref().unwrap_or_default();
    let works: Vec<&WorkTree> = all.iter().filter(|tree| options.matches(tree)).collect();
    match options.format {
        ViewFormat::Json => output::json(&options.value(&works, reports))?,
        ViewFormat::Yaml => output::print(&yaml::write(&options.value(&works, reports)))?,
        ViewFormat::Table | ViewFormat::Wide if works.is_empty() && reports.is_empty() => {
            output::note("the hub has no ManifestWorks of gitwork that match");
        }
        ViewFormat::Table | ViewFormat::Wide => {
            let rest = shown.new_works(works.iter().copied());
            let mut lines = shown.lines(&rest);
            lines.extend(options.end(&works, reports));
            output::print(&(lines.join("\n") + "\n"))?;
        }
    }
    Ok(if args.exit_code && is_held(&works, reports) { Exit::Held } else { Exit::Done })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_work_is_printed_once_below_one_header() {
        let options = ViewOptions::table_of_all();
        let work = |name: &str, source: &str| {
            let labels = json!({ "gitwork.dev/source": source });
            let metadata = json!({ "namespace": "edge-7", "name": name, "labels": labels });
            WorkTree::of(&json!({ "metadata": metadata }), |_| false)
        };
        let mut shown = ShownWorks::new(&options);
        let mut lines = |works: &[WorkTree]| {
            let new = shown.new_works(works.iter());
            shown
                .lines(&new)
                .iter()
                .map(|line| anstream::adapter::strip_str(line).to_string())
                .collect::<Vec<_>>()
        };
        let first = lines(&[work("web", "fleet")]);
        assert!(first.len() == 2 && first[0].starts_with("CLUSTER"), "{first:?}");
        // The list begins again, and another source wants a work of this name.
        let all = [work("web", "fleet"), work("web", "other"), work("db", "fleet")];
        let rest = lines(&all);
        assert!(rest.len() == 2 && rest.iter().all(|line| line.starts_with("edge-7 ")), "{rest:?}");
        assert!(lines(&all).is_empty());
    }
}
