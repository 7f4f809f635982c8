//! A managed cluster in memory: objects with uid, resourceVersion and owners, and Kubernetes'
//! garbage collector. Beside each object it keeps facts for the checkers that no client sees.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_agent_core::object::{Object, edit_metadata, list, meta};
use gitwork_agent_core::owner::is_owned_by;
use gitwork_core::model::manifest::Identity;
use serde_json::{Value, json};

use super::patch::merge_patch;

/// An object, with facts for the checkers.
#[derive(Debug, Clone)]
pub struct Live {
    pub object: Object,
    /// The uids of the AppliedManifestWorks that this object was applied for; for each, whether it
    /// owns the object, by the last apply.
    pub applied_by: BTreeMap<String, bool>,
    /// Whether the object outlives its work, by the last apply of all.
    pub stays: bool,
}

/// An object begins or ceases to exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectEvent {
    Created {
        id: Identity,
        uid: String,
    },
    Deleted {
        id: Identity,
        uid: String,
        /// A user deleted it, not an agent or the garbage collector.
        by_user: bool,
    },
}

/// The reason of a rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// 409: the name exists.
    Exists,
    /// 409 for another version or another object, or 404.
    Stale,
}

#[derive(Debug, Default)]
pub struct Cluster {
    objects: BTreeMap<Identity, Live>,
    /// The source of resourceVersions and uids. It never goes back, so that no two objects ever
    /// have the same uid.
    revision: u64,
    /// The events that no checker has taken yet.
    events: Vec<ObjectEvent>,
}

impl Live {
    pub fn uid(&self) -> &str {
        meta(&self.object, "uid")
    }

    pub fn is_owned_by(&self, applied: &str) -> bool {
        is_owned_by(&self.object, applied)
    }

    /// Whether all its owners are works that it was never applied for: a user gave them to it.
    pub fn has_owners_of_user(&self) -> bool {
        self.owners().all(|owner| !self.applied_by.contains_key(owner))
    }

    /// Whether one of its owners owned it by the last apply for that owner.
    pub fn is_owned_by_apply(&self) -> bool {
        self.owners().any(|owner| self.applied_by.get(owner) == Some(&true))
    }

    fn owners(&self) -> impl Iterator<Item = &str> {
        let all = list(&self.object, &["metadata", "ownerReferences"]);
        all.iter().filter_map(|one| one["uid"].as_str())
    }
}

/// `metadata.generation` of an object with a spec: it counts how often that changed.
fn generation(object: &Object, before: Option<&Object>) -> Option<i64> {
    let spec = object.get("spec")?;
    let last = before.map_or(0, |before| before["metadata"]["generation"].as_i64().unwrap_or(0));
    let is_same = before.is_some_and(|before| before.get("spec") == Some(spec));
    Some(if is_same { last } else { last + 1 })
}

impl Cluster {
    pub fn get(&self, id: &Identity) -> Option<&Live> {
        self.objects.get(id)
    }

    pub fn get_mut(&mut self, id: &Identity) -> Option<&mut Live> {
        self.objects.get_mut(id)
    }

    pub fn objects(&self) -> impl Iterator<Item = (&Identity, &Live)> {
        self.objects.iter()
    }

    fn set(&mut self, id: &Identity, uid: Option<String>, mut object: Object) {
        self.revision += 1;
        let revision = self.revision.to_string();
        let uid = uid.unwrap_or_else(|| format!("object-{revision}"));
        let before = self.objects.get(id).filter(|live| live.uid() == uid);
        let generation = generation(&object, before.map(|live| &live.object));
        edit_metadata(&mut object, |metadata| {
            metadata.extend(generation.map(|generation| ("generation".into(), generation.into())));
            metadata.insert("uid".into(), uid.clone().into());
            metadata.insert("resourceVersion".into(), revision.into());
        });
        match self.objects.get_mut(id).filter(|live| live.uid() == uid) {
            Some(live) => live.object = object,
            None => {
                self.events.push(ObjectEvent::Created { id: id.clone(), uid });
                let live = Live { object, applied_by: BTreeMap::new(), stays: false };
                self.objects.insert(id.clone(), live);
            }
        }
    }

    /// Handles a POST.
    pub fn create(&mut self, id: &Identity, object: Object) -> Result<(), Refused> {
        if self.objects.contains_key(id) {
            return Err(Refused::Exists);
        }
        self.set(id, None, object);
        Ok(())
    }

    /// Handles a PUT. The version in the object is a precondition.
    pub fn replace(&mut self, id: &Identity, object: Object) -> Result<(), Refused> {
        let live = self.objects.get(id).ok_or(Refused::Stale)?;
        let version = meta(&object, "resourceVersion");
        let fits = version.is_empty() || version == meta(&live.object, "resourceVersion");
        if !fits {
            return Err(Refused::Stale);
        }
        let uid = live.uid().to_owned();
        self.set(id, Some(uid), object);
        Ok(())
    }

    /// Handles a merge patch. The uid and the version in it are preconditions.
    pub fn patch(&mut self, id: &Identity, patch: &Value) -> Result<(), Refused> {
        let live = self.objects.get(id).ok_or(Refused::Stale)?;
        for field in ["uid", "resourceVersion"] {
            let bound = patch["metadata"][field].as_str();
            if bound.is_some_and(|bound| bound != meta(&live.object, field)) {
                return Err(Refused::Stale);
            }
        }
        let uid = live.uid().to_owned();
        let mut patched = Value::Object(live.object.clone());
        merge_patch(&mut patched, patch);
        if let Value::Object(object) = patched {
            self.set(id, Some(uid), object);
        }
        Ok(())
    }

    fn remove(&mut self, id: &Identity, by_user: bool) -> Option<Live> {
        let live = self.objects.remove(id)?;
        let uid = live.uid().to_owned();
        self.events.push(ObjectEvent::Deleted { id: id.clone(), uid, by_user });
        Some(live)
    }

    /// Handles a DELETE of an agent. No object has finalizers here, so it is gone at once.
    pub fn delete(&mut self, id: &Identity) -> Option<Live> {
        self.remove(id, false)
    }

    /// Handles a DELETE with a uid as its precondition. Returns nothing if another object, or none,
    /// has the name.
    pub fn delete_uid(&mut self, id: &Identity, uid: &str) -> Option<Live> {
        self.objects.get(id).filter(|live| live.uid() == uid)?;
        self.remove(id, false)
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<ObjectEvent> {
        std::mem::take(&mut self.events)
    }

    /// The objects that have owners, none of which exists.
    pub fn garbage(&self, applied: &BTreeSet<&str>) -> Vec<Identity> {
        let is_garbage = |live: &Live| {
            let mut owners = live.owners().peekable();
            owners.peek().is_some() && owners.all(|owner| !applied.contains(owner))
        };
        let garbage = self.objects.iter().filter(|(_, live)| is_garbage(live));
        garbage.map(|(id, _)| id.clone()).collect()
    }

    /// Removes the references to owners that do not exist from objects that have other owners, as
    /// Kubernetes' garbage collector does (`attemptToDeleteItem`).
    pub fn remove_dangling_owners(&mut self, applied: &BTreeSet<&str>) {
        let exists = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| applied.contains(uid));
        let patches = self.objects.iter().filter_map(|(id, live)| {
            let all = list(&live.object, &["metadata", "ownerReferences"]);
            let left: Vec<&Value> = all.iter().filter(|owner| exists(owner)).collect();
            let patch = json!({"metadata": {"ownerReferences": left}});
            (!left.is_empty() && left.len() < all.len()).then(|| (id.clone(), patch))
        });
        for (id, patch) in patches.collect::<Vec<_>>() {
            let _done = self.patch(&id, &patch);
        }
    }

    /// Runs Kubernetes' garbage collector: removes and returns the garbage.
    pub fn collect_garbage(&mut self, applied: &BTreeSet<&str>) -> Vec<(Identity, Live)> {
        let garbage = self.garbage(applied);
        garbage.into_iter().filter_map(|id| Some((id.clone(), self.remove(&id, false)?))).collect()
    }

    /// A user deletes the object.
    pub fn user_deletes(&mut self, id: &Identity) {
        let _absent = self.remove(id, true);
    }

    /// A user deletes the object and creates it again from a copy, with its owners or without.
    pub fn user_recreates(&mut self, id: &Identity, with_owners: bool) {
        let Some(live) = self.remove(id, true) else { return };
        let mut object = live.object;
        if !with_owners {
            edit_metadata(&mut object, |metadata| {
                metadata.remove("ownerReferences");
            });
        }
        self.set(id, None, object);
    }

    /// A user edits the object's content.
    pub fn user_edits(&mut self, id: &Identity, text: &str) {
        let _absent = self.patch(id, &json!({"data": {"text": text}}));
    }
}
