//! Diagnostics as SARIF 2.1.0 (OASIS), so that GitHub code scanning and editors show them on the
//! lines.

use serde_json::{Value, json};

use crate::limits;
use crate::model::diagnostic::{Code, Diagnostic, Location, Scope, Severity};
use crate::model::digest::Digest;
use crate::text::diagnostics::most_severe;
use crate::text::percent::encoded;

/// Where the schema is published.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The log of one run. SARIF names files from the repository's root, so the diagnostics of a source
/// below it are relative to it ([`Diagnostic::below`]). Past `max` or `limits::DIAGNOSTICS_MAX`
/// results a notification says how many less severe ones are left out (GitHub refuses a run with
/// more than 25,000).
pub fn sarif(diagnostics: &[Diagnostic], max: usize) -> Value {
    let max = max.min(limits::DIAGNOSTICS_MAX);
    let all: Vec<&Diagnostic> = diagnostics.iter().collect();
    let (shown, hidden) = most_severe(all, max, |one| one.severity);
    let results: Vec<Value> = shown.into_iter().map(result).collect();
    let mut notifications = Vec::new();
    if !hidden.is_empty() {
        let text = format!("{} more diagnostics are left out", hidden.len());
        notifications.push(json!({ "level": "warning", "message": { "text": text } }));
    }
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "gitwork",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": Code::ALL.iter().map(|code| rule(*code)).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

fn rule(code: Code) -> Value {
    json!({
        "id": code.id(),
        "name": format!("{code:?}"),
        "shortDescription": { "text": code.title() },
        "fullDescription": { "text": format!("{}. {}", code.title(), code.help()) },
        "help": { "text": code.help() },
        "defaultConfiguration": { "level": level(code.severity()) },
        "properties": { "problem.severity": problem_severity(code.severity()) },
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

/// GitHub's word for it.
fn problem_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "recommendation",
    }
}

fn result(diagnostic: &Diagnostic) -> Value {
    let help = diagnostic.help();
    let logical = match &diagnostic.scope {
        Scope::Source => None,
        Scope::Cluster(cluster) => Some(cluster.to_string()),
        Scope::Group(group) => Some(format!("groups/{group}")),
        Scope::Work(key) => Some(key.to_string()),
    };
    let mut location = location(&diagnostic.location);
    if let (Some(name), Some(fields)) = (logical, location.as_object_mut()) {
        fields.insert("logicalLocations".into(), json!([{ "fullyQualifiedName": name }]));
    }
    let related: Vec<Value> = diagnostic
        .related
        .iter()
        .enumerate()
        .map(|(id, (at, why))| {
            let mut related = self::location(at);
            if let Some(fields) = related.as_object_mut() {
                fields.insert("id".into(), id.into());
                fields.insert("message".into(), json!({ "text": why }));
            }
            related
        })
        .collect();
    json!({
        "ruleId": diagnostic.code.id(),
        "ruleIndex": Code::ALL.iter().position(|code| *code == diagnostic.code),
        "level": level(diagnostic.severity),
        "message": { "text": format!("{}\n{help}", diagnostic.message) },
        "locations": [location],
        "relatedLocations": related,
        "partialFingerprints": { "gitwork/v1": fingerprint(diagnostic) },
    })
}

/// A whole file or folder is shown on its first line: GitHub wants a region.
fn location(location: &Location) -> Value {
    let region = match location.span {
        Some(span) => json!({
            "startLine": span.line.max(1),
            "startColumn": span.column.max(1),
            "endColumn": span.column.max(1).saturating_add(span.length.max(1)),
        }),
        None => json!({ "startLine": 1 }),
    };
    let path: Vec<String> = location.file.parts().map(encoded).collect();
    let uri = if path.is_empty() { ".".to_owned() } else { path.join("/") };
    json!({
        "physicalLocation": {
            "artifactLocation": { "uri": uri, "uriBaseId": "%SRCROOT%" },
            "region": region,
        },
    })
}

/// Stays the same when lines above move, so that GitHub knows an alert again.
fn fingerprint(diagnostic: &Diagnostic) -> String {
    let parts = [
        diagnostic.code.id(),
        diagnostic.location.file.as_str(),
        diagnostic.field.as_deref().unwrap_or_default(),
        &diagnostic.message,
    ];
    Digest::of(parts.join("\0").as_bytes()).to_string().chars().take(32).collect()
}
