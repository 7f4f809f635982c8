//! The daemon's port for webhooks: who is heard, and who is not.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::model::name::SourceId;
use gitwork_daemon::http;
use gitwork_daemon::limits;
use gitwork_daemon::metrics::Metrics;
use gitwork_daemon::webhook::Webhooks;
use ring::hmac;
use tokio::sync::{mpsc, watch};

const SECRET: &str = "CANARY-of-the-webhook";

struct World {
    address: SocketAddr,
    hints: BTreeMap<String, mpsc::Receiver<()>>,
    secret: PathBuf,
    metrics: Arc<Metrics>,
    _stop: watch::Sender<bool>,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        fs::write(&secret, format!("{SECRET}\n")).unwrap();
        let (mut senders, mut hints) = (BTreeMap::new(), BTreeMap::new());
        for id in ["one", "two"] {
            let (sender, receiver) = mpsc::channel(1);
            senders.insert(SourceId::parse(id).unwrap(), sender);
            hints.insert(id.to_owned(), receiver);
        }
        let listener = http::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let metrics = Arc::new(Metrics::default());
        let webhooks = Webhooks::new(secret.clone(), senders, metrics.clone());
        tokio::spawn(webhooks.serve(listener, stopped));
        World { address, hints, secret, metrics, _stop: stop, _folder: folder }
    }

    /// The sources that got a hint since the last call.
    fn hinted(&mut self) -> Vec<String> {
        let reported = self
            .hints
            .iter_mut()
            .filter_map(|(id, hint)| hint.try_recv().is_ok().then(|| id.clone()));
        reported.collect()
    }

    async fn ask(&self, request: Vec<u8>) -> String {
        let address = self.address;
        let ask = move || {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            // A server that has read enough may hang up on the rest.
            let _sent = stream.write_all(&request);
            let mut answer = Vec::new();
            let _ended = stream.read_to_end(&mut answer);
            std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        tokio::task::spawn_blocking(ask).await.unwrap().unwrap()
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut head =
            format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.ask(format!("{head}\r\n{body}").into_bytes()).await
    }
}

fn signature(body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_signature_triggers_a_fetch_for_any_body() {
    let mut world = World::new().await;
    // A known pair of key, text and HMAC (RFC 4231, test case 2) ties the test's signature to the
    // standard.
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"Jefe");
    let known = hmac::sign(&key, b"what do ya want for nothing?");
    assert!(known.as_ref().starts_with(&[0x5b, 0xdc, 0xc1, 0x46]));
    for body in ["", "{}", "no JSON \u{1b}", r#"{"ref":"refs/heads/x","repository":null}"#] {
        let hex = signature(body);
        for (name, value) in [
            ("X-Hub-Signature-256", format!("sha256={hex}")),
            ("X-Gitea-Signature", hex.clone()),
            ("X-Hub-Signature", format!("sha256={hex}")),
            ("X-Gitlab-Token", SECRET.to_owned()),
        ] {
            let answer = world.post("/hook", &[(name, &value)], body).await;
            assert!(answer.starts_with("HTTP/1.1 202"), "{name}: {answer}");
            assert_eq!(world.hinted(), ["one", "two"], "{name}");
        }
    }
    let token = [("X-Gitlab-Token", SECRET)];
    assert!(world.post("/hook/two", &token, "").await.starts_with("HTTP/1.1 202"));
    assert_eq!(world.hinted(), ["two"]);
    assert!(world.post("/hook/three", &token, "").await.starts_with("HTTP/1.1 404"));
    assert_eq!(world.hinted(), [""; 0]);
    // Many hints are one.
    for _ in 0..5 {
        assert!(world.post("/hook/one", &token, "").await.starts_with("HTTP/1.1 202"));
    }
    assert_eq!((world.hinted(), world.hinted()), (vec!["one".to_owned()], Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_signature_is_rejected() {
    let mut world = World::new().await;
    let hex = signature("{}");
    let wrong = format!("sha256={}", hex.replace(|c: char| c.is_ascii_digit(), "a"));
    let right = format!("sha256={hex}");
    for (headers, body) in [
        (vec![], "{}"),
        (vec![("X-Hub-Signature-256", wrong.as_str())], "{}"),
        (vec![("X-Hub-Signature-256", right.as_str())], "{} "),
        (vec![("X-Hub-Signature-256", "sha256="), ("X-Gitlab-Token", SECRET)], "{}"),
        (vec![("X-Gitlab-Token", "")], "{}"),
        (vec![("X-Gitlab-Token", &SECRET[1..])], "{}"),
    ] {
        let answer = world.post("/hook", &headers, body).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{headers:?}: {answer}");
        assert!(!answer.contains("CANARY"), "{answer}");
    }
    let get = b"GET /hook HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n".to_vec();
    assert!(world.ask(get).await.starts_with("HTTP/1.1 405"));
    // Without a secret there is nobody to trust.
    fs::write(&world.secret, "").unwrap();
    let answer = world.post("/hook", &[("X-Gitlab-Token", "")], "").await;
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    assert_eq!(world.hinted(), [""; 0]);
    assert!(world.metrics.encode().contains(r#"gitwork_webhooks_total{result="refused"} 7"#));
    // The next secret counts at once.
    fs::write(&world.secret, "second").unwrap();
    let answer = world.post("/hook", &[("X-Gitlab-Token", "second")], "").await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_body_is_not_read_to_its_end() {
    let mut world = World::new().await;
    let body = "x".repeat(limits::WEBHOOK_BODY_BYTES_MAX + 1);
    let hex = signature(&body);
    let answer = world.post("/hook", &[("X-Gitea-Signature", &hex)], &body).await;
    // The server may hang up before its answer is read.
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413"), "{answer}");
    assert_eq!(world.hinted(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_time_out_and_free_their_slot() {
    let mut world = World::new().await;
    let idle: Vec<TcpStream> = (0..limits::WEBHOOK_CONNECTIONS_MAX)
        .map(|_| TcpStream::connect(world.address).unwrap())
        .collect();
    let answer = world.post("/hook/one", &[("X-Gitlab-Token", SECRET)], "").await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    assert_eq!(world.hinted(), ["one"]);
    drop(idle);
}
