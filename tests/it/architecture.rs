//! The structure of the source: crates and modules import downward, pure crates stay pure, and
//! everything has the names of the field. docs/architecture.md draws the crates and layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "architecture/drawing.rs"]
mod drawing;
#[path = "architecture/imports.rs"]
mod imports;
#[path = "architecture/logs.rs"]
mod logs;
#[path = "architecture/words.rs"]
mod words;

use drawing::{Drawing, reduced};
use imports::{CrateModules, Graph};

/// The crates, lowest first: a crate depends on crates above it in this list only.
const CRATES: &[&str] = &[
    "api",
    "retry",
    "yaml",
    "rules",
    "schemas",
    "core",
    "report",
    "sync",
    "signatures",
    "replica-sets",
    "admission-rules",
    "agent-core",
    "runtime",
    "kube",
    "git",
    "source",
    "hub",
    "admission",
    "controller",
    "forge",
    "daemon",
    "agent",
];

/// The layers inside the core, lowest first.
const CORE_LAYERS: &[&str] =
    &["limits", "model", "text", "config", "signature", "rollout", "render", "plan"];

/// Crates whose functions depend on their arguments alone.
const PURE: &[&str] = &[
    "api",
    "retry",
    "yaml",
    "rules",
    "schemas",
    "core",
    "report",
    "sync",
    "signatures",
    "replica-sets",
    "admission-rules",
    "agent-core",
];

/// What no pure crate may have among its dependencies, directly or not.
const IMPURE: &[&str] = &["tokio", "kube", "kube-client", "git2", "libgit2-sys", "russh"];

/// TLS and SSH use ring. These would be a second provider.
const OTHER_PROVIDERS: &[&str] = &[
    "aws-lc-rs",
    "aws-lc-sys",
    "libssh2-sys",
    "native-tls",
    "openssl",
    "openssl-src",
    "openssl-sys",
    "ssh2",
];

/// Some of what clippy forbids in the pure crates: of each way to do IO, at least one.
const FORBIDDEN_IN_PURE_CRATES: &[&str] = &[
    "jiff::Timestamp::now",
    "std::env::var",
    "std::fs::File",
    "std::fs::OpenOptions",
    "std::fs::copy",
    "std::fs::create_dir",
    "std::fs::create_dir_all",
    "std::fs::hard_link",
    "std::fs::read",
    "std::fs::remove_dir",
    "std::fs::remove_dir_all",
    "std::fs::remove_file",
    "std::fs::rename",
    "std::fs::set_permissions",
    "std::fs::write",
    "std::path::Path::exists",
    "std::process::Command",
    "std::thread::spawn",
    "std::time::Instant::now",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The crates of this workspace that a crate depends on, tests and benches aside. `gitwork` is the
/// package at the top.
fn dependencies_of(name: &str) -> BTreeSet<String> {
    let folder = if name == "gitwork" { root().to_owned() } else { root().join("src").join(name) };
    let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let table = text.split("[dependencies]\n").nth(1).unwrap_or_default();
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.strip_prefix("gitwork-")?.split(['.', ' ']).next());
    names.map(str::to_owned).collect()
}

#[test]
fn crates_depend_downward_only() {
    let mut folders = BTreeSet::new();
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let entry = entry.unwrap();
        if entry.path().join("Cargo.toml").exists() {
            folders.insert(entry.file_name().into_string().unwrap());
        }
    }
    let listed: BTreeSet<String> = CRATES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(folders, listed, "every crate has its place in the order");
    for (index, name) in CRATES.iter().enumerate() {
        for dependency in dependencies_of(name) {
            let below = CRATES[..index].contains(&dependency.as_str());
            assert!(below, "gitwork-{name} depends on gitwork-{dependency}, which is not below it");
        }
    }
}

#[test]
fn drawing_of_the_crates_is_that_of_their_manifests() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let drawing = Drawing::read(&page);
    let names = CRATES.iter().copied().chain(["gitwork"]);
    let dependencies: BTreeMap<String, BTreeSet<String>> =
        names.map(|name| (name.to_owned(), dependencies_of(name))).collect();
    let drawn: BTreeMap<_, _> = drawing.crates.iter().cloned().collect();
    assert_eq!(drawn, reduced(&dependencies), "drawn, and in the manifests");
    for (index, (name, _)) in drawing.crates.iter().enumerate() {
        let above: BTreeSet<&String> = drawing.crates[..index].iter().map(|(it, _)| it).collect();
        let below: Vec<_> = dependencies[name].iter().filter(|it| !above.contains(it)).collect();
        assert!(below.is_empty(), "{name} is drawn above {below:?}");
    }
    assert_eq!(drawing.pure, PURE);
    assert_eq!(drawing.core_layers, CORE_LAYERS);
}

#[test]
fn commands_at_the_top_cover_every_crate() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let line = manifest.lines().find_map(|line| line.strip_prefix("default-members = ")).unwrap();
    let members: BTreeSet<&str> = line.split('"').skip(1).step_by(2).collect();
    let folders: Vec<String> = CRATES.iter().map(|name| format!("src/{name}")).collect();
    let expected = folders.iter().map(String::as_str).chain([".", "tests/simulation"]).collect();
    assert_eq!(members, expected, "default-members of Cargo.toml");
}

#[test]
fn modules_import_in_one_direction() {
    let mut found = Vec::new();
    for name in CRATES.iter().copied().chain(["cli"]) {
        let graph = CrateModules::read(&root().join("src").join(name)).graph();
        found.extend(graph.cycles().into_iter().map(|cycle| format!("{name}: {cycle:?}")));
        if name == "core" {
            found.extend(upward_imports(&graph));
        }
    }
    assert!(found.is_empty(), "modules that import in a circle or upward: {found:#?}");
}

/// Imports of a layer of the core from a higher one.
fn upward_imports(graph: &Graph) -> Vec<String> {
    let layer = |module: &str| {
        let first = module.split("::").next().unwrap_or_default();
        CORE_LAYERS.iter().position(|layer| *layer == first)
    };
    let mut found = Vec::new();
    for (module, imports) in graph.edges() {
        if module.is_empty() {
            continue;
        }
        let Some(own) = layer(module) else {
            found.push(format!("core: {module} is in no layer"));
            continue;
        };
        let upward = imports.iter().filter(|import| layer(import).is_some_and(|of| of > own));
        found.extend(upward.map(|import| format!("core: {module} imports {import}")));
    }
    found
}

/// The names of all packages that a package is built from.
fn packages_of(package: &str) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none", "-p", package])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn pure_crates_have_no_client_runtime_or_git_library() {
    for name in PURE {
        let packages = packages_of(&format!("gitwork-{name}"));
        assert!(packages.contains(&format!("gitwork-{name}")), "{name}: {packages:?}");
        let found: Vec<_> = IMPURE.iter().filter(|impure| packages.contains(**impure)).collect();
        assert!(found.is_empty(), "gitwork-{name} is built with {found:?}");
    }
    let core = packages_of("gitwork-core");
    assert!(!core.contains("pgp"), "the core checks no signatures itself");
}

#[test]
fn the_agent_is_built_without_git_ssh_and_openpgp() {
    let packages = packages_of("gitwork-agent");
    assert!(packages.contains("kube"), "the list is read: {packages:?}");
    for absent in ["git2", "libgit2-sys", "russh", "pgp", "gitwork-git"] {
        assert!(!packages.contains(absent), "gitwork-agent is built with {absent}");
    }
}

#[test]
fn tls_and_ssh_have_one_provider_of_cryptography() {
    for program in ["gitwork", "gitwork-agent"] {
        let packages = packages_of(program);
        assert!(packages.contains("ring"), "the list is read: {packages:?}");
        for absent in OTHER_PROVIDERS {
            assert!(!packages.contains(*absent), "{program} is built with {absent}");
        }
    }
    // Nor for any other platform, or by a test.
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    assert!(lock.contains("name = \"ring\""), "the file is read");
    for absent in OTHER_PROVIDERS {
        assert!(!lock.contains(&format!("name = \"{absent}\"")), "Cargo.lock has {absent}");
    }
}

#[test]
fn clippy_forbids_io_in_every_pure_crate() {
    let rules = |name: &str| fs::read_to_string(root().join("src").join(name).join("clippy.toml"));
    let core = rules("core").unwrap();
    for banned in FORBIDDEN_IN_PURE_CRATES {
        assert!(
            core.contains(&format!("path = \"{banned}\"")),
            "src/core/clippy.toml does not forbid {banned}"
        );
    }
    for name in PURE {
        assert_eq!(rules(name).unwrap(), core, "src/{name}/clippy.toml");
    }
}

#[test]
fn every_crate_has_an_example_of_its_main_entry() {
    for name in CRATES.iter().copied().chain(["cli"]) {
        let text = fs::read_to_string(root().join("src").join(name).join("lib.rs")).unwrap();
        assert!(text.contains("\n//! ```"), "src/{name}/lib.rs");
    }
}

#[test]
fn no_private_words_are_used() {
    let mut found = Vec::new();
    let folders = ["src", "tests", "benches", "examples", "fuzz", "docs", "deploy"];
    for file in folders.iter().flat_map(|folder| words::texts(&root().join(folder))) {
        found.extend(words::offences(&file, root()));
    }
    for page in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        found.extend(words::offences(&root().join(page), root()));
    }
    let shown: Vec<&String> = found.iter().take(60).collect();
    assert!(found.is_empty(), "{} private words, such as {shown:#?}", found.len());
}

#[test]
fn lines_have_at_most_100_columns() {
    let mut found = Vec::new();
    for folder in ["src", "tests", "benches", "examples", "fuzz"] {
        for file in words::texts(&root().join(folder)) {
            if file.extension().is_some_and(|end| end == "rs") {
                found.extend(words::long_lines(&file, root()));
            }
        }
    }
    let shown: Vec<&String> = found.iter().take(40).collect();
    assert!(found.is_empty(), "{} long lines: {shown:#?}", found.len());
}

#[test]
fn errors_are_logged_with_class_reason_and_hints() {
    let mut found = Vec::new();
    for file in words::texts(&root().join("src")) {
        if file.extension().is_some_and(|end| end == "rs") {
            found.extend(logs::errors_without_class(&file, root()));
        }
    }
    assert!(found.is_empty(), "use gitwork_retry::log_error! at {found:#?}");
}

/// Public types by name, with the files that define them.
fn public_types() -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut types: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for name in CRATES.iter().copied().chain(["cli"]) {
        for (defined, file) in CrateModules::read(&root().join("src").join(name)).public_types() {
            types.entry(defined).or_default().insert(file.strip_prefix(root()).unwrap().into());
        }
    }
    types
}

#[test]
fn no_two_public_types_share_a_name() {
    let types = public_types();
    assert!(types.len() > 200, "types are read: {}", types.len());
    let shared: BTreeMap<_, _> = types.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(shared.is_empty(), "one name for several types: {shared:#?}");
}
