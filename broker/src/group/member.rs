//! A member of a group. Owns what is known of it, and which protocols it likes best.

use super::{MemberId, Token};
use bytes::Bytes;
use sillon_protocol::messages::JoinGroupRequestProtocol;
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// A member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: MemberId,
    /// What the user named it (KIP-345).
    pub(super) instance: Option<Arc<str>>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) session_timeout: Duration,
    pub(super) rebalance_timeout: Duration,
    /// What it can do, the best liked first.
    pub(super) protocols: Vec<JoinGroupRequestProtocol>,
    pub(super) assignment: Bytes,
    /// Its JoinGroup that waits.
    pub(super) joining: Option<Token>,
    /// Its SyncGroup that waits.
    pub(super) syncing: Option<Token>,
    /// It has not been answered yet: it does not know its id, and cannot send heartbeats.
    pub(super) is_new: bool,
    /// The newest connection over which it has committed.
    pub(super) commits_over: u64,
    /// When its session is over.
    pub(super) deadline: Monotonic,
    /// When that is looked at.
    pub(super) timer: Option<Monotonic>,
}

impl Member {
    /// What it said for a protocol; nothing where it does not know it.
    pub(super) fn metadata(&self, protocol: Option<&str>) -> Bytes {
        let known = self.protocols.iter().find(|known| Some(known.name.as_str()) == protocol);
        known.map(|known| known.metadata.clone()).unwrap_or_default()
    }

    /// The names of its protocols, each once.
    pub(super) fn protocol_names(&self) -> BTreeSet<&str> {
        self.protocols.iter().map(|protocol| protocol.name.as_str()).collect()
    }

    /// The candidate that it likes best.
    pub(super) fn vote(&self, candidates: &BTreeMap<&str, usize>) -> Option<&str> {
        let names = self.protocols.iter().map(|protocol| protocol.name.as_str());
        names.into_iter().find(|name| candidates.contains_key(name))
    }
}
