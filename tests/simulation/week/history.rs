//! What happened to each cluster, and the rules of the story. They read works on the hub, objects
//! on the clusters, and what people did. They use no code of gitwork.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::facts::ClusterFacts;
use gitwork_core::model::name::{ClusterName, WorkKey};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::workloads::shop;
use crate::agents::Agents;
use crate::cluster::{Live, ObjectEvent};
use crate::hub::is_deleting;
use crate::moves::manifests;

/// The stores that may be in progress at a time, in the waves of countries.
const CONCURRENCY: usize = 20;
/// The stores of a wave that may fail.
const FAILURES: usize = 2;
/// How long a store may take.
const DEADLINE: SignedDuration = SignedDuration::from_mins(10);

/// Times here are as exact as this.
const RESOLUTION: SignedDuration = SignedDuration::from_secs(5);
/// The hub learns within this time that a store can be reached again.
const REACH_LAG: SignedDuration = SignedDuration::from_mins(6);

/// The waves: how long each soaks, and the night in which its stores may change.
const LAB: usize = 0;
const FIRST_CITY: usize = 1;
const WAVES: [(SignedDuration, Option<Night>); 5] = [
    (SignedDuration::from_hours(1), None),
    (SignedDuration::from_mins(10), None),
    (SignedDuration::from_mins(5), Some(Night { zone: "Europe/Berlin", from: 21, until: 7 })),
    (SignedDuration::from_mins(5), Some(Night { zone: "Europe/Vienna", from: 22, until: 6 })),
    (SignedDuration::from_mins(5), Some(Night { zone: "Europe/Zurich", from: 22, until: 6 })),
];

/// The hours in which the stores of a country are closed.
struct Night {
    zone: &'static str,
    from: i8,
    until: i8,
}

impl Night {
    fn has(&self, at: Timestamp) -> bool {
        let hour = at.to_zoned(TimeZone::get(self.zone).unwrap()).hour();
        hour >= self.from || hour < self.until
    }
}

/// A version of the tills that Git had.
pub struct Version {
    /// Its tag, and that of the stores in Switzerland.
    pub tags: [&'static str; 2],
    /// When somebody approved it for the countries.
    pub approved: Option<Timestamp>,
    /// More stores of a wave than may have failed with it.
    pub has_failed: bool,
    /// Gitwork has recorded that.
    pub is_rejected: bool,
}

/// A version that the hub gave to a store.
#[derive(Debug, Clone)]
pub struct Taken {
    pub at: Timestamp,
    pub version: usize,
    /// When its tills were ready with it.
    ready: Option<Timestamp>,
}

impl Taken {
    /// Whether the store takes the place of another one.
    fn is_in_progress(&self, now: Timestamp, soak: SignedDuration) -> bool {
        now < self.at + DEADLINE && self.ready.is_none_or(|ready| now < ready + soak)
    }

    fn has_soaked(&self, now: Timestamp, soak: SignedDuration) -> bool {
        self.ready.is_some_and(|ready| ready + soak <= now)
    }
}

/// What happened to a store.
#[derive(Default)]
pub struct Store {
    pub wave: usize,
    is_swiss: bool,
    /// The versions that the hub gave it, one after the other.
    pub on_hub: Vec<Taken>,
    /// The versions that it ran.
    pub on_cluster: Vec<usize>,
    /// When its agent could not reach the hub last.
    last_cut: Option<Timestamp>,
}

impl Store {
    fn of(facts: &ClusterFacts) -> Self {
        let label = |key: &str| facts.labels.get(key).map_or("", String::as_str);
        let wave = match (label("purpose"), label("city"), label("country")) {
            ("lab", ..) => LAB,
            (_, "berlin", _) => FIRST_CITY,
            (.., "de") => 2,
            (.., "at") => 3,
            _ => 4,
        };
        Self { wave, is_swiss: label("country") == "ch", ..Self::default() }
    }

    /// Whether the hub may call it unreachable.
    fn was_cut(&self, now: Timestamp) -> bool {
        self.last_cut.is_some_and(|at| now < at + REACH_LAG)
    }

    fn soak(&self) -> SignedDuration {
        WAVES[self.wave].0
    }
}

/// The history of all clusters.
#[derive(Default)]
pub struct History {
    pub versions: Vec<Version>,
    /// The version that reached all stores last.
    pub good: Option<usize>,
    pub stores: BTreeMap<ClusterName, Store>,
    clusters: BTreeSet<ClusterName>,
    /// The clusters that have left, or are leaving.
    pub left: BTreeSet<ClusterName>,
    /// The objects that began and ceased to exist.
    pub objects: Vec<(Timestamp, ClusterName, ObjectEvent)>,
    /// The waves that began, each with its version.
    began: BTreeSet<(usize, usize)>,
    /// Stores that are not ready with what they took.
    unready: BTreeSet<ClusterName>,
    /// The largest number of stores in progress, by version.
    pub most: BTreeMap<usize, usize>,
    /// The hub was restored, and nobody has confirmed that.
    pub is_unconfirmed: bool,
    /// The changes that are seen now are those of the restore.
    pub is_restoring: bool,
    pub violations: Vec<String>,
}

impl History {
    pub fn add(&mut self, cluster: &ClusterName, facts: &ClusterFacts) {
        self.clusters.insert(cluster.clone());
        if facts.labels.get("tier").is_some_and(|tier| tier == "store") {
            self.stores.insert(cluster.clone(), Store::of(facts));
        }
    }

    /// All clusters that ever were in the fleet.
    pub fn clusters(&self) -> Vec<ClusterName> {
        self.clusters.iter().cloned().collect()
    }

    /// The agents of these clusters cannot reach the hub.
    pub fn observe_cut(&mut self, now: Timestamp, cut: &BTreeSet<ClusterName>) {
        for cluster in cut {
            if let Some(store) = self.stores.get_mut(cluster) {
                store.last_cut = Some(now);
            }
        }
    }

    pub fn observe_objects(&mut self, now: Timestamp, events: Vec<(ClusterName, ObjectEvent)>) {
        self.objects.extend(events.into_iter().map(|(cluster, event)| (now, cluster, event)));
    }

    /// Records the state of a work on the hub.
    pub fn observe_work(&mut self, now: Timestamp, key: &WorkKey, work: Option<&Value>) {
        let work = work.filter(|work| key.work.as_str() == "tills" && !is_deleting(work));
        let Some(tag) = work.and_then(|work| manifests(work).iter().find_map(tag)) else { return };
        let cluster = &key.cluster;
        let is_swiss = self.stores[cluster].is_swiss;
        let Some(version) = self.version(&tag, is_swiss) else {
            return self.violations.push(format!("{now}: {cluster} gets tills:{tag}"));
        };
        let before = self.stores[cluster].on_hub.last().map(|taken| taken.version);
        if before == Some(version) {
            return;
        }
        if !self.is_restoring
            && let Err(why) = self.judge(now, cluster, version, before)
        {
            self.violations.push(format!("{now}: {cluster} gets version {version}: {why}"));
        }
        let store = self.stores.get_mut(cluster).unwrap();
        store.on_hub.push(Taken { at: now, version, ready: None });
        self.unready.insert(cluster.clone());
        let wave = store.wave;
        if before.is_none_or(|before| before < version) && self.good != Some(version) {
            self.began.insert((version, wave));
        }
    }

    /// The last version of Git with this tag.
    fn version(&self, tag: &str, is_swiss: bool) -> Option<usize> {
        self.versions.iter().rposition(|version| version.tags[usize::from(is_swiss)] == tag)
    }

    /// Whether a store may get a version now.
    fn judge(
        &self,
        now: Timestamp,
        cluster: &ClusterName,
        version: usize,
        before: Option<usize>,
    ) -> Result<(), String> {
        let store = &self.stores[cluster];
        // A store that joins, or whose work the hub has lost.
        if before.is_none() && self.good.is_some() {
            let is_good = self.good == Some(version);
            return if is_good { Ok(()) } else { Err("it joins, and this is not good".into()) };
        }
        if let Some(before) = before.filter(|before| *before > version) {
            let is_return = self.versions[before].has_failed && self.good == Some(version);
            return if is_return { Ok(()) } else { Err(format!("{before} has not failed")) };
        }
        if self.is_unconfirmed {
            return Err("nobody has confirmed the restore".into());
        }
        if self.versions[version].is_rejected {
            return Err("it was rejected".into());
        }
        if let (_, Some(night)) = &WAVES[store.wave] {
            if !night.has(now) {
                return Err("the store is open".into());
            }
            if self.versions[version].approved.is_none_or(|at| at > now) {
                return Err("nobody has approved it".into());
            }
        }
        if self.began.contains(&(version, store.wave)) {
            return Ok(());
        }
        self.judge_earlier_waves(now, version, store.wave)
    }

    /// The stores of earlier waves have soaked, but for those that cannot be reached, and a few
    /// that have failed.
    fn judge_earlier_waves(
        &self,
        now: Timestamp,
        version: usize,
        wave: usize,
    ) -> Result<(), String> {
        let mut failed = vec![0; WAVES.len()];
        for (cluster, store) in &self.stores {
            if store.wave >= wave || self.left.contains(cluster) {
                continue;
            }
            let taken = store.on_hub.last().filter(|taken| taken.version == version);
            let was_cut = store.was_cut(now);
            // A new store gets its tills once their database is there, which may be much later.
            if was_cut && store.on_hub.len() < 2 {
                continue;
            }
            let Some(taken) = taken else {
                return Err(format!("{cluster} of wave {} has not got it", store.wave));
            };
            if taken.has_soaked(now, store.soak()) {
                continue;
            }
            let is_late = taken.at + DEADLINE <= now;
            failed[store.wave] += usize::from(!was_cut);
            if !is_late || failed[store.wave] > FAILURES {
                return Err(format!("{cluster} of wave {} is not done", store.wave));
            }
        }
        Ok(())
    }

    /// Records what stores run, and how many are in progress.
    pub fn observe_tills(&mut self, now: Timestamp, agents: &Agents) {
        let id = shop("apps", "deployments", "tills");
        let unready = std::mem::take(&mut self.unready);
        for cluster in unready {
            let is_swiss = self.stores[&cluster].is_swiss;
            let live = agents.get(&(cluster.clone(), id.clone()));
            let running = live.and_then(|live| {
                let tag = tag(&Value::Object(live.object.clone()))?;
                self.version(&tag, is_swiss)
            });
            let store = self.stores.get_mut(&cluster).unwrap();
            if let Some(version) = running
                && store.on_cluster.last() != Some(&version)
            {
                store.on_cluster.push(version);
            }
            let Some(taken) = store.on_hub.last_mut() else { continue };
            if running == Some(taken.version) && live.is_some_and(is_ready) {
                taken.ready.get_or_insert(now);
            } else {
                self.unready.insert(cluster);
            }
        }
        self.count(now);
    }

    fn count(&mut self, now: Timestamp) {
        let Some(version) = self.versions.len().checked_sub(1) else { return };
        let (mut count, mut failed) = (0, [0; WAVES.len()]);
        for store in self.stores.values() {
            let taken = store.on_hub.last().filter(|taken| taken.version == version);
            let Some(taken) = taken else { continue };
            let is_of_country = WAVES[store.wave].1.is_some();
            count += usize::from(is_of_country && taken.is_in_progress(now, store.soak()));
            let is_late = taken.ready.is_none() && taken.at + DEADLINE <= now + RESOLUTION;
            failed[store.wave] += usize::from(is_late);
        }
        self.versions[version].has_failed |= failed.iter().any(|failed| *failed > FAILURES);
        let most = self.most.entry(version).or_default();
        *most = count.max(*most);
        if count > CONCURRENCY {
            self.violations.push(format!("{now}: {count} stores are in progress"));
        }
    }

    /// The members of the fleet, with what happened to them.
    pub fn members(&self) -> impl Iterator<Item = (&ClusterName, &Store)> {
        self.stores.iter().filter(|(cluster, _)| !self.left.contains(*cluster))
    }
}

/// The tag of the tills' image, if the manifest is that of the tills.
fn tag(manifest: &Value) -> Option<String> {
    let containers = &manifest["spec"]["template"]["spec"]["containers"];
    let image = containers[0]["image"].as_str()?;
    Some(image.strip_prefix("registry.example.com/tills:")?.to_owned())
}

fn is_ready(live: &Live) -> bool {
    let (status, object) = (live.object.get("status"), &live.object);
    status.is_some_and(|status| {
        status["observedGeneration"] == object["metadata"]["generation"]
            && status["availableReplicas"] == object["spec"]["replicas"]
    })
}
