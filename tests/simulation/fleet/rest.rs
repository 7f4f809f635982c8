//! The end of a world: all faults stop, and it has to come to rest as Git wants it.

use std::time::Duration;

use serde_json::{Value, json};

use gitwork::core::name::WorkKey;
use gitwork::core::work::DeleteOption;

use super::check::differs;
use super::git::{Git, Wanted};
use super::line::Weather;
use super::process::Process;
use super::run::World;
use crate::simulation::agents::identity;
use crate::simulation::hub::{generation, is_deleting};
use crate::simulation::world::{GitWork, SOURCE, manifest};

/// The longest wait after a refusal is 15 minutes and a quarter; then a deletion takes an option, an agent, a
/// deletion and an agent again.
const TO_REST: [u64; 8] = [60, 300, 400, 450, 60, 60, 60, 60];
/// So long nothing may be written then.
const REST: Duration = Duration::from_secs(700);

impl World {
    pub(super) async fn come_to_rest(&mut self) {
        self.mend();
        for seconds in TO_REST {
            self.settle();
            self.approve();
            self.wait(Duration::from_secs(seconds)).await;
        }
        self.settle();
        self.wait(Duration::from_secs(30)).await;
        let writes = self.hub.writes();
        self.wait(REST).await;
        if self.hub.writes() != writes {
            self.checker.fail(|| "it does not come to rest".into());
        }
        self.check_rest();
        // A new process finds nothing to do.
        self.processes.drain(..).for_each(Process::kill);
        self.start();
        self.wait(Duration::from_secs(30)).await;
        if self.hub.writes() != writes {
            self.checker.fail(|| "a restart costs writes".into());
        }
    }

    fn mend(&mut self) {
        self.checker.trace(|| "all faults stop".into());
        self.wall.set_to_noon();
        self.git.drop_unsigned();
        self.weather = Weather::default();
        self.git.set_away(false);
        self.git.set_damaged(false);
        let mut agents = self.checker.agents.lock().unwrap();
        agents.failing.clear();
        agents.cut.clear();
        drop(agents);
        self.stepped.clear();
        self.regain_clusters();
        let neighbour = self.neighbour.as_ref().and_then(|neighbour| neighbour.process.as_ref());
        for process in self.processes.iter().chain(neighbour) {
            process.set_weather(self.weather);
            process.mend_line();
        }
        let (_, mut wanted) = self.git.head();
        wanted.mend();
        self.git.push(wanted);
        self.processes.iter().for_each(Process::hint);
    }

    fn check_rest(&self) {
        self.check_source(SOURCE, &self.git);
        if let Some(neighbour) = &self.neighbour {
            self.check_source(neighbour.id.as_str(), &neighbour.git);
        }
        self.check_clusters();
    }

    fn check_source(&self, source: &str, git: &Git) {
        let (_, wanted) = git.head();
        for (key, work) in self.hub.objects() {
            if let Err(why) = self.at_rest(source, &wanted, &key, &work) {
                self.checker.fail(|| format!("at rest, {key} of {source} {why}"));
            }
        }
        if let Some(key) = wanted.works.keys().find(|key| self.hub.object(key).is_none()) {
            self.checker.fail(|| format!("at rest, {key} of {source} is not there"));
        }
    }

    fn at_rest(
        &self,
        source: &str,
        wanted: &Wanted,
        key: &WorkKey,
        work: &Value,
    ) -> Result<(), String> {
        let metadata = &work["metadata"];
        let ours = metadata["labels"]["gitwork.dev/source"] == source;
        let Some(in_git) = wanted.works.get(key) else {
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
            return if consent { Err("is not taken over".into()) } else { Ok(()) };
        }
        if let Some(how) = differs(key, in_git, work) {
            return Err(format!("differs: Git wants {how}"));
        }
        if metadata["annotations"].get("gitwork.dev/newcomer").is_some() {
            return Err("has the mark of a newcomer, and nothing is held".into());
        }
        self.on_the_cluster(key, in_git, work)
    }

    /// The agent says that all is well, the objects are on the cluster as Git wants them, and just those that are to go
    /// with the work are its own.
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
                DeleteOption::Foreground => true,
                DeleteOption::Orphan => false,
                DeleteOption::SelectivelyOrphan(rules) => !rules.contains(&object.1),
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

    /// Nothing is on a cluster that no work has, but for what is to stay, and all that others made is there.
    fn check_clusters(&self) {
        let agents = self.checker.agents.lock().unwrap();
        if let Some(object) = agents.left_behind() {
            self.checker.fail(|| format!("at rest, {object:?} is left behind"));
        }
        if let Some(key) = agents.not_evicted(&self.hub) {
            self.checker.fail(|| format!("at rest, {key} is gone and still on its cluster"));
        }
        for object in &self.foreign {
            if agents
                .get(object)
                .is_none_or(|live| live.object["data"] != json!({"text": "theirs"}))
            {
                self.checker.fail(|| format!("at rest, {object:?} is not as its owner made it"));
            }
        }
    }
}
