//! Threads that render at the same time.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gitwork_core::render::renderer::Workers;

/// So many threads, the caller's included.
#[derive(Debug)]
pub(crate) struct Threads(pub(crate) NonZeroUsize);

impl Workers for Threads {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= tasks {
                    break;
                }
                task(number);
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.0.get().min(tasks) {
                scope.spawn(work);
            }
            work();
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    #[test]
    fn each_task_runs_once_on_several_threads() {
        let threads = Threads(NonZeroUsize::new(3).unwrap());
        for tasks in [0, 1, 2, 3, 100] {
            let ran = Mutex::new(Vec::new());
            threads.run(tasks, &|number| ran.lock().unwrap().push(number));
            let mut ran = ran.into_inner().unwrap();
            ran.sort_unstable();
            assert_eq!(ran, (0..tasks).collect::<Vec<_>>());
        }
        // Each waits for the others.
        let (barrier, ids) = (Barrier::new(3), Mutex::new(BTreeSet::new()));
        threads.run(3, &|number| {
            barrier.wait();
            ids.lock().unwrap().insert(number);
        });
        assert_eq!(ids.into_inner().unwrap().len(), 3);
    }
}
