//! What the agent knows of the hub and the cluster, shared by watches and passes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::core::patience::Fight;
use super::core::status::Applied;
use super::core::work::ResourceMeta;
use super::items::{AppliedItem, HubWork};
use super::tracking::{ObjectKey, Told, Tracking};

/// How the last try at one manifest ended, and what follows from it.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub meta: ResourceMeta,
    pub applied: Applied,
    /// Of the live object; empty where there is none.
    pub uid: String,
    /// Why the object's record cannot be made, if so.
    pub unrecorded: Option<String>,
    pub retry: Retry,
    pub object: Option<ObjectKey>,
    pub fight: Fight,
}

/// When a manifest is tried again though nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    Never,
    /// Soon, and then less and less often.
    BackOff,
    After(Duration),
}

/// A work and what the agent remembers of it between passes.
pub struct WorkEntry {
    pub work: Arc<HubWork>,
    pub memory: WorkMemory,
    pub to_do: ToDo,
    /// Passes in a row that failed.
    pub failures: u32,
    /// When the last pass ended.
    pub looked: Option<Instant>,
}

#[derive(Debug, Default)]
pub struct WorkMemory {
    /// In the work's order; empty before the first pass.
    pub outcomes: Vec<Outcome>,
    /// The generation that they are of.
    pub generation: i64,
}

/// What the next pass has to look at.
#[derive(Debug, Clone, Default)]
pub struct ToDo {
    pub everything: bool,
    /// Places in the work, each with the revision of the event that made it of interest.
    pub places: BTreeMap<u32, u64>,
}

#[derive(Default)]
pub struct State {
    pub works: HashMap<Arc<str>, WorkEntry>,
    pub applied: HashMap<Arc<str>, Arc<AppliedItem>>,
    pub tracking: Tracking,
}

/// What a changed work means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkChange {
    /// Nothing, or only its status.
    Nothing,
    /// There is something to do.
    Something,
}

impl State {
    /// Takes in a work from the hub. Older versions than the known one do not count.
    pub fn put_work(&mut self, work: HubWork) -> WorkChange {
        let name: Arc<str> = work.name.as_str().into();
        let Some(entry) = self.works.get_mut(&name) else {
            let to_do = ToDo { everything: true, places: BTreeMap::new() };
            let entry = WorkEntry {
                work: Arc::new(work),
                memory: WorkMemory::default(),
                to_do,
                failures: 0,
                looked: None,
            };
            self.works.insert(name, entry);
            return WorkChange::Something;
        };
        if work.uid == entry.work.uid && work.revision() <= entry.work.revision() {
            return WorkChange::Nothing;
        }
        let same = entry.work.asks_the_same(&work);
        entry.work = Arc::new(work);
        if same {
            return WorkChange::Nothing;
        }
        entry.failures = 0;
        entry.to_do.everything = true;
        WorkChange::Something
    }

    /// Takes in the answer to our own write: what it changed is no news.
    pub fn put_written(&mut self, work: HubWork) -> Arc<HubWork> {
        let work = Arc::new(work);
        if let Some(entry) = self.works.get_mut(work.name.as_str())
            && (entry.work.uid != work.uid || entry.work.revision() <= work.revision())
        {
            if entry.work.spec != work.spec || entry.work.deleting != work.deleting {
                entry.to_do.everything = true;
                entry.failures = 0;
            }
            entry.work = work.clone();
        }
        work
    }

    /// Notes who has to look at what. Gives the works and applied works to put into the queue.
    pub fn note(&mut self, told: Vec<Told>) -> Vec<super::tracking::Key> {
        let mut keys = Vec::new();
        for (key, ordinal, revision) in told {
            if let super::tracking::Key::Work(name) = &key {
                let Some(entry) = self.works.get_mut(name) else { continue };
                let place = entry.to_do.places.entry(ordinal).or_default();
                *place = (*place).max(revision);
            }
            if keys.last() != Some(&key) {
                keys.push(key);
            }
        }
        keys
    }
}
