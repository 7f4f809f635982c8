//! What can go wrong between a repository's URL and its content. No message holds a secret: URLs are
//! checked to carry none, and what a server says is cut and cleaned.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::core::name::{CommitId, RepoPath};

/// Why a mirror could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    #[error(
        "the mirror folder {folder} is used by another process; give each gitwork a cache folder of its own"
    )]
    Locked { folder: PathBuf },
    #[error("cannot {action} {path}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot make the mirror in {folder}")]
    Git { folder: PathBuf, source: git2::Error },
    #[error(transparent)]
    Url(#[from] UrlError),
}

/// Why a repository's URL was refused. The URL is shown without what may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the repository URL {shown} holds credentials; remove them and name a file in `auth`")]
    Credentials { shown: String },
    #[error("the repository URL {shown} has the scheme `{scheme}`; use https, http, ssh or file")]
    Scheme { shown: String, scheme: String },
    #[error("the repository URL {shown} {problem}")]
    Malformed { shown: String, problem: &'static str },
    #[error("the proxy URL {shown} {problem}")]
    Proxy { shown: String, problem: &'static str },
}

/// A host key that was offered and refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKey {
    /// `host:port`.
    pub host: String,
    /// As in `ssh-ed25519`.
    pub kind: String,
    /// `SHA256:` and the digest, as OpenSSH prints it.
    pub fingerprint: String,
    /// What to add to the file if the key is the right one.
    pub line: String,
    /// The `known_hosts` file.
    pub file: PathBuf,
}

/// What to do about a failed fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchErrorClass {
    /// The same attempt may work later: network, server, time.
    Retry,
    /// A person must change something first. Retry seldom.
    Permanent,
    /// Somebody asked for it.
    Cancelled,
}

/// Why a fetch failed. The mirror is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("the fetch of {url} was cancelled")]
    Cancelled { url: String },
    #[error("the fetch of {url} took longer than {limit:?}")]
    Timeout { url: String, limit: Duration },
    #[error("{host} sent nothing for {limit:?} while {url} was fetched")]
    Stalled { url: String, host: String, limit: Duration },
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {host}")]
    Connect { host: String, source: io::Error },
    #[error("the connection to {host} broke")]
    Connection { host: String, source: io::Error },
    #[error("the proxy {proxy} answered {status} to a connection to {host}{}", proxy_hint(*.status))]
    Proxy { proxy: String, host: String, status: u16 },
    #[error("no secure connection to {host}: {source}{}", tls_hint(.source))]
    Tls { host: String, source: Box<rustls::Error> },
    #[error("cannot use the file {file} ({purpose}): {problem}")]
    CredentialFile { file: PathBuf, purpose: &'static str, problem: String },
    #[error("{url} refused {credentials}{hint}")]
    AuthRefused { url: String, credentials: &'static str, hint: &'static str },
    #[error(
        "the SSH host key of {} is not known: it offered {} {}; compare that with what the host's operator \
         publishes, then add the line `{}` to {}",
        .key.host, .key.kind, .key.fingerprint, .key.line, .key.file.display()
    )]
    HostKeyUnknown { key: Box<HostKey> },
    #[error(
        "the SSH host key of {} is not the known one: it offered {} {}, but line {known_line} of {} has another \
         key; somebody may be in between, or the host has new keys: compare the fingerprint with what its \
         operator publishes, then replace that line by `{}`",
        .key.host, .key.kind, .key.fingerprint, .key.file.display(), .key.line
    )]
    HostKeyChanged { key: Box<HostKey>, known_line: usize },
    #[error(
        "the SSH host key of {}, {} {}, is revoked by line {known_line} of {}",
        .key.host, .key.kind, .key.fingerprint, .key.file.display()
    )]
    HostKeyRevoked { key: Box<HostKey>, known_line: usize },
    #[error("SSH with {host} failed: {problem}")]
    Ssh { host: String, problem: String },
    #[error("{url} redirects to {target}; {why}")]
    Redirect { url: String, target: String, why: &'static str },
    #[error("there is no repository at {url}, or these credentials may not see it")]
    RepositoryMissing { url: String },
    #[error("{url} is not a Git repository: the server answered with {content}; check the URL")]
    NotARepository { url: String, content: String },
    #[error("{url} has no {reference}{hint}")]
    ReferenceMissing { url: String, reference: String, hint: String },
    #[error("{reference} of {url} is not a commit but a {kind}")]
    NotACommit { url: String, reference: String, kind: String },
    #[error("{url} sends more than {limit} bytes; raise the limit or make the repository smaller")]
    TooLarge { url: String, limit: u64 },
    #[error("the mirror of {url} needs {size} bytes on disk; at most {limit} are allowed")]
    OverBudget { url: String, size: u64, limit: u64 },
    #[error("{url} lists more than {limit} references")]
    TooManyReferences { url: String, limit: usize },
    #[error("{host} answered with HTTP status {status}")]
    Status { host: String, status: u16 },
    #[error("{host} does not speak HTTP as it should: {problem}")]
    Http { host: String, problem: &'static str },
    #[error("{url} said: {message}")]
    Refused { url: String, message: String },
    #[error(
        "the repository at {url} belongs to another user; run as its owner, or add it to `safe.directory` of \
         the Git configuration"
    )]
    ForeignOwner { url: String },
    #[error("Git failed on {url}")]
    Git { url: String, source: git2::Error },
    #[error(transparent)]
    Mirror(#[from] MirrorError),
}

fn proxy_hint(status: u16) -> &'static str {
    if status == 407 { "; put a user and password into the proxy's URL" } else { "" }
}

fn tls_hint(error: &rustls::Error) -> &'static str {
    use rustls::{AlertDescription, CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "; if the server has a private authority, name its certificate as the CA bundle"
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::HandshakeFailure
            | AlertDescription::CertificateExpired
            | AlertDescription::AccessDenied,
        ) => "; the server wants a client certificate that it accepts",
        _ => "",
    }
}

impl FetchError {
    /// Whether a retry can help.
    pub fn class(&self) -> FetchErrorClass {
        match self {
            Self::Cancelled { .. } => FetchErrorClass::Cancelled,
            Self::Timeout { .. }
            | Self::Stalled { .. }
            | Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Connection { .. }
            | Self::Ssh { .. }
            | Self::Http { .. }
            | Self::Refused { .. }
            | Self::Git { .. }
            | Self::Mirror(_) => FetchErrorClass::Retry,
            Self::Proxy { status, .. } | Self::Status { status, .. } => {
                // 4xx says that the request is wrong, but for "later" (408, 425, 429).
                let later = *status >= 500 || matches!(status, 408 | 425 | 429);
                if later { FetchErrorClass::Retry } else { FetchErrorClass::Permanent }
            }
            Self::Tls { .. }
            | Self::CredentialFile { .. }
            | Self::AuthRefused { .. }
            | Self::HostKeyUnknown { .. }
            | Self::HostKeyChanged { .. }
            | Self::HostKeyRevoked { .. }
            | Self::Redirect { .. }
            | Self::RepositoryMissing { .. }
            | Self::NotARepository { .. }
            | Self::ReferenceMissing { .. }
            | Self::NotACommit { .. }
            | Self::TooLarge { .. }
            | Self::OverBudget { .. }
            | Self::TooManyReferences { .. }
            | Self::ForeignOwner { .. } => FetchErrorClass::Permanent,
        }
    }

    /// Whether a person must change something before a retry can work.
    pub fn is_permanent(&self) -> bool {
        self.class() == FetchErrorClass::Permanent
    }

    /// A stable word for metrics, Events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cancelled { .. } => "Cancelled",
            Self::Timeout { .. } | Self::Stalled { .. } => "Timeout",
            Self::Resolve { .. } | Self::Connect { .. } | Self::Connection { .. } => "Network",
            Self::Proxy { .. } => "Proxy",
            Self::Tls { .. } => "TLS",
            Self::CredentialFile { .. } => "CredentialFile",
            Self::AuthRefused { .. } => "AuthenticationRefused",
            Self::HostKeyUnknown { .. }
            | Self::HostKeyChanged { .. }
            | Self::HostKeyRevoked { .. } => "HostKey",
            Self::Redirect { .. } => "Redirect",
            Self::RepositoryMissing { .. } | Self::NotARepository { .. } => "RepositoryMissing",
            Self::ReferenceMissing { .. } | Self::NotACommit { .. } => "ReferenceMissing",
            Self::TooLarge { .. } | Self::OverBudget { .. } | Self::TooManyReferences { .. } => {
                "TooLarge"
            }
            Self::Ssh { .. }
            | Self::Status { .. }
            | Self::Http { .. }
            | Self::Refused { .. }
            | Self::Git { .. } => "Server",
            Self::ForeignOwner { .. } => "ForeignOwner",
            Self::Mirror(_) => "Mirror",
        }
    }
}

/// Why something could not be read from a repository that is on disk.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the commit {commit} is not in {repository}{hint}")]
    CommitMissing { repository: PathBuf, commit: CommitId, hint: &'static str },
    #[error("the revision `{revision}` is not in {repository}{hint}")]
    RevisionMissing { repository: PathBuf, revision: String, hint: &'static str },
    #[error("the commit {commit} has no path `{path}`")]
    PathMissing { commit: CommitId, path: RepoPath },
    #[error("`{path}` in the commit {commit} is not a folder")]
    NotAFolder { commit: CommitId, path: RepoPath },
    #[error("{path} is not inside a Git repository")]
    NoRepository { path: PathBuf },
    #[error(
        "the repository at {path} belongs to another user; run as its owner, or add it to `safe.directory` of \
         the Git configuration"
    )]
    ForeignOwner { path: PathBuf },
    #[error("cannot read the repository {repository}")]
    Git { repository: PathBuf, source: git2::Error },
    #[error("reading {repository} was cancelled")]
    Cancelled { repository: PathBuf },
}
