//! JSON. One value has one text and one digest, whichever program wrote it. Two values have two. A
//! value reads back the same.

use std::collections::BTreeMap;

use gitwork_api::compressed_json::CompressedJson;
use gitwork_core::model::digest::Digest;
use gitwork_core::model::work_digest;
use serde_json::Value;

/// The same value in another form: keys in reverse order, spaces, and escapes for every possible
/// character.
fn otherwise(value: &Value, out: &mut String) {
    let text = |text: &str, out: &mut String| {
        out.push('"');
        for unit in text.encode_utf16() {
            out.push_str(&format!("\\u{unit:04X}"));
        }
        out.push('"');
    };
    match value {
        Value::String(string) => text(string, out),
        Value::Array(items) => {
            out.push_str("[ ");
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { " ,\t" } else { "" });
                otherwise(item, out);
            }
            out.push_str("\n]");
        }
        Value::Object(fields) => {
            out.push('{');
            for (index, (key, field)) in fields.iter().rev().enumerate() {
                out.push_str(if index > 0 { " , " } else { "\n" });
                text(key, out);
                out.push_str(" : ");
                otherwise(field, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

pub fn check(bytes: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return false };
    let kept = CompressedJson::new(&value);
    assert_eq!(kept.value(), value);
    assert_eq!(CompressedJson::new(&kept.value()), kept);
    assert_eq!(CompressedJson::plain(&value.to_string()).compressed(), kept);
    let mut written = String::new();
    otherwise(&value, &mut written);
    let again: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(Digest::of_json(&again), Digest::of_json(&value), "{written}");
    let wrapped = Value::Array(vec![value.clone()]);
    assert_ne!(Digest::of_json(&wrapped), Digest::of_json(&value));
    // The digest of a work is that of the stored form, which is the digest's own form again.
    let none = BTreeMap::new();
    let first = work_digest::digest(value.clone(), &none, &none);
    assert_eq!(work_digest::digest(again, &none, &none), first);
    let label: BTreeMap<String, String> = [("a".to_owned(), "b".to_owned())].into();
    assert_ne!(work_digest::digest(value.clone(), &label, &none), first);
    assert_ne!(work_digest::digest(value, &none, &label), first);
    true
}
