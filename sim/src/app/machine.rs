//! A machine of a test's own: what can happen to it. Owns nothing of what runs there.

use super::Simulation;
use crate::world::{NodeId, Status, World};
use std::{fmt, sync::Arc, time::Duration};

/// A machine on which a test runs a program. Cheap to clone; the program goes on when this is dropped.
#[derive(Clone)]
pub struct Machine {
    node: NodeId,
    simulation: Simulation,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Machine({})", self.node)
    }
}

impl Machine {
    pub(super) fn new(node: NodeId, simulation: Simulation) -> Machine {
        Machine { node, simulation }
    }

    fn world(&self) -> Arc<World> {
        self.simulation.world()
    }

    /// Whether the program runs, or stands still.
    pub fn is_alive(&self) -> bool {
        self.world().status(self.node).is_alive()
    }

    /// Waits until the program has ended by itself, or was killed.
    pub async fn ended(&self) {
        while self.is_alive() {
            self.simulation.sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills the program, as `kill -9` does. Nothing happens where it does not run.
    pub fn kill(&self) {
        self.world().kill(self.node);
    }

    /// Takes the machine's power: files lose what was not synced.
    pub fn power_off(&self) {
        self.world().power_fail(self.node);
    }

    /// Starts the program again. Nothing happens where it runs.
    pub fn start(&self) {
        if !self.is_alive() {
            self.world().start(self.node);
        }
    }

    /// Stops the program where it is, as SIGSTOP does.
    pub fn pause(&self) {
        self.world().pause(self.node);
    }

    /// Lets a program that stands still go on.
    pub fn resume(&self) {
        self.world().resume(self.node);
    }

    /// Until there is peace: kills the program again and again, on average after `alive`, and starts it again, on average after
    /// `dead`. A program that has ended by itself is left alone.
    pub async fn crash_until_peace(&self, alive: Duration, dead: Duration) {
        let simulation = self.simulation.clone();
        let share = |what, mean: Duration| mean.mul_f64(simulation.draw(what, 100, 1_900) as f64 / 1e3);
        loop {
            simulation.sleep(share("alive", alive)).await;
            if self.simulation.is_peace() || self.world().status(self.node) == Status::Exited {
                return;
            }
            self.kill();
            simulation.sleep(share("dead", dead)).await;
            self.start();
        }
    }
}
