//! The end of a world. All faults stop, and the world must converge to the state in Git.

use std::time::Duration;

use serde_json::{Value, json};

use gitwork_core::model::name::WorkKey;
use gitwork_core::model::work::DeletionPolicy;

use super::check::differs;
use super::connection::FaultRates;
use super::git::{CommitContent, Git};
use super::process::Process;
use super::run::World;
use crate::simulation::agents::identity;
use crate::simulation::hub::{generation, is_deleting};
use crate::simulation::world::{GitWork, SOURCE, manifest};

/// The longest retry wait is 15 minutes and a quarter. Then a deletion takes an option, an agent, a
/// deletion and an agent again.
const CONVERGENCE_WAITS: [u64; 8] = [60, 300, 400, 450, 60, 60, 60, 60];
/// After convergence nothing may be written for this long.
const QUIET_TIME: Duration = Duration::from_secs(700);

impl World {
    pub(super) async fn converge(&mut self) {
        self.stop_faults();
        for seconds in CONVERGENCE_WAITS {
            self.settle();
            self.approve();
            self.wait(Duration::from_secs(seconds)).await;
        }
        self.settle();
        self.wait(Duration::from_secs(30)).await;
        let writes = self.hub.writes();
        self.wait(QUIET_TIME).await;
        if self.hub.writes() != writes {
            self.checker.fail(|| "it does not converge".into());
        }
        self.check_converged();
        // A new process finds nothing to do.
        self.processes.drain(..).for_each(Process::kill);
        self.start();
        self.wait(Duration::from_secs(30)).await;
        if self.hub.writes() != writes {
            self.checker.fail(|| "a restart costs writes".into());
        }
    }

    fn stop_faults(&mut self) {
        self.checker.trace(|| "all faults stop".into());
        self.machine_clock.set_to_noon();
        self.git.drop_unsigned();
        self.fault_rates = FaultRates::default();
        self.git.set_away(false);
        self.git.set_damaged(false);
        let mut agents = self.checker.agents.lock().unwrap();
        agents.failing.clear();
        agents.cut.clear();
        drop(agents);
        self.acted_on.clear();
        self.create_missing_namespaces();
        let second_source =
            self.second_source.as_ref().and_then(|second_source| second_source.process.as_ref());
        for process in self.processes.iter().chain(second_source) {
            process.set_fault_rates(self.fault_rates);
            process.restore_connection();
        }
        let (_, mut content) = self.git.head();
        content.fix_all();
        self.git.push(content);
        self.processes.iter().for_each(Process::hint);
    }

    fn check_converged(&self) {
        self.check_source(SOURCE, &self.git);
        if let Some(second_source) = &self.second_source {
            self.check_source(second_source.id.as_str(), &second_source.git);
        }
        self.check_clusters();
    }

    fn check_source(&self, source: &str, git: &Git) {
        let (_, content) = git.head();
        for (key, work) in self.hub.objects() {
            if let Err(why) = self.check_work(source, &content, &key, &work) {
                self.checker.fail(|| format!("after convergence, {key} of {source} {why}"));
            }
        }
        if let Some(key) = content.works.keys().find(|key| self.hub.object(key).is_none()) {
            self.checker.fail(|| format!("after convergence, {key} of {source} is not there"));
        }
    }

    fn check_work(
        &self,
        source: &str,
        content: &CommitContent,
        key: &WorkKey,
        work: &Value,
    ) -> Result<(), String> {
        let metadata = &work["metadata"];
        let ours = metadata["labels"]["gitwork.dev/source"] == source;
        let Some(in_git) = content.works.get(key) else {
            let complete = work["status"]["conditions"]
                .as_array()
                .is_some_and(|all| all.iter().any(|c| c["type"] == "Complete"));
            return match (ours, complete) {
                (true, false) => Err("is there, and Git does not have it".into()),
                _ => Ok(()),
            };
        };
        if is_deleting(work) {
            return Err("is being deleted".into());
        }
        if !ours {
            let consent = metadata["annotations"]["gitwork.dev/adopt"] == source;
            return if consent { Err("is not adopted".into()) } else { Ok(()) };
        }
        if let Some(how) = differs(key, in_git, work) {
            return Err(format!("differs: Git wants {how}"));
        }
        if metadata["annotations"].get("gitwork.dev/created-during-hold").is_some() {
            return Err("has the marker of a hold, and nothing is held".into());
        }
        self.on_the_cluster(key, in_git, work)
    }

    /// The agent reports success, the objects on the cluster are as Git wants them, and the work
    /// owns exactly the objects that go with it.
    fn on_the_cluster(&self, key: &WorkKey, in_git: &GitWork, work: &Value) -> Result<(), String> {
        let conditions = work["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let is_true = |kind: &str| {
            conditions.iter().find(|c| c["type"] == kind).filter(|c| c["status"] == "True")
        };
        if is_true("Complete").is_some() {
            return Ok(());
        }
        for kind in ["Applied", "Available"] {
            let observed =
                is_true(kind).and_then(|condition| condition["observedGeneration"].as_i64());
            if observed != Some(generation(work)) {
                return Err(format!("is not {kind}: {conditions:?}"));
            }
        }
        let agents = self.checker.agents.lock().unwrap();
        for name in &in_git.objects {
            let manifest = manifest(key, name, &in_git.text);
            let object = (key.cluster.clone(), identity(&manifest));
            let Some(live) = agents.get(&object) else {
                return Err(format!("lacks its object {name} on the cluster"));
            };
            let goes = match &in_git.delete_option {
                DeletionPolicy::Foreground => true,
                DeletionPolicy::Orphan => false,
                DeletionPolicy::SelectivelyOrphan(rules) => !rules.contains(&object.1),
            };
            if agents.goes_with(key, &object.1) != goes {
                return Err(format!("has its object {name} with the wrong owner"));
            }
            if live.object.get("data") != manifest.get("data") {
                return Err(format!("has its object {name} with {:?}", live.object.get("data")));
            }
        }
        Ok(())
    }

    /// A cluster has no object without a work, except objects that stay, and all objects of other
    /// owners exist.
    fn check_clusters(&self) {
        let agents = self.checker.agents.lock().unwrap();
        if let Some(object) = agents.left_behind() {
            self.checker.fail(|| format!("after convergence, {object:?} is left behind"));
        }
        if let Some(key) = agents.not_evicted(&self.hub) {
            self.checker
                .fail(|| format!("after convergence, {key} is gone and still on its cluster"));
        }
        for object in &self.foreign {
            if agents
                .get(object)
                .is_none_or(|live| live.object["data"] != json!({"text": "theirs"}))
            {
                self.checker
                    .fail(|| format!("after convergence, {object:?} is not as its owner made it"));
            }
        }
    }
}
