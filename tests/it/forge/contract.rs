//! What each forge documents of the request that sets a commit status: method, path, headers,
//! fields, words, lengths.

use gitwork_core::config::commit_status::Provider;
use gitwork_report::forge::CommitState::{Failure, Pending, Success, Superseded};
use gitwork_report::forge::{CommitState, CommitStatus};
use serde_json::{Value, json};

use super::server::{Forge, Seen, TOKEN, client, commit};

/// The contract of one forge.
struct Contract {
    provider: Provider,
    path: &'static str,
    authorization: (&'static str, String),
    /// Fields that must be there, with the longest text where there is a limit.
    required: &'static [(&'static str, usize)],
    optional: &'static [(&'static str, usize)],
    states: [(CommitState, &'static str); 4],
    success: u16,
}

const NO_LIMIT: usize = 100_000;

fn contracts() -> [Contract; 6] {
    [github(), gitlab(), gitea(), bitbucket_cloud(), bitbucket_data_center(), azure_devops()]
}

fn bearer() -> (&'static str, String) {
    ("authorization", format!("Bearer {TOKEN}"))
}

fn github() -> Contract {
    Contract {
        provider: Provider::Github,
        path: "/repos/acme/fleet/statuses/{sha}",
        authorization: bearer(),
        required: &[("state", 10)],
        optional: &[("target_url", NO_LIMIT), ("description", 140), ("context", 255)],
        states: [
            (Pending, "pending"),
            (Success, "success"),
            (Failure, "failure"),
            (Superseded, "error"),
        ],
        success: 201,
    }
}

fn gitlab() -> Contract {
    Contract {
        provider: Provider::Gitlab,
        path: "/projects/acme%2Ffleet/statuses/{sha}",
        authorization: ("private-token", TOKEN.into()),
        required: &[("state", 10)],
        optional: &[("target_url", 255), ("description", 255), ("name", 255)],
        states: [
            (Pending, "running"),
            (Success, "success"),
            (Failure, "failed"),
            (Superseded, "canceled"),
        ],
        success: 201,
    }
}

fn gitea() -> Contract {
    Contract {
        provider: Provider::Gitea,
        path: "/repos/acme/fleet/statuses/{sha}",
        authorization: ("authorization", format!("token {TOKEN}")),
        required: &[("state", 10)],
        optional: &[("target_url", NO_LIMIT), ("description", NO_LIMIT), ("context", 255)],
        states: [
            (Pending, "pending"),
            (Success, "success"),
            (Failure, "failure"),
            (Superseded, "warning"),
        ],
        success: 201,
    }
}

fn bitbucket_cloud() -> Contract {
    Contract {
        provider: Provider::BitbucketCloud,
        path: "/repositories/acme/fleet/commit/{sha}/statuses/build",
        authorization: bearer(),
        required: &[("state", 10), ("key", 40), ("url", NO_LIMIT)],
        optional: &[("name", 255), ("description", NO_LIMIT)],
        states: [
            (Pending, "INPROGRESS"),
            (Success, "SUCCESSFUL"),
            (Failure, "FAILED"),
            (Superseded, "STOPPED"),
        ],
        success: 201,
    }
}

fn bitbucket_data_center() -> Contract {
    Contract {
        provider: Provider::BitbucketDataCenter,
        path: "/projects/acme/repos/fleet/commits/{sha}/builds",
        authorization: bearer(),
        required: &[("state", 10), ("key", 255), ("url", 450)],
        optional: &[("name", 255), ("description", 255)],
        states: [
            (Pending, "INPROGRESS"),
            (Success, "SUCCESSFUL"),
            (Failure, "FAILED"),
            (Superseded, "CANCELLED"),
        ],
        success: 204,
    }
}

fn azure_devops() -> Contract {
    Contract {
        provider: Provider::AzureDevops,
        path: "/acme/_apis/git/repositories/fleet/commits/{sha}/statuses?api-version=6.0",
        // base64 of ":" and the token.
        authorization: ("authorization", "Basic OkNBTkFSWS10b2tlbi0xMjM0".into()),
        required: &[("state", 20), ("context", 0)],
        optional: &[("targetUrl", NO_LIMIT), ("description", NO_LIMIT)],
        states: [
            (Pending, "pending"),
            (Success, "succeeded"),
            (Failure, "failed"),
            (Superseded, "notApplicable"),
        ],
        success: 200,
    }
}

impl Contract {
    fn check(&self, seen: &Seen, word: &str) {
        let provider = self.provider;
        assert_eq!(seen.method, "POST", "{provider}");
        assert_eq!(seen.path, self.path.replace("{sha}", &commit(0xab).to_string()), "{provider}");
        let header = |name: &str| seen.headers.get(name).map(|value| value.to_str().unwrap());
        let (name, value) = &self.authorization;
        assert_eq!(header(name), Some(value.as_str()), "{provider}");
        assert_eq!(header("content-type"), Some("application/json"), "{provider}");
        assert!(header("user-agent").is_some_and(|agent| agent.starts_with("gitwork/")));
        if provider == Provider::Github {
            assert_eq!(header("accept"), Some("application/vnd.github+json"));
            assert_eq!(header("x-github-api-version"), Some("2022-11-28"));
        }
        let body = seen.body.as_object().unwrap();
        assert_eq!(body["state"], word, "{provider}");
        for (field, _) in self.required {
            assert!(body.contains_key(*field), "{provider} needs {field}: {body:?}");
        }
        for (field, value) in body {
            let known = self.required.iter().chain(self.optional).find(|(name, _)| name == field);
            let Some((_, limit)) = known else { panic!("{provider} has no field {field}") };
            match value {
                Value::String(text) => {
                    assert!(text.chars().count() <= *limit, "{provider}: {field} is too long");
                }
                Value::Object(_) if provider == Provider::AzureDevops => {
                    assert_eq!(*value, json!({ "name": "gitwork", "genre": "gitops" }));
                }
                other => panic!("{provider}: {field} is {other}"),
            }
        }
    }
}

#[tokio::test]
async fn each_forge_gets_the_request_that_it_documents() {
    let forge = Forge::start().await;
    for contract in contracts() {
        let more = json!({ "targetUrl": "https://status.example/{commit}" });
        let client = client(contract.provider, &format!("http://{}", forge.address), &more);
        for (state, word) in contract.states {
            forge.answer_next(contract.success, &[], "");
            let description = "ü".repeat(1_000);
            let status = CommitStatus { part: None, commit: commit(0xab), state, description };
            client.forge.write(&status, None).await.unwrap();
            let seen = forge.seen().pop().unwrap();
            contract.check(&seen, word);
            let link =
                ["target_url", "url", "targetUrl"].iter().find_map(|field| seen.body.get(*field));
            let expected = format!("https://status.example/{}", commit(0xab));
            assert_eq!(link, Some(&json!(expected)), "{}", contract.provider);
        }
    }
}

#[tokio::test]
async fn only_bitbucket_gets_a_link_when_none_is_configured() {
    let forge = Forge::start().await;
    for contract in contracts() {
        let client = client(contract.provider, &format!("http://{}", forge.address), &json!({}));
        client.forge.write(&super::server::status(Success), None).await.unwrap();
        let seen = forge.seen().pop().unwrap();
        contract.check(&seen, contract.states[1].1);
    }
}
