//! What a forge's answer to a commit status means, and what to do about it.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::{Provider, Target};
use crate::core::report::harmless;
use crate::core::status::source::cut;

/// The parts of an HTTP answer that matter.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    pub status: u16,
    pub retry_after: Option<&'a str>,
    /// GitHub's `x-ratelimit-remaining` and `x-ratelimit-reset` (seconds since 1970).
    pub limit_remaining: Option<&'a str>,
    pub limit_reset: Option<&'a str>,
    pub body: &'a [u8],
    /// What the request logged in with: a forge may quote it, and it is told nobody.
    pub secret: &'a str,
}

/// Why a status was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Time-outs, no connection, 5xx, rate limits: the same may work later.
    #[error("{message}")]
    Later { after: Option<Duration>, message: String },
    /// Somebody has to change something first.
    #[error("{message}")]
    Blocked { message: String },
    /// The forge does not have the commit (any more).
    #[error("{message}")]
    NoCommit { message: String },
    /// The commit takes no more statuses of this context.
    #[error("{message}")]
    Full { message: String },
}

/// What a server may ask for at most: a clock that is wrong must not stop the statuses for a day.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Reads the answer to a status write.
pub fn read(target: &Target, answer: &Answer<'_>, now: Timestamp) -> Result<(), Rejection> {
    let provider = target.provider;
    let said = said(answer);
    let status = answer.status;
    let with_said = |text: String| if said.is_empty() { text } else { format!("{text}: {said}") };
    let blocked = |text: String| Err(Rejection::Blocked { message: with_said(text) });
    match status {
        200..=299 => Ok(()),
        // GitLab says this where a status is already as it is to be.
        400 if provider == Provider::Gitlab && said.contains("Cannot transition status") => Ok(()),
        300..=399 => blocked(format!(
            "{provider} redirects ({status}): name the API's own address with `apiUrl`"
        )),
        403 | 429 if is_limited(answer) => later(answer, now, with_said(limited(provider))),
        401 => blocked(format!(
            "{provider} does not accept the token (401): put a current one into the token file"
        )),
        403 => blocked(format!(
            "{provider} forbids commit statuses on {} (403): the token needs {}",
            target.repository,
            target.permission()
        )),
        422 if said.contains("maximum number of statuses") => Err(Rejection::Full {
            message: with_said(format!("{provider} takes no more statuses for this commit")),
        }),
        422 if said.contains("No commit found") => Err(Rejection::NoCommit {
            message: with_said(format!(
                "{provider} does not have this commit in {}",
                target.repository
            )),
        }),
        404 => blocked(format!(
            "{provider} has no repository {} with this commit, or the token may not see it (404): check \
             `repository`, `apiUrl` and the token, which needs {}",
            target.repository,
            target.permission()
        )),
        400 | 413 | 415 | 422 => blocked(format!("{provider} refuses the status ({status})")),
        408 | 409 | 425 | 429 | 500..=599 => later(
            answer,
            now,
            with_said(format!("{provider} answers {status}; trying again later")),
        ),
        other => blocked(format!(
            "{provider} gives an answer that a commit status does not have ({other}): check `provider` and `apiUrl`"
        )),
    }
}

/// Reads the answer to an App's login.
pub fn read_login(target: &Target, answer: &Answer<'_>, now: Timestamp) -> Result<(), Rejection> {
    let said = said(answer);
    let problem = match answer.status {
        401 => {
            "does not accept the App's key (401): check `app.id`, the key file and this machine's clock"
        }
        404 => {
            "knows no such installation of the App (404): check `app.installationId` and `apiUrl`"
        }
        422 => {
            "gives the App no token for this repository (422): install the App on it, with the permission \
             \"Checks: write\""
        }
        _ => return read(target, answer, now),
    };
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(Rejection::Blocked { message: format!("{} {problem}{said}", target.provider) })
}

impl Rejection {
    /// A word for machines.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Later { .. } => "later",
            Self::Blocked { .. } => "blocked",
            Self::NoCommit { .. } => "no_commit",
            Self::Full { .. } => "full",
        }
    }
}

fn limited(provider: Provider) -> String {
    format!("{provider} limits the rate of requests; trying again when it allows")
}

/// 429, and the 403 with which GitHub says the same.
fn is_limited(answer: &Answer<'_>) -> bool {
    answer.status == 429 || answer.retry_after.is_some() || answer.limit_remaining == Some("0")
}

fn later(answer: &Answer<'_>, now: Timestamp, message: String) -> Result<(), Rejection> {
    let until = |then: Timestamp| {
        let seconds = then.as_second().saturating_sub(now.as_second());
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let asked = answer.retry_after.and_then(|text| match text.trim().parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        // RFC 9110 allows a date, too.
        Err(_) => rfc2822::parse(text).ok().map(|date| until(date.timestamp())),
    });
    let reset = || {
        let seconds: i64 = answer.limit_reset?.trim().parse().ok()?;
        (answer.limit_remaining == Some("0"))
            .then(|| Timestamp::from_second(seconds).ok().map(until))
            .flatten()
    };
    Err(Rejection::Later { after: asked.or_else(reset).map(|wait| wait.min(WAIT_MAX)), message })
}

/// What the forge says for people, on one line: `message`, `error` or `error.message` of a JSON body.
fn said(answer: &Answer<'_>) -> String {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(answer.body) else {
        return String::new();
    };
    let found = ["/message", "/error/message", "/error", "/errors/0/message"]
        .iter()
        .find_map(|at| value.pointer(at)?.as_str());
    let text = found.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    // Before it is cut: of a secret at the end, a part would be left.
    let text = if answer.secret.is_empty() { text } else { text.replace(answer.secret, "[token]") };
    cut(&harmless(&text), 200)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::forge::address::Settings;

    fn read(provider: Provider, answer: &Answer<'_>) -> Result<(), Rejection> {
        let settings = Settings { context: "gitwork", ..Settings::default() };
        let target = Target::new(provider, "https://host.example/acme/fleet", &settings).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        super::read(&target, answer, now)
    }

    fn answer(status: u16, body: &[u8]) -> Answer<'_> {
        Answer {
            status,
            retry_after: None,
            limit_remaining: None,
            limit_reset: None,
            body,
            secret: "",
        }
    }

    #[test]
    fn each_answer_says_what_to_do() {
        use Provider::{Gitea, Github, Gitlab};
        let blocked = |status, body: &'static str, words: &str| {
            let rejection = read(Github, &answer(status, body.as_bytes())).unwrap_err();
            assert!(matches!(rejection, Rejection::Blocked { .. }), "{status}: {rejection:?}");
            assert!(rejection.to_string().contains(words), "{status}: {rejection}");
        };
        assert_eq!(read(Github, &answer(201, b"")), Ok(()));
        assert_eq!(read(Gitea, &answer(204, b"not json")), Ok(()));
        blocked(301, "", "apiUrl");
        blocked(401, r#"{"message":"Bad credentials"}"#, "token file: Bad credentials");
        blocked(403, "", "repo:status");
        blocked(404, "", "check `repository`");
        blocked(
            422,
            r#"{"message":"Validation Failed"}"#,
            "refuses the status (422): Validation Failed",
        );
        blocked(100, "", "apiUrl");
        let transition = br#"{"message":"Cannot transition status via :run from :running"}"#;
        assert_eq!(read(Gitlab, &answer(400, transition)), Ok(()));
        assert!(read(Github, &answer(400, transition)).is_err());
        let full =
            br#"{"message":"This SHA and context has reached the maximum number of statuses."}"#;
        assert!(matches!(read(Github, &answer(422, full)), Err(Rejection::Full { .. })));
        let gone = br#"{"message":"No commit found for SHA: abab"}"#;
        assert!(matches!(read(Github, &answer(422, gone)), Err(Rejection::NoCommit { .. })));
        for status in [408, 429, 500, 502, 503, 504] {
            let rejection = read(Gitea, &answer(status, b"<html>")).unwrap_err();
            assert!(matches!(rejection, Rejection::Later { after: None, .. }), "{rejection:?}");
        }
    }

    #[test]
    fn a_forge_is_asked_no_sooner_than_it_wants() {
        let wait = |answer: &Answer<'_>| match read(Provider::Github, answer) {
            Err(Rejection::Later { after, .. }) => after.map(|wait| wait.as_secs()),
            other => panic!("{other:?}"),
        };
        let with =
            |status, retry_after| Answer { retry_after: Some(retry_after), ..answer(status, b"") };
        assert_eq!(wait(&with(429, "17")), Some(17));
        assert_eq!(wait(&with(403, "60")), Some(60));
        assert_eq!(wait(&with(503, "999999999")), Some(3_600));
        assert_eq!(wait(&with(503, "soon")), None);
        // 1_800_000_000 is 2027-01-15T08:00:00Z.
        assert_eq!(wait(&with(503, "Fri, 15 Jan 2027 08:01:30 GMT")), Some(90));
        let limited = Answer {
            limit_remaining: Some("0"),
            limit_reset: Some("1800000120"),
            ..answer(403, b"")
        };
        assert_eq!(wait(&limited), Some(120));
        let past = Answer { limit_reset: Some("5"), ..limited };
        assert_eq!(wait(&past), Some(0));
    }

    #[test]
    fn what_a_forge_says_is_short_and_harmless() {
        let body = serde_json::json!({ "message": format!("\u{1b}[2J\n{}", "x".repeat(10_000)) });
        let text = said(&answer(403, body.to_string().as_bytes()));
        assert!(
            text.chars().count() <= 200 && !text.chars().any(crate::core::report::is_dangerous)
        );
    }
    #[test]
    fn no_part_of_a_secret_is_told_wherever_the_forge_quotes_it() {
        let secret = "ghp_0123456789abcdefghij";
        for before in [0, 20, 170, 185, 190, 199, 300] {
            let body = format!("{{\"message\": \"{} {secret}\"}}", "x".repeat(before));
            let answer = Answer { secret, ..answer(401, body.as_bytes()) };
            let told = read(Provider::Github, &answer).unwrap_err().to_string();
            assert!(!told.contains("ghp_"), "{before}: {told}");
        }
    }
}
