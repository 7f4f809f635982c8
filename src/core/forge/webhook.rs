//! What a forge's webhook shows to prove that it knows the secret. What it says of a repository is not read: it is a hint
//! to fetch now, and no more.

/// The proof that a request brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// HMAC-SHA-256 of the body under the secret.
    Hmac([u8; 32]),
    /// The secret itself.
    Token(String),
}

/// Headers with an HMAC, in lower case, and what stands before its digits: GitHub and Gitea, Gitea and Forgejo,
/// Bitbucket ("Validating webhook deliveries", "Webhooks", "Manage webhooks" of their documentation).
const HMAC: [(&str, &str); 4] = [
    ("x-hub-signature-256", "sha256="),
    ("x-gitea-signature", ""),
    ("x-forgejo-signature", ""),
    ("x-hub-signature", "sha256="),
];

/// GitLab's header.
const TOKEN: &str = "x-gitlab-token";

/// Reads the proof. The first header that is there counts: one that cannot be read is no proof, whatever the others say.
pub fn proof<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<Proof> {
    for (name, prefix) in HMAC {
        if let Some(value) = header(name) {
            return digest(value.trim().strip_prefix(prefix)?).map(Proof::Hmac);
        }
    }
    header(TOKEN).map(|token| Proof::Token(token.trim().to_owned()))
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let hex = hex.as_bytes();
    if hex.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Option<Proof> {
        proof(|name| headers.iter().find(|(n, _)| *n == name).map(|(_, value)| *value))
    }

    #[test]
    fn each_forges_header_is_read() {
        let hex = "0f".repeat(32);
        let hmac = Some(Proof::Hmac([0x0f; 32]));
        assert_eq!(read(&[("x-hub-signature-256", &format!("sha256={hex}"))]), hmac);
        assert_eq!(read(&[("x-gitea-signature", &hex)]), hmac);
        assert_eq!(read(&[("x-forgejo-signature", &hex.to_uppercase())]), hmac);
        assert_eq!(read(&[("x-hub-signature", &format!("sha256={hex}"))]), hmac);
        assert_eq!(read(&[("x-gitlab-token", " s ")]), Some(Proof::Token("s".into())));
    }

    #[test]
    fn what_cannot_be_read_is_no_proof() {
        let hex = "0f".repeat(32);
        for value in ["", "sha256=", "sha1=00", "sha256=zz", &hex, &format!("sha256={hex}0")] {
            let token = ("x-gitlab-token", "s");
            assert_eq!(read(&[("x-hub-signature-256", value), token]), None, "{value:?}");
        }
        assert_eq!(read(&[("x-gitea-signature", &"ü".repeat(32))]), None);
        assert_eq!(read(&[]), None);
    }
}
