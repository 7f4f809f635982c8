//! `docs/schema/`: the JSON Schemas of the configuration files, for editors. They are generated;
//! `GITWORK_UPDATE=1 cargo test` rewrites them.

use gitwork_core::config::file_kind::join_lines;
use gitwork_core::config::{FileKind, OCM_FIELDS};
use gitwork_report::outputs::OutputKind;
use gitwork_report::status_branch::StatusSummary;
use schemars::transform::{RecursiveTransform, Transform as _};
use serde_json::Value;

use crate::catalogue::assert_up_to_date;

/// Of `summary.json` on the status branch.
const SUMMARY: &str = "docs/schema/status-summary.json";

fn path(kind: FileKind) -> String {
    format!("docs/schema/{}.json", kind.schema_name())
}

fn output_path(kind: OutputKind) -> String {
    format!("docs/schema/{}.json", kind.schema_name())
}

#[test]
fn generated_schemas_are_up_to_date() {
    for kind in FileKind::ALL {
        let text = serde_json::to_string_pretty(&kind.schema()).unwrap();
        assert_up_to_date(&path(kind), &format!("{text}\n"));
    }
    for kind in OutputKind::ALL {
        let text = serde_json::to_string_pretty(&kind.schema()).unwrap();
        assert_up_to_date(&output_path(kind), &format!("{text}\n"));
    }
    let mut summary = schemars::schema_for!(StatusSummary);
    RecursiveTransform(join_lines).transform(&mut summary);
    let mut summary = summary.to_value();
    summary["title"] = "gitwork status summary".into();
    let text = serde_json::to_string_pretty(&summary).unwrap();
    assert_up_to_date(SUMMARY, &format!("{text}\n"));
    let mut found: Vec<String> =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schema"))
            .unwrap()
            .map(|entry| format!("docs/schema/{}", entry.unwrap().file_name().to_str().unwrap()))
            .collect();
    found.sort();
    let mut expected: Vec<String> = FileKind::ALL.map(path).into();
    expected.push(SUMMARY.to_owned());
    expected.extend(OutputKind::ALL.map(output_path));
    expected.sort();
    assert_eq!(found, expected, "no schema of a file that is gone stays behind");
}

/// Fields of ours, top level and below, that an editor would show without a word.
fn undescribed(schema: &Value, at: &str, found: &mut Vec<String>) {
    for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{at}.{name}");
        if field.get("description").and_then(Value::as_str).is_none_or(str::is_empty) {
            found.push(at.clone());
        }
        if !OCM_FIELDS.contains(&name.as_str()) {
            undescribed(field, &at, found);
        }
    }
    if let Some(items) = schema.get("items") {
        undescribed(items, &format!("{at}[]"), found);
    }
}

#[test]
fn every_field_is_described_and_unknown_fields_are_rejected() {
    for kind in FileKind::ALL {
        let schema = kind.schema();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(
            schema["additionalProperties"], false,
            "{kind:?}: an editor marks a misspelt field"
        );
        assert!(schema["description"].is_string(), "{kind:?}");
        let mut found = Vec::new();
        undescribed(&schema, kind.schema_name(), &mut found);
        assert!(found.is_empty(), "without a description: {found:#?}");
    }
}
