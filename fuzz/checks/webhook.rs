//! Requests and responses of forges. Lines `name: value` are a webhook's headers; `=status`,
//! `=retry` and the like, with a body after an empty line, are a response to a commit status. A
//! proof is one whole header. A response never makes gitwork wait for longer than an hour, and no
//! message has the token.

use std::time::Duration;

use gitwork_core::config::commit_status::Provider;
use gitwork_report::forge::address::TargetSettings;
use gitwork_report::forge::response;
use gitwork_report::forge::response::{ForgeResponse, Rejection};
use gitwork_report::forge::webhook::{WebhookSignature, proof};
use gitwork_report::forge::{ForgeTarget, checks, jwt};
use gitwork_yaml::is_dangerous;
use jiff::Timestamp;

const SECRET: &str = "s3cr3t-0123456789abcdef0123456789abcdef";

pub fn check(bytes: &[u8]) -> bool {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let Ok(head) = std::str::from_utf8(&bytes[..end]) else { return false };
    let body = bytes.get(end + 2..).unwrap_or_default();
    let headers: Vec<(String, &str)> = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
        .collect();
    let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, value)| *value);
    let status = header("status").and_then(|status| status.parse::<u16>().ok());
    let answered = status.is_some_and(|status| is_response(status, &header, body));
    is_proof(&header) || answered
}

fn is_proof<'a>(header: &impl Fn(&str) -> Option<&'a str>) -> bool {
    let found = proof(header);
    match &found {
        Some(WebhookSignature::Hmac(digest)) => {
            let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let names = [
                "x-hub-signature-256",
                "x-gitea-signature",
                "x-forgejo-signature",
                "x-hub-signature",
            ];
            let proof = names.iter().find_map(|name| header(name)).unwrap();
            let proof = proof.strip_prefix("sha256=").unwrap_or(proof);
            assert_eq!(proof.to_ascii_lowercase(), digits);
        }
        Some(WebhookSignature::Token(token)) => {
            assert_eq!(header("x-gitlab-token"), Some(token.as_str()));
        }
        None => {}
    }
    found.is_some()
}

fn is_response<'a>(status: u16, header: &impl Fn(&str) -> Option<&'a str>, body: &[u8]) -> bool {
    let body = String::from_utf8_lossy(body).replace("SECRET", SECRET);
    let settings = TargetSettings { context: "gitwork", ..TargetSettings::default() };
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let response = ForgeResponse {
        status,
        retry_after: header("retry-after"),
        limit_remaining: header("x-ratelimit-remaining"),
        limit_reset: header("x-ratelimit-reset"),
        body: body.as_bytes(),
        secret: SECRET,
    };
    for (provider, _) in Provider::ALL {
        let url = "https://host.example/acme/_git/fleet";
        let Ok(target) = ForgeTarget::new(provider, url, &settings) else { continue };
        for read in
            [response::read(&target, &response, now), response::read_login(&target, &response, now)]
        {
            let Err(rejection) = read else {
                // Only a response that reports success counts as one; GitLab has its own form.
                assert!((200..300).contains(&status) || provider == Provider::Gitlab, "{status}");
                continue;
            };
            let message = rejection.to_string();
            assert!(!message.is_empty() && message.chars().count() < 1_000, "{message}");
            assert!(!message.chars().any(is_dangerous), "{message:?}");
            let has_part = body.replace(SECRET, "").contains(&SECRET[..6]);
            assert!(has_part || !message.contains(&SECRET[..6]), "a part of the token: {message}");
            if let Rejection::Later { after: Some(after), .. } = rejection {
                assert!(after <= Duration::from_secs(3_600));
            }
        }
    }
    if let Some((token, _)) = jwt::token(response.body) {
        assert!(!token.is_empty());
    }
    assert_ne!(checks::id_of(response.body), Some(0));
    true
}
