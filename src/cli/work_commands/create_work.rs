//! `create work`: the same objects on several clusters, as one ManifestWork on each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::completion;
use super::created_work::{
    ANNOTATION_PLACEMENT, WorkOnHub, act_on_newest, marks, new_work, read, read_all, request,
};
use super::work_command_error::WorkCommandError;
use crate::error::{CommandError, did_you_mean};
use crate::exit::Exit;
use crate::hub::{connect, runtime, works};
use crate::import::{Draft, ForeignWork, WorkFiles, is_manifest_work, read_all_objects};
use crate::output;
use crate::source_args::{HubArgs, cluster_name, work_name};
use gitwork_core::model::facts::PlacementKey;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_core::model::operation_error::describe;
use gitwork_core::model::work::MANAGER;
use gitwork_core::model::work_digest::digest;
use gitwork_core::plan::adoption;
use gitwork_core::text::closest;
use gitwork_core::text::style::ColorMode;
use gitwork_hub::{facts, fleet, retry_transient};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CreateWorkArgs {
    /// Name of the ManifestWork
    #[arg(value_name = "NAME", value_parser = work_name)]
    name: WorkName,
    /// File with manifests, as YAML or JSON; `-` is stdin (can be repeated)
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Clusters, separated by commas
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = cluster_name,
        add = completion::cluster_list(),
        required_unless_present = "placement",
        conflicts_with = "placement"
    )]
    clusters: Vec<ClusterName>,
    /// Placement that selects the clusters
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = placement)]
    placement: Option<PlacementKey>,
    /// Show the changes of each work
    #[arg(long)]
    diff: bool,
    /// Have the hub check the works without writing them
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    hub: HubArgs,
}

const EXAMPLES: &str = "\
Examples:
  gitwork create work web -f web.yaml --clusters edge-1,edge-2 --dry-run --diff
                                                     show what would change
  gitwork create work web -f web.yaml --clusters edge-1,edge-2
                                                     create the work, or update it
  gitwork create work web -f web.yaml --placement default/stores
                                                     on the clusters of a Placement

A ManifestWork of another owner with the same name is an error. Then nothing is written.";

fn placement(text: &str) -> Result<PlacementKey, &'static str> {
    PlacementKey::try_from(text.to_owned())
}

/// Runs `gitwork create work`.
pub fn create_work(args: &CreateWorkArgs) -> Result<Exit, CommandError> {
    let spec = spec_of(args)?;
    runtime()?.block_on(async {
        let client = connect(&args.hub).await?;
        let clusters = clusters(args, &client).await?;
        if clusters.is_empty() {
            output::note("the Placement selects no cluster; nothing is created");
        }
        let there = read_all(&client, &clusters, &args.name).await?;
        if report_conflicts(&there) {
            return Ok(Exit::Failed);
        }
        let mut failed = false;
        for (key, there) in there {
            let act = async |there: &WorkOnHub| write(args, &client, (&key, there), &spec).await;
            match act_on_newest(there, act, async || read(&client, &key).await).await {
                Ok(text) => output::print(&text)?,
                Err(why) => {
                    output::error(&describe(&why));
                    failed = true;
                }
            }
        }
        if let Some(placement) = &args.placement {
            note_left_clusters(&client, (&args.name, placement), &clusters).await;
        }
        Ok(if failed { Exit::Failed } else { Exit::Done })
    })
}

/// The spec of the work, checked as gitwork checks a work folder.
fn spec_of(args: &CreateWorkArgs) -> Result<Value, CommandError> {
    let mut objects = Vec::new();
    for (path, object) in read_all_objects(&args.files)? {
        if is_manifest_work(&object) {
            return Err(WorkCommandError::ManifestWork { path: path.clone() }.into());
        }
        objects.push(object);
    }
    if objects.is_empty() {
        return Err(WorkCommandError::NoObject.into());
    }
    let cluster =
        ClusterName::parse("cluster").map_err(|why| CommandError::usage(why.to_string()))?;
    let key = WorkKey { cluster, work: args.name.clone() };
    let work = ForeignWork::of_objects(key, objects);
    let (_, problem) = Draft::default().check(&work, WorkFiles::of(&work))?;
    match problem {
        Some(problem) => Err(WorkCommandError::Invalid { problem }.into()),
        None => Ok(work.spec),
    }
}

/// The clusters of the arguments, sorted.
async fn clusters(
    args: &CreateWorkArgs,
    client: &Client,
) -> Result<Vec<ClusterName>, CommandError> {
    let Some(placement) = &args.placement else {
        let all: BTreeSet<ClusterName> = args.clusters.iter().cloned().collect();
        return Ok(all.into_iter().collect());
    };
    let time = Timestamp::now();
    let facts = retry_transient(|| facts::list(client, time)).await?;
    let placement = placement.clone();
    let Some(found) = facts.placements.get(&placement) else {
        let names: Vec<String> = facts.placements.keys().map(ToString::to_string).collect();
        let near = closest(&placement.to_string(), names.iter().map(String::as_str));
        let near = did_you_mean(near);
        return Err(WorkCommandError::NoPlacement { placement, near }.into());
    };
    let selected = found.selected();
    match selected.inconsistency {
        Some(problem) => Err(WorkCommandError::Undecided { placement, problem }.into()),
        None => Ok(selected.clusters.into_iter().cloned().collect()),
    }
}

/// Reports the works that cannot be written. Returns whether there are any.
fn report_conflicts(there: &[(WorkKey, WorkOnHub)]) -> bool {
    let mut found = false;
    for (key, there) in there {
        let problem = match there {
            WorkOnHub::Foreign(owner) => format!("{key} belongs to {owner}"),
            WorkOnHub::Deleting => format!("{key} is being deleted; try again when it is gone"),
            WorkOnHub::Absent | WorkOnHub::Created(_) => continue,
        };
        output::error(&format!("{problem}; nothing is written"));
        found = true;
    }
    found
}

/// Creates or updates a work, and says what was done.
async fn write(
    args: &CreateWorkArgs,
    client: &Client,
    (key, there): (&WorkKey, &WorkOnHub),
    spec: &Value,
) -> Result<String, WorkCommandError> {
    let api = works(client.clone(), &key.cluster);
    let marks = marks(args.placement.as_ref().map(ToString::to_string).as_deref());
    let done = |done: &str, doing: &str| match args.dry_run {
        true => format!("would {doing} {key}\n"),
        false => format!("{done} {key}\n"),
    };
    let live = match there {
        WorkOnHub::Created(live) => live,
        WorkOnHub::Absent => {
            create(args, &api, key, new_work(key, spec, &marks)).await?;
            let shown = if args.diff { objects_of(spec) } else { String::new() };
            return Ok(done("created", "create") + &shown);
        }
        WorkOnHub::Deleting => return Err(WorkCommandError::Deleting { key: key.clone() }),
        WorkOnHub::Foreign(owner) => {
            return Err(WorkCommandError::Foreign { key: key.clone(), owner: owner.clone() });
        }
    };
    let before = live.data.get("spec").cloned().unwrap_or_default();
    let mut after = before.clone();
    after["workload"] = spec["workload"].clone();
    let annotations = live.metadata.annotations.clone().unwrap_or_default();
    let is_marked = marks.iter().all(|(key, value)| annotations.get(key) == Some(value));
    let none = BTreeMap::new();
    if is_marked && digest(before.clone(), &none, &none) == digest(after.clone(), &none, &none) {
        return Ok(format!("unchanged {key}\n"));
    }
    let patch = Patch::Merge(json!({
        "metadata": {
            "resourceVersion": live.metadata.resource_version,
            "annotations": marks,
        },
        "spec": { "workload": spec["workload"] },
    }));
    let field_manager = Some(MANAGER.into());
    let params = PatchParams { dry_run: args.dry_run, field_manager, ..PatchParams::default() };
    request(key, || api.patch(key.work.as_str(), &params, &patch)).await?;
    let changes = adoption::changes(before, after, ColorMode::Colored);
    let shown = if args.diff { indented(&changes) } else { String::new() };
    Ok(done("updated", "update") + &shown)
}

async fn create(
    args: &CreateWorkArgs,
    api: &Api<DynamicObject>,
    key: &WorkKey,
    work: Value,
) -> Result<(), WorkCommandError> {
    let failed = |source| WorkCommandError::Request { key: key.clone(), source };
    let work: DynamicObject =
        serde_json::from_value(work).map_err(|why| failed(kube::Error::SerdeError(why)))?;
    let params = PostParams { dry_run: args.dry_run, field_manager: Some(MANAGER.into()) };
    request(key, || api.create(&params, &work)).await.map(drop)
}

/// The objects of a new work, one on each line.
fn objects_of(spec: &Value) -> String {
    let none = json!({ "workload": { "manifests": [] } });
    indented(&adoption::changes(none, spec.clone(), ColorMode::Colored))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// Names the clusters that have the work although the Placement no longer selects them.
async fn note_left_clusters(
    client: &Client,
    (work, placement): (&WorkName, &PlacementKey),
    selected: &[ClusterName],
) {
    let placement = placement.to_string();
    let read = |object: Value| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let annotations = object.pointer("/metadata/annotations")?;
        let of = annotations.get(ANNOTATION_PLACEMENT).and_then(Value::as_str)?;
        let is_it = text("/metadata/name") == Some(work.as_str()) && of == placement;
        is_it.then(|| text("/metadata/namespace").map(str::to_owned))?
    };
    let found = match fleet::manifest_works(client, None, read).await {
        Ok(found) => found,
        Err(why) => {
            output::note_failure("cannot look for clusters that the Placement has left", &why);
            return;
        }
    };
    let is_left = |cluster: &String| !selected.iter().any(|one| one.as_str() == cluster);
    let left: BTreeSet<String> = found.into_iter().flatten().filter(is_left).collect();
    for cluster in left {
        output::note(&format!(
            "{cluster}/{work} stays, although the Placement {placement} does not select \
             {cluster}; to delete it: gitwork delete work {work} --clusters {cluster}"
        ));
    }
}
