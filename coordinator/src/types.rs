//! Numbers that mean something, so that none is taken for another. Owns the types; decides nothing.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A member of the ensemble, by its `myid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A term of leadership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A transaction of the tree: the index of its entry in the log, known once it is committed and applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Zxid(pub i64);

impl Zxid {
    /// The transaction of a log index.
    pub fn of_index(index: u64) -> Zxid {
        Zxid(i64::try_from(index).expect("a log has fewer than 2^63 entries"))
    }

    /// The log index of the transaction.
    pub fn index(self) -> u64 {
        u64::try_from(self.0).expect("transactions are counted from 1")
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

/// A client's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:x}", self.0)
    }
}

/// An ensemble, told from every other one by a number drawn once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EnsembleId(pub u128);

impl fmt::Display for EnsembleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// One client connection, named so that no two in the life of the ensemble have the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnectionKey {
    /// The member that serves it.
    pub member: MemberId,
    /// A random number of that member's process.
    pub incarnation: u64,
    /// Its number in that process.
    pub number: u64,
}
