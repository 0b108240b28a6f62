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

            /// Whether it says something only where there are consumer groups.
            pub fn is_of_groups(self) -> bool {
                const OF_GROUPS: &[Invariant] = &[Invariant::I37, Invariant::I38, Invariant::I49, Invariant::I54, Invariant::I55, Invariant::I56, Invariant::I57, Invariant::I58, Invariant::I59, Invariant::I60, Invariant::I77, Invariant::I78, Invariant::I78b];
                OF_GROUPS.contains(&self)
            }

            /// Whether it says something only where there are several brokers.
            pub fn is_of_clusters(self) -> bool {
                const OF_CLUSTERS: &[Invariant] = &[Invariant::I03, Invariant::I04, Invariant::I05, Invariant::I05w, Invariant::I07, Invariant::I08, Invariant::I09b, Invariant::I10, Invariant::I11, Invariant::I14, Invariant::I16, Invariant::I22, Invariant::I24, Invariant::I33, Invariant::I34, Invariant::I35, Invariant::I36, Invariant::I36b, Invariant::I45, Invariant::I46, Invariant::I47, Invariant::I48a, Invariant::I52, Invariant::I66, Invariant::I80];
                OF_CLUSTERS.contains(&self)
            }

            /// When it is looked at: at every step, at a restart, when all is quiet again, at the end.
            pub const fn moments(self) -> &'static str {
                match self { $(Invariant::$name => $moments,)* }
            }
        }
    };
}

invariants! {
    I01, "step, restart, end", "Every acknowledged record is, from then on, in the log of every leader with the same offset, epoch and bytes, unless log start has passed it.";
    I02, "step, restart", "I01 also holds across power failures for what was flushed, and while no more replicas lose what they had not flushed than may.";
    I03, "step", "Nothing is acknowledged to acks=all, and the high watermark stands still, while fewer than min.insync.replicas are in sync.";
    I04, "step", "Who is truly in sync is registered as it was when it caught up, and is not about to stop.";
    I05, "step", "Everything below a leader's high watermark is the same on every replica that is truly in sync.";
    I05w, "step", "Everything below a leader's high watermark is the same on every replica that the leader counts as in sync.";
    I06, "step", "For one offset of a partition at most one record is ever shown to consumers or confirmed to producers.";
    I07, "step", "A leader's high watermark is at most what each replica, in sync or proposed to be, reported in that epoch.";
    I08, "step", "No replica cuts its log below what is committed.";
    I09, "step", "Start <= high watermark <= log end, recovery point <= log end, and the high watermark never goes back within a leader epoch.";
    I09b, "step", "A replica joins those in sync only once it has reached the high watermark and the start of the epoch.";
    I10, "step, restart", "Where two replicas hold the same offset of the same epoch, their logs are equal up to it.";
    I11, "on election", "A new leader's log holds everything that is committed.";
    I12, "step", "Within its epoch a leader neither truncates nor rewrites its log.";
    I13, "restart, end", "The epoch cache rises in epoch and offset, and says of each record's offset the epoch that the record has.";
    I14, "on truncation", "A follower cuts where its log and its leader's part, and not below.";
    I15, "step, restart, end", "Offsets in a log are contiguous: no gaps, no overlaps.";
    I16, "step", "Data of one topic is never served, copied or deleted for another one of the same name.";
    I17, "step", "The answers to a client that asks for the latest offset never decrease.";
    I18, "step", "No fetch gives a consumer a record at or above the high watermark, or one that was not committed.";
    I19, "step", "After a failed write or sync the log takes no append until it is opened again, and no later sync counts for the failed one.";
    I20, "restart", "After an unclean stop everything past the proven recovery point is checked and cut at the first bad batch, and nowhere else.";
    I21, "restart", "Each checkpoint file on disk is complete, the old one or the new one.";
    I22, "step", "Each leader epoch of a partition has one leader, the one that the coordinator names.";
    I23, "step, restart", "Leader epochs rise with every leader change and start of a broker, and never go back.";
    I24, "step", "A consumer is told that what it has read was lost before it goes on with other records.";
    I25, "step", "Successive reads of one consumer give every visible record once, in the order of offsets.";
    I26, "step", "For each producer id and epoch the sequence numbers in the log are consecutive, and each appears once.";
    I27, "restart", "The producer table equals the one that replaying the log gives.";
    I28, "step", "Records confirmed to one idempotent producer are in the log in the order in which they were sent.";
    I33, "step", "Each write of a partition's true state is conditional on the version that was read.";
    I34, "step", "A broker never goes back to older metadata, states or leader epochs than it has applied.";
    I35, "step", "Once a controller epoch is recorded, no write of an earlier controller succeeds.";
    I36, "step", "Each controller epoch has one controller, and the epochs rise.";
    I36b, "quiet", "After healing, the broker that the coordinator names is controller, and works, within the bound.";
    I37, "step", "A committed offset is not removed before its retention, counted from when its group became empty.";
    I38, "step, restart", "A confirmed offset commit is what every later coordinator finds, and what members are told.";
    I40, "step", "Log start never passes the high watermark, by retention or by request.";
    I41, "after cleaning", "Compaction touches only what is committed and durable, and keeps offsets and their order.";
    I45, "quiet", "After healing, all brokers know the true metadata within the bound.";
    I46, "quiet", "After healing, every running broker is registered within the bound.";
    I47, "quiet", "After healing, every live replica is in sync within the bound.";
    I48, "quiet", "After healing, a new produce request succeeds within the bound.";
    I48a, "quiet", "After healing, every partition that can have a leader has one within the bound.";
    I49, "quiet", "After healing, every group comes to rest within the bound, and keeps its generation.";
    I50, "quiet", "After healing, every consumer reaches the end of its partitions within the bound.";
    I52, "step", "What is committed shows at every replica in sync within a round of replication, while no fault is on.";
    I53, "quiet", "In the last part of the quiet phase nobody stands for election, and no leader, in-sync replica or session changes.";
    I54, "step", "In every generation of a group each partition belongs to one member at most.";
    I55, "step, quiet", "A member is given only what it is subscribed to, and in a group at rest every partition of its topics is given to somebody.";
    I56, "step", "Offsets are committed by members of the current generation, or change nothing.";
    I57, "step, restart", "The generations of a group rise, over failovers of its coordinator too.";
    I58, "step", "With cooperative rebalancing a partition is given to a member only once nobody else has it.";
    I59, "step", "A name that a user gave is that of one member at most.";
    I60, "step", "With sticky assignment nothing moves where neither members nor subscriptions have changed.";
    I61, "step", "Writes to the coordinator happen in an order that fits real time, and what one session sees never goes back.";
    I62, "step", "An ephemeral node exists exactly while its session lives, and no session is found silent while a member that reaches the leader hears it.";
    I63, "step", "A client learns of a change by its watch before any reply can show it a state after that change, also over a reconnect.";
    I64, "end", "The same seed gives the same run.";
    I65a, "step, end", "A record whose sending definitely failed is never seen.";
    I66, "step", "A replica leaves those in sync only if it was not caught up for the lag limit.";
    I67, "step", "Every record has the epoch of the leader that appended it, and epochs never decrease along a log.";
    I68, "step", "Whoever reads an offset reads the same record there.";
    I69, "end", "Every confirmed record is found by a full scan at the end.";
    I70, "step", "The success told for a repeated batch names the offset of the first.";
    I71, "step", "A producer epoch that a later one replaced has no append accepted.";
    I75, "step", "The coordinators' logs match, each leader has all that was applied, each term has one leader, and all members apply the same.";
    I76, "restart, step", "No committed transaction of the coordinator is lost, whatever the members' machines suffer.";
    I77, "step", "The commits for a partition come from one member at a time.";
    I78, "end", "With commits after processing, every record is processed at least once.";
    I78b, "step", "With confirmed commits before processing, no record is processed twice.";
    I79, "quiet", "After healing, a majority of the coordinators follows a leader within the bound.";
    I80, "quiet", "The bounds hold too where only a core of the machines is healed and the rest stays as it is.";
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
