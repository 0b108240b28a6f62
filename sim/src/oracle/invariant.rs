//! The invariants by name: what each says and when it is looked at. Owns the list, and what a violation is; checks
//! nothing.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

macro_rules! invariants {
    ($($name:ident, $moments:literal, $sentence:literal;)*) => {
        /// One thing that must always hold.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Invariant {
            $(#[doc = $sentence] $name,)*
        }

        impl Invariant {
            /// All of them, in order.
            pub const ALL: &'static [Invariant] = &[$(Invariant::$name,)*];

            /// Its number, as in the catalogue.
            pub const fn name(self) -> &'static str {
                match self { $(Invariant::$name => stringify!($name),)* }
            }

            /// What it says, in one sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Invariant::$name => $sentence,)* }
            }

            /// Whether it is about coordinators, rather than about brokers or whole runs.
            pub fn is_of_coordinators(self) -> bool {
                self.name().starts_with('K')
                    || matches!(
                        self,
                        Invariant::I53
                            | Invariant::I61
                            | Invariant::I62
                            | Invariant::I63
                            | Invariant::I75
                            | Invariant::I76
                            | Invariant::I79
                    )
            }

            /// When it is looked at: at every step, at a restart, when all is quiet again, at the end.
            pub const fn moments(self) -> &'static str {
                match self { $(Invariant::$name => $moments,)* }
            }
        }
    };
}

invariants! {
    I01, "step, restart, end", "Every acknowledged record is, from then on, in the log with the same offset, epoch and bytes, unless log start has passed it.";
    I02, "step, restart", "I01 also holds across power failures for what was flushed, and for everything acknowledged where each message is flushed.";
    I06, "step", "For one offset of a partition at most one record is ever shown to consumers or confirmed to producers.";
    I09, "step", "Start <= high watermark <= log end, recovery point <= log end, and the high watermark never goes back within a leader epoch.";
    I12, "step", "Within its epoch a leader neither truncates nor rewrites its log.";
    I13, "restart, end", "The epoch cache rises in epoch and offset, and says of each record's offset the epoch that the record has.";
    I15, "step, restart, end", "Offsets in a log are contiguous: no gaps, no overlaps.";
    I17, "step", "The answers to a client that asks for the latest offset never decrease.";
    I18, "step", "No fetch gives a consumer a record at or above the high watermark, or one that was not committed.";
    I19, "step", "After a failed write or sync the log takes no append until it is opened again, and no later sync counts for the failed one.";
    I20, "restart", "After an unclean stop everything past the proven recovery point is checked and cut at the first bad batch, and nowhere else.";
    I21, "restart", "Each checkpoint file on disk is complete, the old one or the new one.";
    I23, "step, restart", "Leader epochs rise with every leader change and start of a broker, and never go back.";
    I25, "step", "Successive reads of one consumer give every visible record once, in the order of offsets.";
    I26, "step", "For each producer id and epoch the sequence numbers in the log are consecutive, and each appears once.";
    I27, "restart", "The producer table equals the one that replaying the log gives.";
    I28, "step", "Records confirmed to one idempotent producer are in the log in the order in which they were sent.";
    I40, "step", "Log start never passes the high watermark, by retention or by request.";
    I48, "quiet", "After healing, a new produce request succeeds within the bound.";
    I50, "quiet", "After healing, every consumer reaches the end of its partitions within the bound.";
    I53, "quiet", "In the last part of the quiet phase no coordinator stands for election.";
    I61, "step", "Writes to the coordinator happen in an order that fits real time, and what one session sees never goes back.";
    I62, "step", "An ephemeral node exists exactly while its session lives, and no session is found silent while a member that reaches the leader hears it.";
    I63, "step", "A client learns of a change by its watch before any reply can show it a state after that change, also over a reconnect.";
    I64, "end", "The same seed gives the same run.";
    I65a, "step, end", "A record whose sending definitely failed is never seen.";
    I67, "step", "Every record has the epoch of the leader that appended it, and epochs never decrease along a log.";
    I69, "end", "Every confirmed record is found by a full scan at the end.";
    I70, "step", "The success told for a repeated batch names the offset of the first.";
    I71, "step", "A producer epoch that a later one replaced has no append accepted.";
    I75, "step", "The coordinators' logs match, each leader has all that was applied, each term has one leader, and all members apply the same.";
    I76, "restart, step", "No committed transaction of the coordinator is lost, whatever the members' machines suffer.";
    I79, "quiet", "After healing, a majority of the coordinators follows a leader within the bound.";
    I81, "on failure", "The recorded decisions alone replay to the same run.";
    K01, "step", "A coordinator applies an entry only once a majority holds it durably.";
    K02, "step", "No coordinator promises a vote or an entry before it is durable, and none votes twice in a term.";
    K03, "step, restart", "A coordinator's term, vote, log and snapshot never go back, over restarts either.";
    K04, "step, restart", "Coordinators that have applied the same transactions hold the same, whether from the log or from a snapshot.";
    K05, "step", "Each command comes to what ZooKeeper's rules give it after those before it, and its client is told exactly that.";
    K06, "step", "Each read shows the tree as it was at the transaction that its reply names.";
    K07, "step", "A write is in the log only if a client asked for it, and only as often.";
    K08, "step", "After a sync a client sees all that anybody had been told to be done before it.";
    K09, "end", "One order explains what all clients were told of a node by writes and synchronised reads, whatever transactions the replies name.";
    K10, "step", "The replies on a coordinator's connection leave in the order of its requests.";
    K11, "step", "A watch fires only for a change that it waits for, and one that fires once does so once.";
    K12, "step", "A session of which nobody hears is ended within its timeout, an election and a tick, where a majority can work.";
    K13, "step", "Who comes back with a session gets it, or the word that it has gone, and both only where it is true.";
    K14, "quiet", "After healing, a write to the coordinator succeeds within the bound.";
    K15, "quiet", "After healing, each client of the coordinator has a connection, or knows that its session has gone, within the bound.";
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no invariant of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no invariant is called {0:?}")]
pub struct UnknownInvariant(pub String);

impl FromStr for Invariant {
    type Err = UnknownInvariant;

    fn from_str(text: &str) -> Result<Invariant, UnknownInvariant> {
        let found = Invariant::ALL.iter().find(|invariant| invariant.name() == text);
        found.copied().ok_or_else(|| UnknownInvariant(text.to_owned()))
    }
}

/// An invariant did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// When it was seen, in simulated nanoseconds.
    pub at_ns: u64,
    /// On which node, where it is about one.
    pub node: Option<u32>,
    /// About which partition, where it is about one.
    pub partition: Option<String>,
    /// What was seen, for people.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:.6} s", self.invariant, self.at_ns as f64 / 1e9)?;
        if let Some(node) = self.node {
            write!(f, " on n{node}")?;
        }
        if let Some(partition) = &self.partition {
            write!(f, ", {partition}")?;
        }
        write!(f, ": {} ({})", self.text, self.invariant.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for invariant in Invariant::ALL {
            assert_eq!(invariant.to_string().parse(), Ok(*invariant));
        }
        assert_eq!("I00".parse::<Invariant>(), Err(UnknownInvariant("I00".into())));
    }

    #[test]
    fn the_list_is_in_order() {
        assert!(Invariant::ALL.is_sorted());
        assert_eq!(Invariant::ALL[Invariant::I15 as usize], Invariant::I15);
    }
}
