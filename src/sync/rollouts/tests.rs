//! Rollouts from the files of a repository to the works on a hub, with agents that are played.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use std::sync::Arc;

use super::*;
use crate::test_repository::{TestFiles, TestRepository, files, render};
use gitwork_core::model::approval::{Approval, Approvals};
use gitwork_core::model::cluster_revisions::ClusterRevisions;
use gitwork_core::model::diagnostic::Diagnostic;
use gitwork_core::model::name::{SourceId, WorkKey};
use gitwork_core::model::snapshot::Snapshot;
use gitwork_core::plan::lint;
use gitwork_core::plan::observed::{AGENT_FINALIZER, Observed, ObservedWork, WorkContent};
use gitwork_core::plan::record::{Record, RecordInputs};
use gitwork_core::plan::{LastKnownStates, Plan, PlanPolicy, Reason, plan};
use gitwork_core::render::renderer::Renderer;

mod decision_groups;
mod earlier;

const WAVES: &str = "clusters: [a, b, c, d, e]\nrollout:\n  waves:\n  - {name: lab, clusters: [a], \
                     soak: 60s}\n  - {name: town, clusters: [b, c], maxConcurrency: 1, approval: \
                     required}\n";

/// What the agent of a cluster reports.
#[derive(Clone, Copy, PartialEq)]
enum Report {
    Healthy,
    /// It could not apply a manifest.
    NotApplied,
    /// An object is degraded, as a condition rule finds, since this second.
    Degraded(i64),
    /// The same of gitwork's agent, which says at which generation it looked at the object.
    DegradedAtGeneration(i64),
    /// All is applied, and no object was read yet.
    NotRead,
}

struct World {
    files: TestFiles,
    /// The commits, if the files are committed.
    commits: Option<(TestRepository, Renderer)>,
    hub: BTreeMap<WorkKey, Value>,
    /// The hub and Git at the last update.
    seen: BTreeMap<WorkKey, Value>,
    desired: Option<Arc<Desired>>,
    revisions: ClusterRevisions,
    rollouts: Rollouts,
    record: Record,
    approved: Approvals,
    offline: BTreeSet<ClusterName>,
    now: i64,
    restored: bool,
    known_rejected: BTreeMap<GroupName, Digest>,
    /// The hub has no place for the record.
    no_record: bool,
    has_errors: bool,
}

impl World {
    fn new(group: &str) -> Self {
        let files = files(&[("groups/g/group.yaml", group)]);
        let mut world = Self {
            files,
            commits: None,
            hub: BTreeMap::new(),
            seen: BTreeMap::new(),
            desired: None,
            revisions: ClusterRevisions::default(),
            rollouts: Rollouts::default(),
            record: Record::default(),
            approved: Approvals::default(),
            offline: BTreeSet::new(),
            now: 1_000_000,
            restored: false,
            known_rejected: BTreeMap::new(),
            no_record: false,
            has_errors: false,
        };
        world.set_content("1");
        world
    }

    /// The first content is on all clusters.
    fn rolled_out(group: &str) -> Self {
        let mut world = Self::new(group);
        let with_waves = world.files.clone();
        world.files.extend(files(&[("groups/g/group.yaml", "clusters: [a, b, c, d, e]")]));
        world.pass();
        world.files = with_waves;
        assert_eq!(world.pass(), ["a", "b", "c", "d", "e"], "what they have is marked");
        world.report(&["a", "b", "c", "d", "e"], Report::Healthy);
        world.now += 1_000;
        assert_eq!(world.pass(), Vec::<String>::new());
        world.now += 1_000;
        world.set_content("2");
        world
    }

    fn set_content(&mut self, version: &str) {
        let map = |name: &str, version: &str| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: x, name: {name}}}\ndata: \
                 {{v: '{version}'}}\n"
            )
        };
        let pair = [("groups/g/web/x.yaml", map("web", version))];
        let pair = pair.iter().map(|(path, text)| (*path, text.as_str())).collect::<Vec<_>>();
        self.files.extend(files(&pair));
        // The other work of the group does not change.
        self.files.extend(files(&[("groups/g/other/x.yaml", &map("other", "1"))]));
    }

    fn observed(&self) -> Observed {
        let works = self.hub.values().cloned().map(ObservedWork::from_manifest_work);
        let works = works.map(|work| work.unwrap());
        let content = |work: &Value| WorkContent::from_manifest_work(work.clone());
        Observed {
            works: works.map(|work| (work.key.clone(), work)).collect(),
            contents: self.hub.iter().map(|(key, work)| (key.clone(), content(work))).collect(),
            ..Observed::default()
        }
    }

    /// Renders the files. If they are committed, clusters keep or get earlier contents.
    fn render(&mut self) -> Desired {
        let Some((repository, renderer)) = &mut self.commits else {
            return render(&self.files, "[]");
        };
        let root = repository.add(&self.files);
        let contents = self.rollouts.earlier().cloned().unwrap_or_default();
        // A commit has the id of its tree.
        let commits = contents.values().flat_map(|group| group.commits.values());
        let roots = commits.map(|commit| (*commit, *commit)).collect();
        renderer.set_earlier(Arc::new(contents), roots);
        renderer.render(&Snapshot { commit: Some(root), root, objects: repository }).unwrap()
    }

    /// Plans, without doing anything. What is rendered follows from the contents that clusters are
    /// to have, and these from what is rendered.
    fn plan(&mut self) -> Plan {
        for _ in 0..4 {
            let before = self.rollouts.earlier().cloned();
            let plan = self.plan_once();
            if self.commits.is_none() || self.rollouts.earlier() == before.as_ref() {
                return plan;
            }
        }
        panic!("the contents that clusters are to have change without end")
    }

    fn plan_once(&mut self) -> Plan {
        let (desired, observed) = (self.render(), self.observed());
        let has_errors = desired.diagnostics.iter().any(Diagnostic::is_error);
        assert_eq!(has_errors, self.has_errors, "{desired:?}");
        let last_known = LastKnownStates::new();
        let restored = Approval::Restored { source: desired.source.clone(), record_generation: 1 };
        let mut policy = PlanPolicy {
            approved: self.approved.clone(),
            restored: self.restored.then(|| restored.into()),
            ..PlanPolicy::default()
        };
        let desired = match &self.desired {
            Some(before) if format!("{before:?}") == format!("{desired:?}") => before.clone(),
            _ => Arc::new(desired),
        };
        self.desired = Some(desired.clone());
        let (observed, last_known) = (&observed, &last_known);
        let now = self.hub.iter().filter(|(key, work)| self.seen.get(*key) != Some(work));
        let gone = self.seen.keys().filter(|key| !self.hub.contains_key(*key));
        let changed: Vec<&WorkKey> = now.map(|(key, _)| key).chain(gone).collect();
        changed.into_iter().for_each(|key| self.revisions.mark(&key.cluster));
        self.seen = self.hub.clone();
        policy.rollout_waits = self.rollouts.update(RolloutInputs {
            plan: PlanInputs { desired: &desired, observed, last_known, policy: &policy },
            desired: &desired,
            revisions: &self.revisions,
            recorded: &self.record.rollouts,
            known_rejected: &self.known_rejected,
            offline: &self.offline,
            now: Timestamp::from_second(self.now).unwrap(),
            zone: &|_| None,
        });
        let desired = &*desired;
        let plan = plan(desired, observed, last_known, &policy);
        let inputs = PlanInputs { desired, observed, last_known, policy: &policy };
        assert_eq!(lint::check(&plan, inputs), []);
        plan
    }

    /// One pass: the clusters that are written to, each once.
    fn pass(&mut self) -> Vec<String> {
        let plan = self.plan();
        let inputs = RecordInputs {
            rollouts: Some(self.rollouts.records()),
            nothing_is_held: true,
            ..RecordInputs::default()
        };
        if let Some(record) = Record::next(Some(&self.record), &inputs).filter(|_| !self.no_record)
        {
            assert_eq!(Record::read(&record.text()), Ok(record.clone()));
            self.record = record;
        }
        let mut written = BTreeSet::new();
        for (step, effect) in plan.effects() {
            written.insert(step.key.cluster.to_string());
            let Some(body) = effect.body() else {
                self.hub.remove(&step.key);
                continue;
            };
            let mut work = body.to_manifest_work(&step.key, None);
            let before = self.hub.get(&step.key);
            let old = before.map(|before| before["metadata"]["generation"].as_i64().unwrap());
            let is_same = before.is_some_and(|before| before["spec"] == work["spec"]);
            let generation = old.unwrap_or_default() + i64::from(!is_same);
            work["metadata"]["generation"] = generation.into();
            work["metadata"]["uid"] = step.key.to_string().into();
            work["metadata"]["resourceVersion"] = "1".into();
            work["metadata"]["finalizers"] = json!([AGENT_FINALIZER]);
            work["status"] = before.map(|before| before["status"].clone()).unwrap_or_default();
            self.hub.insert(step.key.clone(), work);
        }
        written.into_iter().collect()
    }

    fn report(&mut self, clusters: &[&str], report: Report) {
        for (key, work) in &mut self.hub {
            if !clusters.contains(&key.cluster.as_str()) {
                continue;
            }
            let generation = work["metadata"]["generation"].clone();
            let applied = if report == Report::NotApplied { "False" } else { "True" };
            let about = json!({"observedGeneration": generation});
            let condition = |kind: &str, status: &str| {
                let mut condition = about.clone();
                (condition["type"], condition["status"]) = (kind.into(), status.into());
                condition
            };
            let mut objects = vec![condition("Applied", applied)];
            if report != Report::NotRead {
                let mut available = condition("Available", "True");
                if !matches!(report, Report::DegradedAtGeneration(_)) {
                    available["observedGeneration"] = Value::Null;
                }
                objects.push(available);
            }
            if let Report::Degraded(since) | Report::DegradedAtGeneration(since) = report {
                let mut degraded = condition("Degraded", "True");
                let since = Timestamp::from_second(since).unwrap().to_string();
                degraded["lastTransitionTime"] = since.into();
                objects.push(degraded);
            }
            work["status"] = json!({
                "conditions": [condition("Applied", applied), condition("Available", "True")],
                "resourceStatus": {"manifests": [{"conditions": objects}]},
            });
        }
    }

    fn reason(&mut self, cluster: &str) -> String {
        let plan = self.plan();
        let step = plan.steps.iter().find(|step| step.key.to_string() == format!("{cluster}/web"));
        step.unwrap().reason.to_string()
    }

    /// Approves what `cluster` waits for.
    fn approve(&mut self, cluster: &str) {
        let plan = self.plan();
        let step = plan.steps.iter().find(|step| step.key.to_string() == format!("{cluster}/web"));
        let Reason::HeldByRollout { wait } = &step.unwrap().reason else { panic!("{step:?}") };
        let (approval, hash) = wait.approval.as_ref().unwrap();
        let read = Approval::read(&hash.to_string(), &approval.text()).unwrap();
        let source = render(&self.files, "[]").source;
        self.approved.add(&source, read);
    }

    /// How far the rollout of the group has come, as of the last plan.
    fn progress(&self) -> String {
        let [rollout] = self.rollouts.progress() else { panic!("one group") };
        let waves = rollout.waves.iter().map(|wave| format!("\n{wave}"));
        format!("{rollout}{}", waves.collect::<String>())
    }

    fn restart(&mut self) {
        self.rollouts = Rollouts::default();
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn clusters_get_the_content_in_waves() {
    let mut world = World::rolled_out(WAVES);
    assert_eq!(world.pass(), ["a"]);
    assert_eq!(world.pass(), NOTHING);
    let expected = "changed in Git; waits for the last wave of group g; wave lab has not ended";
    assert_eq!(world.reason("d"), expected);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING, "it soaks");
    assert_eq!(
        world.progress(),
        "group g: wave 1/3 lab, 0/5 clusters, soaking until 1970-01-12T14:21:00Z\nwave lab, 1 \
         cluster: 1 soaking\nwave town, 2 clusters: 2 waiting\nthe last wave, 2 clusters: 2 \
         waiting"
    );
    world.now += 59;
    assert_eq!(world.pass(), NOTHING);
    world.now += 1;
    assert_eq!(world.pass(), NOTHING, "the next wave needs an approval");
    assert!(world.reason("b").starts_with("held: waits for wave town of group g, which nobody"));
    let chain = "changed in Git; waits for the last wave of group g; wave town has not ended, and \
                 nobody has approved it";
    assert_eq!(world.reason("d"), chain);
    let held = "group g: wave 2/3 town, 1/5 clusters; waits for wave town of group g, which nobody \
                has approved; `gitwork approve ";
    assert!(world.progress().starts_with(held), "{}", world.progress());
    world.approve("b");
    assert_eq!(world.pass(), ["b"]);
    assert_eq!(world.pass(), NOTHING);
    assert_eq!(world.reason("c"), "changed in Git; waits for its turn in wave town of group g");
    world.report(&["b"], Report::Healthy);
    assert_eq!(world.pass(), ["c"]);
    world.report(&["c"], Report::Healthy);
    assert_eq!(world.pass(), ["d", "e"]);
    world.report(&["d", "e"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING);
    assert_eq!(world.rollouts.recheck(), None);
    assert_eq!(
        world.progress(),
        "group g: 5/5 clusters: the rollout has ended\nwave lab, 1 cluster: 1 done\nwave town, 2 \
         clusters: 2 done\nthe last wave, 2 clusters: 2 done"
    );
}

#[test]
fn an_approval_counts_for_its_content_and_wave_only() {
    let mut world = World::rolled_out(WAVES);
    assert_eq!(world.pass(), ["a"]);
    world.approve("b");
    world.set_content("3");
    assert_eq!(world.pass(), ["a"], "a newer content goes out at once");
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING);
    world.now += 60;
    assert_eq!(world.pass(), NOTHING);
    assert!(world.reason("b").contains("which nobody has approved"));
}

#[test]
fn a_wave_that_was_empty_needs_its_approval_when_a_cluster_joins() {
    let of = |members: &str| WAVES.replace("[a, b, c, d, e]", members);
    let mut world = World::new(&of("[a, d]"));
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING, "it soaks");
    world.now += 60;
    assert_eq!(world.pass(), ["d"], "the wave between them is empty");
    world.report(&["d"], Report::Healthy);
    world.files.extend(files(&[("groups/g/group.yaml", &of("[a, b, d]"))]));
    assert_eq!(world.pass(), NOTHING);
    assert!(world.reason("b").contains("which nobody has approved"));
    world.approve("b");
    assert_eq!(world.pass(), ["b"]);
}

#[test]
fn a_cluster_that_joins_an_early_wave_late_soaks_before_a_further_wave_begins() {
    let of = |members: &str| WAVES.replace("[a, b, c, d, e]", members);
    let mut world = World::new(&of("[b, c, d]"));
    assert_eq!(world.pass(), NOTHING);
    world.approve("b");
    assert_eq!(world.pass(), ["b"]);
    world.report(&["b"], Report::Healthy);
    world.files.extend(files(&[("groups/g/group.yaml", &of("[a, b, c, d]"))]));
    assert_eq!(world.pass(), ["a"]);
    assert_eq!(world.pass(), NOTHING);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), ["c"], "its wave has begun");
    world.report(&["c"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING, "it soaks");
    world.now += 59;
    assert_eq!(world.pass(), NOTHING);
    world.now += 1;
    assert_eq!(world.pass(), ["d"]);
}

/// The record is written before the clusters of the wave get the content.
#[test]
fn a_wave_of_which_no_cluster_has_the_content_has_not_begun() {
    let of = |members: &str| WAVES.replace("[a, b, c, d, e]", members);
    let mut world = World::new(&of("[b]"));
    world.approve("b");
    let hub = world.hub.clone();
    assert_eq!(world.pass(), ["b"]);
    // The leader stops before its first write.
    world.hub = hub;
    world.restart();
    world.files.extend(files(&[("groups/g/group.yaml", &of("[a, b]"))]));
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING, "it soaks");
    world.now += 60;
    assert_eq!(world.pass(), ["b"]);
}

#[test]
fn what_stands_on_the_hub_from_before_is_no_evidence() {
    let mut world = World::rolled_out(WAVES);
    assert_eq!(world.pass(), ["a"]);
    // The status is still about the generation before.
    assert_eq!(world.pass(), NOTHING);
    world.now += 299;
    assert_eq!(world.pass(), NOTHING);
    world.now += 1;
    assert_eq!(world.pass(), NOTHING);
    assert!(world.reason("d").contains("stopped: in wave lab, it failed on a;"), "too late");
}

#[test]
fn failures_stop_the_rollout_until_somebody_continues_it_or_the_content_changes() {
    for restarts in [false, true] {
        let mut world = World::rolled_out(WAVES);
        assert_eq!(world.pass(), ["a"]);
        world.report(&["a"], Report::Degraded(world.now));
        assert_eq!(world.pass(), NOTHING);
        assert!(world.record.rollouts.values().all(|one| one.rejected.is_none()), "too early");
        world.now += 120;
        assert_eq!(world.pass(), NOTHING);
        assert!(world.record.rollouts.values().all(|one| one.rejected.is_some()));
        // The cluster recovers: nobody has said that the others may get the content.
        world.report(&["a"], Report::Healthy);
        world.now += 1_000;
        if restarts {
            world.restart();
        }
        assert_eq!(world.pass(), NOTHING);
        assert!(world.reason("b").contains("stopped: in wave lab, it failed on a;"));
        assert!(world.reason("d").contains("stopped: in wave lab, it failed on a;"));
        world.approve("b");
        world.now += 60;
        assert_eq!(world.pass(), NOTHING);
        world.now += 60;
        world.pass();
        assert!(world.reason("b").contains("which nobody has approved"), "it continues");
        world.set_content("3");
        assert_eq!(world.pass(), ["a"]);
    }
}

#[test]
fn health_counts_at_once_if_the_agent_says_at_which_generation_it_looked() {
    let group = format!("{WAVES}  progressDeadline: 60s\n");
    for (report, stops_at) in [
        (Report::DegradedAtGeneration as fn(i64) -> Report, 0),
        // OCM's agent may speak of the objects before the update, however short the deadline is.
        (Report::Degraded, 120),
    ] {
        let mut world = World::rolled_out(&group);
        assert_eq!(world.pass(), ["a"]);
        world.report(&["a"], report(world.now));
        let begun = world.now;
        while world.pass().is_empty() && !world.progress().contains("stopped") {
            let next = world.rollouts.recheck().expect("something is waited for").as_second();
            assert!(next > world.now, "time goes on");
            world.now = next;
        }
        assert_eq!(world.now - begun, stops_at, "{}", world.progress());
    }
    let mut world = World::rolled_out(&group);
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::Degraded(world.now));
    world.now += 119;
    assert_eq!(world.pass(), Vec::<String>::new());
    world.report(&["a"], Report::Healthy);
    world.now += 1;
    assert_eq!(world.pass(), Vec::<String>::new());
    assert!(!world.progress().contains("stopped"), "{}", world.progress());
}

#[test]
fn objects_that_the_agent_has_not_read_yet_are_not_healthy() {
    let mut world = World::rolled_out(
        "clusters: [a, b, c, d, e]\nrollout: {type: Progressive, progressive: {maxConcurrency: 1}}",
    );
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::NotRead);
    assert_eq!(world.pass(), NOTHING);
    world.report(&["a"], Report::Healthy);
    assert_eq!(world.pass(), ["b"]);
}

#[test]
fn a_failure_after_an_approved_retry_stops_the_rollout_again() {
    let group = "clusters: [a, b, c, d, e]\nrollout: {type: Progressive, progressive: \
                 {maxConcurrency: 1}}\n";
    let mut world = World::rolled_out(group);
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::NotApplied);
    world.pass();
    world.now += 300;
    assert_eq!(world.pass(), NOTHING);
    world.approve("b");
    assert_eq!(world.pass(), ["b"], "the cluster that failed is excused");
    world.report(&["b"], Report::NotApplied);
    world.pass();
    world.now += 300;
    assert_eq!(world.pass(), NOTHING);
    assert!(world.reason("c").contains("it failed on b"), "{}", world.reason("c"));
    let record = world.record.rollouts.values().next().unwrap();
    assert_eq!((record.retries, record.excused.len()), (1, 1));
    // A fix goes first to where the content failed.
    world.set_content("3");
    assert_eq!(world.pass(), ["b"]);
}

#[test]
fn concurrency_is_kept_whatever_the_order_of_events() {
    let group = "clusters: [a, b, c, d, e]\nrollout: {type: Progressive, progressive: \
                 {maxConcurrency: '40%', maxFailures: 1, progressDeadline: 10m}}\n";
    let mut world = World::rolled_out(group);
    assert_eq!(world.pass(), ["a", "b"]);
    world.restart();
    assert_eq!(world.pass(), NOTHING);
    world.report(&["b"], Report::Healthy);
    assert_eq!(world.pass(), ["c"]);
    world.report(&["a"], Report::NotApplied);
    assert_eq!(world.pass(), NOTHING);
    world.now += 600;
    assert_eq!(world.pass(), NOTHING, "c is too late as well: two have failed");
    assert!(world.reason("d").contains("it failed on a, c"));
}

#[test]
fn offline_clusters_are_no_failures_and_catch_up() {
    let mut world = World::rolled_out(WAVES);
    world.offline.insert(ClusterName::parse("a").unwrap());
    assert_eq!(world.pass(), ["a"]);
    world.approve("b");
    assert_eq!(world.pass(), NOTHING);
    world.now += 299;
    assert_eq!(world.pass(), NOTHING);
    world.now += 1;
    assert_eq!(world.pass(), ["b"]);
    world.offline.clear();
    world.report(&["a", "b"], Report::Healthy);
    assert_eq!(world.pass(), ["c"]);
}

#[test]
fn a_cluster_that_joins_waits_for_its_wave_and_facts_do_not() {
    let mut world = World::rolled_out(WAVES);
    assert_eq!(world.pass(), ["a"]);
    let joined = WAVES.replace("clusters: [a, b, c, d, e]", "clusters: [a, b, c, d, e, f]");
    world.files.extend(files(&[("groups/g/group.yaml", &joined)]));
    assert_eq!(world.pass(), NOTHING, "membership begins no rollout");
    assert!(world.reason("f").contains("waits for the last wave"));
}

#[test]
fn a_work_that_leaves_the_group_leaves_by_the_same_waves() {
    let mut world = World::rolled_out(WAVES);
    world.set_content("1");
    world.files.remove("groups/g/other/x.yaml");
    let plan = world.plan();
    let codes: BTreeMap<String, &str> =
        plan.steps.iter().map(|step| (step.key.to_string(), step.reason.code())).collect();
    assert_eq!(codes["b/other"], "HeldByRollout");
    assert_eq!(codes["d/other"], "WaitsForWave");
    assert_eq!(codes["a/web"], "GroupChanged");
    assert!(!codes["a/other"].contains("W"), "{}", codes["a/other"]);
}

#[test]
fn no_wave_begins_on_a_restored_hub() {
    let mut world = World::rolled_out(WAVES);
    world.restored = true;
    assert_eq!(world.pass(), NOTHING);
    let reason = world.reason("a");
    assert!(reason.contains("confirms that the hub was restored; `gitwork approve"), "{reason}");
    world.restored = false;
    assert_eq!(world.pass(), ["a"]);
}

#[test]
fn a_restored_hub_does_not_forget_what_the_status_branch_calls_rejected() {
    let mut world = World::rolled_out(WAVES);
    world.plan();
    let [control] = world.rollouts.controls() else { panic!("one group") };
    let (group, content) = (control.group.clone(), control.content);
    // Another content, or a hub that was not restored: it counts for nothing.
    world.known_rejected = [(group.clone(), Digest::of(b"another"))].into();
    world.restored = true;
    assert_eq!(world.pass(), NOTHING);
    assert_eq!(world.record.rollouts[&group].rejected, None);
    world.known_rejected = [(group.clone(), content)].into();
    assert_eq!(world.pass(), NOTHING);
    assert!(world.record.rollouts[&group].rejected.is_some());
    world.restart();
    world.restored = false;
    assert_eq!(world.pass(), NOTHING, "the hub is confirmed, and the content stays rejected");
    world.set_content("3");
    assert_eq!(world.pass(), ["a"]);
    world.report(&["a"], Report::Healthy);
    world.known_rejected = [(group.clone(), world.record.rollouts[&group].content)].into();
    assert_eq!(world.pass(), NOTHING, "it soaks");
    assert_eq!(world.record.rollouts[&group].rejected, None);
}

#[test]
fn a_window_of_a_wave_opens_at_its_time() {
    let group = "clusters: [a, b, c, d, e]\nrollout: {waves: [{name: all, clusters: ['*'], window: \
                 {allow: [{start: '22:00', end: '23:00'}]}}]}\n";
    let mut world = World::rolled_out(group);
    // 1970-01-12T14:20.
    assert_eq!(world.pass(), NOTHING);
    let opens = "1970-01-12T22:00:00Z";
    assert!(world.reason("a").ends_with(&format!("whose window opens at {opens}")));
    assert_eq!(world.rollouts.recheck(), Some(opens.parse().unwrap()));
    world.now = opens.parse::<Timestamp>().unwrap().as_second();
    assert_eq!(world.pass(), ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_suspended_cluster_delays_no_wave() {
    let mut world = World::rolled_out(WAVES);
    world.files.extend(files(&[("clusters/a/cluster.yaml", "suspend: true")]));
    assert_eq!(world.pass(), NOTHING);
    world.approve("b");
    assert_eq!(world.pass(), ["b"]);
}

#[test]
fn a_change_that_reaches_some_clusters_waits_on_these_only() {
    let mut world = World::rolled_out(WAVES);
    world.set_content("1");
    let group = format!("{WAVES}overrides: [{{clusters: [d], values: {{A: b}}}}]\n");
    world.files.extend(files(&[("groups/g/group.yaml", &group)]));
    // No manifest uses the value: the works are only marked with the new content.
    assert_eq!(world.pass(), ["a", "b", "c", "d", "e"]);
    assert_eq!(world.pass(), NOTHING);
}

#[test]
fn a_cluster_whose_works_cannot_be_read_keeps_its_wave_from_ending() {
    let mut world = World::rolled_out(WAVES);
    world.files.extend(files(&[("clusters/a/cluster.yaml", "labels: 3")]));
    world.has_errors = true;
    assert_eq!(world.pass(), NOTHING);
    world.now += 10_000;
    assert_eq!(world.pass(), NOTHING);
    assert!(world.reason("d").contains("wave lab has not ended"), "{}", world.reason("d"));
    assert!(world.record.rollouts.values().all(|one| one.rejected.is_none()));
    world.files.remove("clusters/a/cluster.yaml");
    world.has_errors = false;
    assert_eq!(world.pass(), ["a"]);
}

#[test]
fn a_cluster_of_an_unknown_wave_is_taken_for_one_of_the_first() {
    let group = "clusters: [a, b, c, d, e]\nrollout: {waves: [{name: lab, selector: \
                 {labelSelector: {matchLabels: {purpose: lab}}}}]}\n";
    let mut world = World::rolled_out(group);
    assert_eq!(world.pass(), NOTHING, "there are no facts");
    assert!(world.reason("d").contains("facts do not say whether it is in wave lab"));
    for (cluster, purpose) in [("a", "x"), ("b", "x"), ("c", "lab"), ("d", "x")] {
        let (path, text) =
            (format!("clusters/{cluster}/cluster.yaml"), format!("labels: {{purpose: {purpose}}}"));
        world.files.extend(files(&[(path.as_str(), text.as_str())]));
    }
    assert_eq!(world.pass(), ["c"]);
    world.report(&["c"], Report::Healthy);
    assert_eq!(world.pass(), NOTHING, "e may be in the wave");
    let label = [("clusters/e/cluster.yaml", "labels: {purpose: x}")];
    world.files.extend(files(&label));
    assert_eq!(world.pass(), ["a", "b", "d", "e"]);
}
