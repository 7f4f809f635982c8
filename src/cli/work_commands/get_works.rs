//! `get works`: the ManifestWorks on the hub, of all owners.

use clap::{Args, ValueEnum};
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::completion;
use super::created_work::{ANNOTATION_CREATED_BY, CREATE_WORK, owner};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::hub::{connect, runtime};
use crate::import::key_of_object;
use crate::output;
use crate::source_args::{Filter, FilterArgs, HubArgs, work_name};
use gitwork_core::model::name::{WorkKey, WorkName};
use gitwork_core::text::style::ColorMode;
use gitwork_core::text::table::{Cell, Table};
use gitwork_core::text::yaml;
use gitwork_hub::{fleet, retry_transient};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GetWorksArgs {
    /// Name of the ManifestWorks [default: all]
    #[arg(
        value_name = "NAME",
        value_parser = work_name,
        conflicts_with = "work",
        add = completion::works(),
    )]
    name: Option<WorkName>,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    hub: HubArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = WorksFormat::Table)]
    output: WorksFormat,
}

const EXAMPLES: &str = "\
Examples:
  gitwork get works                      list all ManifestWorks, with their owners
  gitwork get works web                  list the works of one name on all clusters
  gitwork get works --cluster 'edge-*' -o json

`gitwork status` and `gitwork tree` show more of the works that gitwork syncs from Git.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorksFormat {
    Table,
    Json,
    Yaml,
}

/// One ManifestWork of the list.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedWork {
    cluster: String,
    work: String,
    owner: String,
    manifests: usize,
    applied: String,
    available: String,
}

impl ListedWork {
    fn of(key: &WorkKey, object: Value) -> Option<Self> {
        let spec = object.pointer("/spec/workload/manifests").and_then(Value::as_array);
        let manifests = spec.map_or(0, Vec::len);
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let condition = |kind: &str| {
            let mut all = conditions.into_iter().flatten();
            let found = all.find(|one| one.get("type").and_then(Value::as_str) == Some(kind));
            let status = found.and_then(|one| one.get("status")).and_then(Value::as_str);
            status.unwrap_or_default().to_owned()
        };
        let (applied, available) = (condition("Applied"), condition("Available"));
        let work: DynamicObject = serde_json::from_value(object).ok()?;
        let annotations = work.metadata.annotations.as_ref();
        let mark = annotations.and_then(|all| all.get(ANNOTATION_CREATED_BY));
        let is_created = mark.is_some_and(|mark| mark == CREATE_WORK);
        let created = || is_created.then(|| "gitwork create work".to_owned());
        let owner = owner(&work).or_else(created).unwrap_or_default();
        let (cluster, work) = (key.cluster.to_string(), key.work.to_string());
        Some(Self { cluster, work, owner, manifests, applied, available })
    }
}

/// Runs `gitwork get works`.
pub fn get_works(args: &GetWorksArgs) -> Result<Exit, CommandError> {
    let mut filter_args = args.filter.clone();
    filter_args.work = args.name.as_ref().map(ToString::to_string).or(filter_args.work);
    let filter = filter_args.filter()?;
    let cluster = filter_args.one_cluster();
    let listed = runtime()?.block_on(async {
        let client = connect(&args.hub).await?;
        let list = || fleet::manifest_works(&client, cluster.as_ref(), |one| read(&filter, one));
        Ok::<_, CommandError>(retry_transient(list).await?)
    })?;
    let (mut works, mut keys) = (Vec::new(), Vec::new());
    for (key, work) in listed.into_iter().flatten() {
        works.extend(work);
        keys.push(key);
    }
    works.sort_by(|a: &ListedWork, b| (&a.cluster, &a.work).cmp(&(&b.cluster, &b.work)));
    if works.is_empty()
        && let Some(error) = filter_args.no_match(&filter, || keys.iter())
    {
        return Err(error);
    }
    match args.output {
        WorksFormat::Table => output::print(&table(&works))?,
        WorksFormat::Json => output::json(&json!({ "works": works }))?,
        WorksFormat::Yaml => output::print(&yaml::write(&json!({ "works": works })))?,
    }
    Ok(Exit::Done)
}

/// The name of a ManifestWork, and the work if it is selected.
fn read(filter: &Filter, object: Value) -> Option<(WorkKey, Option<ListedWork>)> {
    let key = key_of_object(&object)?;
    let work = if filter.matches(&key) { ListedWork::of(&key, object) } else { None };
    Some((key, work))
}

/// The works as a table.
fn table(works: &[ListedWork]) -> String {
    let header = ["CLUSTER", "WORK", "OWNER", "MANIFESTS", "APPLIED", "AVAILABLE"];
    let mut table = Table::new(&header);
    for work in works {
        let ListedWork { cluster, work, owner, manifests, applied, available } = work;
        let texts = [cluster, work, owner, &manifests.to_string(), applied, available];
        table.add(texts.map(|text| Cell::new(text)).into());
    }
    table.lines(output::width(), ColorMode::Colored).join("\n") + "\n"
}
