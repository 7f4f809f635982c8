//! `examples/repo-layout`: it renders without a complaint, and shows every feature.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gitwork_api::work::manifest_work_spec_schema;
use gitwork_core::config::FileKind;
use gitwork_core::config::OCM_FIELDS;
use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::name::RepoPath;
use gitwork_core::model::work::DesiredWork;
use gitwork_core::text::yaml;
use serde_json::Value;

use crate::harness::{ClusterOptions, ControlPlane, apply_all, eventually};
use crate::memory_repository::{File, files_below, render};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/repo-layout")
}

fn works() -> Vec<Arc<DesiredWork>> {
    let desired = render(&files_below(&root()));
    assert_eq!(desired.diagnostics, Vec::<Diagnostic>::new());
    desired.works.values().cloned().collect()
}

/// The documents of a YAML file.
pub fn documents(path: &str, file: &File) -> Vec<Value> {
    let File::Bytes(bytes) = file else { panic!("{path} is no plain file") };
    let read = yaml::read(&RepoPath::parse(path).unwrap(), bytes, &Scope::Source);
    assert_eq!(read.diagnostics, Vec::<Diagnostic>::new());
    read.documents.into_iter().map(|document| document.value).collect()
}

fn manifests(spec: &Value) -> &Vec<Value> {
    spec.pointer("/workload/manifests").and_then(Value::as_array).unwrap()
}

/// What a reader looks for in one work.
fn facts(work: &DesiredWork) -> String {
    let spec = work.body.spec.value();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for manifest in manifests(&spec) {
        *kinds.entry(manifest["kind"].as_str().unwrap()).or_default() += 1;
    }
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(kind, count)| if count == 1 { kind.to_owned() } else { format!("{count} {kind}") })
        .collect();
    let mut text = format!("{} <- {}\n  {}\n", work.key, work.path, kinds.join(", "));
    writeln!(text, "  {}", work.delete_option.policy()).unwrap();
    if let Some(account) = spec.pointer("/executor/subject/serviceAccount") {
        let part = |name: &str| account[name].as_str().unwrap();
        writeln!(text, "  as {}/{}", part("namespace"), part("name")).unwrap();
    }
    for config in spec["manifestConfigs"].as_array().into_iter().flatten() {
        let object = &config["resourceIdentifier"];
        let rules: Vec<&str> = config
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .filter(|name| *name != "resourceIdentifier")
            .collect();
        let (resource, name) = (object["resource"].as_str().unwrap(), &object["name"]);
        writeln!(text, "  {resource}/{}: {}", name.as_str().unwrap(), rules.join(", ")).unwrap();
    }
    for (word, holds) in [("suspended", work.suspend), ("not pruned", !work.prune)] {
        if holds {
            writeln!(text, "  {word}").unwrap();
        }
    }
    text
}

#[test]
fn example_renders_without_diagnostics() {
    let text: String = works().iter().map(|work| facts(work)).collect();
    insta::assert_snapshot!("example_works", text);
}

/// Which kind of file a path is, if it is one that gitwork reads beside manifests.
pub fn kind_of(path: &str) -> Option<FileKind> {
    let name = path.rsplit('/').next().unwrap_or_default();
    match (path.matches('/').count(), name) {
        (0, "gitwork.yaml") => Some(FileKind::Source),
        (2, "cluster.yaml") => Some(FileKind::Cluster),
        (2, "group.yaml") => Some(FileKind::Group),
        (3, "work.yaml") => Some(FileKind::Work),
        _ => name.ends_with(".config.yaml").then_some(FileKind::Manifest),
    }
}

/// The fields of a configuration file, as pointers. What `defaults` holds are the fields of a work,
/// wherever they stand; OCM's fields have no properties here and are looked at in the rendered
/// works.
fn fields(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{at}/{name}");
        found.insert(at.clone());
        if !OCM_FIELDS.contains(&name.as_str()) {
            fields(field, &at, found);
        }
    }
}

/// The pointers of what is set in a document.
fn set_fields(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    for (name, field) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        set_fields(field, &at, found);
        found.insert(at);
    }
}

/// `defaults` of gitwork.yaml and cluster.yaml have one and the same fields.
fn shared(kind: FileKind, pointer: &str) -> String {
    if pointer.starts_with("/defaults/") {
        return pointer.to_owned();
    }
    format!("{}:{pointer}", kind.schema_name())
}

#[test]
fn example_sets_every_config_field() {
    let (mut known, mut set) = (BTreeSet::new(), BTreeSet::new());
    let repository = files_below(&root());
    for (path, file) in &repository {
        // Of a group, most fields need facts of a hub, which this repository has not.
        let Some(kind) = kind_of(path).filter(|kind| *kind != FileKind::Group) else { continue };
        let mut of_kind = BTreeSet::new();
        fields(&kind.schema(), "", &mut of_kind);
        known.extend(of_kind.iter().map(|pointer| shared(kind, pointer)));
        for document in documents(path, file) {
            let mut of_document = BTreeSet::new();
            set_fields(&document, "", &mut of_document);
            set.extend(of_document.iter().map(|pointer| shared(kind, pointer)));
        }
    }
    let kinds: BTreeSet<FileKind> = repository.keys().filter_map(|path| kind_of(path)).collect();
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    assert!(known.len() > 20, "the scan must see the fields: {known:?}");
    // A work.yaml or a cluster.yaml sets these; as a default for a whole fleet they would be a
    // strange example.
    for rare in ["deleteOption", "prune", "suspend"] {
        assert!(set.contains(&format!("work:/{rare}")));
        known.remove(&format!("/defaults/{rare}"));
    }
    // A default for all groups is as strange; a group's own is above.
    known.retain(|field| !field.starts_with("gitwork:/rollout"));
    let missing: Vec<&String> = known.difference(&set).collect();
    assert!(missing.is_empty(), "fields that the example does not show: {missing:#?}");
}

/// What a schema allows, and what of it `value` has: properties and the values of enumerations.
fn compare(schema: &Value, value: &Value, at: &str, seen: &mut BTreeMap<String, bool>) {
    for choice in schema.get("enum").and_then(Value::as_array).into_iter().flatten() {
        let entry = seen.entry(format!("{at} = {}", choice.as_str().unwrap())).or_default();
        *entry |= choice == value;
    }
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{at}/{name}");
        *seen.entry(at.clone()).or_default() |= value.get(name).is_some();
        compare(field, value.get(name).unwrap_or(&Value::Null), &at, seen);
    }
    if let Some(items) = schema.get("items") {
        let none = [Value::Null];
        for item in value.as_array().map_or(&none[..], Vec::as_slice) {
            compare(items, item, at, seen);
        }
    }
}

#[test]
fn example_uses_every_ocm_field_and_choice() {
    let mut schema = manifest_work_spec_schema();
    schema["properties"].as_object_mut().unwrap().remove("workload").unwrap();
    let mut seen = BTreeMap::new();
    for work in works() {
        compare(&schema, &work.body.spec.value(), "", &mut seen);
    }
    assert!(seen.len() > 50, "the scan must see the fields: {seen:?}");
    let missing: Vec<&String> = seen.iter().filter(|(_, is)| !**is).map(|(at, _)| at).collect();
    assert!(missing.is_empty(), "not shown: {missing:#?}");
}

/// Every image that a manifest names.
fn images(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("image").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| images(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| images(item, found)),
        _ => {}
    }
}

#[test]
fn example_is_small_and_has_no_secrets() {
    let mut found = BTreeSet::new();
    for work in works() {
        let spec = work.body.spec.value();
        images(&spec, &mut found);
        assert!(
            manifests(&spec).iter().all(|manifest| manifest["kind"] != "Secret"),
            "{}",
            work.key
        );
    }
    let small = ["busybox:", "nginx:", "registry.k8s.io/pause:"];
    assert!(found.iter().all(|image| small.iter().any(|s| image.starts_with(s))), "{found:?}");
    assert_eq!(found.len(), small.len(), "{found:?}");
}

#[test]
fn example_readme_names_every_work() {
    let tour = std::fs::read_to_string(root().join("README.md")).unwrap();
    for work in works() {
        let path = work.path.as_str();
        let folder = path.strip_prefix("clusters/").unwrap_or(path);
        assert!(tour.contains(&format!("`{folder}`")), "README.md says nothing of {folder}");
    }
}

/// A CRD is served some moments after it was applied.
const DEADLINE: Duration = Duration::from_secs(300);

/// Server-side apply refuses a field that the kind does not have.
#[tokio::test]
async fn real_api_server_accepts_every_example_object() {
    let plane = ControlPlane::shared().await;
    let cluster = plane.start("example-objects", ClusterOptions::default()).await;
    let (mut works, client) = (works(), cluster.client());
    // Suspended because the cluster lacks its kinds.
    works.retain(|work| !work.suspend);
    for work in works {
        let spec = work.body.spec.value();
        let objects = manifests(&spec);
        let apply = || async {
            let applied = apply_all(client.clone(), objects).await;
            applied.map(|applied| applied.len()).map_err(|why| format!("{}: {why:#}", work.key))
        };
        let applied = eventually("the objects of a work to be taken", DEADLINE, apply).await;
        assert_eq!(applied.unwrap(), objects.len());
    }
}

/// The demo of the README. `cargo test` builds it, as all examples; it is built here if only this
/// binary is.
#[test]
fn demo_runs_to_its_end() {
    let demo = Path::new(env!("CARGO_BIN_EXE_gitwork")).with_file_name("examples").join("demo");
    if !demo.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--locked", "--example", "demo", "--target-dir"]);
        let target = demo.ancestors().nth(3).unwrap();
        let built = build.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
        assert!(built.success(), "cannot build the demo: {built}");
    }
    let output = Command::new(demo).arg("--exit").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    for words in ["namespaces \"attic\" not found", "Fresh prices in Lisbon", "store-lisbon joined"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}
