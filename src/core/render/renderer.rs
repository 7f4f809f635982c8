//! `snapshot -> desired`, one commit after the other.
//!
//! The cost is in the size of the change: a cluster whose tree and inherited files are unchanged is
//! reused, and so is an unchanged work folder within a changed cluster.

mod cluster;
mod content;
#[cfg(test)]
mod group_tests;
mod inputs;
mod pass;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::desired::{Desired, Frozen, FrozenObjects, Suspended, UncertainMembers};
use super::groups::{Certainty, GroupInputs, Membership, Memberships};
use super::layout;
use crate::config::file_names::{APPROVALS, CLUSTERS, GROUPS};
use crate::config::source_rules::SourceRules;
use crate::config::tenancy::Tenancy;
use crate::limits;
use crate::model::approval::{Approval, Approvals};
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::cut_fairly;
use crate::model::facts::Facts;
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, CommitId, GroupName, ObjectId, RepoPath, SourceId, WorkKey};
use crate::model::operation_error::describe;
use crate::model::snapshot::{ObjectError, Objects, Snapshot};
use crate::model::work::DesiredWork;
use cluster::{RenderedCluster, RenderedFolder};
use content::{ContentBudget, SharedContent};
use inputs::{ClusterConfig, SourceInputs};
use pass::{ClusterPlace, OpenCluster, PassError, RenderPass};

type RenderedClusters = BTreeMap<ClusterName, Arc<RenderedCluster>>;

/// The clusters and groups of one snapshot.
#[derive(Default)]
struct Fleet {
    clusters: RenderedClusters,
    kinds: KindIndex,
    groups: Vec<Arc<GroupInputs>>,
    uncertain: BTreeMap<GroupName, UncertainMembers>,
    /// Of the groups.
    diagnostics: Vec<Diagnostic>,
}

/// Renders one source, commit after commit, and remembers what did not change.
#[derive(Debug, Clone)]
pub struct Renderer {
    source: SourceId,
    clusters: RenderedClusters,
    kinds: KindIndex,
    rules: SourceRules,
    approved: Approvals,
    suspended: bool,
    groups: Vec<Arc<GroupInputs>>,
    /// The groups that may have other members, with what is wrong with conditions.
    uncertain: BTreeMap<GroupName, UncertainMembers>,
    group_diagnostics: Vec<Diagnostic>,
    facts: Option<Arc<Facts>>,
    tenancy: Tenancy,
    content_bytes_max: usize,
    content: SharedContent,
}

impl Renderer {
    /// A renderer that has seen no commit yet, without rules for tenants.
    pub fn new(source: SourceId) -> Self {
        Self {
            source,
            clusters: BTreeMap::new(),
            kinds: KindIndex::default(),
            rules: SourceRules::default(),
            approved: Approvals::default(),
            suspended: false,
            groups: Vec::new(),
            uncertain: BTreeMap::new(),
            group_diagnostics: Vec::new(),
            facts: None,
            tenancy: Tenancy::default(),
            content_bytes_max: limits::CONTENT_BYTES_MAX,
            content: SharedContent::default(),
        }
    }

    /// With what the operator lets the folders do, which is the same for every commit.
    pub fn with_tenancy(self, tenancy: Tenancy) -> Self {
        Self { tenancy, ..self }
    }

    /// With another bound of the bytes that the rendered works may hold in memory.
    pub fn with_content_bytes_max(self, content_bytes_max: usize) -> Self {
        Self { content_bytes_max, ..self }
    }

    /// Sets what the hub says of clusters, from the next snapshot on. Without it, the members of
    /// groups are unknown, unless the groups name each cluster.
    pub fn set_facts(&mut self, facts: Option<Arc<Facts>>) {
        self.facts = facts;
    }

    /// The kinds that the CRDs of the last snapshot define.
    pub fn kinds(&self) -> &KindIndex {
        &self.kinds
    }

    /// Renders a snapshot. An error is one of the object database: nothing is known of this commit
    /// then, and nothing may be done for it.
    pub fn render(&mut self, snapshot: &Snapshot<'_>) -> Result<Desired, ObjectError> {
        let top = layout::top(snapshot.root, snapshot.objects)?;
        let mut diagnostics = top.diagnostics;
        let source =
            Arc::new(SourceInputs::read(top.source_file, snapshot.objects, &mut diagnostics)?);
        self.rules = SourceRules {
            budgets: source.file.budgets.clone(),
            windows: source.file.windows.clone(),
        };
        self.suspended = source.file.suspend;
        self.approved = self.approvals(top.approvals, snapshot.objects, &mut diagnostics)?;
        let pass = RenderPass {
            source: &self.source,
            tenancy: &self.tenancy,
            objects: snapshot.objects,
            inputs: source,
            bare: Arc::new(ClusterConfig::new(None, true)),
            content: RefCell::new(std::mem::take(&mut self.content)),
            budget: RefCell::new(ContentBudget::new(self.content_bytes_max)),
        };
        let rendered = self.fleet(&pass, (top.clusters, top.groups), &mut diagnostics);
        self.content = pass.content.into_inner();
        let fleet = rendered.inspect_err(|_| self.content.drop_unused())?;
        self.clusters = fleet.clusters;
        self.kinds = fleet.kinds;
        self.groups = fleet.groups;
        self.uncertain = fleet.uncertain;
        self.group_diagnostics = fleet.diagnostics;
        self.drop_unused();
        Ok(self.assemble(snapshot.commit, diagnostics))
    }

    /// Drops contents that only earlier commits had, as soon as nobody holds their works.
    pub fn drop_unused(&mut self) {
        self.content.drop_unused();
    }

    /// Reads groups and clusters, finds the members of the groups, and renders all works.
    fn fleet(
        &self,
        pass: &RenderPass<'_>,
        (clusters, groups): (BTreeMap<ClusterName, ObjectId>, BTreeMap<GroupName, ObjectId>),
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Fleet, ObjectError> {
        let mut fleet = Fleet::default();
        let groups = pass.groups(groups, &self.groups);
        let at = RepoPath::root().join(GROUPS);
        let Some(groups) = self.within_bounds(groups, &at, diagnostics)? else { return Ok(fleet) };
        let mut opened = BTreeMap::new();
        for (name, tree) in clusters {
            let open = pass.open(&name, tree, self.clusters.get(&name))?;
            opened.insert(name, open);
        }
        let config = |open: &OpenCluster| open.inherited.config.clone();
        let configs: BTreeMap<ClusterName, Arc<ClusterConfig>> =
            opened.iter().map(|(name, open)| (name.clone(), config(open))).collect();
        let labels = configs.iter().map(|(name, config)| (name, &config.file.labels)).collect();
        let found = Memberships::find(&groups, &labels, self.facts.as_deref());
        let diagnostics_of_groups = groups.iter().flat_map(|group| group.diagnostics.clone());
        fleet.diagnostics = found.diagnostics.into_iter().chain(diagnostics_of_groups).collect();
        fleet.uncertain = found.uncertain;
        fleet.groups = groups;
        for member in found.by_cluster.keys() {
            opened.entry(member.clone()).or_insert_with(|| pass.open_without_folder());
        }
        let rendered = self.clusters(pass, opened, found.by_cluster, diagnostics)?;
        (fleet.clusters, fleet.kinds) = rendered;
        Ok(fleet)
    }

    /// Renders the clusters, up to the bounds of the source.
    fn clusters(
        &self,
        pass: &RenderPass<'_>,
        opened: BTreeMap<ClusterName, OpenCluster>,
        mut groups: BTreeMap<ClusterName, Vec<Membership>>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<(RenderedClusters, KindIndex), ObjectError> {
        let mut clusters = BTreeMap::new();
        let mut works_left = limits::WORKS_MAX;
        for (name, opened) in opened {
            let before = self.clusters.get(&name);
            let place = ClusterPlace {
                groups: groups.remove(&name).unwrap_or_default(),
                facts: Facts::of(self.facts.as_deref(), &name),
            };
            let bounds = (&self.kinds, works_left);
            let cluster = pass.cluster(&name, opened, place, bounds, before);
            let at = layout::cluster_path(&name);
            let Some(cluster) = self.within_bounds(cluster, &at, diagnostics)? else { break };
            works_left -= cluster.works.len();
            clusters.insert(name, cluster);
        }
        // A CRD anywhere in the repository tells the plural of its kind everywhere: what was
        // rendered with another answer is rendered again. A frozen work tells nothing.
        let (kinds, frozen) = pass.kinds(&clusters)?;
        for (name, cluster) in &mut clusters {
            let corrected = pass
                .correct_kinds(name, cluster, &kinds, frozen.get(name))
                .and_then(|()| pass.check(name, cluster));
            // What follows is corrected and checked in a later pass: until then, the source is
            // frozen.
            let at = layout::cluster_path(name);
            if self.within_bounds(corrected, &at, diagnostics)?.is_none() {
                break;
            }
        }
        Ok((clusters, kinds))
    }

    /// `None` where a bound of the source is exceeded, which is reported and freezes it: of what is
    /// not read, nothing is known.
    fn within_bounds<T>(
        &self,
        result: Result<T, PassError>,
        at: &RepoPath,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Option<T>, ObjectError> {
        let found = match result {
            Ok(value) => return Ok(Some(value)),
            Err(PassError::Object(why)) => return Err(why),
            Err(PassError::TooManyWorks) => too_many_works(),
            Err(PassError::TooLarge) => {
                too_large(&self.source, at, self.content_bytes_max / (1024 * 1024))
            }
        };
        diagnostics.push(found);
        Ok(None)
    }

    /// Puts the clusters together: the works that Git wants, and those that an error freezes.
    fn assemble(&self, commit: Option<CommitId>, mut diagnostics: Vec<Diagnostic>) -> Desired {
        let folders = self.clusters.values().flat_map(|cluster| cluster.certain_works());
        let works = folders.filter_map(|folder| folder.rendered.work.as_ref());
        let mut works: BTreeMap<WorkKey, DesiredWork> =
            works.map(|work| (work.key.clone(), work.clone())).collect();
        let mut frozen = Frozen { groups: self.uncertain.clone(), ..Frozen::default() };
        diagnostics.extend(self.group_diagnostics.iter().cloned());
        for (name, cluster) in &self.clusters {
            diagnostics.extend(
                cluster.diagnostics.iter().chain(cluster.clashes.iter().flatten()).cloned(),
            );
            for RenderedFolder { rendered, .. } in cluster.certain_works() {
                diagnostics.extend(rendered.diagnostics.iter().cloned());
                if rendered.work.is_none() {
                    frozen.folders.insert((name.clone(), rendered.path.clone()));
                    let key = rendered.key.as_ref();
                    let key = key.filter(|key| self.freezes(&works, key, &rendered.path));
                    frozen.works.extend(key.cloned());
                    let objects = rendered.key.clone().map(|key| (key, rendered.frozen.clone()));
                    frozen.objects.extend(objects);
                }
            }
        }
        self.freeze_by_errors(&works, &diagnostics, &mut frozen);
        let stopped: Vec<(WorkKey, DesiredWork)> =
            works.extract_if(.., |key, _| frozen.contains(key)).collect();
        frozen.objects.extend(
            stopped
                .into_iter()
                .map(|(key, work)| (key, FrozenObjects { objects: work.objects, unread: None })),
        );
        self.add_possible_objects(&works, &mut frozen);
        diagnostics.sort();
        diagnostics.dedup();
        cut_fairly(&mut diagnostics);
        let suspends = |cluster: &&Arc<RenderedCluster>| cluster.inherited.config.file.suspend;
        let clusters = self.clusters.iter().filter(|(_, cluster)| suspends(cluster));
        let clusters = clusters.map(|(name, _)| name.clone()).collect();
        Desired {
            source: self.source.clone(),
            commit,
            works,
            frozen,
            rules: self.rules.clone(),
            approved: self.approved.clone(),
            suspended: Suspended { source: self.suspended, clusters },
            diagnostics,
        }
    }

    /// Freezes what the errors are about.
    fn freeze_by_errors(
        &self,
        works: &BTreeMap<WorkKey, DesiredWork>,
        diagnostics: &[Diagnostic],
        frozen: &mut Frozen,
    ) {
        for diagnostic in diagnostics.iter().filter(|d| d.is_error()) {
            match (&diagnostic.scope, diagnostic.code) {
                // It may be the renamed folder of any cluster or group: all others go on.
                (Scope::Source, Code::BadName) => frozen.deletes = true,
                (Scope::Source, _) => frozen.source = true,
                (Scope::Cluster(cluster), _) => drop(frozen.clusters.insert(cluster.clone())),
                (Scope::Group(group), _) => {
                    frozen.groups.insert(group.clone(), UncertainMembers::Everyone);
                }
                // What the policy refuses of one folder does not freeze the work of another folder.
                (Scope::Work(key), Code::NotAllowed) if works.contains_key(key) => {}
                (Scope::Work(key), _) if self.freezes(works, key, &diagnostic.location.file) => {
                    frozen.works.insert(key.clone());
                }
                // Its folder is frozen, which has no work of that name.
                (Scope::Work(_), _) => {}
            }
        }
    }

    /// Adds the objects that clusters have if they are in groups whose members are uncertain: an
    /// object that another work drops may have moved to one of these works.
    fn add_possible_objects(&self, works: &BTreeMap<WorkKey, DesiredWork>, frozen: &mut Frozen) {
        let all = self.clusters.values().flat_map(|cluster| cluster.works.values());
        for folder in all.filter(|folder| folder.certainty == Certainty::Possible) {
            let rendered = &folder.rendered;
            let Some(key) = rendered.key.as_ref().filter(|key| !works.contains_key(key)) else {
                continue;
            };
            let objects = match &rendered.work {
                Some(work) => FrozenObjects { objects: work.objects.clone(), unread: None },
                None => rendered.frozen.clone(),
            };
            frozen.objects.entry(key.clone()).or_default().add(objects);
        }
    }

    /// Whether a problem of a file freezes the work with this key.
    fn freezes(
        &self,
        works: &BTreeMap<WorkKey, DesiredWork>,
        key: &WorkKey,
        file: &RepoPath,
    ) -> bool {
        key.is_of_work() && works.get(key).is_none_or(|work| self.may_freeze(work, file))
    }

    /// Whether a problem of a file may freeze this work. A folder does not freeze the work of
    /// another folder by a name that it may not have.
    fn may_freeze(&self, work: &DesiredWork, file: &RepoPath) -> bool {
        let other = layout::work_folder_of(file).filter(|folder| *folder != work.path);
        other.is_none_or(|folder| self.tenancy.may_be_named(&folder, &work.key))
    }

    /// Reads the files of `approvals`. One that cannot be used approves nothing, and stops nothing.
    fn approvals(
        &self,
        files: BTreeMap<String, ObjectId>,
        objects: &dyn Objects,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Approvals, ObjectError> {
        let mut approved = Approvals::default();
        for (name, id) in files {
            let why = match objects.blob(id, limits::APPROVAL_BYTES_MAX) {
                Ok(bytes) => match Approval::read(&name, &String::from_utf8_lossy(&bytes)) {
                    Ok(Approval::Origin { .. }) => {
                        "another origin is approved on the hub only, with `gitwork approve`".into()
                    }
                    Ok(Approval::Trust { .. }) => {
                        "a commit is trusted on the hub only, with `gitwork trust`".into()
                    }
                    Ok(approval) => {
                        approved.add(&self.source, approval);
                        continue;
                    }
                    Err(why) => describe(&why),
                },
                Err(why) if why.is_of_object() => describe(&why),
                Err(why) => return Err(why),
            };
            let at = Location::file(&RepoPath::root().join(APPROVALS).join(&name));
            let message = format!("this file approves nothing: {why}");
            diagnostics.push(Diagnostic::new(Code::BadApproval, at, Scope::Source, message));
        }
        Ok(approved)
    }
}

/// The works of the cluster at this path, and those of the clusters before it, hold more than they
/// may.
fn too_large(source: &SourceId, at: &RepoPath, mebibytes: usize) -> Diagnostic {
    let message = format!(
        "the rendered works of the source {source} take more than {mebibytes} MiB of memory, of \
         which equal contents count once; nothing of it is changed or deleted until it has fewer \
         works or a larger `maxContentMib`"
    );
    let at = Location::file(at);
    let hint = "raise `maxContentMib` of this source in the daemon's file, if the process has the \
                memory; otherwise split the source into several, each with its own path";
    Diagnostic::new(Code::TooManyFiles, at, Scope::Source, message).with_hint(hint)
}

fn too_many_works() -> Diagnostic {
    let message =
        format!("a source has at most {} works, and this one has more", limits::WORKS_MAX);
    let folder = Location::file(&RepoPath::root().join(CLUSTERS));
    Diagnostic::new(Code::TooManyFiles, folder, Scope::Source, message)
        .with_hint("split it into several sources, each with its own path")
}
