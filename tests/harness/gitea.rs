//! A real Gitea: a forge with pushes over HTTP and SSH, commit statuses, pages and webhooks. One
//! runs for each test process, and each test creates its own repositories on it.
//!
//! ```ignore
//! let repo = Gitea::shared().await.repository().await;
//! let commit = repo.push("main", &[("clusters/edge-7/web/a.yaml", Some("kind: ConfigMap"))]);
//! let statuses = repo.statuses(commit).await;
//! ```
#![allow(clippy::unwrap_used, clippy::panic, reason = "what is for tests fails by panicking")]

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gitwork_core::model::name::CommitId;
use gitwork_report::status_branch::StatusSummary;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::git_server::Repo;
use crate::harness::eventually;
use crate::harness::go_module::GoModule;
use crate::harness::process::{Folder, Port, Process};

const MODULE: GoModule = GoModule {
    name: "gitea",
    programs: "gitea",
    flags: &[
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        "-s -w",
        "-tags",
        "sqlite sqlite_unlock_notify",
    ],
    packages: ".",
    cgo: true,
    install: "the tests push to a real Gitea, built once from tests/gitea: install Go 1.26 or \
        newer \
        (https://go.dev/dl), a C compiler, and a network connection for its first build",
};

/// It starts in two seconds on an idle machine, most of it for SSH host keys.
const START: Duration = Duration::from_secs(300);
const PASSWORD: &str = "of-tests-only-1";
const ADMIN: &str = "root-of-tests";

static SHARED: OnceCell<Gitea> = OnceCell::const_new();

/// A running server. It ends with its parent process.
pub struct Gitea {
    url: String,
    ssh_port: u16,
    /// The admin's token.
    token: String,
    repositories: AtomicU32,
    folder: Folder,
    process: Process,
    _ports: [Port; 2],
}

/// A repository of a separate user.
pub struct GiteaRepository {
    pub gitea: &'static Gitea,
    pub owner: String,
    /// The local repository that is pushed.
    pub local: Repo,
    folder: tempfile::TempDir,
}

impl Gitea {
    /// The server of this process. The first caller starts it.
    ///
    /// # Panics
    /// If it cannot start; the message lists what to install.
    pub async fn shared() -> &'static Gitea {
        SHARED.get_or_try_init(Gitea::boot).await.unwrap_or_else(|error| panic!("{error:#}"))
    }

    async fn boot() -> Result<Gitea> {
        let built = tokio::task::spawn_blocking(|| built(|name| env::var_os(name))).await??;
        let folder = Folder::create()?;
        let ports = [Port::reserve()?, Port::reserve()?];
        let [http, ssh] = [0, 1].map(|n: usize| ports[n].number());
        let config = folder.path().join("app.ini");
        fs::write(&config, configuration(folder.path(), &built, http, ssh))?;
        let program = |arguments: &[&str]| {
            let mut command = Command::new(built.join("gitea"));
            command.arg("--config").arg(&config).args(arguments);
            command
        };
        let mut process = Process::start(program(&["web"]), "gitea", folder.path())?;
        let url = format!("http://127.0.0.1:{http}");
        let probe = || {
            let death = process.death();
            let asked = request(&url, Method::GET, "/api/healthz", None, None);
            async move {
                match (death, asked.await) {
                    (Some(death), _) => Ok(Err(anyhow!(death))),
                    (None, Ok((200, _))) => Ok(Ok(())),
                    (None, answer) => Err(format!("{answer:?}")),
                }
            }
        };
        eventually("Gitea to listen", START, probe).await??;
        let admin = |arguments: &[&str]| {
            let mut command = program(&["admin", "user"]);
            command
                .args(arguments)
                .env_clear()
                .env("PATH", env::var_os("PATH").unwrap_or_default());
            output(command.env("HOME", folder.path()))
        };
        let email = format!("{ADMIN}@gitwork.example");
        admin(&[
            "create",
            "--admin",
            "--username",
            ADMIN,
            "--email",
            &email,
            "--password",
            PASSWORD,
        ])?;
        let output =
            admin(&["generate-access-token", "--username", ADMIN, "--scopes", "all", "--raw"])?;
        // Warnings come before it.
        let token = output.lines().next_back().context("Gitea gave no token")?.trim().to_owned();
        let repositories = AtomicU32::new(0);
        let (ssh_port, _ports) = (ssh, ports);
        Ok(Gitea { url, ssh_port, token, repositories, folder, process, _ports })
    }

    /// Calls the API as the admin. The path begins after `/api/v1`.
    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let login = format!("token {}", self.token);
        let path = format!("/api/v1{path}");
        let (status, text) = request(&self.url, method, &path, Some(&login), body).await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or_default())
    }

    /// A page for a visitor without a login, once it contains this text. Gitea updates a
    /// repository's pages from a queue after a push.
    pub async fn until_page(&self, path: &str, shows: &str) -> String {
        let what = format!("{path} to show {shows:?}");
        eventually(&what, Duration::from_secs(300), || async {
            let answer = request(&self.url, Method::GET, path, None, None).await;
            let (status, text) = answer.map_err(|error| format!("{error:#}"))?;
            if status == 200 && text.contains(shows) {
                return Ok(text);
            }
            Err(format!("{status}: {}\n{text}", self.process.last_lines()))
        })
        .await
        .unwrap()
    }

    /// An empty public repository `fleet` of a new user.
    pub async fn repository(&'static self) -> GiteaRepository {
        let owner = format!("acme-{}", self.repositories.fetch_add(1, Ordering::Relaxed));
        let user = json!({
            "username": owner, "email": format!("{owner}@gitwork.example"), "password": PASSWORD,
            "must_change_password": false,
        });
        self.made("/admin/users", user).await;
        let path = format!("/admin/users/{owner}/repos");
        self.made(&path, json!({ "name": "fleet", "default_branch": "main" })).await;
        let folder = tempfile::tempdir().unwrap();
        let local = Repo::create(&folder.path().join("local.git"));
        GiteaRepository { gitea: self, owner, local, folder }
    }

    async fn made(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(Method::POST, path, Some(body)).await;
        assert_eq!(status, 201, "{path}: {answer}");
        answer
    }

    /// The line of `known_hosts` for the server.
    pub fn known_hosts(&self) -> String {
        let mut lines = String::new();
        let keys = self.folder.path().join("data/ssh");
        for entry in fs::read_dir(&keys).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "pub") {
                let key = fs::read_to_string(path).unwrap();
                lines.push_str(&format!("[127.0.0.1]:{} {}\n", self.ssh_port, key.trim()));
            }
        }
        assert!(!lines.is_empty(), "no host keys in {}", keys.display());
        lines
    }
}

impl GiteaRepository {
    pub fn http_url(&self) -> String {
        format!("{}/{}/fleet.git", self.gitea.url, self.owner)
    }

    /// As [`Self::http_url`], with the owner's password.
    pub fn push_url(&self) -> String {
        self.http_url().replace("://", &format!("://{}:{PASSWORD}@", self.owner))
    }

    pub fn ssh_url(&self) -> String {
        format!("ssh://git@127.0.0.1:{}/{}/fleet.git", self.gitea.ssh_port, self.owner)
    }

    /// The folder for files of a test.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file of a new token of the owner with these scopes.
    pub async fn token(&self, scopes: &[&str]) -> PathBuf {
        let login = format!("Basic {}", STANDARD.encode(format!("{}:{PASSWORD}", self.owner)));
        let path = format!("/api/v1/users/{}/tokens", self.owner);
        let body = json!({ "name": scopes.join(" "), "scopes": scopes });
        let made = request(&self.gitea.url, Method::POST, &path, Some(&login), Some(body)).await;
        let (status, text) = made.unwrap();
        assert_eq!(status, 201, "{text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        let file = self.folder.path().join(scopes.join("-").replace(':', "-"));
        fs::write(&file, answer["sha1"].as_str().unwrap()).unwrap();
        file
    }

    /// Adds a public key of the owner.
    pub async fn authorize(&self, public_key: &Path) {
        let key = fs::read_to_string(public_key).unwrap();
        let path = format!("/admin/users/{}/keys", self.owner);
        self.gitea.made(&path, json!({ "title": "test", "key": key.trim() })).await;
    }

    /// Commits to a branch and pushes it as the owner, over HTTP.
    pub fn push(&self, branch: &str, files: &[(&str, Option<&str>)]) -> CommitId {
        let commit = self.local.commit(branch, files);
        let place = self.push_url();
        let mut command = Command::new("git");
        command.arg("-C").arg(self.local.path()).args(["push", "--quiet", "--force", &place]);
        command.arg(format!("{commit}:refs/heads/{branch}"));
        output(command.env("GIT_TERMINAL_PROMPT", "0")).unwrap();
        commit
    }

    /// Calls the API of the repository. The path begins after its name.
    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        self.gitea.call(method, &format!("/repos/{}/fleet{path}", self.owner), body).await
    }

    /// The newest status of each context of a commit.
    pub async fn statuses(&self, commit: CommitId) -> Vec<Value> {
        let (_, answer) = self.call(Method::GET, &format!("/commits/{commit}/status"), None).await;
        answer["statuses"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until the newest status of a context of a commit is this one.
    pub async fn until_status(
        &self,
        commit: CommitId,
        context: &str,
        state: &str,
        description: &str,
    ) {
        let what = format!("the status {context} of {commit}");
        eventually(&what, Duration::from_secs(300), || async {
            let statuses = self.statuses(commit).await;
            let found = statuses.iter().find(|status| status["context"] == context);
            let found = found.ok_or_else(|| format!("there are {statuses:?}"))?;
            let is_it = found["status"] == state && found["description"] == description;
            if is_it { Ok(()) } else { Err(found.to_string()) }
        })
        .await
        .unwrap();
    }

    /// The summary on the status branch, once it has this line.
    pub async fn until_summary(&self, line: &str) -> StatusSummary {
        eventually("the summary on the status branch", Duration::from_secs(300), || async {
            let text = self.file("gitwork-status", "summary.json").await.ok_or("there is none")?;
            let summary: StatusSummary = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if summary.summary == line { Ok(summary) } else { Err(text) }
        })
        .await
        .unwrap()
    }

    /// A file of a branch, as Gitea serves it.
    pub async fn file(&self, branch: &str, file: &str) -> Option<String> {
        let path = format!("/{}/fleet/raw/branch/{branch}/{file}", self.owner);
        let (status, text) =
            request(&self.gitea.url, Method::GET, &path, None, None).await.unwrap();
        (status == 200).then_some(text)
    }
}

/// The folder with the program and the templates of its pages.
fn built(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf> {
    MODULE.built(variable, |folder| {
        let source = MODULE.source_of("code.gitea.io/gitea")?;
        for part in ["templates", "options", "public"] {
            copy(&source.join(part), &folder.join(part))?;
        }
        Ok(())
    })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).with_context(|| format!("create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let (entry, target) = (entry?, to);
        let target = target.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            // Without the mode: files of Go's module cache are read-only.
            fs::write(&target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

fn configuration(folder: &Path, built: &Path, http: u16, ssh: u16) -> String {
    let (folder, built) = (folder.display(), built.display());
    format!(
        "RUN_MODE = prod
WORK_PATH = {folder}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {http}
DOMAIN = 127.0.0.1
ROOT_URL = http://127.0.0.1:{http}/
STATIC_ROOT_PATH = {built}
APP_DATA_PATH = {folder}/data
START_SSH_SERVER = true
BUILTIN_SSH_SERVER_USER = git
SSH_USER = git
SSH_DOMAIN = 127.0.0.1
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = {ssh}
SSH_PORT = {ssh}
OFFLINE_MODE = true
LFS_START_SERVER = false
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
[repository]
ROOT = {folder}/repositories
[security]
INSTALL_LOCK = true
SECRET_KEY = of-tests-only
[service]
DISABLE_REGISTRATION = true
[webhook]
ALLOWED_HOST_LIST = loopback
[cron]
ENABLED = false
[actions]
ENABLED = false
[packages]
ENABLED = false
[session]
PROVIDER = memory
[log]
MODE = console
LEVEL = Warn
"
    )
}

fn output(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("run {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

/// Makes one request, and returns the response's status and body.
pub async fn request(
    url: &str,
    method: Method,
    path: &str,
    login: Option<&str>,
    body: Option<Value>,
) -> Result<(u16, String)> {
    let mut built = Request::builder().method(method).uri(format!("{url}{path}"));
    if let Some(login) = login {
        built = built.header("authorization", login);
    }
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let built = built.header("content-type", "application/json").body(Full::new(body.into()))?;
    let client: Client<_, Full<axum::body::Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(built).await?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await?.to_bytes();
    ensure!(body.len() < 16 * 1024 * 1024, "{path}: too long");
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
