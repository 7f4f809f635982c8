//! What `validate` refuses against what a real API server refuses, with strict field validation and
//! dry runs: documents of every built-in kind, and mutants of them.

mod mutants;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fastrand::Rng;
use gitwork_core::config::SchemaPolicy;
use gitwork_core::model::diagnostic::Severity;
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::render::object_checks::{KubernetesVersion, SchemaChecks};
use gitwork_core::render::renderer::Renderer;
use serde_json::Value;

use crate::harness::ControlPlane;
use crate::memory_repository::{File, MemoryObjects, source};
use mutants::Class;
use server::{Server, Verdict};

const CORPUS: &[&str] = &[
    include_str!("../../schema-corpus/workloads.yaml"),
    include_str!("../../schema-corpus/network-storage.yaml"),
    include_str!("../../schema-corpus/cluster.yaml"),
];

/// Of each document, so many variants that lack some fields.
const VARIANTS: usize = 18;

/// Of each class.
const MUTANTS: usize = 750;

const SEED: u64 = 20;

/// Kinds that no repository has: requests to the API server, and what only it writes.
const NOT_IN_REPOSITORIES: &[&str] = &[
    "Binding",
    "ComponentStatus",
    "LocalSubjectAccessReview",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "SubjectAccessReview",
    "TokenReview",
];

/// A document, and why it was made.
struct Case {
    class: Class,
    object: Value,
    /// What was changed.
    what: String,
}

fn documents() -> Vec<Value> {
    let read = |text: &&str| gitwork_yaml::read(text.as_bytes()).documents;
    CORPUS.iter().flat_map(read).map(|document| document.value).collect()
}

fn cases() -> Vec<Case> {
    let mut rng = Rng::with_seed(SEED);
    let documents = documents();
    let mut cases = Vec::new();
    for object in &documents {
        let case = |object| Case { class: Class::Document, object, what: String::new() };
        cases.push(case(object.clone()));
        for _ in 0..VARIANTS {
            cases.push(case(mutants::without_some_fields(object, &mut rng)));
        }
    }
    for class in Class::MUTANTS {
        let mut made = 0;
        while made < MUTANTS {
            let base = &documents[rng.usize(..documents.len())];
            if let Some((object, what)) = mutants::mutant(*class, base, &mut rng) {
                cases.push(Case { class: *class, object, what });
                made += 1;
            }
        }
    }
    cases
}

/// The errors with which `validate` refuses each document; `None` if it accepts it.
fn verdicts(cases: &[Case]) -> Vec<Option<Vec<String>>> {
    let checks = SchemaChecks {
        default: Some(SchemaPolicy::Error),
        kubernetes_version: KubernetesVersion::parse("1.33"),
        ..SchemaChecks::default()
    };
    let mut found = Vec::new();
    for chunk in cases.chunks(500) {
        // Each in a cluster of its own, as several have the same name.
        let path = |index: usize| format!("clusters/c{index}/work/object.json");
        let file = |case: &Case| File::from(&*case.object.to_string());
        let files: BTreeMap<String, File> =
            chunk.iter().enumerate().map(|(index, case)| (path(index), file(case))).collect();
        let mut objects = MemoryObjects::default();
        let root = objects.add(&files);
        let mut renderer = Renderer::new(source()).with_schema_checks(checks.clone());
        let snapshot = Snapshot { commit: None, root, objects: &objects };
        let desired = renderer.render(&snapshot).unwrap();
        let mut errors: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in desired.diagnostics.iter().filter(|one| one.severity == Severity::Error) {
            let field = one.field.clone().unwrap_or_default();
            let of_file = errors.entry(one.location.file.to_string()).or_default();
            of_file.push(format!("{} {field}: {}", one.code.id(), one.message));
        }
        let good: BTreeSet<&str> = desired.works.keys().map(|key| key.cluster.as_str()).collect();
        found.extend((0..chunk.len()).map(|index| {
            let is_good = good.contains(&*format!("c{index}"));
            let text = errors.remove(&path(index));
            (!is_good).then(|| text.unwrap_or_default())
        }));
    }
    found
}

#[derive(Default)]
struct Counts {
    documents: usize,
    refused: usize,
    found: usize,
    accepted: usize,
    /// gitwork refuses on purpose what the API server accepts.
    reviewed: usize,
    false_alarms: usize,
}

/// A reason for which gitwork refuses what the API server accepts.
struct Reviewed {
    /// The kinds that it is about; all, if empty.
    kind: &'static str,
    /// What the error begins with: its code and its field.
    error: &'static str,
}

const REVIEWED: &[Reviewed] = &[
    // OCM's agent identifies objects by these fields, and does not fill them in.
    Reviewed { kind: "", error: "GW401 " },
    Reviewed { kind: "", error: "GW402 " },
    Reviewed { kind: "", error: "GW403 " },
    Reviewed { kind: "", error: "GW404 " },
    // Names of access control have no limit; gitwork allows 253 characters, as for all others.
    Reviewed { kind: "", error: "GW410 metadata.name: \"aaaa" },
    // The API server drops the field without a word, and the claim gets an empty volume.
    Reviewed { kind: "PersistentVolumeClaim", error: "GW803 spec.dataSource.kind: " },
];

fn is_reviewed(kind: &str, errors: &[String]) -> bool {
    let is_of = |one: &Reviewed, error: &str| {
        (one.kind.is_empty() || one.kind == kind) && error.starts_with(one.error)
    };
    errors.iter().all(|error| REVIEWED.iter().any(|one| is_of(one, error)))
}

#[tokio::test]
async fn validate_refuses_what_a_real_api_server_refuses() {
    let plane = ControlPlane::shared().await;
    let cluster = plane.start("schema-oracle", Default::default()).await;
    let server = Arc::new(Server::discover(cluster.client()).await);
    let stored: BTreeSet<String> =
        documents().iter().map(|one| one["kind"].as_str().unwrap().to_owned()).collect();
    let missing: Vec<&String> = server
        .kinds_to_create()
        .filter(|kind| !stored.contains(*kind) && !NOT_IN_REPOSITORIES.contains(&kind.as_str()))
        .collect();
    assert!(missing.is_empty(), "the corpus lacks the kinds {missing:?}");

    let cases = cases();
    let ours = verdicts(&cases);
    let objects: Vec<Value> = cases.iter().map(|case| case.object.clone()).collect();
    let theirs = server.clone().dry_runs(objects).await;
    let mut counts: BTreeMap<Class, Counts> = BTreeMap::new();
    let mut report = String::new();
    for ((case, ours), theirs) in cases.iter().zip(&ours).zip(&theirs) {
        let of_class = counts.entry(case.class).or_default();
        of_class.documents += 1;
        let kind = case.object["kind"].as_str().unwrap_or_default();
        let line = |what: &str, why: &str| {
            format!("{what} {:?} {kind} [{}]: {why}\n", case.class, case.what)
        };
        match (theirs, ours) {
            (Verdict::Refused(_), Some(_)) => {
                of_class.refused += 1;
                of_class.found += 1;
            }
            (Verdict::Refused(why), None) => {
                of_class.refused += 1;
                report += &line("missed", why);
            }
            (Verdict::Accepted, None) => of_class.accepted += 1,
            (Verdict::Accepted, Some(errors)) => {
                if is_reviewed(kind, errors) {
                    of_class.accepted += 1;
                    of_class.reviewed += 1;
                    report += &line("reviewed", &errors.join("; "));
                } else if let Verdict::Refused(_) = server.creation(&case.object).await {
                    of_class.refused += 1;
                    of_class.found += 1;
                } else {
                    of_class.accepted += 1;
                    of_class.false_alarms += 1;
                    report += &line("false alarm", &errors.join("; "));
                }
            }
        }
    }
    if let Some(path) = std::env::var_os("GITWORK_SCHEMA_REPORT") {
        std::fs::write(path, &report).unwrap();
    }
    check_counts(&counts);
}

fn check_counts(counts: &BTreeMap<Class, Counts>) {
    let mut failed = Vec::new();
    for (class, one) in counts {
        let Counts { documents, refused, found, accepted, reviewed, false_alarms } = one;
        eprintln!(
            "{class:?}: {documents} documents; found {found} of {refused} that the API server \
             refuses; {false_alarms} false alarms and {reviewed} reviewed ones in {accepted} that \
             it accepts"
        );
        if found * 100 < refused * class.least_percent() {
            failed.push(format!("{class:?}: found {found} of {refused}"));
        }
        if *false_alarms > 0 {
            failed.push(format!("{class:?}: {false_alarms} false alarms in {accepted}"));
        }
    }
    let sum = |of: fn(&Counts) -> usize| counts.values().map(of).sum::<usize>();
    let (reviewed, accepted) = (sum(|one| one.reviewed), sum(|one| one.accepted));
    if reviewed * 100 > accepted {
        failed.push(format!("{reviewed} reviewed ones in {accepted}"));
    }
    let documents = counts.get(&Class::Document).map_or(0, |one| one.documents);
    let mutants: usize = counts.values().map(|one| one.documents).sum::<usize>() - documents;
    assert!(documents >= 1_000 && mutants >= 5_000, "{documents} documents, {mutants} mutants");
    assert!(failed.is_empty(), "{failed:#?}");
}
