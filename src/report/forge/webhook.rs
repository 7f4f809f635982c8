//! Authentication of a forge's webhook. The body is not interpreted: a webhook only triggers a
//! fetch.

/// The credentials of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookSignature {
    /// HMAC-SHA-256 of the body with the secret.
    Hmac([u8; 32]),
    /// The secret itself.
    Token(String),
}

/// Headers with an HMAC, in lower case, and the prefix of its digits: GitHub and Gitea, Gitea and
/// Forgejo, Bitbucket ("Validating webhook deliveries", "Webhooks", "Manage webhooks" in their
/// documentation).
const HMAC: [(&str, &str); 4] = [
    ("x-hub-signature-256", "sha256="),
    ("x-gitea-signature", ""),
    ("x-forgejo-signature", ""),
    ("x-hub-signature", "sha256="),
];

/// GitLab's header.
const TOKEN: &str = "x-gitlab-token";

/// Reads the credentials. Only the first known header counts: if it cannot be read there are no
/// credentials, regardless of the others.
pub fn proof<'a>(header: impl Fn(&str) -> Option<&'a str>) -> Option<WebhookSignature> {
    for (name, prefix) in HMAC {
        if let Some(value) = header(name) {
            return digest(value.trim().strip_prefix(prefix)?).map(WebhookSignature::Hmac);
        }
    }
    header(TOKEN).map(|token| WebhookSignature::Token(token.trim().to_owned()))
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

    fn read(headers: &[(&str, &str)]) -> Option<WebhookSignature> {
        proof(|name| headers.iter().find(|(n, _)| *n == name).map(|(_, value)| *value))
    }

    #[test]
    fn each_forges_header_is_read() {
        let hex = "0f".repeat(32);
        let hmac = Some(WebhookSignature::Hmac([0x0f; 32]));
        assert_eq!(read(&[("x-hub-signature-256", &format!("sha256={hex}"))]), hmac);
        assert_eq!(read(&[("x-gitea-signature", &hex)]), hmac);
        assert_eq!(read(&[("x-forgejo-signature", &hex.to_uppercase())]), hmac);
        assert_eq!(read(&[("x-hub-signature", &format!("sha256={hex}"))]), hmac);
        assert_eq!(read(&[("x-gitlab-token", " s ")]), Some(WebhookSignature::Token("s".into())));
    }

    #[test]
    fn unreadable_signature_is_rejected() {
        let hex = "0f".repeat(32);
        for value in ["", "sha256=", "sha1=00", "sha256=zz", &hex, &format!("sha256={hex}0")] {
            let token = ("x-gitlab-token", "s");
            assert_eq!(read(&[("x-hub-signature-256", value), token]), None, "{value:?}");
        }
        assert_eq!(read(&[("x-gitea-signature", &"ü".repeat(32))]), None);
        assert_eq!(read(&[]), None);
    }
}
