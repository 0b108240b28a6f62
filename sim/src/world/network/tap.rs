//! Who talks to whom, and a hook for those who listen in. Owns names for the ends of connections; changes nothing.

use crate::world::NodeId;
use std::{io::IoSlice, net::SocketAddr};

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The machine.
    pub node: NodeId,
    /// The process of that machine, counted from 1.
    pub incarnation: u64,
    /// The socket's address.
    pub address: SocketAddr,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its number in the run.
    pub id: u64,
    /// Who has connected.
    pub client: End,
    /// Who has accepted.
    pub server: End,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the one who has connected.
    ToServer,
    /// To the one who has connected.
    ToClient,
}

/// Listens in on connections that are opened after it has been set. Called under locks of the network: it must not
/// call into the world, and should be quick.
pub trait NetworkTap: Send + Sync {
    /// A SYN has reached a listener.
    fn opened(&self, _connection: &ConnectionInfo) {}
    /// A process has handed bytes to its kernel.
    fn sent(
        &self,
        _connection: &ConnectionInfo,
        _direction: Direction,
        _bytes: &[IoSlice<'_>],
        _count: usize,
    ) {
    }
    /// Bytes have reached the other machine's kernel, as two slices that follow each other.
    fn delivered(&self, _connection: &ConnectionInfo, _direction: Direction, _bytes: [&[u8]; 2]) {}
    /// A FIN has arrived.
    fn finished(&self, _connection: &ConnectionInfo, _direction: Direction) {}
    /// A reset has arrived, or the sender has given up.
    fn reset(&self, _connection: &ConnectionInfo, _direction: Direction) {}
}
