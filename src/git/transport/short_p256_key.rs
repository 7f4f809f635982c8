//! P-256 keys whose number needs fewer than 32 bytes, in OpenSSH's format.
//!
//! One P-256 key in 512 is such a key. OpenSSH leaves zero bytes at the start out (`mpint`,
//! RFC 4251, section 5), and ssh-key refuses what is shorter than 32 bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use russh::keys::ssh_key::cipher::{Cipher, Tag};
use russh::keys::ssh_key::encoding::{Decode as _, Error as EncodingError, Reader as _};
use russh::keys::ssh_key::private::{EcdsaKeypair, KeypairData};
use russh::keys::ssh_key::public::{EcdsaPublicKey, KeyData};
use russh::keys::ssh_key::{Algorithm, EcdsaCurve, Error, Kdf};
use russh::keys::{PrivateKey, ssh_key};

/// How OpenSSH's format starts (`PROTOCOL.key` of OpenSSH).
const MAGIC: &[u8] = b"openssh-key-v1\0";
const P256_BYTES: usize = 32;

/// Reads such a key.
///
/// # Errors
/// `text` is another key, another format, or damaged; or the passphrase is wrong.
pub(super) fn read(text: &str, passphrase: Option<&str>) -> Result<PrivateKey, Error> {
    let bytes = binary(text)?;
    let reader = &mut bytes.strip_prefix(MAGIC).ok_or(Error::FormatEncoding)?;
    let cipher = Cipher::decode(reader)?;
    let kdf = Kdf::decode(reader)?;
    if u32::decode(reader)? != 1 {
        return Err(EncodingError::Length.into());
    }
    let KeyData::Ecdsa(EcdsaPublicKey::NistP256(public)) = reader.read_prefixed(KeyData::decode)?
    else {
        return Err(Error::AlgorithmUnknown);
    };
    let mut secret = Vec::decode(reader)?;
    if let Some(passphrase) = passphrase {
        let tag = cipher.has_tag().then(|| read_tag(reader)).transpose()?;
        let (key, iv) = kdf.derive_key_and_iv(cipher, passphrase)?;
        cipher.decrypt(&key, &iv, &mut secret, tag).map_err(|_| Error::Crypto)?;
    }
    let (number, comment) = private_part(&secret)?;
    let pair = EcdsaKeypair::NistP256 { public, private: number.into() };
    PrivateKey::new(KeypairData::Ecdsa(pair), comment)
}

fn binary(text: &str) -> Result<Vec<u8>, Error> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("-----"));
    STANDARD.decode(lines.collect::<String>()).map_err(|_| Error::FormatEncoding)
}

fn read_tag(reader: &mut &[u8]) -> Result<Tag, Error> {
    let mut tag = Tag::default();
    reader.read(&mut tag)?;
    Ok(tag)
}

/// The number of a key, with its zero bytes, and its comment.
fn private_part(mut secret: &[u8]) -> ssh_key::Result<([u8; P256_BYTES], String)> {
    let reader = &mut secret;
    // Two equal numbers: the passphrase was right.
    if u32::decode(reader)? != u32::decode(reader)? {
        return Err(Error::Crypto);
    }
    if Algorithm::decode(reader)? != (Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 }) {
        return Err(Error::AlgorithmUnknown);
    }
    let (_curve, _public) = (Vec::<u8>::decode(reader)?, Vec::<u8>::decode(reader)?);
    let short = Vec::<u8>::decode(reader)?;
    let zeros = P256_BYTES.checked_sub(short.len()).ok_or(EncodingError::Length)?;
    let mut number = [0; P256_BYTES];
    number[zeros..].copy_from_slice(&short);
    Ok((number, String::decode(reader)?))
}
