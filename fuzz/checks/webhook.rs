//! What forges send. Lines `name: value` are a webhook's headers; `=status`, `=retry` and the like with a body behind an
//! empty line are an answer to a commit status. A proof is one header, whole; an answer never makes gitwork wait for
//! longer than an hour, or tell the token.

use std::time::Duration;

use gitwork::core::forge::address::Settings;
use gitwork::core::forge::answer::{self, Answer, Rejection};
use gitwork::core::forge::webhook::{Proof, proof};
use gitwork::core::forge::{Provider, Target, checks, jwt};
use gitwork::core::report::is_dangerous;
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
    let answered = status.is_some_and(|status| is_answer(status, &header, body));
    is_proof(&header) || answered
}

fn is_proof<'a>(header: &impl Fn(&str) -> Option<&'a str>) -> bool {
    let found = proof(header);
    match &found {
        Some(Proof::Hmac(digest)) => {
            let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            let names = [
                "x-hub-signature-256",
                "x-gitea-signature",
                "x-forgejo-signature",
                "x-hub-signature",
            ];
            let said = names.iter().find_map(|name| header(name)).unwrap();
            let said = said.strip_prefix("sha256=").unwrap_or(said);
            assert_eq!(said.to_ascii_lowercase(), digits);
        }
        Some(Proof::Token(token)) => assert_eq!(header("x-gitlab-token"), Some(token.as_str())),
        None => {}
    }
    found.is_some()
}

fn is_answer<'a>(status: u16, header: &impl Fn(&str) -> Option<&'a str>, body: &[u8]) -> bool {
    let body = String::from_utf8_lossy(body).replace("SECRET", SECRET);
    let settings = Settings { context: "gitwork", ..Settings::default() };
    let now = Timestamp::from_second(1_800_000_000).unwrap();
    let answer = Answer {
        status,
        retry_after: header("retry-after"),
        limit_remaining: header("x-ratelimit-remaining"),
        limit_reset: header("x-ratelimit-reset"),
        body: body.as_bytes(),
        secret: SECRET,
    };
    for (provider, _) in Provider::ALL {
        let url = "https://host.example/acme/_git/fleet";
        let Ok(target) = Target::new(provider, url, &settings) else { continue };
        for read in [answer::read(&target, &answer, now), answer::read_login(&target, &answer, now)]
        {
            let Err(rejection) = read else {
                // Only an answer that says so is taken for a success; GitLab has one of its own.
                assert!((200..300).contains(&status) || provider == Provider::Gitlab, "{status}");
                continue;
            };
            let told = rejection.to_string();
            assert!(!told.is_empty() && told.chars().count() < 1_000, "{told}");
            assert!(!told.chars().any(is_dangerous), "{told:?}");
            let says = body.replace(SECRET, "").contains(&SECRET[..6]);
            assert!(says || !told.contains(&SECRET[..6]), "a part of the token: {told}");
            if let Rejection::Later { after: Some(after), .. } = rejection {
                assert!(after <= Duration::from_secs(3_600));
            }
        }
    }
    if let Some((token, _)) = jwt::token(answer.body) {
        assert!(!token.is_empty());
    }
    assert_ne!(checks::id_of(answer.body), Some(0));
    true
}
