//! Snappy. Java's client and broker write the framing of snappy-java (xerial): a header, then blocks, each
//! after its length in four bytes. librdkafka and others write one raw block; both are read.
//!
//! A raw block states its decompressed length, and the library allocates by it. So the block is walked first,
//! which needs no memory: only a length that its elements really produce is believed.

use super::{Compression, CompressionError};

/// Start of the framing: magic, version and least compatible version.
const FRAMING: [u8; 16] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1];
/// Bytes that tell framing from a raw block. The versions are not looked at: there never was another.
const FRAMING_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Bytes of input in a block, as snappy-java's default.
const BLOCK: usize = 32 << 10;

pub(super) fn compress(input: &[u8]) -> Vec<u8> {
    let mut encoder = snap::raw::Encoder::new();
    let mut output = FRAMING.to_vec();
    for block in input.chunks(BLOCK) {
        let compressed = encoder.compress_vec(block).expect("a block is far below the limit of the format");
        let length = u32::try_from(compressed.len()).expect("a block stays small");
        output.extend_from_slice(&length.to_be_bytes());
        output.extend_from_slice(&compressed);
    }
    output
}

pub(super) fn decompress(input: &[u8], limit_bytes: usize) -> Result<Vec<u8>, CompressionError> {
    let mut output = Vec::new();
    if !input.starts_with(&FRAMING_MAGIC) {
        append_block(input, &mut output, limit_bytes)?;
        return Ok(output);
    }
    let mut rest = input;
    while !rest.is_empty() {
        // Streams may be joined: the header can come again. No block length begins as its magic does.
        if rest.starts_with(&FRAMING_MAGIC) {
            rest = rest.get(FRAMING.len()..).ok_or_else(|| corrupt("the header is cut short"))?;
            continue;
        }
        let (length, after) =
            rest.split_first_chunk().ok_or_else(|| corrupt("a block length is cut short"))?;
        let length = usize::try_from(i32::from_be_bytes(*length))
            .map_err(|_| corrupt("a block length is negative"))?;
        let (block, after) =
            after.split_at_checked(length).ok_or_else(|| corrupt("a block is longer than the input"))?;
        append_block(block, &mut output, limit_bytes)?;
        rest = after;
    }
    Ok(output)
}

fn append_block(block: &[u8], output: &mut Vec<u8>, limit_bytes: usize) -> Result<(), CompressionError> {
    let start = output.len();
    let length = produced_length(block, limit_bytes - start, limit_bytes)?;
    output.resize(start + length, 0);
    let written = snap::raw::Decoder::new().decompress(block, &mut output[start..]).map_err(corrupt)?;
    assert_eq!(written, length, "the walk and the decompression agree on a valid block");
    Ok(())
}

/// The bytes that the elements of a raw block produce, which must be what it states.
fn produced_length(block: &[u8], room: usize, limit_bytes: usize) -> Result<usize, CompressionError> {
    let (stated, mut rest) = stated_length(block)?;
    let mut produced = 0usize;
    while let Some((tag, after)) = rest.split_first() {
        let upper = usize::from(tag >> 2);
        let (length, offset_bytes) = match tag & 0b11 {
            0b00 => {
                let extra_bytes = upper.saturating_sub(59);
                let (length, after) = little_endian(after, extra_bytes)?;
                let length = if extra_bytes == 0 { upper } else { length } + 1;
                rest = after.get(length..).ok_or_else(|| corrupt("a literal is longer than its block"))?;
                produced += length;
                (0, None)
            }
            0b01 => (4 + (upper & 0b111), Some((1, (upper >> 3) << 8))),
            0b10 => (upper + 1, Some((2, 0))),
            _ => (upper + 1, Some((4, 0))),
        };
        if let Some((bytes, high_bits)) = offset_bytes {
            let (low_bits, after) = little_endian(after, bytes)?;
            let offset = high_bits | low_bits;
            if offset == 0 || offset > produced {
                return Err(corrupt("a copy reaches back before the start"));
            }
            rest = after;
            produced += length;
        }
        if produced > room {
            return Err(CompressionError::LimitExceeded { limit_bytes });
        }
    }
    if produced != stated {
        return Err(corrupt(format_args!("a block states {stated} bytes, but produces {produced}")));
    }
    Ok(produced)
}

/// The length at the front of a raw block (a little-endian base-128 number of 32 bits), and what follows.
fn stated_length(block: &[u8]) -> Result<(usize, &[u8]), CompressionError> {
    let mut length = 0u64;
    for (index, byte) in block.iter().take(5).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let length = u32::try_from(length).map_err(|_| corrupt("the length passes 32 bits"))?;
            return Ok((length as usize, &block[index + 1..]));
        }
    }
    Err(corrupt("the length does not end"))
}

/// A little-endian number of at most four bytes, and what follows.
fn little_endian(bytes: &[u8], width: usize) -> Result<(usize, &[u8]), CompressionError> {
    let (number, rest) = bytes.split_at_checked(width).ok_or_else(|| corrupt("an element is cut short"))?;
    Ok((number.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest))
}

fn corrupt(reason: impl std::fmt::Display) -> CompressionError {
    Compression::Snappy.corrupt(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_form_is_that_of_snappy_java() {
        let output = compress(&[b'a'; BLOCK + 1]);
        assert_eq!(output[..16], FRAMING);
        let first = u32::from_be_bytes(output[16..20].try_into().unwrap()) as usize;
        assert_eq!(snap::raw::decompress_len(&output[20..20 + first]), Ok(BLOCK));
        let second = &output[20 + first..];
        assert_eq!(second, [0, 0, 0, 3, 1, 0, b'a']);
    }

    #[test]
    fn raw_and_joined_streams_are_read() {
        let raw = snap::raw::Encoder::new().compress_vec(b"raw raw raw raw raw raw raw").unwrap();
        assert_eq!(decompress(&raw, 27).unwrap(), b"raw raw raw raw raw raw raw");
        let joined = [compress(b"first "), compress(b"second")].concat();
        assert_eq!(decompress(&joined, 100).unwrap(), b"first second");
        assert_eq!(decompress(&[0], 0).unwrap(), b"");
    }

    #[test]
    fn a_claimed_length_is_not_believed() {
        let claim = [0xff, 0xff, 0xff, 0xff, 0x0f];
        let error = decompress(&claim, usize::MAX).unwrap_err();
        assert!(matches!(error, CompressionError::Corrupt { .. }), "{error}");
        let too_wide = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert!(decompress(&too_wide, usize::MAX).is_err());
        let negative_block = [&FRAMING[..], &[0xff, 0xff, 0xff, 0xff]].concat();
        assert!(decompress(&negative_block, usize::MAX).is_err());
    }

    proptest! {
        /// The walk takes and refuses the same blocks as the library.
        #[test]
        fn the_walk_agrees_with_the_library(
            input in proptest::collection::vec(0u8..4, 0..3000),
            damage in proptest::option::of((any::<proptest::sample::Index>(), any::<u8>())),
        ) {
            let mut block = snap::raw::Encoder::new().compress_vec(&input).unwrap();
            if let Some((place, value)) = damage {
                let place = place.index(block.len());
                block[place] = value;
            }
            let stated = snap::raw::decompress_len(&block).unwrap_or(usize::MAX);
            prop_assume!(stated < 1 << 20);
            let library = snap::raw::Decoder::new().decompress_vec(&block);
            prop_assert_eq!(decompress(&block, 1 << 20).ok(), library.ok());
        }
    }
}
