//! Requests to the webhooks, from their head to the answer.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gitwork_admission_rules::policy::ReviewPolicy;
use gitwork_admission_rules::review::review;
use gitwork_admission_rules::reviewed_kind::ReviewedKind;
use gitwork_admission_rules::{AccessAnswer, AccessQuestion, AdmissionVerdict};
use gitwork_retry::log_error;
use gitwork_retry::operation_error::describe;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::admission_api::AdmissionApi;
use crate::admission_metrics::AdmissionMetrics;
use crate::limits;

/// Bytes are counted in units of this size.
const KIB: usize = 1024;

/// Answers requests.
pub(crate) struct WebhookService {
    api: Arc<AdmissionApi>,
    policy: ReviewPolicy,
    metrics: Arc<AdmissionMetrics>,
    body_bytes_max: usize,
    requests: Semaphore,
    /// In KiB.
    bodies: Semaphore,
    access_reviews: Semaphore,
    warned: Mutex<Option<Instant>>,
}

/// Why a request has no review.
struct HttpProblem {
    status: StatusCode,
    message: String,
}

impl HttpProblem {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
}

impl WebhookService {
    pub fn new(
        api: Arc<AdmissionApi>,
        policy: ReviewPolicy,
        metrics: Arc<AdmissionMetrics>,
    ) -> Self {
        Self {
            api,
            policy,
            metrics,
            body_bytes_max: limits::body_bytes_max(policy.manifests_bytes_max),
            requests: Semaphore::new(limits::REQUESTS_AT_ONCE),
            bodies: Semaphore::new(limits::BODIES_BYTES_MAX / KIB),
            access_reviews: Semaphore::new(limits::ACCESS_REVIEWS_AT_ONCE),
            warned: Mutex::new(None),
        }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let begun = Instant::now();
        let answered = timeout(limits::REQUEST, self.review(request)).await;
        let answered = answered.unwrap_or_else(|_| {
            Err(HttpProblem::new(StatusCode::SERVICE_UNAVAILABLE, "there was no time to answer"))
        });
        self.metrics.took(begun.elapsed());
        let (status, content_type, body) = match answered {
            Ok(verdict) => (StatusCode::OK, "application/json", verdict.response().to_string()),
            Err(problem) => {
                self.metrics.failed(problem.status.as_u16());
                tracing::debug!(
                    status = problem.status.as_u16(),
                    message = problem.message,
                    "rejected a request"
                );
                (problem.status, "text/plain; charset=utf-8", format!("{}\n", problem.message))
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        let content_type = http::HeaderValue::from_static(content_type);
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }

    async fn review(&self, request: Request<Incoming>) -> Result<AdmissionVerdict, HttpProblem> {
        let kind = self.requested_kind(&request)?;
        let (body, reserved) = self.read_body(request.into_body()).await?;
        // After the body: slow clients take no place. Nobody closes this semaphore.
        let _request = self.requests.acquire().await;
        let found = review(kind, &body, &self.policy)
            .map_err(|error| HttpProblem::new(StatusCode::BAD_REQUEST, error.to_string()))?;
        drop((body, reserved));
        let answer = match &found.question {
            Some(question) => Some(self.ask(question).await),
            None => None,
        };
        let verdict = found.verdict(answer);
        let word = match () {
            () if verdict.is_allowed() => "allowed",
            () if verdict.is_unanswered() => "unanswered",
            () => "denied",
        };
        self.metrics.review(kind, word);
        if !verdict.is_allowed() {
            tracing::debug!(resource = kind.resource(), message = verdict.message(), "rejected");
        }
        Ok(verdict)
    }

    /// Checks the head of a request.
    fn requested_kind(&self, request: &Request<Incoming>) -> Result<ReviewedKind, HttpProblem> {
        let path = request.uri().path();
        let kind = ReviewedKind::ALL.into_iter().find(|kind| kind.path() == path);
        let kind = kind.ok_or_else(|| {
            HttpProblem::new(StatusCode::NOT_FOUND, "there is no webhook at this path")
        })?;
        if request.method() != Method::POST {
            let message = "webhooks are called by POST";
            return Err(HttpProblem::new(StatusCode::METHOD_NOT_ALLOWED, message));
        }
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let content_type = content_type.split(';').next().unwrap_or_default().trim();
        if !content_type.eq_ignore_ascii_case("application/json") {
            let message = "the body must be application/json";
            return Err(HttpProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let announced = request.body().size_hint().lower();
        if announced > u64::try_from(self.body_bytes_max).unwrap_or(u64::MAX) {
            return Err(self.too_large());
        }
        Ok(kind)
    }

    fn too_large(&self) -> HttpProblem {
        let message = format!("the body is larger than {} bytes", self.body_bytes_max);
        HttpProblem::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// Reads the body. Its bytes count until the permit is dropped.
    async fn read_body(
        &self,
        body: Incoming,
    ) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>), HttpProblem> {
        let read = timeout(limits::BODY_READ, self.read_frames(body)).await;
        read.unwrap_or_else(|_| {
            let message = "the body did not come in time";
            Err(HttpProblem::new(StatusCode::REQUEST_TIMEOUT, message))
        })
    }

    async fn read_frames(
        &self,
        mut body: Incoming,
    ) -> Result<(Vec<u8>, Option<SemaphorePermit<'_>>), HttpProblem> {
        let (mut bytes, mut permits) = (Vec::new(), None::<SemaphorePermit<'_>>);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                HttpProblem::new(StatusCode::BAD_REQUEST, format!("the body broke off: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > self.body_bytes_max {
                return Err(self.too_large());
            }
            let held = permits.as_ref().map_or(0, SemaphorePermit::num_permits);
            let needed = (bytes.len() + data.len()).div_ceil(KIB).saturating_sub(held);
            let needed = u32::try_from(needed).unwrap_or(u32::MAX);
            if let Ok(more) = self.bodies.acquire_many(needed).await {
                match &mut permits {
                    Some(permits) => permits.merge(more),
                    None => permits = Some(more),
                }
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes, permits))
    }

    async fn ask(&self, question: &AccessQuestion) -> AccessAnswer {
        let _place = self.access_reviews.acquire().await;
        let answer = match self.api.ask(question).await {
            Ok(answer) => answer,
            Err(error) => {
                if self.should_warn() {
                    log_error!(warn, &error, "cannot check an executor; the write is rejected");
                }
                AccessAnswer::Unknown(describe(&error))
            }
        };
        self.metrics.access_review(&answer);
        answer
    }

    fn should_warn(&self) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = warned.is_none_or(|at| at.elapsed() >= limits::WARN_INTERVAL);
        if is_due {
            *warned = Some(Instant::now());
        }
        is_due
    }
}
