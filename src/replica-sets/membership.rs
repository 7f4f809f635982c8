//! Which clusters the Placements of a set select.

use std::collections::BTreeMap;

use gitwork_core::model::facts::{
    Facts, PlacementFacts, PlacementInconsistency, PlacementKey, SelectedClusters,
};
use gitwork_core::model::name::ClusterName;

use crate::replica_set::{ReplicaSet, SetPlacement};

/// One reference to a Placement, with what the hub says of the Placement.
pub(crate) struct MemberPlacement<'a> {
    pub reference: &'a SetPlacement,
    pub key: PlacementKey,
    /// `None` if the hub has no such Placement.
    pub facts: Option<&'a PlacementFacts>,
    selected: Option<SelectedClusters<'a>>,
}

/// The clusters of a set.
pub(crate) struct SetMembership<'a> {
    pub placements: Vec<MemberPlacement<'a>>,
    /// For each selected cluster the first reference whose Placement selects it, by position.
    clusters: BTreeMap<&'a ClusterName, usize>,
    /// References that do not count may select any cluster.
    has_ignored_placements: bool,
}

impl<'a> SetMembership<'a> {
    pub fn of(set: &'a ReplicaSet, facts: &'a Facts) -> Self {
        let placement = |reference: &'a SetPlacement| {
            let (namespace, name) = (set.key.namespace.clone(), reference.name.clone());
            let key = PlacementKey { namespace, name };
            let facts = facts.placements.get(&key);
            MemberPlacement { reference, key, facts, selected: facts.map(PlacementFacts::selected) }
        };
        let placements: Vec<MemberPlacement<'a>> = set.placements.iter().map(placement).collect();
        let mut clusters = BTreeMap::new();
        for (position, placement) in placements.iter().enumerate() {
            let selected = placement.selected.iter().flat_map(|one| one.clusters.iter());
            for cluster in selected {
                clusters.entry(*cluster).or_insert(position);
            }
        }
        let has_ignored_placements = set.has_ignored_placements;
        Self { placements, clusters, has_ignored_placements }
    }

    /// The reference that a cluster belongs to, by position.
    pub fn position(&self, cluster: &ClusterName) -> Option<usize> {
        self.clusters.get(cluster).copied()
    }

    /// The clusters that belong to a reference.
    pub fn of_position(&self, position: usize) -> impl Iterator<Item = &'a ClusterName> {
        let all = self.clusters.iter().filter(move |(_, of)| **of == position);
        all.map(|(cluster, _)| *cluster)
    }

    /// How many clusters are selected.
    pub fn len(&self) -> usize {
        self.clusters.len()
    }

    /// Whether it is certain that no Placement selects a cluster. A Placement that is missing may
    /// select any cluster once it is back.
    pub fn has_left(&self, cluster: &ClusterName) -> bool {
        let is_deselected = |one: &MemberPlacement<'_>| {
            one.selected.as_ref().and_then(|selected| selected.has(cluster)) == Some(false)
        };
        !self.has_ignored_placements
            && !self.placements.is_empty()
            && self.placements.iter().all(is_deselected)
    }
}

impl MemberPlacement<'_> {
    /// Whether the Placement has decided for no cluster.
    pub fn is_empty(&self) -> bool {
        self.selected.as_ref().is_some_and(|one| one.clusters.is_empty())
    }

    /// Why the hub's decisions are incomplete. The grace period is not worth a message: it also
    /// runs after each start of the controller.
    pub fn uncertainty(&self) -> Option<String> {
        match self.selected.as_ref()?.inconsistency.as_ref()? {
            PlacementInconsistency::Changing => None,
            problem => Some(problem.to_string()),
        }
    }
}
