//! Leader election for each source. Only the leader writes to the hub, the forge and the status
//! branch. The standby daemons read the source too, so that failover takes no time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use gitwork_kube::lease::LeaderTerm;

/// Whether this daemon is the leader of a source. Clones share the state.
#[derive(Debug, Clone)]
pub struct Leadership {
    leads: watch::Receiver<bool>,
    term_end: Arc<TermEnd>,
}

/// When leadership expires. It is checked before each write, so that a process that was stopped for
/// a while (SIGSTOP, an overloaded machine) writes nothing after another one became the leader.
#[derive(Debug)]
pub(crate) struct TermEnd {
    start: Instant,
    /// Milliseconds since `start`.
    until: AtomicU64,
}

impl TermEnd {
    /// No leadership yet. The times of its term count from now.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), until: AtomicU64::new(0) }
    }

    /// The start of tokio's clock for the term.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// Sets the end of the current term.
    pub(crate) fn set(&self, term: &LeaderTerm) {
        let until = match term.until() {
            Some(until) => u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
            None if term.is_leader(Duration::MAX) => u64::MAX,
            None => 0,
        };
        self.until.store(until, Ordering::Relaxed);
    }
}

impl Leadership {
    /// The leadership that this channel decides alone. It does not expire, so the sender must say
    /// at once when it ends. The engine waits for the first message: the first election attempt.
    pub fn of(leads: watch::Receiver<bool>) -> Self {
        let term_end = TermEnd { start: Instant::now(), until: AtomicU64::new(u64::MAX) };
        Self::new(leads, Arc::new(term_end))
    }

    /// The leadership of one election. `leads` has each change, `term_end` when it expires.
    pub(crate) fn new(leads: watch::Receiver<bool>, term_end: Arc<TermEnd>) -> Self {
        Self { leads, term_end }
    }

    /// Whether this daemon is the leader now.
    pub fn is_leader(&self) -> bool {
        let until = Duration::from_millis(self.term_end.until.load(Ordering::Relaxed));
        *self.leads.borrow() && self.term_end.start.elapsed() < until
    }

    /// A channel with each change.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.leads.clone()
    }
}

/// Runs the tasks of `start` while this daemon is the leader. They end when leadership is lost or
/// `stop` is true.
pub async fn run_while_leader(
    mut leadership: watch::Receiver<bool>,
    mut stop: watch::Receiver<bool>,
    mut start: impl FnMut(&watch::Receiver<bool>, &mut JoinSet<()>),
) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            leads = leadership.wait_for(|leads| *leads) => if leads.is_err() { return },
        }
        let (end, ended) = watch::channel(false);
        let mut tasks = JoinSet::new();
        start(&ended, &mut tasks);
        let stops = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => true,
            lost = leadership.wait_for(|leads| !*leads) => lost.is_err(),
        };
        end.send_replace(true);
        while tasks.join_next().await.is_some() {}
        if stops {
            return;
        }
    }
}

/// An engine's view of its leadership.
#[derive(Debug, Default)]
pub struct LeadershipState {
    /// `None`: it is always the leader.
    leadership: Option<watch::Receiver<bool>>,
    /// The first election attempt has ended.
    decided: bool,
    /// As last observed.
    leads: bool,
    /// Git was read since the term began. An earlier read may be older than what the last leader
    /// applied.
    has_read: bool,
    /// The running fetch began in this term. Otherwise its end does not count as a read.
    fetch_began_in_term: bool,
}

/// A change of leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadershipChange {
    /// This daemon became the leader.
    Gained,
    /// It is no longer the leader.
    Lost,
}

impl LeadershipState {
    /// Follows an election.
    pub fn by(leadership: watch::Receiver<bool>) -> Self {
        Self { leadership: Some(leadership), ..Self::default() }
    }

    /// The change since the last call.
    pub fn observe(&mut self) -> Option<LeadershipChange> {
        let leadership = self.leadership.as_mut()?;
        self.decided |= leadership.has_changed().unwrap_or(true);
        let leads = *leadership.borrow_and_update();
        if std::mem::replace(&mut self.leads, leads) == leads {
            return None;
        }
        (self.has_read, self.fetch_began_in_term) = (false, false);
        Some(if leads { LeadershipChange::Gained } else { LeadershipChange::Lost })
    }

    /// Ends when it may have changed; pending without an election.
    pub async fn changed(&self) {
        match &self.leadership {
            // `observe` reads the value.
            Some(leadership) => {
                if leadership.clone().changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            None => std::future::pending().await,
        }
    }

    /// Whether Git may be read. Before the first attempt, a read might have to be repeated at once.
    pub fn may_fetch(&self) -> bool {
        self.leadership.is_none() || self.decided
    }

    /// A fetch begins.
    pub fn fetching(&mut self) {
        self.fetch_began_in_term = true;
    }

    /// A fetch has succeeded.
    pub fn fetched(&mut self) {
        self.has_read |= self.fetch_began_in_term;
    }

    /// Whether the engine reports its source.
    pub fn leads(&self) -> bool {
        self.leadership.is_none() || self.leads
    }

    /// Whether it may plan: it is the leader and has read Git in this term.
    pub fn may_plan(&self) -> bool {
        self.leadership.is_none() || (self.leads && self.has_read)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn a_new_leader_reads_git_again_before_it_plans() {
        let (sender, leadership) = watch::channel(false);
        let mut state = LeadershipState::by(leadership);
        assert_eq!(state.observe(), None);
        assert!(!state.may_fetch());
        sender.send_modify(|_| {});
        assert_eq!(state.observe(), None);
        assert!(state.may_fetch());
        state.fetching();
        state.fetched();
        sender.send_replace(true);
        assert!(!state.may_plan());
        assert_eq!(state.observe(), Some(LeadershipChange::Gained));
        // A fetch that began before the term.
        state.fetched();
        assert!(state.leads() && !state.may_plan());
        state.fetching();
        state.fetched();
        assert!(state.may_plan());
        sender.send_replace(false);
        assert_eq!(state.observe(), Some(LeadershipChange::Lost));
        assert!(!state.may_plan() && !state.leads());
        let alone = LeadershipState::default();
        assert!(alone.leads() && alone.may_plan());
    }

    #[tokio::test(start_paused = true)]
    async fn leader_tasks_end_with_leadership_and_begin_again_with_the_next_term() {
        let (lead, leadership) = watch::channel(false);
        let (stopping, stop) = watch::channel(false);
        let (sender, mut received) = mpsc::unbounded_channel();
        let mut sessions = 0;
        let task = tokio::spawn(run_while_leader(leadership, stop, move |ended, tasks| {
            sessions += 1;
            let (session, sender, mut ended) = (sessions, sender.clone(), ended.clone());
            tasks.spawn(async move {
                sender.send((session, "begins")).unwrap();
                ended.wait_for(|ended| *ended).await.unwrap();
                sender.send((session, "ends")).unwrap();
            });
        }));
        for session in [1, 2] {
            lead.send_replace(true);
            assert_eq!(received.recv().await, Some((session, "begins")));
            lead.send_replace(false);
            assert_eq!(received.recv().await, Some((session, "ends")));
        }
        lead.send_replace(true);
        assert_eq!(received.recv().await, Some((3, "begins")));
        stopping.send_replace(true);
        task.await.unwrap();
        assert_eq!(received.recv().await, Some((3, "ends")));
    }
}
