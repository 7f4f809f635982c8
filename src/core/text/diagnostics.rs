//! Diagnostics as text with the source line and a caret, and as JSON.
//!
//! All text of the repository is escaped before it is printed.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use unicode_width::UnicodeWidthChar as _;

use super::escape::escape_untrusted;
use super::style::{ColorMode, TextStyle, count};
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope, Severity, Span};
use crate::model::name::RepoPath;

/// How many problems there are, and of how many works and clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DiagnosticSummary {
    pub errors: usize,
    pub warnings: usize,
    pub notes: usize,
    /// Works that a diagnostic is about.
    pub works: usize,
    /// Clusters that a diagnostic, or the work of one, is about.
    pub clusters: usize,
}

impl DiagnosticSummary {
    pub fn of(diagnostics: &[Diagnostic]) -> Self {
        let mut summary = Self::default();
        let (mut works, mut clusters) = (BTreeSet::new(), BTreeSet::new());
        for diagnostic in diagnostics {
            match diagnostic.severity {
                Severity::Error => summary.errors += 1,
                Severity::Warning => summary.warnings += 1,
                Severity::Info => summary.notes += 1,
            }
            match &diagnostic.scope {
                Scope::Source => {}
                Scope::Cluster(cluster) => drop(clusters.insert(cluster)),
                Scope::Work(key) => {
                    works.insert(key);
                    clusters.insert(&key.cluster);
                }
            }
        }
        Self { works: works.len(), clusters: clusters.len(), ..summary }
    }
}

impl fmt::Display for DiagnosticSummary {
    /// `3 errors, 1 warning in 2 works of 2 clusters`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [(self.errors, "error"), (self.warnings, "warning"), (self.notes, "note")];
        let said: Vec<String> =
            counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(n, what)).collect();
        if said.is_empty() {
            return f.write_str("no problems");
        }
        f.write_str(&said.join(", "))?;
        match (self.works, self.clusters) {
            (0, 0) => f.write_str(" in the source"),
            (0, clusters) => write!(f, " in {}", count(clusters, "cluster")),
            (works, clusters) => {
                write!(f, " in {} of {}", count(works, "work"), count(clusters, "cluster"))
            }
        }
    }
}

/// All diagnostics as text, with a summary as the last line. Past `limits::DIAGNOSTICS_MAX` they are counted only.
pub fn text(diagnostics: &[Diagnostic], style: ColorMode) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics.iter().take(limits::DIAGNOSTICS_MAX) {
        write_one(&mut out, diagnostic, style);
        out.push('\n');
    }
    if let Some(left) = diagnostics.len().checked_sub(limits::DIAGNOSTICS_MAX).filter(|n| *n > 0) {
        out.push_str(&format!("... and {} more\n\n", count(left, "problem")));
    }
    out.push_str(&style.styled(TextStyle::Strong, DiagnosticSummary::of(diagnostics)));
    out.push('\n');
    out
}

/// One diagnostic as text.
pub fn write_one(out: &mut String, diagnostic: &Diagnostic, style: ColorMode) {
    let (word, paint) = match diagnostic.severity {
        Severity::Error => ("error", TextStyle::Bad),
        Severity::Warning => ("warning", TextStyle::Warning),
        Severity::Info => ("note", TextStyle::Note),
    };
    let head = style.styled(paint, format_args!("{word}[{}]", diagnostic.code.id()));
    out.push_str(&format!(
        "{head}: {}\n",
        style.styled(TextStyle::Strong, escape_untrusted(&diagnostic.message))
    ));
    let span = diagnostic.location.span;
    let number = span.map_or(String::new(), |span| span.line.to_string());
    let margin = " ".repeat(number.len().max(1));
    let bar = style.styled(TextStyle::Dim, "|");
    out.push_str(&format!(
        "{margin}{} {}\n",
        style.styled(TextStyle::Dim, "-->"),
        style.styled(TextStyle::Note, place(&diagnostic.location))
    ));
    if let (Some(span), Some(snippet)) = (span, &diagnostic.snippet) {
        let (line, caret) = underline(snippet, span);
        let number = style.styled(TextStyle::Dim, number);
        out.push_str(&format!("{margin} {bar}\n{number} {bar} {line}\n"));
        if let Some((indent, width)) = caret {
            let mark = style.styled(paint, "^".repeat(width));
            out.push_str(&format!("{margin} {bar} {}{mark}\n", " ".repeat(indent)));
        }
    }
    for (location, why) in &diagnostic.related {
        out.push_str(&format!(
            "{margin}{} {}: {}\n",
            style.styled(TextStyle::Dim, ":::"),
            style.styled(TextStyle::Note, place(location)),
            escape_untrusted(why)
        ));
    }
    let mut remark = |word: &str, text: &str| {
        let word = style.styled(TextStyle::Strong, word);
        let equals = style.styled(TextStyle::Dim, "=");
        out.push_str(&format!("{margin} {equals} {word}: {}\n", escape_untrusted(text)));
    };
    if let Some(field) = &diagnostic.field {
        remark("field", field);
    }
    remark("help", diagnostic.hint.as_deref().unwrap_or(diagnostic.code.help()));
}

/// `file:line:column`, or the file alone.
fn place(location: &Location) -> String {
    let file = escape_untrusted(&location.file.to_string());
    match location.span {
        Some(span) => format!("{file}:{}:{}", span.line, span.column),
        None => file,
    }
}

/// Columns of a tab in a source line.
const TAB_COLUMNS: usize = 4;

/// The source line as it is shown, and where its caret stands: columns before it and columns below it. No
/// caret where the line was cut before the place.
fn underline(snippet: &str, span: Span) -> (String, Option<(usize, usize)>) {
    let first = (span.column.max(1) - 1) as usize;
    let last = first.saturating_add(span.length.max(1) as usize);
    let (mut line, mut indent, mut width, mut characters) = (String::new(), 0, 0, 0);
    for (index, character) in snippet.trim_end_matches(['\r', '\n']).chars().enumerate() {
        let shown = match character {
            '\t' => " ".repeat(TAB_COLUMNS),
            other => escape_untrusted(other.encode_utf8(&mut [0; 4])),
        };
        let columns: usize = shown.chars().map(|c| c.width().unwrap_or_default()).sum();
        if index < first {
            indent += columns;
        } else if index < last {
            width += columns;
        }
        line.push_str(&shown);
        characters = index + 1;
    }
    let line = line.trim_end().to_owned();
    // The end of a line is a place too.
    (line, (first <= characters).then_some((indent, width.max(1))))
}

/// The JSON form of a report. Fields are only ever added.
#[derive(Debug, Serialize)]
struct Report<'a> {
    diagnostics: Vec<Entry<'a>>,
    /// How many are left out.
    #[serde(skip_serializing_if = "is_zero")]
    omitted: usize,
    summary: DiagnosticSummary,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Debug, Serialize)]
struct Entry<'a> {
    code: Code,
    severity: Severity,
    /// What the code says in general.
    title: &'static str,
    message: &'a str,
    /// What to do about it.
    help: &'a str,
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snippet: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related: Vec<Related<'a>>,
}

#[derive(Debug, Serialize)]
struct Related<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    message: &'a str,
}

/// Lines and columns count from 1; columns and lengths are in characters.
#[derive(Debug, Serialize)]
struct Place<'a> {
    file: &'a RepoPath,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    span: Option<Span>,
}

impl<'a> Place<'a> {
    fn of(location: &'a Location) -> Self {
        Self { file: &location.file, span: location.span }
    }
}

impl<'a> Entry<'a> {
    fn of(diagnostic: &'a Diagnostic) -> Self {
        let (cluster, work) = match &diagnostic.scope {
            Scope::Source => (None, None),
            Scope::Cluster(cluster) => (Some(cluster.as_str()), None),
            Scope::Work(key) => (Some(key.cluster.as_str()), Some(key.work.as_str())),
        };
        Self {
            code: diagnostic.code,
            severity: diagnostic.severity,
            title: diagnostic.code.title(),
            message: &diagnostic.message,
            help: diagnostic.hint.as_deref().unwrap_or(diagnostic.code.help()),
            place: Place::of(&diagnostic.location),
            field: diagnostic.field.as_deref(),
            cluster,
            work,
            snippet: diagnostic.snippet.as_deref(),
            related: diagnostic
                .related
                .iter()
                .map(|(location, why)| Related { place: Place::of(location), message: why })
                .collect(),
        }
    }
}

/// For `serde(serialize_with)`: diagnostics in the form that `json` gives them.
pub fn entries<S: serde::Serializer>(all: &[Diagnostic], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(Entry::of))
}

/// One JSON object: `diagnostics`, a list, and `summary`, their counts. A diagnostic has `code`, `severity`
/// (`error`, `warning`, `info`), `title`, `message`, `help`, `file`; where there is one `line`, `column`,
/// `length`, `field`, `cluster`, `work`, `snippet`; and `related`, a list of places with a `message` each.
/// Past `limits::DIAGNOSTICS_MAX` they are counted only, in `omitted`.
pub fn json(diagnostics: &[Diagnostic]) -> String {
    let report = Report {
        diagnostics: diagnostics.iter().take(limits::DIAGNOSTICS_MAX).map(Entry::of).collect(),
        omitted: diagnostics.len().saturating_sub(limits::DIAGNOSTICS_MAX),
        summary: DiagnosticSummary::of(diagnostics),
    };
    // Names and texts only: nothing in here can fail to be JSON.
    let mut text = serde_json::to_string_pretty(&report).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use gitwork_yaml::is_dangerous;
    use serde_json::Value;

    use super::*;
    use crate::model::name::{ClusterName, WorkKey, WorkName};

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
            "the key \"name\" stands twice in this mapping",
        )
        .with_field("metadata")
        .with_related(at("clusters/a/web/x.yaml", 3, 3, 4), "first here");
        diagnostic.snippet = Some("  name: web".into());
        diagnostic
    }

    #[test]
    fn text_names_the_place_and_shows_it() {
        let expected = r#"error[GW102]: the key "name" stands twice in this mapping
  --> clusters/a/web/x.yaml:14:3
   |
14 |   name: web
   |   ^^^^
  ::: clusters/a/web/x.yaml:3:3: first here
   = field: metadata
   = help: Remove one of the two. kubectl would silently take the last.

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
        let value: Value = serde_json::from_str(&json(&[duplicate()])).unwrap();
        assert_eq!(
            value,
            serde_json::json!({
                "diagnostics": [{
                    "code": "GW102", "severity": "error", "title": "a key stands twice in one mapping",
                    "message": "the key \"name\" stands twice in this mapping",
                    "help": "Remove one of the two. kubectl would silently take the last.",
                    "file": "clusters/a/web/x.yaml", "line": 14, "column": 3, "length": 4,
                    "field": "metadata", "cluster": "a", "work": "web", "snippet": "  name: web",
                    "related": [{"file": "clusters/a/web/x.yaml", "line": 3, "column": 3, "length": 4, "message": "first here"}],
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
        let report: Value = serde_json::from_str(&json(&flood)).unwrap();
        assert_eq!(report["diagnostics"].as_array().unwrap().len(), limits::DIAGNOSTICS_MAX);
        assert_eq!((&report["omitted"], &report["summary"]["errors"]), (&2.into(), &10_002.into()));
        let shown = text(&flood, ColorMode::Plain);
        assert!(
            shown.ends_with("... and 2 problems more\n\n10002 errors in the source\n"),
            "{}",
            &shown[shown.len() - 90..]
        );
    }
}
