//! SSH signatures: the format sshsig (OpenSSH: PROTOCOL.sshsig) in the namespace `git`.

use std::collections::BTreeSet;

use ssh_key::{HashAlg, PublicKey, SshSig};

use super::allowed::AllowedSigner;
use super::weakness::check_ssh_key;
use gitwork_core::signature::pattern::fits_any;
use gitwork_core::signature::{SignatureError, Signer, Timestamps};

use crate::key_problem::format_time;

/// The namespace that Git signs in.
const NAMESPACE: &str = "git";

pub(super) fn check(
    signers: &[AllowedSigner],
    text: &str,
    content: &[u8],
    at: Timestamps,
) -> Result<Signer, SignatureError> {
    let unreadable = |why: ssh_key::Error| SignatureError::Unreadable(why.to_string());
    let signature = SshSig::from_pem(text).map_err(unreadable)?;
    let public = signature.public_key();
    let key = public.fingerprint(HashAlg::Sha256).to_string();
    let lines: Vec<&AllowedSigner> = signers.iter().filter(|line| line.key == *public).collect();
    if lines.is_empty() {
        return Err(SignatureError::UnknownKey { key });
    }
    if signature.namespace() != NAMESPACE {
        let found = signature.namespace().chars().take(40).collect();
        return Err(SignatureError::Namespace { key, found });
    }
    check_ssh_key(public, &signature)
        .map_err(|why| SignatureError::Unfit { key: key.clone(), why: why.to_string() })?;
    if PublicKey::from(public.clone()).verify(NAMESPACE, content, &signature).is_err() {
        return Err(SignatureError::Wrong { key });
    }
    let (mut names, mut valid, mut refused) = (BTreeSet::new(), false, None);
    for line in lines {
        match check_line(line, &key, at) {
            Ok(()) => {
                valid = true;
                names.extend(line.names.iter().cloned());
            }
            Err(why) => refused = Some(why),
        }
    }
    match refused {
        Some(why) if !valid => Err(why),
        _ => Ok(Signer { names, key }),
    }
}

/// Checks that a line of the key allows the signature.
fn check_line(line: &AllowedSigner, key: &str, at: Timestamps) -> Result<(), SignatureError> {
    let key = || key.to_owned();
    if let Some(namespaces) = &line.namespaces
        && !fits_any(NAMESPACE, namespaces)
    {
        let why = format!("its line allows the namespaces {} only", namespaces.join(", "));
        return Err(SignatureError::Unfit { key: key(), why });
    }
    for time in at.all() {
        if let Some(after) = line.valid_after.filter(|after| time < *after) {
            return Err(SignatureError::NotYetValid { key: key(), from: format_time(after) });
        }
        if let Some(before) = line.valid_before.filter(|before| time > *before) {
            return Err(SignatureError::Expired { key: key(), until: format_time(before) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use sha2::{Digest as _, Sha256};
    use ssh_key::private::{Ed25519Keypair, KeypairData, PrivateKey};
    use ssh_key::public::KeyData;
    use ssh_key::{Algorithm, LineEnding, Signature, SigningKey};

    use super::super::allowed::read;
    use super::*;

    const AT: Timestamps = Timestamps { committed: 1_710_000_000, now: 1_720_000_000 };

    fn private(seed: u8) -> PrivateKey {
        let pair = Ed25519Keypair::from_seed(&[seed; 32]);
        PrivateKey::new(KeypairData::Ed25519(pair), "test").unwrap()
    }

    fn signed(key: &PrivateKey, namespace: &str, content: &[u8]) -> String {
        let signature = key.sign(namespace, HashAlg::Sha512, content).unwrap();
        signature.to_pem(LineEnding::LF).unwrap()
    }

    fn line(options: &str, key: &PrivateKey) -> String {
        format!("ann@example.com {options} {}\n", key.public_key().to_openssh().unwrap())
    }

    #[test]
    fn signature_must_match_key_content_and_line() {
        let (ann, bob) = (private(1), private(2));
        let ours = signed(&ann, "git", b"tree 1");
        let check = |file: &str, text: &str, content: &[u8]| {
            let (signers, problems) = read(file, &TimeZone::UTC);
            assert_eq!(problems, []);
            check(&signers, text, content, AT)
        };
        let signer = check(&line("", &ann), &ours, b"tree 1").unwrap();
        assert_eq!(signer.names, ["ann@example.com".to_owned()].into());
        let print = ann.public_key().fingerprint(HashAlg::Sha256).to_string();
        assert_eq!(signer.key, print);
        for (file, text, content, expected) in [
            (line("", &bob), &ours, "tree 1", "not among the allowed keys"),
            (line("", &ann), &ours, "tree 2", "does not fit"),
            (line("", &ann), &signed(&ann, "file", b"tree 1"), "tree 1", "\"file\""),
            (line("namespaces=\"file\"", &ann), &ours, "tree 1", "namespaces file only"),
            (
                line("valid-before=\"20240309Z\"", &ann),
                &ours,
                "tree 1",
                "not valid after 2024-03-09",
            ),
            // Valid at the commit's date, but no longer.
            (
                line("valid-before=\"20240601Z\"", &ann),
                &ours,
                "tree 1",
                "not valid after 2024-06-01",
            ),
            (
                line("valid-after=\"20240601Z\"", &ann),
                &ours,
                "tree 1",
                "not valid before 2024-06-01",
            ),
        ] {
            let error = check(&file, text, content.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.key(), Some(print.as_str()));
        }
        // One line that allows the signature is enough.
        let both =
            line("valid-before=\"20240309Z\"", &ann) + &line("valid-after=\"20240101Z\"", &ann);
        assert!(check(&both, &ours, b"tree 1").is_ok());
    }

    fn raw<K: SigningKey>(key: &K, message: &[u8]) -> Signature {
        key.try_sign(message).unwrap()
    }

    /// A signature as a security key makes it: over the application, the flags, the counter and the
    /// data.
    fn by_security_key(pair: &Ed25519Keypair, flags: u8, content: &[u8]) -> (KeyData, String) {
        use ssh_key::public::SkEd25519;
        let public = KeyData::SkEd25519(SkEd25519::new(pair.public, "ssh:"));
        let data = SshSig::signed_data("git", HashAlg::Sha512, content).unwrap();
        let trailer = [flags, 0, 0, 0, 9];
        let mut message = Sha256::digest(b"ssh:").to_vec();
        message.extend(trailer);
        message.extend(Sha256::digest(&data));
        let raw = raw(&PrivateKey::new(KeypairData::Ed25519(pair.clone()), "").unwrap(), &message);
        let mut bytes = raw.as_bytes().to_vec();
        bytes.extend(trailer);
        let made = Signature::new(Algorithm::SkEd25519, bytes).unwrap();
        let all = SshSig::new(public.clone(), "git", HashAlg::Sha512, made).unwrap();
        (public, all.to_pem(LineEnding::LF).unwrap())
    }

    #[test]
    fn security_key_must_be_touched() {
        let pair = Ed25519Keypair::from_seed(&[3; 32]);
        for (flags, expected) in [(1, true), (5, true), (0, false), (4, false)] {
            let (public, text) = by_security_key(&pair, flags, b"tree");
            let signer = AllowedSigner {
                names: BTreeSet::new(),
                key: public,
                namespaces: None,
                valid_after: None,
                valid_before: None,
            };
            let found = check(&[signer], &text, b"tree", AT);
            assert_eq!(found.is_ok(), expected, "{flags}: {found:?}");
        }
    }

    #[test]
    fn damaged_signatures_are_errors() {
        let good = signed(&private(1), "git", b"tree");
        for cut in (0..good.len()).step_by(7) {
            let text = good.get(..cut).unwrap();
            assert!(matches!(check(&[], text, b"tree", AT), Err(SignatureError::Unreadable(_))));
        }
    }
}
