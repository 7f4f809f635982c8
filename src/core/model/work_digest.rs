//! The digest of a work's content, from the same form before and after the API server stores it.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::defaults::{TEMPLATE, drop_defaults};
use super::digest::Digest;
use super::spec_text::SpecText;

/// The digest of a work's content: its spec without defaults, and the labels and annotations that
/// gitwork set.
pub fn digest(
    mut spec: Value,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Digest {
    normalise(&mut spec);
    Digest::of_json(&DigestedContent { annotations, labels, spec: &spec })
}

/// The same, of a work with these labels and annotations. `text` is that of the spec.
pub(super) fn digest_with_text(
    mut spec: Value,
    text: &SpecText,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Digest {
    let is_changed = normalise(&mut spec);
    match text.whole() {
        // To write it again would take as long as all the rest.
        Some(spec) if !is_changed => digest_of_text(&spec, labels, annotations),
        _ => Digest::of_json(&DigestedContent { annotations, labels, spec: &spec }),
    }
}

/// The same, of a spec that has this text, in the form that [`normalise`] gives it.
fn digest_of_text(
    spec: &str,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> Digest {
    let of = |map| serde_json::to_string(map).unwrap_or_default();
    let (annotations, labels) = (of(annotations), of(labels));
    let fields =
        [r#"{"annotations":"#, &annotations, r#","labels":"#, &labels, r#","spec":"#, spec, "}"];
    Digest::of(fields.concat().as_bytes())
}

/// What a digest is of. The fields are sorted by name, as in canonical JSON.
#[derive(Serialize)]
struct DigestedContent<'a> {
    annotations: &'a BTreeMap<String, String>,
    labels: &'a BTreeMap<String, String>,
    spec: &'a Value,
}

/// The form of a spec that is the same before and after the API server stores it. Gives whether it
/// was another one.
fn normalise(spec: &mut Value) -> bool {
    let had_defaults = drop_defaults(spec);
    let had_numbers = normalise_numbers(spec);
    let had_empty_metadata = drop_empty_metadata(spec);
    had_defaults || had_numbers || had_empty_metadata
}

/// The API server reads the metadata of a manifest into its own type and writes back no field that
/// is empty: `labels: {}` comes back as nothing. Only there; what is empty elsewhere in a manifest
/// stays. Gives whether there was such a field.
fn drop_empty_metadata(spec: &mut Value) -> bool {
    if let Some(template) = spec.get_mut(TEMPLATE) {
        return drop_empty_metadata(template);
    }
    let mut is_changed = false;
    let manifests = spec.pointer_mut("/workload/manifests").and_then(Value::as_array_mut);
    for manifest in manifests.into_iter().flatten() {
        if let Some(Value::Object(metadata)) = manifest.get_mut("metadata") {
            let before = metadata.len();
            metadata.retain(|_, field| !is_empty(field));
            is_changed |= metadata.len() < before;
        }
    }
    is_changed
}

fn is_empty(field: &Value) -> bool {
    match field {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// One form for each number. The API server reads one as int64 where its text is a whole number of
/// that range and else as float64, and writes `1.0` as `1`, so that what it stores is another text
/// than what was sent. Gives whether there is a number that is no int64.
fn normalise_numbers(value: &mut Value) -> bool {
    let any = |changed: bool, value: &mut Value| normalise_numbers(value) | changed;
    match value {
        Value::Number(number) if !number.is_i64() => {
            let Some(float) = number.as_f64() else { return false };
            // 2^63: from there on, and below its negative, no float is an int64.
            let whole = float.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&float);
            *value = if whole { Value::from(float as i64) } else { Value::from(float) };
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, any),
        Value::Object(fields) => fields.values_mut().fold(false, any),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_metadata_of_a_manifest_is_none() {
        let digest_of = |manifest: Value| {
            let spec = json!({"workload": {"manifests": [manifest]}});
            digest(spec, &BTreeMap::new(), &BTreeMap::new())
        };
        let plain = digest_of(json!({"metadata": {"name": "a"}}));
        let empty = json!({"name": "a", "labels": {}, "finalizers": [], "creationTimestamp": null});
        assert_eq!(digest_of(json!({"metadata": empty})), plain);
        assert_ne!(digest_of(json!({"metadata": {"name": "a"}, "data": {}})), plain);
        assert_ne!(digest_of(json!({"metadata": {"name": "a", "labels": {"a": ""}}})), plain);
    }

    #[test]
    fn a_number_has_one_form_whoever_wrote_it() {
        let digest_of = |text: &str| {
            let spec = serde_json::from_str(text).unwrap();
            digest(spec, &BTreeMap::new(), &BTreeMap::new())
        };
        for (sent, stored) in [
            ("[1.0, {\"a\": -3.0}]", "[1, {\"a\": -3}]"),
            ("1e3", "1000"),
            ("-0.0", "0"),
            ("9223372036854775808", "9.223372036854775808e18"),
            ("0.1", "1e-1"),
        ] {
            assert_eq!(digest_of(sent), digest_of(stored), "{sent}");
        }
        for (one, other) in
            [("1", "1.5"), ("9223372036854775807", "9223372036854775806"), ("1", "\"1\"")]
        {
            assert_ne!(digest_of(one), digest_of(other), "{one}");
        }
    }

    #[test]
    fn the_text_of_a_spec_changes_no_digest() {
        let manifest = |data: &str| json!({"kind": "ConfigMap", "data": {"a": data}});
        let specs = [
            Value::Null,
            json!({}),
            json!({"workload": {"manifests": []}}),
            json!({"workload": {"manifests": [manifest("<&>\u{2028}\"\\")]}, "b": 1, "a": [-2]}),
            json!({"workload": {"manifests": [{"metadata": {"labels": {}}, "data": {"x": 1.0}}]}}),
            json!({"workload": {"manifests": [{"a": 1.5}]}}),
            json!({"deleteOption": {"propagationPolicy": "Foreground"}}),
            json!({TEMPLATE: {"deleteOption": {"propagationPolicy": "Foreground"}}}),
            json!({"workload": {"manifests": [manifest("b"), manifest(&"x".repeat(10_000))]}}),
        ];
        let of = |name: &str| BTreeMap::from([(name.to_owned(), "\"é\"".to_owned())]);
        let (none, some) = (BTreeMap::new(), of("team"));
        let maps = [(&none, &none), (&some, &none), (&none, &some)];
        for (spec, (labels, annotations)) in specs.iter().flat_map(|one| maps.map(|of| (one, of))) {
            let expected = digest(spec.clone(), labels, annotations);
            let text = SpecText::new(spec);
            for text in [text.compressed(), text] {
                let found = digest_with_text(spec.clone(), &text, labels, annotations);
                assert_eq!(found, expected, "{spec}");
            }
        }
    }
}
