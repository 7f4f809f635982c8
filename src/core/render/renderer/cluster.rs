//! One rendered cluster, and the checks between its works.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::inputs::ClusterInputs;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::kinds::CrdNames;
use crate::model::manifest::{Identity, Origin};
use crate::model::name::{ClusterName, ObjectId, RepoPath, WorkKey};
use crate::render::work_folder::Rendered;

/// One rendered cluster.
#[derive(Debug, Clone)]
pub(super) struct RenderedCluster {
    /// Of `clusters/<cluster>`.
    pub(super) tree: ObjectId,
    pub(super) inherited: Arc<ClusterInputs>,
    /// By the folder's name.
    pub(super) works: BTreeMap<String, RenderedFolder>,
    /// Of the cluster's own files.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Between its works: one object or one name in two of them. `None` until they are compared.
    pub(super) clashes: Option<Vec<Diagnostic>>,
}

/// One rendered work folder.
#[derive(Debug, Clone)]
pub(super) struct RenderedFolder {
    pub(super) tree: ObjectId,
    pub(super) rendered: Arc<Rendered>,
}

impl RenderedCluster {
    /// The CRDs in the cluster's works.
    pub(super) fn crds(self: &Arc<Self>) -> impl Iterator<Item = &CrdNames> {
        self.works.values().flat_map(|work| &work.rendered.crds)
    }

    /// With its works compared to each other.
    pub(super) fn checked(mut self: Arc<Self>, name: &ClusterName) -> Arc<Self> {
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
        "{identity} is in the works {} and {} of cluster {}",
        key.work, other_key.work, key.cluster
    );
    let here = Location::at(&origin.file, origin.span);
    let there = Location::at(&at.file, at.span);
    Some(
        Diagnostic::new(Code::ObjectInTwoWorks, here, Scope::Work(key), message)
            .with_related(there, "the other one"),
    )
}
