//! zstd by the C library, one shot into the output. That needs no window buffer, so that the window a frame
//! claims costs nothing.

use super::{Compression, CompressionError};
use zstd::zstd_safe::{DCtx, get_error_name, get_frame_content_size, zstd_sys::ZSTD_ErrorCode};

pub(super) fn compress(input: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(input, zstd::DEFAULT_COMPRESSION_LEVEL).expect("the output is sized for any input")
}

pub(super) fn decompress(input: &[u8], limit_bytes: usize) -> Result<Vec<u8>, CompressionError> {
    if input.is_empty() {
        return Err(Compression::Zstd.corrupt("no frame"));
    }
    let mut context = DCtx::create();
    let mut capacity = first_capacity(input, limit_bytes);
    loop {
        let mut output = Vec::with_capacity(capacity);
        match context.decompress(&mut output, input) {
            Ok(_) if output.len() <= limit_bytes => return Ok(output),
            Ok(_) => return Err(CompressionError::LimitExceeded { limit_bytes }),
            // So much was produced that it is full: try again with twice the room.
            Err(code) if is_output_too_small(code) && capacity < limit_bytes => {
                capacity = capacity.saturating_mul(2).min(limit_bytes);
            }
            Err(code) if is_output_too_small(code) => {
                return Err(CompressionError::LimitExceeded { limit_bytes });
            }
            Err(code) => return Err(Compression::Zstd.corrupt(get_error_name(code))),
        }
    }
}

/// Room to start with: generous, because too little means to start over; what the frame claims only makes it
/// less.
fn first_capacity(input: &[u8], limit_bytes: usize) -> usize {
    const FACTOR: usize = 16;
    const LEAST: usize = 4 << 10;
    let generous = input.len().saturating_mul(FACTOR);
    let claimed = match get_frame_content_size(input) {
        Ok(Some(size)) => usize::try_from(size).unwrap_or(usize::MAX),
        Ok(None) | Err(_) => usize::MAX,
    };
    generous.min(claimed).max(LEAST).min(limit_bytes)
}

/// zstd returns errors as negated codes.
fn is_output_too_small(code: usize) -> bool {
    code.wrapping_neg() == ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_joined() {
        let joined = [compress(b"first "), compress(b"second")].concat();
        assert_eq!(decompress(&joined, 100).unwrap(), b"first second");
    }

    #[test]
    fn a_frame_without_content_size_is_read() {
        let input = b"repeat ".repeat(100_000);
        let streamed = zstd::stream::encode_all(&input[..], 22).unwrap();
        assert_eq!(decompress(&streamed, input.len()).unwrap(), input);
    }
}
