//! ManagedClusters, a Placement and its PlacementDecisions on the simulated hub, and the watches of
//! them. Each kind has a watch with a lag of its own, as on a real hub.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

// No channels of tokio: those do not work for a task that never yields to the runtime.
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use gitwork_core::model::facts::{
    ClusterFacts, DecisionGroupFacts, Facts, PlacementFacts, PlacementKey,
};
use gitwork_core::model::name::ClusterName;
use gitwork_sync::observed_facts::{DecisionFacts, DecisionKey, FactsEvent, ObjectEvent};
use tokio::time::Instant;

use super::{NAMESPACE, PLACEMENT, ROLE, SITE};
use crate::fleet::bugs::Bug;

/// The clusters of one PlacementDecision.
const DECISION_CLUSTERS: usize = 2;

/// What the hub has at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct HubFacts {
    /// The ManagedClusters.
    pub clusters: BTreeMap<ClusterName, Arc<ClusterFacts>>,
    /// The namespace and the name of the Placement.
    pub placement_key: PlacementKey,
    /// The Placement, without its PlacementDecisions; `None`: there is none.
    pub placement: Option<PlacementFacts>,
    /// The PlacementDecisions.
    pub decisions: BTreeMap<String, Vec<ClusterName>>,
}

impl Default for HubFacts {
    fn default() -> Self {
        let placement_key = PlacementKey { namespace: NAMESPACE.into(), name: PLACEMENT.into() };
        let (clusters, placement, decisions) = Default::default();
        Self { clusters, placement_key, placement, decisions }
    }
}

impl HubFacts {
    /// What the hub has by a file of facts with at most one Placement.
    pub fn of(facts: &Facts) -> Self {
        let mut found = Self { clusters: facts.managed_clusters.clone(), ..Self::default() };
        for (key, placement) in &facts.placements {
            found.placement_key = key.clone();
            found.decisions.clone_from(&placement.decisions);
            let decisions = BTreeMap::new();
            found.placement = Some(PlacementFacts { decisions, ..placement.clone() });
        }
        found
    }

    /// Writes the PlacementDecisions of these clusters.
    pub fn decide(&mut self, selected: &BTreeSet<ClusterName>) {
        let all: Vec<ClusterName> = selected.iter().cloned().collect();
        let slices = all.chunks(DECISION_CLUSTERS).enumerate();
        let name = &self.placement_key.name;
        self.decisions =
            slices.map(|(at, some)| (format!("{name}-decision-{at}"), some.into())).collect();
    }

    /// Writes the status of the Placement for the present PlacementDecisions.
    pub fn report(&mut self) {
        let count = self.decisions.values().map(Vec::len).sum();
        let group = DecisionGroupFacts {
            name: String::new(),
            decisions: self.decisions.keys().cloned().collect(),
            cluster_count: count,
        };
        self.placement = Some(PlacementFacts {
            number_of_selected_clusters: Some(count),
            decision_groups: vec![group],
            ..PlacementFacts::default()
        });
    }

    /// Writes what the hub has for its ManagedClusters in the end.
    pub fn settle(&mut self) {
        let selected = self.decisions.values().flatten().cloned();
        self.decide(&selected.filter(|name| self.clusters.contains_key(name)).collect());
        self.report();
    }

    /// Whether the PlacementDecisions have the names and numbers of the Placement's status.
    pub fn agree(&self) -> bool {
        let count = self.decisions.values().map(Vec::len).sum::<usize>();
        self.placement.as_ref().is_some_and(|placement| {
            let names = placement.decision_groups.iter().flat_map(|group| &group.decisions);
            placement.number_of_selected_clusters == Some(count) && names.eq(self.decisions.keys())
        })
    }

    /// Whether the label of the cluster makes it a member of its group.
    pub fn is_labelled(&self, cluster: &ClusterName) -> bool {
        self.clusters
            .get(cluster)
            .is_some_and(|facts| facts.labels.get(ROLE).is_some_and(|it| it == ROLE))
    }

    /// Whether the PlacementDecisions have the cluster.
    pub fn is_placed(&self, cluster: &ClusterName) -> bool {
        self.decisions.values().flatten().any(|name| name == cluster)
    }

    /// The value that manifests have of the cluster; `None` without a ManagedCluster.
    pub fn site(&self, cluster: &ClusterName) -> Option<&str> {
        self.clusters.get(cluster)?.labels.get(SITE).map(String::as_str)
    }

    fn list(&self, kind: Kind) -> Vec<FactsEvent> {
        match kind {
            Kind::Cluster => {
                let all = self.clusters.iter();
                let all = all.map(|(name, facts)| ObjectEvent::Listed(name.clone(), facts.clone()));
                all.map(FactsEvent::Cluster).collect()
            }
            Kind::Placement => {
                let one = self.placement.clone().into_iter();
                let one =
                    one.map(|placement| ObjectEvent::Listed(self.placement_key.clone(), placement));
                one.map(FactsEvent::Placement).collect()
            }
            Kind::Decision => {
                let all = self.decisions.iter();
                let all = all.map(|(name, clusters)| {
                    ObjectEvent::Listed(self.decision_key(name), self.decision(clusters))
                });
                all.map(FactsEvent::Decision).collect()
            }
        }
    }

    /// The events that lead from `before` to here.
    fn events_since(&self, before: &Self) -> Vec<(Kind, FactsEvent)> {
        let clusters = changes(&before.clusters, &self.clusters).into_iter().map(|change| {
            let event = match change {
                (name, Some(facts)) => ObjectEvent::Changed(name, facts),
                (name, None) => ObjectEvent::Gone(name),
            };
            (Kind::Cluster, FactsEvent::Cluster(event))
        });
        let decisions = changes(&before.decisions, &self.decisions).into_iter().map(|change| {
            let event = match change {
                (name, Some(clusters)) => {
                    ObjectEvent::Changed(self.decision_key(&name), self.decision(&clusters))
                }
                (name, None) => ObjectEvent::Gone(self.decision_key(&name)),
            };
            (Kind::Decision, FactsEvent::Decision(event))
        });
        let placement = (before.placement != self.placement).then(|| match &self.placement {
            Some(placement) => ObjectEvent::Changed(self.placement_key.clone(), placement.clone()),
            None => ObjectEvent::Gone(self.placement_key.clone()),
        });
        let placement = placement.map(|event| (Kind::Placement, FactsEvent::Placement(event)));
        clusters.chain(decisions).chain(placement).collect()
    }

    fn decision_key(&self, name: &str) -> DecisionKey {
        (self.placement_key.namespace.clone(), name.to_owned())
    }

    fn decision(&self, clusters: &[ClusterName]) -> DecisionFacts {
        DecisionFacts { placement: self.placement_key.clone(), clusters: clusters.to_vec() }
    }
}

/// The keys with other values, with the value of `after`.
fn changes<K: Ord + Clone, V: PartialEq + Clone>(
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
) -> Vec<(K, Option<V>)> {
    let keys: BTreeSet<&K> = before.keys().chain(after.keys()).collect();
    let changed = keys.into_iter().filter(|key| before.get(key) != after.get(key));
    changed.map(|key| (key.clone(), after.get(key).cloned())).collect()
}

/// The kinds, each with a watch of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Cluster,
    Placement,
    Decision,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Cluster, Self::Placement, Self::Decision];

    fn list_started(self) -> FactsEvent {
        match self {
            Self::Cluster => FactsEvent::Cluster(ObjectEvent::ListStarted),
            Self::Placement => FactsEvent::Placement(ObjectEvent::ListStarted),
            Self::Decision => FactsEvent::Decision(ObjectEvent::ListStarted),
        }
    }

    fn list_completed(self) -> FactsEvent {
        match self {
            Self::Cluster => FactsEvent::Cluster(ObjectEvent::ListCompleted),
            Self::Placement => FactsEvent::Placement(ObjectEvent::ListCompleted),
            Self::Decision => FactsEvent::Decision(ObjectEvent::ListCompleted),
        }
    }

    /// The event of a watch that breaks.
    pub fn interrupted(self) -> FactsEvent {
        match self {
            Self::Cluster => FactsEvent::Cluster(ObjectEvent::Interrupted),
            Self::Placement => FactsEvent::Placement(ObjectEvent::Interrupted),
            Self::Decision => FactsEvent::Decision(ObjectEvent::Interrupted),
        }
    }
}

/// An event, and when it happened.
type Sent = (Instant, FactsEvent);

struct State {
    /// What the hub had, and since when; the last one is what it has.
    history: Vec<(Instant, HubFacts)>,
    watchers: Vec<(Kind, UnboundedSender<Sent>)>,
    bug: Option<Bug>,
}

impl State {
    /// What watches show of the facts.
    fn shown(&self, facts: &HubFacts) -> HubFacts {
        let mut facts = facts.clone();
        if self.bug == Some(Bug::PartialDecisionsTakenAsWhole) && facts.placement.is_some() {
            facts.report();
        }
        facts
    }
}

/// The facts on the hub over time. Clones share their state.
#[derive(Clone)]
pub struct FactsOnHub(Arc<Mutex<State>>);

impl FactsOnHub {
    pub fn new(facts: HubFacts, bug: Option<Bug>) -> Self {
        let state = State { history: vec![(Instant::now(), facts)], watchers: Vec::new(), bug };
        Self(Arc::new(Mutex::new(state)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// What the hub has.
    pub fn now(&self) -> HubFacts {
        self.lock().history.last().map(|(_, facts)| facts.clone()).unwrap_or_default()
    }

    /// What the hub had, and since when, oldest first.
    pub fn history(&self) -> Vec<(Instant, HubFacts)> {
        self.lock().history.clone()
    }

    /// Changes what the hub has.
    pub fn change(&self, change: impl FnOnce(&mut HubFacts)) {
        let mut facts = self.now();
        let before = facts.clone();
        change(&mut facts);
        let now = Instant::now();
        let mut state = self.lock();
        for (kind, event) in state.shown(&facts).events_since(&state.shown(&before)) {
            state.watchers.retain(|(watched, watcher)| {
                *watched != kind || watcher.unbounded_send((now, event.clone())).is_ok()
            });
        }
        state.history.push((now, facts));
    }

    /// A list of one kind, and all later events.
    pub fn watch(&self, kind: Kind) -> (Vec<FactsEvent>, UnboundedReceiver<Sent>) {
        let (sender, receiver) = unbounded();
        let mut state = self.lock();
        state.watchers.push((kind, sender));
        let is_old = kind == Kind::Cluster && state.bug == Some(Bug::StaleLabelsListed);
        let listed = if is_old { state.history.first() } else { state.history.last() };
        let listed = listed.map_or_else(Vec::new, |(_, facts)| state.shown(facts).list(kind));
        let all = [kind.list_started()].into_iter().chain(listed).chain([kind.list_completed()]);
        (all.collect(), receiver)
    }
}
