//! Repositories that are small, and cost much to read if a size is not checked first. Each is
//! within the documented limits of bytes and files, or just past one of them.
//!
//! `tests/it/hostile_inputs.rs` renders all of them within bounds of memory and processor time.
//! `cargo bench --bench hostile` prints what each takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gitwork_core::model::name::ObjectId;
use gitwork_core::model::snapshot::{Entry, EntryKind, Tree};
use gitwork_core::render::object_checks::SchemaChecks;
use gitwork_core::render::renderer::Renderer;

use crate::memory_repository::{File, MemoryObjects, files, source};

mod groups;
pub mod ordinary;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const WORK: &str = "clusters/a/web";
const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: x, name: web}\n";

/// One repository.
pub struct HostileInput {
    /// What is in it.
    pub name: &'static str,
    /// Adds it to the store, and gives the id of its root.
    pub add: fn(&mut MemoryObjects) -> ObjectId,
}

/// Every repository.
pub const ALL: &[HostileInput] = &[
    HostileInput { name: "empty", add: |to| one_file(to, "x.yaml", OBJECT.into()) },
    HostileInput { name: "aliases-81-kb", add: |to| aliases(to, "x.yaml", 40, 10_000) },
    HostileInput { name: "aliases-400-kb", add: |to| aliases(to, "x.yaml", 200, 50_000) },
    HostileInput { name: "aliases-work-yaml", add: |to| aliases(to, "work.yaml", 200, 50_000) },
    HostileInput { name: "aliases-sidecar", add: |to| aliases(to, "x.config.yaml", 200, 50_000) },
    HostileInput { name: "aliases-gitwork-yaml", add: aliases_in_source_file },
    HostileInput { name: "aliases-cluster-yaml", add: aliases_in_cluster_file },
    HostileInput { name: "aliases-merge-keys", add: merge_keys },
    HostileInput { name: "aliases-long-keys", add: alias_of_long_keys },
    HostileInput { name: "aliases-nested", add: nested_aliases },
    HostileInput { name: "variable-5000-times-900-kb", add: large_variable },
    HostileInput { name: "variables-lone", add: lone_variables },
    HostileInput { name: "sidecars-times-objects", add: sidecars_times_objects },
    HostileInput { name: "ambiguous-words", add: |to| one_file(to, "x.yaml", words("y,", MIB)) },
    HostileInput { name: "ambiguous-digits", add: |to| one_file(to, "x.yaml", words("08,", MIB)) },
    HostileInput { name: "many-small-maps", add: |to| one_file(to, "x.yaml", words("{a},", MIB)) },
    HostileInput { name: "many-small-lists", add: |to| one_file(to, "x.yaml", words("[],", MIB)) },
    HostileInput { name: "many-numbers", add: |to| one_file(to, "x.yaml", words("0,", MIB)) },
    HostileInput {
        name: "many-documents",
        add: |to| one_file(to, "x.yaml", "---\n{}\n".repeat(149_796)),
    },
    HostileInput { name: "many-keys", add: many_keys },
    HostileInput {
        name: "duplicate-keys",
        add: |to| one_file(to, "x.yaml", "a: 1\n".repeat(MIB / 5)),
    },
    HostileInput { name: "duplicate-long-keys", add: duplicate_long_keys },
    HostileInput { name: "unknown-tags", add: |to| one_file(to, "x.yaml", words("!x a,", MIB)) },
    HostileInput { name: "tree-of-14-levels", add: |to| deep_tree(to, None) },
    HostileInput {
        name: "tree-of-14-levels-with-submodules",
        add: |to| deep_tree(to, Some(EntryKind::Gitlink)),
    },
    HostileInput {
        name: "tree-of-14-levels-with-manifests",
        add: |to| deep_tree(to, Some(EntryKind::Blob)),
    },
    HostileInput { name: "list-of-100000-empty-objects", add: empty_list },
    HostileInput { name: "unknown-fields-90000", add: unknown_fields },
    HostileInput { name: "manifest-configs-9000-times-4900", add: manifest_configs },
    HostileInput { name: "manifest-configs-cluster-9000-times-4900", add: inherited_configs },
    HostileInput { name: "resources-1000-times-4900", add: resources },
    HostileInput { name: "resources-1000-and-matches-4900", add: resources_and_matches },
    HostileInput { name: "scrape-types-1900-times-4900", add: scrape_types },
    HostileInput { name: "plural-of-900-kb-times-4900", add: long_plural },
    HostileInput { name: "bad-labels-50000", add: bad_labels },
    HostileInput { name: "feedback-paths-35000", add: feedback_paths },
    HostileInput { name: "conditions-20000", add: conditions },
    HostileInput { name: "unknown-variables-40000", add: unknown_variables },
    HostileInput { name: "unknown-variables-below-a-long-key", add: variables_below_long_key },
    HostileInput { name: "links-1500-to-2-mb", add: links },
    HostileInput { name: "equal-folders-600", add: equal_folders },
    HostileInput { name: "equal-folders-of-1-mb-2000", add: equal_large_folders },
    HostileInput { name: "equal-cluster-yaml-300", add: equal_cluster_files },
    HostileInput { name: "sidecars-without-manifest", add: lonely_sidecars },
    HostileInput { name: "works-1000-with-problems", add: works_with_problems },
    HostileInput { name: "long-name", add: long_name },
    HostileInput { name: "wildcards", add: wildcards },
    HostileInput { name: "objects-that-find-nothing", add: objects_that_find_nothing },
    HostileInput { name: "group-yaml-1000-equal", add: groups::equal_files },
    HostileInput { name: "group-yaml-1000-equal-invalid", add: groups::equal_invalid_files },
    HostileInput { name: "group-invalid-names", add: groups::invalid_names },
    HostileInput { name: "group-invalid-labels", add: groups::invalid_labels },
    HostileInput { name: "group-overrides", add: groups::overrides },
    HostileInput { name: "group-names-20000", add: groups::names },
    HostileInput { name: "group-names-200000", add: groups::too_many_names },
    HostileInput { name: "group-invalid-folder-1000-members", add: groups::invalid_folder },
    HostileInput { name: "group-large-value-100-folders", add: groups::large_value },
    HostileInput { name: "group-values-of-8-mb-1000-members", add: groups::large_values },
    HostileInput { name: "group-unknown-variable", add: groups::unknown_variable },
    HostileInput { name: "group-unknown-dependencies", add: groups::unknown_dependencies },
    HostileInput { name: "group-selectors-1000", add: groups::selectors },
    HostileInput { name: "group-defaults-nested", add: groups::nested_defaults },
    HostileInput { name: "group-long-label-keys", add: groups::long_label_keys },
    HostileInput { name: "group-long-value-names", add: groups::long_value_names },
];

/// Inputs without a problem: large, and within every documented limit.
pub const VALID: &[&str] = &[
    "empty",
    "manifest-configs-cluster-9000-times-4900",
    "resources-1000-times-4900",
    "resources-1000-and-matches-4900",
    "feedback-paths-35000",
    "conditions-20000",
    "equal-folders-600",
    "equal-folders-of-1-mb-2000",
    "equal-cluster-yaml-300",
    "group-yaml-1000-equal",
    "group-overrides",
    "group-names-20000",
];

/// A renderer that does all that a command does without schemas.
pub fn renderer() -> Renderer {
    let checks = SchemaChecks { relations: true, ..SchemaChecks::default() };
    Renderer::new(source()).with_schema_checks(checks)
}

fn one_file(objects: &mut MemoryObjects, name: &str, text: String) -> ObjectId {
    work(objects, &[(name, text)])
}

/// A repository of one work with these files, and a manifest if it has none.
fn work(objects: &mut MemoryObjects, named: &[(&str, String)]) -> ObjectId {
    let mut all: BTreeMap<String, File> = files(&[(&format!("{WORK}/x.yaml"), OBJECT)]);
    for (name, text) in named {
        let path = if name.contains('/') { (*name).to_owned() } else { format!("{WORK}/{name}") };
        all.insert(path, File::Bytes(text.clone().into_bytes()));
    }
    objects.add(&all)
}

/// `[word word …` up to some bytes.
fn words(word: &str, bytes: usize) -> String {
    format!("[{}]", word.repeat(bytes / word.len() - 1))
}

/// `count` ConfigMaps that fit into a work.
fn config_maps(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = writeln!(
            text,
            "---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{namespace: x, name: n{n}}}}}"
        );
        text
    })
}

/// `count` objects of a kind that no CRD defines.
fn custom_objects(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = writeln!(
            text,
            "---\n{{apiVersion: x.io/v1, kind: Mouse, metadata: {{namespace: x, name: n{n}}}}}"
        );
        text
    })
}

/// Many Services whose two labels many pods have, and none has both; and names that are like many
/// others.
fn objects_that_find_nothing(objects: &mut MemoryObjects) -> ObjectId {
    let each = |object: &dyn Fn(usize) -> String| -> String {
        (0..900).map(|n| format!("---\n{}\n", object(n))).collect()
    };
    let metadata = |n: usize| format!("metadata: {{namespace: x, name: n{n}");
    let pods = each(&|n| {
        let (a, b) = (n % 2, (n + 1) % 2);
        format!("{{apiVersion: v1, kind: Pod, {}, labels: {{a: v{a}, b: v{b}}}}}}}", metadata(n))
    });
    let services = each(&|n| {
        let spec = "spec: {selector: {a: v1, b: v1}}";
        format!("{{apiVersion: v1, kind: Service, {}}}, {spec}}}", metadata(n))
    });
    let scalers = each(&|n| {
        let target = format!("{{apiVersion: v1, kind: Pod, name: m{n}}}");
        let spec = format!("spec: {{scaleTargetRef: {target}}}");
        let kind = "apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler";
        format!("{{{kind}, {}}}, {spec}}}", metadata(n))
    });
    let all = [("pods", pods), ("services", services), ("scalers", scalers)];
    let all = all.map(|(folder, text)| (format!("clusters/a/{folder}/x.yaml"), text));
    work(objects, &all.each_ref().map(|(path, text)| (path.as_str(), text.clone())))
}

fn alias_text(kib: usize, count: usize) -> String {
    format!("big: &a {}\nall: [{}]\n", "x".repeat(kib * KIB), "*a,".repeat(count))
}

fn aliases(objects: &mut MemoryObjects, name: &str, kib: usize, count: usize) -> ObjectId {
    one_file(objects, name, alias_text(kib, count))
}

fn aliases_in_source_file(objects: &mut MemoryObjects) -> ObjectId {
    let mut all = files(&[(&format!("{WORK}/x.yaml"), OBJECT)]);
    all.insert("gitwork.yaml".into(), File::Bytes(alias_text(200, 50_000).into_bytes()));
    objects.add(&all)
}

fn aliases_in_cluster_file(objects: &mut MemoryObjects) -> ObjectId {
    let values = (0..50_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "  V{n}: *a");
        text
    });
    let text = format!("values:\n  V: &a {}\n{values}", "x".repeat(200 * KIB));
    work(objects, &[("clusters/a/cluster.yaml", text)])
}

fn merge_keys(objects: &mut MemoryObjects) -> ObjectId {
    let fields = (0..1_000).fold(String::new(), |mut text, n| {
        let _ = write!(text, "k{n}: {}, ", "x".repeat(100));
        text
    });
    let text = format!("a: &a {{{fields}}}\nall: [{}]\n", "{<<: *a},".repeat(50_000));
    one_file(objects, "x.yaml", text)
}

fn alias_of_long_keys(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("a: &a {{{}: 1}}\nall: [{}]\n", "x".repeat(900), "*a,".repeat(300_000));
    one_file(objects, "x.yaml", text)
}

/// Each level has ten of the level before.
fn nested_aliases(objects: &mut MemoryObjects) -> ObjectId {
    let text = (1..12).fold("a0: &a0 {a: b}\n".to_owned(), |mut text, n| {
        let _ = writeln!(text, "a{n}: &a{n} [{}]", format!("*a{}, ", n - 1).repeat(10));
        text
    });
    one_file(objects, "x.yaml", text)
}

fn large_variable(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("{OBJECT}data: {{a: \"{}\"}}\n", "${V}".repeat(5_000));
    let cluster = format!("values: {{V: {}}}\n", "x".repeat(900 * KIB));
    let file = ("clusters/a/cluster.yaml", cluster);
    work(objects, &[("x.yaml", text), ("work.yaml", "substitute: true\n".into()), file])
}

fn lone_variables(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("{OBJECT}data: {{a: [{}]}}\n", "\"${V}\",".repeat(5_000));
    let cluster = format!("values: {{V: {}}}\n", "x".repeat(900 * KIB));
    let file = ("clusters/a/cluster.yaml", cluster);
    work(objects, &[("x.yaml", text), ("work.yaml", "substitute: true\n".into()), file])
}

fn sidecars_times_objects(objects: &mut MemoryObjects) -> ObjectId {
    let sidecar = "---\nfeedbackScrapeType: Poll\n".repeat(9_900);
    work(objects, &[("x.yaml", config_maps(4_900)), ("x.config.yaml", sidecar)])
}

fn many_keys(objects: &mut MemoryObjects) -> ObjectId {
    let text = (0..150_000).fold("{".to_owned(), |mut text, n| {
        let _ = write!(text, "{n:x}a,");
        text
    });
    one_file(objects, "x.yaml", text + "}")
}

fn duplicate_long_keys(objects: &mut MemoryObjects) -> ObjectId {
    one_file(objects, "x.yaml", format!("{}: 1\n", "x".repeat(1_000)).repeat(1_040))
}

/// Fourteen levels with ten equal folders each, and something in the lowest one.
fn deep_tree(objects: &mut MemoryObjects, lowest: Option<EntryKind>) -> ObjectId {
    let id = objects.add_blob(OBJECT.as_bytes().to_vec());
    let name = if lowest == Some(EntryKind::Blob) { "x.yaml" } else { "sub" };
    let mut tree = Tree::new();
    tree.extend(lowest.map(|kind| (name.to_owned(), Entry { kind, id })));
    for _ in 0..14 {
        let below = Entry { kind: EntryKind::Tree, id: objects.add_tree(tree) };
        tree = (0..10).map(|n| (format!("f{n}"), below.clone())).collect();
    }
    tree.insert("x.yaml".into(), Entry { kind: EntryKind::Blob, id });
    for name in WORK.rsplit('/') {
        let below = Entry { kind: EntryKind::Tree, id: objects.add_tree(tree) };
        tree = [(name.to_owned(), below)].into();
    }
    objects.add_tree(tree)
}

fn empty_list(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("apiVersion: v1\nkind: List\nitems: [{}]\n", "{},".repeat(100_000));
    one_file(objects, "x.yaml", text)
}

fn unknown_fields(objects: &mut MemoryObjects) -> ObjectId {
    let text = (0..90_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "f{n}: 1");
        text
    });
    one_file(objects, "work.yaml", text)
}

fn configs(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = writeln!(
            text,
            "- {{resourceIdentifier: {{resource: configmaps, namespace: x, name: \"n{n}\"}}, \
             feedbackScrapeType: Poll}}"
        );
        text
    })
}

fn manifest_configs(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("manifestConfigs:\n{}", configs(9_000));
    work(objects, &[("x.yaml", config_maps(4_900)), ("work.yaml", text)])
}

fn inherited_configs(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("defaults:\n manifestConfigs:\n{}", configs(9_000).replace("- {", " - {"));
    work(objects, &[("x.yaml", config_maps(4_900)), ("clusters/a/cluster.yaml", text)])
}

fn resources(objects: &mut MemoryObjects) -> ObjectId {
    let sidecar = "---\nresource: mice\n".repeat(1_000);
    work(objects, &[("x.yaml", custom_objects(4_900)), ("x.config.yaml", sidecar)])
}

/// The same, with a sidecar for each object.
fn resources_and_matches(objects: &mut MemoryObjects) -> ObjectId {
    let sidecar = (0..4_900).fold("---\nresource: mice\n".repeat(1_000), |mut text, n| {
        let _ = writeln!(text, "---\n{{match: {{name: n{n}}}, feedbackScrapeType: Poll}}");
        text
    });
    work(objects, &[("x.yaml", custom_objects(4_900)), ("x.config.yaml", sidecar)])
}

/// Every sidecar but the first sets again what is set.
fn scrape_types(objects: &mut MemoryObjects) -> ObjectId {
    let sidecar = "---\nfeedbackScrapeType: Poll\n".repeat(1_900);
    work(objects, &[("x.yaml", config_maps(4_900)), ("x.config.yaml", sidecar)])
}

/// Each object would have a copy of the plural.
fn long_plural(objects: &mut MemoryObjects) -> ObjectId {
    let crd = format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: mice.x.io}}\n\
         spec: {{group: x.io, scope: Namespaced, names: {{kind: Mouse, plural: {}}}}}\n",
        "x".repeat(900 * KIB)
    );
    work(objects, &[("x.yaml", custom_objects(4_900)), ("clusters/b/crds/crd.yaml", crd)])
}

fn bad_labels(objects: &mut MemoryObjects) -> ObjectId {
    let text = (0..50_000).fold("labels:\n".to_owned(), |mut text, n| {
        let _ = writeln!(text, "  -{n}: \"_{n}\"");
        text
    });
    one_file(objects, "work.yaml", text)
}

fn feedback_paths(objects: &mut MemoryObjects) -> ObjectId {
    let head = "feedbackRules:\n- type: JSONPaths\n  jsonPaths:\n".to_owned();
    let text = (0..35_000).fold(head, |mut text, n| {
        let _ = writeln!(text, "  - {{name: n{n}, path: .a}}");
        text
    });
    one_file(objects, "x.config.yaml", text)
}

fn conditions(objects: &mut MemoryObjects) -> ObjectId {
    let text = (0..20_000).fold("conditionRules:\n".to_owned(), |mut text, n| {
        let _ = writeln!(text, "- {{condition: n{n}, type: CEL, celExpressions: [\"true\"]}}");
        text
    });
    one_file(objects, "x.config.yaml", text)
}

fn unknown_variables(objects: &mut MemoryObjects) -> ObjectId {
    let data = (0..40_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "  k{n}: ${{V{n}}}");
        text
    });
    let text = format!("{OBJECT}data:\n{data}");
    let values = (0..2_000).fold("values:\n".to_owned(), |mut text, n| {
        let _ = writeln!(text, "  W{n}: a");
        text
    });
    let files = [("x.yaml", text), ("work.yaml", "substitute: true\n".to_owned())];
    let [manifest, work_file] = files;
    work(objects, &[manifest, work_file, ("clusters/a/cluster.yaml", values)])
}

/// Every pointer to a problem has the long key.
fn variables_below_long_key(objects: &mut MemoryObjects) -> ObjectId {
    let key = "k".repeat(MIB / 2);
    let text = format!("{OBJECT}data: {{? {key} : [{}]}}\n", "\"${V}\",".repeat(60_000));
    work(objects, &[("x.yaml", text), ("work.yaml", "substitute: true\n".into())])
}

fn links(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("{OBJECT}data: {{a: {}}}\n", "x".repeat(2_000_000));
    let mut all = files(&[(&format!("{WORK}/x.yaml"), &text)]);
    let link = |n| (format!("{WORK}/l{n:04}.yaml"), File::Link("x.yaml".into()));
    all.extend((0..1_500).map(link));
    objects.add(&all)
}

/// Some 500 bytes of trees each, and 400 KiB if each work held its own.
fn equal_folders(objects: &mut MemoryObjects) -> ObjectId {
    let values = "*a,".repeat(399);
    let text = format!("{OBJECT}data: {{a: &a {}, b: [{values}]}}\n", "x".repeat(KIB));
    let folder = objects.add(&files(&[("web/x.yaml", &text)]));
    clusters(objects, 600, folder)
}

/// One file that would take long if each work read it.
fn equal_large_folders(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("{OBJECT}data: {{a: \"\"\n{}}}\n", " # a comment\n".repeat(MIB / 13));
    let folder = objects.add(&files(&[("web/x.yaml", &text)]));
    clusters(objects, 2_000, folder)
}

/// Each file is small, and takes 20 MiB with its aliases expanded.
fn equal_cluster_files(objects: &mut MemoryObjects) -> ObjectId {
    let values = (0..200).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "  V{n}: *a");
        text
    });
    let text = format!("values:\n  V: &a {}\n{values}", "x".repeat(100 * KIB));
    let folder = objects.add(&files(&[("cluster.yaml", &text), ("web/x.yaml", OBJECT)]));
    clusters(objects, 300, folder)
}

/// A repository in which clusters have the same folder.
fn clusters(objects: &mut MemoryObjects, count: usize, folder: ObjectId) -> ObjectId {
    let entry = Entry { kind: EntryKind::Tree, id: folder };
    let all = (0..count).map(|n| (format!("c{n}"), entry.clone())).collect();
    let id = objects.add_tree(all);
    objects.add_tree([("clusters".to_owned(), Entry { kind: EntryKind::Tree, id })].into())
}

fn lonely_sidecars(objects: &mut MemoryObjects) -> ObjectId {
    let mut all = files(&[(&format!("{WORK}/x.yaml"), OBJECT)]);
    all.extend((0..1_990).map(|n| (format!("{WORK}/s{n}.config.yaml"), File::from("{}"))));
    objects.add(&all)
}

/// Many works that have many problems each.
fn works_with_problems(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("{OBJECT}data: {{a: [{}]}}\n", "y,".repeat(2_000));
    let work = |n| (format!("clusters/a/w{n}/x.yaml"), File::from(text.as_str()));
    objects.add(&(0..1_000).map(work).collect())
}

fn long_name(objects: &mut MemoryObjects) -> ObjectId {
    let object = "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: x, name: *a}},";
    let text = format!(
        "apiVersion: v1\nkind: List\nmetadata: {{annotations: {{a: &a {}}}}}\nitems: [{}]\n",
        "/".repeat(500 * KIB),
        object.repeat(4_000)
    );
    one_file(objects, "x.yaml", text)
}

/// Patterns that a naive search tries in many ways.
fn wildcards(objects: &mut MemoryObjects) -> ObjectId {
    let select =
        format!("---\nmatch: {{name: \"{}b\"}}\nfeedbackScrapeType: Poll\n", "*a".repeat(400));
    let text = (0..1_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(
            text,
            "---\n{{apiVersion: v1, kind: ConfigMap, metadata: {{namespace: x, name: n{n}{}}}}}",
            "a".repeat(240)
        );
        text
    });
    work(objects, &[("x.yaml", text), ("x.config.yaml", select.repeat(900))])
}
