//! Diagnostics as JSON and SARIF.

use gitwork_core::limits;
use gitwork_core::model::diagnostic::{Code, Diagnostic};
use gitwork_core::model::name::RepoPath;
use gitwork_core::text::diagnostics::json;
use gitwork_core::text::sarif::sarif;
use serde_json::Value;

use crate::cases;
use crate::memory_repository::render;

fn diagnostics() -> Vec<Diagnostic> {
    render(&cases::repository("diagnostics-text")).diagnostics
}

#[test]
fn json_report_has_every_field() {
    let value: Value = serde_json::from_str(&json(&diagnostics(), usize::MAX)).unwrap();
    let all = value["diagnostics"].as_array().unwrap();
    assert_eq!(all.len(), diagnostics().len());
    for entry in all {
        assert!(entry["code"].as_str().unwrap().starts_with("GW"));
        assert!(["error", "warning", "info"].contains(&entry["severity"].as_str().unwrap()));
        assert!(!entry["help"].as_str().unwrap().is_empty());
        assert!(
            entry["file"].is_string()
                && (entry.get("line").is_some() == entry.get("length").is_some())
        );
    }
    assert!(!value.to_string().contains("canary"));
}

/// What SARIF 2.1.0 requires and GitHub adds to it.
#[test]
fn sarif_has_the_fields_that_code_scanning_needs() {
    let mut found = diagnostics();
    let fleet = RepoPath::parse("fleet/prod").unwrap();
    found.iter_mut().for_each(|diagnostic| diagnostic.below(&fleet));
    let log = sarif(&found, usize::MAX);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), Code::ALL.len());
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), found.len());
    for (result, diagnostic) in results.iter().zip(&found) {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert_eq!(result["ruleId"], diagnostic.code.id());
        assert!(result["message"]["text"].as_str().unwrap().starts_with(&diagnostic.message));
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("fleet/prod/clusters/"), "{uri}");
        assert!(uri.bytes().all(|b| b.is_ascii_graphic()), "{uri}");
        let region = &place["region"];
        assert!(region["startLine"].as_u64().unwrap() >= 1);
        if let Some(span) = diagnostic.location.span {
            assert_eq!(region["startColumn"], span.column);
            assert_eq!(region["endColumn"], span.column + span.length.max(1));
        }
    }
    let uris = log.to_string();
    assert!(uris.contains("clusters/edge-1/web/na%C3%AFve%20file.yaml"), "{uris}");
    assert!(!uris.contains("canary"));
}

#[test]
fn sarif_reports_omitted_results() {
    let one = diagnostics().swap_remove(0);
    let log = sarif(&vec![one; limits::DIAGNOSTICS_MAX + 3], usize::MAX);
    let run = &log["runs"][0];
    assert_eq!(run["results"].as_array().unwrap().len(), limits::DIAGNOSTICS_MAX);
    let note = &run["invocations"][0]["toolExecutionNotifications"][0];
    assert_eq!(note["message"]["text"], "3 more diagnostics are left out");
}
