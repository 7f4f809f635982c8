//! SSH and OpenPGP signatures of commits, checked against the keys that an operator trusts.
//!
//! Pure: keys, commits and the time are arguments. [`gitwork_core::signature`] has the policies.
//!
//! ```
//! use gitwork_core::signature::{SignatureError, Signed, Timestamps};
//! use gitwork_signatures::Keyring;
//! use jiff::tz::TimeZone;
//!
//! let mut keyring = Keyring::default();
//! let problems = keyring.add_allowed_signers("# nobody yet\n", &TimeZone::UTC);
//! assert!(problems.is_empty() && keyring.is_empty());
//!
//! let commit = Signed { signature: b"no signature".to_vec(), content: b"tree ...".to_vec() };
//! let at = Timestamps { committed: 1_700_000_000, now: 1_700_000_100 };
//! assert!(matches!(keyring.check(&commit, at), Err(SignatureError::Unsupported(_))));
//! ```

pub mod allowed;
mod armour;
pub mod commit;
mod key_problem;
pub mod limits;
mod openpgp;
mod ssh;
mod weakness;

use gitwork_core::signature::{SignatureError, Signed, Signer, Timestamps};
use jiff::tz::TimeZone;

use allowed::AllowedSigner;
pub use key_problem::KeyProblem;
use openpgp::Certificate;

/// The keys that an operator trusts.
#[derive(Debug, Clone, Default)]
pub struct Keyring {
    ssh: Vec<AllowedSigner>,
    openpgp: Vec<Certificate>,
}

impl Keyring {
    /// Adds the keys of a file in the format of OpenSSH's allowed_signers. Times without a time
    /// zone are in `zone`. Returns the ignored lines.
    pub fn add_allowed_signers(&mut self, text: &str, zone: &TimeZone) -> Vec<KeyProblem> {
        let (signers, problems) = allowed::read(text, zone);
        self.ssh.extend(signers);
        problems
    }

    /// Adds armoured OpenPGP public keys. Returns the ignored keys.
    pub fn add_openpgp(&mut self, text: &str) -> Vec<KeyProblem> {
        let (certificates, problems) = openpgp::read(text);
        self.openpgp.extend(certificates);
        problems
    }

    /// Whether no key is trusted.
    pub fn is_empty(&self) -> bool {
        self.ssh.is_empty() && self.openpgp.is_empty()
    }

    /// Checks a signature and returns its signer.
    pub fn check(&self, signed: &Signed, at: Timestamps) -> Result<Signer, SignatureError> {
        let limit = limits::SIGNATURE_BYTES_MAX;
        if signed.signature.len() > limit {
            let length = signed.signature.len();
            let why = format!("it has {length} bytes; the limit is {limit}");
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

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Timestamps = Timestamps { committed: 1_700_000_000, now: 1_700_000_100 };

    #[test]
    fn unreadable_and_unsupported_signatures_are_distinguished() {
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
            (&huge, "the limit is"),
        ] {
            let error = check(signature).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
