//! Canonical JSON and SHA-256: equal content gives equal digests, whatever the order of keys.

use std::fmt;
use std::io::{self, BufWriter, Write as _};
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// One JSON value as its canonical text: a tenth of the memory of the parsed tree, and ready to be
/// sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalJson(Arc<str>);

impl CanonicalJson {
    /// `serde_json`'s maps are sorted by key (its feature `preserve_order` must stay off), so one
    /// value has one text.
    pub fn new(value: &Value) -> Self {
        Self::of(value)
    }

    /// This text of a [`Value`].
    pub(super) fn of_text(text: String) -> Self {
        Self(text.into())
    }

    /// The text of a type that becomes the same JSON as a value: its maps are sorted, too.
    pub(super) fn of(value: &impl Serialize) -> Self {
        Self(Self::text_of(value).into())
    }

    /// `Value::to_string` gives the same in a third more time. No key is other than a string.
    fn text_of(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap_or_default()
    }

    /// The JSON text: keys sorted, no white space.
    pub fn as_str(&self) -> &str {
        &self.0
    }
    /// Whether others hold the same text in memory.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
    /// The parsed value.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for CanonicalJson {
    /// Not the text: it may hold Secrets, and debug output ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CanonicalJson({} bytes)", self.0.len())
    }
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Hashes the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
    /// The digest of the value's canonical JSON.
    pub fn of_json(value: &Value) -> Self {
        let mut hasher = BufWriter::with_capacity(HASHED_AT_ONCE, HashWriter(Sha256::new()));
        // Neither the hash nor the text of a value fails.
        let _ = serde_json::to_writer(&mut hasher, value);
        let _ = hasher.flush();
        Self(hasher.get_ref().0.clone().finalize().into())
    }
    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

/// Bytes that are hashed together: the text of a value comes in small pieces.
const HASHED_AT_ONCE: usize = 4 * 1024;

/// Hashes what is written.
struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("a hash has 64 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_order_does_not_matter() {
        let a: Value = serde_json::from_str(r#"{"b":1,"a":{"d":2,"c":3}}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":{"c":3,"d":2},"b":1}"#).unwrap();
        assert_eq!(Digest::of_json(&a), Digest::of_json(&b));
    }

    #[test]
    fn digests_read_what_they_print() {
        let digest = Digest::of(b"abc");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        assert!(digest.to_string().starts_with("ba7816bf"), "the SHA-256 test vector of FIPS 180");
    }
}
