//! gzip by flate2.

use super::{Compression, CompressionError, read_to_limit};
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::Write;

pub(super) fn compress(input: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(input).expect("a vector takes all");
    encoder.finish().expect("a vector takes all")
}

pub(super) fn decompress(input: &[u8], limit_bytes: usize) -> Result<Vec<u8>, CompressionError> {
    read_to_limit(Compression::Gzip, MultiGzDecoder::new(input), input.len(), limit_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_joined() {
        let joined = [compress(b"first "), compress(b"second")].concat();
        assert_eq!(decompress(&joined, 100).unwrap(), b"first second");
    }
}
