//! Two snapshots of one source, rendered as far as they differ.
//!
//! A cluster is the same in both if its folder, `gitwork.yaml` and all groups are: the facts are the
//! same. Its works are not rendered, unless the others may depend on them, or they on the others:
//! by a CRD, by `dependsOn`, or by an error that is about the whole source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Renderer;
use super::cluster::RenderedFolder;
use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::name::{ClusterName, RepoPath, WorkKey};
use crate::model::snapshot::{ObjectError, Snapshot};
use crate::render::desired::{Comparison, Desired, UnchangedWorks};
use crate::render::layout;

type Clusters = BTreeSet<ClusterName>;

impl Renderer {
    /// Renders two snapshots as far as they differ. What is wrong with a cluster that is the same in
    /// both is left out.
    pub fn compare(
        &self,
        base: &Snapshot<'_>,
        head: &Snapshot<'_>,
    ) -> Result<Comparison, ObjectError> {
        let Some(differing) = differing_clusters(base, head)? else {
            return self.compare_whole(base, head, None);
        };
        let differing = Arc::new(differing);
        let mut of_head = Self { only: Some(differing.clone()), ..self.clone() };
        let in_head = of_head.render(head)?;
        let mut of_base = of_head.clone();
        let in_base = of_base.render(base)?;
        let is_whole = |desired: &Desired| {
            let mut all = desired.diagnostics.iter();
            !all.any(|found| found.is_error() && found.scope == Scope::Source)
        };
        if is_whole(&in_base) && is_whole(&in_head) && of_head.differs_alone(&of_base) {
            let unchanged = of_head.unread;
            return Ok(Comparison { base: in_base, head: in_head, unchanged });
        }
        self.compare_whole(base, head, Some(&differing))
    }

    /// The definition of [`Self::compare`].
    #[cfg(test)]
    pub(crate) fn compare_completely(
        &self,
        base: &Snapshot<'_>,
        head: &Snapshot<'_>,
    ) -> Result<Comparison, ObjectError> {
        self.compare_whole(base, head, differing_clusters(base, head)?.as_ref())
    }

    /// Renders all of two snapshots. `differing`: the clusters that are not the same in both;
    /// `None` if any may differ.
    fn compare_whole(
        &self,
        base: &Snapshot<'_>,
        head: &Snapshot<'_>,
        differing: Option<&Clusters>,
    ) -> Result<Comparison, ObjectError> {
        let mut of_head = self.clone();
        let head = of_head.render(head)?;
        let base = of_head.clone().render(base)?;
        let mut found = Comparison { base, head, unchanged: UnchangedWorks::new() };
        if let Some(differing) = differing {
            of_head.leave_out_known(differing, &mut found);
        }
        Ok(found)
    }

    /// Leaves out what is wrong with the clusters that are the same in both, and their works that
    /// neither state has.
    fn leave_out_known(&self, differing: &Clusters, found: &mut Comparison) {
        let Comparison { base, head, unchanged } = found;
        let is_same = |one: &Diagnostic| match &one.scope {
            Scope::Cluster(cluster) => !differing.contains(cluster),
            Scope::Work(key) => !differing.contains(&key.cluster),
            Scope::Source | Scope::Group(_) => false,
        };
        type Known = BTreeSet<(RepoPath, Code, String)>;
        let known = |one: &Diagnostic| (one.location.file.clone(), one.code, one.message.clone());
        let all = |desired: &Desired| -> Known {
            desired.diagnostics.iter().filter(|one| is_same(one)).map(known).collect()
        };
        let (in_base, in_head) = (all(base), all(head));
        let both: Known = in_base.intersection(&in_head).cloned().collect();
        for desired in [&mut *base, &mut *head] {
            desired.diagnostics.retain(|one| !is_same(one) || !both.contains(&known(one)));
        }
        for (name, cluster) in &self.clusters {
            if differing.contains(name) {
                continue;
            }
            for RenderedFolder { rendered, .. } in cluster.certain_works() {
                let of_folder = layout::folder_key(&rendered.path, name);
                let is_there =
                    |key: &WorkKey| base.works.contains_key(key) || head.works.contains_key(key);
                let key = rendered.key.as_ref().unwrap_or(&of_folder);
                if !is_there(key) {
                    // Its errors name the work of the folder's own name, too.
                    for frozen in [&mut base.frozen.works, &mut head.frozen.works] {
                        frozen.remove(key);
                        frozen.remove(&of_folder);
                    }
                    unchanged.entry(name.clone()).or_default().insert(of_folder);
                }
            }
        }
    }

    /// Whether what differs between two states of the rendered clusters follows from these clusters
    /// alone, and changes nothing in the others.
    fn differs_alone(&self, other: &Self) -> bool {
        let states = [self, other];
        // A work elsewhere may depend on one that comes or goes.
        let works = states.map(|state| -> BTreeMap<_, _> {
            state.folders_by_path().map(|(at, folder)| (at, &folder.rendered.key)).collect()
        });
        // A CRD tells the plural of its kind everywhere, unless its work is frozen.
        let crds = states.map(|state| -> Vec<_> {
            let defining =
                state.folders_by_path().filter(|(_, folder)| !folder.rendered.crds.is_empty());
            defining
                .map(|(at, one)| (at, &one.rendered.crds, one.rendered.work.is_some()))
                .collect()
        });
        works[0] == works[1]
            && crds[0] == crds[1]
            && states.into_iter().all(Self::is_self_contained)
    }

    /// Whether no rendered work asks for anything of a cluster that is left out.
    fn is_self_contained(&self) -> bool {
        self.folders_by_path().all(|((cluster, _), folder)| {
            let mut dependencies = folder.rendered.depends_on.iter();
            folder.rendered.custom_kinds.is_empty()
                && dependencies.all(|one| !self.leaves_out(&one.key(cluster).cluster))
        })
    }

    fn folders_by_path(
        &self,
    ) -> impl Iterator<Item = ((&ClusterName, &RepoPath), &RenderedFolder)> {
        self.clusters.iter().flat_map(|(name, cluster)| {
            cluster.works.iter().map(move |(path, folder)| ((name, path), folder))
        })
    }
}

/// The clusters whose folders differ; `None` if something differs that is about all clusters.
fn differing_clusters(
    base: &Snapshot<'_>,
    head: &Snapshot<'_>,
) -> Result<Option<Clusters>, ObjectError> {
    let [base, head] = [base, head].map(|one| layout::top(one.root, one.objects));
    let (base, head) = (base?, head?);
    if base.source_file != head.source_file || base.groups != head.groups {
        return Ok(None);
    }
    let names: BTreeSet<&ClusterName> = base.clusters.keys().chain(head.clusters.keys()).collect();
    let differing =
        names.into_iter().filter(|name| base.clusters.get(*name) != head.clusters.get(*name));
    Ok(Some(differing.cloned().collect()))
}
