//! A process's access to the network: listening and connecting. Owns the handshake.

use super::{
    Bound, ConnectionInfo, Direction, End, Network,
    listener::{Backlog, SimulatedListener},
    pipe::Pipe,
    stream::SimulatedStream,
};
use crate::world::{
    NodeId, dead_process, lock,
    node::{address_of, node_of},
    timer::{now_ns, sleep_until_ns},
};
use sillon_runtime::{BoxStream, Listener};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

const FIRST_EPHEMERAL_PORT: u16 = 32_768;

/// A process on the network.
#[derive(Clone)]
pub(in crate::world) struct Process {
    pub(super) network: Arc<Network>,
    pub(super) node: NodeId,
    pub(super) incarnation: u64,
}

/// What a SYN has met.
enum Answer {
    Accepted(Box<SimulatedStream>),
    Refused,
    Nothing,
}

impl Process {
    pub(super) fn is_alive(&self) -> bool {
        self.network.live_incarnation(self.node) == self.incarnation
    }

    pub(in crate::world) fn listen(&self, address: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let own = address.ip().is_unspecified() || self.resolve_ip(address.ip()) == Some(self.node);
        if !own {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let backlog = Arc::new(Backlog::default());
        let port = {
            let mut state = lock(&self.network.state);
            let host = &mut state.hosts[self.node.index()];
            let port = if address.port() == 0 { host.free_port()? } else { address.port() };
            if host.listeners.contains_key(&port) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let bound = Bound { backlog: backlog.clone(), is_local: address.ip().is_loopback() };
            host.listeners.insert(port, bound);
            port
        };
        self.network.core.event(self.node, "listen", &[("port", u64::from(port))]);
        let address = SocketAddr::new(address.ip(), port);
        Ok(Box::new(SimulatedListener { process: self.clone(), address, backlog }))
    }

    pub(super) fn close_listener(&self, port: u16, backlog: &Arc<Backlog>) {
        if self.is_alive() {
            let mut state = lock(&self.network.state);
            let listeners = &mut state.hosts[self.node.index()].listeners;
            if listeners.get(&port).is_some_and(|known| Arc::ptr_eq(&known.backlog, backlog)) {
                listeners.remove(&port);
            }
        }
    }

    pub(in crate::world) async fn connect(&self, host: &str, port: u16) -> io::Result<BoxStream> {
        if !self.is_alive() {
            return Err(dead_process());
        }
        let to = self.resolve(host)?;
        let from_port = lock(&self.network.state).hosts[self.node.index()].free_port()?;
        let from = SocketAddr::new(address_of(self.node), from_port);
        let to_address = SocketAddr::new(address_of(to), port);
        let config = &self.network.config;
        let mut wait_ns = config.syn_timeout_ms * 1_000_000;
        for _ in 0..=config.syn_retries {
            let next_try_ns = now_ns() + wait_ns;
            sleep_until_ns(self.network.transit(self.node, to, 0).arrives_ns).await;
            match self.syn(from, to, to_address) {
                Answer::Nothing => {}
                Answer::Refused if self.network.is_open(to, self.node) => {
                    sleep_until_ns(self.network.transit(to, self.node, 0).arrives_ns).await;
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                Answer::Refused => {}
                Answer::Accepted(stream) => return self.established(stream, to).await,
            }
            sleep_until_ns(next_try_ns.max(now_ns())).await;
            wait_ns *= 2;
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The SYN has come to the other machine, or to the place where it is lost.
    fn syn(&self, from: SocketAddr, to: NodeId, to_address: SocketAddr) -> Answer {
        if !self.network.is_open(self.node, to) {
            return Answer::Nothing;
        }
        let (backlog, client_live, server_live, id) = {
            let mut state = lock(&self.network.state);
            let id = state.next_connection;
            let server = &state.hosts[to.index()];
            let bound = server.listeners.get(&to_address.port());
            let Some(bound) = bound.filter(|bound| !bound.is_local || to == self.node) else {
                return Answer::Refused;
            };
            let backlog = bound.backlog.clone();
            let server_live = server.live.clone();
            if backlog.len() >= self.network.config.backlog {
                return Answer::Nothing;
            }
            state.next_connection += 1;
            (backlog, state.hosts[self.node.index()].live.clone(), server_live, id)
        };
        let info = ConnectionInfo {
            id,
            client: End { node: self.node, incarnation: self.incarnation, address: from },
            server: End { node: to, incarnation: self.network.live_incarnation(to), address: to_address },
        };
        self.network.core.event(
            to,
            "connect",
            &[("connection", id), ("from", u64::from(self.node.0)), ("port", u64::from(to_address.port()))],
        );
        let (to_server, to_client) = Pipe::pair(&self.network, info, &client_live, &server_live);
        if let Some(tap) = &to_server.tap {
            tap.opened(&to_server.info);
        }
        debug_assert_eq!(to_server.direction, Direction::ToServer);
        let stream = SimulatedStream::new(to_client.clone(), to_server.clone());
        backlog.push(SimulatedStream::new(to_server, to_client));
        Answer::Accepted(Box::new(stream))
    }

    /// The answer to the SYN is on its way back; it is sent again while it does not get through.
    async fn established(&self, stream: Box<SimulatedStream>, to: NodeId) -> io::Result<BoxStream> {
        let config = &self.network.config;
        let mut wait_ns = config.syn_timeout_ms * 1_000_000;
        for _ in 0..=config.syn_retries {
            let next_try_ns = now_ns() + wait_ns;
            sleep_until_ns(self.network.transit(to, self.node, 0).arrives_ns).await;
            if self.network.is_open(to, self.node) {
                return Ok(stream);
            }
            sleep_until_ns(next_try_ns.max(now_ns())).await;
            wait_ns *= 2;
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn resolve(&self, host: &str) -> io::Result<NodeId> {
        if host == "localhost" {
            return Ok(self.node);
        }
        let known = match host.parse::<IpAddr>() {
            Ok(address) => self.resolve_ip(address),
            Err(_) => lock(&self.network.state).names.get(host).copied(),
        };
        let hosts = lock(&self.network.state).hosts.len();
        known
            .filter(|node| node.index() < hosts)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no machine is called {host}")))
    }

    fn resolve_ip(&self, address: IpAddr) -> Option<NodeId> {
        if address.is_loopback() { Some(self.node) } else { node_of(address) }
    }
}

impl super::Host {
    fn free_port(&mut self) -> io::Result<u16> {
        for _ in FIRST_EPHEMERAL_PORT..=u16::MAX {
            self.next_port =
                self.next_port.checked_add(1).unwrap_or(FIRST_EPHEMERAL_PORT).max(FIRST_EPHEMERAL_PORT);
            if !self.listeners.contains_key(&self.next_port) {
                return Ok(self.next_port);
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }
}
