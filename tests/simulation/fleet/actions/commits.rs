//! Commits and other changes of the branch.

use std::time::Duration;

use gitwork_core::config::Budgets;
use gitwork_core::model::name::WorkKey;

use crate::fleet::git::{CommitContent, ancestry};
use crate::fleet::machine_clock::DailyHours;
use crate::fleet::process::Process;
use crate::fleet::run::World;
use crate::git_work::{GitWork, config_map, work_entry};
use crate::key;
use crate::world::{CLUSTERS, WORKS, change_work};

impl World {
    pub(in crate::fleet) fn first_commit(&mut self) {
        let mut content = CommitContent::all();
        content.works.retain(|_, _| self.random.u8(..10) < 7);
        self.push(content, "first works");
    }

    pub(super) fn push(&mut self, content: CommitContent, what: &str) {
        if self.signatures && self.chance(40) {
            self.git.drop_unsigned();
        }
        let signed = !self.signatures || self.chance(80);
        self.git.commit(content, signed);
        let head = self.git.head().0;
        let how = if signed { "" } else { ", not signed" };
        self.checker
            .trace(|| format!("commit {head}{how}: {what}: {}", self.git.head().1.describe()));
        self.hint();
    }

    pub(super) fn hint(&mut self) {
        if self.chance(70) {
            self.processes.iter().for_each(Process::hint);
        }
    }

    pub(super) fn commit_changes(&mut self) {
        let (_, mut content) = self.git.head();
        for _ in 0..=self.random.u8(..3) {
            let key = self.any_key();
            change_work(&mut content.works, &key, &mut self.random);
        }
        if self.chance(10) {
            let any =
                |random: &mut fastrand::Rng, most: u32| random.bool().then(|| random.u32(..=most));
            content.budgets = Budgets {
                works: any(&mut self.random, 4),
                percent: any(&mut self.random, 60),
                cluster: any(&mut self.random, 3),
                ..Budgets::default()
            };
        }
        if self.has_hours && self.chance(15) {
            content.hours = DailyHours::any(&mut self.random);
        }
        self.push(content, "changes");
    }

    /// The works of one cluster are removed, or created again under the same names.
    pub(super) async fn replace_works(&mut self) {
        const PAUSE: Duration = Duration::from_secs(20);
        let (_, mut content) = self.git.head();
        let count = content.works.len();
        content.works.retain(|key, _| key.cluster.as_str() != CLUSTERS[0]);
        if content.works.len() == count {
            for work in WORKS {
                work_entry(&mut content.works, &key(CLUSTERS[0], work));
            }
        }
        self.push(content, "the works of a cluster are removed or created again");
        self.processes.iter().for_each(Process::hint);
        self.wait(PAUSE).await;
        if self.chance(50) {
            self.approve();
            self.processes.iter().for_each(Process::hint);
            self.wait(PAUSE).await;
        }
        self.settle();
        self.wait(PAUSE).await;
        self.settle();
    }

    pub(super) fn commit_removals(&mut self) {
        let (_, mut content) = self.git.head();
        match self.random.u8(..6) {
            0 => content.works.clear(),
            1 => {
                let cluster = CLUSTERS[self.random.usize(..CLUSTERS.len())];
                content.works.retain(|key, _| key.cluster.as_str() != cluster);
            }
            _ => {
                for _ in 0..=self.random.u8(..3) {
                    content.works.remove(&self.any_key());
                }
            }
        }
        if self.chance(30) {
            work_entry(&mut content.works, &self.any_key());
        }
        self.push(content, "removals");
    }

    pub(super) fn commit_breakage(&mut self) {
        let (_, mut content) = self.git.head();
        let key = self.any_key();
        match self.random.u8(..12) {
            0 => content.broken_source = true,
            1 | 2 => drop(content.broken_clusters.insert(key.cluster)),
            3..6 if self.has_moves && self.random.bool() => {
                content.broken_beside.insert(key);
            }
            3..6 => drop(content.broken.insert(key)),
            // Rare, because it takes long to read.
            6 if self.chance(5) => drop(content.huge.insert(key)),
            _ => content.fix_all(),
        }
        content.forget_removed();
        self.push(content, "a file becomes unreadable, or all are fixed");
    }

    /// Moves the branch back and may add a commit there.
    pub(super) fn rewind(&mut self) {
        let (head, _) = self.git.head();
        let back = self.random.usize(1..6);
        let to = self.git.with(|commits, _| {
            let back = back.min(ancestry(commits, head).count() - 1);
            ancestry(commits, head).nth(back).unwrap_or(head)
        });
        self.git.set_head(to);
        self.checker.trace(|| format!("the branch is moved back to commit {to}"));
        if self.chance(50) {
            self.commit_changes();
        }
        self.hint();
    }

    /// A user creates an object of a work again, and Git drops the object before the agent has seen
    /// it.
    pub(super) fn recreate_and_drop(&mut self) {
        let (_, mut content) = self.git.head();
        let two = |(_, work): &(&WorkKey, &mut GitWork)| work.objects.len() > 1;
        let Some((key, work)) = content.works.iter_mut().find(two) else { return };
        let key = key.clone();
        let Some((name, _)) = work.objects.pop_last() else { return };
        let id = config_map(&name);
        self.checker.agents.lock().unwrap().cluster(&key.cluster).user_recreates(&id, true);
        self.checker.follow_objects();
        self.come_back(&key);
        self.push(content, "an object that was created again is dropped");
    }
}
