//! What gitwork reads from YAML against what kubectl reads: `tests/kubectl-yaml/cases.json` holds the answers of
//! kubectl's own decoder, recorded by the Go program beside it.

use std::time::{Duration, Instant};

use gitwork::core::diagnostic::{Diagnostic, Scope};
use gitwork::core::name::RepoPath;
use gitwork::core::yaml::{Read, read};
use serde::Deserialize;
use serde_json::Value;

/// One input with kubectl's answer. `ours` says how gitwork differs on purpose: the code of the error by which it
/// refuses what kubectl takes, or `accepts`; `why` says why.
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

fn read_text(text: &str) -> Read {
    read(&RepoPath::parse("a.yaml").unwrap(), text.as_bytes(), &Scope::Source)
}

/// Equal but for how a number is written: Go prints a float without an exponent up to 10^21, and what it printed
/// is read back here to within one unit of the last place.
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
                "must be what only gitwork refuses, with {code}; kubectl {error:?}, gitwork {said:?} {documents:?}"
            ))
        }
        _ => None,
    }
}

#[test]
fn gitwork_reads_what_kubectl_reads() {
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

/// 3,000 Deployments in one stream. The bound is generous for an unoptimised build and a busy machine; a quadratic
/// reader would take minutes.
#[test]
fn a_large_stream_takes_linear_time() {
    let one = |number: usize| {
        format!(
            "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web-{number}\n  namespace: shop\n  labels: &labels-{number} {{app: web-{number}}}\nspec:\n  replicas: 3\n  selector:\n    matchLabels: *labels-{number}\n  template:\n    metadata:\n      labels: *labels-{number}\n    spec:\n      containers:\n      - name: web\n        image: registry.example.com/shop/web:1.{number}\n        args: [\"--verbose\", '--port=8080']\n        ports:\n        - containerPort: 8080\n        env:\n        - name: A\n          value: |\n            text\n"
        )
    };
    let time = |works: usize| {
        let text: String = (0..works).map(one).collect();
        let start = Instant::now();
        let answer = read_text(&text);
        assert_eq!((answer.documents.len(), answer.diagnostics.len()), (works, 0));
        start.elapsed()
    };
    let elapsed = time(3_000);
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    // One mapping, one sequence, one text, one flow list: each long.
    for text in [
        (0..60_000).map(|n| format!("k{n}: v\n")).collect::<String>(),
        format!("a:\n{}", "- v\n".repeat(200_000)),
        format!("a: |\n{}", "  line of text\n".repeat(100_000)),
        format!("a: [{}]", "v, ".repeat(200_000)),
        format!("a: \"{}\"", "\\n".repeat(500_000)),
        format!("a: {}", "word ".repeat(200_000)),
        "# comment\n".repeat(150_000),
    ] {
        let start = Instant::now();
        let answer = read_text(&text);
        assert!(!answer.diagnostics.iter().any(Diagnostic::is_error), "{:?}", answer.diagnostics);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

/// As many problems as lines: each has its own place and line shown.
#[test]
fn a_file_full_of_problems_takes_linear_time() {
    let text: String = (0..20_000).map(|n| format!("k{n}: yes # Secret\n")).collect();
    for text in [text.clone(), format!("kind: Secret\n{text}")] {
        let start = Instant::now();
        assert_eq!(read_text(&text).diagnostics.len(), 20_000);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}
