//! Your own application in the simulator: a test starts a cluster, runs your code on machines of its own, and lets each seed
//! break other things.
//!
//! ```text
//!   #[sillon_sim::test(seeds = 100)]          check.rs: seeds, threads, what a failure prints
//!   async fn orders_are_shipped(sim: Simulation) -> Result<(), String> {
//!       let servers = sim.bootstrap_servers();
//!       let worker = sim.spawn("worker", move |runtime| work(runtime, servers.clone()));
//!       sim.peace().await;                    driver/application.rs: faults end, all is healed
//!       …
//!   }
//! ```
//! Your code takes a [`Runtime`] for time, randomness, tasks, files and network, as `sillon-client` does; then a seed gives the
//! same run each time. Brokers and coordinators are the real ones, and every invariant of theirs is checked as well.
//!
//! Owns what a test can do to the world; decides nothing about a run's order.

mod check;
mod machine;

pub use crate::driver::Verdict;
pub use check::{Options, check};
pub use machine::Machine;

use crate::{
    decisions::Stream,
    driver::Stage,
    faults::Machines,
    world::{World, boot},
};
use sillon_runtime::Runtime;
use std::{
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

/// Where the brokers listen.
const BROKER_PORT: u16 = 9092;
/// The stream of a test's own decisions, beyond those of any clients.
const TEST: Stream = Stream::Workload(u16::MAX as u32);

/// What a test's function may give.
pub trait IntoVerdict {
    /// The same as a verdict.
    fn into_verdict(self) -> Verdict;
}

impl IntoVerdict for () {
    fn into_verdict(self) -> Verdict {
        Ok(())
    }
}

impl<E: fmt::Display> IntoVerdict for Result<(), E> {
    fn into_verdict(self) -> Verdict {
        self.map_err(|error| error.to_string())
    }
}

/// A test's hold on its simulation. Cheap to clone.
#[derive(Clone)]
pub struct Simulation {
    world: Weak<World>,
    stage: Arc<Stage>,
    runtime: Runtime,
    machines: Machines,
    seed: u64,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl Simulation {
    pub(crate) fn new(
        world: &Arc<World>,
        stage: &Arc<Stage>,
        runtime: Runtime,
        machines: Machines,
        seed: u64,
    ) -> Simulation {
        Simulation { world: Arc::downgrade(world), stage: stage.clone(), runtime, machines, seed }
    }

    fn world(&self) -> Arc<World> {
        self.world.upgrade().expect("the world outlives the programs in it")
    }

    /// The seed of this run.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The runtime of the machine that the test itself runs on. No fault strikes it.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// The brokers' addresses, `host:port`.
    pub fn bootstrap_servers(&self) -> Vec<String> {
        (0..self.machines.brokers).map(|node| format!("{}:{BROKER_PORT}", self.machines.name(node))).collect()
    }

    /// Waits, in simulated time.
    pub async fn sleep(&self, duration: Duration) {
        self.runtime.sleep(duration).await;
    }

    /// A number of this seed's from `low` to `high`, both of them possible. `what` names it.
    pub fn draw(&self, what: &'static str, low: u64, high: u64) -> u64 {
        self.world().decisions().draw(TEST, what, low, high)
    }

    /// Runs a program on a new machine. What it writes to its files stays there over crashes; [`Machine`] has what can happen
    /// to it.
    pub fn spawn<F, Fut>(&self, name: &str, program: F) -> Machine
    where
        F: Fn(Runtime) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let world = self.world();
        let node = world.add_node(name, boot(program));
        self.stage.add_machine(node);
        world.start(node);
        Machine::new(node, self.clone())
    }

    /// Whether faults are over.
    pub fn is_peace(&self) -> bool {
        self.stage.is_peace()
    }

    /// Has faults end now, everything mended and every server started, and returns when that is so. What clients ask for has to
    /// succeed soon after. Faults end by themselves at the end of the scenario's safety phase.
    pub async fn peace(&self) {
        self.stage.peace().await;
    }
}
