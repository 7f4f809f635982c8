//! Groups: one small folder for many clusters.

use super::*;

/// `clusters:` with this many names.
fn members(count: usize, first: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|n| format!("c{n}")).collect();
    format!("clusters: [{}]\n", names.join(","))
}

/// A repository with one group.
fn group(objects: &mut MemoryObjects, yaml: String, folder: &[(&str, String)]) -> ObjectId {
    let mut all: BTreeMap<String, File> =
        [("groups/g/group.yaml".to_owned(), File::Bytes(yaml.into_bytes()))].into();
    for (name, text) in folder {
        all.insert(format!("groups/g/{name}"), File::Bytes(text.clone().into_bytes()));
    }
    objects.add(&all)
}

/// Many groups with one folder. Trees and files are in Git once.
fn equal_groups(objects: &mut MemoryObjects, yaml: String, count: usize) -> ObjectId {
    let file = File::Bytes(yaml.into_bytes());
    let folder = objects.add(&[("group.yaml".to_owned(), file)].into());
    let entry = Entry { kind: EntryKind::Tree, id: folder };
    let groups = (0..count).map(|n| (format!("g{n}"), entry.clone())).collect();
    let id = objects.add_tree(groups);
    let work = objects.add(&files(&[("a/web/x.yaml", OBJECT)]));
    let tree = |id| Entry { kind: EntryKind::Tree, id };
    let top = [("clusters".to_owned(), tree(work)), ("groups".to_owned(), tree(id))];
    objects.add_tree(top.into())
}

/// 1,000 groups whose group.yaml has 1 MiB of values.
pub(super) fn equal_files(objects: &mut MemoryObjects) -> ObjectId {
    let values = (0..MIB / 40).fold("clusters: [a]\nvalues:\n".to_owned(), |mut text, n| {
        let _ = writeln!(text, "  V{n}: some text of a usual length");
        text
    });
    equal_groups(objects, values, 1_000)
}

pub(super) fn equal_invalid_files(objects: &mut MemoryObjects) -> ObjectId {
    let text =
        format!("clusters: [a]\nvalues: {{A: b}}\n{}broken: [", "# no value\n".repeat(90_000));
    equal_groups(objects, text, 1_000)
}

pub(super) fn invalid_names(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("clusters: [a]\nexclude: [{}]\n", "A,".repeat(MIB / 2));
    group(objects, text, &[("web/x.yaml", OBJECT.into())])
}

pub(super) fn invalid_labels(objects: &mut MemoryObjects) -> ObjectId {
    let head = "selector:\n  labelSelector:\n    matchLabels:\n".to_owned();
    let text = (0..60_000).fold(head, |mut text, n| {
        let _ = writeln!(text, "      -{n}: \"_{n}\"");
        text
    });
    group(objects, text, &[("web/x.yaml", OBJECT.into())])
}

/// 100 overrides for all members, with 1 MiB of values together.
pub(super) fn overrides(objects: &mut MemoryObjects) -> ObjectId {
    let head = format!("{}overrides:\n", members(200, 0));
    let text = (0..100).fold(head, |mut text, n| {
        text.push_str("- clusters: [\"*\"]\n  values:\n");
        for value in 0..400 {
            let _ = writeln!(text, "    V{value}: text {n}");
        }
        text
    });
    let manifest = format!("{OBJECT}data: {{a: \"${{V1}}\", b: \"${{cluster.name}}\"}}\n");
    let files = [("web/x.yaml", manifest), ("web/work.yaml", "substitute: true\n".into())];
    group(objects, text, &files)
}

/// As many clusters as a source may have, each named once.
pub(super) fn names(objects: &mut MemoryObjects) -> ObjectId {
    named_clusters(objects, 20)
}

/// More than a source may have, and as many members as it may have.
pub(super) fn too_many_names(objects: &mut MemoryObjects) -> ObjectId {
    named_clusters(objects, 200)
}

fn named_clusters(objects: &mut MemoryObjects, groups: usize) -> ObjectId {
    let of_group = |n: usize| {
        let yaml = File::Bytes(members(1_000, n * 1_000).into_bytes());
        let work = (format!("groups/g{n}/web{n}/x.yaml"), File::from(OBJECT));
        [(format!("groups/g{n}/group.yaml"), yaml), work]
    };
    objects.add(&(0..groups).flat_map(of_group).collect())
}

/// A manifest of 1 MiB that ends with an error: it is read once, not for each member.
pub(super) fn invalid_folder(objects: &mut MemoryObjects) -> ObjectId {
    let text = format!("{OBJECT}{}broken: [", "# a comment\n".repeat(MIB / 13));
    group(objects, members(1_000, 0), &[("web/x.yaml", text)])
}

/// 100 works of 200 members ask for one value of 900 KiB, which makes them too large.
pub(super) fn large_value(objects: &mut MemoryObjects) -> ObjectId {
    let yaml = format!("{}values: {{V: {}}}\n", members(200, 0), "x".repeat(900 * KIB));
    let manifest = format!("{OBJECT}data: {{a: \"${{V}}\"}}\n");
    let names: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
    let files = |name: &String| {
        [
            (format!("{name}/x.yaml"), manifest.clone()),
            (format!("{name}/work.yaml"), "substitute: true\n".to_owned()),
        ]
    };
    let all: Vec<(String, String)> = names.iter().flat_map(files).collect();
    let all: Vec<(&str, String)> = all.iter().map(|(name, text)| (&**name, text.clone())).collect();
    group(objects, yaml, &all)
}

/// Each member has values of its own, which are inserted up to the limit of a work.
pub(super) fn large_values(objects: &mut MemoryObjects) -> ObjectId {
    let yaml = format!("{}values: {{V: {}}}\n", members(1_000, 0), "x".repeat(900 * KIB));
    let texts = "\"${V}\",".repeat(9);
    let manifest = format!("{OBJECT}data: {{a: \"${{cluster.name}}\", b: [{texts}]}}\n");
    let files = [("web/x.yaml", manifest), ("web/work.yaml", "substitute: true\n".into())];
    group(objects, yaml, &files)
}

/// A common mistake, in a large file, for many clusters.
pub(super) fn unknown_variable(objects: &mut MemoryObjects) -> ObjectId {
    let comments = "# a comment\n".repeat(MIB / 13);
    let text = format!("{OBJECT}data: {{a: \"${{UNKNOWN}}\"}}\n{comments}");
    let files = [("web/x.yaml", text), ("web/work.yaml", "substitute: true\n".into())];
    group(objects, members(1_000, 0), &files)
}

/// 20,000 works with 20 unknown dependencies each.
pub(super) fn unknown_dependencies(objects: &mut MemoryObjects) -> ObjectId {
    let names: Vec<String> = (0..20).map(|n| format!("w{n}")).collect();
    let depends_on: Vec<String> = (0..20).map(|n| format!("unknown-{n}")).collect();
    let work_file = format!("dependsOn: [{}]\n", depends_on.join(","));
    let files = |(n, name): (usize, &String)| {
        let manifest = OBJECT.replace("name: web", &format!("name: n{n}"));
        [(format!("{name}/x.yaml"), manifest), (format!("{name}/work.yaml"), work_file.clone())]
    };
    let all: Vec<(String, String)> = names.iter().enumerate().flat_map(files).collect();
    let all: Vec<(&str, String)> = all.iter().map(|(name, text)| (&**name, text.clone())).collect();
    group(objects, members(1_000, 0), &all)
}

/// 1,000 groups that compare 1,000 clusters with 1,000 values each: past the limit.
pub(super) fn selectors(objects: &mut MemoryObjects) -> ObjectId {
    let values: Vec<String> = (0..1_000).map(|n| format!("v{n}")).collect();
    let yaml = format!(
        "clusters: [\"*\"]\nselector: {{labelSelector: {{matchExpressions: [{{key: k, operator: \
         NotIn, values: [{}]}}]}}}}\n",
        values.join(",")
    );
    let folder = objects.add(&files(&[("group.yaml", &yaml)]));
    let entry = Entry { kind: EntryKind::Tree, id: folder };
    let id = objects.add_tree((0..1_000).map(|n| (format!("g{n}"), entry.clone())).collect());
    let work = objects.add(&files(&[("web/x.yaml", OBJECT), ("cluster.yaml", "labels: {k: v}\n")]));
    let work = Entry { kind: EntryKind::Tree, id: work };
    let all = (0..1_000).map(|n| (format!("c{n}"), work.clone())).collect();
    let clusters = objects.add_tree(all);
    let tree = |id| Entry { kind: EntryKind::Tree, id };
    let top = [("clusters".to_owned(), tree(clusters)), ("groups".to_owned(), tree(id))];
    objects.add_tree(top.into())
}

/// `${A:-${A:-…`, without an end, and with all ends behind it.
pub(super) fn nested_defaults(objects: &mut MemoryObjects) -> ObjectId {
    let open = "${A:-".repeat(MIB / 16);
    let closed = format!("{}{}", "${A:-".repeat(MIB / 16), "}".repeat(MIB / 16));
    let manifest = format!("{OBJECT}data: {{a: \"{open}\", b: \"{closed}\"}}\n");
    let files = [("web/x.yaml", manifest), ("web/work.yaml", "substitute: true\n".into())];
    group(objects, members(100, 0), &files)
}

/// Each key of a label is of 10 KB.
pub(super) fn long_label_keys(objects: &mut MemoryObjects) -> ObjectId {
    let name = |n: usize| format!("cluster.labels[\"{n}{}\"]", "x".repeat(10 * KIB));
    long_variables(objects, name)
}

/// Each name of a value is of 10 KB.
pub(super) fn long_value_names(objects: &mut MemoryObjects) -> ObjectId {
    long_variables(objects, |n| format!("V{n}{}", "x".repeat(10 * KIB)))
}

fn long_variables(objects: &mut MemoryObjects, name: impl Fn(usize) -> String) -> ObjectId {
    let data = (0..100).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "  k{n}: '${{{}}}'", name(n));
        text
    });
    let manifest = format!("{OBJECT}data:\n{data}");
    let files = [("web/x.yaml", manifest), ("web/work.yaml", "substitute: true\n".into())];
    group(objects, members(100, 0), &files)
}
