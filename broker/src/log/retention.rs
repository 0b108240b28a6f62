//! Which segments have had their time. Pure: owns the rule, never a file or a clock.
//!
//! Segments go from the oldest on, whole, closed ones only, and never one that holds a record at or above the high
//! watermark (I40, B30).

use super::config::LogConfig;
use crate::{observe::LogStartReason, types::Offset};
use std::time::Duration;

/// A segment, as far as the decision needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// One past its last offset.
    pub(super) end_offset: Offset,
    /// Its size.
    pub(super) size_bytes: u64,
    /// The largest time stamp of its records in ms, if any has one.
    pub(super) largest_timestamp_ms: Option<i64>,
    /// For how long it is known that nothing was appended to it, on the monotonic clock.
    pub(super) closed_for: Duration,
}

/// How many of the oldest segments are to be removed, and why. `closed` are all but the active one, in order;
/// `active_bytes` counts for the size. Segments below `log_start` go in any case.
pub(super) fn removable(
    closed: &[Candidate],
    active_bytes: u64,
    log_start: Offset,
    high_watermark: Offset,
    now_ms: i64,
    config: &LogConfig,
) -> (usize, Option<LogStartReason>) {
    let committed = closed.iter().take_while(|segment| segment.end_offset <= high_watermark).count();
    let below = closed[..committed].iter().take_while(|segment| segment.end_offset <= log_start).count();
    // Where the policy is to compact alone, nothing goes by age or size.
    let by_policy = if config.delete { &closed[..committed] } else { &[] };
    let expired = by_policy.iter().take_while(|segment| is_expired(segment, now_ms, config)).count();
    let oversized = oversized(by_policy, closed, active_bytes, config);
    if oversized > expired.max(below) {
        (oversized, Some(LogStartReason::RetentionSize))
    } else if expired > below {
        (expired, Some(LogStartReason::RetentionTime))
    } else {
        (below, None)
    }
}

/// Whether all of a segment's records are older than `retention.ms`.
pub(super) fn is_expired(segment: &Candidate, now_ms: i64, config: &LogConfig) -> bool {
    let Ok(retention_ms) = u64::try_from(config.retention_ms) else { return false };
    match segment.largest_timestamp_ms {
        Some(timestamp_ms) => now_ms.saturating_sub(timestamp_ms) > config.retention_ms,
        // No record has a time stamp: what is known is when the segment took its last one.
        None => segment.closed_for > Duration::from_millis(retention_ms),
    }
}

/// How many go so that the log is not larger than `retention.bytes` by a whole segment or more.
fn oversized(committed: &[Candidate], closed: &[Candidate], active_bytes: u64, config: &LogConfig) -> usize {
    let Ok(limit) = u64::try_from(config.retention_bytes) else { return 0 };
    let total = closed.iter().map(|segment| segment.size_bytes).sum::<u64>() + active_bytes;
    let mut excess = total.saturating_sub(limit);
    let mut count = 0;
    for segment in committed {
        match excess.checked_sub(segment.size_bytes) {
            Some(rest) => excess = rest,
            None => break,
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * 60 * 60 * 1000;

    fn segments(timestamps: &[Option<i64>]) -> Vec<Candidate> {
        let segment = |(index, timestamp): (usize, &Option<i64>)| Candidate {
            end_offset: Offset(10 * (index as i64 + 1)),
            size_bytes: 100,
            largest_timestamp_ms: *timestamp,
            closed_for: Duration::from_secs(60),
        };
        timestamps.iter().enumerate().map(segment).collect()
    }

    fn count(closed: &[Candidate], high_watermark: i64, config: &LogConfig) -> usize {
        removable(closed, 100, Offset(0), Offset(high_watermark), 100 * DAY_MS, config).0
    }

    #[test]
    fn time_removes_the_oldest_that_are_wholly_expired() {
        let config = LogConfig { retention_ms: 7 * DAY_MS, ..LogConfig::default() };
        let closed = segments(&[Some(90 * DAY_MS), Some(92 * DAY_MS), Some(93 * DAY_MS), Some(0)]);
        assert_eq!(count(&closed, 99, &config), 2, "exactly seven days is not older, and what follows waits");
        assert_eq!(count(&closed, 19, &config), 1, "I40: never above the high watermark");
        assert_eq!(count(&closed, 99, &LogConfig { retention_ms: -1, ..config.clone() }), 0);
        let unstamped = segments(&[None]);
        assert_eq!(count(&unstamped, 99, &config), 0);
        assert_eq!(count(&unstamped, 99, &LogConfig { retention_ms: 59_000, ..config }), 1);
    }

    #[test]
    fn size_keeps_at_least_what_is_allowed() {
        let closed = segments(&[Some(i64::MAX); 4]);
        let config = |retention_bytes| LogConfig { retention_bytes, ..LogConfig::default() };
        for (limit, expected) in [(-1, 0), (500, 0), (401, 0), (400, 1), (399, 1), (300, 2), (0, 4)] {
            assert_eq!(count(&closed, 99, &config(limit)), expected, "{limit}");
        }
        assert_eq!(count(&closed, 29, &config(0)), 2, "I40");
    }

    #[test]
    fn what_lies_below_the_log_start_goes_without_a_reason() {
        let closed = segments(&[Some(i64::MAX); 3]);
        let below = removable(&closed, 0, Offset(25), Offset(30), 0, &LogConfig::default());
        assert_eq!(below, (2, None));
        let size = LogConfig { retention_bytes: 0, ..LogConfig::default() };
        assert_eq!(
            removable(&closed, 0, Offset(25), Offset(30), 0, &size),
            (3, Some(LogStartReason::RetentionSize))
        );
    }
}
