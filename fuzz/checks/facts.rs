//! `facts.json`, as anybody who may push to the status branch could write it. What is read can be
//! written and read again; the clusters that a Placement selects are all in its decisions.

use std::collections::BTreeSet;

use gitwork_core::limits;
use gitwork_core::model::facts::{FactNeeds, Facts};

pub fn check(bytes: &[u8]) -> bool {
    let facts = match Facts::read(bytes) {
        Ok(facts) => facts,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert!(facts.managed_clusters.len() <= limits::CLUSTERS_MAX);
    let text = facts.text();
    assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{1b}', '\u{9b}']));
    assert_eq!(Facts::read(text.as_bytes()).unwrap(), facts);
    for placement in facts.placements.values() {
        let found = placement.selected();
        let all: BTreeSet<_> = placement.decisions.values().flatten().collect();
        assert_eq!(found.clusters, all);
        if found.inconsistency.is_none() {
            assert_eq!(placement.number_of_selected_clusters, Some(all.len()));
        }
    }
    let needs = FactNeeds {
        labels: ["tier".into()].into(),
        claims: ["city".into()].into(),
        placements: facts.placements.keys().take(1).cloned().collect(),
    };
    let reduced = facts.reduced(&needs);
    assert!(reduced.managed_clusters.keys().eq(facts.managed_clusters.keys()));
    for (name, one) in &reduced.managed_clusters {
        let known = &facts.managed_clusters[name];
        assert!(one.labels.keys().all(|key| key == "tier"));
        assert!(one.labels.iter().all(|(key, value)| known.labels.get(key) == Some(value)));
        assert!(one.claims.iter().all(|(key, value)| known.claims.get(key) == Some(value)));
    }
    assert!(reduced.reduced(&needs).is_same(&reduced));
    true
}
