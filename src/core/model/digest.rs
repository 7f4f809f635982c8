//! Canonical JSON and SHA-256: equal content gives equal digests, whatever the order of keys.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::io::{self, BufWriter, Write as _};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Hashes the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
    /// The digest of the value's JSON. It is canonical if maps and fields are sorted by name, as
    /// those of [`serde_json::Value`] are.
    pub fn of_json(value: &impl Serialize) -> Self {
        let mut hasher = BufWriter::with_capacity(HASHED_AT_ONCE, HashWriter(Sha256::new()));
        // Neither the hash nor the text of a value fails.
        let _ = serde_json::to_writer(&mut hasher, value);
        let _ = hasher.flush();
        Self(hasher.get_ref().0.clone().finalize().into())
    }
    /// The digest of a value by its `Hash`: another program may have another one for it.
    pub fn of_hash(value: &impl Hash) -> Self {
        let mut hasher = HashWriter(Sha256::new());
        value.hash(&mut hasher);
        Self(hasher.0.finalize().into())
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

impl Hasher for HashWriter {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Nobody asks for it.
    fn finish(&self) -> u64 {
        0
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
    use serde_json::Value;

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
