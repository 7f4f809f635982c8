//! One SSH session: the connection, the check of the host's key, and the login.

use std::path::PathBuf;
use std::sync::Arc;

use russh::Preferred;
use russh::client::{AuthResult, Config, Handle, connect_stream};
use russh::keys::{Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg};

use super::attempt::RemoteAttempt;
use super::connection::{connect, shown};
use super::known_hosts;
use super::private_key::{self, RsaSigner};
use super::ssh_host::{Ending, Host, SshError};
use super::tcp::HangUp;
use crate::address::Address;
use crate::credential_file::read_credential;
use crate::error::FetchError;
use crate::remote::Auth;

/// The address and the credentials of one attempt.
pub(super) struct Login {
    user: String,
    host: String,
    port: u16,
    /// The repository's path on the host.
    pub path: String,
    key: PathBuf,
    passphrase_file: Option<PathBuf>,
    known_hosts: PathBuf,
}

/// An open session. It ends when it is dropped.
pub(super) struct SshSession {
    pub handle: Handle<Host>,
    /// Why it ended, once it has.
    pub ending: Ending,
    _hang_up: HangUp,
}

impl Login {
    pub fn of(attempt: &RemoteAttempt) -> Result<Self, FetchError> {
        let Address::Ssh { user, host, port, path } = attempt.address.clone() else {
            let problem = "the URL is not an SSH URL".to_owned();
            return Err(FetchError::Ssh { host: attempt.url(), problem });
        };
        let Auth::Ssh { key, passphrase_file, known_hosts } = attempt.remote.auth.clone() else {
            return Err(FetchError::AuthRefused {
                url: attempt.url(),
                credentials: "access without an SSH key",
                hint: "configure an SSH key and a known_hosts file",
            });
        };
        Ok(Self { user, host, port, path, key, passphrase_file, known_hosts })
    }

    /// The host in messages.
    pub fn shown(&self) -> String {
        shown(&self.host, self.port)
    }

    /// Connects, checks the host's key, and logs in. The host learns nothing of the credentials
    /// before its key is known.
    pub fn open(&self, attempt: &Arc<RemoteAttempt>) -> Result<SshSession, FetchError> {
        let session = self.connect(attempt)?;
        let key = private_key::read(&self.key, self.passphrase_file.as_deref())?;
        let signer = private_key::rsa_signer(&key, &self.key)?;
        let (user, host, url) = (self.user.clone(), self.shown(), attempt.url());
        attempt.wait(&self.shown(), async move {
            let mut session = session;
            let accepted = match signer {
                Some(signer) => login_with_rsa(&mut session, &user, &key, signer).await,
                None => {
                    let key = PrivateKeyWithHashAlg::new(Arc::new(key), None);
                    let reply = session.handle.authenticate_publickey(user, key).await;
                    reply.map(|reply| reply.success()).map_err(SshError::from)
                }
            };
            match accepted {
                Ok(true) => Ok(session),
                // To the library, a connection that breaks looks like a refusal.
                _ if session.handle.is_closed() => Err(session.ending.error(&host)),
                Ok(false) => Err(FetchError::AuthRefused {
                    url,
                    credentials: "the SSH key",
                    hint: "check the user name in the URL, and that the public key may read the \
                           repository",
                }),
                Err(error) => Err(error.of(&host)),
            }
        })
    }

    fn connect(&self, attempt: &Arc<RemoteAttempt>) -> Result<SshSession, FetchError> {
        let text = read_credential(&self.known_hosts, "known_hosts")?;
        let host = Host {
            shown: self.shown(),
            name: known_hosts::name(&self.host, self.port),
            known: String::from_utf8_lossy(&text).into_owned(),
            file: self.known_hosts.clone(),
            ending: Ending::default(),
        };
        let preferred = preferred(&known_hosts::kinds(&host.known, &host.name));
        let config = Arc::new(Config { preferred, ..Config::default() });
        let (name, port, task_attempt) = (self.host.clone(), self.port, Arc::clone(attempt));
        attempt.wait(&self.shown(), async move {
            let (stream, hang_up) = connect(task_attempt, &name, port).await?;
            let (ending, shown) = (host.ending.clone(), host.shown.clone());
            let handle = connect_stream(config, stream, host).await;
            let handle = handle.map_err(|error| error.of(&shown))?;
            Ok(SshSession { handle, ending, _hang_up: hang_up })
        })
    }
}

/// Logs in with an RSA key and the hash that the server accepts; both, if it does not say which.
async fn login_with_rsa(
    session: &mut SshSession,
    user: &str,
    key: &PrivateKey,
    mut signer: RsaSigner,
) -> Result<bool, SshError> {
    let hashes = match session.handle.best_supported_rsa_hash().await? {
        Some(Some(hash)) => vec![hash],
        Some(None) => return Err(SshError::Sha1),
        None => vec![HashAlg::Sha512, HashAlg::Sha256],
    };
    for hash in hashes {
        let key = key.public_key().clone();
        let handle = &mut session.handle;
        let reply = handle.authenticate_publickey_with(user, key, Some(hash), &mut signer).await?;
        if matches!(reply, AuthResult::Success) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The algorithms to offer, with the known types of host keys first. SHA-1 signatures of RSA host
/// keys are forgeable, and OpenSSH 8.8 and newer refuse them too.
fn preferred(known: &[String]) -> Preferred {
    let all = Preferred::default();
    let wanted = |algorithm: &Algorithm| {
        known.iter().any(|kind| {
            // The signature methods of RSA keys have their own names (RFC 8332).
            kind == algorithm.as_str()
                || (kind == "ssh-rsa" && matches!(algorithm, Algorithm::Rsa { .. }))
        })
    };
    let is_sha1 = |algorithm: &Algorithm| matches!(algorithm, Algorithm::Rsa { hash: None });
    let (mut first, others): (Vec<Algorithm>, Vec<Algorithm>) =
        all.key.iter().filter(|key| !is_sha1(key)).cloned().partition(wanted);
    first.extend(others);
    Preferred { key: first.into(), ..all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_kinds_of_host_keys_are_requested_first() {
        let order = |known: &[&str]| {
            let known: Vec<String> = known.iter().map(|kind| (*kind).to_owned()).collect();
            let keys = preferred(&known).key.into_owned();
            keys.iter().map(|key| key.as_str().to_owned()).collect::<Vec<_>>()
        };
        let usual = order(&[]);
        assert_eq!(usual.first().map(String::as_str), Some("ssh-ed25519"));
        let rsa = order(&["ssh-rsa"]);
        assert_eq!(rsa.get(..2).unwrap(), ["rsa-sha2-512", "rsa-sha2-256"]);
        assert_eq!(order(&["ecdsa-sha2-nistp384"]).first().unwrap(), "ecdsa-sha2-nistp384");
        assert!(!rsa.contains(&"ssh-rsa".to_owned()), "SHA-1 is not offered: {rsa:?}");
        assert_eq!(rsa.len(), usual.len(), "the other kinds follow, to name the offered key");
    }
}
