//! What clusters lose by a change, and what its agents cannot apply.

use super::Review;
use super::print::{losses, text};
use crate::test_repository::{TestFile, TestFiles, TestRepository, files};
use gitwork_core::model::name::SourceId;
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::text::style::ColorMode;

fn render(files: &TestFiles) -> Desired {
    let mut repository = TestRepository::default();
    let root = repository.add(files);
    let mut renderer = Renderer::new(SourceId::parse("fleet").unwrap());
    renderer.render(&Snapshot { commit: None, root, objects: &repository }).unwrap()
}

fn map(name: &str, namespace: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: {namespace}, name: {name}}}\n")
}

/// `work: objects` of each work that loses objects together with a deleted one.
fn lost(base: &TestFiles, head: &TestFiles) -> Vec<String> {
    let review = Review::new(&render(base), &render(head));
    let works = review.cascading_deletions.iter().flat_map(|one| &one.works);
    works.map(|lost| format!("{}: {}", lost.work, lost.objects)).collect()
}

#[test]
fn objects_of_works_that_stay_on_the_hub_go_with_their_namespace() {
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n";
    let base = files(&[
        ("clusters/a/base/namespace.yaml", namespace),
        ("clusters/a/base/other.yaml", &map("other", "z")),
        ("clusters/a/frozen/x.yaml", &map("frozen", "x")),
        ("clusters/a/released/work.yaml", "prune: false\n"),
        ("clusters/a/released/x.yaml", &map("released", "x")),
        ("clusters/a/removed/x.yaml", &map("removed", "x")),
        ("clusters/a/web/x.yaml", &map("web", "x")),
        ("clusters/b/web/x.yaml", &map("web", "x")),
    ]);
    let mut head = base.clone();
    for gone in ["base/namespace.yaml", "released/work.yaml", "released/x.yaml", "removed/x.yaml"] {
        head.remove(&format!("clusters/a/{gone}"));
    }
    // An object in two works freezes both.
    head.insert("clusters/a/twin/x.yaml".into(), TestFile::Text(map("frozen", "x")));
    assert_eq!(lost(&base, &head), ["frozen: 1", "released: 1", "web: 1"]);
    head.insert("clusters/a/web/x.yaml".into(), TestFile::from("kind: ["));
    assert_eq!(lost(&base, &head), [""; 0], "the Namespace may have moved to web");
    assert_eq!(lost(&base, &base), [""; 0]);
}

#[test]
fn objects_that_cannot_change_are_named_once_for_all_clusters() {
    let binding = |name: &str, role: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
             metadata: {{namespace: x, name: {name}}}\n\
             roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {role}}}\n"
        )
    };
    let fleet = |bindings: usize, role: &str| -> TestFiles {
        let pairs = ["a", "b"].into_iter().flat_map(|cluster| {
            (0..bindings).map(move |number| (cluster, format!("binding-{number:02}")))
        });
        let file = |(cluster, name): (&str, String)| {
            let path = format!("clusters/{cluster}/web/{name}.yaml");
            (path, TestFile::Text(binding(&name, role)))
        };
        pairs.map(file).collect()
    };
    let review = |bindings: usize| {
        Review::new(&render(&fleet(bindings, "one")), &render(&fleet(bindings, "two")))
    };
    let two = review(2);
    let line = |name: &str| {
        format!(
            "RoleBinding x/{name} of web must be recreated on a, b: roleRef.name cannot change."
        )
    };
    assert_eq!(losses(&two), [line("binding-00"), line("binding-01")]);
    let shown = text(&two, ColorMode::Plain);
    assert!(shown.contains(": changes 2 objects (2 must be recreated) ("), "{shown}");
    let many = losses(&review(13));
    assert_eq!((many.len(), &*many[10]), (11, "3 more objects that cannot change in place."));
}
