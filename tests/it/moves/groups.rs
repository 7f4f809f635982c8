//! Objects that move between works of groups, and between these and a cluster's own works. Each
//! write is made by `gitwork run --once`, so a move goes on over several runs.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::Value;
use tempfile::TempDir;

use super::objects::{Object, ObjectNames};
use super::watch::Watch;
use crate::agent::fixture::Fixture;
use crate::cli::{code, err, git, out, write};
use crate::harness::{Cluster, ClusterOptions, ControlPlane, crds, eventually};
use crate::ocm_agent::world::is_applied;
use crate::two_repositories::run;

const DEADLINE: Duration = Duration::from_secs(300);
const MOVING: [Object; 2] = [Object::Volume, Object::ConfigMap];

/// A repository with the group `edge`, which has one cluster.
struct Repository<'a> {
    folder: TempDir,
    hub: &'a Cluster,
    agent: &'a Fixture<'a>,
    place: ObjectNames,
}

impl Repository<'_> {
    fn write(&self, file: &str, text: &str) {
        write(self.folder.path(), file, text);
    }

    /// Writes an object that stays in its folder.
    fn add_other(&self, folder: &str) {
        let mut other = self.place.manifest(Object::ConfigMap, "other");
        other["metadata"]["name"] = folder.replace('/', "-").into();
        self.write(&format!("{folder}/other.yaml"), &other.to_string());
    }

    /// Writes an object that moves.
    fn add(&self, folder: &str, object: Object, content: &str) {
        let text = self.place.manifest(object, content).to_string();
        self.write(&format!("{folder}/{object:?}.yaml").to_lowercase(), &text);
    }

    /// Moves a file or a folder.
    fn rename(&self, from: &str, to: &str) {
        let parent = self.folder.path().join(to);
        std::fs::create_dir_all(parent.parent().unwrap()).unwrap();
        git(self.folder.path(), &["add", "-A"]);
        git(self.folder.path(), &["mv", from, to]);
    }

    fn commit(&self) {
        git(self.folder.path(), &["add", "-A"]);
        git(self.folder.path(), &["commit", "-q", "-m", "change"]);
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(self.hub, &self.folder, &[arguments, &["--source-id", "fleet"]].concat())
    }

    /// Commits, and syncs until the hub has these works with these objects, applied, and nothing
    /// else.
    async fn until_moved(&self, works: &[(&str, &[&str])]) {
        self.commit();
        eventually(&format!("the hub to have {works:?}"), DEADLINE, || async {
            let done = self.run(&["run", "--once"]);
            let is_settled = code(&done) == Some(0);
            let there = self.works().await;
            let wanted = works.iter().map(|(work, objects)| {
                let objects = objects.iter().map(|object| (*object).to_owned());
                ((*work).to_owned(), objects.collect::<Vec<_>>())
            });
            let is_as_wanted = there == wanted.collect();
            match is_settled && is_as_wanted {
                true => Ok(()),
                false => Err(format!("{there:?}: {}", err(&done))),
            }
        })
        .await
        .unwrap();
    }

    /// The names of the objects of each applied work on the hub.
    async fn works(&self) -> BTreeMap<String, Vec<String>> {
        let all = self.agent.works().list(&ListParams::default()).await.unwrap();
        let all = all.items.into_iter().map(|work| {
            let manifests = work.data["spec"]["workload"]["manifests"].as_array().unwrap();
            let id = |one: &Value| {
                let text = |pointer| one.pointer(pointer).unwrap().as_str().unwrap().to_owned();
                format!("{} {}", text("/kind"), text("/metadata/name"))
            };
            let mut names: Vec<String> = manifests.iter().map(id).collect();
            names.sort();
            if !is_applied(&work) {
                names.push("not applied".into());
            }
            (work.name_any(), names)
        });
        all.collect()
    }

    async fn uid_of_work(&self, work: &str) -> String {
        self.agent.works().get(work).await.unwrap().uid().unwrap()
    }
}

const DATA: &str = "ConfigMap data";
const VOLUME: &str = "PersistentVolumeClaim data";

#[tokio::test(flavor = "multi_thread")]
async fn objects_move_between_works_of_groups_and_of_the_cluster() {
    let plane = ControlPlane::shared().await;
    let options = ClusterOptions { crds: crds::hub(), ..ClusterOptions::default() };
    let hub = plane.start("moves-of-groups", options).await;
    hub.create_namespace("gitwork").await;
    let agent = Fixture::between(&hub, plane.managed().await, |_| {}).await;
    let place = ObjectNames { namespace: agent.namespace.clone() };
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q", "-b", "main"]);
    let fleet = Repository { folder, hub: &hub, agent: &agent, place: place.clone() };
    let own = format!("clusters/{}/own", agent.cluster_name);
    let group = format!("clusters: [{}]\n", agent.cluster_name);
    fleet.write("groups/edge/group.yaml", &group);
    fleet.add_other("groups/edge/shop");
    fleet.add_other(&own);
    MOVING.into_iter().for_each(|object| fleet.add("groups/edge/shop", object, "one"));
    let other = "ConfigMap groups-edge-shop";
    let owns = format!("ConfigMap {}", own.replace('/', "-"));
    fleet.until_moved(&[("own", &[&owns]), ("shop", &[DATA, other, VOLUME])]).await;
    let watch = Watch::start(&agent.cluster, &place, &MOVING).await;

    // A work of the group is renamed.
    fleet.rename("groups/edge/shop", "groups/edge/store");
    fleet.until_moved(&[("own", &[&owns]), ("store", &[DATA, other, VOLUME])]).await;

    // The folder of the group is renamed: its works keep their names.
    let uid = fleet.uid_of_work("store").await;
    fleet.rename("groups/edge", "groups/far");
    fleet.until_moved(&[("own", &[&owns]), ("store", &[DATA, other, VOLUME])]).await;
    assert_eq!(fleet.uid_of_work("store").await, uid);

    // An object moves to a work of the cluster's own, with another content, and back.
    let (in_group, in_own) = ("groups/far/store/volume.yaml", format!("{own}/volume.yaml"));
    fleet.rename(in_group, &in_own);
    fleet.add(&own, Object::Volume, "two");
    fleet.until_moved(&[("own", &[&owns, VOLUME]), ("store", &[DATA, other])]).await;
    let contents = [(Object::Volume, "two".to_owned()), (Object::ConfigMap, "one".to_owned())];
    watch.until_seen(&contents.into(), "in the cluster's own work").await;
    fleet.rename(&in_own, in_group);
    fleet.until_moved(&[("own", &[&owns]), ("store", &[DATA, other, VOLUME])]).await;

    // It moves to another group, and the cluster leaves the first one in the same commit.
    fleet.write("groups/near/group.yaml", &group);
    fleet.rename("groups/far/store", "groups/near/all");
    fleet.write("groups/far/group.yaml", "clusters: [\"nobody-*\"]\n");
    fleet.add_other("groups/far/rest");
    fleet.until_moved(&[("all", &[DATA, other, VOLUME]), ("own", &[&owns])]).await;

    // A folder of the cluster takes the place of the group's work, under the same name.
    let uid = fleet.uid_of_work("all").await;
    let replacement = format!("clusters/{}/all", agent.cluster_name);
    fleet.write(&format!("{replacement}/work.yaml"), "replaces: group\n");
    MOVING.into_iter().for_each(|object| fleet.add(&replacement, object, "three"));
    fleet.until_moved(&[("all", &[DATA, VOLUME]), ("own", &[&owns])]).await;
    assert_eq!(fleet.uid_of_work("all").await, uid);
    let contents = MOVING.map(|object| (object, "three".to_owned())).into();
    watch.until_seen(&contents, "in the replacement").await;

    // A move that only a suspension holds is no change and waits for no approval.
    fleet.write(&format!("{own}/work.yaml"), "suspend: true\n");
    fleet.rename(&format!("{replacement}/volume.yaml"), &in_own);
    fleet.commit();
    let once = fleet.run(&["run", "--once"]);
    assert_eq!(code(&once), Some(1), "it differs from Git: {}", err(&once));
    let plan = fleet.run(&["plan", "--exit-code"]);
    assert_eq!(code(&plan), Some(0), "{}", err(&plan));
    assert!(out(&plan).contains("own: suspended in Git"), "{}", out(&plan));
    assert_eq!(fleet.works().await["all"], [DATA, VOLUME]);
    watch.until_seen(&contents, "while its new work is suspended").await;
}
