//! Keeps on the hub which commit statuses are pending on a source's forge, or are about to be. The
//! next process closes those that a newer commit has overtaken in the meantime.

use tokio::sync::watch;

use crate::limits;
use gitwork_core::model::name::SourceId;
use gitwork_forge::reporter::{OpenStatusChannels, OpenStatuses};
use gitwork_hub::HubError;
use gitwork_hub::source_report::ReportStore;
use gitwork_retry::log_error;

/// The statuses of one source.
pub struct OpenStatusKeeper {
    store: ReportStore,
    source: SourceId,
    stored: watch::Sender<OpenStatuses>,
    open: watch::Receiver<OpenStatuses>,
    is_failing: bool,
}

impl OpenStatusKeeper {
    /// A keeper that has read nothing yet, and its channels for the reporter.
    pub fn new(store: ReportStore, source: SourceId) -> (Self, OpenStatusChannels) {
        let (stored, stored_feed) = watch::channel(None);
        let (open_feed, open) = watch::channel(None);
        let channels = OpenStatusChannels { stored: stored_feed, open: open_feed };
        (Self { store, source, stored, open, is_failing: false }, channels)
    }

    /// Runs until `stop` is true, or the reporter ends.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.keep() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn keep(&mut self) {
        let mut stored = loop {
            match self.store.open_statuses(&self.source).await {
                Ok(stored) => break stored,
                Err(error) => self.failed(&error).await,
            }
        };
        self.stored.send_replace(Some(stored.clone()));
        loop {
            let open = self.open.borrow_and_update().clone();
            if let Some(open) = open.filter(|open| *open != stored) {
                match self.store.set_open_statuses(&self.source, &open).await {
                    Ok(()) => {
                        (stored, self.is_failing) = (open, false);
                        self.stored.send_replace(Some(stored.clone()));
                    }
                    Err(error) => self.failed(&error).await,
                }
                // They may have changed in the meantime.
                continue;
            }
            if self.open.changed().await.is_err() {
                return;
            }
        }
    }

    async fn failed(&mut self, error: &HubError) {
        if !std::mem::replace(&mut self.is_failing, true) {
            log_error!(warn, error, source = %self.source, "cannot keep on the hub which commit \
                statuses are pending: after a restart, those of older commits stay pending");
        }
        tokio::time::sleep(limits::REPORT_RETRY).await;
    }
}
