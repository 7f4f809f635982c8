//! Check runs of a GitHub App, against a local server that says what GitHub documents: "Create an
//! installation access token for an app", "Create a check run", "Update a check run".

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gitwork_core::config::commit_status::CommitStatusConfig;
use gitwork_core::model::diagnostic::{Code, Diagnostic, Location, Scope, Span};
use gitwork_core::model::name::RepoPath;
use gitwork_forge::ForgeClient;
use gitwork_report::forge::response::Rejection;
use gitwork_report::forge::{CommitState, CommitStatus, ForgeTarget};
use gitwork_report::status::State;
use gitwork_report::status::source::SourceStatus;
use gitwork_runtime::clock::WallClock;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::reporting::source_status;
use super::server::{Forge, Seen, commit};

const TOKEN: &str = "ghs_CANARY-of-the-installation";

struct World {
    forge: Forge,
    client: ForgeClient,
    key: PathBuf,
    folder: TempDir,
}

/// A new RSA key in PEM, as GitHub makes them (PKCS#1), or in PKCS#8.
fn rsa_key(folder: &Path, name: &str, form: &str) -> PathBuf {
    let file = folder.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "rsa", "-b", "2048", "-m", form, "-N", "", "-f"])
        .arg(&file)
        .status();
    assert!(made.is_ok_and(|status| status.success()), "apt-get install openssh-client");
    file
}

impl World {
    async fn new() -> World {
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let forge = Forge::start().await;
        let folder = tempfile::tempdir().unwrap();
        let key = rsa_key(folder.path(), "app.pem", "PEM");
        let config = json!({
            "provider": "github", "repository": "acme/fleet",
            "apiUrl": format!("http://{}/api/v3", forge.address),
            "app": { "id": "Iv1.abc", "installationId": 77, "keyFile": key.to_str().unwrap() },
        });
        let config: CommitStatusConfig = serde_json::from_value(config).unwrap();
        let target = ForgeTarget::of(&config, "file:///elsewhere").unwrap();
        let root = RepoPath::parse("fleet").unwrap();
        let client = ForgeClient::new(target, &config, &root, WallClock::system()).unwrap();
        World { forge, client, key, folder }
    }

    /// The next answer is a token that lives so long.
    fn let_in(&self, token: &str, seconds: i64) {
        let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        let body = json!({ "token": token,
            "expires_at": ends.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() });
        self.forge.answer_next(201, &[], &body.to_string());
    }

    fn take(&self, id: u64) {
        self.forge.answer_next(201, &[], &json!({ "id": id, "status": "queued" }).to_string());
    }

    async fn write(
        &self,
        state: CommitState,
        details: Option<&SourceStatus>,
    ) -> Result<(), Rejection> {
        let description = "97/100 clusters applied".to_owned();
        let status = CommitStatus { part: None, commit: commit(1), state, description };
        self.client.write(&status, details).await
    }

    fn last(&self) -> Seen {
        self.forge.seen().pop().unwrap()
    }
}

fn authorization(seen: &Seen) -> &str {
    seen.headers["authorization"].to_str().unwrap()
}

/// A source with so many errors, each on a line of its own.
fn with_findings(errors: u32) -> Arc<SourceStatus> {
    let mut status = SourceStatus::clone(&source_status(1, &[("edge-7", State::Failed)]));
    let file = RepoPath::parse("clusters/edge-7/web/a.yaml").unwrap();
    for line in 1..=errors {
        let location = Location::at(&file, Span { line, column: 3, length: 4 });
        let found = Diagnostic::new(Code::BadValue, location, Scope::Source, "wrong\u{1b}[31m");
        status.findings.push(found);
    }
    status.errors = errors as usize;
    Arc::new(status)
}

#[tokio::test]
async fn app_token_is_limited_to_checks_of_one_repository() {
    let world = World::new().await;
    world.let_in(TOKEN, 3_600);
    world.take(5);
    world.write(CommitState::Pending, None).await.unwrap();
    let seen = world.forge.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].path, "/api/v3/app/installations/77/access_tokens");
    assert_eq!(seen[0].method, "POST");
    assert_eq!(
        seen[0].body,
        json!({ "repositories": ["fleet"], "permissions": { "checks": "write" } })
    );
    // The App's token is signed with its key and is valid for ten minutes at most.
    let jwt = authorization(&seen[0]).strip_prefix("Bearer ").unwrap().to_owned();
    let (signed, signature) = jwt.rsplit_once('.').unwrap();
    let pem = fs::read(&world.key).unwrap();
    let PrivateKeyDer::Pkcs1(der) = PrivateKeyDer::from_pem_slice(&pem).unwrap() else {
        panic!("GitHub's keys are in PKCS#1")
    };
    let pair = ring::signature::RsaKeyPair::from_der(der.secret_pkcs1_der()).unwrap();
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public().as_ref());
    public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.').unwrap().1).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(claims["iss"], "Iv1.abc");
    let now = jiff::Timestamp::now().as_second();
    let (begin, end) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
    assert!(begin <= now - 30 && end > now && end - begin <= 600, "{claims}");
    // The check run.
    assert_eq!(seen[1].path, "/api/v3/repos/acme/fleet/check-runs");
    assert_eq!(authorization(&seen[1]), format!("Bearer {TOKEN}"));
    assert_eq!(seen[1].headers["x-github-api-version"], "2022-11-28");
    assert_eq!(
        seen[1].body,
        json!({
            "name": "gitwork", "head_sha": commit(1).to_string(), "status": "in_progress",
            "output": {
                "title": "97/100 clusters applied", "summary": "97&#47;100 clusters applied",
                "annotations": [],
            },
        })
    );
}

#[tokio::test]
async fn check_run_is_updated_until_complete_and_then_replaced() {
    let world = World::new().await;
    world.let_in(TOKEN, 3_600);
    let mut seen = Vec::new();
    for (state, id) in [
        (CommitState::Pending, 5),
        (CommitState::Pending, 5),
        (CommitState::Failure, 5),
        (CommitState::Success, 5),
        (CommitState::Pending, 6),
        (CommitState::Superseded, 6),
    ] {
        world.take(id);
        world.write(state, None).await.unwrap();
        let last = world.last();
        let conclusion = last.body["conclusion"].as_str().unwrap_or("-").to_owned();
        seen.push(format!(
            "{} {} {conclusion}",
            last.method,
            last.path.rsplit('/').next().unwrap()
        ));
    }
    let expected = [
        "POST check-runs -",
        "PATCH 5 -",
        "PATCH 5 failure",
        "PATCH 5 success",
        "POST check-runs -",
        "PATCH 6 cancelled",
    ];
    assert_eq!(seen, expected);
    assert_eq!(world.forge.seen().len(), 7, "one login for all of them");
}

#[tokio::test]
async fn diagnostics_become_line_annotations_in_batches() {
    let world = World::new().await;
    world.let_in(TOKEN, 3_600);
    world.take(9);
    // The second batch is lost; the next write continues from there.
    world.forge.answer_next(502, &[], "");
    let status = with_findings(120);
    let refused = world.write(CommitState::Failure, Some(&status)).await.unwrap_err();
    assert!(matches!(refused, Rejection::Later { .. }), "{refused}");
    for _ in 0..2 {
        world.forge.answer_next(200, &[], r#"{"id":9}"#);
    }
    world.write(CommitState::Failure, Some(&status)).await.unwrap();
    let seen = world.forge.seen();
    let runs: Vec<&Seen> = seen.iter().filter(|seen| seen.path.contains("check-runs")).collect();
    let annotations = |seen: &Seen| seen.body["output"]["annotations"].as_array().unwrap().clone();
    let sizes: Vec<usize> = runs.iter().map(|seen| annotations(seen).len()).collect();
    assert_eq!(sizes, [50, 50, 50, 20]);
    let mut lines: Vec<u64> = Vec::new();
    for taken in [runs[0], runs[2], runs[3]] {
        lines.extend(annotations(taken).iter().map(|one| one["start_line"].as_u64().unwrap()));
    }
    assert_eq!(lines, (1..=120).collect::<Vec<u64>>(), "each once");
    assert_eq!(
        annotations(runs[0])[0],
        json!({
            "path": "fleet/clusters/edge-7/web/a.yaml", "start_line": 1, "end_line": 1,
            "start_column": 3, "end_column": 6, "annotation_level": "failure",
            "title": Code::BadValue.id(), "message": "wrong\\u{1b}[31m",
        })
    );
    let summary = runs[0].body["output"]["summary"].as_str().unwrap();
    assert!(summary.contains("\n- edge-7/web is failed"), "{summary}");
    // Nothing is annotated twice.
    world.forge.answer_next(200, &[], r#"{"id":9}"#);
    world.write(CommitState::Success, Some(&status)).await.unwrap();
    assert_eq!(annotations(&world.last()).len(), 0);
}

#[tokio::test]
async fn app_token_is_renewed_before_expiry_and_after_rejection() {
    let world = World::new().await;
    for (token, life) in [("ghs_1", 60), ("ghs_2", 3_600)] {
        world.let_in(token, life);
        world.take(5);
        world.write(CommitState::Pending, None).await.unwrap();
        assert_eq!(authorization(&world.last()), format!("Bearer {token}"));
    }
    world.take(5);
    world.write(CommitState::Pending, None).await.unwrap();
    assert_eq!(authorization(&world.last()), "Bearer ghs_2");
    world.forge.answer_next(401, &[], r#"{"message":"you sent ghs_2"}"#);
    let refused = world.write(CommitState::Pending, None).await.unwrap_err();
    assert!(refused.to_string().contains("[token]"), "{refused}");
    world.let_in("ghs_3", 3_600);
    world.take(5);
    world.write(CommitState::Pending, None).await.unwrap();
    assert_eq!(authorization(&world.last()), "Bearer ghs_3");
}

#[tokio::test]
async fn each_app_login_failure_suggests_a_fix() {
    let world = World::new().await;
    for (code, words) in [
        (401, "check `app.id`, the key file and this machine's clock"),
        (404, "app.installationId"),
        (422, "install the App on it"),
        (403, "Checks: write"),
        (500, "later"),
    ] {
        world.forge.answer_next(code, &[], r#"{"message":"no"}"#);
        let refused = world.write(CommitState::Pending, None).await.unwrap_err();
        assert!(refused.to_string().contains(words), "{code}: {refused}");
        assert_eq!(matches!(refused, Rejection::Later { .. }), code == 500, "{refused}");
    }
    for half in ["", "{}", r#"{"token":""}"#] {
        world.forge.answer_next(201, &[], half);
        let refused = world.write(CommitState::Pending, None).await.unwrap_err();
        assert!(matches!(refused, Rejection::Later { .. }), "{refused}");
    }
    world.let_in(TOKEN, 3_600);
    world.forge.answer_next(201, &[], "{}");
    let refused = world.write(CommitState::Pending, None).await.unwrap_err();
    assert!(refused.to_string().contains("no id"), "{refused}");
    world.forge.answer_next(403, &[], r#"{"message":"Resource not accessible by integration"}"#);
    let refused = world.write(CommitState::Pending, None).await.unwrap_err();
    assert!(refused.to_string().contains("the App's permission \"Checks: write\""), "{refused}");
    // Its login is forgotten with that; without a good key there is no new one.
    for content in
        ["", "no key", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"]
    {
        fs::write(&world.key, content).unwrap();
        let refused = world.write(CommitState::Pending, None).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, Rejection::Blocked { .. }), "{text}");
        assert!(text.contains("app.pem (key of the App)"), "{text}");
    }
    // A new key counts without a restart, in either form.
    let other = rsa_key(world.folder.path(), "other.pem", "PKCS8");
    fs::copy(other, &world.key).unwrap();
    world.let_in(TOKEN, 3_600);
    world.take(5);
    world.write(CommitState::Pending, None).await.unwrap();
}
