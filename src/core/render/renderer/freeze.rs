//! What the errors of a source freeze: works, folders, clusters or all of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Renderer;
use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::name::{RepoPath, WorkKey, WorkName};
use crate::model::work::DesiredWork;
use crate::render::desired::{Frozen, FrozenObjects};
use crate::render::layout;
use crate::render::work_folder::Rendered;

/// What the folders of each frozen work may have. Several folders may name one work.
type Claims = BTreeMap<WorkKey, Vec<FrozenObjects>>;

impl Renderer {
    /// The parts of Git that could not be read. Takes the frozen works out of `works`.
    pub(super) fn freeze(
        &self,
        works: &mut BTreeMap<WorkKey, DesiredWork>,
        diagnostics: &[Diagnostic],
    ) -> Frozen {
        let mut claims = Claims::new();
        let mut frozen = self.frozen_folders(works, &mut claims);
        for diagnostic in diagnostics.iter().filter(|d| d.is_error()) {
            match (&diagnostic.scope, diagnostic.code) {
                // An older gitwork beside a newer repository: what it can read goes on.
                (Scope::Source, Code::NotSupported) => frozen.deletes = true,
                (Scope::Source, Code::BadName) => {
                    let clusters = || Arc::new(self.clusters.keys().cloned().collect());
                    frozen.clusters_beside_unnamed.get_or_insert_with(clusters);
                }
                (Scope::Source, _) => frozen.source = true,
                (Scope::Cluster(cluster), _) => drop(frozen.clusters.insert(cluster.clone())),
                // What the policy refuses of one folder does not freeze the work of another folder.
                (Scope::Work(key), Code::NotAllowed) if works.contains_key(key) => {}
                (Scope::Work(key), _) if self.may_freeze(key, &diagnostic.location.file, works) => {
                    frozen.works.insert(key.clone());
                }
                // Its folder is frozen, which has no work of that name.
                (Scope::Work(_), _) => {}
            }
        }
        works.retain(|key, _| !frozen.contains(key));
        // Of several folders with works of one name, each has its own objects.
        let rendered = self.folders().filter_map(|rendered| rendered.work.as_ref());
        for work in rendered.filter(|work| frozen.contains(&work.key)) {
            let objects = FrozenObjects { objects: work.objects.clone(), unread: Vec::new() };
            claims.entry(work.key.clone()).or_default().push(objects);
        }
        let claims = claims.into_iter().map(|(key, all)| (key, FrozenObjects::merge(all)));
        frozen.objects = claims.collect();
        frozen
    }

    fn folders(&self) -> impl Iterator<Item = &Rendered> {
        let folders = self.clusters.values().flat_map(|cluster| cluster.works.values());
        folders.map(|folder| &*folder.rendered)
    }

    /// The folders without a work.
    fn frozen_folders(
        &self,
        works: &BTreeMap<WorkKey, DesiredWork>,
        claims: &mut Claims,
    ) -> Frozen {
        let mut frozen = Frozen::default();
        for rendered in self.folders().filter(|rendered| rendered.work.is_none()) {
            frozen.folders.insert(rendered.path.clone());
            let Some(mut key) = rendered.key.clone() else { continue };
            if self.may_freeze(&key, &rendered.path, works) {
                frozen.works.insert(key.clone());
            } else {
                // The work of that name is another folder's, and may give objects to this folder.
                key.work = WorkName::of_unnamed_folder(rendered.path.name());
            }
            claims.entry(key).or_default().push(rendered.frozen.clone());
        }
        frozen
    }

    /// Whether a problem of a file may freeze the work of this name. A folder does not freeze the
    /// work of another folder by a name that it may not have.
    fn may_freeze(
        &self,
        key: &WorkKey,
        file: &RepoPath,
        works: &BTreeMap<WorkKey, DesiredWork>,
    ) -> bool {
        let is_freezable = |work: &DesiredWork| {
            let other = layout::work_folder_of(file).filter(|folder| *folder != work.path);
            other.is_none_or(|folder| self.tenancy.may_be_named(&folder, key))
        };
        key.is_of_work() && works.get(key).is_none_or(is_freezable)
    }
}
