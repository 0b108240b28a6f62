//! Reads primitive values from a frame. Owns the bounds: every length is compared with the bytes that
//! remain before anything is allocated or skipped. Never panics on any input, never copies byte strings.

use bytes::Bytes;
use uuid::Uuid;

use super::error::DecodeError;
use super::{Field, Format, MAXIMUM_STRING_LENGTH};

/// An array may take this many times the size of the whole input in memory, plus [`ALLOCATION_ALLOWANCE`].
pub const MAXIMUM_AMPLIFICATION: usize = 16;

/// Memory in bytes that an array may always take, however small the input is.
pub const ALLOCATION_ALLOWANCE: usize = 64 * 1024;

/// A position in a frame, and the end it must not pass.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a Bytes,
    position: usize,
    end: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte of `bytes`.
    pub fn new(bytes: &'a Bytes) -> Self {
        Self { bytes, position: 0, end: bytes.len() }
    }

    /// How many bytes have not been read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// Where in the frame the next value is read.
    pub fn position(&self) -> usize {
        self.position
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let remaining = self.remaining();
        if length > remaining {
            return Err(DecodeError::Truncated { needed: length, remaining });
        }
        let start = self.position;
        self.position += length;
        Ok(&self.bytes[start..self.position])
    }

    #[inline]
    fn take_array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], DecodeError> {
        let mut array = [0; SIZE];
        array.copy_from_slice(self.take(SIZE)?);
        Ok(array)
    }

    /// Reads one signed byte.
    #[inline]
    pub fn get_i8(&mut self) -> Result<i8, DecodeError> {
        self.take_array().map(i8::from_be_bytes)
    }

    /// Reads a truth value: any byte but zero is true.
    #[inline]
    pub fn get_bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.get_i8()? != 0)
    }

    /// Reads two bytes, signed.
    #[inline]
    pub fn get_i16(&mut self) -> Result<i16, DecodeError> {
        self.take_array().map(i16::from_be_bytes)
    }

    /// Reads two bytes, unsigned.
    #[inline]
    pub fn get_u16(&mut self) -> Result<u16, DecodeError> {
        self.take_array().map(u16::from_be_bytes)
    }

    /// Reads four bytes, signed.
    #[inline]
    pub fn get_i32(&mut self) -> Result<i32, DecodeError> {
        self.take_array().map(i32::from_be_bytes)
    }

    /// Reads eight bytes, signed.
    #[inline]
    pub fn get_i64(&mut self) -> Result<i64, DecodeError> {
        self.take_array().map(i64::from_be_bytes)
    }

    /// Reads an IEEE 754 double.
    #[inline]
    pub fn get_f64(&mut self) -> Result<f64, DecodeError> {
        self.take_array().map(f64::from_be_bytes)
    }

    /// Reads sixteen bytes as a UUID.
    #[inline]
    pub fn get_uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.take_array().map(Uuid::from_bytes)
    }

    /// Reads an unsigned integer of one to five bytes, seven bits in each, the lowest first.
    #[inline]
    pub fn get_unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take_array::<1>()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0x0f {
                return Err(DecodeError::VarintOverflow);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintOverflow)
    }

    /// Reads the length of a compact value: one more than the length, or zero for null.
    fn get_compact_length(&mut self) -> Result<Option<usize>, DecodeError> {
        Ok((self.get_unsigned_varint()? as usize).checked_sub(1))
    }

    /// Reads the length of a classic value: -1 stands for null, anything below is wrong.
    fn classic_length(length: i64) -> Result<Option<usize>, DecodeError> {
        match length {
            -1 => Ok(None),
            _ => usize::try_from(length).map(Some).map_err(|_| DecodeError::InvalidLength { length }),
        }
    }

    /// Reads a string, compact or classic as `format` says; `None` for null.
    pub fn get_string(&mut self, format: Format) -> Result<Option<String>, DecodeError> {
        let length = if format.flexible {
            self.get_compact_length()?
        } else {
            let length = self.get_i16()?;
            Self::classic_length(i64::from(length))?
        };
        let Some(length) = length else { return Ok(None) };
        let remaining = self.remaining();
        if length > remaining {
            return Err(DecodeError::LengthExceedsInput { length, remaining });
        }
        if length > MAXIMUM_STRING_LENGTH {
            return Err(DecodeError::InvalidLength { length: length as i64 });
        }
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| DecodeError::InvalidUtf8)?;
        Ok(Some(text.to_owned()))
    }

    /// Reads a byte string as a slice of the frame, without a copy; `None` for null.
    pub fn get_bytes(&mut self, format: Format) -> Result<Option<Bytes>, DecodeError> {
        let Some(length) = self.get_length(format)? else { return Ok(None) };
        let remaining = self.remaining();
        if length > remaining {
            return Err(DecodeError::LengthExceedsInput { length, remaining });
        }
        let start = self.position;
        self.position += length;
        Ok(Some(self.bytes.slice(start..self.position)))
    }

    fn get_length(&mut self, format: Format) -> Result<Option<usize>, DecodeError> {
        if format.flexible {
            self.get_compact_length()
        } else {
            let length = self.get_i32()?;
            Self::classic_length(i64::from(length))
        }
    }

    /// Reads an array; `None` for null.
    ///
    /// # Errors
    /// A count that the remaining bytes cannot hold, elements that would take more memory than
    /// [`MAXIMUM_AMPLIFICATION`] times the input, and whatever is wrong with an element.
    pub fn get_array<T: Field>(&mut self, format: Format) -> Result<Option<Vec<T>>, DecodeError> {
        let Some(count) = self.get_length(format)? else { return Ok(None) };
        let remaining = self.remaining();
        if count > remaining / T::MINIMUM_SIZE.max(1) {
            return Err(DecodeError::LengthExceedsInput { length: count, remaining });
        }
        let element_size = size_of::<T>().max(1);
        let input = self.bytes.len();
        let needed = count.saturating_mul(element_size);
        if needed > input.saturating_mul(MAXIMUM_AMPLIFICATION).saturating_add(ALLOCATION_ALLOWANCE) {
            return Err(DecodeError::Amplification { count, bytes: needed, input });
        }
        // An announced count is not trusted with more memory than the bytes that came with it; beyond
        // that the vector doubles with what has really been read, and never passes the count.
        let mut elements = Vec::with_capacity(count.min((remaining / element_size).max(1)));
        for read in 0..count {
            if elements.len() == elements.capacity() {
                elements.reserve_exact((count - read).min(read.max(1)));
            }
            elements.push(T::decode(format, self)?);
        }
        Ok(Some(elements))
    }

    /// Reads the size of a tagged field and passes over it; gives a decoder of just its bytes.
    pub fn get_tagged_field(&mut self) -> Result<Decoder<'a>, DecodeError> {
        let size = self.get_unsigned_varint()? as usize;
        let remaining = self.remaining();
        if size > remaining {
            return Err(DecodeError::LengthExceedsInput { length: size, remaining });
        }
        let start = self.position;
        self.position += size;
        Ok(Decoder { bytes: self.bytes, position: start, end: self.position })
    }

    /// Skips all tagged fields of a structure that knows none.
    pub fn skip_tagged_fields(&mut self) -> Result<(), DecodeError> {
        for _ in 0..self.get_unsigned_varint()? {
            self.get_unsigned_varint()?;
            self.get_tagged_field()?;
        }
        Ok(())
    }

    /// Demands that everything has been read: a tagged field has exactly the size it announced.
    pub fn finish_tagged_field(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            unread => Err(DecodeError::TaggedFieldSize { unread }),
        }
    }
}
