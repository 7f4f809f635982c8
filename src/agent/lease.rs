//! Leader election by a Lease, as client-go does it: a record is valid for its duration from when *we* saw it change,
//! and every write is bound to the version that was read.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use super::core::manifest::Mapping;
use super::core::object::{Object, meta, text};
use super::server::{ApiError, Server, path};

/// What a candidate goes by.
#[derive(Debug, Clone)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    pub identity: String,
    pub duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

/// What to do about the Lease.
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

/// One candidate.
pub struct Candidate {
    server: Server,
    election: Election,
    /// The record's version as last seen, and since when.
    seen: Option<(String, Instant)>,
}

impl Candidate {
    pub fn new(server: Server, election: Election) -> Self {
        Self { server, election, seen: None }
    }

    /// Waits until the Lease is ours.
    pub async fn acquire(&mut self) {
        info!(lease = self.election.name, identity = self.election.identity, "waiting to lead");
        loop {
            match self.attempt().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => debug!(%error, "cannot write the Lease"),
            }
            sleep(self.election.retry_period.mul_f64(0.8 + fastrand::f64() * 0.4)).await;
        }
    }

    /// Renews until that has failed for too long.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        loop {
            sleep(self.election.retry_period).await;
            match self.attempt().await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => return,
                Err(error) => debug!(%error, "cannot renew the Lease"),
            }
            if renewed.elapsed() > self.election.renew_deadline {
                return;
            }
        }
    }

    /// Lets another lead at once.
    pub async fn release(&mut self) {
        let Ok(Some(mut lease)) = self.server.get(&self.path()).await else { return };
        if text(&lease, &["spec", "holderIdentity"]) != self.election.identity {
            return;
        }
        self.fill(&mut lease, "", 1, false);
        if let Err(error) = self.server.replace(&self.path(), &lease).await {
            debug!(%error, "cannot release the Lease");
        }
    }

    /// Whether the Lease is ours after this.
    async fn attempt(&mut self) -> Result<bool, ApiError> {
        let identity = self.election.identity.clone();
        let seconds = self.election.duration.as_secs();
        let Some(mut lease) = self.server.get(&self.path()).await? else {
            let mut lease = Object::new();
            lease.insert("apiVersion".into(), "coordination.k8s.io/v1".into());
            lease.insert("kind".into(), "Lease".into());
            lease.insert(
                "metadata".into(),
                json!({"name": self.election.name, "namespace": self.election.namespace}),
            );
            self.fill(&mut lease, &identity, seconds, true);
            let collection = path(&mapping(), &self.election.namespace, None);
            self.server.create(&collection, &lease).await?;
            return Ok(true);
        };
        let version = meta(&lease, "resourceVersion").to_owned();
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => Instant::now(),
        };
        self.seen = Some((version, since));
        let valid_for = lease
            .get("spec")
            .and_then(|spec| spec.get("leaseDurationSeconds"))
            .and_then(Value::as_u64);
        let holder = text(&lease, &["spec", "holderIdentity"]).to_owned();
        let turn = turn(
            &holder,
            &identity,
            Duration::from_secs(valid_for.unwrap_or(seconds)),
            since.elapsed(),
        );
        if turn == Turn::Wait {
            return Ok(false);
        }
        self.fill(&mut lease, &identity, seconds, turn == Turn::Acquire);
        match self.server.replace(&self.path(), &lease).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_conflict() => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn fill(&self, lease: &mut Object, holder: &str, seconds: u64, is_acquired: bool) {
        let mut spec = match lease.remove("spec") {
            Some(Value::Object(spec)) => spec,
            _ => Object::new(),
        };
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        if is_acquired {
            let before = spec.get("leaseTransitions").and_then(Value::as_i64);
            spec.insert("leaseTransitions".into(), before.map_or(0, |before| before + 1).into());
            spec.insert("acquireTime".into(), now.clone().into());
        }
        spec.insert("holderIdentity".into(), holder.into());
        spec.insert("leaseDurationSeconds".into(), seconds.into());
        spec.insert("renewTime".into(), now.into());
        lease.insert("spec".into(), Value::Object(spec));
    }

    fn path(&self) -> String {
        path(&mapping(), &self.election.namespace, Some(&self.election.name))
    }
}

fn mapping() -> Mapping {
    Mapping {
        group: "coordination.k8s.io".into(),
        version: "v1".into(),
        resource: "leases".into(),
        namespaced: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns() {
        let second = Duration::from_secs;
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
}
