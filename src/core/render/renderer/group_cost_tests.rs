//! What groups cost: work and memory follow distinct content, and a folder that exceeds a bound
//! freezes itself.

use super::group_tests::*;
use super::*;
use crate::render::test_repository::{TestFiles, TestRepository, files};

/// A group of clusters `c000`, `c001` and so on with this work folder.
fn group(members: usize, folder: &[(&str, &str)]) -> TestFiles {
    let names: Vec<String> = (0..members).map(|n| format!("c{n:03}")).collect();
    let mut all = files(&[("groups/g/group.yaml", &format!("clusters: [{}]", names.join(",")))]);
    let folder = folder.iter().map(|(name, text)| (format!("groups/g/web/{name}"), (*text).into()));
    all.extend(folder);
    all
}

/// A renderer after one repository, and how often it has read a manifest.
fn rendered(files: &TestFiles, mebibytes: usize) -> (Renderer, TestRepository, Desired, usize) {
    let mut renderer = renderer().with_content_bytes_max(mebibytes << 20);
    let mut repository = TestRepository::default();
    let desired = render_into(&mut renderer, &mut repository, files);
    let reads = repository.manifest_reads();
    (renderer, repository, desired, reads)
}

#[test]
fn folder_with_an_error_is_read_once_for_all_members() {
    let broken = format!("{}\n---\nbroken: [", config_map("a", "1"));
    let (_, _, desired, reads) = rendered(&group(50, &[("x.yaml", &broken)]), 256);
    assert_eq!(reads, 1);
    assert_eq!(desired.frozen.works.len(), 50);
    assert_eq!(desired.frozen.objects.len(), 50);
    assert_eq!(desired.diagnostics.len(), 50);
    for (found, key) in desired.diagnostics.iter().zip(&desired.frozen.works) {
        assert_eq!(found.scope, Scope::Work(key.clone()), "each freezes its own work");
        assert_eq!(found.location.file.as_str(), "groups/g/web/x.yaml");
    }
    // Objects that cannot be read may be any: each member's folder is its own.
    let unread = desired.frozen.objects.values().map(|one| one.unread.len());
    assert_eq!(unread.sum::<usize>(), 50);
}

/// An error that depends on values is found for the clusters that have them.
#[test]
fn folder_that_fails_for_some_values_is_right_for_every_cluster() {
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: '${NS:-x}'}, \
                    data: {v: '${A}${B}'}}";
    let work = "substitute: true";
    let mut all = group(6, &[("x.yaml", manifest), ("work.yaml", work)]);
    for (cluster, values) in [
        ("c000", "{B: b}"),
        ("c001", "{A: a, B: b}"),
        ("c002", "{A: a}"),
        ("c003", "{A: a, B: c}"),
        ("c004", "{A: a, B: b, NS: Bad}"),
        ("c005", "{A: a, B: b}"),
    ] {
        let text = format!("values: {values}");
        all.insert(format!("clusters/{cluster}/cluster.yaml"), text.as_str().into());
    }
    for order in [all.clone(), {
        // The same with the groups of values the other way round.
        let mut other = all.clone();
        let swap = |n: usize| format!("clusters/c00{n}/cluster.yaml");
        let (one, two) = (all[&swap(0)].clone(), all[&swap(1)].clone());
        other.insert(swap(0), two);
        other.insert(swap(1), one);
        other
    }] {
        let (_, _, desired, _) = rendered(&order, 256);
        for (n, file) in (0..6).map(|n| (n, &order[&format!("clusters/c00{n}/cluster.yaml")])) {
            let crate::render::test_repository::TestFile::Text(values) = file else { panic!() };
            let key = key(&format!("c00{n}/web"));
            let found = desired.works.get(&key).map(|work| work.body.spec.value().to_string());
            let expected = match values.as_str() {
                "values: {A: a, B: b}" => Some("\"ab\""),
                "values: {A: a, B: c}" => Some("\"ac\""),
                _ => None,
            };
            assert_eq!(found.is_some(), expected.is_some(), "{key} {values}");
            if let (Some(found), Some(expected)) = (found, expected) {
                assert!(found.contains(expected), "{key}: {found}");
            }
        }
    }
}

#[test]
fn folder_that_is_read_for_too_many_members_freezes_itself_only() {
    // 64 KiB for each of 40 members, and a bound of 1 MiB.
    let comments = "# a comment\n".repeat(64 * 1024 / 12);
    let large = format!("{}\n{comments}", config_map("a", "${cluster.name}"));
    let folder = [("x.yaml", large.as_str()), ("work.yaml", "substitute: true")];
    let mut all = group(40, &folder);
    let small = config_map("b", "${cluster.name}");
    all.insert("groups/g/small/x.yaml".into(), small.as_str().into());
    all.insert("groups/g/small/work.yaml".into(), "substitute: true".into());
    let of = |desired: &Desired, name: &str| {
        desired.works.keys().filter(|key| key.work.as_str() == name).count()
    };
    let (mut renderer, mut repository, desired, _) = rendered(&all, 1);
    assert_eq!(of(&desired, "small"), 40);
    let web = of(&desired, "web");
    assert!((16..=17).contains(&web), "{web}");
    assert_eq!(desired.frozen.works.len(), 40 - web);
    assert!(!desired.frozen.source && desired.frozen.clusters.is_empty());
    let found = &desired.diagnostics[0];
    assert!(found.message.contains("too many members"), "{found:?}");

    // The next commits do not read it again.
    let reads = repository.manifest_reads();
    all.insert(
        "clusters/other/own/x.yaml".into(),
        small.replace("${cluster.name}", "1").as_str().into(),
    );
    let desired = render_into(&mut renderer, &mut repository, &all);
    assert_eq!(of(&desired, "web"), web);
    assert_eq!(repository.manifest_reads(), reads + 1);

    // With fewer members all fit, at the limit.
    let mut fewer = group(16, &folder);
    fewer.insert("groups/g/small/x.yaml".into(), small.as_str().into());
    fewer.insert("groups/g/small/work.yaml".into(), "substitute: true".into());
    let desired = render_into(&mut renderer, &mut repository, &fewer);
    assert_eq!((of(&desired, "web"), of(&desired, "small")), (16, 16));
    assert_eq!(desired.diagnostics, []);
}

/// Ordinary folders of clusters have no such bound of their own: that of the source counts.
#[test]
fn files_of_a_source_have_a_bound_together() {
    let comments = "# a comment\n".repeat(64 * 1024 / 12);
    let of = |count: usize| {
        let file = |n: usize| {
            let text = format!("{}\n{comments}", config_map("a", &n.to_string()));
            (format!("clusters/c{n:03}/web/x.yaml"), text.as_str().into())
        };
        rendered(&(0..count).map(file).collect(), 1).2
    };
    assert_eq!(of(60).works.len(), 60);
    let desired = of(70);
    assert!(desired.frozen.source);
    assert!(desired.diagnostics[0].message.contains("more than four times"));
}

#[test]
fn equal_group_files_are_held_once_and_each_names_its_own_problems() {
    let mut all = TestFiles::new();
    for n in 0..20 {
        let text = "clusters: [A_]\nvalues: {a-b: 1}";
        all.insert(format!("groups/g{n:02}/group.yaml"), text.into());
    }
    let (renderer, _, desired, _) = rendered(&all, 256);
    let first = &renderer.groups[0].config;
    assert!(renderer.groups.iter().all(|group| Arc::ptr_eq(&group.config, first)));
    assert_eq!(desired.frozen.groups.len(), 20);
    for (n, group) in renderer.groups.iter().enumerate() {
        assert_eq!(group.diagnostics.len(), 2);
        for found in &group.diagnostics {
            assert_eq!(found.location.file.to_string(), format!("groups/g{n:02}/group.yaml"));
            assert_eq!(found.scope, Scope::Group(group.name.clone()));
        }
    }
}

/// A tenant's group with very many conditions takes none of the comparisons of others.
#[test]
fn costly_group_freezes_itself_and_not_those_after_it() {
    let values: Vec<String> = (0..1_000).map(|n| format!("v{n}")).collect();
    let expression = format!("{{key: k, operator: NotIn, values: [{}]}}", values.join(","));
    let costly = |count: usize| {
        let all = vec![expression.as_str(); count].join(",");
        format!("selector: {{labelSelector: {{matchExpressions: [{all}]}}}}")
    };
    let names: Vec<String> = (0..1_000).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut all = files(&[
        // 26 million steps each: two are too many.
        ("groups/a/group.yaml", &costly(26)),
        ("groups/b/group.yaml", &costly(26)),
        ("groups/z/group.yaml", "clusters: ['c*']"),
    ]);
    for group in ["a", "b", "z"] {
        let text = config_map(group, "1");
        all.insert(format!("groups/{group}/{group}/x.yaml"), text.as_str().into());
    }
    let desired = render(&all, Some(facts(&names)));
    let of = |name: &str| desired.works.keys().filter(|key| key.work.as_str() == name).count();
    assert_eq!((of("a"), of("b"), of("z")), (1_000, 0, 1_000));
    let frozen: Vec<String> = desired.frozen.groups.keys().map(ToString::to_string).collect();
    assert_eq!(frozen, ["b"]);
}

#[test]
fn clusters_that_groups_name_count_towards_the_clusters_of_a_source() {
    let of = |count: usize| {
        let mut all = TestFiles::new();
        for group in 0..count.div_ceil(1_000) {
            let names = (group * 1_000..count.min((group + 1) * 1_000)).map(|n| format!("c{n}"));
            let text = format!("clusters: [{}]", names.collect::<Vec<_>>().join(","));
            all.insert(format!("groups/g{group}/group.yaml"), text.as_str().into());
        }
        render(&all, None)
    };
    let most = limits::CLUSTERS_MAX;
    assert!(!of(most).frozen.source);
    let desired = of(most + 1);
    assert!(desired.frozen.source);
    assert_eq!(
        desired.diagnostics[0].message,
        "20001 clusters, with those of groups; a source has at most 20000"
    );
}

#[test]
fn problems_of_a_group_file_are_bounded() {
    let names = "A,".repeat(5_000);
    let all = files(&[
        ("groups/g/group.yaml", &format!("clusters: [a]\nexclude: [{names}]")),
        (
            "groups/absent/group.yaml",
            &format!(
                "clusters: [{}]",
                (0..1_000).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",")
            ),
        ),
    ]);
    let desired = render(&all, Some(facts(&["a"])));
    let of = |code: Code| desired.diagnostics.iter().filter(|one| one.code == code).count();
    assert_eq!(of(Code::NoMember), limits::FILE_DIAGNOSTICS_MAX);
    assert!(
        (limits::FILE_DIAGNOSTICS_MAX..limits::FILE_DIAGNOSTICS_MAX + 5)
            .contains(&of(Code::BadValue))
    );
    assert!(of(Code::Omitted) >= 2);
}

/// Many works with unknown dependencies: each is frozen, and the problems are bounded.
#[test]
fn unknown_dependencies_of_many_works_are_bounded() {
    let unknown: Vec<String> = (0..20).map(|n| format!("unknown-{n}")).collect();
    let work = format!("dependsOn: [{}]", unknown.join(","));
    let all = group(900, &[("x.yaml", &config_map("a", "1")), ("work.yaml", &work)]);
    let (_, _, desired, _) = rendered(&all, 256);
    assert_eq!(desired.frozen.works.len(), 900);
    assert!(desired.works.is_empty());
    // Each work has its share.
    let found = desired.diagnostics.len();
    assert!(
        (limits::DIAGNOSTICS_MAX * 9 / 10..=limits::DIAGNOSTICS_MAX).contains(&found),
        "{found}"
    );
}
