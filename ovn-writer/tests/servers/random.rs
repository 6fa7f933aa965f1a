//! Random sequences of store events, changes of other clients, and ends of programs and servers.
//!
//! An address leaves a set in use only for a reason that docs/design.md names. In the end the sets equal the statuses.

mod judge;
mod right;
mod steps;
mod told;
mod world;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use tests::soak::or_long;

use self::{steps::step, world::World};

mod soak {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn no_used_set_loses_addresses_without_a_reason_and_all_converges() {
        let rounds = variable("RANDOM_ROUNDS").unwrap_or(or_long(4, 100));
        for round in 0..rounds {
            let seed = variable("RANDOM_SEED").unwrap_or_else(rand_seed);
            let seeds = [seed.to_le_bytes(); 4].concat();
            let mut runner = TestRunner::new_with_rng(
                Config::default(),
                TestRng::from_seed(RngAlgorithm::ChaCha, &seeds),
            );
            let steps = prop::collection::vec(step(), 10..or_long(30, 60));
            let steps = steps.new_tree(&mut runner).unwrap().current();
            println!("round {round}: RANDOM_SEED={seed}");
            let mut world = World::start().await;
            for step in &steps {
                world.happen(step).await;
            }
            let what = format!("round {round}, RANDOM_SEED={seed}: {steps:?}");
            world.ends_as_the_statuses_say(&what).await;
            let judged = world.judge();
            let judged = judged.unwrap_or_else(|error| panic!("{what}: {error}"));
            println!(
                "{} steps, {judged} addresses that left sets in use",
                steps.len()
            );
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A seed that differs between runs.
fn rand_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
