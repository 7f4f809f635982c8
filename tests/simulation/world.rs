//! Git, a hub, its agents and other users, acting at random from one seed; and what must hold whatever they do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use gitwork::core::adoption::Adoption;
use gitwork::core::approval::{Approval, Approvals, Rewind, Target};
use gitwork::core::budget::Budget;
use gitwork::core::config::Budgets;
use gitwork::core::desired::{Desired, Frozen, Suspended};
use gitwork::core::name::{CommitId, ObjectId, RepoPath, SourceId, WorkKey};
use gitwork::core::observed::Observed;
use gitwork::core::plan::{
    Action, Departed, Effect, LastStood, Plan, Policy, Reason, Step, departed_candidates, plan,
};
use gitwork::core::record::Rules;
use gitwork::core::window::Closed;
use gitwork::core::work::{DeleteOption, DesiredWork, WorkBody};
use gitwork::hub::{Hub, HubError, HubEvent};
use serde_json::{Value, json};

use super::agents::{Agents, Object, identity};
use super::hub::{SimulatedHub, is_deleting};
use super::key;

pub const CLUSTERS: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
pub const WORKS: [&str; 3] = ["api", "db", "web"];
pub const SOURCE: &str = "fleet";

/// One work folder.
#[derive(Debug, Clone, PartialEq)]
pub struct GitWork {
    pub text: String,
    pub objects: Vec<&'static str>,
    pub labels: BTreeMap<String, String>,
    pub delete_option: DeleteOption,
    pub prune: bool,
    pub suspend: bool,
}

impl Default for GitWork {
    fn default() -> Self {
        Self {
            text: "one".into(),
            objects: vec!["a", "b"],
            labels: BTreeMap::new(),
            delete_option: DeleteOption::Foreground,
            prune: true,
            suspend: false,
        }
    }
}

pub struct World {
    pub source: SourceId,
    pub hub: SimulatedHub,
    pub agents: Agents,
    pub git: BTreeMap<WorkKey, GitWork>,
    /// What Git last said of each work that it dropped.
    pub dropped: BTreeMap<WorkKey, LastStood>,
    /// What Git had beside it then.
    besides: BTreeMap<WorkKey, BTreeSet<WorkKey>>,
    pub frozen: Frozen,
    pub suspended: Suspended,
    pub policy: Policy,
    /// What Git says of budgets, and of approvals.
    pub budgets: Budgets,
    pub approved: Approvals,
    /// The uids of works that were made while deletions were held, which do not count as kept.
    newcomers: BTreeSet<String>,
    pub observed: Observed,
    events: BoxStream<'static, HubEvent>,
    commit: u8,
}

/// A ConfigMap of one work. Works never share an object.
pub fn manifest(key: &WorkKey, name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "namespace": "default", "name": format!("{}-{name}", key.work) },
        "data": { "text": text },
    })
}

pub fn folder(key: &WorkKey) -> RepoPath {
    RepoPath::parse(&format!("clusters/{}/{}", key.cluster, key.work)).unwrap()
}

fn lines(plan: &Plan) -> String {
    plan.steps.iter().map(|step| format!("{step}\n")).collect()
}

/// Keeps the first object of a work.
pub fn keep_first(key: &WorkKey) -> DeleteOption {
    DeleteOption::SelectivelyOrphan(vec![identity(&manifest(key, "a", ""))])
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
            frozen: Frozen::default(),
            suspended: Suspended::default(),
            policy: Policy::default(),
            budgets: Budgets::default(),
            approved: Approvals::default(),
            newcomers: BTreeSet::new(),
            observed: Observed::default(),
            events,
            commit: 0,
        }
    }

    fn commit(&self) -> CommitId {
        ObjectId([self.commit; 20])
    }

    /// Adds or changes a work.
    pub fn push(&mut self, key: &WorkKey, work: GitWork) {
        self.commit = self.commit.wrapping_add(1);
        self.git.insert(key.clone(), work);
    }

    /// One commit that drops a work; `last_word` is its deleteOption in that very commit's parent or, where the
    /// commit changes it too, what it would have become.
    pub fn drop_work(&mut self, key: &WorkKey, last_word: Option<DeleteOption>) {
        self.commit = self.commit.wrapping_add(1);
        let Some(work) = self.git.remove(key) else { return };
        let delete_option = last_word.unwrap_or(work.delete_option);
        let removed_by = Some(self.commit());
        let budgets = Some(self.budgets.clone());
        let last =
            LastStood { removed_by, delete_option, prune: work.prune, budgets, brought: None };
        self.dropped.insert(key.clone(), last);
        self.besides.insert(key.clone(), self.git.keys().cloned().collect());
    }

    /// A new process: what was in memory is gone.
    pub fn restart(&mut self) {
        self.observed = Observed::default();
        self.events = self.hub.watch(&self.source);
    }

    pub fn desired(&self) -> Desired {
        let mut works = BTreeMap::new();
        for (key, work) in &self.git {
            let path = folder(key);
            if self.frozen.covers(key) || self.frozen.folders.contains(&path) {
                continue;
            }
            let manifests: Vec<Value> =
                work.objects.iter().map(|name| manifest(key, name, &work.text)).collect();
            let mut spec = json!({ "workload": { "manifests": manifests } });
            if work.delete_option != DeleteOption::Foreground {
                spec["deleteOption"] = work.delete_option.to_value(None);
            }
            let labels = work.labels.clone();
            let body =
                WorkBody::new(&self.source, &path, spec, labels, BTreeMap::new(), work.prune);
            let work = DesiredWork {
                key: key.clone(),
                path,
                body: Arc::new(body),
                delete_option: work.delete_option.clone(),
                prune: work.prune,
                suspend: work.suspend,
            };
            works.insert(key.clone(), work);
        }
        Desired {
            source: self.source.clone(),
            commit: Some(self.commit()),
            works,
            frozen: self.frozen.clone(),
            rules: Rules { budgets: self.budgets.clone(), ..Rules::default() },
            approved: self.approved.clone(),
            suspended: self.suspended.clone(),
            diagnostics: Vec::new(),
        }
    }

    /// Takes in what the hub has told by now.
    pub fn observe(&mut self) {
        let source = self.source.clone();
        while let Some(Some(event)) = self.events.next().now_or_never() {
            match event {
                HubEvent::Listed(works) => self.observed.listed(&source, works),
                HubEvent::Changed(work) => self.observed.changed(*work),
                HubEvent::Gone(key) => self.observed.gone(&source, &key),
                HubEvent::Interrupted(_) => {}
            }
        }
    }

    async fn look_again(&mut self, key: &WorkKey) {
        if let Ok(there) = self.hub.get(key).await {
            self.observed.looked_up(key, there);
        }
    }

    pub fn plan(&self, desired: &Desired) -> Plan {
        let mut departed = Departed::new();
        for (key, _) in departed_candidates(desired, &self.observed) {
            let Some(last) = self.dropped.get(&key) else { continue };
            let now: BTreeSet<WorkKey> = self.git.keys().cloned().collect();
            let brought = Some(Arc::new(&now - &self.besides[&key]));
            departed.insert(key, LastStood { brought, ..last.clone() });
        }
        plan(desired, &self.observed, &departed, &self.policy)
    }

    /// Plans over what is known, which may be stale, and executes it. Answers the plan.
    pub async fn pass(&mut self) -> Plan {
        let foreign: Vec<WorkKey> = self
            .observed
            .works
            .values()
            .filter(|work| !work.is_ours(&self.source))
            .map(|work| work.key.clone())
            .collect();
        for key in &foreign {
            self.look_again(key).await;
        }
        let desired = self.desired();
        if let Ok(said) = self.hub.directives(&self.source).await {
            self.policy.approved = said.approvals;
        }
        let plan = self.plan(&desired);
        self.check_plan(&desired, &plan);
        let held = plan.held().is_some();
        for (step, effect) in plan.effects() {
            self.execute(&step.key, effect).await;
            if held && matches!(effect, Effect::Create { .. } | Effect::Adopt { .. }) {
                let made = self.hub.objects().remove(&step.key);
                let uid = made.and_then(|work| Some(work["metadata"]["uid"].as_str()?.to_owned()));
                self.newcomers.extend(uid);
            }
        }
        if !held {
            self.newcomers.clear();
        }
        plan
    }

    async fn execute(&mut self, key: &WorkKey, effect: &Effect) {
        let before = self.hub.objects();
        let answer = self.hub.execute(key, effect, Some(self.commit())).await;
        self.check_write(key, effect, &before);
        match answer {
            Ok(answer) => self.observed.answered(key, effect, answer),
            Err(HubError::Exists { .. } | HubError::Stale { .. }) => self.look_again(key).await,
            Err(_) => {}
        }
    }

    // What must hold.

    /// No step is about a work that is neither wanted nor ours; what is frozen or suspended gets no effect; some
    /// work stays where any is deleted.
    fn check_plan(&self, desired: &Desired, plan: &Plan) {
        for (step, effect) in plan.effects() {
            let there = self.observed.works.get(&step.key);
            let ours = there.is_some_and(|work| work.is_ours(&self.source));
            let wanted = desired.works.get(&step.key);
            let allowed = match effect {
                Effect::Create { .. } => wanted.is_some() && there.is_none(),
                Effect::Update { .. } => wanted.is_some() && ours,
                Effect::Adopt { .. } => {
                    let unowned = self.policy.adoption == Adoption::Unowned;
                    wanted.is_some()
                        && there.is_some_and(|work| {
                            work.adopt.as_deref() == Some(SOURCE) || (unowned && work.unowned)
                        })
                }
                Effect::SetDeleteOption { .. } | Effect::Delete { .. } | Effect::Release { .. } => {
                    let path = there.and_then(|work| work.path.as_deref());
                    wanted.is_none() && ours && !self.frozen.holds(&step.key, path)
                }
            };
            assert!(allowed, "{step}");
            assert!(!wanted.is_some_and(|work| work.suspend), "{step}");
        }
        self.check_guards(desired, plan);
        self.check_budget(desired, plan);
        assert!(plan.steps.is_sorted_by(|a, b| a.key < b.key), "{}", lines(plan));
    }

    /// Nothing goes past a guard that holds, but what puts back what gitwork wrote last and, past a window, what is
    /// approved.
    fn check_guards(&self, desired: &Desired, plan: &Plan) {
        let approves = |key: &WorkKey, effect: &Effect| {
            let uid = match effect {
                Effect::Create { body }
                | Effect::Update { body, .. }
                | Effect::Adopt { body, .. } => body.digest.to_string(),
                _ => self.observed.works[key].uid.clone(),
            };
            let target = Target { key: key.clone(), uid };
            let all = [&self.approved, &self.policy.approved];
            all.iter().any(|all| all.changes.contains(&target) || all.deletions.contains(&target))
        };
        for (step, effect) in plan.effects() {
            assert!(!desired.suspended.covers(&step.key), "{step}");
            let there = self.observed.works.get(&step.key);
            let puts_back = matches!(effect, Effect::Update { body, .. }
                if there.is_some_and(|there| there.written == Some(body.digest)));
            let closed = self.policy.closed.is_some() && !approves(&step.key, effect);
            assert!(puts_back || !(closed || self.policy.held_rewind.is_some()), "{step}");
            assert!(effect.writes_content() || self.policy.restored.is_none(), "{step}");
        }
    }

    /// Unless it is approved, no plan deletes all works of the source or all of a cluster with more than its budget,
    /// nor more works than its budget.
    fn check_budget(&self, desired: &Desired, plan: &Plan) {
        let target = |key: &WorkKey| {
            let uid = self.observed.works[key].uid.clone();
            Target { key: key.clone(), uid }
        };
        let approves = |key: &WorkKey| {
            let target = target(key);
            let all = [&self.approved, &self.policy.approved];
            all.iter().any(|approved| approved.deletions.contains(&target))
        };
        let deletes = |step: &&Step| {
            matches!(step.action(), Action::Delete | Action::SetDeleteOption)
                || matches!(
                    step.reason,
                    Reason::WaitingForAgent { .. } | Reason::NotYetOrphaned { .. }
                )
        };
        let all: Vec<&WorkKey> = plan.steps.iter().filter(deletes).map(|step| &step.key).collect();
        let free: Vec<&WorkKey> = all.iter().copied().filter(|key| !approves(key)).collect();
        if free.is_empty() || self.policy.allow_delete_all {
            return;
        }
        let kept: Vec<&WorkKey> = self
            .observed
            .works
            .values()
            .filter(|work| work.is_ours(&self.source) && !self.newcomers.contains(&work.uid))
            .filter(|work| {
                desired.works.contains_key(&work.key)
                    || self.frozen.holds(&work.key, work.path.as_deref())
            })
            .map(|work| &work.key)
            .collect();
        let budget = Budget::of(&self.policy.budgets, &self.budgets);
        let told = lines(plan);
        assert!(plan.held().is_none(), "what is not held is approved:\n{told}");
        assert!(!kept.is_empty(), "everything is deleted:\n{told}");
        let had = all.len() + kept.len();
        assert!(
            free.len() <= budget.works || free.len() * 100 <= budget.percent * had,
            "{} of {had}, {budget:?}:\n{told}",
            free.len()
        );
        for key in free {
            let of = |keys: &[&WorkKey]| keys.iter().filter(|k| k.cluster == key.cluster).count();
            assert!(of(&kept) > 0 || of(&all) <= budget.cluster, "{budget:?}:\n{told}");
        }
    }

    /// Lets something through, in Git or on the hub.
    pub fn add_approval(&mut self, approval: Approval, in_git: bool) {
        if in_git {
            self.approved.add(&self.source, approval);
        } else {
            self.hub.lock().approved.add(&self.source, approval.clone());
            self.policy.approved.add(&self.source, approval);
        }
    }

    /// Approves of what is held, in Git or on the hub: the same works go through then, and nothing else changes.
    pub fn approve(&mut self, in_git: bool) {
        let desired = self.desired();
        let before = self.plan(&desired);
        let Some(held) = before.held() else { return };
        let text = Approval::Deletions(held.works.clone()).text();
        let approval = Approval::read(&held.hash.to_string(), &text).unwrap();
        self.add_approval(approval, in_git);
        let after = self.plan(&self.desired());
        assert_eq!(after.held(), None, "after:\n{}", lines(&after));
        for (before, after) in before.steps.iter().zip(&after.steps) {
            let was_held = matches!(before.reason, Reason::HeldByBudget { .. });
            let mark = after.reason == Reason::DeletesNoLongerHeld;
            let same = before.key == after.key && before.action() == after.action();
            assert!(was_held || same || mark, "{before}\n{after}");
            assert_eq!(was_held, held.works.iter().any(|target| target.key == before.key));
        }
    }

    /// One write: nothing else changed; nothing foreign changed; a deletion is one that Git asked for, of a work
    /// whose agent has let go of all that Git wants to stay.
    fn check_write(&self, key: &WorkKey, effect: &Effect, before: &BTreeMap<WorkKey, Value>) {
        let after = self.hub.objects();
        for (other, work) in before.iter().filter(|(other, _)| *other != key) {
            assert_eq!(after.get(other), Some(work), "a write to {key} changed {other}");
        }
        assert!(after.keys().all(|other| other == key || before.contains_key(other)), "{effect:?}");
        let Some(was) = before.get(key) else { return };
        let is = after.get(key);
        if is == Some(was) {
            return;
        }
        let metadata = &was["metadata"];
        let ours = metadata["labels"]["gitwork.dev/source"] == SOURCE;
        let allowed = metadata["annotations"]["gitwork.dev/adopt"] == SOURCE;
        let unowned = self.policy.adoption == Adoption::Unowned
            && metadata["labels"].get("gitwork.dev/source").is_none()
            && matches!(effect, Effect::Adopt { body, .. } if body.spec.value() == was["spec"]);
        assert!(ours || allowed || unowned, "{key} is not ours: {was}");
        if let Some(is) = is {
            assert_eq!(is["status"], was["status"], "the status is the agent's");
            assert_eq!(is["metadata"]["finalizers"], metadata["finalizers"]);
            assert_eq!(is["metadata"]["labels"]["foreign"], metadata["labels"]["foreign"]);
        }
        if is.is_none_or(|is| is_deleting(is) && !is_deleting(was)) {
            assert!(matches!(effect, Effect::Delete { .. }), "{key} is gone");
            self.check_delete(key, was);
        }
    }

    fn check_delete(&self, key: &WorkKey, was: &Value) {
        assert!(!self.git.contains_key(key), "{key} is in Git");
        assert!(!self.frozen.covers(key) && !self.frozen.deletes, "{key} is frozen");
        let last = self.dropped.get(key).expect("Git has dropped it");
        assert!(last.prune, "{key} has prune: false");
        let option = DeleteOption::from_value(&was["spec"]["deleteOption"]);
        assert_eq!(option, last.delete_option, "Git's last word on {key}");
        let uid = was["metadata"]["uid"].as_str().unwrap();
        if option == DeleteOption::Foreground {
            assert_eq!(self.agents.would_stay(key, was), None, "it would stay");
        }
        let stays = |object: &Object| match &option {
            DeleteOption::Foreground => false,
            DeleteOption::Orphan => true,
            DeleteOption::SelectivelyOrphan(rules) => rules.contains(&object.1),
        };
        let lost: Vec<_> = self.agents.would_go(key, uid).into_iter().filter(stays).collect();
        assert!(lost.is_empty(), "{lost:?} would be deleted with {key}");
    }

    /// The world has come to rest: a pass changes nothing, nor does one of a new process, and the hub is as Git
    /// wants it, but for what is held with a reason.
    pub async fn check_rest(&mut self) {
        let writes = self.hub.writes();
        let plan = self.pass().await;
        let before = lines(&plan);
        assert!(plan.is_empty(), "not at rest:\n{}", lines(&plan));
        self.restart();
        self.observe();
        let foreign: Vec<WorkKey> = self.hub.objects().into_keys().collect();
        for key in foreign {
            self.look_again(&key).await;
        }
        let plan = self.pass().await;
        assert!(plan.is_empty(), "a restart costs writes:\n{before}then:\n{}", lines(&plan));
        assert_eq!(self.hub.writes(), writes);
        let objects = self.hub.objects();
        for step in &plan.steps {
            match &step.reason {
                Reason::UpToDate => {
                    let (work, on_hub) = (&self.git[&step.key], &objects[&step.key]);
                    let manifests: Vec<Value> = work
                        .objects
                        .iter()
                        .map(|name| manifest(&step.key, name, &work.text))
                        .collect();
                    assert_eq!(on_hub["spec"]["workload"]["manifests"], json!(manifests));
                }
                Reason::Conflict { .. } => {
                    let label = &objects[&step.key]["metadata"]["labels"]["gitwork.dev/source"];
                    assert_ne!(label, SOURCE, "{step}");
                }
                Reason::NotYetOrphaned { complete: true, .. } | Reason::HeldByBudget { .. } => {
                    assert!(!self.git.contains_key(&step.key), "{step}");
                }
                other => panic!("no reason to rest: {step}: {other:?}"),
            }
        }
        assert!(self.git.keys().all(|key| plan.steps.iter().any(|step| step.key == *key)));
    }
}

/// What happens at random.
impl World {
    fn any_key(random: &mut fastrand::Rng) -> WorkKey {
        key(CLUSTERS[random.usize(..CLUSTERS.len())], WORKS[random.usize(..WORKS.len())])
    }

    pub async fn act(&mut self, random: &mut fastrand::Rng) {
        let key = Self::any_key(random);
        match random.u8(..25) {
            0..4 => self.push_at_random(&key, random),
            4..6 => {
                let last_word = match random.u8(..4) {
                    0 => Some(DeleteOption::Orphan),
                    1 => Some(keep_first(&key)),
                    2 => Some(DeleteOption::Foreground),
                    _ => None,
                };
                self.drop_work(&key, last_word);
            }
            6 => self.freeze_at_random(&key, random),
            7 => self.frozen = Frozen::default(),
            8..11 => user_acts(&self.hub, &key, random),
            11 => self.hub.cut_watches(),
            12..15 => self.agents.step(&self.hub, &key),
            15 => self.restart(),
            20 => self.approve(random.bool()),
            22..25 => self.guard_at_random(&key, random),
            21 => {
                let any = |random: &mut fastrand::Rng, most: u32| {
                    random.bool().then(|| random.u32(..=most))
                };
                self.budgets = Budgets {
                    works: any(random, 4),
                    percent: any(random, 60),
                    cluster: any(random, 3),
                };
            }
            16 => {
                let object = (key.cluster.clone(), identity(&manifest(&key, "a", "")));
                if !self.agents.failing.remove(&object) {
                    self.agents.failing.insert(object);
                }
            }
            _ => {
                // Now and then the watch lags, and the plan is one of yesterday.
                if random.u8(..3) > 0 {
                    self.observe();
                }
                self.pass().await;
            }
        }
    }

    /// A guard begins to hold, or holds no more.
    fn guard_at_random(&mut self, key: &WorkKey, random: &mut fastrand::Rng) {
        let (source, policy) = (self.source.clone(), &mut self.policy);
        match random.u8(..5) {
            0 if policy.closed.is_none() => {
                policy.closed = Some(Closed { until: None, unknown_zone: None });
            }
            1 if policy.restored.is_none() => {
                policy.restored = Some(Arc::new(Approval::Restored { source, moves: 1 }));
            }
            2 if policy.held_rewind.is_none() => {
                let (from, to) = ([ObjectId([0; 20])].into(), ObjectId([1; 20]));
                policy.held_rewind = Some(Arc::new(Rewind { source, from, to }));
            }
            3 => drop(self.suspended.clusters.insert(key.cluster.clone())),
            _ => self.let_go_of_guards(),
        }
    }

    pub fn let_go_of_guards(&mut self) {
        self.suspended = Suspended::default();
        (self.policy.closed, self.policy.restored, self.policy.held_rewind) = (None, None, None);
    }

    fn push_at_random(&mut self, key: &WorkKey, random: &mut fastrand::Rng) {
        let mut work = self.git.get(key).cloned().unwrap_or_default();
        change_work(key, &mut work, random);
        self.push(key, work);
    }

    fn freeze_at_random(&mut self, key: &WorkKey, random: &mut fastrand::Rng) {
        match random.u8(..5) {
            0 => self.frozen.source = true,
            1 => self.frozen.deletes = true,
            2 => drop(self.frozen.clusters.insert(key.cluster.clone())),
            3 => drop(self.frozen.works.insert(key.clone())),
            _ => drop(self.frozen.folders.insert(folder(key))),
        }
    }
}

/// A condition that is true, as the API takes it.
pub fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Simulated", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
}

/// Somebody else does something to a ManifestWork, or makes one.
pub fn user_acts(hub: &SimulatedHub, key: &WorkKey, random: &mut fastrand::Rng) {
    if hub.object(key).is_none() {
        let mut metadata = json!({"namespace": key.cluster.as_str(), "name": key.work.as_str()});
        if random.bool() {
            metadata["annotations"] = json!({"gitwork.dev/adopt": SOURCE});
        }
        let spec = json!({"workload": {"manifests": []}});
        // Where the namespace is being deleted, nobody makes anything.
        let _refused = hub.user_creates(json!({"metadata": metadata, "spec": spec}));
        return;
    }
    let label = |name: &str, value: Value| json!({"metadata": {"labels": {name: value}}});
    let annotation = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
    let patch = match random.u8(..11) {
        0 => json!({"spec": {"workload": {"manifests": []}}}),
        1 => json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}}),
        2 => label("gitwork.dev/source", Value::Null),
        3 => label("gitwork.dev/source", "another".into()),
        4 => label("app.kubernetes.io/managed-by", Value::Null),
        5 => label("foreign", random.u8(..3).to_string().into()),
        6 => annotation("gitwork.dev/adopt", SOURCE.into()),
        // What tells that a label is Git's goes, and the label with it: else nobody could tell it from a user's.
        7 => {
            json!({"metadata": {"annotations": {"gitwork.dev/keys": "]"}, "labels": {"team": null}}})
        }
        8 => json!({"metadata": {"annotations": null, "labels": {"team": null}}}),
        9 => {
            let mut conditions = hub.object(key).unwrap()["status"]["conditions"].clone();
            match conditions.as_array_mut() {
                Some(all) => {
                    all.retain(|one| one["type"] != "Complete");
                    all.push(condition("Complete"));
                }
                None => conditions = json!([condition("Complete")]),
            }
            hub.patch_status(key, &json!({"status": {"conditions": conditions}})).unwrap();
            return;
        }
        _ => {
            hub.user_deletes(key).unwrap();
            return;
        }
    };
    hub.user_patches(key, &patch).unwrap();
}

/// A change of one work in Git.
pub fn change_work(key: &WorkKey, work: &mut GitWork, random: &mut fastrand::Rng) {
    match random.u8(..6) {
        0 => work.prune = !work.prune,
        1 => work.suspend = !work.suspend,
        2 => {
            let label = ("team".to_owned(), random.u8(..3).to_string());
            if work.labels.remove("team").is_none() {
                work.labels.extend([label]);
            }
        }
        3 => {
            work.delete_option = match random.u8(..3) {
                0 => DeleteOption::Foreground,
                1 => DeleteOption::Orphan,
                _ => keep_first(key),
            }
        }
        4 => work.objects = if work.objects.len() > 1 { vec!["a"] } else { vec!["a", "b"] },
        _ => work.text = format!("text {}", random.u8(..)),
    }
}
