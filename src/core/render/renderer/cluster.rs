//! One rendered cluster, and the checks between its works.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::inputs::ClusterInputs;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::DiagnosticSink;
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
    /// The CRDs in some of the cluster's folders.
    pub(super) fn crds<'a>(
        &'a self,
        of: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = &'a CrdNames> {
        let works = self.works.iter().filter(move |(folder, _)| of(folder));
        works.flat_map(|(_, work)| &work.rendered.crds)
    }

    /// Compares its works with each other, unless that is done.
    pub(super) fn check(self: &mut Arc<Self>, name: &ClusterName) {
        if self.clashes.is_none() {
            let clashes = self.find_clashes(name);
            Arc::make_mut(self).clashes = Some(clashes);
        }
    }

    /// One name, or one object, in two works: an error for both, so that neither is changed.
    fn find_clashes(&self, name: &ClusterName) -> Vec<Diagnostic> {
        // Bounded for each work, as each has to be frozen.
        let mut clashes: BTreeMap<&WorkKey, DiagnosticSink> = BTreeMap::new();
        let most = limits::DIAGNOSTICS_MAX / self.works.len().max(1);
        let most = most.clamp(1, limits::FILE_DIAGNOSTICS_MAX);
        let mut add = |key, found: Option<Diagnostic>| {
            let sink = || DiagnosticSink::new(most);
            clashes.entry(key).or_insert_with(sink).extend(found);
        };
        let mut names: BTreeMap<&WorkKey, &RepoPath> = BTreeMap::new();
        let mut objects: BTreeMap<&Identity, (&Rendered, &Origin)> = BTreeMap::new();
        for rendered in self.works.values().map(|work| &*work.rendered) {
            let Some(key) = &rendered.key else { continue };
            if let Some(first) = names.insert(key, &rendered.path) {
                let found = Diagnostic::new(
                    Code::DuplicateWork,
                    Location::file(&rendered.path),
                    Scope::Work(key.clone()),
                    format!("cluster {name} has two works named {}", key.work),
                );
                add(key, Some(found.with_related(Location::file(first), "the other one")));
            }
            for (identity, origin) in rendered.objects.iter() {
                match objects.get(identity) {
                    Some((other, at)) if !std::ptr::eq(*other, rendered) => {
                        add(key, shared_object(identity, (rendered, origin, *other, *at)));
                        if let Some(key) = &other.key {
                            add(key, shared_object(identity, (*other, *at, rendered, origin)));
                        }
                    }
                    Some(_) => {}
                    None => drop(objects.insert(identity, (rendered, origin))),
                }
            }
        }
        clashes.into_values().flat_map(DiagnosticSink::into_all).collect()
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
    let here = Location::at(&rendered.path.join_path(&origin.file), origin.span);
    let there = Location::at(&other.path.join_path(&at.file), at.span);
    Some(
        Diagnostic::new(Code::ObjectInTwoWorks, here, Scope::Work(key), message)
            .with_related(there, "the other one"),
    )
}
