//! Any bytes as a commit object. The signature covers everything but itself.

use gitwork_core::signature::SignatureError;
use gitwork_signatures::commit;

/// The object again, with the signature at this offset of the signed part.
fn with(content: &[u8], at: usize, signature: &[u8]) -> Vec<u8> {
    let mut object = content[..at].to_vec();
    object.extend(b"gpgsig ");
    let mut lines = signature.split_inclusive(|byte| *byte == b'\n');
    object.extend(lines.next().unwrap_or_default());
    for line in lines {
        object.push(b' ');
        object.extend(line);
    }
    object.extend(&content[at..]);
    object
}

pub fn check(bytes: &[u8]) -> bool {
    let signed = match commit::signed(bytes) {
        Ok(signed) => signed,
        Err(SignatureError::Unsigned) => {
            let mut lines = bytes.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
            assert!(!lines.any(|line| line.starts_with(b"gpgsig")));
            return false;
        }
        Err(error) => {
            assert!(matches!(error, SignatureError::Unreadable(_)), "{error}");
            return false;
        }
    };
    // There is one offset of the signature. All other bytes are signed.
    let starts = (0..=signed.content.len())
        .filter(|at| *at == 0 || signed.content.get(at - 1) == Some(&b'\n'))
        .filter(|at| with(&signed.content, *at, &signed.signature) == bytes);
    assert!(starts.count() >= 1, "what was signed and the signature are not the object");
    let rest = commit::signed(&signed.content);
    assert_eq!(rest, Err(SignatureError::Unsigned), "what was signed has no signature");
    true
}
