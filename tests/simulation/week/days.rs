//! The days of the story, and what is required at the end of each.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, WorkKey, WorkName};
use jiff::{SignedDuration, Timestamp};

use super::people::GROUP_FILE;
use super::workloads::shop;
use super::world::World;
use crate::cluster::ObjectEvent;
use crate::moves::listed;

const LAB: usize = 0;
const FIRST_CITY: usize = 1;
const GERMANY: usize = 2;

/// The versions of the tills, in the order of the commits.
const FIRST: usize = 0;
const BAD: usize = 1;
const FIX: usize = 2;
const LAST: usize = 3;

/// The cities of stores that join, by their positions.
const HAMBURG: usize = 1;
const GRAZ: usize = 7;
const LINZ: usize = 8;
const BASEL: usize = 10;

impl World {
    /// What holds at the end of each day on the whole fleet.
    fn check_day(&self) {
        assert_eq!(self.history.violations, Vec::<String>::new());
        self.check_objects();
    }

    /// Each object was created once, and is there, unless its store has left. Volume claims stay
    /// there, too.
    fn check_objects(&self) {
        let claim = shop("", "persistentvolumeclaims", "tills-db");
        let mut created: BTreeMap<(&ClusterName, &Identity), &str> = BTreeMap::new();
        for (at, cluster, event) in &self.history.objects {
            match event {
                ObjectEvent::Created { id, uid } => {
                    let before = created.insert((cluster, id), uid);
                    assert_eq!(before, None, "{at}: {id:?} is created again on {cluster}");
                }
                ObjectEvent::Deleted { id, .. } => {
                    let may_go = self.history.left.contains(cluster) && *id != claim;
                    assert!(may_go, "{at}: {id:?} is deleted on {cluster}");
                }
            }
        }
        let agents = self.clusters.agents();
        for store in self.history.stores.keys() {
            let live = agents.get(&(store.clone(), claim.clone())).expect("a volume claim");
            assert_eq!(Some(&live.uid()), created.get(&(store, &claim)), "{store}");
        }
    }

    /// The hub has what Git wants, and all clusters that can be reached have it.
    fn check_in_step(&self, version: usize) {
        let desired = self.repository.desired();
        let wanted: BTreeSet<&WorkKey> = desired.works.keys().collect();
        let there = self.hub.keys();
        let there: BTreeSet<&WorkKey> = there.iter().collect();
        assert_eq!(wanted.symmetric_difference(&there).next(), None);
        let agents = self.clusters.agents();
        let cut = self.cut();
        for (key, work) in &desired.works {
            let on_hub = self.hub.object(key).unwrap();
            let wanted = work.body.spec.value();
            assert_eq!(on_hub["spec"]["workload"], wanted["workload"], "{key}");
            let mut objects = listed(&on_hub).into_iter().map(|id| (key.cluster.clone(), id));
            let is_there = objects.all(|object| agents.get(&object).is_some());
            assert!(is_there || cut.contains(&key.cluster), "{key}");
        }
        drop(agents);
        assert_eq!(self.clusters.lagging(&cut), None);
        for (store, history) in self.history.members() {
            assert_eq!(history.on_hub.last().map(|taken| taken.version), Some(version), "{store}");
            let is_running = history.on_cluster.last() == Some(&version);
            assert!(is_running || cut.contains(store), "{store}: {:?}", history.on_cluster);
        }
    }

    /// The stores that have a version on the hub, by wave.
    fn having(&self, version: usize) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        for (_, store) in self.history.members() {
            if store.on_hub.last().is_some_and(|taken| taken.version == version) {
                *counts.entry(store.wave).or_default() += 1;
            }
        }
        counts
    }

    /// The stores of each wave.
    fn members(&self) -> [usize; 5] {
        let mut counts = [0; 5];
        self.history.members().for_each(|(_, store)| counts[store.wave] += 1);
        counts
    }

    /// The generation of each store's tills on the hub.
    fn generations(&self) -> BTreeMap<ClusterName, i64> {
        let work = WorkName::parse("tills").unwrap();
        let members = self.history.members();
        let works = members.filter_map(|(cluster, _)| {
            let key = WorkKey { cluster: cluster.clone(), work: work.clone() };
            Some((cluster.clone(), self.hub.object(&key)?["metadata"]["generation"].as_i64()?))
        });
        works.collect()
    }

    /// The first line on a commit since a time that is as `is_it` wants it, and when it came.
    fn line(&self, since: Timestamp, is_it: impl Fn(&str) -> bool) -> (SignedDuration, &str) {
        let lines: Vec<_> = self.lines.iter().filter(|(at, _)| *at >= since).collect();
        let Some((at, line)) = lines.iter().find(|(_, line)| is_it(line)) else {
            panic!("since {since}: {lines:#?}\n{}", self.status().unwrap().line(10_000))
        };
        (at.duration_since(since), line)
    }
}

/// The first version reaches all stores.
async fn sunday(world: &mut World) {
    world.release(["2.4.0", "2.3.4"]);
    world.start();
    world.until("2026-11-22T20:10").await;
    world.approve_countries();
    world.until("2026-11-23T01:00").await;
    world.history.good = Some(FIRST);
    world.check_in_step(FIRST);
    world.check_day();
}

fn is_small_in_hamburg(store: &str) -> bool {
    let number = store.strip_prefix("store-hamburg-");
    number.is_some_and(|number| number.parse::<usize>().unwrap() <= 10)
}

/// A version crashes on small hardware in the second city: it stops and returns.
async fn monday(world: &mut World) -> BTreeSet<ClusterName> {
    world.quiet_until("2026-11-23T16:55").await;
    world.until("2026-11-23T17:00").await;
    let before = world.generations();
    world.clusters.crash("tills:2.5.0", is_small_in_hamburg);
    world.release(["2.5.0", "2.4.0"]);
    world.until("2026-11-23T17:59").await;
    assert_eq!(world.having(BAD), [(LAB, 3)].into(), "the labs soak for an hour");
    world.join([GRAZ, LINZ]);
    world.detach("store-bern-12");
    world.until("2026-11-23T19:30").await;
    world.uninstall("store-bern-12");
    let members = world.members();
    let first = [(LAB, 3), (FIRST_CITY, members[FIRST_CITY])];
    assert_eq!(world.having(BAD), first.into());
    let waits_for = world.progress().waits_for.unwrap_or_default();
    assert!(waits_for.contains("which nobody has approved"), "{waits_for}");
    world.approve_countries();
    world.quiet_until("2026-11-23T20:30").await;
    world.until("2026-11-23T20:59").await;
    assert_eq!(world.having(BAD), first.into(), "the stores are open");
    world.until("2026-11-23T21:03").await;
    assert_eq!(world.having(BAD)[&GERMANY], 20);
    while !world.progress().rejected {
        world.tick().await;
    }
    world.history.versions[BAD].is_rejected = true;
    let failed = world.rejected();
    assert!(failed.iter().all(|store| is_small_in_hamburg(store.as_str())), "{failed:?}");
    let since = world.clock.now();
    world.until("2026-11-23T22:30").await;
    assert_eq!(world.having(BAD), BTreeMap::new());
    let (after, line) = world.line(since, |line| line.contains("was stopped"));
    assert!(after < SignedDuration::from_mins(1), "{after}: {line}");
    world.quiet_until("2026-11-24T16:55").await;
    world.check_return(&before);
    world.check_day();
    failed
}

impl World {
    /// Every store that took the bad version has the old one again. All others have had nothing
    /// else.
    fn check_return(&self, before: &BTreeMap<ClusterName, i64>) {
        let after = self.generations();
        let mut returned = [0; 5];
        for (store, history) in self.history.members() {
            let on_hub: Vec<usize> = history.on_hub.iter().map(|taken| taken.version).collect();
            match on_hub[..] {
                [FIRST, BAD, FIRST] => returned[history.wave] += 1,
                [FIRST] => {
                    let same = before.get(store).is_none_or(|before| *before == after[store]);
                    assert!(same, "{store} was touched");
                    assert_eq!(history.on_cluster, [FIRST], "{store}");
                }
                _ => panic!("{store}: {on_hub:?}"),
            }
            let last = history.on_cluster.last();
            assert!(last == Some(&FIRST) || self.cut().contains(store), "{store}");
        }
        let members = self.members();
        assert_eq!(returned[..2], members[..2]);
        assert!((21..members[GERMANY]).contains(&returned[GERMANY]), "{returned:?}");
        assert_eq!(returned[GERMANY + 1..], [0, 0]);
    }
}

/// The fix goes to the labs at once, and after an approval to all others, first to those that
/// failed.
async fn tuesday(world: &mut World, failed: &BTreeSet<ClusterName>) {
    world.until("2026-11-24T17:00").await;
    world.release(["2.5.1", "2.4.0"]);
    let since = world.clock.now();
    world.until("2026-11-24T17:05").await;
    assert_eq!(world.having(FIX), [(LAB, 3)].into());
    world.join([HAMBURG, BASEL]);
    world.detach("store-wien-13");
    world.until("2026-11-24T19:30").await;
    world.uninstall("store-wien-13");
    world.approve_countries();
    world.quiet_until("2026-11-24T20:30").await;
    world.until("2026-11-25T00:30").await;
    world.history.good = Some(FIX);
    world.check_in_step(FIX);
    world.check_failed_first(since, failed);
    assert_eq!(world.history.most[&FIX], 20);
    world.check_day();
}

impl World {
    /// Within the wave, no store got the fix before one where the bad version failed.
    fn check_failed_first(&self, since: Timestamp, failed: &BTreeSet<ClusterName>) {
        let of_wave = self.history.members().filter(|(_, store)| store.wave == GERMANY);
        let taken = of_wave.map(|(cluster, store)| {
            let taken = store.on_hub.iter().find(|taken| taken.at >= since).unwrap();
            (taken.at, !failed.contains(cluster), cluster)
        });
        let taken: BTreeSet<_> = taken.collect();
        let first: Vec<_> = taken.iter().take(20).collect();
        let count = first.iter().filter(|(_, is_other, _)| !is_other).count();
        assert_eq!(count, failed.len(), "{first:?}");
        assert!(failed.len() > 3);
    }
}

/// `monitoring` becomes `metrics` and `logs`. Nothing is created again.
async fn wednesday(world: &mut World) {
    world.quiet_until("2026-11-25T08:55").await;
    world.until("2026-11-25T09:00").await;
    let objects = world.history.objects.len();
    world.split_monitoring();
    world.until("2026-11-25T10:30").await;
    assert_eq!(world.history.objects.len(), objects, "{:?}", world.history.objects.last());
    world.join([GRAZ, BASEL]);
    world.detach("store-graz-14");
    world.until("2026-11-25T11:30").await;
    world.uninstall("store-graz-14");
    // No rollout is on: those that join wait for the night of their country.
    world.quiet_until("2026-11-25T21:55").await;
    world.until("2026-11-25T22:30").await;
    world.quiet_until("2026-11-26T09:55").await;
    let names: BTreeSet<String> =
        world.hub.keys().into_iter().map(|key| key.work.to_string()).collect();
    assert!(names.contains("metrics") && names.contains("logs") && !names.contains("monitoring"));
    world.check_in_step(FIX);
    world.check_day();
}

/// A merge narrows the selector of the stores. Nothing is deleted, and the commit says why.
async fn thursday(world: &mut World) {
    world.until("2026-11-26T10:00").await;
    let (works, objects) = (world.hub.keys().len(), world.history.objects.len());
    let texts = ("{tier: store}", "{tier: store, hardware: large}");
    let since = world.clock.now();
    world.edit(GROUP_FILE, &[texts]);
    world.until("2026-11-26T11:00").await;
    let (after, line) = world.line(since, |line| line.contains("deletions held"));
    let why = "360 deletions held: that is more than 10 works and more than 5% of the source's";
    assert!(after <= SignedDuration::from_mins(1) && line.ends_with(why), "{after}: {line}");
    assert_eq!((world.hub.keys().len(), world.history.objects.len()), (works, objects));
    world.edit(GROUP_FILE, &[(texts.1, texts.0)]);
    world.until("2026-11-26T11:30").await;
    assert_eq!((world.hub.keys().len(), world.history.objects.len()), (works, objects));
    world.check_in_step(FIX);
    world.join([HAMBURG, LINZ]);
    world.detach("store-linz-11");
    world.until("2026-11-26T12:30").await;
    world.uninstall("store-linz-11");
    world.quiet_until("2026-11-26T20:55").await;
    world.until("2026-11-26T22:30").await;
    world.quiet_until("2026-11-27T05:55").await;
    world.check_in_step(FIX);
    world.check_day();
}

/// The hub dies during a rollout and is restored from Wednesday's backup.
async fn friday(world: &mut World, backup: super::people::HubBackup) {
    world.until("2026-11-27T06:00").await;
    world.release(["2.6.0", "2.5.1"]);
    world.until("2026-11-27T08:06").await;
    assert!(world.having(LAST)[&FIRST_CITY] > 10);
    let objects = world.history.objects.len();
    world.lose_hub();
    world.until("2026-11-27T09:00").await;
    world.restore(backup);
    world.see_restore();
    world.start();
    let since = world.clock.now();
    world.until("2026-11-27T09:20").await;
    world.repair_registrations();
    world.until("2026-11-27T10:30").await;
    assert_eq!(world.having(LAST), BTreeMap::new(), "nobody has confirmed the restore");
    assert_eq!(world.history.objects.len(), objects, "{:?}", world.history.objects.last());
    world.check_missing_works();
    let (_, line) = world.line(since, |line| line.contains("held"));
    assert!(line.contains("the hub was restored"), "{line}");
    world.confirm_restore();
    world.until("2026-11-27T10:40").await;
    assert_eq!(world.having(LAST), [(LAB, 3)].into());
    world.join([GRAZ, HAMBURG]);
    world.detach("store-basel-13");
    world.until("2026-11-27T12:30").await;
    world.uninstall("store-basel-13");
    world.approve_countries();
    world.quiet_until("2026-11-27T20:50").await;
    world.until("2026-11-28T01:00").await;
    world.history.good = Some(LAST);
    world.check_in_step(LAST);
    world.check_day();
}

impl World {
    /// The works that the backup did not have are back.
    fn check_missing_works(&self) {
        let desired = self.repository.desired();
        let there: BTreeSet<WorkKey> = self.hub.keys().into_iter().collect();
        let missing: Vec<&WorkKey> =
            desired.works.keys().filter(|key| !there.contains(*key)).collect();
        assert_eq!(missing, Vec::<&WorkKey>::new());
    }
}

/// Plays the whole week.
pub fn run() {
    crate::fleet::in_virtual_time(0, week());
}

async fn week() {
    let mut world = World::new();
    sunday(&mut world).await;
    let failed = monday(&mut world).await;
    tuesday(&mut world, &failed).await;
    let backup = world.back_up();
    wednesday(&mut world).await;
    thursday(&mut world).await;
    friday(&mut world, backup).await;
}

#[cfg(test)]
mod tests {
    #[test]
    fn week_of_the_fleet() {
        super::run();
    }
}
