//! A second source on the same hub, with its own repository and process. It wants some names of the
//! first source, and works change their owner.

use std::sync::Arc;

use gitwork_core::config::Budgets;
use gitwork_core::model::approval::{Approval, Target};
use gitwork_core::model::name::{SourceId, WorkKey};
use tokio::sync::Notify;

use super::check::{Checker, OperatorPolicy};
use super::git::{CommitContent, Git};
use super::machine_clock::{DailyHours, MachineClock};
use super::process::{Process, ProcessOptions};
use super::run::World;
use crate::git_work::GitWork;
use crate::key;
use crate::world::{CLUSTERS, SOURCE, WORKS, consent};

/// A name that the first source never has.
const OWN: &str = "own";
/// The name in the names of its objects.
const THEIRS: &str = "theirs";

pub struct SecondSource {
    pub id: SourceId,
    pub git: Git,
    pub checker: Checker,
    /// A name that both sources may want.
    pub shared_key: WorkKey,
    /// What the second source wants under that name.
    shared_work: GitWork,
    pub process: Option<Process>,
}

impl SecondSource {
    /// `has_moves`: objects of the first source move to other works, so the second one has other
    /// objects.
    pub fn new(
        checker: &Checker,
        random: &mut fastrand::Rng,
        machine_clock: &MachineClock,
        has_moves: bool,
    ) -> Self {
        let id = SourceId::parse("second").unwrap();
        let git = Git::new(&id);
        let (budgets, hours) = (Budgets::default(), DailyHours::default());
        let operator = OperatorPolicy { budgets, hours, clock: machine_clock.clone() };
        let checker = checker.for_source(&id, &git, operator);
        let cluster = CLUSTERS[random.usize(..CLUSTERS.len())];
        let shared_key = key(cluster, WORKS[random.usize(..WORKS.len())]);
        let keys = CLUSTERS.map(|cluster| key(cluster, OWN));
        let works = keys.map(|key| (key.clone(), GitWork::of(&key)));
        let mut content = CommitContent { works: works.into(), ..CommitContent::default() };
        let shared_work =
            GitWork::of(&if has_moves { key(cluster, THEIRS) } else { shared_key.clone() });
        content.works.insert(shared_key.clone(), shared_work.clone());
        git.push(content);
        Self { id, git, checker, shared_key, shared_work, process: None }
    }
}

impl World {
    pub(super) fn start_second_source(&mut self) {
        let Some(second_source) = &mut self.second_source else { return };
        let setting = ProcessOptions {
            hub: &self.hub,
            checker: &second_source.checker,
            budgets: &Budgets::default(),
            allow_delete_all: false,
            crashed: &Arc::new(Notify::new()),
            fault_rates: self.fault_rates,
            hours: DailyHours::default(),
            machine_clock: &self.machine_clock,
            bug: None,
            is_restarted: false,
            seed: self.seed,
        };
        let source = second_source.git.source(&second_source.id, self.seed, None);
        let process = Process::start(&setting, source);
        // It has no other process.
        process.set_leading(true);
        second_source.process = Some(process);
    }

    /// The operator of the second source approves the removal of the shared work: it may be the
    /// source's last work.
    pub(super) fn second_source_approves(&self) {
        let Some(second_source) = &self.second_source else { return };
        let (id, key) = (&second_source.id, &second_source.shared_key);
        let work = self.hub.observed(key).filter(|work| work.is_ours(id));
        let Some(work) = work.filter(|_| !second_source.git.head().1.works.contains_key(key))
        else {
            return;
        };
        let approval =
            Approval::Deletions([Target { key: key.clone(), uid: work.uid.to_string() }].into());
        second_source.checker.approve(std::slice::from_ref(&approval));
        self.hub.lock().approved.add(id, approval);
        self.checker.trace(|| format!("the second source releases {key}"));
    }

    /// The second source adds, changes or drops the shared work in Git, or a user consents to its
    /// adoption by the source that does not own it, or by none of both.
    pub(super) fn second_source_acts(&mut self) {
        let Some(second_source) = &self.second_source else { return };
        let shared_key = second_source.shared_key.clone();
        if self.random.bool() {
            let (_, mut content) = second_source.git.head();
            if content.works.remove(&shared_key).is_none() || self.random.bool() {
                let text = format!("theirs {}", self.random.u8(..));
                let work = GitWork { text, ..second_source.shared_work.clone() };
                content.works.insert(shared_key.clone(), work);
            }
            let has = content.works.contains_key(&shared_key);
            second_source.git.push(content);
            second_source.process.iter().for_each(Process::hint);
            self.checker.trace(|| format!("the second source has {shared_key} in Git: {has}"));
            return;
        }
        let Some(work) = self.hub.object(&shared_key) else { return };
        let owner = &work["metadata"]["labels"]["gitwork.dev/source"];
        let other = match owner == SOURCE {
            // In some worlds the user names a source that nobody runs: nothing may come of it.
            _ if self.seed % 4 == 1 => "nobody",
            true => second_source.id.as_str(),
            false => SOURCE,
        };
        self.checker.disturb(&shared_key);
        self.hub.user_patches(&shared_key, &consent(&work, other)).unwrap();
        self.checker.observe(&shared_key);
        self.checker.trace(|| format!("{shared_key} may be adopted by {other}"));
    }
}
