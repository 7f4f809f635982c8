//! Repository cases. Each folder of `tests/cases` has a repository, and what gitwork makes of it:
//!
//! - `repository/`: the files of the source.
//! - `before/` (optional): the same in the commit before. Its works are on the hub, and works that
//!   `repository/` lacks were removed by the next commit.
//! - `facts.json` (optional): what the hub says of clusters.
//! - `observed.yaml` (optional): ManifestWorks on the hub. One that `before/` has too is merged
//!   into it (JSON Merge Patch).
//! - `case.yaml`: what the case shows, and options; see [`CaseFile`].
//! - `expected.txt`: the output. `GITWORK_UPDATE=1 cargo test --test it cases::` rewrites it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gitwork_core::config::tenancy::{Tenancy, TenantRule};
use gitwork_core::config::{AdoptionPolicy, Budgets, SchemaPolicy};
use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{ClusterName, ObjectId, RepoPath, WorkKey};
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::model::work::DesiredWork;
use gitwork_core::plan::added_works::AddedWorks;
use gitwork_core::plan::cascading_deletion::{self, CascadingDeletion, HubPlanInputs};
use gitwork_core::plan::folder_removal::{FolderRemoval, last_known_state};
use gitwork_core::plan::moves::MovingWorks;
use gitwork_core::plan::observed::{Observed, ObservedWork, WorkContent};
use gitwork_core::plan::{
    self, LastKnownStates, Plan, PlanPolicy, PlanSummary, Remarks, removed_candidates,
};
use gitwork_core::render::desired::{Desired, UncertainMembers};
use gitwork_core::render::object_checks::{KubernetesVersion, SchemaChecks};
use gitwork_core::render::renderer::Renderer;
use gitwork_core::text::diagnostics;
use gitwork_core::text::style::ColorMode;
use gitwork_report::outputs::OutputKind;
use gitwork_report::review::{self, Review};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::example::documents;
use crate::memory_repository::{File, MemoryObjects, files_below, source};

/// One section of `expected.txt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Section {
    /// What `gitwork validate` prints.
    Diagnostics,
    /// What the planner neither changes nor deletes, because Git could not be read there.
    Frozen,
    /// The last state in Git of works that it no longer has, and the works that are new with it.
    History,
    /// What `gitwork plan` prints.
    Plan,
    /// Each rendered work, one line a manifest.
    Works,
    /// Each rendered work as the ManifestWork that is sent.
    ManifestWorks,
    /// What `gitwork plan BASE..HEAD` prints; needs `before/`.
    Review,
    ReviewMarkdown,
    ReviewJson,
}

/// `case.yaml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CaseFile {
    /// The behaviour, in one sentence.
    shows: String,
    /// By default diagnostics, frozen, plan and works; with `before/` also history.
    #[serde(default)]
    print: Vec<Section>,
    /// Paths of submodules, which a folder cannot hold.
    #[serde(default)]
    submodules: Vec<String>,
    /// The operator's policy, as in the daemon's file.
    #[serde(default)]
    policy: Vec<TenantRule>,
    /// The operator's budgets and adoption, as in the daemon's file.
    #[serde(default)]
    budgets: Budgets,
    #[serde(default)]
    adopt: AdoptionPolicy,
    #[serde(default)]
    allow_delete_all: bool,
    /// How objects are checked, unless `gitwork.yaml` says otherwise: `error` as in `validate`,
    /// `warn` as in the daemon. Without it, they are not checked.
    schema_problems: Option<SchemaPolicy>,
    /// `--kubernetes-version`.
    kubernetes_version: Option<String>,
}

struct Case {
    folder: PathBuf,
    file: CaseFile,
    repository: BTreeMap<String, File>,
    before: Option<BTreeMap<String, File>>,
}

/// What commands print with `-o json` for each case.
pub fn json_outputs() -> Vec<(String, Vec<(OutputKind, Value)>)> {
    let of_case = |folder: &PathBuf| {
        let outcome = Case::read(folder.clone()).outcome();
        let Outcome { desired, plan, review, cascading_deletions, .. } = outcome;
        let text = diagnostics::json(&desired.diagnostics, usize::MAX);
        let plan = PlanSummary { cascading_deletions, ..plan.summary(&desired.source) };
        let plan = json!(plan);
        let mut all = vec![(OutputKind::Validate, text), (OutputKind::Plan, plan.to_string())];
        all.extend(review.map(|review| (OutputKind::PlanBase, review.json())));
        let all = all.into_iter().map(|(kind, text)| (kind, serde_json::from_str(&text).unwrap()));
        (folder.display().to_string(), all.collect())
    };
    folders().iter().map(of_case).collect()
}

/// The folders of all cases.
fn folders() -> Vec<PathBuf> {
    let all = std::fs::read_dir(cases()).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = all.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// The folder of a case.
pub fn folder(case: &str) -> PathBuf {
    cases().join(case)
}

/// The files of a case's `repository/`.
pub fn repository(case: &str) -> BTreeMap<String, File> {
    Case::read(folder(case)).repository
}

/// The facts of a case.
pub fn facts(case: &str) -> Facts {
    Facts::read(&std::fs::read(folder(case).join("facts.json")).unwrap()).unwrap()
}

/// The files of a case's `before/`.
pub fn before(case: &str) -> BTreeMap<String, File> {
    Case::read(folder(case)).before.unwrap()
}

fn read_yaml(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    documents("case.yaml", &text.as_str().into())
}

impl Case {
    fn read(folder: PathBuf) -> Self {
        let mut file = read_yaml(&folder.join("case.yaml"));
        let file = file.pop().and_then(|file| serde_json::from_value::<CaseFile>(file).ok());
        let file = file.unwrap_or_else(|| panic!("{}: invalid case.yaml", folder.display()));
        assert!(!file.shows.is_empty(), "{}: say what it shows", folder.display());
        let mut repository = files_below(&folder.join("repository"));
        repository.extend(file.submodules.iter().map(|path| (path.clone(), File::Submodule)));
        let before = folder.join("before");
        let before = before.is_dir().then(|| files_below(&before));
        Self { folder, file, repository, before }
    }

    fn sections(&self) -> Vec<Section> {
        use Section::{Diagnostics, Frozen, History, Plan, Works};
        match (&self.file.print[..], &self.before) {
            ([], None) => vec![Diagnostics, Frozen, Plan, Works],
            ([], Some(_)) => vec![Diagnostics, Frozen, History, Plan, Works],
            (print, _) => print.to_vec(),
        }
    }

    /// What the hub has; the content of works that give objects to others is read.
    fn observed(&self, before: Option<&Desired>, desired: &Desired) -> Observed {
        let works = before.into_iter().flat_map(|before| &before.works);
        let mut works: BTreeMap<String, Value> = works
            .map(|(key, work)| (key.to_string(), work.body.to_manifest_work(key, None)))
            .collect();
        let patches = self.folder.join("observed.yaml");
        for patch in if patches.is_file() { read_yaml(&patches) } else { Vec::new() } {
            let text = |field: &str| patch["metadata"][field].as_str().unwrap().to_owned();
            let key = format!("{}/{}", text("namespace"), text("name"));
            merge(works.entry(key).or_default(), patch);
        }
        let mut observed = Observed::default();
        for (number, work) in works.values_mut().enumerate() {
            let set_by_server = [("uid", json!(format!("uid-{number}"))), ("generation", json!(1))];
            for (field, value) in [("resourceVersion", json!("1"))].into_iter().chain(set_by_server)
            {
                work["metadata"].as_object_mut().unwrap().entry(field).or_insert(value);
            }
            observed.record_change(ObservedWork::from_manifest_work(work.clone()).unwrap());
        }
        for key in MovingWorks::of(desired, &observed).unread {
            let content = WorkContent::from_manifest_work(works[&key.to_string()].clone());
            observed.contents.insert(key, content);
        }
        observed
    }

    /// What the hub says of clusters, if the case has it.
    fn facts(&self) -> Option<Arc<Facts>> {
        let text = std::fs::read(self.folder.join("facts.json")).ok()?;
        let facts = Facts::read(&text);
        Some(Arc::new(facts.unwrap_or_else(|why| panic!("{}: {why}", self.folder.display()))))
    }

    fn schema_checks(&self) -> SchemaChecks {
        let CaseFile { schema_problems, kubernetes_version, .. } = &self.file;
        let version = |text: &String| KubernetesVersion::parse(text).unwrap();
        SchemaChecks {
            default: *schema_problems,
            kubernetes_version: kubernetes_version.as_ref().map(version),
            relations: true,
            ..SchemaChecks::default()
        }
    }

    fn policy(&self) -> PlanPolicy {
        PlanPolicy {
            adoption: self.file.adopt,
            allow_delete_all: self.file.allow_delete_all,
            budgets: self.file.budgets.clone(),
            ..PlanPolicy::default()
        }
    }

    fn renderer(&self) -> Renderer {
        let tenancy: Tenancy = self.file.policy.clone().into();
        let renderer = Renderer::new(source()).with_tenancy(tenancy);
        let mut renderer = renderer.with_schema_checks(self.schema_checks());
        renderer.set_facts(self.facts());
        renderer
    }

    /// What a rendered state says of one cluster.
    fn of_cluster(desired: &Desired, cluster: &ClusterName) -> String {
        let concerns = |one: &&Diagnostic| match &one.scope {
            Scope::Source | Scope::Group(_) => true,
            Scope::Cluster(of) => of == cluster,
            Scope::Work(key) => key.cluster == *cluster,
        };
        let works: Vec<_> = desired.works.of_cluster(cluster).collect();
        let frozen = desired.frozen.works.iter().filter(|key| key.cluster == *cluster);
        let frozen: Vec<&WorkKey> = frozen.collect();
        let found: Vec<&Diagnostic> = desired.diagnostics.iter().filter(concerns).collect();
        format!("{works:#?}\n{frozen:#?}\n{found:#?}")
    }

    fn outcome(&self) -> Outcome {
        let mut objects = MemoryObjects::default();
        let render = |root: ObjectId, objects: &MemoryObjects| {
            self.renderer().render(&Snapshot { commit: None, root, objects }).unwrap()
        };
        let before_root = self.before.as_ref().map(|files| objects.add(files));
        let root = objects.add(&self.repository);
        let before = before_root.map(|root| render(root, &objects));
        let desired = render(root, &objects);
        let observed = self.observed(before.as_ref(), &desired);
        let history = before_root.map(|before| History {
            before,
            after: root,
            objects: &objects,
            facts: self.facts(),
        });
        let history = history.map(|history| history.of(&desired, &observed));
        let last_known = history.as_ref().map(|found| found.last_known.clone()).unwrap_or_default();
        let plan = plan::plan(&desired, &observed, &last_known, &self.policy());
        let inputs =
            HubPlanInputs { desired: &desired, observed: &observed, last_known: &last_known };
        Outcome {
            cascading_deletions: cascading_deletion::on_hub(inputs, &plan, |_| true),
            plan,
            review: before.map(|before| Review {
                holds: review::would_hold(&before, &desired, &self.policy(), None),
                ..Review::new(&before, &desired)
            }),
            history: history.unwrap_or_default(),
            desired,
        }
    }

    /// The text that `expected.txt` must have.
    fn output(&self) -> String {
        let outcome = self.outcome();
        let sections = self.sections().into_iter().map(|section| {
            let text = outcome.print(section);
            // Secrets of the cases are called so.
            let is_redacted = !matches!(section, Section::Works | Section::ManifestWorks);
            assert!(!is_redacted || !text.contains("canary"), "{}: {text}", self.folder.display());
            format!("== {section:?}\n{text}\n")
        });
        sections.collect()
    }
}

/// JSON Merge Patch (RFC 7396).
pub fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else { return *target = patch };
    if !target.is_object() {
        *target = json!({});
    }
    let fields = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(&name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Two commits: the trees at the source's path.
struct History<'a> {
    before: ObjectId,
    after: ObjectId,
    objects: &'a MemoryObjects,
    facts: Option<Arc<Facts>>,
}

#[derive(Default)]
struct Found {
    last_known: LastKnownStates,
    text: String,
}

impl<'a> History<'a> {
    fn of(&self, desired: &Desired, observed: &Observed) -> Found {
        let mut found = Found::default();
        for (key, folder) in removed_candidates(desired, observed) {
            found.text.push_str(&self.removed(&mut found.last_known, key, &folder));
        }
        let mut added = AddedWorks::new(desired, self.facts.as_deref());
        let added = added.since(self.before, self.objects).unwrap();
        let added: Vec<String> = added.works.iter().map(ToString::to_string).collect();
        writeln!(found.text, "added: {}", list(&added)).unwrap();
        found
    }

    fn removed(&self, last_known: &mut LastKnownStates, key: WorkKey, folder: &RepoPath) -> String {
        let removal = FolderRemoval {
            key: &key,
            folder,
            removed_by: ObjectId([7; 20]),
            before: self.before,
            after: Some(self.after),
            objects: self.objects,
            facts: self.facts.clone(),
        };
        let Some(last) = last_known_state(&source(), &removal).unwrap() else {
            return format!("{key}: last state is not readable; the hub's deleteOption is used\n");
        };
        let text = format!(
            "{key}: removed by {}; prune: {}; deleteOption: {}; budgets: {}\n",
            last.removed_by.map_or_else(|| "its group".to_owned(), |commit| commit.short()),
            last.prune,
            last.delete_option.to_value(None),
            serde_json::to_string(&last.budgets).unwrap(),
        );
        last_known.insert(key, last);
        text
    }
}

struct Outcome {
    desired: Desired,
    history: Found,
    plan: Plan,
    cascading_deletions: Vec<CascadingDeletion>,
    review: Option<Review>,
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "none".into() } else { items.join(", ") }
}

impl Outcome {
    fn print(&self, section: Section) -> String {
        let review = || self.review.as_ref().expect("a review needs the folder before/");
        let works = self.desired.works.values().map(|work| &**work);
        match section {
            Section::Diagnostics => diagnostics::text(&self.desired.diagnostics, ColorMode::Plain),
            Section::Frozen => self.frozen(),
            Section::History => self.history.text.clone(),
            Section::Plan => plan::text(&self.plan, &self.remarks(), ColorMode::Plain),
            Section::Works => works.map(compact).collect(),
            Section::ManifestWorks => works.map(manifest_work).collect(),
            Section::Review => review::text(review(), ColorMode::Plain),
            Section::ReviewMarkdown => review::markdown(review(), None),
            Section::ReviewJson => review().json() + "\n",
        }
    }

    fn remarks(&self) -> Remarks<'_> {
        let cascading_deletions = self.cascading_deletions.clone();
        Remarks { cascading_deletions, ..Remarks::default() }
    }

    fn frozen(&self) -> String {
        let frozen = &self.desired.frozen;
        let mut all = Vec::new();
        all.extend(frozen.source.then(|| "the source".to_owned()));
        all.extend(frozen.deletes.then(|| "all deletions".to_owned()));
        let is_unnamed = frozen.clusters_beside_unnamed.is_some();
        all.extend(is_unnamed.then(|| "clusters without a folder".to_owned()));
        all.extend(frozen.clusters.iter().map(|cluster| format!("cluster {cluster}")));
        all.extend(frozen.works.iter().map(|work| format!("work {work}")));
        all.extend(frozen.folders.iter().map(|(cluster, folder)| match folder.parts().next() {
            Some("groups") => format!("folder {folder} on {cluster}"),
            _ => format!("folder {folder}"),
        }));
        all.extend(frozen.groups.iter().map(|(group, members)| match members {
            UncertainMembers::Everyone => format!("group {group}"),
            UncertainMembers::Clusters(clusters) => {
                let clusters: Vec<&str> = clusters.iter().map(ClusterName::as_str).collect();
                format!("group {group} on {}", clusters.join(", "))
            }
        }));
        all.iter().map(|line| format!("{line}\n")).collect()
    }
}

fn manifest_work(work: &DesiredWork) -> String {
    let object = work.body.to_manifest_work(&work.key, None);
    serde_json::to_string_pretty(&object).unwrap() + "\n"
}

/// A work on a few lines.
fn compact(work: &DesiredWork) -> String {
    let mut object = work.body.to_manifest_work(&work.key, None);
    let mut text = format!("{} <- {}\n", work.key, work.path);
    for (word, holds) in [("suspended", work.suspend), ("not pruned", !work.prune)] {
        if holds {
            writeln!(text, "  {word}").unwrap();
        }
    }
    for field in ["labels", "annotations"] {
        for (key, value) in object["metadata"][field].as_object().into_iter().flatten() {
            writeln!(text, "  {field} {key}: {}", value.as_str().unwrap()).unwrap();
        }
    }
    let spec = object["spec"].as_object_mut().unwrap();
    let workload = spec.remove("workload").unwrap();
    let configs = spec.remove("manifestConfigs").unwrap_or_default();
    for (field, value) in spec {
        writeln!(text, "  {field} {value}").unwrap();
    }
    for config in configs.as_array().into_iter().flatten() {
        writeln!(text, "  config {config}").unwrap();
    }
    for manifest in workload["manifests"].as_array().unwrap() {
        writeln!(text, "  manifest {manifest}").unwrap();
    }
    text
}

#[test]
fn one_cluster_is_rendered_as_it_is_among_all() {
    let mut compared = 0;
    for folder in folders() {
        let case = Case::read(folder.clone());
        let mut objects = MemoryObjects::default();
        let root = objects.add(&case.repository);
        let snapshot = Snapshot { commit: None, root, objects: &objects };
        let all = case.renderer().render(&snapshot).unwrap();
        let clusters: BTreeSet<ClusterName> =
            all.named_works().map(|key| key.cluster.clone()).collect();
        for cluster in clusters {
            let (mut renderer, selected) = (case.renderer(), cluster.clone());
            renderer.select_clusters(move |one| *one == selected);
            let one = renderer.render(&snapshot).unwrap();
            let [one, among_all] = [&one, &all].map(|state| Case::of_cluster(state, &cluster));
            assert_eq!(one, among_all, "{}: {cluster}", folder.display());
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn every_case() {
    let folders = folders();
    assert!(folders.len() > 25, "the test must see the cases: {folders:?}");
    let mut wrong = String::new();
    for folder in folders {
        let expected = folder.join("expected.txt");
        let case = Case::read(folder);
        let text = case.output();
        if std::env::var_os("GITWORK_UPDATE").is_some() {
            std::fs::write(&expected, &text).unwrap();
        }
        let found = std::fs::read_to_string(&expected).unwrap_or_default();
        if found != text {
            let diff = similar::TextDiff::from_lines(&found, &text);
            let (path, shows) = (expected.display(), &case.file.shows);
            writeln!(wrong, "{path}\n{shows}\n{}", diff.unified_diff()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}\nto accept: GITWORK_UPDATE=1 cargo test --test it cases::");
}
