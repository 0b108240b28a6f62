//! What can go wrong for a user of the producer or the consumer, and what to do about it. One connection's failures
//! are [`ConnectionError`]'s; never decides whether something is tried again, it only says whether that can help.

use crate::ConnectionError;
use sillon_protocol::{ErrorCode, records::RecordError};

/// A request of a producer or a consumer that did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    /// A configuration that cannot be.
    #[error("configuration {key}: {problem}")]
    Config {
        /// Kafka's name of the key, in snake case.
        key: &'static str,
        /// What is wrong, and what is allowed.
        problem: String,
    },
    /// No broker could be connected to.
    #[error(
        "no broker answers at {tried}: {source}; check that the brokers run and that this is the address of one of \
         their `listeners`"
    )]
    Unreachable {
        /// The addresses, separated by commas.
        tried: String,
        /// What went wrong at the last of them.
        source: ConnectionError,
    },
    /// A broker could not be connected to, did not answer, or not sensibly.
    #[error("broker {broker}: {source}")]
    Connection {
        /// Its number.
        broker: i32,
        /// What went wrong.
        source: ConnectionError,
    },
    /// A broker answered with an error.
    #[error("cannot {what}: {code}: {message}{}", advice(*code))]
    Refused {
        /// What was to be done.
        what: String,
        /// Kafka's error code.
        code: ErrorCode,
        /// The broker's words, or those of the code where it has none.
        message: String,
    },
    /// It could be tried again and again, but not to success within the time. Whether it had an effect is not known.
    #[error("cannot {what} within {timeout_ms} ms: {last}")]
    TimedOut {
        /// What was to be done.
        what: String,
        /// The time that was given, in milliseconds.
        timeout_ms: u64,
        /// How the last attempt ended, or what was waited for.
        last: String,
    },
    /// A record larger than the configuration permits.
    #[error(
        "a record of {bytes} bytes is larger than {key} ({limit_bytes}): raise it, or send less at a time"
    )]
    RecordTooLarge {
        /// The record's size in its batch.
        bytes: usize,
        /// The key that limits it.
        key: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// A partition that the topic does not have.
    #[error("topic {topic} has {partitions} partitions, there is no number {partition}")]
    NoSuchPartition {
        /// The topic.
        topic: String,
        /// The number that was asked for.
        partition: i32,
        /// How many it has.
        partitions: usize,
    },
    /// A key or a value that cannot be turned into bytes, or back.
    #[error("{what}: {problem}")]
    Serialization {
        /// Key or value, and of which topic.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// A position outside of what the log holds, and `auto_offset_reset` says to leave it to the user.
    #[error("{topic}-{partition} does not hold offset {offset}: seek to where reading shall go on")]
    OffsetOutOfRange {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The position.
        offset: i64,
    },
    /// A partition without a committed offset, and `auto_offset_reset` says to leave it to the user.
    #[error("{topic}-{partition} has no committed offset: seek to where reading shall begin")]
    NoOffset {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
    },
    /// The log was cut below the position (KIP-320), and `auto_offset_reset` says to leave it to the user.
    #[error(
        "{topic}-{partition} was truncated to offset {end_offset}, below the position {offset}: what was read from \
         there on is gone; seek to where reading shall go on"
    )]
    Truncated {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The position.
        offset: i64,
        /// The first offset that is known to differ.
        end_offset: i64,
    },
    /// Records that make no sense.
    #[error("{topic}-{partition} at offset {offset}: {source}; seek past it to go on")]
    Corrupt {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// Where.
        offset: i64,
        /// What is wrong.
        source: RecordError,
    },
    /// The group has gone on without this member: its partitions may be somebody else's by now.
    #[error(
        "the offsets cannot be committed: the group rebalanced and the partitions may belong to another member; poll \
         more often, or raise max_poll_interval_ms"
    )]
    CommitFailed,
    /// Somebody else has taken this client's place for good.
    #[error("cannot {what}: {code}: another client has taken this one's place; end it")]
    Fenced {
        /// What was to be done.
        what: String,
        /// Kafka's error code.
        code: ErrorCode,
    },
    /// A call that makes no sense now.
    #[error("{problem}")]
    Misuse {
        /// Which, and why.
        problem: String,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

/// What to do about a [`ClientError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// The same call may succeed a moment later.
    Retry,
    /// The call or the configuration has to change.
    Correct,
    /// The reader has to say where reading goes on: seek.
    Seek,
    /// This client is of no more use: make a new one, or end.
    Replace,
}

impl ClientError {
    /// What to do about it.
    pub fn remedy(&self) -> Remedy {
        match self {
            ClientError::Unreachable { .. } | ClientError::TimedOut { .. } | ClientError::CommitFailed => {
                Remedy::Retry
            }
            ClientError::Connection { source, .. } => match source {
                ConnectionError::NoCommonVersion { .. }
                | ConnectionError::Unsayable { .. }
                | ConnectionError::Refused { .. } => Remedy::Correct,
                _ => Remedy::Retry,
            },
            ClientError::Refused { code, .. } => match *code {
                code if code.is_retriable() => Remedy::Retry,
                ErrorCode::REBALANCE_IN_PROGRESS => Remedy::Retry,
                _ => Remedy::Correct,
            },
            ClientError::Config { .. }
            | ClientError::RecordTooLarge { .. }
            | ClientError::NoSuchPartition { .. }
            | ClientError::Serialization { .. }
            | ClientError::Misuse { .. } => Remedy::Correct,
            ClientError::OffsetOutOfRange { .. }
            | ClientError::NoOffset { .. }
            | ClientError::Truncated { .. }
            | ClientError::Corrupt { .. } => Remedy::Seek,
            ClientError::Fenced { .. } | ClientError::Closed => Remedy::Replace,
        }
    }

    /// Whether the same call may succeed a moment later.
    pub fn is_retriable(&self) -> bool {
        self.remedy() == Remedy::Retry
    }

    /// Whether this client is of no more use.
    pub fn is_fatal(&self) -> bool {
        self.remedy() == Remedy::Replace
    }

    /// Kafka's error code, where a broker gave one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Refused { code, .. } | ClientError::Fenced { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// A broker's error code, told with what was to be done.
    pub(crate) fn refused(what: impl Into<String>, code: ErrorCode, message: Option<&str>) -> ClientError {
        let what = what.into();
        match code {
            ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::INVALID_PRODUCER_EPOCH
            | ErrorCode::PRODUCER_FENCED => ClientError::Fenced { what, code },
            _ => ClientError::Refused { what, code, message: message.unwrap_or(code.message()).to_owned() },
        }
    }
}

/// What a person can do about it.
fn advice(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "; `sillon topics list` shows the topics that exist",
        ErrorCode::MESSAGE_TOO_LARGE => "; raise the topic's max.message.bytes, or lower batch_size",
        ErrorCode::INVALID_TOPIC_EXCEPTION => {
            "; a name has up to 249 of the characters a-z, A-Z, 0-9, dot, hyphen and underscore"
        }
        ErrorCode::INVALID_SESSION_TIMEOUT => {
            "; session_timeout_ms has to lie within the broker's group.min.session.timeout.ms and \
             group.max.session.timeout.ms"
        }
        ErrorCode::INCONSISTENT_GROUP_PROTOCOL => "; all members of a group need an assignor in common",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do() {
        let refused = |code| ClientError::refused("produce to orders-0", code, None);
        assert!(refused(ErrorCode::NOT_LEADER_OR_FOLLOWER).is_retriable());
        assert_eq!(refused(ErrorCode::MESSAGE_TOO_LARGE).remedy(), Remedy::Correct);
        assert!(refused(ErrorCode::FENCED_INSTANCE_ID).is_fatal());
        assert!(refused(ErrorCode::MESSAGE_TOO_LARGE).to_string().contains("max.message.bytes"));
    }
}
