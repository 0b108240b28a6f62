//! Why a connection or a request failed. Cheap to clone: one failure is told to all requests that wait.

use sillon_protocol::{
    ApiKey,
    frame::FrameError,
    wire::{DecodeError, EncodeError},
};
use std::{io, ops::RangeInclusive, sync::Arc};

/// A connection that could not be made, a request that was not answered, or an answer that makes no sense.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The connection could not be established.
    #[error("cannot connect to {host}:{port}: {source}")]
    Connect {
        /// The broker's host.
        host: Arc<str>,
        /// Its port.
        port: u16,
        /// What the operating system says.
        source: Arc<io::Error>,
    },
    /// Establishing the connection, or agreeing on versions, took too long.
    #[error("no connection to {host}:{port} within {timeout_ms} ms")]
    ConnectTimedOut {
        /// The broker's host.
        host: Arc<str>,
        /// Its port.
        port: u16,
        /// The time that was given, in milliseconds.
        timeout_ms: u64,
    },
    /// No answer came in time. Whether the broker acted on the request is not known.
    #[error("no answer to {api} within {timeout_ms} ms")]
    TimedOut {
        /// What was asked.
        api: ApiKey,
        /// The time that was given, in milliseconds.
        timeout_ms: u64,
    },
    /// The broker closed the connection. Whether it acted on what was asked is not known.
    #[error("the broker closed the connection")]
    Closed,
    /// Sending or receiving failed. Whether the broker acted on what was asked is not known.
    #[error("the connection broke: {0}")]
    Io(Arc<io::Error>),
    /// The broker sent a frame that cannot be one.
    #[error("the broker sent garbage: {0}")]
    Frame(#[from] FrameError),
    /// A frame without even a correlation id.
    #[error("the broker sent a response of {bytes} bytes, too short for a correlation id")]
    ShortResponse {
        /// The frame's size in bytes.
        bytes: usize,
    },
    /// Responses come in the order of the requests; this one does not belong to the oldest that waits.
    #[error("the broker answered request {received}, expected {expected}")]
    WrongCorrelationId {
        /// The oldest request's id.
        expected: i32,
        /// The id in the response.
        received: i32,
    },
    /// A response that nobody asked for.
    #[error("the broker answered request {received}, but none waits")]
    UnaskedResponse {
        /// The id in the response.
        received: i32,
    },
    /// The response's body is not what its schema says.
    #[error("the answer to {api} version {version} is malformed: {source}")]
    Malformed {
        /// What was asked.
        api: ApiKey,
        /// In which version.
        version: i16,
        /// What is wrong.
        source: DecodeError,
    },
    /// The request cannot be said in this version.
    #[error("{api} version {version}: {source}")]
    Unsayable {
        /// What was to be asked.
        api: ApiKey,
        /// In which version.
        version: i16,
        /// What cannot be said.
        source: EncodeError,
    },
    /// There is no version that both sides speak.
    #[error("no common version of {api}: this client speaks {ours:?}, the broker {theirs:?}")]
    NoCommonVersion {
        /// What was to be asked.
        api: ApiKey,
        /// The versions of this client.
        ours: RangeInclusive<i16>,
        /// The versions of the broker, `None` where it does not know the request at all.
        theirs: Option<RangeInclusive<i16>>,
    },
    /// The broker refused to say what it speaks.
    #[error("the broker refuses ApiVersions with error code {error_code}")]
    Refused {
        /// Kafka's error code.
        error_code: i16,
    },
}

impl ConnectionError {
    /// Whether the request certainly had no effect, because not one byte of it was sent.
    pub fn is_definite(&self) -> bool {
        matches!(
            self,
            ConnectionError::Connect { .. }
                | ConnectionError::ConnectTimedOut { .. }
                | ConnectionError::Unsayable { .. }
                | ConnectionError::NoCommonVersion { .. }
                | ConnectionError::Refused { .. }
        )
    }

    /// The request that went wrong, where the error is about a single one.
    pub fn api(&self) -> Option<ApiKey> {
        match self {
            ConnectionError::TimedOut { api, .. }
            | ConnectionError::Malformed { api, .. }
            | ConnectionError::Unsayable { api, .. }
            | ConnectionError::NoCommonVersion { api, .. } => Some(*api),
            _ => None,
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> ConnectionError {
        ConnectionError::Io(Arc::new(error))
    }
}
