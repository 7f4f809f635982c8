//! One pass over the clusters of a snapshot.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::cluster::{RenderedCluster, RenderedFolder};
use super::content::{ContentBudget, FolderContent, SharedContent, TooLarge};
use super::inputs::{ClusterConfig, ClusterInputs, SourceInputs};
use crate::config::file;
use crate::config::file_names::CLUSTER_FILE;
use crate::config::tenancy::Tenancy;
use crate::config::{ClusterFile, FileKind};
use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, ObjectId, RepoPath, SourceId};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::config_file::read_config;
use crate::render::desired::FrozenObjects;
use crate::render::layout;
use crate::render::substitute::{CLUSTER_NAME, is_name};
use crate::render::work_folder::{self, ConfigIndex, Inherited, Rendered, Reuse};

/// Folders by cluster whose CRDs count for themselves only.
pub(super) type FrozenCrds = BTreeMap<ClusterName, BTreeSet<String>>;

/// One pass over a snapshot.
pub(super) struct RenderPass<'a> {
    pub(super) source: &'a SourceId,
    pub(super) tenancy: &'a Tenancy,
    pub(super) objects: &'a dyn Objects,
    /// What all works inherit.
    pub(super) inputs: Arc<SourceInputs>,
    /// What works of this pass and the last one hold.
    pub(super) content: RefCell<SharedContent>,
    /// What the works of this pass may still hold.
    pub(super) budget: RefCell<ContentBudget>,
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

impl RenderPass<'_> {
    /// Renders a cluster, taking over what did not change since `before`. It may have `works_max`
    /// works.
    pub(super) fn cluster(
        &self,
        name: &ClusterName,
        tree: ObjectId,
        kinds: &KindIndex,
        before: Option<&Arc<RenderedCluster>>,
        works_max: usize,
    ) -> Result<Arc<RenderedCluster>, PassError> {
        if let Some(before) = before
            && before.tree == tree
            && before.inherited.source.blob == self.inputs.blob
        {
            if before.works.len() > works_max {
                return Err(PassError::TooManyWorks);
            }
            self.count(before)?;
            return Ok(before.clone());
        }
        let folder = layout::cluster(name, tree, self.objects, &self.inputs.ignore)?;
        if folder.works.len() + folder.blocked.len() > works_max {
            return Err(PassError::TooManyWorks);
        }
        let mut diagnostics = folder.diagnostics;
        let inherited =
            Arc::new(self.cluster_inputs(name, folder.cluster_file, &mut diagnostics)?);
        let before = before.filter(|before| before.inherited.is_same(&inherited));
        self.budget.borrow_mut().spend_config(&inherited.config)?;
        let mut works = BTreeMap::new();
        for (folder_name, tree) in folder.works {
            let kept = before
                .and_then(|before| before.works.get(&folder_name))
                .filter(|work| work.tree == tree);
            let work = match kept {
                Some(work) => work.clone(),
                None => RenderedFolder {
                    tree,
                    rendered: self.work(name, &folder_name, tree, &inherited, kinds)?,
                },
            };
            // After each one: a single cluster may have all works of the source.
            self.budget.borrow_mut().spend_folder(&work.rendered)?;
            works.insert(folder_name, work);
        }
        for (folder_name, (tree, problem)) in folder.blocked {
            let path = layout::cluster_path(name).join(&folder_name);
            let mut rendered = self.blocked(&path, name, problem);
            self.content.borrow_mut().share(&mut rendered);
            let rendered = Arc::new(rendered);
            self.budget.borrow_mut().spend_folder(&rendered)?;
            works.insert(folder_name, RenderedFolder { tree, rendered });
        }
        self.budget.borrow_mut().spend_diagnostics(&diagnostics)?;
        Ok(Arc::new(RenderedCluster { tree, inherited, works, diagnostics, clashes: None }))
    }

    /// Counts what an unchanged cluster holds.
    fn count(&self, cluster: &RenderedCluster) -> Result<(), TooLarge> {
        let mut budget = self.budget.borrow_mut();
        budget.spend_config(&cluster.inherited.config)?;
        budget.spend_diagnostics(&cluster.diagnostics)?;
        cluster.works.values().try_for_each(|work| budget.spend_folder(&work.rendered))
    }

    /// Compares the works of a cluster with each other.
    pub(super) fn check(
        &self,
        name: &ClusterName,
        cluster: &mut Arc<RenderedCluster>,
    ) -> Result<(), PassError> {
        RenderedCluster::check(cluster, name);
        let clashes = cluster.clashes.as_deref().unwrap_or_default();
        Ok(self.budget.borrow_mut().spend_diagnostics(clashes)?)
    }

    /// What a link or a submodule in the place of a work folder makes: a frozen work. Its objects
    /// are unknown.
    fn blocked(&self, path: &RepoPath, cluster: &ClusterName, problem: Diagnostic) -> Rendered {
        let key = layout::folder_key(path, cluster);
        let key = Some(key).filter(|key| self.tenancy.may_be_named(path, key));
        let unread = key.iter().map(|_| self.tenancy.of_folder(path, cluster).into()).collect();
        let frozen = FrozenObjects { unread, ..FrozenObjects::default() };
        Rendered { frozen, ..Rendered::without_work(path, key, vec![problem]) }
    }

    /// Renders a work folder.
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
            settings: [&inputs.source.file.defaults, &inputs.config.file.defaults],
            rules: [&inputs.source.rules, &inputs.config.rules],
            values: &inputs.config.values,
            secrets: inputs.source.file.secrets,
        };
        let path = layout::cluster_path(cluster).join(folder);
        let content: FolderContent = (tree, [inputs.source.blob, inputs.cluster_blob]);
        let known = self.content.borrow().folders.get(&content).cloned();
        let known = known.filter(|known| !known.is_stale(kinds));
        if let Some(mut rendered) = known.and_then(|known| known.elsewhere(&path, &inherited)) {
            self.content.borrow_mut().share(&mut rendered);
            return Ok(Arc::new(rendered));
        }
        let ignore = &inputs.source.ignore;
        let mut rendered =
            work_folder::render(&path, tree, &inherited, ignore, kinds, self.objects)?;
        self.content.borrow_mut().share(&mut rendered);
        let rendered = Arc::new(rendered);
        if rendered.reuse != Reuse::Never {
            self.content.borrow_mut().folders.insert(content, rendered.clone());
        }
        Ok(rendered)
    }

    /// The kinds that the CRDs of all clusters define, and the folders whose CRDs define none: with
    /// the CRDs of all works, an error freezes these folders.
    pub(super) fn kinds(
        &self,
        clusters: &BTreeMap<ClusterName, Arc<RenderedCluster>>,
    ) -> Result<(KindIndex, FrozenCrds), ObjectError> {
        let all = KindIndex::new(clusters.values().flat_map(|cluster| cluster.crds(|_| true)));
        let mut frozen = FrozenCrds::new();
        for (name, cluster) in clusters {
            let folders = self.frozen_with_crds(name, cluster, &all)?;
            if !folders.is_empty() {
                frozen.insert(name.clone(), folders);
            }
        }
        let crds = |of_frozen: bool| {
            let frozen = &frozen;
            clusters.iter().flat_map(move |(name, cluster)| {
                let of = frozen.get(name);
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
    ) -> Result<BTreeSet<String>, ObjectError> {
        let mut frozen = BTreeSet::new();
        for (folder, work) in cluster.works.iter().filter(|(_, one)| !one.rendered.crds.is_empty())
        {
            let fails = if work.rendered.is_stale(all) {
                self.work(name, folder, work.tree, &cluster.inherited, all)?.work.is_none()
            } else {
                work.rendered.work.is_none()
            };
            if fails {
                frozen.insert(folder.clone());
            }
        }
        Ok(frozen)
    }

    /// Renders again what was rendered with another answer to the question for a kind's plural.
    /// `frozen` are the folders whose CRDs count for themselves only.
    pub(super) fn correct_kinds(
        &self,
        name: &ClusterName,
        cluster: &mut Arc<RenderedCluster>,
        kinds: &KindIndex,
        frozen: Option<&BTreeSet<String>>,
    ) -> Result<(), PassError> {
        let mut stale: Vec<(String, ObjectId, Cow<'_, KindIndex>)> = Vec::new();
        for (folder, work) in &cluster.works {
            let kinds = if frozen.is_some_and(|frozen| frozen.contains(folder)) {
                Cow::Owned(kinds.clone().with(work.rendered.crds.iter()))
            } else {
                Cow::Borrowed(kinds)
            };
            if work.rendered.is_stale(&kinds) {
                stale.push((folder.clone(), work.tree, kinds));
            }
        }
        for (folder, tree, kinds) in stale {
            let rendered = self.work(name, &folder, tree, &cluster.inherited, &kinds)?;
            self.budget.borrow_mut().spend_folder(&rendered)?;
            let cluster = Arc::make_mut(cluster);
            cluster.works.insert(folder, RenderedFolder { tree, rendered });
            cluster.clashes = None;
        }
        Ok(())
    }

    /// What works inherit from cluster.yaml. An equal file of another cluster is read again only
    /// for its problems.
    fn cluster_inputs(
        &self,
        name: &ClusterName,
        blob: Option<ObjectId>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<ClusterInputs, ObjectError> {
        let known = blob.and_then(|blob| self.content.borrow().configs.get(&blob).cloned());
        let config = match known {
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
        let mut values: BTreeMap<String, Value> = [(CLUSTER_NAME.to_owned(), Value::Null)].into();
        let path = layout::cluster_path(name).join(CLUSTER_FILE);
        let scope = Scope::Cluster(name.clone());
        let mut file = ClusterFile::default();
        let known_problems = diagnostics.len();
        if let Some(config) =
            read_config(&path, blob, FileKind::Cluster, &scope, self.objects, diagnostics)?
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
            file = config.value;
        }
        let rules = ConfigIndex::new(&file.defaults.manifest_configs);
        let is_valid = diagnostics.len() == known_problems;
        Ok(ClusterConfig { file, rules, values, is_valid })
    }
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
