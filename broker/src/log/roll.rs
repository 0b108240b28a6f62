//! When the active segment is closed. Pure; never touches a segment.
//!
//! By time, a segment is closed when its first batch was appended `segment.ms` ago on the monotonic clock. Kafka
//! compares record time stamps there, which lets a client with mixed time stamps make every append close a segment
//! (B33); the number of segments stays bounded by bytes and time that really passed (I44).

use super::{config::LogConfig, offset_index, segment::SEGMENT_LIMIT_BYTES, time_index};
use std::time::Duration;

/// The active segment, as far as the decision needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveSegment {
    /// Its size.
    pub(super) size_bytes: u64,
    /// For how long it has been written to.
    pub(super) age: Duration,
    /// The number of entries in its offset index and in its time index.
    pub(super) index_entries: (u64, u64),
    /// The last offset of the batch to come, minus the segment's base offset.
    pub(super) relative_offset: i64,
}

/// Whether a batch of `batch_bytes` goes to a new segment.
pub(super) fn is_due(active: &ActiveSegment, batch_bytes: usize, config: &LogConfig) -> bool {
    if active.size_bytes == 0 {
        // A new one would have the same name.
        return false;
    }
    let segment_bytes = u64::from(config.segment_bytes).min(SEGMENT_LIMIT_BYTES);
    let index_bytes = u64::from(config.segment_index_bytes);
    let (entries, time_entries) = active.index_entries;
    active.size_bytes + batch_bytes as u64 > segment_bytes
        || u64::try_from(longest_open_ms(config)).is_ok_and(|limit| active.age >= Duration::from_millis(limit))
        || entries >= index_bytes / offset_index::ENTRY_BYTES as u64
        // One place is for the entry that a closed segment ends with.
        || time_entries + 1 >= index_bytes / time_index::ENTRY_BYTES as u64
        || active.relative_offset > i64::from(i32::MAX)
}

/// A record has to wait for compaction until its segment is closed: it must not wait too long for that.
fn longest_open_ms(config: &LogConfig) -> i64 {
    match config.max_compaction_lag_ms {
        lag_ms @ 1.. if config.compact => config.segment_ms.min(lag_ms),
        _ => config.segment_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_closes_a_segment_that_holds_something() {
        let config = LogConfig {
            segment_bytes: 1000,
            segment_ms: 60_000,
            segment_index_bytes: 120,
            ..LogConfig::default()
        };
        let active = ActiveSegment {
            size_bytes: 900,
            age: Duration::from_secs(59),
            index_entries: (14, 8),
            relative_offset: 5,
        };
        assert!(!is_due(&active, 100, &config));
        assert!(is_due(&active, 101, &config), "bytes");
        for due in [
            ActiveSegment { age: Duration::from_secs(60), ..active },
            ActiveSegment { index_entries: (15, 0), ..active },
            ActiveSegment { index_entries: (0, 9), ..active },
            ActiveSegment { relative_offset: 1 << 31, ..active },
        ] {
            assert!(is_due(&due, 1, &config), "{due:?}");
            assert!(!is_due(&ActiveSegment { size_bytes: 0, ..due }, 1, &config));
        }
    }
}
