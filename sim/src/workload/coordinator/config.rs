//! What the session clients of a run do: plain values, drawn and checked by whoever reads them from a scenario.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! activities {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One kind of thing that session clients do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Activity { $($(#[$doc])* $name,)* }

        impl Activity {
            /// All of them.
            pub const ALL: &'static [Activity] = &[$(Activity::$name,)*];

            /// Its name in scenario files.
            pub const fn name(self) -> &'static str {
                match self { $(Activity::$name => $text,)* }
            }
        }
    };
}

activities! {
    /// A few nodes that everybody writes and reads, also conditionally; each value is unique.
    Registers = "registers",
    /// Nodes whose names get a number.
    Sequences = "sequences",
    /// Nodes that go with their session.
    Ephemerals = "ephemerals",
    /// Locks: an ephemeral sequential node each, and a watch on the one before.
    Locks = "locks",
    /// Watches of every kind, set by reads and by addWatch.
    Watches = "watches",
    /// Several operations that are done all or not at all.
    Multis = "multis",
    /// Nodes that come and go, containers and times to live included.
    Churn = "churn",
    /// Access lists.
    Access = "access",
    /// Sessions that end, fall silent until they expire, or move to another member.
    Moves = "moves",
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Who opens sessions and does what in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionsConfig {
    /// How many clients, each with one session at a time.
    pub clients: u32,
    /// What all clients together begin.
    pub operations_per_second: f64,
    /// The session timeout that they wish.
    pub timeout_ns: u64,
    /// How many registers, sequences, locks, … there are of each.
    pub nodes: u32,
    /// What they do. Each client draws for itself how often it does which.
    pub activities: Vec<Activity>,
}

impl Default for SessionsConfig {
    fn default() -> SessionsConfig {
        SessionsConfig {
            clients: 5,
            operations_per_second: 40.0,
            timeout_ns: 4_000_000_000,
            nodes: 3,
            activities: Activity::ALL.to_vec(),
        }
    }
}
