//! Commits that move objects between the works of a cluster, as people refactor a repository.

use std::collections::BTreeSet;

use gitwork_core::model::name::{ClusterName, WorkKey};
use gitwork_core::model::work::DeletionPolicy;

use super::git_work::{GitObject, GitWork, Works, config_map, work_entry};
use super::key;
use super::world::{CLUSTERS, WORKS};

/// Names that works get when they are renamed or split.
pub const NEW_NAMES: [&str; 2] = ["blue", "green"];

/// What a commit moved.
#[derive(Debug, Clone, Default)]
pub struct Refactoring {
    /// For a trace.
    pub what: String,
    pub givers: BTreeSet<WorkKey>,
    pub receivers: BTreeSet<WorkKey>,
    /// The names of the objects.
    pub objects: BTreeSet<String>,
}

/// Every name that a work of a cluster may have.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    WORKS.into_iter().chain(NEW_NAMES)
}

fn pick<T: Clone>(all: &[T], random: &mut fastrand::Rng) -> Option<T> {
    (!all.is_empty()).then(|| all[random.usize(..all.len())].clone())
}

fn keys_of(works: &Works, cluster: &ClusterName) -> Vec<WorkKey> {
    works.keys().filter(|key| key.cluster == *cluster).cloned().collect()
}

/// A name of the cluster that no work has.
fn free_name(works: &Works, cluster: &ClusterName, random: &mut fastrand::Rng) -> Option<WorkKey> {
    let all = all_names().map(|name| key(cluster.as_str(), name));
    let free: Vec<WorkKey> = all.filter(|key| !works.contains_key(key)).collect();
    pick(&free, random)
}

/// Any other name of the cluster, whether a work has it or not.
fn other_name(from: &WorkKey, random: &mut fastrand::Rng) -> WorkKey {
    let all = all_names().map(|name| key(from.cluster.as_str(), name));
    let others: Vec<WorkKey> = all.filter(|key| key != from).collect();
    others[random.usize(..others.len())].clone()
}

/// Renames, splits, merges or exchanges works of one cluster, or moves single objects. `None` if
/// there is nothing to move.
pub fn refactor(works: &mut Works, random: &mut fastrand::Rng) -> Option<Refactoring> {
    let clusters: BTreeSet<ClusterName> = works.keys().map(|key| key.cluster.clone()).collect();
    let cluster = pick(&clusters.into_iter().collect::<Vec<_>>(), random)?;
    let from = pick(&keys_of(works, &cluster), random)?;
    let mut done = Refactoring::default();
    let what = match random.u8(..12) {
        0..3 => {
            let to = free_name(works, &cluster, random)?;
            rename(works, &from, &to, &mut done);
            "renames"
        }
        3..6 => {
            let (to, names) = (other_name(&from, random), names_of(works, &from));
            let one = pick(&names, random)?;
            transfer(works, &from, &to, &[one], random.bool(), &mut done);
            "moves an object from"
        }
        6..8 => {
            split(works, &from, random, &mut done)?;
            "splits"
        }
        8..10 => {
            let givers = keys_of(works, &cluster).into_iter().filter(|key| *key != from);
            let givers: Vec<WorkKey> = givers.collect();
            for giver in givers.iter().take(random.usize(1..3)) {
                let names = names_of(works, giver);
                transfer(works, giver, &from, &names, random.bool(), &mut done);
            }
            "merges works into"
        }
        _ => {
            let others = keys_of(works, &cluster).into_iter().filter(|key| *key != from);
            let other = pick(&others.collect::<Vec<_>>(), random)?;
            exchange(works, [&from, &other], random, &mut done)?;
            "exchanges objects of"
        }
    };
    done.what = format!("{what} {from}: {done}");
    (!done.objects.is_empty()).then_some(done)
}

impl std::fmt::Display for Refactoring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |keys: &BTreeSet<WorkKey>| {
            keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let objects: Vec<&str> = self.objects.iter().map(String::as_str).collect();
        let (givers, receivers) = (list(&self.givers), list(&self.receivers));
        write!(f, "{} from {givers} to {receivers}", objects.join(", "))
    }
}

fn names_of(works: &Works, key: &WorkKey) -> Vec<String> {
    works.get(key).map_or_else(Vec::new, |work| work.objects.keys().cloned().collect())
}

/// Renames a work folder. Its settings go with it.
pub fn rename(works: &mut Works, from: &WorkKey, to: &WorkKey, done: &mut Refactoring) {
    let Some(work) = works.remove(from) else { return };
    done.note(from, to, work.objects.keys().cloned());
    works.insert(to.clone(), work);
}

/// Moves manifest files with their sidecars. A work that loses its last file disappears.
/// `keeps_text`: the content does not change although the works have different texts.
fn transfer(
    works: &mut Works,
    from: &WorkKey,
    to: &WorkKey,
    names: &[String],
    keeps_text: bool,
    done: &mut Refactoring,
) {
    let Some(giver) = works.get_mut(from) else { return };
    let text = giver.text.clone();
    let mut moved: Vec<(String, GitObject)> = Vec::new();
    for name in names {
        moved.extend(giver.objects.remove_entry(name));
    }
    if giver.objects.is_empty() {
        works.remove(from);
    }
    let new = || GitWork { objects: Default::default(), ..GitWork::of(to) };
    let receiver = works.entry(to.clone()).or_insert_with(new);
    for (name, mut object) in moved {
        if keeps_text && receiver.text != text {
            object.text.get_or_insert_with(|| text.clone());
        }
        done.note(from, to, [name.clone()]);
        receiver.objects.insert(name, object);
    }
}

/// Moves all objects but one, or all, to new works.
fn split(
    works: &mut Works,
    from: &WorkKey,
    random: &mut fastrand::Rng,
    done: &mut Refactoring,
) -> Option<()> {
    let names = names_of(works, from);
    let stays = usize::from(names.len() > 1 && random.bool());
    for name in names.into_iter().skip(stays) {
        let to = free_name(works, &from.cluster, random)?;
        transfer(works, from, &to, &[name], true, done);
    }
    Some(())
}

/// Exchanges one object of each of two works, or all of them.
fn exchange(
    works: &mut Works,
    [one, other]: [&WorkKey; 2],
    random: &mut fastrand::Rng,
    done: &mut Refactoring,
) -> Option<()> {
    let (mut ours, mut theirs) = (names_of(works, one), names_of(works, other));
    if random.bool() {
        ours = vec![pick(&ours, random)?];
        theirs = vec![pick(&theirs, random)?];
    }
    // Settings stay with the folders, even if these are empty for a moment.
    let [first, second] = [one, other].map(|key| works.get(key).cloned());
    let keeps_text = random.bool();
    transfer(works, one, other, &ours, keeps_text, done);
    transfer(works, other, one, &theirs, keeps_text, done);
    for (key, before) in [(one, first?), (other, second?)] {
        let work = works.get_mut(key)?;
        *work = GitWork { objects: work.objects.clone(), ..before };
    }
    Some(())
}

impl Refactoring {
    fn note(&mut self, from: &WorkKey, to: &WorkKey, names: impl IntoIterator<Item = String>) {
        self.givers.insert(from.clone());
        self.receivers.insert(to.clone());
        self.objects.extend(names);
    }

    /// A part of the works that the commit also changes.
    fn any_side(&self, random: &mut fastrand::Rng) -> Option<WorkKey> {
        let sides: Vec<WorkKey> = self.givers.union(&self.receivers).cloned().collect();
        pick(&sides, random)
    }
}

/// What the same commit changes beside the move.
pub fn accompany(works: &mut Works, done: &Refactoring, random: &mut fastrand::Rng) {
    for _ in 0..random.u8(..3) {
        let (Some(key), Some(name)) = (
            done.any_side(random),
            pick(&done.objects.iter().cloned().collect::<Vec<_>>(), random),
        ) else {
            return;
        };
        let Some(work) = works.get_mut(&key) else { continue };
        match random.u8(..10) {
            0 => work.text = format!("text {}", random.u8(..)),
            1 => work.delete_option = DeletionPolicy::Orphan,
            2 => {
                work.delete_option = DeletionPolicy::SelectivelyOrphan([config_map(&name)].into());
            }
            3 => work.delete_option = DeletionPolicy::Foreground,
            4 => work.suspend = true,
            5 => work.prune = !work.prune,
            more => {
                let receiver = works.values_mut().find(|work| work.objects.contains_key(&name));
                let Some(object) = receiver.and_then(|work| work.objects.get_mut(&name)) else {
                    continue;
                };
                match more {
                    6 => object.text = Some(format!("own text {}", random.u8(..))),
                    7 => object.orphan = !object.orphan,
                    8 => object.strategy = Some("CreateOnly"),
                    _ if object.strategy.is_none() => object.strategy = Some("ReadOnly"),
                    _ => object.strategy = None,
                }
            }
        }
    }
}

/// Copies an object into another work. The next commit removes the original: until then both works
/// have an error.
pub fn copy(works: &mut Works, random: &mut fastrand::Rng) -> Option<(WorkKey, String)> {
    let all: Vec<WorkKey> = works.keys().cloned().collect();
    let from = pick(&all, random)?;
    let name = pick(&names_of(works, &from), random)?;
    let object = works[&from].objects[&name].clone();
    let to = other_name(&from, random);
    work_entry(works, &to).objects.insert(name.clone(), object);
    Some((from, name))
}

/// Removes an object from one work.
pub fn remove_object(works: &mut Works, key: &WorkKey, name: &str) {
    let Some(work) = works.get_mut(key) else { return };
    work.objects.remove(name);
    if work.objects.is_empty() {
        works.remove(key);
    }
}

/// Exchanges the names of two clusters' folders. For the clusters this is a deletion of all that
/// the other one does not have.
pub fn exchange_clusters(works: &mut Works, random: &mut fastrand::Rng) {
    let first = random.usize(..CLUSTERS.len());
    let (one, other) = (CLUSTERS[first], CLUSTERS[(first + 1) % CLUSTERS.len()]);
    let all = std::mem::take(works);
    works.extend(all.into_iter().map(|(before, work)| {
        let cluster = match before.cluster.as_str() {
            name if name == one => other,
            name if name == other => one,
            name => name,
        };
        (key(cluster, before.work.as_str()), work)
    }));
}

#[test]
fn refactorings_keep_every_object_in_one_work_of_its_cluster() {
    let keys = CLUSTERS.into_iter().flat_map(|cluster| WORKS.map(|work| key(cluster, work)));
    let before: Works = keys.map(|key| (key.clone(), GitWork::of(&key))).collect();
    let objects = |works: &Works| {
        let all = works.iter().flat_map(|(key, work)| {
            work.objects.keys().map(|name| (key.cluster.clone(), name.clone()))
        });
        let mut all: Vec<(ClusterName, String)> = all.collect();
        all.sort();
        all
    };
    let mut random = fastrand::Rng::with_seed(0);
    let mut works = before.clone();
    let mut moved = 0;
    for _ in 0..2_000 {
        if let Some(done) = refactor(&mut works, &mut random) {
            moved += done.objects.len();
            accompany(&mut works, &done, &mut random);
        }
        assert_eq!(objects(&works), objects(&before));
        assert!(works.values().all(|work| !work.objects.is_empty()));
    }
    assert!(moved > 2_000, "{moved}");
}
