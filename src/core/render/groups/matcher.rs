//! Whether a cluster is in a group, by the conditions of group.yaml.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::GroupFile;
use crate::config::group_file::ValueOverride;
use crate::config::member_selector::{MemberSelector, SelectorOperator, SelectorRequirement};
use crate::config::ocm_rules::wildcard;
use crate::config::rollout::WaveSettings;
use crate::model::facts::{FactNeeds, KnownFact, KnownFacts, PlacementKey, SelectedClusters};
use crate::model::name::ClusterName;

/// How sure it is that a cluster is in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// It is in the group.
    Member,
    /// It may be, by facts that are unknown.
    Possible,
}

/// The conditions of a group.yaml, ready to be compared.
#[derive(Debug)]
pub struct ClusterMatcher {
    clusters: Option<NamePatterns>,
    exclude: NamePatterns,
    selector: Option<MemberSelector>,
    /// The Placement that a cluster must be selected by.
    pub placement: Option<PlacementKey>,
}

impl ClusterMatcher {
    /// Compiles the conditions.
    pub fn new(file: &GroupFile) -> Self {
        let placement = file.placement.as_ref().map(|placement| PlacementKey {
            namespace: placement.namespace.clone(),
            name: placement.name.clone(),
        });
        Self {
            clusters: file.clusters.as_deref().map(NamePatterns::new),
            exclude: NamePatterns::new(&file.exclude),
            selector: file.selector.clone(),
            placement,
        }
    }

    /// Compiles the conditions of an override.
    pub fn of_override(one: &ValueOverride) -> Self {
        Self {
            clusters: one.clusters.as_deref().map(NamePatterns::new),
            exclude: NamePatterns::new(&[]),
            selector: one.selector.clone(),
            placement: None,
        }
    }

    /// Compiles the conditions of a wave.
    pub fn of_wave(wave: &WaveSettings) -> Self {
        Self {
            clusters: wave.clusters.as_deref().map(NamePatterns::new),
            exclude: NamePatterns::new(&[]),
            selector: wave.selector.clone(),
            placement: None,
        }
    }

    /// The clusters that can be in the group, if `clusters` names each of them.
    pub fn names(&self) -> Option<&BTreeSet<ClusterName>> {
        let patterns = self.clusters.as_ref()?;
        patterns.wildcards.is_empty().then_some(&patterns.exact)
    }

    /// The names of clusters without wildcards.
    pub fn exact_names(&self) -> impl Iterator<Item = &ClusterName> {
        self.clusters.iter().flat_map(|patterns| &patterns.exact)
    }

    /// Adds what facts the conditions need.
    pub fn add_needs(&self, needs: &mut FactNeeds) {
        needs.placements.extend(self.placement.clone());
        let Some(MemberSelector { label_selector, claim_selector }) = &self.selector else {
            return;
        };
        let labels = label_selector.match_labels.keys();
        let by_label = label_selector.match_expressions.iter().map(|one| &one.key);
        needs.labels.extend(labels.chain(by_label).map(|key| key.as_str().into()));
        let by_claim = claim_selector.match_expressions.iter();
        needs.claims.extend(by_claim.map(|one| one.key.as_str().into()));
    }

    /// The comparisons that one cluster takes.
    pub fn steps(&self) -> usize {
        let patterns = self.clusters.iter().chain([&self.exclude]);
        let selectors = self.selector.iter().map(|selector| {
            let MemberSelector { label_selector, claim_selector } = selector;
            let expressions = label_selector.match_expressions.iter();
            let expressions = expressions.chain(&claim_selector.match_expressions);
            let values: usize = expressions.map(|one| 1 + one.values.len()).sum();
            label_selector.match_labels.len() + values
        });
        let wildcards: usize = patterns.map(NamePatterns::steps).sum();
        wildcards + selectors.sum::<usize>()
    }

    /// Whether a cluster is in the group; `None` if it is not. `labels` are those of its
    /// cluster.yaml. `placement`: the clusters of the group's Placement, if the facts have it.
    pub fn judge(
        &self,
        cluster: &ClusterName,
        labels: Option<&BTreeMap<String, String>>,
        facts: &KnownFacts,
        placement: Option<&SelectedClusters<'_>>,
    ) -> Option<Certainty> {
        let is_named = self.clusters.as_ref().is_none_or(|patterns| patterns.matches(cluster));
        // The hub deletes the works of a cluster that leaves it. New ones would keep it there.
        if !is_named || self.exclude.matches(cluster) || facts.is_deleting() {
            return None;
        }
        let is_selected = match &self.placement {
            None => Some(true),
            Some(_) => placement.and_then(|selected| selected.has(cluster)),
        };
        let label = |key: &str| match labels.and_then(|labels| labels.get(key)) {
            Some(value) => KnownFact::Value(value),
            None => facts.label(key),
        };
        let fits = self.selector.as_ref().map_or(Some(true), |selector| {
            let MemberSelector { label_selector, claim_selector } = selector;
            let labels = label_selector.match_labels.iter();
            let equal = labels.map(|(key, wanted)| match label(key) {
                KnownFact::Value(value) => Some(value == wanted),
                KnownFact::Absent => Some(false),
                KnownFact::Unknown => None,
            });
            let by_label = label_selector.match_expressions.iter();
            let by_label = by_label.map(|one| is_met(one, label(&one.key)));
            let by_claim = claim_selector.match_expressions.iter();
            let by_claim = by_claim.map(|one| is_met(one, facts.claim(&one.key)));
            all(equal.chain(by_label).chain(by_claim))
        });
        match all([is_selected, fits].into_iter()) {
            Some(true) => Some(Certainty::Member),
            Some(false) => None,
            None => Some(Certainty::Possible),
        }
    }
}

/// Whether all conditions hold; `None` if that depends on unknown ones.
fn all(conditions: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(true);
    for condition in conditions {
        match condition {
            Some(true) => {}
            Some(false) => return Some(false),
            None => result = None,
        }
    }
    result
}

/// Whether a label or claim meets a requirement, as in Kubernetes: an absent one is in no list.
fn is_met(requirement: &SelectorRequirement, fact: KnownFact<'_>) -> Option<bool> {
    let value = match fact {
        KnownFact::Value(value) => Some(value),
        KnownFact::Absent => None,
        KnownFact::Unknown => return None,
    };
    let is_listed = || value.is_some_and(|value| requirement.values.iter().any(|one| one == value));
    Some(match requirement.operator {
        SelectorOperator::In => is_listed(),
        SelectorOperator::NotIn => !is_listed(),
        SelectorOperator::Exists => value.is_some(),
        SelectorOperator::DoesNotExist => value.is_none(),
    })
}

/// Names of clusters, some with wildcards.
#[derive(Debug)]
struct NamePatterns {
    exact: BTreeSet<ClusterName>,
    wildcards: Vec<String>,
}

impl NamePatterns {
    fn new(patterns: &[String]) -> Self {
        let (wildcards, exact): (Vec<_>, Vec<_>) =
            patterns.iter().partition(|pattern| pattern.contains('*'));
        Self {
            exact: exact.into_iter().filter_map(|name| ClusterName::parse(name).ok()).collect(),
            wildcards: wildcards.into_iter().cloned().collect(),
        }
    }

    /// The text between two `*` is searched for.
    fn steps(&self) -> usize {
        let stars = self.wildcards.iter().map(|pattern| pattern.matches('*').count());
        1 + stars.sum::<usize>()
    }

    fn matches(&self, cluster: &ClusterName) -> bool {
        let is_like = |pattern: &String| wildcard(pattern, cluster.as_str());
        self.exact.contains(cluster) || self.wildcards.iter().any(is_like)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::model::facts::{ClusterFacts, PlacementInconsistency};

    fn judge(yaml: &str, name: &str, own: &[(&str, &str)], facts: &KnownFacts) -> &'static str {
        judge_with(yaml, name, own, facts, None)
    }

    fn judge_with(
        yaml: &str,
        name: &str,
        own: &[(&str, &str)],
        facts: &KnownFacts,
        placement: Option<&SelectedClusters<'_>>,
    ) -> &'static str {
        let matcher = ClusterMatcher::new(&serde_yaml::from_str(yaml).unwrap());
        let own = own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let cluster = ClusterName::parse(name).unwrap();
        match matcher.judge(&cluster, Some(&own), facts, placement) {
            Some(Certainty::Member) => "in",
            Some(Certainty::Possible) => "maybe",
            None => "out",
        }
    }

    fn known(labels: &[(&str, &str)], claims: &[(&str, &str)], is_stale: bool) -> KnownFacts {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let (labels, claims) = (map(labels), map(claims));
        let facts = ClusterFacts { labels, claims, is_stale, ..ClusterFacts::default() };
        KnownFacts::Known(Arc::new(facts))
    }

    #[test]
    fn names_need_no_facts() {
        let group = "{clusters: [dc-1, 'store-*'], exclude: ['store-*-lab', store-bonn-1]}";
        for (name, expected) in [
            ("dc-1", "in"),
            ("dc-2", "out"),
            ("store-bonn-2", "in"),
            ("store-bonn-1", "out"),
            ("store-ulm-lab", "out"),
        ] {
            assert_eq!(judge(group, name, &[], &KnownFacts::Unknown), expected, "{name}");
        }
    }

    #[test]
    fn all_given_conditions_must_match() {
        let group = "{clusters: ['store-*'], selector: {labelSelector: {matchLabels: {tier: a}}}}";
        let tier_a = known(&[("tier", "a")], &[], false);
        assert_eq!(judge(group, "store-1", &[], &tier_a), "in");
        assert_eq!(judge(group, "dc-1", &[], &tier_a), "out");
        assert_eq!(judge(group, "store-1", &[], &known(&[("tier", "b")], &[], false)), "out");
    }

    #[test]
    fn requirements_are_met_as_in_kubernetes() {
        let group = |operator: &str| {
            format!(
                "{{selector: {{labelSelector: {{matchExpressions: [{{key: k, operator: \
                 {operator}}}]}}}}}}"
            )
        };
        for (operator, present, other, absent) in [
            ("In, values: [x, y]", "in", "out", "out"),
            ("NotIn, values: [x, y]", "out", "in", "in"),
            ("Exists", "in", "in", "out"),
            ("DoesNotExist", "out", "out", "in"),
        ] {
            let group = group(operator);
            let of = |labels: &[(&str, &str)]| judge(&group, "a", &[], &known(labels, &[], false));
            assert_eq!(of(&[("k", "x")]), present, "{operator}");
            assert_eq!(of(&[("k", "z")]), other, "{operator}");
            assert_eq!(of(&[]), absent, "{operator}");
            assert_eq!(judge(&group, "a", &[], &KnownFacts::Absent), absent, "{operator}");
            // Git's own label overrides the ManagedCluster's.
            let own = judge(&group, "a", &[("k", "x")], &known(&[("k", "z")], &[], false));
            assert_eq!(own, present, "{operator}");
            assert_eq!(judge(&group, "a", &[("k", "x")], &KnownFacts::Unknown), present);
        }
    }

    #[test]
    fn claims_come_from_the_hub_only() {
        let group = "{selector: {claimSelector: {matchExpressions: [{key: c, operator: Exists}]}}}";
        assert_eq!(judge(group, "a", &[("c", "x")], &known(&[], &[], false)), "out");
        assert_eq!(judge(group, "a", &[], &known(&[], &[("c", "x")], false)), "in");
    }

    #[test]
    fn unknown_facts_leave_it_open_and_one_failed_condition_decides() {
        let group = "{clusters: ['a*'], selector: {labelSelector: {matchLabels: {k: x, l: y}}}}";
        let of = |own: &[(&str, &str)], facts: &KnownFacts| judge(group, "a", own, facts);
        assert_eq!(of(&[], &KnownFacts::Unknown), "maybe");
        assert_eq!(of(&[("k", "z")], &KnownFacts::Unknown), "out");
        assert_eq!(of(&[("k", "x"), ("l", "y")], &KnownFacts::Unknown), "in");
        // A label that an unreadable ManagedCluster no longer shows is unknown.
        assert_eq!(of(&[], &known(&[("k", "x")], &[], true)), "maybe");
        assert_eq!(of(&[], &known(&[("k", "x")], &[], false)), "out");
        assert_eq!(of(&[], &known(&[("k", "x"), ("l", "y")], &[], true)), "in");
    }

    #[test]
    fn cluster_that_is_being_deleted_is_in_no_group() {
        let all = ["{clusters: [a]}", "{clusters: ['*']}", "{placement: {name: p, namespace: x}}"];
        let name = ClusterName::parse("a").unwrap();
        let placement = SelectedClusters {
            clusters: [&name].into(),
            inconsistency: Some(PlacementInconsistency::Changing),
            unreachable: &BTreeSet::new(),
        };
        for (is_deleting, expected) in [(false, "in"), (true, "out")] {
            let facts = ClusterFacts { is_deleting, ..ClusterFacts::default() };
            let facts = KnownFacts::Known(Arc::new(facts));
            for group in all {
                assert_eq!(
                    judge_with(group, "a", &[], &facts, Some(&placement)),
                    expected,
                    "{group}"
                );
            }
        }
    }

    #[test]
    fn a_placement_that_may_select_more_clusters_excludes_none() {
        let group = "{placement: {name: p, namespace: fleet}, exclude: [c]}";
        let names = ["a", "c"].map(|name| ClusterName::parse(name).unwrap());
        let nobody = BTreeSet::new();
        let away = ["b", "c"].map(|name| ClusterName::parse(name).unwrap()).into();
        let changing = Some(PlacementInconsistency::Changing);
        for (inconsistency, unreachable, other) in
            [(None, &nobody, "out"), (changing, &nobody, "maybe"), (None, &away, "maybe")]
        {
            let selected =
                SelectedClusters { clusters: names.iter().collect(), inconsistency, unreachable };
            let of = |name| judge_with(group, name, &[], &KnownFacts::Absent, Some(&selected));
            assert_eq!([of("a"), of("b"), of("c")], ["in", other, "out"]);
        }
        let of = |name| judge_with(group, name, &[], &KnownFacts::Absent, None);
        assert_eq!([of("a"), of("b"), of("c")], ["maybe", "maybe", "out"], "no such Placement");
    }
}
