//! Why a broker cannot be a member of its cluster. Owns the texts.

use crate::{controller::layout::LayoutError, types::BrokerId};
use sillon_coordinator::client::{ClientError, ConnectStringError};

/// A membership that cannot begin.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MembershipError {
    /// The connect string makes no sense.
    #[error("zookeeper.connect: {0}")]
    Connect(#[from] ConnectStringError),
    /// The coordinator was not reached in time.
    #[error("no coordinator at {connect} within {waited_ms} ms")]
    Unreachable {
        /// `zookeeper.connect`.
        connect: String,
        /// How long it was tried, in milliseconds.
        waited_ms: u64,
    },
    /// The coordinator has never heard of a cluster, although this broker has logs of one.
    #[error(
        "the coordinator at {connect} knows no cluster although there are logs in log.dirs; \
         restore the coordinator's data from a copy, or move the logs away"
    )]
    NoCluster {
        /// `zookeeper.connect`.
        connect: String,
    },
    /// The coordinator refused.
    #[error("the coordinator refuses {what}: {error}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it said.
        error: ClientError,
    },
    /// Something at the coordinator is not what it should be.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Another process has this broker's id.
    #[error("broker id {broker} is already registered by a live broker at {endpoint}")]
    LiveDuplicate {
        /// The id.
        broker: BrokerId,
        /// Where somebody answered.
        endpoint: String,
    },
    /// Another session holds this broker's id, and did not end in time.
    #[error(
        "broker id {broker} is still registered by another session (0x{owner:x}, at {endpoint}) after {waited_ms} ms"
    )]
    StillRegistered {
        /// The id.
        broker: BrokerId,
        /// The session.
        owner: i64,
        /// Where that broker said that it is.
        endpoint: String,
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },
}

impl MembershipError {
    pub(super) fn refused(what: impl Into<String>) -> impl FnOnce(ClientError) -> MembershipError {
        let what = what.into();
        move |error| MembershipError::Refused { what, error }
    }

    /// Whether the session, or the connection, is to blame: another attempt may work.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            MembershipError::Unreachable { .. } => true,
            MembershipError::Refused { error, .. } => error.code().is_none(),
            _ => false,
        }
    }
}
