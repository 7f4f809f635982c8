//! Random worlds, each from one seed. A failing seed is printed. `SEED=N` runs only that seed.

use super::hub::Faults;
use super::key;
use super::world::{CLUSTERS, WORKS, World};

const ACTIONS: usize = 80;
/// A write, its lost response, a lookup, the option, the agent, the deletion, the agent again, and
/// a creation if Git has the work again. Before that, an object may leave one work, and then
/// another one. No world needs more.
const PASSES_TO_REST: usize = 14;

/// Runs one random world. Panics if it breaks a rule.
pub async fn run(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = World::new(seed);
    for cluster in CLUSTERS.into_iter().take(seed as usize % (CLUSTERS.len() + 1)) {
        world.agents.use_ocm(&key(cluster, WORKS[0]).cluster);
    }
    let faults = Faults { unavailable: 5, answer_lost: 5, refused: 5, watches_cut: 5 };
    world.hub.set_faults(if seed.is_multiple_of(2) { faults } else { Faults::default() });
    for _ in 0..ACTIONS {
        world.act(&mut random).await;
    }
    world.hub.set_faults(Faults::default());
    world.frozen = Default::default();
    world.release_guards();
    world.agents.failing.clear();
    world.git.values_mut().for_each(|work| work.suspend = false);
    for _ in 0..PASSES_TO_REST {
        world.observe();
        world.pass().await;
        world.agents.settle(&world.hub);
        world.follow_objects();
    }
    world.observe();
    world.check_rest().await;
}

#[cfg(test)]
mod tests {
    use super::run;

    /// Prints the seed when a test fails.
    struct Seed(u64);

    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed with SEED={}", self.0);
            }
        }
    }

    async fn for_each_seed(count: u64, run: impl AsyncFn(u64)) {
        let seeds = match std::env::var("SEED") {
            Ok(text) => vec![text.parse().expect("SEED is a number")],
            Err(_) => (0..count).collect(),
        };
        for seed in seeds {
            let shown = Seed(seed);
            run(seed).await;
            drop(shown);
        }
    }

    #[tokio::test]
    async fn random_worlds_lose_nothing_and_converge() {
        for_each_seed(100, run).await;
    }
}
