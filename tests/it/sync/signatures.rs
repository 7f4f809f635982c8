//! Signed commits end to end: real Git servers, real keys, a real hub. What is refused changes
//! nothing there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use gitwork_api::work::ManifestWork;
use gitwork_core::config::signers::SignerKeys;
use gitwork_core::config::tenancy::Tenancy;
use gitwork_core::model::approval::listing;
use gitwork_core::model::name::CommitId;
use gitwork_core::model::name::RepoPath;
use gitwork_daemon::engine::Engine;
use gitwork_daemon::metrics::Metrics;
use gitwork_forge::reporter::StatusFeed;
use gitwork_git::{Auth, Mirrors, Reference, Remote};
use gitwork_hub::KubeHub;
use gitwork_retry::operation_error::describe;
use gitwork_source::verification::Verification;
use gitwork_source::{Source, SourceConfig, SourceLocation, Sources};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::fixture::{Sync, config_map};
use crate::git_server::signing::{Gpg, Signing, SshKey};
use crate::harness::eventually;

/// A source whose commits have to be signed, and the operator's key files.
pub struct Guarded {
    pub sync: Sync,
    pub policy: Value,
    /// The mirror, kept from one process to the next by default.
    pub cache: PathBuf,
}

impl Guarded {
    pub async fn new(clusters: usize, policy: Value) -> Self {
        // The namespace of the source's record.
        crate::deploy::installed().await;
        let sync = Sync::new(clusters).await;
        let cache = sync.folder.path().join("kept");
        std::fs::create_dir(&cache).unwrap();
        let guarded = Self { sync, policy, cache };
        guarded.allow("", "");
        guarded
    }

    fn file(&self, name: &str) -> String {
        self.sync.folder.path().join(name).display().to_string()
    }

    /// Sets the content of the operator's key files.
    pub fn allow(&self, ssh: &str, openpgp: &str) {
        std::fs::write(self.file("allowed_signers"), ssh).unwrap();
        std::fs::write(self.file("keys.asc"), openpgp).unwrap();
    }

    pub fn source(&self, cache: &Path) -> Source {
        let remote = Remote {
            url: self.sync.server.url("fleet.git"),
            auth: Auth::None,
            ca_bundle: None,
            client_certificate: None,
            proxy: None,
        };
        let repository = SourceLocation::Git {
            remote: Box::new(remote),
            reference: Reference::Branch("main".into()),
            cache: cache.to_owned(),
        };
        let id = self.sync.id.clone();
        let keys = SignerKeys {
            allowed_signers: vec![self.file("allowed_signers")],
            openpgp: if std::fs::metadata(self.file("keys.asc")).unwrap().len() > 0 {
                vec![self.file("keys.asc")]
            } else {
                Vec::new()
            },
        };
        let policy = serde_json::from_value(self.policy.clone()).unwrap();
        let verification = Verification::new(&policy, keys).unwrap();
        let config = SourceConfig {
            id,
            repository,
            path: RepoPath::root(),
            tenancy: Tenancy::default(),
            schema_checks: Default::default(),
            content_bytes_max: gitwork_core::limits::CONTENT_BYTES_MAX,
            facts: None,
        };
        let sources = Sources::new(Mirrors::default(), Timestamp::now);
        sources.open_to_sync(config).unwrap().with_verification(verification).unwrap()
    }

    pub fn engine(&self, cache: &Path, metrics: Arc<Metrics>) -> Engine {
        let hub = Arc::new(KubeHub::new(self.sync.hub.client()));
        Engine::new(hub, self.source(cache), self.sync.options(), metrics)
    }

    /// One process that makes one pass; returns its error message.
    pub async fn pass(&self) -> Result<(), String> {
        let engine = self.engine(&self.cache, Arc::default());
        engine.once().await.map(drop).map_err(|error| describe(&error))
    }

    /// The same on a machine that has never seen the repository.
    pub async fn pass_elsewhere(&self) -> Result<(), String> {
        let cache = tempfile::tempdir_in(self.sync.folder.path()).unwrap();
        let engine = self.engine(cache.path(), Arc::default());
        engine.once().await.map(drop).map_err(|error| describe(&error))
    }

    /// Commits a value of the work `web` of a cluster.
    pub fn set(&self, cluster: usize, value: &str) -> CommitId {
        self.sync.commit(&[(cluster, "web/cm.yaml", Some(&config_map("web", value)))])
    }

    /// The same, signed.
    pub fn set_by(&self, cluster: usize, value: &str, key: &dyn Signing) -> CommitId {
        self.set(cluster, value);
        self.sync.repo.sign("main", key)
    }

    /// Edits the work on the hub, and waits until the edit is reverted.
    async fn reverts_an_edit(&self, cluster: usize) {
        let patch = json!({ "spec": { "deleteOption": { "propagationPolicy": "Orphan" } } });
        self.sync.edit(cluster, "web", patch).await;
        let is_reverted = |work: Option<ManifestWork>| {
            let work = work.ok_or("it is gone")?;
            super::fixture::delete_option(&work).map_or(Ok(()), Err)
        };
        self.sync.until(cluster, "web", is_reverted).await;
    }

    pub async fn has(&self, cluster: usize, value: &str) {
        self.sync.until_value(cluster, "web", value).await;
    }
}

/// Within which the program reports what it has read.
pub const DEADLINE: Duration = Duration::from_secs(300);

pub fn ssh() -> SshKey {
    SshKey::new("ed25519", None)
}

/// A refusal names all of these.
pub fn names(refusal: &Result<(), String>, all: &[&str]) {
    let text = refusal.as_ref().unwrap_err();
    for part in all {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

/// Waits until the status reports that this commit is refused, with all of these words.
async fn until_refused(feed: &StatusFeed, commit: CommitId, words: &[String]) {
    eventually("the refusal", Duration::from_secs(300), || async {
        let reported = feed.borrow().clone().ok_or("no status is published")?;
        let error = reported.first_error.clone().unwrap_or_default();
        let all = words.iter().all(|word| error.contains(word.as_str()));
        let is_it = reported.commit == Some(commit) && reported.errors == 1 && all;
        if is_it { Ok(()) } else { Err(format!("{:?} {error}", reported.commit)) }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn unsigned_commit_is_held_and_reported_and_a_signed_one_is_applied() {
    let guarded = Guarded::new(1, json!({ "verify": "commits" })).await;
    let (ann, eve) = (ssh(), ssh());
    guarded.allow(&ann.line("ann@example.com", ""), "");
    guarded.set_by(0, "one", &ann);
    let metrics = Arc::new(Metrics::default());
    let mut engine = guarded.engine(&guarded.cache, metrics.clone());
    let (_reached, reach) = watch::channel(Arc::default());
    let feed = engine.publish_status(reach);
    let (hint, hints) = mpsc::channel(1);
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(engine.run(hints, stopped));
    guarded.has(0, "one").await;

    let refused = |value: u8| {
        let line = format!("gitwork_unverified_commit{{source=\"{}\"}} {value}\n", guarded.sync.id);
        metrics.encode().contains(&line)
    };
    assert!(refused(0), "{}", metrics.encode());
    let unsigned = guarded.set(0, "two");
    hint.send(()).await.unwrap();
    let words = [
        unsigned.to_string(),
        "signers.verify: commits of the operator".into(),
        "no signature".into(),
    ];
    until_refused(&feed, unsigned, &words).await;
    assert!(refused(1), "{}", metrics.encode());
    let by_eve = guarded.sync.repo.sign("main", &eve);
    hint.send(()).await.unwrap();
    until_refused(&feed, by_eve, &[by_eve.to_string(), eve.fingerprint()]).await;
    // The hub is kept as the last verified commit wants it, also against edits.
    guarded.reverts_an_edit(0).await;
    guarded.has(0, "one").await;

    guarded.sync.repo.commit("main", &[("README.md", Some("signed, on top of an unsigned one\n"))]);
    let on_top = guarded.sync.repo.sign("main", &ann);
    hint.send(()).await.unwrap();
    until_refused(&feed, on_top, &[by_eve.to_string()]).await;
    guarded.sync.repo.set_branch("main", unsigned);
    guarded.sync.repo.sign("main", &ann);
    hint.send(()).await.unwrap();
    guarded.has(0, "two").await;
    eventually("the end of the refusal", Duration::from_secs(300), || async {
        if refused(0) { Ok(()) } else { Err(metrics.encode()) }
    })
    .await
    .unwrap();
    stop.send_replace(true);
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn key_changes_apply_and_removed_or_expired_keys_are_rejected() {
    let guarded = Guarded::new(1, json!({ "verify": "commits" })).await;
    let (ann, bob) = (ssh(), ssh());
    let gpg = Gpg::new();
    let kim = gpg.key("Kim <kim@example.com>", "ed25519", "sign", "0", "20230101T000000");
    guarded.allow(&(ann.line("ann", "") + &bob.line("bob", "")), &kim.public());
    for (value, key) in [("1", &ann as &dyn Signing), ("2", &bob), ("3", &kim)] {
        guarded.set_by(0, value, key);
        guarded.pass().await.unwrap();
        guarded.has(0, value).await;
    }

    // Ann leaves: what she signed before stays, what she signs now is refused. Bob's key has
    // expired.
    guarded.allow(&bob.line("bob", "valid-before=\"20250101Z\""), "");
    guarded.pass().await.unwrap();
    let commit = guarded.set_by(0, "4", &ann);
    let held = guarded.pass().await;
    names(
        &held,
        &[&commit.to_string(), &ann.fingerprint(), "not among the allowed", "add the key"],
    );
    let unsigned =
        guarded.sync.repo.git2().find_commit(git2::Oid::from_bytes(&commit.0).unwrap()).unwrap();
    let parent = unsigned.parent_id(0).unwrap();
    let parent = CommitId::parse(&parent.to_string()).unwrap();
    guarded.sync.repo.set_branch("main", parent);
    let commit = guarded.set_by(0, "4", &bob);
    let held = guarded.pass().await;
    names(&held, &[&commit.to_string(), &bob.fingerprint(), "not valid after 2025-01-01"]);
    guarded.has(0, "3").await;

    // Rotation: a new key, and the commit made with the old one as long as its line holds.
    let new = ssh();
    guarded.allow(&(bob.line("bob", "") + &new.line("bob", "")), "");
    guarded.pass().await.unwrap();
    guarded.has(0, "4").await;
    guarded.allow(&new.line("bob", ""), "");
    guarded.set_by(0, "5", &new);
    guarded.pass().await.unwrap();
    guarded.has(0, "5").await;

    // A file that is not there trusts nobody, and is no reason to change anything.
    std::fs::remove_file(guarded.file("allowed_signers")).unwrap();
    guarded.set_by(0, "6", &new);
    names(&guarded.pass().await, &["allowed_signers", "allowed signers"]);
    guarded.has(0, "5").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_change_is_verified_by_the_policy_before_it() {
    let guarded = Guarded::new(1, json!({})).await;
    let ann = ssh();
    guarded.allow(&ann.line("ann", ""), "");
    let repo = &guarded.sync.repo;
    let asks = "signers: {verify: commits}\n";
    // The first start accepts the commit as it is; from then on the repository's rules apply.
    repo.commit("main", &[("gitwork.yaml", Some(asks))]);
    let first = guarded.set(0, "one");
    guarded.pass().await.unwrap();
    guarded.has(0, "one").await;

    let dropping = repo.commit("main", &[("gitwork.yaml", None)]);
    guarded.set(0, "two");
    for held in [guarded.pass().await, guarded.pass_elsewhere().await] {
        names(&held, &[&dropping.to_string(), "signers.verify: commits of gitwork.yaml"]);
    }
    guarded.has(0, "one").await;
    // So is one that makes the file unreadable, signed as it may be.
    repo.set_branch("main", first);
    repo.commit_signed("main", &[("gitwork.yaml", Some("signers: {verify: sometimes}\n"))], &ann);
    names(&guarded.pass().await, &["gitwork.yaml", "has no usable list of signers"]);

    // Signed, it goes through, and counts from then on; what came with it in one push is judged by
    // it.
    repo.set_branch("main", first);
    repo.commit_signed("main", &[("gitwork.yaml", None)], &ann);
    guarded.set(0, "two");
    guarded.pass().await.unwrap();
    guarded.has(0, "two").await;
    repo.commit("main", &[("gitwork.yaml", Some(asks))]);
    guarded.set_by(0, "three", &ann);
    let unsigned = guarded.set(0, "four");
    names(&guarded.pass().await, &[&unsigned.to_string(), "no signature"]);
    guarded.has(0, "three").await;
}

/// Straight to the branch: the second person signs an empty commit on top. Another change on top
/// does not count.
async fn second_person_signs_on_top(guarded: &Guarded, ann: &SshKey, bob: &SshKey) -> CommitId {
    let repo = &guarded.sync.repo;
    guarded.set_by(0, "three", ann);
    let straight = guarded.set_by(1, "three", bob);
    names(&guarded.pass().await, &["1 of 2 persons"]);
    repo.commit("main", &[]);
    repo.sign("main", bob);
    guarded.pass().await.unwrap();
    guarded.has(0, "three").await;
    guarded.has(1, "three").await;
    straight
}

#[tokio::test(flavor = "multi_thread")]
async fn protected_path_needs_two_signers_of_its_current_content() {
    let guarded = Guarded::new(2, json!({})).await;
    let prod = format!("clusters/{}", guarded.sync.clusters[0]);
    let rule = json!({ "paths": [prod], "signers": ["*@release"], "required": 2 });
    let guarded = Guarded { policy: json!({ "paths": [rule] }), ..guarded };
    let (ann, ann2, bob, eve) = (ssh(), ssh(), ssh(), ssh());
    let lines = ann.line("ann@release", "")
        + &ann2.line("ann@release,ann@home", "")
        + &bob.line("bob@release", "")
        + &eve.line("eve@dev", "");
    guarded.allow(&lines, "");
    let repo = &guarded.sync.repo;
    guarded.set_by(0, "one", &ann);
    guarded.set(1, "one");
    // The first commit has to satisfy the rule, too: an empty commit signs what is below it.
    names(&guarded.pass().await, &["1 of 2 persons"]);
    repo.commit("main", &[]);
    repo.sign("main", &bob);
    guarded.pass().await.unwrap();
    guarded.has(0, "one").await;
    // Elsewhere nobody has to sign.
    guarded.set(1, "two");
    guarded.pass().await.unwrap();
    guarded.has(1, "two").await;
    let base = repo.tip("main").unwrap();

    let file = guarded.sync.path(0, "web/cm.yaml");
    let (two, three) = (config_map("web", "two"), config_map("web", "three"));
    let topic = |text: &str, key: &dyn Signing| {
        repo.commit_on("topic", &[base], &[(file.as_str(), Some(text))]);
        repo.sign("topic", key)
    };
    let merge = |text: &str, key: &dyn Signing| {
        repo.set_branch("main", base);
        repo.merge("main", "topic", &[(file.as_str(), Some(text))]);
        repo.sign("main", key)
    };
    topic(&two, &ann);
    for (key, words) in [
        (&ann, "1 of 2 persons of *@release (ann@release)".to_owned()),
        (&ann2, "1 of 2 persons".into()),
        (&eve, format!("signed with {}, which is eve@dev's", eve.fingerprint())),
    ] {
        let commit = merge(&two, key);
        let held = guarded.pass().await;
        names(
            &held,
            &[&commit.to_string(), &file, &words, "signers.paths[0] of the operator", "merge it"],
        );
    }
    // What Bob merges is not what Ann signed.
    merge(&three, &bob);
    names(&guarded.pass().await, &["1 of 2 persons"]);
    guarded.has(0, "one").await;
    let merged = merge(&two, &bob);
    guarded.pass().await.unwrap();
    guarded.has(0, "two").await;

    let straight = second_person_signs_on_top(&guarded, &ann, &bob).await;
    assert_ne!(straight, merged);

    // Going back to an old commit is a change of the path, too.
    repo.set_branch("main", base);
    names(&guarded.pass().await, &["0 of 2 persons"]);
    guarded.has(0, "three").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repository_rule_protects_its_own_file() {
    let guarded = Guarded::new(1, json!({})).await;
    let (ann, bob) = (ssh(), ssh());
    guarded.allow(&(ann.line("ann", "") + &bob.line("bob", "")), "");
    let repo = &guarded.sync.repo;
    let rules = "signers:\n  paths:\n    - paths: [clusters]\n      required: 2\n";
    repo.commit("main", &[("gitwork.yaml", Some(rules))]);
    guarded.set(0, "one");
    guarded.pass().await.unwrap();
    let dropping = repo.commit_signed("main", &[("gitwork.yaml", None)], &ann);
    names(
        &guarded.pass().await,
        &[&dropping.to_string(), "gitwork.yaml has the signatures of 1 of 2"],
    );
    // The tip that the second person signs has the change as it is, and an unsigned approval below
    // it.
    let approval = format!("approvals/{}", "0".repeat(64));
    repo.commit("main", &[(&approval, Some("x\n"))]);
    names(&guarded.pass().await, &["1 of 2"]);
    repo.commit("main", &[]);
    repo.sign("main", &bob);
    guarded.pass().await.unwrap();
    // The rule went with the file: the next commit needs no signature.
    guarded.set(0, "two");
    guarded.pass().await.unwrap();
    guarded.has(0, "two").await;
}

/// The approval would release a held deletion: unsigned it is rejected, signed it is effective.
#[tokio::test(flavor = "multi_thread")]
async fn approval_in_git_needs_a_signed_commit() {
    // No rule covers the works, so that only the approval needs a signature.
    let guarded = Guarded::new(1, json!({ "paths": [{ "paths": ["nothing"] }] })).await;
    let ann = ssh();
    guarded.allow(&ann.line("ann", ""), "");
    let repo = &guarded.sync.repo;
    repo.commit("main", &[("gitwork.yaml", Some("budgets: {works: 0, percent: 0}\n"))]);
    let web = config_map("web", "one");
    let old = config_map("old", "one");
    guarded.sync.commit(&[(0, "web/cm.yaml", Some(&web)), (0, "old/cm.yaml", Some(&old))]);
    guarded.pass().await.unwrap();
    guarded.sync.commit(&[(0, "old", None)]);
    let (plan, _) = guarded.engine(&guarded.cache, Arc::default()).once().await.unwrap();
    let held = plan.held_deletions().expect("the deletion is over the budget");
    assert_eq!(held.works.len(), 1);
    let is_kept = || async {
        let old = guarded.sync.works(0).get("old").await.unwrap();
        old.metadata.deletion_timestamp.is_none()
    };
    assert!(is_kept().await);

    let approval = format!("approvals/{}", held.hash);
    let commit = repo.commit("main", &[(&approval, Some(&listing(&held.works)))]);
    names(&guarded.pass().await, &[&commit.to_string(), &approval, "no signature"]);
    assert!(is_kept().await, "an unsigned approval releases nothing");
    repo.sign("main", &ann);
    guarded.pass().await.unwrap();
    guarded.sync.until_gone(0, "old").await;
    guarded.has(0, "one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn merges_policy_verifies_first_parent_commits_only() {
    let guarded = Guarded::new(1, json!({ "verify": "merges" })).await;
    let ann = ssh();
    guarded.allow(&ann.line("ann", ""), "");
    let repo = &guarded.sync.repo;
    let first = guarded.set_by(0, "one", &ann);
    guarded.pass().await.unwrap();
    let file = guarded.sync.path(0, "web/cm.yaml");
    let two = config_map("web", "two");
    repo.commit_on("topic", &[first], &[(file.as_str(), Some(&two))]);
    let unsigned = repo.merge("main", "topic", &[(file.as_str(), Some(&two))]);
    names(
        &guarded.pass().await,
        &[&unsigned.to_string(), "signers.verify: merges of the operator"],
    );
    repo.sign("main", &ann);
    guarded.pass().await.unwrap();
    guarded.has(0, "two").await;
    let straight = guarded.set(0, "three");
    names(&guarded.pass().await, &[&straight.to_string()]);
    guarded.has(0, "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_machine_resumes_from_the_commit_recorded_on_the_hub() {
    let guarded = Guarded::new(2, json!({ "verify": "commits" })).await;
    let (ann, bob) = (ssh(), ssh());
    guarded.allow(&ann.line("ann", ""), "");
    // Nothing is on the hub: the tip has to be signed, what it builds on is taken as it is.
    let unsigned = guarded.set(0, "one");
    names(&guarded.pass_elsewhere().await, &[&unsigned.to_string(), "no signature"]);
    assert!(guarded.sync.works(0).get_opt("web").await.unwrap().is_none());
    guarded.set_by(1, "one", &ann);
    guarded.pass_elsewhere().await.unwrap();
    guarded.has(0, "one").await;

    // What was applied is not judged again, what is new is: also by a machine that sees all of it
    // the first time.
    guarded.allow(&bob.line("bob", ""), "");
    guarded.set_by(0, "two", &bob);
    guarded.pass_elsewhere().await.unwrap();
    guarded.has(0, "two").await;
    let commit = guarded.set_by(0, "three", &ann);
    names(&guarded.pass_elsewhere().await, &[&commit.to_string(), &ann.fingerprint()]);
    guarded.has(0, "two").await;
    guarded.has(1, "one").await;
}

fn run_once(guarded: &Guarded, config: &str) -> Output {
    let file = guarded.file("config.yaml");
    std::fs::write(&file, config).unwrap();
    Command::new(env!("CARGO_BIN_EXE_gitwork"))
        .args(["run", "--once", "--config", &file, "--kubeconfig"])
        .arg(guarded.sync.hub.kubeconfig_path())
        .env_remove("GITWORK_LOG")
        .output()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn program_names_commit_rule_and_key_and_exits_with_an_error() {
    let guarded = Guarded::new(1, json!({})).await;
    let (ann, eve) = (ssh(), ssh());
    let ca = "ca cert-authority ".to_owned() + &eve.public() + "\n";
    guarded.allow(&(ca + &ann.line("ann", "")), "");
    let config = |signers: &str| {
        format!(
            "cache: {}\nsources:\n  - id: {}\n    repo: {}\n    branch: main\n    signers: \
                {signers}\n    signerKeys:\n      allowedSigners: [{}]\n",
            guarded.file("program"),
            guarded.sync.id,
            guarded.sync.server.url("fleet.git"),
            guarded.file("allowed_signers"),
        )
    };
    guarded.set_by(0, "one", &ann);
    let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let done = run_once(&guarded, &config("{verify: commits}"));
    assert!(done.status.success(), "{}", text(&done));
    assert!(
        text(&done).contains("line 1 is ignored: cert-authority is not supported"),
        "{}",
        text(&done)
    );
    let commit = guarded.set_by(0, "two", &eve);
    let held = run_once(&guarded, &config("{verify: commits}"));
    assert_eq!(held.status.code(), Some(1));
    names(
        &Err(text(&held)),
        &[&commit.to_string(), "signers.verify: commits of the operator", &eve.fingerprint()],
    );
    guarded.has(0, "one").await;
    let wrong = run_once(&guarded, &config("{paths: [{paths: [a], required: 0}]}"));
    assert!(!wrong.status.success());
    assert!(text(&wrong).contains("signers.paths[0].required"), "{}", text(&wrong));
    for policy in ["warn", "follow"] {
        let refused = run_once(&guarded, &(config("{verify: commits}") + "    rewind: " + policy));
        assert_eq!(refused.status.code(), Some(1));
        let message = Err(text(&refused));
        names(
            &message,
            &["config.yaml:9:13", "sources[0].rewind", "holds rewinds", "set it to hold"],
        );
    }
}
