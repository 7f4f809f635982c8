//! `plan`: what would change, between two commits or between Git and the hub.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::read_args::{Operated, ReadArgs};
use super::signer_args::SignerArgs;
use super::source_args::{self, Filter, FilterArgs, HubArgs};
use super::{Exit, Failure, output, runtime};
use crate::core::adoption::Adoption;
use crate::core::desired::Desired;
use crate::core::diagnostic::Diagnostic;
use crate::core::directives::Directives;
use crate::core::name::{CommitId, RepoPath, SourceId};
use crate::core::observed::{Observed, ObservedWork};
use crate::core::plan::{self, Action, Guard, Plan, Reason, Remarks, Step};
use crate::core::report::Style;
use crate::core::review::{self, Review};
use crate::core::rewind::{self, RewindPolicy};
use crate::core::signature::judge::Refusal;
use crate::core::window;
use crate::daemon::guards::GuardOptions;
use crate::daemon::state::State;
use crate::hub::{Hub, KubeHub, StoredRecord};
use crate::source::Source;
use crate::verification::Verification;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Compare with this revision instead of the hub; needs no cluster and no credentials
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
    /// The revision to compare with --base [default: the folder as it is on disk, or the ref]
    #[arg(long, value_name = "REVISION", requires = "base")]
    head: Option<String>,
    /// Form of the output; markdown fits into a comment on a pull request
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Text)]
    output: PlanFormat,
    /// Exit with 3 where there are changes, and with 4 where something is held
    #[arg(long)]
    exit_code: bool,
    /// Plan as if a commit may delete every work of the source
    #[arg(long)]
    allow_delete_all: bool,
    /// Plan with this policy for a commit that does not build on what was applied: hold, warn, follow
    /// [default: that of --config, or warn]
    #[arg(long, value_name = "POLICY", value_parser = source_args::rewind, conflicts_with = "base")]
    rewind: Option<RewindPolicy>,
    /// Plan for this time, for change windows; as in 2026-12-24T18:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Plan with this policy for ManifestWorks of others that have a name of ours: never, annotated, unowned
    /// [default: that of --config, or annotated]
    #[arg(long, value_name = "POLICY", value_parser = source_args::adoption, conflicts_with = "base")]
    adopt: Option<Adoption>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    Text,
    Markdown,
    Json,
}

/// A plan as it is shown, and what the exit code is made of.
struct Shown {
    text: String,
    changes: bool,
    /// Something waits for an approval, a signature, a window or a name.
    held: bool,
    /// Git has errors.
    failed: bool,
}

pub fn plan(args: &PlanArgs) -> Result<Exit, Failure> {
    let filter = args.filter.filter()?;
    let shown = match &args.base {
        Some(base) => between_revisions(args, base, &filter)?,
        None => against_hub(args, &filter)?,
    };
    output::print(&shown.text)?;
    Ok(match shown {
        Shown { failed: true, .. } => Exit::Failed,
        Shown { held: true, .. } if args.exit_code => Exit::Held,
        Shown { changes: true, .. } if args.exit_code => Exit::Changes,
        _ => Exit::Done,
    })
}

impl PlanArgs {
    /// The source, with what the flags say instead of the daemon's file.
    fn operated(&self) -> Result<Operated, Failure> {
        let mut operated = self.source.signed_by(&self.signers)?;
        operated.guards.policy.allow_delete_all |= self.allow_delete_all;
        operated.guards.policy.adoption = self.adopt.unwrap_or(operated.guards.policy.adoption);
        operated.guards.rewind = self.rewind.unwrap_or(operated.guards.rewind);
        Ok(operated)
    }

    fn time(&self) -> Timestamp {
        self.at.unwrap_or_else(Timestamp::now)
    }
}

fn between_revisions(args: &PlanArgs, base: &str, filter: &Filter) -> Result<Shown, Failure> {
    let Operated { config, guards, verification } = args.operated()?;
    let path = config.path.clone();
    let mut source = Source::open(config).map_err(Failure::new)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let head = match &args.head {
        Some(head) => source.read_revision(head, &cancel).map_err(Failure::new)?,
        None => Arc::unwrap_or_clone(source.read(&cancel).map_err(Failure::new)?.desired),
    };
    let mut verification = verification.unwrap_or_else(Verification::asking_nothing);
    let signatures = source.judge(&mut verification, base, args.head.as_deref(), &cancel);
    let signatures = signatures.map_err(Failure::new)?;
    let base = source.read_revision(base, &cancel).map_err(Failure::new)?;
    let windows = [&guards.windows, &base.rules.windows, &head.rules.windows];
    let closed = window::closed(&windows, &|name| TimeZone::get(name).ok(), args.time());
    let holds = review::would_hold(&base, &head, &guards.policy, closed.as_ref());
    let [base, head] = [base, head].map(|desired| narrowed(desired, &path, filter));
    let review = Review { signatures, holds, ..Review::new(&base, &head) };
    if args.output == PlanFormat::Text {
        output::diagnostics(&review.new_diagnostics);
    }
    let text = match args.output {
        PlanFormat::Text => review::text(&review, Style::Coloured),
        PlanFormat::Markdown => review::markdown(&review),
        PlanFormat::Json => review.json(),
    };
    let failed = head.diagnostics.iter().any(Diagnostic::is_error);
    Ok(Shown { text, changes: !review.is_empty(), held: review.is_held(), failed })
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
    /// Why the plan is of the last verified commit, and not of the newest.
    pub refused: Option<Arc<Refusal>>,
}

pub(super) fn plan_against_hub(
    operated: Operated,
    hub: &HubArgs,
    at: Timestamp,
    cancel: &Arc<AtomicBool>,
) -> Result<HubPlan, Failure> {
    let Operated { config, guards, verification } = operated;
    let id = config.id.clone();
    let is_judged = verification.is_some();
    let mut source = Source::open(config).map_err(Failure::new)?;
    let ask_hub = || {
        runtime()?.block_on(async {
            let hub = KubeHub::new(super::run::client(hub).await?).in_namespace(hub.namespace());
            // All works: one of somebody else may have a name that Git wants.
            let works = hub.list(None).await.map_err(Failure::new)?;
            Ok(OnHub::of(&hub, &id, works).await)
        })
    };
    // Signatures are judged from what was applied on; else Git comes first, and tells its errors without a hub too.
    let mut on_hub = None;
    if let Some(verification) = verification {
        let there: OnHub = ask_hub()?;
        source = source.judged_by(verification);
        source.set_applied(there.applied(&id));
        on_hub = Some(there);
    }
    let read = source.read(cancel).map_err(Failure::new)?;
    let desired = read.desired.clone();
    output::diagnostics(&desired.diagnostics);
    if let Some(commit) = desired.commit.filter(|_| !is_judged)
        && source.asks_for_signatures(commit).map_err(Failure::new)?
    {
        output::note(
            "gitwork.yaml asks for signatures, which are not checked here: name the keys with --config, \
             --allowed-signers or --openpgp-keys",
        );
    }
    let on_hub = on_hub.map_or_else(ask_hub, Ok)?;
    let (plan, state) = plan_of(&source, &desired, on_hub, guards, at, cancel)?;
    Ok(HubPlan { plan, desired, state, refused: read.refused })
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

    /// The commits that the hub says were applied.
    fn applied(&self, source: &SourceId) -> BTreeSet<CommitId> {
        let mut observed = Observed::default();
        observed.listed(source, self.works.clone());
        let record = self.record.as_ref().and_then(Option::as_ref).map(|stored| &stored.record);
        rewind::applied(&rewind::named(source, &observed), record).collect()
    }
}

/// The plan for what Git wants and what the hub has, with Git's last word on what it no longer has.
pub(super) fn plan_of(
    source: &Source,
    desired: &Arc<Desired>,
    on_hub: OnHub,
    options: GuardOptions,
    at: Timestamp,
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
    Ok((plan_at(&mut state, at), state))
}

/// The plan as things are, for a time.
pub(super) fn plan_at(state: &mut State, at: Timestamp) -> Plan {
    state.set_time(at, &|name| TimeZone::get(name).ok());
    state.plan().map(Arc::unwrap_or_clone).unwrap_or_default()
}

/// Whether a step waits for somebody, or for a window. What is suspended is left alone on purpose, and what cannot be
/// read is an error.
fn waits(step: &Step) -> bool {
    let on_purpose = step.reason.guard() == Some(Guard::Suspension);
    step.action() == Action::Hold && !on_purpose && step.reason != Reason::Frozen
}

fn against_hub(args: &PlanArgs, filter: &Filter) -> Result<Shown, Failure> {
    let cancel = Arc::new(AtomicBool::new(false));
    let planned = plan_against_hub(args.operated()?, &args.hub, args.time(), &cancel)?;
    let HubPlan { mut plan, desired, refused, .. } = planned;
    let failed = desired.diagnostics.iter().any(Diagnostic::is_error);
    let mut shown = plan.steps.iter().filter(|step| filter.admits(&step.key));
    let changes = shown.clone().any(|step| step.effect.is_some());
    let held = refused.is_some() || shown.any(waits);
    let style = if args.output == PlanFormat::Text { Style::Coloured } else { Style::Plain };
    let take_overs = |plan: &Plan| {
        runtime()?.block_on(super::adopt::take_overs(&args.hub, plan, &desired, style))
    };
    if args.output == PlanFormat::Json {
        // What is approved is the whole of what is held, whatever is shown.
        let mut summary = plan.summary(&desired.source);
        summary.refused = refused.as_deref().cloned();
        summary.steps.retain(|step| filter.admits(&step.key));
        plan.steps.retain(|step| filter.admits(&step.key));
        let take_overs = take_overs(&plan)?;
        for step in &mut summary.steps {
            step.changes = take_overs.get(&step.key).cloned();
        }
        let text = format!("{:#}\n", serde_json::json!(summary));
        return Ok(Shown { text, changes, held, failed });
    }
    plan.steps.retain(|step| filter.admits(&step.key));
    let remarks = Remarks { refused: refused.as_deref(), take_overs: take_overs(&plan)? };
    let text = match args.output {
        PlanFormat::Markdown => plan::markdown(&plan, &remarks),
        PlanFormat::Text | PlanFormat::Json => plan::text(&plan, &remarks, style),
    };
    Ok(Shown { text, changes, held, failed })
}
