//! OpenPGP signatures (RFC 9580) by keys that an operator has exported. The library checks single
//! signatures. This module checks that the key is valid: its signatures on its own parts, their
//! expiry and revocation, and the right to sign.
//!
//! A revoked key or part signs nothing, regardless of reason and date: earlier commits are already
//! verified, and the signer chooses the date of a signature.

use std::collections::BTreeSet;

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::packet::{Signature, SignatureType, SubpacketData};
use pgp::types::{KeyDetails, SignedUser, Tag};

use crate::armour::{fingerprint, one_signature, read_keys};
use crate::key_problem::{KeyProblem, format_time};
use crate::weakness::{check_hash, check_openpgp_key, has_unknown_critical_part};
use gitwork_core::signature::{SignatureError, Signer, Timestamps};

/// Allowed difference between the clocks of the signer and of this machine.
const SKEW_SECONDS: i64 = 600;

/// A key with its subkeys and user ids, as it was exported.
#[derive(Debug, Clone)]
pub struct Certificate(SignedPublicKey);

/// Reads all armoured keys of a text, and returns them with the keys that are ignored.
pub fn read(text: &str) -> (Vec<Certificate>, Vec<KeyProblem>) {
    let (keys, problems) = read_keys(text);
    (keys.into_iter().map(Certificate).collect(), problems)
}

pub(super) fn check(
    certificates: &[Certificate],
    text: &str,
    content: &[u8],
    at: Timestamps,
) -> Result<Signer, SignatureError> {
    let signature = one_signature(text)?;
    let named = issuer(&signature);
    let mut refused = None;
    for certificate in certificates {
        for key in certificate.issuing_keys(&signature) {
            match certificate.check(&key, &signature, content, at) {
                Ok(signer) => return Ok(signer),
                Err(why) => refused = Some(why),
            }
        }
    }
    Err(refused.unwrap_or(SignatureError::UnknownKey { key: named }))
}

/// The key that a signature names as its issuer.
fn issuer(signature: &Signature) -> String {
    let fingerprint = signature.issuer_fingerprint().first().map(|print| format!("{print:X}"));
    let id = || signature.issuer_key_id().first().map(hex::encode_upper);
    fingerprint.or_else(id).unwrap_or_else(|| "an unnamed key".into())
}

/// A key that a signature names as its issuer.
enum SigningKey<'a> {
    Primary,
    Subkey(&'a SignedPublicSubKey),
}

/// The newest signature of a primary key on one of its parts.
struct SelfSignature<'a> {
    signature: &'a Signature,
    is_revoked: bool,
}

impl Certificate {
    fn issuing_keys(&self, signature: &Signature) -> Vec<SigningKey<'_>> {
        let mut found = Vec::new();
        if made_by(signature, &self.0.primary_key) {
            found.push(SigningKey::Primary);
        }
        let subkeys = self.0.public_subkeys.iter().filter(|sub| made_by(signature, &sub.key));
        found.extend(subkeys.map(SigningKey::Subkey));
        found
    }

    /// Checks a signature by one key of this certificate.
    fn check(
        &self,
        signing_key: &SigningKey<'_>,
        signature: &Signature,
        content: &[u8],
        at: Timestamps,
    ) -> Result<Signer, SignatureError> {
        let key = match signing_key {
            SigningKey::Primary => fingerprint(&self.0.primary_key),
            SigningKey::Subkey(subkey) => fingerprint(&subkey.key),
        };
        let unfit = |why: &str| SignatureError::Unfit { key: key.clone(), why: why.to_owned() };
        let typed = matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text));
        if !typed || has_unknown_critical_part(signature) {
            return Err(unfit("its signature has an unknown form"));
        }
        check_hash(signature).map_err(|why| unfit(&why.to_string()))?;
        let (params, fits) = match signing_key {
            SigningKey::Primary => (
                self.0.primary_key.public_params(),
                signature.verify(&self.0.primary_key, content).is_ok(),
            ),
            SigningKey::Subkey(subkey) => {
                (subkey.key.public_params(), signature.verify(&subkey.key, content).is_ok())
            }
        };
        if !fits {
            return Err(SignatureError::Wrong { key });
        }
        check_openpgp_key(params).map_err(|why| unfit(&why.to_string()))?;
        // The signer chooses the date of a signature; only its expiry is checked, at this time.
        let today = Timestamps { committed: at.now, ..at };
        check_lifetime(&key, signature.created(), signature.signature_expiration_time(), today)?;
        self.check_signing_key(signing_key, &key, at)?;
        Ok(Signer { names: self.names(at.now), key })
    }

    /// Checks that a key may sign: that it is for signing, not expired and not revoked. `name` is
    /// for errors.
    fn check_signing_key(
        &self,
        signing_key: &SigningKey<'_>,
        name: &str,
        at: Timestamps,
    ) -> Result<(), SignatureError> {
        let unfit = |why: &str| SignatureError::Unfit { key: name.to_owned(), why: why.to_owned() };
        let revoked = || SignatureError::Revoked { key: name.to_owned() };
        let own = self
            .self_signature(at.now)
            .ok_or_else(|| unfit("it has no usable self-signature; SHA-1 is too weak for one"))?;
        if own.is_revoked {
            return Err(revoked());
        }
        let created = Some(self.0.primary_key.created_at());
        check_lifetime(name, created, own.signature.key_expiration_time(), at)?;
        match signing_key {
            SigningKey::Primary => {
                if has_flags(own.signature) && !own.signature.key_flags().sign() {
                    return Err(unfit("it is not for signing"));
                }
            }
            SigningKey::Subkey(subkey) => {
                let binding = subkey_binding(&self.0, subkey, at.now).ok_or_else(|| {
                    unfit("its primary key has not signed it as a key for signing")
                })?;
                if binding.is_revoked {
                    return Err(revoked());
                }
                let created = Some(subkey.key.created_at());
                check_lifetime(name, created, binding.signature.key_expiration_time(), at)?;
            }
        }
        Ok(())
    }

    /// The newest signature of the primary key on itself or on one of its user ids.
    fn self_signature(&self, now: i64) -> Option<SelfSignature<'_>> {
        let key = &self.0.primary_key;
        let direct = self.0.details.direct_signatures.iter().filter(|by| {
            by.typ() == Some(SignatureType::Key)
                && check_hash(by).is_ok()
                && by.verify_key(key).is_ok()
        });
        let users = self.0.details.users.iter().flat_map(|user| {
            let own = user.signatures.iter().filter(|by| by.is_certification());
            own.filter(|by| certifies(&self.0, user, by))
        });
        let signature = newest(direct.chain(users), now)?;
        let is_revoked =
            self.0.details.revocation_signatures.iter().any(|by| {
                by.typ() == Some(SignatureType::KeyRevocation) && by.verify_key(key).is_ok()
            });
        Some(SelfSignature { signature, is_revoked })
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
                check_lifetime("", by.created(), ends, Timestamps { committed: now, now }).is_ok()
            }) && !user.signatures.iter().any(revoked)
        };
        let users = self.0.details.users.iter().filter(holds);
        users.filter_map(|user| user.id.as_str()).map(name_of).collect()
    }
}

/// The newest binding signature of a subkey for signing; `None` unless the subkey has signed back.
fn subkey_binding<'a>(
    key: &SignedPublicKey,
    subkey: &'a SignedPublicSubKey,
    now: i64,
) -> Option<SelfSignature<'a>> {
    let own = |by: &&Signature| by.verify_subkey_binding(&key.primary_key, &subkey.key).is_ok();
    let bindings = subkey
        .signatures
        .iter()
        .filter(|by| by.typ() == Some(SignatureType::SubkeyBinding) && check_hash(by).is_ok());
    let by = newest(bindings.filter(own), now)?;
    let back = by.embedded_signature().filter(|back| check_hash(back).is_ok())?;
    back.verify_primary_key_binding(&subkey.key, &key.primary_key).ok()?;
    if !by.key_flags().sign() {
        return None;
    }
    let mut revocations =
        subkey.signatures.iter().filter(|by| by.typ() == Some(SignatureType::SubkeyRevocation));
    Some(SelfSignature { signature: by, is_revoked: revocations.any(|by| own(&by)) })
}

fn certifies(key: &SignedPublicKey, user: &SignedUser, by: &Signature) -> bool {
    check_hash(by).is_ok()
        && by.verify_certification(&key.primary_key, Tag::UserId, &user.id).is_ok()
}

/// The newest signature, without those dated in the future.
fn newest<'a>(all: impl Iterator<Item = &'a Signature>, now: i64) -> Option<&'a Signature> {
    let created = |by: &Signature| by.created().map(|at| i64::from(at.as_secs()));
    all.filter(|by| created(by).is_some_and(|at| at <= now + SKEW_SECONDS))
        .max_by_key(|by| created(by))
}

/// Whether a signature names a key as its issuer.
fn made_by(signature: &Signature, key: &impl KeyDetails) -> bool {
    let prints = signature.issuer_fingerprint();
    if prints.is_empty() {
        return signature.issuer_key_id().into_iter().any(|id| *id == key.legacy_key_id());
    }
    prints.into_iter().any(|print| *print == key.fingerprint())
}

/// Checks that all times of `at` are within a validity that starts at `created` and lasts for
/// `lasts` (no end if `None` or zero).
fn check_lifetime(
    key: &str,
    created: Option<pgp::types::Timestamp>,
    lasts: Option<pgp::types::Duration>,
    at: Timestamps,
) -> Result<(), SignatureError> {
    let key = || key.to_owned();
    let Some(from) = created.map(|at| i64::from(at.as_secs())) else {
        let why = "its signature has no time".into();
        return Err(SignatureError::Unfit { key: key(), why });
    };
    let until = lasts.map(|lasts| i64::from(lasts.as_secs())).filter(|lasts| *lasts > 0);
    for time in at.all() {
        if time < from - SKEW_SECONDS {
            return Err(SignatureError::NotYetValid { key: key(), from: format_time(from) });
        }
        if let Some(until) = until.map(|lasts| from + lasts).filter(|until| time >= *until) {
            return Err(SignatureError::Expired { key: key(), until: format_time(until) });
        }
    }
    Ok(())
}

fn has_flags(signature: &Signature) -> bool {
    signature.config().is_some_and(|config| {
        config.hashed_subpackets().any(|part| matches!(part.data, SubpacketData::KeyFlags(_)))
    })
}

/// The address in a user id, as in `Ann <ann@example.com>`; the whole user id if there is none.
fn name_of(user_id: &str) -> String {
    let address = user_id.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
    address.map_or(user_id, |(address, _)| address).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_id_is_named_by_its_address() {
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
}
