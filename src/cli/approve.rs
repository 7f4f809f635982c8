//! `approve`: approves one held change.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use jiff::Timestamp;

use super::approval_args::ApprovalArgs;
use super::argument_error::ArgumentError;
use super::compare::{HubPlan, plan_against_hub};
use super::error::CommandError;
use super::exit::Exit;
use super::output;
use gitwork_core::config::Budgets;
use gitwork_core::config::RewindPolicy;
use gitwork_core::config::window::{ChangeWindow, ChangeWindows};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::model::source_origin::SourceOrigin;
use gitwork_core::plan::{Guard, Hold, PlanPolicy};
use gitwork_sync::guards::GuardOptions;

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// Hash of the held change, as the log, the status and `gitwork plan` show it
    #[arg(value_name = "HASH", value_parser = hash)]
    hash: Digest,
    #[command(flatten)]
    approval: ApprovalArgs,
}

fn hash(text: &str) -> Result<Digest, ArgumentError> {
    Digest::parse(text).ok_or(ArgumentError::Hash)
}

/// Guard options that together hold every change that any configuration of the daemon may hold.
fn strictest_options(origin: Option<SourceOrigin>) -> [GuardOptions; 2] {
    let budgets =
        Budgets { works: Some(0), percent: Some(0), cluster: Some(0), ..Budgets::default() };
    let policy = PlanPolicy { budgets, ..PlanPolicy::default() };
    let always = vec![ChangeWindow::default()];
    let windows = ChangeWindows { deny: always, ..ChangeWindows::default() };
    let default = GuardOptions { origin, ..GuardOptions::default() };
    [
        GuardOptions { policy, rewind: RewindPolicy::Hold, ..default.clone() },
        GuardOptions { windows, rewind: RewindPolicy::Follow, ..default },
    ]
}

/// Runs `gitwork approve`.
pub fn approve(args: &ApproveArgs) -> Result<Exit, CommandError> {
    let cancel = Arc::new(AtomicBool::new(false));
    let (print, hub) = (args.approval.print, &args.approval.hub);
    let (configured, now) = (args.approval.configured()?, Timestamp::now());
    let origin = configured.guards.origin.clone();
    let HubPlan { plan, desired, id_from, mut state, .. } =
        plan_against_hub(configured, hub, now, &cancel)?;
    if !print {
        id_from.check_write(&desired.source)?;
    }
    let mut holds: Vec<Hold> = plan.holds(&desired.source);
    for options in strictest_options(origin) {
        state.set_options(options);
        let plan = super::compare::plan_at(&mut state, now);
        holds.extend(plan.holds(&desired.source));
    }
    let Some(hold) = holds.iter().find(|hold| hold.approval.hash() == args.hash) else {
        return Err(hash_not_found(&holds).into());
    };
    if print && hold.guard == Guard::Origin {
        return Err(CommandError::usage(
            "another origin is approved on the hub only; repeat the command without --print",
        ));
    }
    if print {
        output::print(&hold.approval.text())?;
        return Ok(Exit::Done);
    }
    let stored = args.approval.store(&hold.approval, (&desired.source, &state))?;
    output::note(&format!(
        "{} approved: {}; the approval is in the {}",
        stored.who, hold.reason, stored.place
    ));
    Ok(Exit::Done)
}

/// Why no change is approved.
#[derive(Debug, thiserror::Error)]
enum HashNotFoundError {
    /// Nothing waits for an approval.
    #[error("no change is held, or all held changes are already approved")]
    NothingHeld,
    /// No held change has the hash. `held` lists those that there are, one per line.
    #[error("no held change has this hash, so the plan has changed")]
    PlanChanged { held: String },
}

impl OperationError for HashNotFoundError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "HashNotFound"
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::NothingHeld => Vec::new(),
            Self::PlanChanged { held } => {
                vec![format!("run `gitwork plan` and approve one of these:{held}")]
            }
        }
    }
}

/// The error for a hash that no held change has.
fn hash_not_found(holds: &[Hold]) -> HashNotFoundError {
    let mut lines: Vec<String> = Vec::new();
    for hold in holds {
        let (hash, guard) = (hold.approval.hash(), hold.guard.as_str());
        let line = format!("\n  {hash} ({guard}, {} works: {})", hold.works, hold.reason);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    if lines.is_empty() {
        return HashNotFoundError::NothingHeld;
    }
    HashNotFoundError::PlanChanged { held: lines.concat() }
}
