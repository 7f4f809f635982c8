//! Reads a forge's response to the write of a commit status.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::ForgeTarget;
use gitwork_core::config::commit_status::Provider;
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::truncate::truncate_chars;

/// The parts of an HTTP response that matter.
#[derive(Debug, Clone, Copy)]
pub struct ForgeResponse<'a> {
    /// The HTTP status code.
    pub status: u16,
    /// `retry-after`: seconds, or a date (RFC 9110).
    pub retry_after: Option<&'a str>,
    /// GitHub's `x-ratelimit-remaining`: requests that are left.
    pub limit_remaining: Option<&'a str>,
    /// GitHub's `x-ratelimit-reset`: when the limit is renewed, in seconds since 1970.
    pub limit_reset: Option<&'a str>,
    /// The first bytes of the body.
    pub body: &'a [u8],
    /// The credentials of the request. A forge may quote them, so messages leave them out.
    pub secret: &'a str,
}

/// Why a status was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Timeout, no connection, 5xx or rate limit: a retry may succeed.
    #[error("{message}")]
    Later {
        /// The wait that the forge requests, at most an hour.
        after: Option<Duration>,
        /// What happened and what to do, for people. Has no credentials.
        message: String,
    },
    /// The operator must change something first.
    #[error("{message}")]
    Blocked {
        /// What happened and what to do, for people. Has no credentials.
        message: String,
    },
    /// The forge does not have the commit.
    #[error("{message}")]
    NoCommit {
        /// What happened and what to do, for people. Has no credentials.
        message: String,
    },
    /// The commit accepts no more statuses of this context.
    #[error("{message}")]
    Full {
        /// What happened and what to do, for people. Has no credentials.
        message: String,
    },
}

/// Upper bound of `retry-after`: a wrong clock must not stop the statuses for a day.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// Reads the response to a status write.
pub fn read(
    target: &ForgeTarget,
    response: &ForgeResponse<'_>,
    now: Timestamp,
) -> Result<(), Rejection> {
    let provider = target.provider;
    let said = said(response);
    let status = response.status;
    let with_said = |text: String| if said.is_empty() { text } else { format!("{text}: {said}") };
    let blocked = |text: String| Err(Rejection::Blocked { message: with_said(text) });
    match status {
        200..=299 => Ok(()),
        // GitLab's response if the status already has this state.
        400 if provider == Provider::Gitlab && said.contains("Cannot transition status") => Ok(()),
        300..=399 => blocked(format!(
            "{provider} redirects ({status}): set `apiUrl` to the address of the API"
        )),
        403 | 429 if is_limited(response) => later(response, now, with_said(limited(provider))),
        401 => blocked(format!(
            "{provider} does not accept the token (401): write a valid one to the token file"
        )),
        403 => blocked(format!(
            "{provider} forbids commit statuses on {} (403): the token needs {}",
            target.repository,
            target.permission()
        )),
        422 if said.contains("maximum number of statuses") => Err(Rejection::Full {
            message: with_said(format!("{provider} accepts no more statuses for this commit")),
        }),
        422 if said.contains("No commit found") => Err(Rejection::NoCommit {
            message: with_said(format!(
                "{provider} does not have this commit in {}",
                target.repository
            )),
        }),
        404 => blocked(format!(
            "{provider} has no repository {} with this commit, or the token has no access to it \
             (404): check \
             `repository`, `apiUrl` and the token, which needs {}",
            target.repository,
            target.permission()
        )),
        400 | 413 | 415 | 422 => blocked(format!("{provider} rejects the status ({status})")),
        408 | 409 | 425 | 429 | 500..=599 => later(
            response,
            now,
            with_said(format!("{provider} responds with {status}; retrying later")),
        ),
        other => blocked(format!(
            "unexpected response of {provider} to a commit status ({other}): check `provider` and \
             `apiUrl`"
        )),
    }
}

/// Reads the response to an App's login.
pub fn read_login(
    target: &ForgeTarget,
    response: &ForgeResponse<'_>,
    now: Timestamp,
) -> Result<(), Rejection> {
    let said = said(response);
    let problem = match response.status {
        401 => {
            "does not accept the App's key (401): check `app.id`, the key file and this machine's \
             clock"
        }
        404 => {
            "knows no such installation of the App (404): check `app.installationId` and `apiUrl`"
        }
        422 => {
            "issues no token of the App for this repository (422): install the App on it, with \
             the permission \
             \"Checks: write\""
        }
        _ => return read(target, response, now),
    };
    let said = if said.is_empty() { said } else { format!(": {said}") };
    Err(Rejection::Blocked { message: format!("{} {problem}{said}", target.provider) })
}

impl OperationError for Rejection {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Later { after, .. } => ErrorClass::Transient { retry_after: *after },
            Self::Blocked { .. } | Self::NoCommit { .. } | Self::Full { .. } => {
                ErrorClass::NeedsAction
            }
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Later { .. } => "ForgeUnavailable",
            Self::Blocked { .. } => "ForgeRejected",
            Self::NoCommit { .. } => "CommitMissing",
            Self::Full { .. } => "TooManyStatuses",
        }
    }
}

impl Rejection {
    /// The outcome as a metric label.
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
    format!("{provider} limits the rate of requests; retrying after the limit")
}

/// 429, and GitHub's 403 with the same meaning.
fn is_limited(response: &ForgeResponse<'_>) -> bool {
    response.status == 429
        || response.retry_after.is_some()
        || response.limit_remaining == Some("0")
}

fn later(response: &ForgeResponse<'_>, now: Timestamp, message: String) -> Result<(), Rejection> {
    let until = |then: Timestamp| {
        let seconds = then.as_second().saturating_sub(now.as_second());
        Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let asked = response.retry_after.and_then(|text| match text.trim().parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        // RFC 9110 also allows a date.
        Err(_) => rfc2822::parse(text).ok().map(|date| until(date.timestamp())),
    });
    let reset = || {
        let seconds: i64 = response.limit_reset?.trim().parse().ok()?;
        (response.limit_remaining == Some("0"))
            .then(|| Timestamp::from_second(seconds).ok().map(until))
            .flatten()
    };
    Err(Rejection::Later { after: asked.or_else(reset).map(|wait| wait.min(WAIT_MAX)), message })
}

/// The forge's message on one line: `message`, `error` or `error.message` of a JSON body.
fn said(response: &ForgeResponse<'_>) -> String {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(response.body) else {
        return String::new();
    };
    let found = ["/message", "/error/message", "/error", "/errors/0/message"]
        .iter()
        .find_map(|at| value.pointer(at)?.as_str());
    let text = found.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    // Remove the secret before the text is shortened: a part of it could stay at the end.
    let text =
        if response.secret.is_empty() { text } else { text.replace(response.secret, "[token]") };
    truncate_chars(&escape_untrusted(&text), 200).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::address::TargetSettings;

    fn read(provider: Provider, response: &ForgeResponse<'_>) -> Result<(), Rejection> {
        let settings = TargetSettings { context: "gitwork", ..TargetSettings::default() };
        let target =
            ForgeTarget::new(provider, "https://host.example/acme/fleet", &settings).unwrap();
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        super::read(&target, response, now)
    }

    fn response(status: u16, body: &[u8]) -> ForgeResponse<'_> {
        ForgeResponse {
            status,
            retry_after: None,
            limit_remaining: None,
            limit_reset: None,
            body,
            secret: "",
        }
    }

    #[test]
    fn each_response_gives_next_step() {
        use Provider::{Gitea, Github, Gitlab};
        let blocked = |status, body: &'static str, words: &str| {
            let rejection = read(Github, &response(status, body.as_bytes())).unwrap_err();
            assert!(matches!(rejection, Rejection::Blocked { .. }), "{status}: {rejection:?}");
            assert!(rejection.to_string().contains(words), "{status}: {rejection}");
        };
        assert_eq!(read(Github, &response(201, b"")), Ok(()));
        assert_eq!(read(Gitea, &response(204, b"not json")), Ok(()));
        blocked(301, "", "apiUrl");
        blocked(401, r#"{"message":"Bad credentials"}"#, "token file: Bad credentials");
        blocked(403, "", "repo:status");
        blocked(404, "", "check `repository`");
        blocked(
            422,
            r#"{"message":"Validation Failed"}"#,
            "rejects the status (422): Validation Failed",
        );
        blocked(100, "", "apiUrl");
        let transition = br#"{"message":"Cannot transition status via :run from :running"}"#;
        assert_eq!(read(Gitlab, &response(400, transition)), Ok(()));
        assert!(read(Github, &response(400, transition)).is_err());
        let full =
            br#"{"message":"This SHA and context has reached the maximum number of statuses."}"#;
        assert!(matches!(read(Github, &response(422, full)), Err(Rejection::Full { .. })));
        let gone = br#"{"message":"No commit found for SHA: abab"}"#;
        assert!(matches!(read(Github, &response(422, gone)), Err(Rejection::NoCommit { .. })));
        for status in [408, 429, 500, 502, 503, 504] {
            let rejection = read(Gitea, &response(status, b"<html>")).unwrap_err();
            assert!(matches!(rejection, Rejection::Later { after: None, .. }), "{rejection:?}");
        }
    }

    #[test]
    fn a_forge_is_asked_no_sooner_than_it_wants() {
        let wait = |response: &ForgeResponse<'_>| match read(Provider::Github, response) {
            Err(Rejection::Later { after, .. }) => after.map(|wait| wait.as_secs()),
            other => panic!("{other:?}"),
        };
        let with = |status, retry_after| ForgeResponse {
            retry_after: Some(retry_after),
            ..response(status, b"")
        };
        assert_eq!(wait(&with(429, "17")), Some(17));
        assert_eq!(wait(&with(403, "60")), Some(60));
        assert_eq!(wait(&with(503, "999999999")), Some(3_600));
        assert_eq!(wait(&with(503, "soon")), None);
        // 1_800_000_000 is 2027-01-15T08:00:00Z.
        assert_eq!(wait(&with(503, "Fri, 15 Jan 2027 08:01:30 GMT")), Some(90));
        let limited = ForgeResponse {
            limit_remaining: Some("0"),
            limit_reset: Some("1800000120"),
            ..response(403, b"")
        };
        assert_eq!(wait(&limited), Some(120));
        let past = ForgeResponse { limit_reset: Some("5"), ..limited };
        assert_eq!(wait(&past), Some(0));
    }

    #[test]
    fn message_of_forge_is_bounded_and_escaped() {
        let body = serde_json::json!({ "message": format!("\u{1b}[2J\n{}", "x".repeat(10_000)) });
        let text = said(&response(403, body.to_string().as_bytes()));
        assert!(text.chars().count() <= 200 && !text.chars().any(gitwork_yaml::is_dangerous));
    }
    #[test]
    fn quoted_secret_is_removed_from_messages() {
        let secret = "ghp_0123456789abcdefghij";
        for before in [0, 20, 170, 185, 190, 199, 300] {
            let body = format!("{{\"message\": \"{} {secret}\"}}", "x".repeat(before));
            let response = ForgeResponse { secret, ..response(401, body.as_bytes()) };
            let reported = read(Provider::Github, &response).unwrap_err().to_string();
            assert!(!reported.contains("ghp_"), "{before}: {reported}");
        }
    }
}
