//! Diagnostics as JSON.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use super::blocks::most_severe;
use super::summary::DiagnosticSummary;
use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope, Severity, Span};
use crate::model::name::RepoPath;
use crate::text::escape::json_text;

/// The JSON form of a report. Fields are only ever added.
#[derive(Debug, Serialize, JsonSchema)]
struct Report<'a> {
    /// Errors, warnings and notes, by file and line.
    diagnostics: Vec<Entry<'a>>,
    /// How many are left out.
    #[serde(skip_serializing_if = "is_zero")]
    omitted: usize,
    /// The counts of all of them.
    summary: DiagnosticSummary,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Debug, Serialize, JsonSchema)]
struct Entry<'a> {
    /// As in `GW101`: see docs/diagnostics.md.
    code: Code,
    /// How bad it is.
    severity: Severity,
    /// What the code says in general.
    title: &'static str,
    /// What is wrong in this place.
    message: &'a str,
    /// What to do about it.
    help: &'a str,
    #[serde(flatten)]
    location: JsonLocation<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// As in `spec.replicas`.
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The group that it is about.
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The cluster that it is about.
    cluster: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The work of the cluster that it is about.
    work: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The line of the file.
    snippet: Option<&'a str>,
    /// Whether `validate --fix` corrects it.
    #[serde(skip_serializing_if = "is_false")]
    fixable: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    /// Other places that matter.
    related: Vec<Related<'a>>,
}

fn is_false(truth: &bool) -> bool {
    !truth
}

#[derive(Debug, Serialize, JsonSchema)]
struct Related<'a> {
    #[serde(flatten)]
    location: JsonLocation<'a>,
    /// Why it matters.
    message: &'a str,
}

/// Lines and columns count from 1; columns and lengths are in characters.
#[derive(Debug, Serialize, JsonSchema)]
struct JsonLocation<'a> {
    /// The path of the file.
    file: &'a RepoPath,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SpanFields>")]
    span: Option<Span>,
}

/// The fields of a span. The crate with spans has no schemas.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct SpanFields {
    /// The line, from 1.
    line: u32,
    /// The first character in the line, from 1.
    column: u32,
    /// The number of characters.
    length: u32,
}

impl<'a> JsonLocation<'a> {
    fn of(location: &'a Location) -> Self {
        Self { file: &location.file, span: location.span }
    }
}

impl<'a> Entry<'a> {
    fn of(diagnostic: &'a Diagnostic) -> Self {
        let (cluster, work) = match &diagnostic.scope {
            Scope::Source | Scope::Group(_) => (None, None),
            Scope::Cluster(cluster) => (Some(cluster.as_str()), None),
            Scope::Work(key) => (Some(key.cluster.as_str()), Some(key.work.as_str())),
        };
        let group = match &diagnostic.scope {
            Scope::Group(group) => Some(group.as_str()),
            Scope::Source | Scope::Cluster(_) | Scope::Work(_) => None,
        };
        Self {
            code: diagnostic.code,
            severity: diagnostic.severity,
            title: diagnostic.code.title(),
            message: &diagnostic.message,
            help: diagnostic.help(),
            location: JsonLocation::of(&diagnostic.location),
            field: diagnostic.field.as_deref(),
            group,
            cluster,
            work,
            snippet: diagnostic.snippet.as_deref(),
            fixable: diagnostic.fix.is_some(),
            related: diagnostic
                .related
                .iter()
                .map(|(location, why)| Related {
                    location: JsonLocation::of(location),
                    message: why,
                })
                .collect(),
        }
    }
}

/// For `serde(serialize_with)`: diagnostics in the form that `json` gives them.
pub fn entries<S: serde::Serializer>(all: &[Diagnostic], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(Entry::of))
}

/// For `schemars(schema_with)`: the schema of [`entries`].
pub fn entries_schema(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Vec<Entry<'static>>>()
}

/// The JSON Schema of [`json`], out of a generator.
pub fn report_schema(generator: SchemaGenerator) -> Schema {
    generator.into_root_schema_for::<Report<'static>>()
}

/// One JSON object: `diagnostics`, a list, and `summary`, their counts. A diagnostic has `code`,
/// `severity` (`error`, `warning`, `info`), `title`, `message`, `help`, `file`; where there is one
/// `line`, `column`, `length`, `field`, `group`, `cluster`, `work`, `snippet`; `fixable` if
/// `validate --fix` corrects it; and `related`, a list of places with a `message` each. Copies of
/// one mistake are all listed. Past `max`, or `limits::DIAGNOSTICS_MAX`, the less severe ones are
/// counted only, in `omitted`.
pub fn json(diagnostics: &[Diagnostic], max: usize) -> String {
    let max = max.min(limits::DIAGNOSTICS_MAX);
    let all: Vec<&Diagnostic> = diagnostics.iter().collect();
    let (shown, hidden) = most_severe(all, max, |one| one.severity);
    let report = Report {
        diagnostics: shown.into_iter().map(Entry::of).collect(),
        omitted: hidden.len(),
        summary: DiagnosticSummary::of(diagnostics),
    };
    json_text(&report)
}
