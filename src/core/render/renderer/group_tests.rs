//! Groups: members, values, precedence, conflicts, uncertainty, and what rendering costs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::config::tenancy::TenantRule;
use crate::model::facts::ClusterFacts;
use crate::model::name::{WorkKey, WorkName};
use crate::model::work::{ANNOTATION_PATH, DesiredWork, WorkMetadata};
use crate::render::desired::Frozen;
use crate::render::test_repository::{TestFile, TestFiles, TestRepository, files};

/// A ConfigMap whose data is `value`.
pub(super) fn config_map(name: &str, value: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: x}}, data: \
         {{v: '{value}'}}}}"
    )
}

pub(super) fn renderer() -> Renderer {
    Renderer::new(SourceId::parse("fleet").unwrap())
}

pub(super) fn render_into(
    renderer: &mut Renderer,
    repository: &mut TestRepository,
    files: &TestFiles,
) -> Desired {
    let root = repository.add(files);
    renderer.render(&Snapshot { commit: None, root, objects: repository }).unwrap()
}

pub(super) fn render(files: &TestFiles, facts: Option<Facts>) -> Desired {
    let mut renderer = renderer();
    renderer.set_facts(facts.map(Arc::new));
    render_into(&mut renderer, &mut TestRepository::default(), files)
}

/// Facts of clusters with these labels: `edge-1 tier=edge city=Bonn`.
pub(super) fn facts(clusters: &[&str]) -> Facts {
    let read = |text: &&str| {
        let mut words = text.split(' ');
        let name = ClusterName::parse(words.next().unwrap()).unwrap();
        let label = |word: &str| {
            let (key, value) = word.split_once('=').unwrap();
            (key.to_owned(), value.to_owned())
        };
        let labels = words.map(label).collect();
        (name, Arc::new(ClusterFacts { labels, ..ClusterFacts::default() }))
    };
    Facts {
        time: Some("2026-11-20T10:00:00Z".parse().unwrap()),
        hub_version: None,
        is_partial: false,
        managed_clusters: clusters.iter().map(read).collect(),
        placements: BTreeMap::new(),
    }
}

pub(super) fn key(text: &str) -> WorkKey {
    let (cluster, work) = text.split_once('/').unwrap();
    let (cluster, work) = (ClusterName::parse(cluster).unwrap(), WorkName::parse(work).unwrap());
    WorkKey { cluster, work }
}

/// `edge-1/web <- groups/edge/web: value`, for ConfigMaps.
fn works(desired: &Desired) -> Vec<String> {
    let line = |(key, work): (&WorkKey, &Arc<DesiredWork>)| {
        let spec = work.body.spec.value();
        let values = spec["workload"]["manifests"].as_array().unwrap().iter();
        let values: Vec<&str> = values.map(|one| one["data"]["v"].as_str().unwrap()).collect();
        format!("{key} <- {}: {}", work.path, values.join(" "))
    };
    desired.works.iter().map(line).collect()
}

fn messages(desired: &Desired) -> Vec<String> {
    let all = desired.diagnostics.iter();
    all.map(|one| format!("{} {}: {}", one.code.id(), one.location.file, one.message)).collect()
}

const EDGE: (&str, &str) = (
    "groups/edge/group.yaml",
    "selector: {labelSelector: {matchLabels: {tier: edge}}}\n\
     values: {COLOUR: blue, SIZE: 1}\n\
     defaults: {substitute: true, labels: {from: group}}\n",
);

#[test]
fn each_member_gets_each_work_with_its_own_values() {
    let manifest = config_map("a", "${COLOUR} ${SIZE} ${cluster.name} ${cluster.labels[\"city\"]}");
    let repository = files(&[
        EDGE,
        ("groups/edge/web/a.yaml", &manifest),
        ("clusters/edge-2/cluster.yaml", "labels: {tier: edge, city: Ulm}\nvalues: {SIZE: 2}"),
        ("clusters/dc-1/own/a.yaml", &config_map("a", "own")),
    ]);
    let facts = facts(&["edge-1 tier=edge city=Bonn", "edge-2 tier=dc city=Kiel", "dc-1 tier=dc"]);
    let desired = render(&repository, Some(facts));
    assert_eq!(messages(&desired), Vec::<String>::new());
    assert_eq!(
        works(&desired),
        [
            "dc-1/own <- clusters/dc-1/own: own",
            "edge-1/web <- groups/edge/web: blue 1 edge-1 Bonn",
            "edge-2/web <- groups/edge/web: blue 2 edge-2 Ulm",
        ]
    );
    assert_eq!(desired.frozen, Frozen::default());
}

/// A level of settings that marks the labels with these keys and the ConfigMaps of these names.
fn level(name: &str, keys: &str) -> String {
    let labels: Vec<String> = keys.split(' ').map(|key| format!("{key}: {name}")).collect();
    let rule = |key: &str| {
        format!(
            "{{resourceIdentifier: {{group: '', resource: configmaps, namespace: x, name: {key}}}, \
             updateStrategy: {}}}",
            strategy(name)
        )
    };
    let rules: Vec<String> = keys.split(' ').map(rule).collect();
    format!("labels: {{{}}}, manifestConfigs: [{}]", labels.join(", "), rules.join(", "))
}

fn strategy(name: &str) -> String {
    format!("{{type: ServerSideApply, serverSideApply: {{fieldManager: work-agent-{name}}}}}")
}

#[test]
fn precedence_is_source_then_group_then_cluster_then_work_then_manifest() {
    let defaults = |name: &str, keys: &str| format!("defaults: {{{}}}", level(name, keys));
    let group = format!("clusters: [c]\n{}", defaults("group", "b c d e"));
    let maps = ["a", "b", "c", "d"].map(|name| config_map(name, "x"));
    let repository = files(&[
        ("gitwork.yaml", &defaults("source", "a b c d e")),
        ("groups/g/group.yaml", &group),
        ("clusters/c/cluster.yaml", &defaults("cluster", "c d e")),
        ("groups/g/web/work.yaml", &format!("{{{}}}", level("work", "d e"))),
        ("groups/g/web/maps.yaml", &maps.join("\n---\n")),
        ("groups/g/web/e.yaml", &config_map("e", "x")),
        ("groups/g/web/e.config.yaml", &format!("updateStrategy: {}", strategy("manifest"))),
    ]);
    let desired = render(&repository, None);
    assert_eq!(messages(&desired), Vec::<String>::new());
    let body = &desired.works[&key("c/web")].body;
    let labels = ["a", "b", "c", "d", "e"].map(|key| body.metadata().labels[key].clone());
    assert_eq!(labels, ["source", "group", "cluster", "work", "work"]);
    let spec = body.spec.value();
    let configs = spec["manifestConfigs"].as_array().unwrap();
    let strategies = configs.iter().map(|config| {
        let name = config["resourceIdentifier"]["name"].as_str().unwrap();
        let strategy = &config["updateStrategy"]["serverSideApply"]["fieldManager"];
        (name, strategy.as_str().unwrap())
    });
    let expected =
        [("a", "source"), ("b", "group"), ("c", "cluster"), ("d", "work"), ("e", "manifest")];
    let expected = expected.map(|(name, level)| (name, format!("work-agent-{level}")));
    let strategies: BTreeMap<_, _> =
        strategies.map(|(name, level)| (name, level.to_owned())).collect();
    assert_eq!(strategies, expected.into());
}

const OVERRIDES: &str = "\
clusters: [a, b, c, d]
values: {COLOUR: blue, SIZE: 1}
overrides:
- selector: {labelSelector: {matchLabels: {country: ch}}}
  values: {COLOUR: red}
- clusters: [c, 'd*']
  selector: {labelSelector: {matchExpressions: [{key: lab, operator: DoesNotExist}]}}
  values: {COLOUR: green, SIZE: 3}
defaults: {substitute: true}
";

#[test]
fn overrides_of_a_group_have_values_for_some_members() {
    let mut repository = files(&[
        ("groups/g/group.yaml", OVERRIDES),
        ("groups/g/web/a.yaml", &config_map("a", "${COLOUR} ${SIZE}")),
        ("clusters/d/cluster.yaml", "values: {SIZE: 4}"),
    ]);
    let known = facts(&["a country=de", "b country=ch", "c country=ch", "d country=de lab=x"]);
    let (mut renderer, mut objects) = (renderer(), TestRepository::default());
    renderer.set_facts(Some(Arc::new(known)));
    let desired = render_into(&mut renderer, &mut objects, &repository);
    assert_eq!(messages(&desired), Vec::<String>::new());
    let needs = desired.needed_facts.clone().unwrap();
    assert_eq!(needs.labels, ["country".into(), "lab".into()].into());
    let line = |cluster: &str, values: &str| format!("{cluster}/web <- groups/g/web: {values}");
    let expected = [("a", "blue 1"), ("b", "red 1"), ("c", "green 3"), ("d", "blue 4")];
    assert_eq!(works(&desired), expected.map(|(cluster, values)| line(cluster, values)));

    // A label changes, and then group.yaml.
    let moved = facts(&["a country=ch", "b country=de", "c country=ch", "d country=de"]);
    renderer.set_facts(Some(Arc::new(moved)));
    let desired = render_into(&mut renderer, &mut objects, &repository);
    let expected = [("a", "red 1"), ("b", "blue 1"), ("c", "green 3"), ("d", "green 4")];
    assert_eq!(works(&desired), expected.map(|(cluster, values)| line(cluster, values)));
    let changed = OVERRIDES.replace("COLOUR: red", "COLOUR: pink");
    repository.insert("groups/g/group.yaml".into(), TestFile::Text(changed));
    let desired = render_into(&mut renderer, &mut objects, &repository);
    assert_eq!(works(&desired)[0], line("a", "pink 1"));
}

/// Where it is unknown which values a cluster gets, its works stay as they are on the hub.
#[test]
fn unknown_overrides_change_nothing() {
    let repository = files(&[
        ("groups/g/group.yaml", OVERRIDES),
        ("groups/g/web/a.yaml", &config_map("a", "${COLOUR}")),
        ("clusters/b/cluster.yaml", "labels: {country: ch, lab: 'yes'}"),
    ]);
    let desired = render(&repository, None);
    assert_eq!(works(&desired), ["b/web <- groups/g/web: red"]);
    for cluster in ["a", "c", "d"] {
        let key = key(&format!("{cluster}/web"));
        assert!(desired.frozen.may_contain(&key, Some("groups/g/web")), "{cluster}");
    }
    assert_eq!(
        messages(&desired),
        ["GW601 groups/g/group.yaml: the facts do not say whether these clusters are in the \
          group g, and in which of its overrides: a, c, d"]
    );
}

#[test]
fn errors_in_overrides_name_their_place() {
    let repository = files(&[(
        "groups/g/group.yaml",
        "clusters: [a]\noverrides:\n- values: {A: b}\n- clusters: [a]\n  values: {a-b: c}\n- \
         {clusters: [a], value: {A: b}}\n",
    )]);
    let desired = render(&repository, None);
    let found = desired.diagnostics.iter().filter(|one| one.is_error());
    let found: Vec<_> =
        found.map(|one| (one.field.as_deref(), one.location.span.unwrap().line)).collect();
    assert_eq!(
        found,
        [
            (Some("overrides[0]"), 3),
            (Some("overrides[1].values"), 5),
            (Some("overrides[2].value"), 6),
        ]
    );
}

/// A group `g` of the clusters a and b, and a work `web` of the cluster a.
fn conflict(work_file: &str) -> TestFiles {
    files(&[
        ("groups/g/group.yaml", "clusters: [a, b]"),
        ("groups/g/web/x.yaml", &config_map("x", "group")),
        ("clusters/a/web/x.yaml", &config_map("x", "own")),
        ("clusters/a/web/work.yaml", work_file),
    ])
}

#[test]
fn work_of_a_cluster_replaces_that_of_a_group_only_if_it_says_so() {
    let desired = render(&conflict("replaces: group"), None);
    assert_eq!(messages(&desired), Vec::<String>::new());
    assert_eq!(works(&desired), ["a/web <- clusters/a/web: own", "b/web <- groups/g/web: group"]);
    let desired = render(&conflict("{}"), None);
    assert_eq!(works(&desired), ["b/web <- groups/g/web: group"]);
    assert_eq!(messages(&desired)[0], "GW210 groups/g/web: cluster a has two works named web");
    let clash = &desired.diagnostics[0];
    assert_eq!(clash.related[0].0.file.as_str(), "clusters/a/web");
    assert!(clash.help().contains("set `replaces: group` in clusters/a/web/work.yaml"));
    for path in ["clusters/a/web", "groups/g/web"] {
        assert!(desired.frozen.may_contain(&key("a/web"), Some(path)), "{path}");
    }
    assert!(!desired.frozen.may_contain(&key("b/web"), Some("groups/g/web")));
}

#[test]
fn a_broken_replacement_keeps_the_work_of_the_group_away() {
    let mut repository = conflict("replaces: group");
    repository.insert("clusters/a/web/y.yaml".into(), "a: [".into());
    let desired = render(&repository, None);
    assert_eq!(works(&desired), ["b/web <- groups/g/web: group"]);
    assert!(desired.frozen.may_contain(&key("a/web"), Some("clusters/a/web")));
}

#[test]
fn two_groups_with_one_work_name_are_an_error_that_names_both() {
    let repository = files(&[
        ("groups/g/group.yaml", "clusters: [a, b]"),
        ("groups/g/web/x.yaml", &config_map("x", "g")),
        ("groups/h/group.yaml", "clusters: [b, c]"),
        ("groups/h/site/x.yaml", &config_map("x", "h")),
        ("groups/h/site/work.yaml", "name: web"),
    ]);
    let desired = render(&repository, None);
    assert_eq!(works(&desired), ["a/web <- groups/g/web: g", "c/web <- groups/h/site: h"]);
    let clash = desired.diagnostics.iter().find(|one| one.code == Code::DuplicateWork).unwrap();
    let places = [&clash.location.file, &clash.related[0].0.file];
    assert_eq!(places.map(RepoPath::as_str), ["groups/h/site", "groups/g/web"]);
    assert!(desired.frozen.contains(&key("b/web")));
    // With a folder of its own, the cluster has its own way.
    let mut replaced = repository;
    replaced.insert("clusters/b/web/work.yaml".into(), "replaces: group".into());
    replaced.insert("clusters/b/web/x.yaml".into(), TestFile::Text(config_map("x", "own")));
    assert_eq!(works(&render(&replaced, None))[1], "b/web <- clusters/b/web: own");
}

#[test]
fn folder_of_a_group_replaces_nothing() {
    let repository = files(&[
        ("groups/g/group.yaml", "clusters: [a]"),
        ("groups/g/web/x.yaml", &config_map("x", "g")),
        ("groups/g/web/work.yaml", "replaces: group"),
    ]);
    let desired = render(&repository, None);
    assert_eq!(messages(&desired).len(), 1);
    assert!(messages(&desired)[0].starts_with("GW303 groups/g/web/work.yaml: the folder of a"));
    assert!(desired.frozen.may_contain(&key("a/web"), Some("groups/g/web")));
}

#[test]
fn unknown_members_keep_what_the_hub_has() {
    let repository = files(&[
        ("groups/g/group.yaml", "selector: {labelSelector: {matchLabels: {tier: edge}}}"),
        ("groups/g/web/x.yaml", &config_map("x", "g")),
        ("clusters/a/own/y.yaml", &config_map("yy", "own")),
    ]);
    let desired = render(&repository, None);
    // It may be a member: its own works go on, and none of them drops what may have moved.
    assert_eq!(works(&desired), ["a/own <- clusters/a/own: own"]);
    assert_eq!(desired.frozen.objects.len(), 1);
    assert_eq!(desired.frozen.objects[&key("a/web")].objects.len(), 1);
    for cluster in ["a", "never-seen"] {
        let key = key(&format!("{cluster}/old"));
        assert!(desired.frozen.may_contain(&key, Some("groups/g/old")), "{cluster}");
    }
    // The folder may have gone to the group. Of a known cluster, it is known what it may have then.
    for (cluster, may_have) in [("a", false), ("never-seen", true)] {
        let key = key(&format!("{cluster}/old"));
        let path = Some("groups/other/old");
        assert_eq!(desired.frozen.may_contain(&key, path), may_have, "{cluster}");
    }
    assert_eq!(
        messages(&desired),
        ["GW601 groups/g/group.yaml: the members of the group g are unknown: there are no facts \
          of the hub"]
    );
    assert!(!desired.diagnostics[0].is_error());
    // With facts, a cluster that is not in them has left.
    let desired = render(&repository, Some(facts(&["b tier=edge"])));
    assert!(!desired.frozen.may_contain(&key("gone/web"), Some("groups/g/web")));
    let all = ["a/own <- clusters/a/own: own", "b/web <- groups/g/web: g"];
    assert_eq!(works(&desired), all);
}

#[test]
fn an_error_in_a_group_freezes_this_group_only() {
    let repository = files(&[
        ("groups/g/group.yaml", "clusters: [a]\nclusterss: [b]"),
        ("groups/g/web/x.yaml", &config_map("x", "g")),
        ("groups/h/group.yaml", "clusters: [a]"),
        ("groups/h/db/y.yaml", &config_map("yy", "h")),
        ("groups/none/x/y.yaml", &config_map("yy", "none")),
    ]);
    let desired = render(&repository, None);
    assert_eq!(works(&desired), ["a/db <- groups/h/db: h"]);
    let groups: Vec<&str> = desired.frozen.groups.keys().map(GroupName::as_str).collect();
    assert_eq!(groups, ["g", "none"]);
    assert!(desired.frozen.may_contain(&key("b/web"), Some("groups/g/web")));
    assert!(!desired.frozen.may_contain(&key("b/db"), Some("groups/h/db")));
    let errors = desired.diagnostics.iter().filter(|one| one.is_error());
    let scopes: BTreeSet<String> = errors.map(|one| format!("{:?}", one.scope)).collect();
    assert_eq!(scopes.into_iter().collect::<Vec<_>>(), ["Group(\"g\")", "Group(\"none\")"]);
}

#[test]
fn a_work_that_needs_unknown_facts_keeps_what_the_hub_has() {
    let repository = files(&[
        ("groups/g/group.yaml", "clusters: [a, b]\ndefaults: {substitute: true}"),
        ("groups/g/web/x.yaml", &config_map("x", "${cluster.labels[\"a.b/city\"]}")),
        ("clusters/b/cluster.yaml", "labels: {a.b/city: Bonn}"),
    ]);
    let desired = render(&repository, None);
    assert_eq!(works(&desired), ["b/web <- groups/g/web: Bonn"]);
    assert_eq!(
        messages(&desired),
        ["GW604 groups/g/web/x.yaml: ${cluster.labels[\"a.b/city\"]} needs the facts of the \
          cluster a"]
    );
    assert!(!desired.diagnostics[0].is_error());
    assert!(desired.frozen.may_contain(&key("a/web"), Some("groups/g/web")));
    assert!(desired.frozen.objects[&key("a/web")].unread.len() == 1);
    let desired = render(&repository, Some(facts(&["a", "b"])));
    assert_eq!(desired.diagnostics[0].code, Code::UnknownVariable);
}

#[test]
fn the_policy_bounds_a_group_whatever_labels_say() {
    let rule = "{paths: ['groups/edge/*'], clusters: ['edge-*']}";
    let rules: Vec<TenantRule> = serde_yaml::from_str(&format!("[{rule}]")).unwrap();
    let repository = files(&[EDGE, ("groups/edge/web/x.yaml", &config_map("x", "g"))]);
    let mut renderer = renderer().with_tenancy(rules.into());
    renderer.set_facts(Some(Arc::new(facts(&["edge-1 tier=edge", "prod-1 tier=edge"]))));
    let desired = render_into(&mut renderer, &mut TestRepository::default(), &repository);
    assert_eq!(works(&desired), ["edge-1/web <- groups/edge/web: g"]);
    assert_eq!(
        messages(&desired),
        ["GW501 groups/edge/web: this folder may have no works on the cluster prod-1"]
    );
    assert!(!desired.diagnostics[0].is_error(), "a cluster that labels itself is no error in Git");
    // It keeps nothing of other clusters.
    assert!(!desired.frozen.may_contain(&key("edge-9/web"), Some("groups/edge/web")));
    assert!(desired.frozen.may_contain(&key("prod-1/web"), Some("groups/edge/web")));
}

/// A group `g` of so many clusters `c0`, `c1`, ... whose works use the label `size`.
fn fleet(clusters: usize) -> (TestFiles, Facts) {
    let repository = files(&[
        ("groups/g/group.yaml", "clusters: ['*']\ndefaults: {substitute: true}"),
        ("groups/g/plain/x.yaml", &config_map("x", "plain")),
        ("groups/g/sized/y.yaml", &config_map("yy", "${cluster.labels[\"size\"]}")),
    ]);
    let names: Vec<String> = (0..clusters)
        .map(|n| format!("c{n} size={}", if n % 2 == 0 { "s" } else { "l" }))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    (repository, facts(&names))
}

#[test]
fn equal_results_are_rendered_and_held_once() {
    let (repository, facts) = fleet(100);
    let mut renderer = renderer();
    renderer.set_facts(Some(Arc::new(facts)));
    let mut objects = TestRepository::default();
    let desired = render_into(&mut renderer, &mut objects, &repository);
    assert_eq!(desired.works.len(), 200);
    assert_eq!(objects.manifest_reads(), 3, "one for each distinct content");
    let bodies: BTreeSet<usize> =
        desired.works.values().map(|work| Arc::as_ptr(&work.body).addr()).collect();
    assert_eq!(bodies.len(), 3);
}

#[test]
fn change_of_one_label_renders_the_works_of_its_cluster_only() {
    let (repository, mut facts) = fleet(100);
    let mut renderer = renderer();
    renderer.set_facts(Some(Arc::new(facts.clone())));
    let mut objects = TestRepository::default();
    let before = render_into(&mut renderer, &mut objects, &repository);
    objects.forget_manifest_reads();
    let changed = ClusterName::parse("c7").unwrap();
    let labels = [("size".to_owned(), "huge".to_owned())].into();
    let new = ClusterFacts { labels, ..ClusterFacts::default() };
    facts.managed_clusters.insert(changed.clone(), Arc::new(new));
    renderer.set_facts(Some(Arc::new(facts)));
    let after = render_into(&mut renderer, &mut objects, &repository);
    assert_eq!(objects.manifest_reads(), 1, "only the work that uses the label is rendered");
    for (key, work) in &after.works {
        let is_new = key.cluster == changed && key.work.as_str() == "sized";
        assert_eq!(Arc::ptr_eq(&work.body, &before.works[key].body), !is_new, "{key}");
    }
}

/// A work as it is sent, without the path of its folder.
fn sent(desired: &Desired) -> BTreeMap<WorkKey, Value> {
    let body = |(key, work): (&WorkKey, &Arc<DesiredWork>)| {
        let WorkMetadata { labels, mut annotations } = work.body.metadata();
        annotations.remove(ANNOTATION_PATH);
        let metadata = serde_json::json!({"labels": labels, "annotations": annotations});
        let spec = work.body.spec.value();
        (key.clone(), serde_json::json!({"metadata": metadata, "spec": spec}))
    };
    desired.works.iter().map(body).collect()
}

/// Texts with variables, and the value that each has on the cluster `c1`: label `l` in Git, `h` on
/// the hub, `A` in group and cluster, `B` in the group.
fn texts() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("plain", "plain"),
        ("${A}", "2"),
        ("${B}", "[1, {x: y}]"),
        ("${C:-7}", "7"),
        ("${cluster.name}", "c1"),
        ("${cluster.labels[\"l\"]}", "git"),
        ("${cluster.labels[\"h\"]}", "hub"),
        ("${cluster.labels[\"n\"]:-none}", "none"),
        ("x-${A}-${cluster.name}", "x-2-c1"),
    ])
}

fn manifest(number: usize, value: &str) -> String {
    let names = format!("kind: Thing{number}\nmetadata: {{name: a, namespace: x}}");
    format!("apiVersion: v1\n{names}\nspec:\n  v: {value}\n")
}

/// A repository with groups, in as many versions as there are bits.
fn changing_repository(in_git: u16) -> TestFiles {
    let bit = |at: u16| in_git & (1 << at) != 0;
    let mut repository = files(&[
        ("groups/g/web/x.yaml", &config_map("x", "${A:-1} ${cluster.name}")),
        ("groups/g/same/y.yaml", &config_map("yy", "${cluster.labels[\"l\"]:-none}")),
        ("groups/h/group.yaml", "clusters: ['*']\nexclude: [c2]"),
        ("groups/h/plain/z.yaml", &config_map("z", "plain")),
        ("clusters/c1/own/o.yaml", &config_map("o", "own")),
    ]);
    let group = match (bit(0), bit(1)) {
        (true, _) => "clusters: [c1, c3]\nvalues: {A: 5}\ndefaults: {substitute: true}",
        (_, true) => {
            "selector: {labelSelector: {matchLabels: {l: m}}}\n\
                      defaults: {substitute: true}"
        }
        _ => "clusters: ['c*']\nvalues: {A: 6}\ndefaults: {substitute: true}",
    };
    repository.insert("groups/g/group.yaml".into(), group.into());
    if bit(2) {
        repository.insert("clusters/c1/cluster.yaml".into(), "values: {A: 7}".into());
    }
    if bit(3) {
        repository.insert("clusters/c2/cluster.yaml".into(), "labels: {l: m}".into());
    }
    if bit(4) {
        repository.insert("clusters/c1/web/x.yaml".into(), TestFile::Text(config_map("x", "mine")));
        let replaces = if bit(5) { "replaces: group" } else { "{}" };
        repository.insert("clusters/c1/web/work.yaml".into(), replaces.into());
    }
    if bit(6) {
        repository
            .insert("groups/g/web/x.yaml".into(), TestFile::Text(config_map("x", "${A} changed")));
    }
    if bit(7) {
        repository.insert("groups/h/group.yaml".into(), "clusters: 3".into());
    }
    repository
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Rendering a group for a cluster equals rendering a copy of the folder, with the values
    /// written out, in that cluster's own folder.
    #[test]
    fn group_renders_as_a_copy_in_the_cluster_would(
        texts in prop::collection::vec(texts(), 1..5),
        prune in prop::option::of(any::<bool>()),
        work_label in prop::option::of("w[a-z]{1,3}"),
    ) {
        let settings = |more: String| {
            let prune = prune.map_or_else(String::new, |prune| format!("prune: {prune}, "));
            format!("{{{prune}labels: {{of: group}}, {more}}}")
        };
        let cluster = "labels: {l: git}\nvalues: {A: 2}\n";
        let group = format!(
            "clusters: ['c*']\nvalues: {{A: 1, B: [1, {{x: y}}]}}\ndefaults: {}\n",
            settings("substitute: true".into())
        );
        let work_file = work_label.map(|label| format!("labels: {{of: {label}}}"));
        let mut grouped = files(&[
            ("groups/g/group.yaml", &group),
            ("clusters/c1/cluster.yaml", cluster),
        ]);
        let mut copied = files(&[
            ("clusters/c1/cluster.yaml", &format!("{cluster}defaults: {}", settings("".into()))),
        ]);
        for (number, (text, value)) in texts.iter().enumerate() {
            let file = format!("m{number}.yaml");
            grouped.insert(format!("groups/g/w/{file}"), TestFile::Text(manifest(number, text)));
            copied.insert(format!("clusters/c1/w/{file}"), TestFile::Text(manifest(number, value)));
        }
        if let Some(text) = work_file {
            grouped.insert("groups/g/w/work.yaml".into(), TestFile::Text(text.clone()));
            copied.insert("clusters/c1/w/work.yaml".into(), TestFile::Text(text));
        }
        let facts = facts(&["c1 h=hub l=other", "c2"]);
        let mut grouped = render(&grouped, Some(facts.clone()));
        grouped.works.retain(|key, _| key.cluster.as_str() == "c1");
        let copied = render(&copied, Some(facts));
        prop_assert_eq!(sent(&copied).len(), 1, "{:?}", messages(&copied));
        prop_assert_eq!(sent(&grouped), sent(&copied));
    }

    /// One renderer, pass after pass, finds what a new one finds: with other files and facts, no
    /// work has another cluster's values.
    #[test]
    fn passes_with_other_files_and_facts_give_what_a_new_renderer_gives(
        passes in prop::collection::vec((any::<u16>(), any::<u16>(), any::<bool>()), 1..8),
    ) {
        let mut kept = renderer();
        let mut objects = TestRepository::default();
        for (in_git, on_hub, has_facts) in passes {
            let bit = |bits: u16, at: u16| bits & (1 << at) != 0;
            let repository = changing_repository(in_git);
            let clusters: Vec<String> = (0..4)
                .filter(|n| bit(on_hub, *n))
                .map(|n| format!("c{n}{}", if bit(on_hub, 4 + n) { " l=m" } else { " k=v" }))
                .collect();
            let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
            let mut facts = facts(&clusters);
            facts.is_partial = bit(on_hub, 8);
            let facts = has_facts.then(|| Arc::new(facts));
            kept.set_facts(facts.clone());
            let mut new = renderer();
            new.set_facts(facts);
            let kept = render_into(&mut kept, &mut objects, &repository);
            let new = render_into(&mut new, &mut objects, &repository);
            prop_assert_eq!(works(&kept), works(&new));
            prop_assert_eq!(sent(&kept), sent(&new));
            prop_assert_eq!(&kept.frozen, &new.frozen);
            prop_assert_eq!(messages(&kept), messages(&new));
            for (key, work) in &kept.works {
                let other = (0..4).map(|n| format!("c{n}")).find(|n| n != key.cluster.as_str()
                    && work.body.spec.value().to_string().contains(&format!(" {n}")));
                prop_assert_eq!(other, None, "{}", key);
            }
        }
    }
}
