//! Renders folders before their turn, several at the same time. The order in which they count and
//! are kept stays the same, and so does the result.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::inputs::{ClusterInputs, PassInputs};
use crate::model::facts::KnownFacts;
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, ObjectId, RepoPath};
use crate::model::snapshot::{ObjectError, Objects, Tree};
use crate::render::groups::Membership;
use crate::render::work_folder::{self, Rendered};

/// Folders that are rendered in one go.
const BATCH_FOLDERS: usize = 32;

/// Bytes of files that may be read for a folder before its turn. A larger folder is rendered in its
/// turn, so that one large work at a time is in memory.
const FOLDER_BYTES_MAX: usize = 256 * 1024;

/// Bytes of files that may be read for the folders of one go.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Runs tasks at the same time. The shells have the threads.
pub trait Workers: fmt::Debug + Send + Sync {
    /// Calls `task` once with each number below `tasks`, in any order, and returns after the last
    /// one.
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync));
}

/// A folder to render before its turn.
pub(super) struct Job {
    pub(super) cluster: ClusterName,
    pub(super) path: RepoPath,
    pub(super) tree: ObjectId,
    pub(super) group: Option<Membership>,
    pub(super) inherited: Arc<ClusterInputs>,
    pub(super) facts: KnownFacts,
}

/// The folders that are rendered before their turn.
pub(super) struct RenderAhead<'a> {
    workers: Option<&'a dyn Workers>,
    kinds: &'a KindIndex,
    /// In the order of their turns.
    jobs: Vec<Job>,
    /// The places in `jobs`.
    places: HashMap<(ClusterName, RepoPath), usize>,
    /// The first job that is not begun.
    next: usize,
    rendered: HashMap<(ClusterName, RepoPath), Rendered>,
}

impl<'a> RenderAhead<'a> {
    /// Nothing to render yet. `kinds`: those that are known at the beginning of the pass.
    pub(super) fn new(workers: Option<&'a dyn Workers>, kinds: &'a KindIndex) -> Self {
        let (jobs, places, rendered) = (Vec::new(), HashMap::new(), HashMap::new());
        Self { workers, kinds, jobs, places, next: 0, rendered }
    }

    /// From now on, nothing is rendered before its turn.
    pub(super) fn end(&mut self) {
        *self = Self::new(None, self.kinds);
    }

    /// Whether several folders are rendered at the same time.
    pub(super) fn is_on(&self) -> bool {
        self.workers.is_some()
    }

    /// Adds the next folder.
    pub(super) fn push(&mut self, job: Job) {
        self.places.insert((job.cluster.clone(), job.path.clone()), self.jobs.len());
        self.jobs.push(job);
    }

    /// The folder, if it is one of those to render before their turn. Renders those that follow,
    /// too. An error of the object database is left to the folder's turn.
    pub(super) fn take(
        &mut self,
        cluster: &ClusterName,
        path: &RepoPath,
        inputs: PassInputs<'_>,
    ) -> Option<Rendered> {
        if self.places.is_empty() {
            return None;
        }
        let key = (cluster.clone(), path.clone());
        let at = *self.places.get(&key)?;
        if at >= self.next {
            self.render(at, inputs);
        }
        self.rendered.remove(&key)
    }

    /// Renders the jobs from this one on.
    fn render(&mut self, at: usize, inputs: PassInputs<'_>) {
        self.rendered.clear();
        let end = self.jobs.len().min(at + BATCH_FOLDERS);
        self.next = end;
        let (Some(workers), Some(jobs)) = (self.workers, self.jobs.get(at..end)) else { return };
        let (left, kinds) = (AtomicUsize::new(BATCH_BYTES_MAX), self.kinds);
        let results = Mutex::new(Vec::with_capacity(jobs.len()));
        workers.run(jobs.len(), &|number| {
            let Some(job) = jobs.get(number) else { return };
            if let Some(rendered) = job.render(inputs, kinds, &left) {
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results.push(((job.cluster.clone(), job.path.clone()), rendered));
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.rendered.extend(results);
    }
}

impl Job {
    /// `None` if the folder is left to its turn.
    fn render(
        &self,
        inputs: PassInputs<'_>,
        kinds: &KindIndex,
        left: &AtomicUsize,
    ) -> Option<Rendered> {
        let Self { cluster, path, tree, group, inherited, facts } = self;
        let ignore = &inherited.source.ignore;
        let of_folder = AtomicUsize::new(FOLDER_BYTES_MAX);
        let objects = BoundedObjects { objects: inputs.objects, left: [left, &of_folder] };
        let inherited = inputs.inherited(cluster, group.as_ref(), (inherited, facts));
        work_folder::render(path, *tree, &inherited, ignore, kinds, &objects).ok()
    }
}

/// Objects of which only so many bytes are read.
struct BoundedObjects<'a> {
    objects: &'a dyn Objects,
    left: [&'a AtomicUsize; 2],
}

impl Objects for BoundedObjects<'_> {
    fn tree(&self, id: ObjectId) -> Result<Arc<Tree>, ObjectError> {
        self.objects.tree(id)
    }

    fn blob(&self, id: ObjectId, limit: usize) -> Result<Arc<[u8]>, ObjectError> {
        let most = self.left.iter().map(|left| left.load(Ordering::Relaxed)).min();
        let most = most.unwrap_or_default();
        let blob = match self.objects.blob(id, limit.min(most)) {
            // Too large for now only.
            Err(ObjectError::TooLarge { .. }) if most < limit => {
                return Err(ObjectError::Cancelled);
            }
            found => found?,
        };
        for left in self.left {
            let spend = |left: usize| Some(left.saturating_sub(blob.len()));
            // It always changes the number, so it never fails.
            let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        }
        Ok(blob)
    }
}
