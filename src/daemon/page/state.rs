//! The state of the page: follows the engines, and keeps the events for browsers.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use tokio::sync::{Semaphore, watch};

use crate::limits;
use crate::status_publisher::SourceError;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use gitwork_forge::reporter::StatusFeed;
use gitwork_report::page::{Journal, ModelChange, PageModel, SourceInfo, WorkDetail};

/// The page. Clones share their state.
#[derive(Debug, Clone)]
pub struct Page {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    published: Mutex<Published>,
    /// The newest version, for connections that wait for it.
    pub(super) news: watch::Sender<u64>,
    pub(super) followers: Arc<Semaphore>,
    /// Host names that the operator allows, besides the built-in ones.
    pub(super) hosts: Vec<String>,
}

#[derive(Debug)]
struct Published {
    model: PageModel,
    journal: Journal,
    /// The whole model of this version, as an event.
    whole: Option<(u64, Bytes)>,
}

impl Page {
    /// A page of sources without a state yet. It accepts addresses, names within a cluster, and
    /// `hosts` as host names.
    pub fn new(sources: Vec<SourceInfo>, hosts: Vec<String>) -> Self {
        let model = PageModel::new(sources);
        let (news, _) = watch::channel(model.version());
        let published = Mutex::new(Published { model, journal: Journal::default(), whole: None });
        let followers = Arc::new(Semaphore::new(limits::PAGE_FOLLOWERS_MAX));
        Self { shared: Arc::new(Shared { published, news, followers, hosts }) }
    }

    /// Follows the engine of the source with this number, until `stop` is true or the engine ends.
    pub async fn follow(
        self,
        number: usize,
        (mut feed, mut errors, mut leader): (StatusFeed, SourceError, watch::Receiver<bool>),
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let status = feed.borrow_and_update().clone();
            let why = errors.borrow_and_update().clone();
            let leads = *leader.borrow_and_update();
            self.update(|model| model.set_source_error(number, why.as_deref()));
            self.update(|model| model.set_leads(number, leads));
            if let Some(status) = status {
                self.update(|model| model.set_status(number, &status));
            }
            let changed = tokio::select! {
                changed = feed.changed() => changed,
                changed = errors.changed() => changed,
                changed = leader.changed() => changed,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            if changed.is_err() {
                return;
            }
        }
    }

    fn update(&self, change: impl FnOnce(&mut PageModel) -> ModelChange) {
        let mut published = self.lock();
        let change = change(&mut published.model);
        let version = published.model.version();
        match change {
            ModelChange::Nothing => return,
            ModelChange::Text(text) => published.journal.push(version, text),
            ModelChange::Whole => published.journal.clear(),
        }
        drop(published);
        self.shared.news.send_replace(version);
    }

    /// The events that bring a browser from version `seen` to the newest one.
    pub(super) fn missed(&self, seen: &mut Option<u64>) -> Bytes {
        let mut published = self.lock();
        let version = published.model.version();
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
                let whole = Bytes::from(event("whole", &published.model.whole()));
                published.whole = Some((version, whole.clone()));
                whole
            }
        }
    }

    /// The details of one work.
    pub(super) fn work_detail(
        &self,
        source: &str,
        cluster: &str,
        work: &str,
    ) -> Option<WorkDetail> {
        let key = WorkKey {
            cluster: ClusterName::parse_place(cluster).ok()?,
            work: WorkName::parse(work).ok()?,
        };
        let published = self.lock();
        let (info, status) = published.model.source(source)?;
        WorkDetail::of(info, status?, &key)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Published> {
        // No operation under the lock can leave the state inconsistent.
        self.shared.published.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One server-sent event. JSON has no line breaks.
pub(super) fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
