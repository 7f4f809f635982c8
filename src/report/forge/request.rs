//! One commit status as an HTTP request. Paths, fields and words are those of the forges' REST
//! documentation: GitHub "Create a commit status", GitLab "Set commit pipeline status", Gitea `POST
//! /repos/{owner}/{repo}/statuses/{sha}`, Bitbucket Cloud "Create a build status for a commit",
//! Bitbucket Data Center `POST .../commits/{commitId}/builds`, Azure DevOps "Statuses - Create".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{CommitState, CommitStatus, ForgeTarget};
use gitwork_core::config::commit_status::Provider;
use gitwork_core::model::name::CommitId;
use gitwork_core::text::escape::escape_untrusted;
use gitwork_core::text::percent::{encoded, encoded_path};
use gitwork_core::text::truncate::truncate_chars;

/// A request without its credentials: see [`authorization`].
#[derive(Debug, Clone, PartialEq)]
pub struct HttpRequest {
    /// `POST` or `PATCH`.
    pub method: &'static str,
    /// The absolute URL, with encoded path and query.
    pub url: String,
    /// Header names are in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The JSON body.
    pub body: Value,
}

/// The request that writes a status.
pub fn request(target: &ForgeTarget, status: &CommitStatus) -> HttpRequest {
    HttpRequest {
        method: "POST",
        url: format!("{}{}", target.api_url, path(target, status.commit)),
        headers: headers(target.provider),
        body: without_nulls(body(target, status)),
    }
}

/// The path of a commit's statuses below the API's address, with its query.
fn path(target: &ForgeTarget, commit: CommitId) -> String {
    let repository = &target.repository;
    let (project, name) = repository.split_once('/').unwrap_or_default();
    let (project, name) = (encoded(project), encoded(name));
    match target.provider {
        Provider::Github | Provider::Gitea => {
            format!("/repos/{}/statuses/{commit}", encoded_path(repository))
        }
        Provider::Gitlab => format!("/projects/{}/statuses/{commit}", encoded(repository)),
        Provider::BitbucketCloud => {
            format!("/repositories/{}/commit/{commit}/statuses/build", encoded_path(repository))
        }
        Provider::BitbucketDataCenter => {
            format!("/projects/{project}/repos/{name}/commits/{commit}/builds")
        }
        Provider::AzureDevops => format!(
            "/{project}/_apis/git/repositories/{name}/commits/{commit}/statuses?api-version=6.0"
        ),
    }
}

/// The status in the fields of the forge; fields without a value are null.
fn body(target: &ForgeTarget, status: &CommitStatus) -> Value {
    let provider = target.provider;
    let (context, link) = (target.context_of(status), target.link(status.commit));
    let text = escape_untrusted(&status.description);
    let description = truncate_chars(&text, provider.description_chars_max()).into_owned();
    let mut body = json!({ "state": word(provider, status.state), "description": description });
    let rest = match provider {
        Provider::Github | Provider::Gitea => json!({ "context": context, "target_url": link }),
        Provider::Gitlab => json!({ "name": context, "target_url": link }),
        Provider::BitbucketCloud | Provider::BitbucketDataCenter => {
            json!({ "key": context, "name": context, "url": link })
        }
        Provider::AzureDevops => json!({
            "context": { "name": context, "genre": "gitops" }, "targetUrl": link,
        }),
    };
    if let (Some(body), Value::Object(rest)) = (body.as_object_mut(), rest) {
        body.extend(rest);
    }
    body
}

/// Removes fields without a value: some forges reject null.
pub(super) fn without_nulls(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    body
}

pub(super) fn headers(provider: Provider) -> Vec<(&'static str, String)> {
    // GitHub rejects requests without a user agent.
    let agent = format!("gitwork/{}", env!("CARGO_PKG_VERSION"));
    let mut headers = vec![("content-type", "application/json".to_owned()), ("user-agent", agent)];
    if provider == Provider::Github {
        headers.push(("accept", "application/vnd.github+json".to_owned()));
        headers.push(("x-github-api-version", "2022-11-28".to_owned()));
    } else {
        headers.push(("accept", "application/json".to_owned()));
    }
    headers
}

/// The header that authenticates with the content of the token file: a token, or `user:password` if
/// the forge supports it.
pub fn authorization(provider: Provider, token: &str) -> (&'static str, String) {
    let basic = |text: &str| ("authorization", format!("Basic {}", STANDARD.encode(text)));
    match provider {
        Provider::Gitlab => ("private-token", token.to_owned()),
        Provider::Gitea => ("authorization", format!("token {token}")),
        // A personal access token is the password of an empty user name.
        Provider::AzureDevops if token.contains(':') => basic(token),
        Provider::AzureDevops => basic(&format!(":{token}")),
        Provider::BitbucketCloud | Provider::BitbucketDataCenter if token.contains(':') => {
            basic(token)
        }
        Provider::Github | Provider::BitbucketCloud | Provider::BitbucketDataCenter => {
            ("authorization", format!("Bearer {token}"))
        }
    }
}

/// The forge's word for a state. No forge has one for a superseded commit: each gets the word
/// closest to "ended early", and a failure only where there is no other choice.
fn word(provider: Provider, state: CommitState) -> &'static str {
    use CommitState::{Failure, Pending, Success, Superseded};
    match provider {
        Provider::Github => match state {
            Pending => "pending",
            Success => "success",
            Failure => "failure",
            Superseded => "error",
        },
        Provider::Gitea => match state {
            Pending => "pending",
            Success => "success",
            Failure => "failure",
            Superseded => "warning",
        },
        Provider::Gitlab => match state {
            Pending => "running",
            Success => "success",
            Failure => "failed",
            Superseded => "canceled",
        },
        Provider::BitbucketCloud => match state {
            Pending => "INPROGRESS",
            Success => "SUCCESSFUL",
            Failure => "FAILED",
            Superseded => "STOPPED",
        },
        Provider::BitbucketDataCenter => match state {
            Pending => "INPROGRESS",
            Success => "SUCCESSFUL",
            Failure => "FAILED",
            Superseded => "CANCELLED",
        },
        Provider::AzureDevops => match state {
            Pending => "pending",
            Success => "succeeded",
            Failure => "failed",
            Superseded => "notApplicable",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forge::address::TargetSettings;
    use gitwork_core::model::name::CommitId;

    fn status(state: CommitState, description: &str) -> CommitStatus {
        let commit = CommitId::parse(&"ab".repeat(20)).unwrap();
        CommitStatus { part: None, commit, state, description: description.into() }
    }

    fn target(provider: Provider, url: &str) -> ForgeTarget {
        let settings = TargetSettings { context: "gitwork", ..TargetSettings::default() };
        ForgeTarget::new(provider, url, &settings).unwrap()
    }

    #[test]
    fn requests_are_as_the_forges_document_them() {
        let sha = "ab".repeat(20);
        for (provider, url, expected, body) in [
            (
                Provider::Github,
                "https://github.com/acme/fleet",
                format!("https://api.github.com/repos/acme/fleet/statuses/{sha}"),
                json!({"state": "pending", "description": "d", "context": "gitwork"}),
            ),
            (
                Provider::Gitlab,
                "https://gitlab.com/a/b/c d",
                format!("https://gitlab.com/api/v4/projects/a%2Fb%2Fc%20d/statuses/{sha}"),
                json!({"state": "running", "description": "d", "name": "gitwork"}),
            ),
            (
                Provider::Gitea,
                "https://codeberg.org/acme/fleet",
                format!("https://codeberg.org/api/v1/repos/acme/fleet/statuses/{sha}"),
                json!({"state": "pending", "description": "d", "context": "gitwork"}),
            ),
            (
                Provider::BitbucketCloud,
                "git@bitbucket.org:acme/fleet.git",
                format!(
                    "https://api.bitbucket.org/2.0/repositories/acme/fleet/commit/{sha}/statuses/\
                     build"
                ),
                json!({"state": "INPROGRESS", "description": "d", "key": "gitwork",
                       "name": "gitwork",
                       "url": format!("https://bitbucket.org/acme/fleet/commits/{sha}")}),
            ),
            (
                Provider::BitbucketDataCenter,
                "https://bb.acme.io/scm/OPS/fleet.git",
                format!(
                    "https://bb.acme.io/rest/api/latest/projects/OPS/repos/fleet/commits/{sha}/\
                     builds"
                ),
                json!({
                    "state": "INPROGRESS", "description": "d", "key": "gitwork",
                    "name": "gitwork",
                    "url": format!("https://bb.acme.io/projects/OPS/repos/fleet/commits/{sha}"),
                }),
            ),
            (
                Provider::AzureDevops,
                "https://dev.azure.com/acme/shop/_git/fleet",
                format!(
                    "https://dev.azure.com/acme/shop/_apis/git/repositories/fleet/commits/{sha}/\
                     statuses?api-version=6.0"
                ),
                json!({
                    "state": "pending", "description": "d",
                    "context": {"name": "gitwork", "genre": "gitops"},
                }),
            ),
        ] {
            let sent = request(&target(provider, url), &status(CommitState::Pending, "d"));
            assert_eq!((sent.method, sent.url, sent.body), ("POST", expected, body), "{provider}");
        }
    }

    #[test]
    fn descriptions_fit_and_command_nothing() {
        let hostile = format!("\u{1b}[31m<b>\n\u{202e}{}", "ü".repeat(500));
        for (provider, _) in Provider::ALL {
            let url = match provider {
                Provider::AzureDevops => "https://dev.azure.com/acme/shop/_git/fleet",
                _ => "https://host.example/acme/fleet",
            };
            let sent = request(&target(provider, url), &status(CommitState::Failure, &hostile));
            let description = sent.body["description"].as_str().unwrap();
            assert_eq!(description.chars().count(), provider.description_chars_max());
            assert!(!description.chars().any(gitwork_yaml::is_dangerous));
        }
    }

    #[test]
    fn each_forge_is_logged_in_to_in_its_own_way() {
        for (provider, token, header, value) in [
            (Provider::Github, "t", "authorization", "Bearer t"),
            (Provider::Gitlab, "t", "private-token", "t"),
            (Provider::Gitea, "t", "authorization", "token t"),
            (Provider::BitbucketCloud, "t", "authorization", "Bearer t"),
            (Provider::BitbucketCloud, "a:b", "authorization", "Basic YTpi"),
            (Provider::BitbucketDataCenter, "t", "authorization", "Bearer t"),
            (Provider::AzureDevops, "t", "authorization", "Basic OnQ="),
        ] {
            assert_eq!(authorization(provider, token), (header, value.to_owned()), "{provider}");
        }
    }
}
