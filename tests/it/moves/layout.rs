//! Which work has which objects, and how a refactoring changes that.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::objects::Object;

/// The objects of each work.
pub type Layout = BTreeMap<String, WorkLayout>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkLayout {
    pub objects: BTreeSet<Object>,
    /// Its deleteOption orphans them.
    pub orphans: bool,
}

/// What somebody does to the works of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Rename,
    RenameAll,
    MoveOne,
    Split,
    Merge,
    Swap,
    /// From a to b to c, in two commits.
    Chain,
    /// There, and back before it is done.
    Revert,
    /// One work to many.
    Scatter,
    /// Many works to one.
    Gather,
    /// To a work that orphans its objects, or back.
    Orphan,
}

impl Form {
    pub const ALL: [Self; 11] = [
        Self::Rename,
        Self::Split,
        Self::MoveOne,
        Self::Swap,
        Self::RenameAll,
        Self::Merge,
        Self::Chain,
        Self::Orphan,
        Self::Scatter,
        Self::Revert,
        Self::Gather,
    ];

    /// The states of its commits.
    pub fn steps(self, before: &Layout, random: &mut Rng) -> Vec<Layout> {
        let mut after = before.clone();
        match self {
            Self::Rename => rename(&mut after, random),
            Self::RenameAll => {
                for work in before.keys() {
                    rename_work(&mut after, work, random);
                }
            }
            Self::MoveOne => move_one(&mut after, random),
            Self::Split => split(&mut after, random),
            Self::Merge => merge(&mut after, random),
            Self::Swap => swap(&mut after, random),
            Self::Chain | Self::Revert => {
                move_one(&mut after, random);
                rename(&mut after, random);
                let middle = after.clone();
                if self == Self::Revert {
                    return vec![middle, before.clone()];
                }
                let received = middle.keys().find(|work| !before.contains_key(*work));
                let received = received.cloned().unwrap_or_else(|| any(&after, random));
                rename_work(&mut after, &received, random);
                return vec![middle, after];
            }
            Self::Scatter => {
                after.clear();
                for object in Object::ALL {
                    after.entry(new_name(&after, random)).or_default().objects.insert(object);
                }
            }
            Self::Gather => {
                let name = new_name(&after, random);
                let objects = Object::ALL.into();
                after = [(name, WorkLayout { objects, orphans: false })].into();
            }
            Self::Orphan => {
                move_one(&mut after, random);
                let work = any(&after, random);
                let work = after.get_mut(&work).unwrap();
                work.orphans = !work.orphans;
            }
        }
        vec![after]
    }
}

fn any(layout: &Layout, random: &mut Rng) -> String {
    layout.keys().nth(random.usize(..layout.len())).unwrap().clone()
}

/// A name that no work has.
fn new_name(layout: &Layout, random: &mut Rng) -> String {
    loop {
        let name = format!("work-{}", random.u8(..40));
        if !layout.contains_key(&name) {
            return name;
        }
    }
}

fn rename(layout: &mut Layout, random: &mut Rng) {
    let work = any(layout, random);
    rename_work(layout, &work, random);
}

fn rename_work(layout: &mut Layout, work: &str, random: &mut Rng) {
    let name = new_name(layout, random);
    let content = layout.remove(work).unwrap();
    layout.insert(name, content);
}

/// Moves an object to another work, which may be new. A work that has none left is gone.
fn move_one(layout: &mut Layout, random: &mut Rng) {
    let from = any(layout, random);
    let objects = &mut layout.get_mut(&from).unwrap().objects;
    let object = *objects.iter().nth(random.usize(..objects.len())).unwrap();
    objects.remove(&object);
    let is_empty = objects.is_empty();
    let others: Vec<String> = layout.keys().filter(|work| **work != from).cloned().collect();
    let to = random.choice(others).unwrap_or_else(|| new_name(layout, random));
    if is_empty {
        layout.remove(&from);
    }
    layout.entry(to).or_default().objects.insert(object);
}

fn split(layout: &mut Layout, random: &mut Rng) {
    let from = layout.iter().max_by_key(|(_, work)| work.objects.len()).unwrap().0.clone();
    let name = new_name(layout, random);
    let work = layout.get_mut(&from).unwrap();
    let (stay, go) = work.objects.iter().partition(|object| (**object as usize).is_multiple_of(2));
    let orphans = work.orphans;
    let halves = [(from.clone(), stay), (name, go)];
    layout.remove(&from);
    for (name, objects) in halves {
        let objects: BTreeSet<Object> = objects;
        if !objects.is_empty() {
            layout.insert(name, WorkLayout { objects, orphans });
        }
    }
}

fn merge(layout: &mut Layout, random: &mut Rng) {
    let from = any(layout, random);
    let gone = layout.remove(&from).unwrap();
    let to = match layout.is_empty() {
        true => new_name(layout, random),
        false => any(layout, random),
    };
    layout.entry(to).or_default().objects.extend(gone.objects);
}

fn swap(layout: &mut Layout, random: &mut Rng) {
    if layout.len() < 2 {
        return split(layout, random);
    }
    let one = any(layout, random);
    let other = layout.keys().find(|work| **work != one).unwrap().clone();
    let objects = layout.get(&one).unwrap().objects.clone();
    let others = std::mem::replace(&mut layout.get_mut(&other).unwrap().objects, objects);
    layout.get_mut(&one).unwrap().objects = others;
}
