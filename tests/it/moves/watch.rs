//! Follows objects on a cluster, and remembers each moment in which one is not as it has to be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::api::{Api, DynamicObject};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt};
use tokio::task::JoinSet;

use super::objects::{CONTENT, Object, ObjectNames};
use super::stage::DEADLINE;
use crate::harness::eventually;

/// Watches objects of a place until it is dropped.
pub struct Watch {
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    /// The content that each object has.
    contents: BTreeMap<Object, String>,
    /// What must not happen.
    faults: Vec<String>,
}

impl Watch {
    /// Watches objects that are there.
    pub async fn start(client: &Client, place: &ObjectNames, objects: &[Object]) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let mut tasks = JoinSet::new();
        for &object in objects {
            let api = place.api(client, object);
            let name = place.name(object);
            let uid = api.get(&name).await.unwrap().uid().unwrap();
            tasks.spawn(follow(api, name, uid, object, seen.clone()));
        }
        Self { seen, _tasks: tasks }
    }

    /// Waits until every object was seen with its content, and checks what was seen until then.
    pub async fn until_seen(&self, contents: &BTreeMap<Object, String>, when: &str) {
        eventually(&format!("the watch to show {contents:?}"), DEADLINE, || async {
            let seen = self.seen.lock().unwrap();
            assert!(seen.faults.is_empty(), "{when}: {:#?}", seen.faults);
            let is_seen = seen.contents == *contents;
            if is_seen { Ok(()) } else { Err(format!("{when}: {:?}", seen.contents)) }
        })
        .await
        .unwrap();
    }
}

async fn follow(
    api: Api<DynamicObject>,
    name: String,
    uid: String,
    object: Object,
    seen: Arc<Mutex<Seen>>,
) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher(api, config).default_backoff().boxed();
    // Whether a new list has it.
    let mut is_listed = false;
    while let Some(event) = events.next().await {
        let mut seen = seen.lock().unwrap();
        match event {
            Ok(Event::Init) => is_listed = false,
            Ok(Event::InitDone) if !is_listed => {
                seen.faults.push(format!("{object:?} is absent"));
            }
            Ok(Event::Delete(_)) => seen.faults.push(format!("{object:?} is deleted")),
            Ok(Event::InitApply(live) | Event::Apply(live)) => {
                is_listed = true;
                if live.uid().as_ref() != Some(&uid) {
                    seen.faults.push(format!("{object:?} has another uid"));
                }
                if live.metadata.deletion_timestamp.is_some() {
                    seen.faults.push(format!("{object:?} is being deleted"));
                }
                let content = live.labels().get(CONTENT).cloned().unwrap_or_default();
                seen.contents.insert(object, content);
            }
            // The watch begins again with a list.
            Ok(Event::InitDone) | Err(_) => {}
        }
    }
}
