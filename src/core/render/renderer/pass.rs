//! One pass over the clusters of a snapshot.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ahead::RenderedAhead;
use super::budget::{ContentBudget, TooLarge};
use super::cluster::{ClusterPlan, OpenCluster, RenderedCluster, RenderedFolder};
use super::content::{FolderContent, SharedContent};
use super::earlier::Earlier;
use super::inputs::{ClusterConfig, ClusterInputs, SourceInputs};
use super::notes::notes;
use super::work_inputs::{WorkInputs, WorkPlace};
use gitwork_api::escape::pointer_token;
use gitwork_schemas::KubernetesVersion;

use crate::config::file;
use crate::config::file_names::CLUSTER_FILE;
use crate::config::tenancy::Tenancy;
use crate::config::values::bad_names;
use crate::config::{ClusterFile, Delivery, FileKind};
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::facts::KnownFacts;
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, GroupName, ObjectId, RepoPath, SourceId};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::config_file::read_config;
use crate::render::desired::FrozenObjects;
use crate::render::groups::{Certainty, GroupConfigs, GroupInputs, Membership};
use crate::render::layout::{self, BlockedEntry, OwnerFolder};
use crate::render::object_checks::SchemaChecks;
use crate::render::parsed_files::ParsedFiles;
use crate::render::work_folder::Rendered;

/// Folders by cluster whose CRDs count for themselves only.
pub(super) type FrozenCrds = BTreeMap<ClusterName, BTreeSet<RepoPath>>;

/// One pass over a snapshot.
pub(super) struct RenderPass<'a> {
    pub(super) source: &'a SourceId,
    pub(super) tenancy: &'a Tenancy,
    /// How objects are checked.
    pub(super) checks: &'a SchemaChecks,
    pub(super) objects: &'a dyn Objects,
    /// What all works inherit.
    pub(super) inputs: Arc<SourceInputs>,
    /// Groups as other commits have them.
    pub(super) earlier: &'a Earlier,
    /// Of clusters without cluster.yaml.
    pub(super) bare: Arc<ClusterConfig>,
    /// What works of this pass and the last one hold.
    pub(super) content: RefCell<SharedContent>,
    /// What the works of this pass may still hold.
    pub(super) budget: RefCell<ContentBudget>,
    pub(super) parsed: ParsedFiles,
}

/// How the folders of a pass are rendered.
#[derive(Clone, Copy)]
pub(super) struct Rendering<'a> {
    pub(super) kinds: &'a KindIndex,
    /// Folders that other threads render meanwhile.
    pub(super) ahead: Option<&'a RenderedAhead<'a>>,
}

impl<'a> Rendering<'a> {
    /// On this thread.
    pub(super) fn here(kinds: &'a KindIndex) -> Self {
        Self { kinds, ahead: None }
    }
}

/// Why a cluster is not rendered.
#[derive(Debug)]
pub(super) enum PassError {
    /// The object database fails.
    Object(ObjectError),
    /// The source has more works than it may.
    TooManyWorks,
    /// The source's works hold more than they may.
    TooLarge,
}

/// The groups that a cluster is in, and what the hub says of it.
pub(super) struct ClusterPlace {
    pub(super) groups: Vec<Membership>,
    /// Those of which it has or gets an earlier content, as the commit has them.
    pub(super) later: Vec<Membership>,
    pub(super) facts: KnownFacts,
}

impl RenderPass<'_> {
    /// Reads the groups, taking over those that did not change.
    pub(super) fn groups(
        &self,
        trees: &BTreeMap<GroupName, ObjectId>,
        before: &[Arc<GroupInputs>],
    ) -> Result<Vec<Arc<GroupInputs>>, PassError> {
        let before: BTreeMap<&GroupName, &Arc<GroupInputs>> =
            before.iter().map(|group| (&group.name, group)).collect();
        let mut configs = GroupConfigs::new();
        for group in before.values() {
            configs.extend(group.folder.config_file.map(|blob| (blob, group.config.clone())));
        }
        let mut groups = Vec::with_capacity(trees.len());
        self.earlier
            .groups()
            .try_for_each(|group| self.budget.borrow_mut().spend_group(&group.config))?;
        for (name, tree) in trees {
            let is_same = |group: &&&Arc<GroupInputs>| {
                group.tree == *tree && group.source_blob == self.inputs.blob
            };
            let group = match before.get(name).filter(is_same) {
                Some(before) => (*before).clone(),
                None => {
                    let (defaults, objects) = (self.inputs.of_groups(), self.objects);
                    Arc::new(GroupInputs::read(name, *tree, defaults, objects, &mut configs)?)
                }
            };
            let mut budget = self.budget.borrow_mut();
            budget.spend_group(&group.config)?;
            budget.spend_diagnostics(&group.diagnostics)?;
            groups.push(group);
        }
        Ok(groups)
    }

    /// Compares a cluster with what was rendered before.
    pub(super) fn plan<'b>(
        &self,
        name: &ClusterName,
        opened: OpenCluster<'b>,
        place: ClusterPlace,
    ) -> ClusterPlan<'b> {
        let OpenCluster { before, tree, folder, inherited, diagnostics } = opened;
        let ClusterPlace { groups, later, facts } = place;
        let before = before.filter(|before| before.inherited.is_same(&inherited));
        let is_same = |before: &&Arc<RenderedCluster>| {
            before.is_same(tree, (&groups, &later), &facts) && !before.may_fit(&groups)
        };
        if let Some(before) = before.filter(is_same) {
            return ClusterPlan::Same(before);
        }
        let folder = match (folder, tree) {
            (Some(folder), _) => Ok(folder),
            (None, Some(tree)) => {
                layout::cluster(name, tree, self.objects, &self.inputs.ignore).map(Box::new)
            }
            (None, None) => Ok(Box::default()),
        };
        let cluster = RenderedCluster {
            tree,
            inherited,
            facts,
            groups,
            later,
            later_works: Vec::new(),
            works: BTreeMap::new(),
            diagnostics,
            checked: None,
        };
        ClusterPlan::Changed { cluster: Arc::new(cluster), folder, before }
    }

    /// Renders a cluster, taking over what did not change. It may have `works_max` works.
    pub(super) fn cluster(
        &self,
        name: &ClusterName,
        plan: ClusterPlan<'_>,
        (rendering, works_max): (Rendering<'_>, usize),
    ) -> Result<Arc<RenderedCluster>, PassError> {
        let (cluster, folder, before) = match plan {
            ClusterPlan::Same(before) if before.works.len() > works_max => {
                return Err(PassError::TooManyWorks);
            }
            ClusterPlan::Same(before) => {
                self.budget.borrow_mut().spend_cluster(before)?;
                return Ok(before.clone());
            }
            ClusterPlan::Changed { cluster, folder, before } => (cluster, folder?, before),
        };
        self.budget.borrow_mut().spend_config(&cluster.inherited.config)?;
        self.budget.borrow_mut().spend_diagnostics(&cluster.diagnostics)?;
        let works = self.works(name, &cluster, &folder, (rendering, works_max), before)?;
        let later_works = self.later_works(name, &cluster, rendering.kinds)?;
        let mut cluster = RenderedCluster { works, later_works, ..Arc::unwrap_or_clone(cluster) };
        cluster.drop_replaced();
        Ok(Arc::new(cluster))
    }

    /// Renders the works that a cluster gets later.
    fn later_works(
        &self,
        name: &ClusterName,
        cluster: &RenderedCluster,
        kinds: &KindIndex,
    ) -> Result<Vec<Arc<Rendered>>, PassError> {
        let mut all = Vec::new();
        for group in &cluster.later {
            let owner = layout::group_path(&group.group.name);
            for (folder, tree) in &group.group.folder.works {
                let place = WorkPlace { path: owner.join(folder), tree: *tree, group: Some(group) };
                let rendered = self.work(name, &place, cluster, Rendering::here(kinds))?;
                self.spend_folder(&rendered)?;
                all.push(rendered);
            }
        }
        Ok(all)
    }

    /// Renders the works of a cluster: those of its own folder, and those of its groups.
    fn works(
        &self,
        name: &ClusterName,
        cluster: &RenderedCluster,
        folder: &OwnerFolder,
        (rendering, works_max): (Rendering<'_>, usize),
        before: Option<&Arc<RenderedCluster>>,
    ) -> Result<BTreeMap<RepoPath, RenderedFolder>, PassError> {
        let owners = || cluster.owners(name, folder);
        let count = |folder: &OwnerFolder| folder.works.len() + folder.blocked.len();
        if owners().map(|(_, folder, _)| count(folder)).sum::<usize>() > works_max {
            return Err(PassError::TooManyWorks);
        }
        // A map of them at once has no room for more, as one that grows has.
        let mut works = Vec::new();
        for (owner, folder, group) in owners() {
            let certainty = group.map_or(Certainty::Member, |one| one.certainty);
            for (folder_name, tree) in &folder.works {
                let place = WorkPlace { path: owner.join(folder_name), tree: *tree, group };
                let kept = before.and_then(|before| before.kept(cluster, &place.path, *tree));
                let rendered = match kept {
                    Some(kept) => kept,
                    None => self.work(name, &place, cluster, rendering)?,
                };
                // After each one: a single cluster may have all works of the source.
                self.spend_folder(&rendered)?;
                works.push(RenderedFolder { tree: *tree, rendered, certainty });
            }
            for (folder_name, (tree, entry)) in &folder.blocked {
                let path = owner.join(folder_name);
                let mut rendered = self.blocked(&path, name, *entry);
                self.content.borrow_mut().share(&mut rendered);
                let rendered = Arc::new(rendered);
                self.spend_folder(&rendered)?;
                works.push(RenderedFolder { tree: *tree, rendered, certainty });
            }
        }
        Ok(works.into_iter().map(|one| (one.rendered.path.clone(), one)).collect())
    }

    /// Counts a work folder.
    fn spend_folder(&self, rendered: &Rendered) -> Result<(), TooLarge> {
        self.budget.borrow_mut().spend_folder(rendered, &self.content.borrow())
    }

    /// Compares the works of a cluster with each other.
    pub(super) fn check(
        &self,
        name: &ClusterName,
        cluster: &mut Arc<RenderedCluster>,
    ) -> Result<(), PassError> {
        RenderedCluster::check(cluster, name, |cluster| notes(cluster, name, self.work_inputs()));
        let found =
            cluster.checked.iter().flat_map(|found| found.clashes.iter().chain(&found.notes));
        Ok(self.budget.borrow_mut().spend_diagnostics(found)?)
    }

    /// What a link or a submodule in the place of a work folder makes: a frozen work. Its objects
    /// are unknown.
    fn blocked(&self, path: &RepoPath, cluster: &ClusterName, entry: BlockedEntry) -> Rendered {
        let key = layout::folder_key(path, cluster);
        self.frozen(path, cluster, entry.problem(path, Scope::Work(key.clone())))
    }

    /// A folder with a problem that hides its objects.
    fn frozen(&self, path: &RepoPath, cluster: &ClusterName, problem: Diagnostic) -> Rendered {
        let key = layout::folder_key(path, cluster);
        let key = Some(key).filter(|key| self.tenancy.may_be_named(path, key));
        let unread = key.iter().map(|_| self.tenancy.of_folder(path, cluster).into()).collect();
        let frozen = FrozenObjects { unread, ..FrozenObjects::default() };
        let scope = problem.scope.clone();
        let mut rendered = Rendered::without_work(path, scope, key, [problem]);
        rendered.uncommon_mut().frozen = frozen;
        rendered
    }

    /// Renders a work folder for a cluster.
    fn work(
        &self,
        name: &ClusterName,
        place: &WorkPlace<'_>,
        cluster: &RenderedCluster,
        Rendering { kinds, ahead }: Rendering<'_>,
    ) -> Result<Arc<Rendered>, PassError> {
        let WorkPlace { path, tree, group, .. } = place;
        let inputs = self.work_inputs();
        let inherited = inputs.inherited(name, *group, cluster);
        let content = FolderContent {
            tree: *tree,
            source: inputs.source_of(*group).blob,
            group: group.map(|one| (one.group.name.clone(), one.group.config.defaults_digest)),
            reports_health: inherited.reports_health,
            delivery: inherited.delivery.map(Delivery::digest),
            cluster_defaults: cluster.inherited.config.defaults_digest,
            kubernetes_version: inherited.checks.cluster.version,
        };
        let known = self.content.borrow().rendered(&content, &inherited.values);
        let known = known.filter(|known| !known.is_stale(kinds));
        if let Some(mut rendered) = known.and_then(|known| known.elsewhere(path, &inherited)) {
            ahead.inspect(|ahead| ahead.pass_over(name, place));
            self.content.borrow_mut().share(&mut rendered);
            return Ok(Arc::new(rendered));
        }
        if !self.budget.borrow().allows_input_of(path) {
            ahead.inspect(|ahead| ahead.pass_over(name, place));
            let problem = too_many_members(path, Scope::Work(layout::folder_key(path, name)));
            let mut rendered = self.frozen(path, name, problem);
            rendered.uncommon_mut().too_many_members = group.map(|one| one.group_members);
            self.content.borrow_mut().share(&mut rendered);
            return Ok(Arc::new(rendered));
        }
        let found = ahead.and_then(|ahead| ahead.take(name, place, self.objects));
        let render = || inputs.render(place, &inherited, kinds, self.objects);
        let mut rendered = found.unwrap_or_else(render)?;
        self.budget.borrow_mut().spend_input(&rendered)?;
        self.budget.borrow_mut().spend_relations(&mut rendered);
        self.content.borrow_mut().share(&mut rendered);
        let rendered = Arc::new(rendered);
        if rendered.is_for_any_cluster() {
            self.content.borrow_mut().keep(&content, &inherited.values, &rendered);
        }
        Ok(rendered)
    }

    /// What work folders follow from above them.
    pub(super) fn work_inputs(&self) -> WorkInputs<'_> {
        WorkInputs {
            source: self.source,
            tenancy: self.tenancy,
            checks: self.checks,
            inputs: &self.inputs,
            earlier: self.earlier,
            parsed: &self.parsed,
            keeps_works: !self.content.borrow().drops_texts(),
        }
    }

    /// The kinds that the CRDs of all clusters define, and the folders whose CRDs define none: with
    /// the CRDs of all works, an error freezes these folders.
    pub(super) fn kinds(
        &self,
        clusters: &BTreeMap<ClusterName, Arc<RenderedCluster>>,
    ) -> Result<(KindIndex, FrozenCrds), PassError> {
        // Most clusters have no CRD.
        let with_crds = clusters.iter().filter(|(_, one)| one.may_have(|found| found.has_crds));
        let with_crds: Vec<(&ClusterName, &Arc<RenderedCluster>)> = with_crds.collect();
        let all = with_crds.iter().flat_map(|(_, cluster)| cluster.crds(|_| true));
        let all = KindIndex::new(all);
        let mut frozen = FrozenCrds::new();
        for (name, cluster) in with_crds.iter().copied() {
            let folders = self.frozen_with_crds(name, cluster, &all)?;
            if !folders.is_empty() {
                frozen.insert(name.clone(), folders);
            }
        }
        let crds = |of_frozen: bool| {
            let frozen = &frozen;
            with_crds.iter().flat_map(move |(name, cluster)| {
                let of = frozen.get(*name);
                cluster.crds(move |one| of.is_some_and(|of| of.contains(one)) == of_frozen)
            })
        };
        let kinds = KindIndex::new(crds(false)).with_frozen(crds(true));
        Ok((kinds, frozen))
    }

    fn frozen_with_crds(
        &self,
        name: &ClusterName,
        cluster: &RenderedCluster,
        all: &KindIndex,
    ) -> Result<BTreeSet<RepoPath>, PassError> {
        let mut frozen = BTreeSet::new();
        for (path, work) in
            cluster.works.iter().filter(|(_, one)| !one.rendered.uncommon().crds.is_empty())
        {
            let is_possible = work.certainty == Certainty::Possible;
            let fails = if !is_possible && work.rendered.is_stale(all) {
                self.again(name, path, work, cluster, all)?.work.is_none()
            } else {
                work.rendered.work.is_none()
            };
            if fails || is_possible {
                frozen.insert(path.clone());
            }
        }
        Ok(frozen)
    }

    /// Renders a work folder of a cluster with other kinds.
    fn again(
        &self,
        name: &ClusterName,
        path: &RepoPath,
        work: &RenderedFolder,
        cluster: &RenderedCluster,
        kinds: &KindIndex,
    ) -> Result<Arc<Rendered>, PassError> {
        let group = cluster.membership_of(path);
        let place = WorkPlace { path: path.clone(), tree: work.tree, group };
        self.work(name, &place, cluster, Rendering::here(kinds))
    }

    /// Renders again what was rendered with another answer to the question for a kind's plural.
    /// `frozen` are the folders whose CRDs count for themselves only.
    pub(super) fn correct_kinds(
        &self,
        name: &ClusterName,
        cluster: &mut Arc<RenderedCluster>,
        kinds: &KindIndex,
        frozen: Option<&BTreeSet<RepoPath>>,
    ) -> Result<(), PassError> {
        if !cluster.may_have(|found| found.has_custom_kinds) {
            return Ok(());
        }
        let mut corrected: Vec<(RepoPath, RenderedFolder)> = Vec::new();
        for (path, work) in &cluster.works {
            let kinds = if frozen.is_some_and(|frozen| frozen.contains(path)) {
                Cow::Owned(kinds.clone().with(work.rendered.uncommon().crds.iter()))
            } else {
                Cow::Borrowed(kinds)
            };
            if work.rendered.is_stale(&kinds) {
                let rendered = self.again(name, path, work, cluster, &kinds)?;
                self.spend_folder(&rendered)?;
                corrected.push((path.clone(), RenderedFolder { rendered, ..work.clone() }));
            }
        }
        if !corrected.is_empty() {
            let cluster = Arc::make_mut(cluster);
            cluster.works.extend(corrected);
            cluster.checked = None;
        }
        Ok(())
    }

    /// What works inherit from cluster.yaml. An equal file of another cluster is read again only
    /// for its problems.
    pub(super) fn cluster_inputs(
        &self,
        name: &ClusterName,
        blob: Option<ObjectId>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<ClusterInputs, ObjectError> {
        let known = blob.and_then(|blob| self.content.borrow().configs.get(&blob).cloned());
        let config = match known {
            _ if blob.is_none() => self.bare.clone(),
            Some(known) if known.is_valid => known,
            known => {
                let read = Arc::new(self.cluster_config(name, blob, diagnostics)?);
                let config = known.unwrap_or(read);
                let configs = &mut self.content.borrow_mut().configs;
                configs.extend(blob.map(|blob| (blob, config.clone())));
                config
            }
        };
        Ok(ClusterInputs { source: self.inputs.clone(), cluster_blob: blob, config })
    }

    /// Reads cluster.yaml.
    fn cluster_config(
        &self,
        name: &ClusterName,
        blob: Option<ObjectId>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<ClusterConfig, ObjectError> {
        let path = layout::cluster_path(name).join(CLUSTER_FILE);
        let scope = Scope::Cluster(name.clone());
        let known_problems = diagnostics.len();
        let config: Option<file::Config<ClusterFile>> =
            read_config(&path, blob, FileKind::Cluster, &scope, self.objects, diagnostics)?;
        if let Some(config) = &config {
            diagnostics.extend(bad_names(&config.value.values).map(|(variable, problem)| {
                let variable_key = pointer_token(variable);
                let at = config.location(&format!("/values/{variable_key}"));
                let message = format!("{variable:?} {problem}");
                Diagnostic::new(Code::BadValue, at, scope.clone(), message).with_field("values")
            }));
        }
        let version = config.as_ref().and_then(|one| one.value.kubernetes_version.as_deref());
        let bad = version.filter(|version| KubernetesVersion::parse(version).is_none());
        if let (Some(config), Some(_)) = (&config, bad) {
            let message = "`kubernetesVersion` must be a version such as \"1.31\"";
            let at = config.location("/kubernetesVersion");
            let found = Diagnostic::new(Code::BadValue, at, scope, message);
            diagnostics.push(found.with_field("kubernetesVersion"));
        }
        let is_valid = diagnostics.len() == known_problems;
        Ok(ClusterConfig::new(config, is_valid))
    }
}

/// The members of a group have too many different values for a folder of this size.
fn too_many_members(folder: &RepoPath, scope: Scope) -> Diagnostic {
    let message = "the group has too many members with values of their own for a folder of this \
                   size: its files are read for each of them";
    let hint = "make the folder smaller, or move what is the same for all members into a folder \
                without variables";
    Diagnostic::new(Code::TooManyFiles, Location::file(folder), scope, message).with_hint(hint)
}

impl From<ObjectError> for PassError {
    fn from(why: ObjectError) -> Self {
        Self::Object(why)
    }
}

impl From<TooLarge> for PassError {
    fn from(TooLarge: TooLarge) -> Self {
        Self::TooLarge
    }
}
