//! Objects that an API server would reject: what `validate` says, and what decides how severe it
//! is.

use std::sync::Arc;

use gitwork_core::config::SchemaPolicy;
use gitwork_core::model::diagnostic::{Code, Diagnostic, Severity};
use gitwork_core::model::facts::Facts;
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::object_checks::{ExtraCrds, KubernetesVersion, SchemaChecks};
use gitwork_core::render::renderer::Renderer;
use serde_json::{Value, json};

use crate::cli::{clone, code, err, gitwork, out, write};
use crate::memory_repository::{MemoryObjects, files, source};

const BAD: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replica: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: web:1
          env:
            - {name: PORT, value: 80}
";

const CRON: &str = "apiVersion: batch/v1beta1
kind: CronJob
metadata: {name: nightly, namespace: shop}
";

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: backups.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Backup, plural: backups}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {keep: {type: integer}}}
";

const BACKUP: &str = "apiVersion: example.com/v1
kind: Backup
metadata: {name: a, namespace: shop}
spec:
  kep: 3
";

fn errors() -> SchemaChecks {
    SchemaChecks { default: Some(SchemaPolicy::Error), ..SchemaChecks::default() }
}

fn render(repository: &[(&str, &str)], checks: SchemaChecks, facts: Option<Facts>) -> Desired {
    let mut objects = MemoryObjects::default();
    let root = objects.add(&files(repository));
    let mut renderer = Renderer::new(source()).with_schema_checks(checks);
    renderer.set_facts(facts.map(Arc::new));
    renderer.render(&Snapshot { commit: None, root, objects: &objects }).unwrap()
}

/// Code, severity, line, column, field and message.
fn lines(desired: &Desired) -> Vec<String> {
    let line = |one: &Diagnostic| {
        let span = one.location.span.unwrap();
        let field = one.field.as_deref().unwrap_or_default();
        let severity = format!("{:?}", one.severity).to_lowercase();
        let (line, column) = (span.line, span.column);
        format!("{severity} {} {line}:{column} {field}: {}", one.code.id(), one.message)
    };
    desired.diagnostics.iter().map(line).collect()
}

#[test]
fn problems_have_line_column_field_and_what_to_do() {
    let desired = render(&[("clusters/c1/web/web.yaml", BAD)], errors(), None);
    assert_eq!(
        lines(&desired),
        [
            "error GW801 7:3 spec.replica: Deployment shop/web: DeploymentSpec has no field \
             `replica`; did you mean `replicas`?",
            "error GW802 16:35 spec.template.spec.containers[0].env[0].value: Deployment \
             shop/web: `value` must be text, not the number 80; quote it",
        ]
    );
    assert!(desired.works.is_empty(), "an error freezes the work");
}

#[test]
fn policies_decide_what_is_an_error() {
    let with = |checks: SchemaChecks, file: &str| {
        let repository = [("clusters/c1/web/web.yaml", BAD), ("gitwork.yaml", file)];
        let desired = render(&repository, checks, None);
        let severities = desired.diagnostics.iter().map(|one| one.severity);
        (severities.max_by_key(|one| std::cmp::Reverse(*one)), desired.works.len())
    };
    let default = |default| SchemaChecks { default: Some(default), ..SchemaChecks::default() };
    let operator = |policy| SchemaChecks { operator: Some(policy), ..errors() };
    let (error, warning) = (Some(Severity::Error), Some(Severity::Warning));
    assert_eq!(with(SchemaChecks::default(), ""), (None, 1), "a library call checks nothing");
    assert_eq!(with(default(SchemaPolicy::Error), ""), (error, 0));
    assert_eq!(with(default(SchemaPolicy::Warn), ""), (warning, 1), "as in the daemon");
    assert_eq!(with(default(SchemaPolicy::Warn), "schemaProblems: error\n"), (error, 0));
    assert_eq!(with(default(SchemaPolicy::Error), "schemaProblems: warn\n"), (warning, 1));
    assert_eq!(with(default(SchemaPolicy::Error), "schemaProblems: ignore\n"), (None, 1));
    assert_eq!(with(operator(SchemaPolicy::Warn), "schemaProblems: error\n"), (warning, 1));
    assert_eq!(with(operator(SchemaPolicy::Error), "schemaProblems: ignore\n"), (error, 0));
}

#[test]
fn version_of_the_cluster_decides_which_kinds_exist() {
    let flow = "apiVersion: flowcontrol.apiserver.k8s.io/v1beta3
kind: FlowSchema
metadata: {name: shop}
spec: {priorityLevelConfiguration: {name: exempt}}
";
    let facts = |version: &str| {
        let facts = json!({"managedClusters": {"edge-7": {"version": version}}});
        Facts::read(facts.to_string().as_bytes()).unwrap()
    };
    let repository = [("clusters/edge-7/flow/flow.yaml", flow)];
    let codes = |desired: &Desired| -> Vec<Code> {
        desired.diagnostics.iter().map(|one| one.code).collect()
    };
    let old = render(&repository, errors(), Some(facts("v1.31.4")));
    assert_eq!(codes(&old), [Code::DeprecatedVersion]);
    assert_eq!(old.works.len(), 1);
    let new = render(&repository, errors(), Some(facts("v1.33.1")));
    assert_eq!(codes(&new), [Code::RemovedVersion]);
    let message = &new.diagnostics[0].message;
    assert!(message.contains("(edge-7 runs 1.33)"), "{message}");
    // cluster.yaml comes before the hub, and both before the argument.
    let with_file =
        [repository[0], ("clusters/edge-7/cluster.yaml", "kubernetesVersion: \"1.31\"\n")];
    let named = render(&with_file, errors(), Some(facts("v1.33.1")));
    assert_eq!(codes(&named), [Code::DeprecatedVersion]);
    let argument =
        |text| SchemaChecks { kubernetes_version: KubernetesVersion::parse(text), ..errors() };
    assert_eq!(codes(&render(&repository, argument("1.33"), None)), [Code::RemovedVersion]);
    assert_eq!(codes(&render(&with_file, argument("1.33"), None)), [Code::DeprecatedVersion]);
    let cron = render(&[("clusters/edge-7/a/a.yaml", CRON)], argument("1.31"), None);
    let expected = "CronJob shop/nightly: batch/v1beta1 CronJob was removed in 1.25 (edge-7 runs \
                    1.31); use batch/v1";
    assert_eq!(cron.diagnostics[0].message, expected);
}

/// One group's folder on two clusters: each message has the version of its own cluster.
#[test]
fn clusters_of_a_group_have_versions_of_their_own() {
    let repository = [
        ("groups/all/group.yaml", "clusters: [edge-1, edge-2]\n"),
        ("groups/all/a/a.yaml", CRON),
        ("clusters/edge-1/cluster.yaml", "kubernetesVersion: \"1.31\"\n"),
        ("clusters/edge-2/cluster.yaml", "kubernetesVersion: \"1.33\"\n"),
    ];
    let warn = SchemaChecks { default: Some(SchemaPolicy::Warn), ..SchemaChecks::default() };
    let desired = render(&repository, warn, None);
    assert_eq!(desired.works.len(), 2);
    for text in ["edge-1 runs 1.31", "edge-2 runs 1.33"] {
        let count = desired.diagnostics.iter().filter(|one| one.message.contains(text)).count();
        assert_eq!(count, 1, "{text}: {:#?}", desired.diagnostics);
    }
}

#[test]
fn custom_objects_are_checked_against_crds_of_the_repository_and_of_a_folder() {
    let object = ("clusters/c1/backup/backup.yaml", BACKUP);
    let unknown = render(&[object], errors(), None);
    assert_eq!(unknown.diagnostics.len(), 1);
    assert_eq!(unknown.diagnostics[0].code, Code::GuessedPlural, "one note");
    let expected = ["error GW801 5:3 spec.kep: Backup shop/a: `spec` has no field `kep`; did you \
                     mean `keep`?"];
    // The CRD is in another work, on another cluster.
    let with_crd = render(&[object, ("clusters/c2/crds/crd.yaml", CRD)], errors(), None);
    assert_eq!(lines(&with_crd), expected);
    let crd: Value = serde_yaml::from_str(CRD).unwrap();
    let crds = Arc::new(ExtraCrds::new([&crd].into_iter()));
    let with_folder = render(&[object], SchemaChecks { crds, ..errors() }, None);
    assert!(lines(&with_folder).contains(&expected[0].to_owned()), "{:?}", lines(&with_folder));
}

/// A change of the CRD alone is a change for objects in other works.
#[test]
fn changed_crd_is_noticed_in_unchanged_works() {
    let mut objects = MemoryObjects::default();
    let mut renderer = Renderer::new(source()).with_schema_checks(errors());
    let mut count = |crd: &str| {
        let repository =
            [("clusters/c1/backup/backup.yaml", BACKUP), ("clusters/c1/crds/crd.yaml", crd)];
        let root = objects.add(&files(&repository));
        let snapshot = Snapshot { commit: None, root, objects: &objects };
        renderer.render(&snapshot).unwrap().diagnostics.len()
    };
    assert_eq!(count(&CRD.replace("keep", "kep")), 0);
    assert_eq!(count(CRD), 1);
    assert_eq!(count(&CRD.replace("keep", "kep")), 0);
}

#[test]
fn many_objects_of_a_custom_kind_make_one_note() {
    let many: Vec<String> =
        (0..50).map(|n| BACKUP.replace("name: a", &format!("name: a{n}"))).collect();
    let desired = render(&[("clusters/c1/b/b.yaml", &many.join("---\n"))], errors(), None);
    assert_eq!(desired.diagnostics.len(), 1);
}

#[test]
fn validate_fails_and_render_warns() {
    let clone = clone();
    write(clone.path(), "clusters/edge-1/web/bad.yaml", BAD);
    write(clone.path(), "crds/crd.yaml", CRD);
    write(clone.path(), "clusters/edge-1/backup/backup.yaml", BACKUP);
    let run = |arguments: &[&str]| gitwork(arguments).current_dir(clone.path()).output().unwrap();
    let validate = run(&["validate"]);
    assert_eq!(code(&validate), Some(1));
    let text = out(&validate);
    for part in ["error[GW801]", "clusters/edge-1/web/bad.yaml:7:3", "did you mean `replicas`?"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("`keep`"), "the CRD is in no work: {text}");
    assert!(text.contains("note[GW310]"), "{text}");
    let with_folder = out(&run(&["validate", "--schemas", "crds"]));
    assert!(!with_folder.contains("GW310"), "the CRD has the guessed plural: {with_folder}");
    assert!(with_folder.contains("did you mean `keep`?"), "{with_folder}");
    let render = run(&["render"]);
    assert_eq!(code(&render), Some(0), "{}", err(&render));
    assert!(err(&render).contains("warning[GW801]"), "{}", err(&render));
    write(clone.path(), "gitwork.yaml", "schemaProblems: warn\n");
    assert_eq!(code(&run(&["validate"])), Some(0));
    assert_eq!(code(&run(&["validate", "--strict"])), Some(1));
    write(clone.path(), "gitwork.yaml", "schemaProblems: ignore\n");
    assert!(!out(&run(&["validate"])).contains("GW8"));
    let bad_version = run(&["validate", "--kubernetes-version", "latest"]);
    assert_eq!(code(&bad_version), Some(2));
}

/// The operator's word in the daemon's file comes before that of the repository.
#[test]
fn file_of_the_daemon_decides_what_is_an_error() {
    let (clone, elsewhere) = (clone(), tempfile::tempdir().unwrap());
    write(clone.path(), "clusters/edge-1/web/bad.yaml", BAD);
    write(clone.path(), "crds/crd.yaml", CRD);
    write(clone.path(), "clusters/edge-1/backup/backup.yaml", BACKUP);
    let file = elsewhere.path().join("daemon.yaml").display().to_string();
    let run = |command: &str, fields: Value| {
        let mut source = json!({"id": "fleet", "repo": clone.path()});
        source.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        std::fs::write(&file, json!({"sources": [source]}).to_string()).unwrap();
        let arguments = [command, "--config", &file, "--repo", "."];
        gitwork(&arguments).current_dir(clone.path()).output().unwrap()
    };
    let as_daemon = |fields: Value| {
        let output = run("render", fields);
        (code(&output), err(&output))
    };
    let message = "[GW801]: Deployment shop/web: DeploymentSpec has no field `replica`";
    for in_repository in ["", "schemaProblems: error\n", "schemaProblems: ignore\n"] {
        write(clone.path(), "gitwork.yaml", in_repository);
        let (ended, text) = as_daemon(json!({"schemaProblems": "error"}));
        assert_eq!(ended, Some(1), "{text}");
        assert!(text.contains(&format!("error{message}")), "{text}");
        let (ended, text) = as_daemon(json!({"schemaProblems": "warn"}));
        assert_eq!(ended, Some(0), "{text}");
        assert!(text.contains(&format!("warning{message}")), "{text}");
        let (ended, text) = as_daemon(json!({"schemaProblems": "ignore"}));
        assert!(ended == Some(0) && !text.contains("GW8"), "{text}");
        // `validate` says what the daemon will do.
        assert_eq!(code(&run("validate", json!({"schemaProblems": "warn"}))), Some(0));
        assert_eq!(code(&run("validate", json!({"schemaProblems": "error"}))), Some(1));
    }
    let crds = clone.path().join("crds");
    let (_, text) = as_daemon(json!({"schemaProblems": "warn", "schemas": crds}));
    assert!(text.contains("Backup shop/a: `spec` has no field `kep`"), "{text}");
    let wrong = run("validate", json!({"schemaProblems": "errors"}));
    assert!(code(&wrong) == Some(1) && err(&wrong).contains("schemaProblems"), "{}", err(&wrong));
}
