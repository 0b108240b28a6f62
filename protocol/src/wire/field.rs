//! How each type that a schema may name looks on the wire. Never does IO.

use bytes::Bytes;
use uuid::Uuid;

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::error::{DecodeError, EncodeError};

/// The longest string in bytes that the protocol permits, compact or classic.
pub const MAXIMUM_STRING_LENGTH: usize = i16::MAX as usize;

/// What decides the layout of a value: the version of its message, and whether that version is a
/// flexible one (compact lengths and tagged fields, KIP-482).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Version of the message.
    pub version: i16,
    /// Whether lengths are compact and every structure ends in tagged fields.
    pub flexible: bool,
}

/// A type that may stand in a schema.
pub trait Field: Sized {
    /// No value takes fewer bytes than this in any version.
    const MINIMUM_SIZE: usize;

    /// Appends the value.
    ///
    /// # Errors
    /// A value that the version cannot carry.
    fn encode(&self, format: Format, encoder: &mut Encoder) -> Result<(), EncodeError>;

    /// Reads a value.
    ///
    /// # Errors
    /// Bytes that are not such a value.
    fn decode(format: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError>;

    /// Whether the value stands for null on the wire.
    #[inline]
    fn is_null(&self) -> bool {
        false
    }
}

macro_rules! fixed_size_fields {
    ($($type:ty: $size:literal, $put:ident, $get:ident;)*) => {$(
        impl Field for $type {
            const MINIMUM_SIZE: usize = $size;
            #[inline]
            fn encode(&self, _: Format, encoder: &mut Encoder) -> Result<(), EncodeError> {
                encoder.$put(*self);
                Ok(())
            }
            #[inline]
            fn decode(_: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                decoder.$get()
            }
        }
    )*};
}

fixed_size_fields! {
    bool: 1, put_bool, get_bool;
    i8: 1, put_i8, get_i8;
    i16: 2, put_i16, get_i16;
    u16: 2, put_u16, get_u16;
    i32: 4, put_i32, get_i32;
    i64: 8, put_i64, get_i64;
    f64: 8, put_f64, get_f64;
    Uuid: 16, put_uuid, get_uuid;
}

impl Field for String {
    const MINIMUM_SIZE: usize = 1;
    #[inline]
    fn encode(&self, format: Format, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_string(format, Some(self))
    }
    #[inline]
    fn decode(format: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decoder.get_string(format)?.ok_or(DecodeError::UnexpectedNull { field: "string" })
    }
}

impl Field for Option<String> {
    const MINIMUM_SIZE: usize = 1;
    #[inline]
    fn encode(&self, format: Format, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_string(format, self.as_deref())
    }
    #[inline]
    fn decode(format: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decoder.get_string(format)
    }
    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl Field for Bytes {
    const MINIMUM_SIZE: usize = 1;
    #[inline]
    fn encode(&self, format: Format, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_bytes(format, Some(self))
    }
    #[inline]
    fn decode(format: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decoder.get_bytes(format)?.ok_or(DecodeError::UnexpectedNull { field: "bytes" })
    }
}

impl Field for Option<Bytes> {
    const MINIMUM_SIZE: usize = 1;
    #[inline]
    fn encode(&self, format: Format, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_bytes(format, self.as_ref())
    }
    #[inline]
    fn decode(format: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decoder.get_bytes(format)
    }
    fn is_null(&self) -> bool {
        self.is_none()
    }
}

impl<T: Field> Field for Vec<T> {
    const MINIMUM_SIZE: usize = 1;
    #[inline]
    fn encode(&self, format: Format, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_array(format, Some(self))
    }
    #[inline]
    fn decode(format: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decoder.get_array(format)?.ok_or(DecodeError::UnexpectedNull { field: "array" })
    }
}

impl<T: Field> Field for Option<Vec<T>> {
    const MINIMUM_SIZE: usize = 1;
    #[inline]
    fn encode(&self, format: Format, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.put_array(format, self.as_deref())
    }
    #[inline]
    fn decode(format: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        decoder.get_array(format)
    }
    fn is_null(&self) -> bool {
        self.is_none()
    }
}

/// Record batches in a response: held in memory, or sent by the caller from elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Records {
    /// No value at all. Some clients mistake it for an error: prefer empty bytes.
    #[default]
    Null,
    /// Batches in memory. What decoding gives, as a slice of the frame.
    Bytes(Bytes),
    /// So many bytes that the caller sends itself, at the place noted in [`Encoder::deferred`].
    Deferred(usize),
}

impl Records {
    /// How many bytes of batches these are; zero for null.
    pub fn length(&self) -> usize {
        match self {
            Self::Null => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Deferred(length) => *length,
        }
    }
}

impl Field for Records {
    const MINIMUM_SIZE: usize = 1;
    fn encode(&self, format: Format, encoder: &mut Encoder) -> Result<(), EncodeError> {
        match self {
            Self::Null => encoder.put_bytes(format, None),
            Self::Bytes(bytes) => encoder.put_bytes(format, Some(bytes)),
            Self::Deferred(length) => encoder.put_deferred(format, *length),
        }
    }
    fn decode(format: Format, decoder: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(decoder.get_bytes(format)?.map_or(Self::Null, Self::Bytes))
    }
    fn is_null(&self) -> bool {
        *self == Self::Null
    }
}
