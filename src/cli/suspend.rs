//! `suspend`, `resume` and `reconcile`: what operators say to the daemon, through the hub.

use clap::Args;
use jiff::Timestamp;

use super::source_args::HubArgs;
use super::{Exit, Failure, output, runtime};
use crate::core::diagnostic::Scope;
use crate::core::name::{ClusterName, SourceId, WorkKey, WorkName};
use crate::core::report::harmless;
use crate::hub::directives::{Operator, SayError};
use crate::limits;

#[derive(Debug, Args)]
pub struct SuspendArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Why, for whoever meets it later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// The source's id, as the log and `gitwork status -o wide` tell it
    #[arg(long, value_name = "ID", value_parser = source_id)]
    source_id: SourceId,
    #[command(flatten)]
    hub: HubArgs,
}

#[derive(Debug, Args)]
struct TargetArgs {
    /// A cluster, or one work of it; the whole source where it is left out
    #[arg(value_name = "CLUSTER[/WORK]", value_parser = scope)]
    target: Option<Scope>,
    /// The source's id, as the log and `gitwork status -o wide` tell it
    #[arg(long, value_name = "ID", value_parser = source_id)]
    source_id: SourceId,
    #[command(flatten)]
    hub: HubArgs,
}

fn source_id(text: &str) -> Result<SourceId, String> {
    SourceId::parse(text).map_err(|why| format!("a source id {why}"))
}

fn reason(text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if length > limits::REASON_CHARS_MAX {
        let limit = limits::REASON_CHARS_MAX;
        return Err(format!("it has {length} characters; at most {limit} are kept"));
    }
    Ok(harmless(text))
}

/// Reads `CLUSTER/WORK`.
pub fn work_key(text: &str) -> Result<WorkKey, String> {
    let (cluster, work) = text.split_once('/').ok_or("name it as CLUSTER/WORK")?;
    let cluster = ClusterName::parse(cluster).map_err(|why| format!("the cluster's name {why}"))?;
    let work = WorkName::parse(work).map_err(|why| format!("the work's name {why}"))?;
    Ok(WorkKey { cluster, work })
}

fn scope(text: &str) -> Result<Scope, String> {
    if text.contains('/') {
        return work_key(text).map(Scope::Work);
    }
    let cluster = ClusterName::parse(text).map_err(|why| format!("the cluster's name {why}"))?;
    Ok(Scope::Cluster(cluster))
}

fn told(scope: &Scope, source: &SourceId) -> String {
    match scope {
        Scope::Source => format!("the source {source}"),
        Scope::Cluster(cluster) => format!("the source {source} on the cluster {cluster}"),
        Scope::Work(key) => format!("the work {key} of the source {source}"),
    }
}

/// Has the operator say something on the hub.
fn say<T>(
    hub: &HubArgs,
    source: &SourceId,
    what: impl AsyncFnOnce(Operator<'_>) -> Result<T, SayError>,
) -> Result<T, Failure> {
    runtime()?.block_on(async {
        let client = super::run::client(hub).await?;
        let (namespace, at) = (hub.namespace(), Timestamp::now().to_string());
        what(Operator { client: &client, namespace, source, at }).await.map_err(Failure::new)
    })
}

pub fn suspend(args: &SuspendArgs) -> Result<Exit, Failure> {
    let TargetArgs { target, source_id, hub } = &args.target;
    let scope = target.clone().unwrap_or(Scope::Source);
    let suspend =
        async |operator: Operator<'_>| operator.suspend(&scope, args.reason.clone()).await;
    let who = say(hub, source_id, suspend)?;
    output::note(&format!(
        "{who} suspended {}; what is under way is still finished, and `gitwork resume` ends it",
        told(&scope, source_id)
    ));
    Ok(Exit::Done)
}

pub fn resume(args: &ResumeArgs) -> Result<Exit, Failure> {
    let TargetArgs { target, source_id, hub } = &args.target;
    let scope = target.clone().unwrap_or(Scope::Source);
    let was = say(hub, source_id, async |operator: Operator<'_>| operator.resume(&scope).await)?;
    let told = told(&scope, source_id);
    if !was {
        return Err(Failure::new(format!(
            "{told} is not suspended on the hub; a suspension of its cluster, of the source or in Git ends where it \
             was set"
        )));
    }
    output::note(&format!("{told} goes on"));
    Ok(Exit::Done)
}

pub fn reconcile(args: &ReconcileArgs) -> Result<Exit, Failure> {
    let ask = async |operator: Operator<'_>| operator.reconcile().await;
    let who = say(&args.hub, &args.source_id, ask)?;
    output::note(&format!(
        "{who} asked for a sync of {}; the daemon sees it within {} seconds",
        told(&Scope::Source, &args.source_id),
        limits::DIRECTIVES_POLL.as_secs()
    ));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_cluster_or_a_work() {
        let told = |text: &str| scope(text).map(|scope| format!("{scope:?}"));
        assert!(told("edge-1").unwrap().starts_with("Cluster"));
        assert!(told("edge-1/web.v2").unwrap().starts_with("Work"));
        for bad in ["Edge", "edge-1/", "/web", "edge-1/web/x", ""] {
            assert!(told(bad).is_err(), "{bad}");
        }
        assert!(reason(&"x".repeat(limits::REASON_CHARS_MAX + 1)).is_err());
        assert_eq!(reason("a\u{1b}[31m").unwrap(), "a\\u{1b}[31m");
    }
}
