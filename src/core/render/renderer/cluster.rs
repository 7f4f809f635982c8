//! One rendered cluster, and the checks between its works.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::inputs::ClusterInputs;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::{DiagnosticSink, ScopedDiagnostic};
use crate::model::facts::KnownFacts;
use crate::model::kinds::CrdNames;
use crate::model::manifest::{Identity, Origin};
use crate::model::name::{ClusterName, ObjectId, RepoPath, WorkKey};
use crate::model::snapshot::ObjectError;
use crate::model::work::DesiredWork;
use crate::model::works_by_cluster::ClusterWorks;
use crate::render::groups::{Certainty, Membership};
use crate::render::layout::{self, OwnerFolder, is_of_group};
use crate::render::work_folder::Rendered;

/// One rendered cluster.
#[derive(Debug, Clone)]
pub(super) struct RenderedCluster {
    /// Of `clusters/<cluster>`; `None` without such a folder.
    pub(super) tree: Option<ObjectId>,
    pub(super) inherited: Arc<ClusterInputs>,
    /// What the hub says of the cluster.
    pub(super) facts: KnownFacts,
    /// The groups that it is in, or may be in.
    pub(super) groups: Vec<Membership>,
    /// Those of which it has or gets an earlier content, as the commit has them.
    pub(super) later: Vec<Membership>,
    /// The work folders of these.
    pub(super) later_works: Vec<Arc<Rendered>>,
    /// By the folder's path.
    pub(super) works: BTreeMap<RepoPath, RenderedFolder>,
    /// Of the cluster's own files.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// What was found in its works; `None` until all are rendered and compared.
    pub(super) checked: Option<CheckedWorks>,
}

/// What was found in the works of a cluster. Most clusters are the same in each pass, and have
/// nothing in which others look for something.
#[derive(Debug, Clone, Default)]
pub(super) struct CheckedWorks {
    /// Those that the cluster gets for sure.
    works: ClusterWorks<Arc<DesiredWork>>,
    /// The bytes of what its works do not share with others.
    own_bytes: usize,
    /// One object or one name in two of them.
    pub(super) clashes: Vec<Diagnostic>,
    /// What is odd about one beside the others.
    pub(super) notes: Vec<Diagnostic>,
    pub(super) has_problems: bool,
    pub(super) has_crds: bool,
    pub(super) has_custom_kinds: bool,
    pub(super) has_dependencies: bool,
    pub(super) has_variables: bool,
    /// A group had too many members for a folder.
    has_too_many_members: bool,
    /// A folder has no work, or the cluster may not get it.
    pub(super) has_gaps: bool,
}

/// One rendered work folder.
#[derive(Debug, Clone)]
pub(super) struct RenderedFolder {
    pub(super) tree: ObjectId,
    pub(super) rendered: Arc<Rendered>,
    /// Whether the cluster gets the work for sure, or only may be in the work's group.
    pub(super) certainty: Certainty,
}

/// Sorted by name.
pub(super) type OpenClusters<'a> = Vec<(ClusterName, OpenCluster<'a>)>;

/// A cluster before its works are rendered.
pub(super) struct OpenCluster<'a> {
    /// What was rendered last.
    pub(super) before: Option<&'a Arc<RenderedCluster>>,
    /// Of `clusters/<cluster>`; `None` without such a folder.
    pub(super) tree: Option<ObjectId>,
    /// What stands in the folder; `None` if it was not read, because it did not change.
    pub(super) folder: Option<Box<OwnerFolder>>,
    pub(super) inherited: Arc<ClusterInputs>,
    /// Of the cluster's own files.
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl OpenCluster<'_> {
    /// Whether what stands in its folder was read.
    pub(super) fn is_read(&self) -> bool {
        self.folder.is_some()
    }

    /// The names of the work folders in the cluster's folder, as far as it was read.
    pub(super) fn work_folders(&self) -> impl Iterator<Item = &String> {
        self.folder.iter().flat_map(|folder| folder.works.keys())
    }
}

/// A cluster whose inputs are known.
pub(super) enum ClusterPlan<'a> {
    /// As before.
    Same(&'a Arc<RenderedCluster>),
    /// To be rendered, at least in part.
    Changed {
        /// Without its works.
        cluster: Arc<RenderedCluster>,
        /// What stands in its folder.
        folder: Result<Box<OwnerFolder>, ObjectError>,
        /// What was rendered last, if it has inherited the same.
        before: Option<&'a Arc<RenderedCluster>>,
    },
}

impl RenderedCluster {
    /// The CRDs in some of the cluster's folders.
    pub(super) fn crds<'a>(
        &'a self,
        of: impl Fn(&RepoPath) -> bool + 'a,
    ) -> impl Iterator<Item = &'a CrdNames> {
        let works = self.rendered_folders().filter(move |rendered| of(&rendered.path));
        works.flat_map(|rendered| &rendered.uncommon().crds)
    }

    /// All its work folders, with those that it gets later.
    pub(super) fn rendered_folders(&self) -> impl Iterator<Item = &Arc<Rendered>> {
        self.works.values().map(|work| &work.rendered).chain(&self.later_works)
    }

    /// The bytes of what its works do not share with others.
    pub(super) fn own_bytes(&self) -> usize {
        let count = || self.rendered_folders().map(|one| one.sizes.unshared()).sum();
        self.checked.as_ref().map_or_else(count, |found| found.own_bytes)
    }

    /// The folders that it has not as before.
    pub(super) fn replaced_folders(&self, before: &Self) -> usize {
        let is_kept = |(path, old): (&RepoPath, &RenderedFolder)| {
            self.works.get(path).is_some_and(|new| Arc::ptr_eq(&old.rendered, &new.rendered))
        };
        let kept = before.works.iter().filter(|folder| is_kept(*folder)).count();
        before.works.len() - kept + before.later_works.len()
    }

    /// Whether something may be found in its works, which need not be checked yet.
    pub(super) fn may_have(&self, what: impl Fn(&CheckedWorks) -> bool) -> bool {
        self.checked.as_ref().is_none_or(what)
    }

    /// Whether something may be wrong with it. Most clusters are passed over by that.
    pub(super) fn may_have_problems(&self) -> bool {
        let has_any = |found: &CheckedWorks| {
            found.has_problems || !found.clashes.is_empty() || !found.notes.is_empty()
        };
        !self.diagnostics.is_empty() || self.may_have(has_any)
    }

    /// What is wrong with its files, and with the works that it gets with the commit.
    pub(super) fn problems(&self) -> impl Iterator<Item = ScopedDiagnostic<'_>> {
        let between = self.checked.iter();
        let between = between.flat_map(|found| found.clashes.iter().chain(&found.notes));
        let of_cluster = self.diagnostics.iter().chain(between).map(ScopedDiagnostic::new);
        of_cluster.chain(self.works_of_commit().flat_map(Rendered::problems))
    }

    /// The folders of works that the cluster gets for sure.
    pub(super) fn certain_works(&self) -> impl Iterator<Item = &RenderedFolder> {
        self.works.values().filter(|work| work.certainty == Certainty::Member)
    }

    /// The works that it gets for sure, without those that an error freezes.
    pub(super) fn wanted(&self) -> ClusterWorks<Arc<DesiredWork>> {
        let find = || {
            let works = self.certain_works().filter_map(|folder| folder.rendered.work.as_ref());
            Arc::new(works.map(|work| (work.key.clone(), work.clone())).collect())
        };
        self.checked.as_ref().map_or_else(find, |found| found.works.clone())
    }

    /// The works that it gets with the commit. What is wrong with an earlier content was reported
    /// before.
    fn works_of_commit(&self) -> impl Iterator<Item = &Rendered> {
        let is_earlier = |one: &RenderedFolder| {
            self.membership_of(&one.rendered.path).is_some_and(|group| group.is_earlier)
        };
        let works = self.certain_works().filter(move |one| !is_earlier(one));
        works.map(|one| &*one.rendered).chain(self.later_works.iter().map(|one| &**one))
    }

    /// Whether it is the cluster of this folder, in these groups, with these facts.
    pub(super) fn is_same(
        &self,
        tree: Option<ObjectId>,
        (groups, later): (&[Membership], &[Membership]),
        facts: &KnownFacts,
    ) -> bool {
        let is_alike = |(one, other): (&Membership, &Membership)| {
            Arc::ptr_eq(&one.group, &other.group)
                && one.certainty == other.certainty
                && one.overrides == other.overrides
        };
        let are_alike = |ones: &[Membership], others: &[Membership]| {
            ones.len() == others.len() && ones.iter().zip(others).all(is_alike)
        };
        self.tree == tree
            && self.facts == *facts
            && are_alike(&self.groups, groups)
            && are_alike(&self.later, later)
    }

    /// Whether a group has other members than when it had too many for one of its folders.
    pub(super) fn may_fit(&self, groups: &[Membership]) -> bool {
        let may_have = self.may_have(|found| found.has_too_many_members);
        let mut works = self.works.iter().take_while(|_| may_have);
        works.any(|(path, work)| {
            work.rendered.uncommon().too_many_members.is_some_and(|count| {
                let group = layout::group_of(path);
                let mut groups = groups.iter();
                groups
                    .any(|one| group == Some(one.group.name.clone()) && one.group_members != count)
            })
        })
    }

    /// The folder at a path, if it is rendered for `now` already: with the same files, settings and
    /// facts. What both inherit from cluster.yaml is the same.
    pub(super) fn kept(
        &self,
        now: &Self,
        path: &RepoPath,
        tree: ObjectId,
    ) -> Option<Arc<Rendered>> {
        let work = self.works.get(path).filter(|work| work.tree == tree)?;
        let is_same_group = match (self.membership_of(path), now.membership_of(path)) {
            (Some(before), Some(now)) => {
                Arc::ptr_eq(&before.group, &now.group) && before.overrides == now.overrides
            }
            (before, now) => before.is_none() && now.is_none(),
        };
        let may_fit = now.membership_of(path).is_some_and(|one| {
            work.rendered
                .uncommon()
                .too_many_members
                .is_some_and(|count| count != one.group_members)
        });
        (is_same_group && !may_fit && self.facts == now.facts).then(|| work.rendered.clone())
    }

    /// The folders with its works, in the order in which they are rendered: its own, and those of
    /// its groups.
    pub(super) fn owners<'a>(
        &'a self,
        name: &ClusterName,
        folder: &'a OwnerFolder,
    ) -> impl Iterator<Item = (RepoPath, &'a OwnerFolder, Option<&'a Membership>)> {
        let groups = self.groups.iter();
        let groups =
            groups.map(|one| (layout::group_path(&one.group.name), &one.group.folder, Some(one)));
        std::iter::once((layout::cluster_path(name), folder, None)).chain(groups)
    }

    /// The group that a work folder is in.
    pub(super) fn membership_of(&self, path: &RepoPath) -> Option<&Membership> {
        let name = layout::group_of(path)?;
        self.groups.iter().find(|one| one.group.name == name)
    }

    /// Drops the works of groups that works in the cluster's own folder replace.
    pub(super) fn drop_replaced(&mut self) {
        let works = self.works.values().map(|work| &work.rendered);
        let replacing = works.filter(|one| one.replaces_group && !is_of_group(&one.path));
        let keys: BTreeSet<WorkKey> = replacing.filter_map(|one| one.key.clone()).collect();
        self.works.retain(|path, work| {
            let key = work.rendered.key.as_ref();
            !is_of_group(path) || key.is_none_or(|key| !keys.contains(key))
        });
    }

    /// Compares its works with each other, unless that is done. `notes`: what is odd about them.
    pub(super) fn check(
        self: &mut Arc<Self>,
        name: &ClusterName,
        notes: impl FnOnce(&Self) -> Vec<Diagnostic>,
    ) {
        if self.checked.is_none() {
            let checked = CheckedWorks { notes: notes(self), ..self.checked_works(name) };
            Arc::make_mut(self).checked = Some(checked);
        }
    }

    fn checked_works(&self, name: &ClusterName) -> CheckedWorks {
        let mut found = CheckedWorks {
            works: self.wanted(),
            own_bytes: self.own_bytes(),
            clashes: self.find_clashes(name),
            has_problems: self.works_of_commit().any(|one| !one.diagnostics.is_empty()),
            has_gaps: self
                .works
                .values()
                .any(|work| work.certainty == Certainty::Possible || work.rendered.work.is_none()),
            ..CheckedWorks::default()
        };
        for one in self.rendered_folders() {
            let uncommon = one.uncommon();
            found.has_crds |= !uncommon.crds.is_empty();
            found.has_custom_kinds |= !uncommon.custom_kinds.is_empty();
            found.has_dependencies |= !one.depends_on.is_empty();
            found.has_variables |= !one.variables.is_empty();
            found.has_too_many_members |= uncommon.too_many_members.is_some();
        }
        found
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
        let mut objects: HashMap<&Identity, (&Rendered, &Origin)> = HashMap::new();
        for rendered in self.certain_works().map(|work| &*work.rendered) {
            let Some(key) = &rendered.key else { continue };
            if let Some(first) = names.insert(key, &rendered.path) {
                let found = Diagnostic::new(
                    Code::DuplicateWork,
                    Location::file(&rendered.path),
                    Scope::Work(key.clone()),
                    format!("cluster {name} has two works named {}", key.work),
                );
                let found = found.with_related(Location::file(first), "the other one");
                // Own folders come first.
                let is_replaceable = !is_of_group(first) && is_of_group(&rendered.path);
                let hint = format!(
                    "to replace the work of the group on this cluster, set `replaces: group` in \
                     {first}/work.yaml; otherwise set another `name` in one of the folders"
                );
                add(key, Some(if is_replaceable { found.with_hint(hint) } else { found }));
            }
            for (identity, origin) in rendered.objects.iter() {
                let first = match objects.entry(identity) {
                    Entry::Occupied(first) => *first.get(),
                    Entry::Vacant(place) => *place.insert((rendered, origin)),
                };
                let (other, at) = first;
                if other.key != rendered.key {
                    add(key, shared_object(identity, (rendered, origin, other, at)));
                    if let Some(key) = &other.key {
                        add(key, shared_object(identity, (other, at, rendered, origin)));
                    }
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
