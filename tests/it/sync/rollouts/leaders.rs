//! The leader of a source changes in the middle of a rollout.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::super::held_changes::config;
use super::simulated_agents::Behavior;
use super::stage::Stage;
use crate::forge::daemon::Daemon;
use crate::leader_election::{accounts, leads};

const NAMES: [&str; 2] = ["first", "second"];

/// How long the lab soaks: longer than a change of the leader takes.
const SOAK: Duration = Duration::from_secs(15);

/// Two daemons of one source.
struct Replicas<'a> {
    stage: &'a Stage,
    accounts: [PathBuf; 2],
    daemons: [Option<Daemon>; 2],
}

impl<'a> Replicas<'a> {
    async fn start(stage: &'a Stage) -> Self {
        let accounts = accounts(&stage.sync).await;
        let mut replicas = Self { stage, accounts, daemons: [None, None] };
        (0..2).for_each(|index| replicas.start_one(index));
        replicas
    }

    fn start_one(&mut self, index: usize) {
        let sync = &self.stage.sync;
        let config = config(sync, &json!({"intervalSeconds": 1}));
        let daemon = Daemon::start_as(sync, NAMES[index], &self.accounts[index], &config);
        self.daemons[index] = Some(daemon);
    }

    async fn leader(&self) -> usize {
        self.stage
            .until("a leader", || async {
                for (index, daemon) in self.daemons.iter().enumerate() {
                    let Some(daemon) = daemon else { continue };
                    if daemon.metric(&leads(&self.stage.sync)).await == Some(1.0) {
                        return Ok(index);
                    }
                }
                Err("nobody leads".to_owned())
            })
            .await
    }

    /// Ends the leader, waits until the other daemon leads and has planned, and starts the first
    /// one again.
    async fn change_leader(&mut self) {
        let leader = self.leader().await;
        assert_eq!(self.daemons[leader].take().unwrap().terminate().await, Some(0));
        assert_eq!(self.leader().await, 1 - leader);
        self.stage.until_planned().await;
        self.start_one(leader);
    }
}

/// Two clusters soak, then two of three get the content at a time, then all others.
fn rollout(stage: &Stage, deadline: &str) -> String {
    let (lab, town) = (stage.names(0..2), stage.names(2..5));
    let soak = SOAK.as_secs();
    format!(
        "{{onFailure: return, progressDeadline: {deadline}, waves: [{{name: lab, clusters: {lab}, \
         soak: {soak}s}}, {{name: town, clusters: {town}, maxConcurrency: 2}}]}}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn next_leader_continues_a_soak_a_wave_and_a_stop_where_they_are() {
    let stage = Stage::new(30).await;
    for cluster in 2..5 {
        stage.simulated.set_of(stage.name(cluster), "two", Behavior::Wait);
    }
    stage.simulated.set("three", Behavior::Reject);
    let mut replicas = Replicas::start(&stage).await;
    stage.roll_out_first("one", &[]).await;

    // The lab soaks.
    stage.commit(&rollout(&stage, "5m"), "two", &[]);
    stage.until_only("two", [0, 1]).await;
    replicas.change_leader().await;
    assert_eq!(stage.simulated.arrivals("two").len(), 2);
    stage
        .until("the town to begin", || async {
            let busy = stage.simulated.in_progress("two");
            if busy.len() == 2 { Ok(()) } else { Err(format!("{busy:?}")) }
        })
        .await;
    let soaked_since = stage.simulated.reports("two").iter().map(|one| one.at).max().unwrap();
    let began = stage.simulated.arrivals("two")[2].at;
    assert!(began - soaked_since >= SOAK, "{:?}", began - soaked_since);

    // Two clusters of the town are in progress.
    let before = stage.generations().await;
    replicas.change_leader().await;
    assert_eq!(stage.generations().await, before);
    assert_eq!(stage.simulated.most_in_progress("two"), 2);
    for cluster in 2..5 {
        stage.simulated.set_of(stage.name(cluster), "two", Behavior::Apply);
    }
    stage.until_good("two").await;

    // The next content fails in the lab, and its clusters return.
    stage.commit(&rollout(&stage, "3s"), "three", &[]);
    assert_eq!(stage.until_rejected("lab").await.len(), 2);
    stage.until_all("two").await;
    replicas.change_leader().await;
    stage.until_all("two").await;
    let writes: Vec<i64> =
        (0..stage.sync.clusters.len()).map(|cluster| if cluster < 2 { 4 } else { 2 }).collect();
    assert_eq!(stage.generations().await, writes, "each content was written once");
}
