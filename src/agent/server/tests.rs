use std::sync::Mutex;

use http::{Response, StatusCode};
use kube::client::Body;
use serde_json::json;
use tokio::time::Instant;
use tower::service_fn;

use super::*;

#[test]
fn messages_are_those_of_the_api_server_and_never_empty() {
    let answer = |code: u16, body: &str| {
        let status = StatusCode::from_u16(code).unwrap();
        let body = body.as_bytes().to_vec().into();
        failure(&ApiResponse { status, retry_after_seconds: None, body })
    };
    let long = "two\nlines ".repeat(200);
    let body = json!({"kind": "Status", "reason": "Invalid", "message": long}).to_string();
    assert_eq!(answer(422, &body).to_string(), long);
    let proxy = answer(502, "<html>Bad Gateway</html>");
    assert_eq!((proxy.to_string().as_str(), proxy.code()), ("HTTP status 502", 502));
    assert_eq!(ApiError::from(WatchEnd::Silent).code(), 0);
    for expired in [ApiError::from(WatchEnd::Expired), answer(410, "{}")] {
        assert!(expired.is_expired(), "{expired}");
    }
}

/// The answers that a server gives one after the other, each with its `Retry-After`; and how many
/// requests came. Further requests get the last one.
fn server(answers: Vec<(u16, Option<&'static str>)>) -> (ApiServer, Arc<Mutex<usize>>) {
    let requests = Arc::new(Mutex::new(0));
    let counted = requests.clone();
    let service = service_fn(move |_: Request<Body>| {
        let mut count = counted.lock().unwrap();
        let (status, after) = answers[(*count).min(answers.len() - 1)];
        *count += 1;
        let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
        if let Some(after) = after {
            response = response.header(header::RETRY_AFTER, after);
        }
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "a"}}).to_string();
        let body = if status == 200 { object.into_bytes() } else { Vec::new() };
        std::future::ready(response.body(Body::from(body)))
    });
    let client = Client::new(service, "default");
    (ApiServer::new(client, "hub", None, Arc::default()), requests)
}

#[tokio::test(start_paused = true)]
async fn request_is_sent_again_after_429_and_waits_as_the_server_asks_for() {
    for (answers, seconds) in [
        (vec![(429, Some("2")), (429, Some("3")), (200, None)], 5),
        (vec![(429, None), (200, None)], 1),
        // Not for a minute: other works wait for the same worker.
        (vec![(429, Some("60")), (200, None)], OVERLOAD_WAIT_SECONDS_MAX),
    ] {
        let (expected, began) = (answers.len(), Instant::now());
        let (server, requests) = server(answers);
        let found = server.get("/api/v1/namespaces/x/configmaps/a").await.unwrap().unwrap();
        assert_eq!(json!(found)["metadata"]["name"], "a");
        assert_eq!(*requests.lock().unwrap(), expected);
        assert_eq!(began.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_stays_overloaded_fails_the_request_and_gets_fewer_at_once() {
    let (server, requests) = server(vec![(429, Some("1"))]);
    let error = server.get("/api/v1/namespaces/x/configmaps/a").await.unwrap_err();
    assert_eq!(error.code(), 429);
    assert_eq!(*requests.lock().unwrap(), 1 + OVERLOAD_RETRIES as usize);
    assert!(server.throttle.limit() < 64, "{}", server.throttle.limit());
}

/// They may have been carried out, or fail the same way again.
#[tokio::test(start_paused = true)]
async fn other_failures_are_not_sent_again() {
    for status in [409, 500, 503, 504] {
        let (server, requests) = server(vec![(status, Some("1")), (200, None)]);
        assert_eq!(server.get("/api/v1/namespaces/x").await.unwrap_err().code(), status);
        assert_eq!(*requests.lock().unwrap(), 1);
    }
}
