//! Work folders that other threads render before the pass needs them.
//!
//! The pass goes through all folders in their order. It alone counts what they hold, shares equal
//! contents and decides when a bound is reached. A folder is the same whichever thread renders it,
//! so the number of threads changes nothing of the result.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::cluster::{ClusterPlan, RenderedCluster};
use super::work_inputs::{WorkInputs, WorkPlace};
use crate::limits;
use crate::model::kinds::KindIndex;
use crate::model::name::{ClusterName, ObjectId, RepoPath};
use crate::model::snapshot::{ObjectError, Objects};
use crate::render::work_folder::Rendered;

/// A folder to render.
struct Job {
    name: ClusterName,
    /// Without its works.
    cluster: Arc<RenderedCluster>,
    path: RepoPath,
    tree: ObjectId,
}

/// Folders that other threads render before the pass needs them.
pub(super) struct RenderedAhead<'a> {
    inputs: WorkInputs<'a>,
    kinds: &'a KindIndex,
    /// In the order of the pass.
    jobs: Vec<Job>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// The job that the pass comes to next.
    needed: usize,
    /// The first job that no thread has begun.
    next: usize,
    /// By job; `None` while a thread renders it.
    results: BTreeMap<usize, Option<Result<Rendered, ObjectError>>>,
    /// The folders that were rendered, and whether equal ones have to be rendered, too.
    seen: HashMap<ObjectId, bool>,
    /// The pass has ended.
    is_over: bool,
}

impl<'a> RenderedAhead<'a> {
    /// The folders of these clusters that have to be rendered.
    pub(super) fn new(
        inputs: WorkInputs<'a>,
        kinds: &'a KindIndex,
        plans: &[(ClusterName, ClusterPlan<'_>)],
    ) -> Self {
        let mut jobs = Vec::new();
        for (name, plan) in plans {
            let ClusterPlan::Changed { cluster, folder: Ok(folder), before } = plan else {
                continue;
            };
            for (owner, folder, _) in cluster.owners(name, folder) {
                for (folder_name, tree) in &folder.works {
                    let (path, tree) = (owner.join(folder_name), *tree);
                    if before.is_none_or(|before| before.kept(cluster, &path, tree).is_none()) {
                        jobs.push(Job { name: name.clone(), cluster: cluster.clone(), path, tree });
                    }
                }
            }
        }
        Self { inputs, kinds, jobs, progress: Mutex::default(), changed: Condvar::new() }
    }

    /// Runs a pass, with so many threads in all as far as they can read the objects.
    pub(super) fn run<T>(
        &self,
        objects: &dyn Objects,
        threads: usize,
        pass: impl FnOnce(Option<&Self>) -> T,
    ) -> T {
        let others = threads.min(self.jobs.len()).saturating_sub(1);
        let stores: Vec<_> = (0..others).map_while(|_| objects.for_thread()).collect();
        if stores.is_empty() {
            return pass(None);
        }
        thread::scope(|scope| {
            let _end = PassEnd(self);
            for store in stores {
                let thread = thread::Builder::new().stack_size(limits::RENDER_STACK_BYTES);
                // With fewer threads, the pass renders more itself.
                let _fewer = thread.spawn_scoped(scope, move || self.render_all(&*store));
            }
            pass(Some(self))
        })
    }

    /// The folder that the pass comes to next; `None` if the pass has to render it. While another
    /// thread renders it, this one renders others.
    pub(super) fn take(
        &self,
        name: &ClusterName,
        place: &WorkPlace<'_>,
        objects: &dyn Objects,
    ) -> Option<Result<Rendered, ObjectError>> {
        let mut progress = self.progress();
        let at = self.advance(&mut progress, name, place)?;
        while let Some(None) = progress.results.get(&at) {
            progress = match self.begin(&mut progress) {
                Some((other, job)) => {
                    drop(progress);
                    self.render(other, job, objects);
                    self.progress()
                }
                None => self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let result = progress.results.remove(&at).flatten();
        if result.is_none() {
            match progress.seen.entry(place.tree) {
                // The pass knows an equal folder, but cannot use it.
                Entry::Occupied(mut varies) => drop(varies.insert(true)),
                Entry::Vacant(unseen) => drop(unseen.insert(false)),
            }
        }
        result
    }

    /// The pass takes an equal folder in place of the one that it comes to next.
    pub(super) fn pass_over(&self, name: &ClusterName, place: &WorkPlace<'_>) {
        let mut progress = self.progress();
        if let Some(at) = self.advance(&mut progress, name, place) {
            progress.results.remove(&at);
            progress.seen.insert(place.tree, false);
        }
    }

    /// Moves on to a folder, and past it.
    fn advance(
        &self,
        progress: &mut Progress,
        name: &ClusterName,
        place: &WorkPlace<'_>,
    ) -> Option<usize> {
        let at = progress.needed;
        self.jobs.get(at).filter(|job| job.path == place.path && job.name == *name)?;
        progress.needed = at + 1;
        progress.next = progress.next.max(at + 1);
        self.changed.notify_all();
        Some(at)
    }

    /// Renders until the pass has all that it needs.
    fn render_all(&self, objects: &dyn Objects) {
        while let Some((at, job)) = self.next() {
            self.render(at, job, objects);
        }
    }

    fn render(&self, at: usize, job: &Job, objects: &dyn Objects) {
        let _unfinished = Unfinished { ahead: self, at };
        let group = job.cluster.membership_of(&job.path);
        let place = WorkPlace { path: job.path.clone(), tree: job.tree, group };
        let inherited = self.inputs.inherited(&job.name, group, &job.cluster);
        let rendered = self.inputs.render(&place, &inherited, self.kinds, objects);
        if let Some(result) = self.progress().results.get_mut(&at) {
            *result = Some(rendered);
        }
    }

    /// The next folder to render, as soon as the pass has come near it; `None` at the end.
    fn next(&self) -> Option<(usize, &Job)> {
        let mut progress = self.progress();
        loop {
            let found = self.begin(&mut progress);
            if found.is_some() || progress.is_over || progress.next >= self.jobs.len() {
                return found;
            }
            progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next folder to render, if the pass is near it.
    fn begin(&self, progress: &mut Progress) -> Option<(usize, &Job)> {
        while progress.next < progress.needed + limits::RENDERED_AHEAD_MAX && !progress.is_over {
            let at = progress.next;
            let job = self.jobs.get(at)?;
            progress.next += 1;
            // Otherwise the pass has, or will have, an equal folder.
            if *progress.seen.get(&job.tree).unwrap_or(&true) {
                progress.seen.entry(job.tree).or_insert(false);
                progress.results.insert(at, None);
                return Some((at, job));
            }
        }
        None
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the other threads once the pass has ended, or has failed.
struct PassEnd<'a>(&'a RenderedAhead<'a>);

impl Drop for PassEnd<'_> {
    fn drop(&mut self) {
        self.0.progress().is_over = true;
        self.0.changed.notify_all();
    }
}

/// A job that a thread renders. If the thread fails, the pass renders it.
struct Unfinished<'a> {
    ahead: &'a RenderedAhead<'a>,
    at: usize,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let mut progress = self.ahead.progress();
        if let Some(None) = progress.results.get(&self.at) {
            progress.results.remove(&self.at);
        }
        drop(progress);
        self.ahead.changed.notify_all();
    }
}
