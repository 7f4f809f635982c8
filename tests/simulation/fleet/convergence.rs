//! The end of a world. All faults stop, and the world must converge to the state in Git.

use std::collections::BTreeSet;
use std::time::Duration;

use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::WorkKey;
use serde_json::{Value, json};

use super::check::differs;
use super::connection::FaultRates;
use super::git::{CommitContent, Git};
use super::process::Process;
use super::run::World;
use crate::agents::identity;
use crate::git_work::{GitWork, config_map, orphans, works_with};
use crate::hub::{generation, is_deleting};
use crate::moves::{disowns, is_complete, listed, manifests, may_own, moves_away};
use crate::world::SOURCE;

/// The longest retry wait is 15 minutes and a quarter. Then a deletion takes an option, an agent, a
/// deletion and an agent again.
const CONVERGENCE_WAITS: [u64; 8] = [60, 300, 400, 450, 60, 60, 60, 60];
/// An object may leave one work, and then another one, before it arrives. Each step waits for an
/// agent.
const MOVE_WAITS: usize = 8;
/// After convergence nothing may be written for this long.
const QUIET_TIME: Duration = Duration::from_secs(700);

fn source_of(work: &Value) -> Value {
    work["metadata"]["labels"]["gitwork.dev/source"].clone()
}

impl World {
    pub(super) async fn converge(&mut self) {
        if self.groups.is_some() {
            return self.converge_groups().await;
        }
        self.stop_faults();
        for seconds in CONVERGENCE_WAITS {
            self.settle();
            self.approve();
            self.wait(Duration::from_secs(seconds)).await;
        }
        if self.has_moves {
            for _ in 0..MOVE_WAITS {
                self.wait_while_agents_act(Duration::from_secs(30)).await;
                // Agents come back to each work after some minutes.
                self.acted_on.clear();
                self.settle();
                self.approve();
            }
        }
        self.settle();
        self.wait(Duration::from_secs(30)).await;
        let mut writes = self.hub.writes();
        self.wait(QUIET_TIME).await;
        if self.hub.writes() != writes {
            self.checker.fail(|| "it does not converge".into());
        }
        self.check_converged();
        // A new process finds nothing to do.
        self.replace_processes();
        self.wait(Duration::from_secs(30)).await;
        for _ in self.hub.objects() {
            if self.hub.writes() == writes || !self.a_receiver_is_foreign() {
                break;
            }
            // It has begun a move before it found that the name is taken. The works say so, and the
            // object may then move from another work.
            writes = self.hub.writes();
            self.replace_processes();
            self.wait(Duration::from_secs(30)).await;
        }
        if self.hub.writes() != writes {
            self.checker.fail(|| "a restart costs writes".into());
        }
    }

    /// Starts a new process in place of all others. It leads at once.
    pub(super) fn replace_processes(&mut self) {
        self.processes.drain(..).for_each(Process::kill);
        self.start();
        self.election.free();
    }

    /// Whether an object is to move to a work whose name another owner has on the hub.
    fn a_receiver_is_foreign(&self) -> bool {
        let (_, content) = self.git.head();
        let is_ours = |work: &Value| source_of(work) == SOURCE;
        let works = self.hub.objects();
        let taken = |key: &WorkKey| works.get(key).is_some_and(|work| !is_ours(work));
        let mut ours = works.iter().filter(|(_, work)| is_ours(work));
        ours.any(|(key, work)| {
            let leaving = listed(work).into_iter().filter(|id| moves_away(&content.works, key, id));
            leaving.into_iter().any(|id| works_with(&content.works, &key.cluster, &id).any(taken))
        })
    }

    pub(super) fn stop_faults(&mut self) {
        self.checker.trace(|| "all faults stop".into());
        // A clock that is set forward ends the soak of a wave.
        if !self.has_rollouts() {
            self.machine_clock.set_to_noon();
        }
        self.git.drop_unsigned();
        self.fault_rates = FaultRates::default();
        self.election.stop_faults();
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
            if let Err(why) = self.check_work((source, git), &content, &key, &work) {
                self.checker.fail(|| format!("after convergence, {key} of {source} {why}"));
            }
        }
        let is_missing = |key: &&WorkKey| {
            self.hub.object(key).is_none() && !self.waits_for_giver(git, &content, key)
        };
        if let Some(key) = content.works.keys().find(is_missing) {
            self.checker.fail(|| format!("after convergence, {key} of {source} is not there"));
        }
    }

    fn check_work(
        &self,
        (source, git): (&str, &Git),
        content: &CommitContent,
        key: &WorkKey,
        work: &Value,
    ) -> Result<(), String> {
        let metadata = &work["metadata"];
        let ours = metadata["labels"]["gitwork.dev/source"] == source;
        let Some(in_git) = content.works.get(key) else {
            let rests = is_complete(work) || self.rests_in_move((source, git), content, key, work);
            return match (ours, rests) {
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
        if self.rests_in_move((source, git), content, key, work)
            || self.is_complete_without_moved(source, key, in_git, work)
        {
            return Ok(());
        }
        let in_git = &self.in_git_beside_complete(in_git, key, work);
        if let Some(how) = differs(key, in_git, work) {
            return Err(format!("differs: Git wants {how}"));
        }
        if metadata["annotations"].get("gitwork.dev/created-during-hold").is_some() {
            return Err("has the marker of a hold, and nothing is held".into());
        }
        self.on_the_cluster(key, in_git, work)
    }

    /// Whether an object of the work can neither leave nor arrive: the agent does not act on one of
    /// both works because a user has set Complete there, or the receiving work is another owner's.
    fn rests_in_move(
        &self,
        (source, git): (&str, &Git),
        content: &CommitContent,
        key: &WorkKey,
        work: &Value,
    ) -> bool {
        let receives = |id: &Identity| {
            let receivers = works_with(&content.works, &key.cluster, id);
            receivers.filter_map(|to| self.hub.object(to)).any(|to| {
                is_complete(&to) || to["metadata"]["labels"]["gitwork.dev/source"] != source
            })
        };
        let mut leaving = listed(work).into_iter().filter(|id| moves_away(&content.works, key, id));
        leaving.any(|id| {
            is_complete(work) || receives(&id) || self.is_stopped(git, content, (key, work), &id)
        }) || self.waits_for_giver(git, content, key)
    }

    /// Whether an object that is to leave the work can only go on if all works that have it give it
    /// up, one after the other, and one of them is Complete.
    fn is_stopped(
        &self,
        git: &Git,
        content: &CommitContent,
        (key, work): (&WorkKey, &Value),
        id: &Identity,
    ) -> bool {
        let in_git = |key: &WorkKey| git.last_work(key).is_some_and(|it| it.disowns(id));
        let mut receivers = works_with(&content.works, &key.cluster, id);
        let is_orphaned = disowns(work, id) || in_git(key) || receivers.any(in_git);
        self.complete_beside(key).any(|(other, there)| {
            may_own(&there).contains(id) && (is_orphaned || disowns(&there, id) || in_git(&other))
        })
    }

    /// The other works of the cluster that a user has set Complete.
    fn complete_beside(&self, key: &WorkKey) -> impl Iterator<Item = (WorkKey, Value)> {
        self.hub.objects().into_iter().filter(move |(other, there)| {
            other != key && other.cluster == key.cluster && is_complete(there)
        })
    }

    /// The work as Git has it, but for objects that it is to own no longer and that a Complete work
    /// may still own. The agent of that one would delete such an object as soon as somebody makes
    /// it act again.
    fn in_git_beside_complete(&self, in_git: &GitWork, key: &WorkKey, work: &Value) -> GitWork {
        let listed = listed(work);
        let waits = |id: &Identity| {
            listed.contains(id) && in_git.has(id) && in_git.disowns(id) && !disowns(work, id)
        };
        let all = self.complete_beside(key).flat_map(|(_, there)| may_own(&there));
        let waiting: BTreeSet<Identity> = all.filter(waits).collect();
        if waiting.is_empty() { in_git.clone() } else { in_git.owning(&waiting) }
    }

    /// Whether a work that a user has set Complete lacks only objects that other works of the
    /// source keep: its agent would not apply them.
    fn is_complete_without_moved(
        &self,
        source: &str,
        key: &WorkKey,
        in_git: &GitWork,
        work: &Value,
    ) -> bool {
        let objects = self.hub.objects().into_iter().filter(|(other, there)| {
            other != key && other.cluster == key.cluster && source_of(there) == source
        });
        let kept: BTreeSet<Identity> = objects.flat_map(|(_, there)| listed(&there)).collect();
        let listed = listed(work);
        let has_arrived = |manifest: &Value| {
            let id = identity(manifest);
            listed.contains(&id) || !kept.contains(&id)
        };
        let wanted: Vec<Value> = in_git.manifests().into_iter().filter(has_arrived).collect();
        // The hub rejects a work without manifests, so it keeps what it had.
        is_complete(work) && (wanted.is_empty() || wanted == manifests(work))
    }

    /// Whether a work waits for an object of a work that a user has set Complete, or that cannot
    /// give it up because of such a work.
    fn waits_for_giver(&self, git: &Git, content: &CommitContent, key: &WorkKey) -> bool {
        let Some(in_git) = content.works.get(key) else { return false };
        let mut others = self.hub.objects().into_iter();
        let is_stopped = others.any(|(other, there)| {
            let leaves = |id: &Identity| {
                in_git.has(id)
                    && moves_away(&content.works, &other, id)
                    && self.is_stopped(git, content, (&other, &there), id)
            };
            other != *key && other.cluster == key.cluster && listed(&there).iter().any(leaves)
        });
        is_stopped
            || self.complete_beside(key).any(|(other, there)| {
                let listed = listed(&there);
                may_own(&there).iter().any(|id| {
                    moves_away(&content.works, &other, id)
                        && in_git.has(id)
                        && (listed.contains(id) || in_git.disowns(id))
                })
            })
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
        // An object that is only read may be missing.
        let reads = in_git.objects.values().any(|object| object.strategy == Some("ReadOnly"));
        let kinds: &[&str] = if reads { &["Applied"] } else { &["Applied", "Available"] };
        for kind in kinds {
            let observed =
                is_true(kind).and_then(|condition| condition["observedGeneration"].as_i64());
            if observed != Some(generation(work)) {
                return Err(format!("is not {kind}: {conditions:?}"));
            }
        }
        let agents = self.checker.agents.lock().unwrap();
        for (name, in_file) in &in_git.objects {
            let object = (key.cluster.clone(), config_map(name));
            let live = agents.get(&object);
            let is_read_only = in_file.strategy == Some("ReadOnly");
            let Some(live) = live else {
                if is_read_only {
                    continue;
                }
                return Err(format!("lacks its object {name} on the cluster"));
            };
            let goes = !orphans(&in_git.deletion_policy(), &object.1);
            if !is_read_only && agents.goes_with(key, &object.1) != goes {
                return Err(format!("has its object {name} with the wrong owner"));
            }
            if self.has_other_owner(key, &object.1) {
                continue;
            }
            let data = in_git.manifest(name)["data"].clone();
            if in_file.strategy.is_none() && live.object.get("data") != Some(&data) {
                return Err(format!("has its object {name} with {:?}", live.object.get("data")));
            }
        }
        Ok(())
    }

    /// Whether a work that the source does not own lists the object, too. Both write it.
    fn has_other_owner(&self, key: &WorkKey, id: &Identity) -> bool {
        let source = self.hub.object(key).map(|work| source_of(&work));
        let mut others = self
            .hub
            .objects()
            .into_iter()
            .filter(|(other, _)| other != key && other.cluster == key.cluster);
        others.any(|(_, work)| Some(source_of(&work)) != source && listed(&work).contains(id))
    }

    /// A cluster has no object without a work, except objects that stay, and all objects of other
    /// owners exist.
    fn check_clusters(&self) {
        let agents = self.checker.agents.lock().unwrap();
        if let Some(object) = agents.left_behind() {
            let live = agents.get(&object);
            self.checker.fail(|| format!("after convergence, {object:?} is left behind: {live:?}"));
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
