//! `approve`: lets the held deletions of one plan through, and no other.

use clap::Args;
use jiff::Timestamp;

use super::compare::{HubPlan, plan_against_hub};
use super::source_args::{HubArgs, SourceArgs};
use super::{Exit, Failure, output, runtime};
use crate::core::budget;
use crate::core::config::Budgets;
use crate::core::digest::Digest;
use crate::core::plan::Policy;
use crate::hub::approvals;

#[derive(Debug, Args)]
pub struct ApproveArgs {
    /// The plan's hash, as the log and `gitwork plan` tell it
    #[arg(value_name = "HASH", value_parser = hash)]
    hash: Digest,
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Print the approval instead of storing it on the hub, to be committed as approvals/HASH
    #[arg(long)]
    print: bool,
}

fn hash(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| "a plan's hash has 64 hexadecimal digits".into())
}

pub fn approve(args: &ApproveArgs) -> Result<Exit, Failure> {
    // Whatever budget the daemon has: with this one every deletion that is not approved is held.
    let budgets = Budgets { works: Some(0), percent: Some(0), cluster: Some(0) };
    let policy = Policy { budgets, ..Policy::default() };
    let HubPlan { plan, desired, observed } = plan_against_hub(&args.source, &args.hub, policy)?;
    let Some(held) = plan.held() else {
        return Err(Failure::new("the plan deletes nothing that is not approved already"));
    };
    if held.hash != args.hash {
        return Err(Failure::new(format!(
            "the plan has changed: it would delete {} works now, and its hash is {}; look at it with `gitwork plan`, \
             and approve that one if it is meant",
            held.works.len(),
            held.hash
        )));
    }
    let listing = budget::listing(&held.works);
    if args.print {
        output::print(&listing)?;
        return Ok(Exit::Done);
    }
    let is_there = |uid: &str| observed.works.values().any(|work| work.uid == uid);
    let at = Timestamp::now().to_string();
    let namespace = args.hub.namespace();
    let (source, works) = (&desired.source, &held.works);
    let who = runtime()?.block_on(async {
        let client = super::run::client(&args.hub).await?;
        let stored = approvals::approve(&client, namespace, source, works, &at, is_there);
        stored.await.map_err(Failure::new)
    })?;
    output::print(&listing)?;
    output::note(&format!(
        "{who} approved of {} deletions; they are in the ConfigMap {namespace}/{}",
        held.works.len(),
        approvals::config_map_name(&desired.source)
    ));
    Ok(Exit::Done)
}
