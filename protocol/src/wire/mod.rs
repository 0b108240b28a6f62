//! The wire: primitive values, their bounds and errors, and the [`schema!`](crate::schema) macro from
//! which every message is made. Never does IO and never panics on bytes from outside.

#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
mod decoder;
mod encoder;
mod error;
mod field;
mod schema;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::ops::{RangeBounds, RangeInclusive};

pub use decoder::{ALLOCATION_ALLOWANCE, Decoder, MAXIMUM_AMPLIFICATION};
pub use encoder::{Deferred, Encoder};
pub use error::{DecodeError, EncodeError};
pub use field::{Field, Format, MAXIMUM_STRING_LENGTH, Records};

use crate::ApiKey;

/// A whole request or response body.
pub trait Message: Sized + Default + Clone + PartialEq + Debug {
    /// Every version that can be encoded and decoded.
    const VERSIONS: RangeInclusive<i16>;

    /// Whether `version` has compact lengths and tagged fields (KIP-482).
    fn is_flexible(version: i16) -> bool;

    /// Appends the message in `version`.
    ///
    /// # Errors
    /// A version outside of [`VERSIONS`](Self::VERSIONS), or a field that differs from its default and
    /// is not ignorable, in a version that cannot carry it.
    fn encode(&self, version: i16, encoder: &mut Encoder) -> Result<(), EncodeError>;

    /// Reads the message in `version`. Bytes that follow it are left unread.
    ///
    /// # Errors
    /// A version outside of [`VERSIONS`](Self::VERSIONS), or bytes that are not such a message.
    fn decode(version: i16, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError>;
}

/// A request body, and what belongs to it.
pub trait Request: Message {
    /// The API.
    const API_KEY: ApiKey;
    /// What answers it.
    type Response: Message;

    /// Version of the header in front of the request.
    fn request_header_version(version: i16) -> i16 {
        if Self::is_flexible(version) { 2 } else { 1 }
    }

    /// Version of the header in front of the response. Always 0 for ApiVersions, whatever the version:
    /// the client does not know yet which one the broker can speak (KIP-511).
    fn response_header_version(version: i16) -> i16 {
        if Self::is_flexible(version) && Self::API_KEY != ApiKey::ApiVersions { 1 } else { 0 }
    }
}

/// Whether a field's range of versions, written in any form of range, holds `version`.
#[doc(hidden)]
#[inline]
pub fn holds(range: impl RangeBounds<i16>, version: i16) -> bool {
    range.contains(&version)
}
