//! Check runs of a GitHub App, with annotations on the lines that are wrong (GitHub: "Create a check run", "Update a check
//! run").

use serde_json::{Value, json};

use super::request::{encoded_path, headers, without_nulls};
use super::{CommitState, CommitStatus, HttpRequest, Provider, Target};
use crate::core::diagnostic::{Diagnostic, Severity};
use crate::core::name::RepoPath;
use crate::core::report::harmless;
use crate::core::status::source::{SourceStatus, cut};
use crate::core::statusbranch::{Summary, plain};

/// GitHub takes no more in one request; a run takes any number of requests.
pub const ANNOTATIONS_PER_REQUEST: usize = 50;
/// GitHub's limits: characters of a title, and of a text (64 KB, which four bytes a character stay below).
const TITLE_CHARS_MAX: usize = 255;
const TEXT_CHARS_MAX: usize = 15_000;
/// Works that are named in a run's summary.
const PROBLEMS_MAX: usize = 50;

/// What is wrong in the source's files, as annotations. `root` is where those are in the repository.
pub fn annotations(status: &SourceStatus, root: &RepoPath) -> Vec<Value> {
    status.findings.iter().map(|found| annotation(found, root)).collect()
}

fn annotation(found: &Diagnostic, root: &RepoPath) -> Value {
    let span = found.location.span;
    let line = span.map_or(1, |span| span.line.max(1));
    let column = span.map(|span| span.column.max(1));
    let end =
        span.zip(column).map(|(span, column)| column.saturating_add(span.length.saturating_sub(1)));
    let hint = found.hint.as_ref().map_or_else(String::new, |hint| format!("\n{hint}"));
    let level = match found.severity {
        Severity::Error => "failure",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    without_nulls(json!({
        "path": root.join_path(&found.location.file).to_string(),
        "start_line": line, "end_line": line, "start_column": column, "end_column": end,
        "annotation_level": level,
        "title": found.code.id(),
        "message": cut(&shown(&format!("{}{hint}", found.message)), TEXT_CHARS_MAX),
    }))
}

/// Lines stay lines.
fn shown(text: &str) -> String {
    text.lines().map(harmless).collect::<Vec<_>>().join("\n")
}

/// Makes a run, or brings the one of this id up to date.
pub fn request(
    target: &Target,
    id: Option<u64>,
    status: &CommitStatus,
    details: Option<&SourceStatus>,
    annotations: &[Value],
) -> HttpRequest {
    let repository = encoded_path(&target.repository);
    let (method, place) = match id {
        None => ("POST", String::new()),
        Some(id) => ("PATCH", format!("/{id}")),
    };
    let (state, conclusion) = match status.state {
        CommitState::Pending => ("in_progress", None),
        CommitState::Success => ("completed", Some("success")),
        CommitState::Failure => ("completed", Some("failure")),
        CommitState::Superseded => ("completed", Some("cancelled")),
    };
    let head = id.is_none().then(|| status.commit.to_string());
    let body = json!({
        "name": target.context_of(status), "head_sha": head,
        "status": state, "conclusion": conclusion,
        "details_url": target.link(status.commit),
        "output": {
            "title": cut(&harmless(&status.description), TITLE_CHARS_MAX),
            "summary": summary(status, details),
            "annotations": annotations,
        },
    });
    HttpRequest {
        method,
        url: format!("{}/repos/{repository}/check-runs{place}", target.api_url),
        headers: headers(Provider::Github),
        body: without_nulls(body),
    }
}

/// The line, and the works that are not as they should be.
fn summary(status: &CommitStatus, details: Option<&SourceStatus>) -> String {
    let mut text = plain(&status.description);
    let Some(details) = details else { return text };
    let summary = Summary::of(details);
    for problem in summary.problems.iter().take(PROBLEMS_MAX) {
        let why =
            problem.message.as_deref().map_or_else(String::new, |why| format!(": {}", plain(why)));
        text.push_str(&format!(
            "\n- {}/{} is {}{why}",
            problem.cluster, problem.work, problem.state
        ));
    }
    let more = summary.problems.len().saturating_sub(PROBLEMS_MAX) + summary.problems_left_out;
    if more > 0 {
        text.push_str(&format!("\n- and {more} more"));
    }
    cut(&text, TEXT_CHARS_MAX)
}

/// The id of the run in an answer.
pub fn id_of(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(body).ok()?.get("id")?.as_u64().filter(|id| *id > 0)
}
