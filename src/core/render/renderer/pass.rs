//! One pass over the clusters of a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::cluster::{RenderedCluster, RenderedFolder};
use super::inputs::{ClusterInputs, SourceInputs};
use crate::config::file;
use crate::config::file_names::CLUSTER_FILE;
use crate::config::tenancy::Tenancy;
use crate::config::{ClusterFile, FileKind};
use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, ObjectId, SourceId};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::config_file::read_config;
use crate::render::layout;
use crate::render::substitute::{CLUSTER_NAME, is_name};
use crate::render::work_folder::{self, Inherited, Rendered};

/// One pass over a snapshot.
pub(super) struct RenderPass<'a> {
    pub(super) source: &'a SourceId,
    pub(super) tenancy: &'a Tenancy,
    pub(super) objects: &'a dyn Objects,
    /// What all works inherit.
    pub(super) inputs: Arc<SourceInputs>,
}

impl RenderPass<'_> {
    /// Renders a cluster, taking over what did not change since `before`. `None` where it has more
    /// than `works_max` works.
    pub(super) fn cluster(
        &self,
        name: &ClusterName,
        tree: ObjectId,
        kinds: &KindIndex,
        before: Option<&Arc<RenderedCluster>>,
        works_max: usize,
    ) -> Result<Option<Arc<RenderedCluster>>, ObjectError> {
        if let Some(before) = before
            && before.tree == tree
            && before.inherited.source.blob == self.inputs.blob
        {
            return Ok((before.works.len() <= works_max).then(|| before.clone()));
        }
        let folder = layout::cluster(name, &*self.objects.tree(tree)?, &self.inputs.ignore);
        if folder.works.len() > works_max {
            return Ok(None);
        }
        let mut diagnostics = folder.diagnostics;
        let inherited =
            Arc::new(self.cluster_inputs(name, folder.cluster_file, &mut diagnostics)?);
        let before = before.filter(|before| before.inherited.is_same(&inherited));
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
            works.insert(folder_name, work);
        }
        Ok(Some(Arc::new(RenderedCluster { tree, inherited, works, diagnostics, clashes: None })))
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
    pub(super) fn correct_kinds(
        &self,
        name: &ClusterName,
        cluster: &mut Arc<RenderedCluster>,
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
            cluster.works.insert(folder, RenderedFolder { tree, rendered });
            cluster.clashes = None;
        }
        Ok(())
    }

    /// Reads cluster.yaml.
    fn cluster_inputs(
        &self,
        name: &ClusterName,
        blob: Option<ObjectId>,
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
        Ok(ClusterInputs { source: self.inputs.clone(), cluster_blob: blob, cluster_file, values })
    }
}
