//! What happens in a world: commits, users, operators, agents, and all that breaks.

use std::time::Duration;

use gitwork::core::approval::Approval;
use gitwork::core::config::Budgets;
use gitwork::core::name::{ClusterName, SourceId, WorkKey};
use gitwork::core::observed::Observed;
use gitwork::core::plan::{Policy, departed_candidates, plan};
use gitwork::core::window::Closed;
use gitwork::daemon::reader::SourceReader;
use gitwork::source::Read;
use jiff::SignedDuration;
use serde_json::json;

use super::check::depth;
use super::git::{Wanted, ancestry};
use super::line::Crash;
use super::process::Process;
use super::run::World;
use super::wall::Hours;
use crate::simulation::agents::identity;
use crate::simulation::key;
use crate::simulation::world::{CLUSTERS, GitWork, WORKS, change_work, manifest, user_acts};

impl World {
    fn any_key(&mut self) -> WorkKey {
        let cluster = CLUSTERS[self.random.usize(..CLUSTERS.len())];
        key(cluster, WORKS[self.random.usize(..WORKS.len())])
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(..100) < percent
    }

    pub(super) fn first_commit(&mut self) {
        let mut wanted = Wanted::all();
        wanted.works.retain(|_, _| self.random.u8(..10) < 7);
        self.push(wanted, "first works");
    }

    fn push(&mut self, wanted: Wanted, what: &str) {
        if self.signatures && self.chance(40) {
            self.git.drop_unsigned();
        }
        let signed = !self.signatures || self.chance(80);
        self.git.commit(wanted, signed);
        let head = self.git.head().0;
        let how = if signed { "" } else { ", not signed" };
        self.checker.trace(|| format!("commit {head}{how}: {what}: {}", self.git.head().1.tell()));
        self.hint();
    }

    fn hint(&mut self) {
        if self.chance(70) {
            self.processes.iter().for_each(Process::hint);
        }
    }

    pub(super) async fn act(&mut self) {
        if self.revolves && self.chance(50) {
            self.revolve().await;
        } else if self.has_hours && self.chance(20) {
            self.wall_jumps();
        } else if self.neighbour.is_some() && self.chance(25) {
            self.neighbour_acts();
        } else if self.chance(4) {
            self.lose_or_regain_cluster();
        } else {
            self.act_as_ever().await;
        }
    }

    async fn act_as_ever(&mut self) {
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
            79..83 => self.cut_lines(),
            83..86 => self.git_fails(),
            86..88 => self.back_up_or_restore(),
            88..95 => self.approve(),
            95 => self.fail_objects(),
            96 => self.cut_agent(),
            _ => self.clock_jumps().await,
        }
    }

    fn commit_changes(&mut self) {
        let (_, mut wanted) = self.git.head();
        for _ in 0..=self.random.u8(..3) {
            let key = self.any_key();
            let work = wanted.works.entry(key.clone()).or_default();
            change_work(&key, work, &mut self.random);
        }
        if self.chance(10) {
            let any =
                |random: &mut fastrand::Rng, most: u32| random.bool().then(|| random.u32(..=most));
            wanted.budgets = Budgets {
                works: any(&mut self.random, 4),
                percent: any(&mut self.random, 60),
                cluster: any(&mut self.random, 3),
            };
        }
        if self.has_hours && self.chance(15) {
            wanted.hours = Hours::any(&mut self.random);
        }
        self.push(wanted, "changes");
    }

    /// The works of one cluster go, or come back under their names.
    async fn revolve(&mut self) {
        const LITTLE: Duration = Duration::from_secs(20);
        let (_, mut wanted) = self.git.head();
        let count = wanted.works.len();
        wanted.works.retain(|key, _| key.cluster.as_str() != CLUSTERS[0]);
        if wanted.works.len() == count {
            wanted.works.extend(WORKS.map(|work| (key(CLUSTERS[0], work), GitWork::default())));
        }
        self.push(wanted, "the works of a cluster go, or come back");
        self.processes.iter().for_each(Process::hint);
        self.wait(LITTLE).await;
        if self.chance(50) {
            self.approve();
            self.processes.iter().for_each(Process::hint);
            self.wait(LITTLE).await;
        }
        self.settle();
        self.wait(LITTLE).await;
        self.settle();
    }

    /// Somebody sets the clock on gitwork's machine.
    fn wall_jumps(&mut self) {
        let by = SignedDuration::from_mins(self.random.i64(-720..720));
        self.wall.jump(by);
        self.checker.trace(|| format!("the clock is set by {by:#} to {}", self.wall.now()));
    }

    /// A cluster's namespace is deleted, by mistake or as the cluster is detached, or it is made again.
    fn lose_or_regain_cluster(&mut self) {
        let cluster = self.any_key().cluster;
        if !self.hub.has_namespace(&cluster) {
            self.regain_cluster(&cluster);
            return;
        }
        let is_detached = self.random.bool();
        self.checker.trace(|| format!("{cluster} is lost; detached: {is_detached}"));
        self.hub.delete_namespace(&cluster);
        let keys = self.hub.keys().into_iter().filter(|key| key.cluster == cluster);
        let keys: Vec<WorkKey> = keys.collect();
        if is_detached {
            self.checker.agents.lock().unwrap().cut.insert(cluster);
            for key in &keys {
                // Nobody is left to take it off: the hub does.
                let nobody = json!({"metadata": {"finalizers": null}});
                self.hub.user_patches(key, &nobody).unwrap();
            }
        }
        self.look_at_all();
    }

    fn look_at_all(&self) {
        for key in Wanted::all().works.keys() {
            self.checker.look(key);
        }
    }

    fn regain_cluster(&mut self, cluster: &ClusterName) {
        if self.hub.create_namespace(cluster) {
            self.checker.agents.lock().unwrap().cut.remove(cluster);
            self.checker.trace(|| format!("{cluster} is there again"));
        }
    }

    pub(super) fn regain_clusters(&mut self) {
        self.settle();
        for cluster in CLUSTERS {
            let cluster = ClusterName::parse(cluster).unwrap();
            if !self.hub.has_namespace(&cluster) {
                self.regain_cluster(&cluster);
            }
        }
    }

    fn commit_removals(&mut self) {
        let (_, mut wanted) = self.git.head();
        match self.random.u8(..6) {
            0 => wanted.works.clear(),
            1 => {
                let cluster = CLUSTERS[self.random.usize(..CLUSTERS.len())];
                wanted.works.retain(|key, _| key.cluster.as_str() != cluster);
            }
            _ => {
                for _ in 0..=self.random.u8(..3) {
                    wanted.works.remove(&self.any_key());
                }
            }
        }
        if self.chance(30) {
            wanted.works.entry(self.any_key()).or_default();
        }
        self.push(wanted, "removals");
    }

    fn commit_breakage(&mut self) {
        let (_, mut wanted) = self.git.head();
        let key = self.any_key();
        match self.random.u8(..12) {
            0 => wanted.broken_source = true,
            1 | 2 => drop(wanted.broken_clusters.insert(key.cluster)),
            3..6 => drop(wanted.broken.insert(key)),
            // Rare: it takes long to read.
            6 if self.chance(5) => drop(wanted.huge.insert(key)),
            _ => wanted.mend(),
        }
        wanted.broken.retain(|key| wanted.works.contains_key(key));
        self.push(wanted, "something cannot be read, or is mended");
    }

    /// The branch goes back, and on from there or not.
    fn rewind(&mut self) {
        let (head, _) = self.git.head();
        let back = self.random.usize(1..6);
        let to = self.git.with(|commits, _| {
            let back = back.min(depth(commits, head) - 1);
            ancestry(commits, head).nth(back).unwrap_or(head)
        });
        self.git.set_head(to);
        self.checker.trace(|| format!("the branch is moved back to commit {to}"));
        if self.chance(50) {
            self.commit_changes();
        }
        self.hint();
    }

    fn user(&mut self) {
        let key = self.any_key();
        user_acts(&self.hub, &key, &mut self.random);
        self.checker.look(&key);
        self.checker.trace(|| format!("a user does something to {key}"));
    }

    fn agents_step(&mut self) {
        for _ in 0..self.random.u8(1..6) {
            let key = self.any_key();
            self.agent_step(&key);
        }
        if self.chance(40) {
            self.settle();
        }
    }

    fn agent_step(&mut self, key: &WorkKey) {
        let mut agents = self.checker.agents.lock().unwrap();
        agents.now = self.cluster_time();
        agents.step(&self.hub, key);
        let wrong = agents.take_wrong();
        drop(agents);
        if let Some(why) = wrong {
            self.checker.fail(|| format!("the agent of {key}: {why}"));
        }
        self.checker.look(key);
    }

    /// Lets every agent act until it has nothing to do.
    pub(super) fn settle(&mut self) {
        let agents = self.checker.agents.lock().unwrap();
        let keys = agents.keys(&self.hub);
        let cut = agents.cut.clone();
        drop(agents);
        for key in keys.into_iter().filter(|key| !cut.contains(&key.cluster)) {
            let before = self.hub.version(&key);
            if before.is_some() && before.as_ref() == self.stepped.get(&key) {
                continue;
            }
            self.agent_step(&key);
            match self.hub.version(&key) {
                Some(after) => drop(self.stepped.insert(key, after)),
                None => drop(self.stepped.remove(&key)),
            }
        }
        self.checker.trace(|| "the agents have settled".into());
    }

    /// An agent does not reach the hub for a while.
    fn cut_agent(&mut self) {
        let cluster = self.any_key().cluster;
        let mut agents = self.checker.agents.lock().unwrap();
        let is_cut = !agents.cut.remove(&cluster);
        if is_cut {
            agents.cut.insert(cluster.clone());
        }
        drop(agents);
        self.checker.trace(|| format!("the agent of {cluster} is cut off: {is_cut}"));
    }

    /// Somebody does something to an object on a cluster, or makes one.
    fn cluster_user(&mut self) {
        let key = self.any_key();
        let name = if self.random.bool() { "a" } else { "b" };
        let mut agents = self.checker.agents.lock().unwrap();
        let cluster = agents.cluster(&key.cluster);
        let id = identity(&manifest(&key, name, ""));
        let what = match self.random.u8(..6) {
            0 | 1 => {
                cluster.user_edits(&id, "edited");
                "edits"
            }
            2 => {
                cluster.delete(&id);
                "deletes"
            }
            3 => {
                cluster.user_recreates(&id, false);
                "makes anew"
            }
            4 => {
                cluster.user_recreates(&id, true);
                "makes anew, with its owners,"
            }
            _ => {
                let theirs = manifest(&key, "foreign", "theirs");
                let id = identity(&theirs);
                let _there = theirs.as_object().map(|fields| cluster.create(&id, fields.clone()));
                self.foreign.insert((key.cluster.clone(), id));
                "makes an object beside"
            }
        };
        drop(agents);
        self.stepped.remove(&key);
        self.checker.trace(|| format!("on the cluster, a user {what} {name} of {key}"));
    }

    /// Somebody makes an object of a work anew, and before its agent has looked Git drops it from the work.
    fn recreate_and_drop(&mut self) {
        let (_, mut wanted) = self.git.head();
        let two = |(_, work): &(&WorkKey, &mut GitWork)| work.objects.len() > 1;
        let Some((key, work)) = wanted.works.iter_mut().find(two) else { return };
        let key = key.clone();
        work.objects = vec!["a"];
        let id = identity(&manifest(&key, "b", ""));
        self.checker.agents.lock().unwrap().cluster(&key.cluster).user_recreates(&id, true);
        self.stepped.remove(&key);
        self.push(wanted, "an object that was made anew is dropped");
    }

    fn fail_objects(&mut self) {
        let key = self.any_key();
        let object = (key.cluster.clone(), identity(&manifest(&key, "a", "")));
        let mut agents = self.checker.agents.lock().unwrap();
        if !agents.failing.remove(&object) {
            agents.failing.insert(object);
        }
        drop(agents);
        self.stepped.clear();
        self.checker.trace(|| format!("an object of {key} can, or cannot, be applied"));
    }

    /// Killed at once, or at a write to come.
    fn crash(&mut self) {
        if self.chance(30) {
            self.checker.trace(|| "all processes are killed".into());
            self.processes.drain(..).for_each(Process::kill);
            self.start();
            return;
        }
        let crash = Crash { writes: self.random.u32(..4), after: self.random.bool() };
        self.checker.trace(|| format!("to be killed: {crash:?}"));
        self.processes.iter().for_each(|process| process.crash_at(crash));
    }

    /// A second one that takes itself for the leader, or one fewer.
    async fn stop_or_start(&mut self) {
        if self.processes.len() < 2 {
            self.start();
            return;
        }
        let process = self.processes.remove(self.random.usize(..2));
        self.checker.trace(|| "a process shuts down".into());
        if let Err(why) = process.stop().await {
            self.checker.fail(|| why);
        }
    }

    fn cut_lines(&mut self) {
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

    /// The agents list again at once when a hub was restored; gitwork may come before them only to see what they
    /// have not yet acted on.
    fn back_up_or_restore(&mut self) {
        let Some(backup) = self.backup.take() else {
            self.backup = Some(self.hub.back_up());
            self.checker.trace(|| "the hub is backed up".into());
            return;
        };
        let mut keys = self.hub.keys();
        keys.extend(backup.0.keys().cloned());
        self.hub.restore(backup);
        // Its watches are told that what they had is compacted (`etcdutl snapshot restore --mark-compacted`).
        let neighbour = self.neighbour.as_ref().and_then(|neighbour| neighbour.process.as_ref());
        self.processes.iter().chain(neighbour).for_each(Process::meet_restored_hub);
        self.checker.trace(|| "the hub is restored from its backup".into());
        self.stepped.clear();
        self.settle();
        keys.iter().for_each(|key| self.checker.look(key));
    }

    async fn clock_jumps(&mut self) {
        let time = Duration::from_secs(self.random.u64(1..7_200));
        self.checker.trace(|| format!("the machine sleeps for {time:?}"));
        self.wall.sleeps(time);
        tokio::time::advance(time).await;
    }

    /// An operator looks at what is held and lets it through, as `gitwork approve` does.
    pub(super) fn approve(&mut self) {
        self.confirm_restore();
        self.neighbour_approves();
        let holds = self.holds();
        if holds.is_empty() {
            return;
        }
        self.checker.trace(|| format!("approved: {holds:?}"));
        self.checker.approve(&holds);
        if self.chance(50) {
            let mut hub = self.hub.lock();
            holds.into_iter().for_each(|approval| hub.approved.add(&self.id, approval));
            return;
        }
        let (_, mut wanted) = self.git.head();
        wanted.approved = holds;
        // Operators sign.
        self.git.push(wanted);
        self.checker.trace(|| format!("commit {}: an approval", self.git.head().0));
        self.hint();
    }

    /// An operator says that the hub was restored and is well.
    fn confirm_restore(&mut self) {
        let mut hub = self.hub.lock();
        let restored = hub.records.iter().filter(|(_, (record, _))| record.restored);
        let moves: Vec<(SourceId, u64)> =
            restored.map(|(id, (record, _))| (id.clone(), record.moves)).collect();
        for (id, moves) in moves {
            hub.approved.add(&id, Approval::Restored { source: id.clone(), moves });
            self.checker.trace(|| format!("confirmed: the hub of {id} was restored"));
        }
    }

    /// What may be held of the plan for what Git has now: deletions, and while a window is closed any change.
    fn holds(&mut self) -> Vec<Approval> {
        let Ok(Read { desired, .. }) = self.operator.look() else { return Vec::new() };
        let is_open = |hours: Hours| hours.are_open(self.wall.now());
        let is_open = is_open(self.hours) && is_open(self.git.head().1.hours);
        if is_open && self.hub.keys().iter().all(|key| desired.works.contains_key(key)) {
            return Vec::new();
        }
        let mut observed = Observed::default();
        observed.listed(&self.id, self.hub.works_of(Some(&self.id)));
        let candidates = departed_candidates(&desired, &observed);
        let found = self.operator.departed(&desired, &candidates, &Default::default());
        let Ok(departed) = found else { return Vec::new() };
        let budgets = Budgets { works: Some(0), percent: Some(0), cluster: Some(0) };
        let approved = self.hub.lock().approved.clone();
        let closed = (!is_open).then_some(Closed { until: None, unknown_zone: None });
        let policy = Policy { budgets, approved, closed, ..Policy::default() };
        let holds = plan(&desired, &observed, &departed, &policy).holds(&self.id);
        holds.into_iter().map(|hold| hold.approval).collect()
    }
}
