//! `rollout`: how far the rollouts of groups have come.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::completion;
use super::error::{CommandError, did_you_mean};
use super::exit::Exit;
use super::hub::runtime;
use super::output;
use super::rollout_step::{ApproveWaveArgs, RolloutStepArgs, Wish, group};
use super::source_args::{self, HubArgs};
use super::view_args::ViewFormat;
use gitwork_core::model::name::{GroupName, SourceId};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::text::closest;
use gitwork_core::text::style::ColorMode;
use gitwork_core::text::yaml;
use gitwork_hub::fleet::{self, Selection};
use gitwork_hub::retry_transient;
use gitwork_report::status::print_rollouts::{rollouts, selected};
use gitwork_report::status::source_report::ReportedSource;

#[derive(Debug, Args)]
pub struct RolloutArgs {
    #[command(subcommand)]
    command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCommand {
    /// Show the waves of groups, what they wait for, and what ends the wait
    Status(RolloutStatusArgs),
    /// Let the wave begin that waits for an approval
    Approve(ApproveWaveArgs),
    /// Let no further cluster get the content, until `gitwork rollout resume`
    Pause(RolloutStepArgs),
    /// Let a rollout continue that was paused or stopped
    Resume(RolloutStepArgs),
    /// Stop a rollout; clusters that got the content keep it
    Abort(RolloutStepArgs),
    /// Stop a rollout; clusters that got the content get the last good one back
    Return(RolloutStepArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct RolloutStatusArgs {
    /// Group [default: all groups with `rollout`]
    #[arg(value_name = "GROUP", value_parser = group, add = completion::groups())]
    group: Option<GroupName>,
    /// Select groups of this source
    #[arg(
        long,
        value_name = "ID",
        value_parser = source_args::source_id,
        add = completion::sources(),
    )]
    source_id: Option<SourceId>,
    #[command(flatten)]
    hub: HubArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ViewFormat::Table)]
    output: ViewFormat,
    /// Exit with 4 if a rollout goes on only if somebody acts
    #[arg(long)]
    exit_code: bool,
}

const EXAMPLES: &str = "\
Examples:
  gitwork rollout status                       show all rollouts
  gitwork rollout status tills                 show the waves of one group
  gitwork rollout status -o json | jq '.[0].waitsFor'";

/// No selected source has such a rollout.
#[derive(Debug, thiserror::Error)]
#[error("the hub has no report on a rollout of group {group}{near}")]
struct NoRolloutError {
    group: GroupName,
    /// As in `; did you mean "tills"?`.
    near: String,
}

impl OperationError for NoRolloutError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "NoRollout"
    }

    fn hints(&self) -> Vec<String> {
        let hint = "the daemon reports the groups whose group.yaml or gitwork.yaml has `rollout`";
        vec![hint.to_owned()]
    }
}

/// Runs `gitwork rollout`.
pub fn rollout(args: &RolloutArgs) -> Result<Exit, CommandError> {
    match &args.command {
        RolloutCommand::Status(args) => status(args),
        RolloutCommand::Approve(args) => args.approve(),
        RolloutCommand::Pause(args) => args.ask_for(Wish::Pause),
        RolloutCommand::Resume(args) => args.ask_for(Wish::Resume),
        RolloutCommand::Abort(args) => args.ask_for(Wish::Abort),
        RolloutCommand::Return(args) => args.ask_for(Wish::Return),
    }
}

fn status(args: &RolloutStatusArgs) -> Result<Exit, CommandError> {
    let home = args.hub.namespace().to_owned();
    let selection = Selection { source: args.source_id.clone(), cluster: None, home };
    let sources = runtime()?.block_on(async {
        let client = super::hub::connect(&args.hub).await?;
        Ok::<_, CommandError>(retry_transient(|| fleet::reports(&client, &selection)).await?)
    })?;
    let group = args.group.as_ref().map(GroupName::as_str);
    let is_known = selected(&sources, group).next().is_some();
    if let Some(group) = args.group.as_ref().filter(|_| !is_known) {
        let names = selected(&sources, None).map(|(_, rollout)| rollout.group.as_str());
        let near = closest(group.as_str(), names);
        let near = did_you_mean(near.map(|near| format!("{near:?}")));
        return Err(NoRolloutError { group: group.clone(), near }.into());
    }
    match args.output {
        ViewFormat::Json => output::json(&value(&sources, group))?,
        ViewFormat::Yaml => output::print(&yaml::write(&value(&sources, group)))?,
        ViewFormat::Table | ViewFormat::Wide if !is_known => {
            output::note("the hub has no report on a rollout");
        }
        ViewFormat::Table | ViewFormat::Wide => {
            let lines = rollouts(&sources, group, (output::width(), ColorMode::Colored));
            output::print(&(lines.join("\n") + "\n"))?;
        }
    }
    let is_held = selected(&sources, group).any(|(_, rollout)| rollout.held);
    Ok(if args.exit_code && is_held { Exit::Held } else { Exit::Done })
}

/// A list of the rollouts, each with its source.
fn value(sources: &[ReportedSource], group: Option<&str>) -> Value {
    let with_source = |(source, rollout): (&str, &_)| {
        let mut value = json!(rollout);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("source".to_owned(), source.into());
        }
        value
    };
    selected(sources, group).map(with_source).collect()
}
