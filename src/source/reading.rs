//! The reading of a source: fetch, verify, render.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{CommitId, ObjectId, RepoPath, SourceId};
use gitwork_core::model::snapshot::{ObjectError, Objects, Snapshot, Tree};
use gitwork_core::plan::DesiredChange;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_core::signature::verification::VerificationFailure;
use gitwork_git::error::RepositoryError;
use gitwork_git::{Directory, Fetched, Mirror, Reference};

use crate::config::SourceConfig;
use crate::error::SourceReadError;
use crate::origin::Origin;
use crate::verification::{Verification, Verified};

/// One state of a source.
#[derive(Debug, Clone)]
pub struct SourceState {
    /// The works that Git wants.
    pub desired: Arc<Desired>,
    /// The full name of the reference, or the folder, for messages.
    pub name: String,
    /// The committer date, in seconds since 1970; `None` for a folder on disk.
    pub committed_seconds: Option<i64>,
    /// The time that the read took.
    pub spent: Spent,
    /// Why this is the last verified commit instead of the reference's commit.
    pub verification_failure: Option<Arc<VerificationFailure>>,
    /// Somebody requires signatures, and the commit has them.
    pub is_signed: bool,
    /// The tree at the source's path.
    pub root: ObjectId,
    /// What differs from the last read, compared here rather than by the engine.
    pub change: Option<DesiredChange>,
}

/// The time that the parts of a read took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// Fetching, or listing the folder.
    pub fetch: Duration,
    /// Verifying and rendering; `None` if nothing had changed.
    pub render: Option<Duration>,
}

/// The contents of groups that clusters keep or get while another one is rolled out.
struct Earlier {
    contents: Arc<EarlierContents>,
    /// The renderer has the commits of all of them.
    is_complete: bool,
}

impl Default for Earlier {
    fn default() -> Self {
        Self { contents: Arc::default(), is_complete: true }
    }
}

/// The tree of a commit, which the branch may no longer have.
fn earlier_root(
    mirror: &mut Mirror,
    path: &RepoPath,
    commit: CommitId,
    cancel: &Arc<AtomicBool>,
) -> Result<ObjectId, SourceReadError> {
    let found = match mirror.snapshot(commit, path) {
        Err(RepositoryError::CommitMissing { .. }) => {
            mirror.fetch(&Reference::Commit(commit), cancel)?;
            mirror.snapshot(commit, path)
        }
        found => found,
    };
    Ok(found?.root)
}

/// What a source keeps from one read to the next.
pub(crate) struct Reading {
    source: SourceId,
    pub renderer: Renderer,
    /// The facts that the renderer has.
    facts: Option<Arc<Facts>>,
    pub verification: Option<Verification>,
    last: Option<SourceState>,
    earlier: Earlier,
    /// The last state was read with other facts, or with other contents of groups.
    is_outdated: bool,
    clock: fn() -> Timestamp,
}

impl Reading {
    /// Nothing has been read yet, and every commit may be applied.
    pub fn new(config: &SourceConfig, clock: fn() -> Timestamp) -> Self {
        let mut renderer = Renderer::new(config.id.clone())
            .with_tenancy(config.tenancy.clone())
            .with_schema_checks(config.schema_checks.clone())
            .with_content_bytes_max(config.content_bytes_max);
        let facts = config.facts.clone();
        renderer.set_facts(facts.clone());
        let (source, earlier) = (config.id.clone(), Earlier::default());
        let (verification, last, is_outdated) = (None, None, false);
        Self { source, renderer, facts, verification, last, earlier, is_outdated, clock }
    }

    /// Sets what the hub says of clusters. What was read last is rendered again if that may change
    /// it.
    pub fn set_facts(&mut self, facts: &Arc<Facts>) {
        let is_same = |before: &Arc<Facts>| Arc::ptr_eq(before, facts) || before.is_same(facts);
        if self.facts.as_ref().is_some_and(is_same) {
            return;
        }
        self.renderer.set_facts(Some(facts.clone()));
        self.facts = Some(facts.clone());
        self.is_outdated |=
            self.last.as_ref().is_some_and(|last| last.desired.needed_facts.is_some());
    }

    /// Sets the contents of groups that clusters keep or get. The next read finds their commits.
    pub fn set_earlier(&mut self, contents: Arc<EarlierContents>) {
        self.earlier = Earlier { contents, is_complete: false };
        self.is_outdated = self.last.is_some();
    }

    /// Finds the commits of earlier contents, and keeps them. One that the branch no longer has may
    /// still be on the server.
    fn read_earlier(&mut self, mirror: &mut Mirror, path: &RepoPath, cancel: &Arc<AtomicBool>) {
        let contents = self.earlier.contents.clone();
        let commits = contents.values().flat_map(|group| group.commits.values());
        let commits: BTreeSet<CommitId> = commits.copied().collect();
        let mut roots = BTreeMap::new();
        for commit in &commits {
            match earlier_root(mirror, path, *commit, cancel) {
                Ok(root) => drop(roots.insert(*commit, root)),
                // Without it, clusters wait for their wave with what they have on the hub.
                Err(error) => {
                    let error = error.to_string();
                    tracing::warn!(%commit, error, "a commit that clusters have cannot be read");
                }
            }
        }
        self.earlier.is_complete = roots.len() == commits.len();
        if let Err(error) = mirror.keep(&self.source, &roots.keys().copied().collect()) {
            let error = error.to_string();
            tracing::warn!(error, "commits that clusters have may be lost with a force-push");
        }
        self.renderer.set_earlier(contents, roots);
        self.is_outdated = self.last.is_some();
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The commit that was read last.
    pub fn last_commit(&self) -> Option<CommitId> {
        self.last.as_ref().and_then(|last| last.desired.commit)
    }

    /// Whether anything was read.
    pub fn has_read(&self) -> bool {
        self.last.is_some()
    }

    /// Keeps a state, with which the next read is compared.
    pub fn keep(&mut self, read: &SourceState) {
        self.last = Some(read.clone());
        self.is_outdated = false;
    }

    /// Fetches, verifies and renders. A fetch of another source that began at most `age_max` ago
    /// counts too.
    pub fn read(
        &mut self,
        origin: &mut Origin,
        path: &RepoPath,
        age_max: Duration,
        cancel: &Arc<AtomicBool>,
    ) -> Result<SourceState, SourceReadError> {
        match origin {
            Origin::Mirror { mirror, reference, failed } => {
                let mut timer = Timer::start();
                if let Some((began, error)) = failed.take()
                    && began.elapsed() <= age_max
                {
                    return Err(error.into());
                }
                let fetched = mirror.fetch_within(reference, age_max, cancel)?;
                let is_new = self.last_commit() != Some(fetched.commit);
                if !self.earlier.is_complete && (self.is_outdated || is_new) {
                    self.read_earlier(mirror, path, cancel);
                }
                timer.fetched();
                let found = self.verify(mirror, path, fetched.commit, cancel)?;
                let verified = Fetched { commit: found.commit, ..fetched };
                let read = self.read_commit(mirror, path, verified, (timer, cancel))?;
                let verification_failure = found.failure.map(Arc::from);
                Ok(SourceState { verification_failure, is_signed: found.is_signed, ..read })
            }
            Origin::Directory(directory) => {
                if !std::mem::replace(&mut self.earlier.is_complete, true) {
                    // A folder on disk has no other commits.
                    let contents = self.earlier.contents.clone();
                    self.renderer.set_earlier(contents, BTreeMap::new());
                }
                self.read_directory(directory, cancel)
            }
        }
    }

    /// Renders a commit, so that the next read has less to render, unless the operator requires
    /// signatures or trusts keys. Nothing else follows from it.
    pub fn render_ahead(
        &mut self,
        origin: &Origin,
        path: &RepoPath,
        commit: CommitId,
        cancel: &AtomicBool,
    ) -> Result<(), SourceReadError> {
        if let Origin::Mirror { mirror, .. } = origin
            && self.verification.as_ref().is_none_or(Verification::trusts_nobody)
        {
            self.render(&mirror.snapshot(commit, path)?.snapshot(), cancel)?;
        }
        Ok(())
    }

    /// The newest commit up to `head` that may be applied.
    fn verify(
        &mut self,
        mirror: &Mirror,
        path: &RepoPath,
        head: CommitId,
        cancel: &AtomicBool,
    ) -> Result<Verified, SourceReadError> {
        let now = self.now();
        Ok(match &mut self.verification {
            Some(verification) => {
                verification.verify(mirror.repository(), path, head, now, cancel)?
            }
            None => Verified { commit: head, is_signed: false, failure: None },
        })
    }

    /// Renders a commit of the mirror. The timer runs since the fetch began.
    fn read_commit(
        &mut self,
        mirror: &Mirror,
        path: &RepoPath,
        of: Fetched,
        (timer, cancel): (Timer, &AtomicBool),
    ) -> Result<SourceState, SourceReadError> {
        let Fetched { commit, name } = of;
        if let Some(last) = &self.last
            && last.desired.commit == Some(commit)
            && !self.is_outdated
        {
            self.renderer.drop_unused();
            return Ok(SourceState { name, spent: timer.unchanged(), ..last.clone() });
        }
        let snapshot = mirror.snapshot(commit, path)?;
        let desired = self.render(&snapshot.snapshot(), cancel)?;
        let facts = mirror.repository().commit(commit)?;
        let change = self.change(&desired);
        Ok(SourceState {
            desired,
            name,
            committed_seconds: Some(facts.committed_seconds),
            spent: timer.rendered(),
            verification_failure: None,
            is_signed: false,
            root: snapshot.root,
            change,
        })
    }

    /// Renders a snapshot until it is cancelled.
    fn render(
        &mut self,
        snapshot: &Snapshot<'_>,
        cancel: &AtomicBool,
    ) -> Result<Arc<Desired>, ObjectError> {
        let objects = Cancellable { objects: snapshot.objects, cancel };
        let Snapshot { commit, root, .. } = *snapshot;
        self.renderer.render(&Snapshot { commit, root, objects: &objects }).map(Arc::new)
    }

    /// Lists and renders the folder.
    fn read_directory(
        &mut self,
        directory: &mut Directory,
        cancel: &AtomicBool,
    ) -> Result<SourceState, SourceReadError> {
        let mut timer = Timer::start();
        let snapshot = directory.snapshot()?;
        timer.fetched();
        if let Some(last) = &self.last
            && last.root == snapshot.root
            && !self.is_outdated
        {
            self.renderer.drop_unused();
            return Ok(SourceState { spent: timer.unchanged(), ..last.clone() });
        }
        let desired = self.render(&snapshot.snapshot(), cancel)?;
        let change = self.change(&desired);
        Ok(SourceState {
            desired,
            name: directory.root().display().to_string(),
            committed_seconds: None,
            spent: timer.rendered(),
            verification_failure: None,
            is_signed: false,
            root: snapshot.root,
            change,
        })
    }

    /// What differs from the last read.
    fn change(&self, now: &Desired) -> Option<DesiredChange> {
        self.last.as_ref().map(|last| DesiredChange::between(&last.desired, now))
    }
}

/// Objects that are read until somebody cancels. Rendering reads a tree or a file at every step.
struct Cancellable<'a, O> {
    objects: O,
    cancel: &'a AtomicBool,
}

impl<O: Objects> Cancellable<'_, O> {
    fn check(&self) -> Result<(), ObjectError> {
        if self.cancel.load(Ordering::Relaxed) { Err(ObjectError::Cancelled) } else { Ok(()) }
    }
}

impl<O: Objects> Objects for Cancellable<'_, O> {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.check()?;
        self.objects.tree(id)
    }

    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        self.check()?;
        self.objects.blob(id, limit)
    }

    fn for_thread(&self) -> Option<Box<dyn Objects + Send + '_>> {
        let (objects, cancel) = (self.objects.for_thread()?, self.cancel);
        Some(Box::new(Cancellable { objects, cancel }))
    }
}

/// Measures the parts of a read.
#[derive(Clone, Copy)]
struct Timer {
    began: Instant,
    fetch: Duration,
}

impl Timer {
    fn start() -> Self {
        Self { began: Instant::now(), fetch: Duration::ZERO }
    }

    /// The fetch, or the listing of the folder, has ended.
    fn fetched(&mut self) {
        self.fetch = self.began.elapsed();
    }

    /// The time of a read that found nothing new.
    fn unchanged(self) -> Spent {
        Spent { fetch: self.fetch, render: None }
    }

    /// The time of a read that verified and rendered until now.
    fn rendered(self) -> Spent {
        let render = self.began.elapsed().saturating_sub(self.fetch);
        Spent { fetch: self.fetch, render: Some(render) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use gitwork_core::config::signers::{SignerKeys, SignerPolicy, VerifiedCommits};
    use gitwork_core::config::tenancy::Tenancy;
    use gitwork_core::model::name::SourceId;
    use gitwork_core::model::snapshot::{Entry, EntryKind};
    use gitwork_git::{Auth, Mirrors, Remote};

    use super::*;
    use crate::config::SourceLocation;

    /// Folders without end: each has ten of the same. Cancels itself after some reads.
    struct Endless {
        reads: Cell<usize>,
        cancel: AtomicBool,
    }

    impl Objects for Endless {
        fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
            self.reads.set(self.reads.get() + 1);
            self.cancel.store(self.reads.get() >= 50, Ordering::Relaxed);
            let entry = |n: u8| Entry { kind: EntryKind::Tree, id: ObjectId([id.0[0] + n; 20]) };
            let named =
                |n: u8| (if n == 0 { "clusters".into() } else { format!("f{n}") }, entry(n));
            Ok(Arc::new((0..10).map(named).collect()))
        }

        fn blob(&self, id: ObjectId, _: usize) -> Result<Arc<[u8]>, ObjectError> {
            Err(ObjectError::Missing(id))
        }
    }

    const CRD: &str = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, \
        metadata: {name: hats.example.com}, spec: {group: example.com, scope: Namespaced, \
        names: {kind: Hat, plural: hats}, versions: [{name: v1, served: true, storage: true}]}}";

    /// A source whose mirror has a commit with one file.
    fn fetched(
        cache: &std::path::Path,
        path: &str,
        text: &str,
    ) -> (SourceConfig, Origin, CommitId) {
        let remote = Remote {
            url: "https://git.invalid/fleet.git".to_owned(),
            auth: Auth::None,
            ca_bundle: None,
            client_certificate: None,
            proxy: None,
        };
        let reference = Reference::Branch("main".to_owned());
        let cache = cache.to_owned();
        let config = SourceConfig {
            id: SourceId::parse("x").unwrap(),
            repository: SourceLocation::Git { remote: Box::new(remote), reference, cache },
            path: RepoPath::root(),
            tenancy: Tenancy::default(),
            schema_checks: Default::default(),
            content_bytes_max: gitwork_core::limits::CONTENT_BYTES_MAX,
            facts: None,
        };
        let origin = Origin::open(&config, &Mirrors::default()).unwrap();
        let Origin::Mirror { mirror, .. } = &origin else { panic!("a folder") };
        let git = git2::Repository::open(mirror.repository().path()).unwrap();
        let mut entry = (git.blob(text.as_bytes()).unwrap(), 0o100_644);
        for name in path.rsplit('/') {
            let mut tree = git.treebuilder(None).unwrap();
            tree.insert(name, entry.0, entry.1).unwrap();
            entry = (tree.write().unwrap(), 0o040_000);
        }
        let person = git2::Signature::now("a", "a@example.com").unwrap();
        let tree = git.find_tree(entry.0).unwrap();
        let commit = git.commit(None, &person, &person, "m", &tree, &[]).unwrap();
        (config, origin, CommitId::parse(&commit.to_string()).unwrap())
    }

    #[test]
    fn nothing_is_rendered_ahead_of_a_signature_that_may_be_required() {
        let folder = tempfile::tempdir().unwrap();
        let path = "clusters/a/web/crd.yaml";
        let (config, origin, commit) = fetched(folder.path(), path, CRD);
        let is_rendered = |verify: Option<VerifiedCommits>, keys: &[&str]| {
            let mut reading = Reading::new(&config, Timestamp::now);
            let policy = SignerPolicy { verify, ..SignerPolicy::default() };
            let allowed_signers = keys.iter().map(|file| (*file).to_owned()).collect();
            let keys = SignerKeys { allowed_signers, ..SignerKeys::default() };
            reading.verification = Some(Verification::new(&policy, keys).unwrap());
            let never = AtomicBool::new(false);
            reading.render_ahead(&origin, &config.path, commit, &never).unwrap();
            assert!(!reading.has_read());
            reading.renderer.kinds().is_namespaced("example.com", "Hat").is_some()
        };
        assert!(is_rendered(None, &[]));
        assert!(!is_rendered(Some(VerifiedCommits::Commits), &[]));
        assert!(!is_rendered(None, &["keys"]), "the repository's policy may require signatures");
    }

    #[test]
    fn rendering_ends_when_it_is_cancelled() {
        let endless = Endless { reads: Cell::new(0), cancel: AtomicBool::new(false) };
        let objects = Cancellable { objects: &endless, cancel: &endless.cancel };
        let snapshot = Snapshot { commit: None, root: ObjectId([0; 20]), objects: &objects };
        let rendered = Renderer::new(SourceId::parse("x").unwrap()).render(&snapshot);
        assert_eq!(rendered.unwrap_err(), ObjectError::Cancelled);
        assert_eq!(endless.reads.get(), 50);
    }
}
