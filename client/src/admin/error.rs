//! Why an administrative request failed, told so that a person knows which broker, which topic, and what to do.

use crate::{ClientError, ConnectionError};
use sillon_protocol::ErrorCode;

/// A request of [`Admin`](super::Admin) that did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AdminError {
    /// The list of bootstrap servers is not one.
    #[error("bootstrap server \"{text}\": HOST:PORT is expected, such as 127.0.0.1:9092")]
    BootstrapServer {
        /// The entry that cannot be read.
        text: String,
    },
    /// No broker could be connected to.
    #[error(
        "cannot {what}: no broker answers at {tried}: {source}; check that the brokers run and that this is the \
         address of one of their `listeners`"
    )]
    Unreachable {
        /// What was to be done.
        what: String,
        /// The addresses, separated by commas.
        tried: String,
        /// What went wrong at the last of them.
        source: ConnectionError,
    },
    /// The broker cannot be asked this, or its answer makes no sense.
    #[error("cannot {what}: {broker}: {source}")]
    Connection {
        /// What was to be done.
        what: String,
        /// Who was asked.
        broker: String,
        /// What went wrong.
        source: ConnectionError,
    },
    /// A broker answered with an error.
    #[error("cannot {what}: {broker} answers {code}: {message}{}", advice(*code, *unanswered_before))]
    Refused {
        /// What was to be done.
        what: String,
        /// Who was asked.
        broker: String,
        /// Kafka's error code.
        code: ErrorCode,
        /// The broker's words, or those of the code where it has none.
        message: String,
        /// Whether an earlier attempt got no answer, so that it may be that one which had the effect.
        unanswered_before: bool,
    },
    /// A request to a broker of its own went wrong.
    #[error("{}", told(what, source))]
    Client {
        /// What was to be done.
        what: String,
        /// What went wrong.
        source: ClientError,
    },
    /// It could be tried again and again, but not to success within the time.
    #[error(
        "cannot {what} within {timeout_ms} ms: {last}; `sillon cluster describe` shows which brokers live"
    )]
    TimedOut {
        /// What was to be done.
        what: String,
        /// The time that was given, in milliseconds.
        timeout_ms: u64,
        /// How the last attempt ended.
        last: String,
    },
}

/// What was to be done is told once.
fn told(what: &str, source: &ClientError) -> String {
    match source {
        ClientError::Refused { .. } | ClientError::Fenced { .. } | ClientError::TimedOut { .. } => {
            source.to_string()
        }
        source => format!("cannot {what}: {source}"),
    }
}

/// What a person can do about it.
fn advice(code: ErrorCode, unanswered_before: bool) -> &'static str {
    match code {
        ErrorCode::TOPIC_ALREADY_EXISTS if unanswered_before => {
            "; an earlier attempt got no answer and may be what created it: compare with `sillon topics describe`"
        }
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION if unanswered_before => {
            "; an earlier attempt got no answer and may be what deleted it: see `sillon topics list`"
        }
        ErrorCode::TOPIC_ALREADY_EXISTS => "; choose another name, or delete it first",
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => "; `sillon topics list` shows the topics that exist",
        ErrorCode::INVALID_REPLICATION_FACTOR => "; `sillon cluster describe` shows how many brokers live",
        ErrorCode::INVALID_TOPIC_EXCEPTION => {
            "; a name has up to 249 of the characters a-z, A-Z, 0-9, dot, hyphen and underscore"
        }
        _ => "",
    }
}
