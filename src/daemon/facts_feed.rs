//! The facts of the hub for all engines of a process. They are read only once a source needs them.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::clock::monotonic;
use crate::limits;
use gitwork_core::model::facts::Facts;
use gitwork_hub::fleet::FleetError;
use gitwork_retry::log_error;
use gitwork_runtime::clock::WallClock;
use gitwork_sync::observed_facts::{FactsEvent, ObservedFacts, PresentFacts};

/// The events of the hub that facts follow from.
pub type FactsEvents = BoxStream<'static, Result<FactsEvent, FleetError>>;

/// Facts, with the request that they answer.
#[derive(Debug, Clone, Default)]
struct FactsAnswer {
    request: u64,
    facts: Option<Arc<Facts>>,
}

/// The facts for one engine.
#[derive(Debug, Clone)]
pub struct FactsFeed {
    answers: watch::Receiver<FactsAnswer>,
    /// The number of the last request to read everything again; 0 before the first one.
    requests: Arc<watch::Sender<u64>>,
    /// The request that the engine waits for.
    awaited: u64,
}

/// The other end of a feed.
pub struct FactsReader {
    answers: watch::Sender<FactsAnswer>,
    requests: watch::Receiver<u64>,
    clock: WallClock,
    placement_grace: Duration,
}

/// A feed and its reader. `placement_grace`: for how long the decisions of a Placement must have
/// agreed before a cluster leaves it.
pub fn facts_feed(clock: WallClock, placement_grace: Duration) -> (FactsFeed, FactsReader) {
    let (answer_sender, answers) = watch::channel(FactsAnswer::default());
    let (request_sender, requests) = watch::channel(0);
    let feed = FactsFeed { answers, requests: Arc::new(request_sender), awaited: 0 };
    (feed, FactsReader { answers: answer_sender, requests, clock, placement_grace })
}

impl FactsFeed {
    /// Asks the hub for facts, unless that was done.
    pub fn request(&mut self) {
        if self.awaited == 0 {
            self.requests.send_if_modified(|number| {
                let is_first = *number == 0;
                *number = (*number).max(1);
                is_first
            });
            self.awaited = 1;
        }
    }

    /// Asks the hub for everything again: what is known may be older than what another process has
    /// seen. Until then, there are no facts.
    pub fn request_again(&mut self) {
        if self.awaited > 0 {
            self.requests.send_modify(|number| *number += 1);
            self.awaited = *self.requests.borrow();
        }
    }

    /// The facts; `None` before the hub has answered.
    pub fn facts(&self) -> Option<Arc<Facts>> {
        let answer = self.answers.borrow();
        answer.facts.clone().filter(|_| self.awaited > 0 && answer.request >= self.awaited)
    }

    /// Waits for other facts.
    pub async fn changed(&mut self) {
        if self.answers.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl FactsReader {
    /// Reads facts from the first request on, until `stop` is true. `watch` begins to follow the
    /// hub; its second result is the hub's version.
    pub async fn run(
        mut self,
        watch: impl Fn() -> BoxFuture<'static, Result<(FactsEvents, Option<String>), FleetError>>,
        mut stop: watch::Receiver<bool>,
    ) {
        let stopped = async move { drop(stop.wait_for(|stop| *stop).await) };
        tokio::select! {
            biased;
            () = stopped => {}
            () = self.read(watch) => {}
        }
    }

    async fn read(
        &mut self,
        watch: impl Fn() -> BoxFuture<'static, Result<(FactsEvents, Option<String>), FleetError>>,
    ) {
        if self.requests.wait_for(|number| *number > 0).await.is_err() {
            return;
        }
        let mut observed = ObservedFacts::new(self.placement_grace);
        loop {
            observed.start_again();
            let request = *self.requests.borrow_and_update();
            let (mut events, version) = match watch().await {
                Ok(begun) => begun,
                Err(error) => {
                    log_error!(warn, &error, "cannot read the facts of the hub");
                    tokio::time::sleep(limits::FACTS_RETRY).await;
                    continue;
                }
            };
            if let Some(version) = version {
                observed.set_hub_version(version);
            }
            if self.follow(&mut observed, &mut events, request).await.is_none() {
                return;
            }
        }
    }

    /// Publishes facts until somebody asks again. `None` once nobody can.
    async fn follow(
        &mut self,
        observed: &mut ObservedFacts,
        events: &mut FactsEvents,
        request: u64,
    ) -> Option<()> {
        let (mut is_failing, mut pause_end) = (false, None);
        loop {
            let now = monotonic();
            let present = observed.facts(now, self.clock.now());
            let paused = pause_end.filter(|end| *end > now);
            let until = [paused, present.as_ref().and_then(|present| present.until)]
                .into_iter()
                .flatten()
                .min();
            if paused.is_none()
                && let Some(PresentFacts { facts, .. }) = present
                && self.publish(facts, request)
            {
                pause_end = Some(now + limits::FACTS_PAUSE);
            }
            is_failing &= !observed.is_complete();
            let changes = async {
                match until {
                    Some(until) => sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // The order is fixed, so that a simulation can be replayed.
                biased;
                asked = self.requests.changed() => return asked.ok(),
                () = changes => {}
                Some(event) = events.next() => {
                    observe(event, observed, &mut is_failing);
                    // Events come in bursts.
                    while let Some(Some(event)) = events.next().now_or_never() {
                        observe(event, observed, &mut is_failing);
                    }
                }
            }
        }
    }

    /// Publishes the facts, unless they say what the last ones said. Answers whether it did.
    fn publish(&self, facts: Facts, request: u64) -> bool {
        self.answers.send_if_modified(|answer| {
            let is_same = answer.facts.as_ref().is_some_and(|last| last.is_same(&facts));
            if is_same && answer.request == request {
                return false;
            }
            let last = answer.facts.clone().filter(|_| is_same);
            *answer = FactsAnswer { request, facts: last.or_else(|| Some(Arc::new(facts))) };
            true
        })
    }
}

fn observe(
    event: Result<FactsEvent, FleetError>,
    observed: &mut ObservedFacts,
    is_failing: &mut bool,
) {
    match event {
        Ok(event) => observed.observe(event),
        Err(error) if !*is_failing => {
            *is_failing = true;
            log_error!(
                warn,
                &error,
                "facts of the hub are incomplete; until that ends, no cluster leaves a group"
            );
        }
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use gitwork_core::model::facts::ClusterFacts;
    use gitwork_core::model::name::ClusterName;
    use gitwork_sync::observed_facts::ObjectEvent;

    use super::*;

    fn cluster(name: &str) -> Result<FactsEvent, FleetError> {
        let name = ClusterName::parse(name).unwrap();
        let facts = Arc::new(ClusterFacts::default());
        Ok(FactsEvent::Cluster(ObjectEvent::Listed(name, facts)))
    }

    /// The end of the lists of all kinds.
    fn listed() -> [Result<FactsEvent, FleetError>; 3] {
        [
            Ok(FactsEvent::Cluster(ObjectEvent::ListCompleted)),
            Ok(FactsEvent::Placement(ObjectEvent::ListCompleted)),
            Ok(FactsEvent::Decision(ObjectEvent::ListCompleted)),
        ]
    }

    /// The names of the clusters, once there are facts.
    async fn names(feed: &mut FactsFeed) -> Vec<String> {
        loop {
            if let Some(facts) = feed.facts() {
                return facts.managed_clusters.keys().map(ClusterName::to_string).collect();
            }
            feed.changed().await;
        }
    }

    /// The hub is read once somebody asks. A process that becomes the leader gets no older facts
    /// than those that are read after that.
    #[tokio::test]
    async fn facts_are_read_on_request_and_again_for_a_new_leader() {
        let (mut feed, reader) = facts_feed(WallClock::system(), Duration::from_secs(120));
        let mut other = feed.clone();
        let reads = Arc::new(AtomicUsize::new(0));
        let count = reads.clone();
        let watch = move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            async move {
                let events = [cluster(&format!("c{number}"))].into_iter().chain(listed());
                let events = futures::stream::iter(events).chain(futures::stream::pending());
                Ok((events.boxed(), None))
            }
            .boxed()
        };
        let (stop, stopped) = watch::channel(false);
        let reading = tokio::spawn(reader.run(watch, stopped));
        assert!(feed.facts().is_none());
        feed.request_again();
        tokio::task::yield_now().await;
        assert_eq!(reads.load(Ordering::SeqCst), 0, "nobody needs facts");
        feed.request();
        feed.request();
        assert_eq!(names(&mut feed).await, ["c0"]);
        assert!(other.facts().is_none(), "it has not asked");
        other.request();
        assert_eq!(names(&mut other).await, ["c0"]);
        feed.request_again();
        assert!(feed.facts().is_none(), "these are older");
        assert_eq!(names(&mut feed).await, ["c1"]);
        assert_eq!(names(&mut other).await, ["c1"]);
        assert_eq!(reads.load(Ordering::SeqCst), 2);
        stop.send_replace(true);
        reading.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn hub_without_an_answer_gives_no_facts_and_one_that_refuses_gives_partial_ones() {
        let (mut feed, reader) = facts_feed(WallClock::system(), Duration::from_secs(120));
        let attempts = Arc::new(AtomicUsize::new(0));
        let count = attempts.clone();
        let watch = move || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            async move {
                if number < 3 {
                    return Err(FleetError::NotAccepted);
                }
                let refused = [
                    Err(FleetError::NotAccepted),
                    Ok(FactsEvent::Cluster(ObjectEvent::Interrupted)),
                    Ok(FactsEvent::Placement(ObjectEvent::Interrupted)),
                    Ok(FactsEvent::Decision(ObjectEvent::Interrupted)),
                ];
                let events = futures::stream::iter(refused).chain(futures::stream::pending());
                Ok((events.boxed(), None))
            }
            .boxed()
        };
        let (_stop, stopped) = watch::channel(false);
        let reading = tokio::spawn(reader.run(watch, stopped));
        feed.request();
        assert_eq!(names(&mut feed).await, Vec::<String>::new());
        assert!(feed.facts().unwrap().is_partial);
        assert_eq!(attempts.load(Ordering::SeqCst), 4);
        reading.abort();
    }
}
