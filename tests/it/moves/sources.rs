//! Objects that move from one source to another: the giving source orphans them first.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::Value;
use tempfile::TempDir;

use super::objects::{Object, ObjectNames};
use super::watch::Watch;
use crate::agent::fixture::Fixture;
use crate::cli::{code, err, git, out, write};
use crate::harness::{Cluster, ClusterOptions, ControlPlane, crds};
use crate::two_repositories::run;

const OBJECTS: [Object; 2] = [Object::Volume, Object::ConfigMap];

/// A repository with one work, whose folder it is.
struct Source {
    id: &'static str,
    repository: TempDir,
    folder: String,
}

impl Source {
    fn new(id: &'static str, folder: String) -> Self {
        let repository = tempfile::tempdir().unwrap();
        git(repository.path(), &["init", "-q", "-b", "main"]);
        Self { id, repository, folder }
    }

    fn write(&self, file: &str, text: &str) {
        write(self.repository.path(), &format!("{}/{file}", self.folder), text);
    }

    /// Writes the objects that move, with a content.
    fn add(&self, place: &ObjectNames, content: &str) {
        for object in OBJECTS {
            self.write(&format!("{object:?}.yaml"), &place.manifest(object, content).to_string());
        }
    }

    /// Writes an object that stays.
    fn add_other(&self, place: &ObjectNames) {
        let mut other = place.manifest(Object::ConfigMap, "other");
        other["metadata"]["name"] = self.id.into();
        self.write("other.yaml", &other.to_string());
    }

    /// Commits everything and syncs once.
    fn sync(&self, hub: &Cluster) {
        git(self.repository.path(), &["add", "-A"]);
        git(self.repository.path(), &["commit", "-q", "-m", "change"]);
        let done = run(hub, &self.repository, &["run", "--once", "--source-id", self.id]);
        assert_eq!(code(&done), Some(0), "{}", err(&done));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_their_source_orphans_move_to_another_source() {
    let plane = ControlPlane::shared().await;
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let hub = plane.start("two-sources", options).await;
    hub.create_namespace("gitwork").await;
    let agent = Fixture::between(&hub, plane.managed().await, |_| {}).await;
    let place = ObjectNames { namespace: agent.namespace.clone() };
    let folder = |work: &str| format!("clusters/{}/{work}", agent.cluster_name);
    let (a, b) = (Source::new("a", folder("shop")), Source::new("b", folder("store")));

    a.add(&place, "one");
    a.add_other(&place);
    a.sync(&hub);
    agent.condition("shop", "Applied", "True").await;
    b.add_other(&place);
    b.sync(&hub);
    agent.condition("store", "Applied", "True").await;
    let watch = Watch::start(&agent.cluster, &place, &OBJECTS).await;

    // The plan of the other source says what has to be done first.
    b.add(&place, "two");
    let plan = out(&run(&hub, &b.repository, &["plan", "--source-id", "b"]));
    assert!(plan.contains("of the source a: commit `orphan: true` for it there first"), "{plan}");
    for object in OBJECTS {
        a.write(&format!("{object:?}.config.yaml"), "orphan: true");
    }
    a.sync(&hub);
    agent.condition("shop", "Applied", "True").await;
    let plan = out(&run(&hub, &b.repository, &["plan", "--source-id", "b"]));
    assert!(!plan.contains("orphan"), "{plan}");

    b.sync(&hub);
    for object in OBJECTS {
        for file in [format!("{object:?}.yaml"), format!("{object:?}.config.yaml")] {
            git(a.repository.path(), &["rm", "-q", &format!("{}/{file}", a.folder)]);
        }
    }
    a.sync(&hub);
    agent.condition("shop", "Applied", "True").await;
    agent.condition("store", "Applied", "True").await;
    let contents: BTreeMap<Object, String> = OBJECTS.map(|one| (one, "two".to_owned())).into();
    watch.until_seen(&contents, "after the move").await;
    for object in OBJECTS {
        let live = place.api(&agent.cluster, object).get(&place.name(object)).await.unwrap();
        let owners: Vec<&str> =
            live.owner_references().iter().map(|owner| owner.name.as_str()).collect();
        assert!(owners.len() == 1 && owners[0].ends_with("-store"), "{object:?}: {owners:?}");
    }
    let shop: Value = serde_json::to_value(agent.works().get("shop").await.unwrap()).unwrap();
    assert_eq!(shop["spec"]["workload"]["manifests"].as_array().unwrap().len(), 1);
}
