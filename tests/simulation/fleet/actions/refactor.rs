//! People who refactor the repository: objects move between the works of a cluster.

use std::time::Duration;

use crate::fleet::git::CommitContent;
use crate::fleet::process::Process;
use crate::fleet::run::World;
use crate::refactoring::{
    Refactoring, accompany, copy, exchange_clusters, refactor, remove_object,
};

impl World {
    /// One refactoring, in one commit or in several.
    pub(super) async fn refactor(&mut self) {
        match self.random.u8(..100) {
            0..45 => drop(self.commit_refactoring()),
            45..60 => self.refactor_in_chain().await,
            60..80 => self.refactor_and_revert().await,
            80..88 => self.copy_and_remove().await,
            88..95 => self.refactor_into_error().await,
            _ => {
                let (_, mut content) = self.git.head();
                exchange_clusters(&mut content.works, &mut self.random);
                self.push(content, "the folders of two clusters exchange their names");
            }
        }
    }

    /// A commit that moves objects. Returns the content before it.
    fn commit_refactoring(&mut self) -> Option<(CommitContent, Refactoring)> {
        let (_, before) = self.git.head();
        let mut content = before.clone();
        let done = refactor(&mut content.works, &mut self.random)?;
        accompany(&mut content.works, &done, &mut self.random);
        content.forget_removed();
        self.push(content, &done.what);
        Some((before, done))
    }

    /// Objects move on before they have arrived.
    async fn refactor_in_chain(&mut self) {
        for _ in 0..self.random.u8(2..4) {
            self.commit_refactoring();
            self.move_in_progress().await;
        }
    }

    /// The last commit is taken back in the middle of the move.
    async fn refactor_and_revert(&mut self) {
        let Some((before, _)) = self.commit_refactoring() else { return };
        for _ in 0..self.random.u8(1..3) {
            self.move_in_progress().await;
        }
        let (_, content) = self.git.head();
        let approved = content.approved;
        self.push(CommitContent { approved, ..before }, "the last refactoring is reverted");
        self.move_in_progress().await;
    }

    /// An object is in two works for a while, which is an error of both.
    async fn copy_and_remove(&mut self) {
        let (_, mut content) = self.git.head();
        let Some((from, name)) = copy(&mut content.works, &mut self.random) else { return };
        self.push(content, &format!("a copy of {name} of {from}"));
        self.move_in_progress().await;
        let (_, mut content) = self.git.head();
        remove_object(&mut content.works, &from, &name);
        content.forget_removed();
        self.push(content, &format!("{from} loses {name}"));
    }

    /// Objects move into a work that has an error or is suspended, which is fixed later.
    async fn refactor_into_error(&mut self) {
        let (_, mut content) = self.git.head();
        let Some(done) = refactor(&mut content.works, &mut self.random) else { return };
        let kind = self.random.u8(..3);
        for key in &done.receivers {
            match kind {
                0 => drop(content.broken.insert(key.clone())),
                1 => drop(content.broken_beside.insert(key.clone())),
                _ => content.works.get_mut(key).into_iter().for_each(|work| work.suspend = true),
            }
        }
        content.forget_removed();
        self.push(content, &format!("{}, with an error or a suspension there", done.what));
        self.move_in_progress().await;
        if self.chance(70) {
            let (_, mut content) = self.git.head();
            content.fix_all();
            self.push(content, "all errors are fixed");
            self.move_in_progress().await;
        }
    }

    /// Time passes while gitwork and the agents act in turn. At times gitwork is killed, or another
    /// process starts.
    async fn move_in_progress(&mut self) {
        self.processes.iter().for_each(Process::hint);
        let rounds = self.random.u8(..12);
        for _ in 0..rounds {
            let milliseconds = self.random.u64(..6_000);
            self.wait(Duration::from_millis(milliseconds)).await;
            self.agent_acts();
        }
        match self.random.u8(..12) {
            0 => self.crash(),
            1 => self.stop_or_start().await,
            2 => self.settle(),
            _ => {}
        }
    }
}
