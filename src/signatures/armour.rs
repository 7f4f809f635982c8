//! Armoured OpenPGP keys and signatures, read within bounds.

use std::io::BufRead;

use pgp::armor::DearmorOptions;
use pgp::composed::{Deserializable, DetachedSignature, SignedPublicKey};
use pgp::packet::Signature;
use pgp::types::KeyDetails;

use crate::key_problem::KeyProblem;
use crate::limits;
use gitwork_core::signature::SignatureError;
use gitwork_core::text::truncate::truncate_chars;

const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
/// The longest message of the library that is kept, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// Why a key was ignored.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    /// The armour, a packet or the key itself is malformed.
    #[error("{}", one_line(.0))]
    Malformed(#[from] pgp::errors::Error),
    /// The key has more parts than are checked.
    #[error(
        "{name} has more than {limit} subkeys, user ids and signatures; export it with \
         --export-options export-minimal"
    )]
    TooManyParts { name: String, limit: usize },
}

/// Reads all armoured keys of a text, and returns them with the keys that are ignored.
pub(super) fn read_keys(text: &str) -> (Vec<SignedPublicKey>, Vec<KeyProblem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut number = 0;
    for block in text.split(BEGIN).skip(1) {
        let end = block.find(END).map_or(block.len(), |at| at + END.len());
        let armoured = format!("{BEGIN}{}\n", block.get(..end).unwrap_or_default());
        for key in keys(armoured.as_bytes()) {
            number += 1;
            if number > limits::OPENPGP_KEYS_MAX {
                let limit = limits::OPENPGP_KEYS_MAX;
                let message = format!(
                    "the limit is {limit} keys; this key and the following ones are ignored"
                );
                problems.push(KeyProblem { number, message });
                return (found, problems);
            }
            match key {
                Ok(key) => found.push(key),
                Err(error) => problems.push(KeyProblem { number, message: error.to_string() }),
            }
        }
    }
    if number == 0 {
        let message = format!("it is not an armoured public key, which begins with {BEGIN}");
        problems.push(KeyProblem { number: 1, message });
    }
    (found, problems)
}

fn options() -> DearmorOptions {
    let limit = usize::try_from(limits::CREDENTIAL_BYTES_MAX).unwrap_or(usize::MAX);
    DearmorOptions::default().set_limit(limit)
}

fn keys<'a>(armoured: impl BufRead + 'a) -> Vec<Result<SignedPublicKey, KeyError>> {
    let read = SignedPublicKey::from_armor_many_buf_with_options(armoured, options());
    let keys = match read {
        Ok((keys, _)) => keys,
        Err(why) => return vec![Err(why.into())],
    };
    let keys = keys.take(limits::OPENPGP_KEYS_MAX + 1);
    keys.map(|key| key.map_err(KeyError::from).and_then(bounded)).collect()
}

fn bounded(key: SignedPublicKey) -> Result<SignedPublicKey, KeyError> {
    let details = &key.details;
    let signatures = details.users.iter().map(|user| user.signatures.len());
    let signatures = signatures.chain(key.public_subkeys.iter().map(|sub| sub.signatures.len()));
    let counts = [
        details.revocation_signatures.len(),
        details.direct_signatures.len(),
        details.users.len(),
        key.public_subkeys.len(),
    ];
    let limit = limits::OPENPGP_PARTS_MAX;
    if counts.into_iter().sum::<usize>() + signatures.sum::<usize>() > limit {
        return Err(KeyError::TooManyParts { name: fingerprint(&key.primary_key), limit });
    }
    Ok(key)
}

/// An error of the library on one line of at most [`MESSAGE_CHARS_MAX`] characters.
fn one_line(why: &pgp::errors::Error) -> String {
    truncate_chars(&why.to_string(), MESSAGE_CHARS_MAX).replace(char::is_control, " ")
}

/// The fingerprint of a key, for messages.
pub(super) fn fingerprint(key: &impl KeyDetails) -> String {
    format!("{:X}", key.fingerprint())
}

/// Reads the only signature of an armoured text.
pub(super) fn one_signature(text: &str) -> Result<Signature, SignatureError> {
    let unreadable = |why: &pgp::errors::Error| SignatureError::Unreadable(one_line(why));
    let read = DetachedSignature::from_armor_many_buf_with_options(text.as_bytes(), options());
    let mut all = read.map_err(|why| unreadable(&why))?.0;
    let none = || SignatureError::Unreadable("it is empty".into());
    let first = all.next().ok_or_else(none)?.map_err(|why| unreadable(&why))?;
    if all.next().is_some() {
        return Err(SignatureError::Unreadable("it holds several signatures; make one".into()));
    }
    Ok(first.signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_key_is_reported() {
        for text in [
            "",
            "hello",
            BEGIN,
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nnot base64\n\
             -----END PGP PUBLIC KEY BLOCK-----\n",
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n",
        ] {
            let (keys, problems) = read_keys(text);
            assert!(keys.is_empty(), "{text}");
            // A text without a known packet has no key either.
            assert!(problems.len() <= 1, "{text}: {problems:?}");
        }
        assert_eq!(read_keys("hello").1.len(), 1);
    }
}
