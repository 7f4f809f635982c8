//! Git over SSH with libssh2: one session with one channel, which runs `git-upload-pack` or, to
//! push, `git-receive-pack`.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use ssh2::{Channel, ErrorCode, MethodType, Session};

use super::attempt::RemoteAttempt;
use super::known_hosts::{self, HostKeyCheck};
use super::ssh_refusal;
use super::tcp::TcpConnection;
use crate::address::{Address, bracketed};
use crate::credential_file::{read_credential, read_secret};
use crate::error::{FetchError, HostKey};
use crate::remote::Auth;

/// `LIBSSH2_ERROR_TIMEOUT`, `_EAGAIN`, `_AUTHENTICATION_FAILED` and `_PUBLICKEY_UNVERIFIED` of
/// `libssh2.h`.
const TIMED_OUT: i32 = -9;
const AGAIN: i32 = -37;
const REFUSED: [i32; 2] = [-18, -19];
/// Bytes kept of the server's standard error.
const MESSAGE_BYTES_MAX: u64 = 2_048;

/// libgit2's SSH transport for one attempt.
pub struct SshTransport {
    attempt: Arc<RemoteAttempt>,
}

/// The address and the credentials of one attempt.
struct Login<'a> {
    user: &'a str,
    host: &'a str,
    port: u16,
    path: &'a str,
    key: &'a Path,
    passphrase_file: Option<&'a Path>,
    known_hosts: &'a Path,
}

struct Conversation {
    attempt: Arc<RemoteAttempt>,
    channel: Channel,
    /// For messages.
    host: String,
    has_answered: bool,
    // The last field: the channel is closed through the session.
    session: Session,
}

impl SshTransport {
    pub fn new(attempt: Arc<RemoteAttempt>) -> Self {
        Self { attempt }
    }

    fn open(&self, program: &str) -> Result<Conversation, FetchError> {
        let attempt = &self.attempt;
        let login = login(attempt)?;
        let session = login.connect(attempt)?;
        login.authenticate(attempt, &session)?;
        let host = login.shown();
        let mut channel = attempt.with_stall_limit(&host, || session.channel_session())?;
        let command = format!("{program} {}", quoted(login.path));
        attempt.with_stall_limit(&host, || channel.exec(&command))?;
        Ok(Conversation {
            attempt: Arc::clone(attempt),
            channel,
            host,
            has_answered: false,
            session,
        })
    }
}

impl SmartSubtransport for SshTransport {
    fn action(
        &self,
        _: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        // The listing and the transfer share one channel.
        let program = match service {
            Service::UploadPackLs => "git-upload-pack",
            Service::ReceivePackLs => "git-receive-pack",
            Service::UploadPack | Service::ReceivePack => {
                return Err(git2::Error::from_str("the SSH channel has already ended"));
            }
        };
        match self.open(program) {
            Ok(conversation) => Ok(Box::new(conversation)),
            Err(error) => Err(git2::Error::from_str(&self.attempt.fail(error).to_string())),
        }
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

fn login(attempt: &RemoteAttempt) -> Result<Login<'_>, FetchError> {
    let Address::Ssh { user, host, port, path } = &attempt.address else {
        return Err(FetchError::Ssh {
            host: attempt.url(),
            problem: "the URL is not an SSH URL".to_owned(),
        });
    };
    let Auth::Ssh { key, passphrase_file, known_hosts } = &attempt.remote.auth else {
        return Err(FetchError::AuthRefused {
            url: attempt.url(),
            credentials: "access without an SSH key",
            hint: "configure an SSH key and a known_hosts file",
        });
    };
    let passphrase_file = passphrase_file.as_deref();
    Ok(Login { user, host, port: *port, path, key, passphrase_file, known_hosts })
}

impl Login<'_> {
    fn shown(&self) -> String {
        format!("{}:{}", bracketed(self.host), self.port)
    }

    /// Connects, and checks the host's key before it sends any credential.
    fn connect(&self, attempt: &Arc<RemoteAttempt>) -> Result<Session, FetchError> {
        let host = self.shown();
        let name = known_hosts::name(self.host, self.port);
        let text = read_credential(self.known_hosts, "known_hosts")?;
        let text = String::from_utf8_lossy(&text);
        let connection = TcpConnection::open(attempt, self.host, self.port)?;
        let failed = |e| ssh_error(&host, &e);
        let mut session = Session::new().map_err(failed)?;
        prefer(&session, &known_hosts::kinds(&text, &name)).map_err(failed)?;
        session.set_tcp_stream(connection.stream);
        attempt.with_stall_limit(&host, || session.handshake())?;
        let Some((key, _)) = session.host_key() else {
            let problem = "the host offered no key".to_owned();
            return Err(FetchError::Ssh { host, problem });
        };
        self.check_host_key(&text, &name, key)?;
        Ok(session)
    }

    /// Checks the host's key against the text of `known_hosts`.
    fn check_host_key(&self, text: &str, name: &str, key: &[u8]) -> Result<(), FetchError> {
        let refused = || {
            Box::new(HostKey {
                host: self.shown(),
                kind: known_hosts::kind(key),
                fingerprint: known_hosts::fingerprint(key),
                line: known_hosts::line(name, key),
                file: self.known_hosts.to_owned(),
            })
        };
        match known_hosts::check(text, name, key) {
            HostKeyCheck::Known => Ok(()),
            HostKeyCheck::Unknown => Err(FetchError::HostKeyUnknown { key: refused() }),
            HostKeyCheck::Changed { line: known_line } => {
                Err(FetchError::HostKeyChanged { key: refused(), known_line })
            }
            HostKeyCheck::Revoked { line: known_line } => {
                Err(FetchError::HostKeyRevoked { key: refused(), known_line })
            }
        }
    }

    fn authenticate(&self, attempt: &RemoteAttempt, session: &Session) -> Result<(), FetchError> {
        let unusable = |problem: String| FetchError::CredentialFile {
            file: self.key.to_owned(),
            purpose: "SSH key",
            problem,
        };
        let key = read_credential(self.key, "SSH key")?;
        let key = String::from_utf8(key).map_err(|_| unusable("it is not PEM text".into()))?;
        let passphrase = match self.passphrase_file {
            Some(file) => Some(read_secret(file, "passphrase of the SSH key")?),
            None if is_encrypted(&key) => {
                return Err(unusable("it is encrypted; name a file with its passphrase".into()));
            }
            None => None,
        };
        let started = Instant::now();
        loop {
            let outcome =
                session.userauth_pubkey_memory(self.user, None, &key, passphrase.as_deref());
            let Err(error) = outcome else { return Ok(()) };
            match error.code() {
                ErrorCode::Session(TIMED_OUT | AGAIN) => {
                    attempt.check_stall(&self.shown(), started)?;
                }
                ErrorCode::Session(code) if REFUSED.contains(&code) => {
                    return Err(FetchError::AuthRefused {
                        url: attempt.url(),
                        credentials: "the SSH key",
                        hint: "check the user name in the URL, and that the public key may read \
                               the repository",
                    });
                }
                // Reading the key is the only other failure here while the connection is open.
                ErrorCode::Session(code) if code > -5 || code == -16 => {
                    let hint = if passphrase.is_some() { "; is the passphrase right?" } else { "" };
                    return Err(unusable(format!("{}{hint}", error.message())));
                }
                _ => return Err(ssh_error(&self.shown(), &error)),
            }
        }
    }
}

impl RemoteAttempt {
    /// Repeats a step of libssh2 that timed out after one slice, until it ends or the attempt does.
    fn with_stall_limit<T>(
        &self,
        host: &str,
        mut step: impl FnMut() -> Result<T, ssh2::Error>,
    ) -> Result<T, FetchError> {
        let started = Instant::now();
        loop {
            match step() {
                Err(e) if matches!(e.code(), ErrorCode::Session(TIMED_OUT | AGAIN)) => {
                    self.check_stall(host, started)?;
                }
                other => return other.map_err(|e| ssh_error(host, &e)),
            }
        }
    }

    fn check_stall(&self, host: &str, started: Instant) -> Result<(), FetchError> {
        self.check()?;
        if started.elapsed() < self.stall() {
            return Ok(());
        }
        Err(FetchError::Stalled { url: self.url(), host: host.to_owned(), limit: self.stall() })
    }
}

/// Requests the known types of host keys first, and sets how long one call may block.
fn prefer(session: &Session, known: &[String]) -> Result<(), ssh2::Error> {
    session.set_timeout(100);
    let supported = session.supported_algs(MethodType::HostKey)?;
    let wanted = |method: &&str| {
        known.iter().any(|kind| {
            // The signature methods of RSA keys have their own names (RFC 8332).
            kind == method || (kind == "ssh-rsa" && method.starts_with("rsa-sha2-"))
        })
    };
    let (mut first, others): (Vec<&str>, Vec<&str>) = supported.into_iter().partition(wanted);
    first.extend(others);
    session.method_pref(MethodType::HostKey, &first.join(","))
}

fn ssh_error(host: &str, error: &ssh2::Error) -> FetchError {
    FetchError::Ssh { host: host.to_owned(), problem: error.message().to_owned() }
}

fn is_encrypted(key: &str) -> bool {
    match ssh_key::PrivateKey::from_openssh(key) {
        Ok(key) => key.is_encrypted(),
        Err(_) => key.contains("ENCRYPTED"),
    }
}

/// The path quoted for the user's shell on the server.
fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''").replace('!', r"'\!'"))
}

impl Conversation {
    /// The error after the server ends the channel without an answer.
    fn refusal(&mut self) -> FetchError {
        let mut bytes = Vec::new();
        let mut stderr = self.channel.stderr();
        // The part that has arrived is enough.
        let _ = (&mut stderr).take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes);
        ssh_refusal::read(&bytes, self.attempt.url())
    }

    fn step(
        &mut self,
        mut step: impl FnMut(&mut Channel) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let started = Instant::now();
        loop {
            if let Err(error) = self.attempt.check() {
                return Err(self.attempt.fail(error));
            }
            match step(&mut self.channel) {
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) =>
                {
                    if let Err(error) = self.attempt.check_stall(&self.host, started) {
                        return Err(self.attempt.fail(error));
                    }
                }
                Err(source) => {
                    let host = self.host.clone();
                    return Err(self.attempt.fail(FetchError::Connection { host, source }));
                }
                Ok(count) => return Ok(count),
            }
        }
    }
}

impl Read for Conversation {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.step(|channel| channel.read(buffer))?;
        self.attempt.count(count);
        if count == 0 && !self.has_answered && !buffer.is_empty() {
            let refusal = self.refusal();
            return Err(self.attempt.fail(refusal));
        }
        self.has_answered = true;
        Ok(count)
    }
}

impl Write for Conversation {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.step(|channel| channel.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // Closing the channel is optional: do not wait for a silent peer.
        self.session.set_timeout(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_one_word_for_a_shell() {
        assert_eq!(quoted("/a b"), "'/a b'");
        assert_eq!(quoted("a'; rm -rf /'"), r"'a'\''; rm -rf /'\'''");
    }
}
