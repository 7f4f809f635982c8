//! The views of `status` and `tree`: printed once, or watched.

use super::error::{CommandError, did_you_mean};
use super::exit::Exit;
use super::hub::runtime;
use super::view_args::{View, ViewArgs, ViewFormat, ViewOptions};
use super::{output, watch};
use gitwork_core::model::name::ClusterName;
use gitwork_core::report::status::State;
use gitwork_core::report::status::source_report::ReportedSource;
use gitwork_core::report::status::tree::WorkTree;
use gitwork_core::text::closest;
use gitwork_core::text::yaml;
use gitwork_hub::fleet;
use gitwork_hub::fleet::{Fleet, Selection};
use gitwork_hub::retry_transient;

/// Prints the selected works, once or with `--watch`.
pub fn show(args: &ViewArgs, view: View) -> Result<Exit, CommandError> {
    let filter = args.filter.filter()?;
    let options = ViewOptions { view, format: args.output, filter, states: args.state.clone() };
    let home = args.hub.namespace().to_owned();
    let selection = Selection { source: args.source_id.clone(), cluster: one_cluster(args), home };
    runtime()?.block_on(async {
        let client = super::hub::connect(&args.hub).await?;
        if args.watch {
            return watch::follow(&client, &selection, &options).await;
        }
        let fleet = retry_transient(|| fleet::fleet(&client, &selection)).await?;
        if let Err(why) = &fleet.unreachable {
            output::note_failure("cannot read which clusters are unreachable", why);
        }
        if let Err(why) = &fleet.reports {
            output::note_failure("cannot read which changes the daemon holds", why);
        }
        print(args, &options, &fleet)
    })
}

/// The only selected cluster, if there is one: the user may be allowed to read its namespace only.
fn one_cluster(args: &ViewArgs) -> Option<ClusterName> {
    args.filter.cluster.as_deref().and_then(|name| ClusterName::parse(name).ok())
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
            let names = all.iter().map(|tree| tree.work.work.as_str());
            let near = args.filter.work.as_deref().and_then(|work| closest(work, names));
            let hint = did_you_mean(near.map(|near| format!("{near:?}")));
            output::note(&format!("the hub has no ManifestWorks of gitwork that match{hint}"));
        }
        ViewFormat::Table | ViewFormat::Wide => {
            let lines = options.text(&works, reports, output::width());
            output::print(&(lines.join("\n") + "\n"))?;
        }
    }
    Ok(if args.exit_code && is_held(&works, reports) { Exit::Held } else { Exit::Done })
}
