//! Contents that clusters keep or get while another one is rolled out, and the return to them.

use super::*;
use gitwork_core::model::approval::{RolloutApproval, RolloutStep};
use gitwork_core::plan::moves::MoveProgress;

const RETURNS: &str = "clusters: [a, b, c]\nrollout:\n  onFailure: return\n  waves:\n  - {name: \
                       lab, clusters: [a]}\n  - {name: town, clusters: [b]}\n";

impl World {
    /// The content 1 is good: the clusters a, b and c have it. Git has the content 2.
    fn committed(group: &str) -> Self {
        let mut world = Self::new(group);
        let renderer = Renderer::new(SourceId::parse("fleet").unwrap());
        world.commits = Some((TestRepository::default(), renderer));
        for cluster in ["a", "b", "c"] {
            assert_eq!(world.pass(), [cluster]);
            world.report(&[cluster], Report::Healthy);
        }
        assert_eq!(world.pass(), NOTHING);
        let record = &world.record.rollouts[&world.group()];
        assert_eq!(record.last_good, Some(record.content));
        world.set_content("2");
        world
    }

    fn group(&self) -> GroupName {
        GroupName::parse("g").unwrap()
    }

    /// `data.v` of a work on the hub; `None` if the hub does not have it.
    fn value(&self, work: &str) -> Option<String> {
        let mut works = self.hub.iter();
        let (_, found) = works.find(|(key, _)| key.to_string() == work)?;
        let manifests = found["spec"]["workload"]["manifests"].as_array().unwrap();
        Some(manifests[0]["data"]["v"].as_str().unwrap().to_owned())
    }

    /// An operator asks for this.
    fn ask(&mut self, step: RolloutStep) {
        let content = self.rollouts.controls()[0].content;
        let approval = RolloutApproval { group: self.group(), content, step };
        let text = Approval::Rollout { source: SourceId::parse("fleet").unwrap(), step: approval };
        let read = Approval::read(&text.hash().to_string(), &text.text()).unwrap();
        self.approved.add(&SourceId::parse("fleet").unwrap(), read);
    }

    /// Adds a ConfigMap to the folder of a work.
    fn add_map(&mut self, folder: &str, name: &str) {
        let map = format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{namespace: x, name: {name}}}, data: \
             {{v: '0'}}}}"
        );
        let path = format!("groups/g/{folder}/{name}.yaml");
        self.files.extend(files(&[(path.as_str(), map.as_str())]));
    }
}

#[test]
fn a_waiting_cluster_keeps_what_it_has_and_an_edit_is_put_back() {
    let mut world = World::committed(RETURNS);
    assert_eq!(world.pass(), ["a"]);
    let (key, work) = world.hub.iter_mut().find(|(key, _)| key.to_string() == "c/web").unwrap();
    assert_eq!(key.to_string(), "c/web");
    work["spec"]["workload"]["manifests"][0]["data"]["v"] = "edited".into();
    assert_eq!(world.pass(), ["c"]);
    assert_eq!(world.value("c/web").as_deref(), Some("1"));
    let waits = "changed in Git; waits for the last wave of group g; wave lab has not ended";
    assert_eq!(world.reason("c"), waits);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), ["b"]);
    world.report(&["b"], Report::Healthy);
    assert_eq!(world.pass(), ["c"]);
    assert_eq!(world.value("c/web").as_deref(), Some("2"));
}

#[test]
fn a_process_knows_the_last_good_content_where_the_hub_has_no_place_for_the_record() {
    let mut world = World::committed(RETURNS);
    (world.record, world.no_record) = (Record::default(), true);
    assert_eq!(world.pass(), ["a"]);
    assert_eq!(world.value("a/web").as_deref(), Some("2"));
    world.report(&["a"], Report::Degraded(world.now));
    assert_eq!(world.pass(), NOTHING, "what agents say of the health may be old");
    world.now += 120;
    assert_eq!(world.pass(), ["a"]);
    assert_eq!(world.value("a/web").as_deref(), Some("1"));
}

#[test]
fn a_cluster_that_joins_gets_the_last_good_content_and_the_new_one_in_its_wave() {
    let mut world = World::committed(RETURNS);
    assert_eq!(world.pass(), ["a"]);
    world.files.extend(files(&[("groups/g/group.yaml", &RETURNS.replace("c]", "c, d]"))]));
    assert_eq!(world.pass(), ["d"]);
    assert_eq!(world.value("d/web").as_deref(), Some("1"));
    assert_eq!(world.pass(), NOTHING);
    for cluster in ["a", "b", "d"] {
        world.report(&[cluster], Report::Healthy);
    }
    assert_eq!(world.pass(), ["b"]);
    world.restart();
    world.report(&["b"], Report::Healthy);
    assert_eq!(world.pass(), ["c", "d"]);
    assert_eq!(world.value("d/web").as_deref(), Some("2"));
}

#[test]
fn clusters_with_a_rejected_content_get_the_last_good_one_back_and_nothing_is_deleted() {
    let mut world = World::committed(RETURNS);
    world.add_map("web", "more");
    world.add_map("new", "of-new");
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::Degraded(world.now));
    assert_eq!(world.pass(), NOTHING, "what agents say of the health may be old");
    world.now += 120;
    assert_eq!(world.pass(), ["a"]);
    assert_eq!(world.value("a/web").as_deref(), Some("1"));
    let web = world.hub.iter().find(|(key, _)| key.to_string() == "a/web").unwrap().1.clone();
    assert_eq!(web["spec"]["workload"]["manifests"][1]["metadata"]["name"], "more");
    let configs = web["spec"]["manifestConfigs"].as_array().unwrap();
    let [config] = &configs[..] else { panic!("{configs:?}") };
    assert_eq!(config["updateStrategy"]["type"], "CreateOnly");
    assert_eq!(config["resourceIdentifier"]["name"], "more");
    assert!(world.value("a/new").is_some(), "a work that only this content has stays");
    world.restart();
    assert_eq!(world.pass(), NOTHING, "a restart does nothing again");
    world.report(&["a"], Report::Healthy);
    world.now += 10_000;
    assert_eq!(world.pass(), NOTHING, "it does not come back by itself");
    let plan = world.plan();
    let of_new = plan.steps.iter().find(|step| step.key.to_string() == "a/new").unwrap();
    let text = of_new.reason.to_string();
    assert!(text.contains("in wave lab, it failed on a; clusters that got it get that of commit"));
    let of_web = plan.steps.iter().find(|step| step.key.to_string() == "a/web").unwrap();
    let Reason::MovesObjects { moves } = &of_web.reason else { panic!("{of_web:?}") };
    assert_eq!(moves[0].progress, MoveProgress::WaitsForWave);
    // The fix goes through, and takes away what it does not have.
    let (more, of_new) = ("groups/g/web/more.yaml", "groups/g/new/of-new.yaml");
    world.files.retain(|path, _| path != more && path != of_new);
    world.set_content("3");
    assert_eq!(world.pass(), ["a"]);
    assert_eq!(world.value("a/web").as_deref(), Some("3"));
    assert_eq!(world.value("a/new"), None);
}

#[test]
fn a_cluster_is_not_done_while_git_was_read_for_what_it_had_before() {
    let mut world = World::committed(RETURNS);
    for cluster in ["a", "b"] {
        assert_eq!(world.pass(), [cluster]);
        world.report(&[cluster], Report::Healthy);
    }
    // One of the works of c has the content already. Git was read for the content before.
    let mut works = world.hub.iter_mut();
    let mut of = |work: &str| works.find(|(key, _)| key.to_string() == work).unwrap();
    let annotations = of("a/other").1["metadata"]["annotations"].clone();
    of("c/other").1["metadata"]["annotations"] = annotations;
    let web = of("c/web").0.clone();
    world.report(&["c"], Report::Healthy);
    world.plan_once();
    let record = &world.rollouts.records()[&world.group()];
    assert_ne!(record.last_good, Some(record.content));
    assert!(world.rollouts.is_outdated(&web), "nothing of that is written");
    assert_eq!(world.pass(), ["c"]);
    assert!(!world.rollouts.is_outdated(&web));
    assert_eq!(world.value("c/web").as_deref(), Some("2"));
}

#[test]
fn a_revert_of_a_rejected_content_is_done_at_once_where_it_is() {
    let mut world = World::committed(RETURNS);
    world.add_map("web", "more");
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::Degraded(world.now));
    assert_eq!(world.pass(), NOTHING);
    world.now += 120;
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING);
    world.files.remove("groups/g/web/more.yaml");
    world.set_content("1");
    assert_eq!(world.pass(), ["a"], "what only the rejected content had leaves");
    world.report(&["a"], Report::Healthy);
    world.now += 120;
    assert_eq!(world.pass(), NOTHING);
    assert!(world.progress().starts_with("group g: 3/3 clusters: the rollout has ended"));
    for cluster in ["a", "b", "c"] {
        let web = world.hub.iter().find(|(key, _)| key.to_string() == format!("{cluster}/web"));
        let manifests = web.unwrap().1["spec"]["workload"]["manifests"].as_array().unwrap();
        assert_eq!(manifests.len(), 1, "{cluster}");
    }
}

#[test]
fn an_operator_stops_a_rollout_returns_it_and_lets_it_continue() {
    let holds = RETURNS.replace("  onFailure: return\n", "");
    let mut world = World::committed(&holds);
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::Healthy);
    world.ask(RolloutStep::Pause(1));
    assert_eq!(world.pass(), NOTHING);
    let paused = "held: waits for wave town of group g, whose rollout is paused";
    assert_eq!(world.reason("b"), paused);
    world.restart();
    assert_eq!(world.pass(), NOTHING);
    world.ask(RolloutStep::Resume(1));
    assert_eq!(world.pass(), ["b"]);
    world.ask(RolloutStep::Stop(1));
    world.report(&["b"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING);
    assert_eq!(world.value("a/web").as_deref(), Some("2"));
    assert!(world.reason("c").contains("an operator has stopped the rollout of group g"));
    world.ask(RolloutStep::Return(1));
    assert_eq!(world.pass(), ["a", "b"]);
    let wave_of = |cluster| world.rollouts.returning_wave(&ClusterName::parse(cluster).unwrap());
    assert_eq!(["a", "b", "c"].map(wave_of), [Some(0), Some(1), None]);
    assert_eq!(world.value("b/web").as_deref(), Some("1"));
    world.report(&["a", "b"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING);
    world.ask(RolloutStep::Retry(1));
    assert_eq!(world.pass(), ["a"]);
    assert_eq!(world.value("a/web").as_deref(), Some("2"));
}

#[test]
fn an_object_that_moves_to_a_work_of_a_later_content_stays_until_then() {
    let mut world = World::committed(RETURNS);
    world.files.extend(files(&[(
        "clusters/c/own/moved.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: x, name: moved}, data: {v: '0'}}",
    ), (
        "clusters/c/own/rest.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: x, name: rest}, data: {v: '0'}}",
    )]));
    assert_eq!(world.pass(), ["a", "c"]);
    world.report(&["a", "c"], Report::Healthy);
    // The group gets the object of the cluster's own work.
    world.files.remove("clusters/c/own/moved.yaml");
    world.add_map("web", "moved");
    for _ in 0..3 {
        world.pass();
    }
    let manifests = |world: &World, work: &str| {
        let (_, found) = world.hub.iter().find(|(key, _)| key.to_string() == work).unwrap();
        let all = found["spec"]["workload"]["manifests"].as_array().unwrap().clone();
        all.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let own: Vec<String> = manifests(&world, "c/own");
    assert!(own.contains(&"moved".to_owned()), "{own:?}");
    let web: Vec<String> = manifests(&world, "c/web");
    assert!(!web.contains(&"moved".to_owned()), "{web:?}");
}
