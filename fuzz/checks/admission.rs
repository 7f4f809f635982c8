//! Requests of API servers to the admission webhooks. The rules read parts of the text; here the
//! whole is read into a tree. If both agree that the write has manifests, an allowed one has only
//! named objects, each once. An answer has the uid of its request, and its message is short and on
//! one line. A write with a question is rejected while it has no answer.

use std::collections::BTreeSet;

use gitwork_admission_rules::limits;
use gitwork_admission_rules::policy::{NilExecutor, ReviewPolicy};
use gitwork_admission_rules::review::review;
use gitwork_admission_rules::reviewed_kind::ReviewedKind;
use gitwork_yaml::is_dangerous;
use serde_json::Value;

/// More than the errors that an answer lists have, each with a few quoted texts.
const MESSAGE_CHARS_MAX: usize = limits::ERRORS_MAX * 8 * limits::QUOTE_CHARS_MAX;

pub fn check(bytes: &[u8]) -> bool {
    let mut reached = false;
    for kind in ReviewedKind::ALL {
        for nil_executor in [NilExecutor::Allowed, NilExecutor::Checked] {
            let policy = ReviewPolicy { manifests_bytes_max: 4096, nil_executor };
            reached |= is_reviewed(kind, bytes, &policy);
        }
    }
    reached
}

fn is_reviewed(kind: ReviewedKind, bytes: &[u8], policy: &ReviewPolicy) -> bool {
    let Ok(reviewed) = review(kind, bytes, policy) else { return false };
    let has_question = reviewed.question.is_some();
    let verdict = reviewed.verdict(None);
    assert!(!has_question || !verdict.is_allowed());
    let message = verdict.message();
    assert_eq!(message.is_empty(), verdict.is_allowed(), "{message}");
    assert!(message.chars().count() < MESSAGE_CHARS_MAX, "{message}");
    assert!(!message.chars().any(is_dangerous), "{message:?}");
    // It fails for texts that are deeper than a tree may be.
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return true };
    let request = &body["request"];
    assert_eq!(verdict.response()["response"]["uid"], request["uid"]);
    let is_written = request["operation"] == "CREATE"
        && matches!(request.get("subResource"), None | Some(Value::Null));
    if is_written && verdict.is_allowed() {
        has_named_objects(kind, &request["object"]["spec"]);
    }
    true
}

fn has_named_objects(kind: ReviewedKind, spec: &Value) {
    let spec = match kind {
        ReviewedKind::ManifestWork => spec,
        ReviewedKind::ManifestWorkReplicaSet => &spec["manifestWorkTemplate"],
    };
    let manifests = spec["workload"]["manifests"].as_array().expect("a list of manifests");
    assert!(!manifests.is_empty());
    let mut seen = BTreeSet::new();
    for manifest in manifests {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        assert!(kind.is_some_and(|kind| !kind.is_empty()), "{manifest}");
        assert!(name.is_some_and(|name| !name.is_empty()), "{manifest}");
        let namespace = text("/metadata/namespace").unwrap_or_default();
        assert!(seen.insert((text("/apiVersion"), kind, namespace, name)), "{manifest}");
    }
}
