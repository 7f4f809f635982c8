//! A remote repository: its address, its credentials, and the reference to read.

use std::fmt;
use std::path::PathBuf;

use super::address::without_userinfo;
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
#[derive(Clone)]
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

    #[test]
    fn proxy_credentials_are_not_in_the_debug_text() {
        let remote = Remote {
            url: "https://example.com/a".into(),
            auth: Auth::None,
            ca_bundle: None,
            client_certificate: None,
            proxy: Some("http://me:s3cret@proxy:1".into()),
        };
        assert!(!format!("{remote:?}").contains("s3cret"));
    }
}
