use std::sync::Arc;

use super::*;
use crate::model::name::{ClusterName, ObjectId, RepoPath, SourceId, WorkName};
use crate::model::snapshot::Snapshot;
use crate::plan::folder_removal::{FolderRemoval, last_dependencies, last_known_state};
use crate::render::desired::Desired;
use crate::render::renderer::group_tests::facts;
use crate::render::test_repository::{TestFiles, TestRepository, files, render};

/// A work folder with this work.yaml.
fn work(folder: &str, text: &str) -> TestFiles {
    let name = folder.replace('/', "-");
    let manifest =
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{namespace: x, name: {name}}}}}");
    let (map, file) = (format!("{folder}/x.yaml"), format!("{folder}/work.yaml"));
    files(&[(&map, &manifest), (&file, text)])
}

fn all(works: &[(&str, &str)]) -> TestFiles {
    works.iter().flat_map(|(folder, text)| work(folder, text)).collect()
}

fn key(text: &str) -> WorkKey {
    let (cluster, work) = text.split_once('/').unwrap();
    let (cluster, work) = (ClusterName::parse(cluster).unwrap(), WorkName::parse(work).unwrap());
    WorkKey { cluster, work }
}

/// `file:line:column: message` of each error.
fn errors(desired: &Desired) -> Vec<String> {
    let errors = desired.diagnostics.iter().filter(|found| found.is_error());
    let place = |found: &Diagnostic| {
        let Location { file, span } = &found.location;
        let at = span.map(|span| format!(":{}:{}", span.line, span.column)).unwrap_or_default();
        format!("{file}{at}: {}", found.message)
    };
    errors.map(place).collect()
}

#[test]
fn dependencies_are_works_of_the_same_cluster_or_of_a_named_one() {
    let desired = render(
        &all(&[
            ("clusters/a/app", "dependsOn: [base, {cluster: b, work: db}, {work: base}]\n"),
            ("clusters/a/base", ""),
            ("clusters/b/db-1", "name: db\n"),
            ("clusters/c/x", ""),
            ("groups/g/web", "dependsOn: [base]\n"),
            ("groups/g/base", ""),
        ])
        .into_iter()
        .chain(files(&[("groups/g/group.yaml", "clusters: [c, d]\n")]))
        .collect(),
        "[]",
    );
    assert_eq!(errors(&desired), Vec::<String>::new());
    let depends_on = |name: &str| -> Vec<String> {
        desired.works[&key(name)].depends_on.iter().map(WorkKey::to_string).collect()
    };
    assert_eq!(depends_on("a/app"), ["a/base", "b/db"]);
    assert_eq!(depends_on("c/web"), ["c/base"], "each member of a group has its own");
    assert_eq!(depends_on("d/web"), ["d/base"]);
    assert_eq!(depends_on("a/base"), Vec::<String>::new());
}

#[test]
fn unknown_and_invalid_names_freeze_the_dependent_work_only() {
    let desired = render(
        &all(&[
            ("clusters/a/app", "dependsOn:\n- base\n- bse\n- {cluster: b, work: base}\n"),
            ("clusters/a/base", ""),
            ("clusters/c/bad", "dependsOn: [Bad_, {cluster: UP, work: base}, {cluster: b}]\n"),
        ]),
        "[]",
    );
    assert_eq!(
        errors(&desired),
        [
            "clusters/a/app/work.yaml:3:3: a/app depends on a/bse, and Git has no such work",
            "clusters/a/app/work.yaml:4:3: a/app depends on b/base, and Git has no such work",
            "clusters/c/bad/work.yaml:1:46: work is missing",
        ]
    );
    assert_eq!(desired.works.keys().collect::<Vec<_>>(), [&key("a/base")]);
    assert_eq!(desired.frozen.works, [key("a/app"), key("c/bad")].into());
    let bad = work("clusters/c/bad", "dependsOn: [Bad_, {cluster: UP, work: base}]\n");
    let said = errors(&render(&bad, "[]")).join("\n");
    assert!(said.contains("work.yaml:1:13: \"Bad_\" cannot be the name of a work"), "{said}");
    assert!(said.contains("work.yaml:1:19: \"UP\" cannot be the name of a cluster"), "{said}");
}

#[test]
fn work_that_may_be_there_is_not_unknown() {
    let app = ("clusters/a/app", "dependsOn: [base]\n");
    let mut broken = all(&[app, ("clusters/a/base", "")]);
    broken.extend(files(&[("clusters/a/base/broken.yaml", "{")]));
    let mut unnamed = all(&[app, ("clusters/a/other", "name: [\n")]);
    unnamed.extend(files(&[("clusters/a/other/x.yaml", "{}")]));
    let mut uncertain = all(&[app, ("groups/g/base", "")]);
    uncertain.extend(files(&[("groups/g/group.yaml", "selector: {matchLabels: {x: y}}\n")]));
    for files in [broken, unnamed, uncertain] {
        let desired = render(&files, "[]");
        let said = errors(&desired).join("\n");
        assert!(!said.contains("depends on"), "{said}");
        assert!(desired.works.contains_key(&key("a/app")), "{said}");
    }
}

#[test]
fn cycles_are_errors_of_all_their_works_and_of_no_other() {
    let desired = render(
        &all(&[
            ("clusters/a/one", "dependsOn: [two]\n"),
            ("clusters/a/two", "dependsOn: [base, {cluster: b, work: three}]\n"),
            ("clusters/b/three", "dependsOn: [{cluster: a, work: one}]\n"),
            ("clusters/a/self", "dependsOn: [self]\n"),
            ("clusters/a/base", ""),
            ("clusters/a/after", "dependsOn: [one, base]\n"),
        ]),
        "[]",
    );
    assert_eq!(
        errors(&desired),
        [
            "clusters/a/one/work.yaml:1:13: a/one is in a cycle of dependencies: a/one -> a/two \
             -> b/three -> a/one",
            "clusters/a/self/work.yaml:1:13: a/self is in a cycle of dependencies: a/self -> \
             a/self",
            "clusters/a/two/work.yaml:1:19: a/two is in a cycle of dependencies: a/one -> a/two \
             -> b/three -> a/one",
            "clusters/b/three/work.yaml:1:13: b/three is in a cycle of dependencies: a/one -> \
             a/two -> b/three -> a/one",
        ]
    );
    assert_eq!(desired.works.keys().collect::<Vec<_>>(), [&key("a/after"), &key("a/base")]);
}

/// A long chain that ends in a cycle is checked in a time that grows with its length only.
#[test]
fn long_chains_and_large_cycles_are_checked() {
    let next = |n: usize, of: usize| format!("dependsOn: [work-{}]\n", (n + 1) % of);
    let works: TestFiles =
        (0..3_000).flat_map(|n| work(&format!("clusters/a/work-{n}"), &next(n, 3_000))).collect();
    let desired = render(&works, "[]");
    assert!(desired.works.is_empty());
    assert_eq!(desired.frozen.works.len(), 3_000);
    let said = errors(&desired).join("\n");
    assert!(said.contains("a/work-7 -> 2992 more -> a/work-0"), "{}", &said[..500]);
    let works: TestFiles =
        (0..3_000).flat_map(|n| work(&format!("clusters/a/work-{n}"), &next(n, 9_000))).collect();
    let desired = render(&works, "[]");
    assert_eq!(desired.frozen.works, [key("a/work-2999")].into(), "only the end is unknown");
}

/// Rendered alone, a removed work lacks those that it depended on.
#[test]
fn last_state_of_a_removed_work_has_its_delete_option_and_dependencies() {
    let mut objects = TestRepository::default();
    let text = "dependsOn: [base]\ndeleteOption: {propagationPolicy: Orphan}\n";
    let before = objects.add(&all(&[("clusters/a/app", text), ("clusters/a/base", "")]));
    let folder = RepoPath::parse("clusters/a/app").unwrap();
    let removal = FolderRemoval {
        key: &key("a/app"),
        folder: &folder,
        removed_by: ObjectId([7; 20]),
        before,
        after: None,
        objects: &objects,
        facts: None,
    };
    let source = SourceId::parse("fleet").unwrap();
    let state = last_known_state(&source, &removal).unwrap().unwrap();
    assert_eq!(state.delete_option.policy(), "Orphan");
    assert_eq!(*state.depends_on, [key("a/base")]);
    let snapshot = Snapshot { commit: None, root: before, objects: &objects };
    assert_eq!(errors(&Renderer::new(source).render(&snapshot).unwrap()), Vec::<String>::new());
}

/// Nothing else is known of a work that needs a label of a cluster that the hub no longer has.
#[test]
fn work_that_cannot_be_rendered_has_its_last_dependencies() {
    let mut objects = TestRepository::default();
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: x, name: a}, \
               data: {site: '${cluster.labels[\"site\"]}'}}";
    let text =
        "substitute: true\ndependsOn: [base, {cluster: hub, work: dns}, {work: 'not a name'}]\n";
    let before = objects.add(&files(&[
        ("groups/edge/group.yaml", "clusters: [a]\n"),
        ("groups/edge/app/x.yaml", map),
        ("groups/edge/app/work.yaml", text),
    ]));
    let after = objects.add(&files(&[("groups/edge/group.yaml", "clusters: [a]\n")]));
    let folder = RepoPath::parse("groups/edge/app").unwrap();
    for after in [None, Some(after), Some(before)] {
        let removal = FolderRemoval {
            key: &key("a/app"),
            folder: &folder,
            removed_by: ObjectId([7; 20]),
            before,
            after,
            objects: &objects,
            facts: Some(Arc::new(facts(&["b site=1"]))),
        };
        let source = SourceId::parse("fleet").unwrap();
        assert_eq!(last_known_state(&source, &removal).unwrap(), None);
        let found = last_dependencies(&removal).unwrap();
        assert_eq!(*found, [key("a/base"), key("hub/dns")]);
    }
}
