//! What is answered to which request.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use gitwork_core::limits;
use gitwork_report::status::State;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status::view::StatusView;
use serde_json::{Value, json};

use crate::browser::fleet::{Stage, fleet, key, work};

/// A connection on which a request was sent.
fn ask(address: SocketAddr, method: &str, path: &str, host: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
        .unwrap();
    stream
}

/// The head and the body of an answer that ends.
fn answer(address: SocketAddr, method: &str, path: &str, host: &str) -> (String, String) {
    let mut text = String::new();
    ask(address, method, path, host).read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

fn get(stage: &Stage, path: &str) -> (String, String) {
    answer(stage.address, "GET", path, "localhost")
}

/// A stream of events, as it comes over the wire.
struct Events {
    stream: TcpStream,
    text: String,
}

impl Events {
    fn open(stage: &Stage) -> Self {
        Self { stream: ask(stage.address, "GET", "/api/events", "localhost"), text: String::new() }
    }

    /// The next event of this name, and its data. Beats are left out.
    fn next(&mut self, name: &str) -> Value {
        loop {
            if let Some((_, rest)) = self.text.split_once(&format!("event: {name}\ndata: "))
                && let Some((data, rest)) = rest.split_once("\n\n")
            {
                // A chunk of HTTP may end within an event.
                let parsed = serde_json::from_str(data);
                self.text = rest.to_owned();
                return parsed.unwrap();
            }
            let mut room = [0; 65_536];
            let count = self.stream.read(&mut room).unwrap();
            assert!(count > 0, "the stream has ended: {}", self.text);
            self.text.push_str(std::str::from_utf8(&room[..count]).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_carries_security_headers() {
    let stage = Stage::start(&["fleet"], 0).await;
    stage.publish(&fleet(1));
    for path in ["/", "/page.js", "/api/works/fleet/none/none", "/nowhere"] {
        let (head, _) = get(&stage, path);
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self'; \
             style-src 'self'; img-src 'self'; \
             connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
             require-trusted-types-for 'script'; trusted-types 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(head.contains(line), "{path}: no {line}: {head}");
        }
        assert!(!head.contains("set-cookie") && !head.contains("access-control"), "{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_get_and_allowed_hosts_are_served() {
    let stage = Stage::start(&["fleet"], 0).await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for path in ["/", "/api/events", "/api/works/a/b/c"] {
            let (head, _) = answer(stage.address, method, path, "localhost");
            assert!(head.starts_with("http/1.1 405 "), "{method} {path}: {head}");
        }
    }
    let (head, body) = answer(stage.address, "HEAD", "/", "localhost");
    assert!(head.starts_with("http/1.1 200 ") && body.is_empty(), "{head}");
    for path in ["/", "/api/events", "/api/works/a/b/c"] {
        let (head, body) = answer(stage.address, "GET", path, "evil.example");
        assert!(
            head.starts_with("http/1.1 421 ") && body.contains("--page-host"),
            "{path}: {head}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_work_is_served_in_full_and_unknown_works_are_not_found() {
    let stage = Stage::start(&["fleet"], 0).await;
    assert!(get(&stage, "/api/works/fleet/edge-1/web").0.starts_with("http/1.1 404 "));
    let (one, mut status) = (key("edge-1", "web"), fleet(0));
    status.works.insert(one.clone(), work(&one, State::Failed, 5));
    let mut events = Events::open(&stage);
    events.next("whole");
    stage.publish(&status);
    events.next("change");
    let (head, body) = get(&stage, "/api/works/fleet/edge-1/web");
    assert!(head.contains("content-type: application/json"), "{head}");
    let reported: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&reported["state"], &reported["cluster"]), (&json!("failed"), &json!("edge-1")));
    assert!(reported["message"].as_str().unwrap().starts_with(
        "Deployment web/web: admission \
        webhook"
    ));
    assert_eq!(reported["objects"][0]["feedback"]["ReadyReplicas"], "3");
    for path in ["fleet/edge-1/none", "other/edge-1/web", "fleet/..%2f/web", "fleet/%00/%ff"] {
        let (head, _) = get(&stage, &format!("/api/works/{path}"));
        assert!(head.starts_with("http/1.1 40"), "{path}: {head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_changed_work_of_ten_thousand_costs_a_few_hundred_bytes() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(1_000);
    let count = status.works.len();
    assert!(count > 9_700, "{count}");
    stage.publish(&status);
    let mut events = Events::open(&stage);
    // Whether the state was there before the browser is a matter of luck.
    let whole = events.next("whole");
    if whole["clusters"].as_array().unwrap().is_empty() {
        events.next("change");
    }
    let size = Events::open(&stage).next("whole").to_string().len();
    assert!(size < 100_000, "the whole of {count} works has {size} bytes");
    let one = key("edge-oslo-100", "shop");
    status.works.insert(one.clone(), work(&one, State::Failed, 0));
    stage.publish(&status);
    let change = events.next("change");
    assert_eq!(change["cells"].as_array().unwrap().len(), 1);
    let size = change.to_string().len();
    assert!(size < 1_000, "one changed work has {size} bytes: {change}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_browser_blocks_nobody_and_gets_the_newest_state() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut status = fleet(50);
    stage.publish(&status);
    let (mut slow, mut quick) = (Events::open(&stage), Events::open(&stage));
    quick.next("whole");
    let one = key("edge-oslo-001", "shop");
    let rounds = 3 * limits::PAGE_CHANGES_MAX;
    for round in 0..=rounds {
        let state = if round % 2 == 0 { State::Failed } else { State::Pending };
        status.works.insert(one.clone(), work(&one, state, 0));
        status.errors = round;
        stage.publish(&status);
        while quick.next("change")["sources"][0][1]["errors"] != round {}
    }
    // It reads now: wherever it was, it ends where the others are.
    let mut version = slow.next("whole")["version"].as_u64().unwrap();
    let newest = Events::open(&stage).next("whole")["version"].as_u64().unwrap();
    while version < newest {
        let change = slow.next("change");
        assert_eq!(change["version"], version + 1, "nothing is missing in between");
        version += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_streams_are_limited_and_closed_ones_free_their_slot() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut all: Vec<Events> =
        (0..gitwork_daemon::limits::PAGE_FOLLOWERS_MAX).map(|_| Events::open(&stage)).collect();
    for events in &mut all {
        events.next("whole");
    }
    let (head, _) = get(&stage, "/api/events");
    assert!(head.starts_with("http/1.1 503 ") && head.contains("retry-after: 10"), "{head}");
    assert!(get(&stage, "/").0.starts_with("http/1.1 200 "), "the page itself is there");
    drop(all);
    crate::harness::eventually("a place", Duration::from_secs(300), || async {
        let mut stream = ask(stage.address, "GET", "/api/events", "localhost");
        let mut head = [0; 12];
        stream.read_exact(&mut head).map_err(|why| why.to_string())?;
        if &head == b"HTTP/1.1 200" { Ok(()) } else { Err(String::from_utf8_lossy(&head).into()) }
    })
    .await
    .unwrap();
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemon_shutdown_ends_every_stream() {
    let stage = Stage::start(&["fleet"], 0).await;
    let mut events = Events::open(&stage);
    events.next("whole");
    stage.stop().await;
    let mut rest = String::new();
    events.stream.read_to_string(&mut rest).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_values_are_not_served() {
    let stage = Stage::start(&["fleet"], 0).await;
    let one = key("edge-1", "keys");
    let mut reported = work(&one, State::Failed, 1);
    reported.view = StatusView::of(&secret_status(), 1, 1).into();
    let mut status: SourceStatus = fleet(0);
    status.works.insert(one, reported);
    let mut events = Events::open(&stage);
    let mut seen = events.next("whole").to_string();
    stage.publish(&status);
    seen.push_str(&events.next("change").to_string());
    let detail = get(&stage, "/api/works/fleet/edge-1/keys").1;
    assert!(detail.contains("Secret shop/keys"), "{detail}");
    assert!(!format!("{seen}{detail}").contains("CANARY"), "{seen}{detail}");
}

/// An agent that reports more than it should.
fn secret_status() -> Value {
    json!({
        "conditions": [{
            "type": "Applied", "status": "False", "reason": "Failed", "message": "failed",
            "observedGeneration": 1,
        }],
        "resourceStatus": { "manifests": [{
            "resourceMeta": { "kind": "Secret", "resource": "secrets", "namespace": "shop",
                "name": "keys" },
            "conditions": [{ "type": "Applied", "status": "False",
                "message": "invalid: \"CANARY\"" }],
            "statusFeedback": { "values": [{ "name": "v", "fieldValue": { "string": "CANARY" } }] },
        }] },
    })
}
