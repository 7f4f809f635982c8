//! JSON that a program keeps for long and seldom reads: compressed.
//!
//! Most of a work is field names and texts that recur, also between works. A dictionary has the
//! usual ones, so that small texts become small, too.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use lz4_flex::block::{
    compress_prepend_size_with_dict, decompress_size_prepended_with_dict, uncompressed_size,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The first byte of a text as it is.
const PLAIN: u8 = 0;
/// The first byte of a compressed text.
const COMPRESSED: u8 = 1;

/// What many texts have. What is nearer to the end is found first. It only lives as long as the
/// process, so any change is compatible.
const DICTIONARY: &[u8] = include_bytes!("dictionary.txt");

/// A JSON value. It has one text if its maps are sorted by key, as those of [`Value`] are: equal
/// values are equal here then, if both are compressed or none is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompressedJson(Arc<[u8]>);

impl CompressedJson {
    /// The compressed value.
    pub fn new(value: &impl Serialize) -> Self {
        // No key is other than a string.
        Self::compress(&serde_json::to_vec(value).unwrap_or_default())
    }

    fn compress(text: &[u8]) -> Self {
        let packed = compress_prepend_size_with_dict(text, DICTIONARY);
        Self::with_form(COMPRESSED, &packed)
    }

    fn with_form(form: u8, bytes: &[u8]) -> Self {
        Self([&[form], bytes].concat().into())
    }

    /// A value with this text, which is not compressed: for what is soon dropped.
    pub fn plain(text: &str) -> Self {
        Self::with_form(PLAIN, text.as_bytes())
    }

    /// The compressed form of the same value.
    pub fn compressed(&self) -> Self {
        match self.0.split_first() {
            Some((&PLAIN, text)) => Self::compress(text),
            _ => self.clone(),
        }
    }

    fn text(&self) -> Cow<'_, [u8]> {
        match self.0.split_first() {
            Some((&PLAIN, text)) => Cow::Borrowed(text),
            // What was compressed here can be expanded; otherwise there would be nothing to parse.
            Some((_, packed)) => {
                let text = decompress_size_prepended_with_dict(packed, DICTIONARY);
                Cow::Owned(text.unwrap_or_default())
            }
            None => Cow::Borrowed(b""),
        }
    }

    /// Reads the value.
    ///
    /// # Errors
    /// If it has not this form.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.text())
    }

    /// The value; null if it has no text.
    pub fn value(&self) -> Value {
        self.read().unwrap_or_default()
    }

    /// The JSON text.
    pub fn json(&self) -> String {
        String::from_utf8(self.text().into_owned()).unwrap_or_default()
    }

    /// The bytes that it has in memory, without those of the allocation.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The bytes of the text, which is not compressed: the same in both forms.
    pub fn text_bytes(&self) -> usize {
        match self.0.split_first() {
            Some((&PLAIN, text)) => text.len(),
            Some((_, packed)) => uncompressed_size(packed).map_or(0, |(bytes, _)| bytes),
            None => 0,
        }
    }

    /// Where it stands in memory: the same for what shares it.
    pub fn address(&self) -> usize {
        self.0.as_ptr().addr()
    }

    /// Whether others hold it, too.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl fmt::Debug for CompressedJson {
    /// Not the text: it may hold Secrets, and debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CompressedJson({} bytes)", self.bytes())
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
        assert_eq!(kept.value(), value);
        assert!(kept.bytes() * 3 < value.to_string().len(), "{}", kept.bytes());
        assert_eq!(kept, CompressedJson::new(&value));
        assert_ne!(kept, CompressedJson::new(&json!({"containers": []})));
        let plain = CompressedJson::plain(&value.to_string());
        assert_eq!(plain.value(), value);
        assert_eq!(plain.compressed(), kept);
        assert_eq!([&plain, &kept].map(CompressedJson::text_bytes), [value.to_string().len(); 2]);
        assert_eq!(kept.compressed(), kept);
        assert!(kept.read::<Vec<u8>>().is_err());
    }

    #[test]
    fn small_texts_become_small_by_the_dictionary() {
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": message,
                "since": "2026-11-28T12:00:00Z"})
        };
        let details = json!({"conditions": [
            condition("Applied", "AppliedManifestWorkComplete", "Apply manifest work complete"),
            condition("Available", "ResourcesAvailable", "All resources are available"),
        ]});
        let metadata = json!({
            "annotations": {"gitwork.dev/path": "clusters/edge-17/web"},
            "labels": {"app.kubernetes.io/managed-by": "gitwork", "gitwork.dev/source": "fleet"},
        });
        for value in [details, metadata] {
            let kept = CompressedJson::new(&value);
            assert_eq!(kept.value(), value);
            assert!(kept.bytes() * 2 < value.to_string().len(), "{value}: {}", kept.bytes());
        }
    }

    #[test]
    fn any_text_reads_back() {
        for length in [0, 1, 100, 70_000] {
            let value = json!("x\u{0}é".repeat(length));
            assert_eq!(CompressedJson::new(&value).value(), value, "{length}");
        }
        for value in [Value::Null, json!([]), json!(1.5)] {
            assert_eq!(CompressedJson::new(&value).value(), value);
        }
        assert!(!format!("{:?}", CompressedJson::new(&json!("secret"))).contains("secret"));
    }
}
