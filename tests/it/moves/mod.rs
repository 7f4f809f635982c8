//! Objects that move between works keep their identity, on real API servers: with this project's
//! agent, and with the double of OCM's.
//!
//! Each round commits a move of another form. In the middle of it, while the giving works still
//! keep the objects, content changes, a daemon is restarted or the leader changes; in some rounds
//! the agent is killed, too. Meanwhile the cluster is watched: no object is absent, is being
//! deleted or has another uid at any time.

mod groups;
mod in_progress;
mod layout;
mod objects;
mod sources;
mod stage;
mod watch;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;

use crate::agent::fixture::Fixture;
use crate::ocm_agent::world::World;
use crate::ocm_agent_double::{OcmAgent, OrderChooser};
use layout::{Form, Layout};
use stage::Stage;

/// The two halves are played side by side: most of a round is waiting.
const HALVES: [Range<u64>; 2] = [0..25, 25..50];

/// How often a disturbance came in the middle of a move.
type InTheMiddle = BTreeMap<Disturbance, u64>;

#[tokio::test(flavor = "multi_thread")]
async fn objects_keep_their_identity_with_gitwork_agent() {
    let halves = HALVES.map(|rounds| async {
        let mut agent = Fixture::start().await;
        let stage = Stage::start(&agent.cluster_name, &agent.namespace, agent.managed).await;
        play_all(stage, rounds, &mut agent).await
    });
    check(&join_all(halves).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_keep_their_identity_with_the_double_of_ocms_agent() {
    let halves = HALVES.map(|rounds| async {
        let mut world = World::start(OrderChooser::seeded(rounds.start)).await;
        let managed = crate::harness::managed_by_ocm().await;
        let (cluster, namespace) = (world.cluster_name.clone(), world.namespace.clone());
        let step = Mutex::new(());
        let played = async {
            let stage = Stage::start(&cluster, &namespace, managed).await;
            play_all(stage, rounds, &mut PausableDouble { step: &step, pause: None }).await
        };
        tokio::select! {
            in_the_middle = played => in_the_middle,
            never = act(&mut world.agent, &mut world.order, &step) => match never {},
        }
    });
    check(&join_all(halves).await);
}

/// Lets the double act for ever, while `step` is free. Its regular passes come when it has had
/// nothing to do for a while.
async fn act(agent: &mut OcmAgent, order: &mut OrderChooser, step: &Mutex<()>) -> Infallible {
    const PAUSE: Duration = Duration::from_millis(100);
    const IDLE_MAX: u32 = 30;
    let mut idle = 0;
    loop {
        let acting = step.lock().await;
        let has_acted = agent.step_alone(order).await;
        drop(acting);
        if has_acted {
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

/// The agent of the cluster.
trait Agent {
    /// Ends what it does: it does nothing more until it is resumed.
    async fn pause(&mut self);
    fn resume(&mut self);
    /// Kills it wherever it is, and starts another one.
    async fn kill(&mut self);
}

impl Agent for Fixture<'static> {
    async fn pause(&mut self) {
        Fixture::kill(self).await;
    }
    fn resume(&mut self) {
        self.run();
    }
    async fn kill(&mut self) {
        Fixture::kill(self).await;
        self.run();
    }
}

/// The double of OCM's agent. It makes no step while `step` is locked.
struct PausableDouble<'a> {
    step: &'a Mutex<()>,
    pause: Option<MutexGuard<'a, ()>>,
}

impl Agent for PausableDouble<'_> {
    async fn pause(&mut self) {
        self.pause = Some(self.step.lock().await);
    }
    fn resume(&mut self) {
        self.pause = None;
    }
    /// Not killed: killed between its two writes of a status, OCM's agent leaves an owner behind.
    /// Its own tests kill it.
    async fn kill(&mut self) {}
}

/// What happens in the middle of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Disturbance {
    /// Another commit changes the content of every object.
    ContentChange,
    DaemonIsKilled,
    LeaderChange,
    /// Content changes and the agent is killed.
    AgentIsKilled,
}

const DISTURBANCES: [Disturbance; 4] = [
    Disturbance::ContentChange,
    Disturbance::DaemonIsKilled,
    Disturbance::LeaderChange,
    Disturbance::AgentIsKilled,
];

/// Every form meets every disturbance: their numbers have no common divisor.
async fn play_all(mut stage: Stage, rounds: Range<u64>, agent: &mut impl Agent) -> InTheMiddle {
    let mut in_the_middle = InTheMiddle::new();
    for round in rounds {
        let disturbance = DISTURBANCES[usize::try_from(round % 4).unwrap()];
        let is_in_the_middle = play(&mut stage, round, disturbance, agent).await;
        *in_the_middle.entry(disturbance).or_default() += u64::from(is_in_the_middle);
    }
    stage.end().await;
    in_the_middle
}

/// Each disturbance came in the middle of several moves.
fn check(halves: &[InTheMiddle]) {
    for disturbance in DISTURBANCES {
        let rounds: u64 = halves.iter().map(|half| half[&disturbance]).sum();
        assert!(rounds >= 8, "{disturbance:?} came in the middle of {rounds} moves only");
    }
}

/// One move, from its commit to the state in which every work and every object is as Git has it.
/// Gives whether giving works kept objects before the disturbance and after it.
async fn play(
    stage: &mut Stage,
    round: u64,
    disturbance: Disturbance,
    agent: &mut impl Agent,
) -> bool {
    let forms = Form::ALL.len() as u64;
    let form = Form::ALL[usize::try_from(round % forms).unwrap()];
    let mut random = fastrand::Rng::with_seed(round);
    let mut steps = form.steps(&stage.layout().clone(), &mut random);
    let last: Layout = steps.pop().unwrap();
    for (number, layout) in steps.into_iter().enumerate() {
        let commit = stage.commit(layout, &format!("{round}-{number}"));
        stage.until_written(commit).await;
    }
    agent.pause().await;
    stage.commit(last.clone(), &format!("{round}-moved"));
    let is_moving = stage.until_moving().await;
    let may_be_done = matches!(form, Form::Revert | Form::Split | Form::Swap);
    assert!(is_moving || may_be_done, "round {round}: {form:?} moves nothing");
    match disturbance {
        Disturbance::ContentChange | Disturbance::AgentIsKilled => {
            let commit = stage.commit(last, &format!("{round}-changed"));
            stage.until_written(commit).await;
        }
        Disturbance::DaemonIsKilled => stage.restart_leader().await,
        Disturbance::LeaderChange => stage.change_leader().await,
    }
    // The agent does nothing, so the move cannot have ended since, unless it needed no agent.
    let is_in_the_middle = is_moving && stage.is_moving().await;
    agent.resume();
    if disturbance == Disturbance::AgentIsKilled {
        agent.kill().await;
    }
    stage.until_as_in_git(&format!("round {round}, {form:?}, {disturbance:?}")).await;
    is_in_the_middle
}
