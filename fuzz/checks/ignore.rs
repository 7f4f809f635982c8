//! `ignoreFields` in the first line, a manifest in JSON after it. The applied form is the manifest
//! without some fields, and both forms have the same hash.

use gitwork_agent_core::identity::SPEC_HASH_ANNOTATION;
use gitwork_agent_core::ignore::ignore;
use gitwork_agent_core::object::Object;
use gitwork_api::work::{IgnoreField, IgnoreFieldsCondition};
use serde_json::Value;

use super::jq::is_part;

const RULES_MAX: usize = 8;

/// Removes the hash.
fn without_hash(object: &Object) -> (Value, Option<Value>) {
    let mut value = Value::Object(object.clone());
    let annotations = value.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let hash = annotations.and_then(|annotations| annotations.remove(SPEC_HASH_ANNOTATION));
    (value, hash)
}

pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let (rules, manifest) = text.split_once('\n').unwrap_or_default();
    let Ok(mut rules) = serde_json::from_str::<Vec<IgnoreField>>(rules) else { return false };
    let Ok(manifest) = serde_json::from_str::<Object>(manifest) else { return false };
    rules.truncate(RULES_MAX);
    let ignored = match ignore(&manifest, &rules) {
        Ok(ignored) => ignored,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    assert_eq!(ignore(&manifest, &rules).as_ref(), Ok(&ignored));
    let (original, hash) = without_hash(&ignored.original);
    assert_eq!(hash.as_ref().and_then(Value::as_str), Some(ignored.hash.as_str()));
    let (reduced, hash) = without_hash(&ignored.reduced);
    assert_eq!(hash.as_ref().and_then(Value::as_str), Some(ignored.hash.as_str()));
    assert!(is_part(&reduced, &original), "{reduced}\n{original}");
    // If only fields that a client changes on the cluster are ignored, the whole manifest is
    // applied.
    if rules.iter().all(|rule| rule.condition == IgnoreFieldsCondition::OnSpokeChange) {
        assert_eq!(reduced, original);
    }
    rules.iter().any(|rule| rule.condition != IgnoreFieldsCondition::OnSpokeChange)
}
