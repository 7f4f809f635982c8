//! `plan`: what would change, between two commits or between Git and the hub.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueEnum};

use super::source_args::{Filter, FilterArgs, HubArgs, SourceArgs};
use super::{Exit, Failure, output, runtime};
use crate::core::desired::Desired;
use crate::core::name::RepoPath;
use crate::core::observed::{Observed, ObservedWork};
use crate::core::plan::{self, Plan, Policy};
use crate::core::report::Style;
use crate::core::review::{self, Review};
use crate::hub::{Hub, KubeHub};
use crate::source::Source;

#[derive(Debug, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Compare with this revision instead of the hub; needs no cluster and no credentials
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
    /// The revision to compare with --base [default: the folder as it is on disk, or the ref]
    #[arg(long, value_name = "REVISION", requires = "base")]
    head: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Form of the output; markdown fits into a comment on a pull request
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Text)]
    output: PlanFormat,
    /// Exit with 3 where there are changes
    #[arg(long)]
    exit_code: bool,
    /// Plan as if a commit may delete every work of the source
    #[arg(long, conflicts_with = "base")]
    allow_delete_all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    Text,
    Markdown,
    Json,
}

pub fn plan(args: &PlanArgs) -> Result<Exit, Failure> {
    let filter = args.filter.filter()?;
    let (text, changes, failed) = match &args.base {
        Some(base) => between_revisions(args, base, &filter)?,
        None => against_hub(args, &filter)?,
    };
    output::print(&text)?;
    Ok(match (failed, changes && args.exit_code) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Changes,
        (false, false) => Exit::Done,
    })
}

/// The text, whether there are changes, and whether the head has errors.
fn between_revisions(
    args: &PlanArgs,
    base: &str,
    filter: &Filter,
) -> Result<(String, bool, bool), Failure> {
    let config = args.source.config()?;
    let path = config.path.clone();
    let mut source = Source::open(config).map_err(Failure::new)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let head = match &args.head {
        Some(head) => source.read_revision(head, &cancel).map_err(Failure::new)?,
        None => Arc::unwrap_or_clone(source.read(&cancel).map_err(Failure::new)?.desired),
    };
    let base = source.read_revision(base, &cancel).map_err(Failure::new)?;
    let [base, head] = [base, head].map(|desired| narrowed(desired, &path, filter));
    let review = Review::new(&base, &head);
    let failed = head.diagnostics.iter().any(super::super::core::diagnostic::Diagnostic::is_error);
    if args.output == PlanFormat::Text {
        output::diagnostics(&review.new_diagnostics);
    }
    let text = match args.output {
        PlanFormat::Text => review::text(&review, Style::Coloured),
        PlanFormat::Markdown => review::markdown(&review),
        PlanFormat::Json => review.json(),
    };
    Ok((text, !review.is_empty(), failed))
}

/// Just the works that the filter admits, and every place told from the repository's root.
fn narrowed(mut desired: Desired, path: &RepoPath, filter: &Filter) -> Desired {
    desired.works.retain(|key, _| filter.admits(key));
    desired.frozen.works.retain(|key| filter.admits(key));
    desired.tell_from_root(path);
    desired
}

/// A plan of Git against the hub, with what it was made of.
pub(super) struct HubPlan {
    pub plan: Plan,
    pub desired: Arc<Desired>,
    pub observed: Observed,
}

pub(super) fn plan_against_hub(
    source: &SourceArgs,
    hub: &HubArgs,
    mut policy: Policy,
) -> Result<HubPlan, Failure> {
    let mut source = Source::open(source.config()?).map_err(Failure::new)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let desired = source.read(&cancel).map_err(Failure::new)?.desired;
    output::diagnostics(&desired.diagnostics);
    let (works, approved) = runtime()?.block_on(async {
        let client = super::run::client(hub).await?;
        let hub = KubeHub::new(client).in_namespace(hub.namespace());
        // All works: one of somebody else may have a name that Git wants.
        let works = hub.list(None).await.map_err(Failure::new)?;
        Ok((works, hub.approvals(&desired.source).await))
    })?;
    match approved {
        Ok(approved) => policy.approved = approved,
        Err(why) => output::note(&format!("approvals on the hub are not known: {why}")),
    }
    let (plan, observed) = plan_of(&source, &desired, works, &policy)?;
    Ok(HubPlan { plan, desired, observed })
}

/// The plan for what Git wants and what the hub has, with Git's last word on what it no longer has.
pub(super) fn plan_of(
    source: &Source,
    desired: &Arc<Desired>,
    works: Vec<ObservedWork>,
    policy: &Policy,
) -> Result<(Plan, Observed), Failure> {
    let mut observed = Observed::default();
    for work in works {
        if work.is_ours(&desired.source) || desired.works.contains_key(&work.key) {
            observed.works.insert(work.key.clone(), work);
        }
    }
    let candidates = plan::departed_candidates(desired, &observed);
    let departed =
        source.departed(desired, &candidates, &AtomicBool::new(false)).map_err(Failure::new)?;
    let plan = plan::plan(desired, &observed, &departed, policy);
    Ok((plan, observed))
}

fn against_hub(args: &PlanArgs, filter: &Filter) -> Result<(String, bool, bool), Failure> {
    let policy = Policy { allow_delete_all: args.allow_delete_all, ..Policy::default() };
    let HubPlan { mut plan, desired, .. } = plan_against_hub(&args.source, &args.hub, policy)?;
    plan.steps.retain(|step| filter.admits(&step.key));
    let failed =
        desired.diagnostics.iter().any(super::super::core::diagnostic::Diagnostic::is_error);
    Ok((plan_text(&plan, args.output), !plan.is_empty(), failed))
}

fn plan_text(plan: &Plan, format: PlanFormat) -> String {
    match format {
        PlanFormat::Text => plan::text(plan, Style::Coloured),
        PlanFormat::Markdown => plan::markdown(plan),
        PlanFormat::Json => format!("{:#}\n", serde_json::json!(plan.summary())),
    }
}
