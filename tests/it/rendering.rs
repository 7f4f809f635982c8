//! Rendering of repositories that the cases in `tests/cases` cannot hold: limits, caches, damage.

use std::collections::BTreeMap;

use gitwork_core::limits;
use gitwork_core::model::diagnostic::{Code, Scope};
use gitwork_core::model::name::WorkKey;
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;

use crate::memory_repository::{File, MemoryObjects, files, render, source};

const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n";
const DEPLOYMENT: &str =
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {}\n";

fn codes(desired: &Desired) -> Vec<(String, Code)> {
    desired.diagnostics.iter().map(|d| (d.location.file.to_string(), d.code)).collect()
}

#[test]
fn source_over_its_limits_is_frozen_unread() {
    let works: Vec<(String, &str)> = (0..=limits::WORKS_MAX)
        .map(|n| (format!("clusters/a/work-{n}/x.yaml"), CONFIG_MAP))
        .collect();
    let clusters: Vec<(String, &str)> = (0..=limits::CLUSTERS_MAX)
        .map(|n| (format!("clusters/cluster-{n}/web/x.yaml"), CONFIG_MAP))
        .collect();
    for (all, message) in [
        (works, "a source has at most 200000 works, and this one has more"),
        (clusters, "20001 clusters; a source has at most 20000"),
    ] {
        let all: Vec<(&str, &str)> = all.iter().map(|(path, text)| (&**path, *text)).collect();
        let desired = render(&files(&all));
        assert!(desired.frozen.source && desired.works.is_empty());
        let said: Vec<&str> = desired.diagnostics.iter().map(|d| &*d.message).collect();
        assert_eq!(said, [message]);
    }
}

#[test]
fn work_over_the_size_limit_names_its_largest_objects() {
    let map = |name: &str, bytes: usize| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: \
                a}}\ndata: {{x: \"{}\"}}\n",
            "x".repeat(bytes)
        )
    };
    let desired = render(&files(&[
        ("clusters/a/web/x.yaml", &format!("{}{}", map("small", 10), map("large", 300_000))),
        ("clusters/a/web/y.yaml", &map("medium", 250_000)),
    ]));
    assert_eq!(codes(&desired), [("clusters/a/web".into(), Code::WorkTooLarge)]);
    let related: Vec<&str> =
        desired.diagnostics[0].related.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(related.len(), 3);
    assert!(related[0].starts_with("configmaps/large in namespace a has 3001"), "{related:?}");
}

#[test]
fn only_changed_files_are_read_again() {
    let mut repository = BTreeMap::new();
    for cluster in 0..20 {
        for work in 0..10 {
            repository.insert(
                format!("clusters/c{cluster}/w{work}/x.yaml"),
                File::from(CONFIG_MAP.replace("name: a", &format!("name: m{work}")).as_str()),
            );
        }
    }
    let mut objects = MemoryObjects::default();
    let mut renderer = Renderer::new(source());
    let root = objects.add(&repository);
    let first = renderer.render(&Snapshot { commit: None, root, objects: &objects }).unwrap();
    assert_eq!(first.works.len(), 200);
    objects.reads.set(0);
    repository.insert("clusters/c3/w4/x.yaml".into(), File::from(DEPLOYMENT));
    let root = objects.add(&repository);
    let second = renderer.render(&Snapshot { commit: None, root, objects: &objects }).unwrap();
    // The root, clusters, c3, w4 and the file.
    assert_eq!(objects.reads.get(), 5);
    let changed: Vec<&WorkKey> = second
        .works
        .keys()
        .filter(|k| first.works[*k].body.digest != second.works[*k].body.digest)
        .collect();
    assert_eq!(changed.iter().map(ToString::to_string).collect::<Vec<_>>(), ["c3/w4"]);
    assert_eq!(render(&repository).works.len(), second.works.len());
    for (key, work) in &render(&repository).works {
        assert_eq!(
            work.body.digest, second.works[key].body.digest,
            "a cached pass gives what a fresh one gives: {key}"
        );
    }
}

#[test]
fn damaged_object_database_is_an_error() {
    let mut objects = MemoryObjects::default();
    let repository = files(&[("clusters/a/web/x.yaml", CONFIG_MAP)]);
    let root = objects.add(&repository);
    let mut lost = MemoryObjects::default();
    let web = lost.add(&files(&[("x.yaml", CONFIG_MAP)]));
    objects.lose(web);
    assert!(
        Renderer::new(source())
            .render(&Snapshot { commit: None, root, objects: &objects })
            .is_err()
    );
}

#[test]
fn unreadable_work_file_freezes_every_work_of_its_folder() {
    let desired = render(&files(&[
        ("clusters/a/web/x.yaml", CONFIG_MAP),
        ("clusters/a/web/work.yaml", "name: [\n"),
    ]));
    let old = WorkKey {
        cluster: desired.frozen.works.iter().next().unwrap().cluster.clone(),
        work: gitwork_core::model::name::WorkName::parse("shop").unwrap(),
    };
    assert!(desired.frozen.may_contain(&old, Some("clusters/a/web")));
    assert!(!desired.frozen.may_contain(&old, Some("clusters/a/other")));
    assert!(desired.diagnostics.iter().all(|d| matches!(d.scope, Scope::Work(_))));
}
