//! Writes the report of a source to the hub, for `gitwork status`. It reads the newest status each
//! time, so that a slow hub delays nothing else.

use std::time::Duration;

use tokio::sync::watch;

use super::status_publisher::SourceError;
use crate::limits;
use gitwork_forge::reporter::StatusFeed;
use gitwork_hub::HubError;
use gitwork_hub::source_report::ReportStore;
use gitwork_report::page::SourceInfo;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status::source_report::SourceReport;
use gitwork_retry::log_error;
use gitwork_runtime::clock::WallClock;

/// Reports one source.
pub struct SourceReporter {
    reports: ReportStore,
    info: SourceInfo,
    clock: WallClock,
    /// The report on the hub; `None` before it was read.
    stored: Option<SourceReport>,
    is_failing: bool,
}

impl SourceReporter {
    /// A reporter of the source of `info`. Reports have the time of `clock`.
    pub fn new(reports: ReportStore, info: SourceInfo, clock: WallClock) -> Self {
        Self { reports, info, clock, stored: None, is_failing: false }
    }

    /// Runs until `stop` is true, or the feed ends.
    pub async fn run(
        mut self,
        mut feed: StatusFeed,
        mut source_error: SourceError,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let status = feed.borrow_and_update().clone();
            let why = source_error.borrow_and_update().clone();
            // Until there is a status, the report of an older process stays.
            let wait = if status.is_none() && why.is_none() {
                Duration::ZERO
            } else {
                tokio::select! {
                    wait = self.report(status.as_deref(), why.as_deref()) => wait,
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            };
            let changed = async {
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                if self.is_failing {
                    return true;
                }
                tokio::select! {
                    changed = feed.changed() => changed.is_ok(),
                    changed = source_error.changed() => changed.is_ok(),
                }
            };
            tokio::select! {
                goes_on = changed => if !goes_on { return },
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Writes the report if it changed. Gives how long to wait before the next write.
    async fn report(
        &mut self,
        status: Option<&SourceStatus>,
        source_error: Option<&str>,
    ) -> Duration {
        if self.stored.is_none() {
            match self.reports.get(&self.info.id).await {
                Ok(found) => self.stored = Some(found.unwrap_or_default()),
                Err(error) => return self.failed(&error),
            }
        }
        let report = SourceReport::of(
            status,
            source_error,
            &self.info,
            self.stored.as_ref(),
            self.clock.now(),
        );
        if self.stored.as_ref().is_some_and(|stored| stored.is_same_except_time(&report)) {
            self.is_failing = false;
            return Duration::ZERO;
        }
        match self.reports.set(&self.info.id, &report).await {
            Ok(()) => {
                (self.stored, self.is_failing) = (Some(report), false);
                limits::REPORT_INTERVAL
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &HubError) -> Duration {
        if !std::mem::replace(&mut self.is_failing, true) {
            log_error!(warn, error, source = %self.info.id, "cannot write the report: `gitwork \
                status` does not show held changes; the sync continues");
        }
        limits::REPORT_RETRY
    }
}
