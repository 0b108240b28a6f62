//! The simulated world behind `sillon_runtime::Runtime`. Owns the translation; each value serves one process of one
//! machine, and does nothing more once that process has died.

use super::{
    World, dead_process,
    disk::ProcessFileSystem,
    network::Process,
    node::Node,
    task::{AbortProcessTask, NoTask, ProcessTask},
};
use crate::decisions::Stream;
use madsim::runtime::NodeHandle;
use sillon_runtime::{AbortTask, Backend, BoxFuture, BoxStream, FileSystem, Listener, Monotonic, UnixMillis};
use std::{io, net::SocketAddr, sync::Arc};

/// One process's view of the world.
pub(super) struct SimulatedBackend {
    world: Arc<World>,
    node: Arc<Node>,
    incarnation: u64,
    spawner: NodeHandle,
    process: Process,
    file_system: ProcessFileSystem,
}

impl SimulatedBackend {
    pub(super) fn new(
        world: Arc<World>,
        node: Arc<Node>,
        incarnation: u64,
        spawner: NodeHandle,
    ) -> SimulatedBackend {
        let process = world.network().process(node.id, incarnation);
        let file_system = ProcessFileSystem::new(node.disk.clone(), incarnation);
        SimulatedBackend { world, node, incarnation, spawner, process, file_system }
    }

    fn is_alive(&self) -> bool {
        self.node.live_incarnation() == self.incarnation
    }
}

impl Backend for SimulatedBackend {
    fn now(&self) -> Monotonic {
        self.node.clock.monotonic()
    }

    fn unix_time(&self) -> UnixMillis {
        self.node.clock.unix_time()
    }

    fn sleep_until(&self, deadline: Monotonic) -> BoxFuture<'static, ()> {
        Box::pin(self.node.clock.sleep_until(deadline))
    }

    fn spawn(&self, name: &'static str, future: BoxFuture<'static, ()>) -> Box<dyn AbortTask> {
        if !self.is_alive() {
            return Box::new(NoTask);
        }
        let (world, node) = (self.world.clone(), self.node.clone());
        let task = ProcessTask {
            name,
            world,
            node,
            incarnation: self.incarnation,
            future: Some(future),
            slowness: None,
        };
        Box::new(AbortProcessTask(self.spawner.spawn(task).abort_handle()))
    }

    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        Box::pin(async move { work() })
    }

    fn fill_random(&self, buffer: &mut [u8]) {
        self.world.decisions().fill(Stream::NodeRandom(self.node.id.0), "random bytes", buffer);
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        let listener = if self.is_alive() { self.process.listen(address) } else { Err(dead_process()) };
        Box::pin(async { listener })
    }

    fn connect<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(self.process.connect(host, port))
    }

    fn fs(&self) -> &dyn FileSystem {
        &self.file_system
    }

    fn boot_id(&self) -> Option<u128> {
        Some(u128::from(self.node.id.0) << 64 | u128::from(self.node.boots()))
    }
}
