use gitwork_yaml::is_dangerous;
use serde_json::Value;

use super::print::underline;
use super::*;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope, Span};
use crate::model::name::{ClusterName, RepoPath, WorkKey, WorkName};
use crate::text::style::ColorMode;

fn at(file: &str, line: u32, column: u32, length: u32) -> Location {
    Location::at(&RepoPath::parse(file).unwrap(), Span { line, column, length })
}

fn work(cluster: &str, work: &str) -> Scope {
    Scope::Work(WorkKey {
        cluster: ClusterName::parse(cluster).unwrap(),
        work: WorkName::parse(work).unwrap(),
    })
}

fn duplicate() -> Diagnostic {
    let mut diagnostic = Diagnostic::new(
        Code::DuplicateKey,
        at("clusters/a/web/x.yaml", 14, 3, 4),
        work("a", "web"),
        "the key \"name\" occurs twice in this mapping",
    )
    .with_field("metadata")
    .with_related(at("clusters/a/web/x.yaml", 3, 3, 4), "first here");
    diagnostic.snippet = Some("  name: web".into());
    diagnostic
}

#[test]
fn text_names_the_place_and_shows_it() {
    let expected = r#"error[GW102]: the key "name" occurs twice in this mapping
  --> clusters/a/web/x.yaml:14:3
   |
14 |   name: web
   |   ^^^^
  ::: clusters/a/web/x.yaml:3:3: first here
   = field: metadata
   = help: Remove one of the two. kubectl would silently use the last one.

1 error in 1 work of 1 cluster
"#;
    assert_eq!(text(&[duplicate()], ColorMode::Plain), expected);
    assert_eq!(text(&[], ColorMode::Plain), "no problems\n");
    let coloured = text(&[duplicate()], ColorMode::Colored);
    assert!(coloured.contains("\u{1b}[1m\u{1b}[31merror[GW102]\u{1b}[0m"), "{coloured:?}");
}

#[test]
fn the_caret_stands_under_the_place() {
    for (snippet, column, length, line, caret) in [
        ("a: b", 4, 1, "a: b", Some((3, 1))),
        ("\ta: b", 2, 1, "    a: b", Some((4, 1))),
        ("名前: 値", 5, 1, "名前: 値", Some((6, 2))),
        ("e\u{301}: b", 5, 1, "e\u{301}: b", Some((3, 1))),
        ("a: ", 4, 9, "a:", Some((3, 1))),
        ("a: b", 5, 1, "a: b", Some((4, 1))),
        ("a: b", 900, 1, "a: b", None),
        ("a: b\r", 0, 0, "a: b", Some((0, 1))),
        ("\u{1b}[2Ja", 5, 1, "\\u{1b}[2Ja", Some((9, 1))),
    ] {
        let span = Span { line: 1, column, length };
        assert_eq!(underline(snippet, span), (line.to_owned(), caret), "{snippet:?}");
    }
    let span = Span { line: u32::MAX, column: u32::MAX, length: u32::MAX };
    assert_eq!(underline("a", span).1, None);
}

#[test]
fn nothing_from_the_repository_commands_the_terminal() {
    let mut diagnostic = Diagnostic::new(
        Code::BadValue,
        at("a\u{1b}]0;x\u{7}.yaml", 1, 1, 1),
        Scope::Source,
        "bad \u{1b}[31m value\nerror[GW999]: forged \u{202e}",
    )
    .with_hint("x\u{9b}31m")
    .with_field("a\rb")
    .with_related(at("b\u{8}", 1, 1, 1), "y\u{1b}");
    diagnostic.snippet = Some("\u{1b}[2J \u{2066}".into());
    let shown = text(&[diagnostic], ColorMode::Plain);
    assert!(!shown.chars().any(|c| c != '\n' && is_dangerous(c)), "{shown:?}");
    assert!(!shown.lines().any(|line| line.starts_with("error[GW999]")), "{shown}");
}

#[test]
fn one_problem_of_many_works_is_printed_once() {
    let path = RepoPath::parse("groups/g/web/x.yaml").unwrap();
    let one = |cluster: &str, message: &str| {
        Diagnostic::new(Code::BadValue, Location::file(&path), work(cluster, "web"), message)
    };
    let all = [one("a", "m"), one("b", "m"), one("c", "m"), one("c", "n")];
    let shown = text(&all, ColorMode::Plain);
    assert_eq!(shown.matches("error[GW303]: m").count(), 1, "{shown}");
    assert!(shown.contains("  = in cluster a, and in 2 more clusters: b, c\n"), "{shown}");
    assert_eq!(shown.matches("error[GW303]: n").count(), 1, "{shown}");
    assert!(shown.ends_with("4 errors in 3 works of 3 clusters\n"), "{shown}");
    // Twice for one work is twice.
    let twice = text(&[one("a", "m"), one("a", "m")], ColorMode::Plain);
    assert_eq!(twice.matches("error[GW303]: m").count(), 2, "{twice}");
}

#[test]
fn summaries_count() {
    let path = RepoPath::parse("x").unwrap();
    let one = |code, scope| Diagnostic::new(code, Location::file(&path), scope, "");
    let cluster = Scope::Cluster(ClusterName::parse("c").unwrap());
    for (diagnostics, expected) in [
        (vec![one(Code::NoClusters, Scope::Source)], "1 error in the source"),
        (vec![one(Code::BadName, cluster.clone())], "1 error in 1 cluster"),
        (
            vec![
                one(Code::BadName, cluster),
                one(Code::BadValue, work("a", "web")),
                one(Code::BadValue, work("a", "db")),
                one(Code::PlainSecret, work("a", "db")),
                one(Code::GuessedPlural, work("a", "db")),
            ],
            "3 errors, 1 warning, 1 note in 2 works of 2 clusters",
        ),
    ] {
        assert_eq!(DiagnosticSummary::of(&diagnostics).to_string(), expected);
    }
}

#[test]
fn json_is_one_object_with_flat_places() {
    let value: Value = serde_json::from_str(&json(&[duplicate()], usize::MAX)).unwrap();
    assert_eq!(
        value,
        serde_json::json!({
            "diagnostics": [{
                "code": "GW102", "severity": "error", "title": "duplicate key in a mapping",
                "message": "the key \"name\" occurs twice in this mapping",
                "help": "Remove one of the two. kubectl would silently use the last one.",
                "file": "clusters/a/web/x.yaml", "line": 14, "column": 3, "length": 4,
                "field": "metadata", "cluster": "a", "work": "web", "snippet": "  name: web",
                "related": [{
                "file": "clusters/a/web/x.yaml", "line": 3, "column": 3, "length": 4,
                "message": "first here",
            }],
            }],
            "summary": {"errors": 1, "warnings": 0, "notes": 0, "works": 1, "clusters": 1},
        })
    );
}

#[test]
fn a_flood_is_counted() {
    let path = RepoPath::parse("x").unwrap();
    let one = Diagnostic::new(Code::BadName, Location::file(&path), Scope::Source, "m");
    let flood = vec![one; limits::DIAGNOSTICS_MAX + 2];
    let report: Value = serde_json::from_str(&json(&flood, usize::MAX)).unwrap();
    assert_eq!(report["diagnostics"].as_array().unwrap().len(), limits::DIAGNOSTICS_MAX);
    assert_eq!((&report["omitted"], &report["summary"]["errors"]), (&2.into(), &10_002.into()));
    let shown = text(&flood, ColorMode::Plain);
    let end = "\n10002 errors in the source\nnot shown: 2 errors; select fewer with --cluster, \
               --work or --changed-since\n";
    assert!(shown.ends_with(end), "{}", &shown[shown.len() - 190..]);
}

#[test]
fn bounded_output_has_the_worst_and_counts_the_others() {
    let path = RepoPath::parse("x").unwrap();
    let one = |code, cluster: &str| {
        Diagnostic::new(code, Location::file(&path), work(cluster, "web"), "m")
    };
    let all = [one(Code::NoEffect, "a"), one(Code::BadValue, "a"), one(Code::GuessedPlural, "b")];
    let shown = bounded_text(&all, (1, "see all with X"), ColorMode::Plain);
    assert!(shown.starts_with("error[GW303]: m\n") && !shown.contains("GW311"), "{shown}");
    assert!(shown.ends_with("clusters\nnot shown: 1 warning, 1 note; see all with X\n"), "{shown}");
    let report: Value = serde_json::from_str(&json(&all, 1)).unwrap();
    assert_eq!(
        (&report["omitted"], &report["diagnostics"][0]["code"]),
        (&2.into(), &"GW303".into())
    );
}
