//! The clusters of one scenario: their works as the hub has them, kept by a watch, and the agents
//! that take them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use gitwork_core::model::work::LABEL_SOURCE;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::eventually;
use crate::sync::fixture::FINALIZER;

const DEADLINE: Duration = Duration::from_secs(300);

/// The clusters' names in the scenario, which differ from those on the hub.
pub const LETTERS: [&str; 3] = ["a", "b", "c"];

/// ManifestWorks by cluster letter and name, as in `a/web`.
pub type Works = BTreeMap<String, Value>;

/// Ends its watches and agents when it is dropped.
pub struct Fleet {
    works: watch::Receiver<Works>,
    _agents: JoinSet<()>,
}

impl Fleet {
    /// Follows all works of these clusters, and plays the agents of those that belong to `source`.
    pub fn follow(client: &Client, clusters: &[String], source: &str) -> Self {
        let (sender, works) = watch::channel(Works::new());
        let mut agents = JoinSet::new();
        for (letter, cluster) in LETTERS.iter().zip(clusters) {
            let agent = Agent {
                api: works_of(client.clone(), cluster),
                letter,
                source: source.to_owned(),
                works: sender.clone(),
            };
            agents.spawn(agent.run());
        }
        Self { works, _agents: agents }
    }

    pub fn works(&self) -> watch::Receiver<Works> {
        self.works.clone()
    }
}

pub fn works_of(client: Client, cluster: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("work.open-cluster-management.io", "v1", "ManifestWork");
    Api::namespaced_with(client, cluster, &ApiResource::from_gvk(&kind))
}

struct Agent {
    api: Api<DynamicObject>,
    letter: &'static str,
    source: String,
    works: watch::Sender<Works>,
}

impl Agent {
    async fn run(self) {
        let mut listed = Works::new();
        let mut events =
            watcher(self.api.clone(), watcher::Config::default()).default_backoff().boxed();
        while let Some(event) = events.next().await {
            // An error is followed by a new list.
            let Ok(event) = event else { continue };
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(object) => {
                    listed.insert(self.key(&object), serde_json::to_value(&object).unwrap());
                }
                Event::InitDone => {
                    let (all, cluster) = (std::mem::take(&mut listed), format!("{}/", self.letter));
                    self.works.send_modify(|works| {
                        works.retain(|key, _| !key.starts_with(&cluster));
                        works.extend(all.clone());
                    });
                    for work in all.values() {
                        self.act(work).await;
                    }
                }
                Event::Apply(object) => {
                    let work = serde_json::to_value(&object).unwrap();
                    self.works.send_modify(|works| {
                        works.insert(self.key(&object), work.clone());
                    });
                    self.act(&work).await;
                }
                Event::Delete(object) => self.works.send_modify(|works| {
                    works.remove(&self.key(&object));
                }),
            }
        }
    }

    fn key(&self, object: &DynamicObject) -> String {
        format!("{}/{}", self.letter, object.metadata.name.as_deref().unwrap_or_default())
    }

    /// What an agent does next with a work: takes it with a finalizer, reports it as applied, lets
    /// it go.
    async fn act(&self, work: &Value) {
        let metadata = &work["metadata"];
        if metadata["labels"][LABEL_SOURCE] != self.source.as_str() {
            return;
        }
        let name = metadata["name"].as_str().unwrap();
        let takes =
            metadata["finalizers"].as_array().is_some_and(|all| all.contains(&FINALIZER.into()));
        let is_deleting = !metadata["deletionTimestamp"].is_null();
        let (body, of_status) = match (is_deleting, takes) {
            (true, true) => (json!({ "metadata": { "finalizers": null } }), false),
            (false, false) => (json!({ "metadata": { "finalizers": [FINALIZER] } }), false),
            (false, true) if !is_applied(work) => (applied(work), true),
            _ => return,
        };
        let params = PatchParams::default();
        let patch = Patch::Merge(&body);
        let what = format!("the agent of {name}");
        let done = eventually(&what, DEADLINE, || async {
            let patched = match of_status {
                true => self.api.patch_status(name, &params, &patch).await,
                false => self.api.patch(name, &params, &patch).await,
            };
            match patched {
                Ok(_) => Ok(()),
                // The work has changed meanwhile, which is an event of its own.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => Ok(()),
                Err(error) => Err(error.to_string()),
            }
        });
        done.await.unwrap();
    }
}

/// Whether the agent has said that this very generation is applied.
pub fn is_applied(work: &Value) -> bool {
    let conditions = work["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|condition| {
        condition["type"] == "Applied"
            && condition["observedGeneration"] == work["metadata"]["generation"]
    })
}

fn applied(work: &Value) -> Value {
    let generation = &work["metadata"]["generation"];
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "observedGeneration": generation, "reason": "Played",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let manifests = work["spec"]["workload"]["manifests"].as_array().unwrap();
    let manifests = manifests.iter().enumerate().map(|(ordinal, manifest)| {
        let metadata = &manifest["metadata"];
        json!({
            "resourceMeta": {
                "ordinal": ordinal, "group": "", "version": "v1", "kind": manifest["kind"],
                "resource": "configmaps", "namespace": metadata["namespace"],
                "name": metadata["name"],
            },
            "conditions": [condition("Applied")],
        })
    });
    let manifests: Vec<Value> = manifests.collect();
    json!({ "status": {
        "conditions": [condition("Applied"), condition("Available")],
        "resourceStatus": { "manifests": manifests },
    } })
}

/// The value of the work's first manifest, a ConfigMap.
pub fn value_of(work: &Value) -> &str {
    let value = work.pointer("/spec/workload/manifests/0/data/value");
    value.and_then(Value::as_str).unwrap_or_default()
}
