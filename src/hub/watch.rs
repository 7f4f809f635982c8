//! Follows the works of one source, and its replica sets.

use std::future::ready;
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::oneshot;

use crate::connection::HubConnection;
use crate::follow::{self, Change, Followed, Listing};
use crate::list::{self, WorkQuery, reduce};
use crate::response::{self, Verb};
use crate::work_kind::WorkKind;
use crate::{HubError, HubEvent, limits, unavailable};
use gitwork_core::model::name::SourceId;
use gitwork_kube::watch_stream::{WatchEnd, WatchStream};
use gitwork_retry::{RetryClass, log_error};

/// The events of `source`. A broken watch is opened again from its last resourceVersion. If that
/// fails, `Interrupted` has the error, and `Listed` follows once the hub answers again. Replica
/// sets come after the first list of works. A hub without their kind has none.
pub fn watch(connection: Arc<HubConnection>, source: SourceId) -> BoxStream<'static, HubEvent> {
    let (listed, on_list) = oneshot::channel();
    let mut listed = Some(listed);
    let selection = WorkQuery::works(Some(&source));
    let works = Works { connection: Arc::clone(&connection), source: source.clone(), selection };
    let works = follow::follow(works).map(move |event| {
        let is_list = matches!(event, Ok(HubEvent::Listed(_)));
        if let Some(listed) = listed.take_if(|_| is_list) {
            // Without a receiver, nobody wants the replica sets.
            let _ = listed.send(());
        }
        event.unwrap_or_else(HubEvent::Interrupted)
    });
    let sets = stream::once(on_list).flat_map(move |_| {
        let selection = WorkQuery::replica_sets();
        let sets = Works { connection: Arc::clone(&connection), source: source.clone(), selection };
        let source = source.clone();
        // Many hubs have no such kind, or let nobody read it. Without sets in Git nobody needs it,
        // and the write of a set says what is missing.
        let without_errors = move |event: Result<HubEvent, HubError>| {
            let noted = event.inspect_err(|error| {
                log_error!(debug, error, source = %source, "cannot follow the replica sets");
            });
            ready(noted.ok())
        };
        follow::follow(sets).filter_map(without_errors)
    });
    stream::select(works, sets).boxed()
}

/// The objects of one kind that a source may have written.
struct Works {
    connection: Arc<HubConnection>,
    source: SourceId,
    selection: WorkQuery,
}

impl Followed for Works {
    type Event = HubEvent;
    type Error = HubError;

    async fn list(&mut self) -> Result<Listing<HubEvent>, HubError> {
        let listed = list::list(&self.connection, &self.selection).await?;
        let event = match self.selection.kind {
            WorkKind::ManifestWork => HubEvent::Listed(listed.works),
            WorkKind::ReplicaSet => {
                let sets = listed.works.into_values();
                HubEvent::ListedSets(sets.filter(|set| set.is_ours(&self.source)).collect())
            }
        };
        Ok(Listing::last([event], listed.resource_version))
    }

    async fn open(&mut self, resource_version: &str) -> Result<Option<WatchStream>, HubError> {
        let query = format!(
            "watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={resource_version}",
            limits::HUB_WATCH.as_secs(),
        );
        self.connection.open(&self.selection.request(Verb::Watch, &query)).await
    }

    fn read(&mut self, change: Change) -> Option<HubEvent> {
        let kind = self.selection.kind;
        let (object, is_gone) = match change {
            Change::Present(object) => (object, false),
            Change::Gone(object) => (object, true),
        };
        let work = reduce(kind, object)?;
        // No selector leaves out the sets of other owners.
        let is_foreign = kind == WorkKind::ReplicaSet && !work.is_ours(&self.source);
        Some(match is_gone || is_foreign {
            true => HubEvent::Gone(work.key),
            false => HubEvent::Changed(Box::new(work)),
        })
    }

    fn error(&self, end: WatchEnd) -> HubError {
        match end {
            WatchEnd::Failed(status) => response::watch_error(&status, self.selection.kind),
            end => unavailable(follow::problem(&end)),
        }
    }

    fn retry_class(error: &HubError) -> RetryClass {
        error.retry_class()
    }
}
