//! `suspend`, `resume` and `reconcile`: an operator's directives to the daemon, through the hub.

use clap::Args;
use jiff::Timestamp;

use super::argument_error::ArgumentError;
use super::completion;
use super::error::CommandError;
use super::exit::Exit;
use super::hub::runtime;
use super::output;
use super::source_args::{self, FilterArgs, HubArgs};
use super::view::key_of;
use crate::limits;
use gitwork_core::model::name::{ClusterName, SourceId, WorkKey, WorkName};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::plan::directives::{SuspensionTarget, Suspensions};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_hub::directives::{DirectiveError, Operator};
use gitwork_hub::fleet::Selection;
use gitwork_hub::{facts, fleet, retry_transient};

#[derive(Debug, Args)]
pub struct SuspendArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Allow a cluster or work that the hub does not have yet
    #[arg(long)]
    new: bool,
    /// Reason, shown to other operators
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
    /// Id of the source, as the log and `gitwork status -o wide` show it
    #[arg(
        long,
        value_name = "ID",
        value_parser = source_args::source_id,
        add = completion::sources(),
    )]
    source_id: SourceId,
    #[command(flatten)]
    hub: HubArgs,
}

#[derive(Debug, Args)]
struct TargetArgs {
    /// Cluster, or one of its works [default: the whole source]
    #[arg(value_name = "CLUSTER[/WORK]", value_parser = target, add = completion::cluster_works())]
    target: Option<SuspensionTarget>,
    /// Id of the source, as the log and `gitwork status -o wide` show it
    #[arg(
        long,
        value_name = "ID",
        value_parser = source_args::source_id,
        add = completion::sources(),
    )]
    source_id: SourceId,
    #[command(flatten)]
    hub: HubArgs,
}

fn reason(text: &str) -> Result<String, ArgumentError> {
    let length = text.chars().count();
    if length > limits::REASON_CHARS_MAX {
        let limit = limits::REASON_CHARS_MAX;
        return Err(ArgumentError::TooLong { length, limit });
    }
    Ok(escape_untrusted(text))
}

/// Parses `CLUSTER/WORK`.
pub fn work_key(text: &str) -> Result<WorkKey, ArgumentError> {
    let (cluster, work) = text.split_once('/').ok_or(ArgumentError::WorkKey)?;
    let cluster = ClusterName::parse_place(cluster).map_err(ArgumentError::Cluster)?;
    let work = WorkName::parse(work).map_err(ArgumentError::Work)?;
    Ok(WorkKey { cluster, work })
}

fn target(text: &str) -> Result<SuspensionTarget, ArgumentError> {
    if text.contains('/') {
        return work_key(text).map(SuspensionTarget::Work);
    }
    ClusterName::parse_place(text).map(SuspensionTarget::Cluster).map_err(ArgumentError::Cluster)
}

/// The target for messages.
fn describe_target(target: &SuspensionTarget, source: &SourceId) -> String {
    match target {
        SuspensionTarget::Source => format!("the source {source}"),
        SuspensionTarget::Cluster(cluster) => {
            format!("the source {source} on the cluster {cluster}")
        }
        SuspensionTarget::Work(key) => format!("the work {key} of the source {source}"),
    }
}

/// Writes an operator's directive to the hub.
fn write_directive<T>(
    hub: &HubArgs,
    source: &SourceId,
    directive: impl AsyncFnOnce(Operator<'_>) -> Result<T, DirectiveError>,
) -> Result<T, CommandError> {
    runtime()?.block_on(async {
        let client = super::hub::connect(hub).await?;
        let (namespace, at) = (hub.namespace(), Timestamp::now().to_string());
        Ok(directive(Operator { client: &client, namespace, source, at }).await?)
    })
}

/// Fails with exit code 2 if the hub has neither works of the source for the target nor a managed
/// cluster of its name. A user who may not read that may still write a directive.
fn check_target(
    target: &SuspensionTarget,
    source: &SourceId,
    hub: &HubArgs,
) -> Result<(), CommandError> {
    let filter = match target {
        SuspensionTarget::Source => return Ok(()),
        SuspensionTarget::Cluster(cluster) => FilterArgs::of_cluster(cluster),
        SuspensionTarget::Work(key) => FilterArgs::of_work(key),
    };
    let (works, clusters) = runtime()?.block_on(async {
        let client = super::hub::connect(hub).await?;
        let home = hub.namespace().to_owned();
        let selection = Selection { source: Some(source.clone()), cluster: None, home };
        let works = retry_transient(|| fleet::fleet(&client, &selection)).await;
        let time = Timestamp::now();
        let clusters = retry_transient(|| facts::list(&client, time)).await;
        Ok::<_, CommandError>((works, clusters))
    })?;
    let Ok(works) = works else { return Ok(()) };
    let keys: Vec<WorkKey> = works.works.iter().filter_map(key_of).collect();
    let is_managed = |cluster: &ClusterName| {
        clusters.as_ref().is_ok_and(|facts| facts.managed_clusters.contains_key(cluster))
    };
    let is_known = match target {
        SuspensionTarget::Source => true,
        SuspensionTarget::Cluster(cluster) => {
            is_managed(cluster) || keys.iter().any(|key| key.cluster == *cluster)
        }
        SuspensionTarget::Work(key) => keys.contains(key),
    };
    let missing = || filter.no_match(&filter.filter().ok()?, || keys.iter());
    match missing().filter(|_| !is_known) {
        Some(why) => Err(CommandError::usage(format!("{}; --new allows it", why.message()))),
        None => Ok(()),
    }
}

/// Runs `gitwork suspend`.
pub fn suspend(args: &SuspendArgs) -> Result<Exit, CommandError> {
    let TargetArgs { target, source_id, hub } = &args.target;
    let target = target.clone().unwrap_or(SuspensionTarget::Source);
    if !args.new {
        check_target(&target, source_id, hub)?;
    }
    let suspend =
        async |operator: Operator<'_>| operator.suspend(&target, args.reason.clone()).await;
    let who = write_directive(hub, source_id, suspend)?;
    output::note(&format!(
        "{who} suspended {}; running writes are still finished; end it with `gitwork resume`",
        describe_target(&target, source_id)
    ));
    Ok(Exit::Done)
}

/// How many suspensions a message names.
const SUSPENDED_SHOWN: usize = 5;

/// There is no suspension to end.
#[derive(Debug, thiserror::Error)]
#[error("{scope} is not suspended on the hub")]
struct NotSuspendedError {
    scope: String,
    /// What is suspended.
    suspensions: Suspensions,
}

impl OperationError for NotSuspendedError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "NotSuspended"
    }

    fn hints(&self) -> Vec<String> {
        vec![self.suspended(), "a suspension in Git ends in the file that set it".to_owned()]
    }
}

impl NotSuspendedError {
    /// What `gitwork resume` can end.
    fn suspended(&self) -> String {
        let Suspensions { source, clusters, works } = &self.suspensions;
        let whole = source.iter().map(|_| "the whole source (without a target)".to_owned());
        let clusters = clusters.keys().map(ClusterName::to_string);
        let all: Vec<String> =
            whole.chain(clusters).chain(works.keys().map(WorkKey::to_string)).collect();
        let shown = all.iter().take(SUSPENDED_SHOWN).cloned().collect::<Vec<_>>().join(", ");
        match all.len().saturating_sub(SUSPENDED_SHOWN) {
            _ if all.is_empty() => "nothing of the source is suspended there".to_owned(),
            0 => format!("suspended there: {shown}"),
            more => format!("suspended there: {shown} and {more} more"),
        }
    }
}

/// Runs `gitwork resume`.
pub fn resume(args: &ResumeArgs) -> Result<Exit, CommandError> {
    let TargetArgs { target, source_id, hub } = &args.target;
    let target = target.clone().unwrap_or(SuspensionTarget::Source);
    let others = write_directive(hub, source_id, async |operator: Operator<'_>| {
        operator.resume(&target).await
    })?;
    let described = describe_target(&target, source_id);
    if let Some(suspensions) = others {
        return Err(NotSuspendedError { scope: described, suspensions }.into());
    }
    output::note(&format!("{described} is resumed"));
    Ok(Exit::Done)
}

/// Runs `gitwork reconcile`.
pub fn reconcile(args: &ReconcileArgs) -> Result<Exit, CommandError> {
    let ask = async |operator: Operator<'_>| operator.reconcile().await;
    let who = write_directive(&args.hub, &args.source_id, ask)?;
    output::note(&format!(
        "{who} requested a sync of {}; the daemon starts it within {} seconds",
        describe_target(&SuspensionTarget::Source, &args.source_id),
        gitwork_daemon::limits::DIRECTIVES_POLL.as_secs()
    ));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_a_cluster_or_a_work() {
        let parsed = |text: &str| target(text).map(|target| format!("{target:?}"));
        assert!(parsed("edge-1").unwrap().starts_with("Cluster"));
        assert!(parsed("edge-1/web.v2").unwrap().starts_with("Work"));
        for bad in ["Edge", "edge-1/", "/web", "edge-1/web/x", ""] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        assert!(reason(&"x".repeat(limits::REASON_CHARS_MAX + 1)).is_err());
        assert_eq!(reason("a\u{1b}[31m").unwrap(), "a\\u{1b}[31m");
    }
}
