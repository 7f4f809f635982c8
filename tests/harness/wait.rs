//! Waiting for a condition, with a deadline.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// The pause between two probes: short compared with the second that most waits take.
const POLL: Duration = Duration::from_millis(25);

/// Calls `probe` until it returns a value. `probe` returns a reason if it has none. After `within`
/// the error has the last reason.
pub async fn eventually<T, F>(
    what: &str,
    within: Duration,
    mut probe: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T, String>>,
{
    let deadline = Instant::now() + within;
    let mut reason = "there was no answer".to_owned();
    loop {
        match timeout_at(deadline, probe()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(why)) => reason = why,
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            bail!("waited {} s for {what}: {reason}", within.as_secs_f32());
        }
        sleep(POLL).await;
    }
}
