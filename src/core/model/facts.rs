//! What the hub says of clusters: their labels, claims and versions, and the decisions of
//! Placements. An input of rendering, like the files in Git: a value with the time at which it was
//! true.
//!
//! The JSON form is `facts.json`:
//!
//! ```
//! use gitwork_core::model::facts::Facts;
//!
//! let facts = Facts::read(br#"{
//!     "time": "2026-11-20T10:00:00Z",
//!     "hubVersion": "v1.33.5",
//!     "managedClusters": {
//!         "edge-1": {"labels": {"tier": "edge"}, "claims": {"city": "Bonn"}, "version": "v1.31.2"}
//!     },
//!     "placements": {
//!         "fleet/batch": {
//!             "numberOfSelectedClusters": 1,
//!             "decisionGroups": [{"decisions": ["batch-decision-1"], "clusterCount": 1}],
//!             "decisions": {"batch-decision-1": ["edge-1"]}
//!         }
//!     }
//! }"#);
//! assert_eq!(facts.unwrap().managed_clusters.len(), 1);
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use gitwork_api::escape::escape_untrusted_json;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::name::ClusterName;
use super::operation_error::{ErrorClass, OperationError};
use crate::limits;

/// What the hub says of clusters and Placements at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Facts {
    /// When it was true. On a status branch, the commit's time says it.
    #[serde(default, with = "rfc3339", skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// The Kubernetes version of the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_version: Option<String>,
    /// Whether the hub may have more ManagedClusters than are listed here.
    #[serde(default, rename = "partial", skip_serializing_if = "is_false")]
    pub is_partial: bool,
    /// The ManagedClusters. Shared, so that an unchanged one is compared by its address.
    #[serde(default, with = "shared")]
    pub managed_clusters: BTreeMap<ClusterName, Arc<ClusterFacts>>,
    /// The Placements by namespace and name. One that is not listed is unknown.
    #[serde(default)]
    pub placements: BTreeMap<PlacementKey, PlacementFacts>,
}

/// The memory of a label or claim besides its texts.
const FACT_BYTES: usize = 64;

/// What the hub says of one ManagedCluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClusterFacts {
    /// `metadata.labels`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `status.clusterClaims`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, String>,
    /// `status.version.kubernetes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether these are older facts, as the ManagedCluster could not be read. A label that is not
    /// here is unknown then, not absent.
    #[serde(rename = "stale", skip_serializing_if = "is_false")]
    pub is_stale: bool,
    /// Whether the ManagedCluster is being deleted: the hub deletes all works of the cluster.
    #[serde(rename = "deleting", skip_serializing_if = "is_false")]
    pub is_deleting: bool,
    /// Whether the hub has lost contact: `ManagedClusterConditionAvailable` is not True.
    #[serde(rename = "unreachable", skip_serializing_if = "is_false")]
    pub is_unreachable: bool,
}

/// What is known of a cluster on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownFacts {
    /// Nothing: the hub may have a ManagedCluster of this name.
    Unknown,
    /// The hub has no ManagedCluster of this name.
    Absent,
    /// Its ManagedCluster.
    Known(Arc<ClusterFacts>),
}

/// One label or claim of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownFact<'a> {
    /// Its value.
    Value(&'a str),
    /// The cluster has no such label or claim.
    Absent,
    /// The cluster may have one.
    Unknown,
}

impl KnownFacts {
    /// A label of the ManagedCluster.
    pub fn label(&self, key: &str) -> KnownFact<'_> {
        self.fact(|facts| facts.labels.get(key))
    }

    /// A claim of the ManagedCluster.
    pub fn claim(&self, name: &str) -> KnownFact<'_> {
        self.fact(|facts| facts.claims.get(name))
    }

    /// Whether the ManagedCluster is being deleted.
    pub fn is_deleting(&self) -> bool {
        matches!(self, Self::Known(facts) if facts.is_deleting)
    }

    fn fact(&self, find: impl Fn(&ClusterFacts) -> Option<&String>) -> KnownFact<'_> {
        match self {
            Self::Unknown => KnownFact::Unknown,
            Self::Absent => KnownFact::Absent,
            Self::Known(facts) => match find(facts) {
                Some(value) => KnownFact::Value(value),
                None if facts.is_stale => KnownFact::Unknown,
                None => KnownFact::Absent,
            },
        }
    }
}

/// A Placement: its namespace and name, as `fleet/batch`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PlacementKey {
    /// The Placement's namespace.
    pub namespace: String,
    /// The Placement's name.
    pub name: String,
}

/// A Placement's status, and its PlacementDecisions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PlacementFacts {
    /// `status.numberOfSelectedClusters`; `None` before the hub has chosen clusters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number_of_selected_clusters: Option<usize>,
    /// `status.decisionGroups`.
    pub decision_groups: Vec<DecisionGroupFacts>,
    /// The clusters of each PlacementDecision, by the name of the PlacementDecision.
    pub decisions: BTreeMap<String, Vec<ClusterName>>,
    /// Whether clusters have left a short time ago, or may have: a cluster that is in no
    /// PlacementDecision may come back.
    #[serde(rename = "changing", skip_serializing_if = "is_false")]
    pub is_changing: bool,
    /// Unreachable clusters that are in no PlacementDecision, and may have been before. The hub
    /// drops unreachable clusters unless the Placement tolerates it (OCM's taint `unreachable`).
    /// That is no decision to remove anything from them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub unreachable: BTreeSet<ClusterName>,
}

/// One of `status.decisionGroups` of a Placement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DecisionGroupFacts {
    /// Its name; empty for clusters that no group of the Placement asks for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The PlacementDecisions with the clusters of the group.
    pub decisions: Vec<String>,
    /// How many clusters these have.
    pub cluster_count: usize,
}

/// The clusters that a Placement selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectedClusters<'a> {
    /// The clusters of all PlacementDecisions.
    pub clusters: BTreeSet<&'a ClusterName>,
    /// Why a cluster that is not among them may be selected all the same.
    pub inconsistency: Option<PlacementInconsistency>,
    /// [`PlacementFacts::unreachable`].
    pub unreachable: &'a BTreeSet<ClusterName>,
}

impl SelectedClusters<'_> {
    /// Whether the Placement selects a cluster; `None` if that is not certain.
    pub fn has(&self, cluster: &ClusterName) -> Option<bool> {
        if self.clusters.contains(cluster) {
            return Some(true);
        }
        let is_certain = self.inconsistency.is_none() && !self.unreachable.contains(cluster);
        is_certain.then_some(false)
    }
}

/// Why the PlacementDecisions of a Placement may be incomplete.
///
/// The hub writes them one after the other, and `placement.status` after them. A cluster that goes
/// from one PlacementDecision to another is in none for a moment (OCM: issue 1346).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementInconsistency {
    /// The status has no number of clusters, or no decision group.
    #[error("the hub has not chosen clusters yet")]
    Undecided,
    /// They agree, but have not done so for long.
    #[error("clusters may have left it a short time ago")]
    Changing,
    /// A PlacementDecision of the status is missing, or there is another one.
    #[error("its status and its PlacementDecisions disagree on {0:?}")]
    Names(String),
    /// A decision group of the status has another number of clusters than its PlacementDecisions.
    #[error("{found} clusters are in the PlacementDecisions of a group that has {expected}")]
    GroupCount {
        /// The number in the status.
        expected: usize,
        /// The number in the PlacementDecisions.
        found: usize,
    },
    /// The status has another number of clusters than all PlacementDecisions.
    #[error("{found} clusters are in the PlacementDecisions, but {expected} in the status")]
    Count {
        /// The number in the status.
        expected: usize,
        /// The number in the PlacementDecisions.
        found: usize,
    },
}

impl ClusterFacts {
    /// Whether the labels and claims are more than [`limits::CLUSTER_FACTS_BYTES_MAX`].
    pub fn is_too_large(&self) -> bool {
        let entries = self.labels.iter().chain(&self.claims);
        let bytes = entries.map(|(key, value)| key.len() + value.len() + FACT_BYTES);
        bytes.sum::<usize>() > limits::CLUSTER_FACTS_BYTES_MAX
    }
}

impl PlacementFacts {
    /// The clusters of all PlacementDecisions. They are all that the Placement selects only if they
    /// agree with the status in names and counts. While the hub writes them, they can agree by
    /// chance: facts have only decisions that have agreed for a while.
    pub fn selected(&self) -> SelectedClusters<'_> {
        let clusters: BTreeSet<&ClusterName> = self.decisions.values().flatten().collect();
        let inconsistency = self.inconsistency(clusters.len());
        SelectedClusters { clusters, inconsistency, unreachable: &self.unreachable }
    }

    /// The clusters of a decision group, by the position of the group.
    pub fn decision_group(&self, index: usize) -> impl Iterator<Item = &ClusterName> {
        let group = self.decision_groups.get(index);
        let decisions = group.into_iter().flat_map(|group| &group.decisions);
        decisions.filter_map(|name| self.decisions.get(name)).flatten()
    }

    fn inconsistency(&self, found: usize) -> Option<PlacementInconsistency> {
        use PlacementInconsistency::{Changing, Count, GroupCount, Names, Undecided};
        // An empty result has a group, too: an empty one.
        let Some(expected) = self.number_of_selected_clusters.filter(|_| self.has_groups()) else {
            return Some(Undecided);
        };
        let mut listed = BTreeSet::new();
        for group in &self.decision_groups {
            let mut in_group = 0;
            for name in &group.decisions {
                match self.decisions.get(name) {
                    Some(clusters) if listed.insert(name) => in_group += clusters.len(),
                    _ => return Some(Names(name.clone())),
                }
            }
            if in_group != group.cluster_count {
                return Some(GroupCount { expected: group.cluster_count, found: in_group });
            }
        }
        if let Some(other) = self.decisions.keys().find(|name| !listed.contains(name)) {
            return Some(Names(other.clone()));
        }
        // A cluster in two PlacementDecisions is counted twice in the groups.
        let in_groups: usize = self.decision_groups.iter().map(|group| group.cluster_count).sum();
        let wrong = [found, in_groups].into_iter().find(|count| *count != expected);
        let wrong = wrong.map(|found| Count { expected, found });
        wrong.or_else(|| self.is_changing.then_some(Changing))
    }

    fn has_groups(&self) -> bool {
        !self.decision_groups.is_empty()
    }
}

impl fmt::Display for PlacementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl From<PlacementKey> for String {
    fn from(key: PlacementKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for PlacementKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let parts = text.split_once('/').filter(|(namespace, name)| {
            !namespace.is_empty() && !name.is_empty() && !name.contains('/')
        });
        let (namespace, name) = parts.ok_or("a Placement is named NAMESPACE/NAME")?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// The labels, claims and Placements that something depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FactNeeds {
    /// Keys of labels.
    pub labels: BTreeSet<Box<str>>,
    /// Names of claims.
    pub claims: BTreeSet<Box<str>>,
    /// Placements.
    pub placements: BTreeSet<PlacementKey>,
}

/// Why a text has no facts.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// It is too long to be read.
    #[error("the facts have {bytes} bytes; the limit is {}", limits::FACTS_BYTES_MAX)]
    TooLarge {
        /// The length of the text.
        bytes: usize,
    },
    /// It is no JSON, or has other fields.
    #[error("the facts cannot be read: {0}")]
    Malformed(#[source] serde_json::Error),
    /// It has very many short values, which take far more memory than their text.
    #[error("the facts have more than {} values", limits::FACTS_VALUES_MAX)]
    TooManyValues,
    /// It has more clusters than a source may have.
    #[error("the facts have {clusters} clusters; the limit is {}", limits::CLUSTERS_MAX)]
    TooManyClusters {
        /// The number of ManagedClusters.
        clusters: usize,
    },
}

impl OperationError for FactsError {
    fn class(&self) -> ErrorClass {
        ErrorClass::NeedsAction
    }

    fn reason(&self) -> &'static str {
        "Facts"
    }
}

impl Facts {
    /// Reads the JSON form.
    pub fn read(text: &[u8]) -> Result<Self, FactsError> {
        if text.len() > limits::FACTS_BYTES_MAX {
            return Err(FactsError::TooLarge { bytes: text.len() });
        }
        // There is a comma between two values, and may be some in texts.
        if text.iter().filter(|byte| **byte == b',').count() >= limits::FACTS_VALUES_MAX {
            return Err(FactsError::TooManyValues);
        }
        let facts: Self = serde_json::from_slice(text).map_err(FactsError::Malformed)?;
        let clusters = facts.managed_clusters.len();
        if clusters > limits::CLUSTERS_MAX {
            return Err(FactsError::TooManyClusters { clusters });
        }
        Ok(facts)
    }

    /// What is known of a cluster. Without facts, nothing is.
    pub fn of(facts: Option<&Self>, cluster: &ClusterName) -> KnownFacts {
        let Some(facts) = facts else { return KnownFacts::Unknown };
        match facts.managed_clusters.get(cluster) {
            Some(known) => KnownFacts::Known(known.clone()),
            None if facts.is_partial => KnownFacts::Unknown,
            None => KnownFacts::Absent,
        }
    }

    /// The part of the facts that is needed, with the names of all clusters, and without a time.
    pub fn reduced(&self, needs: &FactNeeds) -> Self {
        let cluster = |facts: &ClusterFacts| {
            let kept = |all: &BTreeMap<String, String>, keys: &BTreeSet<Box<str>>| {
                let all = keys.iter().filter_map(|key| all.get_key_value(&**key));
                all.map(|(key, value)| (key.clone(), value.clone())).collect()
            };
            Arc::new(ClusterFacts {
                labels: kept(&facts.labels, &needs.labels),
                claims: kept(&facts.claims, &needs.claims),
                version: None,
                is_stale: facts.is_stale,
                is_deleting: facts.is_deleting,
                // Placements have what follows from it.
                is_unreachable: false,
            })
        };
        let clusters = self.managed_clusters.iter();
        let placements = needs.placements.iter();
        let placements = placements.filter_map(|key| self.placements.get_key_value(key));
        Self {
            managed_clusters: clusters
                .map(|(name, facts)| (name.clone(), cluster(facts)))
                .collect(),
            placements: placements.map(|(key, facts)| (key.clone(), facts.clone())).collect(),
            time: None,
            hub_version: self.hub_version.clone(),
            is_partial: self.is_partial,
        }
    }

    /// Whether both say the same, at whatever times.
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { time: _, hub_version, is_partial, managed_clusters, placements } = self;
        *hub_version == other.hub_version
            && *is_partial == other.is_partial
            && *managed_clusters == other.managed_clusters
            && *placements == other.placements
    }

    /// The JSON form, which [`Self::read`] reads. Characters that control a terminal or hide
    /// content are escaped.
    pub fn text(&self) -> String {
        // A cluster may report characters that control a terminal or hide text.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        escape_untrusted_json(&text) + "\n"
    }
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A map of shared values, in the form of a map of values.
mod shared {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{ClusterFacts, ClusterName};

    pub(super) fn serialize<S: Serializer>(
        all: &BTreeMap<ClusterName, Arc<ClusterFacts>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_map(all.iter().map(|(name, facts)| (name, &**facts)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<ClusterName, Arc<ClusterFacts>>, D::Error> {
        let all = BTreeMap::<ClusterName, ClusterFacts>::deserialize(from)?;
        Ok(all.into_iter().map(|(name, facts)| (name, Arc::new(facts))).collect())
    }
}

/// A time as text (RFC 3339).
mod rfc3339 {
    use jiff::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => to.collect_str(time),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cluster(number: usize) -> ClusterName {
        ClusterName::parse(&format!("c{number}")).unwrap()
    }

    /// What the hub writes for these clusters, `of_each` in a PlacementDecision and one group.
    fn decided(clusters: &[ClusterName], of_each: usize) -> PlacementFacts {
        let parts = || clusters.chunks(of_each).map(<[ClusterName]>::to_vec);
        let name = |number: usize| format!("p-decision-{}", number + 1);
        let mut decisions: BTreeMap<String, Vec<ClusterName>> =
            parts().enumerate().map(|(number, part)| (name(number), part)).collect();
        decisions.entry(name(0)).or_default();
        PlacementFacts {
            number_of_selected_clusters: Some(clusters.len()),
            decision_groups: vec![DecisionGroupFacts {
                name: String::new(),
                decisions: decisions.keys().cloned().collect(),
                cluster_count: clusters.len(),
            }],
            decisions,
            is_changing: false,
            unreachable: BTreeSet::new(),
        }
    }

    /// A JSON object of fields with numbers.
    fn object(fields: impl Iterator<Item = String>) -> String {
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }

    #[test]
    fn facts_of_many_values_or_clusters_are_refused() {
        let decisions = |count: usize| {
            let clusters = vec!["\"c\""; count].join(",");
            format!("{{\"placements\": {{\"n/p\": {{\"decisions\": {{\"d\": [{clusters}]}}}}}}}}")
        };
        let most = limits::FACTS_VALUES_MAX;
        assert!(Facts::read(decisions(most).as_bytes()).is_ok());
        let refused = Facts::read(decisions(most + 1).as_bytes());
        assert!(matches!(refused, Err(FactsError::TooManyValues)), "{refused:?}");

        let clusters = |count: usize| {
            let all = object((0..count).map(|n| format!("\"c{n}\": {{}}")));
            format!("{{\"managedClusters\": {all}}}")
        };
        let most = limits::CLUSTERS_MAX;
        assert!(Facts::read(clusters(most).as_bytes()).is_ok());
        let refused = Facts::read(clusters(most + 1).as_bytes());
        assert!(matches!(refused, Err(FactsError::TooManyClusters { .. })), "{refused:?}");

        let padded = |length: usize| format!("{{{}}}", " ".repeat(length - 2));
        let most = limits::FACTS_BYTES_MAX;
        assert!(Facts::read(padded(most).as_bytes()).is_ok());
        let refused = Facts::read(padded(most + 1).as_bytes());
        assert!(matches!(refused, Err(FactsError::TooLarge { .. })), "{refused:?}");
    }

    #[test]
    fn characters_that_hide_text_are_escaped_and_read_back() {
        let claims = [("city".to_owned(), "B\u{202e}nn\u{200b}\u{9b}2J".to_owned())].into();
        let known = ClusterFacts { claims, ..ClusterFacts::default() };
        let facts = Facts {
            time: None,
            hub_version: None,
            is_partial: false,
            managed_clusters: [(cluster(1), Arc::new(known))].into(),
            placements: BTreeMap::new(),
        };
        let text = facts.text();
        assert!(text.contains("B\\u202enn\\u200b\\u009b2J"), "{text}");
        assert_eq!(Facts::read(text.as_bytes()).unwrap(), facts);
    }

    #[test]
    fn labels_and_claims_of_a_cluster_have_a_bound() {
        let of = |bytes: usize| {
            let claims = [("k".to_owned(), "v".repeat(bytes - FACT_BYTES - 1))].into();
            ClusterFacts { claims, ..ClusterFacts::default() }
        };
        assert!(!of(limits::CLUSTER_FACTS_BYTES_MAX).is_too_large());
        assert!(of(limits::CLUSTER_FACTS_BYTES_MAX + 1).is_too_large());
        // Many short ones take more memory than their texts.
        let short = |count: usize| ClusterFacts {
            labels: (0..count).map(|n| (format!("{n:04}"), String::new())).collect(),
            ..ClusterFacts::default()
        };
        let most = limits::CLUSTER_FACTS_BYTES_MAX / (FACT_BYTES + 4);
        assert!(!short(most).is_too_large() && short(most + 1).is_too_large());
    }

    #[test]
    fn facts_read_what_they_print() {
        let clusters: Vec<ClusterName> = (0..3).map(cluster).collect();
        let stale = ClusterFacts {
            labels: [("tier".to_owned(), "edge".to_owned())].into(),
            claims: [("city".to_owned(), "Bonn".to_owned())].into(),
            version: Some("v1.31.2".into()),
            is_stale: true,
            is_deleting: true,
            is_unreachable: true,
        };
        let key = PlacementKey { namespace: "fleet".into(), name: "batch".into() };
        let unreachable = [cluster(7)].into();
        let placement = PlacementFacts { unreachable, ..decided(&clusters, 2) };
        let facts = Facts {
            time: Some("2026-11-20T10:00:00Z".parse().unwrap()),
            hub_version: Some("v1.33.5".into()),
            is_partial: true,
            managed_clusters: [(cluster(0), Arc::new(stale))].into(),
            placements: [(key, placement)].into(),
        };
        let text = facts.text();
        assert_eq!(Facts::read(text.as_bytes()).unwrap(), facts);
        assert!(text.contains("\"stale\": true") && text.contains("\"fleet/batch\""), "{text}");
    }

    #[test]
    fn malformed_facts_are_refused_with_their_place() {
        let of = |rest: &str| {
            let text = format!("{{\"time\": \"2026-11-20T10:00:00Z\", {rest}}}");
            Facts::read(text.as_bytes()).unwrap_err().to_string()
        };
        for (rest, expected) in [
            ("\"managedCluster\": {}", "unknown field `managedCluster`"),
            ("\"managedClusters\": {\"Edge\": {}}", "\"Edge\" has the character 'E'"),
            ("\"placements\": {\"batch\": {}}", "a Placement is named NAMESPACE/NAME"),
            ("\"managedClusters\": {\"a\": {\"labels\": [1]}}", "invalid type"),
        ] {
            let found = of(rest);
            assert!(found.contains(expected) && found.contains("line 1 column"), "{found}");
        }
        let many = vec![b' '; limits::FACTS_BYTES_MAX + 1];
        assert!(matches!(Facts::read(&many), Err(FactsError::TooLarge { .. })));
        let names = (0..=limits::CLUSTERS_MAX).map(|n| format!("\"c{n}\": {{}}"));
        let names = format!("\"managedClusters\": {{{}}}", names.collect::<Vec<_>>().join(","));
        assert!(of(&names).contains("20001 clusters"));
    }

    #[test]
    fn decisions_that_agree_with_the_status_are_consistent() {
        for clusters in [0, 1, 5, 250] {
            let clusters: Vec<ClusterName> = (0..clusters).map(cluster).collect();
            let placement = decided(&clusters, 100);
            let selected = placement.selected();
            assert_eq!(selected.inconsistency, None);
            assert_eq!(selected.clusters.len(), clusters.len());
        }
    }

    #[test]
    fn each_disagreement_has_its_reason() {
        use PlacementInconsistency::{Count, GroupCount, Names, Undecided};
        let clusters: Vec<ClusterName> = (0..4).map(cluster).collect();
        let changed = |change: fn(&mut PlacementFacts)| {
            let mut placement = decided(&clusters, 2);
            change(&mut placement);
            placement.selected().inconsistency
        };
        assert_eq!(changed(|one| one.number_of_selected_clusters = None), Some(Undecided));
        assert_eq!(changed(|one| one.decision_groups.clear()), Some(Undecided));
        let first = || "p-decision-1".to_owned();
        let missing = changed(|one| drop(one.decisions.remove("p-decision-1")));
        assert_eq!(missing, Some(Names(first())));
        let another = changed(|one| drop(one.decisions.insert("p-decision-9".into(), vec![])));
        assert_eq!(another, Some(Names("p-decision-9".into())));
        let twice = changed(|one| {
            let names = one.decision_groups[0].decisions.clone();
            one.decision_groups[0].decisions.extend(names);
        });
        assert_eq!(twice, Some(Names(first())));
        let short = changed(|one| drop(one.decisions.get_mut("p-decision-1").unwrap().pop()));
        assert_eq!(short, Some(GroupCount { expected: 4, found: 3 }));
        let stale = changed(|one| one.number_of_selected_clusters = Some(5));
        assert_eq!(stale, Some(Count { expected: 5, found: 4 }));
        // On its way from one PlacementDecision to the other.
        let doubled = changed(|one| {
            let moved = one.decisions["p-decision-1"][0].clone();
            one.decisions.get_mut("p-decision-2").unwrap()[0] = moved;
        });
        assert_eq!(doubled, Some(Count { expected: 4, found: 3 }));
    }

    /// A cluster that goes from one PlacementDecision to another is in none for a moment. If
    /// another one comes at the same moment, names and counts agree all the same.
    #[test]
    fn decisions_can_agree_by_chance_while_the_hub_writes_them() {
        let clusters = |numbers: &[usize]| numbers.iter().map(|n| cluster(*n)).collect::<Vec<_>>();
        let (before, after) = (clusters(&[0, 1, 2, 3]), clusters(&[1, 2, 3, 4]));
        let (mut seen, after) = (decided(&before, 3), decided(&after, 3));
        let second = "p-decision-2".to_owned();
        seen.decisions.insert(second.clone(), after.decisions[&second].clone());
        let selected = seen.selected();
        assert_eq!(selected.inconsistency, None);
        assert!(!selected.clusters.contains(&cluster(3)), "it is in both: wait before it leaves");
    }

    proptest! {
        /// One cluster less or more in one PlacementDecision is noticed.
        #[test]
        fn one_change_of_a_decision_is_inconsistent(
            numbers in proptest::collection::btree_set(0_usize..40, 1..12),
            of_each in 1_usize..5,
            at in any::<prop::sample::Index>(),
            is_added in any::<bool>(),
        ) {
            let clusters: Vec<ClusterName> = numbers.iter().map(|n| cluster(*n)).collect();
            let mut placement = decided(&clusters, of_each);
            let names: Vec<String> = placement.decisions.keys().cloned().collect();
            let changed = placement.decisions.get_mut(at.get(&names)).unwrap();
            if is_added {
                changed.push(cluster(99));
            } else {
                changed.pop();
            }
            prop_assert!(placement.selected().inconsistency.is_some(), "{:?}", placement);
        }
    }
}
