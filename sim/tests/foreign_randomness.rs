//! Random values that libraries draw by themselves repeat in a simulation, and differ outside of it.
#![allow(clippy::disallowed_methods)] // Real threads are what simulated ones are compared with.

use sillon_sim::world::run_seeded;

fn in_simulation(draw: fn() -> u64, scheduler_seed: u64) -> u64 {
    run_seeded(scheduler_seed, move || async move { draw() }).expect("no panic")
}

fn outside(draw: fn() -> u64) -> u64 {
    std::thread::spawn(draw).join().expect("no panic")
}

fn repeats_in_simulation_only(draw: fn() -> u64) {
    assert_eq!(in_simulation(draw, 3), in_simulation(draw, 3));
    assert_ne!(in_simulation(draw, 3), in_simulation(draw, 4));
    assert_ne!(outside(draw), outside(draw));
}

/// rand 0.8 draws through getrandom 0.2, for which `getrandom02/` stands in.
#[test]
fn rand_0_8() {
    repeats_in_simulation_only(rand08::random::<u64>);
}

#[test]
fn the_order_of_hash_maps() {
    repeats_in_simulation_only(|| {
        use std::hash::BuildHasher;
        std::collections::hash_map::RandomState::new().hash_one(1)
    });
}
