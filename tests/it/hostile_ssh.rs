//! SSH servers with the right host key that do what no Git server does: each fetch ends with an
//! error that says what happened, within its bounds.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gitwork_core::model::operation_error::OperationError as _;
use gitwork_git::{Auth, FetchError, Mirror, MirrorLimits, Reference, Remote};
use russh::keys::{PublicKey, decode_secret_key};
use russh::server::{self, ChannelOpenHandle, Handler, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, Disconnect, Error};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::git_server::keygen;

/// What a server does once the client runs a program on it, or before.
#[derive(Clone, Copy, PartialEq)]
enum Trick {
    /// Breaks the connection during the login.
    BreakLogin,
    /// Refuses every key.
    RefuseKeys,
    /// Says goodbye, with a control character.
    Disconnect,
    /// Does not run the program.
    RefuseProgram,
    /// Runs it, and says nothing.
    Silence,
    /// Writes errors without end.
    EndlessErrors,
    /// Opens a channel, as for a forwarded port.
    OpenChannel,
}

struct Server(Trick);

impl Handler for Server {
    type Error = Error;

    async fn auth_publickey(
        &mut self,
        _: &str,
        _: VerifiedPublicKey<'_>,
    ) -> Result<server::Auth, Error> {
        match self.0 {
            Trick::BreakLogin => Err(Error::Disconnect),
            Trick::RefuseKeys => Ok(server::Auth::reject()),
            _ => Ok(server::Auth::Accept),
        }
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Error> {
        assert_eq!(command, b"git-upload-pack '/a'");
        let handle = session.handle();
        match self.0 {
            Trick::Disconnect => {
                return session.disconnect(Disconnect::ByApplication, "closed\u{7}today", "");
            }
            Trick::RefuseProgram => return session.channel_failure(channel),
            Trick::EndlessErrors => {
                tokio::spawn(async move {
                    while handle.extended_data(channel, 1, vec![b'x'; 10_000]).await.is_ok() {}
                });
            }
            Trick::OpenChannel => {
                tokio::spawn(async move {
                    let _ = handle.channel_open_forwarded_tcpip("a", 1, "b", 2).await;
                });
            }
            _ => {}
        }
        session.channel_success(channel)
    }
}

/// Starts a server, and returns its address.
fn start(runtime: &Runtime, host_key: &Path, trick: Trick) -> SocketAddr {
    let key = decode_secret_key(&std::fs::read_to_string(host_key).unwrap(), None).unwrap();
    let config = Arc::new(server::Config {
        keys: vec![key],
        auth_rejection_time: Duration::ZERO,
        ..server::Config::default()
    });
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(session) = server::run_stream(config.clone(), stream, Server(trick)).await {
                tokio::spawn(session);
            }
        }
    });
    address
}

struct World {
    folder: tempfile::TempDir,
    host_key: PathBuf,
    runtime: Runtime,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let host_key = keygen(folder.path(), "host", "ed25519", "");
        keygen(folder.path(), "id", "rsa", "");
        World { folder, host_key, runtime: Runtime::new().unwrap() }
    }

    fn fetch(&self, trick: Trick) -> FetchError {
        let address = start(&self.runtime, &self.host_key, trick);
        let key = std::fs::read_to_string(self.host_key.with_extension("pub")).unwrap();
        assert!(key.parse::<PublicKey>().is_ok());
        let known_hosts = self.folder.path().join("known_hosts");
        std::fs::write(&known_hosts, format!("[127.0.0.1]:{} {key}", address.port())).unwrap();
        let auth =
            Auth::Ssh { key: self.folder.path().join("id"), passphrase_file: None, known_hosts };
        let url = format!("ssh://git@127.0.0.1:{}/a", address.port());
        let remote = Remote { url, auth, ca_bundle: None, client_certificate: None, proxy: None };
        let limits = MirrorLimits {
            stall_time_max: Duration::from_secs(1),
            fetch_bytes_max: 200_000,
            ..MirrorLimits::default()
        };
        let cache = self.folder.path().join("cache");
        let mut mirror = Mirror::open(&cache, remote, limits).unwrap();
        mirror.fetch(&Reference::Head, &Arc::new(AtomicBool::new(false))).unwrap_err()
    }
}

#[test]
fn hostile_ssh_servers_end_the_fetch_with_their_deed() {
    let world = World::new();
    let error = world.fetch(Trick::BreakLogin);
    assert!(matches!(error, FetchError::Connection { .. }), "no key was refused: {error:?}");
    let error = world.fetch(Trick::RefuseKeys);
    assert!(matches!(error, FetchError::AuthRefused { .. }), "{error:?}");
    let error = world.fetch(Trick::Disconnect);
    assert!(error.to_string().ends_with("the host ended it: closed today"), "{error:?}");
    assert!(!error.needs_action());
    let error = world.fetch(Trick::RefuseProgram);
    assert!(error.to_string().ends_with("the host does not run Git's program"), "{error:?}");
    let error = world.fetch(Trick::Silence);
    assert!(matches!(error, FetchError::Stalled { .. }), "{error:?}");
    let error = world.fetch(Trick::EndlessErrors);
    assert!(matches!(error, FetchError::TooLarge { .. }), "{error:?}");
    let error = world.fetch(Trick::OpenChannel);
    assert!(error.to_string().ends_with("opened a channel that was not requested"), "{error:?}");
}
