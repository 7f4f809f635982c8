//! Limits the requests to one API server: always their number under way, which falls when the API
//! server is overloaded, and the requests per second if an operator sets a rate.

use std::sync::Mutex as StdMutex;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, sleep};
use tracing::info;

use super::mutex::lock;
use gitwork_agent_core::concurrency::ConcurrencyLimit;

/// Requests under way as long as the API server does not ask for fewer. Passes send one request
/// at a time, so this is no limit for the default number of workers.
const CONCURRENCY_MAX: usize = 64;

/// A limit on the requests per second, for operators who set one.
pub struct RateLimit {
    per_second: f64,
    burst: f64,
    /// The tokens at a moment; fewer than none while requests wait.
    bucket: Mutex<(Instant, f64)>,
}

impl RateLimit {
    /// The limit that an operator sets by flags; `None` without a rate, or with one that is not
    /// above 0. Without a burst, it is that of two seconds.
    pub fn of_flags(qps: Option<f64>, burst: Option<f64>) -> Option<Self> {
        let qps = qps.filter(|qps| *qps > 0.0)?;
        Some(Self::new(qps, burst.unwrap_or(qps * 2.0).max(1.0)))
    }

    /// Allows `per_second` requests on average, and `burst` at once after a pause.
    pub fn new(per_second: f64, burst: f64) -> Self {
        Self { per_second, burst, bucket: Mutex::new((Instant::now(), burst)) }
    }

    /// Waits until the next request is allowed. Requests go in the order in which they came.
    async fn wait(&self) {
        let mut bucket = self.bucket.lock().await;
        let now = Instant::now();
        let (since, tokens) = *bucket;
        let tokens =
            self.burst.min(tokens + now.duration_since(since).as_secs_f64() * self.per_second);
        *bucket = (now, tokens - 1.0);
        if tokens < 1.0 {
            let wait = Duration::try_from_secs_f64((1.0 - tokens) / self.per_second);
            // A rate of next to nothing.
            sleep(wait.unwrap_or(Duration::MAX)).await;
        }
    }
}

/// The limits of one API server.
pub struct Throttle {
    rate: Option<RateLimit>,
    started: Instant,
    requests: StdMutex<Requests>,
    /// A request ended, or more are allowed.
    freed: Notify,
}

struct Requests {
    under_way: usize,
    limit: ConcurrencyLimit,
}

/// A request under way; it ends when this is dropped.
pub struct RequestSlot<'a>(&'a Throttle);

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        let room = {
            let mut requests = lock(&self.0.requests);
            requests.under_way = requests.under_way.saturating_sub(1);
            requests.limit.allowed(self.0.started.elapsed()).saturating_sub(requests.under_way)
        };
        // More than one if the limit has risen since.
        for _ in 0..room.min(2) {
            self.0.freed.notify_one();
        }
    }
}

impl Throttle {
    /// `rate`: the limit that an operator set.
    pub fn new(rate: Option<RateLimit>) -> Self {
        let requests = Requests { under_way: 0, limit: ConcurrencyLimit::new(CONCURRENCY_MAX) };
        Self {
            rate,
            started: Instant::now(),
            requests: StdMutex::new(requests),
            freed: Notify::new(),
        }
    }

    /// Waits until a request may be sent.
    pub async fn enter(&self) -> RequestSlot<'_> {
        if let Some(rate) = &self.rate {
            rate.wait().await;
        }
        loop {
            let freed = self.freed.notified();
            if let Some(slot) = self.try_enter() {
                return slot;
            }
            freed.await;
        }
    }

    fn try_enter(&self) -> Option<RequestSlot<'_>> {
        let mut requests = lock(&self.requests);
        let allowed = requests.limit.allowed(self.started.elapsed());
        (requests.under_way < allowed).then(|| {
            requests.under_way += 1;
            RequestSlot(self)
        })
    }

    /// How many requests may be under way now.
    #[cfg(test)]
    pub fn limit(&self) -> usize {
        lock(&self.requests).limit.allowed(self.started.elapsed())
    }

    /// The API server answered with 429. `name`: of the server, for the log.
    pub fn overloaded(&self, name: &str) {
        let allowed = {
            let mut requests = lock(&self.requests);
            let under_way = requests.under_way;
            requests.limit.overloaded(self.started.elapsed(), under_way)
        };
        if let Some(allowed) = allowed {
            info!(
                server = name,
                allowed, "API server has too many requests; sending fewer at once"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_limit_lets_a_burst_through_and_then_so_many_a_second() {
        let limit = RateLimit::new(10.0, 5.0);
        let start = Instant::now();
        for _ in 0..25 {
            limit.wait().await;
        }
        let passed = start.elapsed().as_secs_f64();
        assert!((1.9..2.2).contains(&passed), "{passed}");
    }

    /// How many requests pass at once, and how many in the ten seconds after that.
    async fn passed(limit: &RateLimit) -> [usize; 2] {
        let start = Instant::now();
        let mut passed = [0, 0];
        loop {
            limit.wait().await;
            match start.elapsed() {
                Duration::ZERO => passed[0] += 1,
                // Rounding of the times in between.
                later if later < Duration::from_millis(10_050) => passed[1] += 1,
                _ => return passed,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_flags_set_a_rate_limit() {
        for (qps, burst, expected) in [
            (None, None, None),
            (None, Some(100.0), None),
            (Some(0.0), None, None),
            (Some(-1.0), Some(100.0), None),
            (Some(f64::NAN), None, None),
            (Some(5.0), None, Some([10, 50])),
            (Some(5.0), Some(3.0), Some([3, 50])),
            (Some(5.0), Some(0.0), Some([1, 50])),
            (Some(0.1), None, Some([1, 1])),
        ] {
            let found = match RateLimit::of_flags(qps, burst) {
                Some(limit) => Some(passed(&limit).await),
                None => None,
            };
            assert_eq!(found, expected, "{qps:?} {burst:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn rate_of_next_to_nothing_waits() {
        let limit = RateLimit::of_flags(Some(1e-300), None).unwrap();
        limit.wait().await;
        let second = tokio::time::timeout(Duration::from_secs(86_400), limit.wait()).await;
        assert!(second.is_err(), "the second request waits");
    }

    /// Sends 200 requests at once that take a millisecond each. Returns how many were under way
    /// at most.
    async fn send_many(throttle: &Arc<Throttle>) -> usize {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut requests = JoinSet::new();
        for _ in 0..200 {
            let (throttle, now, most) = (throttle.clone(), now.clone(), most.clone());
            requests.spawn(async move {
                let slot = throttle.enter().await;
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(1)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                drop(slot);
            });
        }
        while requests.join_next().await.is_some() {}
        most.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_server_gets_half_the_requests_at_once_and_no_request_is_lost() {
        let throttle = Arc::new(Throttle::new(None));
        assert_eq!(send_many(&throttle).await, 64);
        let under_way: Vec<RequestSlot<'_>> =
            std::iter::from_fn(|| throttle.try_enter()).take(10).collect();
        throttle.overloaded("cluster");
        throttle.overloaded("cluster");
        drop(under_way);
        assert_eq!(send_many(&throttle).await, 5);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(send_many(&throttle).await, 10);
        sleep(Duration::from_secs(200)).await;
        assert_eq!(send_many(&throttle).await, 64);
    }
}
