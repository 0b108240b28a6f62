//! multi and multiRead: operations and results, each behind a small header, up to a header that says it is the last.
//!
//! Owns the framing. What the operations do, and whether they may stand in a multi, is the coordinator's.

use super::jute::{Jute, JuteError, Reader};

crate::jute! {
    /// In front of each operation and result.
    #[derive(Copy)]
    pub struct MultiHeader {
        /// The operation's number; -1 for an error and for the end.
        operation: i32,
        /// Whether this is the end.
        done: bool,
        /// -1, or the error's number.
        error: i32,
    }
}

impl MultiHeader {
    /// The end.
    pub const END: MultiHeader = MultiHeader { operation: -1, done: true, error: -1 };

    /// In front of an operation.
    pub const fn of(operation: i32) -> MultiHeader {
        MultiHeader { operation, done: false, error: -1 }
    }

    /// In front of a result: the operation where it succeeded.
    pub const fn succeeded(operation: i32) -> MultiHeader {
        MultiHeader { operation, done: false, error: 0 }
    }

    /// In front of a result that is an error.
    pub const fn failed(error: i32) -> MultiHeader {
        MultiHeader { operation: -1, done: false, error }
    }
}

/// Reads the header of the next operation or result, `None` at the end. The body follows in the reader.
///
/// # Errors
/// Bytes that are no header.
pub fn next_header(reader: &mut Reader<'_>) -> Result<Option<MultiHeader>, JuteError> {
    let header = MultiHeader::read(reader)?;
    Ok((!header.done).then_some(header))
}
