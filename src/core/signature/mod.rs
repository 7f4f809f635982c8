//! Who signed a commit, and whether that is enough. Pure: keys, commits and the time are passed in.
//!
//! A signature counts where its key is the operator's to trust, is valid both when the commit says
//! it was made and now, and has signed just this commit. The commit's own date is the signer's
//! word: without the second moment a key that has expired or leaked could go on signing into the
//! past.

use std::collections::BTreeSet;

pub mod pattern;
pub mod policy;
pub mod verification;

/// What of an object was signed, and the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The armoured signature, SSH or OpenPGP.
    pub signature: Vec<u8>,
    /// What was signed.
    pub content: Vec<u8>,
}

/// Whose signature it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// The persons that the operator says the key belongs to: principals of allowed_signers without
    /// a wildcard, and e-mail addresses of an OpenPGP key. Empty where a line names nobody.
    pub names: BTreeSet<String>,
    /// The key, for people.
    pub key: String,
}

/// The moments at which a key has to be valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    pub committed: i64,
    pub now: i64,
}

impl Timestamps {
    /// Both moments.
    pub fn all(self) -> [i64; 2] {
        [self.committed, self.now]
    }
}

/// Why a signature does not count; reads after "commit X ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("has no signature")]
    Unsigned,
    #[error("is larger than the {limit} bytes that are read of a signed commit")]
    TooLarge { limit: usize },
    #[error("has a signature that cannot be read: {0}")]
    Unreadable(String),
    #[error("has a signature of a kind that is not supported: {0}")]
    Unsupported(String),
    #[error("is signed with {key}, which is not among the allowed keys")]
    UnknownKey { key: String },
    #[error("is signed with {key} for the namespace {found:?}, not for \"git\"")]
    Namespace { key: String, found: String },
    #[error("has a signature of {key} that does not fit it")]
    Wrong { key: String },
    #[error("is signed with {key}, which is not valid before {from}")]
    NotYetValid { key: String, from: String },
    #[error("is signed with {key}, which is not valid after {until}")]
    Expired { key: String, until: String },
    #[error("is signed with {key}, which was revoked")]
    Revoked { key: String },
    #[error("is signed with {key}, which must not sign: {why}")]
    Unfit { key: String, why: String },
}

impl SignatureError {
    /// The key that the signature names.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Unsigned | Self::TooLarge { .. } | Self::Unreadable(_) | Self::Unsupported(_) => {
                None
            }
            Self::UnknownKey { key }
            | Self::Namespace { key, .. }
            | Self::Wrong { key }
            | Self::NotYetValid { key, .. }
            | Self::Expired { key, .. }
            | Self::Revoked { key }
            | Self::Unfit { key, .. } => Some(key),
        }
    }
}
