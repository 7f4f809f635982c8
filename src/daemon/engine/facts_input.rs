//! The facts of the hub, as one engine uses them.

use std::sync::Arc;

use crate::facts_feed::FactsFeed;
use crate::limits;
use gitwork_core::model::facts::Facts;

/// The facts that a source needs, if it needs any.
#[derive(Debug, Default)]
pub(super) struct FactsInput {
    /// `None`: the facts stay as the source is configured with them.
    feed: Option<FactsFeed>,
    /// The desired state may follow from facts.
    is_used: bool,
    /// The last read began with facts.
    was_known: bool,
}

impl FactsInput {
    /// Takes the facts from a feed.
    pub fn from_feed(feed: FactsFeed) -> Self {
        Self { feed: Some(feed), ..Self::default() }
    }

    /// What a read begins with; the outer `None` leaves the source as it is.
    pub fn begin_read(&mut self) -> Option<Option<Arc<Facts>>> {
        let facts = self.feed.as_ref()?.facts();
        self.was_known = facts.is_some();
        Some(facts)
    }

    /// Asks for facts if the state that was read needs them.
    pub fn end_read(&mut self, is_used: bool) {
        self.is_used = is_used;
        if let Some(feed) = self.feed.as_mut().filter(|_| is_used) {
            feed.request();
        }
    }

    /// Asks for all facts again: another process may have seen newer ones.
    pub fn ask_again(&mut self) {
        if let Some(feed) = &mut self.feed {
            feed.request_again();
        }
    }

    /// Whether the desired state has the facts that it needs. The facts may say that the hub does
    /// not tell.
    pub fn is_known(&self) -> bool {
        let Some(feed) = self.feed.as_ref().filter(|_| self.is_used) else { return true };
        self.was_known && feed.facts().is_some()
    }

    /// Waits for the first facts, if the state that was read needs some. The outer `None`: it needs
    /// none; the inner one: the hub did not tell in time.
    pub async fn next(&mut self) -> Option<Option<Arc<Facts>>> {
        let feed = self.feed.as_mut().filter(|_| self.is_used)?;
        let answered = async {
            while feed.facts().is_none() {
                feed.changed().await;
            }
        };
        let _late = tokio::time::timeout(limits::FACTS_WAIT, answered).await;
        Some(feed.facts())
    }

    /// Waits until the source has to be read again.
    pub async fn changed(&mut self) {
        match self.feed.as_mut().filter(|_| self.is_used) {
            Some(feed) => feed.changed().await,
            None => std::future::pending().await,
        }
    }
}
