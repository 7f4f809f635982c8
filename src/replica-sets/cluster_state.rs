//! How far a cluster has come, from the conditions of its work. The work has the template.

use gitwork_core::rollout::ClusterState;
use jiff::{SignedDuration, Timestamp};

use crate::limits;
use crate::set_work::{ReportedCondition, SetWork};

/// The state of a cluster, and when it changes because of the time alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimedState {
    pub state: ClusterState,
    pub recheck: Option<Timestamp>,
}

impl From<ClusterState> for TimedState {
    fn from(state: ClusterState) -> Self {
        Self { state, recheck: None }
    }
}

/// The state in gitwork's rollouts. Deadline and soak time begin when the work was written, if not
/// later. A work that cannot be applied has failed. Without a rule for the condition Progressing, a
/// cluster has succeeded once its work is Applied and Available.
pub(crate) fn state(work: &SetWork, has_progressing_rule: bool, now: Timestamp) -> TimedState {
    let written = work.written.or(work.created);
    // Times of conditions are in whole seconds, and may be older than the write.
    let latest = |time: Option<Timestamp>| time.max(written).unwrap_or(now);
    let begun = written.unwrap_or(now);
    let reported = &work.conditions;
    match work.current(reported.applied) {
        Some(ReportedCondition { is_true: Some(true), .. }) => {}
        Some(ReportedCondition { is_true: Some(false), .. }) => {
            return ClusterState::Failed { since: begun }.into();
        }
        _ => return ClusterState::Progressing { since: begun }.into(),
    }
    let degraded = work.current(reported.degraded).filter(|one| one.is_true == Some(true));
    let progressing = work.current(reported.progressing);
    match progressing {
        Some(one) if one.is_true == Some(false) => {
            return success(one.since, written, now)
                .unwrap_or_else(|| ClusterState::Succeeded { since: latest(one.since) }.into());
        }
        Some(_) => {}
        None if !has_progressing_rule && degraded.is_none() && work.is_true(reported.available) => {
            let since = reported.available.and_then(|one| one.since);
            return ClusterState::Succeeded { since: latest(since) }.into();
        }
        None => {}
    }
    match degraded {
        Some(one) => ClusterState::Failed { since: latest(one.since) }.into(),
        None => ClusterState::Progressing { since: begun }.into(),
    }
}

/// A success that may be about the objects before the last write: not yet one.
fn success(
    since: Option<Timestamp>,
    written: Option<Timestamp>,
    now: Timestamp,
) -> Option<TimedState> {
    let written = written?;
    let early = SignedDuration::try_from(limits::EARLY_SUCCESS).ok()?;
    let counts_from = written.checked_add(early).ok()?;
    let is_early = since.is_some_and(|since| since < written) && now < counts_from;
    let state = ClusterState::Progressing { since: written };
    is_early.then_some(TimedState { state, recheck: Some(counts_from) })
}

/// The state in OCM's rollouts.
pub(crate) fn upstream_state(work: &SetWork, now: Timestamp) -> ClusterState {
    let reported = &work.conditions;
    let since = |one: ReportedCondition| one.since.unwrap_or(now);
    let stale = |one: Option<ReportedCondition>| {
        one.is_some_and(|one| one.observed_generation != work.generation)
    };
    let progressing = work.current(reported.progressing);
    let (true, Some(progressing), false) =
        (work.is_true(reported.applied), progressing, stale(reported.degraded))
    else {
        return ClusterState::ToApply;
    };
    let degraded = reported.degraded.filter(|one| one.is_true == Some(true));
    match (progressing.is_true, degraded) {
        (Some(true), Some(degraded)) => ClusterState::Failed { since: since(degraded) },
        (Some(false), _) => ClusterState::Succeeded { since: since(progressing) },
        _ => ClusterState::Progressing { since: since(progressing) },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::names::{ANNOTATION_WRITTEN, LABEL_OWNER};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A work that was written at second 100, in generation 3. `Applied=T` is about it,
    /// `Applied=T@2:90` about generation 2, since second 90. Times are 110 if not given.
    fn work(conditions: &str) -> SetWork {
        let conditions: Vec<Value> = conditions
            .split_whitespace()
            .map(|text| {
                let (text, since) = text.split_once(':').unwrap_or((text, "110"));
                let (text, generation) = text.split_once('@').unwrap_or((text, "3"));
                let (kind, status) = text.split_once('=').unwrap();
                let status = match status {
                    "T" => "True",
                    "F" => "False",
                    _ => "Unknown",
                };
                let generation: i64 = generation.parse().unwrap();
                json!({"type": kind, "status": status, "observedGeneration": generation,
                    "lastTransitionTime": at(since.parse().unwrap()).to_string()})
            })
            .collect();
        let object = json!({
            "metadata": {"namespace": "c1", "name": "a", "generation": 3,
                "labels": {LABEL_OWNER: "fleet.web"},
                "annotations": {ANNOTATION_WRITTEN: at(100).to_string()}},
            "status": {"conditions": conditions},
        });
        SetWork::read(&object).unwrap()
    }

    #[test]
    fn states_follow_the_conditions_of_the_present_generation() {
        let (now, written) = (at(500), at(100));
        let progressing = ClusterState::Progressing { since: written };
        for (conditions, with_rule, without) in [
            ("", progressing, progressing),
            ("Applied=T@2", progressing, progressing),
            // M6: it counts as a failure, and its deadline begins with the write.
            (
                "Applied=F",
                ClusterState::Failed { since: written },
                ClusterState::Failed { since: written },
            ),
            ("Applied=T", progressing, progressing),
            // M6: without condition rules, upstream waits for ever.
            ("Applied=T Available=T", progressing, ClusterState::Succeeded { since: at(110) }),
            ("Applied=T Available=T@2", progressing, progressing),
            ("Applied=T Progressing=T", progressing, progressing),
            ("Applied=T Progressing=U", progressing, progressing),
            (
                "Applied=T Progressing=F",
                ClusterState::Succeeded { since: at(110) },
                ClusterState::Succeeded { since: at(110) },
            ),
            (
                "Applied=T Progressing=T Degraded=T:120",
                ClusterState::Failed { since: at(120) },
                ClusterState::Failed { since: at(120) },
            ),
            (
                "Applied=T Available=T Degraded=T",
                ClusterState::Failed { since: at(110) },
                ClusterState::Failed { since: at(110) },
            ),
            ("Applied=T Progressing=T Degraded=T@2", progressing, progressing),
        ] {
            assert_eq!(state(&work(conditions), true, now).state, with_rule, "{conditions}");
            assert_eq!(state(&work(conditions), false, now).state, without, "{conditions}");
        }
    }

    /// M17: the agent may report success for the new generation before it has applied it.
    #[test]
    fn success_from_before_the_write_counts_later_and_soaks_from_the_write() {
        let early = work("Applied=T Progressing=F:50");
        let found = state(&early, true, at(120));
        assert_eq!(found.state, ClusterState::Progressing { since: at(100) });
        assert_eq!(found.recheck, Some(at(130)));
        let found = state(&early, true, at(130));
        assert_eq!(found, ClusterState::Succeeded { since: at(100) }.into());
        // Upstream takes the old time, so that no soak time is left.
        let upstream = upstream_state(&early, at(120));
        assert_eq!(upstream, ClusterState::Succeeded { since: at(50) });
    }

    #[test]
    fn upstream_states_are_those_of_its_table() {
        let now = at(500);
        for (conditions, expected) in [
            ("", ClusterState::ToApply),
            ("Applied=T", ClusterState::ToApply),
            ("Applied=F Progressing=F", ClusterState::ToApply),
            ("Applied=T@2 Progressing=F", ClusterState::ToApply),
            ("Applied=T Progressing=F@2", ClusterState::ToApply),
            ("Applied=T Progressing=F Degraded=F@2", ClusterState::ToApply),
            ("Applied=T Progressing=T Degraded=T:9", ClusterState::Failed { since: at(9) }),
            ("Applied=T Progressing=T:8 Degraded=F", ClusterState::Progressing { since: at(8) }),
            ("Applied=T Progressing=F:7 Degraded=T", ClusterState::Succeeded { since: at(7) }),
            ("Applied=T Progressing=U:6", ClusterState::Progressing { since: at(6) }),
        ] {
            assert_eq!(upstream_state(&work(conditions), now), expected, "{conditions}");
        }
    }
}
