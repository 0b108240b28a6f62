//! Variable-length numbers of the record format (zig-zag, seven bits a byte) and the cursor that reads
//! them. The cursor borrows; it never allocates and never reads past its end.

use super::error::RecordFault;
use bytes::BufMut;

/// Reads fields from the front of a byte slice.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes not read yet.
    pub(super) fn remaining(&self) -> usize {
        self.0.len()
    }

    /// All bytes not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], RecordFault> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return Err(RecordFault::Truncated { needed: length, available: self.0.len() });
        };
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, RecordFault> {
        let Some((first, rest)) = self.0.split_first() else {
            return Err(RecordFault::Truncated { needed: 1, available: 0 });
        };
        self.0 = rest;
        Ok(*first)
    }

    /// A 32-bit number in at most five bytes.
    pub(super) fn varint(&mut self) -> Result<i32, RecordFault> {
        let unsigned = u32::try_from(self.unsigned(5)?).map_err(|_| RecordFault::Varint)?;
        Ok((unsigned >> 1).cast_signed() ^ -(unsigned & 1).cast_signed())
    }

    /// A 64-bit number in at most ten bytes.
    pub(super) fn varlong(&mut self) -> Result<i64, RecordFault> {
        let unsigned = self.unsigned(10)?;
        Ok((unsigned >> 1).cast_signed() ^ -(unsigned & 1).cast_signed())
    }

    fn unsigned(&mut self, max_bytes: u32) -> Result<u64, RecordFault> {
        let mut number = 0u64;
        for index in 0..max_bytes {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only.
            if index == 9 && bits > 1 {
                return Err(RecordFault::Varint);
            }
            number |= bits << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(RecordFault::Varint)
    }

    /// A length and that many bytes; the length -1 is null.
    pub(super) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, RecordFault> {
        let length = self.varint()?;
        match usize::try_from(length) {
            Ok(length) => Ok(Some(self.take(length)?)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(RecordFault::Length { length }),
        }
    }

    /// A length and that many bytes; null is not allowed.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], RecordFault> {
        let length = self.varint()?;
        self.take(usize::try_from(length).map_err(|_| RecordFault::Length { length })?)
    }
}

fn zig_zag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

/// Bytes that `number` takes.
pub(super) fn varint_size(number: i64) -> usize {
    let bits = 64 - (zig_zag(number) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends `number`. A 32-bit number has the same form as the 64-bit number of the same value.
pub(super) fn put_varint(output: &mut impl BufMut, number: i64) {
    let mut rest = zig_zag(number);
    while rest >= 0x80 {
        output.put_u8((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    output.put_u8(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(long in any::<i64>(), int in any::<i32>()) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, long);
            prop_assert_eq!(bytes.len(), varint_size(long));
            put_varint(&mut bytes, i64::from(int));
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varlong(), Ok(long));
            prop_assert_eq!(cursor.varint(), Ok(int));
            prop_assert_eq!(cursor.remaining(), 0);
        }
    }

    #[test]
    fn known_forms() {
        for (number, form) in
            [(0, &[0u8][..]), (-1, &[1]), (1, &[2]), (63, &[126]), (64, &[0x80, 1]), (-65, &[0x81, 1])]
        {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(bytes, form, "{number}");
        }
        assert_eq!(Cursor::new(&[0xfe, 0xff, 0xff, 0xff, 0x0f]).varint(), Ok(i32::MAX));
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).varint(), Ok(i32::MIN));
    }

    #[test]
    fn malformed_numbers_are_refused() {
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint(), Err(RecordFault::Varint));
        assert_eq!(Cursor::new(&[0x80; 6]).varint(), Err(RecordFault::Varint));
        assert_eq!(Cursor::new(&[0xff; 11]).varlong(), Err(RecordFault::Varint));
        let mut too_wide = [0xff; 10];
        too_wide[9] = 0x02;
        assert_eq!(Cursor::new(&too_wide).varlong(), Err(RecordFault::Varint));
        assert_eq!(Cursor::new(&[0x80]).varint(), Err(RecordFault::Truncated { needed: 1, available: 0 }));
        assert_eq!(Cursor::new(&[3]).nullable_bytes(), Err(RecordFault::Length { length: -2 }));
        assert_eq!(Cursor::new(&[1]).bytes(), Err(RecordFault::Length { length: -1 }));
    }
}
