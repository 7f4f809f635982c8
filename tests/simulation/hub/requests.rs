//! The hub as gitwork uses it.

use super::{SimulatedHub, WorkResult, unavailable};
use futures::channel::mpsc::UnboundedReceiver;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::{ObservedWork, WorkContent};
use gitwork_core::plan::record::Record;
use gitwork_hub::{Hub, HubError, HubEvent, StoredRecord};
use serde_json::Value;

fn stored((record, version): (Record, u64)) -> StoredRecord {
    StoredRecord { record, resource_version: version.to_string() }
}

impl Hub for SimulatedHub {
    fn directives<'a>(
        &'a self,
        _source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        let answer = {
            let mut state = self.lock();
            let approvals = state.approved.clone();
            state.fail_at_random().map(|()| Directives { approvals, ..Directives::default() })
        };
        Box::pin(async move { answer })
    }

    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        let answer = {
            let mut state = self.lock();
            let found = state.records.get(source).cloned();
            state.fail_at_random().map(|()| found.map(stored))
        };
        Box::pin(async move { answer })
    }

    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        let answer = {
            let mut state = self.lock();
            let there = state.records.get(source).map(|(_, version)| version.to_string());
            match state.fail_at_random() {
                Err(error) => Err(error),
                Ok(()) if there != before.map(|before| before.resource_version.clone()) => {
                    Err(HubError::Stale { key: format!("the record of {source}") })
                }
                Ok(()) => {
                    state.revision += 1;
                    let written = (record.clone(), state.revision);
                    state.records.insert(source.clone(), written.clone());
                    Ok(stored(written))
                }
            }
        };
        Box::pin(async move { answer })
    }

    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        let start = (self.clone(), source.clone(), None);
        let next = |(hub, source, events): (Self, SourceId, Option<UnboundedReceiver<_>>)| async {
            let Some(mut events) = events else {
                let (listed, events) = hub.lock().subscribe(&source);
                return Some((listed, (hub, source, Some(events))));
            };
            match events.next().await {
                Some(event) => Some((event, (hub, source, Some(events)))),
                None => {
                    let event = HubEvent::Interrupted(unavailable("the watch broke"));
                    Some((event, (hub, source, None)))
                }
            }
        };
        stream::unfold(start, next).boxed()
    }

    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        let mut state = self.lock();
        let answer = state.fail_at_random().map(|()| state.listed(source));
        Box::pin(std::future::ready(answer))
    }

    fn get<'a>(&'a self, key: &'a WorkKey) -> BoxFuture<'a, WorkResult> {
        let mut state = self.lock();
        let answer = state.fail_at_random().map(|()| state.observed(key));
        Box::pin(std::future::ready(answer))
    }

    fn content<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<WorkContent>, HubError>> {
        let mut state = self.lock();
        let work = state.works.get(key).map(|work| Value::clone(work));
        let content = work.map(WorkContent::from_manifest_work);
        let answer = state.fail_at_random().map(|()| content);
        Box::pin(std::future::ready(answer))
    }

    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, WorkResult> {
        Box::pin(async move { self.call(key, effect, commit) })
    }
}
