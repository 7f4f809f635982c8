//! `plan`: what would change, between two commits or between Git and the hub.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::source_args::{Filter, FilterArgs, HubArgs, SourceArgs, adoption, rewind};
use super::{Exit, Failure, output, runtime};
use crate::core::adoption::Adoption;
use crate::core::desired::Desired;
use crate::core::directives::Directives;
use crate::core::name::{RepoPath, SourceId};
use crate::core::observed::ObservedWork;
use crate::core::plan::{self, Plan, Policy};
use crate::core::report::Style;
use crate::core::review::{self, Review};
use crate::core::rewind::RewindPolicy;
use crate::daemon::guards::GuardOptions;
use crate::daemon::state::State;
use crate::hub::{Hub, KubeHub, StoredRecord};
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
    /// Plan with this policy for ManifestWorks of others that have a name of ours: never, annotated, unowned
    #[arg(long, value_name = "POLICY", value_parser = adoption, default_value = "annotated", conflicts_with = "base")]
    adopt: Adoption,
    /// Plan with this policy for a commit that does not build on what was applied: hold, warn, follow
    #[arg(long, value_name = "POLICY", value_parser = rewind, default_value = "warn", conflicts_with = "base")]
    rewind: RewindPolicy,
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
    pub state: State,
}

pub(super) fn plan_against_hub(
    source: &SourceArgs,
    hub: &HubArgs,
    options: GuardOptions,
    cancel: &AtomicBool,
) -> Result<HubPlan, Failure> {
    let mut source = Source::open(source.config()?).map_err(Failure::new)?;
    let read = source.read(&Arc::new(AtomicBool::new(false))).map_err(Failure::new)?;
    let desired = read.desired.clone();
    output::diagnostics(&desired.diagnostics);
    let on_hub = runtime()?.block_on(async {
        let hub = KubeHub::new(super::run::client(hub).await?).in_namespace(hub.namespace());
        // All works: one of somebody else may have a name that Git wants.
        let works = hub.list(None).await.map_err(Failure::new)?;
        Ok(OnHub::of(&hub, &desired.source, works).await)
    })?;
    let (plan, state) = plan_of(&source, &desired, on_hub, options, cancel)?;
    Ok(HubPlan { plan, desired, state })
}

/// All of the hub that a plan is made from.
pub(super) struct OnHub {
    works: Vec<ObservedWork>,
    /// What operators say; `None` where it could not be read.
    said: Option<Directives>,
    /// What was applied, as far as it could be read.
    record: Option<Option<StoredRecord>>,
}

impl OnHub {
    pub(super) async fn of(hub: &KubeHub, source: &SourceId, works: Vec<ObservedWork>) -> Self {
        let said = hub.directives(source).await.inspect_err(|why| {
            output::note(&format!("what operators say on the hub is not known: {why}"));
        });
        let record = hub.record(source).await.inspect_err(|why| {
            output::note(&format!("the source's record on the hub is not known: {why}"));
        });
        Self { works, said: said.ok(), record: record.ok() }
    }
}

/// The plan for what Git wants and what the hub has, with Git's last word on what it no longer has.
pub(super) fn plan_of(
    source: &Source,
    desired: &Arc<Desired>,
    on_hub: OnHub,
    options: GuardOptions,
    cancel: &AtomicBool,
) -> Result<(Plan, State), Failure> {
    let (id, now) = (desired.source.clone(), Instant::now());
    let mut state = State::new(id, options, source.known_moves(), now);
    state.set_desired(desired);
    let (ours, others): (Vec<_>, Vec<_>) =
        on_hub.works.into_iter().partition(|work| work.is_ours(&desired.source));
    state.set_listed(ours);
    for work in others.into_iter().filter(|work| desired.works.contains_key(&work.key)) {
        let key = work.key.clone();
        state.set_looked_up(&key, Ok(Some(work)), now, 0);
    }
    if on_hub.said.is_some() {
        state.set_directives(on_hub.said, now);
    }
    on_hub.record.into_iter().for_each(|record| state.set_record(record));
    // One question about what was applied, one about what an approval names.
    for _ in 0..2 {
        let (Some(head), Some(commits)) = (desired.commit, state.take_unknown_ancestry(now)) else {
            break;
        };
        let unreached = source.unreached(head, &commits, cancel).map_err(Failure::new)?;
        state.set_ancestry(head, &commits, &unreached);
    }
    let candidates = state.take_unknown_departed(now);
    let departed = source.departed(desired, &candidates, cancel).map_err(Failure::new)?;
    state.set_departed(&candidates, departed);
    Ok((plan_now(&mut state), state))
}

/// The plan as things are.
pub(super) fn plan_now(state: &mut State) -> Plan {
    state.set_time(Timestamp::now(), &|name| TimeZone::get(name).ok());
    state.plan().map(Arc::unwrap_or_clone).unwrap_or_default()
}

fn against_hub(args: &PlanArgs, filter: &Filter) -> Result<(String, bool, bool), Failure> {
    let (adoption, allow_delete_all) = (args.adopt, args.allow_delete_all);
    let policy = Policy { allow_delete_all, adoption, ..Policy::default() };
    let options = GuardOptions { policy, rewind: args.rewind, ..GuardOptions::default() };
    let cancel = AtomicBool::new(false);
    let HubPlan { mut plan, desired, .. } =
        plan_against_hub(&args.source, &args.hub, options, &cancel)?;
    let failed =
        desired.diagnostics.iter().any(super::super::core::diagnostic::Diagnostic::is_error);
    let is_empty = !plan.steps.iter().any(|step| filter.admits(&step.key) && step.effect.is_some());
    // What is approved is the whole of what is held, whatever is shown.
    let mut summary = plan.summary(&desired.source);
    plan.steps.retain(|step| filter.admits(&step.key));
    let style = if args.output == PlanFormat::Text { Style::Coloured } else { Style::Plain };
    let take_overs =
        runtime()?.block_on(super::adopt::take_overs(&args.hub, &plan, &desired, style))?;
    let text = match args.output {
        PlanFormat::Json => {
            summary.steps.retain(|step| filter.admits(&step.key));
            for step in &mut summary.steps {
                step.changes = take_overs.get(&step.key).cloned();
            }
            format!("{:#}\n", serde_json::json!(summary))
        }
        PlanFormat::Markdown => plan::markdown(&plan, &take_overs),
        PlanFormat::Text => plan::text(&plan, &take_overs, style),
    };
    Ok((text, !is_empty, failed))
}
