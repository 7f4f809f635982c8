//! Checks the pages of `docs/` and those at the root. Their YAML is what it claims to be, their
//! links lead somewhere, every field of every configuration file is explained, and every guarantee,
//! threat and invariant has tests that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use gitwork_api::work::manifest_work_spec_schema;
use gitwork_core::config::FileKind;
use gitwork_core::config::OCM_FIELDS;
use gitwork_core::config::file;
use gitwork_core::config::schema;
use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::name::RepoPath;
use gitwork_core::plan::Guard;
use serde_json::Value;

use crate::cases;
use crate::example::{documents, kind_of};
use crate::memory_repository::{File, render, render_with_facts};
use gitwork_simulation::fleet::seeds;

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub struct Page {
    /// From the repository's root.
    pub path: String,
    text: String,
}

impl Page {
    pub fn read(path: &str) -> Self {
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

/// A fenced block: what stands after the fence, its text, the line of the fence, and the heading
/// above it.
pub struct Block {
    pub info: String,
    pub text: String,
    pub line: usize,
    section: usize,
}

pub fn blocks(page: &Page) -> Vec<Block> {
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
    let (read, found) = file::read_all::<Any>(&path, text.as_bytes(), kind, &Scope::Source);
    assert!(!read.is_empty() || !found.is_empty(), "nothing in it");
    found
}

/// A Kubernetes object with apiVersion, kind and name.
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
fn yaml_blocks_of_the_docs_are_valid() {
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
            let desired = match page.path.as_str() {
                "docs/fleet.md" => render_with_facts(files, cases::facts("fleet")),
                _ => render(files),
            };
            assert_eq!(desired.diagnostics, Vec::<Diagnostic>::new(), "{}", page.path);
            assert!(!desired.works.is_empty(), "{}", page.path);
        }
    }
    assert!(count > 10, "the scan must see the blocks: {count}");
}

#[test]
fn layout_example_renders_to_the_shown_manifest_work() {
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
    let (key, rendered) = desired.works.iter().next().unwrap();
    let mut rendered = rendered.body.to_manifest_work(key, None);
    // The page names the annotations that it leaves out.
    let annotations = rendered["metadata"]["annotations"].as_object_mut().unwrap();
    for left_out in ["gitwork.dev/content-hash", "gitwork.dev/managed-keys"] {
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
fn links_of_the_docs_resolve() {
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
        "group" => ("docs/sidecars.md", "group.yaml"),
        "work" => ("docs/sidecars.md", "work.yaml"),
        "manifest-config" => ("docs/sidecars.md", "Manifest sidecar"),
        "daemon" => ("docs/daemon-config.md", "Fields"),
        other => panic!("say where the fields of {other} are explained"),
    }
}

#[test]
fn every_config_field_is_documented() {
    let sidecars = Page::read("docs/sidecars.md");
    let settings = section(&sidecars, "Settings");
    for kind in FileKind::ALL {
        let (path, heading) = explained_in(kind);
        let text = section(&Page::read(path), heading);
        let mut all = BTreeSet::new();
        let mut stop = [&OCM_FIELDS[..], &["defaults"]].concat();
        // The page refers to the section on group.yaml.
        stop.extend((kind == FileKind::Source).then_some("rollout"));
        fields(&kind.schema(), "", &stop, &mut all);
        let of_source = section(&sidecars, "gitwork.yaml");
        let explained = |field: &String| {
            if let Some(rest) = field.strip_prefix("rollout.waves[].window.") {
                return of_source.contains(&format!("`windows.{rest}`"));
            }
            // Overrides and waves select clusters as their group does.
            let selector = ["overrides[].selector.", "rollout.waves[].selector."]
                .iter()
                .find_map(|prefix| field.strip_prefix(prefix));
            let field = match selector {
                Some(rest) => format!("`selector.{rest}`"),
                None => format!("`{field}`"),
            };
            text.contains(&field) || (path == sidecars.path && settings.contains(&field))
        };
        let missing: Vec<&String> = all.iter().filter(|field| !explained(field)).collect();
        assert!(missing.is_empty(), "{path}, {heading}: {missing:#?}");
    }
}

#[test]
fn every_ocm_field_is_documented() {
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

/// The texts of all Rust files below `folder`.
fn rust_files(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// The name of the function that a line declares.
fn declared_function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// Whether the attributes of a function make `cargo test` run it.
fn makes_test(attributes: &[&str]) -> bool {
    let is_test = |line: &&str| {
        matches!(*line, "#[test]" | "#[tokio::test]") || line.starts_with("#[tokio::test(")
    };
    let is_ignored = |line: &&str| line.starts_with("#[ignore");
    attributes.iter().any(is_test) && !attributes.iter().any(is_ignored)
}

/// The tests in the text of a Rust file: functions with a test attribute, also inside `proptest!`.
fn tests_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut attributes: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            attributes.push(line);
        } else if !line.is_empty() && !line.starts_with("//") {
            let name = declared_function(line).filter(|_| makes_test(&attributes));
            found.extend(name.map(str::to_owned));
            attributes.clear();
        }
    }
    found
}

/// The cases in a `contract! { module::case, … }` list. The macro runs each of them on every hub.
fn contract_cases(text: &str) -> BTreeSet<String> {
    let list = text.split_once("\ncontract! {\n").and_then(|(_, rest)| rest.split_once("\n}"));
    let lines = list.into_iter().flat_map(|(list, _)| list.lines());
    lines
        .filter_map(|line| Some(line.trim().strip_suffix(',')?.split_once("::")?.1.to_owned()))
        .collect()
}

/// Every test that `cargo test` runs, and every case of the hub contract.
fn known_tests() -> BTreeSet<String> {
    let mut files = Vec::new();
    for folder in ["src", "tests"] {
        rust_files(&repository().join(folder), &mut files);
    }
    let mut known: BTreeSet<String> = files.iter().flat_map(|text| tests_in(text)).collect();
    let cases: BTreeSet<String> = files.iter().flat_map(|text| contract_cases(text)).collect();
    // The cases are tests because these two run them.
    for run in ["real_hub_keeps_the_contract", "simulated_hub_keeps_contract"] {
        assert!(known.contains(run), "no test {run} runs the hub contract");
    }
    assert!(cases.len() > 10, "the scan must see the cases: {cases:?}");
    known.extend(cases);
    known
}

#[test]
fn only_functions_that_cargo_test_runs_count_as_tests() {
    let text = "#[test]\n#[cfg(unix)]\n/// Why.\nfn plain() {}\nfn helper() {}\n\
                #[tokio::test(start_paused = true)]\nasync fn paused() {}\n\
                proptest! {\n    #[test]\n    fn random(seed in 0..9) {}\n}\n\
                #[test]\n#[ignore = \"slow\"]\nfn ignored() {}\n// #[test]\nfn commented() {}\n\
                #[test]\nmod inner {}\nfn later() {}\nmacro_rules! test { () => {} }\n";
    assert_eq!(tests_in(text).into_iter().collect::<Vec<_>>(), ["paused", "plain", "random"]);
    let list = "mod reads;\n\ncontract! {\n    reads::listed,\n}\n\nfn unlisted() {}\n";
    assert_eq!(contract_cases(list).into_iter().collect::<Vec<_>>(), ["listed"]);
    assert_eq!(tests_in(list), BTreeSet::new());
}

/// The ids that begin the rows of a table, `| G1 |`, or the items of a list, `- **I1.`.
fn ids(text: &str, letter: char) -> Vec<String> {
    let id = |line: &str| {
        let line = line.strip_prefix("| ").or_else(|| line.strip_prefix("- **"))?;
        let rest = line.strip_prefix(letter)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let end = rest.strip_prefix(digits.as_str())?;
        let is_id = !digits.is_empty() && (end.starts_with(" |") || end.starts_with('.'));
        is_id.then(|| format!("{letter}{digits}"))
    };
    text.lines().filter_map(id).collect()
}

/// The rows of `docs/evidence.md`: an id, and its tests and seeds as they are written.
fn evidence() -> Vec<(String, Vec<String>)> {
    let page = Page::read("docs/evidence.md");
    let rows = page.text.lines().filter_map(|line| {
        let (id, shown) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((id.to_owned(), shown.split(", ").map(str::to_owned).collect()))
    });
    rows.filter(|(id, _)| id != "id").collect()
}

/// The ids as a set; none may be there twice.
fn unique(ids: Vec<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for id in ids {
        assert!(!found.contains(&id), "the id {id} is used twice");
        found.insert(id);
    }
    found
}

#[test]
fn every_guarantee_threat_and_invariant_has_one_row_of_evidence() {
    let mut promised: Vec<String> = Vec::new();
    for (path, letter, least) in [
        ("docs/guarantees.md", 'G', 62),
        ("docs/threat-model.md", 'T', 43),
        ("docs/architecture.md", 'I', 17),
    ] {
        let found = ids(&Page::read(path).text, letter);
        assert!(found.len() >= least, "{path} has lost some of its {least} ids: {found:?}");
        promised.extend(found);
    }
    let promised = unique(promised);
    let listed = unique(evidence().into_iter().map(|(id, _)| id).collect());
    let without_row: Vec<&String> = promised.difference(&listed).collect();
    assert!(without_row.is_empty(), "docs/evidence.md has no row for {without_row:?}");
    let without_id: Vec<&String> = listed.difference(&promised).collect();
    assert!(without_id.is_empty(), "no page has the ids {without_id:?} of docs/evidence.md");
}

#[test]
fn evidence_names_only_tests_that_run_and_seeds_of_the_regression_list() {
    let known = known_tests();
    let is_known = |part: &str| match part.split_once(' ') {
        Some(("seed", number)) => seeds::FOUND.iter().any(|(seed, _)| seed.to_string() == number),
        Some(("case", name)) => cases::folder(name).join("expected.txt").is_file(),
        _ => {
            let name = part.strip_prefix('`').and_then(|part| part.strip_suffix('`'));
            name.is_some_and(|name| known.contains(name))
        }
    };
    for (id, parts) in evidence() {
        assert!(parts.iter().any(|part| part.starts_with('`')), "{id} names no test");
        for part in &parts {
            assert!(
                is_known(part),
                "{id}: {part} is no test that runs, no case, and no seed in the list"
            );
        }
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

#[test]
fn invariant_of_guards_names_every_guard() {
    let page = Page::read("docs/architecture.md").text;
    let invariant = page.split("- **I16.").nth(1).unwrap().split("\n- **").next().unwrap();
    for guard in Guard::ALL {
        let name = match guard {
            Guard::Origin => "another origin",
            Guard::Budget => "the deletion budget",
            Guard::Rewind => "a held rewind",
            Guard::Restore => "a restored hub",
            Guard::Window => "closed window",
            Guard::Rollout => "a wave of a rollout",
            Guard::Suspension => "A suspension",
        };
        let words: Vec<&str> = invariant.split_whitespace().collect();
        assert!(words.join(" ").contains(name), "I16 does not name {name}: {invariant}");
    }
}
