//! Tells on the hub what of a source waits for somebody, for `gitwork status`. It reads the newest state whenever it comes
//! to it, so that a hub that is slow to take it holds up nothing but itself.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::bulletin::Trouble;
use crate::core::page::SourceInfo;
use crate::core::status::source::SourceStatus;
use crate::core::status::told::Told;
use crate::forge::reporter::StatusFeed;
use crate::hub::{HubError, KubeHub};
use crate::limits;

/// Tells of one source.
pub struct ToldReporter {
    hub: KubeHub,
    info: SourceInfo,
    /// What the hub has; `None` before it was asked.
    there: Option<Told>,
    in_trouble: bool,
}

impl ToldReporter {
    pub fn new(hub: KubeHub, info: SourceInfo) -> Self {
        Self { hub, info, there: None, in_trouble: false }
    }

    /// Runs until `stop` is true, or the feed ends.
    pub async fn run(
        mut self,
        mut feed: StatusFeed,
        mut trouble: Trouble,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let status = feed.borrow_and_update().clone();
            let why = trouble.borrow_and_update().clone();
            // Before there is anything to tell, what an older process told stands.
            let wait = if status.is_none() && why.is_none() {
                Duration::ZERO
            } else {
                tokio::select! {
                    wait = self.tell(status.as_deref(), why.as_deref()) => wait,
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            };
            let changed = async {
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                if self.in_trouble {
                    return true;
                }
                tokio::select! {
                    changed = feed.changed() => changed.is_ok(),
                    changed = trouble.changed() => changed.is_ok(),
                }
            };
            tokio::select! {
                goes_on = changed => if !goes_on { return },
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Tells how things are where that is news. Answers for how long to leave the hub alone then.
    async fn tell(&mut self, status: Option<&SourceStatus>, trouble: Option<&str>) -> Duration {
        if self.there.is_none() {
            match self.hub.told(&self.info.id).await {
                Ok(found) => self.there = Some(found.unwrap_or_default()),
                Err(error) => return self.failed(&error),
            }
        }
        let told = Told::of(status, trouble, &self.info, self.there.as_ref(), Timestamp::now());
        if self.there.as_ref().is_some_and(|there| there.says(&told)) {
            self.in_trouble = false;
            return Duration::ZERO;
        }
        match self.hub.tell(&self.info.id, &told).await {
            Ok(()) => {
                (self.there, self.in_trouble) = (Some(told), false);
                limits::TOLD_PAUSE
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &HubError) -> Duration {
        if !std::mem::replace(&mut self.in_trouble, true) {
            tracing::warn!(source = %self.info.id, %error, "`gitwork status` will not show what is held; the sync goes on");
        }
        limits::TOLD_RETRY
    }
}
