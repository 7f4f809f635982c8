use super::*;

fn commit(number: u8) -> CommitId {
    CommitId::parse(&format!("{number:02x}").repeat(20)).unwrap()
}

fn status(number: u8, state: CommitState, description: &str) -> CommitStatus {
    CommitStatus { part: None, commit: commit(number), state, description: description.into() }
}

pub fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Writes every due status until `end`. Returns times and statuses.
pub fn write_due<S>(
    queue: &mut S,
    next: fn(&S, Duration) -> Next,
    wrote: fn(&mut S, &CommitStatus, Duration) -> Option<Rejection>,
    mut now: u64,
    end: u64,
) -> Vec<(u64, CommitStatus)> {
    let mut written = Vec::new();
    while now <= end {
        match next(queue, at(now)) {
            Next::Write(status) => {
                assert_eq!(wrote(queue, &status, at(now)), None);
                written.push((now, status));
            }
            Next::Wait(until) => {
                assert!(until > at(now), "a wait must end later");
                now = until.as_millis().div_ceil(1_000) as u64;
            }
            Next::Idle => break,
        }
    }
    written
}

fn run(schedule: &mut Schedule, now: u64, end: u64) -> Vec<(u64, CommitStatus)> {
    let wrote = |schedule: &mut Schedule, status: &CommitStatus, now| {
        schedule.answered(status, Ok(()), now, 0)
    };
    write_due(schedule, Schedule::next, wrote, now, end)
}

#[test]
fn the_first_status_comes_at_once_and_an_unchanged_one_never_again() {
    let mut schedule = Schedule::default();
    assert_eq!(schedule.next(at(0)), Next::Idle);
    let pending = status(1, CommitState::Pending, "0/2");
    schedule.want(pending.clone(), at(0));
    assert_eq!(run(&mut schedule, 0, 1_000), [(0, pending.clone())]);
    schedule.want(pending, at(5));
    assert_eq!(run(&mut schedule, 5, 1_000), []);
    let done = status(1, CommitState::Success, "2/2");
    schedule.want(done.clone(), at(10));
    assert_eq!(run(&mut schedule, 10, 1_000), [(12, done)]);
}

#[test]
fn a_storm_of_changes_costs_few_writes() {
    let mut schedule = Schedule::default();
    let mut writes = 0;
    for step in 0..10_000_u64 {
        let now = step / 40;
        schedule.want(status(1, CommitState::Pending, &format!("{step}/10000")), at(now));
        writes += run(&mut schedule, now, now).len();
    }
    schedule.want(status(1, CommitState::Success, "10000/10000"), at(250));
    writes += run(&mut schedule, 250, 10_000).len();
    assert!((10..=20).contains(&writes), "{writes}");
}

#[test]
fn a_state_that_does_not_last_is_not_written() {
    let mut schedule = Schedule::default();
    schedule.want(status(1, CommitState::Pending, "a"), at(0));
    run(&mut schedule, 0, 0);
    for second in 10..40 {
        let state = if second % 2 == 0 { CommitState::Failure } else { CommitState::Pending };
        schedule.want(status(1, state, "a"), at(second));
        assert_eq!(run(&mut schedule, second, second), []);
    }
}

#[test]
fn a_fleet_that_flaps_for_weeks_stays_within_the_forges_limit() {
    let mut schedule = Schedule::default();
    let mut writes = 0;
    for step in 0..200_000_u64 {
        let state = if step % 2 == 0 { CommitState::Failure } else { CommitState::Success };
        schedule.want(status(1, state, &step.to_string()), at(step * 10));
        writes += run(&mut schedule, step * 10, step * 10 + 9).len();
    }
    assert!((500..1_000).contains(&writes), "{writes}");
}

#[test]
fn only_pending_older_commits_are_superseded() {
    let mut schedule = Schedule::default();
    schedule.want(status(1, CommitState::Pending, "1/9"), at(0));
    run(&mut schedule, 0, 0);
    schedule.want(status(2, CommitState::Pending, "0/9"), at(1));
    let superseded = status(1, CommitState::Superseded, "superseded by 02020202; 1/9");
    let second = status(2, CommitState::Pending, "0/9");
    assert_eq!(run(&mut schedule, 1, 9), [(1, second), (1, superseded)]);
    schedule.want(status(2, CommitState::Failure, "8/9"), at(10));
    run(&mut schedule, 10, 100);
    schedule.want(status(3, CommitState::Pending, "0/9"), at(200));
    assert_eq!(run(&mut schedule, 200, 300), [(200, status(3, CommitState::Pending, "0/9"))]);
    // Never written, so nothing to supersede.
    schedule.want(status(4, CommitState::Pending, "x"), at(400));
    schedule.want(status(5, CommitState::Pending, "y"), at(400));
    let words: Vec<CommitId> =
        run(&mut schedule, 400, 500).into_iter().map(|(_, status)| status.commit).collect();
    assert_eq!(words, [commit(5), commit(3)]);
}

#[test]
fn a_commit_that_comes_back_is_pending_again() {
    let mut schedule = Schedule::default();
    schedule.want(status(1, CommitState::Pending, "a"), at(0));
    run(&mut schedule, 0, 0);
    schedule.want(status(2, CommitState::Pending, "b"), at(1));
    schedule.want(status(1, CommitState::Pending, "a"), at(2));
    let written = run(&mut schedule, 2, 100);
    assert!(written.iter().all(|(_, s)| s.state != CommitState::Superseded), "{written:?}");
}

#[test]
fn forge_gets_newest_status_after_an_hour_of_unavailability() {
    let mut schedule = Schedule::default();
    schedule.want(status(1, CommitState::Pending, "0"), at(0));
    let (mut reported, mut tries, mut now) = (0, 0, 0);
    while now < 3_600 {
        schedule.want(status(1, CommitState::Pending, &now.to_string()), at(now));
        match schedule.next(at(now)) {
            Next::Write(status) => {
                let away = Rejection::Later { after: None, message: "away".into() };
                reported +=
                    usize::from(schedule.answered(&status, Err(away), at(now), now).is_some());
                tries += 1;
            }
            Next::Wait(until) => now = until.as_secs() + 1,
            Next::Idle => unreachable!(),
        }
    }
    assert!(
        reported == 1 && (40..200).contains(&tries),
        "reported {reported} times in {tries} tries"
    );
    schedule.want(status(1, CommitState::Success, "all"), at(now));
    let written = run(&mut schedule, now, now + 600);
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].1.state, CommitState::Success);
}

#[test]
fn retry_after_delays_next_write() {
    let mut schedule = Schedule::default();
    let pending = status(1, CommitState::Pending, "0");
    schedule.want(pending.clone(), at(0));
    let limited = Rejection::Later { after: Some(at(1_800)), message: "limit".into() };
    assert!(schedule.answered(&pending, Err(limited), at(0), 0).is_some());
    assert_eq!(schedule.next(at(1_000)), Next::Wait(at(1_800)));
    assert_eq!(schedule.next(at(1_800)), Next::Write(pending));
}

#[test]
fn full_or_unknown_commit_does_not_affect_next_commit() {
    for rejection in
        [Rejection::Full { message: "full".into() }, Rejection::NoCommit { message: "none".into() }]
    {
        let mut schedule = Schedule::default();
        let first = status(1, CommitState::Pending, "0");
        schedule.want(first.clone(), at(0));
        assert!(schedule.answered(&first, Err(rejection), at(0), 0).is_some());
        schedule.want(status(1, CommitState::Success, "1"), at(1));
        assert_eq!(schedule.next(at(100)), Next::Idle);
        schedule.want(status(2, CommitState::Pending, "0"), at(200));
        assert!(matches!(schedule.next(at(200)), Next::Write(_)));
    }
}

#[test]
fn missing_old_commit_does_not_delay_new_commit() {
    let mut schedule = Schedule::default();
    schedule.want(status(1, CommitState::Pending, "0"), at(0));
    run(&mut schedule, 0, 0);
    let new = status(2, CommitState::Success, "1");
    schedule.want(new.clone(), at(1));
    assert!(schedule.answered(&new, Ok(()), at(1), 0).is_none());
    let Next::Write(old) = schedule.next(at(1)) else { panic!("the old one is overtaken") };
    let blocked = Rejection::Blocked { message: "404".into() };
    assert!(schedule.answered(&old, Err(blocked), at(1), 0).is_some());
    assert_eq!(schedule.next(at(1)), Next::Idle);
    let newer = status(3, CommitState::Pending, "0");
    schedule.want(newer.clone(), at(2));
    assert_eq!(schedule.next(at(2)), Next::Write(newer));
}

#[test]
fn memory_is_bounded() {
    let mut schedule = Schedule::default();
    for number in 0..=255 {
        schedule.want(status(number, CommitState::Success, "x"), at(number.into()));
        run(&mut schedule, number.into(), number.into());
    }
    assert!(schedule.written.len() <= COMMITS_MAX);
}
