//! What an answer to a Produce request means for each batch. Owns the rule which error codes can be tried again.

use super::accumulator::Verdict;
use crate::ClientError;
use sillon_protocol::{ErrorCode, messages::ProducePartitionResponse};

/// Whether the error says that somebody else leads, or that this is not known here.
pub(super) fn concerns_leadership(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NOT_LEADER_OR_FOLLOWER
            | ErrorCode::LEADER_NOT_AVAILABLE
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
            | ErrorCode::INCONSISTENT_TOPIC_ID
            | ErrorCode::FENCED_LEADER_EPOCH
            | ErrorCode::UNKNOWN_LEADER_EPOCH
            | ErrorCode::REPLICA_NOT_AVAILABLE
            | ErrorCode::KAFKA_STORAGE_ERROR
    )
}

/// The verdict on a batch for this partition.
pub(super) fn of_response(topic: &str, partition: i32, response: &ProducePartitionResponse) -> Verdict {
    let code = ErrorCode::from(response.error_code);
    let error = || {
        let message = response.error_message.as_deref().or_else(|| {
            response.record_errors.iter().find_map(|error| error.batch_index_error_message.as_deref())
        });
        ClientError::refused(format!("produce to {topic}-{partition}"), code, message)
    };
    match code {
        ErrorCode::NONE => Verdict::Written {
            base_offset: Some(response.base_offset).filter(|offset| *offset >= 0),
            log_append_time: Some(response.log_append_time_ms).filter(|time| *time >= 0),
        },
        // It was written by an earlier attempt; where, the broker does not remember.
        ErrorCode::DUPLICATE_SEQUENCE_NUMBER => Verdict::Written { base_offset: None, log_append_time: None },
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER => Verdict::OutOfOrder(error()),
        ErrorCode::UNKNOWN_PRODUCER_ID => Verdict::UnknownProducer(error()),
        code if code.is_retriable() => Verdict::TryAgain(error()),
        _ => Verdict::Refused(error()),
    }
}

/// The verdict on a batch whose request had no answer.
pub(super) fn of_failure(error: &ClientError) -> Verdict {
    if error.is_retriable() { Verdict::TryAgain(error.clone()) } else { Verdict::Refused(error.clone()) }
}
