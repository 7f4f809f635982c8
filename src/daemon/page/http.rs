//! The HTTP server of the page.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::state::{Page, event};
use crate::limits;
use gitwork_runtime::connection::{Bounded, ConnectionTimeout};

/// A file embedded in the binary.
struct Asset {
    path: &'static str,
    kind: &'static str,
    content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

const ASSETS: [Asset; 9] = [
    Asset { path: "/", kind: HTML, content: include_str!("assets/index.html") },
    Asset { path: "/page.css", kind: CSS, content: include_str!("assets/page.css") },
    Asset { path: "/page.js", kind: JAVASCRIPT, content: include_str!("assets/page.js") },
    Asset { path: "/model.js", kind: JAVASCRIPT, content: include_str!("assets/model.js") },
    Asset { path: "/grid.js", kind: JAVASCRIPT, content: include_str!("assets/grid.js") },
    Asset { path: "/panel.js", kind: JAVASCRIPT, content: include_str!("assets/panel.js") },
    Asset { path: "/sources.js", kind: JAVASCRIPT, content: include_str!("assets/sources.js") },
    Asset { path: "/dom.js", kind: JAVASCRIPT, content: include_str!("assets/dom.js") },
    Asset { path: "/icon.svg", kind: "image/svg+xml", content: include_str!("assets/icon.svg") },
];

/// Headers of every response. The page loads nothing from other origins, runs no inline script, and
/// turns no text into markup.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src \
         'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

impl Page {
    /// Serves requests until `stop` is true.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let mut until = stop.clone();
        let stopped = async move {
            // An error means that the sender was dropped, which is a stop, too.
            let _stopped = until.wait_for(|stop| *stop).await;
        };
        let router = router(self, stop);
        let timeout = ConnectionTimeout::Idle(limits::PAGE_IDLE);
        let listener = Bounded::new(listener, limits::PAGE_CONNECTIONS_MAX, timeout);
        axum::serve(listener, router).with_graceful_shutdown(stopped).await
    }
}

#[derive(Clone)]
struct Served {
    page: Page,
    stop: watch::Receiver<bool>,
}

fn router(page: Page, stop: watch::Receiver<bool>) -> Router {
    let mut router = Router::new()
        .route("/api/events", get(events))
        .route("/api/works/{source}/{cluster}/{work}", get(work));
    for asset in ASSETS {
        let answer = move || async move { ([(header::CONTENT_TYPE, asset.kind)], asset.content) };
        router = router.route(asset.path, get(answer));
    }
    let served = Served { page, stop };
    router
        .fallback(|| async { (StatusCode::NOT_FOUND, "page not found\n") })
        .layer(middleware::from_fn_with_state(served.clone(), guard))
        .with_state(served)
}

/// Rejects unknown host names, and sets the common headers.
async fn guard(State(served): State<Served>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let mut response = match host {
        Some(host) if is_ours(host, &served.page.shared.hosts) => next.run(request).await,
        _ => refused(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The response to an unknown host name, which may be a DNS rebinding attack. It reveals nothing.
fn refused() -> Response {
    let why = "the status page is not served under this host name; if it is yours, allow it with \
               --page-host\n";
    (StatusCode::MISDIRECTED_REQUEST, [(header::CONTENT_TYPE, TEXT)], why).into_response()
}

/// Whether a `Host` header is safe from DNS rebinding: an address, a name within this machine or a
/// cluster, or a name that the operator allows.
fn is_ours(host: &str, allowed: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    !name.is_empty()
        && (name.parse::<IpAddr>().is_ok()
            || !name.contains('.')
            || [".localhost", ".svc", ".svc.cluster.local"].iter().any(|end| name.ends_with(end))
            || allowed.iter().any(|known| known.eq_ignore_ascii_case(&name)))
}

async fn work(
    State(served): State<Served>,
    Path((source, cluster, work)): Path<(String, String, String)>,
) -> Response {
    let found = served.page.work_detail(&source, &cluster, &work);
    match found.and_then(|work_detail| serde_json::to_string(&work_detail).ok()) {
        Some(text) => ([(header::CONTENT_TYPE, JSON)], text).into_response(),
        None => (StatusCode::NOT_FOUND, "work not found\n").into_response(),
    }
}

/// A browser that follows the page.
struct Follower {
    page: Page,
    /// The version that it has.
    seen: Option<u64>,
    news: watch::Receiver<u64>,
    beat: Interval,
    stop: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
}

async fn events(State(served): State<Served>) -> Response {
    let Served { page, stop } = served;
    let Ok(place) = page.shared.followers.clone().try_acquire_owned() else {
        let why = "too many browsers have the status page open\n";
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "10")], why)
            .into_response();
    };
    let mut beat = interval(limits::PAGE_BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let news = page.shared.news.subscribe();
    let follower = Follower { page, seen: None, news, beat, stop, _place: place };
    let body = Body::from_stream(stream::unfold(follower, Follower::next));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

impl Follower {
    /// The next data to send. A slow browser gets all missed changes at once.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        loop {
            self.news.borrow_and_update();
            let missed = self.page.missed(&mut self.seen);
            if !missed.is_empty() {
                return Some((Ok(missed), self));
            }
            let is_beat = tokio::select! {
                _ = self.stop.wait_for(|stop| *stop) => None,
                changed = self.news.changed() => changed.is_ok().then_some(false),
                _ = self.beat.tick() => Some(true),
            }?;
            if is_beat {
                return Some((Ok(event("beat", "{}").into()), self));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_served_only_under_safe_host_names() {
        let allowed = ["status.acme.io".to_owned()];
        for host in [
            "127.0.0.1:8081",
            "[::1]:8081",
            "10.1.2.3",
            "localhost:8081",
            "gitwork",
            "gitwork.gitwork.svc:8081",
            "gitwork.gitwork.svc.cluster.local.",
            "Status.ACME.io:443",
        ] {
            assert!(is_ours(host, &allowed), "{host}");
        }
        for host in
            ["", ":80", "evil.example", "status.acme.io.evil.example", "127.0.0.1.evil.example"]
        {
            assert!(!is_ours(host, &allowed), "{host}");
        }
    }
}
