//! The status page: clusters and works as a matrix, for people, read only. What it shows is made in `core::page`; here
//! it is fed from the engines and served.

mod http;

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::bulletin::Trouble;
use super::reporters::Reporting;
use crate::core::forge::WebPages;
use crate::core::name::{ClusterName, WorkKey, WorkName};
use crate::core::page::{Board, Change, Detail, Journal, SourceInfo};
use crate::forge::reporter::StatusFeed;
use crate::git::Reference;
use crate::limits;
use crate::source::{Repository, SourceConfig};

/// The page. A clone is the same page.
#[derive(Debug, Clone)]
pub struct Page {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    published: Mutex<Published>,
    /// The newest version, for whoever waits for one.
    news: watch::Sender<u64>,
    followers: Arc<Semaphore>,
    /// Names under which it answers, besides those that nobody else can own.
    hosts: Vec<String>,
}

#[derive(Debug)]
struct Published {
    board: Board,
    journal: Journal,
    /// The whole of this version, as an event.
    whole: Option<(u64, Bytes)>,
}

impl Page {
    /// A page of sources of which nothing is known yet. It answers under addresses, names within a cluster, and `hosts`.
    pub fn new(sources: Vec<SourceInfo>, hosts: Vec<String>) -> Self {
        let board = Board::new(sources);
        let (news, _) = watch::channel(board.version());
        let published = Mutex::new(Published { board, journal: Journal::default(), whole: None });
        let followers = Arc::new(Semaphore::new(limits::PAGE_FOLLOWERS_MAX));
        Self { shared: Arc::new(Shared { published, news, followers, hosts }) }
    }

    /// Keeps the source of this number as its engine tells it, until `stop` is true or the engine has ended.
    pub async fn follow(
        self,
        number: usize,
        mut feed: StatusFeed,
        mut trouble: Trouble,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let status = feed.borrow_and_update().clone();
            let why = trouble.borrow_and_update().clone();
            self.update(|board| board.set_trouble(number, why.as_deref()));
            if let Some(status) = status {
                self.update(|board| board.set_status(number, &status));
            }
            let changed = tokio::select! {
                changed = feed.changed() => changed,
                changed = trouble.changed() => changed,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    /// Answers requests until `stop` is true.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        http::serve(listener, self, stop).await
    }

    fn update(&self, change: impl FnOnce(&mut Board) -> Change) {
        let mut published = self.lock();
        let change = change(&mut published.board);
        let version = published.board.version();
        match change {
            Change::Nothing => return,
            Change::Text(text) => published.journal.push(version, text),
            Change::Whole => published.journal.clear(),
        }
        drop(published);
        self.shared.news.send_replace(version);
    }

    /// What a browser that has seen the version `seen` needs for the newest one, as events.
    fn missed(&self, seen: &mut Option<u64>) -> Bytes {
        let mut published = self.lock();
        let version = published.board.version();
        if *seen == Some(version) {
            return Bytes::new();
        }
        let changes = seen.and_then(|seen| published.journal.since(seen));
        *seen = Some(version);
        if let Some(changes) = changes {
            return changes.iter().map(|change| event("change", change)).collect::<String>().into();
        }
        match &published.whole {
            Some((made, whole)) if *made == version => whole.clone(),
            _ => {
                let whole = Bytes::from(event("whole", &published.board.whole()));
                published.whole = Some((version, whole.clone()));
                whole
            }
        }
    }

    /// All that is known of one work.
    fn detail(&self, source: &str, cluster: &str, work: &str) -> Option<Detail> {
        let key = WorkKey {
            cluster: ClusterName::parse(cluster).ok()?,
            work: WorkName::parse(work).ok()?,
        };
        let published = self.lock();
        let (info, status) = published.board.source(source)?;
        Detail::of(info, status?, &key)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Published> {
        // Nothing that is done under the lock leaves it half done.
        self.shared.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One server-sent event. JSON has no line ends.
fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// What the page tells of a source whatever its state. `namespace` is the one with gitwork's own objects, where it is
/// not the usual one.
pub fn source_info(
    config: &SourceConfig,
    reporting: &Reporting,
    namespace: Option<&str>,
) -> SourceInfo {
    let (repository, reference, flag) = match &config.repository {
        Repository::Directory(folder) => (folder.display().to_string(), String::new(), None),
        Repository::Git { remote, reference, .. } => {
            let (told, flag) = told(reference);
            (remote.url.clone(), told, flag)
        }
    };
    let mut arguments = vec!["--repo".to_owned(), repository.clone()];
    arguments.extend(flag.into_iter().flatten());
    if !config.path.is_root() {
        arguments.extend(["--path".to_owned(), config.path.to_string()]);
    }
    arguments.extend(["--source-id".to_owned(), config.id.to_string()]);
    arguments
        .extend(namespace.iter().flat_map(|name| ["--namespace".to_owned(), name.to_string()]));
    let provider = reporting.commit_status.as_ref().map(|status| status.provider);
    let pages = WebPages::of(provider, &repository);
    SourceInfo { id: config.id.clone(), repository, reference, arguments, pages }
}

/// A ref in words, and as arguments.
fn told(reference: &Reference) -> (String, Option<[String; 2]>) {
    let (word, name) = match reference {
        Reference::Head => return ("HEAD".into(), None),
        Reference::Branch(name) => ("branch", name.clone()),
        Reference::Tag(name) => ("tag", name.clone()),
        Reference::Semver(range) => ("semver", range.to_string()),
        Reference::Commit(commit) => ("commit", commit.to_string()),
    };
    (format!("{word} {name}"), Some([format!("--{word}"), name]))
}
