//! `explain`: the file, line and commit of a work or an object, and its state on the cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::compare::plan_of;
use super::completion;
use super::error::CommandError;
use super::exit::Exit;
use super::explain_code::{code_named, explain_code};
use super::hub::runtime;
use super::hub_state::HubState;
use super::output;
use super::read_args::{ConfiguredSource, ReadArgs, is_unknown};
use super::source_args::HubArgs;
use super::sources::sources;
use super::view_args::ViewFormat;
use gitwork_core::limits::EXPLANATION_BYTES_MAX;
use gitwork_core::model::diagnostic::{Diagnostic, Scope, Severity};
use gitwork_core::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkKey};
use gitwork_core::model::object_digest::ObjectDigest;
use gitwork_core::model::operation_error::describe;
use gitwork_core::plan::moves::ObjectMove;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::plan::{Plan, Reason};
use gitwork_core::render::desired::Desired;
use gitwork_core::render::origin::{self, OriginQuery, Origins};
use gitwork_core::render::setting::FileLine;
use gitwork_core::text::closest;
use gitwork_core::text::style::ColorMode;
use gitwork_core::text::yaml;
use gitwork_git::CommitFacts;
use gitwork_hub::fleet;
use gitwork_hub::fleet::Selection;
use gitwork_hub::{Hub, KubeHub, RetryingHub, retry_transient};
use gitwork_report::explain;
use gitwork_report::explain::conclusion::HubInputs;
use gitwork_report::explain::target::ObjectCandidate;
use gitwork_report::explain::{
    ClusterReachability, CommitNote, ExplainInputs, ExplainTarget, Explanation, GitProblem,
    GitSide, HubSide,
};
use gitwork_report::status::print::Layout;
use gitwork_report::status::source_report::ReportedSource;
use gitwork_report::status::tree::{ObjectStatus, WorkTree};
use gitwork_source::{Source, SourceState};
use gitwork_sync::guards::GuardOptions;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Work, or one of its objects as `kind/namespace/name` or any shorter unambiguous form; or the
    /// code of a diagnostic
    #[arg(value_name = "CLUSTER/WORK[/OBJECT]|CODE", add = completion::explained())]
    what: String,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ViewFormat::Table)]
    output: ViewFormat,
}

const EXAMPLES: &str = "\
Without a hub, explain shows Git only. With one (KUBECONFIG, --kubeconfig) it also shows the state.

Examples:
  gitwork explain edge-7/web                              a work: its settings, objects and state
  gitwork explain edge-7/web/deployment/shop/web          one object: file, line, commit, state
  gitwork explain edge-7/web/database                     a shorter name, if it matches one object
  gitwork explain edge-7/web -o json | jq -r .answer.reason
  gitwork explain GW403                                   what a diagnostic means and what to do";

/// Problems that an explanation shows.
const PROBLEMS_MAX: usize = 20;

/// Runs `gitwork explain`.
pub fn explain(args: &ExplainArgs) -> Result<Exit, CommandError> {
    if let Some(code) = code_named(&args.what)? {
        return explain_code(code, args.output).map(|()| Exit::Done);
    }
    let target =
        ExplainTarget::parse(&args.what).map_err(|why| CommandError::usage(describe(&why)))?;
    let mut configured = args.source.configured_source()?;
    let runtime = runtime()?;
    let observed = runtime.block_on(observe(&args.hub, &target.key));
    if let Some(works) = observed.as_ref().ok().and_then(|hub| hub.works.as_ref()) {
        configured.take_id_from_hub(works, Some(&target.key));
    }
    let path = configured.config.path.clone();
    let hub = observed.is_ok().then_some(&args.hub);
    let mut git = GitState::read(&configured, hub, &target.key)?;
    let guards = configured.guards;
    let plan = match &observed {
        Ok(hub) => runtime.block_on(hub.plan(&mut git, guards))?,
        Err(_) => Plan::default(),
    };
    let step = plan.steps.get(&target.key);
    let tree = observed.as_ref().ok().and_then(|hub| hub.tree(&target.key));
    let selected = match (&target.object, git.origins.is_some() || tree.is_some()) {
        (Some(query), true) => Some(select(query, &target.key, git.origins.as_ref(), tree)?),
        _ => None,
    };
    let moving = selected.as_ref().and_then(|object| moving(&plan, &target.key, object));
    let reach = observed.as_ref().map_or(ClusterReachability::Unknown, |hub| hub.reachability);
    let source = &git.read.desired.source;
    let source_error = observed.as_ref().ok().and_then(|hub| hub.source_error(source));
    let facts = HubInputs { step, work: tree, object: None, moving, reach, source_error };
    let hub = observed.as_ref().ok().map(|_| facts);
    let mut explanation = assemble(&target.key, &mut git, selected.as_ref(), hub)?;
    explanation.hub_unknown = observed.as_ref().err().map(CommandError::message);
    explanation.prefix_paths(&path);
    explanation.limit(EXPLANATION_BYTES_MAX);
    print(args, &explanation)?;
    let named = args.hub.kubeconfig.is_some() || args.hub.context.is_some();
    let unknown = git.origins.is_none() && tree.is_none() && step.is_none();
    let failed = unknown || (named && explanation.hub.is_none());
    Ok(match failed {
        true if is_nowhere(&explanation, &git.read.desired, &target.key) => Exit::Usage,
        true => Exit::Failed,
        false => Exit::Done,
    })
}

/// Whether neither Git, now or before, nor the hub has a work of this name, which may be misspelt.
fn is_nowhere(explanation: &Explanation, desired: &Desired, key: &WorkKey) -> bool {
    let may_hide =
        |found: &&Diagnostic| is_unknown(found) && matches!(found.scope, Scope::Group(_));
    explanation.answer.reason == "NotInGit"
        && !desired.frozen.may_contain(key, None)
        && !desired.diagnostics.iter().any(|found| may_hide(&found))
}

fn print(args: &ExplainArgs, explanation: &Explanation) -> Result<(), CommandError> {
    let layout = Layout {
        wide: args.output == ViewFormat::Wide,
        width: output::width().filter(|_| args.output == ViewFormat::Table),
        style: ColorMode::Colored,
        now: Timestamp::now(),
    };
    match args.output {
        ViewFormat::Table | ViewFormat::Wide => output::print(&explain::text(explanation, &layout)),
        ViewFormat::Json => output::json(&json!(explanation)),
        ViewFormat::Yaml => output::print(&yaml::write(&json!(explanation))),
    }
}

/// The object that the query selects.
struct SelectedObject {
    name: String,
    digest: Option<ObjectDigest>,
    /// Its index among those of Git.
    in_git: Option<usize>,
    on_hub: Option<ObjectStatus>,
}

/// Finds the object among those of Git and those that only the hub still has.
fn select(
    query: &explain::ObjectQuery,
    key: &WorkKey,
    origins: Option<&Origins>,
    tree: Option<&WorkTree>,
) -> Result<SelectedObject, CommandError> {
    let of_git = origins.map_or(&[][..], |origins| &origins.objects);
    let mut candidates: Vec<ObjectCandidate<'_>> = Vec::new();
    for object in of_git {
        let identity = &object.identity;
        candidates.push(ObjectCandidate {
            kind: &object.kind,
            resource: &identity.resource,
            namespace: &identity.namespace,
            name: &identity.name,
        });
    }
    let of_hub = tree.map_or(&[][..], |tree| &tree.objects);
    for object in of_hub {
        let (kind, namespace, name) = (&*object.kind, &*object.namespace, &*object.name);
        let same = |one: &ObjectCandidate<'_>| {
            (one.kind, one.namespace, one.name) == (kind, namespace, name)
        };
        if !candidates.iter().any(same) {
            candidates.push(ObjectCandidate { kind, resource: "", namespace, name });
        }
    }
    let index = query.find(key, &candidates)?;
    let in_git = (index < of_git.len()).then_some(index);
    let meant = candidates.get(index);
    let on_hub = of_hub.iter().find(|object| {
        meant.is_some_and(|meant| {
            (meant.kind, meant.namespace, meant.name)
                == (object.kind.as_str(), object.namespace.as_str(), object.name.as_str())
        })
    });
    let manifest = in_git.and_then(|index| of_git.get(index));
    let name = manifest.map(origin::name).or_else(|| on_hub.map(ToString::to_string));
    let digest = match (manifest, on_hub) {
        (Some(manifest), _) => ObjectDigest::of_manifest(&manifest.object),
        (None, Some(object)) => Some(object.digest()),
        (None, None) => None,
    };
    let on_hub = on_hub.cloned();
    Ok(SelectedObject { name: name.unwrap_or_default(), digest, in_git, on_hub })
}

/// The move of the object, if it is between two works of the cluster.
fn moving<'a>(plan: &'a Plan, key: &WorkKey, object: &SelectedObject) -> Option<&'a ObjectMove> {
    let steps = plan.steps.iter().filter(|step| step.key.cluster == key.cluster);
    let moves = steps.filter_map(|step| match &step.reason {
        Reason::MovesObjects { moves } => Some(moves.iter()),
        _ => None,
    });
    let mut of_work = moves.flatten().filter(|one| one.from == *key || one.to == *key);
    of_work.find(|one| Some(one.digest) == object.digest)
}

/// The source, and Git's side of one work.
struct GitState {
    source: Source,
    read: SourceState,
    origins: Option<Origins>,
}

impl GitState {
    /// `hub`: the one that tells the facts of clusters, if they are needed.
    fn read(
        configured: &ConfiguredSource,
        hub: Option<&HubArgs>,
        key: &WorkKey,
    ) -> Result<Self, CommandError> {
        // A plan needs all works, and so does the search for similar names.
        if hub.is_none() {
            let state = Self::read_clusters(configured, (hub, key), Some(&key.cluster))?;
            if state.read.desired.named_works().any(|one| one == key) {
                return Ok(state);
            }
        }
        Self::read_clusters(configured, (hub, key), None)
    }

    /// Reads a source: one cluster as far as the others do not matter to it, or all.
    fn read_clusters(
        configured: &ConfiguredSource,
        (hub, key): (Option<&HubArgs>, &WorkKey),
        only: Option<&ClusterName>,
    ) -> Result<Self, CommandError> {
        let mut source = sources().open(configured.config.clone())?;
        if let Some(cluster) = only.cloned() {
            source = source.with_clusters(move |one| *one == cluster);
        }
        let cancel = Arc::new(AtomicBool::new(false));
        let mut read = source.read(&cancel)?;
        if read.desired.needed_facts.is_some()
            && let Some(facts) = configured.missing_facts(hub)
        {
            source.set_facts(facts);
            read = source.read(&cancel)?;
        }
        let facts = source.config().facts.clone();
        let folder = read.desired.folder_of(key);
        let origins = source.snapshots().with_files(&read, |snapshot, kinds| {
            let (facts, folder) = (facts.as_deref(), folder.as_ref());
            origin::origins(snapshot, OriginQuery { kinds, facts, key, folder })
        })?;
        Ok(Self { source, read, origins })
    }

    /// The tree or blob at a path in the last read.
    fn entry(&mut self, path: &RepoPath) -> Result<Option<ObjectId>, CommandError> {
        let mut snapshots = self.source.snapshots();
        Ok(snapshots.with_files(&self.read, |snapshot, _| snapshot.entry(path))?)
    }
}

fn assemble(
    key: &WorkKey,
    git: &mut GitState,
    selected: Option<&SelectedObject>,
    hub: Option<HubInputs<'_>>,
) -> Result<Explanation, CommandError> {
    let desired = git.read.desired.clone();
    let mut side = GitSide {
        source: desired.source.to_string(),
        commit: desired.commit.map(|commit| commit.to_string()),
        problems: problems(&desired, key),
        ..GitSide::default()
    };
    let in_git = selected.and_then(|selected| selected.in_git);
    if let Some(origins) = &git.origins {
        side.folder = Some(origins.folder.clone());
        let manifest = in_git.and_then(|index| origins.objects.get(index));
        side.place = manifest.map(origin::place_of);
        if selected.is_none() || manifest.is_some() {
            side.settings = origins.settings_of(in_git).to_vec();
        }
        side.objects = if selected.is_none() { origins.places() } else { Vec::new() };
    }
    add_history(&mut side, git, key)?;
    let object = selected.map(|selected| selected.name.as_str());
    let on_hub = selected.and_then(|selected| selected.on_hub.as_ref());
    let hub = hub.map(|hub| HubInputs { object: on_hub, ..hub });
    let near = near(&desired, key);
    let answer = ExplainInputs { key, object, git: &side, near: near.as_ref(), hub }.answer();
    let hub_side =
        |hub: HubInputs<'_>| HubSide { work: hub.work.cloned(), object: on_hub.cloned() };
    Ok(Explanation {
        cluster: key.cluster.to_string(),
        work: key.work.to_string(),
        object: object.map(str::to_owned),
        answer,
        git: side,
        hub: hub.map(hub_side).map(|mut side| {
            // Each object has its own explanation.
            if let Some(tree) = side.work.as_mut().filter(|_| selected.is_some()) {
                tree.objects.clear();
            }
            side
        }),
        hub_unknown: None,
        omitted: 0,
    })
}

/// Adds the commit that last changed or removed the file or folder.
fn add_history(side: &mut GitSide, git: &mut GitState, key: &WorkKey) -> Result<(), CommandError> {
    let gone = || RepoPath::parse(&format!("clusters/{}/{}", key.cluster, key.work));
    let path = side.place.as_ref().map(|place| place.file.clone()).or_else(|| side.folder.clone());
    let Some(path) = path.or_else(gone) else { return Ok(()) };
    let history = git.source.history().of_path(&path, &AtomicBool::new(false))?;
    let note = |facts: CommitFacts| {
        let author = format!("{} <{}>", facts.author_name, facts.author_email);
        CommitNote::new(facts.id.to_string(), author, facts.committed_seconds, facts.summary)
    };
    side.last_change = history.last_change.map(note);
    if git.read.desired.commit.is_none() && side.folder.is_some() {
        side.uncommitted = git.entry(&path)? != history.committed;
    }
    side.removed_by = history.removed_by.map(note).filter(|_| side.folder.is_none());
    Ok(())
}

fn problems(desired: &Desired, key: &WorkKey) -> Vec<GitProblem> {
    let about = |found: &&Diagnostic| match &found.scope {
        Scope::Work(work) => work == key,
        Scope::Cluster(cluster) => *cluster == key.cluster,
        Scope::Source => found.is_error(),
        // An error of a group that may have the cluster keeps its works.
        Scope::Group(group) => {
            let members = desired.frozen.groups.get(group);
            members.is_some_and(|members| members.contains(&key.cluster))
        }
    };
    let problem = |found: &Diagnostic| GitProblem {
        code: found.code.id(),
        error: found.is_error(),
        place: FileLine::of(&found.location),
        message: found.message.clone(),
    };
    let all = desired.diagnostics.iter().filter(|found| found.severity != Severity::Info);
    all.filter(about).take(PROBLEMS_MAX).map(problem).collect()
}

/// The work in Git with the most similar name: on the same cluster, or with the same name on
/// another cluster.
fn near(desired: &Desired, key: &WorkKey) -> Option<WorkKey> {
    let keys = || desired.works.keys();
    let of_cluster = keys().filter(|other| other.cluster == key.cluster);
    if let Some(work) = closest(key.work.as_str(), of_cluster.map(|other| other.work.as_str())) {
        return keys()
            .find(|other| other.cluster == key.cluster && other.work.as_str() == work)
            .cloned();
    }
    let of_name = keys().filter(|other| other.work == key.work);
    let cluster = closest(key.cluster.as_str(), of_name.map(|other| other.cluster.as_str()))?;
    keys().find(|other| other.work == key.work && other.cluster.as_str() == cluster).cloned()
}

/// The hub's side of the explanation.
struct ObservedHub {
    hub: RetryingHub<KubeHub>,
    /// Every ManifestWork; `None` if the user may read one namespace only.
    works: Option<Vec<ObservedWork>>,
    /// The works of the cluster.
    trees: Vec<WorkTree>,
    reachability: ClusterReachability,
    /// What the daemon reports of the sources, if the user may read it.
    reports: Vec<ReportedSource>,
}

/// Reads the hub's side of one work.
async fn observe(args: &HubArgs, key: &WorkKey) -> Result<ObservedHub, CommandError> {
    let client = super::hub::connect(args).await?;
    let home = args.namespace().to_owned();
    let selection = Selection { source: None, cluster: Some(key.cluster.clone()), home };
    let fleet = retry_transient(|| fleet::fleet(&client, &selection)).await?;
    let reachability = fleet::reach_of(&client, &key.cluster).await;
    let hub = RetryingHub::new(KubeHub::new(client).in_namespace(args.namespace()));
    let works = match hub.list(None).await {
        Ok(works) => Some(works),
        Err(why) => {
            output::note_failure("cannot plan the work", &why);
            None
        }
    };
    let reports = fleet.reports.unwrap_or_default();
    Ok(ObservedHub { hub, works, trees: fleet.works, reachability, reports })
}

impl ObservedHub {
    fn tree(&self, key: &WorkKey) -> Option<&WorkTree> {
        self.trees.iter().find(|tree| tree.work.work == key.work.as_str())
    }

    /// Why the daemon does not apply the newest commit of a source, as it reports.
    fn source_error(&self, source: &SourceId) -> Option<&str> {
        let of_source = self.reports.iter().find(|report| report.source == source.as_str());
        of_source?.report.error.as_deref()
    }

    /// The plan; empty if the user may not list all works.
    async fn plan(&self, git: &mut GitState, guards: GuardOptions) -> Result<Plan, CommandError> {
        let Some(works) = &self.works else { return Ok(Plan::default()) };
        let desired = git.read.desired.clone();
        let on_hub = HubState::read(&self.hub, &desired.source, works.clone()).await;
        let (now, cancel) = (Timestamp::now(), Arc::new(AtomicBool::new(false)));
        let desired = (&desired, git.read.is_signed);
        let planned = plan_of(&mut git.source, desired, on_hub, guards, now, &cancel);
        let (plan, _) = planned.await?;
        Ok(plan)
    }
}
