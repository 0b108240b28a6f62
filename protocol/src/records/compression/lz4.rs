//! LZ4 frames by the C library. It takes up to two blocks of scratch memory for a frame, whose size the
//! format bounds (at most 4 MiB each).

use super::{Compression, CompressionError, read_to_limit};
use lz4::liblz4::BlockChecksum;
use lz4::{BlockMode, BlockSize, ContentChecksum, Decoder, EncoderBuilder};
use std::io::Write;

pub(super) fn compress(input: &[u8]) -> Vec<u8> {
    let mut encoder = EncoderBuilder::new()
        .block_size(BlockSize::Max64KB)
        // Java's client reads no other.
        .block_mode(BlockMode::Independent)
        .block_checksum(BlockChecksum::NoBlockChecksum)
        .checksum(ContentChecksum::NoChecksum)
        .build(Vec::new())
        .expect("the settings are valid");
    encoder.write_all(input).expect("a vector takes all");
    let (output, result) = encoder.finish();
    result.expect("a vector takes all");
    output
}

pub(super) fn decompress(input: &[u8], limit_bytes: usize) -> Result<Vec<u8>, CompressionError> {
    let mut decoder = Decoder::new(input).map_err(|error| Compression::Lz4.corrupt(error))?;
    let output = read_to_limit(Compression::Lz4, &mut decoder, input.len(), limit_bytes)?;
    let (_, finished) = decoder.finish();
    finished.map_err(|_| Compression::Lz4.corrupt("the frame does not end"))?;
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_descriptor_is_the_one_java_writes() {
        let frame = compress(b"some records");
        assert_eq!(frame[..4], [0x04, 0x22, 0x4d, 0x18]);
        // Version 1, independent blocks, no checksums of blocks or content, no size; blocks of 64 KiB.
        assert_eq!(frame[4..6], [0x60, 0x40]);
        // KIP-57: second byte of xxHash32 of the two descriptor bytes, not of the magic too.
        assert_eq!(frame[6], 0x82);
        assert_eq!(frame[frame.len() - 4..], [0; 4]);
    }
}
