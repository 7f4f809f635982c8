//! What is said of some clusters is what is said of them among all.

use crate::model::diagnostic::{Diagnostic, Scope};
use crate::model::name::{ClusterName, SourceId};
use crate::model::snapshot::Snapshot;
use crate::render::desired::Desired;
use crate::render::renderer::Renderer;
use crate::render::test_repository::{TestFile, TestFiles, TestRepository, files};

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: x, name: {name}}}\n")
}

const CUSTOM: &str = "apiVersion: e.io/v1\nkind: Thing\nmetadata: {namespace: x, name: t}\n";

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
                   metadata: {name: thinges.e.io}\nspec: {group: e.io, scope: Namespaced, names: \
                   {kind: Thing, plural: thinges, singular: thing}, versions: [{name: v1, served: \
                   true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n";

/// Four clusters with two works each.
fn fleet() -> TestFiles {
    let mut all = TestFiles::new();
    for cluster in ["a", "b", "c", "d"] {
        for work in ["db", "web"] {
            let path = format!("clusters/{cluster}/{work}/x.yaml");
            all.insert(path, TestFile::Text(map(&format!("{cluster}-{work}"))));
        }
    }
    all
}

fn concerns_b(scope: &Scope) -> bool {
    match scope {
        Scope::Source | Scope::Group(_) => true,
        Scope::Cluster(cluster) => cluster.as_str() == "b",
        Scope::Work(key) => key.cluster.as_str() == "b",
    }
}

/// What a state says of cluster b.
fn of_b(desired: &Desired) -> (Vec<String>, Vec<&Diagnostic>) {
    let works = desired.works.values().filter(|work| work.key.cluster.as_str() == "b");
    let texts = works.map(|work| format!("{} {:?}", work.key, work.body));
    let frozen = desired.frozen.works.iter().filter(|key| key.cluster.as_str() == "b");
    let texts = texts.chain(frozen.map(|key| format!("{key} is frozen"))).collect();
    let found = desired.diagnostics.iter().filter(|one| concerns_b(&one.scope));
    (texts, found.collect())
}

/// Renders cluster b, and all clusters: requires that both say the same of b, and returns how many
/// manifests the first one read.
fn reads_of_b(files: &TestFiles) -> usize {
    let mut repository = TestRepository::default();
    let root = repository.add(files);
    let snapshot = Snapshot { commit: None, root, objects: &repository };
    let renderer = || Renderer::new(SourceId::parse("fleet").unwrap());
    let mut of_one = renderer();
    of_one.select_clusters(|cluster: &ClusterName| cluster.as_str() == "b");
    let one = of_one.render(&snapshot).unwrap();
    let reads = repository.manifest_reads();
    let all = renderer().render(&snapshot).unwrap();
    assert_eq!(of_b(&one), of_b(&all));
    assert_eq!(of_b(&of_one.render(&snapshot).unwrap()), of_b(&all), "once more");
    reads
}

fn with(changes: &[(&str, &str)]) -> TestFiles {
    let mut all = fleet();
    all.extend(files(changes));
    all
}

#[test]
fn selected_cluster_is_read_alone() {
    assert_eq!(reads_of_b(&fleet()), 2);
}

#[test]
fn problems_of_the_selected_cluster_and_of_others_change_nothing() {
    let broken = "kind: [";
    assert_eq!(reads_of_b(&with(&[("clusters/b/db/y.yaml", broken)])), 2);
    assert_eq!(reads_of_b(&with(&[("clusters/b/cluster.yaml", "bad: 1\n")])), 2);
    assert_eq!(reads_of_b(&with(&[("clusters/b/db/y.yaml", &map("b-web"))])), 3);
    assert_eq!(reads_of_b(&with(&[("clusters/c/db/y.yaml", broken)])), 2);
}

#[test]
fn group_that_names_its_clusters_is_read_for_the_selected_one() {
    let group = [
        ("groups/all/group.yaml", "clusters: [b, c]\n"),
        ("groups/all/agent/x.yaml", &map("agent")),
    ];
    assert_eq!(reads_of_b(&with(&group)), 3);
}

#[test]
fn all_clusters_are_read_if_others_matter() {
    let waits = "dependsOn: [{cluster: c, work: web}]\n";
    assert_eq!(reads_of_b(&with(&[("clusters/b/web/work.yaml", waits)])), 8);
    let custom = [("clusters/b/web/y.yaml", CUSTOM), ("clusters/c/web/y.yaml", CRD)];
    // The custom object is rendered again with the plural of the CRD.
    assert!(reads_of_b(&with(&custom)) >= 10);
    let unknown = "selector: {labelSelector: {matchLabels: {tier: store}}}\n";
    let group = [("groups/all/group.yaml", unknown), ("groups/all/agent/x.yaml", &*map("agent"))];
    assert!(reads_of_b(&with(&group)) >= 8);
}

#[test]
fn all_clusters_are_read_if_none_is_selected() {
    let mut repository = TestRepository::default();
    let root = repository.add(&fleet());
    let mut renderer = Renderer::new(SourceId::parse("fleet").unwrap());
    renderer.select_clusters(|_| false);
    let snapshot = Snapshot { commit: None, root, objects: &repository };
    assert_eq!(renderer.render(&snapshot).unwrap().named_works().count(), 8);
}
