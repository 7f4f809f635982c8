//! A hub whose transient failures are retried within a bound, for programs that end after one pass:
//! right after its CRDs were created, an API server rejects requests for some seconds.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use tokio::time::{Instant, sleep};

use crate::{Hub, HubError, HubEvent, StoredRecord, limits};
use gitwork_core::model::name::{CommitId, SourceId, WorkKey};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};
use gitwork_core::plan::Effect;
use gitwork_core::plan::directives::Directives;
use gitwork_core::plan::observed::{ObservedWork, WorkContent};
use gitwork_core::plan::record::Record;
use gitwork_retry::{BoundedRetries, RetryClass};

/// Calls `call` again while its error is transient, for at most `limits::HUB_RETRIES`.
///
/// # Errors
/// The last error of `call`.
pub async fn retry_transient<T, E: OperationError, F: Future<Output = Result<T, E>>>(
    mut call: impl FnMut() -> F,
) -> Result<T, E> {
    let (began, mut retries) = (Instant::now(), BoundedRetries::new(limits::HUB_RETRIES));
    loop {
        let error = match call().await {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        let ErrorClass::Transient { retry_after } = error.class() else { return Err(error) };
        let retry_after_seconds = retry_after.as_ref().map(Duration::as_secs);
        let class = RetryClass::Unavailable { retry_after_seconds };
        match retries.wait(began.elapsed(), class, fastrand::u64(..)) {
            Some(wait) => sleep(wait).await,
            None => return Err(error),
        }
    }
}

/// A hub whose reads, and writes of records, are retried. Effects have retries of their own.
#[derive(Clone)]
pub struct RetryingHub<H>(H);

impl<H: Hub> RetryingHub<H> {
    /// Retries the calls of `hub`.
    pub fn new(hub: H) -> Self {
        Self(hub)
    }
}

impl<H: Hub> Hub for RetryingHub<H> {
    fn watch(&self, source: &SourceId) -> BoxStream<'static, HubEvent> {
        self.0.watch(source)
    }

    fn connect_ahead(&self) -> BoxFuture<'_, ()> {
        self.0.connect_ahead()
    }

    fn list<'a>(
        &'a self,
        source: Option<&'a SourceId>,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        retry_transient(move || self.0.list(source)).boxed()
    }

    fn get<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        retry_transient(move || self.0.get(key)).boxed()
    }

    fn content<'a>(
        &'a self,
        key: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Option<WorkContent>, HubError>> {
        retry_transient(move || self.0.content(key)).boxed()
    }

    fn set_works<'a>(
        &'a self,
        set: &'a WorkKey,
    ) -> BoxFuture<'a, Result<Vec<ObservedWork>, HubError>> {
        retry_transient(move || self.0.set_works(set)).boxed()
    }

    fn directives<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Directives, HubError>> {
        retry_transient(move || self.0.directives(source)).boxed()
    }

    fn record<'a>(
        &'a self,
        source: &'a SourceId,
    ) -> BoxFuture<'a, Result<Option<StoredRecord>, HubError>> {
        retry_transient(move || self.0.record(source)).boxed()
    }

    fn set_record<'a>(
        &'a self,
        source: &'a SourceId,
        record: &'a Record,
        before: Option<&'a StoredRecord>,
    ) -> BoxFuture<'a, Result<StoredRecord, HubError>> {
        retry_transient(move || self.0.set_record(source, record, before)).boxed()
    }

    fn execute<'a>(
        &'a self,
        key: &'a WorkKey,
        effect: &'a Effect,
        commit: Option<CommitId>,
    ) -> BoxFuture<'a, Result<Option<ObservedWork>, HubError>> {
        self.0.execute(key, effect, commit)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    fn unavailable(retry_after_seconds: Option<u64>) -> HubError {
        HubError::Unavailable { message: "storage is (re)initializing".into(), retry_after_seconds }
    }

    #[tokio::test(start_paused = true)]
    async fn transient_answers_are_retried_within_the_bound_and_others_not() {
        let mut answers = vec![Ok(7), Err(unavailable(Some(1))), Err(unavailable(None))];
        let found = retry_transient(|| ready(answers.pop().unwrap())).await;
        assert_eq!(found, Ok(7));

        let (began, mut calls) = (Instant::now(), 0);
        let mut fail = |error: HubError| {
            calls += 1;
            Err::<(), _>(error)
        };
        let failed = retry_transient(|| ready(fail(unavailable(None)))).await;
        assert_eq!(failed, Err(unavailable(None)));
        let took = began.elapsed();
        assert!(took <= limits::HUB_RETRIES && took > limits::HUB_RETRIES / 4, "{took:?}");
        let before = calls;
        assert!(before > 3, "{before}");
        let fail = |error: HubError| Err::<(), _>(error);
        assert_eq!(
            retry_transient(|| ready(fail(HubError::CrdMissing))).await,
            Err(HubError::CrdMissing)
        );
        assert_eq!(began.elapsed(), took);
    }
}
