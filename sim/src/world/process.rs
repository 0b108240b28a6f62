//! The life of machines and processes: start, kill, power failure, pause. Owns the order in which network, disk and
//! tasks learn of a death; the state of one machine is in `node`.

use super::{
    FaultKind, NodeId, World, dead_process,
    disk::PowerLoss,
    lock,
    network::Ending,
    node::{Node, Status},
    run::Panic,
    runtime_backend::SimulatedBackend,
    task::ProcessTask,
};
use crate::decisions::Stream;
use madsim::runtime::Handle;
use sillon_runtime::{BoxFuture, Runtime};
use std::{io, sync::Arc};

/// What a process does, from its start. When it completes, the process has exited.
pub type Boot = Arc<dyn Fn(Runtime) -> BoxFuture<'static, ()> + Send + Sync>;

/// Makes a [`Boot`] from an async closure.
pub fn boot<F, Fut>(main: F) -> Boot
where
    F: Fn(Runtime) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |runtime| Box::pin(main(runtime)))
}

/// A panic in a simulated process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPanic {
    /// Where.
    pub node: NodeId,
    /// When, in nanoseconds of simulated time.
    pub time_ns: u64,
    /// Which process of that machine, counted from 1.
    pub incarnation: u64,
    /// The name under which the task was spawned.
    pub task: &'static str,
    /// What it said.
    pub panic: Panic,
}

/// A machine and what runs on it.
pub(super) struct Slot {
    pub(super) node: Arc<Node>,
    pub(super) boot: Option<Boot>,
    pub(super) status: Status,
    pub(super) incarnations: u64,
    pub(super) madsim: madsim::task::NodeId,
    pub(super) runtime: Option<Runtime>,
}

impl World {
    /// Starts a process on a machine that has none, powering the machine up where it was off.
    ///
    /// # Panics
    /// Where a process runs there already, or the world has been shut down.
    pub fn start(self: &Arc<Self>, id: NodeId) {
        let (node, boot, status, incarnation, madsim) = {
            let mut slots = lock(&self.slots);
            let slot = &mut slots[id.index()];
            assert!(!slot.status.is_alive(), "{} runs already", slot.node.name);
            slot.incarnations += 1;
            let boot = slot.boot.clone().expect("the world has not been shut down");
            let before = std::mem::replace(&mut slot.status, Status::Running);
            (slot.node.clone(), boot, before, slot.incarnations, slot.madsim)
        };
        if matches!(status, Status::PoweredOff | Status::New) {
            let up_for_ns =
                self.decisions().draw(Stream::Clock, "monotonic clock at power-up", 0, 100_000_000_000);
            node.clock.power_up(up_for_ns);
            node.count_boot();
        }
        node.set_live_incarnation(incarnation);
        node.disk.process_started(incarnation);
        self.network().power_up(id);
        self.event(id, "start", &[("incarnation", incarnation)]);
        let handle = Handle::current();
        // Always both, in this order: a node that has ended by itself still holds what madsim gave it.
        handle.kill(madsim);
        handle.restart(madsim);
        let spawner = handle.get_node(madsim).expect("machines are never taken away");
        let backend = SimulatedBackend::new(self.clone(), node.clone(), incarnation, spawner.clone());
        let runtime = Runtime::new(Arc::new(backend));
        lock(&self.slots)[id.index()].runtime = Some(runtime.clone());
        let (world, of) = (self.clone(), node.clone());
        let main = boot(runtime);
        let future: BoxFuture<'static, ()> = Box::pin(async move {
            main.await;
            world.end(&of, incarnation, Status::Exited);
        });
        let world = self.clone();
        spawner.spawn(ProcessTask {
            name: "main",
            world,
            node,
            incarnation,
            future: Some(future),
            slowness: None,
        });
    }

    /// Kills a process (SIGKILL): its memory and locks are gone, its sockets are reset, its page cache survives.
    /// Nothing happens where there is none.
    pub fn kill(&self, id: NodeId) {
        let (node, alive) = self.node_and_life(id);
        if let Some(incarnation) = alive {
            self.fault(id, FaultKind::Kill, &[("incarnation", incarnation)]);
            self.end(&node, incarnation, Status::Killed);
        }
    }

    /// Takes power from a machine: what was not synced is lost, torn or kept as chance has it; peers hear nothing.
    /// Nothing happens where it is off already.
    pub fn power_fail(&self, id: NodeId) -> PowerLoss {
        let (node, alive) = self.node_and_life(id);
        if self.status(id) == Status::PoweredOff {
            return PowerLoss::default();
        }
        self.fault(id, FaultKind::PowerFailure, &[("incarnation", alive.unwrap_or(0))]);
        self.end(&node, alive.unwrap_or(0), Status::PoweredOff);
        node.disk.power_loss()
    }

    /// Kills the process of a machine, where there is one, and starts another.
    pub fn restart(self: &Arc<Self>, id: NodeId) {
        self.kill(id);
        self.start(id);
    }

    /// Stops the tasks of a process where they are (SIGSTOP). Its machine goes on: segments arrive, clocks run.
    /// Nothing happens where no process runs.
    pub fn pause(&self, id: NodeId) {
        if self.change_status(id, Status::Running, Status::Paused) {
            self.fault(id, FaultKind::Pause, &[]);
            Handle::current().pause(self.madsim_of(id));
        }
    }

    /// Lets a paused process go on (SIGCONT).
    pub fn resume(&self, id: NodeId) {
        if self.change_status(id, Status::Paused, Status::Running) {
            self.event(id, "resume", &[]);
            Handle::current().resume(self.madsim_of(id));
        }
    }

    /// What runs on a machine.
    pub fn status(&self, id: NodeId) -> Status {
        lock(&self.slots)[id.index()].status
    }

    /// How many processes have been started on a machine so far, the one that runs included.
    pub fn incarnations(&self, id: NodeId) -> u64 {
        lock(&self.slots)[id.index()].incarnations
    }

    /// The runtime of the process that is alive on a machine: to start tasks there from outside.
    ///
    /// # Errors
    /// Where no process is alive.
    pub fn runtime(&self, id: NodeId) -> io::Result<Runtime> {
        let slots = lock(&self.slots);
        let slot = &slots[id.index()];
        slot.runtime.clone().filter(|_| slot.status.is_alive()).ok_or_else(dead_process)
    }

    /// Has the next start of a machine run another program: an upgrade, or another configuration.
    pub fn set_boot(&self, id: NodeId, boot: Boot) {
        let old = lock(&self.slots)[id.index()].boot.replace(boot);
        drop(old);
    }

    /// Every panic of a simulated process so far.
    pub fn panics(&self) -> Vec<ProcessPanic> {
        lock(&self.panics).clone()
    }

    pub(super) fn process_panicked(
        &self,
        node: &Arc<Node>,
        incarnation: u64,
        task: &'static str,
        panic: Panic,
    ) {
        let id = node.id;
        self.core.faults.add(FaultKind::Panic, 1);
        self.core.trace.add(id, FaultKind::Panic.event_kind(), &[("incarnation", incarnation)], || {
            format!("task {task} {panic}")
        });
        let time_ns = super::now_ns();
        lock(&self.panics).push(ProcessPanic { node: id, time_ns, incarnation, task, panic });
        if node.live_incarnation() == incarnation {
            self.end(node, incarnation, Status::Panicked);
        }
    }

    /// Ends what runs on a machine: first nobody of it can act any more, then the network and the disk learn of it,
    /// and last its tasks are dropped.
    fn end(&self, node: &Arc<Node>, incarnation: u64, status: Status) {
        let was = node.live_incarnation();
        assert!(was == incarnation || status != Status::Exited, "only a live process exits");
        node.set_live_incarnation(0);
        let (before, madsim, runtime) = {
            let mut slots = lock(&self.slots);
            let slot = &mut slots[node.id.index()];
            (std::mem::replace(&mut slot.status, status), slot.madsim, slot.runtime.take())
        };
        drop(runtime);
        self.event(node.id, "end", &[("incarnation", incarnation), ("status", status as u64)]);
        self.network().process_ended(
            node.id,
            was,
            match status {
                Status::PoweredOff => Ending::PowerFailure,
                Status::Exited => Ending::Exit,
                _ => Ending::Kill,
            },
        );
        node.disk.process_ended();
        let handle = Handle::current();
        if before == Status::Paused {
            // Else madsim would drop the paused tasks under its own lock.
            handle.resume(madsim);
        }
        handle.kill(madsim);
    }

    fn node_and_life(&self, id: NodeId) -> (Arc<Node>, Option<u64>) {
        let slots = lock(&self.slots);
        let node = slots[id.index()].node.clone();
        let live = node.live_incarnation();
        (node, (live > 0).then_some(live))
    }

    fn change_status(&self, id: NodeId, from: Status, to: Status) -> bool {
        let mut slots = lock(&self.slots);
        let status = &mut slots[id.index()].status;
        let changes = *status == from;
        if changes {
            *status = to;
        }
        changes
    }

    fn madsim_of(&self, id: NodeId) -> madsim::task::NodeId {
        lock(&self.slots)[id.index()].madsim
    }

    /// Ends everything and lets go of all that was given to the world, so that a run leaves nothing behind.
    /// [`super::run_seeded`] calls it at the end of each run.
    pub fn shut_down(&self) {
        let count = lock(&self.slots).len();
        for index in 0..count {
            let node = lock(&self.slots)[index].node.clone();
            let live = node.live_incarnation();
            let status = if live > 0 { Status::Killed } else { self.status(node.id) };
            if status != Status::PoweredOff {
                self.end(&node, live, status);
            }
        }
        let boots: Vec<_> = lock(&self.slots).iter_mut().map(|slot| slot.boot.take()).collect();
        drop(boots);
        self.trace().set_sink(None);
        self.network().set_tap(None);
    }
}
