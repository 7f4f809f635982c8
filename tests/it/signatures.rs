//! Signatures as people make them, with `ssh-keygen` and `gpg`, against the keys that an operator
//! allows.

use gitwork_core::signature::{SignatureError, Signed, Signer, Timestamps};
use gitwork_signatures::Keyring;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::git_server::Repo;
use crate::git_server::signing::{Gpg, Signing, SshKey, git_verifies};

fn now() -> Timestamps {
    let now = Timestamp::now().as_second();
    Timestamps { committed: now, now }
}

fn ring(lines: &str, keys: &str) -> Keyring {
    let mut ring = Keyring::default();
    assert_eq!(ring.add_allowed_signers(lines, &TimeZone::UTC), []);
    if !keys.is_empty() {
        assert_eq!(ring.add_openpgp(keys), []);
    }
    ring
}

fn check(
    ring: &Keyring,
    signature: &str,
    content: &str,
    at: Timestamps,
) -> Result<Signer, SignatureError> {
    let signed = Signed { signature: signature.into(), content: content.into() };
    ring.check(&signed, at)
}

#[test]
fn every_kind_of_ssh_key_verifies() {
    for (kind, bits) in [
        ("ed25519", None),
        ("ecdsa", Some("256")),
        ("ecdsa", Some("384")),
        ("ecdsa", Some("521")),
        ("rsa", Some("2048")),
        ("rsa", Some("4096")),
    ] {
        let (key, other) = (SshKey::new(kind, bits), SshKey::new("ed25519", None));
        let ring = ring(&key.line("ann@example.com", "namespaces=\"git\""), "");
        let signature = key.sign(b"tree");
        let signer = check(&ring, &signature, "tree", now()).unwrap();
        assert_eq!(signer.key, key.fingerprint(), "{kind} {bits:?}");
        assert!(signer.names.contains("ann@example.com"));
        let wrong = SignatureError::Wrong { key: key.fingerprint() };
        assert_eq!(check(&ring, &signature, "tree!", now()), Err(wrong));
        let unknown = SignatureError::UnknownKey { key: other.fingerprint() };
        assert_eq!(check(&ring, &other.sign(b"tree"), "tree", now()), Err(unknown));
        let file = key.sign_in("file", b"tree");
        let found = check(&ring, &file, "tree", now());
        assert!(matches!(found, Err(SignatureError::Namespace { .. })), "{found:?}");
    }
    let weak = SshKey::new("rsa", Some("1024"));
    let ring = ring(&weak.line("ann", ""), "");
    let error = check(&ring, &weak.sign(b"tree"), "tree", now()).unwrap_err().to_string();
    assert!(error.contains("it has 1024"), "{error}");
}

#[test]
fn ssh_verdicts_match_git() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::create(&folder.path().join("fleet.git"));
    let file = folder.path().join("allowed_signers");
    let key = SshKey::new("ed25519", None);
    let commit = repo.commit_signed("main", &[("a", Some("1\n"))], &key);
    let facts = gitwork_git::Repository::open(repo.path()).unwrap();
    let signed = facts.signature(commit).unwrap().unwrap();
    let committed = facts.commit(commit).unwrap().committed_seconds;
    // Git asks for the commit's own time only, and so does this comparison.
    let at = Timestamps { committed, now: committed };
    for (options, expected) in [
        ("", true),
        ("namespaces=\"git\"", true),
        ("namespaces=\"g*\"", true),
        ("namespaces=\"file\"", false),
        ("valid-after=\"20200101Z\"", true),
        ("valid-after=\"20240101Z\"", false),
        ("valid-before=\"20240101Z\"", true),
        ("valid-before=\"202001010000Z\"", false),
    ] {
        let line = key.line("ann@example.com", options);
        std::fs::write(&file, &line).unwrap();
        assert_eq!(git_verifies(repo.path(), commit, &file), expected, "git: {options}");
        assert_eq!(ring(&line, "").check(&signed, at).is_ok(), expected, "gitwork: {options}");
    }
}

/// libgit2 reads what was signed of each of these as that of the first.
#[test]
fn signature_is_valid_for_its_own_commit_only() {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repo::create(&folder.path().join("fleet.git"));
    let key = SshKey::new("ed25519", None);
    let commit = repo.commit_signed("main", &[("a", Some("1\n"))], &key);
    let facts = gitwork_git::Repository::open(repo.path()).unwrap();
    let keys = ring(&key.line("ann@example.com", ""), "");
    let is_signed = |commit| match facts.signature(commit).unwrap() {
        Ok(signed) => keys.check(&signed, now()).is_ok(),
        Err(_) => false,
    };
    assert!(is_signed(commit));
    let git = git2::Repository::open(repo.path()).unwrap();
    let odb = git.odb().unwrap();
    let object = odb.read(git2::Oid::from_bytes(&commit.0).unwrap()).unwrap();
    let object = String::from_utf8(object.data().to_vec()).unwrap();
    let (before, rest) = object.split_once("gpgsig ").unwrap();
    let end = rest.find("-----END SSH SIGNATURE-----\n").unwrap() + 28;
    let (signature, after) = rest.split_at(end);
    for other in [
        format!("{object}\0and more"),
        format!("{before}{after}gpgsig {signature}"),
        format!("{before}gpgsig {signature}gpgsig {signature}{after}"),
        format!("{before}gpgsig {signature}{after}."),
    ] {
        let id = odb.write(git2::ObjectType::Commit, other.as_bytes()).unwrap();
        let id = gitwork_core::model::name::ObjectId(id.as_bytes().try_into().unwrap());
        assert!(id != commit && !is_signed(id), "{other:?}");
    }
}

#[test]
fn openpgp_signatures_need_a_signing_capable_key() {
    let gpg = Gpg::new();
    for (kind, user) in [("ed25519", "ann"), ("rsa3072", "bob"), ("nistp256/ecdsa", "kim")] {
        let id = format!("{user} Example <{user}@example.com>");
        let key = gpg.key(&id, kind, "cert,sign", "0", "");
        let by_primary = key.sign(b"tree");
        let subkey = key.add_signing_subkey(kind);
        let by_subkey = key.sign(b"tree");
        let ring = ring("", &key.public());
        for (signature, print) in [(by_primary, &key.fingerprint), (by_subkey, &subkey)] {
            let signer = check(&ring, &signature, "tree", now()).unwrap();
            assert_eq!(&signer.key, print, "{kind}");
            assert_eq!(signer.names, [format!("{user}@example.com")].into());
            let wrong = SignatureError::Wrong { key: print.clone() };
            assert_eq!(check(&ring, &signature, "tree!", now()), Err(wrong));
            let none = Keyring::default();
            let unknown = SignatureError::UnknownKey { key: print.clone() };
            assert_eq!(check(&none, &signature, "tree", now()), Err(unknown));
        }
    }
}

#[test]
fn expired_and_revoked_openpgp_keys_are_rejected() {
    let gpg = Gpg::new();
    // Made in 2024 for a year; signed while it held.
    let old = gpg.key("old@example.com", "ed25519", "sign", "1y", "20240101T000000");
    let signature = old.sign_at("20240601T000000", b"tree");
    let ring_old = ring("", &old.public());
    let then = Timestamp::from_second(1_717_200_000).unwrap().as_second();
    let (while_valid, later) = (
        Timestamps { committed: then, now: then + 60 },
        Timestamps { committed: then, now: now().now },
    );
    assert!(check(&ring_old, &signature, "tree", while_valid).is_ok());
    let expired = check(&ring_old, &signature, "tree", later).unwrap_err();
    assert!(expired.to_string().contains("not valid after 2024-12-31"), "{expired}");
    let before = Timestamps { committed: 1_600_000_000, now: then };
    let early = check(&ring_old, &signature, "tree", before).unwrap_err();
    assert!(matches!(early, SignatureError::NotYetValid { .. }), "{early}");

    let gone = gpg.key("gone@example.com", "ed25519", "sign", "0", "");
    let signature = gone.sign(b"tree");
    assert!(check(&ring("", &gone.public()), &signature, "tree", now()).is_ok());
    gone.revoke();
    let revoked = SignatureError::Revoked { key: gone.fingerprint.clone() };
    assert_eq!(check(&ring("", &gone.public()), &signature, "tree", now()), Err(revoked));

    // A key that may only certify, and the other keys of the file.
    let both = format!("# ours\n{}\n{}", gone.public(), old.public());
    let mut all = Keyring::default();
    assert_eq!(all.add_openpgp(&both), []);
    assert!(check(&all, &old.sign_at("20240601T000000", b"t"), "t", while_valid).is_ok());
}
