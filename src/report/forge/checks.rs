//! Check runs of a GitHub App, with annotations on lines with errors (GitHub: "Create a check run",
//! "Update a check run").

use serde_json::{Value, json};

use super::request::{headers, without_nulls};
use super::{CommitState, CommitStatus, ForgeTarget, HttpRequest};
use crate::status::source::SourceStatus;
use crate::status_branch::{StatusSummary, plain};
use gitwork_core::config::commit_status::Provider;
use gitwork_core::model::diagnostic::{Diagnostic, Severity};
use gitwork_core::model::name::RepoPath;
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::percent::encoded_path;
use gitwork_core::text::truncate::truncate_chars;

/// GitHub's limit for one request. A check run accepts any number of requests.
pub const ANNOTATIONS_PER_REQUEST: usize = 50;
/// GitHub's limits: characters of a title, and of a text (64 KB at four bytes a character).
const TITLE_CHARS_MAX: usize = 255;
const TEXT_CHARS_MAX: usize = 15_000;
/// Works listed in a check run's summary.
const PROBLEMS_MAX: usize = 50;

/// The findings in the source's files as annotations. `root` is the source's folder in the
/// repository.
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
    let message = shown(&format!("{}{hint}", found.message));
    without_nulls(json!({
        "path": root.join_path(&found.location.file).to_string(),
        "start_line": line, "end_line": line, "start_column": column, "end_column": end,
        "annotation_level": level,
        "title": found.code.id(),
        "message": truncate_chars(&message, TEXT_CHARS_MAX).into_owned(),
    }))
}

/// Escapes a text but keeps its line breaks.
fn shown(text: &str) -> String {
    text.lines().map(escape_untrusted).collect::<Vec<_>>().join("\n")
}

/// Creates a check run, or updates the one with this id.
pub fn request(
    target: &ForgeTarget,
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
    let title = escape_untrusted(&status.description);
    let body = json!({
        "name": target.context_of(status), "head_sha": head,
        "status": state, "conclusion": conclusion,
        "details_url": target.link(status.commit),
        "output": {
            "title": truncate_chars(&title, TITLE_CHARS_MAX).into_owned(),
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

/// The status line, and the unhealthy works.
fn summary(status: &CommitStatus, details: Option<&SourceStatus>) -> String {
    let mut text = plain(&status.description);
    let Some(details) = details else { return text };
    let summary = StatusSummary::of(details);
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
    truncate_chars(&text, TEXT_CHARS_MAX).into_owned()
}

/// The id of the check run in a response; `None` if the body has none.
pub fn id_of(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(body).ok()?.get("id")?.as_u64().filter(|id| *id > 0)
}
