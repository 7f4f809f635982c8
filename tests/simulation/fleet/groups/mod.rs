//! Worlds whose source has groups: one by labels with a work that depends on another one, and one
//! by a Placement. The hub's facts lag, flap and are inconsistent for a while. Hub, network,
//! agents, processes and election are those of every world.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gitwork_core::model::approval::Approval;
use gitwork_core::model::facts::ClusterFacts;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};

use super::bugs::Bug;
use super::process::Process;
use super::run::World;
use crate::git_work::config_map;
use crate::key;
use crate::moves::listed;
use crate::world::CLUSTERS;

mod facts_watch;
pub mod hub_facts;
mod last_rollouts;
pub mod repository;
pub mod rules;

use hub_facts::{FactsOnHub, HubFacts};
use repository::{GroupRepository, Texts};
pub use rules::GroupRules;

/// The label of members, and its value.
const ROLE: &str = "role";
/// The label with a value of each cluster's own.
const SITE: &str = "site";
const PLACEMENT: &str = "probed";
const NAMESPACE: &str = "fleet";
/// A work, and another one that depends on it.
const BASE: &str = "base";
const DEPENDENT: &str = "app";
const LABELLED: [&str; 2] = [BASE, DEPENDENT];
const PLACED: [&str; 1] = ["probe"];
const GROUPS: [(&str, &[&str]); 2] = [("labelled", &LABELLED), ("placed", &PLACED)];
/// The works of both groups.
pub const WORKS: [&str; 3] = [BASE, DEPENDENT, PLACED[0]];

/// The waits at the end: the grace period, retries of up to 15 minutes, and the agents, which a
/// dependent work waits for.
const CONVERGENCE_WAITS: [u64; 12] = [60, 120, 300, 400, 450, 60, 60, 60, 60, 60, 60, 60];
/// After convergence nothing may be written for this long.
const QUIET_TIME: Duration = Duration::from_secs(700);

fn key_on(cluster: &ClusterName, work: &str) -> WorkKey {
    WorkKey { cluster: cluster.clone(), work: WorkName::parse(work).unwrap() }
}

/// The source's repository, and what the hub says of clusters.
pub struct Groups {
    pub repository: GroupRepository,
    pub facts: FactsOnHub,
    /// Makes texts and sites different from all before.
    count: u32,
}

impl Groups {
    pub fn new(random: &mut fastrand::Rng, has_rollouts: bool, bug: Option<Bug>) -> Self {
        let mut facts = HubFacts::default();
        for cluster in CLUSTERS {
            let site = format!("{cluster}-0");
            let role = if random.bool() { ROLE } else { "other" };
            let labels = [(SITE.to_owned(), site), (ROLE.to_owned(), role.to_owned())];
            facts.clusters.insert(ClusterName::parse(cluster).unwrap(), with_labels(labels));
        }
        facts.decide(&any_clusters(random));
        facts.report();
        let repository = GroupRepository::default();
        if has_rollouts {
            repository.use_rollouts();
        }
        repository.push(Texts::new());
        Self { repository, facts: FactsOnHub::new(facts, bug), count: 0 }
    }

    /// The rules for the writes of the source.
    pub fn rules(&self) -> Arc<GroupRules> {
        Arc::new(GroupRules::new(&self.repository, &self.facts))
    }

    fn next(&mut self) -> u32 {
        self.count += 1;
        self.count
    }
}

fn with_labels<const N: usize>(labels: [(String, String); N]) -> Arc<ClusterFacts> {
    Arc::new(ClusterFacts { labels: labels.into(), ..ClusterFacts::default() })
}

fn any_clusters(random: &mut fastrand::Rng) -> BTreeSet<ClusterName> {
    let some = CLUSTERS.into_iter().filter(|_| random.bool());
    some.map(|name| ClusterName::parse(name).unwrap()).collect()
}

impl World {
    /// The first commit of a world with groups.
    pub(super) fn first_group_commit(&mut self) {
        let Some(groups) = &self.groups else { return };
        groups.repository.push(WORKS.map(|work| (work, "one".to_owned())).into());
    }

    /// Does something in a world with groups. `false` in any other one.
    pub(super) async fn groups_act(&mut self) -> bool {
        if self.groups.is_none() {
            return false;
        }
        match self.random.u8(..100) {
            0..22 => self.commit_to_groups(),
            22..40 => self.change_cluster(),
            40..60 => self.change_placement(),
            60..66 => self.user_deletes_work(),
            66..84 => self.agents_step(),
            84..88 => self.crash(),
            88..92 => self.stop_or_start().await,
            92..96 => self.cut_connections(),
            _ => self.fail_group_objects(),
        }
        if self.has_rollouts() {
            // Rollouts wait for agents and for operators.
            match self.random.u8(..4) {
                0 => {}
                1 => self.approve_wave(),
                _ => self.settle(),
            }
        }
        true
    }

    pub(super) fn has_rollouts(&self) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.repository.has_rollouts())
    }

    /// An operator approves a wave for the content that Git has.
    fn approve_wave(&mut self) {
        let Some(groups) = &self.groups else { return };
        let Some(step) = groups.repository.approve() else { return };
        self.checker.trace(|| format!("approved: {step:?}"));
        self.checker.approve_rollout(step.content);
        let approval = Approval::Rollout { source: self.id.clone(), step };
        self.hub.lock().approved.add(&self.id, approval);
    }

    fn commit_to_groups(&mut self) {
        let work = WORKS[self.random.usize(..WORKS.len())];
        let is_removal = self.random.u8(..4) == 0;
        let Some(groups) = &mut self.groups else { return };
        let (mut texts, number) = (groups.repository.head(), groups.next());
        let what = match is_removal && texts.remove(work).is_some() {
            true => "removes",
            false => {
                texts.insert(work, format!("text {number}"));
                "changes"
            }
        };
        groups.repository.push(texts);
        self.checker.trace(|| format!("a commit {what} {work}"));
        self.processes.iter().for_each(Process::hint);
    }

    /// A ManagedCluster gets other labels, goes, or comes back.
    fn change_cluster(&mut self) {
        let cluster = self.any_key().cluster;
        let what = self.random.u8(..6);
        let Some(groups) = &mut self.groups else { return };
        let number = groups.next();
        groups.facts.change(|facts| {
            let site = (SITE.to_owned(), format!("{cluster}-{number}"));
            let Some(found) = facts.clusters.get_mut(&cluster) else {
                facts.clusters.insert(cluster.clone(), with_labels([site]));
                return;
            };
            let labels = &mut Arc::make_mut(found).labels;
            match what {
                0 => drop(facts.clusters.remove(&cluster)),
                1 | 2 => labels.extend([site]),
                _ => {
                    let is_member = labels.get(ROLE).is_some_and(|role| role == ROLE);
                    let role = if is_member { "other" } else { ROLE };
                    labels.insert(ROLE.to_owned(), role.to_owned());
                }
            }
        });
        self.trace_facts();
    }

    /// The hub writes PlacementDecisions, or the status of the Placement, or both; or the Placement
    /// goes, or comes back.
    fn change_placement(&mut self) {
        let selected = any_clusters(&mut self.random);
        let what = self.random.u8(..8);
        let Some(groups) = &self.groups else { return };
        groups.facts.change(|facts| match what {
            0 => facts.placement = None,
            1 | 2 => facts.decide(&selected),
            // One PlacementDecision is not there yet.
            3 => drop(facts.decisions.pop_last()),
            4 | 5 => facts.report(),
            _ => {
                facts.decide(&selected);
                facts.report();
            }
        });
        self.trace_facts();
    }

    fn trace_facts(&self) {
        self.checker.trace(|| {
            let facts = self.groups.as_ref().map(|groups| groups.facts.now());
            format!("the hub says of clusters: {facts:?}")
        });
    }

    fn user_deletes_work(&mut self) {
        let key = self.any_key();
        if self.hub.object(&key).is_some() {
            self.hub.user_deletes(&key).unwrap();
            self.checker.observe(&key);
            self.checker.trace(|| format!("a user deletes {key}"));
        }
    }

    fn fail_group_objects(&mut self) {
        let key = self.any_key();
        let object = (key.cluster.clone(), config_map(key.work.as_str()));
        let mut agents = self.checker.agents.lock().unwrap();
        if !agents.failing.remove(&object) {
            agents.failing.insert(object);
        }
        drop(agents);
        self.acted_on.clear();
        self.checker.trace(|| format!("the object of {key} can, or cannot, be applied"));
    }

    /// The end of a world with groups: the hub has what Git wants for the clusters that there are.
    pub(super) async fn converge_groups(&mut self) {
        self.stop_faults();
        if let Some(groups) = &self.groups {
            groups.repository.set_away(false);
            // What the hub has begun to write, it ends.
            groups.facts.change(HubFacts::settle);
        }
        self.trace_facts();
        for seconds in CONVERGENCE_WAITS {
            self.settle();
            self.wait(Duration::from_secs(seconds)).await;
        }
        self.converge_rollouts().await;
        let writes = self.hub.writes();
        self.wait(QUIET_TIME).await;
        if self.hub.writes() != writes {
            self.checker.fail(|| "it does not converge".into());
        }
        self.check_groups();
        // A new process finds nothing to do, also after the grace period of the Placement.
        self.replace_processes();
        self.wait(Duration::from_secs(200)).await;
        if self.hub.writes() != writes {
            self.checker.fail(|| "a restart costs writes".into());
        }
    }

    fn check_groups(&self) {
        let Some(groups) = &self.groups else { return };
        let facts = groups.facts.now();
        let wanted = rules::wanted(&groups.repository.head(), &facts, &CLUSTERS);
        let rules = groups.rules();
        for (key, text) in &wanted {
            match self.hub.object(key) {
                None => self.checker.fail(|| format!("after convergence, {key} is not there")),
                Some(work) if rules::text_of(&work) != Some(text) => {
                    self.checker.fail(|| format!("after convergence, {key} is not {text:?}"));
                }
                Some(work) if listed(&work) != rules.objects(key.work.as_str(), text) => {
                    self.checker.fail(|| format!("after convergence, {key} lists other objects"));
                }
                Some(work) if !rules::is_ready(&work) => {
                    self.checker.fail(|| format!("after convergence, {key} is not available"));
                }
                Some(_) => {}
            }
        }
        for key in self.hub.keys().into_iter().filter(|key| !wanted.contains_key(key)) {
            self.checker.fail(|| format!("after convergence, {key} is there without a reason"));
        }
    }

    /// Any work that the source may have.
    pub(super) fn any_group_key(&mut self) -> WorkKey {
        let cluster = CLUSTERS[self.random.usize(..CLUSTERS.len())];
        key(cluster, WORKS[self.random.usize(..WORKS.len())])
    }
}
