//! JSON as the agent keeps it between passes: compressed, as it is read only in a pass.
//!
//! Most of a work is field names and texts that recur.

use lz4_flex::block::{compress_prepend_size, decompress_size_prepended};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A JSON value. Equal values are equal here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressedJson(Box<[u8]>);

impl CompressedJson {
    /// The compressed value; an empty map for null, which stands for a missing field.
    pub fn new(value: &Value) -> Self {
        let text = match value {
            Value::Null => "{}".into(),
            other => other.to_string(),
        };
        Self(compress_prepend_size(text.as_bytes()).into_boxed_slice())
    }

    /// Reads the value.
    ///
    /// # Errors
    /// If it has not this form.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        // What was compressed here can be expanded; otherwise there would be nothing to parse.
        let text = decompress_size_prepended(&self.0).unwrap_or_default();
        serde_json::from_slice(&text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn value_is_read_as_it_was_and_takes_less_memory() {
        let container = |number: u32| json!({"name": format!("c{number}"), "image": "web:1.2.3"});
        let value = json!({"containers": (0..100).map(container).collect::<Vec<_>>()});
        let kept = CompressedJson::new(&value);
        assert_eq!(kept.read::<Value>().unwrap(), value);
        assert!(kept.0.len() * 3 < value.to_string().len(), "{}", kept.0.len());
        assert_eq!(kept, CompressedJson::new(&value));
        assert_ne!(kept, CompressedJson::new(&json!({"containers": []})));
    }

    #[test]
    fn null_is_an_empty_map_and_a_wrong_form_an_error() {
        let kept = CompressedJson::new(&Value::Null);
        assert_eq!(kept.read::<Value>().unwrap(), json!({}));
        assert!(kept.read::<Vec<u8>>().is_err());
    }
}
