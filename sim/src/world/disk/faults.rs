//! What a disk does wrong, and how often. Owns the numbers; injects nothing.

use serde::{Deserialize, Serialize};

/// How a disk behaves. Rates are in parts per million of the operations concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskFaults {
    /// Reads that fail with EIO.
    pub read_error_ppm: u32,
    /// Writes that fail with EIO, having written nothing.
    pub write_error_ppm: u32,
    /// Writes that take less than they were given.
    pub short_write_ppm: u32,
    /// Syncs that fail with EIO. What they should have written stays readable, counts as clean, and is lost with the
    /// next power failure: a later sync succeeds without writing it.
    pub sync_error_ppm: u32,
    /// Syncs of a directory that fail with EIO. The changes stay unsynced.
    pub sync_dir_error_ppm: u32,
    /// Reads that find one bit changed in what is stored (of a page that is not dirty), for good.
    pub bit_rot_ppm: u32,
    /// Syncs of which one page lands in the wrong place of the same file. Shows after a power failure, when nothing
    /// is cached any more.
    pub misdirected_write_ppm: u32,
    /// How many bytes fit; nothing for no limit.
    pub capacity_bytes: Option<u64>,
    /// How long a read takes, from and to. 0 and 0: it is ready at once.
    pub read_latency_us: (u64, u64),
    /// How long a write takes, from and to. 0 and 0: it is ready at once.
    pub write_latency_us: (u64, u64),
    /// How long a sync takes, of a file or a directory, from and to.
    pub sync_latency_us: (u64, u64),
    /// Writes and syncs that take very long.
    pub stall_ppm: u32,
    /// How long they take in addition, from and to.
    pub stall_ms: (u64, u64),
}

impl Default for DiskFaults {
    /// A disk without faults: reads and writes go to the cache at once, a sync takes 50 µs to 2 ms.
    fn default() -> DiskFaults {
        DiskFaults {
            read_error_ppm: 0,
            write_error_ppm: 0,
            short_write_ppm: 0,
            sync_error_ppm: 0,
            sync_dir_error_ppm: 0,
            bit_rot_ppm: 0,
            misdirected_write_ppm: 0,
            capacity_bytes: None,
            read_latency_us: (0, 0),
            write_latency_us: (0, 0),
            sync_latency_us: (50, 2_000),
            stall_ppm: 0,
            stall_ms: (100, 5_000),
        }
    }
}
