//! Who signed a commit, and whether that is enough. Pure: keys, commits and the time are passed in.
//!
//! A signature counts where its key is the operator's to trust, is valid both when the commit says it was made and
//! now, and has signed just this commit. The commit's own date is the signer's word: without the second moment a key
//! that has expired or leaked could go on signing into the past.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;

use crate::limits;

pub mod allowed;
pub mod commit;
pub mod judge;
mod openpgp;
pub mod policy;
mod ssh;

use allowed::AllowedSigner;
use openpgp::Certificate;

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
    /// The persons that the operator says the key belongs to: principals of allowed_signers without a wildcard, and
    /// e-mail addresses of an OpenPGP key. Empty where a line names nobody.
    pub names: BTreeSet<String>,
    /// The key, for people.
    pub key: String,
}

/// The moments at which a key has to be valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moments {
    pub committed: i64,
    pub now: i64,
}

impl Moments {
    fn all(self) -> [i64; 2] {
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

/// What of a key file is left out, and why. Nobody is trusted for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyProblem {
    /// In allowed_signers the line, in a file of OpenPGP keys the number of the key; from 1.
    pub number: usize,
    pub message: String,
}

/// The keys that an operator trusts.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    ssh: Vec<AllowedSigner>,
    openpgp: Vec<Certificate>,
}

impl Keyring {
    /// Takes in a file in the format of OpenSSH's allowed_signers. Its times without a time zone are in `zone`.
    pub fn add_allowed_signers(&mut self, text: &str, zone: &TimeZone) -> Vec<KeyProblem> {
        let (signers, problems) = allowed::read(text, zone);
        self.ssh.extend(signers);
        problems
    }

    /// Takes in armoured OpenPGP public keys.
    pub fn add_openpgp(&mut self, text: &str) -> Vec<KeyProblem> {
        let (certificates, problems) = openpgp::read(text);
        self.openpgp.extend(certificates);
        problems
    }

    pub fn is_empty(&self) -> bool {
        self.ssh.is_empty() && self.openpgp.is_empty()
    }

    /// Checks a signature, and tells whose it is.
    pub fn check(&self, signed: &Signed, at: Moments) -> Result<Signer, SignatureError> {
        let limit = limits::SIGNATURE_BYTES_MAX;
        if signed.signature.len() > limit {
            let length = signed.signature.len();
            let why = format!("it has {length} bytes; at most {limit} are read");
            return Err(SignatureError::Unreadable(why));
        }
        let text = std::str::from_utf8(&signed.signature)
            .map_err(|_| SignatureError::Unreadable("it is not UTF-8".into()))?
            .trim();
        let first = text.lines().next().unwrap_or_default().trim_end();
        match first {
            "-----BEGIN SSH SIGNATURE-----" => ssh::check(&self.ssh, text, &signed.content, at),
            "-----BEGIN PGP SIGNATURE-----" => {
                openpgp::check(&self.openpgp, text, &signed.content, at)
            }
            "-----BEGIN SIGNED MESSAGE-----" => {
                Err(SignatureError::Unsupported("X.509; sign with SSH or OpenPGP".into()))
            }
            _ => Err(SignatureError::Unsupported("it is neither SSH's nor OpenPGP's".into())),
        }
    }
}

/// A moment for people.
fn spoken(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| format!("second {seconds} since 1970"), |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Moments = Moments { committed: 1_700_000_000, now: 1_700_000_100 };

    #[test]
    fn what_is_no_signature_is_told_from_one_of_an_unknown_kind() {
        let ring = Keyring::default();
        let check = |signature: &[u8]| {
            let signed = Signed { signature: signature.to_vec(), content: b"tree".to_vec() };
            ring.check(&signed, AT).unwrap_err()
        };
        let huge = vec![b'x'; limits::SIGNATURE_BYTES_MAX + 1];
        for (signature, expected) in [
            (&b""[..], "neither SSH's nor OpenPGP's"),
            (b"\xff\xfe", "not UTF-8"),
            (b"-----BEGIN SIGNED MESSAGE-----\nx", "X.509"),
            (
                b"-----BEGIN SSH SIGNATURE-----\nnot base64\n-----END SSH SIGNATURE-----",
                "cannot be read",
            ),
            (
                b"-----BEGIN PGP SIGNATURE-----\n\nnot base64\n-----END PGP SIGNATURE-----",
                "cannot be read",
            ),
            (&huge, "at most"),
        ] {
            let error = check(signature).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
