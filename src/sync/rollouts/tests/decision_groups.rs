//! Rollouts by the decision groups of a Placement.

use super::*;
use gitwork_core::model::facts::Facts;

const PER_GROUP: &str = "placement: {namespace: fleet, name: p}\nrollout:\n  type: \
                         ProgressivePerGroup\n  progressivePerGroup: {mandatoryDecisionGroups: \
                         [{groupName: canary}]}\n";

impl World {
    /// The hub has these decision groups, as in `canary=a b`, each with a PlacementDecision.
    fn decide(&mut self, groups: &[&str]) {
        let (mut decisions, mut of_groups, mut total) = (json!({}), Vec::new(), 0);
        for (index, group) in groups.iter().enumerate() {
            let (name, clusters) = group.split_once('=').unwrap();
            let clusters: Vec<&str> = clusters.split_whitespace().collect();
            let decision = format!("p-decision-{index}");
            let count = clusters.len();
            of_groups.push(json!({"name": name, "decisions": [decision], "clusterCount": count}));
            decisions[decision] = json!(clusters);
            total += count;
        }
        let clusters = ["a", "b", "c", "d", "e"].map(|name| (name.to_owned(), json!({})));
        let clusters: serde_json::Map<String, Value> = clusters.into_iter().collect();
        let facts = json!({"managedClusters": clusters, "placements": {"fleet/p": {
            "numberOfSelectedClusters": total, "decisionGroups": of_groups, "decisions": decisions,
        }}});
        let facts = Facts::read(facts.to_string().as_bytes()).unwrap();
        let (_, renderer) = self.commits.as_mut().unwrap();
        renderer.set_facts(Some(Arc::new(facts)));
    }

    /// A group that goes by decision groups, on no cluster yet.
    fn with_decision_groups(groups: &[&str]) -> Self {
        let mut world = Self::new(PER_GROUP);
        let renderer = Renderer::new(SourceId::parse("fleet").unwrap());
        world.commits = Some((TestRepository::default(), renderer));
        world.decide(groups);
        world
    }
}

#[test]
fn decision_groups_get_the_content_one_after_the_other_and_mandatory_ones_first() {
    let mut world = World::with_decision_groups(&["=a b", "canary=c", "=d e"]);
    assert_eq!(world.pass(), ["c"]);
    assert_eq!(
        world.reason("d"),
        "changed in Git; waits for wave group-2 of group g; wave \
                                   group-1-canary has not ended"
    );
    world.report(&["c"], Report::Healthy);
    assert_eq!(world.pass(), ["a", "b"]);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING);
    assert!(world.progress().starts_with("group g: wave 2/3 group-0, "), "{}", world.progress());
    world.report(&["a", "b"], Report::Healthy);
    assert_eq!(world.pass(), ["d", "e"]);
    world.report(&["d", "e"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING);
    world.restart();
    assert_eq!(world.pass(), NOTHING);
}

#[test]
fn clusters_may_move_between_decision_groups_during_a_rollout() {
    let mut world = World::with_decision_groups(&["=a b", "canary=c", "=d e"]);
    assert_eq!(world.pass(), ["c"]);
    world.report(&["c"], Report::Healthy);
    assert_eq!(world.pass(), ["a", "b"]);
    // The cluster d is in the group that the rollout has come to, and c in the last one.
    world.decide(&["=a d", "canary=b", "=c e"]);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING, "the new canary, b, is not done");
    world.report(&["b"], Report::Healthy);
    assert_eq!(world.pass(), ["d"]);
    world.report(&["d"], Report::Healthy);
    assert_eq!(world.pass(), ["e"]);
}

#[test]
fn a_failure_in_a_mandatory_group_stops_all() {
    let mut world = World::with_decision_groups(&["=a b", "canary=c", "=d e"]);
    assert_eq!(world.pass(), ["c"]);
    world.report(&["c"], Report::Degraded(world.now));
    assert_eq!(world.pass(), NOTHING);
    world.now += 10_000;
    assert_eq!(world.pass(), NOTHING);
    assert!(world.reason("a").contains("failed"), "{}", world.reason("a"));
}

#[test]
fn without_its_mandatory_group_no_cluster_gets_the_content() {
    let mut world = World::with_decision_groups(&["=a b c", "=d e"]);
    assert_eq!(world.pass(), NOTHING);
    world.decide(&["canary=a b c", "=d e"]);
    assert_eq!(world.pass(), ["a", "b", "c"]);
    // A PlacementDecision is not there yet: nobody knows where d and e are.
    world.report(&["a", "b", "c"], Report::Healthy);
    world.decide(&["canary=a b c"]);
    assert_eq!(world.pass(), NOTHING);
    world.decide(&["canary=a b c", "=d e"]);
    assert_eq!(world.pass(), ["d", "e"]);
}
