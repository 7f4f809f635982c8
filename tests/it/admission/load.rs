//! A thousand requests.

use std::net::SocketAddr;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::fixture::{
    Kind, Objects, WORKS_HOOK, WORKS_PATH, bundle, config_map, executed, namespace, raw_review,
    shared, with,
};
use super::raw;

const REQUESTS: usize = 1_000;
const CLIENTS: usize = 50;

/// Every request of one connection is answered, in order.
async fn answered(address: SocketAddr, trusted: String, body: String, count: usize) -> usize {
    let mut stream = raw::connect(address, &trusted).await.unwrap();
    let request = format!("{}\r\n{body}", raw::head(WORKS_PATH, body.len()));
    let mut allowed = 0;
    for _ in 0..count {
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = raw::read_answer(&mut stream).await;
        assert_eq!(raw::status(&answer), 200, "{answer}");
        allowed += usize::from(answer.contains("\"allowed\":true"));
    }
    allowed
}

async fn measured(what: &str, address: SocketAddr, trusted: &str, body: &str) -> usize {
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (trusted, body) = (trusted.to_owned(), body.to_owned());
        clients.spawn(answered(address, trusted, body, REQUESTS / CLIENTS));
    }
    let allowed = clients.join_all().await.into_iter().sum();
    let rate = REQUESTS as f64 / begun.elapsed().as_secs_f64();
    eprintln!("{what}: {rate:.0} requests a second on {CLIENTS} connections");
    allowed
}

/// The figures are printed. How long a busy machine takes is not a matter of right or wrong.
#[tokio::test(flavor = "multi_thread")]
async fn thousand_requests_at_once_are_all_answered_right() {
    let shared = shared().await;
    let address = shared.program.webhooks().await;
    let trusted = bundle(&shared.hub, "gitwork-admission", WORKS_HOOK).await;
    let mut manifest = config_map("one");
    manifest["data"] = json!({"text": "x".repeat(2_000)});
    let good = raw_review(Kind::Work, &with(&[manifest]));
    assert_eq!(measured("works of 2 KiB", address, &trusted, &good).await, REQUESTS);
    let bad = raw_review(Kind::Work, &with(&[config_map("one"), config_map("one")]));
    assert_eq!(measured("works with a duplicate", address, &trusted, &bad).await, 0);
    // The API server says no to ann.
    let asked = raw_review(Kind::Work, &executed("apps/deployer"));
    assert_eq!(measured("works with an executor", address, &trusted, &asked).await, 0);
    let (_, metrics) = shared.program.probe("/metrics").await;
    let count = |labels: &str| {
        let line = format!("gitwork_admission_reviews_total{{{labels}}} ");
        let found = metrics.lines().find_map(|text| text.strip_prefix(line.as_str()));
        found.map_or(0, |number| number.parse::<usize>().unwrap())
    };
    let of = |verdict: &str| count(&format!("resource=\"manifestworks\",verdict=\"{verdict}\""));
    assert!(of("allowed") >= REQUESTS && of("denied") >= 2 * REQUESTS, "{metrics}");
    assert_eq!(of("unanswered"), 0, "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_writes_through_the_api_server_are_all_checked() {
    let shared = shared().await;
    let space = namespace(&shared.hub, None).await;
    let begun = Instant::now();
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let objects = Objects::new(shared.hub.client(), Kind::Work, &space);
        clients.spawn(async move {
            let good = with(&[config_map("one")]);
            let bad = with(&[config_map("one"), config_map("one")]);
            for number in 0..REQUESTS / CLIENTS / 2 {
                let name = format!("work-{client}-{number}");
                objects.create_dry(&name, &good).await.unwrap();
                let error = objects.create_dry(&name, &bad).await.unwrap_err();
                assert!(error.contains("duplicate manifest"), "{error}");
            }
        });
    }
    clients.join_all().await;
    let rate = REQUESTS as f64 / begun.elapsed().as_secs_f64();
    eprintln!("through the API server: {rate:.0} writes a second from {CLIENTS} clients");
}
