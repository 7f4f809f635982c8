//! The real program is killed at any write, and its hub, Git server and forge fail at any request: the end is that of
//! an undisturbed run.

mod fleet;
mod scenario;
mod world;

use scenario::tell;
use world::{Machine, World};

#[tokio::test(flavor = "multi_thread")]
async fn undisturbed() {
    let world = World::new(Machine::Same).await;
    let began = std::time::Instant::now();
    let story = tell(&world, None).await;
    eprintln!("{:?}", began.elapsed());
    eprintln!("{}", story.end);
    for call in &story.calls {
        eprintln!("{} {} {}", call.phase, call.target.name, call.target.number);
    }
}
