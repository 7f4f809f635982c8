//! The private key of a repository, and how it signs.

use std::path::Path;

use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair};
use rsa::RsaPrivateKey;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use russh::Signer;
use russh::keys::agent::AgentIdentity;
use russh::keys::ssh_key::private::{KeypairData, RsaKeypair};
use russh::keys::{Algorithm, HashAlg, PrivateKey, decode_secret_key};

use super::short_p256_key;
use super::ssh_host::SshError;
use crate::credential_file::{read_credential, read_secret};
use crate::error::FetchError;

/// Reads a private key file, with the file of its passphrase.
pub(super) fn read(file: &Path, passphrase_file: Option<&Path>) -> Result<PrivateKey, FetchError> {
    let unusable = |problem: String| FetchError::CredentialFile {
        file: file.to_owned(),
        purpose: "SSH key",
        problem,
    };
    let text = read_credential(file, "SSH key")?;
    let text = String::from_utf8(text).map_err(|_| unusable("it is not PEM text".into()))?;
    let passphrase = match passphrase_file {
        Some(file) => Some(read_secret(file, "passphrase of the SSH key")?),
        None if is_encrypted(&text) => {
            return Err(unusable("it is encrypted; name a file with its passphrase".into()));
        }
        None => None,
    };
    // A key without encryption needs no passphrase, and must not get one.
    let passphrase = passphrase.as_deref().filter(|_| is_encrypted(&text));
    decode(&text, passphrase).map_err(|error| {
        let hint = match passphrase {
            Some(_) => {
                "; is the passphrase right? `ssh-keygen -p` writes a key in OpenSSH's format"
            }
            None => "",
        };
        unusable(format!("{error}{hint}"))
    })
}

fn decode(text: &str, passphrase: Option<&str>) -> Result<PrivateKey, russh::keys::Error> {
    decode_secret_key(text, passphrase)
        .or_else(|error| short_p256_key::read(text, passphrase).map_err(|_| error))
}

fn is_encrypted(text: &str) -> bool {
    match PrivateKey::from_openssh(text) {
        Ok(key) => key.is_encrypted(),
        Err(_) => text.contains("ENCRYPTED"),
    }
}

/// Signs with an RSA key. The time that ring needs says nothing about the key; the `rsa` crate,
/// which reads it, promises that for public keys alone (RUSTSEC-2023-0071).
pub(super) struct RsaSigner(RsaKeyPair);

/// The RSA key of a private key, for a signer; `None` for a key of another kind.
pub(super) fn rsa_signer(key: &PrivateKey, file: &Path) -> Result<Option<RsaSigner>, FetchError> {
    let KeypairData::Rsa(keys) = key.key_data() else { return Ok(None) };
    ring_key(keys).map(RsaSigner).map(Some).map_err(|problem| FetchError::CredentialFile {
        file: file.to_owned(),
        purpose: "SSH key",
        problem: format!(
            "RSA keys need 2,048 to 4,096 bits ({problem}); an Ed25519 key is shorter"
        ),
    })
}

fn ring_key(keys: &RsaKeypair) -> Result<RsaKeyPair, String> {
    let key = RsaPrivateKey::try_from(keys).map_err(|error| error.to_string())?;
    let der = key.to_pkcs1_der().map_err(|error| error.to_string())?;
    RsaKeyPair::from_der(der.as_bytes()).map_err(|error| error.to_string())
}

impl Signer for RsaSigner {
    type Error = SshError;

    async fn auth_sign(
        &mut self,
        _: &AgentIdentity,
        hash: Option<HashAlg>,
        mut message: Vec<u8>,
    ) -> Result<Vec<u8>, Self::Error> {
        let padding = match hash {
            Some(HashAlg::Sha256) => &RSA_PKCS1_SHA256,
            Some(HashAlg::Sha512) => &RSA_PKCS1_SHA512,
            _ => return Err(SshError::Sha1),
        };
        let mut signature = vec![0; self.0.public().modulus_len()];
        self.0
            .sign(padding, &SystemRandom::new(), &message, &mut signature)
            .map_err(|_| russh::Error::Inconsistent)?;
        let name = Algorithm::Rsa { hash };
        let mut blob = string(name.as_str().as_bytes());
        blob.extend(string(&signature));
        message.extend(string(&blob));
        Ok(message)
    }
}

/// A `string` of SSH (RFC 4251, section 5). Signatures are short.
fn string(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], bytes].concat()
}
