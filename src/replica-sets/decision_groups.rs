//! The decision groups of Placements, as the labels of their PlacementDecisions say.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_api::placement::{
    LABEL_DECISION_GROUP_INDEX, LABEL_DECISION_GROUP_NAME, LABEL_PLACEMENT,
};
use gitwork_core::model::facts::{PlacementFacts, PlacementKey};
use gitwork_core::model::name::ClusterName;
use serde_json::Value;

/// The group of one PlacementDecision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionGroupLabels {
    /// The Placement.
    pub placement: PlacementKey,
    /// Name of the group; may be empty.
    pub name: String,
    /// Index of the group; `None` if it has none.
    pub index: Option<i64>,
}

impl DecisionGroupLabels {
    /// Reads a PlacementDecision; `None` if it belongs to no Placement.
    pub fn read(decision: &Value) -> Option<Self> {
        let metadata = decision.get("metadata")?;
        let label = |key: &str| metadata.get("labels")?.get(key)?.as_str();
        let namespace = metadata.get("namespace")?.as_str()?.to_owned();
        Some(Self {
            placement: PlacementKey { namespace, name: label(LABEL_PLACEMENT)?.to_owned() },
            name: label(LABEL_DECISION_GROUP_NAME).unwrap_or_default().to_owned(),
            index: label(LABEL_DECISION_GROUP_INDEX).and_then(|text| text.parse().ok()),
        })
    }
}

/// The groups of all PlacementDecisions, by namespace and name.
pub type DecisionGroups = BTreeMap<(String, String), DecisionGroupLabels>;

/// One decision group, with its clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RolloutGroup {
    pub index: i64,
    pub name: String,
    pub clusters: BTreeSet<ClusterName>,
}

/// The groups of a Placement in the order of their indexes, with those clusters that `is_member`
/// accepts. Indexes may have gaps. Decisions without an index come last. A cluster is in one group.
pub(crate) fn groups_of(
    key: &PlacementKey,
    placement: &PlacementFacts,
    labels: &DecisionGroups,
    is_member: impl Fn(&ClusterName) -> bool,
) -> Vec<RolloutGroup> {
    let mut groups: BTreeMap<(i64, String), BTreeSet<ClusterName>> = BTreeMap::new();
    for (decision, clusters) in &placement.decisions {
        let labels = labels.get(&(key.namespace.clone(), decision.clone()));
        let index = labels.and_then(|labels| labels.index).unwrap_or(i64::MAX);
        let name = labels.map(|labels| labels.name.clone()).unwrap_or_default();
        let group = groups.entry((index, name)).or_default();
        group.extend(clusters.iter().filter(|cluster| is_member(cluster)).cloned());
    }
    let mut seen = BTreeSet::new();
    let all = groups.into_iter().map(|((index, name), mut clusters)| {
        clusters.retain(|cluster| seen.insert(cluster.clone()));
        RolloutGroup { index, name, clusters }
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(all: &[&str]) -> Vec<ClusterName> {
        all.iter().map(|one| ClusterName::parse(one).unwrap()).collect()
    }

    /// M10: upstream drops the group after a gap, and rejects a Placement without indexes.
    #[test]
    fn gaps_and_missing_indexes_lose_no_cluster() {
        let key = PlacementKey { namespace: "fleet".into(), name: "all".into() };
        let decision = |name: &str, index: Option<&str>| {
            let mut labels = json!({LABEL_PLACEMENT: "all", LABEL_DECISION_GROUP_NAME: "g"});
            if let Some(index) = index {
                labels[LABEL_DECISION_GROUP_INDEX] = json!(index);
            }
            let object =
                json!({"metadata": {"namespace": "fleet", "name": name, "labels": labels}});
            let read = DecisionGroupLabels::read(&object).unwrap();
            (("fleet".to_owned(), name.to_owned()), read)
        };
        let labels: DecisionGroups = [
            decision("d1", Some("2")),
            decision("d2", Some("0")),
            decision("d3", None),
            decision("d4", Some("x")),
        ]
        .into();
        let placement = PlacementFacts {
            decisions: [
                ("d1".to_owned(), names(&["c3", "c1"])),
                ("d2".to_owned(), names(&["c1", "c2"])),
                ("d3".to_owned(), names(&["c5"])),
                ("d4".to_owned(), names(&["c6"])),
            ]
            .into(),
            ..PlacementFacts::default()
        };
        let groups = groups_of(&key, &placement, &labels, |_| true);
        let shown: Vec<(i64, Vec<&str>)> = groups
            .iter()
            .map(|one| (one.index, one.clusters.iter().map(ClusterName::as_str).collect()))
            .collect();
        let expected = [(0, vec!["c1", "c2"]), (2, vec!["c3"]), (i64::MAX, vec!["c5", "c6"])];
        assert_eq!(shown, expected);
    }
}
