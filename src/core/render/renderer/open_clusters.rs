//! Finds what the works of each cluster inherit, and which folders changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cluster::{OpenCluster, OpenClusters, RenderedCluster};
use super::inputs::ClusterInputs;
use super::pass::RenderPass;
use crate::model::in_step::InStep;
use crate::model::name::{ClusterName, ObjectId};
use crate::model::snapshot::ObjectError;
use crate::render::groups::Membership;
use crate::render::layout;

impl RenderPass<'_> {
    /// Opens the clusters with these folders. `before`: what was rendered last.
    pub(super) fn open<'b>(
        &self,
        trees: &BTreeMap<ClusterName, ObjectId>,
        before: &'b BTreeMap<ClusterName, Arc<RenderedCluster>>,
    ) -> Result<OpenClusters<'b>, ObjectError> {
        let (mut before, mut opened) = (InStep::new(before), Vec::with_capacity(trees.len()));
        for (name, tree) in trees {
            opened.push((name.clone(), self.open_folder(name, *tree, before.get(name))?));
        }
        Ok(opened)
    }

    /// Reads what a cluster's works inherit, unless its folder is unchanged since `before`.
    fn open_folder<'b>(
        &self,
        name: &ClusterName,
        tree: ObjectId,
        before: Option<&'b Arc<RenderedCluster>>,
    ) -> Result<OpenCluster<'b>, ObjectError> {
        if let Some(known) = before
            && known.tree == Some(tree)
            && known.inherited.source.blob == self.inputs.blob
        {
            let (inherited, diagnostics) = (known.inherited.clone(), known.diagnostics.clone());
            let tree = Some(tree);
            return Ok(OpenCluster { before, tree, folder: None, inherited, diagnostics });
        }
        let folder = layout::cluster(name, tree, self.objects, &self.inputs.ignore)?;
        let mut folder = Box::new(folder);
        let mut diagnostics = std::mem::take(&mut folder.diagnostics);
        let inherited = self.cluster_inputs(name, folder.config_file, &mut diagnostics)?;
        let (tree, folder, inherited) = (Some(tree), Some(folder), Arc::new(inherited));
        Ok(OpenCluster { before, tree, folder, inherited, diagnostics })
    }

    /// Adds the members of groups that have no folder in Git.
    pub(super) fn open_members<'b>(
        &self,
        members: &BTreeMap<ClusterName, Vec<Membership>>,
        before: &'b BTreeMap<ClusterName, Arc<RenderedCluster>>,
        opened: &mut OpenClusters<'b>,
    ) {
        let mut known = InStep::new(opened.iter().map(|(name, open)| (name, open)));
        let missing = members.keys().filter(|name| known.get(name).is_none());
        let missing: Vec<&ClusterName> = missing.collect();
        if missing.is_empty() {
            return;
        }
        let open = |name| self.open_without_folder(before.get(name));
        opened.extend(missing.into_iter().map(|name| (name.clone(), open(name))));
        // Both parts are sorted, which makes this cheap.
        opened.sort_by(|(one, _), (other, _)| one.cmp(other));
    }

    fn open_without_folder<'b>(&self, before: Option<&'b Arc<RenderedCluster>>) -> OpenCluster<'b> {
        let (source, config) = (self.inputs.clone(), self.bare.clone());
        let inherited = Arc::new(ClusterInputs { source, cluster_blob: None, config });
        let folder = Some(Box::default());
        OpenCluster { before, tree: None, folder, inherited, diagnostics: Vec::new() }
    }
}
