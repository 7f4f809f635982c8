//! Who signed a commit, and whether that is enough. Pure: keys, commits and the time are passed in.
//!
//! A signature counts where its key is the operator's to trust, is valid both when the commit says
//! it was made and now, and has signed just this commit. The commit's own date is the signer's
//! word: without the second moment a key that has expired or leaked could go on signing into the
//! past.

use std::collections::BTreeSet;

pub mod pattern;
mod persons;
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
    /// The committer's date, which the signer chose.
    pub committed: i64,
    /// The time of the check.
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
    /// The commit has no signature header.
    #[error("has no signature")]
    Unsigned,
    /// The commit object is too large to be checked.
    #[error("is larger than the {limit} bytes that are read of a signed commit")]
    TooLarge {
        /// Bytes read at most of one signed commit.
        limit: usize,
    },
    /// The armour, packet or base64 is malformed; the text says how.
    #[error("has a signature that cannot be read: {0}")]
    Unreadable(String),
    /// An algorithm or format that is not supported, such as X.509.
    #[error("has a signature of a kind that is not supported: {0}")]
    Unsupported(String),
    /// No allowed key has made the signature.
    #[error("is signed with {key}, which is not among the allowed keys")]
    UnknownKey {
        /// The fingerprint, or the key id where the signature has no more.
        key: String,
    },
    /// An SSH signature was made for another use than Git.
    #[error("is signed with {key} for the namespace {found:?}, not for \"git\"")]
    Namespace {
        /// The key's fingerprint.
        key: String,
        /// The namespace of the signature.
        found: String,
    },
    /// The key is allowed, but the signature is not one of this commit.
    #[error("has a signature of {key} that does not fit it")]
    Wrong {
        /// The key that the signature names.
        key: String,
    },
    /// The key was not valid yet at the commit's date or now.
    #[error("is signed with {key}, which is not valid before {from}")]
    NotYetValid {
        /// The key's fingerprint.
        key: String,
        /// When its validity begins, in UTC.
        from: String,
    },
    /// The key was no longer valid at the commit's date or now.
    #[error("is signed with {key}, which is not valid after {until}")]
    Expired {
        /// The key's fingerprint.
        key: String,
        /// When its validity ended, in UTC.
        until: String,
    },
    /// The operator or the key's owner has revoked the key.
    #[error("is signed with {key}, which was revoked")]
    Revoked {
        /// The key's fingerprint.
        key: String,
    },
    /// The key may not make signatures that count, such as an encryption key or a weak one.
    #[error("is signed with {key}, which must not sign: {why}")]
    Unfit {
        /// The key's fingerprint.
        key: String,
        /// What forbids it, as a clause.
        why: String,
    },
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
