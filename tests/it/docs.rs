//! The pages of `docs/` and those at the root: their YAML is checked as what it claims to be, their links lead
//! somewhere, every field of every configuration file is explained, and every test that is named exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gitwork::api::work::manifest_work_spec_schema;
use gitwork::core::config::FileKind;
use gitwork::core::config::OCM_FIELDS;
use gitwork::core::configfile;
use gitwork::core::diagnostic::{Diagnostic, Scope};
use gitwork::core::name::RepoPath;
use gitwork::core::schema;
use serde_json::Value;

use crate::example::{documents, kind_of};
use crate::memory::{File, render};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

struct Page {
    /// From the repository's root.
    path: String,
    text: String,
}

impl Page {
    fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(repository().join(path)).unwrap();
        Self { path: path.to_owned(), text }
    }

    /// Made from the code by another test, which knows what is in it.
    fn is_generated(&self) -> bool {
        self.text.lines().take(5).any(|line| line.starts_with("<!-- Generated from the code"))
    }
}

/// Every page: `docs/*.md`, those at the root, and the example's.
fn pages() -> Vec<Page> {
    let mut paths = vec!["examples/repo-layout/README.md".to_owned()];
    for folder in ["", "docs/"] {
        for entry in std::fs::read_dir(repository().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                paths.push(format!("{folder}{name}"));
            }
        }
    }
    paths.sort();
    assert!(paths.len() > 6, "{paths:?}");
    paths.iter().map(|path| Page::read(path)).collect()
}

/// A fenced block: what stands after the fence, its text, the line of the fence, and the heading above it.
struct Block {
    info: String,
    text: String,
    line: usize,
    section: usize,
}

fn blocks(page: &Page) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut is_open, mut section) = (false, 0);
    for (index, line) in page.text.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(info) => {
                is_open = true;
                let (info, text) = (info.trim().to_owned(), String::new());
                found.push(Block { info, text, line: index + 1, section });
            }
            None if is_open => {
                let block = found.last_mut().unwrap();
                block.text.push_str(line);
                block.text.push('\n');
            }
            None if line.starts_with('#') => section += 1,
            None => {}
        }
    }
    assert!(!is_open, "{} ends within a block", page.path);
    found
}

/// The prose of a page: blocks are blanked out, lines stay where they are.
fn prose(page: &Page) -> String {
    let mut is_open = false;
    let lines = page.text.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_open ^= is_fence;
        if is_open || is_fence { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// What is wrong with a configuration file, by the checks of the product.
fn config_problems(text: &str, kind: FileKind) -> Vec<Diagnostic> {
    let path = RepoPath::parse("example.yaml").unwrap();
    // Every configuration file is at least a mapping; the checks are in the reading.
    #[derive(Default, serde::Deserialize)]
    struct Any {}
    let (read, found) = configfile::read_all::<Any>(&path, text.as_bytes(), kind, &Scope::Source);
    assert!(!read.is_empty() || !found.is_empty(), "nothing in it");
    found
}

/// A Kubernetes object that says what it is.
fn check_object(object: &Value, place: &str) {
    for field in ["/apiVersion", "/kind", "/metadata/name"] {
        let text = object.pointer(field).and_then(Value::as_str);
        assert!(text.is_some_and(|text| !text.is_empty()), "{place}: no {field}");
    }
}

fn check_block(block: &Block, place: &str) {
    let text = File::from(block.text.as_str());
    let label = block.info.strip_prefix("yaml ").unwrap_or_default();
    if let Some(path) = label.strip_prefix("file=") {
        match kind_of(path) {
            Some(kind) => assert_eq!(config_problems(&block.text, kind), [], "{place}"),
            None => documents(path, &text).iter().for_each(|object| check_object(object, place)),
        }
        return;
    }
    let Some(kind) = label.strip_prefix("kind=") else {
        panic!("{place}: a YAML block says what it is: ```yaml file=PATH, or ```yaml kind=KIND");
    };
    if let Some(kind) = FileKind::ALL.into_iter().find(|k| k.schema_name() == kind) {
        assert_eq!(config_problems(&block.text, kind), [], "{place}");
        return;
    }
    for object in documents("example.yaml", &text) {
        check_object(&object, place);
        match kind {
            "kubernetes" => {}
            "manifestwork" => {
                assert_eq!(object["kind"], "ManifestWork", "{place}");
                let spec = manifest_work_spec_schema();
                assert_eq!(schema::check(&object["spec"], &spec, &[]), [], "{place}");
            }
            _ => panic!("{place}: there is no kind {kind:?}"),
        }
    }
}

#[test]
fn the_yaml_of_the_pages_is_what_it_claims_to_be() {
    let mut count = 0;
    for page in pages().iter().filter(|page| !page.is_generated()) {
        let mut sections: BTreeMap<usize, BTreeMap<String, File>> = BTreeMap::new();
        for block in blocks(page).iter().filter(|block| block.info.starts_with("yaml")) {
            count += 1;
            check_block(block, &format!("{}:{}", page.path, block.line));
            if let Some(path) = block.info.strip_prefix("yaml file=") {
                let files = sections.entry(block.section).or_default();
                let before = files.insert(path.to_owned(), block.text.as_str().into());
                assert!(before.is_none(), "{}:{}: a second {path}", page.path, block.line);
            }
        }
        // What stands under one heading makes a repository, where there is a manifest in it.
        for files in sections.values().filter(|f| f.keys().any(|path| kind_of(path).is_none())) {
            let desired = render(files);
            assert_eq!(desired.diagnostics, Vec::<Diagnostic>::new(), "{}", page.path);
            assert!(!desired.works.is_empty(), "{}", page.path);
        }
    }
    assert!(count > 10, "the scan must see the blocks: {count}");
}

#[test]
fn the_folder_and_the_manifest_work_of_the_layout_page_are_the_same() {
    let page = Page::read("docs/layout.md");
    let all = blocks(&page);
    let work = all.iter().find(|block| block.info == "yaml kind=manifestwork").unwrap();
    let files: BTreeMap<String, File> = all
        .iter()
        .filter(|block| block.section == work.section)
        .filter_map(|block| {
            Some((block.info.strip_prefix("yaml file=")?.to_owned(), block.text.as_str().into()))
        })
        .collect();
    let desired = render(&files);
    let (key, rendered) = desired.works.first_key_value().unwrap();
    let mut rendered = rendered.body.to_manifest_work(key, None);
    // The page says in words which annotations it leaves out.
    let annotations = rendered["metadata"]["annotations"].as_object_mut().unwrap();
    for left_out in ["gitwork.dev/content-hash", "gitwork.dev/keys"] {
        let known = format!("`{left_out}`");
        assert!(page.text.contains(&known), "the page says nothing of {left_out}");
        annotations.remove(left_out);
    }
    let shown = documents("example.yaml", &work.text.as_str().into());
    assert_eq!(shown, [rendered]);
}

/// The anchor that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// The targets of `[text](target)`.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut count = 0;
    for page in pages() {
        let text = prose(&page);
        let folder = Path::new(&page.path).parent().unwrap().to_owned();
        for link in links(&text).into_iter().filter(|link| !link.contains("://")) {
            count += 1;
            let (path, wanted) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => repository().join(&page.path),
                path => repository().join(&folder).join(path),
            };
            assert!(target.exists(), "{}: {link} leads nowhere", page.path);
            if !wanted.is_empty() {
                let there = std::fs::read_to_string(target).unwrap();
                assert!(anchors(&there).contains(wanted), "{}: no heading {link}", page.path);
            }
        }
    }
    assert!(count > 10, "the scan must see the links: {count}");
}

/// The part of a page under a heading of the second level, what is below it included.
fn section(page: &Page, heading: &str) -> String {
    let start = format!("\n## {heading}\n");
    let Some((_, rest)) = page.text.split_once(&start) else {
        panic!("{} has no section {heading:?}", page.path);
    };
    rest.split("\n## ").next().unwrap_or_default().to_owned()
}

/// The fields of a schema, dotted, and the values of enumerations.
fn fields(schema: &Value, at: &str, stop: &[&str], found: &mut BTreeSet<String>) {
    found.extend(
        schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned),
    );
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        found.insert(at.clone());
        if !stop.contains(&name.as_str()) {
            fields(field, &at, stop, found);
        }
    }
    if let Some(items) = schema.get("items") {
        fields(items, &format!("{at}[]"), stop, found);
    }
}

/// Where the fields of a file are explained.
fn explained_in(kind: FileKind) -> (&'static str, &'static str) {
    match kind.schema_name() {
        "gitwork" => ("docs/sidecars.md", "gitwork.yaml"),
        "cluster" => ("docs/sidecars.md", "cluster.yaml"),
        "work" => ("docs/sidecars.md", "work.yaml"),
        "manifest-config" => ("docs/sidecars.md", "Manifest sidecar"),
        "daemon" => ("docs/operations.md", "Several sources"),
        other => panic!("say where the fields of {other} are explained"),
    }
}

#[test]
fn every_field_is_explained() {
    let sidecars = Page::read("docs/sidecars.md");
    let settings = section(&sidecars, "Settings");
    for kind in FileKind::ALL {
        let (path, heading) = explained_in(kind);
        let text = section(&Page::read(path), heading);
        let mut all = BTreeSet::new();
        fields(&kind.schema(), "", &[&OCM_FIELDS[..], &["defaults"]].concat(), &mut all);
        let explained = |field: &String| {
            let field = format!("`{field}`");
            text.contains(&field) || (path == sidecars.path && settings.contains(&field))
        };
        let missing: Vec<&String> = all.iter().filter(|field| !explained(field)).collect();
        assert!(missing.is_empty(), "{path}, {heading}: {missing:#?}");
    }
}

#[test]
fn every_field_of_ocm_is_explained() {
    let text = section(&Page::read("docs/sidecars.md"), "OCM's fields");
    let mut spec = manifest_work_spec_schema();
    spec["properties"].as_object_mut().unwrap().remove("workload").unwrap();
    let mut all = BTreeSet::new();
    fields(&spec, "", &[], &mut all);
    // A rule is explained once, as it stands in a manifest sidecar.
    let explained = |field: &&String| {
        let short = field.strip_prefix("manifestConfigs[].").unwrap_or(field);
        OCM_FIELDS.contains(&field.as_str())
            || text.contains(&format!("`{field}`"))
            || text.contains(&format!("`{short}`"))
            || OCM_FIELDS.contains(&short)
    };
    assert!(all.len() > 50, "{all:?}");
    let missing: Vec<&String> = all.iter().filter(|field| !explained(field)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The names of all functions in Rust files below `folder`.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_invariant_names_tests_that_exist() {
    let text = section(&Page::read("docs/architecture.md"), "What always holds");
    let mut known = BTreeSet::new();
    functions(&repository().join("src"), &mut known);
    functions(&repository().join("tests"), &mut known);
    let mut invariants = 0;
    for shown in text.lines().filter_map(|line| line.trim().strip_prefix("Shown by ")) {
        invariants += 1;
        let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test is named: {shown}");
        for name in names {
            assert!(known.contains(name), "there is no test {name}");
        }
    }
    let numbered = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    assert_eq!(numbered.count(), invariants, "every invariant has a line \"Shown by\"");
    assert!(invariants >= 8, "{invariants}");
}

/// In the last cell of each row of a page's tables.
#[test]
fn every_guarantee_and_every_threat_names_tests_that_exist() {
    let mut known = BTreeSet::new();
    functions(&repository().join("src"), &mut known);
    functions(&repository().join("tests"), &mut known);
    for path in ["docs/guarantees.md", "docs/threat-model.md"] {
        let mut rows = 0;
        let page = Page::read(path);
        let lines = page.text.lines().filter(|line| line.starts_with("| "));
        for row in lines.filter(|line| !line.ends_with(" shown by |")) {
            rows += 1;
            let shown = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
            let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
            assert!(!names.is_empty(), "no test is named: {row}");
            for name in names {
                assert!(known.contains(name), "there is no test {name}");
            }
        }
        assert!(rows >= 10, "{path}: {rows}");
    }
}

/// The texts of all Rust files of the product, with the lines of a broken string joined.
fn source_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&source_text(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            for part in std::fs::read_to_string(&path).unwrap().split("\\\n") {
                text.push_str(part.trim_start());
            }
        }
    }
    text
}

#[test]
fn every_message_that_operators_look_up_is_one_that_gitwork_says() {
    let text = section(&Page::read("docs/operations.md"), "At 3 a.m.");
    let said = source_text(&repository().join("src"));
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let mut count = 0;
    for (message, _) in rows.filter(|(message, _)| *message != "message") {
        for part in message.split("...").map(|part| part.trim_matches([' ', ','])) {
            count += 1;
            assert!(said.contains(part), "gitwork does not say {part:?} of {message:?}");
        }
    }
    assert!(count > 20, "{count}");
}
