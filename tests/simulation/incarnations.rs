//! Follows the objects on the clusters from their creation to their end, by uid.
//!
//! "An object that Git has at every commit keeps its uid": this part knows when an object began,
//! and that an agent, or the garbage collector, ended it. Whether Git had it all that time is known
//! to the worlds' checkers.

use std::collections::{BTreeMap, BTreeSet};

use gitwork_core::model::name::ClusterName;

use super::agents::Object;
use super::cluster::ObjectEvent;

/// One object from its creation on. A new object of the same name is another one.
#[derive(Debug, Clone)]
pub struct Incarnation<T> {
    pub uid: String,
    /// What the world knew when it was created.
    pub since: T,
}

/// All objects of a world.
#[derive(Debug)]
pub struct Incarnations<T> {
    live: BTreeMap<Object, Incarnation<T>>,
    /// Names of objects that other clients had a part in: no statement is made about them.
    disturbed: BTreeSet<Object>,
    /// Clusters with nothing but such objects.
    disturbed_clusters: BTreeSet<ClusterName>,
}

impl<T> Default for Incarnations<T> {
    fn default() -> Self {
        let (disturbed, disturbed_clusters) = Default::default();
        Self { live: BTreeMap::new(), disturbed, disturbed_clusters }
    }
}

impl<T: Clone> Incarnations<T> {
    /// The objects that exist.
    pub fn live(&mut self) -> impl Iterator<Item = (&Object, &mut Incarnation<T>)> {
        self.live.iter_mut()
    }

    /// Another client deletes or changes these objects, or a work that has them.
    pub fn disturb(&mut self, objects: impl IntoIterator<Item = Object>) {
        self.disturbed.extend(objects);
    }

    pub fn disturb_cluster(&mut self, cluster: &ClusterName) {
        self.disturbed_clusters.insert(cluster.clone());
    }

    pub fn is_cluster_disturbed(&self, cluster: &ClusterName) -> bool {
        self.disturbed_clusters.contains(cluster)
    }

    /// Whether another client had a part in what becomes of the object.
    pub fn is_disturbed(&self, object: &Object) -> bool {
        self.disturbed.contains(object) || self.disturbed_clusters.contains(&object.0)
    }

    /// Takes one event. Returns the object if an agent or the garbage collector ended it and no
    /// other client had a part in that.
    pub fn follow(
        &mut self,
        cluster: ClusterName,
        event: ObjectEvent,
        now: &T,
    ) -> Option<(Object, Incarnation<T>)> {
        match event {
            ObjectEvent::Created { id, uid } => {
                let begun = Incarnation { uid, since: now.clone() };
                self.live.insert((cluster, id), begun);
                None
            }
            ObjectEvent::Deleted { id, uid, by_user } => {
                let object = (cluster, id);
                let ended = self.live.remove(&object).filter(|one| one.uid == uid);
                if by_user {
                    self.disturbed.insert(object.clone());
                }
                let ended = ended.filter(|_| !self.is_disturbed(&object))?;
                Some((object, ended))
            }
        }
    }
}

#[test]
fn objects_that_other_clients_end_are_left_out() {
    let id = super::git_work::config_map("web-a");
    let cluster = ClusterName::parse("edge-1").unwrap();
    let created = |uid: &str| ObjectEvent::Created { id: id.clone(), uid: uid.into() };
    let deleted =
        |uid: &str, by_user| ObjectEvent::Deleted { id: id.clone(), uid: uid.into(), by_user };
    let mut all = Incarnations::default();
    let mut follow = |event, at: u8| {
        let ended = all.follow(cluster.clone(), event, &at);
        ended.map(|(_, one)| (one.uid, one.since))
    };
    assert_eq!(follow(created("1"), 1), None);
    assert_eq!(follow(deleted("1", false), 2), Some(("1".into(), 1)));
    follow(created("2"), 3);
    assert_eq!(follow(deleted("2", true), 4), None);
    follow(created("3"), 5);
    assert_eq!(follow(deleted("3", false), 6), None, "a user had a part in it");
}
