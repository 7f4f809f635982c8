//! What the commands show of a change before it is merged: what the operator's file forbids and
//! holds, and what signatures come to. No hub is needed.

use std::path::Path;
use std::process::Output;

use gitwork_core::model::name::CommitId;
use gitwork_report::outputs::OutputKind;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{clone, code, err, gitwork, out, write};
use crate::git_server::Repo;
use crate::git_server::signing::{Signing, SshKey};
use crate::output_schemas::assert_documented;
use crate::sync::fixture::config_map;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    gitwork(arguments).current_dir(folder).output().unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", err(output)))
}

/// The daemon's file beside the clone, as an operator keeps it.
fn daemon_file(sources: &Value) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "daemon.yaml", &json!({ "sources": sources }).to_string());
    let file = folder.path().join("daemon.yaml").display().to_string();
    (folder, file)
}

#[test]
fn plan_reports_policy_violations_with_file_and_line() {
    let clone = clone();
    let policy = json!([{ "paths": ["clusters/edge-1/web"], "kinds": ["ConfigMap"],
        "namespaces": ["default"] },
                        { "paths": ["clusters/edge-2/*"] }]);
    let (_kept, file) = daemon_file(&json!([
        { "id": "fleet", "repo": "https://git.example.invalid/fleet.git", "policy": policy },
    ]));
    let with = |arguments: &[&str]| {
        let all = [arguments, &["--config", &file, "--repo", "."]].concat();
        run(clone.path(), &all)
    };
    assert_eq!(code(&with(&["validate"])), Some(0), "{}", out(&with(&["validate"])));
    let secret = "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\n";
    let text = config_map("web", "one") + secret;
    write(clone.path(), "clusters/edge-1/web/cm.yaml", &text);
    let line = text.lines().position(|line| line == "kind: Secret").unwrap();
    write(clone.path(), "clusters/edge-1/other/cm.yaml", &config_map("other", "one"));
    let place = format!("clusters/edge-1/web/cm.yaml:{line}");
    let reported = ["this folder may have no Secret in the namespace default", &place];
    let folder = ["no rule of the operator's policy is for this folder", "clusters/edge-1/other"];

    let text = with(&["validate"]);
    assert_eq!(code(&text), Some(1));
    for words in reported.into_iter().chain(folder) {
        assert!(out(&text).contains(words), "{words}: {}", out(&text));
    }
    let found = json_of(&with(&["validate", "-o", "json"]));
    let all = found["diagnostics"].as_array().unwrap();
    let object = all.iter().find(|one| one["message"] == reported[0]).unwrap();
    assert_eq!(object["code"], "GW501", "{object}");
    let sarif = json_of(&with(&["validate", "-o", "sarif"])).to_string();
    assert!(sarif.contains(reported[0]) && sarif.contains("clusters/edge-1/other"), "{sarif}");

    let plan = with(&["plan", "--base", "HEAD"]);
    assert_eq!(code(&plan), Some(1));
    assert!(err(&plan).contains(reported[0]) && err(&plan).contains(&place), "{}", err(&plan));
    assert!(out(&plan).contains("! edge-1/web: cannot be read"), "{}", out(&plan));
    let comment = out(&with(&["plan", "--base", "HEAD", "-o", "markdown"]));
    assert!(comment.contains("New: 2 errors") && comment.contains("GW501"), "{comment}");
    let review = json_of(&with(&["plan", "--base", "HEAD", "-o", "json"]));
    let new = review["newDiagnostics"].as_array().unwrap();
    assert!(new.iter().any(|one| one["message"] == reported[0]), "{review}");
    let rendered = with(&["render"]);
    assert_eq!(code(&rendered), Some(1));
    assert!(!out(&rendered).contains("kind: Secret"), "{}", out(&rendered));
    // Without the file nobody knows of the policy.
    assert_eq!(code(&run(clone.path(), &["validate"])), Some(0));
}

#[test]
fn flags_override_the_daemon_config_file() {
    let clone = clone();
    let repo = clone.path().display().to_string();
    let (kept, file) = daemon_file(&json!([
        { "id": "one", "repo": repo, "path": "clusters" },
        { "id": "two", "repo": repo },
    ]));
    let elsewhere = kept.path();
    let several = run(elsewhere, &["render", "--config", &file]);
    assert_eq!(code(&several), Some(2));
    assert!(err(&several).contains("name one of one, two"), "{}", err(&several));
    let wrong = run(elsewhere, &["validate", "--config", &file, "--source-id", "twoo"]);
    assert_eq!(code(&wrong), Some(2));
    assert!(err(&wrong).contains("did you mean \"two\"?"), "{}", err(&wrong));
    let two = run(elsewhere, &["render", "--config", &file, "--source-id", "two"]);
    assert_eq!(code(&two), Some(0), "{}", err(&two));
    assert!(out(&two).contains("gitwork.dev/source: two"), "{}", out(&two));
    // The path of the file counts; a flag wins over it.
    let one = ["validate", "--config", &file, "--source-id", "one"];
    assert_eq!(code(&run(elsewhere, &one)), Some(1));
    assert_eq!(code(&run(elsewhere, &[&one[..], &["--path", "."]].concat())), Some(0));
    let broken = kept.path().join("broken.yaml");
    std::fs::write(&broken, "sources: [{repo: ., windows: {timeZone: Nowhere}}]").unwrap();
    let broken = run(elsewhere, &["plan", "--config", broken.to_str().unwrap(), "--base", "HEAD"]);
    assert_eq!(code(&broken), Some(1));
    assert!(err(&broken).contains("sources[0].windows.timeZone"), "{}", err(&broken));
    let both = ["run", "--config", &file, "--allowed-signers", "keys", "--once"];
    assert_eq!(code(&run(elsewhere, &both)), Some(2));
    let verify =
        ["plan", "--config", &file, "--source-id", "two", "--verify", "merges", "--base", "HEAD"];
    assert_eq!(code(&run(elsewhere, &verify)), Some(2));
    assert_eq!(
        code(&run(clone.path(), &["plan", "--verify", "commits", "--base", "HEAD"])),
        Some(2)
    );
}

/// A repository of signed and unsigned commits, and the operator's keys.
struct Signed {
    folder: TempDir,
    repo: Repo,
    ann: SshKey,
    bob: SshKey,
}

impl Signed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repo::create(&folder.path().join("fleet.git"));
        let [ann, bob] = [(); 2].map(|()| SshKey::new("ed25519", None));
        let keys =
            ann.line("ann@release.example.com", "") + &bob.line("bob@release.example.com", "");
        write(folder.path(), "allowed_signers", &keys);
        Self { folder, repo, ann, bob }
    }

    fn set(&self, file: &str, text: &str) -> CommitId {
        self.repo.commit("main", &[(file, Some(text))])
    }

    fn set_by(&self, file: &str, text: &str, key: &dyn Signing) -> CommitId {
        self.repo.commit_signed("main", &[(file, Some(text))], key)
    }

    fn keys(&self) -> String {
        self.folder.path().join("allowed_signers").display().to_string()
    }

    fn plan(&self, [base, head]: [CommitId; 2], more: &[&str]) -> Output {
        let cache = self.folder.path().join("cache");
        let (base, head) = (base.to_string(), head.to_string());
        let repo = self.repo.path().display().to_string();
        let mut command = gitwork(&["plan", "--repo", &repo, "--base", &base, "--head", &head]);
        command.args(more).arg("--cache").arg(cache).output().unwrap()
    }
}

const WEB: &str = "clusters/edge-1/web/cm.yaml";

#[test]
fn plan_verifies_the_signatures_of_a_range_as_the_daemon_does() {
    let signed = Signed::new();
    let keys = signed.keys();
    let operator = ["--allowed-signers", &keys, "--verify", "commits"];
    let json = |range, more: &[&str]| {
        let output = signed.plan(range, &[more, &["-o", "json"]].concat());
        assert_eq!(code(&output), Some(0), "{}", err(&output));
        let review = json_of(&output);
        assert_documented(OutputKind::PlanBase, &review, "plan --base");
        review["signatures"].clone()
    };
    let first = signed.set_by(WEB, &config_map("web", "one"), &signed.ann);
    let second = signed.set_by(WEB, &config_map("web", "two"), &signed.bob);
    assert_eq!(json([first, second], &[]), Value::Null, "nobody asks");
    let verified = json!({ "verdict": "verified", "head": second.to_string() });
    assert_eq!(json([first, second], &operator), verified);

    let unsigned = signed.set(WEB, &config_map("web", "three"));
    let eve = SshKey::new("ed25519", None);
    let foreign = signed.set_by(WEB, &config_map("web", "four"), &eve);
    let found = json([first, foreign], &operator);
    assert_eq!(found["verdict"], "refused");
    assert_eq!(found["verified"], second.to_string());
    assert_eq!(found["commit"], unsigned.to_string());
    assert_eq!(found["rule"], "signers.verify: commits of the operator");
    let found = json([unsigned, foreign], &operator);
    assert_eq!(found["commit"], foreign.to_string());
    assert_eq!(found["key"], eve.fingerprint());
    for form in ["text", "markdown"] {
        let output = signed.plan([first, foreign], &[&operator[..], &["-o", form]].concat());
        assert_eq!(code(&output), Some(0));
        for words in ["not applied", &unsigned.to_string(), "commits of the operator"] {
            assert!(out(&output).contains(words), "{words}: {}", out(&output));
        }
    }
    let gate = signed.plan([first, foreign], &[&operator[..], &["--exit-code"]].concat());
    assert_eq!(code(&gate), Some(4), "{}", out(&gate));
    let gate = signed.plan([first, second], &[&operator[..], &["--exit-code"]].concat());
    assert_eq!(code(&gate), Some(3));
}

#[test]
fn range_is_verified_by_the_policy_of_its_base() {
    let signed = Signed::new();
    let keys = signed.keys();
    let given = ["--allowed-signers", keys.as_str()];
    let policy = "signers: {paths: [{paths: [clusters/edge-*], signers: \
        ['*@release.example.com'], required: 2}]}\n";
    let base = signed.set_by("gitwork.yaml", policy, &signed.ann);
    // Dropping the rule is judged by the rule.
    signed.set_by("gitwork.yaml", "{}\n", &signed.ann);
    let head = signed.set_by(WEB, &config_map("web", "one"), &signed.ann);
    let text = out(&signed.plan([base, head], &given));
    assert!(text.contains("has the signatures of 1 of 2 persons"), "{text}");
    assert!(text.contains("signers.paths[0] of gitwork.yaml"), "{text}");
    // Without keys the plan reports that it verified nothing.
    let blind = signed.plan([base, head], &["-o", "json", "--exit-code"]);
    assert_eq!(json_of(&blind)["signatures"]["verdict"], "unchecked");
    assert_eq!(code(&blind), Some(3));
    // A second person signs what is there.
    let head = signed.repo.commit_signed("main", &[], &signed.bob);
    let found = json_of(&signed.plan([base, head], &[&given[..], &["-o", "json"]].concat()));
    assert_eq!(found["signatures"]["verdict"], "verified", "{found}");
    // The daemon's file has the same policy; its keys may be at another path here.
    let range = ["--base", &base.to_string(), "--head", &head.to_string(), "--branch", "main"];
    for (named, more) in [(keys.as_str(), &[][..]), ("/not/here", &given[..])] {
        let (_kept, file) = daemon_file(&json!([{
            "id": "fleet", "repo": signed.repo.path(), "signerKeys": { "allowedSigners": [named] },
        }]));
        let cache = signed.folder.path().join("other-cache");
        let mut command = gitwork(&["plan", "--config", &file, "-o", "json"]);
        let output = command.args(range).args(more).arg("--cache").arg(cache).output().unwrap();
        assert_eq!(json_of(&output)["signatures"]["verdict"], "verified", "{}", err(&output));
    }
}

#[test]
fn plan_shows_changes_held_by_window_and_deletions_over_budget() {
    let clone = clone();
    let windows = "windows:\n  timeZone: Europe/Berlin\n  allow: [{days: [mon, tue, wed, thu], \
        start: '09:00', end: '16:00'}]\n";
    write(clone.path(), "gitwork.yaml", windows);
    let git = |arguments: &[&str]| {
        let name = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"];
        let mut command = std::process::Command::new("git");
        assert!(
            command
                .args(name)
                .args(arguments)
                .current_dir(clone.path())
                .status()
                .unwrap()
                .success()
        );
    };
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "windows"]);
    write(clone.path(), WEB, &config_map("web", "two"));
    // A commit does not open its own window.
    std::fs::remove_file(clone.path().join("gitwork.yaml")).unwrap();
    let at = |time: &str, more: &[&str]| {
        run(clone.path(), &[&["plan", "--base", "HEAD", "--at", time], more].concat())
    };
    let (open, friday) = ("2026-11-19T09:00:00Z", "2026-11-20T18:00:00+01:00");
    let text = out(&at(friday, &[]));
    let until = "no window is open for changes until 2026-11-23T08:00:00Z";
    assert!(text.contains(&format!("1 work would wait: {until}")), "{text}");
    assert!(!out(&at(open, &[])).contains("would wait"), "{}", out(&at(open, &[])));
    let review = json_of(&at(friday, &["-o", "json"]));
    let hold = &review["holds"][0];
    assert_eq!((&hold["guard"], &hold["works"]), (&json!("window"), &json!(1)), "{review}");
    assert_eq!(hold["until"], "2026-11-23T08:00:00Z");
    assert!(out(&at(friday, &["-o", "markdown"])).contains("2026-11-23T08"), "{review}");
    assert_eq!(code(&at(friday, &["--exit-code"])), Some(4));
    assert_eq!(code(&at(open, &["--exit-code"])), Some(3));
    // The operator's windows and budget count, too.
    let deny = json!({ "deny": [{ "from": "2026-11-19", "until": "2026-11-19" }] });
    let (_kept, file) = daemon_file(&json!([{
        "id": "fleet", "repo": ".", "windows": deny, "budgets": { "works": 0, "percent": 0 },
    }]));
    let operators = ["--config", &file, "--repo", "."];
    let text = out(&at(open, &operators));
    assert!(text.contains("until 2026-11-23T08:00:00Z"), "Friday is closed here: {text}");
    std::fs::remove_dir_all(clone.path().join("clusters/edge-2")).unwrap();
    let text = out(&at(open, &operators));
    let over = "1 deletion would wait for an approval: that is more than 0 works and more than 0%";
    assert!(text.contains(over), "{text}");
    assert!(!out(&at(open, &[])).contains("deletion would wait"));
    let free = out(&at(open, &[&operators[..], &["--allow-delete-all"]].concat()));
    assert!(!free.contains("for an approval"), "{free}");
}
