//! Writes to one repository's forge: commit statuses, or the check runs of a GitHub App.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::HeaderValue;
use jiff::Timestamp;

use super::app::App;
use super::file::{FileError, read_secret};
use super::http::{ForgeError, Http, Received};
use crate::core::forge::answer::{self, Rejection};
use crate::core::forge::checks::{self, ANNOTATIONS_PER_REQUEST};
use crate::core::forge::config::Login;
use crate::core::forge::request::authorization;
use crate::core::forge::{
    AddressError, CommitState, CommitStatus, CommitStatusConfig, HttpRequest, Target, request,
};
use crate::core::name::{CommitId, RepoPath};
use crate::core::status::source::SourceStatus;

/// Check runs that are remembered, to be updated; past it the oldest commits' are forgotten.
const RUNS_MAX: usize = 1_000;

/// Writes the commit statuses of one repository.
#[derive(Debug, Clone)]
pub struct ForgeClient {
    target: Target,
    http: Http,
    how: How,
}

#[derive(Debug, Clone)]
enum How {
    /// Commit statuses, with the token of this file.
    Statuses { token_file: PathBuf },
    /// Check runs of an App, with annotations in files below `root`.
    Checks { app: Arc<App>, runs: Arc<Mutex<Runs>>, root: RepoPath },
}

/// The check runs that this process has made, by commit and name.
type Runs = BTreeMap<(u64, CommitId, String), Run>;

/// A check run on the forge.
#[derive(Debug, Clone)]
struct Run {
    id: u64,
    /// A run that is over does not begin again.
    completed: bool,
    /// Annotations are only ever added.
    annotations: usize,
}

impl ForgeClient {
    /// `root` is where the source's files are in the repository.
    pub fn new(
        target: Target,
        config: &CommitStatusConfig,
        root: &RepoPath,
    ) -> Result<Self, AddressError> {
        let http = Http {
            ca_file: config.ca_file.as_ref().map(PathBuf::from),
            proxy: config.proxy.clone(),
        };
        let how = match config.login()? {
            Login::Token(file) => How::Statuses { token_file: PathBuf::from(file) },
            Login::App(app) => How::Checks {
                app: Arc::new(App::new(app)),
                runs: Arc::default(),
                root: root.clone(),
            },
        };
        Ok(Self { target, http, how })
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Writes one status. `details` is what is known of the status's commit, where it is that commit's.
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
                let token = app.token(&self.http, &self.target).await?;
                let details = details.filter(|details| details.commit == Some(status.commit));
                let written = self.write_check(&token, runs, status, details, root).await;
                if let Err(Rejection::Blocked { .. }) = &written {
                    // Whatever was wrong with it: the next write logs in anew.
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
        let login = login(&self.target, token).ok_or_else(|| {
            ForgeError::from(unusable("it has characters that a header must not have"))
        })?;
        let received = self.http.exchange(request, login).await?;
        answer::read(&self.target, &received.answer(token), Timestamp::now())?;
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
                    message: "GitHub's answer has no id of the check run".into(),
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

/// The header to log in with; `None` where the token cannot stand in one.
pub fn login(target: &Target, token: &str) -> Option<(&'static str, HeaderValue)> {
    let (name, value) = authorization(target.provider, token);
    let mut value = HeaderValue::from_str(&value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
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
        // Ids grow.
        runs.pop_first();
    }
}
