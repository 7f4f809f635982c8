//! `explain`: from a work or an object back to file, line and commit, and forward to the reason why it is not there.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::compare::{OnHub, plan_of};
use super::read_args::{Operated, ReadArgs};
use super::source_args::HubArgs;
use super::view_args::ViewFormat;
use super::{Exit, Failure, output, runtime};
use crate::core::desired::Desired;
use crate::core::diagnostic::{Diagnostic, Scope, Severity};
use crate::core::explain::answer::HubFacts;
use crate::core::explain::origin::{self, Origins};
use crate::core::explain::target::Candidate;
use crate::core::explain::{
    self, CommitNote, Explanation, Facts, GitSide, HubSide, Place, Problem, Reach, Target,
};
use crate::core::name::{ObjectId, RepoPath, SourceId, WorkKey};
use crate::core::observed::ObservedWork;
use crate::core::plan::Step;
use crate::core::report::Style;
use crate::core::schema::closest;
use crate::core::status::print::Layout;
use crate::core::status::tree::{ObjectStatus, WorkTree};
use crate::core::yaml;
use crate::daemon::guards::GuardOptions;
use crate::git::CommitFacts;
use crate::hub::fleet::{self, Selection};
use crate::hub::{Hub, KubeHub};
use crate::source::{Read, Source};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// A work, or one object of it: `kind/namespace/name`, or any shorter form that fits just one
    #[arg(value_name = "CLUSTER/WORK[/OBJECT]")]
    what: String,
    #[command(flatten)]
    source: ReadArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ViewFormat::Table)]
    output: ViewFormat,
}

const EXAMPLES: &str = "\
Without a hub it tells what Git says; with one (KUBECONFIG, --kubeconfig) also what became of it.

Examples:
  gitwork explain edge-7/web                              a work: its settings, objects and state
  gitwork explain edge-7/web/deployment/shop/web          one object: file, line, commit, state
  gitwork explain edge-7/web/database                     a shorter name will do where it fits one object
  gitwork explain edge-7/web -o json | jq -r .answer.reason";

/// Problems that an explanation tells.
const PROBLEMS_MAX: usize = 20;

pub fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let target = Target::parse(&args.what).map_err(|why| Failure::usage(why.to_string()))?;
    let Operated { mut config, guards, .. } = args.source.operated()?;
    let runtime = runtime()?;
    let seen = runtime.block_on(look(&args.hub, &target.key));
    // A clone on a laptop has another default id than what the daemon reads: the hub knows the right one.
    if !args.source.names_source()
        && let Some(id) = seen.as_ref().ok().and_then(|seen| seen.source_of(&target.key))
    {
        config.id = id;
    }
    let path = config.path.clone();
    let mut git = InGit::read(Source::open(config).map_err(Failure::new)?, &target.key)?;
    let step = match &seen {
        Ok(seen) => runtime.block_on(seen.step(&mut git, &target.key, guards))?,
        Err(_) => None,
    };
    let tree = seen.as_ref().ok().and_then(|seen| seen.tree(&target.key));
    let chosen = match (&target.object, git.origins.is_some() || tree.is_some()) {
        (Some(query), true) => Some(choose(query, &target.key, git.origins.as_ref(), tree)?),
        _ => None,
    };
    let reach = seen.as_ref().map_or(Reach::Unknown, |seen| seen.reach);
    let facts = HubFacts { step: step.as_ref(), work: tree, object: None, reach };
    let hub = seen.as_ref().ok().map(|_| facts);
    let mut explanation = assemble(&target.key, &mut git, chosen.as_ref(), hub)?;
    explanation.hub_unknown = seen.as_ref().err().cloned();
    explanation.tell_from_root(&path);
    print(args, &explanation)?;
    let named = args.hub.kubeconfig.is_some() || args.hub.context.is_some();
    let unknown = git.origins.is_none() && tree.is_none() && step.is_none();
    let failed = unknown || (named && explanation.hub.is_none());
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn print(args: &ExplainArgs, explanation: &Explanation) -> Result<(), Failure> {
    let layout = Layout {
        wide: args.output == ViewFormat::Wide,
        width: output::width().filter(|_| args.output == ViewFormat::Table),
        style: Style::Coloured,
        now: Timestamp::now(),
    };
    match args.output {
        ViewFormat::Table | ViewFormat::Wide => output::print(&explain::text(explanation, &layout)),
        ViewFormat::Json => output::json(&json!(explanation)),
        ViewFormat::Yaml => output::print(&yaml::write(&json!(explanation))),
    }
}

/// The object that is meant.
struct Chosen {
    name: String,
    /// Its index among those of Git.
    in_git: Option<usize>,
    on_hub: Option<ObjectStatus>,
}

/// Finds it among the objects of Git, and those that only the hub still has.
fn choose(
    query: &explain::ObjectQuery,
    key: &WorkKey,
    origins: Option<&Origins>,
    tree: Option<&WorkTree>,
) -> Result<Chosen, Failure> {
    let of_git = origins.map_or(&[][..], |origins| &origins.objects);
    let mut candidates: Vec<Candidate<'_>> = Vec::new();
    for object in of_git {
        let identity = &object.identity;
        candidates.push(Candidate {
            kind: &object.kind,
            resource: &identity.resource,
            namespace: &identity.namespace,
            name: &identity.name,
        });
    }
    let of_hub = tree.map_or(&[][..], |tree| &tree.objects);
    for object in of_hub {
        let (kind, namespace, name) = (&*object.kind, &*object.namespace, &*object.name);
        let same =
            |one: &Candidate<'_>| (one.kind, one.namespace, one.name) == (kind, namespace, name);
        if !candidates.iter().any(same) {
            candidates.push(Candidate { kind, resource: "", namespace, name });
        }
    }
    let index = query.find(key, &candidates).map_err(Failure::new)?;
    let in_git = (index < of_git.len()).then_some(index);
    let meant = candidates.get(index);
    let on_hub = of_hub.iter().find(|object| {
        meant.is_some_and(|meant| {
            (meant.kind, meant.namespace, meant.name)
                == (object.kind.as_str(), object.namespace.as_str(), object.name.as_str())
        })
    });
    let git_name = in_git.and_then(|index| of_git.get(index)).map(origin::name);
    let name = git_name.or_else(|| on_hub.map(ToString::to_string)).unwrap_or_default();
    Ok(Chosen { name, in_git, on_hub: on_hub.cloned() })
}

/// What Git has of a work.
struct InGit {
    source: Source,
    read: Read,
    origins: Option<Origins>,
}

impl InGit {
    fn read(mut source: Source, key: &WorkKey) -> Result<Self, Failure> {
        let read = source.read(&Arc::new(AtomicBool::new(false))).map_err(Failure::new)?;
        let origins = source
            .with_snapshot(&read, |snapshot, kinds| explain::origins(snapshot, kinds, key))
            .map_err(Failure::new)?;
        Ok(Self { source, read, origins })
    }

    /// The tree or blob at a path, of what was read.
    fn entry(&mut self, path: &RepoPath) -> Result<Option<ObjectId>, Failure> {
        let entry = self.source.with_snapshot(&self.read, |snapshot, _| snapshot.entry(path));
        entry.map_err(Failure::new)
    }
}

fn assemble(
    key: &WorkKey,
    git: &mut InGit,
    chosen: Option<&Chosen>,
    hub: Option<HubFacts<'_>>,
) -> Result<Explanation, Failure> {
    let desired = git.read.desired.clone();
    let mut side = GitSide {
        source: desired.source.to_string(),
        commit: desired.commit.map(|commit| commit.to_string()),
        problems: problems(&desired, key),
        ..GitSide::default()
    };
    let in_git = chosen.and_then(|chosen| chosen.in_git);
    if let Some(origins) = &git.origins {
        side.folder = Some(origins.folder.clone());
        let manifest = in_git.and_then(|index| origins.objects.get(index));
        side.place = manifest.map(origin::place_of);
        if chosen.is_none() || manifest.is_some() {
            side.settings = origins.settings_of(in_git).to_vec();
        }
        side.objects = if chosen.is_none() { origins.places() } else { Vec::new() };
    }
    add_history(&mut side, git, key)?;
    let object = chosen.map(|chosen| chosen.name.as_str());
    let on_hub = chosen.and_then(|chosen| chosen.on_hub.as_ref());
    let hub = hub.map(|hub| HubFacts { object: on_hub, ..hub });
    let near = near(&desired, key);
    let answer = Facts { key, object, git: &side, near: near.as_ref(), hub }.answer();
    let told = |hub: HubFacts<'_>| HubSide { work: hub.work.cloned(), object: on_hub.cloned() };
    Ok(Explanation {
        cluster: key.cluster.to_string(),
        work: key.work.to_string(),
        object: object.map(str::to_owned),
        answer,
        git: side,
        hub: hub.map(told).map(|mut side| {
            // Each object has its own explanation.
            if let Some(tree) = side.work.as_mut().filter(|_| chosen.is_some()) {
                tree.objects.clear();
            }
            side
        }),
        hub_unknown: None,
    })
}

/// Who changed the file or folder last, or removed it.
fn add_history(side: &mut GitSide, git: &mut InGit, key: &WorkKey) -> Result<(), Failure> {
    let gone = || RepoPath::parse(&format!("clusters/{}/{}", key.cluster, key.work));
    let path = side.place.as_ref().map(|place| place.file.clone()).or_else(|| side.folder.clone());
    let Some(path) = path.or_else(gone) else { return Ok(()) };
    let history = git.source.history_of(&path, &AtomicBool::new(false)).map_err(Failure::new)?;
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

fn problems(desired: &Desired, key: &WorkKey) -> Vec<Problem> {
    let about = |found: &&Diagnostic| match &found.scope {
        Scope::Work(work) => work == key,
        Scope::Cluster(cluster) => *cluster == key.cluster,
        Scope::Source => found.is_error(),
    };
    let told = |found: &Diagnostic| Problem {
        code: found.code.id(),
        error: found.is_error(),
        place: Place::of(&found.location),
        message: found.message.clone(),
    };
    let all = desired.diagnostics.iter().filter(|found| found.severity != Severity::Info);
    all.filter(about).take(PROBLEMS_MAX).map(told).collect()
}

/// The work of Git whose name is nearest: another one of the cluster, or one of that name on another cluster.
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

/// What the hub shows.
struct Seen {
    hub: KubeHub,
    /// Every ManifestWork; absent where somebody may read one namespace only.
    works: Option<Vec<ObservedWork>>,
    /// The works of the cluster.
    trees: Vec<WorkTree>,
    reach: Reach,
}

/// Looks at the hub, or says why that cannot be done.
async fn look(args: &HubArgs, key: &WorkKey) -> Result<Seen, String> {
    let client = super::run::client(args).await.map_err(|failure| failure.message)?;
    let home = args.namespace().to_owned();
    let selection = Selection { source: None, cluster: Some(key.cluster.clone()), home };
    let fleet = fleet::fleet(&client, &selection).await.map_err(|error| error.to_string())?;
    let reach = fleet::reach_of(&client, &key.cluster).await;
    let hub = KubeHub::new(client).in_namespace(args.namespace());
    let works = match hub.list(None).await {
        Ok(works) => Some(works),
        Err(why) => {
            output::note(&format!("what is planned for the work is not known: {why}"));
            None
        }
    };
    Ok(Seen { hub, works, trees: fleet.works, reach })
}

impl Seen {
    /// The source that the work belongs to; where the hub does not have it, the only source that there is.
    fn source_of(&self, key: &WorkKey) -> Option<SourceId> {
        let works = self.works.as_ref()?;
        let of_work =
            works.iter().find(|work| work.key == *key).and_then(|work| work.source.as_ref());
        let mut all: Vec<&String> = works.iter().filter_map(|work| work.source.as_ref()).collect();
        all.sort();
        all.dedup();
        let only = match all.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        SourceId::parse(of_work.or(only)?).ok()
    }

    fn tree(&self, key: &WorkKey) -> Option<&WorkTree> {
        self.trees.iter().find(|tree| tree.work.work == key.work.as_str())
    }

    /// What is planned for the work.
    async fn step(
        &self,
        git: &mut InGit,
        key: &WorkKey,
        guards: GuardOptions,
    ) -> Result<Option<Step>, Failure> {
        let Some(works) = &self.works else { return Ok(None) };
        let desired = git.read.desired.clone();
        let on_hub = OnHub::of(&self.hub, &desired.source, works.clone()).await;
        let (now, cancel) = (Timestamp::now(), AtomicBool::new(false));
        let (plan, _) = plan_of(&git.source, &desired, on_hub, guards, now, &cancel)?;
        Ok(plan.steps.into_iter().find(|step| step.key == *key))
    }
}
