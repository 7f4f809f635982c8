//! Git, a hub, its agents and other users, acting at random from one seed, and the rules that
//! always hold.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use gitwork_core::config::Budgets;
use gitwork_core::config::source_rules::SourceRules;
use gitwork_core::model::approval::{Approval, Approvals};
use gitwork_core::model::name::{CommitId, ObjectId, SourceId, WorkKey};
use gitwork_core::model::work::{DeletionPolicy, DesiredWork, NamedObject, WorkBody};
use gitwork_core::plan::moves::MovingWorks;
use gitwork_core::plan::observed::Observed;
use gitwork_core::plan::{
    AddedSince, Effect, LastKnownState, LastKnownStates, Plan, PlanPolicy, Reason,
    removed_candidates,
};
use gitwork_core::render::desired::{Desired, Frozen, FrozenObjects, Suspended, WantedWorks};
use gitwork_hub::{Hub, HubError, HubEvent};

use crate::agents::Agents;
use crate::checked_plan;
use crate::git_work::{Works, folder};
use crate::hub::SimulatedHub;
use crate::incarnations::Incarnations;

mod random_actions;
mod rules;

#[cfg(test)]
pub use random_actions::condition;
pub use random_actions::{change_work, consent, user_acts};

pub const CLUSTERS: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
pub const WORKS: [&str; 3] = ["api", "db", "web"];
pub const SOURCE: &str = "fleet";

pub struct World {
    pub source: SourceId,
    pub hub: SimulatedHub,
    pub agents: Agents,
    pub git: Works,
    /// The final state in Git of each dropped work.
    pub dropped: BTreeMap<WorkKey, LastKnownState>,
    /// The works in Git before that.
    besides: BTreeMap<WorkKey, BTreeSet<WorkKey>>,
    /// The objects on the clusters; for each, whether Git had it at every pass.
    objects: Incarnations<bool>,
    /// The works in Git at the last pass.
    applied_git: Works,
    /// The works of the commit before the last one.
    parent: Works,
    pub frozen: Frozen,
    pub suspended: Suspended,
    pub policy: PlanPolicy,
    /// The budgets and approvals in Git.
    pub budgets: Budgets,
    pub approved: Approvals,
    /// The uids of works created during a hold, which do not count as kept.
    created_during_hold: BTreeSet<String>,
    pub observed: Observed,
    events: BoxStream<'static, HubEvent>,
    commit: u8,
}

fn lines(plan: &Plan) -> String {
    plan.steps.iter().map(|step| format!("{step}\n")).collect()
}

impl World {
    pub fn new(seed: u64) -> Self {
        let source = SourceId::parse(SOURCE).unwrap();
        let hub = SimulatedHub::new(&CLUSTERS, seed);
        let events = hub.watch(&source);
        Self {
            source,
            hub,
            agents: Agents::default(),
            git: BTreeMap::new(),
            dropped: BTreeMap::new(),
            besides: BTreeMap::new(),
            objects: Incarnations::default(),
            applied_git: Works::new(),
            parent: Works::new(),
            frozen: Frozen::default(),
            suspended: Suspended::default(),
            policy: PlanPolicy::default(),
            budgets: Budgets::default(),
            approved: Approvals::default(),
            created_during_hold: BTreeSet::new(),
            observed: Observed::default(),
            events,
            commit: 0,
        }
    }

    fn commit(&self) -> CommitId {
        ObjectId([self.commit; 20])
    }

    /// Adds or changes a work.
    #[cfg(test)]
    pub fn push(&mut self, key: &WorkKey, work: crate::git_work::GitWork) {
        let mut works = self.git.clone();
        works.insert(key.clone(), work);
        self.commit_works(works);
    }

    /// Drops a work in one commit. `final_option` is the deleteOption that the commit gives the
    /// work; `None` leaves it.
    pub fn drop_work(&mut self, key: &WorkKey, final_option: Option<DeletionPolicy>) {
        let mut works = self.git.clone();
        let had = works.remove(key);
        self.commit_works(works);
        if had.is_none() {
            return;
        }
        let last = self.dropped.get_mut(key);
        if let Some((last, option)) = last.zip(final_option) {
            last.delete_option = option;
        }
    }

    /// Replaces all works in one commit.
    pub fn commit_works(&mut self, works: Works) {
        self.commit = self.commit.wrapping_add(1);
        let before = std::mem::replace(&mut self.git, works);
        self.parent.clone_from(&before);
        let had: BTreeSet<WorkKey> = before.keys().cloned().collect();
        for (key, work) in before.into_iter().filter(|(key, _)| !self.git.contains_key(key)) {
            let last = LastKnownState {
                removed_by: Some(self.commit()),
                delete_option: work.deletion_policy(),
                prune: work.prune,
                budgets: Some(self.budgets.clone()),
                added_since: None,
                depends_on: Default::default(),
            };
            self.dropped.insert(key.clone(), last);
            self.besides.insert(key, had.clone());
        }
    }

    /// Starts a new process, with nothing in memory.
    pub fn restart(&mut self) {
        self.observed = Observed::default();
        self.events = self.hub.watch(&self.source);
    }

    pub fn desired(&self) -> Desired {
        let mut works = WantedWorks::new();
        let mut frozen = self.frozen.clone();
        for (key, work) in &self.git {
            let path = folder(key);
            let manifests = work.manifests();
            let named = manifests.iter().map(|one| (one, "configmaps"));
            let objects = NamedObject::all(named);
            if self.frozen.contains(key)
                || self.frozen.folders.contains(&(key.cluster.clone(), path.clone()))
            {
                let hidden = FrozenObjects { objects, ..FrozenObjects::default() };
                frozen.objects.insert(key.clone(), hidden);
                continue;
            }
            let labels = work.labels.clone();
            let body = WorkBody::new(
                &self.source,
                &path,
                work.spec(),
                labels,
                BTreeMap::new(),
                work.prune,
            );
            let work = DesiredWork {
                key: key.clone(),
                path,
                body: Arc::new(body),
                delete_option: work.deletion_policy(),
                prune: work.prune,
                suspend: work.suspend,
                objects,
                depends_on: Default::default(),
                group_content: None,
                is_earlier: false,
            };
            works.insert(key.clone(), Arc::new(work));
        }
        Desired {
            delivered: BTreeMap::new(),
            source: self.source.clone(),
            commit: Some(self.commit()),
            works,
            frozen,
            rules: SourceRules { budgets: self.budgets.clone(), ..SourceRules::default() },
            approved: self.approved.clone(),
            suspended: self.suspended.clone(),
            needed_facts: None,
            rollouts: BTreeMap::new(),
            later: BTreeMap::new(),
            facts: None,
            diagnostics: Vec::new(),
        }
    }

    /// Reads the hub's events so far.
    pub fn observe(&mut self) {
        let source = self.source.clone();
        while let Some(Some(event)) = self.events.next().now_or_never() {
            match event {
                HubEvent::Listed(works) => drop(self.observed.record_list(&source, works)),
                HubEvent::ListedSets(sets) => self.observed.record_sets(&source, sets),
                HubEvent::Changed(work) => self.observed.record_change(*work),
                HubEvent::Gone(key) => self.observed.record_gone(&source, &key),
                HubEvent::Interrupted(_) => {}
            }
        }
    }

    async fn look_up(&mut self, key: &WorkKey) {
        if let Ok(there) = self.hub.get(key).await {
            self.observed.record_lookup(key, there);
        }
    }

    pub fn plan(&self, desired: &Desired) -> Plan {
        let mut last_known = LastKnownStates::new();
        for (key, _) in removed_candidates(desired, &self.observed) {
            let Some(last) = self.dropped.get(&key) else {
                last_known.never_in_git.insert(key);
                continue;
            };
            let now: BTreeSet<WorkKey> = self.git.keys().cloned().collect();
            let works = &now - &self.besides[&key];
            let brought = AddedSince { works, ..AddedSince::default() };
            let added_since = Some(Arc::new(brought));
            last_known.insert(key, LastKnownState { added_since, ..last.clone() });
        }
        checked_plan(desired, &self.observed, &last_known, &self.policy)
    }

    /// Plans over the observed state, which may be stale, and executes the plan.
    pub async fn pass(&mut self) -> Plan {
        let foreign: Vec<WorkKey> = self
            .observed
            .works
            .values()
            .filter(|work| !work.is_ours(&self.source))
            .map(|work| work.key.clone())
            .collect();
        for key in &foreign {
            self.look_up(key).await;
        }
        let desired = self.desired();
        if let Ok(directives) = self.hub.directives(&self.source).await {
            self.policy.approved = directives.approvals;
        }
        for key in MovingWorks::of(&desired, &self.observed).unread {
            if let Ok(Some(content)) = self.hub.content(&key).await {
                self.observed.contents.insert(key, content);
            }
        }
        self.note_git();
        let plan = self.plan(&desired);
        self.check_plan(&desired, &plan);
        let held = plan.held_deletions().is_some();
        for (step, effect) in plan.effects() {
            self.execute(&step.key, effect).await;
            if held && matches!(effect, Effect::Create { .. } | Effect::Adopt { .. }) {
                let made = self.hub.objects().remove(&step.key);
                let uid = made.and_then(|work| Some(work["metadata"]["uid"].as_str()?.to_owned()));
                self.created_during_hold.extend(uid);
            }
        }
        if !held {
            self.created_during_hold.clear();
        }
        plan
    }

    async fn execute(&mut self, key: &WorkKey, effect: &Effect) {
        let before = self.hub.objects();
        let answer = self.hub.execute(key, effect, Some(self.commit())).await;
        self.check_write(key, effect, &before);
        match answer {
            Ok(answer) => self.observed.record_response(key, effect, answer),
            Err(HubError::Exists { .. } | HubError::Stale { .. }) => self.look_up(key).await,
            Err(_) => {}
        }
    }

    /// Adds an approval, in Git or on the hub.
    pub fn add_approval(&mut self, approval: Approval, in_git: bool) {
        if in_git {
            self.approved.add(&self.source, approval);
        } else {
            self.hub.lock().approved.add(&self.source, approval.clone());
            self.policy.approved.add(&self.source, approval);
        }
    }

    /// Approves the held deletions, in Git or on the hub. Exactly these works go then.
    pub fn approve(&mut self, in_git: bool) {
        let desired = self.desired();
        let before = self.plan(&desired);
        let Some(held) = before.held_deletions() else { return };
        let text = Approval::Deletions(held.works.clone()).text();
        let approval = Approval::read(&held.hash.to_string(), &text).unwrap();
        self.add_approval(approval, in_git);
        let after = self.plan(&self.desired());
        assert_eq!(after.held_deletions(), None, "after:\n{}", lines(&after));
        for (before, after) in before.steps.iter().zip(&after.steps) {
            let was_held = matches!(before.reason, Reason::HeldByBudget { .. });
            let mark = after.reason == Reason::DeletesNoLongerHeld;
            let same = before.key == after.key && before.action() == after.action();
            assert!(was_held || same || mark, "{before}\n{after}");
            assert_eq!(was_held, held.works.iter().any(|target| target.key == before.key));
        }
    }
}
