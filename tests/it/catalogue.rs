//! `docs/diagnostics.md`: every code with an example that really produces it. The page is
//! generated; `GITWORK_UPDATE=1 cargo test` rewrites it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use gitwork_core::config::SchemaPolicy;
use gitwork_core::config::tenancy::{Tenancy, TenantRule};
use gitwork_core::limits;
use gitwork_core::model::diagnostic::{Code, Diagnostic, Severity};
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::object_checks::SchemaChecks;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::text::diagnostics::write_one;
use gitwork_core::text::style::{ColorMode, count};

use crate::memory_repository::{File, MemoryObjects, source};

/// Compares a generated file with what stands in the repository, or writes it.
pub fn assert_up_to_date(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("GITWORK_UPDATE").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == text,
        "{path} is not up to date; run: GITWORK_UPDATE=1 cargo test --test it\n{}",
        similar::TextDiff::from_lines(&found, text).unified_diff()
    );
}

type Files = BTreeMap<String, File>;

fn tree<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Files {
    pairs.into_iter().map(|(path, text)| (path.to_owned(), File::from(text))).collect()
}

/// One file in one work folder, below it.
fn manifest(text: &str) -> Files {
    tree([("clusters/edge-1/web/web.yaml", text)])
}

const CONFIG_MAP: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  namespace: shop\n";
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: login, namespace: \
    shop}\nstringData:\n  password: swordfish\n";

fn config_map(data: &str) -> Files {
    manifest(&format!("{CONFIG_MAP}data:\n{data}"))
}

/// A good manifest with another file beside it.
fn beside(path: &str, file: impl Into<File>) -> Files {
    let mut files = manifest(CONFIG_MAP);
    files.insert(path.to_owned(), file.into());
    files
}

fn sidecar(text: &str) -> Files {
    beside("clusters/edge-1/web/web.config.yaml", text)
}

/// A repository with the problem of each code.
static EXAMPLES: LazyLock<Vec<(Code, Files)>> = LazyLock::new(|| {
    [
        file_examples(),
        layout_examples(),
        settings_examples(),
        sidecar_examples(),
        manifest_examples(),
        object_examples(),
        group_examples(),
        order_examples(),
        schema_examples(),
    ]
    .concat()
});

/// A repository that has the problem.
fn example(code: Code) -> &'static Files {
    let found = EXAMPLES.iter().find(|(of, _)| *of == code);
    &found.unwrap_or_else(|| panic!("{code:?} has no example")).1
}

/// Problems of reading files.
fn file_examples() -> Vec<(Code, Files)> {
    vec![
        (Code::YamlSyntax, config_map("  greeting: \"hello\n")),
        (Code::DuplicateKey, config_map("  colour: red\n  colour: blue\n")),
        (Code::YamlLimit, {
            let deep = gitwork_yaml::limits::YAML_DEPTH_MAX + 1;
            config_map(&format!("  deep: {}{}\n", "[".repeat(deep), "]".repeat(deep)))
        }),
        (Code::YamlTag, config_map("  bucket: !Ref Bucket\n")),
        (Code::YamlNumber, config_map("  most: .inf\n")),
        (Code::AmbiguousScalar, config_map("  country: NO\n")),
        (Code::NonStringKey, config_map("  80: http\n")),
        (
            Code::NotText,
            beside("clusters/edge-1/web/logo.yaml", File::Bytes(b"\xff\xd8\xff".to_vec())),
        ),
        (
            Code::LfsPointer,
            beside(
                "clusters/edge-1/web/crds.yaml",
                "version https://git-lfs.github.com/spec/v1\noid sha256:9b1d2c6f\nsize 180224\n",
            ),
        ),
        (
            Code::FileTooLarge,
            config_map(&format!("  blob: {}\n", "x".repeat(gitwork_yaml::limits::FILE_BYTES_MAX))),
        ),
        (Code::UnexpectedShape, manifest("- apiVersion: v1\n  kind: Namespace\n")),
        (
            Code::MergeOverrides,
            manifest(
                "metadata:\n  name: settings\n  namespace: shop\n  <<: {namespace: \
                default}\napiVersion: v1\nkind: ConfigMap\n",
            ),
        ),
        (Code::Omitted, config_map(&"  colour: red\n".repeat(200))),
    ]
}

/// Problems of groups, and of what the hub says of clusters.
fn group_examples() -> Vec<(Code, Files)> {
    let group = |group: &str, manifest: &str| {
        let web = ("groups/stores/web/web.yaml", manifest);
        tree([("groups/stores/group.yaml", group), web])
    };
    let substituted = "clusters: [store-1]\ndefaults: {substitute: true}\n";
    let namespace = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  namespace: \
        ${cluster.labels[\"team\"]}\n";
    let city = format!("{CONFIG_MAP}data:\n  city: ${{cluster.labels[\"city\"]}}\n");
    vec![
        (Code::UnknownMembers, group("clusters: [\"store-*\"]\n", CONFIG_MAP)),
        (Code::NoMember, group("clusters: [store-1]\nexclude: [\"*\"]\n", CONFIG_MAP)),
        (Code::ReportedValue, group(substituted, namespace)),
        (Code::UnknownFacts, group(substituted, &city)),
    ]
}

/// Problems of `dependsOn`.
fn order_examples() -> Vec<(Code, Files)> {
    let depends_on = |other: &str| {
        beside("clusters/edge-1/web/work.yaml", format!("dependsOn: [{other}]\n").as_str())
    };
    let database = CONFIG_MAP.replace("settings", "database");
    let mut cycle = depends_on("db");
    cycle.extend(tree([
        ("clusters/edge-1/db/db.yaml", database.as_str()),
        ("clusters/edge-1/db/work.yaml", "dependsOn: [web]\n"),
    ]));
    vec![(Code::UnknownDependency, depends_on("database")), (Code::DependencyCycle, cycle)]
}

/// Problems that an API server would find.
fn schema_examples() -> Vec<(Code, Files)> {
    let job = |version: &str, kind: &str, spec: &str| {
        let metadata = "metadata:\n  name: nightly\n  namespace: shop\n";
        manifest(&format!("apiVersion: {version}\nkind: {kind}\n{metadata}{spec}"))
    };
    let claim = |spec: &str| job("v1", "PersistentVolumeClaim", spec);
    let metadata = |text: &str| {
        let of = "metadata:\n  name: settings\n  namespace: shop\n";
        manifest(&format!("apiVersion: v1\nkind: ConfigMap\n{of}{text}"))
    };
    let storage = "  resources: {requests: {storage: 1Gi}}\n";
    let modes = |modes: &str| claim(&format!("spec:\n  accessModes: {modes}\n{storage}"));
    vec![
        (Code::UnknownObjectField, metadata("dat: {colour: red}\n")),
        (Code::WrongObjectType, config_map("  port: 8080\n")),
        (Code::MissingObjectField, claim(&format!("spec:\n{storage}"))),
        (Code::InvalidObjectValue, modes("[ReadWriteTwice]")),
        (Code::InvalidMetadata, metadata("  labels: {owner: team a}\n")),
        (Code::UnknownKind, job("batch/v1", "CronJb", "")),
        (Code::RemovedVersion, job("batch/v1beta1", "CronJob", "")),
        (Code::DeprecatedVersion, {
            let flow = "apiVersion: flowcontrol.apiserver.k8s.io/v1beta3\nkind: FlowSchema\n\
                        metadata:\n  name: web\nspec:\n  priorityLevelConfiguration: {name: \
                        exempt}\n";
            let version = "kubernetesVersion: \"1.31\"\n";
            tree([
                ("clusters/edge-1/cluster.yaml", version),
                ("clusters/edge-1/web/web.yaml", flow),
            ])
        }),
        (Code::ServerField, metadata("  uid: 4b2e7d7c\n")),
    ]
}

/// Problems of the layout.
fn layout_examples() -> Vec<(Code, Files)> {
    vec![
        (Code::BadName, tree([("clusters/Edge_1/web/web.yaml", CONFIG_MAP)])),
        (Code::MisnamedFile, beside("gitwork.yml", "secrets: refuse\n")),
        (Code::StrayFile, beside("clusters/edge-1/notes.yaml", "todo: clean up\n")),
        (Code::EmptyWork, tree([("clusters/edge-1/web/README.md", "nothing here yet\n")])),
        (
            Code::NotSupported,
            beside("clusters/edge-1/web/kustomization.yaml", "resources: [web.yaml]\n"),
        ),
        (Code::Gitlink, beside("clusters/edge-1/web/vendor", File::Submodule)),
        (Code::BadObject, beside("clusters/edge-1/web/base", File::BadFolder)),
        (
            Code::SymlinkOutside,
            beside(
                "clusters/edge-1/web/shared.yaml",
                File::Link("../../edge-2/web/web.yaml".into()),
            ),
        ),
        (
            Code::TooManyFiles,
            (0..=limits::WORK_FILES_MAX)
                .map(|n| (format!("clusters/edge-1/web/{n:04}.yaml"), File::from(CONFIG_MAP)))
                .collect(),
        ),
        (Code::UnsafePath, beside("clusters/edge-1/web/a\u{7}b.yaml", CONFIG_MAP)),
        (Code::NoClusters, tree([("README.md", "# my fleet\n")])),
        (Code::BadApproval, {
            let hash = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
            beside(
                &format!("approvals/{hash}"),
                "edge-1/shop 7c1b0a52-5f0e-4a51-9a0e-3b8f5d1c2e4f\n",
            )
        }),
        (
            Code::DuplicateWork,
            tree([
                ("clusters/edge-1/web/web.yaml", CONFIG_MAP),
                (
                    "clusters/edge-1/shop/ns.yaml",
                    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
                ),
                ("clusters/edge-1/shop/work.yaml", "name: web\n"),
            ]),
        ),
    ]
}

/// Problems of configuration files and variables.
fn settings_examples() -> Vec<(Code, Files)> {
    vec![
        (
            Code::UnknownField,
            beside("clusters/edge-1/web/work.yaml", "delteOption:\n  propagationPolicy: Orphan\n"),
        ),
        (Code::WrongType, beside("clusters/edge-1/web/work.yaml", "prune: \"no\"\n")),
        (Code::BadValue, beside("gitwork.yaml", "secrets: refused\n")),
        (
            Code::UnknownVariable,
            tree([
                ("clusters/edge-1/cluster.yaml", "values:\n  REGION: eu-1\n"),
                ("clusters/edge-1/web/work.yaml", "substitute: true\n"),
                (
                    "clusters/edge-1/web/web.yaml",
                    &format!("{CONFIG_MAP}data:\n  region: ${{REGIO}}\n"),
                ),
            ]),
        ),
        (
            Code::BadVariable,
            tree([
                ("clusters/edge-1/web/work.yaml", "substitute: true\n"),
                (
                    "clusters/edge-1/web/web.yaml",
                    &format!("{CONFIG_MAP}data:\n  start: echo ${{1:-x}}\n"),
                ),
            ]),
        ),
    ]
}

/// Problems of sidecars.
fn sidecar_examples() -> Vec<(Code, Files)> {
    vec![
        (Code::MatchesNothing, sidecar("match: {kind: Deployment}\norphan: true\n")),
        (
            Code::BadJsonPath,
            sidecar(
                "feedbackRules:\n- type: JSONPaths\n  jsonPaths:\n  - {name: ready, path: \
                \".status[\"}\n",
            ),
        ),
        (
            Code::BadCel,
            sidecar(
                "conditionRules:\n- condition: Complete\n  type: CEL\n  celExpressions:\n  - \
                object.status.phase =\n",
            ),
        ),
        (
            Code::RuleConflict,
            sidecar(
                "updateStrategy: {type: CreateOnly}\n---\nmatch: {name: settings}\nupdateStrategy: \
                {type: ServerSideApply}\n",
            ),
        ),
        (
            Code::GuessedPlural,
            manifest("apiVersion: example.com/v1\nkind: Cactus\nmetadata: {name: spiny}\n"),
        ),
        (
            Code::NoEffect,
            sidecar("updateStrategy:\n  type: CreateOnly\n  serverSideApply: {force: true}\n"),
        ),
    ]
}

/// Problems of the fields of a manifest.
fn manifest_examples() -> Vec<(Code, Files)> {
    vec![
        (
            Code::MissingField,
            manifest("kind: ConfigMap\nmetadata: {name: settings, namespace: shop}\n"),
        ),
        (
            Code::GenerateName,
            manifest(
                "apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: migrate-\n  \
                 namespace: shop\n",
            ),
        ),
        (
            Code::MissingNamespace,
            manifest("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n"),
        ),
        (
            Code::UnexpectedNamespace,
            manifest(
                "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  namespace: shop\n",
            ),
        ),
        (
            Code::BadObjectName,
            manifest(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web/settings\n  \
                 namespace: shop\n",
            ),
        ),
        (
            Code::StatusInManifest,
            manifest(
                "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n\
                 status: {phase: Active}\n",
            ),
        ),
        (
            Code::SelectsNothing,
            manifest(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n\
                 spec:\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: \
                 {labels: {app: web}}\n    spec: {containers: [{name: web, image: nginx}]}\n---\n\
                 apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec:\n  \
                 selector: {app: wbe}\n  ports: [{port: 80}]\n",
            ),
        ),
        (
            Code::TemplateText,
            manifest(
                "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n  annotations:\n    \
                 team: \"{{ .Values.team }}\"\n",
            ),
        ),
    ]
}

/// Problems of several objects, of sizes, and of the operator's policy.
fn object_examples() -> Vec<(Code, Files)> {
    vec![
        (Code::DuplicateObject, manifest(&format!("{CONFIG_MAP}---\n{CONFIG_MAP}"))),
        (
            Code::ObjectInTwoWorks,
            tree([
                ("clusters/edge-1/web/web.yaml", CONFIG_MAP),
                ("clusters/edge-1/shop/settings.yaml", CONFIG_MAP),
            ]),
        ),
        (
            Code::WorkTooLarge,
            config_map(&format!("  blob: {}\n", "x".repeat(limits::WORK_BYTES_MAX))),
        ),
        (Code::PlainSecret, manifest(SECRET)),
        (
            Code::TooManyManifests,
            manifest(
                &(0..=limits::WORK_MANIFESTS_MAX)
                    .map(|n| {
                        format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: n{n}}}\n")
                    })
                    .collect::<String>(),
            ),
        ),
        // Where the policy allows objects in the namespace shop only.
        (
            Code::NotAllowed,
            manifest(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, \
                 namespace: kube-system}\n",
            ),
        ),
    ]
}

/// The diagnostics of this code in the example's repository.
fn found(code: Code) -> Vec<Diagnostic> {
    // The operator's policy is no part of the repository.
    let rule = TenantRule { namespaces: Some(vec!["shop".into()]), ..TenantRule::default() };
    let rules = if code == Code::NotAllowed { vec![rule] } else { Vec::new() };
    let tenancy: Tenancy = rules.into();
    let default = Some(SchemaPolicy::Error);
    let checks = SchemaChecks { default, relations: true, ..SchemaChecks::default() };
    let mut objects = MemoryObjects::default();
    let root = objects.add(example(code));
    let renderer = Renderer::new(source()).with_tenancy(tenancy);
    let snapshot = Snapshot { commit: None, root, objects: &objects };
    let desired = renderer.with_schema_checks(checks).render(&snapshot).unwrap();
    desired.diagnostics.into_iter().filter(|d| d.code == code).collect()
}

/// The most that the page shows of one file, and the most files.
const SHOWN_CHARS_MAX: usize = 300;
const SHOWN_FILES_MAX: usize = 3;

fn shown(file: &File) -> String {
    let text = match file {
        File::Link(target) => return format!("(a symbolic link to {target})\n"),
        File::Submodule => return "(a submodule)\n".into(),
        File::BadFolder => return "(a folder whose Git object is no tree)\n".into(),
        File::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(_) => return format!("({} bytes: {})\n", bytes.len(), bytes.escape_ascii()),
        },
    };
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text.to_owned();
    }
    let start: String = text.chars().take(SHOWN_CHARS_MAX / 2).collect();
    format!("{start}… ({} bytes)\n", text.len())
}

/// Breaks a paragraph into lines of at most 100 characters, outside of code.
fn wrapped(paragraph: &str) -> String {
    let mut pieces: Vec<String> = Vec::new();
    let mut in_code = false;
    for word in paragraph.split(' ') {
        match pieces.last_mut() {
            Some(piece) if in_code => {
                piece.push(' ');
                piece.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
        in_code ^= word.matches('`').count() % 2 == 1;
    }
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        let fits = |line: &String| line.chars().count() + 1 + piece.chars().count() <= 100;
        match lines.last_mut() {
            Some(line) if fits(line) => {
                line.push(' ');
                line.push_str(&piece);
            }
            _ => lines.push(piece),
        }
    }
    lines.join("\n")
}

fn entry(page: &mut String, code: Code) {
    let severity = match code.severity() {
        Severity::Error => "Error",
        Severity::Warning => "Warning",
        Severity::Info => "Note",
    };
    writeln!(page, "\n### {}: {}\n", code.id(), code.title()).unwrap();
    writeln!(page, "{}\n", wrapped(&format!("{severity}. {}", code.help()))).unwrap();
    let files = example(code);
    for (path, file) in files.iter().take(SHOWN_FILES_MAX) {
        let path = gitwork_core::text::escape::escape_untrusted(path);
        writeln!(page, "`{path}`\n\n```yaml\n{}```\n", shown(file)).unwrap();
    }
    if let Some(more) = files.len().checked_sub(SHOWN_FILES_MAX).filter(|more| *more > 0) {
        writeln!(page, "and {}\n", count(more, "more file")).unwrap();
    }
    let first = found(code).into_iter().next();
    let first = first.unwrap_or_else(|| panic!("no example produces {code:?}"));
    let mut output = String::new();
    write_one(&mut output, &first, ColorMode::Plain);
    writeln!(page, "```text\n{output}```").unwrap();
}

const HEAD: &str = "# Diagnostics

<!-- Generated from the code by tests/it/catalogue.rs: do not edit. -->

`gitwork validate` reports every problem of a repository at once. Each diagnostic has a code, a
location and a fix. A code never changes its meaning.

- An *error* freezes its scope: the work, the cluster, the group or the source. What is frozen stays
  on the hub as it is, neither changed nor deleted. Everything else continues.
- A *warning* or a *note* freezes nothing, except GW601 and GW604: what is unknown stays as it is.
  With `--strict`, these two are errors for the exit code.
- The errors GW801 to GW807 are warnings in the daemon, or what `schemaProblems` says:
  [object-checks.md](object-checks.md).

## As JSON

`-o json` prints one object. `diagnostics` is a list. `summary` has the counts `errors`, `warnings`
and `notes`, and the counts `works` and `clusters` of those that have diagnostics. `omitted` counts
diagnostics that are not in the list, with `--max` or if there are very many. New versions may add
fields, but never remove one.

| field of a diagnostic | value |
|---|---|
| `code`, `title` | the code, and its title below |
| `severity` | `error`, `warning` or `info` (a note) |
| `message`, `help` | what is wrong in this place, and the fix |
| `file` | path, relative to the source's path |
| `line`, `column`, `length` | location in characters, from 1; absent for the whole file |
| `field` | the field, for example `spec.replicas`; optional |
| `group`, `cluster`, `work` | the scope; without them it is the source |
| `snippet` | the line; without its value in a file that may have a Secret |
| `fixable` | `true` if `gitwork validate --fix` corrects it; otherwise absent |
| `related` | other locations, each with `file`, `line`, `column`, `length` and `message` |

`-o sarif` prints SARIF 2.1.0, for code scanning on a forge.
";

const CHAPTERS: [(&str, &str); 8] = [
    ("GW1", "Reading files"),
    ("GW2", "Layout"),
    ("GW3", "Configuration files and sidecars"),
    ("GW4", "Manifests"),
    ("GW5", "The operator's policy"),
    ("GW6", "Groups and facts"),
    ("GW7", "The order of works"),
    ("GW8", "What the API server would reject"),
];

#[test]
fn generated_catalogue_is_up_to_date() {
    let mut page = HEAD.to_owned();
    for (prefix, title) in CHAPTERS {
        writeln!(page, "\n## {title}").unwrap();
        Code::ALL
            .iter()
            .filter(|code| code.id().starts_with(prefix))
            .for_each(|code| entry(&mut page, *code));
    }
    assert_up_to_date("docs/diagnostics.md", &page);
}

#[test]
fn every_code_has_an_example_that_produces_it() {
    let missing: Vec<Code> =
        Code::ALL.iter().copied().filter(|code| found(*code).is_empty()).collect();
    assert_eq!(missing, [], "codes without an example");
    for code in Code::ALL {
        assert!(CHAPTERS.iter().any(|(prefix, _)| code.id().starts_with(prefix)), "{code:?}");
        assert!(found(*code).iter().all(|d| !format!("{d:?}").contains("swordfish")));
    }
}

#[test]
fn similar_codes_are_distinguished() {
    let ids: std::collections::BTreeSet<&str> = Code::ALL.iter().map(|code| code.id()).collect();
    assert_eq!(ids.len(), Code::ALL.len());
}
