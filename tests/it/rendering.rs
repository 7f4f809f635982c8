//! Repositories into ManifestWorks: layout, precedence, sidecars, and what is wrong.

use std::collections::BTreeMap;

use gitwork::core::desired::{Desired, Renderer};
use gitwork::core::diagnostic::{Code, Scope};
use gitwork::core::name::{RepoPath, WorkKey};
use gitwork::core::snapshot::Snapshot;
use gitwork::core::tenancy::{Tenancy, TenantRule};
use gitwork::limits;
use serde_json::{Value, json};

use crate::memory::{File, MemoryObjects, files, render, render_within, source};

const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n";
const DEPLOYMENT: &str =
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {}\n";

fn spec(desired: &Desired, key: &str) -> Value {
    let work = desired.works.values().find(|work| work.key.to_string() == key);
    work.unwrap_or_else(|| panic!("no work {key}; {:#?}", desired.diagnostics)).body.spec.value()
}

fn codes(desired: &Desired) -> Vec<(String, Code)> {
    desired.diagnostics.iter().map(|d| (d.location.file.to_string(), d.code)).collect()
}

fn key(desired: &Desired) -> Vec<String> {
    desired.works.keys().map(ToString::to_string).collect()
}

/// A tenant that takes another's name and object, and one whose folder is called as another's work is.
#[test]
fn a_tenant_that_reaches_too_far_freezes_its_own_work_and_nobody_elses() {
    let rule = |path: &str, work: &str, namespace: &str| TenantRule {
        paths: Some(vec![path.into()]),
        works: Some(vec![work.into()]),
        namespaces: Some(vec![namespace.into()]),
        ..TenantRule::default()
    };
    let tenancy: Tenancy = vec![
        rule("clusters/*/shop", "shop", "shop"),
        rule("clusters/*/bank", "vault", "bank"),
        rule("clusters/*/evil*", "evil*", "evil"),
        rule("clusters/*/vault", "evil*", "evil"),
    ]
    .into();
    let object = |name: &str, namespace: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\n"
        )
    };
    let (shop, bank, evil) = (object("a", "shop"), object("b", "bank"), object("c", "evil"));
    let desired = render_within(
        &files(&[
            ("clusters/edge-1/shop/a.yaml", &shop),
            ("clusters/edge-1/bank/b.yaml", &bank),
            ("clusters/edge-1/bank/work.yaml", "name: vault\n"),
            ("clusters/edge-1/evil-name/c.yaml", &evil),
            ("clusters/edge-1/evil-name/work.yaml", "name: shop\n"),
            ("clusters/edge-1/evil-object/a.yaml", &format!("{evil}---\n{shop}")),
            ("clusters/edge-1/evil-fine/c.yaml", &object("fine", "evil")),
            ("clusters/edge-1/vault/c.yaml", &object("d", "bank")),
            ("clusters/edge-1/unknown/c.yaml", &object("e", "evil")),
        ]),
        tenancy,
    );
    assert_eq!(key(&desired), ["edge-1/evil-fine", "edge-1/shop", "edge-1/vault"]);
    let told: Vec<String> = desired
        .diagnostics
        .iter()
        .map(|found| {
            let line = found.location.span.map_or(0, |span| span.line);
            assert_eq!(found.code, Code::NotAllowed, "{found:?}");
            format!("{}:{line}: {}", found.location.file, found.message)
        })
        .collect();
    assert_eq!(
        told,
        [
            "clusters/edge-1/evil-name/work.yaml:1: this folder may have no work named shop",
            "clusters/edge-1/evil-object/a.yaml:7: this folder may have no ConfigMap in the namespace shop",
            "clusters/edge-1/unknown:0: no rule of the operator's policy is for this folder",
            "clusters/edge-1/vault:0: this folder may have no work named vault",
        ]
    );
    let frozen = |name: &str| {
        let path = format!("clusters/edge-1/{name}");
        desired.frozen.folders.contains(&RepoPath::parse(&path).unwrap())
    };
    assert!(frozen("evil-name") && frozen("evil-object") && frozen("vault") && !frozen("bank"));
}

#[test]
fn a_work_folder_becomes_a_manifest_work() {
    let desired = render(&files(&[
        ("clusters/edge-1/web/b.yaml", CONFIG_MAP),
        ("clusters/edge-1/web/a/deploy.yml", DEPLOYMENT),
        (
            "clusters/edge-1/web/z.json",
            r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","creationTimestamp":null}}"#,
        ),
        ("clusters/edge-1/web/README.md", "# no manifest"),
    ]));
    assert_eq!(codes(&desired), []);
    let key: WorkKey = desired.works.keys().next().unwrap().clone();
    let work = desired.works[&key].body.to_manifest_work(&key, None);
    insta::assert_snapshot!("a_manifest_work", serde_json::to_string_pretty(&work).unwrap());
}

#[test]
fn settings_of_lower_levels_win() {
    let desired = render(&files(&[
        (
            "gitwork.yaml",
            "defaults:\n  labels: {tier: base, owner: platform}\n  deleteOption: {propagationPolicy: Orphan}\n  prune: false\n",
        ),
        ("clusters/a/cluster.yaml", "defaults:\n  labels: {tier: gold}\n  prune: true\n"),
        ("clusters/a/web/work.yaml", "labels: {tier: web}\nname: shop-web\n"),
        ("clusters/a/web/x.yaml", CONFIG_MAP),
        ("clusters/b/web/x.yaml", CONFIG_MAP),
    ]));
    assert_eq!(codes(&desired), []);
    assert_eq!(key(&desired), ["a/shop-web", "b/web"]);
    let [a, b] = <[_; 2]>::try_from(desired.works.values().collect::<Vec<_>>()).unwrap();
    assert_eq!(
        (
            a.body.metadata().labels["tier"].as_str(),
            a.body.metadata().labels["owner"].as_str(),
            a.prune
        ),
        ("web", "platform", true)
    );
    assert_eq!((b.body.metadata().labels["tier"].as_str(), b.prune), ("base", false));
    assert_eq!(spec(&desired, "b/web")["deleteOption"], json!({"propagationPolicy": "Orphan"}));
}

#[test]
fn manifest_configs_get_their_identifier_and_the_nearest_rule() {
    let desired = render(&files(&[
        (
            "gitwork.yaml",
            "defaults:\n  manifestConfigs:\n  - resourceIdentifier: {group: apps, resource: deployments, namespace: '*', name: '*'}\n    feedbackRules: [{type: WellKnownStatus}]\n    updateStrategy: {type: CreateOnly}\n",
        ),
        ("clusters/a/web/deploy.yaml", &format!("{DEPLOYMENT}---\n{CONFIG_MAP}")),
        (
            "clusters/a/web/deploy.config.yaml",
            "match: {kind: Deployment}\nupdateStrategy: {type: ServerSideApply}\norphan: true\n",
        ),
        ("clusters/a/web/mouse.yaml", "apiVersion: x.io/v1\nkind: Mouse\nmetadata: {name: m}\n"),
        ("clusters/a/web/mouse.config.yaml", "orphan: true\nupdateStrategy: {type: ReadOnly}\n"),
        (
            "clusters/b/crds/mice.yaml",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: mice.x.io}\nspec: {group: x.io, scope: Cluster, names: {kind: Mouse, plural: mice}}\n",
        ),
    ]));
    assert_eq!(codes(&desired), []);
    let spec = spec(&desired, "a/web");
    assert_eq!(
        spec["manifestConfigs"],
        json!([
            {
                "resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "shop", "name": "web"},
                "feedbackRules": [{"type": "WellKnownStatus"}],
                "updateStrategy": {"type": "ServerSideApply"},
            },
            {
                "resourceIdentifier": {"group": "x.io", "resource": "mice", "name": "m"},
                "updateStrategy": {"type": "ReadOnly"},
            },
        ])
    );
    assert_eq!(
        spec["deleteOption"],
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
            {"group": "apps", "resource": "deployments", "namespace": "shop", "name": "web"},
            {"group": "x.io", "resource": "mice", "name": "m"},
        ]}})
    );
}

#[test]
fn every_problem_is_found_in_one_run_and_freezes_only_its_own_work() {
    let desired = render(&files(&[
        ("clusters/a/good/x.yaml", CONFIG_MAP),
        ("clusters/a/broken/x.yaml", "a: [\n"),
        ("clusters/a/broken/y.yaml", "kind: Pod\n"),
        ("clusters/a/empty/README.md", ""),
        ("clusters/a/unnamed/work.yaml", "nam: x\n"),
        (
            "clusters/a/unnamed/x.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x, namespace: a}\n",
        ),
        ("clusters/a/lonely/x.config.yaml", "orphan: true\n"),
        ("clusters/a/lonely/y.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"),
        ("clusters/a/twice/x.yaml", &format!("{DEPLOYMENT}---\n{DEPLOYMENT}")),
        ("clusters/a/kust/kustomization.yaml", "resources: []\n"),
        ("clusters/a/stray.yaml", "a: 1\n"),
    ]));
    assert_eq!(key(&desired), ["a/good"]);
    let mut found = codes(&desired);
    found.sort();
    assert_eq!(
        found.iter().map(|(file, code)| (file.as_str(), *code)).collect::<Vec<_>>(),
        [
            ("clusters/a/broken/x.yaml", Code::YamlSyntax),
            ("clusters/a/broken/y.yaml", Code::MissingField),
            ("clusters/a/broken/y.yaml", Code::MissingField),
            ("clusters/a/empty", Code::EmptyWork),
            ("clusters/a/kust/kustomization.yaml", Code::NotSupported),
            ("clusters/a/lonely/x.config.yaml", Code::MatchesNothing),
            ("clusters/a/lonely/y.yaml", Code::MissingNamespace),
            ("clusters/a/stray.yaml", Code::StrayFile),
            ("clusters/a/twice/x.yaml", Code::DuplicateObject),
            ("clusters/a/unnamed/work.yaml", Code::UnknownField),
            ("clusters/a/unnamed/x.yaml", Code::MissingField),
            ("clusters/a/unnamed/x.yaml", Code::GenerateName),
        ]
    );
    for name in ["broken", "empty", "kust", "lonely", "twice", "unnamed"] {
        let path = RepoPath::parse(&format!("clusters/a/{name}")).unwrap();
        assert!(desired.frozen.folders.contains(&path), "{name}");
    }
    assert!(!desired.frozen.source && desired.frozen.clusters.is_empty());
}

#[test]
fn one_object_in_two_works_freezes_both() {
    let desired = render(&files(&[
        ("clusters/a/one/x.yaml", CONFIG_MAP),
        ("clusters/a/two/x.yaml", CONFIG_MAP),
        ("clusters/a/three/x.yaml", DEPLOYMENT),
        ("clusters/b/one/x.yaml", CONFIG_MAP),
    ]));
    assert_eq!(key(&desired), ["a/three", "b/one"]);
    assert_eq!(
        codes(&desired),
        [
            ("clusters/a/one/x.yaml".into(), Code::ObjectInTwoWorks),
            ("clusters/a/two/x.yaml".into(), Code::ObjectInTwoWorks)
        ]
    );
}

#[test]
fn two_folders_of_one_name_freeze_the_name() {
    let desired = render(&files(&[
        ("clusters/a/one/x.yaml", CONFIG_MAP),
        ("clusters/a/two/x.yaml", DEPLOYMENT),
        ("clusters/a/two/work.yaml", "name: one\n"),
    ]));
    assert_eq!(key(&desired), Vec::<String>::new());
    assert_eq!(codes(&desired), [("clusters/a/two".into(), Code::DuplicateWork)]);
    assert!(desired.frozen.works.iter().any(|key| key.to_string() == "a/one"));
}

#[test]
fn what_this_version_cannot_read_holds_deletes() {
    let desired = render(&files(&[
        ("clusters/a/one/x.yaml", CONFIG_MAP),
        ("groups/all/group.yaml", "clusters: ['*']\n"),
    ]));
    assert_eq!(key(&desired), ["a/one"], "the rest goes on");
    assert!(desired.frozen.deletes);
    let desired = render(&files(&[("README.md", "")]));
    assert!(desired.frozen.source);
    assert_eq!(codes(&desired), [("clusters".into(), Code::NoClusters)]);
}

#[test]
fn a_source_past_its_bounds_is_frozen_and_not_read() {
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
fn links_and_submodules() {
    let mut repository = files(&[
        ("clusters/a/web/base/x.yaml", CONFIG_MAP),
        ("clusters/a/other/y.yaml", DEPLOYMENT),
    ]);
    repository.insert("clusters/a/web/base/y.yaml".into(), File::Link("../../other/y.yaml".into()));
    repository.insert("clusters/b/web/x.yaml".into(), File::from(CONFIG_MAP));
    repository.insert("clusters/b/web/copy.yaml".into(), File::Link("x.yaml".into()));
    repository.insert("clusters/c/web/sub".into(), File::Submodule);
    repository.insert("clusters/c/web/x.yaml".into(), File::from(CONFIG_MAP));
    let desired = render(&repository);
    assert_eq!(
        codes(&desired),
        [
            ("clusters/a/web/base/y.yaml".into(), Code::SymlinkOutside),
            ("clusters/b/web/x.yaml".into(), Code::DuplicateObject),
            ("clusters/c/web/sub".into(), Code::Gitlink),
        ]
    );
    assert_eq!(key(&desired), ["a/other"]);
}

#[test]
fn variables_are_strict() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}\ndata: {c: \"${CLUSTER_NAME}-${REGION}\"}\n";
    let repository = |values: &str| {
        files(&[
            ("gitwork.yaml", "defaults: {substitute: true}\n"),
            ("clusters/a/cluster.yaml", values),
            ("clusters/a/web/x.yaml", text),
        ])
    };
    let desired = render(&repository("values: {REGION: eu}\n"));
    assert_eq!(spec(&desired, "a/web")["workload"]["manifests"][0]["data"]["c"], "a-eu");
    let desired = render(&repository("values: {REGIO: eu}\n"));
    assert_eq!(codes(&desired), [("clusters/a/web/x.yaml".into(), Code::UnknownVariable)]);
    let desired = render(&repository("values: {CLUSTER_NAME: eu}\n"));
    assert!(codes(&desired).contains(&("clusters/a/cluster.yaml".into(), Code::BadValue)));
    assert!(desired.frozen.clusters.iter().any(|name| name.as_str() == "a"));
}

#[test]
fn lists_are_flattened() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- {apiVersion: v1, kind: Namespace, metadata: {name: b}}\n---\napiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: c, namespace: a}\n";
    let desired = render(&files(&[("clusters/a/web/x.yaml", list)]));
    assert_eq!(codes(&desired), []);
    let manifests = spec(&desired, "a/web")["workload"]["manifests"].clone();
    let kinds: Vec<&Value> = manifests.as_array().unwrap().iter().map(|m| &m["kind"]).collect();
    assert_eq!(kinds, ["Namespace", "Namespace", "ConfigMap"]);
}

#[test]
fn plain_secrets_follow_the_policy() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: a}\nstringData: {password: canary}\n";
    for (policy, works, found) in [("allow", 1, 0), ("warn", 1, 1), ("refuse", 0, 1)] {
        let desired = render(&files(&[
            ("gitwork.yaml", &format!("secrets: {policy}\n")),
            ("clusters/a/web/x.yaml", secret),
        ]));
        assert_eq!((desired.works.len(), desired.diagnostics.len()), (works, found), "{policy}");
        assert!(!format!("{:?}", desired.diagnostics).contains("canary"));
    }
}

#[test]
fn a_work_over_the_hubs_limit_names_its_largest_objects() {
    let map = |name: &str, bytes: usize| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: a}}\ndata: {{x: \"{}\"}}\n",
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
fn only_what_changed_is_read_again() {
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
    for (key, work) in render(&repository).works {
        assert_eq!(
            work.body.digest, second.works[&key].body.digest,
            "a cached pass gives what a fresh one gives: {key}"
        );
    }
}

#[test]
fn a_damaged_object_database_is_no_empty_repository() {
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
fn an_unreadable_work_file_freezes_the_folder_whatever_its_work_was_called() {
    let desired = render(&files(&[
        ("clusters/a/web/x.yaml", CONFIG_MAP),
        ("clusters/a/web/work.yaml", "name: [\n"),
    ]));
    let old = WorkKey {
        cluster: desired.frozen.works.iter().next().unwrap().cluster.clone(),
        work: gitwork::core::name::WorkName::parse("shop").unwrap(),
    };
    assert!(desired.frozen.holds(&old, Some("clusters/a/web")));
    assert!(!desired.frozen.holds(&old, Some("clusters/a/other")));
    assert!(desired.diagnostics.iter().all(|d| matches!(d.scope, Scope::Work(_))));
}

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: shop, namespace: shop}\n";

#[test]
fn a_sidecar_names_the_plural_that_no_crd_of_the_repository_tells() {
    let desired = render(&files(&[
        ("clusters/a/web/gateway.yaml", GATEWAY),
        ("clusters/a/web/gateway.config.yaml", "resource: gateways\norphan: true\n"),
    ]));
    assert_eq!(codes(&desired), [], "nothing is guessed");
    let rules = &spec(&desired, "a/web")["deleteOption"]["selectivelyOrphans"]["orphaningRules"];
    assert_eq!(rules[0]["resource"], "gateways");
}

#[test]
fn a_plural_that_cannot_be_right_is_refused() {
    let sidecar = "clusters/a/web/x.config.yaml";
    for (manifest, config, expected) in [
        (GATEWAY, "resource: Gateways\n", Code::BadValue),
        (DEPLOYMENT, "resource: deployment\n", Code::BadValue),
        (
            GATEWAY,
            "resource: gateways\n---\nmatch: {name: shop}\nresource: gates\n",
            Code::RuleConflict,
        ),
    ] {
        let desired = render(&files(&[("clusters/a/web/x.yaml", manifest), (sidecar, config)]));
        let errors: Vec<_> =
            codes(&desired).into_iter().filter(|(_, code)| *code != Code::GuessedPlural).collect();
        assert_eq!(errors, [(sidecar.to_owned(), expected)], "{config}");
        assert!(desired.works.is_empty());
    }
}
