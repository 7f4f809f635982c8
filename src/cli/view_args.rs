//! What `status` and `tree` have in common: which works, in which form, once or for as long as somebody looks.

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::source_args::{Filter, FilterArgs, HubArgs};
use super::{Exit, Failure, output, runtime, watch};
use crate::core::name::{ClusterName, SourceId, WorkKey, WorkName};
use crate::core::report::{Paint, Style, harmless};
use crate::core::schema::closest;
use crate::core::status::print::{self, Layout};
use crate::core::status::told::{Told, ToldSource};
use crate::core::status::tree::WorkTree;
use crate::core::status::{State, aggregate};
use crate::core::yaml;
use crate::hub::fleet::{self, Fleet, FleetError, Selection};

#[derive(Debug, Args)]
pub struct ViewArgs {
    /// Only works of this source
    #[arg(long, value_name = "ID", value_parser = source_id)]
    source_id: Option<SourceId>,
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Only works in one of these states, as in failed,progressing; `unreachable` is one too
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        value_parser = wanted,
        help_heading = "Filters"
    )]
    state: Vec<Wanted>,
    #[command(flatten)]
    hub: HubArgs,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ViewFormat::Table)]
    output: ViewFormat,
    /// Exit with 4 where something is held: it waits for an approval, a signature, a window or a name
    #[arg(long, conflicts_with = "watch")]
    exit_code: bool,
    /// Go on showing what changes, until Ctrl-C: in place on a terminal, else a line for each transition
    #[arg(short = 'w', long)]
    watch: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ViewFormat {
    Table,
    /// The table with all that is known
    Wide,
    Json,
    Yaml,
}

/// What is shown of the works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Works,
    Objects,
}

/// A value of `--state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    State(State),
    Unreachable,
}

fn wanted(text: &str) -> Result<Wanted, String> {
    if text == "unreachable" {
        return Ok(Wanted::Unreachable);
    }
    let found = State::ALL.into_iter().find(|state| state.as_str() == text);
    found.map(Wanted::State).ok_or_else(|| {
        let all: Vec<&str> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("the states are {} and unreachable", all.join(", "))
    })
}

fn source_id(text: &str) -> Result<SourceId, String> {
    SourceId::parse(text).map_err(|why| format!("a source id {why}"))
}

/// What is shown, and how.
#[derive(Debug)]
pub struct Show {
    pub view: View,
    pub format: ViewFormat,
    filter: Filter,
    states: Vec<Wanted>,
}

impl Show {
    pub fn admits(&self, tree: &WorkTree) -> bool {
        self.admits_name(&tree.work.cluster, &tree.work.work)
            && (self.states.is_empty()
                || self.states.iter().any(|wanted| match wanted {
                    Wanted::State(state) => tree.work.state == *state,
                    Wanted::Unreachable => tree.work.unreachable,
                }))
    }

    /// By its name only: what comes into another state is news, whether or not that state is asked for.
    pub fn admits_name(&self, cluster: &str, work: &str) -> bool {
        let key = ClusterName::parse(cluster)
            .and_then(|cluster| Ok(WorkKey { cluster, work: WorkName::parse(work)? }));
        key.is_ok_and(|key| self.filter.admits(&key))
    }

    pub fn admits_state(&self, state: Option<State>, unreachable: bool) -> bool {
        self.states.is_empty()
            || self.states.iter().any(|wanted| match wanted {
                Wanted::State(wanted) => state == Some(*wanted),
                Wanted::Unreachable => unreachable,
            })
    }

    /// The table or tree, under it what waits for somebody, and the line that sums it up.
    pub fn text(
        &self,
        works: &[&WorkTree],
        told: &[ToldSource],
        width: Option<usize>,
    ) -> Vec<String> {
        let layout = Layout {
            wide: self.format == ViewFormat::Wide,
            width,
            // The stream leaves colour out where it does not belong.
            style: Style::Coloured,
            now: Timestamp::now(),
        };
        let mut lines = match self.view {
            View::Works => print::works(works.iter().map(|tree| &tree.work), &layout),
            View::Objects => print::trees(works.iter().copied(), &layout),
        };
        let waiting = told.iter().flat_map(ToldSource::lines);
        lines.extend(waiting.map(|line| layout.style.paint(Paint::Note, harmless(&line))));
        lines.push(aggregate(works.iter().map(|tree| &tree.work)));
        lines
    }

    fn value(&self, works: &[&WorkTree], told: &[ToldSource]) -> Value {
        let summary = aggregate(works.iter().map(|tree| &tree.work));
        let sources: Vec<Value> = told.iter().map(waiting).collect();
        match self.view {
            View::Works => {
                let works: Vec<_> = works.iter().map(|tree| &tree.work).collect();
                json!({ "summary": summary, "works": works, "sources": sources })
            }
            View::Objects => json!({ "summary": summary, "works": works, "sources": sources }),
        }
    }
}

/// Shows the works that the arguments select.
pub fn show(args: &ViewArgs, view: View) -> Result<Exit, Failure> {
    let filter = args.filter.filter()?;
    let show = Show { view, format: args.output, filter, states: args.state.clone() };
    let home = args.hub.namespace().to_owned();
    let selection = Selection { source: args.source_id.clone(), cluster: one_cluster(args), home };
    runtime()?.block_on(async {
        let client = super::run::client(&args.hub).await?;
        if args.watch {
            return watch::follow(&client, &selection, &show).await;
        }
        let fleet = fleet::fleet(&client, &selection).await.map_err(Failure::new)?;
        if let Err(why) = &fleet.unreachable {
            note_reach(why);
        }
        if let Err(why) = &fleet.told {
            output::note(&format!("what the daemon holds is not known: {why}"));
        }
        print(args, &show, &fleet)
    })
}

/// The cluster, where there is just one: its namespace may be all that somebody may read.
fn one_cluster(args: &ViewArgs) -> Option<ClusterName> {
    args.filter.cluster.as_deref().and_then(|name| ClusterName::parse(name).ok())
}

pub fn note_reach(why: &FleetError) {
    output::note(&format!("which clusters are unreachable is not known: {why}"));
}

/// What is told of a source as a whole: its works have the rest.
fn waiting(one: &ToldSource) -> Value {
    let told = Told { works: Vec::new(), ..one.told.clone() };
    json!(ToldSource { told, source: one.source.clone() })
}

/// Whether something waits for somebody, or for a window. What is suspended is left alone on purpose.
fn is_held(works: &[&WorkTree], told: &[ToldSource]) -> bool {
    let waits = |tree: &&WorkTree| tree.work.told && tree.work.state != State::Suspended;
    works.iter().any(waits)
        || told.iter().any(|one| one.told.trouble.is_some() || !one.told.holds.is_empty())
}

fn print(args: &ViewArgs, show: &Show, fleet: &Fleet) -> Result<Exit, Failure> {
    let (all, told) = (&fleet.works, fleet.told.as_deref().unwrap_or_default());
    let works: Vec<&WorkTree> = all.iter().filter(|tree| show.admits(tree)).collect();
    match show.format {
        ViewFormat::Json => output::json(&show.value(&works, told))?,
        ViewFormat::Yaml => output::print(&yaml::write(&show.value(&works, told)))?,
        ViewFormat::Table | ViewFormat::Wide if works.is_empty() && told.is_empty() => {
            let names = all.iter().map(|tree| tree.work.work.as_str());
            let near = args.filter.work.as_deref().and_then(|work| closest(work, names));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            output::note(&format!("the hub has no ManifestWorks of gitwork that match{hint}"));
        }
        ViewFormat::Table | ViewFormat::Wide => {
            let lines = show.text(&works, told, output::width());
            output::print(&(lines.join("\n") + "\n"))?;
        }
    }
    Ok(if args.exit_code && is_held(&works, told) { Exit::Held } else { Exit::Done })
}
