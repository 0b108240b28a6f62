//! Which faults a world knows, and how often each has struck. Owns the counts, and
//! what of the disks' failures nobody has asked for yet; injects nothing.

use super::{NodeId, lock};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Mutex,
};

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

impl FaultKind {
    /// Whether it is a disk's failure that explains what a process does about the file.
    fn concerns_a_file(self) -> bool {
        use FaultKind::{BitRot, DiskFull, MisdirectedWrite, ReadError, ShortWrite, SyncError, WriteError};
        matches!(self, BitRot | DiskFull | MisdirectedWrite | ReadError | ShortWrite | SyncError | WriteError)
    }
}

/// A failure of a disk as it struck, for an oracle that has to know what it explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// The machine.
    pub node: NodeId,
    /// What.
    pub kind: FaultKind,
    /// The numbers of its event: `inode` is always there (0 for a directory).
    pub fields: Vec<(&'static str, u64)>,
}

impl FileFault {
    /// One of its numbers.
    pub fn field(&self, name: &str) -> Option<u64> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// How many failures of disks wait to be taken at most; older ones are forgotten where nobody takes them.
const MAX_FILE_FAULTS: usize = 10_000;

/// How often each kind of fault has struck, and the disks' latest failures.
pub(super) struct FaultCounts {
    counts: Mutex<Vec<u64>>,
    of_files: Mutex<VecDeque<FileFault>>,
}

impl FaultCounts {
    pub(super) fn new() -> FaultCounts {
        FaultCounts { counts: Mutex::new(vec![0; FaultKind::ALL.len()]), of_files: Mutex::default() }
    }

    pub(super) fn add(&self, kind: FaultKind, times: u64) {
        lock(&self.counts)[kind as usize] += times;
    }

    pub(super) fn note(&self, node: NodeId, kind: FaultKind, fields: &[(&'static str, u64)]) {
        self.add(kind, 1);
        if kind.concerns_a_file() {
            let mut of_files = lock(&self.of_files);
            if of_files.len() == MAX_FILE_FAULTS {
                of_files.pop_front();
            }
            of_files.push_back(FileFault { node, kind, fields: fields.to_vec() });
        }
    }

    pub(super) fn take_of_files(&self) -> VecDeque<FileFault> {
        std::mem::take(&mut *lock(&self.of_files))
    }

    pub(super) fn get(&self, kind: FaultKind) -> u64 {
        lock(&self.counts)[kind as usize]
    }

    pub(super) fn all(&self) -> BTreeMap<FaultKind, u64> {
        let counts = lock(&self.counts);
        FaultKind::ALL
            .iter()
            .map(|kind| (*kind, counts[*kind as usize]))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}
