//! The host of an SSH session: its key is checked, and it may start nothing on its own.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use russh::client::{ChannelOpenHandle, DisconnectReason, Handler, Msg, Session};
use russh::keys::ssh_key::HashAlg;
use russh::keys::{PublicKey, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Channel, SendError};

use super::http_error::broken;
use super::known_hosts::{self, HostKeyCheck};
use crate::error::{FetchError, HostKey};

/// Characters kept of a text that the host may have written.
const TEXT_CHARS_MAX: usize = 300;

/// What is known of the host.
pub(super) struct Host {
    /// `host:port`, for messages.
    pub shown: String,
    /// Its name in `known_hosts`.
    pub name: String,
    /// The text of `known_hosts`.
    pub known: String,
    /// The file of `known_hosts`.
    pub file: PathBuf,
    pub ending: Ending,
}

/// Why a session failed.
#[derive(Debug)]
pub(super) enum SshError {
    Library(russh::Error),
    /// The host's key was refused.
    HostKey(FetchError),
    /// The host opened a channel, as for forwarded ports, which nobody requested.
    Unrequested,
    /// The host accepts RSA keys with SHA-1 alone.
    Sha1,
}

impl From<russh::Error> for SshError {
    fn from(error: russh::Error) -> Self {
        Self::Library(error)
    }
}

impl From<SendError> for SshError {
    fn from(_: SendError) -> Self {
        Self::Library(russh::Error::SendError)
    }
}

impl SshError {
    /// The error of the fetch from `host`.
    pub fn of(self, host: &str) -> FetchError {
        let problem = match self {
            Self::HostKey(error) => return error,
            Self::Library(russh::Error::IO(error)) => return broken(host, &error),
            Self::Library(russh::Error::NoCommonAlgo { kind, theirs, .. }) => {
                no_common_algorithm(&kind, &theirs)
            }
            Self::Library(error) => printable(&error.to_string()),
            Self::Unrequested => "the host opened a channel that was not requested".to_owned(),
            Self::Sha1 => "the host accepts RSA keys with SHA-1 signatures alone, which are \
                           forgeable; use an Ed25519 or ECDSA key"
                .to_owned(),
        };
        FetchError::Ssh { host: host.to_owned(), problem }
    }
}

/// Why a session ended, once it has.
#[derive(Clone, Default)]
pub(super) struct Ending(Arc<Mutex<Option<FetchError>>>);

impl Ending {
    fn set(&self, error: FetchError) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// The error of a session that ended too early.
    pub fn error(&self, host: &str) -> FetchError {
        let error = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.unwrap_or_else(|| broken(host, &io::ErrorKind::UnexpectedEof.into()))
    }
}

impl Host {
    /// Checks the host's key against the text of `known_hosts`.
    fn check(&self, key: &PublicKey) -> Result<(), SshError> {
        let bytes = key.to_bytes().map_err(russh::Error::from)?;
        let refused = || {
            Box::new(HostKey {
                host: self.shown.clone(),
                kind: known_hosts::kind(&bytes),
                fingerprint: key.fingerprint(HashAlg::Sha256).to_string(),
                line: known_hosts::line(&self.name, &bytes),
                file: self.file.clone(),
            })
        };
        let error = match known_hosts::check(&self.known, &self.name, &bytes) {
            HostKeyCheck::Known => return Ok(()),
            HostKeyCheck::Unknown => FetchError::HostKeyUnknown { key: refused() },
            HostKeyCheck::Changed { line: known_line } => {
                FetchError::HostKeyChanged { key: refused(), known_line }
            }
            HostKeyCheck::Revoked { line: known_line } => {
                FetchError::HostKeyRevoked { key: refused(), known_line }
            }
        };
        Err(SshError::HostKey(error))
    }
}

/// Ends the session when the host opens a channel. The library accepts them, each for some memory.
macro_rules! refuse_channels {
    ($($opened:ident($($argument:ty),*);)*) => {
        $(
            async fn $opened(
                &mut self,
                _: Channel<Msg>,
                $(_: $argument,)*
                _: ChannelOpenHandle,
                _: &mut Session,
            ) -> Result<(), SshError> {
                Err(SshError::Unrequested)
            }
        )*
    };
}

impl Handler for Host {
    type Error = SshError;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, SshError> {
        // Certificates of hosts are not requested, so nobody offers one.
        self.check(&key.public_key()).map(|()| key.certificate().is_none())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<SshError>) -> Result<(), SshError> {
        let error = match reason {
            DisconnectReason::Error(error) => error.of(&self.shown),
            DisconnectReason::ReceivedDisconnect(words) => {
                let problem = format!("the host ended it: {}", printable(&words.message));
                FetchError::Ssh { host: self.shown.clone(), problem }
            }
        };
        self.ending.set(error);
        Ok(())
    }

    refuse_channels! {
        server_channel_open_session();
        server_channel_open_direct_tcpip(&str, u32, &str, u32);
        server_channel_open_direct_streamlocal(&str);
        server_channel_open_x11(&str, u32);
        server_channel_open_forwarded_tcpip(&str, u32, &str, u32);
        server_channel_open_forwarded_streamlocal(&str);
        server_channel_open_agent_forward();
    }
}

/// What the host offers, where it has nothing that gitwork accepts.
fn no_common_algorithm(kind: &AlgorithmKind, theirs: &[String]) -> String {
    let purpose = match kind {
        AlgorithmKind::Kex => "key exchange",
        AlgorithmKind::Key => "host keys",
        AlgorithmKind::Cipher => "encryption",
        AlgorithmKind::Compression => "compression",
        AlgorithmKind::Mac => "message authentication",
    };
    let offered = printable(&theirs.join(", "));
    format!("no common algorithm for {purpose}; the host offers {offered}")
}

/// The beginning of a text, on one line.
fn printable(text: &str) -> String {
    let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    text.take(TEXT_CHARS_MAX).collect()
}
