//! Two snapshots of one source, rendered as far as they differ.
//!
//! A cluster whose folder is the same in both snapshots is not rendered, if nothing above it
//! differs and no other cluster can change its works. Otherwise, all clusters are rendered.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Renderer;
use super::rendered_change::{RenderedChange, Selected, UnreadClusters};
use crate::config::file_names::CLUSTER_FILE;
use crate::limits;
use crate::model::name::{ClusterName, ObjectId};
use crate::model::snapshot::{Entry, ObjectError, Snapshot};
use crate::render::desired::{Desired, Frozen};
use crate::render::layout;

/// What differs between two snapshots.
enum Differing {
    /// Only the folders of these clusters.
    Clusters(BTreeSet<ClusterName>),
    /// Something that any work may follow from.
    Anything,
}

impl Renderer {
    /// Renders two snapshots, as far as they differ if that gives the same change.
    ///
    /// Errors of clusters that are the same may be missing in the result: the change neither makes
    /// nor corrects them. [`RenderedChange::leave_out_known_problems`] takes out the others.
    pub fn render_change(
        &self,
        base: &Snapshot<'_>,
        head: &Snapshot<'_>,
    ) -> Result<RenderedChange, ObjectError> {
        if let Differing::Clusters(clusters) = differing(base, head)?
            && let Some(change) = self.render_clusters(base, head, &clusters)?
        {
            return Ok(change);
        }
        self.render_whole_change(base, head)
    }

    /// As [`Self::render_change`], but renders all clusters.
    pub fn render_whole_change(
        &self,
        base: &Snapshot<'_>,
        head: &Snapshot<'_>,
    ) -> Result<RenderedChange, ObjectError> {
        let mut same = BTreeSet::new();
        if let Differing::Clusters(differing) = differing(base, head)? {
            let all = layout::top(head.root, head.objects)?.clusters.into_keys();
            same.extend(all.filter(|one| !differing.contains(one)));
        }
        let mut renderer = self.clone();
        // Most works of two revisions are equal: the second state reuses them.
        let head = renderer.render(head)?;
        let base = renderer.render(base)?;
        Ok(RenderedChange { base, head, unread: UnreadClusters::default(), same })
    }

    /// Renders these clusters; `None` if the change may concern others.
    fn render_clusters(
        &self,
        base: &Snapshot<'_>,
        head: &Snapshot<'_>,
        differing: &BTreeSet<ClusterName>,
    ) -> Result<Option<RenderedChange>, ObjectError> {
        let mut renderer = self.clone();
        renderer.clusters.clear();
        renderer.selected = Selected::Named(Arc::new(differing.clone()));
        let base = renderer.render(base)?;
        if !renderer.is_independent(&base) {
            return Ok(None);
        }
        let head = renderer.render(head)?;
        let is_same_works = base.works.keys().eq(head.works.keys());
        let is_small = head.works.len() + renderer.unread.works <= limits::WORKS_MAX;
        let is_complete = is_same_works && is_small && renderer.is_independent(&head);
        let (unread, same) = (renderer.unread, BTreeSet::new());
        Ok(is_complete.then_some(RenderedChange { base, head, unread, same }))
    }

    /// Whether the rendered clusters are the same without the others, and the others without them.
    fn is_independent(&self, desired: &Desired) -> bool {
        let mut folders = self.clusters.values().flat_map(|cluster| cluster.works.values());
        // What is wrong may concern more than the work.
        let is_readable = desired.frozen == Frozen::default();
        self.has_simple_groups()
            && is_readable
            && !self.needs_crds()
            && !folders.any(|folder| !folder.rendered.uncommon().crds.is_empty())
            && !self.waits_for_others()
    }
}

fn differing(base: &Snapshot<'_>, head: &Snapshot<'_>) -> Result<Differing, ObjectError> {
    let [before, after] =
        [layout::top(base.root, base.objects)?, layout::top(head.root, head.objects)?];
    let is_same_above = before.source_file == after.source_file
        && before.approvals == after.approvals
        && before.groups == after.groups
        && before.clusters.keys().eq(after.clusters.keys());
    if !is_same_above {
        return Ok(Differing::Anything);
    }
    let mut differing = BTreeSet::new();
    for ((name, old), new) in before.clusters.iter().zip(after.clusters.values()) {
        if old == new {
            continue;
        }
        // The labels of a cluster decide for the members of groups.
        if !before.groups.is_empty() && cluster_file(*old, base)? != cluster_file(*new, head)? {
            return Ok(Differing::Anything);
        }
        differing.insert(name.clone());
    }
    Ok(Differing::Clusters(differing))
}

/// What stands at the place of a cluster's cluster.yaml; `None` if its folder cannot be read.
fn cluster_file(
    tree: ObjectId,
    snapshot: &Snapshot<'_>,
) -> Result<Option<Option<Entry>>, ObjectError> {
    match snapshot.objects.tree(tree) {
        Ok(tree) => Ok(Some(tree.get(CLUSTER_FILE).cloned())),
        Err(why) if why.is_of_object() => Ok(None),
        Err(why) => Err(why),
    }
}
