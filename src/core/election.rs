//! Who of several processes leads, by a Lease (`coordination.k8s.io/v1`) as client-go's leader election uses it: a record
//! is valid for its duration from when *we* saw it change, so that no two clocks are compared. Pure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A Lease as JSON: what others keep in it stays.
pub type Lease = Map<String, Value>;

/// What to do about a Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nobody holds it, or its holder has let it expire.
    Acquire,
    Renew,
    Wait,
}

/// Decides by the holder of a record, its duration, and for how long we have seen it unchanged.
pub fn turn(holder: &str, identity: &str, duration: Duration, unchanged_for: Duration) -> Turn {
    if holder == identity {
        Turn::Renew
    } else if holder.is_empty() || unchanged_for >= duration {
        Turn::Acquire
    } else {
        Turn::Wait
    }
}

/// Who holds it; empty where nobody does.
pub fn holder(lease: &Lease) -> &str {
    spec(lease, "holderIdentity").and_then(Value::as_str).unwrap_or_default()
}

/// For how long its holder may be silent; `otherwise` where it does not say.
pub fn duration(lease: &Lease, otherwise: Duration) -> Duration {
    let seconds = spec(lease, "leaseDurationSeconds").and_then(Value::as_u64);
    seconds.map_or(otherwise, Duration::from_secs)
}

fn spec<'a>(lease: &'a Lease, field: &str) -> Option<&'a Value> {
    lease.get("spec")?.get(field)
}

/// A Lease that nobody holds yet.
pub fn unheld(namespace: &str, name: &str) -> Lease {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "namespace": namespace, "name": name },
    });
    match lease {
        Value::Object(lease) => lease,
        _ => Lease::new(),
    }
}

/// The Lease as `identity` holds it from `at` on; with an empty one, as nobody does. `acquires`: it changes hands.
pub fn claimed(
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
        // The API server takes 32 bits.
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

/// How long to leave a free Lease to others: the more of its `sources` a process leads already, the longer. So replicas
/// that start together, or that are left when one ends, share the sources between them.
pub fn patience(led: usize, sources: usize, longest: Duration) -> Duration {
    let share = u32::try_from(led.min(sources)).unwrap_or(u32::MAX);
    let whole = u32::try_from(sources).unwrap_or(u32::MAX).max(1);
    longest.saturating_mul(share) / whole
}

/// What one look at the Lease came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It is ours.
    Ours,
    /// It is another's.
    Another,
    /// Nobody holds it, and we leave it to others for now.
    Free,
    /// There can be no Lease, for anybody: its namespace is missing.
    Homeless,
    /// We may not have it; another may.
    Forbidden,
    /// It is not known what has become of it.
    Unknown,
}

/// Whether this process leads. All times are since one moment of the caller's choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tenure {
    /// We lead until then.
    until: Option<Duration>,
    /// We lead without a Lease, as none can be had.
    unelected: bool,
    /// We have led by a Lease.
    was_elected: bool,
    /// Another has been seen to hold it.
    saw_another: bool,
}

impl Tenure {
    /// Takes in a look that began at `asked`. `renew_within`: how long a holder leads on without another success, which
    /// is less than the time after which others may take the Lease.
    pub fn take(&mut self, look: Look, asked: Duration, renew_within: Duration) {
        match look {
            Look::Ours => {
                self.until = Some(asked + renew_within);
                (self.unelected, self.was_elected) = (false, true);
            }
            Look::Another => (self.until, self.unelected, self.saw_another) = (None, false, true),
            Look::Free => (self.until, self.unelected) = (None, false),
            // One process alone must not stand still for a namespace: who leads goes on, and who has never seen another
            // begins. One that stood by goes on doing so.
            Look::Homeless => self.unelected |= self.until.is_some() || !self.saw_another,
            // Whoever knows that there is an election waits for it.
            Look::Forbidden => self.unelected |= !self.was_elected && !self.saw_another,
            Look::Unknown => {}
        }
    }

    pub fn leads(&self, now: Duration) -> bool {
        self.unelected || self.until.is_some_and(|until| now < until)
    }

    pub fn is_elected(&self) -> bool {
        self.until.is_some() && !self.unelected
    }

    /// When the lead ends by itself; `None` where it does not, or where there is none.
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
    fn turns() {
        for (holder, unchanged, expected) in [
            ("", second(0), Turn::Acquire),
            ("me", second(500), Turn::Renew),
            ("other", second(136), Turn::Wait),
            ("other", second(137), Turn::Acquire),
        ] {
            assert_eq!(
                turn(holder, "me", second(137), unchanged),
                expected,
                "{holder} {unchanged:?}"
            );
        }
    }

    #[test]
    fn a_claim_keeps_what_is_not_its_own_and_counts_changes_of_hands() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let first = claimed(unheld("gitwork", "lead"), "a", 15, at("2026-11-20T12:00:00Z"), true);
        assert_eq!((holder(&first), duration(&first, second(1))), ("a", second(15)));
        let expected = json!({
            "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-11-20T12:00:00.000000Z", "renewTime": "2026-11-20T12:00:00.000000Z",
        });
        assert_eq!(first["spec"], expected);
        let mut kept = first;
        kept["spec"]["strategy"] = json!("OldestEmulationVersion");
        kept["metadata"]["labels"] = json!({ "team": "shop" });
        let renewed = claimed(kept, "a", 15, at("2026-11-20T12:00:03Z"), false);
        assert_eq!(renewed["spec"]["acquireTime"], "2026-11-20T12:00:00.000000Z");
        assert_eq!(renewed["spec"]["renewTime"], "2026-11-20T12:00:03.000000Z");
        let taken = claimed(renewed, "b", 15, at("2026-11-20T12:01:00Z"), true);
        assert_eq!(taken["spec"]["leaseTransitions"], 1);
        assert_eq!(taken["spec"]["strategy"], "OldestEmulationVersion");
        assert_eq!(taken["metadata"]["labels"]["team"], "shop");
        assert_eq!(holder(&Lease::new()), "");
        assert_eq!(duration(&Lease::new(), second(7)), second(7));
    }

    #[test]
    fn who_leads_more_waits_longer() {
        for (led, sources, expected) in [
            (0, 1, Duration::ZERO),
            (0, 0, Duration::ZERO),
            (1, 4, Duration::from_millis(750)),
            (3, 4, Duration::from_millis(2_250)),
            (9, 4, second(3)),
        ] {
            assert_eq!(patience(led, sources, second(3)), expected, "{led} of {sources}");
        }
    }

    #[test]
    fn a_lead_ends_by_itself_before_another_may_begin_one() {
        let mut tenure = Tenure::default();
        assert!(!tenure.leads(second(0)));
        tenure.take(Look::Ours, second(100), second(10));
        assert!(tenure.leads(second(109)) && tenure.is_elected());
        assert_eq!(tenure.until(), Some(second(110)));
        tenure.take(Look::Unknown, second(108), second(10));
        assert!(tenure.leads(second(109)) && !tenure.leads(second(110)));
        tenure.take(Look::Ours, second(112), second(10));
        tenure.take(Look::Another, second(113), second(10));
        assert!(!tenure.leads(second(113)) && tenure.until().is_none());
    }

    #[test]
    fn without_a_place_for_a_lease_one_that_is_alone_leads_and_one_that_stood_by_does_not() {
        let leads = |looks: &[Look], at: u64| {
            let mut tenure = Tenure::default();
            for look in looks {
                tenure.take(*look, second(0), second(10));
            }
            tenure.leads(second(at))
        };
        for (looks, expected) in [
            (&[Look::Homeless][..], true),
            (&[Look::Ours, Look::Homeless], true),
            (&[Look::Another, Look::Homeless], false),
            (&[Look::Another, Look::Ours, Look::Homeless], true),
            (&[Look::Homeless, Look::Unknown], true),
            (&[Look::Homeless, Look::Another], false),
            (&[Look::Homeless, Look::Free], false),
            (&[Look::Unknown], false),
            (&[Look::Forbidden], true),
            (&[Look::Another, Look::Forbidden], false),
            (&[Look::Ours, Look::Forbidden], false),
            (&[Look::Forbidden, Look::Another, Look::Forbidden], false),
            // From then on it is a lead like any other.
            (&[Look::Homeless, Look::Ours], false),
        ] {
            assert_eq!(leads(looks, 1_000), expected, "{looks:?}");
        }
    }
}
