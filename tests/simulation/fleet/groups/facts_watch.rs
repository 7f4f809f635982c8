//! The way of the hub's facts to one process: lists and watches with lags, which break.

use std::time::Duration;

use futures::FutureExt;
use futures::channel::mpsc::UnboundedReceiver;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use gitwork_daemon::facts_feed::FactsEvents;
use gitwork_hub::fleet::FleetError;
use gitwork_sync::observed_facts::FactsEvent;
use tokio::time::{Instant, sleep, sleep_until};

use super::hub_facts::{FactsOnHub, Kind};
use crate::fleet::connection::Connection;

/// The state of the watch of one kind.
enum Watching {
    Begin,
    Follow(UnboundedReceiver<(Instant, FactsEvent)>),
    Broken,
}

impl Connection {
    /// Begins to follow all kinds, as the daemon asks for it.
    pub fn watch_facts(
        &self,
        facts: &FactsOnHub,
    ) -> BoxFuture<'static, Result<(FactsEvents, Option<String>), FleetError>> {
        let kinds = Kind::ALL.map(|kind| self.watch_kind(facts, kind));
        let events: FactsEvents = stream::select_all(kinds).map(Ok).boxed();
        async { Ok((events, None)) }.boxed()
    }

    fn watch_kind(&self, facts: &FactsOnHub, kind: Kind) -> BoxStream<'static, FactsEvent> {
        let start = (self.clone(), facts.clone(), Watching::Begin);
        let events = stream::unfold(start, move |(connection, facts, at)| async move {
            let (events, at) = connection.next_facts(&facts, kind, at).await;
            Some((stream::iter(events), (connection, facts, at)))
        });
        events.flatten().boxed()
    }

    async fn next_facts(
        &self,
        facts: &FactsOnHub,
        kind: Kind,
        at: Watching,
    ) -> (Vec<FactsEvent>, Watching) {
        let latency = self.latency();
        match at {
            Watching::Begin if *self.cut.borrow() => (vec![kind.interrupted()], Watching::Broken),
            Watching::Begin => {
                let (listed, events) = facts.watch(kind);
                sleep(latency).await;
                (listed, Watching::Follow(events))
            }
            Watching::Follow(mut events) => {
                let mut cut = self.cut.clone();
                let event = tokio::select! {
                    biased;
                    _ = cut.wait_for(|cut| *cut) => None,
                    event = events.next() => event,
                };
                let Some((at, event)) = event else {
                    return (vec![kind.interrupted()], Watching::Broken);
                };
                sleep_until(at + latency).await;
                (vec![event], Watching::Follow(events))
            }
            Watching::Broken => {
                sleep(Duration::from_secs(1)).await;
                let mut cut = self.cut.clone();
                let _open = cut.wait_for(|cut| !*cut).await;
                (Vec::new(), Watching::Begin)
            }
        }
    }
}
