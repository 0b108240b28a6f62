//! The elementary acts that faults consist of. Owns the words; the driver carries them out.

use super::{Direction, Shape};

/// One act on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The process dies at once.
    Kill,
    /// The machine loses power.
    PowerFail,
    /// The process is asked to stop.
    Stop,
    /// The process is started again, the machine powered up where it was off.
    Start,
    /// The process stands still.
    Pause,
    /// The process goes on.
    Resume,
    /// The disk changes its ways.
    Disk(DiskChange),
    /// Stored bits change, chosen by a number.
    FlipBits {
        /// How many.
        bits: u64,
        /// Decides which, together with what is on the disk.
        pick: u64,
    },
    /// The wall clock steps.
    JumpWallClock {
        /// How far, in nanoseconds.
        by_ns: i64,
    },
    /// The clocks run at another rate, beyond what they have from the start.
    Drift {
        /// How much too fast.
        parts_per_million: i64,
    },
    /// The machine is cut off.
    Cut(Direction),
    /// The machine is reachable again.
    Mend,
    /// The machines are split in two, or joined again.
    Split {
        /// How.
        shape: Shape,
        /// Decides who is on which side.
        pick: u64,
        /// Which way is blocked, seen from the side of the machine.
        direction: Direction,
        /// Whether it begins.
        cut: bool,
    },
    /// Segments to and from the machine have their connections reset.
    ResetConnections {
        /// How many; 0 ends it.
        parts_per_million: u32,
    },
}

/// One way of a disk, to set or to take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskChange {
    /// So many bytes are free from now on; `None` gives back the disk's own size.
    FreeBytes(Option<u64>),
    /// Each operation takes so much longer.
    AddedLatency {
        /// In nanoseconds; 0 ends it.
        latency_ns: u64,
        /// Whether reads are slow as well.
        reads: bool,
    },
    /// So many reads fail; 0 ends it.
    ReadErrors(u32),
    /// So many writes fail or fall short; 0 ends it.
    WriteErrors(u32),
    /// So many syncs fail; 0 ends it.
    SyncErrors(u32),
    /// So many syncs put a page into the wrong place; 0 ends it.
    MisdirectedWrites(u32),
}

/// A fault's acts, each with its time after the strike in nanoseconds.
pub type Steps = Vec<(u64, Step)>;
