//! Reports the verb and outcome of each request to the hub, as a layer of the client.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use kube::client::{Body, DynBody};
use tower::{BoxError, Layer, Service};

use gitwork_kube::client::BaseService;

/// Is called with the verb and the outcome of each request, both from a fixed list.
pub type RequestObserver = Arc<dyn Fn(&'static str, &'static str) + Send + Sync>;

/// Reports each request to the observer.
#[derive(Clone)]
pub struct RequestMetricsLayer(pub RequestObserver);

/// A service with an observer.
pub struct RequestMetricsService {
    inner: BaseService,
    observe: RequestObserver,
}

impl Layer<BaseService> for RequestMetricsLayer {
    type Service = RequestMetricsService;

    fn layer(&self, inner: BaseService) -> RequestMetricsService {
        RequestMetricsService { inner, observe: Arc::clone(&self.0) }
    }
}

impl Service<Request<Body>> for RequestMetricsService {
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let verb = verb(request.method(), request.uri().query().unwrap_or_default());
        let observe = Arc::clone(&self.observe);
        let response = self.inner.call(request);
        async move {
            let response = response.await;
            observe(
                verb,
                response.as_ref().map_or("no_answer", |response| outcome(response.status())),
            );
            response
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
