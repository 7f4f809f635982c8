//! Which clusters are in which groups, and of which groups that is uncertain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::inputs::{GroupInputs, GroupOverride};
use super::matcher::{Certainty, ClusterMatcher};
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic};
use crate::model::diagnostic_sink::DiagnosticSink;
use crate::model::facts::{
    Facts, KnownFacts, PlacementInconsistency, PlacementKey, SelectedClusters,
};
use crate::model::name::{ClusterName, GroupName};
use crate::render::desired::UncertainMembers;
use crate::render::values::FileValues;

/// The clusters that have a folder in Git, with the labels of their cluster.yaml.
pub type ClusterLabels<'a> = BTreeMap<&'a ClusterName, &'a BTreeMap<String, String>>;

/// A group that a cluster is in, or may be in.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The group.
    pub group: Arc<GroupInputs>,
    /// How sure that is. Not at all, if it is unknown which overrides are for the cluster.
    pub certainty: Certainty,
    /// The positions of the group's overrides for the cluster.
    pub overrides: Vec<usize>,
    /// How many clusters are in the group, or may be in it.
    pub group_members: usize,
    /// The group is not as the commit has it: the cluster keeps or gets an earlier content.
    pub is_earlier: bool,
}

impl Membership {
    /// The values of the group for the cluster, highest precedence first.
    pub fn values(&self) -> impl Iterator<Item = &FileValues> {
        let all = self.overrides.iter().rev();
        let overrides = all.filter_map(|index| self.group.config.overrides.get(*index));
        overrides.map(|one| &one.values).chain([&self.group.config.values])
    }
}

/// The members of all groups.
#[derive(Debug, Default)]
pub struct Memberships {
    /// By cluster, sorted by the group's name.
    pub by_cluster: BTreeMap<ClusterName, Vec<Membership>>,
    /// The clusters that the Placements of groups with ManifestWorkReplicaSets select, or may
    /// select. In `by_cluster`, these groups have the place of their sets as their only member.
    pub delivered: BTreeMap<GroupName, BTreeMap<ClusterName, Certainty>>,
    /// The groups that may have more members.
    pub uncertain: BTreeMap<GroupName, UncertainMembers>,
    /// The groups that may have members that are not known.
    pub open: BTreeSet<GroupName>,
    /// The clusters that were compared with these groups.
    pub compared: BTreeSet<ClusterName>,
    /// What is wrong with conditions, and which members are unknown.
    pub diagnostics: Vec<Diagnostic>,
    /// The number of memberships.
    count: usize,
    /// Whether there is a group that no cluster was compared with.
    is_incomplete: bool,
}

/// Why any cluster may be in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Doubt {
    /// There are no facts.
    NoFacts,
    /// The facts do not have all ManagedClusters.
    Partial,
    /// The facts do not have the Placement.
    PlacementMissing(PlacementKey),
    /// The Placement's decisions are inconsistent.
    Inconsistent(PlacementKey, PlacementInconsistency),
}

impl Doubt {
    /// What to do; `None` where the code's own help says it.
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoFacts => None,
            Self::Partial => Some(
                "read the facts again; until they are complete, the group's works stay as they \
                 are on the hub",
            ),
            Self::PlacementMissing(_) => Some(
                "create the Placement, or correct its name in group.yaml; until then, the group's \
                 works stay as they are on the hub",
            ),
            Self::Inconsistent(..) => Some(
                "wait until the hub has written all decisions; until then, the group's works stay \
                 as they are on the hub",
            ),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFacts => f.write_str("there are no facts of the hub"),
            Self::Partial => f.write_str("the facts do not have all ManagedClusters of the hub"),
            Self::PlacementMissing(key) => write!(f, "the facts have no Placement {key}"),
            Self::Inconsistent(key, why) => {
                write!(f, "the decisions of the Placement {key} may be incomplete: {why}")
            }
        }
    }
}

impl Memberships {
    /// Compares all known clusters with the conditions of all groups. The known clusters are the
    /// ManagedClusters of the facts, those with a folder in Git, and those that a group names.
    pub fn find<'a>(
        groups: &'a [Arc<GroupInputs>],
        labels: &'a ClusterLabels<'a>,
        facts: Option<&'a Facts>,
    ) -> Self {
        // To collect all clusters has a cost for each, and only groups ask for them.
        if groups.is_empty() {
            return Self::default();
        }
        let of_facts = facts.iter().flat_map(|facts| facts.managed_clusters.keys());
        let matchers = groups.iter().filter_map(|group| group.matcher());
        let named = matchers.flat_map(ClusterMatcher::exact_names);
        let known = labels.keys().copied().chain(of_facts).chain(named).collect();
        let matchers = groups.iter().filter_map(|group| group.matcher());
        let placements = matchers.filter_map(|matcher| {
            let key = matcher.placement.as_ref()?;
            Some((key, facts?.placements.get(key)?))
        });
        // Read once: many groups may have one Placement.
        let placements: BTreeMap<_, _> = placements.collect();
        let placements = placements.into_iter().map(|(key, facts)| (key, facts.selected()));
        let fleet = Fleet { known, labels, facts, placements: placements.collect() };
        let mut found = Self::default();
        let mut left =
            Bounds { steps: limits::MEMBERSHIP_STEPS_MAX, memberships: limits::MEMBERSHIPS_MAX };
        for group in fleet.by_cost(groups) {
            fleet.add_group(group, &mut left, &mut found);
        }
        found.count_members();
        if !found.open.is_empty() && !found.is_incomplete {
            found.compared = fleet.known.into_iter().cloned().collect();
        }
        found
    }

    fn count_members(&mut self) {
        let mut counts: BTreeMap<GroupName, usize> = BTreeMap::new();
        for one in self.by_cluster.values().flatten() {
            *counts.entry(one.group.name.clone()).or_default() += 1;
        }
        for all in self.by_cluster.values_mut() {
            all.sort_by(|one, other| one.group.name.cmp(&other.group.name));
            for one in all {
                one.group_members = counts.get(&one.group.name).copied().unwrap_or_default();
            }
        }
    }
}

/// What the groups that follow may still need.
struct Bounds {
    /// Comparisons.
    steps: usize,
    /// Members.
    memberships: usize,
}

impl Bounds {
    /// Takes what a group may need at most: all candidates may be members. `None` if that is too
    /// much.
    fn spend(&mut self, candidates: usize, steps: usize) -> Option<()> {
        let steps = self.steps.checked_sub(candidates.checked_mul(steps)?)?;
        let memberships = self.memberships.checked_sub(candidates)?;
        *self = Self { steps, memberships };
        Some(())
    }
}

/// All clusters that groups are compared with.
struct Fleet<'a> {
    known: BTreeSet<&'a ClusterName>,
    labels: &'a ClusterLabels<'a>,
    facts: Option<&'a Facts>,
    /// The clusters of the Placements that groups have.
    placements: BTreeMap<&'a PlacementKey, SelectedClusters<'a>>,
}

impl<'a> Fleet<'a> {
    /// The groups, those with the fewest comparisons first: a group that needs many leaves none to
    /// others that need as many, and takes none from those that need fewer.
    fn by_cost<'g>(&self, groups: &'g [Arc<GroupInputs>]) -> Vec<&'g Arc<GroupInputs>> {
        let cost = |group: &Arc<GroupInputs>| {
            let Some(matcher) = group.matcher() else { return self.known.len() };
            let candidates = matcher.names().map_or(self.known.len(), BTreeSet::len);
            candidates.saturating_mul(steps(group, matcher))
        };
        let mut all: Vec<_> = groups.iter().collect();
        all.sort_by_cached_key(|group| cost(group));
        all
    }

    fn add_group(&self, group: &Arc<GroupInputs>, left: &mut Bounds, to: &mut Memberships) {
        let Some(matcher) = group.matcher() else {
            // What it says is unknown, so any cluster may be in it.
            if left.spend(self.known.len(), 1).is_none() {
                return to.exceed(group);
            }
            to.uncertain.insert(group.name.clone(), UncertainMembers::Everyone);
            to.open.insert(group.name.clone());
            for cluster in &self.known {
                to.add(cluster, group, None);
            }
            return;
        };
        let candidates: Vec<&ClusterName> = match matcher.names() {
            Some(names) => names.iter().collect(),
            None => self.known.iter().copied().collect(),
        };
        if left.spend(candidates.len(), steps(group, matcher)).is_none() {
            return to.exceed(group);
        }
        let memberships_before = to.count;
        let (placement, doubt) = self.placement(matcher.placement.as_ref());
        let doubt = doubt.or_else(|| self.doubt().filter(|_| matcher.names().is_none()));
        let candidates_count = candidates.len();
        let (mut possible, mut members) = (BTreeSet::new(), 0);
        for cluster in candidates {
            let labels = self.labels.get(cluster).copied();
            let facts = Facts::of(self.facts, cluster);
            let Some(certainty) = matcher.judge(cluster, labels, &facts, placement) else {
                continue;
            };
            let overrides = match certainty {
                Certainty::Member => {
                    GroupOverride::matching(&group.config.overrides, cluster, labels, &facts)
                }
                Certainty::Possible => None,
            };
            match &overrides {
                Some(_) => members += 1,
                None => drop(possible.insert(cluster.clone())),
            }
            to.add(cluster, group, overrides);
        }
        to.add_place(group);
        // Those that are no members leave room for other groups.
        left.memberships += candidates_count.saturating_sub(to.count - memberships_before);
        if doubt.is_none() && possible.is_empty() {
            self.report_absent(group, members, &mut to.diagnostics);
            return;
        }
        let report = match &doubt {
            Some(doubt) => report_doubt(group, doubt),
            None => report_possible(group, &possible, placement),
        };
        // Without facts, a set is written all the same.
        to.diagnostics.extend(Some(report).filter(|_| group.delivery().is_none()));
        if self.doubt().is_some() && matcher.names().is_none() {
            to.open.insert(group.name.clone());
        }
        let uncertain = match doubt {
            Some(_) => UncertainMembers::Everyone,
            None => UncertainMembers::Clusters(possible),
        };
        to.uncertain.insert(group.name.clone(), uncertain);
    }

    /// Why there may be clusters that are not known.
    fn doubt(&self) -> Option<Doubt> {
        match self.facts {
            None => Some(Doubt::NoFacts),
            Some(facts) => facts.is_partial.then_some(Doubt::Partial),
        }
    }

    /// The clusters of a group's Placement, and why they may not be all.
    fn placement(
        &self,
        key: Option<&PlacementKey>,
    ) -> (Option<&SelectedClusters<'a>>, Option<Doubt>) {
        let Some(key) = key else { return (None, None) };
        if self.facts.is_none() {
            return (None, Some(Doubt::NoFacts));
        }
        let Some(found) = self.placements.get(key) else {
            return (None, Some(Doubt::PlacementMissing(key.clone())));
        };
        let doubt = found.inconsistency.clone();
        (Some(found), doubt.map(|why| Doubt::Inconsistent(key.clone(), why)))
    }

    /// Warns of names without a cluster, and of a group without a member.
    fn report_absent(&self, group: &GroupInputs, members: usize, to: &mut Vec<Diagnostic>) {
        let mut found = DiagnosticSink::new(limits::FILE_DIAGNOSTICS_MAX);
        let is_absent = |cluster: &ClusterName| {
            !self.labels.contains_key(cluster)
                && Facts::of(self.facts, cluster) == KnownFacts::Absent
        };
        for (cluster, at) in group.names().filter(|(cluster, _)| is_absent(cluster)) {
            let message = format!("the hub has no ManagedCluster {cluster}");
            let absent = Diagnostic::new(Code::NoMember, at, group.scope(), message);
            found.push(absent.with_field("clusters"));
        }
        to.extend(found.into_all());
        if members == 0 {
            let message = format!("no cluster is in the group {}", group.name);
            to.push(Diagnostic::new(Code::NoMember, group.location(), group.scope(), message));
        }
    }
}

impl Memberships {
    /// Reports a group whose members are too many to be found. They are unknown.
    fn exceed(&mut self, group: &GroupInputs) {
        self.uncertain.insert(group.name.clone(), UncertainMembers::Everyone);
        self.open.insert(group.name.clone());
        self.is_incomplete = true;
        let message = "the groups have too many conditions or members for the number of clusters";
        let found = Diagnostic::new(Code::TooManyFiles, group.location(), group.scope(), message);
        let hint = "name labels in place of patterns, or split the source";
        self.diagnostics.push(found.with_hint(hint));
    }

    /// Adds a member with its overrides, or a cluster that may be one. Those of a group with sets
    /// get no works of their own.
    fn add(
        &mut self,
        cluster: &ClusterName,
        group: &Arc<GroupInputs>,
        overrides: Option<Vec<usize>>,
    ) {
        if group.delivery().is_some() && group.matcher().is_some() {
            let clusters = self.delivered.entry(group.name.clone()).or_default();
            clusters.insert(cluster.clone(), certainty(overrides.as_deref()));
            return;
        }
        self.push(cluster, group, overrides);
    }

    /// Adds the place of a group's sets, as its only member.
    fn add_place(&mut self, group: &Arc<GroupInputs>) {
        if let Some(delivery) = group.delivery() {
            self.delivered.entry(group.name.clone()).or_default();
            self.push(&delivery.place, group, Some(Vec::new()));
        }
    }

    fn push(
        &mut self,
        cluster: &ClusterName,
        group: &Arc<GroupInputs>,
        overrides: Option<Vec<usize>>,
    ) {
        self.count += 1;
        let certainty = certainty(overrides.as_deref());
        let (group, overrides) = (group.clone(), overrides.unwrap_or_default());
        let (group_members, is_earlier) = (0, false);
        let membership = Membership { group, certainty, overrides, group_members, is_earlier };
        match self.by_cluster.get_mut(cluster) {
            Some(groups) => groups.push(membership),
            None => drop(self.by_cluster.insert(cluster.clone(), vec![membership])),
        }
    }
}

/// How sure it is that a cluster is in a group. Its overrides are known only if it is.
fn certainty(overrides: Option<&[usize]>) -> Certainty {
    if overrides.is_some() { Certainty::Member } else { Certainty::Possible }
}

/// The comparisons of a group with one cluster.
fn steps(group: &GroupInputs, matcher: &ClusterMatcher) -> usize {
    let overrides = group.config.overrides.iter().map(|one| one.matcher.steps());
    let waves = group.rollout.iter().map(|rollout| rollout.waves.steps());
    matcher.steps() + overrides.sum::<usize>() + waves.sum::<usize>()
}

/// Clusters that a message names; it counts the others.
const NAMED_MAX: usize = 3;

const UNREACHABLE_HINT: &str = "To change their works, too, let the Placement tolerate the taints \
                                cluster.open-cluster-management.io/unreachable and \
                                cluster.open-cluster-management.io/unavailable.";

/// The first names of a set, and how many follow.
fn shown_names(clusters: &BTreeSet<ClusterName>) -> String {
    let named: Vec<&str> = clusters.iter().take(NAMED_MAX).map(ClusterName::as_str).collect();
    let more = clusters.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

/// Why all members of a group are unknown.
fn report_doubt(group: &GroupInputs, doubt: &Doubt) -> Diagnostic {
    let message = format!("the members of the group {} are unknown: {doubt}", group.name);
    let found = unknown_members(group, message);
    match doubt.hint() {
        Some(hint) => found.with_hint(hint),
        None => found,
    }
}

/// Why some clusters are neither members nor none. `placement`: the clusters of the group's
/// Placement.
fn report_possible(
    group: &GroupInputs,
    possible: &BTreeSet<ClusterName>,
    placement: Option<&SelectedClusters<'_>>,
) -> Diagnostic {
    let (name, shown) = (&group.name, shown_names(possible));
    if placement.is_some_and(|selected| possible.is_subset(selected.unreachable)) {
        let message = format!(
            "the Placement does not select these clusters, which are unreachable; what they have \
             of the group {name} stays as it is: {shown}"
        );
        return unknown_members(group, message).with_hint(UNREACHABLE_HINT);
    }
    let overrides =
        if group.config.overrides.is_empty() { "" } else { ", and in which of its overrides" };
    let message = format!(
        "the facts do not say whether these clusters are in the group {name}{overrides}: {shown}"
    );
    unknown_members(group, message)
}

fn unknown_members(group: &GroupInputs, message: String) -> Diagnostic {
    Diagnostic::new(Code::UnknownMembers, group.location(), group.scope(), message)
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::config::path_patterns::PathPatterns;
    use crate::model::facts::{ClusterFacts, DecisionGroupFacts, PlacementFacts};
    use crate::model::name::ObjectId;
    use crate::model::snapshot::{Entry, EntryKind, ObjectError, Objects, Tree};
    use crate::render::groups::{GroupConfigs, GroupDefaults};

    /// A group's folder with this group.yaml.
    struct OneFile<'a>(&'a str);

    impl Objects for OneFile<'_> {
        fn tree(&self, _: ObjectId) -> Result<Arc<Tree>, ObjectError> {
            let file = Entry { kind: EntryKind::Blob, id: ObjectId([1; 20]) };
            Ok(Arc::new([("group.yaml".to_owned(), file)].into()))
        }

        fn blob(&self, _: ObjectId, _: usize) -> Result<Arc<[u8]>, ObjectError> {
            Ok(self.0.as_bytes().into())
        }
    }

    fn group(yaml: &str) -> Arc<GroupInputs> {
        let name = GroupName::parse("g").unwrap();
        let ignore = PathPatterns::new(&[]).0;
        let (id, known) = (ObjectId([0; 20]), &mut GroupConfigs::new());
        let defaults = GroupDefaults::without_file(&ignore);
        Arc::new(GroupInputs::read(&name, id, defaults, &OneFile(yaml), known).unwrap())
    }

    fn cluster(name: &str) -> ClusterName {
        ClusterName::parse(name).unwrap()
    }

    fn facts(clusters: &[&str]) -> Facts {
        let known = |name: &&str| {
            let labels = [("name".to_owned(), (*name).to_owned())].into();
            (cluster(name), Arc::new(ClusterFacts { labels, ..ClusterFacts::default() }))
        };
        Facts {
            time: Some("2026-11-20T10:00:00Z".parse().unwrap()),
            hub_version: None,
            is_partial: false,
            managed_clusters: clusters.iter().map(known).collect(),
            placements: BTreeMap::new(),
        }
    }

    /// The members, those that may be ones with `?`, and whether anybody may be one.
    fn found(yaml: &str, facts: Option<&Facts>) -> (String, bool, Vec<String>) {
        let found = Memberships::find(&[group(yaml)], &ClusterLabels::new(), facts);
        let members = found.by_cluster.iter().map(|(name, groups)| {
            assert_eq!(groups.len(), 1);
            let sign = if groups[0].certainty == Certainty::Possible { "?" } else { "" };
            format!("{name}{sign}")
        });
        let everyone = found.uncertain.get(&GroupName::parse("g").unwrap())
            == Some(&UncertainMembers::Everyone);
        let messages = found.diagnostics.into_iter().map(|one| one.message).collect();
        (members.collect::<Vec<_>>().join(" "), everyone, messages)
    }

    #[test]
    fn names_resolve_without_facts_and_patterns_do_not() {
        assert_eq!(found("clusters: [b, a]", None), ("a b".into(), false, vec![]));
        let (members, everyone, messages) = found("clusters: [b, 'a*']", None);
        assert_eq!((members.as_str(), everyone), ("b", true));
        assert_eq!(
            messages,
            ["the members of the group g are unknown: there are no facts of the hub"]
        );
        let facts = facts(&["a1", "a2", "b", "c"]);
        let all = found("clusters: [b, 'a*']", Some(&facts));
        assert_eq!(all, ("a1 a2 b".into(), false, vec![]));
    }

    #[test]
    fn names_without_a_cluster_and_groups_without_a_member_are_reported() {
        let facts = facts(&["a"]);
        let (members, everyone, messages) = found("clusters: [a, b]", Some(&facts));
        assert_eq!((members.as_str(), everyone), ("a b", false));
        assert_eq!(messages, ["the hub has no ManagedCluster b"]);
        let (members, _, messages) = found("clusters: ['x*']", Some(&facts));
        assert_eq!((members.as_str(), messages.len()), ("", 1));
        assert_eq!(messages, ["no cluster is in the group g"]);
    }

    #[test]
    fn partial_and_stale_facts_exclude_nobody() {
        let yaml = "selector: {labelSelector: {matchLabels: {name: a, more: x}}}";
        let mut all = facts(&["a", "b"]);
        all.is_partial = true;
        let (members, everyone, messages) = found(yaml, Some(&all));
        assert_eq!((members.as_str(), everyone), ("", true));
        assert!(messages[0].ends_with("the facts do not have all ManagedClusters of the hub"));
        all.is_partial = false;
        for facts in all.managed_clusters.values_mut() {
            Arc::make_mut(facts).is_stale = true;
        }
        // b has another name; of a, a label may be missing.
        let (members, everyone, messages) = found(yaml, Some(&all));
        assert_eq!((members.as_str(), everyone), ("a?", false));
        assert_eq!(messages, ["the facts do not say whether these clusters are in the group g: a"]);
    }

    #[test]
    fn members_of_a_placement_leave_only_by_consistent_decisions() {
        let yaml = "placement: {name: p, namespace: fleet}";
        let mut all = facts(&["a", "b", "c"]);
        let (members, everyone, messages) = found(yaml, Some(&all));
        assert_eq!((members.as_str(), everyone), ("a? b? c?", true));
        assert!(messages[0].ends_with("the facts have no Placement fleet/p"), "{messages:?}");
        let key = PlacementKey { namespace: "fleet".into(), name: "p".into() };
        let mut placement = PlacementFacts {
            number_of_selected_clusters: Some(2),
            decision_groups: vec![DecisionGroupFacts {
                name: String::new(),
                decisions: vec!["p-decision-1".into()],
                cluster_count: 2,
            }],
            decisions: [("p-decision-1".into(), vec![cluster("a"), cluster("b")])].into(),
            is_changing: false,
            unreachable: BTreeSet::new(),
        };
        all.placements.insert(key.clone(), placement.clone());
        assert_eq!(found(yaml, Some(&all)), ("a b".into(), false, vec![]));
        placement.unreachable = [cluster("c")].into();
        all.placements.insert(key.clone(), placement.clone());
        let (members, everyone, messages) = found(yaml, Some(&all));
        assert_eq!((members.as_str(), everyone), ("a b c?", false));
        assert!(messages[0].ends_with("of the group g stays as it is: c"), "{messages:?}");
        placement.decisions.values_mut().for_each(|clusters| drop(clusters.pop()));
        all.placements.insert(key, placement);
        let (members, everyone, messages) = found(yaml, Some(&all));
        assert_eq!((members.as_str(), everyone), ("a b? c?", true));
        assert!(messages[0].contains("may be incomplete: 1 clusters are in the"), "{messages:?}");
    }

    #[test]
    fn a_group_with_an_error_may_have_any_member() {
        let (members, everyone, _) = found("{}", Some(&facts(&["a", "b"])));
        assert_eq!((members.as_str(), everyone), ("a? b?", true));
        let problems: Vec<String> =
            group("clusters: [A]\nfoo: 1").diagnostics.iter().map(|d| d.message.clone()).collect();
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    /// The groups of a fleet of 20,000 clusters whose members are not found.
    fn exceeding(yaml: &str, groups: usize) -> usize {
        let clusters: Vec<String> = (0..20_000).map(|number| format!("c{number}")).collect();
        let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
        let groups: Vec<_> = iter::repeat_n(group(yaml), groups).collect();
        let found = Memberships::find(&groups, &ClusterLabels::new(), Some(&facts(&clusters)));
        let too_many = found.diagnostics.iter().filter(|one| one.code == Code::TooManyFiles);
        assert!(found.uncertain.len() == usize::from(too_many.clone().count() > 0));
        too_many.count()
    }

    #[test]
    fn conditions_and_members_past_the_bound_are_reported_and_decide_nothing() {
        let patterns: Vec<String> = (0..1_000).map(|number| format!("x{number}*")).collect();
        let many_patterns = format!("clusters: ['{}']", patterns.join("', '"));
        assert_eq!(exceeding(&many_patterns, 12), 10);
        assert_eq!(exceeding("clusters: ['*']", 20), 0);
        assert_eq!(exceeding("clusters: ['*']", 23), 3);
        assert_eq!(exceeding("clusters: ['c1*']", 30), 0, "only members count");
        // The number of `*` counts: each text between two of them is searched for.
        let stars = format!("clusters: ['{}']", "*c".repeat(60));
        assert_eq!(exceeding(&stars, 50), 10);
    }
}
