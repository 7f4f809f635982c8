//! What is no review, and clients that hold the server up.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{
    Kind, Program, SETS_PATH, WORKS_HOOK, WORKS_PATH, bundle, config_map, raw_review, shared, with,
};
use super::raw;
use super::raw::{exchange, head, post, status};
use crate::harness::eventually;

/// The shared program, and what its clients trust.
pub async fn target() -> (&'static Program, std::net::SocketAddr, String) {
    let shared = shared().await;
    let trusted = bundle(&shared.hub, "gitwork-admission", WORKS_HOOK).await;
    (&shared.program, shared.program.webhooks().await, trusted)
}

fn good() -> String {
    raw_review(Kind::Work, &with(&[config_map("one")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn other_requests_get_a_status_and_a_reason() {
    let (_, address, trusted) = target().await;
    let beta = good().replace("admission.k8s.io/v1\"", "admission.k8s.io/v1beta1\"");
    let pod = json!({"apiVersion": "v1", "kind": "Pod"}).to_string();
    let no_uid = good().replace("\"uid\":\"0b7c\"", "\"uid\":\"\"");
    let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    let headers: String = (0..80).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x: {}\r\n", "x".repeat(32 * 1024));
    let with_headers =
        |more: &str| post(WORKS_PATH, "{}").replacen("host:", &format!("{more}host:"), 1);
    for (request, code, reason) in [
        (post(WORKS_PATH, ""), 400, "the body is not JSON: EOF"),
        (post(WORKS_PATH, "\u{0}"), 400, "the body is not JSON: "),
        (post(WORKS_PATH, "{\"a\":"), 400, "the body is not JSON: "),
        (post(WORKS_PATH, &deep), 400, "the body is \"\" \"\", not admission.k8s.io/v1"),
        (post(WORKS_PATH, &pod), 400, "the body is \"v1\" \"Pod\", not admission.k8s.io/v1"),
        (post(WORKS_PATH, &beta), 400, "the body is \"admission.k8s.io/v1beta1\""),
        (post(WORKS_PATH, &no_uid), 400, "the AdmissionReview has no request.uid"),
        (post("/", &good()), 404, "there is no webhook at this path"),
        (post(WORKS_PATH, "{}").replacen("POST", "PUT", 1), 405, "webhooks are called by POST"),
        (
            post(WORKS_PATH, "{}").replacen("application/json", "text/plain", 1),
            415,
            "the body must be application/json",
        ),
        (head(WORKS_PATH, 1 << 40) + "\r\n", 413, "the body is larger than 5218304 bytes"),
        (with_headers(&headers), 431, ""),
        (with_headers(&long), 431, ""),
        ("\u{16}\u{3}garbage\r\n\r\n".to_owned(), 400, ""),
    ] {
        let answer = exchange(address, &trusted, request.as_bytes()).await;
        assert_eq!(status(&answer), code, "{answer}\nto {request:.300}");
        assert!(answer.contains(reason), "{answer}\nhas not: {reason}");
    }
    // The wrong object at the right path is a review, which rejects.
    let answer = exchange(address, &trusted, post(SETS_PATH, &good()).as_bytes()).await;
    assert_eq!(status(&answer), 200);
    assert!(answer.contains("\"allowed\":false"), "{answer}");
    assert!(answer.contains("this webhook checks v1alpha1 manifestworkreplicasets"), "{answer}");
    let answer = exchange(address, &trusted, post(WORKS_PATH, &good()).as_bytes()).await;
    assert!(answer.contains("\"allowed\":true"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_and_slow_bodies_end() {
    let (program, address, trusted) = target().await;
    // Without a length, by chunks of 1 MiB.
    let mut stream = raw::connect(address, &trusted).await.unwrap();
    let head = head(WORKS_PATH, 0).replace("content-length: 0", "transfer-encoding: chunked");
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let chunk = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    for _ in 0..64 {
        if stream.write_all(chunk.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    // The server may have reset the connection before its answer was read.
    assert!(answer.is_empty() || status(&answer) == 413, "{answer}");
    let (_, metrics) = program.probe("/metrics").await;
    assert!(metrics.contains("failed_requests_total{status=\"413\"}"), "{metrics}");

    // The head without its body.
    let text = raw::head(WORKS_PATH, 100) + "\r\n{";
    let answer = exchange(address, &trusted, text.as_bytes()).await;
    assert_eq!(status(&answer), 408, "{answer}");
    assert!(answer.contains("the body did not come in time"), "{answer}");
    // A connection breaks off in the middle of a body.
    let mut stream = raw::connect(address, &trusted).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    drop(stream);
    let answer = exchange(address, &trusted, post(WORKS_PATH, &good()).as_bytes()).await;
    assert!(answer.contains("\"allowed\":true"), "{answer}");
}

/// Clients that say nothing take every place, and lose it.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_do_not_keep_api_servers_out() {
    let files = super::certificates::Files::new();
    let program = Program::start(&shared().await.kubeconfig, &files.flags());
    program.until_ready().await;
    let address = program.webhooks().await;
    let mut silent = Vec::new();
    for _ in 0..600 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let places = || async {
        let (_, metrics) = program.probe("/metrics").await;
        let open = metrics.lines().find(|line| line.starts_with("gitwork_admission_connections "));
        match open {
            Some("gitwork_admission_connections 512") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    eventually("every place to be taken", Duration::from_secs(60), places).await.unwrap();
    // It waits for a place, and gets one.
    let text = post(WORKS_PATH, &good());
    let answer = exchange(address, &files.authority, text.as_bytes()).await;
    assert!(answer.contains("\"allowed\":true"), "{answer}");
    for mut stream in silent {
        let mut rest = Vec::new();
        let _reset = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "{rest:?}");
    }
    // A handshake, and then nothing.
    let mut stream = raw::connect(address, &files.authority).await.unwrap();
    let mut rest = Vec::new();
    let _reset = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty(), "{rest:?}");
    let answer = exchange(address, &files.authority, text.as_bytes()).await;
    assert!(answer.contains("\"allowed\":true"), "{answer}");
}
