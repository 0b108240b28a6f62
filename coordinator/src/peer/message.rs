//! What members say to each other. Owns the messages; links carry them, the member understands them.

use crate::{command::Command, consensus::ConsensusMessage, types::SessionId};
use serde::{Deserialize, Serialize};

/// A message from one member to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// Of the consensus.
    Consensus(ConsensusMessage),
    /// Commands of the sender's clients, for the leader to propose, in order.
    Forward(Vec<Command>),
    /// Commands that were forwarded and not proposed, by their sequence.
    Refused(Vec<u64>),
    /// Sessions that the sender has heard, and how many milliseconds ago.
    Heard(Vec<(SessionId, u32)>),
}
