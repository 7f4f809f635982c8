//! The actions of a world: commits, users, operators, agents and faults.

use std::time::Duration;

use gitwork_core::model::name::WorkKey;
use jiff::SignedDuration;

use crate::fleet::connection::CrashPoint;
use crate::fleet::process::Process;
use crate::fleet::run::World;
use crate::key;
use crate::world::{CLUSTERS, WORKS, user_acts};

mod clusters;
mod commits;
mod operators;
mod refactor;

impl World {
    pub(in crate::fleet) fn any_key(&mut self) -> WorkKey {
        if self.groups.is_some() {
            return self.any_group_key();
        }
        let cluster = CLUSTERS[self.random.usize(..CLUSTERS.len())];
        key(cluster, WORKS[self.random.usize(..WORKS.len())])
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    pub(super) async fn act(&mut self) {
        if self.groups_act().await {
        } else if self.has_moves && self.chance(45) {
            self.refactor().await;
        } else if self.replaces_works && self.chance(50) {
            self.replace_works().await;
        } else if self.has_hours && self.chance(20) {
            self.set_machine_clock();
        } else if self.second_source.is_some() && self.chance(25) {
            self.second_source_acts();
        } else if self.chance(4) {
            self.delete_or_create_namespace();
        } else {
            self.act_at_random().await;
        }
    }

    async fn act_at_random(&mut self) {
        match self.random.u8(..100) {
            0..22 => self.commit_changes(),
            22..36 => self.commit_removals(),
            36..42 => self.commit_breakage(),
            42..45 => self.rewind(),
            45..53 => self.user(),
            53..57 => self.cluster_user(),
            57 => self.recreate_and_drop(),
            58..71 => self.agents_step(),
            71..75 => self.crash(),
            75..79 => self.stop_or_start().await,
            79..83 => self.cut_connections(),
            83..86 => self.git_fails(),
            86..88 => self.back_up_or_restore(),
            88..95 => self.approve(),
            95 => self.fail_objects(),
            96 => self.cut_agent(),
            _ => self.clock_jumps().await,
        }
    }

    /// Sets the clock of gitwork's machine.
    fn set_machine_clock(&mut self) {
        let by = SignedDuration::from_mins(self.random.i64(-720..720));
        self.machine_clock.jump(by);
        self.checker
            .trace(|| format!("the clock is set by {by:#} to {}", self.machine_clock.now()));
    }

    fn user(&mut self) {
        let key = self.any_key();
        self.checker.disturb(&key);
        user_acts(&self.hub, &key, &mut self.random);
        self.checker.observe(&key);
        self.checker.trace(|| format!("a user acts on {key}"));
    }

    /// Kills all processes at once, or the leader at a later write.
    pub(in crate::fleet) fn crash(&mut self) {
        if self.chance(30) {
            self.checker.trace(|| "all processes are killed".into());
            self.processes.drain(..).for_each(Process::kill);
            self.start();
            return;
        }
        let crash = CrashPoint { writes: self.random.u32(..4), after: self.random.bool() };
        self.checker.trace(|| format!("crash point: {crash:?}"));
        self.processes.iter().for_each(|process| process.crash_at(crash));
    }

    /// Starts a standby, or stops one of two processes.
    pub(in crate::fleet) async fn stop_or_start(&mut self) {
        if self.processes.len() < 2 {
            self.start();
            return;
        }
        let process = self.processes.remove(self.random.usize(..2));
        let leads = process.leads();
        self.checker.trace(|| "a process shuts down".into());
        if let Err(why) = process.stop().await {
            self.checker.fail(|| why);
        }
        if leads {
            self.election.released();
        }
    }

    pub(in crate::fleet) fn cut_connections(&mut self) {
        if self.chance(50) {
            self.checker.trace(|| "all watches break".into());
            self.hub.cut_watches();
            return;
        }
        let time = Duration::from_secs(self.random.u64(1..90));
        self.checker.trace(|| format!("a process is cut off for {time:?}"));
        let index = self.random.usize(..self.processes.len());
        self.processes[index].cut(time);
    }

    fn git_fails(&mut self) {
        let (away, damaged) = (self.random.bool(), self.chance(30));
        self.checker.trace(|| format!("Git: away {away}, damaged {damaged}"));
        self.git.set_away(away);
        self.git.set_damaged(damaged);
    }

    /// Takes or restores a backup of the hub. After a restore the agents list at once; gitwork may
    /// only see works that the agents have not yet acted on.
    fn back_up_or_restore(&mut self) {
        let Some(backup) = self.backup.take() else {
            self.backup = Some(self.hub.back_up());
            self.checker.trace(|| "the hub is backed up".into());
            return;
        };
        let mut keys = self.hub.keys();
        self.checker.disturb_all();
        keys.extend(backup.0.keys().cloned());
        self.hub.restore(backup);
        // The restore ends the watches (`etcdutl snapshot restore --mark-compacted`).
        let second_source =
            self.second_source.as_ref().and_then(|second_source| second_source.process.as_ref());
        self.processes.iter().chain(second_source).for_each(Process::meet_restored_hub);
        self.checker.trace(|| "the hub is restored from its backup".into());
        self.acted_on.clear();
        self.settle();
        keys.iter().for_each(|key| self.checker.observe(key));
    }

    async fn clock_jumps(&mut self) {
        let time = Duration::from_secs(self.random.u64(1..7_200));
        self.checker.trace(|| format!("the machine sleeps for {time:?}"));
        self.machine_clock.sleeps(time);
        tokio::time::advance(time).await;
    }
}
