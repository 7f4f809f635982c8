//! Objects that move between works keep their identity, on real API servers: with this project's
//! agent, and with the double of OCM's.
//!
//! Each round commits a move of another form, and changes content, restarts a daemon or changes the
//! leader in the middle of it. Meanwhile the cluster is watched: no object is absent, is being
//! deleted or has another uid at any time.

mod layout;
mod objects;
mod stage;
mod watch;

use std::time::Duration;

use tokio::time::sleep;

use crate::agent::fixture::Fixture;
use crate::ocm_agent::world::World;
use crate::ocm_agent_double::{OcmAgent, OrderChooser};
use layout::{Form, Layout};
use stage::Stage;

const ROUNDS: u64 = 50;

#[tokio::test(flavor = "multi_thread")]
async fn objects_keep_their_identity_with_gitwork_agent() {
    let mut agent = Fixture::start().await;
    let mut stage = Stage::start(&agent.cluster_name, &agent.namespace, agent.managed).await;
    for round in 0..ROUNDS {
        play(&mut stage, round, async || {
            agent.kill().await;
            agent.run();
        })
        .await;
    }
    stage.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_keep_their_identity_with_the_double_of_ocms_agent() {
    // It is not killed: killed between its two writes of a status, OCM's agent leaves an owner
    // behind. Its own tests kill it.
    let mut world = World::start(OrderChooser::seeded(0)).await;
    let managed = crate::harness::managed().await;
    let (cluster, namespace) = (world.cluster_name.clone(), world.namespace.clone());
    let rounds = async {
        let mut stage = Stage::start(&cluster, &namespace, managed).await;
        for round in 0..ROUNDS {
            play(&mut stage, round, async || ()).await;
        }
        stage.end().await;
    };
    tokio::select! {
        () = rounds => {}
        () = act(&mut world.agent, &mut world.order) => {}
    }
}

/// Lets the double act for ever. Its regular passes come when it has had nothing to do for a while.
async fn act(agent: &mut OcmAgent, order: &mut OrderChooser) {
    const PAUSE: Duration = Duration::from_millis(10);
    const IDLE_MAX: u32 = 200;
    let mut idle = 0;
    loop {
        if agent.step(order).await {
            idle = 0;
            continue;
        }
        idle += 1;
        if idle == IDLE_MAX {
            agent.pass_time(Duration::from_mins(6));
            idle = 0;
        }
        sleep(PAUSE).await;
    }
}

/// What happens in the middle of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    Nothing,
    /// Another commit changes the content of every object.
    ContentChange,
    DaemonIsKilled,
    LeaderChange,
    AgentIsKilled,
}

const DISTURBANCES: [Disturbance; 5] = [
    Disturbance::ContentChange,
    Disturbance::DaemonIsKilled,
    Disturbance::Nothing,
    Disturbance::LeaderChange,
    Disturbance::AgentIsKilled,
];

/// One move, from its commit to the state in which every work and every object is as Git has it.
async fn play(stage: &mut Stage, round: u64, kill_agent: impl AsyncFnOnce()) {
    let forms = Form::ALL.len() as u64;
    let form = Form::ALL[usize::try_from(round % forms).unwrap()];
    // Every form meets every disturbance: their numbers have no common divisor.
    let disturbance = DISTURBANCES[usize::try_from(round % 5).unwrap()];
    let mut random = fastrand::Rng::with_seed(round);
    let before = stage.layout().clone();
    let mut steps = form.steps(&before, &mut random);
    let last: Layout = steps.pop().unwrap();
    for (number, layout) in steps.into_iter().enumerate() {
        let commit = stage.commit(layout, &format!("{round}-{number}"));
        stage.until_written(commit).await;
    }
    let commit = stage.commit(last.clone(), &format!("{round}-moved"));
    if random.bool() {
        stage.until_written(commit).await;
    }
    match disturbance {
        Disturbance::Nothing => {}
        Disturbance::ContentChange => {
            stage.commit(last, &format!("{round}-changed"));
        }
        Disturbance::DaemonIsKilled => stage.restart_leader().await,
        Disturbance::LeaderChange => stage.change_leader().await,
        Disturbance::AgentIsKilled => kill_agent().await,
    }
    stage.until_as_in_git(&format!("round {round}, {form:?}, {disturbance:?}")).await;
}
