//! "An object that Git has at every commit keeps its uid": it is never deleted, and so never
//! absent.
//!
//! The check needs only Git's commits, which of them the processes have read, and the history of
//! the objects on the clusters. It makes no statement about objects that other clients had a part
//! in.

use std::collections::BTreeSet;

use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, WorkKey};
use tokio::time::Instant;

use super::content::recent_commits;
use super::{Checker, State};
use crate::agents::Object;
use crate::cluster::ObjectEvent;
use crate::fleet::git::ReadLog;
use crate::git_work::{config_map, orphans, works_with};
use crate::incarnations::{Incarnation, Incarnations};
use crate::moves::listed;
use crate::refactoring::all_names;
use crate::world::CLUSTERS;

/// What the processes knew when an object was created.
#[derive(Debug, Clone)]
pub(super) struct Since {
    at: Instant,
    /// The commits that a write may still have been for.
    commits: BTreeSet<usize>,
}

/// The objects of all clusters.
#[derive(Debug, Default)]
pub(super) struct Objects {
    all: Incarnations<Since>,
    /// What each process has read from Git. A process that is gone still counts.
    reads: Vec<ReadLog>,
}

impl Objects {
    /// The commits that a process may have followed while the object was there, in the order of the
    /// reads.
    fn followed(&self, object: &Incarnation<Since>) -> Vec<usize> {
        let Since { at: created, commits } = &object.since;
        let mut read: Vec<(Instant, usize)> = Vec::new();
        for reads in &self.reads {
            read.extend(reads.lock().unwrap().iter().filter(|(at, _)| at >= created));
        }
        read.sort();
        commits.iter().copied().chain(read.into_iter().map(|(_, commit)| commit)).collect()
    }
}

impl Checker {
    /// A process begins to read Git. Only those of the first source count: objects of the second
    /// one have names of their own.
    pub fn follow_reads(&self, reads: &ReadLog) {
        if self.is_first {
            self.lock().objects.reads.push(reads.clone());
        }
    }

    /// Another client acts on a work on the hub: on its objects there, in Git, and on the cluster.
    pub fn disturb(&self, key: &WorkKey) {
        let mut objects = self.agents.lock().unwrap().recorded(key);
        objects.extend(self.hub.object(key).map(|work| listed(&work)).unwrap_or_default());
        if let Some(work) = self.git.head().1.works.get(key) {
            objects.extend(work.objects.keys().map(|name| config_map(name)));
        }
        let of_cluster = objects.into_iter().map(|id| (key.cluster.clone(), id));
        self.lock().objects.all.disturb(of_cluster);
    }

    pub fn disturb_cluster(&self, cluster: &ClusterName) {
        self.lock().objects.all.disturb_cluster(cluster);
    }

    pub fn is_cluster_disturbed(&self, cluster: &ClusterName) -> bool {
        self.lock().objects.all.is_cluster_disturbed(cluster)
    }

    pub fn disturb_all(&self) {
        for cluster in CLUSTERS {
            self.disturb_cluster(&ClusterName::parse(cluster).unwrap());
        }
    }

    /// Judges what happened to the objects since the last call.
    pub fn follow_objects(&self) {
        let mut agents = self.agents.lock().unwrap();
        let (events, created_late) = agents.take_events();
        let orphaned = agents.take_orphaned_elsewhere();
        drop(agents);
        let mut state = self.lock();
        state.objects.all.disturb(created_late);
        let mut found = Vec::new();
        for (cluster, event) in events {
            self.trace_event(&mut state, &cluster, &event);
            let now = self.since(&state);
            let Some((object, ended)) = state.objects.all.follow(cluster, event, &now) else {
                continue;
            };
            found.extend(self.judge_end(&state, &object, &ended));
            if orphaned.contains(&object) {
                found.extend(self.judge_orphan(&state, &object, &ended));
            }
        }
        drop(state);
        found.into_iter().for_each(|why| self.fail(|| why));
    }

    /// The objects that other works on the work's cluster list on the hub now.
    pub fn listed_elsewhere(&self, key: &WorkKey) -> BTreeSet<Identity> {
        let others = all_names().map(|name| crate::key(key.cluster.as_str(), name));
        let works = others.filter(|other| other != key).filter_map(|it| self.hub.object(&it));
        works.flat_map(|work| listed(&work)).collect()
    }

    fn since(&self, state: &State) -> Since {
        // The log of a process that is gone has no other holder.
        let live = state.objects.reads.iter().filter(|reads| ReadLog::strong_count(reads) > 1);
        let commits = live.flat_map(|reads| recent_commits(reads, &self.operator.clock));
        Since { at: Instant::now(), commits: commits.collect() }
    }

    fn trace_event(&self, state: &mut State, cluster: &ClusterName, event: &ObjectEvent) {
        let text = match event {
            ObjectEvent::Created { id, uid } => format!("{} is created: {uid}", id.name),
            ObjectEvent::Deleted { id, uid, by_user } => {
                let who = if *by_user { "a user" } else { "an agent" };
                format!("{} is deleted by {who}: {uid}", id.name)
            }
        };
        state.trace(|| format!("  on {cluster}, {text}"));
    }

    /// Why an object should have stayed that one work owned and another one orphaned: Git had it at
    /// every commit until it dropped it, and the last commit with it orphans it. An object that Git
    /// had dropped and added again may go with the work that had it before.
    fn judge_orphan(
        &self,
        state: &State,
        object: &Object,
        ended: &Incarnation<Since>,
    ) -> Option<String> {
        let commits = state.objects.followed(ended);
        self.git.with(|all, _| {
            let has = |commit: &&usize| all[**commit].content.has_object(object);
            let kept = commits.iter().take_while(has).count();
            let (kept, dropped) = commits.split_at(kept);
            if dropped.iter().any(|commit| has(&commit)) {
                return None;
            }
            let (last, (cluster, id)) = (kept.last()?, object);
            let content = &all[*last].content;
            let orphans_it = |key: &WorkKey| {
                let work = content.readable(key);
                work.is_some_and(|work| orphans(&work.deletion_policy(), id))
            };
            works_with(&content.works, cluster, id).all(orphans_it).then(|| {
                format!("the object {cluster}/{} is deleted: commit {last} orphans it", id.name)
            })
        })
    }

    /// Why an agent should not have deleted the object; `None` if a commit that a process may have
    /// followed did not have it.
    fn judge_end(
        &self,
        state: &State,
        object: &Object,
        ended: &Incarnation<Since>,
    ) -> Option<String> {
        let commits: BTreeSet<usize> = state.objects.followed(ended).into_iter().collect();
        self.git.with(|all, _| {
            let has = |commit: &usize| all[*commit].content.has_object(object);
            if commits.is_empty() || !commits.iter().all(has) {
                return None;
            }
            let works = |commit: &usize| {
                let keys = all_names().map(|name| crate::key(object.0.as_str(), name));
                let content = &all[*commit].content;
                let with = keys
                    .filter(|key| content.works.get(key).is_some_and(|work| work.has(&object.1)));
                let names: Vec<String> = with
                    .map(|key| {
                        let how = if content.freezes(&key) { " (unreadable)" } else { "" };
                        format!("{}{how}", key.work)
                    })
                    .collect();
                format!("commit {commit} in {}", names.join(" and "))
            };
            let (cluster, id) = object;
            let commits: Vec<String> = commits.iter().map(works).collect();
            Some(format!(
                "the object {cluster}/{} ({}) is deleted: Git has it at every commit; {}",
                id.name,
                ended.uid,
                commits.join(", ")
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use gitwork_core::config::Budgets;
    use gitwork_core::model::name::SourceId;

    use super::*;
    use crate::fleet::check::OperatorPolicy;
    use crate::fleet::git::Git;
    use crate::fleet::machine_clock::{DailyHours, MachineClock};
    use crate::git_work::{GitWork, object_name};
    use crate::hub::SimulatedHub;
    use crate::key;
    use crate::world::SOURCE;

    /// Whether an object should have stayed that one work orphaned and that went with another one.
    /// `history`: for each commit that a process read while the object was there, whether Git has
    /// the object, and orphans it.
    fn should_have_stayed(history: &[Option<bool>]) -> bool {
        let (id, key) = (SourceId::parse(SOURCE).unwrap(), key("edge-1", "api"));
        let (git, name) = (Git::new(&id), object_name(&key, "a"));
        for orphan in history {
            let mut content = git.head().1;
            content.works.remove(&key);
            if let Some(orphan) = orphan {
                let mut work = GitWork::of(&key);
                work.objects.get_mut(&name).unwrap().orphan = *orphan;
                content.works.insert(key.clone(), work);
            }
            git.push(content);
        }
        let clock = MachineClock::new(12);
        let (budgets, hours) = (Budgets::default(), DailyHours::default());
        let operator = OperatorPolicy { budgets, hours, clock };
        let hub = SimulatedHub::new(&["edge-1"], 0);
        let checker = Checker::new(&hub, &id, &git, operator, false);
        let at = Instant::now();
        // The first commit of a simulated repository is empty.
        let reads = (1..=history.len()).map(|commit| (at, commit)).collect();
        let reads = ReadLog::new(std::sync::Mutex::new(reads));
        checker.follow_reads(&reads);
        let since = Since { at, commits: BTreeSet::from([1]) };
        let object = (key.cluster.clone(), config_map(&name));
        let ended = Incarnation { uid: "1".into(), since };
        checker.judge_orphan(&checker.lock(), &object, &ended).is_some()
    }

    #[test]
    fn object_that_git_orphaned_until_it_dropped_it_should_have_stayed() {
        for (history, expected) in [
            (&[Some(true), None][..], true),
            (&[Some(false), Some(true), None], true),
            (&[Some(true), Some(true), None, None], true),
            (&[Some(false), None], false),
            (&[Some(true), Some(false), None], false),
            // It was dropped and added again, so it may go with the work that had it before.
            (&[Some(true), None, Some(true)], false),
            (&[None, Some(true)], false),
        ] {
            assert_eq!(should_have_stayed(history), expected, "{history:?}");
        }
    }
}
