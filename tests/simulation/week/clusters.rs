//! The clusters of `shared/cases/fleet.md`, as the hub describes them: 180 stores, 12 data centres
//! and 8 core clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use gitwork_core::model::facts::{
    ClusterFacts, DecisionGroupFacts, Facts, PlacementFacts, PlacementKey,
};
use gitwork_core::model::name::ClusterName;

/// The cities, each with its country.
pub const CITIES: [(&str, &str); 12] = [
    ("berlin", "de"),
    ("hamburg", "de"),
    ("koeln", "de"),
    ("muenchen", "de"),
    ("leipzig", "de"),
    ("bremen", "de"),
    ("wien", "at"),
    ("graz", "at"),
    ("linz", "at"),
    ("zuerich", "ch"),
    ("basel", "ch"),
    ("bern", "ch"),
];
pub const STORES_OF_A_CITY: usize = 15;
/// The stores of a city with small hardware come first.
const SMALL_STORES: usize = 10;
/// The last store of each of the first cities is a test store.
const LABS: usize = 3;
/// The stores that still have the old version of Kubernetes.
const OLD_STORES: usize = 100;
const OLD_VERSION: &str = "v1.31.9";
const VERSION: &str = "v1.33.5";
/// The clusters that the Placement of the batch jobs selects.
const BATCH: [&str; 2] = ["prod-eu-1", "prod-us-2"];

fn name(text: &str) -> ClusterName {
    ClusterName::parse(text).unwrap()
}

fn cluster(labels: &[(&str, &str)], version: &str) -> ClusterFacts {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let version = Some(version.to_owned());
    ClusterFacts { labels: labels.collect(), version, ..ClusterFacts::default() }
}

/// A store, by the position of its city and its number there, from 1.
pub fn store(city: usize, number: usize) -> (ClusterName, ClusterFacts) {
    let (title, country) = CITIES[city];
    let hardware = if number <= SMALL_STORES { "small" } else { "large" };
    let labels = [("tier", "store"), ("city", title), ("country", country), ("hardware", hardware)];
    let is_old = city * STORES_OF_A_CITY + number <= OLD_STORES;
    let mut facts = cluster(&labels, if is_old { OLD_VERSION } else { VERSION });
    if number == STORES_OF_A_CITY && city < LABS {
        facts.labels.insert("purpose".into(), "lab".into());
    }
    (name(&format!("store-{title}-{number}")), facts)
}

/// What the hub says of all clusters.
pub fn facts() -> Facts {
    let mut clusters = BTreeMap::new();
    for (index, (city, country)) in CITIES.into_iter().enumerate() {
        clusters.extend((1..=STORES_OF_A_CITY).map(|number| store(index, number)));
        let labels = [("tier", "dc"), ("city", city), ("country", country)];
        clusters.insert(name(&format!("dc-{city}")), cluster(&labels, VERSION));
    }
    let core = [("prod", "eu", 3), ("prod", "us", 3), ("stage", "eu", 2)];
    for (env, region, count) in core {
        let labels = [("tier", "core"), ("env", env), ("region", region)];
        for number in 1..=count {
            let title = match env {
                "prod" => format!("prod-{region}-{number}"),
                _ => format!("stage-{number}"),
            };
            clusters.insert(name(&title), cluster(&labels, VERSION));
        }
    }
    let managed_clusters = clusters.into_iter().map(|(name, facts)| (name, Arc::new(facts)));
    Facts {
        time: None,
        hub_version: None,
        is_partial: false,
        managed_clusters: managed_clusters.collect(),
        placements: [batch()].into(),
    }
}

fn batch() -> (PlacementKey, PlacementFacts) {
    let decision = "batch-decision-1".to_owned();
    let group = DecisionGroupFacts {
        decisions: vec![decision.clone()],
        cluster_count: BATCH.len(),
        ..DecisionGroupFacts::default()
    };
    let placement = PlacementFacts {
        number_of_selected_clusters: Some(BATCH.len()),
        decision_groups: vec![group],
        decisions: [(decision, BATCH.map(name).to_vec())].into(),
        ..PlacementFacts::default()
    };
    (PlacementKey { namespace: "fleet".into(), name: "batch".into() }, placement)
}

/// All stores that the fleet may ever have.
pub fn all_stores() -> impl Iterator<Item = (ClusterName, ClusterFacts)> {
    (0..CITIES.len()).flat_map(|city| (1..2 * STORES_OF_A_CITY).map(move |it| store(city, it)))
}
