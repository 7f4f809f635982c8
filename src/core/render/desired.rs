//! The desired state: every work that Git wants, and what could not be read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::config::source_rules::SourceRules;
use crate::config::tenancy::TenantFolder;
use crate::model::approval::Approvals;
use crate::model::diagnostic::Diagnostic;
use crate::model::facts::{FactNeeds, Facts};
use crate::model::name::{ClusterName, CommitId, GroupName, RepoPath, SourceId, WorkKey, WorkName};
use crate::model::object_digest::ObjectDigest;
use crate::model::work::{DesiredWork, NamedObject};
use crate::model::works_by_cluster::WorksByCluster;
use crate::render::layout;
use crate::rollout::GroupRollout;

/// The works that Git wants.
pub type WantedWorks = WorksByCluster<Arc<DesiredWork>>;

/// The desired state of one commit or directory.
#[derive(Debug, Clone)]
pub struct Desired {
    /// The source that was rendered.
    pub source: SourceId,
    /// `None` for a local directory with uncommitted changes.
    pub commit: Option<CommitId>,
    /// The works that Git wants, without frozen ones.
    pub works: WantedWorks,
    /// The works that clusters get by ManifestWorkReplicaSets. `works` has the sets.
    pub delivered: BTreeMap<ClusterName, Vec<Arc<DesiredWork>>>,
    /// The parts that could not be read, and are neither changed nor deleted.
    pub frozen: Frozen,
    /// The repository's budgets and windows.
    pub rules: SourceRules,
    /// Approvals in the repository.
    pub approved: Approvals,
    /// Suspensions in the repository.
    pub suspended: Suspended,
    /// The facts of the hub that groups, and labels and claims in manifests, need; `None` without
    /// these.
    pub needed_facts: Option<FactNeeds>,
    /// The facts that it follows from, as far as they are needed.
    pub facts: Option<Arc<Facts>>,
    /// The groups whose changes reach their clusters one after the other.
    pub rollouts: BTreeMap<GroupName, Arc<GroupRollout>>,
    /// The objects that works of groups get later, with the content of the commit: their clusters
    /// have or get an earlier one until their wave begins. An object that another work drops may
    /// have moved to one of these works.
    pub later: BTreeMap<WorkKey, Arc<[NamedObject]>>,
    /// Sorted; errors, warnings and notes of the whole source.
    pub diagnostics: Vec<Diagnostic>,
}

impl Desired {
    /// The folder that gives a work, as far as that is known.
    pub fn folder_of(&self, key: &WorkKey) -> Option<RepoPath> {
        let frozen = || {
            self.frozen.folders.iter().find(|(cluster, folder)| {
                *cluster == key.cluster && folder.name() == key.work.as_str()
            })
        };
        let wanted = self.works.get(key).map(|work| work.path.clone());
        wanted.or_else(|| frozen().map(|(_, folder)| folder.clone()))
    }

    /// Every work that Git names: those that it wants, and those that could not be read.
    pub fn named_works(&self) -> impl Iterator<Item = &WorkKey> {
        self.works.keys().chain(&self.frozen.works)
    }

    /// Whether a work is of another content of its group than that of the commit: its cluster has
    /// or gets it while it waits for its wave.
    pub fn has_earlier_content(&self, key: &WorkKey) -> bool {
        self.works.get(key).is_some_and(|work| work.is_earlier)
    }

    /// The work of a cluster that gets an object once the wave of the cluster begins.
    pub fn later_work(&self, cluster: &ClusterName, object: ObjectDigest) -> Option<&WorkKey> {
        let mut all = WorkKey::entries_of(&self.later, cluster);
        let has_it = |objects: &[NamedObject]| {
            objects.binary_search_by_key(&object, |one| one.digest).is_ok()
        };
        all.find(|(_, objects)| has_it(objects)).map(|(key, _)| key)
    }

    /// Makes every location relative to the repository's root, for a source whose files start at
    /// `path`.
    pub fn locate_from_root(&mut self, path: &RepoPath) {
        self.diagnostics.iter_mut().for_each(|found| found.below(path));
    }
}

/// Suspensions in Git of the source and of clusters. Single works carry their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Suspended {
    /// `suspend: true` in gitwork.yaml: nothing of the source is written.
    pub source: bool,
    /// Clusters with `suspend: true` in their cluster.yaml.
    pub clusters: BTreeSet<ClusterName>,
}

impl Suspended {
    /// Whether the source or the work's cluster is suspended.
    pub fn covers(&self, key: &WorkKey) -> bool {
        self.source || self.clusters.contains(&key.cluster)
    }
}

/// The parts of Git that could not be read. Their works keep their state on the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frozen {
    /// Nothing of the source could be read.
    pub source: bool,
    /// A part of the source cannot be read by this version: nothing may be taken for absent.
    pub deletes: bool,
    /// The clusters with a folder, if another folder beside them has a name that no cluster can
    /// have: it may be the folder of any cluster that has none.
    pub clusters_beside_unnamed: Option<Arc<BTreeSet<ClusterName>>>,
    /// The same of the groups with a folder.
    pub groups_beside_unnamed: Option<Arc<BTreeSet<GroupName>>>,
    /// Clusters with an error in a file that all their works inherit.
    pub clusters: BTreeSet<ClusterName>,
    /// Works with an error in one of their files.
    pub works: BTreeSet<WorkKey>,
    /// Work folders that could not be read, each with the cluster of the work. A work on the hub
    /// that came from one of them stays, whatever its name.
    pub folders: BTreeSet<(ClusterName, RepoPath)>,
    /// Groups that may have other members. A work on the hub that came from a folder of such a
    /// group stays on these clusters.
    pub groups: BTreeMap<GroupName, UncertainMembers>,
    /// Groups that may have members that neither the facts nor Git name, if there are such groups.
    pub open_groups: Option<Arc<OpenGroups>>,
    /// The objects that frozen works, and works that a cluster may have by its groups, may have in
    /// Git. An object that another work drops may have moved to one of these.
    pub objects: BTreeMap<WorkKey, FrozenObjects>,
}

/// Groups that may have members that neither the facts nor Git name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenGroups {
    /// The clusters that were compared with them.
    pub compared: BTreeSet<ClusterName>,
    /// The names of their works.
    pub works: BTreeSet<WorkName>,
    /// The work folders of all groups in Git.
    pub folders: BTreeSet<RepoPath>,
}

impl OpenGroups {
    /// Whether a cluster that was not compared may have the work: by its name, or because its
    /// folder is no longer where the hub has it from, and may have gone to one of the groups.
    fn may_have(&self, key: &WorkKey, path: Option<&str>) -> bool {
        let is_there = || {
            let folder = path.and_then(RepoPath::parse);
            folder.is_some_and(|folder| self.folders.contains(&folder))
        };
        !self.compared.contains(&key.cluster) && (self.works.contains(&key.work) || !is_there())
    }
}

/// The clusters that may be in a group beside its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UncertainMembers {
    /// Any cluster, also one that is unknown.
    Everyone,
    /// These clusters.
    Clusters(BTreeSet<ClusterName>),
}

impl UncertainMembers {
    /// Whether the cluster is one of them.
    pub fn contains(&self, cluster: &ClusterName) -> bool {
        match self {
            Self::Everyone => true,
            Self::Clusters(clusters) => clusters.contains(cluster),
        }
    }
}

/// What is known of the objects of a frozen work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrozenObjects {
    /// The objects that could be read, sorted by digest.
    pub objects: Arc<[NamedObject]>,
    /// The folders of this work of which a manifest could not be read: they may have any other
    /// object that the policy lets them have.
    pub unread: Vec<Arc<TenantFolder>>,
    /// The folders that are, or may be, this work.
    pub folders: BTreeSet<RepoPath>,
}

impl FrozenObjects {
    /// Whether the work may have this object in Git. Without a manifest, the policy is not asked.
    pub fn may_contain(&self, digest: ObjectDigest, manifest: Option<&Value>) -> bool {
        let may_hide = |folder: &Arc<TenantFolder>| manifest.is_none_or(|one| folder.may_have(one));
        self.unread.iter().any(may_hide)
            || self.objects.binary_search_by_key(&digest, |object| object.digest).is_ok()
    }

    /// Those of a work that could be read.
    pub(super) fn of(work: &DesiredWork) -> Self {
        let folders = BTreeSet::from([work.path.clone()]);
        Self { objects: work.objects.clone(), unread: Vec::new(), folders }
    }

    /// The same, of this folder.
    pub(super) fn in_folder(&self, path: &RepoPath) -> Self {
        Self { folders: BTreeSet::from([path.clone()]), ..self.clone() }
    }

    /// What several folders with a work of one name may have together.
    pub(super) fn merge(all: Vec<Self>) -> Self {
        let lists = all.iter().map(|one| &one.objects);
        let mut lists = lists.filter(|objects| !objects.is_empty()).peekable();
        let mut objects = lists.next().cloned().unwrap_or_default();
        if lists.peek().is_some() {
            let rest = lists.flat_map(|objects| objects.iter());
            let mut merged: Vec<NamedObject> = objects.iter().chain(rest).cloned().collect();
            merged.sort_unstable();
            merged.dedup_by_key(|object| object.digest);
            objects = merged.into();
        }
        let (mut unread, mut folders) = (Vec::new(), BTreeSet::new());
        for one in all {
            unread.extend(one.unread);
            folders.extend(one.folders);
        }
        Self { objects, unread, folders }
    }
}

/// A frozen work, and the objects that it may have.
pub type FrozenWork<'a> = (&'a WorkKey, &'a FrozenObjects);

impl Frozen {
    /// The frozen works of each cluster, with the objects that they may have.
    pub fn objects_by_cluster(&self) -> BTreeMap<&ClusterName, Vec<FrozenWork<'_>>> {
        let mut all: BTreeMap<&ClusterName, Vec<FrozenWork<'_>>> = BTreeMap::new();
        for (key, objects) in &self.objects {
            all.entry(&key.cluster).or_default().push((key, objects));
        }
        all
    }

    /// Whether the work itself is frozen, by its name. It is not among the desired works then.
    pub fn contains(&self, key: &WorkKey) -> bool {
        self.source || self.clusters.contains(&key.cluster) || self.works.contains(key)
    }

    /// Whether Git may still have a work that is not among the desired ones, in a part that could
    /// not be read. `path` is the work folder according to the hub, if known.
    pub fn may_contain(&self, key: &WorkKey, path: Option<&str>) -> bool {
        self.deletes
            || self.contains(key)
            || self.may_be_unnamed(&key.cluster)
            || self.has_folder(key, path)
            || self.may_be_of_group(&key.cluster, path)
            || self.may_have_by_group(key, path)
    }

    /// Whether the folder of a cluster may have a name that no cluster can have.
    pub fn may_be_unnamed(&self, cluster: &ClusterName) -> bool {
        self.clusters_beside_unnamed.as_ref().is_some_and(|named| !named.contains(cluster))
    }

    /// Whether the work folder could not be read. One of another cluster is not the work's:
    /// whoever may write the works of a cluster may name any folder.
    pub fn has_folder(&self, key: &WorkKey, path: Option<&str>) -> bool {
        let path = path.and_then(RepoPath::parse);
        path.is_some_and(|path| self.folders.contains(&(key.cluster.clone(), path)))
    }

    /// Whether the cluster may have the work by a group whose members are uncertain, though the hub
    /// has it from another folder.
    pub fn may_have_by_group(&self, key: &WorkKey, path: Option<&str>) -> bool {
        self.open_groups.as_ref().is_some_and(|groups| groups.may_have(key, path))
            || (self.objects.contains_key(key) && !self.contains(key))
    }

    /// Whether a folder is one of a group whose members are uncertain, and the cluster may be one.
    pub fn may_be_of_group(&self, cluster: &ClusterName, path: Option<&str>) -> bool {
        let folder = path.and_then(RepoPath::parse);
        let Some(group) = folder.and_then(|folder| layout::group_of(&folder)) else { return false };
        self.groups.get(&group).is_some_and(|members| members.contains(cluster))
            || self.groups_beside_unnamed.as_ref().is_some_and(|named| !named.contains(&group))
    }
}
