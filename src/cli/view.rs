//! The views of `status` and `tree`: printed once, or watched.

use super::error::CommandError;
use super::exit::Exit;
use super::hub::runtime;
use super::progress::HubReadProgress;
use super::view_args::{View, ViewArgs, ViewFormat, ViewOptions};
use super::{output, watch};
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::text::yaml;
use gitwork_hub::fleet;
use gitwork_hub::fleet::{Fleet, Selection};
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
        let progress = HubReadProgress::start();
        let so_far = |count| progress.works(count);
        let fleet = retry_transient(|| fleet::fleet_counted(&client, &selection, so_far)).await?;
        drop(progress);
        if let Err(why) = &fleet.unreachable {
            output::note_failure("cannot read which clusters are unreachable", why);
        }
        if let Err(why) = &fleet.reports {
            output::note_failure("cannot read which changes the daemon holds", why);
        }
        if let Some(error) = no_match(args, &options, (&client, &selection), &fleet.works).await {
            return Err(error);
        }
        print(args, &options, &fleet)
    })
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

fn print(args: &ViewArgs, options: &ViewOptions, fleet: &Fleet) -> Result<Exit, CommandError> {
    let (all, reports) = (&fleet.works, fleet.reports.as_deref().unwrap_or_default());
    let works: Vec<&WorkTree> = all.iter().filter(|tree| options.matches(tree)).collect();
    match options.format {
        ViewFormat::Json => output::json(&options.value(&works, reports))?,
        ViewFormat::Yaml => output::print(&yaml::write(&options.value(&works, reports)))?,
        ViewFormat::Table | ViewFormat::Wide if works.is_empty() && reports.is_empty() => {
            output::note("the hub has no ManifestWorks of gitwork that match");
        }
        ViewFormat::Table | ViewFormat::Wide => {
            let lines = options.text(&works, reports, output::width());
            output::print(&(lines.join("\n") + "\n"))?;
        }
    }
    Ok(if args.exit_code && is_held(&works, reports) { Exit::Held } else { Exit::Done })
}
