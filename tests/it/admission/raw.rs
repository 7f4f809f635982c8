//! Bytes on connections, as no client of Kubernetes would send them.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A TLS connection to the webhooks, with these authorities. The error is that of the handshake.
pub async fn connect(address: SocketAddr, bundle: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::from(address.ip());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Sends bytes, and reads until the server closes the connection.
pub async fn exchange(address: SocketAddr, bundle: &str, bytes: &[u8]) -> String {
    let mut stream = connect(address, bundle).await.unwrap();
    // The server may answer and close before it has read everything.
    let _written = stream.write_all(bytes).await;
    let _flushed = stream.flush().await;
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// The same without TLS.
pub async fn plain(address: SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _written = stream.write_all(text.as_bytes()).await;
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// A POST after which the server closes the connection.
pub fn post(path: &str, body: &str) -> String {
    format!("{}connection: close\r\n\r\n{body}", head(path, body.len()))
}

/// The beginning of the head of a POST.
pub fn head(path: &str, length: usize) -> String {
    format!(
        "POST {path}?timeout=10s HTTP/1.1\r\nhost: webhooks\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n"
    )
}

/// The status of an answer; 0 without one.
pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default()
}

/// Reads one answer of a connection that stays open.
pub async fn read_answer(stream: &mut TlsStream<TcpStream>) -> String {
    let mut answer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&answer).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            let length = length.split("content-length: ").nth(1).unwrap();
            let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
            if body.len() >= length {
                return text;
            }
        }
        let mut room = [0; 4096];
        let count = stream.read(&mut room).await.unwrap();
        assert!(count > 0, "the server closed the connection after {text:?}");
        answer.extend_from_slice(&room[..count]);
    }
}
