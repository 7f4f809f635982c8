//! Leader election by a Lease (`coordination.k8s.io/v1`), with the rules of client-go. Pure.
//!
//! A Lease is valid for its duration from the moment at which *this* process saw it change, so that
//! no two clocks are compared.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A Lease as JSON: fields and annotations of other writers stay.
pub type Lease = Map<String, Value>;

/// An annotation of a Lease.
pub fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    lease.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// The next action of a candidate for a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseAction {
    /// It has no holder, or its holder let it expire.
    Acquire,
    /// This process holds it.
    Renew,
    /// Another process holds it.
    Wait,
}

/// Decides the next action of `identity`. `unchanged_for`: the time since this process last saw the
/// Lease change.
pub fn next_action(
    holder: &str,
    identity: &str,
    duration: Duration,
    unchanged_for: Duration,
) -> LeaseAction {
    if holder == identity {
        LeaseAction::Renew
    } else if holder.is_empty() || unchanged_for >= duration {
        LeaseAction::Acquire
    } else {
        LeaseAction::Wait
    }
}

/// The identity of the holder; empty if there is none.
pub fn holder(lease: &Lease) -> &str {
    spec(lease, "holderIdentity").and_then(Value::as_str).unwrap_or_default()
}

/// How long the holder may go without a renewal; `default` if the Lease does not say.
pub fn duration(lease: &Lease, default: Duration) -> Duration {
    let seconds = spec(lease, "leaseDurationSeconds").and_then(Value::as_u64);
    seconds.map_or(default, Duration::from_secs)
}

fn spec<'a>(lease: &'a Lease, field: &str) -> Option<&'a Value> {
    lease.get("spec")?.get(field)
}

/// A new Lease without a holder.
pub fn new_lease(namespace: &str, name: &str) -> Lease {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": namespace, "name": name },
    });
    match lease {
        Value::Object(lease) => lease,
        _ => Lease::new(),
    }
}

/// `lease`, held by `identity` for `seconds` from `at` on; an empty identity releases it.
/// `acquires`: the holder changes.
pub fn with_holder(
    mut lease: Lease,
    identity: &str,
    seconds: u64,
    at: Timestamp,
    acquires: bool,
) -> Lease {
    let mut spec = match lease.remove("spec") {
        Some(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    let now = at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    if acquires {
        let before = spec.get("leaseTransitions").and_then(Value::as_i64);
        // The API server accepts 32 bits.
        let transitions = before.map_or(0, |before| before.wrapping_add(1) & 0x7fff_ffff);
        spec.insert("leaseTransitions".into(), transitions.into());
        spec.insert("acquireTime".into(), now.clone().into());
    }
    spec.insert("holderIdentity".into(), identity.into());
    spec.insert("leaseDurationSeconds".into(), seconds.into());
    spec.insert("renewTime".into(), now.into());
    lease.insert("spec".into(), Value::Object(spec));
    lease
}

/// How long a process leaves a free Lease to other replicas. The wait grows with its share of
/// leases (`led` of `sources`), so that replicas share the sources.
pub fn acquire_delay(led: usize, sources: usize, longest: Duration) -> Duration {
    let share = u32::try_from(led.min(sources)).unwrap_or(u32::MAX);
    let whole = u32::try_from(sources).unwrap_or(u32::MAX).max(1);
    longest.saturating_mul(share) / whole
}

/// The result of one read or renewal of the Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseObservation {
    /// This process holds it.
    Ours,
    /// Another process holds it.
    Another,
    /// It has no holder, and this process leaves it to other replicas for now.
    Free,
    /// Its namespace is missing: no process can hold it.
    NamespaceMissing,
    /// This process lacks the permission; another process may have it.
    Forbidden,
    /// The API server did not answer.
    Unknown,
}

/// Whether this process is the leader, and until when. All times are since one moment that the
/// caller chooses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaderTerm {
    /// It is the leader until then.
    until: Option<Duration>,
    /// It is the leader without a Lease, because no Lease is available.
    unelected: bool,
    /// It has held the Lease at least once.
    was_elected: bool,
    /// It has seen another holder.
    saw_another: bool,
}

impl LeaderTerm {
    /// Records an observation whose request began at `asked`. `renew_within`: how long a holder
    /// stays the leader without a renewal. It is shorter than the duration of the Lease.
    pub fn observe(
        &mut self,
        observation: LeaseObservation,
        asked: Duration,
        renew_within: Duration,
    ) {
        match observation {
            LeaseObservation::Ours => {
                self.until = Some(asked + renew_within);
                (self.unelected, self.was_elected) = (false, true);
            }
            LeaseObservation::Another => {
                (self.until, self.unelected, self.saw_another) = (None, false, true);
            }
            LeaseObservation::Free => (self.until, self.unelected) = (None, false),
            // A single replica must work without the namespace: a leader continues, and a process
            // that has never seen another one begins. A standby stays one.
            LeaseObservation::NamespaceMissing => {
                self.unelected |= self.until.is_some() || !self.saw_another;
            }
            // A process that has seen an election waits for the next one.
            LeaseObservation::Forbidden => self.unelected |= !self.was_elected && !self.saw_another,
            LeaseObservation::Unknown => {}
        }
    }

    /// Whether it is the leader at `now`.
    pub fn is_leader(&self, now: Duration) -> bool {
        self.unelected || self.until.is_some_and(|until| now < until)
    }

    /// Whether it is the leader by a Lease.
    pub fn is_elected(&self) -> bool {
        self.until.is_some() && !self.unelected
    }

    /// When leadership expires; `None` if it does not, or if this process is not the leader.
    pub fn until(&self) -> Option<Duration> {
        self.until.filter(|_| !self.unelected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_free_or_expired_lease_is_acquired_and_another_holder_waited_for() {
        for (holder, unchanged, expected) in [
            ("", second(0), LeaseAction::Acquire),
            ("me", second(500), LeaseAction::Renew),
            ("other", second(136), LeaseAction::Wait),
            ("other", second(137), LeaseAction::Acquire),
        ] {
            assert_eq!(
                next_action(holder, "me", second(137), unchanged),
                expected,
                "{holder} {unchanged:?}"
            );
        }
    }

    #[test]
    fn a_claim_keeps_what_is_not_its_own_and_counts_changes_of_hands() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let first =
            with_holder(new_lease("gitwork", "lead"), "a", 15, at("2026-11-20T12:00:00Z"), true);
        assert_eq!((holder(&first), duration(&first, second(1))), ("a", second(15)));
        let expected = json!({
            "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-11-20T12:00:00.000000Z",
            "renewTime": "2026-11-20T12:00:00.000000Z",
        });
        assert_eq!(first["spec"], expected);
        let mut kept = first;
        kept["spec"]["strategy"] = json!("OldestEmulationVersion");
        kept["metadata"]["labels"] = json!({ "team": "shop" });
        let renewed = with_holder(kept, "a", 15, at("2026-11-20T12:00:03Z"), false);
        assert_eq!(renewed["spec"]["acquireTime"], "2026-11-20T12:00:00.000000Z");
        assert_eq!(renewed["spec"]["renewTime"], "2026-11-20T12:00:03.000000Z");
        let taken = with_holder(renewed, "b", 15, at("2026-11-20T12:01:00Z"), true);
        assert_eq!(taken["spec"]["leaseTransitions"], 1);
        assert_eq!(taken["spec"]["strategy"], "OldestEmulationVersion");
        assert_eq!(taken["metadata"]["labels"]["team"], "shop");
        assert_eq!(holder(&Lease::new()), "");
        assert_eq!(duration(&Lease::new(), second(7)), second(7));
    }

    #[test]
    fn a_replica_that_leads_more_sources_waits_longer() {
        for (led, sources, expected) in [
            (0, 1, Duration::ZERO),
            (0, 0, Duration::ZERO),
            (1, 4, Duration::from_millis(750)),
            (3, 4, Duration::from_millis(2_250)),
            (9, 4, second(3)),
        ] {
            assert_eq!(acquire_delay(led, sources, second(3)), expected, "{led} of {sources}");
        }
    }

    #[test]
    fn leadership_expires_before_another_process_may_acquire_the_lease() {
        let mut term = LeaderTerm::default();
        assert!(!term.is_leader(second(0)));
        term.observe(LeaseObservation::Ours, second(100), second(10));
        assert!(term.is_leader(second(109)) && term.is_elected());
        assert_eq!(term.until(), Some(second(110)));
        term.observe(LeaseObservation::Unknown, second(108), second(10));
        assert!(term.is_leader(second(109)) && !term.is_leader(second(110)));
        term.observe(LeaseObservation::Ours, second(112), second(10));
        term.observe(LeaseObservation::Another, second(113), second(10));
        assert!(!term.is_leader(second(113)) && term.until().is_none());
    }

    #[test]
    fn without_a_lease_a_single_process_leads_and_a_standby_does_not() {
        let leads = |observations: &[LeaseObservation], at: u64| {
            let mut term = LeaderTerm::default();
            for observation in observations {
                term.observe(*observation, second(0), second(10));
            }
            term.is_leader(second(at))
        };
        for (observations, expected) in [
            (&[LeaseObservation::NamespaceMissing][..], true),
            (&[LeaseObservation::Ours, LeaseObservation::NamespaceMissing], true),
            (&[LeaseObservation::Another, LeaseObservation::NamespaceMissing], false),
            (
                &[
                    LeaseObservation::Another,
                    LeaseObservation::Ours,
                    LeaseObservation::NamespaceMissing,
                ],
                true,
            ),
            (&[LeaseObservation::NamespaceMissing, LeaseObservation::Unknown], true),
            (&[LeaseObservation::NamespaceMissing, LeaseObservation::Another], false),
            (&[LeaseObservation::NamespaceMissing, LeaseObservation::Free], false),
            (&[LeaseObservation::Unknown], false),
            (&[LeaseObservation::Forbidden], true),
            (&[LeaseObservation::Another, LeaseObservation::Forbidden], false),
            (&[LeaseObservation::Ours, LeaseObservation::Forbidden], false),
            (
                &[
                    LeaseObservation::Forbidden,
                    LeaseObservation::Another,
                    LeaseObservation::Forbidden,
                ],
                false,
            ),
            // From then on leadership expires as usual.
            (&[LeaseObservation::NamespaceMissing, LeaseObservation::Ours], false),
        ] {
            assert_eq!(leads(observations, 1_000), expected, "{observations:?}");
        }
    }
}
