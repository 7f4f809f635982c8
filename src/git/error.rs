//! Errors between a repository's URL and its content. No message holds a secret: URLs carry none,
//! and a server's text is shortened and stripped of control characters.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::model::name::{CommitId, RepoPath};
use gitwork_core::model::operation_error::{ErrorClass, OperationError};

pub use crate::mirror_error::{MirrorError, UrlError};

/// Advice for a repository of another user.
const OWNER_HINT: &str = "run as its owner, or add it to `safe.directory` of the Git configuration";

/// A host key that the server offered and gitwork refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKey {
    /// `host:port`.
    pub host: String,
    /// The key type, as in `ssh-ed25519`.
    pub kind: String,
    /// `SHA256:` and the digest, as OpenSSH prints it.
    pub fingerprint: String,
    /// The line to add to the file if the key is the right one.
    pub line: String,
    /// The `known_hosts` file.
    pub file: PathBuf,
}

/// Why a fetch failed. The mirror is as it was before.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum FetchError {
    /// The caller cancelled the fetch.
    #[error("the fetch of {url} was cancelled")]
    Cancelled { url: String },
    /// The whole fetch took longer than its limit.
    #[error("the fetch of {url} took longer than {limit:?}")]
    Timeout { url: String, limit: Duration },
    /// The server was silent for longer than the limit.
    #[error("{host} sent nothing for {limit:?} during the fetch of {url}")]
    Stalled { url: String, host: String, limit: Duration },
    /// The host name has no address.
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    /// No TCP connection.
    #[error("cannot connect to {host}")]
    Connect { host: String, source: io::Error },
    /// The connection ended early.
    #[error("the connection to {host} broke")]
    Connection { host: String, source: io::Error },
    /// The HTTP proxy refused the connection.
    #[error("the proxy {proxy} answered {status} to a connection to {host}")]
    Proxy { proxy: String, host: String, status: u16 },
    /// The TLS handshake failed.
    #[error("no secure connection to {host}: {source}")]
    Tls { host: String, source: Box<rustls::Error> },
    /// A file with credentials cannot be read or parsed.
    #[error("cannot use the file {file} ({purpose}): {problem}")]
    CredentialFile { file: PathBuf, purpose: &'static str, problem: String },
    /// The server refused the credentials; `hint` is advice for this kind of credentials.
    #[error("{url} refused {credentials}")]
    AuthRefused { url: String, credentials: &'static str, hint: &'static str },
    /// `known_hosts` has no key of the host.
    #[error(
        "the SSH host key of {} is not known: the host offered {} {}",
        .key.host, .key.kind, .key.fingerprint
    )]
    HostKeyUnknown { key: Box<HostKey> },
    /// `known_hosts` has another key of the host, in line `known_line` (from 1).
    #[error(
        "the SSH host key of {} is not the known one: the host offered {} {}, but line \
         {known_line} of {} has another key",
        .key.host, .key.kind, .key.fingerprint, .key.file.display()
    )]
    HostKeyChanged { key: Box<HostKey>, known_line: usize },
    /// `known_hosts` marks the offered key as revoked, in line `known_line` (from 1).
    #[error(
        "the SSH host key of {}, {} {}, is revoked by line {known_line} of {}",
        .key.host, .key.kind, .key.fingerprint, .key.file.display()
    )]
    HostKeyRevoked { key: Box<HostKey>, known_line: usize },
    /// The SSH protocol failed.
    #[error("SSH with {host} failed: {problem}")]
    Ssh { host: String, problem: String },
    /// The server redirects to a place that gitwork does not follow to.
    #[error("{url} redirects to {target}; {why}")]
    Redirect { url: String, target: String, why: &'static str },
    /// The server says that it has no such repository.
    #[error("there is no repository at {url}, or these credentials may not see it")]
    RepositoryMissing { url: String },
    /// The server's answer is not Git's; `content` is its content type.
    #[error("{url} is not a Git repository: the server answered with {content}")]
    NotARepository { url: String, content: String },
    /// The remote has no such branch, tag or commit; `hint` is advice, possibly empty.
    #[error("{url} has no {reference}")]
    ReferenceMissing { url: String, reference: String, hint: String },
    /// The reference is not a commit (a tag of a tree or blob).
    #[error("{reference} of {url} is not a commit but a {kind}")]
    NotACommit { url: String, reference: String, kind: String },
    /// The server sent more bytes than one fetch may receive.
    #[error("{url} sends more than {limit} bytes")]
    TooLarge { url: String, limit: u64 },
    /// The mirror is larger than its limit, in bytes on disk.
    #[error("the mirror of {url} needs {size} bytes on disk; the limit is {limit}")]
    OverBudget { url: String, size: u64, limit: u64 },
    /// The server lists too many references.
    #[error("{url} lists more than {limit} references")]
    TooManyReferences { url: String, limit: usize },
    /// An unexpected HTTP status.
    #[error("{host} answered with HTTP status {status}")]
    Status { host: String, status: u16 },
    /// The server violates HTTP.
    #[error("{host} violates HTTP: {problem}")]
    Http { host: String, problem: &'static str },
    /// The server's Git refused; `message` is its text.
    #[error("{url} answered: {message}")]
    Refused { url: String, message: String },
    /// A repository on disk belongs to another user.
    #[error("the repository at {url} belongs to another user")]
    ForeignOwner { url: String },
    /// libgit2 failed.
    #[error("Git failed on {url}")]
    Git { url: String, source: git2::Error },
    /// The mirror on disk cannot be used.
    #[error(transparent)]
    Mirror(#[from] MirrorError),
    /// The fetch was one for several sources.
    #[error(transparent)]
    Shared(Arc<FetchError>),
}

/// Advice for a TLS error.
fn tls_hint(error: &rustls::Error) -> Option<&'static str> {
    use rustls::{AlertDescription, CertificateError, Error};
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            Some("if the server has a private authority, name its certificate as the CA bundle")
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::HandshakeFailure
            | AlertDescription::CertificateExpired
            | AlertDescription::AccessDenied,
        ) => Some("the server requires a client certificate that it accepts"),
        _ => None,
    }
}

impl OperationError for FetchError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Cancelled { .. } => ErrorClass::Cancelled,
            Self::Timeout { .. }
            | Self::Stalled { .. }
            | Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Connection { .. }
            | Self::Ssh { .. }
            | Self::Http { .. }
            | Self::Refused { .. }
            | Self::Git { .. } => ErrorClass::TRANSIENT,
            Self::Mirror(error) => error.class(),
            Self::Shared(error) => error.class(),
            Self::Proxy { status, .. } | Self::Status { status, .. } => {
                // 4xx is the client's fault, except for "later" (408, 425, 429).
                let is_later = *status >= 500 || matches!(status, 408 | 425 | 429);
                if is_later { ErrorClass::TRANSIENT } else { ErrorClass::NeedsAction }
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
            | Self::ForeignOwner { .. } => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
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
            Self::Mirror(error) => error.reason(),
            Self::Shared(error) => error.reason(),
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Proxy { status: 407, .. } => "put a user and password into the proxy's URL",
            Self::Tls { source, .. } => tls_hint(source).unwrap_or_default(),
            Self::AuthRefused { hint, .. } => hint,
            Self::HostKeyUnknown { key } => {
                return vec![format!(
                    "compare the fingerprint with the one that the host's operator publishes, \
                     then add the line `{}` to {}",
                    key.line,
                    key.file.display()
                )];
            }
            Self::HostKeyChanged { key, .. } => {
                return vec![
                    "an attacker may intercept the connection, or the host has new keys".to_owned(),
                    format!(
                        "compare the fingerprint with the one that the host's operator \
                         publishes, then replace that line by `{}`",
                        key.line
                    ),
                ];
            }
            Self::NotARepository { .. } => "check the URL",
            Self::ReferenceMissing { hint, .. } => hint,
            Self::TooLarge { .. } => {
                "make the repository smaller, or split it into several repositories"
            }
            Self::ForeignOwner { .. } => OWNER_HINT,
            Self::Mirror(error) => return error.hints(),
            Self::Shared(error) => return error.hints(),
            _ => "",
        };
        if hint.is_empty() { Vec::new() } else { vec![hint.to_owned()] }
    }
}

/// Why something could not be read from a repository on disk.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show the meaning of the fields")]
pub enum RepositoryError {
    /// The commit is not in the repository. A shallow clone may lack it.
    #[error("the commit {commit} is not in {repository}")]
    CommitMissing { repository: PathBuf, commit: CommitId, is_shallow: bool },
    /// The revision names no commit of the repository. A shallow clone may lack it.
    #[error("the revision `{revision}` is not in {repository}")]
    RevisionMissing { repository: PathBuf, revision: String, is_shallow: bool },
    /// The commit has nothing at the path.
    #[error("the commit {commit} has no path `{path}`")]
    PathMissing { commit: CommitId, path: RepoPath },
    /// The path is a file, a link or a submodule.
    #[error("`{path}` in the commit {commit} is not a folder")]
    NotAFolder { commit: CommitId, path: RepoPath },
    /// The folder is in no repository.
    #[error("{path} is not inside a Git repository")]
    NoRepository { path: PathBuf },
    /// The repository belongs to another user.
    #[error("the repository at {path} belongs to another user")]
    ForeignOwner { path: PathBuf },
    /// libgit2 failed.
    #[error("cannot read the repository {repository}")]
    Git { repository: PathBuf, source: git2::Error },
    /// The object of a folder is complete, and no tree. Somebody has committed it like this: no
    /// fetch brings a better one.
    #[error("the Git object of the folder `{folder}` is malformed: {problem}")]
    MalformedFolder { folder: RepoPath, problem: String },
    /// The commits since the last verified one change too much.
    #[error("the unverified commits of {repository} change more than {limit} files and folders")]
    TooManyEntries { repository: PathBuf, limit: usize },
    /// The caller cancelled the operation.
    #[error("reading {repository} was cancelled")]
    Cancelled { repository: PathBuf },
}

impl OperationError for RepositoryError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Cancelled { .. } => ErrorClass::Cancelled,
            Self::Git { .. } => ErrorClass::TRANSIENT,
            Self::CommitMissing { .. }
            | Self::RevisionMissing { .. }
            | Self::PathMissing { .. }
            | Self::NotAFolder { .. }
            | Self::NoRepository { .. }
            | Self::MalformedFolder { .. }
            | Self::TooManyEntries { .. }
            | Self::ForeignOwner { .. } => ErrorClass::NeedsAction,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::TooManyEntries { .. } => "TooManyEntries",
            Self::CommitMissing { .. } => "CommitMissing",
            Self::RevisionMissing { .. } => "RevisionMissing",
            Self::PathMissing { .. } | Self::NotAFolder { .. } => "PathMissing",
            Self::NoRepository { .. } => "RepositoryMissing",
            Self::ForeignOwner { .. } => "ForeignOwner",
            Self::MalformedFolder { .. } => "MalformedFolder",
            Self::Git { .. } => "Repository",
            Self::Cancelled { .. } => "Cancelled",
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::CommitMissing { is_shallow, .. } | Self::RevisionMissing { is_shallow, .. } => {
                if *is_shallow {
                    "the clone is shallow: fetch its whole history (`git fetch --unshallow`, or \
                     depth 0 in CI)"
                } else {
                    "fetch it first"
                }
            }
            Self::ForeignOwner { .. } => OWNER_HINT,
            Self::MalformedFolder { .. } => "commit the folder again with `git add`",
            Self::TooManyEntries { .. } => {
                "look for folders that contain each other many times; if the commits are as they \
                 should be, let the source follow an older commit first"
            }
            _ => return Vec::new(),
        };
        vec![hint.to_owned()]
    }
}
