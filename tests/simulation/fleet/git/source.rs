//! The source of a process, which reads the simulated repository.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gitwork_core::model::name::{CommitId, RepoPath, SourceId, WorkKey};
use gitwork_core::model::snapshot::ObjectError;
use gitwork_core::plan::LastKnownStates;
use gitwork_core::plan::added_works::AddedWorks;
use gitwork_core::render::desired::Desired;
use gitwork_daemon::reader::SourceReader;
use gitwork_source::{SourceReadError, SourceState, Spent, StateFileError};
use gitwork_sync::verification_base::VerificationBase;
use tokio::time::Instant;

use super::Git;
use super::history::{is_ancestor, number, removal};
use crate::fleet::bugs::Bug;
use crate::git_work::folder;

/// The commits that an engine has read, with the times.
pub type ReadLog = Arc<Mutex<Vec<(Instant, usize)>>>;

pub struct SimulatedSource {
    pub(super) id: SourceId,
    pub(super) git: Git,
    pub(super) last: Option<(usize, SourceState)>,
    pub(super) random: fastrand::Rng,
    pub reads: ReadLog,
    /// The record generation that the machine stores.
    pub(super) generation: Arc<AtomicU64>,
    /// Whether calls take time.
    pub has_latency: bool,
    pub(super) bug: Option<Bug>,
    /// The engine has said what the hub proves about verified commits.
    pub(super) has_base: bool,
}

fn missing(id: CommitId) -> SourceReadError {
    SourceReadError::Objects(ObjectError::Missing(id))
}

impl SimulatedSource {
    /// Reads the branch.
    pub fn read_branch(&mut self) -> Result<SourceState, SourceReadError> {
        let git = self.git.clone();
        let mut state = git.lock();
        let branch = state.heads.last().map_or(0, |head| head.commit);
        if state.away {
            return Err(missing(state.commits[branch].id));
        }
        let (head, verification_failure) = match self.bug {
            Some(Bug::UnverifiedCommitFollowed) => (branch, None),
            _ => state.verify(branch),
        };
        let (id, root) = (state.commits[head].id, state.commits[head].root);
        if let Some((last, read)) = &self.last
            && *last == head
        {
            self.reads.lock().unwrap().push((Instant::now(), head));
            return Ok(SourceState { verification_failure, ..read.clone() });
        }
        if state.damaged {
            return Err(missing(id));
        }
        let mut desired = state.render(head)?;
        if let Some(bug) = self.bug {
            bug.spoil_desired(Arc::make_mut(&mut desired));
        }
        let read = SourceState {
            desired,
            name: "main".into(),
            committed_seconds: None,
            spent: Spent::default(),
            verification_failure,
            is_signed: false,
            root,
            change: None,
        };
        self.last = Some((head, read.clone()));
        self.reads.lock().unwrap().push((Instant::now(), head));
        Ok(read)
    }
}

impl SourceReader for SimulatedSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn read(
        &mut self,
        _age_max: Duration,
        _cancel: &Arc<AtomicBool>,
    ) -> Result<SourceState, SourceReadError> {
        self.read_branch()
    }

    fn last_known_states(
        &self,
        desired: &Desired,
        candidates: &[(WorkKey, RepoPath)],
        _applied: &[CommitId],
        _cancel: &AtomicBool,
    ) -> Result<LastKnownStates, SourceReadError> {
        let mut state = self.git.lock();
        let Some(head) = desired.commit.and_then(|id| number(&state.commits, id)) else {
            return Ok(LastKnownStates::new());
        };
        if self.bug == Some(Bug::HistoryNotRead) {
            return Ok(LastKnownStates::new());
        }
        if state.damaged {
            return Err(missing(state.commits[head].id));
        }
        let mut found = LastKnownStates::new();
        let mut brought = AddedWorks::new(desired, None);
        for (key, path) in candidates {
            if *path != folder(key) {
                continue;
            }
            let Some(removal) = removal(&state.commits, head, key) else { continue };
            if let Some(mut last_state) = state.last_known_state(&self.id, key, path, removal)? {
                let before = state.commits[removal.0].root;
                last_state.added_since = Some(brought.since(before, &state.objects)?);
                if let Some(bug) = self.bug {
                    let budgets = last_state.budgets.as_ref();
                    last_state.budgets = budgets.map(|budgets| bug.spoil_budgets(budgets));
                }
                found.insert(key.clone(), last_state);
            }
        }
        Ok(found)
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
        let state = self.git.lock();
        let head = number(&state.commits, head).ok_or_else(|| missing(head))?;
        let reached = |id: &CommitId| {
            number(&state.commits, *id).is_some_and(|it| is_ancestor(&state.commits, it, head))
        };
        Ok(commits.iter().filter(|id| !reached(id)).copied().collect())
    }

    fn needs_verification_base(&self) -> bool {
        !self.has_base
    }

    fn set_verification_base(&mut self, _base: VerificationBase) {
        self.has_base = true;
    }

    fn known_record_generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    fn remember_record_generation(&self, generation: u64) -> Result<(), StateFileError> {
        self.generation.store(generation, Ordering::Relaxed);
        Ok(())
    }

    fn latency(&mut self) -> Option<Duration> {
        let most = if self.has_latency { 4_000 } else { 1 };
        Some(Duration::from_millis(self.random.u64(..most)))
    }
}
