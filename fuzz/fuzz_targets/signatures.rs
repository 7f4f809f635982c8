//! Key files and signatures: a byte for the kind, then text. No panic, and nobody is trusted for what cannot be read.
#![no_main]

use gitwork::core::signature::policy::SignerPolicy;
use gitwork::core::signature::{Keyring, Moments, Signed, allowed};
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;

/// A key of nobody, so that a signature by it gets as far as it can.
const ALLOWED: &str = include_str!("../seeds/signatures/allowed_signers.keys");
const OPENPGP: &str = include_str!("../seeds/signatures/openpgp.keys");

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let at = Moments { committed: 1_700_000_000, now: 1_800_000_000 };
    match *kind {
        b'a' => {
            let (signers, problems) = allowed::read(&text, &TimeZone::UTC);
            assert!(signers.len() + problems.len() <= text.lines().count());
            assert!(problems.iter().all(|problem| !problem.message.is_empty() && problem.number > 0));
        }
        b'k' => {
            let mut ring = Keyring::default();
            let problems = ring.add_openpgp(&text);
            assert!(problems.iter().all(|problem| !problem.message.is_empty()));
        }
        b'p' => {
            if let Ok(policy) = SignerPolicy::in_file(rest) {
                let _problems = policy.problems();
            }
        }
        _ => {
            let mut ring = Keyring::default();
            ring.add_allowed_signers(ALLOWED, &TimeZone::UTC);
            ring.add_openpgp(OPENPGP);
            let signed = Signed { signature: rest.to_vec(), content: b"tree".to_vec() };
            if let Err(error) = ring.check(&signed, at) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
});
