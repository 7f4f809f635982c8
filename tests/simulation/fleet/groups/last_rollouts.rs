//! The last rollouts of a world with waves, after all faults have stopped: one that reaches all
//! clusters, one that fails and returns, and one that reaches all clusters again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, GroupName, WorkKey};
use gitwork_hub::Hub as _;

use super::repository::second_object;
use super::{BASE, GROUPS, LABELLED, WORKS, key_on, rules};
use crate::fleet::process::Process;
use crate::fleet::run::World;
use crate::git_work::config_map;
use crate::moves::listed;

/// Between two actions of the agents.
const STEP: Duration = Duration::from_secs(60);
/// The steps of a rollout: a work and one that depends on it on one cluster after the other, with
/// the soak and the approval between them.
const ROLLOUT_STEPS: usize = 20;
/// The steps until a cluster has failed: its deadline passes, and it may be the last one.
const FAILURE_STEPS: usize = 45;
/// The steps of a return.
const RETURN_STEPS: usize = 5;

/// What a work had when its content was rejected: its objects.
type Objects = BTreeMap<WorkKey, BTreeSet<Identity>>;

impl World {
    /// A last content reaches all clusters, whatever became of the ones before.
    pub(super) async fn converge_rollouts(&mut self) {
        if !self.has_rollouts() {
            return;
        }
        self.commit_to_all(false);
        self.roll_out().await;
        self.fail_and_return().await;
        let has_second = self.random.bool();
        self.commit_to_all(has_second);
        self.roll_out().await;
    }

    /// A commit changes all works. Each has a second object, or none has.
    fn commit_to_all(&mut self, has_second: bool) {
        let Some(groups) = &mut self.groups else { return };
        let text = loop {
            let text = format!("text {}", groups.next());
            if second_object(BASE, &text).is_some() == has_second {
                break text;
            }
        };
        groups.repository.push(WORKS.map(|work| (work, format!("{text} of {work}"))).into());
        self.checker.trace(|| format!("a commit gives all works {text:?}"));
        self.processes.iter().for_each(Process::hint);
    }

    async fn roll_out(&mut self) {
        for _ in 0..ROLLOUT_STEPS {
            self.rollout_step().await;
        }
    }

    async fn rollout_step(&mut self) {
        self.wait(STEP).await;
        self.approve_wave();
        self.settle();
    }

    /// All clusters have a good content. The next one cannot be applied on one of them, and the
    /// clusters that have it return.
    async fn fail_and_return(&mut self) {
        let members = self.labelled_members();
        let Some(failing) = self.random.choice(members.clone()) else { return };
        self.commit_to_all(true);
        let object = (failing.clone(), config_map(BASE));
        self.checker.trace(|| format!("{BASE} cannot be applied on {failing}"));
        self.checker.agents.lock().unwrap().failing.insert(object.clone());
        let texts = self.texts_on_hub(&members);
        let mut steps = 0..FAILURE_STEPS;
        while !self.is_rejected().await {
            if steps.next().is_none() {
                return self.checker.fail(|| format!("what fails on {failing} is not rejected"));
            }
            self.rollout_step().await;
        }
        let had = self.objects_on_hub(&members);
        self.checker.agents.lock().unwrap().failing.remove(&object);
        self.acted_on.clear();
        for _ in 0..RETURN_STEPS {
            self.rollout_step().await;
        }
        self.check_returned(&texts, &had);
    }

    /// After a return, each work has the text of the good content, and lists what it did before.
    fn check_returned(&self, texts: &BTreeMap<WorkKey, Option<String>>, had: &Objects) {
        for (key, text) in texts {
            let now = self.hub.object(key);
            if now.as_deref().and_then(rules::text_of) != text.as_deref() {
                self.checker.fail(|| format!("after a return, {key} does not have {text:?}"));
            }
            let lists = now.as_deref().map(listed).unwrap_or_default();
            if let Some(lost) = had.get(key).and_then(|had| had.difference(&lists).next()) {
                self.checker.fail(|| format!("after a return, {key} lacks {}", lost.name));
            }
        }
    }

    /// Whether gitwork's record says that the content of the labelled group failed.
    async fn is_rejected(&self) -> bool {
        let stored = self.hub.record(&self.id).await.ok().flatten();
        let group = GroupName::parse(GROUPS[0].0).unwrap();
        let record = stored.and_then(|stored| stored.record.rollouts.get(&group).cloned());
        record.is_some_and(|record| record.rejected.is_some())
    }

    fn labelled_members(&self) -> Vec<ClusterName> {
        let facts = self.groups.as_ref().map(|groups| groups.facts.now()).unwrap_or_default();
        let members = facts.clusters.keys().filter(|cluster| facts.is_labelled(cluster));
        members.cloned().collect()
    }

    /// The works of the labelled group on these clusters, each with its text on the hub.
    fn texts_on_hub(&self, clusters: &[ClusterName]) -> BTreeMap<WorkKey, Option<String>> {
        let text = |key: &WorkKey| {
            let work = self.hub.object(key)?;
            rules::text_of(&work).map(str::to_owned)
        };
        labelled_works(clusters).map(|key| (key.clone(), text(&key))).collect()
    }

    fn objects_on_hub(&self, clusters: &[ClusterName]) -> Objects {
        let objects = |key: &WorkKey| self.hub.object(key).as_deref().map(listed);
        labelled_works(clusters).filter_map(|key| Some((key.clone(), objects(&key)?))).collect()
    }
}

fn labelled_works(clusters: &[ClusterName]) -> impl Iterator<Item = WorkKey> {
    let works = |cluster| LABELLED.map(|work| key_on(cluster, work));
    clusters.iter().flat_map(works)
}
