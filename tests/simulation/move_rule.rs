//! The rule of moves by itself, without gitwork: a client that follows it by hand, and agents of
//! both kinds in any order. This shows that the rule keeps every object, and that the simulated
//! agents lose objects of a client that breaks it.

use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::WorkKey;
use serde_json::{Value, json};

use super::agents::{Agents, identity};
use super::cluster::ObjectEvent;
use super::git_work::{config_map, manifest};
use super::hub::{SimulatedHub, generation, is_deleting};
use super::key;
use super::moves::{listed, manifests, strategy};

/// The object that moves.
const OBJECT: &str = "moving";

/// How a client breaks the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// The object is dropped as soon as the receiving work lists it, or as soon as the giving one
    /// is to orphan it.
    DropsEarly,
    /// Applied of any generation counts.
    CountsOlderApplied,
    /// The giving work goes on applying its own content, and the client puts it back.
    ForgetsWhatMoves,
}

struct Client {
    hub: SimulatedHub,
    mistake: Option<Mistake>,
    /// Whether the receiving work does not own the object.
    orphans: bool,
}

fn work(name: &str) -> WorkKey {
    key("edge-1", name)
}

fn moving() -> Identity {
    config_map(OBJECT)
}

fn lists(work: &Value) -> bool {
    listed(work).contains(&moving())
}

fn create_only() -> Value {
    json!({"resourceIdentifier": moving().to_value(), "updateStrategy": {"type": "CreateOnly"}})
}

fn orphaning() -> Value {
    let rules = json!({"orphaningRules": [moving().to_value()]});
    json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": rules})
}

impl Client {
    fn works(&self) -> Vec<(WorkKey, Value)> {
        self.hub.objects().into_iter().filter(|(_, work)| !is_deleting(work)).collect()
    }

    fn write(&self, key: &WorkKey, spec: &Value) {
        self.hub.user_patches(key, &json!({ "spec": spec })).unwrap();
    }

    /// Whether the agent has applied the object at the work's generation.
    fn is_applied(&self, work: &Value) -> bool {
        let all = work["status"]["resourceStatus"]["manifests"].as_array();
        let conditions =
            all.into_iter().flatten().filter(|one| one["resourceMeta"]["name"] == OBJECT);
        let mut conditions =
            conditions.flat_map(|one| one["conditions"].as_array().into_iter().flatten());
        let any_generation = self.mistake == Some(Mistake::CountsOlderApplied);
        conditions.any(|one| {
            one["type"] == "Applied"
                && one["status"] == "True"
                && (any_generation || one["observedGeneration"] == generation(work))
        })
    }

    /// Adds the object to the receiving work.
    fn give(&self, to: &WorkKey) {
        let manifest = manifest(OBJECT, to.work.as_str());
        let option = if self.orphans { orphaning() } else { Value::Null };
        let Some(there) = self.hub.object(to) else {
            let metadata = json!({"namespace": to.cluster.as_str(), "name": to.work.as_str()});
            let mut spec = json!({"workload": {"manifests": [manifest]}});
            if self.orphans {
                spec["deleteOption"] = option;
            }
            self.hub.user_creates(json!({"metadata": metadata, "spec": spec})).unwrap();
            return;
        };
        let mut all = manifests(&there).to_vec();
        all.retain(|one| identity(one) != moving());
        all.push(manifest);
        self.write(
            to,
            &json!({
                "workload": {"manifests": all}, "manifestConfigs": null, "deleteOption": option,
            }),
        );
    }

    /// Lets a giving work keep the object without writing it, or without owning it either.
    fn keep(&self, from: &WorkKey) {
        let option = if self.orphans { orphaning() } else { Value::Null };
        self.write(from, &json!({"manifestConfigs": [create_only()], "deleteOption": option}));
    }

    /// Removes the object from a giving work. A work that would be empty is deleted.
    fn drop_from(&self, from: &WorkKey, there: &Value) {
        let mut all = manifests(there).to_vec();
        all.retain(|one| identity(one) != moving());
        if all.is_empty() {
            self.hub.user_deletes(from).unwrap();
        } else {
            self.write(from, &json!({"workload": {"manifests": all}, "manifestConfigs": null}));
        }
    }

    /// Makes one write, if there is one to make. `to`: the work that is to have the object.
    fn act(&self, to: &WorkKey, random: &mut fastrand::Rng) -> bool {
        let works = self.works();
        let givers: Vec<&(WorkKey, Value)> =
            works.iter().filter(|(key, work)| key != to && lists(work)).collect();
        let receiver = works.iter().find(|(key, _)| key == to).map(|(_, work)| work);
        let is_given =
            receiver.is_some_and(|work| lists(work) && strategy(work, &moving()).is_none());
        let may_give = self.hub.object(to).is_none_or(|work| !is_deleting(&work))
            && (givers.is_empty() || !self.orphans);
        let gives_now = !is_given && may_give;
        if gives_now && (givers.is_empty() || random.bool()) {
            self.give(to);
            return true;
        }
        let Some((from, there)) = givers.first() else { return false };
        let keeps = strategy(there, &moving()).is_some();
        if !keeps && self.mistake != Some(Mistake::ForgetsWhatMoves) {
            self.keep(from);
            return true;
        }
        let may_drop = match self.mistake {
            Some(Mistake::DropsEarly) => is_given || self.orphans,
            Some(Mistake::ForgetsWhatMoves) => true,
            _ if self.orphans => self.is_applied(there),
            _ => is_given && receiver.is_some_and(|work| self.is_applied(work)),
        };
        if may_drop {
            self.drop_from(from, there);
        } else if gives_now {
            self.give(to);
        }
        may_drop || gives_now
    }
}

/// Where the object goes, one work after the other.
const ROUTES: [&[&str]; 4] = [&["b"], &["b", "a"], &["b", "c"], &["b", "a", "b"]];

/// Moves the object along a route. Returns how often an agent deleted it.
fn moves(seed: u64, is_ocm: bool, orphans: bool, mistake: Option<Mistake>) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let client = Client { hub: SimulatedHub::new(&["edge-1"], seed), mistake, orphans };
    let (hub, mut agents) = (client.hub.clone(), Agents::default());
    if is_ocm {
        agents.use_ocm(&work("a").cluster);
    }
    let create = |name: &str, objects: &[&str]| {
        let all: Vec<Value> = objects.iter().map(|object| manifest(object, "own")).collect();
        let metadata = json!({"namespace": "edge-1", "name": name});
        let spec = json!({"workload": {"manifests": all}});
        hub.user_creates(json!({"metadata": metadata, "spec": spec})).unwrap();
    };
    let stays: &[&str] = if random.bool() { &[OBJECT, "stays"] } else { &[OBJECT] };
    create("a", stays);
    if random.bool() {
        create("b", &["other"]);
    }
    agents.settle(&hub);
    let route = ROUTES[random.usize(..ROUTES.len())];
    for to in route {
        let to = work(to);
        // The next move may begin before this one is complete.
        let most = if random.bool() { 40 } else { 400 };
        for _ in 0..most {
            if random.u8(..4) == 0 {
                let is_busy = client.act(&to, &mut random);
                if !is_busy && random.bool() && !hub.objects().is_empty() {
                    let lists: Vec<WorkKey> = client
                        .works()
                        .into_iter()
                        .filter(|(_, one)| lists(one))
                        .map(|(key, _)| key)
                        .collect();
                    if lists == [to.clone()] {
                        break;
                    }
                }
            } else {
                let name = ["a", "b", "c"][random.usize(..3)];
                agents.act(&hub, &work(name), &mut random);
            }
        }
    }
    for _ in 0..12 {
        while client.act(&work(route[route.len() - 1]), &mut random) {}
        for key in agents.keys(&hub) {
            agents.step(&hub, &key);
        }
    }
    let there = hub.object(&work(route[route.len() - 1]));
    assert!(there.is_some_and(|work| lists(&work)), "seed {seed} does not end");
    let (events, _) = agents.take_events();
    let deleted =
        |event: &ObjectEvent| matches!(event, ObjectEvent::Deleted { id, .. } if *id == moving());
    events.iter().filter(|(_, event)| deleted(event)).count()
}

#[test]
fn rule_keeps_object_in_any_order_of_the_agents() {
    for seed in 0..300 {
        for (is_ocm, orphans) in [(false, false), (false, true), (true, false), (true, true)] {
            let lost = moves(seed, is_ocm, orphans, None);
            assert_eq!(lost, 0, "seed {seed}, OCM's agent: {is_ocm}, orphaned: {orphans}");
        }
    }
}

#[test]
fn client_that_breaks_the_rule_loses_the_object() {
    for (mistake, orphans) in [
        (Mistake::DropsEarly, false),
        (Mistake::CountsOlderApplied, false),
        (Mistake::ForgetsWhatMoves, false),
        (Mistake::DropsEarly, true),
    ] {
        let loses = |seed: u64| moves(seed, true, orphans, Some(mistake)) > 0;
        assert!((0..1_500).any(loses), "{mistake:?}");
    }
}
