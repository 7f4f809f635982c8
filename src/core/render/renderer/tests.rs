use std::collections::BTreeSet;

use serde_json::json;

use crate::limits;
use crate::model::approval::{Approved, Target, listing, plan_hash};
use crate::model::diagnostic::{Code, Diagnostic, Scope};
use crate::model::name::{ClusterName, RepoPath, SourceId, WorkKey, WorkName};
use crate::model::object_digest::ObjectDigest;
use crate::model::snapshot::{Entry, Objects as _, Snapshot};
use crate::render::desired::{Desired, Frozen};
use crate::render::renderer::Renderer;
use crate::render::test_repository::{TestFile, TestRepository, files, render};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, name: readable}\n";

const MAP_SECOND: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, name: second}\n";

/// The digest of a ConfigMap of this name.
fn map(name: &str) -> ObjectDigest {
    let metadata = json!({"namespace": "x", "name": name});
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    ObjectDigest::of_manifest(&manifest).unwrap()
}

fn frozen_works(desired: &Desired) -> Vec<String> {
    desired.frozen.works.iter().map(ToString::to_string).collect()
}

/// Whether a frozen work may have this ConfigMap.
fn may_have(desired: &Desired, work: &str, name: &str) -> bool {
    let all = desired.frozen.objects.iter();
    let mut found = all.filter(|(key, _)| key.work.as_str() == work);
    let (_, objects) = found.next().unwrap();
    objects.may_contain(map(name), None)
}

#[test]
fn frozen_work_keeps_what_every_folder_of_its_name_may_have() {
    let shop = "name: shop\n";
    let desired = render(
        &files(&[
            ("clusters/a/other/work.yaml", shop),
            ("clusters/a/other/x.yaml", MAP),
            ("clusters/a/shop/x.yaml", "broken: ["),
        ]),
        "[]",
    );
    assert_eq!((frozen_works(&desired), desired.works.len()), (vec!["a/shop".into()], 0));
    assert!(may_have(&desired, "shop", "readable"));
    assert!(may_have(&desired, "shop", "any"), "it may be in the folder that cannot be read");

    let desired = render(
        &files(&[
            ("clusters/a/one/work.yaml", shop),
            ("clusters/a/one/x.yaml", MAP),
            ("clusters/a/shop/x.yaml", MAP_SECOND),
        ]),
        "[]",
    );
    assert_eq!((frozen_works(&desired), desired.works.len()), (vec!["a/shop".into()], 0));
    let known = ["readable", "second", "any"].map(|name| may_have(&desired, "shop", name));
    assert_eq!(known, [true, true, false]);
}

#[test]
fn work_that_is_too_large_has_no_objects_but_those_that_were_read() {
    let large = format!("{MAP}data: {{text: {}}}\n", "x".repeat(limits::WORK_BYTES_MAX));
    let rendered = |other: &'static str| {
        let tree = [("clusters/a/shop/x.yaml", large.as_str()), ("clusters/a/shop/y.yaml", other)];
        render(&files(&tree), "[]")
    };
    let desired = rendered(MAP_SECOND);
    assert_eq!(desired.diagnostics[0].code, Code::WorkTooLarge);
    assert_eq!((frozen_works(&desired), desired.works.len()), (vec!["a/shop".into()], 0));
    assert!(may_have(&desired, "shop", "readable") && may_have(&desired, "shop", "second"));
    assert!(!may_have(&desired, "shop", "any"), "another work may give it up");

    let desired = rendered("broken: [");
    assert!(may_have(&desired, "shop", "any"), "it may be in the file that cannot be read");
}

/// A folder keeps its claim beside the work of a name that it may not have, whatever becomes of
/// that work.
#[test]
fn folder_without_a_right_to_a_name_claims_under_its_own() {
    let policy = "[{paths: [clusters/a/web], works: [x*]}, {paths: [clusters/a/o*]}]";
    let mut all = files(&[
        ("clusters/a/other/work.yaml", "name: web\n"),
        ("clusters/a/other/x.yaml", MAP),
        ("clusters/a/web/work.yaml", "name: x_y\n"),
        ("clusters/a/web/x.yaml", "broken: ["),
    ]);
    let desired = render(&all, policy);
    assert_eq!((frozen_works(&desired), desired.works.len()), (vec![], 1));
    assert!(may_have(&desired, "_web", "any"));

    // A third folder freezes the work.
    all.insert("clusters/a/o2/work.yaml".into(), "name: web\n".into());
    all.insert("clusters/a/o2/x.yaml".into(), MAP.into());
    let desired = render(&all, policy);
    assert_eq!((frozen_works(&desired), desired.works.len()), (vec!["a/web".into()], 0));
    assert!(may_have(&desired, "_web", "any") && !may_have(&desired, "web", "any"));
}

/// The CRDs of a tenant who breaks their own work: of a kind that others have, with a lying scope
/// and plural, and for kinds of Kubernetes.
const LIES: &[(&str, &str, &str)] = &[
    ("x.example", "Mouse", "rats"),
    ("x.example", "Cat", "mouses"),
    ("apps", "Deployment", "deploys"),
    ("apps", "Mouse", "deployments"),
    ("rbac.authorization.k8s.io", "ClusterRole", "roles"),
];

fn crd(group: &str, kind: &str, plural: &str, scope: &str) -> String {
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: {plural}.{group}}}\n\
         spec: {{group: {group}, scope: {scope}, names: {{kind: {kind}, plural: {plural}}}}}\n"
    )
}

const MOUSE: &str =
    "---\napiVersion: x.example/v1\nkind: Mouse\nmetadata: {namespace: shop, name: jerry}\n";

fn config(resource: &str) -> String {
    let identifier =
        format!("{{group: x.example, resource: {resource}, namespace: shop, name: j*}}");
    format!("- resourceIdentifier: {identifier}\n  feedbackScrapeType: Poll\n")
}

/// The works and problems of all folders but one.
fn without(desired: &Desired, folder: &str) -> (Vec<String>, Vec<Diagnostic>) {
    let works = desired.works.values().filter(|work| work.path.as_str() != folder);
    let works = works.map(|work| format!("{} {}", work.key, work.body.digest)).collect();
    let is_other = |found: &&Diagnostic| !found.location.file.as_str().starts_with(folder);
    (works, desired.diagnostics.iter().filter(is_other).cloned().collect())
}

#[test]
fn crds_of_a_frozen_work_change_no_other_work() {
    let others = [
        ("clusters/b/guess/work.yaml", format!("manifestConfigs:\n{}", config("mouses"))),
        ("clusters/b/guess/x.yaml", MOUSE.to_owned()),
        ("clusters/b/none/x.yaml", MOUSE.replace("jerry", "tom")),
        ("clusters/b/sidecar/x.config.yaml", "resource: mice\norphan: true\n".to_owned()),
        ("clusters/b/sidecar/x.yaml", MOUSE.replace("jerry", "speedy")),
        ("clusters/b/orphan/x.config.yaml", "orphan: true\n".to_owned()),
        (
            "clusters/b/orphan/x.yaml",
            MOUSE.replace("jerry", "minnie")
                + &MOUSE.replace("jerry", "tom").replace("Mouse", "Cat")
                + "---\napiVersion: apps/v1\nkind: Deployment\n\
                   metadata: {namespace: shop, name: web}\n",
        ),
        ("clusters/c/rats/work.yaml", format!("manifestConfigs:\n{}", config("rats"))),
        ("clusters/c/rats/x.yaml", MOUSE.to_owned() + &MOUSE.replace("Mouse", "Rat")),
    ];
    let others: Vec<(&str, &str)> = others.iter().map(|(path, text)| (*path, &**text)).collect();
    let alone = render(&files(&others), "[]");
    let expected = without(&alone, "clusters/a/lies");
    assert_eq!(expected.0.len(), 5, "{:?}", alone.diagnostics);

    for scope in ["Cluster", "Namespaced"] {
        let crds: String =
            LIES.iter().map(|(group, kind, plural)| crd(group, kind, plural, scope)).collect();
        let mut all = files(&others);
        all.insert("clusters/a/lies/crds.yaml".into(), crds.as_str().into());
        all.insert("clusters/a/lies/broken.yaml".into(), "broken: [".into());
        let desired = render(&all, "[]");
        assert_eq!(frozen_works(&desired), ["a/lies"]);
        assert_eq!(without(&desired, "clusters/a/lies"), expected);
    }
}

/// A problem beside a CRD freezes no work whose own rule has the plural.
#[test]
fn rule_that_names_the_plural_of_a_frozen_crd_holds() {
    let crds = crd("x.example", "Mouse", "mice", "Namespaced");
    let rules = format!("manifestConfigs:\n{}", config("mice"));
    let mut all = files(&[
        ("clusters/a/crds/crds.yaml", &crds),
        ("clusters/b/shop/work.yaml", &rules),
        ("clusters/b/shop/x.yaml", MOUSE),
    ]);
    let before = without(&render(&all, "[]"), "clusters/a/crds");
    assert_eq!((before.0.len(), before.1.as_slice()), (1, &[][..]));
    all.insert("clusters/a/crds/broken.yaml".into(), "broken: [".into());
    let desired = render(&all, "[]");
    assert_eq!(frozen_works(&desired), ["a/crds"]);
    assert_eq!(without(&desired, "clusters/a/crds"), before);
    // Without the CRD, nothing has that plural.
    all.remove("clusters/a/crds/crds.yaml");
    let frozen: BTreeSet<String> = frozen_works(&render(&all, "[]")).into_iter().collect();
    assert_eq!(frozen, ["a/crds".to_owned(), "b/shop".to_owned()].into());
}

/// The plural of a CRD that no API server accepts is in no object.
#[test]
fn plural_that_is_too_long_is_not_used() {
    let crds = crd("x.example", "Mouse", &"x".repeat(1_000), "Namespaced");
    let all = files(&[("clusters/a/crds/crds.yaml", &crds), ("clusters/b/shop/x.yaml", MOUSE)]);
    let desired = render(&all, "[]");
    let shop = desired.works.values().find(|work| work.key.cluster.as_str() == "b").unwrap();
    assert_eq!(&*shop.objects[0].resource, "mouses");
}

/// A link or a malformed folder above the clusters: nothing of the source is known, and the message
/// names the path.
#[test]
fn malformed_objects_above_the_clusters_freeze_the_source_and_are_named() {
    let long = || TestFile::Link("x/".repeat(2_500));
    for (path, file, place) in [
        ("clusters", TestFile::BadFolder, "clusters"),
        ("clusters", long(), "clusters"),
        ("gitwork.yaml", TestFile::BadFolder, "gitwork.yaml"),
        ("gitwork.yaml", long(), "gitwork.yaml"),
    ] {
        let mut all = files(&[("clusters/a/web/x.yaml", MAP)]);
        all.retain(|name, _| !name.starts_with(path));
        all.insert(path.into(), file.clone());
        let desired = render(&all, "[]");
        let errors = desired.diagnostics.iter().filter(|found| found.is_error());
        let at: Vec<String> = errors.map(|found| found.location.file.to_string()).collect();
        assert_eq!((at, desired.frozen.source), (vec![place.to_owned()], true), "{file:?}");
    }
    let mut repository = TestRepository::default();
    let clusters = repository.add(&[("clusters".to_owned(), TestFile::BadFolder)].into());
    let Entry { id: root, .. } = repository.tree(clusters).unwrap()["clusters"].clone();
    let mut renderer = Renderer::new(SourceId::parse("fleet").unwrap());
    let mut desired =
        renderer.render(&Snapshot { commit: None, root, objects: &repository }).unwrap();
    let [found] = &desired.diagnostics[..] else { panic!("{:?}", desired.diagnostics) };
    assert_eq!((found.code, desired.frozen.source), (Code::BadObject, true));
    assert_eq!(found.location.file.to_string(), ".");
    desired.locate_from_root(&RepoPath::parse("team/a").unwrap());
    assert_eq!(desired.diagnostics[0].location.file.to_string(), "team/a");
}

#[test]
fn malformed_folder_of_approvals_approves_nothing_and_stops_nothing() {
    let mut all = files(&[("clusters/a/web/x.yaml", MAP)]);
    all.insert("approvals".into(), TestFile::BadFolder);
    let desired = render(&all, "[]");
    assert_eq!((desired.works.len(), &desired.frozen), (1, &Frozen::default()));
    let [found] = &desired.diagnostics[..] else { panic!("{:?}", desired.diagnostics) };
    assert_eq!(found.location.file.to_string(), "approvals");
    assert!(!found.is_error() && found.message.starts_with("no approval was read: "), "{found:?}");
}

/// An approval of the deletion of so many works.
fn approval(cluster: &str, works: usize, uid_bytes: usize) -> (String, TestFile) {
    let target = |n: usize| Target {
        key: WorkKey {
            cluster: ClusterName::parse(cluster).unwrap(),
            work: WorkName::parse(&format!("w{n}")).unwrap(),
        },
        uid: "u".repeat(uid_bytes),
    };
    let works: Approved = (0..works).map(target).collect();
    let name = format!("approvals/{}", plan_hash(&works));
    (name, TestFile::Text(listing(&works)))
}

#[test]
fn approvals_count_together_towards_a_bound() {
    let bound = limits::APPROVALS_BYTES_MAX;
    let work = files(&[("clusters/a/web/x.yaml", MAP)]);
    let (half, long) = (limits::WORKS_MAX / 2, limits::UID_BYTES_MAX);
    let lines = bound / 2 / (long + 10);
    for (sizes, expected) in [
        ([(10, 36), (20, 36)], Some(30)),
        ([(half, 1), (half, 1)], Some(2 * half)),
        ([(half, 1), (half + 1, 1)], None),
        ([(lines, long), (lines - 500, long)], Some(2 * lines - 500)),
        ([(lines, long), (lines + 2_000, long)], None),
    ] {
        let mut all = work.clone();
        let clusters = ["a", "b"].into_iter().zip(sizes);
        all.extend(clusters.map(|(cluster, (works, uid))| approval(cluster, works, uid)));
        let desired = render(&all, "[]");
        assert_eq!(desired.works.len(), 1, "{:?}", desired.diagnostics);
        assert_eq!(desired.approved.works(), expected.unwrap_or_default(), "{sizes:?}");
        let said: Vec<&str> = desired.diagnostics.iter().map(|found| &*found.message).collect();
        let message = "the approvals have more than 24 MiB, or list more than 200000 works; no \
             approval was read";
        let all = if expected.is_some() { vec![] } else { vec![message] };
        assert_eq!(said, all, "{sizes:?}");
    }
    // One that is too large by itself is the problem of that file.
    let mut all = work;
    all.extend([approval("a", limits::WORKS_MAX + 1, 1), approval("b", 1, 1)]);
    let desired = render(&all, "[]");
    assert_eq!(desired.approved.works(), 1);
    let said = desired.diagnostics.iter().map(|found| &*found.message);
    assert_eq!(
        said.collect::<Vec<_>>(),
        ["this file approves nothing: it lists more than 200000 works"]
    );
}

/// What approvals hold counts towards the memory of the source.
#[test]
fn approvals_count_towards_the_memory_of_the_source() {
    let mut all = files(&[("clusters/a/web/x.yaml", MAP)]);
    all.extend([approval("a", 20_000, 36)]);
    let mut repository = TestRepository::default();
    let root = repository.add(&all);
    let snapshot = Snapshot { commit: None, root, objects: &repository };
    for (mebibytes, is_frozen) in [(1, true), (8, false)] {
        let renderer = Renderer::new(SourceId::parse("fleet").unwrap());
        let mut renderer = renderer.with_content_bytes_max(mebibytes * 1024 * 1024);
        let desired = renderer.render(&snapshot).unwrap();
        assert_eq!(desired.frozen.source, is_frozen, "{:?}", desired.diagnostics);
    }
}

/// A renderer that has seen a commit before counts less exactly, and decides the same.
#[test]
fn bound_of_content_does_not_depend_on_what_was_rendered_before() {
    let name = |cluster: usize| format!("clusters/c{cluster:02}/web/x.yaml");
    let text = |cluster: usize, bytes: usize| {
        format!("{MAP}data: {{a: \"{cluster}{}\"}}\n", "x".repeat(bytes))
    };
    let texts = |first: usize| -> Vec<(String, String)> {
        let work = |n| (name(n), text(n, if n == 0 { first } else { 200 }));
        // One config for all of them: without a file, each pass has one of its own.
        let config = |n| (format!("clusters/c{n:02}/cluster.yaml"), "labels: {a: b}\n".to_owned());
        (0..40).flat_map(|n| [work(n), config(n)]).collect()
    };
    let mut repository = TestRepository::default();
    let roots = [200, 8_000].map(|first| {
        let all = texts(first);
        let all: Vec<(&str, &str)> = all.iter().map(|(at, text)| (&**at, &**text)).collect();
        repository.add(&files(&all))
    });
    let snapshot = |root| Snapshot { commit: None, root, objects: &repository };
    let new =
        |max: usize| Renderer::new(SourceId::parse("fleet").unwrap()).with_content_bytes_max(max);
    let mut outcomes = BTreeSet::new();
    for max in (30_000..130_000).step_by(1_000) {
        let mut renderer = new(max);
        let before = renderer.render(&snapshot(roots[0])).unwrap().frozen.source;
        let kept = renderer.render(&snapshot(roots[1])).unwrap().frozen.source;
        let fresh = new(max).render(&snapshot(roots[1])).unwrap().frozen.source;
        assert_eq!(kept, fresh, "{max} bytes");
        outcomes.insert((before, kept));
    }
    assert_eq!(outcomes.len(), 3, "some fit, some not, and some only before: {outcomes:?}");
}

#[test]
fn problems_beside_the_clusters_folders_name_their_paths() {
    let mut all = files(&[
        ("clusters/.hidden/web/x.yaml", MAP),
        ("clusters/README.md", "no manifest"),
        ("clusters/Bad/web/x.yaml", MAP),
        ("clusters/a/web/x.yaml", MAP),
        ("clusters/stray.yaml", MAP),
    ]);
    all.insert("clusters/b".into(), TestFile::Link("a".into()));
    let desired = render(&all, "[]");
    let found = desired.diagnostics.iter();
    let found = found.map(|one| (one.location.file.as_str(), one.code, one.scope.clone()));
    let b = Scope::Cluster(ClusterName::parse("b").unwrap());
    let expected = [
        ("clusters/Bad", Code::BadName, Scope::Source),
        ("clusters/b", Code::SymlinkOutside, b),
        ("clusters/stray.yaml", Code::StrayFile, Scope::Source),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(desired.works.len(), 1);
}
