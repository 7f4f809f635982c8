//! What watches of the hub show of ManagedClusters, Placements and PlacementDecisions, and the
//! facts that follow from it. Pure: time is passed in.
//!
//! A cluster leaves a Placement's group only after its PlacementDecisions have agreed with the
//! status for a grace period. A cluster that joins is a member at once. One that is unreachable
//! does not leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use gitwork_core::limits;
use gitwork_core::model::facts::{ClusterFacts, Facts, PlacementFacts, PlacementKey};
use gitwork_core::model::name::ClusterName;

/// What a watch of one kind shows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectEvent<K, V> {
    /// A list begins. The objects before its end are all there are.
    ListStarted,
    /// An object of the list.
    Listed(K, V),
    /// The list is complete.
    ListCompleted,
    /// An object was created or changed.
    Changed(K, V),
    /// An object was deleted.
    Gone(K),
    /// The watch was interrupted: objects may have changed since.
    Interrupted,
}

/// A PlacementDecision: namespace and name.
pub type DecisionKey = (String, String);

/// What facts need of a PlacementDecision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionFacts {
    /// The Placement that it belongs to.
    pub placement: PlacementKey,
    /// The clusters in its status.
    pub clusters: Vec<ClusterName>,
}

/// An event of one of the three watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FactsEvent {
    /// A ManagedCluster.
    Cluster(ObjectEvent<ClusterName, Arc<ClusterFacts>>),
    /// A Placement, without decisions.
    Placement(ObjectEvent<PlacementKey, PlacementFacts>),
    /// A PlacementDecision.
    Decision(ObjectEvent<DecisionKey, DecisionFacts>),
}

/// The objects of one kind.
#[derive(Debug)]
struct Objects<K, V> {
    known: BTreeMap<K, V>,
    /// The part of a list that has come.
    listing: Option<BTreeMap<K, V>>,
    /// Whether the known objects are all there are.
    is_complete: bool,
    /// Whether the hub was asked, with whatever result.
    is_answered: bool,
}

impl<K, V> Default for Objects<K, V> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), listing: None, is_complete: false, is_answered: false }
    }
}

impl<K: Ord, V> Objects<K, V> {
    fn observe(&mut self, event: ObjectEvent<K, V>) {
        match event {
            ObjectEvent::ListStarted => {
                self.listing = Some(BTreeMap::new());
                self.is_complete = false;
            }
            ObjectEvent::Listed(key, object) => {
                self.listing.get_or_insert_default().insert(key, object);
            }
            ObjectEvent::ListCompleted => {
                self.known = self.listing.take().unwrap_or_default();
                (self.is_complete, self.is_answered) = (true, true);
            }
            ObjectEvent::Changed(key, object) => drop(self.known.insert(key, object)),
            ObjectEvent::Gone(key) => drop(self.known.remove(&key)),
            ObjectEvent::Interrupted => (self.is_complete, self.is_answered) = (false, true),
        }
    }
}

/// The clusters of a Placement, over time.
#[derive(Debug, Default)]
struct Selection {
    /// Whether the PlacementDecisions have ever agreed for long enough.
    is_known: bool,
    /// The clusters that they had then, and all that they had since: a cluster in
    /// PlacementDecisions that disagree gets works, too.
    seen: BTreeSet<ClusterName>,
    /// The present ones, and since when they have agreed.
    pending: Option<(BTreeSet<ClusterName>, Instant)>,
    /// Unreachable clusters that are not among the present ones, and may have been before.
    lost: BTreeSet<ClusterName>,
}

impl Selection {
    /// Notes which clusters are unreachable. One that is reachable again may be selected again: its
    /// grace period begins.
    fn note_unreachable(
        &mut self,
        clusters: &BTreeSet<ClusterName>,
        unreachable: &BTreeSet<ClusterName>,
    ) {
        let (lost, back): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.lost).into_iter().partition(|one| unreachable.contains(one));
        self.seen.extend(back);
        self.lost = lost;
        // What was selected before this process started is not known.
        let may_have_been = |one: &&ClusterName| !self.is_known || self.seen.contains(*one);
        self.lost.extend(unreachable.iter().filter(may_have_been).cloned());
        self.lost.retain(|one| !clusters.contains(one));
    }

    /// Observes the clusters, and whether the PlacementDecisions agree. Answers until when other
    /// clusters may come back; `None` if that is over, or while they disagree.
    fn observe(
        &mut self,
        clusters: BTreeSet<ClusterName>,
        is_consistent: bool,
        now: Instant,
        grace: Duration,
    ) -> Option<Instant> {
        self.seen.extend(clusters.iter().cloned());
        if !is_consistent {
            self.pending = None;
            return None;
        }
        if self.is_known && self.seen == clusters {
            self.pending = None;
            return None;
        }
        let since = match &self.pending {
            Some((before, since)) if before.is_subset(&clusters) => *since,
            _ => now,
        };
        let until = since + grace;
        if now >= until {
            let lost = std::mem::take(&mut self.lost);
            *self = Self { is_known: true, seen: clusters, pending: None, lost };
            return None;
        }
        self.pending = Some((clusters, since));
        Some(until)
    }
}

type ClusterEvent = ObjectEvent<ClusterName, Arc<ClusterFacts>>;

/// The facts at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct PresentFacts {
    /// The facts.
    pub facts: Facts,
    /// When they change without an event.
    pub until: Option<Instant>,
}

/// What the hub has shown since this process started.
#[derive(Debug)]
pub struct ObservedFacts {
    clusters: Objects<ClusterName, Arc<ClusterFacts>>,
    placements: Objects<PlacementKey, PlacementFacts>,
    decisions: Objects<DecisionKey, DecisionFacts>,
    selections: BTreeMap<PlacementKey, Selection>,
    hub_version: Option<String>,
    grace: Duration,
    /// The facts of clusters of which only the names are kept.
    unknown: Arc<ClusterFacts>,
    decided: DecidedClusters,
}

/// The number of clusters in the PlacementDecisions that are known, and in those of a list.
#[derive(Debug, Default)]
struct DecidedClusters {
    known: usize,
    listing: usize,
}

impl ObservedFacts {
    /// Nothing was observed. `grace`: for how long the decisions of a Placement must have agreed
    /// before a cluster leaves it.
    pub fn new(grace: Duration) -> Self {
        Self {
            clusters: Objects::default(),
            placements: Objects::default(),
            decisions: Objects::default(),
            selections: BTreeMap::new(),
            hub_version: None,
            grace,
            unknown: Arc::new(ClusterFacts { is_stale: true, ..ClusterFacts::default() }),
            decided: DecidedClusters::default(),
        }
    }

    /// Sets the Kubernetes version of the hub.
    pub fn set_hub_version(&mut self, version: String) {
        self.hub_version = Some(version);
    }

    /// Applies an event.
    pub fn observe(&mut self, event: FactsEvent) {
        match event {
            FactsEvent::Cluster(event) => {
                let event = self.without_facts_past_the_limit(event);
                self.clusters.observe(event);
            }
            FactsEvent::Placement(event) => self.placements.observe(event),
            FactsEvent::Decision(mut event) => {
                self.bound_decisions(&mut event);
                self.decisions.observe(event);
            }
        }
    }

    /// Of clusters past the limit, only the names are kept: what may register clusters may register
    /// very many. Their facts are unknown, should others leave.
    fn without_facts_past_the_limit(&self, event: ClusterEvent) -> ClusterEvent {
        let is_past = |name: &ClusterName, all: &BTreeMap<ClusterName, Arc<ClusterFacts>>| {
            let is_unknown = |facts: &Arc<ClusterFacts>| Arc::ptr_eq(facts, &self.unknown);
            all.len() >= limits::CLUSTERS_MAX && all.get(name).is_none_or(is_unknown)
        };
        match event {
            ObjectEvent::Listed(name, _)
                if self.clusters.listing.as_ref().is_some_and(|all| is_past(&name, all)) =>
            {
                ObjectEvent::Listed(name, self.unknown.clone())
            }
            ObjectEvent::Changed(name, _) if is_past(&name, &self.clusters.known) => {
                ObjectEvent::Changed(name, self.unknown.clone())
            }
            other => other,
        }
    }

    /// Counts the clusters in PlacementDecisions, and keeps none past the limit. Names are shared
    /// with those of the ManagedClusters.
    fn bound_decisions(&mut self, event: &mut ObjectEvent<DecisionKey, DecisionFacts>) {
        let known =
            |key: &DecisionKey| self.decisions.known.get(key).map_or(0, |one| one.clusters.len());
        let (total, before, facts) = match event {
            ObjectEvent::ListStarted => return self.decided.listing = 0,
            ObjectEvent::ListCompleted => return self.decided.known = self.decided.listing,
            ObjectEvent::Gone(key) => {
                self.decided.known = self.decided.known.saturating_sub(known(key));
                return;
            }
            ObjectEvent::Interrupted => return,
            ObjectEvent::Listed(_, facts) => (&mut self.decided.listing, 0, facts),
            ObjectEvent::Changed(key, facts) => (&mut self.decided.known, known(key), facts),
        };
        *total = total.saturating_sub(before);
        if *total + facts.clusters.len() > limits::DECIDED_CLUSTERS_MAX {
            facts.clusters.clear();
        }
        facts.clusters.shrink_to_fit();
        *total += facts.clusters.len();
        for cluster in &mut facts.clusters {
            if let Some((known, _)) = self.clusters.known.get_key_value(cluster) {
                *cluster = known.clone();
            }
        }
    }

    /// Forgets how current everything is: all watches begin again.
    pub fn start_again(&mut self) {
        let Self { clusters, placements, decisions, .. } = self;
        (clusters.is_complete, clusters.is_answered) = (false, false);
        (placements.is_complete, placements.is_answered) = (false, false);
        (decisions.is_complete, decisions.is_answered) = (false, false);
    }

    /// Whether all objects of all three kinds are known.
    pub fn is_complete(&self) -> bool {
        self.clusters.is_complete && self.placements.is_complete && self.decisions.is_complete
    }

    /// The facts at `now`, which is `time` of the day; `None` before the hub was asked for all
    /// three kinds.
    pub fn facts(&mut self, now: Instant, time: Timestamp) -> Option<PresentFacts> {
        let is_answered =
            self.clusters.is_answered && self.placements.is_answered && self.decisions.is_answered;
        if !is_answered {
            return None;
        }
        let mut facts = self.known_facts(time);
        self.selections.retain(|key, _| facts.placements.contains_key(key));
        let unreachable = self.unreachable();
        let is_complete = self.placements.is_complete && self.decisions.is_complete;
        let mut until: Option<Instant> = None;
        for (key, placement) in &mut facts.placements {
            let found = placement.selected();
            let is_consistent = is_complete && found.inconsistency.is_none();
            let clusters = found.clusters.into_iter().cloned().collect();
            let selection = self.selections.entry(key.clone()).or_default();
            selection.note_unreachable(&clusters, &unreachable);
            placement.unreachable = selection.lost.clone();
            let changes = selection.observe(clusters, is_consistent, now, self.grace);
            placement.is_changing = changes.is_some() || !is_complete;
            until = [until, changes].into_iter().flatten().min();
        }
        Some(PresentFacts { facts, until })
    }

    fn unreachable(&self) -> BTreeSet<ClusterName> {
        let clusters = self.clusters.known.iter().filter(|(_, facts)| facts.is_unreachable);
        clusters.map(|(name, _)| name.clone()).collect()
    }

    /// The objects that are known, as if they had been so for long.
    pub fn listed(&self, time: Timestamp) -> Facts {
        let mut facts = self.known_facts(time);
        let unreachable = self.unreachable();
        for placement in facts.placements.values_mut() {
            let selected = placement.selected().clusters;
            let lost = unreachable.iter().filter(|one| !selected.contains(one)).cloned();
            placement.unreachable = lost.collect();
        }
        facts
    }

    /// The objects that are known. Placements have no unreachable clusters yet.
    fn known_facts(&self, time: Timestamp) -> Facts {
        let clusters = &self.clusters.known;
        let managed_clusters = clusters.iter().take(limits::CLUSTERS_MAX);
        let mut placements = self.placements.known.clone();
        for ((_, name), decision) in &self.decisions.known {
            if let Some(placement) = placements.get_mut(&decision.placement) {
                placement.decisions.insert(name.clone(), decision.clusters.clone());
            }
        }
        Facts {
            time: Some(time),
            hub_version: self.hub_version.clone(),
            is_partial: !self.clusters.is_complete || clusters.len() > limits::CLUSTERS_MAX,
            managed_clusters: managed_clusters
                .map(|(name, facts)| (name.clone(), facts.clone()))
                .collect(),
            placements,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gitwork_core::model::facts::DecisionGroupFacts;

    /// Times are passed in: only differences count.
    #[expect(clippy::disallowed_methods, reason = "the origin of all times of a test")]
    fn start() -> Instant {
        Instant::now()
    }

    fn cluster(name: &str) -> ClusterName {
        ClusterName::parse(name).unwrap()
    }

    fn placement() -> PlacementKey {
        PlacementKey { namespace: "fleet".into(), name: "batch".into() }
    }

    /// A hub whose lists are complete and empty.
    struct World {
        observed: ObservedFacts,
        start: Instant,
    }

    impl World {
        fn new() -> Self {
            let mut observed = ObservedFacts::new(limits::PLACEMENT_GRACE);
            observed.observe(FactsEvent::Cluster(ObjectEvent::ListCompleted));
            observed.observe(FactsEvent::Placement(ObjectEvent::ListCompleted));
            observed.observe(FactsEvent::Decision(ObjectEvent::ListCompleted));
            Self { observed, start: start() }
        }

        fn facts(&mut self, seconds: u64) -> PresentFacts {
            let now = self.start + Duration::from_secs(seconds);
            self.observed.facts(now, "2026-11-20T10:00:00Z".parse().unwrap()).unwrap()
        }

        /// The Placement selects this number of clusters.
        fn set_status(&mut self, count: usize) {
            let facts = PlacementFacts {
                number_of_selected_clusters: Some(count),
                decision_groups: vec![DecisionGroupFacts {
                    name: String::new(),
                    decisions: vec!["batch-decision-1".into()],
                    cluster_count: count,
                }],
                ..PlacementFacts::default()
            };
            self.observed.observe(FactsEvent::Placement(ObjectEvent::Changed(placement(), facts)));
        }

        fn set_decision(&mut self, clusters: &[&str]) {
            let clusters = clusters.iter().map(|name| cluster(name)).collect();
            let decision = DecisionFacts { placement: placement(), clusters };
            let key = ("fleet".to_owned(), "batch-decision-1".to_owned());
            self.observed.observe(FactsEvent::Decision(ObjectEvent::Changed(key, decision)));
        }

        fn select(&mut self, clusters: &[&str]) {
            self.set_status(clusters.len());
            self.set_decision(clusters);
        }

        /// The clusters that the Placement selects, with `?` if others may come back.
        fn selected(&mut self, seconds: u64) -> String {
            let found = self.facts(seconds);
            let placement = &found.facts.placements[&placement()];
            let selected = placement.selected();
            let names: Vec<&str> = selected.clusters.iter().map(|name| name.as_str()).collect();
            let sign = if selected.inconsistency.is_some() { "?" } else { "" };
            format!("{}{sign}", names.join(" "))
        }
    }

    #[test]
    fn nothing_is_said_before_all_kinds_are_listed() {
        let mut observed = ObservedFacts::new(limits::PLACEMENT_GRACE);
        let time: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
        observed.observe(FactsEvent::Cluster(ObjectEvent::ListCompleted));
        observed.observe(FactsEvent::Placement(ObjectEvent::Interrupted));
        assert_eq!(observed.facts(start(), time), None);
        observed.observe(FactsEvent::Decision(ObjectEvent::Interrupted));
        let facts = observed.facts(start(), time).unwrap().facts;
        assert!(!facts.is_partial);
        observed.start_again();
        assert_eq!(observed.facts(start(), time), None);
    }

    #[test]
    fn list_replaces_what_was_known_and_an_interruption_makes_facts_partial() {
        let mut world = World::new();
        let named = |name: &str| (cluster(name), Arc::new(ClusterFacts::default()));
        let see = |world: &mut World, event| world.observed.observe(FactsEvent::Cluster(event));
        let (a, facts) = named("a");
        see(&mut world, ObjectEvent::Changed(a.clone(), facts.clone()));
        see(&mut world, ObjectEvent::Interrupted);
        assert!(world.facts(0).facts.is_partial);
        see(&mut world, ObjectEvent::ListStarted);
        let (b, facts_of_b) = named("b");
        see(&mut world, ObjectEvent::Listed(b.clone(), facts_of_b));
        let listing = world.facts(0).facts;
        assert!(listing.is_partial && listing.managed_clusters.contains_key(&a));
        see(&mut world, ObjectEvent::ListCompleted);
        let listed = world.facts(0).facts;
        assert!(!listed.is_partial);
        assert_eq!(
            listed.managed_clusters.into_keys().collect::<Vec<_>>(),
            std::slice::from_ref(&b)
        );
        see(&mut world, ObjectEvent::Gone(b));
        assert!(world.facts(0).facts.managed_clusters.is_empty());
    }

    #[test]
    fn clusters_join_a_placement_at_once_and_leave_after_the_grace_period() {
        let mut world = World::new();
        world.select(&["a", "b"]);
        assert_eq!(world.selected(0), "a b?", "others may have been selected before the start");
        assert_eq!(world.selected(119), "a b?");
        assert_eq!(world.selected(120), "a b");
        world.select(&["a", "b", "c"]);
        assert_eq!(world.selected(121), "a b c");
        world.select(&["a", "b"]);
        assert_eq!(world.selected(130), "a b?");
        let until = world.facts(140).until.unwrap();
        assert_eq!(until, world.start + Duration::from_secs(250));
        // Another one leaves: the time begins again.
        world.select(&["a"]);
        assert_eq!(world.selected(200), "a?");
        assert_eq!(world.selected(319), "a?");
        assert_eq!(world.selected(320), "a");
        assert_eq!(world.facts(320).until, None);
    }

    #[test]
    fn placement_that_flaps_or_is_inconsistent_loses_nobody() {
        let mut world = World::new();
        world.select(&["a", "b"]);
        world.selected(0);
        assert_eq!(world.selected(120), "a b");
        world.select(&["a"]);
        assert_eq!(world.selected(130), "a?");
        // It returns before the end of the grace period.
        world.select(&["a", "b"]);
        assert_eq!(world.selected(200), "a b");
        // The status follows after the PlacementDecision.
        world.set_decision(&["a"]);
        assert_eq!(world.selected(300), "a?");
        assert_eq!(world.selected(500), "a?", "however long that lasts");
        world.set_status(1);
        assert_eq!(world.selected(501), "a?", "it only now agrees");
        assert_eq!(world.selected(621), "a");
    }

    #[test]
    fn cluster_of_inconsistent_decisions_leaves_after_the_grace_period_too() {
        let mut world = World::new();
        world.select(&["a"]);
        world.selected(0);
        assert_eq!(world.selected(120), "a");
        // The status has not followed: b is a member, and gets works.
        world.set_decision(&["a", "b"]);
        assert_eq!(world.selected(200), "a b?");
        world.select(&["a"]);
        assert_eq!(world.selected(300), "a?");
        assert_eq!(world.selected(420), "a");
        // c joins while b's grace period runs, and is gone before the decisions agree again.
        world.select(&["a", "b"]);
        assert_eq!(world.selected(500), "a b");
        world.select(&["a", "c"]);
        assert_eq!(world.selected(510), "a c?");
        world.set_decision(&["a", "b", "x"]);
        assert_eq!(world.selected(520), "a b x?");
        world.select(&["a", "b"]);
        assert_eq!(world.selected(530), "a b?", "c and x may come back");
        assert_eq!(world.selected(650), "a b");
    }

    #[test]
    fn unreachable_cluster_does_not_leave_a_placement() {
        let mut world = World::new();
        let set = |world: &mut World, name: &str, is_unreachable: bool| {
            let facts = Arc::new(ClusterFacts { is_unreachable, ..ClusterFacts::default() });
            let event = ObjectEvent::Changed(cluster(name), facts);
            world.observed.observe(FactsEvent::Cluster(event));
        };
        let lost = |world: &mut World, seconds: u64| {
            let facts = world.facts(seconds).facts;
            let names = facts.placements[&placement()].unreachable.iter();
            names.map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        world.select(&["a", "b"]);
        world.selected(0);
        assert_eq!(world.selected(120), "a b");
        set(&mut world, "b", true);
        // Another cluster is away, which was never selected.
        set(&mut world, "x", true);
        assert_eq!(lost(&mut world, 130), "", "it is still selected");
        world.select(&["a"]);
        assert_eq!(lost(&mut world, 140), "b");
        assert_eq!(world.selected(300), "a", "a reachable one would have left");
        assert_eq!(lost(&mut world, 5_000), "b");
        // It is back, and the Placement has not seen it yet.
        set(&mut world, "b", false);
        assert_eq!((lost(&mut world, 5_010), world.selected(5_010)), (String::new(), "a?".into()));
        world.select(&["a", "b"]);
        assert_eq!(world.selected(5_020), "a b");
        // A process that starts now does not know who was selected.
        set(&mut world, "b", true);
        world.select(&["a"]);
        world.observed.selections.clear();
        assert_eq!(lost(&mut world, 6_000), "b x");
        assert_eq!(lost(&mut world, 7_000), "b x");
        // A cluster that is reachable, and is not selected again, leaves after the grace period.
        set(&mut world, "b", false);
        assert_eq!(world.selected(7_010), "a?");
        assert_eq!((world.selected(7_130), lost(&mut world, 7_130)), ("a".into(), "x".into()));
    }

    /// Whoever may create Placements may create very many.
    #[test]
    fn clusters_of_decisions_past_the_limit_make_their_placement_uncertain() {
        let mut world = World::new();
        world.select(&["a"]);
        let many = |count: usize| DecisionFacts {
            placement: PlacementKey { namespace: "other".into(), name: "p".into() },
            clusters: vec![cluster("a"); count],
        };
        let key = ("other".to_owned(), "p-decision-1".to_owned());
        let mut see = |event| world.observed.observe(FactsEvent::Decision(event));
        see(ObjectEvent::Changed(key.clone(), many(limits::DECIDED_CLUSTERS_MAX - 2)));
        world.select(&["a", "b"]);
        let facts = world.facts(0).facts;
        assert_eq!(facts.placements[&placement()].decisions["batch-decision-1"].len(), 2);
        world.select(&["a", "b", "c"]);
        assert_eq!(world.selected(200), "?", "one too many");
        // With room again, they count from the next event on.
        let mut see = |event| world.observed.observe(FactsEvent::Decision(event));
        see(ObjectEvent::Gone(key));
        world.select(&["a", "b", "c"]);
        assert_eq!(world.selected(300), "a b c?");
    }

    /// Whoever may register clusters may register very many.
    #[test]
    fn only_the_names_of_clusters_past_the_limit_are_kept() {
        let mut world = World::new();
        let mut see = |event| world.observed.observe(FactsEvent::Cluster(event));
        let labels: BTreeMap<String, String> = [("tier".to_owned(), "edge".to_owned())].into();
        let known = || Arc::new(ClusterFacts { labels: labels.clone(), ..ClusterFacts::default() });
        let most = limits::CLUSTERS_MAX;
        see(ObjectEvent::ListStarted);
        // In the order of their names, the last ones are past the limit.
        (0..most + 1_000)
            .for_each(|n| see(ObjectEvent::Listed(cluster(&format!("c{n:05}")), known())));
        see(ObjectEvent::ListCompleted);
        let (last, first_past) = (format!("c{:05}", most - 1), format!("c{most:05}"));
        see(ObjectEvent::Changed(cluster(&first_past), known()));
        let facts = world.facts(0).facts;
        assert!(facts.is_partial);
        assert_eq!(facts.managed_clusters.len(), most);
        assert!(facts.managed_clusters.values().all(|one| one.labels == labels));
        assert!(facts.managed_clusters.contains_key(&cluster(&last)));
        // Others leave: what is past the limit is unknown, not absent, until it changes.
        let mut see = |event| world.observed.observe(FactsEvent::Cluster(event));
        (0..1_000).for_each(|n| see(ObjectEvent::Gone(cluster(&format!("c{n:05}")))));
        let facts = world.facts(1).facts;
        assert!(!facts.is_partial && facts.managed_clusters[&cluster(&first_past)].is_stale);
        let mut see = |event| world.observed.observe(FactsEvent::Cluster(event));
        see(ObjectEvent::Gone(cluster("c01000")));
        see(ObjectEvent::Changed(cluster(&first_past), known()));
        assert!(!world.facts(2).facts.managed_clusters[&cluster(&first_past)].is_stale);
    }

    #[test]
    fn interrupted_watch_and_a_new_placement_of_the_name_begin_the_grace_period_again() {
        let mut world = World::new();
        world.select(&["a", "b"]);
        world.selected(0);
        world.selected(120);
        world.select(&["a"]);
        assert_eq!(world.selected(130), "a?");
        world.observed.observe(FactsEvent::Decision(ObjectEvent::Interrupted));
        assert_eq!(world.selected(300), "a?");
        world.observed.observe(FactsEvent::Decision(ObjectEvent::ListStarted));
        let decision = DecisionFacts { placement: placement(), clusters: vec![cluster("a")] };
        let key = ("fleet".to_owned(), "batch-decision-1".to_owned());
        world.observed.observe(FactsEvent::Decision(ObjectEvent::Listed(key, decision)));
        world.observed.observe(FactsEvent::Decision(ObjectEvent::ListCompleted));
        assert_eq!(world.selected(301), "a?");
        assert_eq!(world.selected(421), "a");
        world.observed.observe(FactsEvent::Placement(ObjectEvent::Gone(placement())));
        assert!(world.facts(430).facts.placements.is_empty());
        world.select(&["a"]);
        assert_eq!(world.selected(431), "a?");
        assert_eq!(world.selected(551), "a");
    }
}
