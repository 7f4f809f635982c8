//! One fetch into a bare repository: list the remote's references, choose, download.
//!
//! The mirror keeps what it fetched below `refs/gitwork/`: `heads/` and `tags/` as the remote has
//! them, and `commits/` for a detached HEAD and for commits fetched by id. So plain names, as in
//! `main`, never resolve to a branch that somebody else fetched earlier.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use git2::{Direction, ErrorCode, FetchOptions, RemoteCallbacks};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::address::Address;
use super::error::FetchError;
use super::remote::{Reference, Remote};
use super::repository::{check_object, object_id, oid};
use super::transport::{Bounds, RemoteAttempt, SCHEME_URL, with_attempt};
use crate::limits;
use gitwork_core::model::name::CommitId;

/// What is escaped in a `file:` URL.
const ESCAPED_IN_PATHS: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'-').remove(b'_');

/// The namespace of the mirror's references.
const NAMESPACE: &str = "refs/gitwork/";

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

/// The result of one fetch for several sources.
pub(super) struct GroupFetched {
    /// Of the first reference.
    pub own: Result<Fetched, FetchError>,
    /// Of the others, those that were fetched.
    pub others: Vec<(Reference, Fetched)>,
}

/// Fetches a reference and others into `git`, over one connection. The outer error is of the whole
/// fetch, the inner one of the first reference.
pub(super) fn fetch_into(
    git: &git2::Repository,
    remote: &Remote,
    bounds: Bounds,
    (own, others): (&Reference, &[Reference]),
    cancel: &Arc<AtomicBool>,
) -> Result<GroupFetched, FetchError> {
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
        let fetching = Fetching { git, attempt: &attempt, listed: &listed, default };
        fetching.prune().map_err(explain)?;
        fetching.run(connection.remote(), own, others)
    })
}

/// The commit of a [`Reference::Commit`] that was fetched before.
pub(super) fn local_commit(git: &git2::Repository, reference: &Reference) -> Option<Fetched> {
    let Reference::Commit(id) = reference else { return None };
    git.find_commit(oid(*id)).and_then(|commit| check_object(git, commit.tree_id())).ok()?;
    Some(Fetched { commit: *id, name: id.to_string() })
}

/// One fetch after the connection is made.
struct Fetching<'a> {
    git: &'a git2::Repository,
    attempt: &'a Arc<RemoteAttempt>,
    listed: &'a [RemoteRef],
    /// The remote's default branch, if it says which.
    default: Option<&'a str>,
}

/// What a reference needs from the remote.
enum Wanted<'a> {
    /// A listed reference.
    Listed(&'a RemoteRef),
    /// A commit, which any branch or tag may have.
    Commit(CommitId),
}

impl Fetching<'_> {
    fn run(
        &self,
        remote: &mut git2::Remote<'_>,
        own: &Reference,
        others: &[Reference],
    ) -> Result<GroupFetched, FetchError> {
        let own_wanted = self.choose(own);
        // The sources of the others learn their errors from fetches of their own.
        let wanted: Vec<(&Reference, Wanted<'_>)> =
            others.iter().filter_map(|of| Some((of, self.choose(of).ok()?))).collect();
        let mut refspecs = BTreeSet::new();
        for wanted in own_wanted.iter().chain(wanted.iter().map(|(_, wanted)| wanted)) {
            match wanted {
                Wanted::Listed(listed) if self.is_local(listed) => {}
                Wanted::Listed(listed) => {
                    refspecs.insert(format!("+{}:{}", listed.name, local_name(listed)));
                }
                Wanted::Commit(id) if self.git.find_commit(oid(*id)).is_ok() => {}
                Wanted::Commit(_) => refspecs.extend(["heads", "tags"].map(all_of)),
            }
        }
        if !refspecs.is_empty() {
            let has_all = refspecs.contains(&all_of("heads"));
            self.download(remote, &refspecs.into_iter().collect::<Vec<_>>())?;
            // The next fetch asks only for what these do not have.
            for listed in self.listed.iter().filter(|l| has_all && is_branch_or_tag(&l.name)) {
                self.set(&local_name(listed), listed.id)?;
            }
        }
        let own = own_wanted.and_then(|wanted| self.take(remote, own, &wanted));
        let taken = wanted
            .iter()
            .filter_map(|(of, wanted)| Some(((*of).clone(), self.take(remote, of, wanted).ok()?)));
        Ok(GroupFetched { own, others: taken.collect() })
    }

    fn choose(&self, reference: &Reference) -> Result<Wanted<'_>, FetchError> {
        Ok(match reference {
            Reference::Commit(id) => Wanted::Commit(*id),
            Reference::Head => Wanted::Listed(self.head(reference)?),
            Reference::Branch(name) => {
                Wanted::Listed(self.named(&format!("refs/heads/{name}"), reference)?)
            }
            Reference::Tag(name) => {
                Wanted::Listed(self.named(&format!("refs/tags/{name}"), reference)?)
            }
            Reference::Semver(range) => Wanted::Listed(self.highest(range, reference)?),
        })
    }

    fn is_local(&self, listed: &RemoteRef) -> bool {
        self.git.refname_to_id(&local_name(listed)).is_ok_and(|id| id == listed.id)
            && self.git.find_object(listed.id, None).is_ok()
    }

    /// Keeps what was downloaded for a reference, and gives its commit.
    fn take(
        &self,
        remote: &mut git2::Remote<'_>,
        reference: &Reference,
        wanted: &Wanted<'_>,
    ) -> Result<Fetched, FetchError> {
        match wanted {
            Wanted::Listed(listed) => {
                self.set(&local_name(listed), listed.id)?;
                let commit = self.peel(listed.id, &listed.name)?;
                Ok(Fetched { commit, name: listed.name.clone() })
            }
            Wanted::Commit(id) => self.take_commit(remote, reference, *id),
        }
    }

    /// Gives a commit that came with the branches and tags, or else fetches it by its id alone.
    fn take_commit(
        &self,
        remote: &mut git2::Remote<'_>,
        reference: &Reference,
        id: CommitId,
    ) -> Result<Fetched, FetchError> {
        let pin = format!("{NAMESPACE}commits/{id}");
        if self.git.find_commit(oid(id)).is_err() {
            // Servers may refuse commits that no reference reaches; the error is the same in any
            // case.
            let direct = self.download(remote, &[format!("{id}:{pin}")]);
            if direct.is_err() || self.git.find_commit(oid(id)).is_err() {
                self.attempt.check()?;
                return Err(self.missing(reference, "no branch or tag reaches it"));
            }
        }
        self.set(&pin, oid(id))?;
        Ok(Fetched { commit: id, name: id.to_string() })
    }

    fn head(&self, reference: &Reference) -> Result<&RemoteRef, FetchError> {
        let head = self.listed.iter().find(|l| l.name == "HEAD");
        let branch = self.default.and_then(|name| self.listed.iter().find(|l| l.name == name));
        // A detached HEAD may be equal to a branch; the branch is as good then.
        branch
            .or(head)
            .ok_or_else(|| self.missing(reference, "is it empty? Push a commit, or name a branch"))
    }

    fn named(&self, name: &str, reference: &Reference) -> Result<&RemoteRef, FetchError> {
        self.listed.iter().find(|l| l.name == name).ok_or_else(|| {
            let kind = if name.starts_with("refs/heads/") { "refs/heads/" } else { "refs/tags/" };
            let mut others: Vec<&str> =
                self.listed.iter().filter_map(|l| l.name.strip_prefix(kind)).collect();
            others.retain(|other| !other.ends_with("^{}"));
            others.truncate(5);
            if others.is_empty() {
                return self.missing(reference, "");
            }
            self.missing(reference, &format!("it has, for example, {}", others.join(", ")))
        })
    }

    fn highest(
        &self,
        range: &semver::VersionReq,
        reference: &Reference,
    ) -> Result<&RemoteRef, FetchError> {
        let versions = self.listed.iter().filter_map(|listed| {
            let tag = listed.name.strip_prefix("refs/tags/")?;
            let version = semver::Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
            range.matches(&version).then_some((version, listed))
        });
        let best = versions.max_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
        best.map(|(_, listed)| listed).ok_or_else(|| self.missing(reference, ""))
    }

    fn missing(&self, reference: &Reference, hint: &str) -> FetchError {
        FetchError::ReferenceMissing {
            url: self.attempt.url(),
            reference: reference.to_string(),
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
            let kept = match reference.name() {
                Ok(name) => remote_name(name).is_none_or(|name| listed.contains(&*name)),
                Err(_) => true,
            };
            if !kept {
                reference.delete()?;
            }
        }
        Ok(())
    }

    /// The commit that an id leads to. The object of its tree is read too, so that damage shows
    /// here. Whether it is a tree shows later, with its path: no fetch repairs a malformed one.
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
        check_object(self.git, commit.tree_id()).map_err(explain)?;
        Ok(object_id(commit.id()))
    }
}

/// The refspec of all branches (`heads`) or tags.
fn all_of(kind: &str) -> String {
    format!("+refs/{kind}/*:{NAMESPACE}{kind}/*")
}

fn is_branch_or_tag(name: &str) -> bool {
    (name.starts_with("refs/heads/") || name.starts_with("refs/tags/")) && !name.ends_with("^{}")
}

/// The name of a listed reference in the mirror.
fn local_name(listed: &RemoteRef) -> String {
    match listed.name.strip_prefix("refs/") {
        Some(name) => format!("{NAMESPACE}{name}"),
        None => format!("{NAMESPACE}commits/{}", listed.id),
    }
}

/// The name that a branch or tag of the mirror has on the remote.
fn remote_name(local: &str) -> Option<String> {
    let name = local.strip_prefix(NAMESPACE)?;
    (name.starts_with("heads/") || name.starts_with("tags/")).then(|| format!("refs/{name}"))
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
    let path = percent_encode(path.as_os_str().as_encoded_bytes(), ESCAPED_IN_PATHS);
    format!("file://{path}")
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
