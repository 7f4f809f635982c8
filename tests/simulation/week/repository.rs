//! The repository of `tests/cases/fleet` with the commits of a week, and the source of a process
//! that reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gitwork_core::model::digest::Digest;
use gitwork_core::model::facts::Facts;
use gitwork_core::model::name::{CommitId, GroupName, RepoPath, SourceId, WorkKey};
use gitwork_core::plan::LastKnownStates;
use gitwork_core::render::desired::Desired;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_daemon::reader::SourceReader;
use gitwork_report::status::source::SourceStatus;
use gitwork_report::status_branch::StatusSummary;
use gitwork_source::{SourceReadError, SourceState, Spent, StateFileError};

use crate::commits::{Branch, Removals};
use crate::fleet::git::ReadLog;
use crate::memory_repository::{File, files_below};

pub type Files = BTreeMap<String, File>;

/// The files of the case, from the folder of this crate.
const FILES: &str = "../cases/fleet/repository";

#[derive(Default)]
struct State {
    branch: Branch,
    /// The files of the last commit.
    files: Files,
    removals: Removals,
    /// `summary.json` of the status branch.
    published: Option<String>,
    /// What was read last.
    desired: Option<Arc<Desired>>,
}

/// The repository with its status branch. Clones share their state.
#[derive(Clone, Default)]
pub struct Repository(Arc<Mutex<State>>);

impl Repository {
    /// The repository with its first commit.
    pub fn new() -> Self {
        let repository = Self::default();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILES);
        repository.commit(|files| *files = files_below(&folder));
        repository
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Somebody changes files and pushes a commit.
    pub fn commit(&self, change: impl FnOnce(&mut Files)) {
        let mut state = self.lock();
        let State { branch, files, .. } = &mut *state;
        let before = files.clone();
        change(files);
        assert!(!files.iter().map(text).eq(before.iter().map(text)), "the commit changes nothing");
        branch.push(files);
    }

    /// Somebody replaces a text of one file, which has it once.
    pub fn replace(&self, path: &str, texts: &[(&str, &str)]) {
        self.commit(|files| {
            let mut text = text_of(files, path);
            for (old, new) in texts {
                assert_eq!(text.matches(old).count(), 1, "{path} has {old:?} once");
                text = text.replace(old, new);
            }
            files.insert(path.to_owned(), File::from(text.as_str()));
        });
    }

    /// What a process read last.
    pub fn desired(&self) -> Arc<Desired> {
        self.lock().desired.clone().unwrap()
    }

    /// Writes the status branch.
    pub fn publish(&self, status: &SourceStatus) {
        self.lock().published = Some(StatusSummary::of(status).json());
    }

    /// The source of a process on a machine with an empty cache.
    pub fn source(&self, id: &SourceId, seed: u64) -> FleetSource {
        FleetSource {
            id: id.clone(),
            repository: self.clone(),
            renderer: Renderer::new(id.clone()),
            facts: None,
            earlier: Arc::default(),
            last: None,
            random: fastrand::Rng::with_seed(seed),
            reads: ReadLog::default(),
            published: Published::read(self.lock().published.as_deref()),
            generation: AtomicU64::new(0),
        }
    }
}

fn text<'a>((path, file): (&'a String, &'a File)) -> (&'a str, &'a [u8]) {
    let File::Bytes(bytes) = file else { panic!("{path} is no file") };
    (path, bytes)
}

fn text_of(files: &Files, path: &str) -> String {
    let Some(File::Bytes(bytes)) = files.get(path) else { panic!("no {path}") };
    String::from_utf8(bytes.clone()).unwrap()
}

/// What the status branch says of the source's record on the hub.
#[derive(Default)]
struct Published {
    generation: u64,
    rejected: BTreeMap<GroupName, Digest>,
}

impl Published {
    fn read(summary: Option<&str>) -> Self {
        let Some(summary) = summary else { return Self::default() };
        let summary: StatusSummary = serde_json::from_str(summary).unwrap();
        let rejected = summary.rollouts.iter().filter(|rollout| rollout.rejected);
        let rejected = rejected.filter_map(|rollout| {
            Some((GroupName::parse(&rollout.group).ok()?, Digest::parse(&rollout.content)?))
        });
        Self { generation: summary.record_generation, rejected: rejected.collect() }
    }
}

pub struct FleetSource {
    id: SourceId,
    repository: Repository,
    renderer: Renderer,
    facts: Option<Arc<Facts>>,
    earlier: Arc<EarlierContents>,
    /// What was read last, and the position of its commit; `None` once it may differ.
    last: Option<(usize, SourceState)>,
    random: fastrand::Rng,
    pub reads: ReadLog,
    published: Published,
    /// The record generation that the machine stores.
    generation: AtomicU64,
}

impl SourceReader for FleetSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn read(
        &mut self,
        _age_max: Duration,
        _cancel: &Arc<AtomicBool>,
    ) -> Result<SourceState, SourceReadError> {
        let mut state = self.repository.lock();
        let head = state.branch.head();
        if let Some((_, last)) = self.last.as_ref().filter(|(number, _)| *number == head) {
            return Ok(last.clone());
        }
        let snapshot = state.branch.snapshot(head);
        let (root, desired) = (snapshot.root, Arc::new(self.renderer.render(&snapshot)?));
        let read = SourceState {
            desired: desired.clone(),
            name: "main".into(),
            committed_seconds: None,
            spent: Spent::default(),
            verification_failure: None,
            is_signed: false,
            root,
            change: None,
        };
        self.last = Some((head, read.clone()));
        state.desired = Some(desired);
        Ok(read)
    }

    fn set_facts(&mut self, facts: Arc<Facts>) {
        if self.facts.as_ref().is_none_or(|before| !Arc::ptr_eq(before, &facts)) {
            self.last = None;
        }
        self.renderer.set_facts(Some(facts.clone()));
        self.facts = Some(facts);
    }

    fn set_earlier(&mut self, contents: Arc<EarlierContents>) {
        if self.earlier != contents {
            self.last = None;
        }
        let roots = self.repository.lock().branch.roots_of(&contents);
        self.renderer.set_earlier(contents.clone(), roots);
        self.earlier = contents;
    }

    fn last_known_states(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        _applied: &[CommitId],
        _cancel: &AtomicBool,
    ) -> Result<LastKnownStates, SourceReadError> {
        let State { branch, removals, .. } = &mut *self.repository.lock();
        branch.last_known_states(&self.id, (desired, self.facts.as_ref()), candidates, removals)
    }

    fn last_changed(
        &self,
        head: CommitId,
        folders: &BTreeSet<RepoPath>,
        _cancel: &AtomicBool,
    ) -> Result<BTreeMap<RepoPath, CommitId>, SourceReadError> {
        Ok(folders.iter().map(|folder| (folder.clone(), head)).collect())
    }

    fn unreached(
        &self,
        head: CommitId,
        commits: &BTreeSet<CommitId>,
        _cancel: &AtomicBool,
    ) -> Result<BTreeSet<CommitId>, SourceReadError> {
        Ok(self.repository.lock().branch.unreached(head, commits))
    }

    fn known_record_generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed).max(self.published.generation)
    }

    fn known_rejected(&self) -> BTreeMap<GroupName, Digest> {
        self.published.rejected.clone()
    }

    fn remember_record_generation(&self, generation: u64) -> Result<(), StateFileError> {
        self.generation.store(generation, Ordering::Relaxed);
        Ok(())
    }

    fn latency(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(self.random.u64(..4_000)))
    }
}
