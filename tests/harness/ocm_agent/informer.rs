//! An informer: it sees every object at once, and delivers what it has seen to the cache later.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::json::{name, text, uid};
use super::requests::{Address, RequestError, Requests};

/// A change of one object.
#[derive(Clone, Debug)]
pub enum Event {
    Added(Value),
    Updated { old: Value, new: Value },
    Deleted(Value),
}

impl Event {
    /// The object after the change, or before it is gone.
    pub fn object(&self) -> &Value {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted(object) => {
                object
            }
        }
    }
}

/// The objects of one kind, in the order of their changes.
pub struct Informer {
    requests: Requests,
    kind: Address,
    seen: BTreeMap<String, Value>,
    undelivered: VecDeque<Event>,
}

impl Informer {
    pub fn new(requests: Requests, kind: Address) -> Self {
        Self { requests, kind, seen: BTreeMap::new(), undelivered: VecDeque::new() }
    }

    /// Reads what has changed on the server. Of several changes of one object since the last
    /// reading, only the sum is seen.
    pub async fn observe(&mut self, is_ours: impl Fn(&Value) -> bool) -> Result<(), RequestError> {
        let mut objects = self.requests.list(&self.kind).await?;
        objects.retain(is_ours);
        objects.sort_by_key(version);
        let is_listed =
            |old: &Value| objects.iter().any(|new| name(new) == name(old) && uid(new) == uid(old));
        let gone: Vec<Value> = self.seen.values().filter(|old| !is_listed(old)).cloned().collect();
        for old in gone {
            self.seen.remove(name(&old));
            self.undelivered.push_back(Event::Deleted(old));
        }
        for new in objects {
            if self.seen.get(name(&new)).is_some_and(|old| version(old) == version(&new)) {
                continue;
            }
            match self.seen.insert(name(&new).to_owned(), new.clone()) {
                Some(old) => self.undelivered.push_back(Event::Updated { old, new }),
                None => self.undelivered.push_back(Event::Added(new)),
            }
        }
        Ok(())
    }

    pub fn next(&self) -> Option<&Event> {
        self.undelivered.front()
    }

    /// Delivers the next change to the cache.
    pub fn deliver(&mut self, cache: &mut BTreeMap<String, Value>) -> Option<Event> {
        let event = self.undelivered.pop_front()?;
        let object = event.object();
        match event {
            Event::Deleted(_) => drop(cache.remove(name(object))),
            _ => drop(cache.insert(name(object).to_owned(), object.clone())),
        }
        Some(event)
    }
}

fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or_default()
}
