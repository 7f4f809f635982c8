//! The end of a world: all faults stop, and it has to come to rest as Git wants it.

use std::time::Duration;

use serde_json::Value;

use gitwork::core::name::WorkKey;
use gitwork::core::work::DeleteOption;

use super::check::differs;
use super::git::Wanted;
use super::line::Weather;
use super::process::Process;
use super::run::World;
use crate::simulation::agents::identity;
use crate::simulation::hub::is_deleting;
use crate::simulation::world::{SOURCE, manifest};

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
        self.weather = Weather::default();
        self.git.set_away(false);
        self.git.set_damaged(false);
        self.checker.agents.lock().unwrap().failing.clear();
        self.stepped.clear();
        for process in &self.processes {
            process.set_weather(self.weather);
            process.mend_line();
        }
        let (_, mut wanted) = self.git.head();
        wanted.mend();
        self.git.push(wanted);
        self.processes.iter().for_each(Process::hint);
    }

    fn check_rest(&self) {
        let (_, wanted) = self.git.head();
        for (key, work) in self.hub.objects() {
            if let Err(why) = self.at_rest(&wanted, &key, &work) {
                self.checker.fail(|| format!("at rest, {key} {why}"));
            }
        }
        if let Some(key) = wanted.works.keys().find(|key| self.hub.object(key).is_none()) {
            self.checker.fail(|| format!("at rest, {key} is not there"));
        }
    }

    fn at_rest(&self, wanted: &Wanted, key: &WorkKey, work: &Value) -> Result<(), String> {
        let metadata = &work["metadata"];
        let ours = metadata["labels"]["gitwork.dev/source"] == SOURCE;
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
            let consent = metadata["annotations"]["gitwork.dev/adopt"] == SOURCE;
            return if consent { Err("is not taken over".into()) } else { Ok(()) };
        }
        if let Some(how) = differs(key, in_git, work) {
            return Err(format!("differs: Git wants {how}"));
        }
        if metadata["annotations"].get("gitwork.dev/newcomer").is_some() {
            return Err("has the mark of a newcomer, and nothing is held".into());
        }
        self.on_the_cluster(key, &in_git.delete_option, &in_git.objects, work)
    }

    /// The objects are on the cluster, and those that would go with the work are its own.
    fn on_the_cluster(
        &self,
        key: &WorkKey,
        option: &DeleteOption,
        objects: &[&str],
        work: &Value,
    ) -> Result<(), String> {
        let complete = work["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|c| c["type"] == "Complete"));
        if complete {
            return Ok(());
        }
        let agents = self.checker.agents.lock().unwrap();
        let uid = work["metadata"]["uid"].as_str().unwrap_or_default();
        for name in objects {
            let object = (key.cluster.clone(), identity(&manifest(key, name, "")));
            let Some(owners) = agents.objects.get(&object) else {
                return Err(format!("lacks its object {name} on the cluster"));
            };
            let goes = match option {
                DeleteOption::Foreground => true,
                DeleteOption::Orphan => false,
                DeleteOption::SelectivelyOrphan(rules) => !rules.contains(&object.1),
            };
            if owners.contains(uid) != goes {
                return Err(format!("has its object {name} with the wrong owner"));
            }
        }
        Ok(())
    }
}
