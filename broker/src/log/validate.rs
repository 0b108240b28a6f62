//! What a batch must be to be appended by a leader, beyond its format. Pure: Kafka's limits of a topic, applied to
//! a batch's header; never opens compressed records.
//!
//! The format itself (checksum, counts, what clients may send) is checked where the request is read, by
//! `sillon_protocol::records::produce_batch`.

use super::{config::LogConfig, error::AppendError, segment::SEGMENT_LIMIT_BYTES};
use sillon_protocol::records::{BatchHeader, NO_TIMESTAMP, TimestampType};

/// Checks a batch's size.
pub(super) fn check_size(size_bytes: usize, config: &LogConfig) -> Result<(), AppendError> {
    if size_bytes as u64 > u64::from(config.max_message_bytes) {
        return Err(AppendError::TooLarge { size_bytes, limit_bytes: config.max_message_bytes });
    }
    let limit_bytes = config.segment_bytes.min(SEGMENT_LIMIT_BYTES as u32);
    if size_bytes as u64 > u64::from(limit_bytes) {
        return Err(AppendError::LargerThanSegment { size_bytes, limit_bytes });
    }
    Ok(())
}

/// Checks a batch's time stamps (KIP-937) by the wall clock: one bad time stamp would keep a segment from its
/// retention, or end it early (I42). With log append time the broker's own stamp replaces them.
pub(super) fn check_timestamps(
    batch: &BatchHeader,
    config: &LogConfig,
    now_ms: i64,
) -> Result<(), AppendError> {
    if config.message_timestamp_type == TimestampType::LogAppendTime {
        return Ok(());
    }
    let first_ms = now_ms.saturating_sub(config.message_timestamp_before_max_ms);
    let last_ms = now_ms.saturating_add(config.message_timestamp_after_max_ms);
    for timestamp_ms in [batch.base_timestamp(), batch.max_timestamp()] {
        if timestamp_ms != NO_TIMESTAMP && !(first_ms..=last_ms).contains(&timestamp_ms) {
            return Err(AppendError::InvalidTimestamp { timestamp_ms, first_ms, last_ms });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::records::{BatchBuilder, Compression};

    fn header(timestamps: &[i64]) -> BatchHeader {
        let mut builder = BatchBuilder::new();
        for timestamp in timestamps {
            builder.add(*timestamp, None, None, []);
        }
        BatchHeader::parse(&builder.build(Compression::None)).expect("built")
    }

    #[test]
    fn sizes_are_bounded_by_message_and_segment() {
        let config = LogConfig { max_message_bytes: 100, segment_bytes: 80, ..LogConfig::default() };
        assert!(check_size(80, &config).is_ok());
        assert!(matches!(check_size(81, &config), Err(AppendError::LargerThanSegment { .. })));
        assert!(matches!(check_size(101, &config), Err(AppendError::TooLarge { .. })));
    }

    #[test]
    fn timestamps_far_from_now_are_refused() {
        let now = 1_000_000;
        let config = LogConfig {
            message_timestamp_before_max_ms: 1000,
            message_timestamp_after_max_ms: 500,
            ..LogConfig::default()
        };
        for right in [&[now][..], &[now - 1000, now + 500], &[NO_TIMESTAMP]] {
            assert!(check_timestamps(&header(right), &config, now).is_ok(), "{right:?}");
        }
        for wrong in
            [&[now + 501][..], &[now - 1001], &[now - 1001, now], &[now, now + 501], &[i64::MAX], &[i64::MIN]]
        {
            assert!(check_timestamps(&header(wrong), &config, now).is_err(), "{wrong:?}");
        }
        let config = LogConfig { message_timestamp_type: TimestampType::LogAppendTime, ..config };
        assert!(check_timestamps(&header(&[i64::MAX]), &config, now).is_ok());
        assert!(
            check_timestamps(&header(&[0]), &LogConfig::default(), now).is_ok(),
            "B32: the past has no bound by default"
        );
    }
}
