//! Counts the requests to the hub by what became of them: a layer in the client's stack of services.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use kube::client::{Body, DynBody};
use tower::{BoxError, Layer, Service};

use super::client::BaseService;

/// Told of each request: its verb, and its outcome, both out of a fixed list.
pub type Told = Arc<dyn Fn(&'static str, &'static str) + Send + Sync>;

/// The layer.
#[derive(Clone)]
pub struct Count(pub Told);

/// A service whose requests are counted.
pub struct Counted {
    inner: BaseService,
    told: Told,
}

impl Layer<BaseService> for Count {
    type Service = Counted;

    fn layer(&self, inner: BaseService) -> Counted {
        Counted { inner, told: Arc::clone(&self.0) }
    }
}

impl Service<Request<Body>> for Counted {
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let verb = verb(request.method(), request.uri().query().unwrap_or_default());
        let told = Arc::clone(&self.told);
        let answered = self.inner.call(request);
        async move {
            let answer = answered.await;
            told(verb, answer.as_ref().map_or("no_answer", |answer| outcome(answer.status())));
            answer
        }
        .boxed()
    }
}

fn verb(method: &Method, query: &str) -> &'static str {
    match *method {
        Method::GET if query.contains("watch=1") || query.contains("watch=true") => "watch",
        Method::GET => "read",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

fn outcome(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200..=399 => "success",
        401 | 403 => "forbidden",
        404 => "not_found",
        409 => "conflict",
        429 => "throttled",
        400..=499 => "refused",
        _ => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_a_verb_and_an_outcome() {
        for (method, query, expected) in [
            (Method::GET, "limit=500", "read"),
            (Method::GET, "resourceVersion=1&watch=true", "watch"),
            (Method::POST, "", "create"),
            (Method::PATCH, "fieldManager=gitwork", "patch"),
            (Method::DELETE, "", "delete"),
            (Method::OPTIONS, "", "other"),
        ] {
            assert_eq!(verb(&method, query), expected);
        }
        for (code, expected) in [
            (200, "success"),
            (201, "success"),
            (403, "forbidden"),
            (404, "not_found"),
            (409, "conflict"),
            (410, "refused"),
            (429, "throttled"),
            (503, "error"),
        ] {
            assert_eq!(outcome(StatusCode::from_u16(code).unwrap()), expected, "{code}");
        }
    }
}
