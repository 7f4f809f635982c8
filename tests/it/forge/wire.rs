//! Answers that go wrong on the way, and what stands between gitwork and a forge.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gitwork_core::config::commit_status::Provider;
use gitwork_report::forge::CommitState;
use gitwork_report::forge::response::Rejection;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::server::{Client, Forge, TOKEN, client, status};

async fn rejection(client: &Client) -> Rejection {
    client.forge.write(&status(CommitState::Pending), None).await.unwrap_err()
}

fn blocked(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::Blocked { .. })
}

#[tokio::test]
async fn every_error_suggests_a_fix_and_hides_the_token() {
    let forge = Forge::start().await;
    let client = client(Provider::Github, &format!("http://{}", forge.address), &json!({}));
    let quoted = format!(r#"{{"message":"you sent {TOKEN}"}}"#);
    for (code, is_blocked, words) in [
        (301, true, "apiUrl"),
        (401, true, "token file"),
        (403, true, "repo:status"),
        (404, true, "repository"),
        (422, true, "rejects"),
        (500, false, "later"),
        (502, false, "later"),
    ] {
        forge.answer_next(code, &[("location", "http://127.0.0.1:1/")], &quoted);
        let rejection = rejection(&client).await;
        let text = format!("{rejection} {rejection:?}");
        assert!(text.contains(words) && text.contains("[token]"), "{code}: {text}");
        assert!(!text.contains(TOKEN), "{code}: {text}");
        assert_eq!(blocked(&rejection), is_blocked, "{code}: {text}");
    }
    // A redirect is not followed: the token would go with it.
    assert_eq!(forge.seen().len(), 7);
    forge.answer_next(429, &[("retry-after", "120")], "");
    let after = Some(Duration::from_secs(120));
    assert!(matches!(rejection(&client).await, Rejection::Later { after: a, .. } if a == after));
}

#[tokio::test]
async fn token_file_is_read_for_each_write() {
    let forge = Forge::start().await;
    let client = client(Provider::Github, &format!("http://{}", forge.address), &json!({}));
    client.forge.write(&status(CommitState::Pending), None).await.unwrap();
    std::fs::write(&client.token, "second\n").unwrap();
    client.forge.write(&status(CommitState::Pending), None).await.unwrap();
    assert_eq!(forge.seen()[1].headers["authorization"], "Bearer second");
    for (content, words) in [(Some(""), "empty"), (Some("a\nb"), "header"), (None, "token")] {
        match content {
            Some(content) => std::fs::write(&client.token, content).unwrap(),
            None => std::fs::remove_file(&client.token).unwrap(),
        }
        let rejection = rejection(&client).await;
        assert!(blocked(&rejection) && rejection.to_string().contains(words), "{rejection}");
    }
    assert_eq!(forge.seen().len(), 2, "nothing is sent without a token");
}

/// A server that reads a request, sends this, and closes the connection after `wait`.
fn raw(answer: &'static [u8], wait: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 64];
        let _ = stream.read(&mut head);
        let _ = stream.write_all(answer);
        if wait {
            // Until the client gives up.
            let _ = stream.read_to_end(&mut Vec::new());
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn truncated_responses_and_closed_ports_are_retried() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [
        raw(b"", false),
        raw(b"HTTP/1.1 201 Cre", false),
        raw(b"HTTP/1.1 201 Created\r\nContent-Length: 500\r\n\r\n{\"id\":", false),
        raw(b"220 smtp.example ESMTP\r\n", false),
        format!("http://{closed}"),
    ] {
        let rejection = rejection(&client(Provider::Gitea, &url, &json!({}))).await;
        assert!(matches!(rejection, Rejection::Later { .. }), "{rejection:?}");
    }
}

/// Tokio's clock jumps when nothing is to be done: no real time passes here.
#[tokio::test(start_paused = true)]
async fn silent_forge_times_out() {
    let client = client(Provider::Gitea, &raw(b"", true), &json!({}));
    let rejection = rejection(&client).await;
    assert!(
        matches!(&rejection, Rejection::Later { message,
            .. } if message.contains("did not answer within")),
        "{rejection:?}"
    );
}

#[tokio::test]
async fn endless_response_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4_096]);
        let _ = stream.write_all(b"HTTP/1.1 201 Created\r\n\r\n");
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
    });
    let rejection = rejection(&client(Provider::Gitea, &url, &json!({}))).await;
    assert!(rejection.to_string().contains("broke off or is longer"), "{rejection}");
}

/// A server with a certificate of its own; answers one request with 201.
fn tls_server() -> (String, String) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream.unwrap());
            let mut head = [0; 4_096];
            if stream.read(&mut head).is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}");
            }
        }
    });
    (url, certified.cert.pem())
}

#[tokio::test]
async fn private_certificate_authority_is_trusted_when_configured() {
    let (url, pem) = tls_server();
    let stranger = rejection(&client(Provider::Gitea, &url, &json!({}))).await;
    assert!(stranger.to_string().contains("certificate"), "{stranger}");
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    let more = json!({ "caFile": bundle.to_str().unwrap() });
    let client = client(Provider::Gitea, &url, &more);
    for bad in ["", "no certificate"] {
        std::fs::write(&bundle, bad).unwrap();
        assert!(rejection(&client).await.to_string().contains("CA bundle"));
    }
    std::fs::write(&bundle, pem).unwrap();
    client.forge.write(&status(CommitState::Success), None).await.unwrap();
}

/// A proxy that knows CONNECT. Answers the first lines of what it was asked.
fn proxy() -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let (mut near, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && near.read(&mut byte).unwrap() > 0 {
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let place = head.split(' ').nth(1).unwrap().to_owned();
        sender.send(head).unwrap();
        let mut far = TcpStream::connect(place).unwrap();
        near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let (mut from, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        let _ = std::io::copy(&mut near, &mut far);
    });
    (address, receiver)
}

#[tokio::test]
async fn configured_proxy_is_used() {
    let forge = Forge::start().await;
    let (address, asked) = proxy();
    let more = json!({ "proxy": format!("http://user:pass@{address}") });
    let client = client(Provider::Gitea, &format!("http://{}", forge.address), &more);
    client.forge.write(&status(CommitState::Success), None).await.unwrap();
    assert_eq!(forge.seen().len(), 1);
    let head = asked.recv().unwrap();
    assert!(head.starts_with(&format!("CONNECT {} ", forge.address)), "{head}");
    // base64 of "user:pass".
    assert!(
        head.to_ascii_lowercase().contains("proxy-authorization: basic dxnlcjpwyxnz"),
        "{head}"
    );
    let bad =
        super::server::client(Provider::Gitea, "http://h", &json!({ "proxy": "socks5://h:1" }));
    assert!(blocked(&rejection(&bad).await));
}
