//! What the errors of a source freeze: works, folders, clusters or all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Renderer;
use super::cluster::CheckedWorks;
use super::earlier::LeftOut;
use crate::config::file_names::GROUPS;
use crate::model::diagnostic::{Code, Scope};
use crate::model::diagnostic_sink::ScopedDiagnostic;
use crate::model::name::{ClusterName, GroupName, RepoPath, WorkKey, WorkName};
use crate::model::work::DesiredWork;
use crate::render::desired::{Desired, Frozen, FrozenObjects, UncertainMembers, WantedWorks};
use crate::render::groups::Certainty;
use crate::render::layout;
use crate::render::work_folder::Rendered;

/// What the folders of each frozen work may have. Several folders may name one work.
type Claims = BTreeMap<WorkKey, Vec<FrozenObjects>>;

impl Renderer {
    /// The parts of Git that could not be read. Takes the frozen works out of `works`.
    pub(super) fn freeze(
        &self,
        works: &mut WantedWorks,
        diagnostics: &[ScopedDiagnostic<'_>],
    ) -> Frozen {
        let mut claims = Claims::new();
        let mut frozen = self.frozen_folders(works, &mut claims);
        let errors = diagnostics.iter().filter(|found| found.diagnostic.is_error());
        for ScopedDiagnostic { scope, diagnostic } in errors {
            match (*scope, diagnostic.code) {
                // An older gitwork beside a newer repository: what it can read goes on.
                (Scope::Source, Code::NotSupported) => frozen.deletes = true,
                (Scope::Source, Code::BadName) => {
                    self.freeze_beside_unnamed(&diagnostic.location.file, &mut frozen);
                }
                (Scope::Source, _) => frozen.source = true,
                (Scope::Cluster(cluster), _) => drop(frozen.clusters.insert(cluster.clone())),
                (Scope::Group(group), _) => {
                    frozen.groups.insert(group.clone(), UncertainMembers::Everyone);
                }
                // What the policy refuses of one folder does not freeze the work of another folder.
                (Scope::Work(key), Code::NotAllowed) if works.contains_key(key) => {}
                (Scope::Work(key), _) if self.may_freeze(key, &diagnostic.location.file, works) => {
                    frozen.works.insert(key.clone());
                }
                // Its folder is frozen, which has no work of that name.
                (Scope::Work(_), _) => {}
            }
        }
        if frozen.source || !frozen.clusters.is_empty() || !frozen.works.is_empty() {
            works.retain(|key, _| !frozen.contains(key));
            // Of several folders with works of one name, each has its own objects.
            let rendered =
                self.folders(|_| true).filter_map(|(_, rendered)| rendered.work.as_ref());
            for work in rendered.filter(|work| frozen.contains(&work.key)) {
                claims.entry(work.key.clone()).or_default().push(FrozenObjects::of(work));
            }
        }
        self.claim_possible_objects(works, &mut claims);
        let claims = claims.into_iter().map(|(key, all)| (key, FrozenObjects::merge(all)));
        frozen.objects = claims.collect();
        frozen
    }

    /// The clusters of groups with `rollout` that a work of the group was frozen for.
    pub(super) fn unread_members(
        &self,
        works: &WantedWorks,
        frozen: &Frozen,
    ) -> BTreeSet<(GroupName, ClusterName)> {
        if self.rollouts.is_empty() {
            return BTreeSet::new();
        }
        let unread = self.unread_folders(works).filter_map(|(cluster, rendered)| {
            Some((layout::group_of(&rendered.path)?, cluster.clone()))
        });
        let of_cluster = |(group, cluster): (&GroupName, &ClusterName)| {
            frozen.clusters.contains(cluster).then(|| (group.clone(), cluster.clone()))
        };
        let members = self.rollouts.iter();
        let members = members.flat_map(|(group, rollout)| {
            rollout.members.keys().map(move |cluster| (group, cluster))
        });
        unread.chain(members.filter_map(of_cluster)).collect()
    }

    /// The clusters with an earlier content of a group that may not fit what else the commit has: a
    /// work of theirs is frozen, or one that depends on a work of theirs.
    pub(super) fn unfit_for_earlier(&self, desired: &Desired) -> LeftOut {
        let all = self.clusters.iter();
        let earlier: LeftOut = all
            .filter(|(_, cluster)| cluster.groups.iter().any(|one| one.is_earlier))
            .map(|(name, _)| name.clone())
            .collect();
        if earlier.is_empty() {
            return earlier;
        }
        let frozen = self.unread_folders(&desired.works).flat_map(|(name, rendered)| {
            let others = rendered.depends_on.iter().map(|one| one.key(name).cluster);
            others.chain([name.clone()])
        });
        let is_frozen = |rendered: &Arc<Rendered>| {
            let work = rendered.work.as_ref();
            work.is_none_or(|work| desired.frozen.contains(&work.key))
        };
        let later = self.clusters.iter();
        let later = later.filter(|(_, cluster)| cluster.later_works.iter().any(is_frozen));
        let later = later.map(|(name, _)| name.clone());
        frozen.chain(later).filter(|name| earlier.contains(name)).collect()
    }

    /// The folders of works that a cluster gets for sure, and that are frozen.
    fn unread_folders<'a>(
        &'a self,
        works: &'a WantedWorks,
    ) -> impl Iterator<Item = (&'a ClusterName, &'a Rendered)> {
        let is_read = |rendered: &Rendered| {
            let work = rendered.work.as_ref().and_then(|work| works.get(&work.key));
            work.is_some_and(|work| work.path == rendered.path)
        };
        self.folders(|_| true).filter(move |(_, rendered)| !is_read(rendered))
    }

    /// The folders of works that a cluster gets for sure, of the clusters that may have something.
    pub(super) fn folders(
        &self,
        what: impl Fn(&CheckedWorks) -> bool,
    ) -> impl Iterator<Item = (&ClusterName, &Rendered)> {
        let clusters = self.clusters.iter().filter(move |(_, cluster)| cluster.may_have(&what));
        clusters.flat_map(|(name, cluster)| {
            cluster.certain_works().map(move |folder| (name, &*folder.rendered))
        })
    }

    /// A folder with a name that no cluster, or no group, can have may be the renamed folder of any
    /// that has none.
    fn freeze_beside_unnamed(&self, unnamed: &RepoPath, frozen: &mut Frozen) {
        if unnamed.parts().next() == Some(GROUPS) {
            let named = self.groups.iter().map(|group| group.name.clone());
            let groups = || Arc::new(named.collect());
            frozen.groups_beside_unnamed.get_or_insert_with(groups);
            return;
        }
        let named = self.clusters.iter().filter(|(_, cluster)| cluster.tree.is_some());
        let named = || Arc::new(named.map(|(name, _)| name.clone()).collect());
        frozen.clusters_beside_unnamed.get_or_insert_with(named);
    }

    /// Adds the objects that clusters have if they are in groups whose members are uncertain: an
    /// object that another work drops may have moved to one of these works.
    fn claim_possible_objects(&self, works: &WantedWorks, claims: &mut Claims) {
        let all = self.clusters.values().filter(|cluster| cluster.may_have(|found| found.has_gaps));
        let all = all.flat_map(|cluster| cluster.works.values());
        for folder in all.filter(|folder| folder.certainty == Certainty::Possible) {
            let rendered = &folder.rendered;
            let Some(key) = rendered.key.as_ref().filter(|key| !works.contains_key(key)) else {
                continue;
            };
            let objects = rendered.work.as_deref().map(FrozenObjects::of);
            let objects =
                objects.unwrap_or_else(|| rendered.uncommon().frozen.in_folder(&rendered.path));
            claims.entry(key.clone()).or_default().push(objects);
        }
    }

    /// The folders without a work.
    fn frozen_folders(&self, works: &WantedWorks, claims: &mut Claims) -> Frozen {
        let mut frozen = Frozen {
            groups: self.uncertain.clone(),
            open_groups: self.open_groups.clone(),
            ..Frozen::default()
        };
        let folders = self.folders(|found| found.has_gaps);
        for (cluster, rendered) in folders.filter(|(_, one)| one.work.is_none()) {
            frozen.folders.insert((cluster.clone(), rendered.path.clone()));
            let Some(mut key) = rendered.key.clone() else { continue };
            if self.may_freeze(&key, &rendered.path, works) {
                frozen.works.insert(key.clone());
            } else {
                // The work of that name is another folder's, and may give objects to this folder.
                key.work = WorkName::of_unnamed_folder(rendered.path.name());
            }
            claims
                .entry(key)
                .or_default()
                .push(rendered.uncommon().frozen.in_folder(&rendered.path));
        }
        frozen
    }

    /// Whether a problem of a file may freeze the work of this name. A folder does not freeze the
    /// work of another folder by a name that it may not have.
    fn may_freeze(&self, key: &WorkKey, file: &RepoPath, works: &WantedWorks) -> bool {
        let is_freezable = |work: &Arc<DesiredWork>| {
            let other = layout::work_folder_of(file).filter(|folder| *folder != work.path);
            other.is_none_or(|folder| self.tenancy.may_be_named(&folder, key))
        };
        key.is_of_work() && works.get(key).is_none_or(is_freezable)
    }
}
