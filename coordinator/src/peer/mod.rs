//! The shell towards the other members: links on which messages travel, and connections that carry snapshots.
//!
//! ```text
//!   member ──► outbox of a peer ──► outgoing link ────► (network) ────► incoming link ──► events ──► member
//! ```
//! Each member dials every other and only sends on the connection that it dialled; what it hears comes on the ones that
//! it accepted. Owns sockets and greetings. Never looks into a message.

mod framed;
mod hello;
mod incoming;
mod message;
mod outgoing;
mod snapshots;

pub(crate) use hello::Identity;
pub use message::PeerMessage;
pub(crate) use snapshots::send_snapshot;

use crate::{
    config::members::MemberAddress,
    member::Event,
    storage::Snapshots,
    types::{EnsembleId, MemberId},
};

use sillon_runtime::{JoinHandle, Listener, Runtime};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;

/// What all links of a member need.
pub(crate) struct Links {
    pub runtime: Runtime,
    pub identity: Mutex<Identity>,
    pub members: BTreeMap<MemberId, MemberAddress>,
    pub events: mpsc::Sender<Event>,
    pub snapshots: Snapshots,
    /// How long a peer may be silent before its link counts as broken.
    pub silence: Duration,
}

impl Links {
    pub fn identity(&self) -> Identity {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The ensemble has a name now.
    pub fn name_ensemble(&self, ensemble: EnsembleId) {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner).ensemble = Some(ensemble);
    }
}

/// The links to all other members. They end with this.
pub(crate) struct Peers {
    outboxes: BTreeMap<MemberId, mpsc::UnboundedSender<PeerMessage>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Peers {
    /// Dials every other member and listens for them.
    pub fn start(links: &Arc<Links>, listener: Option<Box<dyn Listener>>) -> Peers {
        let mut peers = Peers { outboxes: BTreeMap::new(), tasks: Vec::new() };
        let own = links.identity().member;
        for (member, address) in links.members.iter().filter(|(member, _)| **member != own) {
            let (outbox, inbox) = mpsc::unbounded_channel();
            peers.outboxes.insert(*member, outbox);
            let dialling = outgoing::run(links.clone(), *member, address.clone(), inbox);
            peers.tasks.push(links.runtime.spawn("peer link", dialling));
        }
        if let Some(listener) = listener {
            peers.tasks.push(links.runtime.spawn("accept peers", incoming::accept(links.clone(), listener)));
        }
        peers
    }

    /// Queues a message. It is lost where there is no link: the consensus reckons with that.
    pub fn send(&self, to: MemberId, message: PeerMessage) {
        if let Some(outbox) = self.outboxes.get(&to) {
            // The task ends only with this.
            let _ = outbox.send(message);
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
