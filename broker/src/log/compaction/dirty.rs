//! What of a log compaction may touch, and whether it is worth it. Pure: owns the rules, never a file or a clock.
//!
//! ```text
//!   log start ───────── first dirty offset ──────────── cleanable end ─── active segment ── log end
//!      clean: each key once       dirty: to be looked at       not yet: too young, not committed, still written to
//! ```
//! Nothing at or above the high watermark or the first record of an open transaction is looked at: a record that may
//! still be taken back must not take an older one with it (B30). Whole segments only, and never the active one.

use crate::{log::config::LogConfig, types::Offset};
use std::time::Duration;

/// A closed segment, as far as the decision needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// One past its last offset.
    pub(super) end_offset: Offset,
    /// Its size.
    pub(super) size_bytes: u64,
    /// The largest time stamp of its records in ms, if any has one.
    pub(super) largest_timestamp_ms: Option<i64>,
    /// The time stamp of its first batch in ms, if it has one and it is needed.
    pub(super) first_timestamp_ms: Option<i64>,
    /// For how long it is known that nothing was appended to it, on the monotonic clock.
    pub(super) closed_for: Duration,
}

/// What bounds the cleaning, at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Log start offset.
    pub(super) log_start: Offset,
    /// Log end offset.
    pub(super) log_end: Offset,
    /// Everything below is committed, and part of no open transaction.
    pub(super) stable: Offset,
    /// The wall clock.
    pub(super) now_ms: i64,
}

/// What a log has to offer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Survey {
    /// Everything below was cleaned before.
    pub first_dirty: Offset,
    /// Nothing from here on may be touched.
    pub cleanable_end: Offset,
    /// Bytes below the first dirty offset.
    pub clean_bytes: u64,
    /// Bytes between the two.
    pub cleanable_bytes: u64,
    /// `max.compaction.lag.ms` has passed for a record between the two.
    pub overdue: bool,
}

impl Survey {
    /// Which part of what can be cleaned is dirty, from 0 to 1.
    pub fn dirty_ratio(&self) -> f64 {
        let total = self.clean_bytes + self.cleanable_bytes;
        if total == 0 { 0.0 } else { self.cleanable_bytes as f64 / total as f64 }
    }

    /// Whether the log is to be cleaned: dirty enough, or overdue.
    pub fn is_due(&self, min_cleanable_dirty_ratio: f64) -> bool {
        self.cleanable_bytes > 0 && (self.overdue || self.dirty_ratio() > min_cleanable_dirty_ratio)
    }
}

/// Looks at a log. `closed` are its segments but the active one, in order; `noted` is where the last cleaning ended.
pub(super) fn survey(
    closed: &[Candidate],
    noted: Option<Offset>,
    bounds: Bounds,
    config: &LogConfig,
) -> Survey {
    // A note that does not fit the log is of another one: everything is dirty then.
    let within = |noted: &Offset| (bounds.log_start..=bounds.log_end).contains(noted);
    let first_dirty = noted.filter(within).unwrap_or(bounds.log_start);
    let may_be_cleaned =
        |segment: &&Candidate| segment.end_offset <= bounds.stable && !is_too_young(segment, bounds, config);
    let cleanable = closed.iter().take_while(|segment| segment.end_offset <= first_dirty).count();
    let (clean, rest) = closed.split_at(cleanable);
    let dirty = &rest[..rest.iter().take_while(may_be_cleaned).count()];
    let cleanable_end = dirty.last().map_or(first_dirty, |last| last.end_offset);
    let bytes = |segments: &[Candidate]| segments.iter().map(|segment| segment.size_bytes).sum();
    Survey {
        first_dirty,
        cleanable_end,
        clean_bytes: bytes(clean),
        cleanable_bytes: bytes(dirty),
        overdue: is_overdue(dirty, bounds.now_ms, config),
    }
}

/// `min.compaction.lag.ms`: readers that keep up see every record.
fn is_too_young(segment: &Candidate, bounds: Bounds, config: &LogConfig) -> bool {
    let Ok(lag_ms @ 1..) = u64::try_from(config.min_compaction_lag_ms) else { return false };
    match segment.largest_timestamp_ms {
        Some(timestamp_ms) => timestamp_ms > bounds.now_ms.saturating_sub(config.min_compaction_lag_ms),
        // No record has a time stamp: what is known is when the segment took its last one.
        None => segment.closed_for < Duration::from_millis(lag_ms),
    }
}

/// `max.compaction.lag.ms`: what may have been deleted or overwritten must be gone some day.
fn is_overdue(dirty: &[Candidate], now_ms: i64, config: &LogConfig) -> bool {
    let oldest =
        dirty.iter().filter_map(|segment| segment.first_timestamp_ms).filter(|first| *first > 0).min();
    let lag_ms = config.max_compaction_lag_ms.max(0);
    oldest.is_some_and(|oldest| oldest < now_ms.saturating_sub(lag_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_000_000;

    fn segments(sizes: &[u64]) -> Vec<Candidate> {
        let segment = |(index, size): (usize, &u64)| Candidate {
            end_offset: Offset(10 * (index as i64 + 1)),
            size_bytes: *size,
            largest_timestamp_ms: Some(NOW_MS - 1000 * (sizes.len() - index) as i64),
            first_timestamp_ms: Some(NOW_MS - 1000 * (sizes.len() - index) as i64 - 500),
            closed_for: Duration::from_secs(60),
        };
        sizes.iter().enumerate().map(segment).collect()
    }

    fn bounds(stable: i64) -> Bounds {
        Bounds { log_start: Offset(0), log_end: Offset(100), stable: Offset(stable), now_ms: NOW_MS }
    }

    #[test]
    fn everything_committed_is_dirty_until_it_was_cleaned() {
        let config = LogConfig::default();
        let closed = segments(&[100, 200, 300]);
        let look = |noted: Option<i64>, stable| survey(&closed, noted.map(Offset), bounds(stable), &config);
        let all = look(None, 100);
        assert_eq!((all.first_dirty, all.cleanable_end), (Offset(0), Offset(30)));
        assert_eq!((all.clean_bytes, all.cleanable_bytes), (0, 600));
        assert!(all.dirty_ratio() > 0.99);
        let half = look(Some(10), 100);
        assert_eq!((half.clean_bytes, half.cleanable_bytes), (100, 500));
        assert!(half.is_due(0.5) && !half.is_due(0.9));
        let done = look(Some(30), 100);
        assert_eq!((done.cleanable_end, done.cleanable_bytes), (Offset(30), 0));
        assert!(!done.is_due(0.0), "nothing to be done");
    }

    #[test]
    fn nothing_uncommitted_is_looked_at() {
        let config = LogConfig::default();
        let closed = segments(&[100, 200, 300]);
        for (stable, end) in [(0, 0), (9, 0), (10, 10), (29, 20), (30, 30)] {
            let found = survey(&closed, None, bounds(stable), &config);
            assert_eq!(found.cleanable_end, Offset(end), "B30: stable up to {stable}");
        }
    }

    #[test]
    fn a_note_of_another_log_does_not_count() {
        let config = LogConfig::default();
        let closed = segments(&[100, 200, 300]);
        let within = Bounds { log_start: Offset(5), ..bounds(100) };
        for noted in [4, 101] {
            assert_eq!(survey(&closed, Some(Offset(noted)), within, &config).first_dirty, Offset(5));
        }
        // One within a segment: that one is looked at again.
        let found = survey(&closed, Some(Offset(15)), within, &config);
        assert_eq!((found.clean_bytes, found.cleanable_bytes), (100, 500));
    }

    #[test]
    fn young_records_wait_and_old_ones_press() {
        let closed = segments(&[100, 200, 300]);
        let lag = |min_compaction_lag_ms| LogConfig { min_compaction_lag_ms, ..LogConfig::default() };
        for (lag_ms, end) in [(0, 30), (999, 30), (1001, 20), (2001, 10), (5000, 0)] {
            assert_eq!(
                survey(&closed, None, bounds(100), &lag(lag_ms)).cleanable_end,
                Offset(end),
                "{lag_ms}"
            );
        }
        let unstamped = [Candidate { largest_timestamp_ms: None, ..closed[0] }];
        assert_eq!(survey(&unstamped, None, bounds(100), &lag(60_000)).cleanable_end, Offset(10));
        assert_eq!(survey(&unstamped, None, bounds(100), &lag(60_001)).cleanable_end, Offset(0));

        let press = |max_compaction_lag_ms| LogConfig { max_compaction_lag_ms, ..LogConfig::default() };
        assert!(survey(&closed, None, bounds(100), &press(3499)).is_due(1.0));
        assert!(!survey(&closed, None, bounds(100), &press(3500)).is_due(1.0));
        assert!(
            !survey(&closed, Some(Offset(30)), bounds(100), &press(1)).is_due(1.0),
            "all of it was cleaned"
        );
    }
}
