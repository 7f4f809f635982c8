//! `snapshot -> desired`: every work that Git wants, and what could not be read.
//!
//! The cost is in the size of the change: a cluster whose tree and inherited files are unchanged is
//! reused, and so is an unchanged work folder within a changed cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::layout;
use super::substitute::{CLUSTER_NAME, is_name};
use crate::config::file;
use crate::config::file_names::{APPROVALS, CLUSTER_FILE, CLUSTERS, SOURCE_FILE};
use crate::config::path_patterns::PathPatterns;
use crate::config::source_rules::SourceRules;
use crate::config::tenancy::Tenancy;
use crate::config::{ClusterFile, FileKind, SourceFile};
use crate::limits;
use crate::model::approval::{Approval, Approvals};
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::kinds::{CrdNames, KindIndex};
use crate::model::manifest::{Identity, Origin};
use crate::model::name::{ClusterName, CommitId, ObjectId, RepoPath, SourceId, WorkKey};
use crate::model::snapshot::{ObjectError, Objects, Snapshot};
use crate::model::work::DesiredWork;
use crate::render::work_folder;
use crate::render::work_folder::{Inherited, Rendered};

/// The desired state of one commit or directory.
#[derive(Debug, Clone)]
pub struct Desired {
    pub source: SourceId,
    /// `None` for a local directory with uncommitted changes.
    pub commit: Option<CommitId>,
    pub works: BTreeMap<WorkKey, DesiredWork>,
    /// The parts that could not be read, and are neither changed nor deleted.
    pub frozen: Frozen,
    /// The repository's budgets and windows.
    pub rules: SourceRules,
    /// Approvals in the repository.
    pub approved: Approvals,
    /// Suspensions in the repository.
    pub suspended: Suspended,
    /// Sorted; errors, warnings and notes of the whole source.
    pub diagnostics: Vec<Diagnostic>,
}

impl Desired {
    /// Makes every location relative to the repository's root, for a source whose files start at
    /// `path`.
    pub fn tell_from_root(&mut self, path: &RepoPath) {
        self.diagnostics.iter_mut().for_each(|found| found.below(path));
    }
}

/// Suspensions in Git of the source and of clusters. Single works carry their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suspended {
    pub source: bool,
    pub clusters: BTreeSet<ClusterName>,
}

impl Suspended {
    pub fn covers(&self, key: &WorkKey) -> bool {
        self.source || self.clusters.contains(&key.cluster)
    }
}

/// Unknown is not absent: what is in here keeps its state on the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frozen {
    /// Nothing of the source could be read.
    pub source: bool,
    /// A part of the source cannot be read by this version: nothing may be taken for absent.
    pub deletes: bool,
    pub clusters: BTreeSet<ClusterName>,
    pub works: BTreeSet<WorkKey>,
    /// Work folders that could not be read. A work on the hub that came from one of them stays,
    /// whatever its name.
    pub folders: BTreeSet<RepoPath>,
}

impl Frozen {
    /// Whether the work itself is frozen, by its name: it is not among the desired ones then.
    pub fn covers(&self, key: &WorkKey) -> bool {
        self.source || self.clusters.contains(&key.cluster) || self.works.contains(key)
    }

    /// Whether a work that is not among the desired ones may only seem to be absent. `path` is the
    /// folder that it came from, where the hub says so.
    pub fn holds(&self, key: &WorkKey, path: Option<&str>) -> bool {
        self.deletes
            || self.covers(key)
            || path.and_then(RepoPath::parse).is_some_and(|path| self.folders.contains(&path))
    }
}

/// Renders one source, commit after commit, and remembers what did not change.
#[derive(Debug, Clone)]
pub struct Renderer {
    source: SourceId,
    clusters: BTreeMap<ClusterName, Arc<Cluster>>,
    kinds: KindIndex,
    rules: SourceRules,
    approved: Approvals,
    suspended: bool,
    tenancy: Tenancy,
}

/// One rendered cluster.
#[derive(Debug, Clone)]
struct Cluster {
    tree: ObjectId,
    inherited: Arc<ClusterInputs>,
    works: BTreeMap<String, Folder>,
    /// Of the cluster's own files.
    diagnostics: Vec<Diagnostic>,
    /// Between its works: one object or one name in two of them. `None` until they are compared.
    clashes: Option<Vec<Diagnostic>>,
}

/// What a cluster's works inherit.
#[derive(Debug)]
struct ClusterInputs {
    source: Arc<SourceInputs>,
    cluster_blob: Option<ObjectId>,
    cluster_file: ClusterFile,
    values: BTreeMap<String, Value>,
}

/// What all works inherit.
#[derive(Debug)]
struct SourceInputs {
    blob: Option<ObjectId>,
    file: SourceFile,
    ignore: PathPatterns,
}

/// One rendered work folder.
#[derive(Debug, Clone)]
struct Folder {
    tree: ObjectId,
    rendered: Arc<Rendered>,
}

impl Renderer {
    pub fn new(source: SourceId) -> Self {
        Self {
            source,
            clusters: BTreeMap::new(),
            kinds: KindIndex::default(),
            rules: SourceRules::default(),
            approved: Approvals::default(),
            suspended: false,
            tenancy: Tenancy::default(),
        }
    }

    /// With what the operator lets the folders do, which is the same for every commit.
    pub fn within(self, tenancy: Tenancy) -> Self {
        Self { tenancy, ..self }
    }

    /// The kinds that the CRDs of the last snapshot define.
    pub fn kinds(&self) -> &KindIndex {
        &self.kinds
    }

    /// Renders a snapshot. An error is one of the object database: nothing is known of this commit
    /// then, and nothing may be done for it.
    pub fn render(&mut self, snapshot: &Snapshot<'_>) -> Result<Desired, ObjectError> {
        let top = layout::top(snapshot.root, snapshot.objects)?;
        let mut diagnostics = top.diagnostics;
        let source =
            Arc::new(SourceInputs::read(top.source_file, snapshot.objects, &mut diagnostics)?);
        self.rules = SourceRules {
            budgets: source.file.budgets.clone(),
            windows: source.file.windows.clone(),
        };
        self.suspended = source.file.suspend;
        self.approved = self.approvals(top.approvals, snapshot.objects, &mut diagnostics)?;
        let pass = Pass { source: &self.source, tenancy: &self.tenancy, objects: snapshot.objects };
        let mut clusters = BTreeMap::new();
        let mut works_left = limits::WORKS_MAX;
        for (name, tree) in top.clusters {
            let before = self.clusters.get(&name);
            let cluster = pass.cluster(&name, tree, &source, &self.kinds, before, works_left)?;
            let Some(cluster) = cluster else {
                diagnostics.push(too_many_works());
                break;
            };
            works_left -= cluster.works.len();
            clusters.insert(name, cluster);
        }
        // A CRD anywhere in the repository tells the plural of its kind everywhere: what was
        // rendered with another answer is rendered again.
        let kinds = KindIndex::new(clusters.values().flat_map(Cluster::crds));
        for (name, cluster) in &mut clusters {
            pass.correct_kinds(name, cluster, &kinds)?;
        }
        self.clusters = clusters
            .into_iter()
            .map(|(name, cluster)| (name.clone(), cluster.checked(&name)))
            .collect();
        self.kinds = kinds;
        Ok(self.assemble(snapshot.commit, diagnostics))
    }

    fn assemble(&self, commit: Option<CommitId>, mut diagnostics: Vec<Diagnostic>) -> Desired {
        let folders = self.clusters.values().flat_map(|cluster| cluster.works.values());
        let works = folders.filter_map(|folder| folder.rendered.work.as_ref());
        let mut works: BTreeMap<WorkKey, DesiredWork> =
            works.map(|work| (work.key.clone(), work.clone())).collect();
        let mut frozen = Frozen::default();
        for cluster in self.clusters.values() {
            diagnostics.extend(
                cluster.diagnostics.iter().chain(cluster.clashes.iter().flatten()).cloned(),
            );
            for Folder { rendered, .. } in cluster.works.values() {
                diagnostics.extend(rendered.diagnostics.iter().cloned());
                if rendered.work.is_none() {
                    frozen.folders.insert(rendered.path.clone());
                    frozen.works.extend(rendered.key.clone());
                }
            }
        }
        for diagnostic in diagnostics.iter().filter(|d| d.is_error()) {
            match (&diagnostic.scope, diagnostic.code) {
                // An older gitwork beside a newer repository: what it can read goes on.
                (Scope::Source, Code::NotSupported | Code::BadName) => frozen.deletes = true,
                (Scope::Source, _) => frozen.source = true,
                (Scope::Cluster(cluster), _) => drop(frozen.clusters.insert(cluster.clone())),
                // The name of a folder that may do nothing does not freeze the work of another
                // folder that has it.
                (Scope::Work(key), Code::NotAllowed) if works.contains_key(key) => {}
                (Scope::Work(key), _) => drop(frozen.works.insert(key.clone())),
            }
        }
        works.retain(|key, _| !frozen.covers(key));
        diagnostics.sort();
        diagnostics.dedup();
        let suspends = |cluster: &&Arc<Cluster>| cluster.inherited.cluster_file.suspend;
        let clusters = self.clusters.iter().filter(|(_, cluster)| suspends(cluster));
        let clusters = clusters.map(|(name, _)| name.clone()).collect();
        Desired {
            source: self.source.clone(),
            commit,
            works,
            frozen,
            rules: self.rules.clone(),
            approved: self.approved.clone(),
            suspended: Suspended { source: self.suspended, clusters },
            diagnostics,
        }
    }

    /// Reads the files of `approvals`. One that cannot be used approves nothing, and stops nothing.
    fn approvals(
        &self,
        files: BTreeMap<String, ObjectId>,
        objects: &dyn Objects,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Approvals, ObjectError> {
        let mut approved = Approvals::default();
        for (name, id) in files {
            let why = match objects.blob(id, limits::APPROVAL_BYTES_MAX) {
                Ok(bytes) => match Approval::read(&name, &String::from_utf8_lossy(&bytes)) {
                    Ok(approval) => {
                        approved.add(&self.source, approval);
                        continue;
                    }
                    Err(why) => why.to_string(),
                },
                Err(why @ ObjectError::TooLarge { .. }) => why.to_string(),
                Err(why) => return Err(why),
            };
            let at = Location::file(&RepoPath::root().join(APPROVALS).join(&name));
            let message = format!("this file approves nothing: {why}");
            diagnostics.push(Diagnostic::new(Code::BadApproval, at, Scope::Source, message));
        }
        Ok(approved)
    }
}

/// It freezes the source: of what was not read, nothing is known.
fn too_many_works() -> Diagnostic {
    let message =
        format!("a source has at most {} works, and this one has more", limits::WORKS_MAX);
    let folder = Location::file(&RepoPath::root().join(CLUSTERS));
    Diagnostic::new(Code::TooManyFiles, folder, Scope::Source, message)
        .with_hint("make several sources of it, each with a path of its own")
}

/// One pass over a snapshot.
struct Pass<'a> {
    source: &'a SourceId,
    tenancy: &'a Tenancy,
    objects: &'a dyn Objects,
}

impl Pass<'_> {
    /// Renders a cluster, taking over what did not change since `before`. `None` where it has more
    /// than `works_max` works.
    fn cluster(
        &self,
        name: &ClusterName,
        tree: ObjectId,
        source: &Arc<SourceInputs>,
        kinds: &KindIndex,
        before: Option<&Arc<Cluster>>,
        works_max: usize,
    ) -> Result<Option<Arc<Cluster>>, ObjectError> {
        if let Some(before) = before
            && before.tree == tree
            && before.inherited.source.blob == source.blob
        {
            return Ok((before.works.len() <= works_max).then(|| before.clone()));
        }
        let folder = layout::cluster(name, &*self.objects.tree(tree)?, &source.ignore);
        if folder.works.len() > works_max {
            return Ok(None);
        }
        let mut diagnostics = folder.diagnostics;
        let inherited =
            Arc::new(self.cluster_inputs(name, folder.cluster_file, source, &mut diagnostics)?);
        let before = before.filter(|before| before.inherited.is_same(&inherited));
        let mut works = BTreeMap::new();
        for (folder_name, tree) in folder.works {
            let kept = before
                .and_then(|before| before.works.get(&folder_name))
                .filter(|work| work.tree == tree);
            let work = match kept {
                Some(work) => work.clone(),
                None => Folder {
                    tree,
                    rendered: self.work(name, &folder_name, tree, &inherited, kinds)?,
                },
            };
            works.insert(folder_name, work);
        }
        Ok(Some(Arc::new(Cluster { tree, inherited, works, diagnostics, clashes: None })))
    }

    fn work(
        &self,
        cluster: &ClusterName,
        folder: &str,
        tree: ObjectId,
        inputs: &ClusterInputs,
        kinds: &KindIndex,
    ) -> Result<Arc<Rendered>, ObjectError> {
        let inherited = Inherited {
            source: self.source,
            tenancy: self.tenancy,
            cluster,
            settings: [&inputs.source.file.defaults, &inputs.cluster_file.defaults],
            values: &inputs.values,
            secrets: inputs.source.file.secrets,
        };
        let path = layout::cluster_path(cluster).join(folder);
        Ok(Arc::new(work_folder::render(
            &path,
            tree,
            &inherited,
            &inputs.source.ignore,
            kinds,
            self.objects,
        )?))
    }

    /// Renders again what was rendered with another answer to the question for a kind's plural.
    fn correct_kinds(
        &self,
        name: &ClusterName,
        cluster: &mut Arc<Cluster>,
        kinds: &KindIndex,
    ) -> Result<(), ObjectError> {
        let stale = |rendered: &Rendered| {
            rendered
                .custom_kinds
                .iter()
                .any(|((group, kind), answer)| kinds.lookup(group, kind) != *answer)
        };
        let stale: Vec<(String, ObjectId)> = cluster
            .works
            .iter()
            .filter(|(_, work)| stale(&work.rendered))
            .map(|(folder, work)| (folder.clone(), work.tree))
            .collect();
        for (folder, tree) in stale {
            let rendered = self.work(name, &folder, tree, &cluster.inherited, kinds)?;
            let cluster = Arc::make_mut(cluster);
            cluster.works.insert(folder, Folder { tree, rendered });
            cluster.clashes = None;
        }
        Ok(())
    }

    fn cluster_inputs(
        &self,
        name: &ClusterName,
        blob: Option<ObjectId>,
        source: &Arc<SourceInputs>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<ClusterInputs, ObjectError> {
        let mut values: BTreeMap<String, Value> =
            [(CLUSTER_NAME.to_owned(), name.as_str().into())].into();
        let file = layout::cluster_path(name).join(CLUSTER_FILE);
        let scope = Scope::Cluster(name.clone());
        let mut cluster_file = ClusterFile::default();
        if let Some(config) =
            read_config(&file, blob, FileKind::Cluster, &scope, self.objects, diagnostics)?
        {
            let config: file::Config<ClusterFile> = config;
            for (variable, value) in &config.value.values {
                let problem = if variable == CLUSTER_NAME {
                    "is the cluster's own name and cannot be set"
                } else if !is_name(variable) {
                    "is no variable's name: letters, digits and '_' only, no digit first"
                } else {
                    values.insert(variable.clone(), value.0.clone());
                    continue;
                };
                let at = config.location(&format!(
                    "/values/{}",
                    variable.replace('~', "~0").replace('/', "~1")
                ));
                let message = format!("{variable:?} {problem}");
                diagnostics.push(
                    Diagnostic::new(Code::BadValue, at, scope.clone(), message)
                        .with_field("values"),
                );
            }
            cluster_file = config.value;
        }
        Ok(ClusterInputs { source: source.clone(), cluster_blob: blob, cluster_file, values })
    }
}

impl SourceInputs {
    fn read(
        blob: Option<ObjectId>,
        objects: &dyn Objects,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Self, ObjectError> {
        let path = RepoPath::root().join(SOURCE_FILE);
        let read =
            read_config(&path, blob, FileKind::Source, &Scope::Source, objects, diagnostics)?;
        let config: file::Config<SourceFile> = match read {
            Some(config) => config,
            None => {
                return Ok(Self {
                    blob,
                    file: SourceFile::default(),
                    ignore: PathPatterns::new(&[]).0,
                });
            }
        };
        let windows = config.value.windows.problems().into_iter();
        let windows =
            windows.map(|problem| (format!("/windows{}", problem.pointer), problem.message));
        let signers = config.value.signers.problems().into_iter();
        let signers =
            signers.map(|problem| (format!("/signers{}", problem.pointer), problem.message));
        for (pointer, message) in windows.chain(signers) {
            let (at, field) = (config.location(&pointer), file::dotted(&pointer));
            let message = format!("{field} {message}");
            diagnostics.push(
                Diagnostic::new(Code::BadValue, at, Scope::Source, message).with_field(field),
            );
        }
        let (ignore, bad) = PathPatterns::new(&config.value.ignore);
        for (index, why) in bad {
            let at = config.location(&format!("/ignore/{index}"));
            diagnostics.push(
                Diagnostic::new(
                    Code::BadValue,
                    at,
                    Scope::Source,
                    format!("this is no ignore pattern: {why}"),
                )
                .with_field(format!("ignore[{index}]")),
            );
        }
        Ok(Self { blob, file: config.value, ignore })
    }
}

impl ClusterInputs {
    fn is_same(&self, other: &Self) -> bool {
        self.source.blob == other.source.blob && self.cluster_blob == other.cluster_blob
    }
}

/// Reads `gitwork.yaml` or `cluster.yaml`, where there is one.
pub(crate) fn read_config<T: serde::de::DeserializeOwned + Default>(
    path: &RepoPath,
    blob: Option<ObjectId>,
    kind: FileKind,
    scope: &Scope,
    objects: &dyn Objects,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<file::Config<T>>, ObjectError> {
    let Some(blob) = blob else { return Ok(None) };
    let bytes = match objects.blob(blob, gitwork_yaml::limits::FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(ObjectError::TooLarge { size, limit, .. }) => {
            let message = format!("the file has {size} bytes; at most {limit} are read");
            diagnostics.push(Diagnostic::new(
                Code::FileTooLarge,
                Location::file(path),
                scope.clone(),
                message,
            ));
            return Ok(None);
        }
        Err(why) => return Err(why),
    };
    let (config, mut found) = file::read_one(path, &bytes, kind, scope);
    work_folder::add_snippets(&mut found, &[(path.clone(), bytes)].into());
    diagnostics.extend(found);
    Ok(config)
}

impl Cluster {
    fn crds(self: &Arc<Self>) -> impl Iterator<Item = &CrdNames> {
        self.works.values().flat_map(|work| &work.rendered.crds)
    }

    /// With its works compared to each other.
    fn checked(mut self: Arc<Self>, name: &ClusterName) -> Arc<Self> {
        if self.clashes.is_none() {
            let clashes = self.find_clashes(name);
            Arc::make_mut(&mut self).clashes = Some(clashes);
        }
        self
    }

    /// One name, or one object, in two works: an error for both, so that neither is changed.
    fn find_clashes(&self, name: &ClusterName) -> Vec<Diagnostic> {
        let mut clashes = Vec::new();
        let mut names: BTreeMap<&WorkKey, &RepoPath> = BTreeMap::new();
        let mut objects: BTreeMap<&Identity, (&Rendered, &Origin)> = BTreeMap::new();
        for rendered in self.works.values().map(|work| &*work.rendered) {
            let Some(key) = &rendered.key else { continue };
            if let Some(first) = names.insert(key, &rendered.path) {
                clashes.push(
                    Diagnostic::new(
                        Code::DuplicateWork,
                        Location::file(&rendered.path),
                        Scope::Work(key.clone()),
                        format!("cluster {name} has two works named {}", key.work),
                    )
                    .with_related(Location::file(first), "the other one"),
                );
            }
            for (identity, origin) in &rendered.objects {
                match objects.get(identity) {
                    Some((other, at)) if !std::ptr::eq(*other, rendered) => {
                        let pair =
                            [(rendered, origin, *other, *at), (*other, *at, rendered, origin)];
                        clashes.extend(
                            pair.into_iter().filter_map(|pair| shared_object(identity, pair)),
                        );
                    }
                    Some(_) => {}
                    None => drop(objects.insert(identity, (rendered, origin))),
                }
            }
        }
        clashes
    }
}

fn shared_object(
    identity: &Identity,
    (rendered, origin, other, at): (&Rendered, &Origin, &Rendered, &Origin),
) -> Option<Diagnostic> {
    let (key, other_key) = (rendered.key.clone()?, other.key.as_ref()?);
    let message = format!(
        "{identity} stands in the works {} and {} of cluster {}",
        key.work, other_key.work, key.cluster
    );
    let here = Location::at(&origin.file, origin.span);
    let there = Location::at(&at.file, at.span);
    Some(
        Diagnostic::new(Code::ObjectInTwoWorks, here, Scope::Work(key), message)
            .with_related(there, "the other one"),
    )
}
