//! `snapshot -> desired`, one commit after the other.
//!
//! The cost is in the size of the change: a cluster whose tree and inherited files are unchanged is
//! reused, and so is an unchanged work folder within a changed cluster.

mod ahead;
#[cfg(test)]
mod ahead_tests;
mod approvals;
mod budget;
mod change;
mod cluster;
mod content;
mod delivered;
mod earlier;
mod freeze;
#[cfg(test)]
mod group_cost_tests;
#[cfg(test)]
mod group_tests;
mod inputs;
mod notes;
mod open_clusters;
mod open_groups;
mod order;
mod pass;
mod rendered_change;
mod rollouts;
mod selected;
#[cfg(test)]
mod selected_tests;
mod sizes;
mod work_inputs;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::desired::{Desired, OpenGroups, Suspended, UncertainMembers, WantedWorks};
use super::groups::{GroupInputs, Membership, Memberships};
use super::layout;
use crate::config::file_names::{CLUSTERS, GROUPS};
use crate::config::source_rules::SourceRules;
use crate::config::tenancy::Tenancy;
use crate::limits;
use crate::model::approval::Approvals;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope};
use crate::model::diagnostic_sink::{ScopedDiagnostic, cut_fairly};
use crate::model::facts::{FactNeeds, Facts};
use crate::model::in_step::InStep;
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, CommitId, GroupName, ObjectId, RepoPath, SourceId};
use crate::model::snapshot::{ObjectError, Snapshot};
use crate::render::groups::Certainty;
use crate::render::object_checks::SchemaChecks;
use crate::render::parsed_files::ParsedFiles;
use crate::render::values::Variable;
use crate::rollout::GroupRollout;
use crate::rollout::earlier::EarlierContents;
use ahead::RenderedAhead;
use budget::ContentBudget;
use cluster::{ClusterPlan, OpenClusters, RenderedCluster};
use content::SharedContent;
use earlier::{Earlier, LeftOut};
use inputs::{ClusterConfig, SourceInputs};
use pass::{ClusterPlace, PassError, RenderPass, Rendering};
use rendered_change::Selected;
pub use rendered_change::{RenderedChange, UnreadClusters};
use rollouts::rollouts;
use sizes::approval_bytes;

/// In debug builds, the bytes of at most so many folders are compared with those that count.
const CHECKED_FOLDERS_MAX: usize = 500;

type GroupsByCluster = BTreeMap<ClusterName, Vec<Membership>>;
type Delivered = BTreeMap<GroupName, BTreeMap<ClusterName, Certainty>>;
type RenderedClusters = BTreeMap<ClusterName, Arc<RenderedCluster>>;

/// The clusters and groups of one snapshot.
#[derive(Default)]
struct Fleet {
    clusters: RenderedClusters,
    kinds: KindIndex,
    groups: Vec<Arc<GroupInputs>>,
    delivered: Delivered,
    uncertain: BTreeMap<GroupName, UncertainMembers>,
    rollouts: BTreeMap<GroupName, GroupRollout>,
    open_groups: Option<Arc<OpenGroups>>,
    /// Of the groups.
    diagnostics: Vec<Diagnostic>,
    unread: UnreadClusters,
}

/// What stands at the top of a snapshot.
struct SnapshotTop {
    source: Arc<SourceInputs>,
    clusters: BTreeMap<ClusterName, ObjectId>,
    groups: BTreeMap<GroupName, ObjectId>,
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
    /// The clusters of groups with ManifestWorkReplicaSets.
    delivered: Delivered,
    /// The groups that may have other members, with what is wrong with conditions.
    uncertain: BTreeMap<GroupName, UncertainMembers>,
    /// The groups with `rollout`, without their works.
    rollouts: BTreeMap<GroupName, GroupRollout>,
    open_groups: Option<Arc<OpenGroups>>,
    group_diagnostics: Vec<Diagnostic>,
    earlier: Earlier,
    facts: Option<Arc<Facts>>,
    tenancy: Tenancy,
    checks: SchemaChecks,
    content_bytes_max: usize,
    content: SharedContent,
    /// Whether the snapshots leave out works.
    is_partial: bool,
    /// How many threads render.
    threads: usize,
    /// The clusters to render.
    selected: Selected,
    /// The others, as of the last snapshot.
    unread: UnreadClusters,
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
            delivered: Delivered::new(),
            uncertain: BTreeMap::new(),
            rollouts: BTreeMap::new(),
            open_groups: None,
            group_diagnostics: Vec::new(),
            earlier: Earlier::default(),
            facts: None,
            tenancy: Tenancy::default(),
            checks: SchemaChecks::default(),
            content_bytes_max: limits::CONTENT_BYTES_MAX,
            content: SharedContent::default(),
            is_partial: false,
            threads: 1,
            selected: Selected::All,
            unread: UnreadClusters::default(),
        }
    }

    /// For snapshots that leave out works, so that dependencies on these are no errors.
    pub fn without_other_works(self) -> Self {
        Self { is_partial: true, ..self }
    }

    /// With what the operator lets the folders do, which is the same for every commit.
    pub fn with_tenancy(self, tenancy: Tenancy) -> Self {
        Self { tenancy, ..self }
    }

    /// With checks of objects against schemas, which are the same for every commit.
    pub fn with_schema_checks(self, checks: SchemaChecks) -> Self {
        Self { checks, ..self }
    }

    /// With another bound of the bytes that the rendered works may hold in memory.
    pub fn with_content_bytes_max(self, content_bytes_max: usize) -> Self {
        Self { content_bytes_max, ..self }
    }

    /// Drops the text of each work once it is checked: for what needs the diagnostics only. The
    /// works that Git wants are there without their manifests.
    pub fn drop_texts(&mut self) {
        self.content = SharedContent::without_texts();
    }

    /// Sets how many threads render, if several can read the objects. The result is the same with
    /// any number.
    pub fn set_threads(&mut self, threads: usize) {
        self.threads = threads;
    }

    /// Sets what the hub says of clusters, from the next snapshot on. Without it, the members of
    /// groups are unknown, unless the groups name each cluster.
    pub fn set_facts(&mut self, facts: Option<Arc<Facts>>) {
        self.facts = facts;
    }

    /// Sets the contents of groups that clusters keep or get, from the next snapshot on. `roots`:
    /// the tree of each of their commits at the source's path, as far as there are such.
    pub fn set_earlier(
        &mut self,
        contents: Arc<EarlierContents>,
        roots: BTreeMap<CommitId, ObjectId>,
    ) {
        self.earlier.set(contents, roots);
    }

    /// The kinds that the CRDs of the last snapshot define.
    pub fn kinds(&self) -> &KindIndex {
        &self.kinds
    }

    /// Renders a snapshot. An error is one of the object database: nothing is known of this commit
    /// then, and nothing may be done for it.
    pub fn render(&mut self, snapshot: &Snapshot<'_>) -> Result<Desired, ObjectError> {
        let desired = self.render_selected(snapshot)?;
        if self.is_enough(&desired) {
            return Ok(desired);
        }
        let selected = std::mem::take(&mut self.selected);
        let whole = self.render_selected(snapshot);
        self.selected = selected;
        whole
    }

    /// Renders the selected clusters.
    fn render_selected(&mut self, snapshot: &Snapshot<'_>) -> Result<Desired, ObjectError> {
        let mut top = layout::top(snapshot.root, snapshot.objects)?;
        let mut diagnostics = std::mem::take(&mut top.diagnostics);
        let source =
            Arc::new(SourceInputs::read(top.source_file, snapshot.objects, &mut diagnostics)?);
        self.rules = SourceRules {
            budgets: source.file.budgets.clone(),
            windows: source.file.windows.clone(),
        };
        self.suspended = source.file.suspend;
        let approvals = std::mem::take(&mut top.approvals);
        self.approved =
            approvals::read(&self.source, approvals, snapshot.objects, &mut diagnostics)?;
        self.earlier.read(snapshot.objects)?;
        let top = SnapshotTop { source, clusters: top.clusters, groups: top.groups, diagnostics };
        let mut left_out = LeftOut::new();
        loop {
            let desired = self.render_groups(snapshot, &top, &left_out)?;
            let unfit = self.unfit_for_earlier(&desired);
            if unfit.is_empty() {
                return Ok(desired);
            }
            // If the rest does not fit now, a third round leaves out all.
            let is_first = left_out.is_empty();
            left_out.extend(if is_first { unfit } else { self.clusters.keys().cloned().collect() });
        }
    }

    /// Renders all works. The clusters of `left_out` get the content of the commit.
    fn render_groups(
        &mut self,
        snapshot: &Snapshot<'_>,
        top: &SnapshotTop,
        left_out: &LeftOut,
    ) -> Result<Desired, ObjectError> {
        let fleet = self.fleet_within_budget(snapshot, top, left_out);
        let (fleet, diagnostics) = fleet.inspect_err(|_| self.content.drop_all_unused())?;
        let mut rendered = InStep::new(&fleet.clusters);
        let replaced = self.clusters.iter().map(|(name, before)| match rendered.get(name) {
            Some(now) if Arc::ptr_eq(now, before) => 0,
            Some(now) => now.replaced_folders(before),
            None => before.rendered_folders().count(),
        });
        let replaced = replaced.sum();
        self.clusters = fleet.clusters;
        self.kinds = fleet.kinds;
        self.groups = fleet.groups;
        self.delivered = fleet.delivered;
        self.uncertain = fleet.uncertain;
        self.rollouts = fleet.rollouts;
        self.open_groups = fleet.open_groups;
        self.group_diagnostics = fleet.diagnostics;
        self.unread = fleet.unread;
        self.content.drop_unused(replaced, self.folder_count());
        Ok(self.assemble(snapshot.commit, &diagnostics))
    }

    /// As [`Self::fleet`], within the bound of the bytes that works may hold. It is not exceeded if
    /// all that works share, with what no work has any more, is within it; otherwise the contents
    /// are counted one by one.
    fn fleet_within_budget(
        &mut self,
        snapshot: &Snapshot<'_>,
        top: &SnapshotTop,
        left_out: &LeftOut,
    ) -> Result<(Fleet, Vec<Diagnostic>), ObjectError> {
        let left = self.content_bytes_max.saturating_sub(approval_bytes(&self.approved));
        // The first time, nothing is counted.
        let shared = self.content.bytes().filter(|_| !self.clusters.is_empty());
        if let Some(shared) = shared {
            let budget = ContentBudget::at_most(left, shared);
            let (fleet, budget) = self.counted_fleet(snapshot, top, left_out, budget);
            if !budget.may_be_enough() {
                return fleet;
            }
            self.content.drop_all_unused();
        }
        self.counted_fleet(snapshot, top, left_out, ContentBudget::exact(left)).0
    }

    /// As [`Self::fleet`]. Gives back the budget.
    fn counted_fleet(
        &mut self,
        snapshot: &Snapshot<'_>,
        top: &SnapshotTop,
        left_out: &LeftOut,
        budget: ContentBudget,
    ) -> (Result<(Fleet, Vec<Diagnostic>), ObjectError>, ContentBudget) {
        let pass = RenderPass {
            source: &self.source,
            tenancy: &self.tenancy,
            checks: &self.checks,
            objects: snapshot.objects,
            inputs: top.source.clone(),
            earlier: &self.earlier,
            bare: Arc::new(ClusterConfig::new(None, true)),
            content: RefCell::new(std::mem::take(&mut self.content)),
            budget: RefCell::new(budget),
            parsed: ParsedFiles::default(),
        };
        let mut diagnostics = top.diagnostics.clone();
        let fleet = self.fleet(&pass, top, left_out, &mut diagnostics);
        let RenderPass { content, budget, .. } = pass;
        self.content = content.into_inner();
        debug_assert!(self.is_counted(&fleet), "the bytes of all contents are those of works");
        (fleet.map(|fleet| (fleet, diagnostics)), budget.into_inner())
    }

    /// Whether works hold no more than [`SharedContent::bytes`]; not checked for many works.
    fn is_counted(&self, fleet: &Result<Fleet, ObjectError>) -> bool {
        let (Ok(fleet), Some(shared)) = (fleet, self.content.bytes()) else { return true };
        let folders = || fleet.clusters.values().flat_map(|cluster| cluster.rendered_folders());
        let unshared: usize = folders().map(|one| one.sizes.unshared()).sum();
        let mut exact = ContentBudget::exact(unshared + shared);
        folders().count() > CHECKED_FOLDERS_MAX
            || folders().all(|one| exact.spend_folder(one, &self.content).is_ok())
    }

    /// Drops contents that only earlier commits had, as soon as nobody holds their works.
    pub fn drop_unused(&mut self) {
        self.content.drop_unused(0, self.folder_count());
    }

    /// The work folders of all clusters.
    fn folder_count(&self) -> usize {
        self.clusters.values().map(|cluster| cluster.works.len()).sum()
    }

    /// Reads groups and clusters, finds the members of the groups, and renders all works.
    fn fleet(
        &self,
        pass: &RenderPass<'_>,
        top: &SnapshotTop,
        left_out: &LeftOut,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Fleet, ObjectError> {
        let mut fleet = Fleet::default();
        let groups = pass.groups(&top.groups, &self.groups);
        let at = || RepoPath::root().join(GROUPS);
        let Some(groups) = self.within_bounds(groups, at, diagnostics)? else { return Ok(fleet) };
        let mut opened = pass.open(&top.clusters, &self.clusters)?;
        let labels = opened.iter().map(|(name, open)| (name, &open.inherited.config.file.labels));
        // Only groups ask for them.
        let labels = labels.take_while(|_| !groups.is_empty()).collect();
        let facts = self.facts.as_deref();
        let mut found = Memberships::find(&groups, &labels, facts);
        let diagnostics_of_groups = groups.iter().flat_map(|group| group.diagnostics.clone());
        let counted = pass.budget.borrow_mut().spend_diagnostics(&found.diagnostics);
        let counted = counted.map_err(PassError::from);
        if self.within_bounds(counted, at, diagnostics)?.is_none() {
            return Ok(fleet);
        }
        fleet.diagnostics = found.diagnostics.into_iter().chain(diagnostics_of_groups).collect();
        fleet.uncertain = found.uncertain;
        fleet.delivered = found.delivered;
        fleet.rollouts = rollouts(&found.by_cluster, &labels, facts);
        let (members, all) = (&mut found.by_cluster, &mut fleet.rollouts);
        let later = pass.earlier.assign(members, all, (&labels, facts), left_out);
        fleet.groups = groups;
        pass.open_members(&found.by_cluster, &self.clusters, &mut opened);
        if opened.len() > limits::CLUSTERS_MAX {
            diagnostics.push(too_many_clusters(opened.len()));
            return Ok(fleet);
        }
        fleet.unread = self.select(&mut opened, &found.by_cluster);
        let rendered = self.clusters(pass, opened, (found.by_cluster, later), diagnostics)?;
        (fleet.clusters, fleet.kinds) = rendered;
        if !found.open.is_empty() {
            let open = fleet.open_groups(&found.open, found.compared);
            fleet.open_groups = Some(Arc::new(open));
        }
        Ok(fleet)
    }

    /// Renders the clusters, up to the bounds of the source.
    fn clusters(
        &self,
        pass: &RenderPass<'_>,
        opened: OpenClusters<'_>,
        (groups, later): (GroupsByCluster, GroupsByCluster),
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<(RenderedClusters, KindIndex), ObjectError> {
        let (mut groups, mut later) = (InStep::new(groups), InStep::new(later));
        let plans: Vec<(ClusterName, ClusterPlan<'_>)> = opened
            .into_iter()
            .map(|(name, opened)| {
                let place = ClusterPlace {
                    groups: groups.get(&name).unwrap_or_default(),
                    later: later.get(&name).unwrap_or_default(),
                    facts: Facts::of(self.facts.as_deref(), &name),
                };
                let plan = pass.plan(&name, opened, place);
                (name, plan)
            })
            .collect();
        let ahead = RenderedAhead::new(pass.work_inputs(), &self.kinds, &plans);
        let rendered = ahead.run(pass.objects, self.threads, |ahead| {
            self.planned_clusters(pass, plans, ahead, diagnostics)
        });
        let mut clusters = rendered?;
        // A CRD anywhere in the repository tells the plural of its kind everywhere: what was
        // rendered with another answer is rendered again. A frozen work tells nothing.
        let kinds = pass.kinds(&clusters);
        let at = || RepoPath::root().join(CLUSTERS);
        let Some((kinds, frozen)) = self.within_bounds(kinds, at, diagnostics)? else {
            return Ok((clusters, KindIndex::default()));
        };
        for (name, cluster) in &mut clusters {
            let corrected = pass
                .correct_kinds(name, cluster, &kinds, frozen.get(name))
                .and_then(|()| pass.check(name, cluster));
            // What follows is corrected and checked in a later pass: until then, the source is
            // frozen.
            let at = || layout::cluster_path(name);
            if self.within_bounds(corrected, at, diagnostics)?.is_none() {
                break;
            }
        }
        Ok((clusters, kinds))
    }

    /// Renders clusters whose inputs are known, before all kinds are known.
    fn planned_clusters(
        &self,
        pass: &RenderPass<'_>,
        plans: Vec<(ClusterName, ClusterPlan<'_>)>,
        ahead: Option<&RenderedAhead<'_>>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<RenderedClusters, ObjectError> {
        let mut clusters = Vec::with_capacity(plans.len());
        let mut works_left = limits::WORKS_MAX;
        for (name, plan) in plans {
            let bounds = (Rendering { kinds: &self.kinds, ahead }, works_left);
            let cluster = pass.cluster(&name, plan, bounds);
            let at = || layout::cluster_path(&name);
            let Some(cluster) = self.within_bounds(cluster, at, diagnostics)? else { break };
            works_left -= cluster.works.len();
            clusters.push((name, cluster));
        }
        Ok(clusters.into_iter().collect())
    }

    /// `None` where a bound of the source is exceeded, which is reported and freezes it: of what is
    /// not read, nothing is known. `at`: the path to name.
    fn within_bounds<T>(
        &self,
        result: Result<T, PassError>,
        at: impl FnOnce() -> RepoPath,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Option<T>, ObjectError> {
        let found = match result {
            Ok(value) => return Ok(Some(value)),
            Err(PassError::Object(why)) => return Err(why),
            Err(PassError::TooManyWorks) => too_many_works(),
            Err(PassError::TooLarge) => {
                too_large(&self.source, &at(), self.content_bytes_max / (1024 * 1024))
            }
        };
        diagnostics.push(found);
        Ok(None)
    }

    /// What facts the groups and the works need; `None` if they need none.
    fn needed_facts(&self) -> Option<FactNeeds> {
        let mut needs = FactNeeds::default();
        let clusters =
            self.clusters.values().filter(|cluster| cluster.may_have(|found| found.has_variables));
        let folders = clusters.flat_map(|cluster| cluster.works.values());
        for variable in folders.flat_map(|folder| folder.rendered.variables.iter()) {
            match variable {
                Variable::Label(key) if !needs.labels.contains(key) => {
                    needs.labels.insert(key.clone());
                }
                Variable::Claim(name) if !needs.claims.contains(name) => {
                    needs.claims.insert(name.clone());
                }
                _ => {}
            }
        }
        let matchers = self.groups.iter().filter_map(|group| group.matcher());
        let groups = self.groups.iter().chain(self.earlier.groups());
        let overrides = groups.flat_map(|group| &group.config.overrides);
        let waves = self.groups.iter().filter_map(|group| group.rollout.as_ref());
        let waves = waves.flat_map(|rollout| &rollout.waves.matchers);
        let matchers = matchers.chain(overrides.map(|one| &one.matcher)).chain(waves);
        matchers.for_each(|matcher| matcher.add_needs(&mut needs));
        (!self.groups.is_empty() || needs != FactNeeds::default()).then_some(needs)
    }

    /// Puts the clusters together: the works that Git wants, and those that an error freezes.
    fn assemble(&self, commit: Option<CommitId>, diagnostics: &[Diagnostic]) -> Desired {
        let wanted = self.clusters.iter().map(|(name, cluster)| (name.clone(), cluster.wanted()));
        let mut works = WantedWorks::of_clusters(wanted);
        let above = diagnostics.iter().chain(&self.group_diagnostics);
        let mut all: Vec<ScopedDiagnostic<'_>> = above.map(ScopedDiagnostic::new).collect();
        let clusters = self.clusters.values().filter(|cluster| cluster.may_have_problems());
        all.extend(clusters.flat_map(|cluster| cluster.problems()));
        let mut frozen = self.freeze(&mut works, &all);
        let of_order = if self.is_partial { Vec::new() } else { self.check_order(&works, &frozen) };
        if !of_order.is_empty() {
            all.extend(of_order.iter().map(ScopedDiagnostic::new));
            frozen = self.freeze(&mut works, &all);
        }
        let delivered = self.delivered_works(&works);
        self.freeze_delivered(&works, &mut frozen);
        let later = self.clusters.values().flat_map(|cluster| &cluster.later_works);
        let later = later.filter_map(|rendered| rendered.work.as_ref());
        let later = later.map(|work| (work.key.clone(), work.objects.clone())).collect();
        let unread = self.unread_members(&works, &frozen);
        let rollouts = rollouts::assign(&self.rollouts, &unread, &mut works);
        let diagnostics = cut_fairly(all);
        let suspends = |cluster: &&Arc<RenderedCluster>| cluster.inherited.config.file.suspend;
        let clusters = self.clusters.iter().filter(|(_, cluster)| suspends(cluster));
        let clusters = clusters.map(|(name, _)| name.clone()).collect();
        let (needs, facts) = (self.needed_facts(), self.facts.as_ref());
        Desired {
            source: self.source.clone(),
            commit,
            works,
            delivered,
            frozen,
            rules: self.rules.clone(),
            approved: self.approved.clone(),
            suspended: Suspended { source: self.suspended, clusters },
            facts: facts.zip(needs.as_ref()).map(|(facts, needs)| Arc::new(facts.reduced(needs))),
            needed_facts: needs,
            rollouts,
            later,
            diagnostics,
        }
    }
}

/// The works of the cluster at this path, and those of the clusters before it, hold more than they
/// may.
fn too_large(source: &SourceId, at: &RepoPath, mebibytes: usize) -> Diagnostic {
    let message = format!(
        "the rendered works of the source {source} take more than {mebibytes} MiB of memory, of \
         which equal contents count once, or their files have more than four times as much; \
         nothing of it is changed or deleted until it has fewer works or a larger `maxContentMib`"
    );
    let at = Location::file(at);
    let hint = "raise `maxContentMib` of this source in the daemon's file, if the process has the \
                memory; otherwise split the source into several, each with its own path";
    Diagnostic::new(Code::TooManyFiles, at, Scope::Source, message).with_hint(hint)
}

/// Groups may name clusters that have no folder.
fn too_many_clusters(found: usize) -> Diagnostic {
    let most = limits::CLUSTERS_MAX;
    let message = format!("{found} clusters, with those of groups; a source has at most {most}");
    let folder = Location::file(&RepoPath::root().join(GROUPS));
    Diagnostic::new(Code::TooManyFiles, folder, Scope::Source, message)
        .with_hint("split it into several sources, each with its own path")
}

fn too_many_works() -> Diagnostic {
    let message =
        format!("a source has at most {} works, and this one has more", limits::WORKS_MAX);
    let folder = Location::file(&RepoPath::root().join(CLUSTERS));
    Diagnostic::new(Code::TooManyFiles, folder, Scope::Source, message)
        .with_hint("split it into several sources, each with its own path")
}

#[cfg(test)]
mod tests;
