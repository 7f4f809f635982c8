//! Keys and hashes that are too weak to trust a signature.

use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::PublicParams;
use ssh_key::public::KeyData;
use ssh_key::{Algorithm, SshSig};

use crate::limits;

/// Bytes after the signature of a security key: flags and a counter.
const SK_TRAILER: usize = 5;
/// The flag that the user touched the security key.
const SK_PRESENT: u8 = 1;

/// Why a key must not sign, or a signature does not count.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Weakness {
    /// The hash algorithm.
    #[error("the hash {0} is too weak or unknown")]
    Hash(HashAlgorithm),
    /// The signature has no hash algorithm that is known.
    #[error("its signature has an unknown version")]
    Version,
    /// The bits of an OpenPGP key's modulus.
    #[error("an RSA key of {0} bits is too weak or too large")]
    OpenPgpRsa(usize),
    /// The bits of an SSH key's modulus.
    #[error(
        "an RSA key must have {} to {} bits; it has {}",
        limits::RSA_BITS_MIN,
        limits::RSA_BITS_MAX,
        .0
    )]
    SshRsa(usize),
    /// The key cannot be written in OpenPGP's format.
    #[error("its RSA key cannot be read")]
    Unreadable,
    /// DSA has keys of 1,024 bits.
    #[error("DSA is too weak")]
    Dsa,
    /// A signature of a security key that nobody touched.
    #[error("the security key was not touched")]
    NotTouched,
    /// An algorithm by its name.
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// Refuses hashes that are weaker than SHA-256.
pub(crate) fn check_hash(signature: &Signature) -> Result<(), Weakness> {
    use HashAlgorithm::{Sha3_256, Sha3_512, Sha256, Sha384, Sha512};
    match signature.hash_alg() {
        Some(Sha256 | Sha384 | Sha512 | Sha3_256 | Sha3_512) => Ok(()),
        Some(other) => Err(Weakness::Hash(other)),
        None => Err(Weakness::Version),
    }
}

/// Refuses OpenPGP keys that are too weak, or too large to be checked in time.
pub(crate) fn check_openpgp_key(params: &PublicParams) -> Result<(), Weakness> {
    match params {
        PublicParams::RSA(rsa) => {
            // A multiprecision number starts with its bit count, and the modulus comes first.
            let bytes = rsa.to_bytes().map_err(|_| Weakness::Unreadable)?;
            let bits = bytes.first_chunk().map_or(0, |bits| usize::from(u16::from_be_bytes(*bits)));
            if (limits::RSA_BITS_MIN..=4 * limits::RSA_BITS_MAX).contains(&bits) {
                return Ok(());
            }
            Err(Weakness::OpenPgpRsa(bits))
        }
        PublicParams::DSA(_) => Err(Weakness::Dsa),
        _ => Ok(()),
    }
}

/// Whether a signature has a critical part that is unknown.
pub(crate) fn has_unknown_critical_part(signature: &Signature) -> bool {
    use SubpacketData::{Experimental, Notation, Other};
    signature.config().is_none_or(|config| {
        config.hashed_subpackets().any(|part| {
            part.is_critical && matches!(part.data, Experimental(..) | Other(..) | Notation(_))
        })
    })
}

/// Refuses SSH keys that must not sign, even if the signature is right.
pub(crate) fn check_ssh_key(public: &KeyData, signature: &SshSig) -> Result<(), Weakness> {
    match public.algorithm() {
        Algorithm::Dsa => Err(Weakness::Dsa),
        Algorithm::Rsa { .. } => {
            let bits = public
                .rsa()
                .and_then(|key| key.n.as_positive_bytes())
                .map_or(0, |bytes| bytes.len() * 8);
            if (limits::RSA_BITS_MIN..=limits::RSA_BITS_MAX).contains(&bits) {
                return Ok(());
            }
            Err(Weakness::SshRsa(bits))
        }
        Algorithm::SkEd25519 | Algorithm::SkEcdsaSha2NistP256 => {
            let bytes = signature.signature_bytes();
            let flags = bytes.len().checked_sub(SK_TRAILER).and_then(|at| bytes.get(at));
            let touched = flags.is_some_and(|flags| flags & SK_PRESENT != 0);
            if touched { Ok(()) } else { Err(Weakness::NotTouched) }
        }
        Algorithm::Other(name) => Err(Weakness::Unsupported(name.as_str().to_owned())),
        _ => Ok(()),
    }
}
