//! What the rollout of a group's content costs while it is under way: 1,000 clusters with 10 works,
//! of which 300 have the new content, 20 are getting it, and the others keep the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gitwork_core::model::name::{ClusterName, CommitId, ObjectId, WorkKey};
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::plan::Plan;
use gitwork_core::plan::observed::ObservedWork;
use gitwork_core::render::renderer::Renderer;
use gitwork_core::rollout::earlier::EarlierContents;
use gitwork_sync::git_history::AncestryLookup;
use gitwork_sync::hub::StoredRecord;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::groups::{self, CLUSTERS, WORKS};
use super::memory_repository::{File, MemoryObjects};
use super::{World, milliseconds, print, source, status};

const DONE: usize = 300;
const AT_A_TIME: usize = 20;
const ROUNDS: usize = 9;

/// A daemon, its repository and the hub.
struct Rollout {
    world: World,
    renderer: Renderer,
    objects: MemoryObjects,
    root: ObjectId,
    /// What clusters are to have in place of the content of the commit.
    earlier: EarlierContents,
    hub: BTreeMap<WorkKey, Value>,
    now: Timestamp,
    version: usize,
    /// The works of the last pass.
    written: Vec<WorkKey>,
}

impl Rollout {
    fn new() -> Self {
        let (mut objects, mut renderer) = (MemoryObjects::default(), Renderer::new(source()));
        renderer.set_facts(Some(groups::facts("city-0")));
        let files = groups::files(None);
        let root = objects.add(&files);
        let snapshot = Snapshot { commit: Some(root), root, objects: &objects };
        let world = World::new(renderer.render(&snapshot).unwrap());
        let now = Timestamp::from_second(1_000_000).unwrap();
        let (earlier, hub) = (EarlierContents::new(), BTreeMap::new());
        let (version, written) = Default::default();
        Self { world, renderer, objects, root, earlier, hub, now, version, written }
    }

    fn commit(&mut self, files: &BTreeMap<String, File>) {
        self.root = self.objects.add(files);
        self.render();
    }

    fn render(&mut self) {
        let (root, objects) = (self.root, &self.objects);
        let snapshot = Snapshot { commit: Some(root), root, objects };
        let desired = Arc::new(self.renderer.render(&snapshot).unwrap());
        self.world.desired = Arc::clone(&desired);
        self.world.state.facts_mut().set_desired(&desired);
        let directives = Some(Default::default());
        self.world.state.facts_mut().directives.set(directives, self.world.begin);
    }

    /// Plans. Gives whether other contents are to be rendered.
    fn plan(&mut self) -> (Arc<Plan>, bool) {
        let (state, begin) = (&mut self.world.state, self.world.begin);
        if let AncestryLookup::Due(commits) = state.facts_mut().ancestry_lookup(begin) {
            let head = self.world.desired.commit.unwrap();
            state.facts_mut().history.set_ancestry(head, &commits, &BTreeSet::new());
        }
        state.set_time(self.now, &|_| None);
        let plan = state.plan(begin).unwrap();
        let earlier = state.earlier_contents().cloned().unwrap_or_default();
        if earlier == self.earlier {
            return (plan, false);
        }
        self.earlier = earlier;
        (plan, true)
    }

    /// Renders again with the contents that clusters are to have. A commit has the id of its tree.
    fn render_earlier(&mut self) {
        let commits = self.earlier.values().flat_map(|group| group.commits.values());
        let roots: BTreeMap<CommitId, ObjectId> = commits.map(|id| (*id, *id)).collect();
        self.renderer.set_earlier(Arc::new(self.earlier.clone()), roots);
        self.render();
    }

    /// What the daemon does until it waits for agents: the number of written works.
    fn pass(&mut self) -> usize {
        let mut plan = self.plan();
        while plan.1 {
            self.render_earlier();
            plan = self.plan();
        }
        let (plan, state) = (plan.0, &mut self.world.state);
        if let Some(record) = state.record_to_write(&plan) {
            let resource_version = self.next().to_string();
            self.world.state.set_record(Some(StoredRecord { record, resource_version }));
        }
        let due = self.world.state.due(&plan, self.world.begin);
        let writes = due.iter().map(|(step, effect)| {
            (step.key.clone(), effect.body().unwrap().to_manifest_work(&step.key, Some(self.root)))
        });
        let writes: Vec<(WorkKey, Value)> = writes.collect();
        for (key, work) in &writes {
            let work = self.applied(key, work.clone(), "applied");
            self.world.change(work);
        }
        self.now = self.now.checked_add(SignedDuration::from_mins(3)).unwrap();
        self.written = writes.into_iter().map(|(key, _)| key).collect();
        self.written.len()
    }

    /// What the agents of the clusters that were written last say: `is_done`, or nothing yet of
    /// this generation.
    fn report_last(&mut self, is_done: bool) {
        for key in self.written.clone() {
            let mut work = self.hub[&key].clone();
            let generation = work["metadata"]["generation"].as_i64().unwrap();
            let observed = if is_done { generation } else { generation - 1 };
            work["metadata"]["resourceVersion"] = self.next().to_string().into();
            for condition in work["status"]["conditions"].as_array_mut().unwrap() {
                condition["observedGeneration"] = observed.into();
            }
            self.hub.insert(key, work.clone());
            self.world.change(ObservedWork::from_manifest_work(work).unwrap());
        }
    }

    fn next(&mut self) -> usize {
        self.version += 1;
        self.version
    }

    /// A work as the hub has it once its agent has applied it.
    fn applied(&mut self, key: &WorkKey, mut work: Value, message: &str) -> ObservedWork {
        let version = self.next();
        work["metadata"]["uid"] = format!("00000000-0000-4000-8000-{:.36}", key.cluster).into();
        work["metadata"]["resourceVersion"] = version.to_string().into();
        work["metadata"]["generation"] = version.into();
        work["status"] = status(message);
        for condition in work["status"]["conditions"].as_array_mut().unwrap() {
            condition["observedGeneration"] = version.into();
            condition["lastTransitionTime"] = self.now.to_string().into();
        }
        self.hub.insert(key.clone(), work.clone());
        ObservedWork::from_manifest_work(work).unwrap()
    }

    /// An agent reports a work again, with another message.
    fn event(&mut self, key: &WorkKey) -> ObservedWork {
        let number = self.next();
        let mut work = self.hub[key].clone();
        work["metadata"]["resourceVersion"] = number.to_string().into();
        work["status"]["conditions"][0]["message"] = format!("event {number}").into();
        ObservedWork::from_manifest_work(work).unwrap()
    }

    /// How many clusters have the new content.
    fn taken(&self) -> usize {
        let works = self.hub.iter().filter(|(key, _)| key.work.as_str() == "work-3");
        works.filter(|(_, work)| work.to_string().contains("/work:2\"")).count()
    }
}

/// 300 clusters have the new content, and 20 are getting it.
fn under_way() -> Rollout {
    let mut rollout = Rollout::new();
    while rollout.pass() > 0 {}
    let group = format!(
        "selector: {{labelSelector: {{matchLabels: {{tier: store}}}}}}\ndefaults: {{substitute: \
         true}}\nrollout:\n  type: Progressive\n  progressive: {{maxConcurrency: {AT_A_TIME}}}\n"
    );
    let mut files = groups::files(None);
    files.insert("groups/stores/group.yaml".to_owned(), File::from(group.as_str()));
    rollout.commit(&files);
    while rollout.pass() > 0 {}
    let path = "groups/stores/work-3/all.yaml";
    let changed = groups::files(Some("2")).remove(path);
    files.extend(changed.map(|file| (path.to_owned(), file)));
    rollout.commit(&files);
    let mut written = 0;
    while rollout.taken() < DONE + AT_A_TIME {
        written = rollout.pass();
    }
    assert_eq!(written, AT_A_TIME * WORKS, "all works are marked with the content");
    rollout.report_last(false);
    let waiting = CLUSTERS - rollout.taken();
    assert_eq!(rollout.world.desired.works.len(), CLUSTERS * WORKS);
    let earlier = rollout.world.desired.works.values().filter(|work| work.is_earlier).count();
    assert_eq!(earlier, waiting * WORKS);
    rollout.world.publish();
    rollout
}

impl Rollout {
    /// Passes in each of which a cluster begins or ceases to be unreachable.
    fn passes_with_another_state(&mut self, cluster: &ClusterName) -> Vec<Duration> {
        let (mut offline, mut passes) = (BTreeSet::new(), Vec::new());
        for _ in 0..ROUNDS {
            if !offline.remove(cluster) {
                offline.insert(cluster.clone());
            }
            let began = Instant::now();
            self.world.state.set_offline(&offline);
            self.world.state.facts_mut().mark_changed();
            let (plan, _) = self.plan();
            assert!(self.world.state.due(&plan, self.world.begin).is_empty());
            passes.push(began.elapsed());
        }
        self.world.state.set_offline(&BTreeSet::new());
        passes
    }
}

/// Prints what a rollout costs, one figure in each line.
pub(super) fn measure() {
    let mut rollout = under_way();
    let begin = rollout.world.begin;
    let mut passes = Vec::new();
    for _ in 0..ROUNDS {
        rollout.world.state.facts_mut().mark_changed();
        let began = Instant::now();
        let (plan, is_other) = rollout.plan();
        black_box(rollout.world.state.record_to_write(&plan));
        assert!(rollout.world.state.due(&plan, begin).is_empty() && !is_other);
        passes.push(began.elapsed());
    }
    let keys: Vec<WorkKey> = rollout.hub.keys().step_by(997).cloned().collect();
    let (mut events, mut unpublished) = (Vec::new(), Vec::new());
    for key in &keys {
        let work = rollout.event(key);
        let began = Instant::now();
        rollout.world.change(work);
        let (plan, _) = rollout.plan();
        assert!(rollout.world.state.due(&plan, begin).is_empty());
        unpublished.push(began.elapsed());
        rollout.world.publish();
        events.push(began.elapsed());
    }
    let whole = rollout.passes_with_another_state(&keys[0].cluster);
    rollout.report_last(true);
    let began = Instant::now();
    assert_eq!(rollout.pass(), AT_A_TIME * WORKS);
    let next = began.elapsed();
    let least = |times: Vec<_>| milliseconds(times.into_iter().min().unwrap());
    print("rollout under way, 1,000 clusters x 10 works: a pass without news: ms", least(passes));
    print("one status event of an agent, with its pass: ms", least(unpublished));
    print("the same, with the status: ms", least(events));
    print("a pass in which a cluster comes to another state: ms", least(whole));
    print(
        "the next 20 clusters begin, rendered, planned and taken as written: ms",
        milliseconds(next),
    );
}
