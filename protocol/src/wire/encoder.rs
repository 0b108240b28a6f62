//! Writes primitive values straight into a socket's buffer. Knows nothing of messages, never does IO.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

use std::collections::VecDeque;

use super::error::EncodeError;
use super::{Field, Format, MAXIMUM_STRING_LENGTH};

/// From this length on a copy costs more than a piece of its own in a vectored write.
const SHARED_FROM_BYTES: usize = 2048;

/// A place where bytes from elsewhere (a file, by sendfile) belong into the encoded stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferred {
    /// Offset in the encoder's buffer before which the external bytes are to be sent.
    pub position: usize,
    /// How many external bytes.
    pub length: usize,
}

/// A buffer under construction.
#[derive(Debug, Default)]
pub struct Encoder {
    /// What has been encoded so far.
    pub buffer: BytesMut,
    /// Where external bytes go, in ascending order of position.
    pub deferred: Vec<Deferred>,
    /// The external bytes, one for each place, of an encoder that shares long byte strings.
    shared: Option<Vec<Bytes>>,
}

impl Encoder {
    /// An empty encoder.
    pub fn new() -> Self {
        Self::default()
    }

    /// An encoder that appends to `buffer`.
    pub fn with_buffer(buffer: BytesMut) -> Self {
        Self { buffer, deferred: Vec::new(), shared: None }
    }

    /// An encoder that refers to long byte strings where others copy them: see [`Self::into_parts`].
    pub fn sharing() -> Self {
        Self { shared: Some(Vec::new()), ..Self::default() }
    }

    /// What was encoded, in order: pieces of the buffer, and between them the byte strings that were not copied.
    ///
    /// # Panics
    /// If bytes were deferred that are not here.
    pub fn into_parts(mut self) -> VecDeque<Bytes> {
        let shared = self.shared.unwrap_or_default();
        assert_eq!(shared.len(), self.deferred.len(), "all external bytes are here");
        let mut parts = VecDeque::with_capacity(2 * shared.len() + 1);
        let mut done = 0;
        for (place, bytes) in self.deferred.iter().zip(shared) {
            parts.push_back(self.buffer.split_to(place.position - done).freeze());
            parts.push_back(bytes);
            done = place.position;
        }
        parts.push_back(self.buffer.freeze());
        parts.retain(|part| !part.is_empty());
        parts
    }

    /// Takes back what was encoded after the buffer was so long and there were so many deferred places.
    pub(crate) fn truncate(&mut self, length: usize, deferred: usize) {
        self.buffer.truncate(length);
        self.deferred.truncate(deferred);
        if let Some(shared) = &mut self.shared {
            shared.truncate(deferred);
        }
    }

    /// Writes one signed byte.
    #[inline]
    pub fn put_i8(&mut self, value: i8) {
        self.buffer.put_i8(value);
    }

    /// Writes a truth value as one byte.
    #[inline]
    pub fn put_bool(&mut self, value: bool) {
        self.buffer.put_u8(u8::from(value));
    }

    /// Writes two bytes, signed.
    #[inline]
    pub fn put_i16(&mut self, value: i16) {
        self.buffer.put_i16(value);
    }

    /// Writes two bytes, unsigned.
    #[inline]
    pub fn put_u16(&mut self, value: u16) {
        self.buffer.put_u16(value);
    }

    /// Writes four bytes, signed.
    #[inline]
    pub fn put_i32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    /// Writes eight bytes, signed.
    #[inline]
    pub fn put_i64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    /// Writes an IEEE 754 double.
    #[inline]
    pub fn put_f64(&mut self, value: f64) {
        self.buffer.put_f64(value);
    }

    /// Writes a UUID as sixteen bytes.
    #[inline]
    pub fn put_uuid(&mut self, value: Uuid) {
        self.buffer.put_slice(value.as_bytes());
    }

    /// Writes an unsigned integer in one to five bytes, seven bits in each, the lowest first.
    #[inline]
    pub fn put_unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.buffer.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.put_u8(value as u8);
    }

    /// Writes the length of an array or byte string; `None` stands for null.
    ///
    /// # Errors
    /// A length above 2^31 - 1.
    pub fn put_length(&mut self, format: Format, length: Option<usize>) -> Result<(), EncodeError> {
        let Some(length) = length else {
            if format.flexible {
                self.put_unsigned_varint(0);
            } else {
                self.put_i32(-1);
            }
            return Ok(());
        };
        let value = i32::try_from(length).map_err(|_| EncodeError::TooLong { length })?;
        if format.flexible {
            // At most 2^31, which an unsigned 32-bit integer holds.
            self.put_unsigned_varint(value as u32 + 1);
        } else {
            self.put_i32(value);
        }
        Ok(())
    }

    /// Writes a string, compact or classic as `format` says; `None` stands for null.
    ///
    /// # Errors
    /// A string longer than 32,767 bytes.
    pub fn put_string(&mut self, format: Format, value: Option<&str>) -> Result<(), EncodeError> {
        let Some(value) = value else {
            if format.flexible {
                self.put_unsigned_varint(0);
            } else {
                self.put_i16(-1);
            }
            return Ok(());
        };
        let length = value.len();
        if length > MAXIMUM_STRING_LENGTH {
            return Err(EncodeError::TooLong { length });
        }
        if format.flexible {
            self.put_unsigned_varint(length as u32 + 1);
        } else {
            self.put_i16(length as i16);
        }
        self.buffer.put_slice(value.as_bytes());
        Ok(())
    }

    /// Writes a byte string; `None` stands for null.
    ///
    /// # Errors
    /// More than 2^31 - 1 bytes.
    pub fn put_bytes(&mut self, format: Format, value: Option<&Bytes>) -> Result<(), EncodeError> {
        self.put_length(format, value.map(Bytes::len))?;
        match (value, &mut self.shared) {
            (Some(value), Some(shared)) if value.len() >= SHARED_FROM_BYTES => {
                self.deferred.push(Deferred { position: self.buffer.len(), length: value.len() });
                shared.push(value.clone());
            }
            (Some(value), _) => self.buffer.put_slice(value),
            (None, _) => {}
        }
        Ok(())
    }

    /// Writes the length of a byte string and notes that its bytes come from elsewhere.
    ///
    /// # Errors
    /// More than 2^31 - 1 bytes.
    pub fn put_deferred(&mut self, format: Format, length: usize) -> Result<(), EncodeError> {
        self.put_length(format, Some(length))?;
        if length > 0 {
            self.deferred.push(Deferred { position: self.buffer.len(), length });
        }
        Ok(())
    }

    /// Writes an array; `None` stands for null.
    ///
    /// # Errors
    /// More than 2^31 - 1 elements, and whatever keeps an element from being written.
    pub fn put_array<T: Field>(&mut self, format: Format, value: Option<&[T]>) -> Result<(), EncodeError> {
        self.put_length(format, value.map(<[T]>::len))?;
        for element in value.unwrap_or_default() {
            element.encode(format, self)?;
        }
        Ok(())
    }

    /// Writes one tagged field: the tag, the size, then the value.
    ///
    /// # Errors
    /// Whatever keeps the value from being written.
    pub fn put_tagged_field<T: Field>(
        &mut self,
        tag: u32,
        format: Format,
        value: &T,
    ) -> Result<(), EncodeError> {
        // The size comes first and has a variable length. Tagged fields are rare: a copy costs little.
        let mut nested = Encoder::new();
        value.encode(format, &mut nested)?;
        assert!(nested.deferred.is_empty(), "external bytes never belong to a tagged field");
        let length = nested.buffer.len();
        let size = u32::try_from(length).map_err(|_| EncodeError::TooLong { length })?;
        self.put_unsigned_varint(tag);
        self.put_unsigned_varint(size);
        self.buffer.put_slice(&nested.buffer);
        Ok(())
    }
}
