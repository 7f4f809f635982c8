//! What a group of 1,000 clusters with 10 works costs, rendered from files: three works are equal
//! on all clusters, five have the value of a label with 12 values, and two have the cluster's name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use gitwork_core::model::facts::Facts;
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use gitwork_sync::hub::HubEvent;
use serde_json::{Map, json};

use super::memory_repository::{File, MemoryObjects};
use super::{World, commit, memory, milliseconds, observed, print, source};

pub(super) const CLUSTERS: usize = 1_000;
pub(super) const WORKS: usize = 10;
const CITIES: usize = 12;
const ROUNDS: usize = 5;

/// A Deployment of some 2 KiB and a ConfigMap.
fn manifests(work: usize, version: &str) -> String {
    let value = match work {
        0..3 => "equal",
        3..8 => "${cluster.labels['city']}",
        _ => "${cluster.name}",
    };
    let mut variables = String::new();
    for number in 0..20 {
        let _infallible = writeln!(
            variables,
            "        - {{name: VARIABLE_{number}, value: \"a value of {number}\"}}"
        );
    }
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: work-{work}, namespace: shop}}\n\
         spec:\n  replicas: 2\n  selector:\n    matchLabels: {{app: work-{work}}}\n  template:\n\
         \x20   \
         metadata:\n      labels: {{app: work-{work}, place: \"{value}\"}}\n    spec:\n      \
         containers:\n      - name: main\n        image: registry.example.com/work:{version}\n\
         \x20       \
         env:\n{variables}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: work-{work}, \
         namespace: shop}}\ndata: {{place: \"{value}\"}}\n"
    )
}

pub(super) fn files(changed: Option<&str>) -> BTreeMap<String, File> {
    let group = "selector: {labelSelector: {matchLabels: {tier: store}}}\n\
                 defaults: {substitute: true}\n";
    let mut files = BTreeMap::from([("groups/stores/group.yaml".to_owned(), File::from(group))]);
    // A repository has a folder of clusters.
    files.insert("clusters/.gitkeep".to_owned(), File::from(""));
    for work in 0..WORKS {
        let version = changed.filter(|_| work == 3).unwrap_or("1");
        let text = manifests(work, version);
        files.insert(format!("groups/stores/work-{work}/all.yaml"), File::from(text.as_str()));
    }
    files
}

/// Facts of all clusters; those of the first one are in this city.
pub(super) fn facts(city: &str) -> Arc<Facts> {
    let cluster = |number: usize| {
        let city = if number == 0 { city.to_owned() } else { format!("city-{}", number % CITIES) };
        (format!("store-{number:04}"), json!({"labels": {"tier": "store", "city": city}}))
    };
    let clusters: Map<_, _> = (0..CLUSTERS).map(cluster).collect();
    let text = json!({"managedClusters": clusters}).to_string();
    Arc::new(Facts::read(text.as_bytes()).unwrap())
}

fn render(renderer: &mut Renderer, objects: &mut MemoryObjects, changed: Option<&str>) -> Desired {
    let root = objects.add(&files(changed));
    let snapshot = Snapshot { commit: Some(commit(1)), root, objects };
    let desired = renderer.render(&snapshot).unwrap();
    assert_eq!(desired.works.len(), CLUSTERS * WORKS, "{:?}", desired.diagnostics.first());
    desired
}

/// What the daemon does with another state of Git. Gives the number of due writes.
fn take(world: &mut World, desired: Desired) -> usize {
    world.desired = Arc::new(desired);
    let desired = Arc::clone(&world.desired);
    world.state.facts_mut().set_desired(&desired);
    let directives = Some(Default::default());
    world.state.facts_mut().directives.set(directives, world.begin);
    let writes = world.pass();
    world.publish();
    writes
}

/// Prints what a group costs, one figure in each line.
pub(super) fn measure() {
    let mut objects = MemoryObjects::default();
    let before = memory();
    let began = Instant::now();
    let mut renderer = Renderer::new(source());
    renderer.set_facts(Some(facts("city-0")));
    let desired = render(&mut renderer, &mut objects, None);
    let rendered = began.elapsed();
    let mut world = World::new(desired);
    assert_eq!(world.pass(), CLUSTERS * WORKS);
    print("group of 1,000 clusters x 10 works, from nothing, rendered: ms", milliseconds(rendered));
    print("the same, with the first plan: ms", milliseconds(began.elapsed()));
    let listed = world.desired.works.values().map(|work| observed(work, 1, "first")).collect();
    world.state.facts_mut().set_event(HubEvent::Listed(listed));
    world.state.set_record(None);
    assert_eq!(world.pass(), 0);
    world.publish();
    print("memory of files, works, hub, plan and status: MiB", memory() - before);

    let (mut commits, mut labels) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let version = format!("2.{round}");
        let began = Instant::now();
        let desired = render(&mut renderer, &mut objects, Some(&version));
        assert_eq!(take(&mut world, desired), CLUSTERS);
        commits.push(began.elapsed());
        // Git goes back, so that the hub has what Git wants.
        let desired = render(&mut renderer, &mut objects, None);
        assert_eq!(take(&mut world, desired), 0);
        let moved = facts(&format!("other-{round}"));
        let began = Instant::now();
        renderer.set_facts(Some(moved));
        let desired = render(&mut renderer, &mut objects, None);
        let works_with_city = 5;
        assert_eq!(take(&mut world, desired), works_with_city);
        labels.push(began.elapsed());
        renderer.set_facts(Some(facts("city-0")));
        let desired = render(&mut renderer, &mut objects, None);
        assert_eq!(take(&mut world, desired), 0);
    }
    let least = |times: Vec<_>| milliseconds(times.into_iter().min().unwrap());
    print(
        "one commit that changes one work of the group, rendered and planned: ms",
        least(commits),
    );
    print("the label of one cluster changes, rendered and planned: ms", least(labels));
}
