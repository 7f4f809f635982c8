//! A proxy to a server. Its connections can be cut while the server stays up.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards connections. It lives as long as the process.
pub struct Gate {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Gate {
    /// A gate to a port of 127.0.0.1.
    pub fn to(port: u16) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gate = Gate { port: listener.local_addr().unwrap().port(), open: Arc::default() };
        let open = Arc::clone(&gate.open);
        let server = SocketAddr::from(([127, 0, 0, 1], port));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // If the server is down, the client's connection closes.
                let Ok(server) = TcpStream::connect(server) else { continue };
                let _gone = pass(client, server, &open);
            }
        });
        gate
    }

    /// A kubeconfig or URL, with this gate in place of the server.
    pub fn in_place_of(&self, server: &str, text: &str) -> String {
        assert!(text.contains(server), "{server} is what the file has to lead to");
        text.replace(server, &format!("https://127.0.0.1:{}", self.port))
    }

    /// Breaks all connections, and returns their number.
    pub fn cut(&self) -> usize {
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        // Each has two entries, the client's end and the server's. Some have closed before.
        open.iter().filter(|end| end.shutdown(Shutdown::Both).is_ok()).count() / 2
    }
}

fn pass(client: TcpStream, server: TcpStream, open: &Mutex<Vec<TcpStream>>) -> std::io::Result<()> {
    let ends = [client.try_clone()?, server.try_clone()?];
    {
        let mut open = open.lock().unwrap();
        // Closed connections are removed, so that the list stays short.
        open.retain(|end| end.peer_addr().is_ok());
        open.extend(ends);
    }
    for (mut from, mut to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        thread::spawn(move || {
            let _broken = std::io::copy(&mut from, &mut to);
            let _gone = to.shutdown(Shutdown::Both);
            let _gone = from.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}
