//! The facts of the hub, as one engine uses them.

use std::sync::Arc;

use crate::facts_feed::FactsFeed;
use crate::limits;
use gitwork_core::model::facts::{FactNeeds, Facts};
use gitwork_core::render::desired::Desired;

/// The facts that a source needs, if it needs any.
#[derive(Debug, Default)]
pub(super) struct FactsInput {
    /// `None`: the facts stay as the source is configured with them.
    feed: Option<FactsFeed>,
    /// What the desired state needs; `None` if it needs no facts.
    needs: Option<FactNeeds>,
    /// The facts on the hub; `None` while they are unknown.
    facts: Option<Arc<Facts>>,
    /// The part of the facts that the desired state follows from.
    used: Option<Arc<Facts>>,
    /// Whether the facts on the hub still say that.
    is_current: bool,
}

impl FactsInput {
    /// Takes the facts from a feed.
    pub fn from_feed(feed: FactsFeed) -> Self {
        Self { feed: Some(feed), ..Self::default() }
    }

    /// The facts that a read begins with; `None` leaves the source as it is.
    pub fn begin_read(&mut self) -> Option<Arc<Facts>> {
        self.facts = self.feed.as_ref()?.facts();
        self.compare();
        self.facts.clone()
    }

    /// Asks for facts if the state that was read needs some.
    pub fn end_read(&mut self, desired: &Desired) {
        self.needs.clone_from(&desired.needed_facts);
        self.used.clone_from(&desired.facts);
        if let Some(feed) = self.feed.as_mut().filter(|_| desired.needed_facts.is_some()) {
            feed.request();
        }
        self.compare();
    }

    /// Asks for all facts again: another process may have seen newer ones.
    pub fn ask_again(&mut self) {
        self.facts = None;
        if let Some(feed) = &mut self.feed {
            feed.request_again();
        }
        self.compare();
    }

    /// Whether the desired state follows from the facts of the hub. They may say that the hub does
    /// not tell.
    pub fn is_current(&self) -> bool {
        self.feed.is_none() || self.needs.is_none() || self.is_current
    }

    fn compare(&mut self) {
        let known = self.needs.as_ref().zip(self.facts.as_ref()).zip(self.used.as_ref());
        self.is_current =
            known.is_some_and(|((needs, facts), used)| facts.reduced(needs).is_same(used));
    }

    /// Waits for other facts. Answers whether the source has to be read again.
    pub async fn changed(&mut self) -> bool {
        let feed = self.feed.as_mut().filter(|_| self.needs.is_some());
        let Some(feed) = feed else { return std::future::pending().await };
        feed.changed().await;
        self.facts = feed.facts();
        self.compare();
        self.facts.is_some() && !self.is_current()
    }

    /// Waits for the first facts. `None` if the state that was read needs none, or if the hub does
    /// not answer in time.
    pub async fn first(&mut self) -> Option<Arc<Facts>> {
        let feed = self.feed.as_mut().filter(|_| self.needs.is_some())?;
        let answered = async {
            while feed.facts().is_none() {
                feed.changed().await;
            }
        };
        let _late = tokio::time::timeout(limits::FACTS_WAIT, answered).await;
        feed.facts()
    }
}
