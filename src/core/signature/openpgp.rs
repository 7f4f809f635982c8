//! OpenPGP signatures (RFC 9580) by keys that an operator has exported. The library checks single signatures; what of
//! a key still holds is judged here: its own signatures on its parts, their expiry and revocation, and who may sign.
//!
//! A key or part that was revoked signs nothing, whatever the reason and the date: what it signed before is verified
//! already, and the date of a signature is its maker's word.

use std::collections::BTreeSet;
use std::io::BufRead;

use pgp::armor::DearmorOptions;
use pgp::composed::{Deserializable, DetachedSignature, SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails, PublicParams, SignedUser, Tag};

use super::{KeyProblem, Moments, SignatureError, Signer, spoken};
use crate::limits;

const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";
/// How far the clocks of a signer and of this machine may be apart.
const SKEW_SECONDS: i64 = 600;

/// A key with its subkeys and user ids, as it was exported.
#[derive(Debug, Clone)]
pub struct Certificate(SignedPublicKey);

/// Reads all armoured keys of a text.
pub fn read(text: &str) -> (Vec<Certificate>, Vec<KeyProblem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut number = 0;
    for block in text.split(BEGIN).skip(1) {
        let end = block.find(END).map_or(block.len(), |at| at + END.len());
        let armoured = format!("{BEGIN}{}\n", block.get(..end).unwrap_or_default());
        for key in keys(armoured.as_bytes()) {
            number += 1;
            if number > limits::OPENPGP_KEYS_MAX {
                let limit = limits::OPENPGP_KEYS_MAX;
                let message = format!("only the first {limit} keys are read");
                problems.push(KeyProblem { number, message });
                return (found, problems);
            }
            match key {
                Ok(key) => found.push(Certificate(key)),
                Err(message) => problems.push(KeyProblem { number, message }),
            }
        }
    }
    if number == 0 {
        let message = format!("it has no armoured public key, which begins with {BEGIN}");
        problems.push(KeyProblem { number: 1, message });
    }
    (found, problems)
}

fn options() -> DearmorOptions {
    let limit = usize::try_from(limits::CREDENTIAL_BYTES_MAX).unwrap_or(usize::MAX);
    DearmorOptions::default().set_limit(limit)
}

fn keys<'a>(armoured: impl BufRead + 'a) -> Vec<Result<SignedPublicKey, String>> {
    let read = SignedPublicKey::from_armor_many_buf_with_options(armoured, options());
    let keys = match read {
        Ok((keys, _)) => keys,
        Err(why) => return vec![Err(told(&why))],
    };
    let keys = keys.take(limits::OPENPGP_KEYS_MAX + 1);
    keys.map(|key| key.map_err(|why| told(&why)).and_then(bounded)).collect()
}

fn bounded(key: SignedPublicKey) -> Result<SignedPublicKey, String> {
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
        let name = fingerprint(&key.primary_key);
        return Err(format!(
            "{name} has more than {limit} subkeys, user ids and signatures; export it with --export-options export-minimal"
        ));
    }
    Ok(key)
}

/// An error of the library in one line.
fn told(why: &pgp::errors::Error) -> String {
    why.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

pub(super) fn check(
    certificates: &[Certificate],
    text: &str,
    content: &[u8],
    at: Moments,
) -> Result<Signer, SignatureError> {
    let signature = one_signature(text)?;
    let named = issuer(&signature);
    let mut refused = None;
    for certificate in certificates {
        for key in certificate.signing_candidates(&signature) {
            match certificate.judge(&key, &signature, content, at) {
                Ok(signer) => return Ok(signer),
                Err(why) => refused = Some(why),
            }
        }
    }
    Err(refused.unwrap_or(SignatureError::UnknownKey { key: named }))
}

fn one_signature(text: &str) -> Result<Signature, SignatureError> {
    let unreadable = |why: &pgp::errors::Error| SignatureError::Unreadable(told(why));
    let read = DetachedSignature::from_armor_many_buf_with_options(text.as_bytes(), options());
    let mut all = read.map_err(|why| unreadable(&why))?.0;
    let none = || SignatureError::Unreadable("it is empty".into());
    let first = all.next().ok_or_else(none)?.map_err(|why| unreadable(&why))?;
    if all.next().is_some() {
        return Err(SignatureError::Unreadable("it holds several signatures; make one".into()));
    }
    Ok(first.signature)
}

/// The key that a signature says it was made with.
fn issuer(signature: &Signature) -> String {
    let fingerprint = signature.issuer_fingerprint().first().map(|print| format!("{print:X}"));
    let id = || signature.issuer_key_id().first().map(|id| hex(id.as_ref()));
    fingerprint.or_else(id).unwrap_or_else(|| "a key that it does not name".into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn fingerprint(key: &impl KeyDetails) -> String {
    format!("{:X}", key.fingerprint())
}

/// A key that may have made a signature.
enum Candidate<'a> {
    Primary,
    Subkey(&'a SignedPublicSubKey),
}

/// What a key's newest signature on one of its parts says.
struct Standing<'a> {
    by: &'a Signature,
    revoked: bool,
}

impl Certificate {
    fn signing_candidates(&self, signature: &Signature) -> Vec<Candidate<'_>> {
        let mut found = Vec::new();
        if made_by(signature, &self.0.primary_key) {
            found.push(Candidate::Primary);
        }
        let subkeys = self.0.public_subkeys.iter().filter(|sub| made_by(signature, &sub.key));
        found.extend(subkeys.map(Candidate::Subkey));
        found
    }

    fn judge(
        &self,
        candidate: &Candidate<'_>,
        signature: &Signature,
        content: &[u8],
        at: Moments,
    ) -> Result<Signer, SignatureError> {
        let key = match candidate {
            Candidate::Primary => fingerprint(&self.0.primary_key),
            Candidate::Subkey(subkey) => fingerprint(&subkey.key),
        };
        let unfit = |why: &str| SignatureError::Unfit { key: key.clone(), why: why.to_owned() };
        let typed = matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text));
        if !typed || has_unknown_demands(signature) {
            return Err(unfit("its signature is of a form that is not known"));
        }
        strong_hash(signature).map_err(|why| unfit(&why))?;
        let (params, fits) = match candidate {
            Candidate::Primary => (
                self.0.primary_key.public_params(),
                signature.verify(&self.0.primary_key, content).is_ok(),
            ),
            Candidate::Subkey(subkey) => {
                (subkey.key.public_params(), signature.verify(&subkey.key, content).is_ok())
            }
        };
        if !fits {
            return Err(SignatureError::Wrong { key });
        }
        strong_key(params).map_err(|why| unfit(&why))?;
        // When it was made is its maker's word; that it lasts is what counts now.
        let today = Moments { committed: at.now, ..at };
        lifetime(&key, signature.created(), signature.signature_expiration_time(), today)?;
        let own = self.standing(at.now).ok_or_else(|| {
            unfit("it has no signature of its own that can be used; SHA-1 is too weak for one")
        })?;
        if own.revoked {
            return Err(SignatureError::Revoked { key });
        }
        let primary = &self.0.primary_key;
        lifetime(&key, Some(primary.created_at()), own.by.key_expiration_time(), at)?;
        match candidate {
            Candidate::Primary => {
                if has_flags(own.by) && !own.by.key_flags().sign() {
                    return Err(unfit("it is not for signing"));
                }
            }
            Candidate::Subkey(subkey) => {
                let bound = subkey_standing(&self.0, subkey, at.now).ok_or_else(|| {
                    unfit("its primary key has not signed it as a key for signing")
                })?;
                if bound.revoked {
                    return Err(SignatureError::Revoked { key });
                }
                let created = Some(subkey.key.created_at());
                lifetime(&key, created, bound.by.key_expiration_time(), at)?;
            }
        }
        Ok(Signer { names: self.names(at.now), key })
    }

    fn standing(&self, now: i64) -> Option<Standing<'_>> {
        let key = &self.0.primary_key;
        let direct = self.0.details.direct_signatures.iter().filter(|by| {
            by.typ() == Some(SignatureType::Key)
                && strong_hash(by).is_ok()
                && by.verify_key(key).is_ok()
        });
        let users = self.0.details.users.iter().flat_map(|user| {
            let own = user.signatures.iter().filter(|by| by.is_certification());
            own.filter(|by| certifies(&self.0, user, by))
        });
        let by = newest(direct.chain(users), now)?;
        let revoked =
            self.0.details.revocation_signatures.iter().any(|by| {
                by.typ() == Some(SignatureType::KeyRevocation) && by.verify_key(key).is_ok()
            });
        Some(Standing { by, revoked })
    }

    fn names(&self, now: i64) -> BTreeSet<String> {
        let holds = |user: &&SignedUser| {
            let own = |by: &&Signature| certifies(&self.0, user, by);
            let certified = user.signatures.iter().filter(|by| by.is_certification()).filter(own);
            let revoked = |by: &Signature| {
                by.typ() == Some(SignatureType::CertRevocation)
                    && by.verify_certification(&self.0.primary_key, Tag::UserId, &user.id).is_ok()
            };
            newest(certified, now).is_some_and(|by| {
                let ends = by.signature_expiration_time();
                lifetime("", by.created(), ends, Moments { committed: now, now }).is_ok()
            }) && !user.signatures.iter().any(revoked)
        };
        let users = self.0.details.users.iter().filter(holds);
        users.filter_map(|user| user.id.as_str()).map(name_of).collect()
    }
}

/// What the primary key's newest signature says of a subkey that may sign, and has itself signed that it belongs there.
fn subkey_standing<'a>(
    key: &SignedPublicKey,
    subkey: &'a SignedPublicSubKey,
    now: i64,
) -> Option<Standing<'a>> {
    let own = |by: &&Signature| by.verify_subkey_binding(&key.primary_key, &subkey.key).is_ok();
    let bindings = subkey
        .signatures
        .iter()
        .filter(|by| by.typ() == Some(SignatureType::SubkeyBinding) && strong_hash(by).is_ok());
    let by = newest(bindings.filter(own), now)?;
    let back = by.embedded_signature().filter(|back| strong_hash(back).is_ok())?;
    back.verify_primary_key_binding(&subkey.key, &key.primary_key).ok()?;
    if !by.key_flags().sign() {
        return None;
    }
    let mut revocations =
        subkey.signatures.iter().filter(|by| by.typ() == Some(SignatureType::SubkeyRevocation));
    Some(Standing { by, revoked: revocations.any(|by| own(&by)) })
}

fn certifies(key: &SignedPublicKey, user: &SignedUser, by: &Signature) -> bool {
    strong_hash(by).is_ok()
        && by.verify_certification(&key.primary_key, Tag::UserId, &user.id).is_ok()
}

/// The newest of some signatures, but for those that say they are from the future.
fn newest<'a>(all: impl Iterator<Item = &'a Signature>, now: i64) -> Option<&'a Signature> {
    let created = |by: &Signature| by.created().map(|at| i64::from(at.as_secs()));
    all.filter(|by| created(by).is_some_and(|at| at <= now + SKEW_SECONDS))
        .max_by_key(|by| created(by))
}

/// Whether a signature says that a key made it.
fn made_by(signature: &Signature, key: &impl KeyDetails) -> bool {
    let prints = signature.issuer_fingerprint();
    if prints.is_empty() {
        return signature.issuer_key_id().into_iter().any(|id| *id == key.legacy_key_id());
    }
    prints.into_iter().any(|print| *print == key.fingerprint())
}

/// What begins at `created` and lasts for so long, for ever where that is nothing or zero.
fn lifetime(
    key: &str,
    created: Option<pgp::types::Timestamp>,
    lasts: Option<pgp::types::Duration>,
    at: Moments,
) -> Result<(), SignatureError> {
    let key = || key.to_owned();
    let Some(from) = created.map(|at| i64::from(at.as_secs())) else {
        let why = "its signature says no time".into();
        return Err(SignatureError::Unfit { key: key(), why });
    };
    let until = lasts.map(|lasts| i64::from(lasts.as_secs())).filter(|lasts| *lasts > 0);
    for moment in at.all() {
        if moment < from - SKEW_SECONDS {
            return Err(SignatureError::NotYetValid { key: key(), from: spoken(from) });
        }
        if let Some(until) = until.map(|lasts| from + lasts).filter(|until| moment >= *until) {
            return Err(SignatureError::Expired { key: key(), until: spoken(until) });
        }
    }
    Ok(())
}

fn strong_hash(signature: &Signature) -> Result<(), String> {
    use HashAlgorithm::{Sha3_256, Sha3_512, Sha256, Sha384, Sha512};
    match signature.hash_alg() {
        Some(Sha256 | Sha384 | Sha512 | Sha3_256 | Sha3_512) => Ok(()),
        Some(other) => Err(format!("the hash {other} is too weak or not known")),
        None => Err("its signature is of a version that is not known".into()),
    }
}

fn strong_key(params: &PublicParams) -> Result<(), String> {
    match params {
        PublicParams::RSA(rsa) => {
            // A multiprecision number begins with the count of its bits, and the modulus comes first.
            let bytes = rsa.to_bytes().map_err(|why| told(&why))?;
            let bits = bytes.first_chunk().map_or(0, |bits| usize::from(u16::from_be_bytes(*bits)));
            if (limits::RSA_BITS_MIN..=4 * limits::RSA_BITS_MAX).contains(&bits) {
                return Ok(());
            }
            Err(format!("an RSA key of {bits} bits is too weak or too large"))
        }
        PublicParams::DSA(_) => Err("DSA is too weak".into()),
        _ => Ok(()),
    }
}

fn has_flags(signature: &Signature) -> bool {
    signature.config().is_some_and(|config| {
        config.hashed_subpackets().any(|part| matches!(part.data, SubpacketData::KeyFlags(_)))
    })
}

/// Whether a signature has a part that must be understood, and is not.
fn has_unknown_demands(signature: &Signature) -> bool {
    use SubpacketData::{Experimental, Notation, Other};
    signature.config().is_none_or(|config| {
        config.hashed_subpackets().any(|part| {
            part.is_critical && matches!(part.data, Experimental(..) | Other(..) | Notation(_))
        })
    })
}

/// The address in a user id, as in `Ann <ann@example.com>`; all of it where there is none.
fn name_of(user_id: &str) -> String {
    let address = user_id.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
    address.map_or(user_id, |(address, _)| address).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_id_is_its_address() {
        for (id, expected) in [
            ("Ann Example (work) <ann@example.com>", "ann@example.com"),
            ("<ann@example.com>", "ann@example.com"),
            ("ann@example.com", "ann@example.com"),
            ("release bot", "release bot"),
            ("odd <x", "odd <x"),
        ] {
            assert_eq!(name_of(id), expected);
        }
    }

    #[test]
    fn what_is_no_key_is_told() {
        for text in [
            "",
            "hello",
            BEGIN,
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nnot base64\n-----END PGP PUBLIC KEY BLOCK-----\n",
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n",
        ] {
            let (keys, problems) = read(text);
            assert!(keys.is_empty(), "{text}");
            // What holds no packet that is known holds no key either.
            assert!(problems.len() <= 1, "{text}: {problems:?}");
        }
        assert_eq!(read("hello").1.len(), 1);
    }
}
