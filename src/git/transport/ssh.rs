//! Git over SSH with libssh2: one session, one channel, `git-upload-pack` or, to
//! push, `git-receive-pack` at its other end.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream};
use ssh2::{Channel, ErrorCode, MethodType, Session};

use super::attempt::Attempt;
use super::known_hosts::{self, Verdict};
use super::tcp::Wire;
use crate::git::error::{FetchError, HostKey};
use crate::git::remote::{Address, Auth, bracketed, read_credential, read_secret};

/// `LIBSSH2_ERROR_TIMEOUT`, `_EAGAIN`, `_AUTHENTICATION_FAILED`, `_PUBLICKEY_UNVERIFIED` of `libssh2.h`.
const TIMED_OUT: i32 = -9;
const AGAIN: i32 = -37;
const REFUSED: [i32; 2] = [-18, -19];
/// What is kept of a server's message on its standard error.
const MESSAGE_BYTES_MAX: u64 = 2_048;

pub struct SshTransport {
    attempt: Arc<Attempt>,
}

/// The place and the login of one attempt.
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
    attempt: Arc<Attempt>,
    channel: Channel,
    /// For messages.
    host: String,
    heard: bool,
    // Last: the channel is closed through it.
    session: Session,
}

impl SshTransport {
    pub fn new(attempt: Arc<Attempt>) -> Self {
        Self { attempt }
    }

    fn open(&self, program: &str) -> Result<Conversation, FetchError> {
        let attempt = &self.attempt;
        let login = login(attempt)?;
        let session = login.connect(attempt)?;
        login.authenticate(attempt, &session)?;
        let host = login.shown();
        let mut channel = attempt.patiently(&host, || session.channel_session())?;
        let command = format!("{program} {}", quoted(login.path));
        attempt.patiently(&host, || channel.exec(&command))?;
        Ok(Conversation { attempt: Arc::clone(attempt), channel, host, heard: false, session })
    }
}

impl SmartSubtransport for SshTransport {
    fn action(
        &self,
        _: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        // The listing and what follows it are one conversation.
        let program = match service {
            Service::UploadPackLs => "git-upload-pack",
            Service::ReceivePackLs => "git-receive-pack",
            Service::UploadPack | Service::ReceivePack => {
                return Err(git2::Error::from_str("the conversation has ended already"));
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

fn login(attempt: &Attempt) -> Result<Login<'_>, FetchError> {
    let Address::Ssh { user, host, port, path } = &attempt.address else {
        return Err(FetchError::Ssh {
            host: attempt.url(),
            problem: "the URL is not one for SSH".to_owned(),
        });
    };
    let Auth::Ssh { key, passphrase_file, known_hosts } = &attempt.remote.auth else {
        return Err(FetchError::AuthRefused {
            url: attempt.url(),
            credentials: "access without an SSH key",
            hint: "; configure an SSH key and a known_hosts file",
        });
    };
    let passphrase_file = passphrase_file.as_deref();
    Ok(Login { user, host, port: *port, path, key, passphrase_file, known_hosts })
}

impl Login<'_> {
    fn shown(&self) -> String {
        format!("{}:{}", bracketed(self.host), self.port)
    }

    /// Connects, and checks the host's key before anything is said to it.
    fn connect(&self, attempt: &Arc<Attempt>) -> Result<Session, FetchError> {
        let host = self.shown();
        let name = known_hosts::name(self.host, self.port);
        let text = read_credential(self.known_hosts, "known_hosts")?;
        let text = String::from_utf8_lossy(&text);
        let wire = Wire::open(attempt, self.host, self.port)?;
        let failed = |e| ssh_error(&host, &e);
        let mut session = Session::new().map_err(failed)?;
        prefer(&session, &known_hosts::kinds(&text, &name)).map_err(failed)?;
        session.set_tcp_stream(wire.stream);
        attempt.patiently(&host, || session.handshake())?;
        let Some((key, _)) = session.host_key() else {
            let problem = "the host has shown no key".to_owned();
            return Err(FetchError::Ssh { host, problem });
        };
        self.judge(&text, &name, key)?;
        Ok(session)
    }

    fn judge(&self, text: &str, name: &str, key: &[u8]) -> Result<(), FetchError> {
        let refused = || {
            Box::new(HostKey {
                host: self.shown(),
                kind: known_hosts::kind(key),
                fingerprint: known_hosts::fingerprint(key),
                line: known_hosts::line(name, key),
                file: self.known_hosts.to_owned(),
            })
        };
        match known_hosts::judge(text, name, key) {
            Verdict::Known => Ok(()),
            Verdict::Unknown => Err(FetchError::HostKeyUnknown { key: refused() }),
            Verdict::Changed { line: known_line } => {
                Err(FetchError::HostKeyChanged { key: refused(), known_line })
            }
            Verdict::Revoked { line: known_line } => {
                Err(FetchError::HostKeyRevoked { key: refused(), known_line })
            }
        }
    }

    fn authenticate(&self, attempt: &Attempt, session: &Session) -> Result<(), FetchError> {
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
                    attempt.go_on(&self.shown(), started)?;
                }
                ErrorCode::Session(code) if REFUSED.contains(&code) => {
                    return Err(FetchError::AuthRefused {
                        url: attempt.url(),
                        credentials: "the SSH key",
                        hint: "; check the user name in the URL, and that the public key may read the \
                               repository",
                    });
                }
                // Reading the key is the only other thing that fails here while the connection stands.
                ErrorCode::Session(code) if code > -5 || code == -16 => {
                    let hint = if passphrase.is_some() { "; is the passphrase right?" } else { "" };
                    return Err(unusable(format!("{}{hint}", error.message())));
                }
                _ => return Err(ssh_error(&self.shown(), &error)),
            }
        }
    }
}

impl Attempt {
    /// Repeats a step of libssh2 that timed out after one slice, until it ends or the attempt does.
    fn patiently<T>(
        &self,
        host: &str,
        mut step: impl FnMut() -> Result<T, ssh2::Error>,
    ) -> Result<T, FetchError> {
        let started = Instant::now();
        loop {
            match step() {
                Err(e) if matches!(e.code(), ErrorCode::Session(TIMED_OUT | AGAIN)) => {
                    self.go_on(host, started)?;
                }
                other => return other.map_err(|e| ssh_error(host, &e)),
            }
        }
    }

    fn go_on(&self, host: &str, started: Instant) -> Result<(), FetchError> {
        self.check()?;
        if started.elapsed() < self.stall() {
            return Ok(());
        }
        Err(FetchError::Stalled { url: self.url(), host: host.to_owned(), limit: self.stall() })
    }
}

/// Asks for the host keys that can be checked, before the others, and sets how long one call may wait.
fn prefer(session: &Session, known: &[String]) -> Result<(), ssh2::Error> {
    session.set_timeout(100);
    let supported = session.supported_algs(MethodType::HostKey)?;
    let wanted = |method: &&str| {
        known.iter().any(|kind| {
            // Signature methods of RSA keys have names of their own (RFC 8332).
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

/// Quoted for a shell: the server gives the command to the user's.
fn quoted(path: &str) -> String {
    format!("'{}'", path.replace('\'', r"'\''").replace('!', r"'\!'"))
}

impl Conversation {
    /// What the server says when it hangs up without an answer.
    fn refusal(&mut self) -> FetchError {
        let mut bytes = Vec::new();
        let mut stderr = self.channel.stderr();
        // Whatever came so far is all that is of use.
        let _ = (&mut stderr).take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let message: String =
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
        let message = message.trim().to_owned();
        let lower = message.to_ascii_lowercase();
        let url = self.attempt.url();
        let missing = ["not appear to be a git repository", "not found", "does not exist"];
        if missing.iter().any(|words| lower.contains(words)) {
            return FetchError::RepositoryMissing { url };
        }
        let message = if message.is_empty() { "nothing, and hung up".to_owned() } else { message };
        FetchError::Refused { url, message }
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
                    if let Err(error) = self.attempt.go_on(&self.host, started) {
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
        if count == 0 && !self.heard && !buffer.is_empty() {
            let refusal = self.refusal();
            return Err(self.attempt.fail(refusal));
        }
        self.heard = true;
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
        // Closing is polite, not needed: do not wait for a peer that has gone silent.
        self.session.set_timeout(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_one_word_for_a_shell() {
        assert_eq!(quoted("/a b"), "'/a b'");
        assert_eq!(quoted("a'; rm -rf /'"), r"'a'\''; rm -rf /'\'''");
    }
}
