//! A group of 52 clusters on a real hub, over a restart and a change of leader.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use serde_json::json;

use super::fixture::{config_map, value_of};
use super::groups::Fleet;
use crate::forge::daemon::Daemon;
use crate::leader_election::{accounts, config, leads};

/// Two that are looked at closely, and 50 more.
const CLUSTERS: usize = 52;
const MANIFEST: &str = "groups/edge/web/cm.yaml";

impl Fleet {
    /// The text of a cluster's work.
    fn text(&self, cluster: usize, text: &str) -> String {
        format!("{text} on {}", self.sync.clusters[cluster])
    }

    fn members(&self, excluded: Option<usize>) -> String {
        let names = json!(self.sync.clusters);
        let excluded: Vec<&str> =
            excluded.iter().map(|at| self.sync.clusters[*at].as_str()).collect();
        format!("clusters: {names}\nexclude: {}", json!(excluded))
    }

    async fn until_all(&self, text: &str, except: usize) {
        for cluster in (0..CLUSTERS).filter(|cluster| *cluster != except) {
            self.sync.until_value(cluster, "web", &self.text(cluster, text)).await;
        }
    }

    /// The uid of the work on each cluster that has it.
    async fn uids(&self) -> BTreeMap<usize, String> {
        let mut uids = BTreeMap::new();
        for cluster in 0..CLUSTERS {
            let work = self.sync.works(cluster).get_opt("web").await.unwrap();
            uids.extend(work.and_then(|work| Some((cluster, work.uid()?))));
        }
        uids
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn group_of_many_clusters_follows_git_over_a_change_of_leader() {
    let fleet = Fleet::new(CLUSTERS).await;
    let manifest = |text: &str| config_map("web", &format!("{text} on ${{cluster.name}}"));
    fleet.commit(&fleet.members(Some(51)), &[(MANIFEST, &manifest("one"))]);
    let [first_account, second_account] = accounts(&fleet.sync).await;
    let first = Daemon::start_as(&fleet.sync, "first", &first_account, &config(&fleet.sync));
    fleet.until_all("one", 51).await;
    assert!(!fleet.is_there(51, "web").await, "it is excluded");
    let before = fleet.uids().await;

    // One commit changes all of them, and the excluded one joins.
    fleet.commit(&fleet.members(None), &[(MANIFEST, &manifest("two"))]);
    first.hang_up();
    fleet.until_all("two", CLUSTERS).await;

    // A cluster gets its own version, and gives it up again. The ManifestWork stays.
    let own = fleet.sync.path(1, "web/cm.yaml");
    let sidecar = fleet.sync.path(1, "web/work.yaml");
    let version = config_map("web", "own");
    let files = [(own.as_str(), version.as_str()), (&sidecar, "replaces: group\n")];
    fleet.commit(
        &fleet.members(None),
        &[&[(MANIFEST, manifest("two").as_str())], &files[..]].concat(),
    );
    first.hang_up();
    fleet.sync.until_value(1, "web", "own").await;
    fleet.sync.repo.commit("main", &[(own.as_str(), None), (sidecar.as_str(), None)]);
    first.hang_up();
    fleet.sync.until_value(1, "web", &fleet.text(1, "two")).await;

    // Another process takes over. It has no facts and no cache, and changes nothing for that.
    let second = Daemon::start_as(&fleet.sync, "second", &second_account, &config(&fleet.sync));
    second.until_logged("another daemon is the leader of this source").await;
    let there = fleet.uids().await;
    first.signal("KILL");
    fleet.commit(&fleet.members(Some(0)), &[(MANIFEST, &manifest("three"))]);
    fleet.until_all("three", 0).await;
    second.until_metric(&leads(&fleet.sync), |value| value == 1.0).await;
    fleet.sync.until_gone(0, "web").await;
    let after = fleet.uids().await;
    assert!(before.keys().all(|cluster| there[cluster] == before[cluster]));
    assert_eq!(after.len(), CLUSTERS - 1);
    assert!(after.iter().all(|(cluster, uid)| there[cluster] == *uid), "no work is created again");
}

/// The three ways to be a member, and what they need of the hub, in one source.
#[tokio::test(flavor = "multi_thread")]
async fn claims_overrides_and_names_decide_together() {
    let fleet = Fleet::new(3).await;
    for (cluster, region) in [(0, "eu"), (1, "eu"), (2, "us")] {
        let status = json!({"status": {
            "clusterClaims": [{"name": "region.example.com", "value": region}], "conditions": [],
        }});
        fleet.patch_cluster_status(cluster, status).await;
    }
    let (names, last) = (json!(fleet.sync.clusters), &fleet.sync.clusters[1]);
    let condition = format!(
        "clusters: {names}\nselector:\n  claimSelector:\n    matchExpressions:\n      - {{key: \
         region.example.com, operator: In, values: [eu]}}\nvalues: {{SIZE: large}}\noverrides:\n  \
         - clusters: [{last}]\n    values: {{SIZE: small}}\n"
    );
    fleet.commit(&condition, &[(MANIFEST, &config_map("web", "${SIZE}"))]);
    let running = fleet.start("started").await;
    fleet.sync.until_value(0, "web", "large").await;
    fleet.sync.until_value(1, "web", "small").await;
    assert!(!fleet.is_there(2, "web").await);
    let status = json!({"status": {
        "clusterClaims": [{"name": "region.example.com", "value": "eu"}], "conditions": [],
    }});
    fleet.patch_cluster_status(2, status).await;
    let work = fleet.sync.until_value(2, "web", "large").await;
    assert_eq!(value_of(&work).as_deref(), Some("large"));
    drop(running);
}
