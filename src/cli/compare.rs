//! `plan`: the changes between two commits, or between Git and the hub.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::error::CommandError;
use super::exit::Exit;
use super::hub::runtime;
use super::hub_state::HubState;
use super::no_match::no_match;
use super::output;
use super::published_facts::add_fetched_facts;
use super::read_args::{ConfiguredSource, ReadArgs, StrictArgs};
use super::signer_args::SignerArgs;
use super::source_args::{self, Filter, FilterArgs, HubArgs};
use super::source_id::IdFrom;
use super::sources::sources;
use super::text_objects::{TextObjects, Texts};
use gitwork_core::config::AdoptionPolicy;
use gitwork_core::config::RewindPolicy;
use gitwork_core::config::window;
use gitwork_core::model::name::{CommitId, WorkKey};
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::plan;
use gitwork_core::plan::cascading_deletion::{self, HubPlanInputs};
use gitwork_core::plan::{Action, ForeignObject, MemberChange, Plan, PlanStep, Reason, Remarks};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::{RenderedChange, Renderer};
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_core::text::escape::json_text;
use gitwork_core::text::style::ColorMode;
use gitwork_git::RepositoryError;
use gitwork_hub::{Hub as _, HubEvent};
use gitwork_report::review;
use gitwork_report::review::Review;
use gitwork_source::verification::Verification;
use gitwork_source::{Source, SourceLocation, SourceReadError};
use gitwork_sync::git_history::AncestryLookup;
use gitwork_sync::guards::GuardOptions;
use gitwork_sync::state::SyncState;

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Compare with this revision instead of the hub (needs no cluster and no credentials)
    #[arg(long, value_name = "REVISION")]
    base: Option<String>,
    /// Compare this revision with --base [default: the folder on disk, or the configured reference]
    #[arg(long, value_name = "REVISION", requires = "base")]
    head: Option<String>,
    /// Output format; markdown is for pull request comments
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Text)]
    output: PlanFormat,
    /// Exit with 3 if there are changes, and with 4 if any are held
    #[arg(long)]
    exit_code: bool,
    /// Plan as if commits may delete every work of the source
    #[arg(long)]
    allow_delete_all: bool,
    /// Plan with this policy for a commit that does not descend from the applied one: hold, warn,
    /// follow [default: from --config, or hold]
    #[arg(
        long,
        value_name = "POLICY",
        value_parser = source_args::rewind,
        conflicts_with = "base"
    )]
    rewind: Option<RewindPolicy>,
    /// Evaluate change windows at this time, as in 2026-12-24T18:00:00Z [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    #[command(flatten)]
    strict: StrictArgs,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Plan with this policy for existing ManifestWorks with the same name: never, annotated,
    /// unowned [default: from --config, or annotated]
    #[arg(
        long,
        value_name = "POLICY",
        value_parser = source_args::adoption,
        conflicts_with = "base"
    )]
    adopt: Option<AdoptionPolicy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    Text,
    Markdown,
    Json,
}

/// A printed plan, and the facts for the exit code.
struct PrintedPlan {
    text: String,
    has_changes: bool,
    /// Changes wait for an approval, a signature, a window or a name.
    is_held: bool,
    /// Git has errors.
    has_errors: bool,
}

pub fn plan(args: &PlanArgs) -> Result<Exit, CommandError> {
    let filter = args.filter.filter()?;
    let shown = match &args.base {
        Some(base) => between_revisions(args, base, &filter)?,
        None => against_hub(args, &filter)?,
    };
    output::print(&shown.text)?;
    Ok(match shown {
        PrintedPlan { has_errors: true, .. } => Exit::Failed,
        PrintedPlan { is_held: true, .. } if args.exit_code => Exit::Held,
        PrintedPlan { has_changes: true, .. } if args.exit_code => Exit::Changes,
        _ => Exit::Done,
    })
}

impl PlanArgs {
    /// The source and its settings, with flags before the daemon's file.
    fn configured(&self) -> Result<ConfiguredSource, CommandError> {
        let mut configured = self.source.with_signers(&self.signers)?;
        configured.guards.policy.allow_delete_all |= self.allow_delete_all;
        configured.guards.policy.adoption = self.adopt.unwrap_or(configured.guards.policy.adoption);
        configured.guards.rewind = self.rewind.unwrap_or(configured.guards.rewind);
        Ok(configured.with_schema_errors(self.strict))
    }

    fn time(&self) -> Timestamp {
        self.at.unwrap_or_else(Timestamp::now)
    }
}

fn between_revisions(
    args: &PlanArgs,
    base: &str,
    filter: &Filter,
) -> Result<PrintedPlan, CommandError> {
    let configured = args.configured()?.with_published_facts();
    let ConfiguredSource { config, guards, verification, status_branch, threads, .. } = configured;
    let path = config.path.clone();
    let pages = config.repository.pages();
    let mut source = sources().open(config)?.with_threads(threads);
    let cancel = Arc::new(AtomicBool::new(false));
    // In a mirror, `HEAD` is the reference that the arguments name.
    let is_mirror = matches!(source.config().repository, SourceLocation::Git { .. });
    let head = args.head.as_deref().or_else(|| is_mirror.then_some("HEAD"));
    let head = head.map(|head| source.snapshots().resolve(head, &cancel)).transpose()?;
    let range = (source.snapshots().resolve(base, &cancel)?, head);
    let is_whole = !args.filter.is_empty();
    let mut change = rendered_change(&mut source, range, is_whole, &cancel)?;
    if add_fetched_facts(&mut source, &change.head, &status_branch, &cancel) {
        change = rendered_change(&mut source, range, is_whole, &cancel)?;
    }
    let mut verification = verification.unwrap_or_else(Verification::without_operator);
    let signatures = source.signatures().check_range(&mut verification, range, &cancel)?;
    let RenderedChange { base, head, .. } = &change;
    let windows = [&guards.windows, &base.rules.windows, &head.rules.windows];
    let closed = window::closed(&windows, &|name| TimeZone::get(name).ok(), args.time());
    let holds = review::would_hold(base, head, &guards.policy, closed.as_ref());
    if let Some(error) = no_match(&args.filter, filter, &[base, head], &[]) {
        return Err(error);
    }
    change.locate_from_root(&path);
    change.leave_out_known_problems();
    let review = Review::of_change(&change, |key| filter.matches(key));
    let review = Review { signatures, holds, ..review };
    if args.output == PlanFormat::Text {
        output::diagnostics(&review.new_diagnostics);
    }
    let text = match args.output {
        PlanFormat::Text => review::text(&review, ColorMode::Colored),
        PlanFormat::Markdown => review::markdown(&review, pages.as_ref()),
        PlanFormat::Json => review.json(),
    };
    Ok(PrintedPlan {
        text,
        has_changes: !review.is_empty(),
        is_held: review.is_held(),
        has_errors: args.strict.fails(&change.head.diagnostics),
    })
}

/// Renders both sides, as far as they differ. If the base is from before the source's folder, it
/// has no work.
fn rendered_change(
    source: &mut Source,
    (base, head): (CommitId, Option<CommitId>),
    is_whole: bool,
    cancel: &Arc<AtomicBool>,
) -> Result<RenderedChange, CommandError> {
    let found = source.snapshots().change(base, head, is_whole);
    let Err(SourceReadError::Repository(RepositoryError::PathMissing { .. })) = found else {
        return Ok(found?);
    };
    let head = match head {
        Some(head) => source.snapshots().render(head)?,
        None => Arc::unwrap_or_clone(source.read(cancel)?.desired),
    };
    Ok(RenderedChange::of_all(render_base(source, base)?, head))
}

/// Renders the base. If it is from before the source's folder, it has no work.
pub(super) fn render_base(source: &mut Source, commit: CommitId) -> Result<Desired, CommandError> {
    match source.snapshots().render(commit) {
        Err(SourceReadError::Repository(RepositoryError::PathMissing { .. })) => {
            let mut objects = TextObjects::default();
            let root = objects.add_folder(&Texts::new());
            let snapshot = Snapshot { commit: Some(commit), root, objects: &objects };
            Ok(Renderer::new(source.config().id.clone()).render(&snapshot)?)
        }
        rendered => Ok(rendered?),
    }
}

/// A second read of the same plan needs no other commit than the first one.
const FETCH_AGE_MAX: Duration = Duration::from_secs(60);

/// A plan of Git against the hub, with its inputs.
pub(super) struct HubPlan {
    pub plan: Plan,
    pub desired: Arc<Desired>,
    /// Where the arguments have the id from, even if the hub has named another one.
    pub id_from: IdFrom,
    pub state: SyncState,
    /// Why the plan is for the last verified commit instead of the newest one.
    pub verification_failure: Option<Arc<VerificationFailure>>,
    /// Objects that Git newly has, and that works of other owners have on the hub.
    pub foreign_objects: Vec<ForeignObject>,
}

/// Reads the source and the hub, and plans. Nothing is written.
pub(super) fn plan_against_hub(
    mut configured: ConfiguredSource,
    hub: &HubArgs,
    at: Timestamp,
    cancel: &Arc<AtomicBool>,
) -> Result<HubPlan, CommandError> {
    // Verification starts from the recorded commit, so it needs the hub first, as an id from the
    // hub does. Without them Git comes first, to report its errors even without a hub.
    let is_verified = configured.verification.is_some();
    let (id_from, mut on_hub) = (configured.id_from, None);
    if is_verified || configured.id_from != IdFrom::Name {
        match HubState::ask(hub, &mut configured) {
            Ok(there) => on_hub = Some(there),
            Err(why) if is_verified => return Err(why),
            Err(why) => {
                let read = sources().open(configured.config)?.read(cancel)?;
                output::diagnostics(&read.desired.diagnostics);
                return Err(why);
            }
        }
    }
    let mut source = sources().open(configured.config.clone())?.with_threads(configured.threads);
    if let (Some(verification), Some(there)) = (configured.verification.take(), &on_hub) {
        source = source.with_trial_verification(verification);
        source.set_verification_base(there.verification_base(&configured.config.id)?);
    }
    let mut read = source.read(cancel)?;
    if read.desired.needed_facts.is_some()
        && let Some(facts) = configured.missing_facts(Some(hub))
    {
        source.set_facts(facts);
        read = source.read(cancel)?;
    }
    let desired = read.desired.clone();
    output::diagnostics(&desired.diagnostics);
    if let Some(commit) = desired.commit.filter(|_| !is_verified)
        && source.signatures().are_required(commit)?
    {
        output::note(
            "gitwork.yaml requires signatures, which this plan does not check: name the keys with \
             --config, --allowed-signers or --openpgp-keys",
        );
    }
    let on_hub = on_hub.map_or_else(|| HubState::ask(hub, &mut configured), Ok)?;
    let guards = configured.guards;
    let foreign_objects = plan::foreign_objects(&desired, &on_hub.works);
    let planned = plan_of(&mut source, (&desired, read.is_signed), on_hub, guards, at, cancel);
    let (plan, state) = runtime()?.block_on(planned)?;
    let desired = state.facts().desired().cloned().unwrap_or(desired);
    let verification_failure = read.verification_failure;
    Ok(HubPlan { plan, desired, id_from, state, verification_failure, foreign_objects })
}

/// The plan from Git's works, the hub's state, and the last state in Git of removed works.
pub(super) async fn plan_of(
    source: &mut Source,
    (desired, is_signed): (&Arc<Desired>, bool),
    on_hub: HubState,
    options: GuardOptions,
    at: Timestamp,
    cancel: &Arc<AtomicBool>,
) -> Result<(Plan, SyncState), CommandError> {
    let (id, now) = (desired.source.clone(), Instant::now());
    let mut state = SyncState::new(id, options, source.known_record_generation(), now);
    state.facts_mut().set_signed(is_signed);
    state.facts_mut().set_desired(desired);
    let (ours, others): (Vec<_>, Vec<_>) =
        on_hub.works.into_iter().partition(|work| work.is_ours(&desired.source));
    state.facts_mut().set_event(HubEvent::Listed(ours.into_iter().collect()));
    for work in others.into_iter().filter(|work| desired.works.contains_key(&work.key)) {
        let key = work.key.clone();
        state.set_looked_up(&key, Ok(Some(work)), now, 0);
    }
    if on_hub.directives.is_some() {
        state.facts_mut().directives.set(on_hub.directives.clone(), now);
    }
    on_hub.record.into_iter().for_each(|record| state.set_record(record));
    state.set_time(at, &|name| TimeZone::get(name).ok());
    let earlier = state.earlier_contents().filter(|earlier| !earlier.is_empty());
    if let Some(earlier) = earlier.cloned() {
        // Clusters that wait for their wave keep what they have.
        source.set_earlier(Arc::new(earlier));
        let read = source.read_within(FETCH_AGE_MAX, cancel)?;
        state.facts_mut().set_desired(&read.desired);
        state.facts_mut().directives.set(on_hub.directives, now);
    }
    read_history(source, &mut state, cancel)?;
    let keys = state.facts_mut().contents_to_read(now);
    for set in state.facts().sets_to_read() {
        let works = on_hub.hub.set_works(&set).await;
        if let Err(why) = &works {
            output::note_failure(&format!("cannot read the works of the replica set {set}"), why);
        }
        state.facts_mut().set_works_of_set(&set, works);
    }
    let contents = gitwork_hub::read_contents(&on_hub.hub, keys).await;
    for (key, result) in &contents {
        if let Err(why) = result {
            output::note_failure(&format!("cannot read {key}, from which objects move"), why);
        }
    }
    state.facts_mut().set_contents(contents, now);
    Ok((plan_at(&mut state, at), state))
}

/// Looks up what the plan needs of Git's history.
fn read_history(
    source: &Source,
    state: &mut SyncState,
    cancel: &AtomicBool,
) -> Result<(), CommandError> {
    let (now, history) = (Instant::now(), source.history());
    let Some(desired) = state.facts().desired().cloned() else { return Ok(()) };
    // One round for the applied commits, one for the commits that approvals name.
    for _ in 0..2 {
        let (Some(head), AncestryLookup::Due(commits)) =
            (desired.commit, state.facts_mut().ancestry_lookup(now))
        else {
            break;
        };
        let unreached = history.unreached(head, &commits, cancel)?;
        state.facts_mut().history.set_ancestry(head, &commits, &unreached);
    }
    let candidates = state.facts_mut().removals_to_look_up(now);
    let applied = state.facts().recorded_commits();
    let last_known = history.last_known_states(&desired, &candidates, &applied, cancel)?;
    state.facts_mut().history.set_last_known(&candidates, last_known);
    Ok(())
}

/// The plan at a time.
pub(super) fn plan_at(state: &mut SyncState, at: Timestamp) -> Plan {
    state.set_time(at, &|name| TimeZone::get(name).ok());
    state.plan(Instant::now()).map(Arc::unwrap_or_clone).unwrap_or_default()
}

/// Whether a step waits for a person or for a window. Suspended works do not count, because they
/// are left alone on purpose; neither do frozen ones and those of groups with unknown members,
/// because that is reported.
fn is_waiting(step: &PlanStep) -> bool {
    let is_unknown = matches!(step.reason, Reason::Frozen | Reason::UnknownMembership);
    step.action() == Action::Hold && !is_unknown && !step.reason.is_suspension()
}

fn against_hub(args: &PlanArgs, filter: &Filter) -> Result<PrintedPlan, CommandError> {
    let cancel = Arc::new(AtomicBool::new(false));
    let planned = plan_against_hub(args.configured()?, &args.hub, args.time(), &cancel)?;
    let HubPlan { mut plan, desired, verification_failure, .. } = planned;
    let on_hub: Vec<&WorkKey> = plan.steps.iter().map(|step| &step.key).collect();
    if let Some(error) = no_match(&args.filter, filter, &[&desired], &on_hub) {
        return Err(error);
    }
    let mut foreign_objects = planned.foreign_objects;
    let (facts, is_shown) = (planned.state.facts(), |key: &WorkKey| filter.matches(key));
    let on_hub = facts.hub.observed().into_iter().flat_map(|all| all.works.values());
    let member_changes = MemberChange::from_hub(on_hub, &desired, is_shown);
    let inputs = facts.hub.observed().map(|observed| {
        let last_known = facts.history.last_known();
        HubPlanInputs { desired: &desired, observed, last_known }
    });
    let cascading = inputs.map(|inputs| cascading_deletion::on_hub(inputs, &plan, is_shown));
    let cascading_deletions = cascading.unwrap_or_default();
    foreign_objects.retain(|object| filter.matches(&object.key));
    let has_errors = args.strict.fails(&desired.diagnostics);
    let shown = || plan.steps.iter().filter(|step| filter.matches(&step.key));
    let has_changes = shown().any(|step| step.effect.is_some());
    let is_held = verification_failure.is_some() || shown().any(is_waiting);
    let style = if args.output == PlanFormat::Text { ColorMode::Colored } else { ColorMode::Plain };
    let adoptions = |plan: &Plan| {
        runtime()?.block_on(super::adoption_changes::adoptions(&args.hub, plan, &desired, style))
    };
    if args.output == PlanFormat::Json {
        // An approval covers all held changes, regardless of the filter.
        let mut summary = plan.summary(&desired.source);
        summary.verification_failure = verification_failure.as_deref().cloned();
        summary.steps.retain(|step| filter.matches(&step.key));
        summary.foreign_objects = foreign_objects;
        summary.cascading_deletions = cascading_deletions;
        summary.member_changes = member_changes;
        plan.steps.retain(|step| filter.matches(&step.key));
        let adoptions = adoptions(&plan)?;
        for step in &mut summary.steps {
            step.changes = adoptions.get(&step.key).cloned();
        }
        let text = json_text(&summary);
        return Ok(PrintedPlan { text, has_changes, is_held, has_errors });
    }
    plan.steps.retain(|step| filter.matches(&step.key));
    let remarks = Remarks {
        verification_failure: verification_failure.as_deref(),
        adoptions: adoptions(&plan)?,
        foreign_objects,
        cascading_deletions,
        member_changes,
    };
    let text = match args.output {
        PlanFormat::Markdown => plan::markdown(&plan, &remarks),
        PlanFormat::Text | PlanFormat::Json => plan::text(&plan, &remarks, style),
    };
    Ok(PrintedPlan { text, has_changes, is_held, has_errors })
}
