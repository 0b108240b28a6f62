//! What the members of an ensemble promise, and what the oracle has to be told of their world. Owns the types.

/// What holds between the members right now. The driver knows: it makes the faults.
pub trait Conditions: Send + Sync {
    /// Whether everything that this member's process sends to the leader's arrives soon, and the reverse. True for a
    /// leader's own node; false while one of the two is down, paused or slow, while the link between them is cut,
    /// slow or lossy in either direction, and while nobody leads.
    fn connected_to_leader(&self, node: u32) -> bool;

    /// Whether a majority of the members runs, at full speed and with whole links between them, so that a leader
    /// among them can commit.
    fn majority_is_sound(&self) -> bool;
}

/// What the members of a run promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorContract {
    /// How many members the ensemble has.
    pub members: usize,
    /// Whether nodes with a time to live are offered (`zookeeper.extendedTypesEnabled`).
    pub ttl_nodes: bool,
    /// The longest time that a sound majority needs to have a leader, an election and its repetition included.
    pub election_ns: u64,
    /// How finely a leader looks at the time of its sessions.
    pub tick_ns: u64,
    /// By how much clocks run too fast or too slow, at most, in millionths.
    pub clock_drift_ppm: u64,
    /// How long it may take until the leader knows that a member has heard a session, where they are connected.
    pub touch_within_ns: u64,
    /// How long a connection between members takes to come back once nothing is in its way.
    pub settle_ns: u64,
    /// After healing, there must be a leader that a majority follows within this time.
    pub leader_within_ns: u64,
    /// After healing, some write must be confirmed within this time.
    pub write_within_ns: u64,
    /// After healing, each client that has lost its connection must have another, or know that its session has gone,
    /// within this time.
    pub reconnect_within_ns: u64,
    /// After healing, no election begins any more once this time has passed.
    pub quiet_after_ns: u64,
}

impl Default for CoordinatorContract {
    fn default() -> CoordinatorContract {
        CoordinatorContract {
            members: 3,
            ttl_nodes: true,
            election_ns: 5_000_000_000,
            tick_ns: 2_000_000_000,
            clock_drift_ppm: 1_000,
            touch_within_ns: 2_000_000_000,
            settle_ns: 5_000_000_000,
            leader_within_ns: 5_000_000_000,
            write_within_ns: 10_000_000_000,
            reconnect_within_ns: 30_000_000_000,
            quiet_after_ns: 20_000_000_000,
        }
    }
}

impl CoordinatorContract {
    /// The least true time in which some clock may count so many milliseconds.
    pub(super) fn at_least_ns(&self, timeout_ms: i32) -> u64 {
        let ns = u64::from(timeout_ms.unsigned_abs()) * 1_000_000;
        ns - ns / 1_000_000 * self.clock_drift_ppm
    }

    /// The most true time in which some clock may count so many milliseconds.
    pub(super) fn at_most_ns(&self, timeout_ms: i32) -> u64 {
        let ns = u64::from(timeout_ms.unsigned_abs()) * 1_000_000;
        // A clock that is slow by d needs 1/(1-d), which is below 1+2d for every drift that makes sense.
        ns + ns / 1_000_000 * self.clock_drift_ppm * 2
    }

    /// How many members are a majority.
    pub(super) fn majority(&self) -> usize {
        self.members / 2 + 1
    }
}
