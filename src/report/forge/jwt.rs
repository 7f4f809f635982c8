//! The JSON Web Token of a GitHub App's login, and the installation token that GitHub returns
//! (GitHub: "Generating a JSON Web Token for a GitHub App", "Create an installation access token
//! for an app").

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::request::headers;
use super::{ForgeTarget, HttpRequest};
use gitwork_core::config::commit_status::Provider;

/// GitHub accepts a lifetime of ten minutes at most, and recommends to allow a clock skew of one
/// minute.
const LIFE_SECONDS: i64 = 540;
const CLOCK_SECONDS: i64 = 60;

/// The text to sign with RS256.
pub fn to_sign(app: &str, now: Timestamp) -> String {
    let now = now.as_second();
    let head = json!({ "alg": "RS256", "typ": "JWT" });
    let claims = json!({ "iat": now - CLOCK_SECONDS, "exp": now + LIFE_SECONDS, "iss": app });
    let encoded = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}", encoded(head), encoded(claims))
}

/// Joins the text and its signature.
pub fn signed(text: &str, signature: &[u8]) -> String {
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Requests a token that may only write checks of this repository.
pub fn token_request(target: &ForgeTarget, installation: u64) -> HttpRequest {
    let name = target.repository.split_once('/').map_or("", |(_, name)| name);
    HttpRequest {
        method: "POST",
        url: format!("{}/app/installations/{installation}/access_tokens", target.api_url),
        headers: headers(Provider::Github),
        body: json!({ "repositories": [name], "permissions": { "checks": "write" } }),
    }
}

/// The token in a response, and its expiry; `None` if either is missing.
pub fn token(body: &[u8]) -> Option<(String, Timestamp)> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let text = answer.get("token")?.as_str().filter(|text| !text.is_empty())?;
    Some((text.to_owned(), answer.get("expires_at")?.as_str()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claims_are_those_that_github_documents() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let text = to_sign("Iv1.abc", now);
        let parts: Vec<Value> = text
            .split('.')
            .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!(parts[0], json!({ "alg": "RS256", "typ": "JWT" }));
        let claims =
            json!({ "iat": 1_799_999_940_i64, "exp": 1_800_000_540_i64, "iss": "Iv1.abc" });
        assert_eq!(parts[1], claims);
        assert_eq!(signed("a.b", &[0xff, 0xfe]), "a.b.__4");
    }

    #[test]
    fn incomplete_response_has_no_token() {
        let whole = br#"{"token":"ghs_1","expires_at":"2027-01-15T08:00:00Z"}"#;
        let ends = Timestamp::from_second(1_800_000_000).unwrap();
        assert_eq!(token(whole), Some(("ghs_1".into(), ends)));
        for half in [
            "",
            "{}",
            r#"{"token":"ghs_1"}"#,
            r#"{"token":"","expires_at":"2027-01-15T08:00:00Z"}"#,
        ] {
            assert_eq!(token(half.as_bytes()), None, "{half}");
        }
    }
}
