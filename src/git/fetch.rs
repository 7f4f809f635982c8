//! One fetch into a bare repository: list the references, choose one, download it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use git2::{Direction, ErrorCode, FetchOptions, RemoteCallbacks};

use super::address::Address;
use super::error::FetchError;
use super::remote::{Reference, Remote};
use super::repository::{object_id, oid};
use super::transport::{Bounds, RemoteAttempt, SCHEME_URL, with_attempt};
use crate::limits;
use gitwork_core::model::name::CommitId;

/// The reference that keeps a detached HEAD or a commit fetched by id, so that it is not fetched
/// twice.
const PIN: &str = "refs/gitwork/pin";

/// The commit that a reference names now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The commit.
    pub commit: CommitId,
    /// The reference's full name on the remote, as in `refs/heads/main` or `refs/tags/v1.2.3`; for
    /// [`Reference::Commit`] the commit's id.
    pub name: String,
}

/// One reference of the remote.
struct RemoteRef {
    name: String,
    id: git2::Oid,
}

/// Fetches a reference into `git`. A pinned commit that is there already needs no connection.
pub(super) fn fetch_into(
    git: &git2::Repository,
    remote: &Remote,
    bounds: Bounds,
    reference: &Reference,
    cancel: &Arc<AtomicBool>,
) -> Result<Fetched, FetchError> {
    if let Reference::Commit(id) = reference
        && git.find_commit(oid(*id)).and_then(|c| c.tree()).is_ok()
    {
        return Ok(Fetched { commit: *id, name: id.to_string() });
    }
    let attempt = RemoteAttempt::new(remote, bounds, cancel)?;
    attempt.check()?;
    with_attempt(&attempt, || {
        let explain = |e| attempt.explain(e);
        let url = libgit2_url(&attempt.address);
        let mut git_remote = git.remote_anonymous(&url).map_err(explain)?;
        let mut connection = git_remote
            .connect_auth(Direction::Fetch, Some(callbacks(&attempt)), None)
            .map_err(explain)?;
        let heads = connection.list().map_err(explain)?;
        if heads.len() > limits::REFERENCES_MAX {
            let limit = limits::REFERENCES_MAX;
            return Err(FetchError::TooManyReferences { url: remote.url.clone(), limit });
        }
        let listed: Vec<RemoteRef> = heads
            .iter()
            .map(|head| RemoteRef { name: head.name().to_owned(), id: head.oid() })
            .collect();
        let default = connection.default_branch().ok();
        let default = default.as_ref().and_then(|name| name.as_str().ok());
        let fetching = Fetching { git, attempt: &attempt, listed: &listed, reference };
        fetching.prune().map_err(explain)?;
        fetching.run(connection.remote(), default)
    })
}

/// One fetch after the connection is made.
struct Fetching<'a> {
    git: &'a git2::Repository,
    attempt: &'a Arc<RemoteAttempt>,
    listed: &'a [RemoteRef],
    reference: &'a Reference,
}

impl Fetching<'_> {
    fn run(
        &self,
        remote: &mut git2::Remote<'_>,
        default: Option<&str>,
    ) -> Result<Fetched, FetchError> {
        let wanted = match self.reference {
            Reference::Commit(id) => return self.fetch_commit(remote, *id),
            Reference::Head => self.head(default)?,
            Reference::Branch(name) => self.named(&format!("refs/heads/{name}"))?,
            Reference::Tag(name) => self.named(&format!("refs/tags/{name}"))?,
            Reference::Semver(range) => self.highest(range)?,
        };
        let local = if wanted.name == "HEAD" { PIN } else { &wanted.name };
        let is_local = self.git.refname_to_id(local).is_ok_and(|id| id == wanted.id)
            && self.git.find_object(wanted.id, None).is_ok();
        if !is_local {
            self.download(remote, &[format!("+{}:{local}", wanted.name)])?;
            self.set(local, wanted.id)?;
        }
        let commit = self.peel(wanted.id, &wanted.name)?;
        Ok(Fetched { commit, name: wanted.name.clone() })
    }

    /// Fetches a commit by its id: with all branches and tags, or else by the id alone.
    fn fetch_commit(
        &self,
        remote: &mut git2::Remote<'_>,
        id: CommitId,
    ) -> Result<Fetched, FetchError> {
        let all = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        self.download(remote, &all.map(str::to_owned))?;
        for listed in self.listed.iter().filter(|l| is_branch_or_tag(&l.name)) {
            self.set(&listed.name, listed.id)?;
        }
        let fetched = Fetched { commit: id, name: id.to_string() };
        if self.git.find_commit(oid(id)).is_ok() {
            return Ok(fetched);
        }
        // Servers may refuse commits that no reference reaches; the error is the same in any case.
        let direct = self.download(remote, &[format!("{id}:{PIN}")]);
        if direct.is_ok() && self.git.find_commit(oid(id)).is_ok() {
            self.set(PIN, oid(id))?;
            return Ok(fetched);
        }
        self.attempt.check()?;
        Err(self.missing("no branch or tag reaches it"))
    }

    fn head(&self, default: Option<&str>) -> Result<&RemoteRef, FetchError> {
        let head = self.listed.iter().find(|l| l.name == "HEAD");
        let branch = default.and_then(|name| self.listed.iter().find(|l| l.name == name));
        // A detached HEAD may be equal to a branch; the branch is as good then.
        branch.or(head).ok_or_else(|| self.missing("is it empty? Push a commit, or name a branch"))
    }

    fn named(&self, name: &str) -> Result<&RemoteRef, FetchError> {
        self.listed.iter().find(|l| l.name == name).ok_or_else(|| {
            let kind = if name.starts_with("refs/heads/") { "refs/heads/" } else { "refs/tags/" };
            let mut others: Vec<&str> =
                self.listed.iter().filter_map(|l| l.name.strip_prefix(kind)).collect();
            others.retain(|other| !other.ends_with("^{}"));
            others.truncate(5);
            if others.is_empty() {
                return self.missing("");
            }
            self.missing(&format!("it has, for example, {}", others.join(", ")))
        })
    }

    fn highest(&self, range: &semver::VersionReq) -> Result<&RemoteRef, FetchError> {
        let versions = self.listed.iter().filter_map(|listed| {
            let tag = listed.name.strip_prefix("refs/tags/")?;
            let version = semver::Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
            range.matches(&version).then_some((version, listed))
        });
        let best = versions.max_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
        best.map(|(_, listed)| listed).ok_or_else(|| self.missing(""))
    }

    fn missing(&self, hint: &str) -> FetchError {
        FetchError::ReferenceMissing {
            url: self.attempt.url(),
            reference: self.reference.to_string(),
            hint: hint.chars().filter(|c| !c.is_control()).collect(),
        }
    }

    fn download(
        &self,
        remote: &mut git2::Remote<'_>,
        refspecs: &[String],
    ) -> Result<(), FetchError> {
        let mut options = FetchOptions::new();
        options
            .remote_callbacks(callbacks(self.attempt))
            .download_tags(git2::AutotagOption::None)
            .update_fetchhead(false);
        remote.download(refspecs, Some(&mut options)).map_err(|e| self.attempt.explain(e))
    }

    /// Sets a local reference; a forced push may move it anywhere.
    fn set(&self, name: &str, id: git2::Oid) -> Result<(), FetchError> {
        let set = self.git.reference(name, id, true, "fetch");
        set.map(drop).map_err(|e| self.attempt.explain(e))
    }

    /// Deletes branches and tags that the remote no longer has: a branch `a` would block a new
    /// branch `a/b`. Their commits stay in the object database.
    fn prune(&self) -> Result<(), git2::Error> {
        let listed: BTreeSet<&str> = self.listed.iter().map(|l| l.name.as_str()).collect();
        for reference in self.git.references()? {
            let mut reference = reference?;
            let gone = reference.name().is_ok_and(|n| is_branch_or_tag(n) && !listed.contains(n));
            if gone {
                reference.delete()?;
            }
        }
        Ok(())
    }

    /// The commit that an id leads to. Its tree is read too, so that damage shows here.
    fn peel(&self, id: git2::Oid, name: &str) -> Result<CommitId, FetchError> {
        let explain = |e| self.attempt.explain(e);
        let object = self.git.find_object(id, None).map_err(explain)?;
        let commit = object.peel_to_commit().map_err(|e| match e.code() {
            ErrorCode::Peel | ErrorCode::InvalidSpec => FetchError::NotACommit {
                url: self.attempt.url(),
                reference: name.to_owned(),
                kind: object
                    .kind()
                    .map_or_else(|| "unknown object".to_owned(), |kind| kind.to_string()),
            },
            _ => explain(e),
        })?;
        commit.tree().map_err(explain)?;
        Ok(object_id(commit.id()))
    }
}

fn is_branch_or_tag(name: &str) -> bool {
    (name.starts_with("refs/heads/") || name.starts_with("refs/tags/")) && !name.ends_with("^{}")
}

/// Callbacks that count received bytes and end the transfer when the attempt has to end.
pub(super) fn callbacks(attempt: &Arc<RemoteAttempt>) -> RemoteCallbacks<'_> {
    let mut callbacks = RemoteCallbacks::new();
    callbacks.transfer_progress(|progress| {
        // A local path uses libgit2's own transport, whose bytes are counted only here.
        match attempt.check_bytes(progress.received_bytes() as u64) {
            Ok(()) => attempt.may_continue(),
            Err(error) => {
                attempt.fail(error);
                false
            }
        }
    });
    callbacks.sideband_progress(|_| attempt.may_continue());
    callbacks
}

/// The URL for libgit2. A colon has no special meaning in a URL, unlike in a path.
pub(super) fn libgit2_url(address: &Address) -> String {
    let Address::Local(path) = address else { return SCHEME_URL.to_owned() };
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                url.push(*byte as char);
            }
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_in_file_urls() {
        let url = libgit2_url(&Address::Local("/srv/a b:c%.git".into()));
        assert_eq!(url, "file:///srv/a%20b%3Ac%25.git");
    }
}
