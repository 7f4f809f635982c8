//! Waves: one after the other, and within each at most so many clusters at a time.
//!
//! A wave ends once each of its clusters is done and has soaked, has failed within the number that
//! may fail, or cannot be reached and its deadline has passed. A failed cluster that is tolerated
//! takes no place of another one. More failures than tolerated in any wave stop the rollout:
//! clusters that have the content keep it, and no other gets it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::state::{ActiveCluster, ActiveClusters, ClusterState, Judged, Times};
use crate::config::rollout::Threshold;
use crate::model::name::ClusterName;

/// One wave of clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Wave {
    /// Its name.
    pub name: String,
    /// Its clusters.
    pub clusters: BTreeSet<ClusterName>,
    /// How many may be in progress at a time; `None` for all.
    pub max_concurrency: Option<Threshold>,
    /// How many may fail.
    pub max_failures: Threshold,
    /// How long each cluster has to be healthy.
    pub soak: Duration,
    /// What the clusters wait for that have not got the content.
    pub gate: Option<Gate>,
}

/// What keeps a wave from beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// An approval.
    Approval,
    /// Its window is closed, until then if that is known.
    Window(Option<Timestamp>),
}

/// A rollout of one content.
#[derive(Debug, Clone, Copy)]
pub struct Rollout<'a> {
    /// The waves, first to last. A cluster is in one of them.
    pub waves: &'a [Wave],
    /// The clusters that have the content, or had a state.
    pub states: &'a BTreeMap<ClusterName, ClusterState>,
    /// Clusters that get nothing and are not done, until somebody acts. Of a wave that is to end,
    /// they and those that have failed are at most as many as may fail.
    pub blocked: &'a BTreeSet<ClusterName>,
    /// Clusters that come first within their waves.
    pub first: &'a BTreeSet<ClusterName>,
    /// How long a cluster may take; `None` for no end.
    pub deadline: Option<Duration>,
    /// The time.
    pub now: Timestamp,
}

/// How far a rollout has come.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RolloutProgress {
    /// The clusters that get the content now, or have it and are not done.
    pub active: ActiveClusters,
    /// The clusters whose deadline has passed just now.
    pub timed_out: BTreeSet<ClusterName>,
    /// Clusters with a state that are in no wave.
    pub removed: BTreeSet<ClusterName>,
    /// Too many clusters of a wave have failed.
    pub breach: Option<WaveBreach>,
    /// The position of the first wave that has not ended; `None` at the end.
    pub wave: Option<usize>,
    /// What that wave waits for.
    pub gate: Option<Gate>,
    /// When something changes because of the time alone.
    pub recheck: Option<Timestamp>,
}

/// More clusters of a wave have failed than may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaveBreach {
    /// The position of the wave.
    pub wave: usize,
    /// The clusters that have failed.
    pub clusters: BTreeSet<ClusterName>,
}

/// The clusters of a wave by what is to be done.
#[derive(Default)]
struct WaveView<'a> {
    waiting: Vec<&'a ClusterName>,
    failed: BTreeSet<ClusterName>,
    blocked: usize,
    /// Clusters that take the place of another one.
    places: usize,
}

impl Rollout<'_> {
    /// How far the rollout has come.
    pub fn progress(&self) -> RolloutProgress {
        let mut progress = RolloutProgress::default();
        let waves: Vec<WaveView<'_>> =
            self.waves.iter().map(|wave| self.observe(wave, &mut progress)).collect();
        for (index, (wave, view)) in self.waves.iter().zip(&waves).enumerate() {
            let most = wave.max_failures.of(wave.clusters.len());
            let is_breached = view.failed.len() > most;
            if is_breached && progress.breach.is_none() {
                progress.breach = Some(WaveBreach { wave: index, clusters: view.failed.clone() });
            }
            let is_tolerated = view.failed.len().saturating_add(view.blocked) <= most;
            let has_ended = view.waiting.is_empty() && view.places == 0 && is_tolerated;
            if !has_ended && progress.wave.is_none() {
                progress.wave = Some(index);
            }
        }
        self.begin(&waves, &mut progress);
        let known: BTreeSet<&ClusterName> =
            self.waves.iter().flat_map(|wave| &wave.clusters).collect();
        let removed = self.states.keys().filter(|name| !known.contains(name));
        progress.removed = removed.cloned().collect();
        progress
    }

    /// Lets clusters of the current wave begin.
    fn begin(&self, waves: &[WaveView<'_>], progress: &mut RolloutProgress) {
        let current = progress.wave.filter(|_| progress.breach.is_none());
        let current = current.and_then(|index| Some((self.waves.get(index)?, waves.get(index)?)));
        let Some((wave, view)) = current else { return };
        if view.waiting.is_empty() {
            return;
        }
        if let Some(gate) = wave.gate {
            progress.gate = Some(gate);
            if let Gate::Window(Some(until)) = gate {
                progress.recheck_at(until);
            }
            return;
        }
        let total = wave.clusters.len();
        let most = wave.max_concurrency.map_or(total, |most| most.of(total).max(1));
        let mut waiting = view.waiting.clone();
        waiting.sort_by_key(|name| (!self.first.contains(*name), *name));
        let free = most.saturating_sub(view.places);
        for name in waiting.into_iter().take(free) {
            progress.active.insert(name.clone(), ActiveCluster::ToApply);
        }
    }

    fn observe<'a>(&self, wave: &'a Wave, progress: &mut RolloutProgress) -> WaveView<'a> {
        let times = Times { soak: wave.soak, deadline: self.deadline, now: self.now };
        let mut view = WaveView::default();
        for name in &wave.clusters {
            if self.blocked.contains(name) {
                view.blocked += 1;
                continue;
            }
            match times.judge(self.states.get(name).copied()) {
                Judged::Waiting => view.waiting.push(name),
                Judged::Active(active, until) => {
                    progress.active.insert(name.clone(), active);
                    until.into_iter().for_each(|until| progress.recheck_at(until));
                    if active == ActiveCluster::Failed {
                        view.failed.insert(name.clone());
                    } else {
                        view.places += 1;
                    }
                }
                Judged::TimesOut => {
                    progress.timed_out.insert(name.clone());
                    view.failed.insert(name.clone());
                }
                Judged::TimedOut => drop(view.failed.insert(name.clone())),
                Judged::Free => {}
            }
        }
        view
    }
}

impl RolloutProgress {
    fn recheck_at(&mut self, at: Timestamp) {
        self.recheck = Some(self.recheck.map_or(at, |before| before.min(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ClusterName {
        ClusterName::parse(text).unwrap()
    }

    fn names(all: &[&str]) -> BTreeSet<ClusterName> {
        all.iter().map(|one| name(one)).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn wave(title: &str, clusters: &[&str]) -> Wave {
        Wave {
            name: title.into(),
            clusters: names(clusters),
            max_concurrency: None,
            max_failures: Threshold::Count(0),
            soak: Duration::from_secs(60),
            gate: None,
        }
    }

    fn progress(waves: &[Wave], states: &[(&str, ClusterState)], now: i64) -> RolloutProgress {
        let states = states.iter().map(|(text, state)| (name(text), *state)).collect();
        let deadline = Some(Duration::from_secs(300));
        let (first, blocked) = (&names(&["z"]), &names(&["blocked-1"]));
        let now = at(now);
        Rollout { waves, states: &states, blocked, first, deadline, now }.progress()
    }

    fn beginning(progress: &RolloutProgress) -> Vec<&str> {
        let all = progress.active.iter();
        let begin = all.filter(|(_, active)| **active == ActiveCluster::ToApply);
        begin.map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_wave_begins_once_the_one_before_has_soaked_and_nobody_has_to_approve() {
        let succeeded = ClusterState::Succeeded { since: at(100) };
        let mut waves = [wave("lab", &["a"]), wave("rest", &["b", "c"])];
        let found = progress(&waves, &[], 0);
        assert_eq!((beginning(&found), found.wave), (vec!["a"], Some(0)));
        let found = progress(&waves, &[("a", succeeded)], 159);
        assert_eq!((beginning(&found), found.recheck), (vec![], Some(at(160))));
        let found = progress(&waves, &[("a", succeeded)], 160);
        assert_eq!((beginning(&found), found.wave), (vec!["b", "c"], Some(1)));
        waves[1].gate = Some(Gate::Approval);
        let found = progress(&waves, &[("a", succeeded)], 160);
        assert_eq!((beginning(&found), found.gate), (vec![], Some(Gate::Approval)));
        waves[1].gate = Some(Gate::Window(Some(at(500))));
        let found = progress(&waves, &[("a", succeeded)], 160);
        assert_eq!((beginning(&found), found.recheck), (vec![], Some(at(500))));
        let all = [("a", succeeded), ("b", succeeded), ("c", succeeded)];
        assert_eq!(progress(&waves, &all, 160), RolloutProgress::default(), "the end");
    }

    #[test]
    fn offline_clusters_release_their_place_at_the_deadline_and_are_no_failures() {
        let mut waves = [wave("one", &["a", "b"]), wave("two", &["c"])];
        waves[0].max_concurrency = Some(Threshold::Count(1));
        let offline = ClusterState::Offline { since: at(100) };
        let found = progress(&waves, &[("a", offline)], 399);
        assert_eq!((beginning(&found), found.recheck), (vec![], Some(at(400))));
        let found = progress(&waves, &[("a", offline)], 400);
        assert_eq!((beginning(&found), found.breach.clone()), (vec!["b"], None));
        let done = ClusterState::Succeeded { since: at(400) };
        let found = progress(&waves, &[("a", offline), ("b", done)], 460);
        assert_eq!((beginning(&found), found.wave), (vec!["c"], Some(1)));
    }

    #[test]
    fn failures_count_for_each_wave_and_those_of_an_ended_wave_stop_the_rollout() {
        let mut waves = [wave("one", &["a", "b"]), wave("two", &["c", "d"])];
        waves.iter_mut().for_each(|wave| wave.max_failures = Threshold::Count(1));
        let (done, timed_out) = (ClusterState::Succeeded { since: at(0) }, ClusterState::TimedOut);
        let one_each = [("a", done), ("b", timed_out), ("c", timed_out)];
        let found = progress(&waves, &one_each, 100);
        assert_eq!((beginning(&found), found.breach.is_some()), (vec!["d"], false));
        let failed = ClusterState::Failed { since: at(99) };
        let found = progress(&waves, &[("a", failed), ("b", timed_out), ("c", done)], 100);
        assert_eq!(beginning(&found), Vec::<&str>::new());
        assert_eq!(found.breach, Some(WaveBreach { wave: 0, clusters: names(&["a", "b"]) }));
    }

    #[test]
    fn a_blocked_cluster_gets_nothing_and_counts_as_a_failure_that_stops_nothing() {
        let mut waves = [wave("one", &["a", "blocked-1"]), wave("two", &["c"])];
        let done = [("a", ClusterState::Succeeded { since: at(0) })];
        assert_eq!(beginning(&progress(&waves, &[], 0)), ["a"]);
        let found = progress(&waves, &done, 100);
        assert_eq!((beginning(&found), found.wave, &found.breach), (vec![], Some(0), &None));
        waves[0].max_failures = Threshold::Count(1);
        assert_eq!(beginning(&progress(&waves, &done, 100)), ["c"]);
        let failed = [("a", ClusterState::TimedOut)];
        let found = progress(&waves, &failed, 100);
        assert_eq!((beginning(&found), found.wave, &found.breach), (vec![], Some(0), &None));
    }

    #[test]
    fn clusters_where_the_content_before_failed_come_first_in_their_wave() {
        let mut waves = [wave("one", &["a", "b", "z"])];
        waves[0].max_concurrency = Some(Threshold::Count(2));
        assert_eq!(beginning(&progress(&waves, &[], 0)), ["a", "z"]);
    }
}
