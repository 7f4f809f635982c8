//! `approve`: lets through one thing that is held, and no other.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use jiff::Timestamp;

use super::compare::{HubPlan, plan_against_hub};
use super::read_args::ReadArgs;
use super::signer_args::SignerArgs;
use super::source_args::HubArgs;
use super::{Exit, Failure, output, runtime};
use crate::core::config::Budgets;
use crate::core::digest::Digest;
use crate::core::plan::{Hold, Policy};
use crate::core::rewind::RewindPolicy;
use crate::core::window::{ChangeWindow, ChangeWindows};
use crate::daemon::guards::GuardOptions;
use crate::hub::directives::{Operator, object_name};

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// The hash of what is held, as the log, the status and `gitwork plan` tell it
    #[arg(value_name = "HASH", value_parser = hash)]
    hash: Digest,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Print the approval instead of storing it on the hub, to be committed as approvals/HASH
    #[arg(long)]
    print: bool,
}

fn hash(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| "a hash has 64 hexadecimal digits".into())
}

/// Whatever the daemon is told to hold: with one of these it is held.
fn strictest() -> [GuardOptions; 2] {
    let budgets = Budgets { works: Some(0), percent: Some(0), cluster: Some(0) };
    let policy = Policy { budgets, ..Policy::default() };
    let always = vec![ChangeWindow::default()];
    let windows = ChangeWindows { deny: always, ..ChangeWindows::default() };
    [
        GuardOptions { policy, rewind: RewindPolicy::Hold, ..GuardOptions::default() },
        GuardOptions { windows, rewind: RewindPolicy::Follow, ..GuardOptions::default() },
    ]
}

pub fn approve(args: &ApproveArgs) -> Result<Exit, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let (operated, now) = (args.source.signed_by(&args.signers)?, Timestamp::now());
    let HubPlan { plan, desired, mut state, .. } =
        plan_against_hub(operated, &args.hub, now, &cancel)?;
    let mut holds: Vec<Hold> = plan.holds(&desired.source);
    for options in strictest() {
        state.set_options(options);
        let plan = super::compare::plan_at(&mut state, now);
        holds.extend(plan.holds(&desired.source));
    }
    let Some(hold) = holds.iter().find(|hold| hold.approval.hash() == args.hash) else {
        return Err(Failure::new(nothing_like_it(&holds)));
    };
    let text = hold.approval.text();
    if args.print {
        output::print(&text)?;
        return Ok(Exit::Done);
    }
    let is_there = |uid: &str| state.is_on_hub(uid);
    let namespace = args.hub.namespace();
    let source = &desired.source;
    let who = runtime()?.block_on(async {
        let client = super::run::client(&args.hub).await?;
        let at = Timestamp::now().to_string();
        let operator = Operator { client: &client, namespace, source, at };
        operator.approve(&hold.approval, is_there).await.map_err(Failure::new)
    })?;
    output::print(&text)?;
    output::note(&format!(
        "{who} approved: {}; it is in the ConfigMap {namespace}/{}",
        hold.reason,
        object_name(source)
    ));
    Ok(Exit::Done)
}

/// What there is to approve instead.
fn nothing_like_it(holds: &[Hold]) -> String {
    let mut told: Vec<String> = Vec::new();
    for hold in holds {
        let (hash, guard) = (hold.approval.hash(), hold.guard.as_str());
        let line = format!("\n  {hash} ({guard}, {} works: {})", hold.works, hold.reason);
        if !told.contains(&line) {
            told.push(line);
        }
    }
    if told.is_empty() {
        return "nothing is held that is not approved already".into();
    }
    format!(
        "the plan has changed, and nothing that it holds has this hash; look at it with `gitwork plan`, and approve what \
         is meant:{}",
        told.concat()
    )
}
