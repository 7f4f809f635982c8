//! An HTTP proxy that records its requests: CONNECT, and plain requests in absolute form.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// First lines of the requests.
    requests: Mutex<Vec<String>>,
    /// The required value of `Proxy-Authorization`.
    authorization: Option<String>,
    stopped: AtomicBool,
}

impl Proxy {
    pub fn start() -> Proxy {
        Proxy::start_with(None)
    }

    /// A proxy that requires this value of `Proxy-Authorization`.
    pub fn start_with(authorization: Option<&str>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            authorization: authorization.map(str::to_owned),
            ..Shared::default()
        });
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                if state.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&state);
                thread::spawn(move || client.and_then(|client| state.serve(client)));
            }
        });
        Proxy { port, shared }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) -> std::io::Result<()> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            client.read_exact(&mut byte)?;
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        let first = head.lines().next().unwrap_or_default().to_owned();
        self.requests.lock().unwrap().push(first.clone());
        if let Some(wanted) = &self.authorization {
            let line = format!("proxy-authorization: {wanted}");
            if !head.lines().any(|l| l.eq_ignore_ascii_case(&line)) {
                return client.write_all(
                    b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
                );
            }
        }
        let target = first.split(' ').nth(1).unwrap_or_default();
        let server = if first.starts_with("CONNECT ") {
            let server = TcpStream::connect(target)?;
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
            server
        } else {
            let rest = target.strip_prefix("http://").unwrap_or(target);
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let mut server = TcpStream::connect(host)?;
            let head = head.replacen(target, &format!("/{path}"), 1);
            server.write_all(head.as_bytes())?;
            server
        };
        let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
        let (mut from, mut to) = (server, client);
        std::io::copy(&mut from, &mut to)?;
        to.shutdown(std::net::Shutdown::Both)
    }
}
