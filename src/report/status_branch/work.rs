//! `clusters/<cluster>/<work>.yaml`: the details of one work.

use serde_json::{Map, Value, json};

use crate::status::source::WorkState;
use gitwork_core::model::name::WorkKey;
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::truncate::truncate_chars;

/// Characters of one text.
const TEXT_CHARS_MAX: usize = 1_000;

/// The file of a work.
pub fn yaml(key: &WorkKey, work: &WorkState, unreachable: bool) -> String {
    let mut value = json!({
        "cluster": key.cluster.as_str(),
        "work": key.work.as_str(),
        "state": work.state,
        "since": work.since.to_string(),
        "manifests": work.view.manifests,
        "manifestsApplied": work.view.manifests_applied,
    });
    let optional = [
        ("why", work.why.as_deref().map(str::to_owned)),
        ("path", work.path.as_ref().map(ToString::to_string)),
        ("commit", work.commit.map(|commit| commit.to_string())),
    ];
    if let Some(fields) = value.as_object_mut() {
        fields.extend(optional.into_iter().filter_map(|(k, v)| Some((k.to_owned(), v?.into()))));
        if unreachable {
            fields.insert("unreachable".into(), true.into());
        }
        let details = serde_json::to_value(work.details()).unwrap_or_default();
        fields.extend(details.as_object().cloned().unwrap_or_default());
    }
    serde_yaml::to_string(&clean(value)).unwrap_or_default()
}

/// Escapes every text, so that none controls a terminal or misleads a reader.
fn clean(value: Value) -> Value {
    match value {
        Value::String(text) => {
            truncate_chars(&escape_untrusted(&text), TEXT_CHARS_MAX).into_owned().into()
        }
        Value::Array(items) => items.into_iter().map(clean).collect(),
        Value::Object(fields) => {
            let cleaned =
                fields.into_iter().map(|(name, value)| (escape_untrusted(&name), clean(value)));
            Value::Object(cleaned.collect::<Map<_, _>>())
        }
        other => other,
    }
}
