//! The plan of what differs equals the plan of the whole.

use super::Review;
use crate::test_repository::{TestFile, TestFiles, TestRepository, files};
use gitwork_core::model::name::SourceId;
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::renderer::{RenderedChange, Renderer};

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: x, name: {name}}}\n")
}

const CUSTOM: &str = "apiVersion: e.io/v1\nkind: Thing\nmetadata: {namespace: x, name: t}\n";

fn crd(plural: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: {plural}.e.io}}\nspec: {{group: e.io, scope: Namespaced, \
         names: {{kind: Thing, plural: {plural}, singular: thing}}, versions: [{{name: v1, \
         served: true, storage: true, schema: {{openAPIV3Schema: {{type: object}}}}}}]}}\n"
    )
}

/// Three clusters with two works each, and one with an error.
fn fleet() -> TestFiles {
    let mut all = files(&[("clusters/broken/web/x.yaml", "broken: [")]);
    for cluster in ["a", "b", "c"] {
        for work in ["db", "web"] {
            let path = format!("clusters/{cluster}/{work}/x.yaml");
            all.insert(path, TestFile::Text(map(&format!("{cluster}-{work}"))));
        }
    }
    all
}

/// Files with new texts; without a text they are removed.
type Changed<'a> = &'a [(&'a str, &'a str)];

fn with(base: &TestFiles, changes: Changed<'_>) -> TestFiles {
    let mut all = base.clone();
    for (path, text) in changes {
        match *text {
            "" => drop(all.remove(*path)),
            text => drop(all.insert((*path).to_owned(), TestFile::from(text))),
        }
    }
    all
}

/// Both ways to render a change, and how many manifests the first one reads.
fn both(base: &TestFiles, head: &TestFiles) -> ([RenderedChange; 2], usize) {
    let mut repository = TestRepository::default();
    let [base, head] = [base, head].map(|files| repository.add(files));
    let renderer = Renderer::new(SourceId::parse("fleet").unwrap());
    let [base, head] =
        [base, head].map(|root| Snapshot { commit: None, root, objects: &repository });
    let change = renderer.render_change(&base, &head).unwrap();
    let reads = repository.manifest_reads();
    ([change, renderer.render_whole_change(&base, &head).unwrap()], reads)
}

/// Requires that both ways give one plan. Returns it, and whether clusters were left out.
fn review(base: &TestFiles, head: &TestFiles) -> (Review, bool) {
    let (changes, _) = both(base, head);
    let is_partial = changes[0].unread.clusters > 0;
    let [partial, whole] = changes.map(|mut change| {
        change.leave_out_known_problems();
        Review::of_change(&change, |_| true)
    });
    assert_eq!(partial, whole);
    (partial, is_partial)
}

#[test]
fn changed_manifest_reads_its_cluster_only() {
    let base = fleet();
    let head = with(&base, &[("clusters/b/web/x.yaml", &map("other"))]);
    let (changes, reads) = both(&base, &head);
    assert_eq!((changes[0].base.works.len(), changes[0].unread.works), (2, 5));
    assert_eq!(reads, 3, "the two manifests of the base, and the changed one");
    let (review, is_partial) = review(&base, &head);
    assert!(is_partial);
    let counts = review.counts;
    assert_eq!((counts.works_changed, counts.works_unchanged, counts.clusters), (1, 6, 4));
    assert!(!review.source_frozen && review.new_diagnostics.is_empty());
}

#[test]
fn every_change_gives_the_plan_of_the_whole() {
    let (base, other) = (fleet(), map("other"));
    let crd = crd("thinges");
    let depends = "dependsOn: [{cluster: c, work: web}]\n";
    let rename = "name: shop\n";
    let changes: [(&str, bool, Changed<'_>); 16] = [
        ("content", true, &[("clusters/a/db/x.yaml", &other)]),
        ("setting", true, &[("clusters/a/db/work.yaml", "prune: false\n")]),
        ("cluster", true, &[("clusters/a/cluster.yaml", "defaults: {labels: {a: b}}\n")]),
        ("two clusters", true, &[("clusters/a/db/x.yaml", &other), ("clusters/c/db/x.yaml", "")]),
        (
            "moved object",
            true,
            &[("clusters/a/db/y.yaml", &map("a-web")), ("clusters/a/web/x.yaml", &other)],
        ),
        ("new work", false, &[("clusters/a/new/x.yaml", &other)]),
        ("new cluster", false, &[("clusters/d/web/x.yaml", &other)]),
        ("removed work", false, &[("clusters/a/db/x.yaml", "")]),
        ("renamed work", false, &[("clusters/a/db/work.yaml", rename)]),
        (
            "moved folder",
            false,
            &[("clusters/a/db/x.yaml", ""), ("clusters/a/store/x.yaml", &map("a-db"))],
        ),
        ("source", false, &[("gitwork.yaml", "defaults: {annotations: {a: b}}\n")]),
        ("new error", false, &[("clusters/a/db/x.yaml", "broken: [")]),
        ("dependency", false, &[("clusters/a/db/work.yaml", depends)]),
        ("custom kind", false, &[("clusters/a/db/t.yaml", CUSTOM)]),
        ("CRD", false, &[("clusters/a/db/crd.yaml", &crd)]),
        ("corrected", false, &[("clusters/broken/web/x.yaml", &other)]),
    ];
    for (what, is_partial, files) in changes {
        let head = with(&base, files);
        let reviews = [(&base, &head), (&head, &base)].map(|(one, two)| review(one, two));
        let (found, _) = &reviews[0];
        assert!(!found.is_empty() || !found.new_diagnostics.is_empty(), "{what}");
        // Without its file, `db` of c is not there.
        let expected = is_partial && what != "two clusters";
        assert_eq!([reviews[0].1, reviews[1].1], [expected; 2], "{what}");
    }
}

#[test]
fn crd_of_another_cluster_counts_for_a_changed_work() {
    let base = with(
        &fleet(),
        &[("clusters/c/db/crd.yaml", &crd("thinges")), ("clusters/a/db/t.yaml", CUSTOM)],
    );
    let changed = CUSTOM.replace("name: t", "name: u");
    let (found, is_partial) = review(&base, &with(&base, &[("clusters/a/db/t.yaml", &changed)]));
    assert!(!is_partial && found.counts.works_changed == 1);
    let other = crd("thingies");
    let (found, _) = review(&base, &with(&base, &[("clusters/c/db/crd.yaml", &other)]));
    assert_eq!(found.counts.works_changed, 1, "the plural is no part of a manifest");
}

#[test]
fn groups_count_with_their_folders() {
    let base = with(
        &fleet(),
        &[
            ("groups/all/group.yaml", "clusters: [a, b, z]\nvalues: {TEAM: x}\n"),
            ("groups/all/agent/x.yaml", &map("agent")),
        ],
    );
    let other = map("other");
    let all: [(&str, bool, Changed<'_>); 5] = [
        ("work of a cluster", true, &[("clusters/a/db/x.yaml", &other)]),
        ("work of the group", false, &[("groups/all/agent/x.yaml", &other)]),
        ("members", false, &[("groups/all/group.yaml", "clusters: [a]\n")]),
        ("labels", false, &[("clusters/a/cluster.yaml", "labels: {zone: x}\n")]),
        ("removed", false, &[("groups/all/group.yaml", "")]),
    ];
    for (what, is_partial, files) in all {
        let (found, was_partial) = review(&base, &with(&base, files));
        assert_eq!(was_partial, is_partial, "{what}: {:?}", found.counts);
    }
}

#[test]
fn groups_by_labels_and_with_overrides_give_the_plan_of_the_whole() {
    let group = "selector: {matchLabels: {zone: x}}\n";
    let base = with(
        &fleet(),
        &[
            ("groups/zone/group.yaml", group),
            ("groups/zone/agent/x.yaml", &map("agent")),
            ("clusters/a/cluster.yaml", "labels: {zone: x}\n"),
            ("clusters/b/cluster.yaml", "labels: {zone: x}\n"),
        ],
    );
    let other = map("other");
    for files in [
        [("clusters/a/db/x.yaml", other.as_str())],
        [("clusters/a/cluster.yaml", "labels: {zone: y}\n")],
        [("clusters/b/web/x.yaml", "")],
        [("clusters/a/agent/x.yaml", other.as_str())],
    ] {
        let head = with(&base, &files);
        review(&base, &head);
        review(&head, &base);
    }
}
