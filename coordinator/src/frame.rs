//! Checked frames, `[length u32][crc32 u32][payload]`, for the log, the snapshots and the wire between members. Owns
//! the encoding of all three (the only place that names bincode and crc32fast); never knows what a payload means.
//!
//! Numbers are little-endian and of fixed width; the checksum covers the length and the payload, so a region of zeros
//! is never a frame. Bytes that are copied rather than visited one by one carry `#[serde(with = "frame::payload")]`.

use bincode::{
    config::{Configuration, Fixint, Limit, LittleEndian},
    enc::write::Writer,
    error::EncodeError,
};
use bytes::BufMut;
use serde::{Deserialize, Serialize};

/// The largest payload that is ever written or read, in bytes.
pub const MAX_PAYLOAD_BYTES: usize = 64 * 1024 * 1024;

/// The length and the checksum in front of a payload, in bytes.
pub const HEADER_BYTES: usize = 8;

type Format = Configuration<LittleEndian, Fixint, Limit<MAX_PAYLOAD_BYTES>>;
const FORMAT: Format = bincode::config::standard()
    .with_little_endian()
    .with_fixed_int_encoding()
    .with_limit::<MAX_PAYLOAD_BYTES>();

/// Bytes do not hold the frame that they should, or a value does not fit into one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end before the frame does: more is to come, or its writer died.
    #[error("the frame needs {needed} bytes, there are {available}")]
    Short {
        /// Header and payload, as far as is known.
        needed: usize,
        /// What there is.
        available: usize,
    },
    /// The length is beyond what is allowed here, or what there is to write is.
    #[error("a payload of {length} bytes is larger than the {limit} allowed")]
    TooLong {
        /// The length of the payload in bytes.
        length: usize,
        /// The largest allowed.
        limit: usize,
    },
    /// The payload is not what was written.
    #[error("the checksum is {found:08x}, it should be {expected:08x}")]
    Checksum {
        /// What the header says.
        expected: u32,
        /// What the bytes give.
        found: u32,
    },
    /// The payload is intact and still not what is expected here: another version's, or another kind of frame.
    #[error("the payload cannot be decoded: {problem}")]
    Undecodable {
        /// What the decoder says.
        problem: String,
    },
    /// A value has no encoding.
    #[error("the value cannot be encoded: {problem}")]
    Unencodable {
        /// What the encoder says.
        problem: String,
    },
}

/// A buffer that frames are appended to: `Vec<u8>` and `BytesMut`.
pub trait FrameBuffer: BufMut + AsMut<[u8]> {}
impl<B: BufMut + AsMut<[u8]>> FrameBuffer for B {}

struct Append<'a, B>(&'a mut B);

impl<B: FrameBuffer> Writer for Append<'_, B> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.0.put_slice(bytes);
        Ok(())
    }
}

fn checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(payload);
    hasher.finalize()
}

/// Appends `value` as one frame and gives the number of bytes that it takes.
///
/// # Errors
/// [`FrameError::TooLong`] and [`FrameError::Unencodable`]; what was appended is then no frame, cut it off.
pub fn encode<T: Serialize + ?Sized, B: FrameBuffer>(value: &T, into: &mut B) -> Result<usize, FrameError> {
    let start = into.as_mut().len();
    into.put_slice(&[0; HEADER_BYTES]);
    bincode::serde::encode_into_writer(value, Append(into), FORMAT)
        .map_err(|error| FrameError::Unencodable { problem: error.to_string() })?;
    let frame = &mut into.as_mut()[start..];
    let (header, payload) = frame.split_at_mut(HEADER_BYTES);
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(FrameError::TooLong { length: payload.len(), limit: MAX_PAYLOAD_BYTES });
    }
    let length = (payload.len() as u32).to_le_bytes();
    header[..4].copy_from_slice(&length);
    header[4..].copy_from_slice(&checksum(length, payload).to_le_bytes());
    Ok(frame.len())
}

/// How many bytes the frame at the start of `bytes` takes with its header, once its length is there to be read.
///
/// # Errors
/// [`FrameError::TooLong`] where its payload is longer than `limit`.
pub fn frame_bytes(bytes: &[u8], limit: usize) -> Result<Option<usize>, FrameError> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    let limit = limit.min(MAX_PAYLOAD_BYTES);
    if length > limit {
        return Err(FrameError::TooLong { length, limit });
    }
    Ok(Some(HEADER_BYTES + length))
}

/// The payload of the frame at the start of `bytes`, its checksum verified.
///
/// # Errors
/// Every kind but the undecodable and unencodable.
pub fn checked_payload(bytes: &[u8], limit: usize) -> Result<&[u8], FrameError> {
    let needed = frame_bytes(bytes, limit)?.unwrap_or(HEADER_BYTES);
    let Some((length, rest)) = bytes.get(..needed).and_then(|frame| frame.split_first_chunk::<4>()) else {
        return Err(FrameError::Short { needed, available: bytes.len() });
    };
    let Some((expected, payload)) = rest.split_first_chunk::<4>() else {
        return Err(FrameError::Short { needed, available: bytes.len() });
    };
    let (expected, found) = (u32::from_le_bytes(*expected), checksum(*length, payload));
    if expected != found {
        return Err(FrameError::Checksum { expected, found });
    }
    Ok(payload)
}

/// Decodes the frame at the start of `bytes`, whose payload has at most `limit` bytes, and says how many it took.
///
/// # Errors
/// All of [`FrameError`] but the unencodable. Bytes left over within the payload are an error.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8], limit: usize) -> Result<(T, usize), FrameError> {
    let payload = checked_payload(bytes, limit)?;
    Ok((decode_payload(payload)?, HEADER_BYTES + payload.len()))
}

/// A value alone, without length and checksum: for what travels and lies inside of frames, such as an entry's data.
///
/// # Panics
/// Where the value has no encoding, which no value of this crate's own types is without.
pub fn encode_payload<T: Serialize>(value: &T) -> Vec<u8> {
    bincode::serde::encode_to_vec(value, FORMAT).expect("values of the crate's own types have an encoding")
}

/// The value that [`encode_payload`] wrote.
///
/// # Errors
/// [`FrameError::Undecodable`].
pub fn decode_payload<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, FrameError> {
    let undecodable = |problem: String| FrameError::Undecodable { problem };
    let (value, read) = bincode::serde::borrow_decode_from_slice(payload, FORMAT)
        .map_err(|error| undecodable(error.to_string()))?;
    if read != payload.len() {
        return Err(undecodable(format!("{} bytes are left over", payload.len() - read)));
    }
    Ok(value)
}

/// For fields of `Bytes`: one length and one copy, whatever their size (`#[serde(with = "frame::payload")]`).
pub mod payload {
    use bytes::Bytes;
    use serde::{Deserializer, Serializer, de};
    use std::fmt;

    /// Writes the length and the bytes.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    struct Visitor;

    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Bytes, E> {
            Ok(Bytes::copy_from_slice(bytes))
        }
    }

    /// Copies the bytes out of what is decoded, after their length was checked against what is there.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_bytes(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Bytes, BytesMut};
    use proptest::prelude::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        number: u64,
        #[serde(with = "payload")]
        data: Bytes,
        names: Vec<String>,
    }

    fn sample(data: Vec<u8>) -> Sample {
        Sample { number: 7, data: data.into(), names: vec!["a".into(), "bc".into()] }
    }

    #[test]
    fn a_frame_is_a_length_a_checksum_and_fixed_width_numbers() {
        let mut bytes = Vec::new();
        assert_eq!(encode(&(0x0102_u16, 5_u64), &mut bytes), Ok(18));
        assert_eq!(bytes[..4], [10, 0, 0, 0]);
        assert_eq!(bytes[8..], [2, 1, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode::<(u16, u64)>(&bytes, 10), Ok(((0x0102, 5), 18)));
    }

    #[test]
    fn every_cut_is_short_and_every_flip_is_found() {
        let mut bytes = Vec::new();
        encode(&sample(b"hello".to_vec()), &mut bytes).unwrap();
        for end in 0..bytes.len() {
            let error = decode::<Sample>(&bytes[..end], 1_000).unwrap_err();
            assert!(matches!(error, FrameError::Short { .. }), "{end}: {error}");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = decode::<Sample>(&bytes, 1_000).unwrap_err();
            assert!(!matches!(error, FrameError::Undecodable { .. }), "bit {bit}: {error}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn zeros_are_no_frame_and_limits_are_kept() {
        let error = decode::<()>(&[0; 64], 1_000).unwrap_err();
        assert!(matches!(error, FrameError::Checksum { .. }), "{error}");
        assert_eq!(frame_bytes(&[9, 0, 0, 0], 8), Err(FrameError::TooLong { length: 9, limit: 8 }));
        assert_eq!(frame_bytes(&[9, 0, 0], 8), Ok(None));
        assert_eq!(frame_bytes(&[9, 0, 0, 0], 9), Ok(Some(17)));
    }

    #[test]
    fn an_intact_payload_of_another_kind_is_undecodable() {
        let mut bytes = Vec::new();
        encode(&(1_u64, 2_u64), &mut bytes).unwrap();
        assert!(matches!(decode::<u64>(&bytes, 100), Err(FrameError::Undecodable { .. })));
        assert!(matches!(decode::<(u64, u64, u64)>(&bytes, 100), Err(FrameError::Undecodable { .. })));
        let mut lying = Vec::new();
        encode(&u64::MAX, &mut lying).unwrap();
        assert!(matches!(decode::<Vec<u64>>(&lying, 100), Err(FrameError::Undecodable { .. })));
        assert!(matches!(decode::<String>(&lying, 100), Err(FrameError::Undecodable { .. })));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(data in proptest::collection::vec(any::<u8>(), 0..2_000), before in 0_usize..9) {
            let value = sample(data);
            let mut bytes = BytesMut::from(&[9_u8; 8][..before.min(8)]);
            let start = bytes.len();
            let written = encode(&value, &mut bytes).unwrap();
            bytes.put_slice(b"what follows");
            prop_assert_eq!(decode::<Sample>(&bytes[start..], MAX_PAYLOAD_BYTES), Ok((value, written)));
        }

        #[test]
        fn hostile_bytes_are_refused_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode::<Sample>(&bytes, 1_000).is_err());
        }
    }
}
