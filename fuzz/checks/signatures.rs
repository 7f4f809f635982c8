//! A byte for the kind, then key files or signatures. An unreadable file trusts no key.

use gitwork_core::config::signers::SignerPolicy;
use gitwork_core::model::name::RepoPath;
use gitwork_core::signature::policy::{CompiledPolicy, PolicyOrigin};
use gitwork_core::signature::{Signed, Timestamps};
use gitwork_signatures::Keyring;
use gitwork_signatures::allowed;
use jiff::tz::TimeZone;

/// An unused key, so that a signature by it gets as far as possible.
const ALLOWED: &str = include_str!("../seeds/signatures/allowed_signers.keys");
const OPENPGP: &str = include_str!("../seeds/signatures/openpgp.keys");

pub fn check(bytes: &[u8]) -> bool {
    let Some((kind, rest)) = bytes.split_first() else { return false };
    let text = String::from_utf8_lossy(rest);
    match *kind {
        b'a' => {
            let (signers, problems) = allowed::read(&text, &TimeZone::UTC);
            assert!(signers.len() + problems.len() <= text.lines().count());
            assert!(
                problems.iter().all(|problem| !problem.message.is_empty() && problem.number > 0)
            );
            !signers.is_empty()
        }
        b'k' => {
            let mut ring = Keyring::default();
            let problems = ring.add_openpgp(&text);
            assert!(problems.iter().all(|problem| !problem.message.is_empty()));
            !ring.is_empty()
        }
        b'p' => match SignerPolicy::in_file(rest) {
            Ok(policy) => {
                let problems = policy.problems();
                match CompiledPolicy::new(&policy, PolicyOrigin::Operator) {
                    Ok(compiled) => covers_what_it_names(&policy, &compiled),
                    Err(_) => assert!(!problems.is_empty()),
                }
                true
            }
            Err(why) => {
                assert!(!why.to_string().is_empty());
                false
            }
        },
        _ => is_signature(rest),
    }
}

/// A rule without wildcards covers the file of that name, and all files in the folder of that name.
fn covers_what_it_names(policy: &SignerPolicy, compiled: &CompiledPolicy) {
    for rule in &policy.paths {
        let plain = |path: &&String| {
            let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '.');
            path.chars().all(letters) && !path.ends_with('/')
        };
        // A later `!` removes files again.
        if rule.paths.iter().any(|path| path.starts_with('!')) {
            continue;
        }
        for path in rule.paths.iter().filter(plain) {
            let named = path.strip_prefix('/').unwrap_or(path);
            let Some(file) = RepoPath::parse(named).filter(|file| file.as_str() == named) else {
                continue;
            };
            assert!(file.is_root() || compiled.covers(&file), "{file}");
            assert!(file.is_root() || compiled.covers(&file.join("in-it")), "{file}/in-it");
        }
    }
}

fn is_signature(signature: &[u8]) -> bool {
    let at = Timestamps { committed: 1_700_000_000, now: 1_800_000_000 };
    let mut ring = Keyring::default();
    ring.add_allowed_signers(ALLOWED, &TimeZone::UTC);
    ring.add_openpgp(OPENPGP);
    let signed =
        |content: &[u8]| Signed { signature: signature.to_vec(), content: content.to_vec() };
    let of_tree = ring.check(&signed(b"tree"), at);
    if let Err(error) = &of_tree {
        assert!(!error.to_string().is_empty());
    }
    // One signature is for one content, and a key ring without keys trusts no key.
    let others =
        [ring.check(&signed(b"tree "), at), Keyring::default().check(&signed(b"tree"), at)];
    assert!(of_tree.is_err() || others.iter().all(Result::is_err), "{of_tree:?}");
    others.iter().any(|other| other.as_ref().is_err_and(|error| error.key().is_some()))
}
