//! What rendered works hold in memory: equal contents once, and the works of a source within a
//! bound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gitwork_core::config::tenancy::{Tenancy, TenantRule};
use gitwork_core::model::diagnostic::Code;
use gitwork_core::model::name::{ObjectId, WorkKey};
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::model::work::DesiredWork;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use serde_json::json;

use crate::memory_repository::{File, MemoryObjects, source};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

fn config_map(name: &str, text: &str) -> File {
    let head =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: x, name: {name}}}\n");
    File::Bytes(format!("{head}data: {{a: \"{text}\"}}\n").into_bytes())
}

/// `clusters` with the same work folder: two large files and a small one.
fn fleet(clusters: usize) -> BTreeMap<String, File> {
    let cluster = |n: usize| {
        let file = move |name: &str| format!("clusters/c{n:04}/web/{name}.yaml");
        [("a", 3 * KIB), ("b", 3 * KIB), ("c", 10)]
            .map(|(name, bytes)| (file(name), config_map(name, &name.repeat(bytes))))
    };
    (0..clusters).flat_map(cluster).collect()
}

fn render(renderer: &mut Renderer, files: &BTreeMap<String, File>) -> Desired {
    let mut objects = MemoryObjects::default();
    let root = objects.add(files);
    render_root(renderer, &objects, root)
}

fn render_root(renderer: &mut Renderer, objects: &MemoryObjects, root: ObjectId) -> Desired {
    renderer.render(&Snapshot { commit: None, root, objects }).unwrap()
}

/// The addresses of the texts of some works, and the bytes of all of them.
fn texts<'a>(works: impl Iterator<Item = &'a Arc<DesiredWork>>) -> (BTreeSet<usize>, usize) {
    let mut addresses = BTreeSet::new();
    let mut bytes = 0;
    for part in works.flat_map(|work| work.body.spec.parts().iter()) {
        if addresses.insert(part.address()) {
            bytes += part.text_bytes();
        }
    }
    (addresses, bytes)
}

#[test]
fn equal_work_folders_of_1000_clusters_hold_their_content_once() {
    let mut renderer = Renderer::new(source()).with_content_bytes_max(3 * MIB);
    let mut files = fleet(1_000);
    let desired = render(&mut renderer, &files);
    assert_eq!((desired.works.len(), &desired.diagnostics[..]), (1_000, &[][..]));
    let (addresses, bytes) = texts(desired.works.values());
    // What is around the manifests, and three manifests.
    assert_eq!(addresses.len(), 4);
    assert!(bytes < 7 * KIB, "{bytes} bytes");
    let lists = desired.works.values().map(|work| work.objects.as_ptr().addr());
    assert_eq!(lists.collect::<BTreeSet<_>>().len(), 1);
    let digests = desired.works.values().map(|work| work.body.digest);
    assert_eq!(digests.collect::<BTreeSet<_>>().len(), 1_000, "each has a path of its own");

    // A file of its own in one folder: the others of its files are still shared, also with what an
    // earlier commit rendered.
    files.insert("clusters/c0007/web/c.yaml".into(), config_map("c", "own"));
    let next = render(&mut renderer, &files);
    let key: WorkKey = desired.works.keys().nth(7).unwrap().clone();
    let (own, _) = texts(std::iter::once(&next.works[&key]));
    assert_eq!(own.difference(&addresses).count(), 1);
    let (all, _) = texts(next.works.values());
    assert_eq!(all.len(), 5);
}

#[test]
fn contents_of_earlier_commits_are_dropped() {
    let mut renderer = Renderer::new(source());
    let first = render(&mut renderer, &fleet(2));
    let text = Arc::downgrade(first.works.values().next().unwrap().body.spec.parts());
    let next = render(&mut renderer, &BTreeMap::new());
    assert!(next.works.is_empty() && text.upgrade().is_some(), "the first result holds it");
    drop(first);
    renderer.drop_unused();
    assert!(text.upgrade().is_none());
}

/// Works of 100 KiB that differ.
fn large(clusters: usize) -> BTreeMap<String, File> {
    let file = |n: usize| {
        let text = format!("{n} {}", "x".repeat(100 * KIB));
        (format!("clusters/c{n:04}/web/x.yaml"), config_map("a", &text))
    };
    (0..clusters).map(file).collect()
}

#[test]
fn source_with_too_much_content_is_frozen_and_says_what_to_do() {
    let mut renderer = Renderer::new(source()).with_content_bytes_max(MIB);
    let within = render(&mut renderer, &large(8));
    assert_eq!((within.works.len(), &within.diagnostics[..]), (8, &[][..]));
    assert!(!within.frozen.source);

    for over in [large(12), large(30)] {
        let desired = render(&mut renderer, &over);
        assert!(desired.frozen.source && desired.works.is_empty());
        let found = &desired.diagnostics[0];
        assert_eq!((desired.diagnostics.len(), found.code), (1, Code::TooManyFiles));
        assert!(found.message.contains("the source fleet take more than 1 MiB"), "{found:?}");
        let at = found.location.file.as_str();
        assert!(["clusters/c0009", "clusters/c0010"].contains(&at), "{at}");
        assert!(found.hint.as_ref().unwrap().contains("raise `maxContentMib`"));
    }
    // The next commit that fits is as if nothing had happened.
    let within = render(&mut renderer, &large(8));
    assert_eq!((within.works.len(), &within.diagnostics[..]), (8, &[][..]));
}

/// A file of some KiB each, of which no two are equal.
#[test]
fn expanded_cluster_files_count() {
    let values = "  V: *a\n".replace('V', "V0")
        + &(1..80).map(|n| format!("  V{n}: *a\n")).collect::<String>();
    let file = |n: usize| {
        let text = format!("values:\n  V: &a {n}{}\n{values}", "x".repeat(10 * KIB));
        [
            (format!("clusters/c{n:04}/cluster.yaml"), File::Bytes(text.into_bytes())),
            (format!("clusters/c{n:04}/web/x.yaml"), config_map("a", "x")),
        ]
    };
    let mut renderer = Renderer::new(source()).with_content_bytes_max(8 * MIB);
    let desired = render(&mut renderer, &(0..3).flat_map(file).collect());
    assert_eq!((desired.works.len(), &desired.diagnostics[..]), (3, &[][..]));
    assert!(render(&mut renderer, &(0..30).flat_map(file).collect()).frozen.source);
}

/// Problems are held, too: they do not add up to more than works may hold.
#[test]
fn problems_of_works_count() {
    let text = format!("x: [{}]\n", "y,".repeat(200));
    let file = |n: usize| (format!("clusters/c{n:04}/web/x.yaml"), File::from(text.as_str()));
    let mut renderer = Renderer::new(source()).with_content_bytes_max(MIB);
    let few = render(&mut renderer, &(0..10).map(file).collect());
    assert!(!few.frozen.source && few.frozen.works.len() == 10);
    assert!(render(&mut renderer, &(0..100).map(file).collect()).frozen.source);
}

/// What of a work depends on where it is, and what does not.
fn described(desired: &Desired) -> Vec<String> {
    let works = desired.works.iter().map(|(key, work)| {
        let body = work.body.to_manifest_work(key, None);
        format!("{key} {} {body} {:?} {:?}", work.path, work.delete_option, work.objects)
    });
    let problems = desired.diagnostics.iter().map(|one| format!("{one:?}"));
    let frozen = desired.frozen.folders.iter().map(|(_, folder)| folder.to_string());
    works.chain(problems).chain(frozen).collect()
}

/// Equal folders are rendered once, and the result is the same as if each were rendered alone.
#[test]
fn equal_folders_of_many_clusters_give_what_each_gives_alone() {
    let with = |text: &'static str| {
        let mut files = fleet(20);
        let file = |n: usize, name: &str| format!("clusters/c{n:04}/web/{name}.yaml");
        files.extend((0..20).map(|n| (file(n, "work"), File::from(text))));
        files.extend((0..20).map(|n| (file(n, "v"), config_map("v", "${cluster.name}"))));
        // Other clusters, another name, and another length of the path.
        for (name, text) in files.clone() {
            let name = name.replace("clusters/c", "clusters/other-c");
            files.insert(name.replace("/web/", "/second-web/"), text);
        }
        files
    };
    let rules = json!([
        {"paths": ["clusters/c*/web"], "namespaces": ["x"]},
        {"paths": ["clusters/*/second-web"], "clusters": ["*-c000*"], "works": ["second-*"]},
    ]);
    let rules: Vec<TenantRule> = serde_json::from_value(rules).unwrap();
    let mut errors = 0;
    for text in [
        "{}\n",
        "name: named\n",
        "substitute: true\nannotations: {a: b}\nlabels: {c: d}\n",
        "prune: false\ndeleteOption: {propagationPolicy: Orphan}\n",
        "unknown: field\n",
        "name: Bad\n",
    ] {
        let files = with(text);
        for tenancy in [Tenancy::default(), rules.clone().into()] {
            let renderer = || Renderer::new(source()).with_tenancy(tenancy.clone());
            let together = described(&render(&mut renderer(), &files));
            let mut alone = Vec::new();
            for cluster in (0..20).flat_map(|n| [format!("c{n:04}"), format!("other-c{n:04}")]) {
                let folder = format!("clusters/{cluster}/");
                let mut own = files.clone();
                own.retain(|name, _| name.starts_with(&folder));
                alone.extend(described(&render(&mut renderer(), &own)));
            }
            let sorted = |mut all: Vec<String>| {
                all.sort();
                all
            };
            let (together, alone) = (sorted(together), sorted(alone));
            assert_eq!(together, alone, "{text}");
            assert!(together.len() >= 40);
            errors += usize::from(together.iter().any(|one| one.contains("severity: Error")));
        }
    }
    assert_eq!(errors, 8, "six with a policy, and two files that are wrong");
}

#[test]
fn equal_folders_of_many_clusters_are_read_once() {
    let mut objects = MemoryObjects::default();
    let root = objects.add(&fleet(1_000));
    let desired = render_root(&mut Renderer::new(source()), &objects, root);
    assert_eq!(desired.works.len(), 1_000);
    let reads = objects.reads.get();
    assert!(reads < 1_000 + 20, "{reads}: each cluster's folder, and one work's files");
}
