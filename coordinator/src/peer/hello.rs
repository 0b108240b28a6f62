//! How two members greet each other: who is who, and whether they belong together.
//!
//! Owns the decision who is let in. Members of another ensemble, strangers, and two processes that claim one id are
//! turned away, with a reason that both sides log.

use super::PeerMessage;
use crate::{
    config::members::MemberAddress,
    consensus::{ConsensusMessage, SnapshotMark},
    types::{EnsembleId, MemberId},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of what members say to each other.
pub(super) const WIRE_VERSION: u32 = 1;

/// Who a member is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// By its `myid`.
    pub member: MemberId,
    /// A random number of its data directory.
    pub directory: u64,
    /// Its ensemble's name, once it has one.
    pub ensemble: Option<EnsembleId>,
}

/// What is said on a connection between members.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// First, by who dials.
    Hello { version: u32, from: Identity, to: MemberId, purpose: Purpose },
    /// The answer: who it is, and that it listens.
    Welcome { identity: Identity },
    /// The answer: why not.
    Refused { reason: String },
    /// Is anybody there?
    Ping,
    /// Yes.
    Pong,
    /// A message.
    Message(PeerMessage),
    /// A part of a snapshot.
    Chunk(#[serde(with = "crate::frame::payload")] Bytes),
    /// A snapshot's end, and the message that belongs to it.
    End { message: ConsensusMessage },
    /// The snapshot is durable.
    Taken,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Purpose {
    /// Messages.
    Link,
    /// A snapshot.
    Snapshot { mark: SnapshotMark },
}

/// Why a member is turned away; `None` where it is let in. `connected` is the data directory behind each member's
/// links at the moment.
pub(super) fn objection(
    own: &Identity,
    members: &BTreeMap<MemberId, MemberAddress>,
    connected: Option<u64>,
    version: u32,
    from: &Identity,
    to: MemberId,
) -> Option<String> {
    let MemberId(own_id) = own.member;
    let MemberId(id) = from.member;
    if version != WIRE_VERSION {
        return Some(format!(
            "it speaks version {version} of the peer protocol, member {own_id} speaks {WIRE_VERSION}"
        ));
    }
    if to != own.member {
        return Some(format!(
            "this is member {own_id}, not {to}: the server.N lines differ, or a myid is wrong"
        ));
    }
    if from.member == own.member {
        return Some(format!("two processes have the id {id}: one of their myid files is wrong"));
    }
    if !members.contains_key(&from.member) {
        return Some(format!("no server.{id} line names it in the configuration of member {own_id}"));
    }
    if let (Some(ours), Some(theirs)) = (own.ensemble, from.ensemble)
        && ours != theirs
    {
        return Some(format!(
            "the data of member {id} belongs to ensemble {theirs}, that of member {own_id} to {ours}: \
             one of them was started on another ensemble's dataDir"
        ));
    }
    if connected.is_some_and(|directory| directory != from.directory) {
        return Some(format!(
            "another process with the id {id} and another dataDir is connected: one of their myid files is wrong"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(member: u64, directory: u64, ensemble: Option<u128>) -> Identity {
        Identity { member: MemberId(member), directory, ensemble: ensemble.map(EnsembleId) }
    }

    fn ask(connected: Option<u64>, version: u32, from: &Identity, to: u64) -> Option<String> {
        let own = identity(1, 11, Some(7));
        let address = || MemberAddress { host: "localhost".to_owned(), peer_port: 2888, election_port: None };
        let members = (1..=3).map(|member| (MemberId(member), address())).collect();
        objection(&own, &members, connected, version, from, MemberId(to))
    }

    #[test]
    fn members_of_the_ensemble_are_let_in() {
        assert_eq!(ask(None, WIRE_VERSION, &identity(2, 22, None), 1), None);
        assert_eq!(ask(Some(22), WIRE_VERSION, &identity(2, 22, Some(7)), 1), None);
    }

    #[test]
    fn others_are_told_why_not() {
        let refused =
            |connected, version, from: &Identity, to| ask(connected, version, from, to).expect("refused");
        assert!(refused(None, 9, &identity(2, 22, None), 1).contains("version 9"));
        assert!(refused(None, WIRE_VERSION, &identity(2, 22, None), 3).contains("not 3"));
        assert!(refused(None, WIRE_VERSION, &identity(1, 22, None), 1).contains("two processes"));
        assert!(refused(None, WIRE_VERSION, &identity(4, 22, None), 1).contains("server.4"));
        assert!(refused(None, WIRE_VERSION, &identity(2, 22, Some(8)), 1).contains("ensemble"));
        assert!(refused(Some(23), WIRE_VERSION, &identity(2, 22, Some(7)), 1).contains("another process"));
    }
}
