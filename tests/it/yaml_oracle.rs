//! What gitwork reads from YAML against what kubectl reads: `tests/kubectl-yaml/cases.json` holds
//! the answers of kubectl's own decoder, recorded by the Go program beside it.

use std::time::Duration;

use gitwork_core::model::diagnostic::{Diagnostic, Scope};
use gitwork_core::model::name::RepoPath;
use gitwork_core::text::yaml::{ParsedFile, read};
use serde::Deserialize;
use serde_json::Value;

/// One input with kubectl's answer. `ours` says how gitwork differs on purpose: the code of the
/// error by which it refuses what kubectl takes, or `accepts`; `why` says why.
#[derive(Debug, Deserialize)]
struct Case {
    input: String,
    #[serde(default)]
    ours: String,
    #[serde(default)]
    why: String,
    documents: Vec<Value>,
    #[serde(default)]
    error: String,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../kubectl-yaml/cases.json")).unwrap()
}

fn read_text(text: &str) -> ParsedFile {
    read(&RepoPath::parse("a.yaml").unwrap(), text.as_bytes(), &Scope::Source)
}

/// Equal but for how a number is written: Go prints a float without an exponent up to 10^21, and
/// what it printed is read back here to within one unit of the last place.
fn is_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            _ => {
                let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
                (a - b).abs() <= f64::EPSILON * a.abs()
            }
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && is_same(a, b))
        }
        _ => ours == theirs,
    }
}

/// How gitwork's answer differs from what it ought to be; `None` where it does not.
fn difference(case: &Case) -> Option<String> {
    let answer = read_text(&case.input);
    let errors: Vec<&Diagnostic> = answer.diagnostics.iter().filter(|d| d.is_error()).collect();
    let documents: Vec<&Value> = answer.documents.iter().map(|d| &d.value).collect();
    let said: Vec<String> =
        errors.iter().map(|d| format!("{}: {}", d.code.id(), d.message)).collect();
    match (case.ours.as_str(), case.error.as_str()) {
        ("", "") if !errors.is_empty() => {
            Some(format!("kubectl reads {:?}; gitwork says {said:?}", case.documents))
        }
        ("", "")
            if documents.len() != case.documents.len()
                || !documents
                    .iter()
                    .zip(&case.documents)
                    .all(|(ours, theirs)| is_same(ours, theirs)) =>
        {
            Some(format!("kubectl reads {:?}; gitwork reads {documents:?}", case.documents))
        }
        ("", "") => None,
        ("", error) if errors.is_empty() => {
            Some(format!("kubectl says {error:?}; gitwork reads {documents:?}"))
        }
        ("", _) => None,
        ("accepts", error) if error.is_empty() || !errors.is_empty() => {
            Some(format!("must be what only gitwork reads; kubectl {error:?}, gitwork {said:?}"))
        }
        ("accepts", _) => None,
        (code, error) if !error.is_empty() || !errors.iter().any(|d| d.code.id() == code) => {
            Some(format!(
                "must be what only gitwork refuses, with {code}; kubectl {error:?}, gitwork \
                    {said:?} {documents:?}"
            ))
        }
        _ => None,
    }
}

#[test]
fn yaml_is_read_as_kubectl_reads_it() {
    let cases = cases();
    assert!(cases.len() > 500, "{}", cases.len());
    let differences: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{:?}\n    {}", case.input, difference(case)?)))
        .collect();
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    for case in cases.iter().filter(|case| !case.ours.is_empty()) {
        assert!(!case.why.is_empty(), "a reason for {:?}", case.input);
    }
}

/// Processor time of this thread so far: wall-clock time would depend on the other tests.
fn processor_time() -> Duration {
    // In nanoseconds (Linux, Documentation/scheduler/sched-stats.rst).
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split_whitespace().next().unwrap().parse().unwrap())
}

/// Four times the text may take eight times as long: measured times scatter. A quadratic reader
/// takes sixteen times.
fn takes_linear_time(
    what: &str,
    text: impl Fn(usize) -> String,
    look: impl Fn(usize, &ParsedFile),
) {
    let time = |length: usize| {
        let text = text(length);
        let before = processor_time();
        let answer = read_text(&text);
        let taken = processor_time() - before;
        look(length, &answer);
        taken
    };
    // What is shorter than this is no measure.
    let quarter = time(1).max(Duration::from_millis(20));
    let whole = time(4);
    assert!(whole < quarter * 8, "{what}: {quarter:?} for a quarter, {whole:?} for the whole");
}

#[test]
fn a_large_stream_takes_linear_time() {
    let one = |number: usize| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-{number}\n  \
                namespace: shop\n  labels: &labels-{number} {{app: web-{number}}}\nspec:\n  \
                replicas: 3\n  selector:\n    matchLabels: *labels-{number}\n  template:\n    \
                metadata:\n      labels: *labels-{number}\n    spec:\n      containers:\n      - \
                name: web\n        image: registry.example.com/shop/web:1.{number}\n        args: \
                [\"--verbose\", '--port=8080']\n        ports:\n        - containerPort: \
                8080\n        env:\n        - name: A\n          value: |\n            text\n"
        )
    };
    takes_linear_time(
        "documents",
        |quarters| (0..750 * quarters).map(one).collect(),
        |quarters, answer| {
            let found = (answer.documents.len(), answer.diagnostics.len());
            assert_eq!(found, (750 * quarters, 0));
        },
    );
    type Long = fn(usize) -> String;
    let long: [(&str, Long); 7] = [
        ("a mapping", |n| (0..15_000 * n).map(|n| format!("k{n}: v\n")).collect()),
        ("a sequence", |n| format!("a:\n{}", "- v\n".repeat(50_000 * n))),
        ("a text", |n| format!("a: |\n{}", "  line of text\n".repeat(25_000 * n))),
        ("a flow list", |n| format!("a: [{}]", "v, ".repeat(50_000 * n))),
        ("escapes", |n| format!("a: \"{}\"", "\\n".repeat(125_000 * n))),
        ("a line", |n| format!("a: {}", "word ".repeat(50_000 * n))),
        ("comments", |n| "# comment\n".repeat(40_000 * n)),
    ];
    for (what, text) in long {
        takes_linear_time(what, text, |_, answer| {
            assert!(!answer.diagnostics.iter().any(Diagnostic::is_error), "{what}");
        });
    }
}

/// As many problems as lines: the first ones have their own place and line shown, and the last one
/// counts the others.
#[test]
fn file_with_many_problems_takes_linear_time() {
    for head in ["", "kind: Secret\n"] {
        takes_linear_time(
            "problems",
            |quarters| {
                let lines = (0..5_000 * quarters).map(|n| format!("k{n}: yes # Secret\n"));
                std::iter::once(head.to_owned()).chain(lines).collect()
            },
            |quarters, answer| {
                let listed = gitwork_yaml::limits::YAML_PROBLEMS_MAX;
                assert_eq!(answer.diagnostics.len(), listed + 1);
                let last = &answer.diagnostics[listed].message;
                let others = (5_000 * quarters - listed).to_string();
                assert!(last.starts_with(&others), "{last}");
            },
        );
    }
}
