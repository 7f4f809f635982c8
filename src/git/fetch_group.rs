//! The fetches of one mirror by the sources of this process: one at a time, each for all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::FetchError;
use super::fetch::{Fetched, GroupFetched};
use super::remote::Reference;

/// Time between two looks at the cancel flag while another source fetches.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);
/// How long a fetch waits for the other sources to join it. A webhook, a signal or a start makes
/// all of them due at the same time.
const JOIN_TIME: Duration = Duration::from_millis(100);

/// The sources that share a mirror, and the last fetch.
pub(super) struct FetchGroup {
    join_time: Duration,
    state: Mutex<GroupState>,
    /// A fetch has ended.
    ended: Condvar,
    /// A source waits for the fetch.
    joined: Condvar,
}

#[derive(Default)]
struct GroupState {
    is_fetching: bool,
    /// The sources that wait for the fetch to end.
    waiting: usize,
    followed: Vec<Followed>,
    last: Option<GroupFetch>,
}

/// A reference that sources follow.
struct Followed {
    reference: Reference,
    followers: usize,
    /// Its last fetch failed, or broke the fetch of others: only its own sources fetch it.
    is_apart: bool,
}

/// A fetch that has ended.
struct GroupFetch {
    began: Instant,
    ended: Instant,
    /// The number of the repository in the mirror's folder.
    number: u64,
    results: Vec<(Reference, Result<Fetched, Arc<FetchError>>)>,
}

/// What one source wants from the group.
pub(super) struct FetchRequest<'a> {
    pub reference: &'a Reference,
    /// When the source asked.
    pub asked: Instant,
    /// A fetch counts that began at most this time before.
    pub age_max: Duration,
    /// Only an own fetch counts.
    pub alone: bool,
    pub cancel: &'a AtomicBool,
}

/// How a source gets its commit.
pub(super) enum FetchEntry<'a> {
    /// From the fetch of another source, into the repository of this number.
    Shared { number: u64, result: Result<Fetched, FetchError> },
    /// From its own fetch. All others wait until the permit is dropped.
    Own(FetchPermit<'a>),
    /// The source was cancelled.
    Cancelled,
}

/// The right to fetch.
pub(super) struct FetchPermit<'a> {
    group: &'a FetchGroup,
    /// The reference of the source that fetches.
    pub own: Reference,
    /// The references of the other sources.
    pub others: Vec<Reference>,
    /// The fetch serves all who asked before.
    began: Instant,
}

impl Default for FetchGroup {
    fn default() -> Self {
        Self {
            join_time: JOIN_TIME,
            state: Mutex::default(),
            ended: Condvar::new(),
            joined: Condvar::new(),
        }
    }
}

impl FetchGroup {
    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reference to each fetch from now on.
    pub fn follow(&self, reference: &Reference) {
        let followed = &mut self.state().followed;
        match followed.iter_mut().find(|one| one.reference == *reference) {
            Some(one) => one.followers += 1,
            None => followed.push(Followed {
                reference: reference.clone(),
                followers: 1,
                is_apart: false,
            }),
        }
    }

    /// Reverts one [`Self::follow`].
    pub fn unfollow(&self, reference: &Reference) {
        let followed = &mut self.state().followed;
        if let Some(one) = followed.iter_mut().find(|one| one.reference == *reference) {
            one.followers -= 1;
        }
        followed.retain(|one| one.followers > 0);
    }

    /// Waits for the result of another source's fetch, or for the right to fetch.
    pub fn enter(&self, request: &FetchRequest<'_>) -> FetchEntry<'_> {
        let mut state = self.state();
        loop {
            if request.cancel.load(Ordering::Relaxed) {
                return FetchEntry::Cancelled;
            }
            if let Some(last) = state.last.as_ref().filter(|_| !request.alone)
                && let Some(result) = last.result_for(request)
            {
                return FetchEntry::Shared { number: last.number, result };
            }
            if !state.is_fetching {
                break;
            }
            state.waiting += 1;
            self.joined.notify_all();
            let waited = self.ended.wait_timeout(state, CANCEL_INTERVAL);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.is_fetching = true;
        let missing = |state: &mut GroupState| state.waiting + 1 < state.followers();
        let waited = self.joined.wait_timeout_while(state, self.join_time, missing);
        (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let own = request.reference.clone();
        let is_apart = state.followed.iter().any(|one| one.reference == own && one.is_apart);
        let others = state.followed.iter().filter(|one| !is_apart && !one.is_apart);
        let others = others.map(|one| &one.reference).filter(|other| **other != own);
        let others = others.cloned().collect();
        FetchEntry::Own(FetchPermit { group: self, own, others, began: Instant::now() })
    }
}

impl GroupState {
    /// The sources that share the mirror.
    fn followers(&self) -> usize {
        self.followed.iter().map(|one| one.followers).sum()
    }

    fn set_apart(&mut self, reference: &Reference, is_apart: bool) {
        for one in self.followed.iter_mut().filter(|one| one.reference == *reference) {
            one.is_apart = is_apart;
        }
    }
}

impl GroupFetch {
    /// The result that serves a request. An error serves only those who waited for it, so that a
    /// retry is a new fetch.
    fn result_for(&self, request: &FetchRequest<'_>) -> Option<Result<Fetched, FetchError>> {
        if request.asked.saturating_duration_since(self.began) > request.age_max {
            return None;
        }
        let (_, result) = self.results.iter().find(|(of, _)| of == request.reference)?;
        match result {
            Ok(fetched) => Some(Ok(fetched.clone())),
            Err(error) if request.asked < self.ended => {
                Some(Err(FetchError::Shared(Arc::clone(error))))
            }
            Err(_) => None,
        }
    }
}

impl FetchPermit<'_> {
    /// Leaves out the references of the other sources, which then fetch them by themselves.
    pub fn separate(&mut self) {
        let mut state = self.group.state();
        for reference in self.others.drain(..) {
            state.set_apart(&reference, true);
        }
    }

    /// Ends the permit, and gives the result of the source that fetched. The number is that of the
    /// repository with what was fetched.
    pub fn end(
        self,
        fetched: Result<(u64, GroupFetched), FetchError>,
    ) -> Result<Fetched, FetchError> {
        let mut state = self.group.state();
        let (mut number, mut results) = (0, Vec::new());
        // An error of the whole fetch is the others' error too.
        let (own, affected) = match fetched {
            Ok((of, GroupFetched { own, others })) => {
                number = of;
                for reference in &self.others {
                    // Its source then fetches by itself, and reports its own error.
                    state.set_apart(reference, !others.iter().any(|(of, _)| of == reference));
                }
                results.extend(others.into_iter().map(|(of, fetched)| (of, Ok(fetched))));
                (own, Vec::new())
            }
            Err(error) => (Err(error), self.others.clone()),
        };
        if matches!(own, Err(FetchError::Cancelled { .. })) {
            return own;
        }
        state.set_apart(&self.own, own.is_err());
        let own = match own {
            Err(error) if state.followers() > 1 => {
                let error = Arc::new(error);
                let affected = [self.own.clone()].into_iter().chain(affected);
                results.extend(affected.map(|of| (of, Err(Arc::clone(&error)))));
                Err(FetchError::Shared(error))
            }
            Err(error) => Err(error),
            Ok(fetched) => {
                results.push((self.own.clone(), Ok(fetched.clone())));
                Ok(fetched)
            }
        };
        let (began, ended) = (self.began, Instant::now());
        state.last = Some(GroupFetch { began, ended, number, results });
        own
    }
}

impl Drop for FetchPermit<'_> {
    fn drop(&mut self) {
        self.group.state().is_fetching = false;
        self.group.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use gitwork_core::model::name::ObjectId;

    use super::*;

    fn branch(name: &str) -> Reference {
        Reference::Branch(name.to_owned())
    }

    fn fetched(name: &str) -> Fetched {
        Fetched { commit: ObjectId([1; 20]), name: name.to_owned() }
    }

    fn failed() -> FetchError {
        FetchError::TooLarge { url: "u".to_owned(), limit: 1 }
    }

    fn asked(reference: &Reference, asked: Instant, age_max: Duration) -> FetchRequest<'_> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        FetchRequest { reference, asked, age_max, alone: false, cancel: &NEVER }
    }

    fn own<'a>(permit: FetchEntry<'a>) -> FetchPermit<'a> {
        match permit {
            FetchEntry::Own(permit) => permit,
            _ => panic!("another source fetches"),
        }
    }

    /// A group of two sources that follow `a` and `b`.
    fn group(join_time: Duration) -> (FetchGroup, Reference, Reference) {
        let (a, b) = (branch("a"), branch("b"));
        let group = FetchGroup { join_time, ..FetchGroup::default() };
        group.follow(&a);
        group.follow(&b);
        (group, a, b)
    }

    #[test]
    fn sources_that_ask_at_the_same_time_share_a_fetch() {
        let (group, a, b) = group(Duration::from_secs(60));
        let fetches = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for (reference, name) in [(&a, "a"), (&b, "b")] {
                let (group, fetches) = (&group, &fetches);
                scope.spawn(move || {
                    let request = asked(reference, Instant::now(), Duration::ZERO);
                    let result = match group.enter(&request) {
                        FetchEntry::Shared { result, .. } => result,
                        FetchEntry::Own(permit) => {
                            fetches.fetch_add(1, Ordering::Relaxed);
                            let Reference::Branch(other) = &permit.others[0] else {
                                panic!("{name}")
                            };
                            let others = vec![(branch(other), fetched(other))];
                            permit.end(Ok((0, GroupFetched { own: Ok(fetched(name)), others })))
                        }
                        FetchEntry::Cancelled => panic!("cancelled"),
                    };
                    assert_eq!(result.unwrap(), fetched(name));
                });
            }
        });
        assert_eq!(fetches.into_inner(), 1);
    }

    #[test]
    fn earlier_fetch_serves_only_those_who_accept_its_age() {
        let (group, a, b) = group(Duration::ZERO);
        let age = Duration::from_secs(3_600);
        let permit = own(group.enter(&asked(&a, Instant::now(), Duration::ZERO)));
        assert_eq!((&permit.own, &permit.others), (&a, &vec![b.clone()]));
        let others = vec![(b.clone(), fetched("b"))];
        permit.end(Ok((3, GroupFetched { own: Ok(fetched("a")), others }))).unwrap();

        let now = Instant::now();
        let FetchEntry::Shared { number: 3, result } = group.enter(&asked(&b, now, age)) else {
            panic!("not shared")
        };
        assert_eq!(result.unwrap(), fetched("b"));
        let strict = asked(&b, now, Duration::ZERO);
        assert!(matches!(group.enter(&strict), FetchEntry::Own(_)), "a hint needs a later fetch");
        let late = asked(&b, now + age * 2, age);
        assert!(matches!(group.enter(&late), FetchEntry::Own(_)));
        let alone = FetchRequest { alone: true, ..asked(&b, now, age) };
        assert!(matches!(group.enter(&alone), FetchEntry::Own(_)));
    }

    #[test]
    fn error_of_the_connection_is_shared_with_those_who_wait_and_not_with_a_retry() {
        let (group, a, b) = group(Duration::ZERO);
        let (start, age) = (Instant::now(), Duration::from_secs(3_600));
        let permit = own(group.enter(&asked(&a, start, age)));
        assert!(matches!(permit.end(Err(failed())), Err(FetchError::Shared(_))));
        let FetchEntry::Shared { result: Err(error), .. } = group.enter(&asked(&b, start, age))
        else {
            panic!("not shared")
        };
        assert_eq!(error.to_string(), failed().to_string());
        let retry = asked(&b, Instant::now(), age);
        assert!(matches!(group.enter(&retry), FetchEntry::Own(_)));
    }

    #[test]
    fn reference_that_fails_is_fetched_apart_until_it_succeeds() {
        let (group, a, b) = group(Duration::ZERO);
        let mut permit = own(group.enter(&asked(&a, Instant::now(), Duration::ZERO)));
        permit.separate();
        assert!(permit.others.is_empty());
        let alone = |name| Ok((0, GroupFetched { own: Ok(fetched(name)), others: Vec::new() }));
        permit.end(alone("a")).unwrap();
        let again = || asked(&a, Instant::now(), Duration::ZERO);
        assert!(own(group.enter(&again())).others.is_empty());
        let permit = own(group.enter(&asked(&b, Instant::now(), Duration::ZERO)));
        assert!(permit.others.is_empty(), "its failure must not be that of the others");
        permit.end(alone("b")).unwrap();
        assert_eq!(own(group.enter(&again())).others, std::slice::from_ref(&b));
        group.unfollow(&b);
        assert!(own(group.enter(&again())).others.is_empty());
    }

    #[test]
    fn cancelled_source_neither_waits_nor_fails_the_others() {
        let (group, a, b) = group(Duration::ZERO);
        let now = Instant::now();
        let permit = own(group.enter(&asked(&a, now, Duration::ZERO)));
        let cancel = AtomicBool::new(true);
        let waiting = FetchRequest { cancel: &cancel, ..asked(&b, now, Duration::ZERO) };
        assert!(matches!(group.enter(&waiting), FetchEntry::Cancelled));
        let error = FetchError::Cancelled { url: "u".to_owned() };
        assert!(matches!(permit.end(Err(error)), Err(FetchError::Cancelled { .. })));
        assert!(matches!(group.enter(&asked(&b, now, Duration::ZERO)), FetchEntry::Own(_)));
    }
}
