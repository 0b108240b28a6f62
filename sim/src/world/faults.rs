//! Which faults a world knows, and how often each has struck. Owns the counts; injects nothing.

use super::lock;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, sync::Mutex};

macro_rules! fault_kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum FaultKind { $($(#[$doc])* $name,)* }

        impl FaultKind {
            /// All of them, in order.
            pub const ALL: &'static [FaultKind] = &[$(FaultKind::$name,)*];

            /// The event kind under which the trace shows it.
            pub const fn event_kind(self) -> &'static str {
                match self { $(FaultKind::$name => concat!("fault/", $text),)* }
            }

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(FaultKind::$name => $text,)* }
            }
        }
    };
}

fault_kinds! {
    /// A process died at once.
    Kill = "kill",
    /// A machine lost power.
    PowerFailure = "power-failure",
    /// A process stood still for a while.
    Pause = "pause",
    /// A processor became slow.
    SlowProcessor = "slow-processor",
    /// A task panicked, and its process with it.
    Panic = "panic",
    /// A clock changed its rate.
    ClockDrift = "clock-drift",
    /// A wall clock jumped.
    WallJump = "wall-jump",
    /// One direction between two machines was cut.
    Partition = "partition",
    /// A segment was lost and sent again.
    SegmentLoss = "segment-loss",
    /// A connection was reset for no reason.
    Reset = "reset",
    /// Segments in flight died with the machine that sent them.
    InFlightLoss = "in-flight-loss",
    /// A read failed.
    ReadError = "read-error",
    /// A write failed.
    WriteError = "write-error",
    /// A write took less than it was given.
    ShortWrite = "short-write",
    /// A sync failed, and what it should have written is lost with the next power failure.
    SyncError = "sync-error",
    /// A disk had no room.
    DiskFull = "disk-full",
    /// A disk operation took very long.
    DiskStall = "disk-stall",
    /// A stored bit changed.
    BitRot = "bit-rot",
    /// A page was written to the wrong place.
    MisdirectedWrite = "misdirected-write",
    /// A power failure lost a page that had not been synced.
    LostPage = "lost-page",
    /// A power failure left a page half old, half new.
    TornPage = "torn-page",
    /// A power failure undid a change of a directory that had not been synced.
    LostDirectoryChange = "lost-directory-change",
    /// A disk was replaced by an empty one.
    Wipe = "wipe",
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each kind of fault has struck.
pub(super) struct FaultCounts(Mutex<Vec<u64>>);

impl FaultCounts {
    pub(super) fn new() -> FaultCounts {
        FaultCounts(Mutex::new(vec![0; FaultKind::ALL.len()]))
    }

    pub(super) fn add(&self, kind: FaultKind, times: u64) {
        lock(&self.0)[kind as usize] += times;
    }

    pub(super) fn get(&self, kind: FaultKind) -> u64 {
        lock(&self.0)[kind as usize]
    }

    pub(super) fn all(&self) -> BTreeMap<FaultKind, u64> {
        let counts = lock(&self.0);
        FaultKind::ALL.iter().map(|kind| (*kind, counts[*kind as usize])).filter(|(_, count)| *count > 0).collect()
    }
}
