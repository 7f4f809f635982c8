//! Reviews of two commits that are rendered as far as they differ: the same as of all works.

use proptest::prelude::*;
use serde_json::json;

use super::{Review, would_hold};
use crate::model::name::SourceId;
use crate::model::snapshot::Snapshot;
use crate::plan::PlanPolicy;
use crate::render::desired::Comparison;
use crate::render::renderer::Renderer;
use crate::render::test_repository::{TestFiles, TestRepository, files};

const CLUSTERS: [&str; 3] = ["a", "b", "c"];
const WORKS: [&str; 3] = ["base", "shop", "web"];

/// What a file of a repository can be.
#[derive(Debug, Clone)]
enum Content {
    ConfigMap(u8),
    /// An object of a kind that a CRD may define.
    Widget(u8),
    /// Its CRD, with one of two plurals.
    Crd(bool),
    Broken,
    Absent,
}

/// A work folder.
#[derive(Debug, Clone)]
struct Folder {
    content: Content,
    depends_on: Option<(usize, usize)>,
    name: Option<u8>,
    replaces: bool,
}

/// One change of a repository: of a folder, or of a file that several works inherit.
#[derive(Debug, Clone)]
enum Edit {
    Folder(usize, usize, Folder),
    Cluster(usize, u8),
    Group(u8),
    Source(u8),
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        8 => (0..3u8).prop_map(Content::ConfigMap),
        2 => (0..2u8).prop_map(Content::Widget),
        1 => any::<bool>().prop_map(Content::Crd),
        1 => Just(Content::Broken),
        3 => Just(Content::Absent),
    ]
}

fn folder() -> impl Strategy<Value = Folder> {
    let depends_on = prop::option::weighted(0.1, (0..3usize, 0..3usize));
    let name = prop::option::weighted(0.05, 0..2u8);
    (content(), depends_on, name, prop::bool::weighted(0.1)).prop_map(
        |(content, depends_on, name, replaces)| Folder { content, depends_on, name, replaces },
    )
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        8 => (0..3usize, 0..3usize, folder()).prop_map(|(c, w, one)| Edit::Folder(c, w, one)),
        1 => (0..3usize, 0..3u8).prop_map(|(c, one)| Edit::Cluster(c, one)),
        1 => (0..4u8).prop_map(Edit::Group),
        1 => (0..3u8).prop_map(Edit::Source),
    ]
}

fn set(all: &mut TestFiles, path: String, text: Option<String>) {
    match text {
        Some(text) => drop(all.insert(path, text.as_str().into())),
        None => drop(all.remove(&path)),
    }
}

fn apply(all: &mut TestFiles, edit: &Edit) {
    match edit {
        Edit::Folder(cluster, work, folder) => apply_folder(all, (*cluster, *work), folder),
        Edit::Cluster(cluster, content) => {
            let text = match content {
                0 => None,
                1 => Some("defaults: {labels: {tier: edge}}".to_owned()),
                _ => Some("labels: [".to_owned()),
            };
            set(all, format!("clusters/{}/cluster.yaml", CLUSTERS[*cluster]), text);
        }
        Edit::Group(content) => {
            let group = (*content > 0).then(|| "clusters: [a, c]".to_owned());
            let map = config_map("group", *content);
            set(all, "groups/g/group.yaml".to_owned(), group.clone());
            set(all, "groups/g/shop/x.yaml".to_owned(), group.map(|_| map));
        }
        Edit::Source(content) => {
            let text = match content {
                0 => None,
                1 => Some("defaults: {labels: {team: x}}".to_owned()),
                _ => Some("budgets: 7".to_owned()),
            };
            set(all, "gitwork.yaml".to_owned(), text);
        }
    }
}

fn config_map(name: &str, value: u8) -> String {
    let metadata = json!({"name": name, "namespace": "x"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data":
        {"v": value.to_string()}})
    .to_string()
}

fn apply_folder(all: &mut TestFiles, (cluster, work): (usize, usize), folder: &Folder) {
    let (cluster, work) = (CLUSTERS[cluster], WORKS[work]);
    let at = format!("clusters/{cluster}/{work}");
    let text = match folder.content {
        Content::ConfigMap(value) => config_map(work, value),
        Content::Widget(value) => json!({"apiVersion": "x.io/v1", "kind": "Widget", "metadata":
            {"name": work, "namespace": "x"}, "spec": {"v": value}})
        .to_string(),
        Content::Crd(is_other) => {
            let plural = if is_other { "widgetz" } else { "widgets" };
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.x.io")}, "spec": {"group": "x.io", "scope":
                "Namespaced", "names": {"kind": "Widget", "plural": plural}}})
            .to_string()
        }
        Content::Broken => "broken: [".to_owned(),
        Content::Absent => {
            set(all, format!("{at}/x.yaml"), None);
            return set(all, format!("{at}/work.yaml"), None);
        }
    };
    set(all, format!("{at}/x.yaml"), Some(text));
    let mut settings = json!({"manifestConfigs": []});
    if let Some((cluster, work)) = folder.depends_on {
        settings["dependsOn"] = json!([format!("{}/{}", CLUSTERS[cluster], WORKS[work])]);
    }
    // Beside a group's work of the folder's name, another name cannot be counted without its file.
    if let Some(name) = folder.name.filter(|_| work != "shop") {
        settings["name"] = json!(format!("named-{name}"));
    }
    if folder.replaces {
        settings["replaces"] = json!("group");
    }
    set(all, format!("{at}/work.yaml"), Some(settings.to_string()));
}

fn renderer() -> Renderer {
    Renderer::new(SourceId::parse("fleet").unwrap())
}

/// The review, and what guards would hold.
fn shown(compared: &Comparison) -> String {
    let holds = would_hold(compared, &PlanPolicy::default(), None);
    Review { holds, ..Review::of(compared, |_| true) }.json()
}

fn check(base: &TestFiles, head: &TestFiles) -> Result<(), TestCaseError> {
    let mut repository = TestRepository::default();
    let [base, head] = [base, head].map(|files| repository.add(files));
    let [base, head] =
        [base, head].map(|root| Snapshot { commit: None, root, objects: &repository });
    let found = renderer().compare(&base, &head).unwrap();
    let defined = renderer().compare_completely(&base, &head).unwrap();
    prop_assert_eq!(shown(&found), shown(&defined));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn review_of_what_differs_is_the_review_of_all_works(
        first in prop::collection::vec(edit(), 0..14),
        second in prop::collection::vec(edit(), 0..4),
    ) {
        let mut base = files(&[("clusters/a/kept/x.yaml", &config_map("kept", 0))]);
        first.iter().for_each(|edit| apply(&mut base, edit));
        let mut head = base.clone();
        second.iter().for_each(|edit| apply(&mut head, edit));
        check(&base, &head)?;
    }
}

/// A repository with ten works in each of ten clusters.
fn many() -> TestFiles {
    let mut all = TestFiles::new();
    for (cluster, work) in (0..10).flat_map(|cluster| (0..10).map(move |work| (cluster, work))) {
        let path = format!("clusters/c{cluster}/w{work}/x.yaml");
        set(&mut all, path, Some(config_map(&format!("w{work}"), 10 * cluster + work)));
    }
    all
}

/// How many manifests a comparison reads, and what it counts as unchanged.
fn cost(head: &[(&str, Option<String>)]) -> (usize, usize) {
    let base = many();
    let mut changed = base.clone();
    for (path, text) in head {
        set(&mut changed, (*path).to_owned(), text.clone());
    }
    let mut repository = TestRepository::default();
    let [base, head] = [&base, &changed].map(|files| repository.add(files));
    let [base, head] =
        [base, head].map(|root| Snapshot { commit: None, root, objects: &repository });
    let found = renderer().compare(&base, &head).unwrap();
    let review = Review::of(&found, |_| true);
    (repository.take_manifest_reads(), review.counts.works_unchanged)
}

#[test]
fn changed_work_costs_the_works_of_its_cluster() {
    let changed = ("clusters/c3/w4/x.yaml", Some(config_map("w4", 200)));
    assert_eq!(cost(&[changed.clone()]), (11, 99), "ten works of the cluster, and the old one");
    assert_eq!(cost(&[]), (0, 100));
    // Another work may depend on the removed one.
    let (reads, unchanged) = cost(&[changed.clone(), ("clusters/c3/w5/x.yaml", None)]);
    assert!(reads >= 100, "{reads}");
    assert_eq!(unchanged, 98);
    // A kind that any CRD may define.
    let widget = "{apiVersion: x.io/v1, kind: Widget, metadata: {name: w4, namespace: x}}";
    let (reads, unchanged) = cost(&[("clusters/c3/w4/x.yaml", Some(widget.to_owned()))]);
    assert!(reads >= 100, "{reads}");
    assert_eq!(unchanged, 99);
}

#[test]
fn errors_of_clusters_that_do_not_differ_are_left_out() {
    let map = config_map("web", 1);
    let broken = [("clusters/b/old/x.yaml", "broken: ["), ("clusters/b/cluster.yaml", "labels: [")];
    let base = files(&[("clusters/a/web/x.yaml", &map), broken[0], broken[1]]);
    let mut head = base.clone();
    set(&mut head, "clusters/a/web/x.yaml".to_owned(), Some(config_map("web", 2)));
    check(&base, &head).unwrap();
    let mut repository = TestRepository::default();
    let [base, head] = [&base, &head].map(|files| repository.add(files));
    let [base, head] =
        [base, head].map(|root| Snapshot { commit: None, root, objects: &repository });
    let found = renderer().compare(&base, &head).unwrap();
    assert_eq!(found.head.diagnostics, []);
    let review = Review::of(&found, |_| true);
    assert_eq!((review.counts.works_changed, review.counts.works_unchanged), (1, 1));
}
