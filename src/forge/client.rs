//! Writes to one repository's forge: commit statuses, or check runs of a GitHub App.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::app::App;
use super::file::{FileError, read_secret};
use super::http::{ForgeError, Http, Received, authorization_header};
use gitwork_core::config::commit_status::CommitStatusConfig;
use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_report::forge::checks;
use gitwork_report::forge::checks::ANNOTATIONS_PER_REQUEST;
use gitwork_report::forge::config::Login;
use gitwork_report::forge::response;
use gitwork_report::forge::response::Rejection;
use gitwork_report::forge::{
    AddressError, CommitState, CommitStatus, ForgeTarget, HttpRequest, request,
};
use gitwork_report::status::source::SourceStatus;
use gitwork_runtime::clock::WallClock;

/// Check runs in memory, for updates. Past the limit the oldest ones are dropped.
const RUNS_MAX: usize = 1_000;

/// Writes the commit statuses of one repository.
#[derive(Debug, Clone)]
pub struct ForgeClient {
    target: ForgeTarget,
    http: Http,
    how: How,
    clock: WallClock,
}

#[derive(Debug, Clone)]
enum How {
    /// Commit statuses, with the token in this file.
    Statuses { token_file: PathBuf },
    /// Check runs of an App, with annotations in files below `root`.
    Checks { app: Arc<App>, runs: Arc<Mutex<Runs>>, root: RepoPath },
}

/// The check runs of this process, by id, commit and name.
type Runs = BTreeMap<(u64, CommitId, String), Run>;

/// A check run on the forge.
#[derive(Debug, Clone)]
struct Run {
    id: u64,
    /// A completed run is not reopened.
    completed: bool,
    /// Annotations written so far. They cannot be removed.
    annotations: usize,
}

impl ForgeClient {
    /// `root` is the source's folder in the repository. `clock` gives the time for logins and for
    /// rate limits. Fails if the login settings are invalid.
    pub fn new(
        target: ForgeTarget,
        config: &CommitStatusConfig,
        root: &RepoPath,
        clock: WallClock,
    ) -> Result<Self, AddressError> {
        let http = Http {
            ca_file: config.ca_file.as_ref().map(PathBuf::from),
            proxy: config.proxy.clone(),
        };
        let how = match Login::of(config)? {
            Login::Token(file) => How::Statuses { token_file: PathBuf::from(file) },
            Login::App(app) => How::Checks {
                app: Arc::new(App::new(app)),
                runs: Arc::default(),
                root: root.clone(),
            },
        };
        Ok(Self { target, http, how, clock })
    }

    /// The repository and its forge.
    pub fn target(&self) -> &ForgeTarget {
        &self.target
    }

    /// Writes one status. `details` is the source's state, and is used only if it is of the
    /// status's commit.
    pub async fn write(
        &self,
        status: &CommitStatus,
        details: Option<&SourceStatus>,
    ) -> Result<(), Rejection> {
        match &self.how {
            How::Statuses { token_file } => {
                let token = read_secret(token_file, "token").map_err(ForgeError::from)?;
                let login = |problem| FileError::new(token_file, "token", problem);
                self.send(&request(&self.target, status), &token, login).await.map(drop)
            }
            How::Checks { app, runs, root } => {
                let token = app.token(&self.http, &self.target, self.clock.now()).await?;
                let details = details.filter(|details| details.commit == Some(status.commit));
                let written = self.write_check(&token, runs, status, details, root).await;
                if let Err(Rejection::Blocked { .. }) = &written {
                    // For any cause: the next write logs in again.
                    app.forget();
                }
                written
            }
        }
    }

    async fn send(
        &self,
        request: &HttpRequest,
        token: &str,
        unusable: impl Fn(&'static str) -> FileError,
    ) -> Result<Received, Rejection> {
        let login = authorization_header(&self.target, token).ok_or_else(|| {
            ForgeError::from(unusable("it has characters that a header must not have"))
        })?;
        let received = self.http.exchange(request, login).await?;
        response::read(&self.target, &received.response(token), self.clock.now())?;
        Ok(received)
    }

    async fn write_check(
        &self,
        token: &str,
        runs: &Mutex<Runs>,
        status: &CommitStatus,
        details: Option<&SourceStatus>,
        root: &RepoPath,
    ) -> Result<(), Rejection> {
        let name = self.target.context_of(status);
        let key = (status.commit, name);
        let annotations = details.map_or_else(Vec::new, |it| checks::annotations(it, root));
        let is_over = status.state != CommitState::Pending;
        let before = known(runs, &key).filter(|run| is_over || !run.completed);
        let mut run = before.unwrap_or(Run { id: 0, completed: false, annotations: 0 });
        loop {
            let left = annotations.get(run.annotations..).unwrap_or_default();
            let batch = left.get(..ANNOTATIONS_PER_REQUEST).unwrap_or(left);
            let id = (run.id > 0).then_some(run.id);
            let request = checks::request(&self.target, id, status, details, batch);
            let unusable = |problem| FileError::new("".as_ref(), "token of the App", problem);
            let received = self.send(&request, token, unusable).await?;
            if id.is_none() {
                run.id = checks::id_of(&received.body).ok_or_else(|| Rejection::Later {
                    after: None,
                    message: "GitHub's response has no id of the check run".into(),
                })?;
            }
            run.completed = is_over;
            run.annotations += batch.len();
            remember(runs, &key, &run);
            if batch.len() == left.len() {
                return Ok(());
            }
        }
    }
}

fn known(runs: &Mutex<Runs>, (commit, name): &(CommitId, String)) -> Option<Run> {
    let runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = runs.iter().filter(|((_, of, named), _)| of == commit && named == name);
    found.next_back().map(|(_, run)| run.clone())
}

fn remember(runs: &Mutex<Runs>, (commit, name): &(CommitId, String), run: &Run) {
    let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
    runs.insert((run.id, *commit, name.clone()), run.clone());
    while runs.len() > RUNS_MAX {
        // Ids grow, so this is the oldest run.
        runs.pop_first();
    }
}
