//! The content of a work folder in Git.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::manifest::Identity;
use gitwork_core::model::name::{ClusterName, RepoPath, WorkKey};
use gitwork_core::model::work::DeletionPolicy;
use serde_json::{Value, json};

use super::agents::identity;

/// The works of one commit. No cluster has an object in two of them, except by mistake.
pub type Works = BTreeMap<WorkKey, GitWork>;

/// A manifest file with its sidecar.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GitObject {
    /// The text of its ConfigMap; `None`: that of the work.
    pub text: Option<String>,
    /// The type of its `updateStrategy`; `None`: `Update`.
    pub strategy: Option<&'static str>,
    /// `orphan: true`.
    pub orphan: bool,
}

/// The content of one work folder.
#[derive(Debug, Clone, PartialEq)]
pub struct GitWork {
    pub text: String,
    /// By the name of the ConfigMap.
    pub objects: BTreeMap<String, GitObject>,
    pub labels: BTreeMap<String, String>,
    /// The deleteOption of its `work.yaml`.
    pub delete_option: DeletionPolicy,
    pub prune: bool,
    pub suspend: bool,
}

/// The name of an object that was created with this work. The object keeps it when it moves.
pub fn object_name(key: &WorkKey, letter: &str) -> String {
    format!("{}-{letter}", key.work)
}

/// The ConfigMap of this name.
pub fn manifest(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "namespace": "default", "name": name },
        "data": { "text": text },
    })
}

/// The identity of the ConfigMap of this name.
pub fn config_map(name: &str) -> Identity {
    identity(&manifest(name, ""))
}

pub fn folder(key: &WorkKey) -> RepoPath {
    RepoPath::parse(&format!("clusters/{}/{}", key.cluster, key.work)).unwrap()
}

/// A delete option that keeps the first object of a work.
pub fn keep_first(key: &WorkKey) -> DeletionPolicy {
    DeletionPolicy::SelectivelyOrphan([config_map(&object_name(key, "a"))].into())
}

/// The works of a cluster that have an object, readable or not.
pub fn works_with<'a>(
    works: &'a Works,
    cluster: &'a ClusterName,
    object: &'a Identity,
) -> impl Iterator<Item = &'a WorkKey> {
    let of_cluster = works.iter().filter(move |(key, _)| key.cluster == *cluster);
    of_cluster.filter(|(_, work)| work.has(object)).map(|(key, _)| key)
}

/// Adds a work, if it is missing, with those of its own objects that no other work has. Returns it.
pub fn work_entry<'a>(works: &'a mut Works, key: &WorkKey) -> &'a mut GitWork {
    if !works.contains_key(key) {
        let mut work = GitWork::of(key);
        work.objects.retain(|name, _| is_free(works, &key.cluster, name));
        if work.objects.is_empty() {
            let names = ('c'..='z').map(|letter| object_name(key, &letter.to_string()));
            let free = names.into_iter().find(|name| is_free(works, &key.cluster, name));
            work.objects.extend(free.map(|name| (name, GitObject::default())));
        }
        works.insert(key.clone(), work);
    }
    works.get_mut(key).unwrap()
}

/// Whether no work of the cluster has an object of this name.
pub fn is_free(works: &Works, cluster: &ClusterName, name: &str) -> bool {
    works_with(works, cluster, &config_map(name)).next().is_none()
}

impl GitWork {
    /// A new work with two objects.
    pub fn of(key: &WorkKey) -> Self {
        let objects = ["a", "b"].map(|letter| (object_name(key, letter), GitObject::default()));
        Self {
            text: "one".into(),
            objects: objects.into(),
            labels: BTreeMap::new(),
            delete_option: DeletionPolicy::Foreground,
            prune: true,
            suspend: false,
        }
    }

    /// Whether the work has a manifest of this object.
    pub fn has(&self, id: &Identity) -> bool {
        *id == config_map(&id.name) && self.objects.contains_key(&id.name)
    }

    /// Whether the work does not own the object, by its deleteOption or update strategy.
    pub fn disowns(&self, id: &Identity) -> bool {
        let object = self.objects.get(&id.name);
        let is_read_only = object.is_some_and(|object| object.strategy == Some("ReadOnly"));
        is_read_only || orphans(&self.deletion_policy(), id)
    }

    /// The manifest of one of its objects.
    pub fn manifest(&self, name: &str) -> Value {
        let own = self.objects.get(name).and_then(|object| object.text.as_ref());
        manifest(name, own.unwrap_or(&self.text))
    }

    /// The manifests, in the order of the rendered work.
    pub fn manifests(&self) -> Vec<Value> {
        self.objects.keys().map(|name| self.manifest(name)).collect()
    }

    /// The sidecar of one object; `None` if it has none.
    pub fn sidecar(object: &GitObject) -> Option<Value> {
        let mut fields = serde_json::Map::new();
        if let Some(strategy) = object.strategy {
            fields.insert("updateStrategy".into(), json!({"type": strategy}));
        }
        if object.orphan {
            fields.insert("orphan".into(), true.into());
        }
        (!fields.is_empty()).then_some(Value::Object(fields))
    }

    /// The deleteOption of the work and of the sidecars, merged.
    pub fn deletion_policy(&self) -> DeletionPolicy {
        let orphans = self.objects.iter().filter(|(_, object)| object.orphan);
        let orphans: BTreeSet<Identity> = orphans.map(|(name, _)| config_map(name)).collect();
        let mut rules = match &self.delete_option {
            DeletionPolicy::Orphan => return DeletionPolicy::Orphan,
            DeletionPolicy::Foreground if orphans.is_empty() => return DeletionPolicy::Foreground,
            DeletionPolicy::Foreground => BTreeSet::new(),
            DeletionPolicy::SelectivelyOrphan(rules) => rules.clone(),
        };
        rules.extend(orphans);
        DeletionPolicy::SelectivelyOrphan(rules)
    }

    /// The work as it is while it goes on owning these objects.
    pub fn owning(&self, objects: &BTreeSet<Identity>) -> Self {
        let mut rules = match self.deletion_policy() {
            DeletionPolicy::Foreground => BTreeSet::new(),
            DeletionPolicy::Orphan => self.objects.keys().map(|name| config_map(name)).collect(),
            DeletionPolicy::SelectivelyOrphan(rules) => rules,
        };
        let mut work = self.clone();
        for (name, object) in &mut work.objects {
            object.orphan = false;
            if objects.contains(&config_map(name)) && object.strategy == Some("ReadOnly") {
                object.strategy = Some("CreateOnly");
            }
        }
        rules.retain(|rule| !objects.contains(rule));
        work.delete_option = match rules.is_empty() {
            true => DeletionPolicy::Foreground,
            false => DeletionPolicy::SelectivelyOrphan(rules),
        };
        work
    }

    /// The spec of the ManifestWork.
    pub fn spec(&self) -> Value {
        let mut spec = json!({ "workload": { "manifests": self.manifests() } });
        let policy = self.deletion_policy();
        if policy != DeletionPolicy::Foreground {
            spec["deleteOption"] = policy.to_value(None);
        }
        let configs: Vec<Value> = self
            .objects
            .iter()
            .filter_map(|(name, object)| {
                let strategy = json!({"type": object.strategy?});
                let identifier = config_map(name).to_value();
                Some(json!({"resourceIdentifier": identifier, "updateStrategy": strategy}))
            })
            .collect();
        if !configs.is_empty() {
            spec["manifestConfigs"] = configs.into();
        }
        spec
    }
}

/// Whether the object stays on the cluster when a work with this option is deleted.
pub fn orphans(option: &DeletionPolicy, id: &Identity) -> bool {
    match option {
        DeletionPolicy::Foreground => false,
        DeletionPolicy::Orphan => true,
        DeletionPolicy::SelectivelyOrphan(rules) => rules.contains(id),
    }
}
