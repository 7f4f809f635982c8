//! A remote repository: its address, its credentials, and the reference to read.

use std::fmt;
use std::path::PathBuf;

use super::address::{ProxyAddress, without_userinfo};
use gitwork_core::model::digest::Digest;
use gitwork_core::model::name::CommitId;

/// The reference that selects a commit of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The remote's HEAD.
    Head,
    /// A branch by its short name, as in `main`.
    Branch(String),
    /// A tag by its full name, annotated or not.
    Tag(String),
    /// The highest tag in the range, with or without a leading `v`. Pre-releases count only if the
    /// range names one of the same version.
    Semver(semver::VersionReq),
    /// A commit on any branch or tag, or one that the server sends by its id.
    Commit(CommitId),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("HEAD"),
            Self::Branch(name) => write!(f, "branch `{name}`"),
            Self::Tag(name) => write!(f, "tag `{name}`"),
            Self::Semver(range) => write!(f, "tag in the version range `{range}`"),
            Self::Commit(id) => write!(f, "commit {id}"),
        }
    }
}

/// A remote repository. Credentials are files that are read again at every fetch, so that a rotated
/// Secret needs no restart.
#[derive(Clone, PartialEq, Eq)]
pub struct Remote {
    /// `https://`, `http://`, `ssh://`, `user@host:path`, `file://` or a path. Without credentials.
    pub url: String,
    /// How to log in.
    pub auth: Auth,
    /// File with PEM certificates to trust instead of the system's.
    pub ca_bundle: Option<PathBuf>,
    /// The TLS client certificate.
    pub client_certificate: Option<ClientCertificate>,
    /// `http://[user:password@]host:port`; https and ssh go through its CONNECT.
    pub proxy: Option<String>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote")
            .field("url", &without_userinfo(&self.url))
            .field("auth", &self.auth)
            .field("ca_bundle", &self.ca_bundle)
            .field("client_certificate", &self.client_certificate)
            .field("proxy", &self.proxy.as_deref().map(without_userinfo))
            .finish()
    }
}

impl Remote {
    /// Equal for the same repository over the same way with the same credentials. Credentials count
    /// by the names of their files and users, so a rotated Secret changes nothing, and the digest
    /// reveals no secret. The password of a proxy does not count.
    pub(super) fn identity(&self) -> Digest {
        let Self { url, auth, ca_bundle, client_certificate, proxy } = self;
        // The same relative path can be another file for another process.
        let file = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let auth = match auth {
            Auth::None => ("none", None, Vec::new()),
            Auth::Basic { username, password_file } => {
                ("basic", Some(username), vec![file(password_file)])
            }
            Auth::Token { file: token } => ("token", None, vec![file(token)]),
            Auth::Ssh { key, passphrase_file, known_hosts } => {
                let passphrase = passphrase_file.as_ref().map(file);
                (
                    "ssh",
                    None,
                    [file(key), file(known_hosts)].into_iter().chain(passphrase).collect(),
                )
            }
        };
        let pair = client_certificate.as_ref();
        let certificate = pair.map(|pair| (file(&pair.certificate), file(&pair.key)));
        let proxy = proxy.as_deref().map(|url| (without_userinfo(url), proxy_user(url)));
        let parts = (url, auth, ca_bundle.as_ref().map(file), certificate, proxy);
        Digest::of(format!("{parts:?}").as_bytes())
    }
}

/// The user of a proxy's URL, without the password.
fn proxy_user(url: &str) -> Option<String> {
    let credentials = ProxyAddress::parse(url).ok()?.credentials?;
    Some(credentials.split(':').next().unwrap_or_default().to_owned())
}

/// How to log in. It only names files, so no value is a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// No credentials.
    None,
    /// HTTP basic authentication.
    Basic {
        /// The user.
        username: String,
        /// A file with the password in one line.
        password_file: PathBuf,
    },
    /// An HTTP bearer token.
    Token {
        /// A file with the token in one line.
        file: PathBuf,
    },
    /// An SSH key and the accepted host keys.
    Ssh {
        /// A file with the private key.
        key: PathBuf,
        /// A file with the passphrase of an encrypted key.
        passphrase_file: Option<PathBuf>,
        /// A file with the accepted host keys, in OpenSSH's format.
        known_hosts: PathBuf,
    },
}

/// A TLS client certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Remote {
        Remote {
            url: "https://example.com/a".into(),
            auth: Auth::None,
            ca_bundle: None,
            client_certificate: None,
            proxy: None,
        }
    }

    #[test]
    fn identity_differs_for_every_other_way_to_the_repository() {
        let file = |name: &str| PathBuf::from(name);
        let basic = |username: &str, password: &str| Auth::Basic {
            username: username.into(),
            password_file: file(password),
        };
        let ssh = |key: &str, known_hosts: &str| Auth::Ssh {
            key: file(key),
            passphrase_file: None,
            known_hosts: file(known_hosts),
        };
        let pair = ClientCertificate { certificate: file("/crt"), key: file("/key") };
        let all = [
            remote(),
            Remote { url: "https://example.com/b".into(), ..remote() },
            Remote { auth: Auth::Token { file: file("/a") }, ..remote() },
            Remote { auth: Auth::Token { file: file("/b") }, ..remote() },
            Remote { auth: basic("ann", "/a"), ..remote() },
            Remote { auth: basic("bob", "/a"), ..remote() },
            Remote { auth: basic("ann", "/b"), ..remote() },
            Remote { auth: ssh("/a", "/known"), ..remote() },
            Remote { auth: ssh("/a", "/other"), ..remote() },
            Remote { ca_bundle: Some(file("/ca")), ..remote() },
            Remote { client_certificate: Some(pair), ..remote() },
            Remote { proxy: Some("http://proxy:1".into()), ..remote() },
            Remote { proxy: Some("http://me:s3cret@proxy:1".into()), ..remote() },
        ];
        let mut names: Vec<String> = all.iter().map(|one| one.identity().to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all.len());
        let proxy = |url: &str| Remote { proxy: Some(url.into()), ..remote() }.identity();
        assert_eq!(proxy("http://me:s3cret@proxy:1"), proxy("http://me:other@proxy:1"));
    }

    #[test]
    fn proxy_credentials_are_not_in_the_debug_text() {
        let remote = Remote { proxy: Some("http://me:s3cret@proxy:1".into()), ..remote() };
        assert!(!format!("{remote:?}").contains("s3cret"));
    }
}
