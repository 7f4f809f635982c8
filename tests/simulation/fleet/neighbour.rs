//! Another source on the same hub, with a repository and a process of its own. It wants some of the names that the first
//! source has, and works are handed over from one to the other.

use std::sync::Arc;

use gitwork::core::approval::{Approval, Target};
use gitwork::core::config::Budgets;
use gitwork::core::name::{SourceId, WorkKey};
use serde_json::json;
use tokio::sync::Notify;

use super::check::{Allowed, Checker};
use super::git::{Git, Wanted};
use super::process::{Process, Setting};
use super::run::World;
use super::wall::{Hours, Wall};
use crate::simulation::key;
use crate::simulation::world::{CLUSTERS, GitWork, SOURCE, WORKS};

/// A name that the first source never has.
const OWN: &str = "own";

pub struct Neighbour {
    pub id: SourceId,
    pub git: Git,
    pub checker: Checker,
    /// A name that both sources may want.
    pub contested: WorkKey,
    pub process: Option<Process>,
}

impl Neighbour {
    pub fn new(checker: &Checker, random: &mut fastrand::Rng, wall: &Wall) -> Self {
        let id = SourceId::parse("neighbour").unwrap();
        let git = Git::new(&id);
        let (budgets, hours) = (Budgets::default(), Hours::default());
        let allowed = Allowed { budgets, hours, wall: wall.clone() };
        let checker = checker.of_neighbour(&id, &git, allowed);
        let cluster = CLUSTERS[random.usize(..CLUSTERS.len())];
        let contested = key(cluster, WORKS[random.usize(..WORKS.len())]);
        let works = CLUSTERS.map(|cluster| (key(cluster, OWN), GitWork::default()));
        let mut wanted = Wanted { works: works.into(), ..Wanted::default() };
        wanted.works.insert(contested.clone(), GitWork::default());
        git.push(wanted);
        Self { id, git, checker, contested, process: None }
    }
}

impl World {
    pub(super) fn start_neighbour(&mut self) {
        let Some(neighbour) = &mut self.neighbour else { return };
        let setting = Setting {
            id: &neighbour.id,
            hub: &self.hub,
            git: &neighbour.git,
            checker: &neighbour.checker,
            budgets: &Budgets::default(),
            crashed: &Arc::new(Notify::new()),
            weather: self.weather,
            hours: Hours::default(),
            wall: &self.wall,
            bug: None,
            seed: self.seed,
        };
        neighbour.process = Some(Process::start(&setting));
    }

    /// The neighbour's operator lets the contested work go: it may be all that is left of the source's.
    pub(super) fn neighbour_approves(&self) {
        let Some(neighbour) = &self.neighbour else { return };
        let (id, key) = (&neighbour.id, &neighbour.contested);
        let work = self.hub.observed(key).filter(|work| work.is_ours(id));
        let Some(work) = work.filter(|_| !neighbour.git.head().1.works.contains_key(key)) else {
            return;
        };
        let approval = Approval::Deletions([Target { key: key.clone(), uid: work.uid }].into());
        neighbour.checker.approve(std::slice::from_ref(&approval));
        self.hub.lock().approved.add(id, approval);
        self.checker.trace(|| format!("the neighbour lets {key} go"));
    }

    /// The neighbour's Git takes the contested name up, changes it or lets go of it, or somebody has the work handed
    /// over to the source that does not have it.
    pub(super) fn neighbour_acts(&mut self) {
        let Some(neighbour) = &self.neighbour else { return };
        let contested = neighbour.contested.clone();
        if self.random.bool() {
            let (_, mut wanted) = neighbour.git.head();
            if wanted.works.remove(&contested).is_none() || self.random.bool() {
                let text = format!("theirs {}", self.random.u8(..));
                let work = GitWork { text, ..GitWork::default() };
                wanted.works.insert(contested.clone(), work);
            }
            let has = wanted.works.contains_key(&contested);
            neighbour.git.push(wanted);
            neighbour.process.iter().for_each(Process::hint);
            self.checker.trace(|| format!("the neighbour has {contested} in Git: {has}"));
            return;
        }
        let Some(work) = self.hub.object(&contested) else { return };
        let owner = &work["metadata"]["labels"]["gitwork.dev/source"];
        let other = if owner == SOURCE { neighbour.id.as_str() } else { SOURCE };
        let consent = json!({"metadata": {"annotations": {"gitwork.dev/adopt": other}}});
        self.hub.user_patches(&contested, &consent).unwrap();
        self.checker.look(&contested);
        self.checker.trace(|| format!("{contested} may be taken over by {other}"));
    }
}
