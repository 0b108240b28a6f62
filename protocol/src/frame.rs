//! Frames: a size of four bytes, then so many bytes. Pure: the caller reads and writes the sockets.
//! A peer cannot make the reader allocate more than it has really sent (up to one doubling).

use bytes::{Buf, Bytes, BytesMut};

use crate::messages::{RequestHeader, ResponseHeader};
use crate::wire::{EncodeError, Encoder, Message, Request};

/// Bytes of the size in front of each frame.
pub const SIZE_PREFIX: usize = 4;

/// The least room that [`FrameReader::buffer`] offers to a read.
const READ_STEP: usize = 16 * 1024;

/// Why a stream of frames cannot go on. The connection is of no more use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A size below zero.
    #[error("frame size {size} is negative")]
    NegativeSize {
        /// The size that was read.
        size: i32,
    },
    /// A size above the limit.
    #[error("frame of {size} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The size that was read, in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

/// Cuts a stream of bytes into frames.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    limit: usize,
}

impl FrameReader {
    /// A reader that refuses frames above `limit` bytes (`socket.request.max.bytes`).
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }

    /// The buffer to read the socket into: append only. There is room for at least some kilobytes, and
    /// for a large frame that has begun to arrive, for as much again as has arrived.
    pub fn buffer(&mut self) -> &mut BytesMut {
        let missing =
            self.announced_size().map_or(0, |size| (size + SIZE_PREFIX).saturating_sub(self.buffer.len()));
        self.buffer.reserve(missing.min(self.buffer.len()).max(READ_STEP));
        &mut self.buffer
    }

    /// Appends bytes that were read elsewhere.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether no frame has been begun: the peer may close here without losing anything.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The size of the frame being received, if it is known and within the limit.
    fn announced_size(&self) -> Option<usize> {
        let size = usize::try_from(self.buffer.get(..SIZE_PREFIX)?.get_i32()).ok()?;
        (size <= self.limit).then_some(size)
    }

    /// Takes the next whole frame, without its size; `None` if more bytes are needed.
    ///
    /// # Errors
    /// A size below zero or above the limit. The same error is given again on further calls.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(mut prefix) = self.buffer.get(..SIZE_PREFIX) else { return Ok(None) };
        let size = prefix.get_i32();
        let size = usize::try_from(size).map_err(|_| FrameError::NegativeSize { size })?;
        if size > self.limit {
            return Err(FrameError::TooLarge { size, limit: self.limit });
        }
        if self.buffer.len() - SIZE_PREFIX < size {
            return Ok(None);
        }
        self.buffer.advance(SIZE_PREFIX);
        Ok(Some(self.buffer.split_to(size).freeze()))
    }
}

/// Appends one frame whose content `write` encodes. Its size counts the deferred bytes too.
///
/// # Errors
/// Whatever `write` gives, or a frame above 2^31 - 1 bytes. Then nothing has been appended.
pub fn encode_frame(
    encoder: &mut Encoder,
    write: impl FnOnce(&mut Encoder) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = encoder.buffer.len();
    let deferred_before = encoder.deferred.len();
    encoder.put_i32(0);
    let size = write(encoder).and_then(|()| {
        let deferred: usize = encoder.deferred[deferred_before..].iter().map(|part| part.length).sum();
        let length = encoder.buffer.len() - start - SIZE_PREFIX + deferred;
        i32::try_from(length).map_err(|_| EncodeError::TooLong { length })
    });
    match size {
        Ok(size) => {
            encoder.buffer[start..start + SIZE_PREFIX].copy_from_slice(&size.to_be_bytes());
            Ok(())
        }
        Err(error) => {
            encoder.truncate(start, deferred_before);
            Err(error)
        }
    }
}

/// Appends a whole request frame: size, header, body.
///
/// # Errors
/// A request that `version` cannot carry. Then nothing has been appended.
pub fn encode_request<R: Request>(
    encoder: &mut Encoder,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    request: &R,
) -> Result<(), EncodeError> {
    encode_frame(encoder, |encoder| {
        RequestHeader::encode_parts(
            encoder,
            R::request_header_version(version),
            R::API_KEY.code(),
            version,
            correlation_id,
            client_id,
        )?;
        request.encode(version, encoder)
    })
}

/// Appends a whole response frame to a request of type `R`: size, header, body.
///
/// # Errors
/// A response that `version` cannot carry. Then nothing has been appended.
pub fn encode_response<R: Request>(
    encoder: &mut Encoder,
    version: i16,
    correlation_id: i32,
    response: &R::Response,
) -> Result<(), EncodeError> {
    encode_frame(encoder, |encoder| {
        ResponseHeader { correlation_id }.encode(R::response_header_version(version), encoder);
        response.encode(version, encoder)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(content: &[u8]) -> Vec<u8> {
        [&(content.len() as i32).to_be_bytes()[..], content].concat()
    }

    #[test]
    fn a_frame_comes_out_once_its_last_byte_is_in() {
        let mut reader = FrameReader::new(100);
        let bytes = framed(b"hello");
        for &byte in &bytes[..bytes.len() - 1] {
            reader.push(&[byte]);
            assert_eq!(reader.next_frame(), Ok(None));
        }
        reader.push(&bytes[bytes.len() - 1..]);
        assert_eq!(reader.next_frame(), Ok(Some(Bytes::from_static(b"hello"))));
        assert!(reader.is_empty());
    }

    #[test]
    fn hostile_sizes_are_errors_before_any_allocation() {
        for (size, error) in [
            (-1, FrameError::NegativeSize { size: -1 }),
            (i32::MIN, FrameError::NegativeSize { size: i32::MIN }),
            (101, FrameError::TooLarge { size: 101, limit: 100 }),
            (i32::MAX, FrameError::TooLarge { size: i32::MAX as usize, limit: 100 }),
        ] {
            let mut reader = FrameReader::new(100);
            reader.push(&i32::to_be_bytes(size));
            assert_eq!(reader.next_frame(), Err(error));
            assert_eq!(reader.next_frame(), Err(error));
            assert!(reader.buffer().capacity() <= 2 * READ_STEP);
        }
    }

    #[test]
    fn a_large_announced_frame_gets_room_only_as_it_arrives() {
        let mut reader = FrameReader::new(100 << 20);
        reader.push(&(100i32 << 20).to_be_bytes());
        assert!(reader.buffer().capacity() <= 2 * READ_STEP);
        reader.push(&[0; 1 << 20]);
        assert!(reader.buffer().capacity() <= 4 << 20);
    }

    #[test]
    fn the_size_counts_deferred_bytes_and_a_failed_frame_leaves_no_trace() {
        let mut encoder = Encoder::new();
        let format = crate::wire::Format { version: 4, flexible: false };
        encode_frame(&mut encoder, |encoder| encoder.put_deferred(format, 1000)).expect("fits");
        assert_eq!(&encoder.buffer[..], [0, 0, 3, 236, 0, 0, 3, 232]);
        let before = (encoder.buffer.clone(), encoder.deferred.clone());
        let result = encode_frame(&mut encoder, |encoder| {
            encoder.put_deferred(format, 5)?;
            Err(EncodeError::TooLong { length: 7 })
        });
        assert_eq!(result, Err(EncodeError::TooLong { length: 7 }));
        assert_eq!((encoder.buffer, encoder.deferred), before);
    }

    #[test]
    fn long_byte_strings_are_shared_and_the_frame_is_the_same() {
        use crate::messages::{ProducePartition, ProduceRequest, ProduceTopic};
        let partition = |index, length| ProducePartition { index, records: Some(vec![7; length].into()) };
        let topic = ProduceTopic {
            name: "orders".into(),
            partition_data: vec![partition(0, 100_000), partition(1, 10), partition(2, 2048)],
            ..Default::default()
        };
        let request = ProduceRequest { topic_data: vec![topic], ..Default::default() };
        let (mut copying, mut sharing) = (Encoder::new(), Encoder::sharing());
        encode_request(&mut copying, 9, 1, Some("c"), &request).expect("sayable");
        encode_request(&mut sharing, 9, 1, Some("c"), &request).expect("sayable");
        let parts = sharing.into_parts();
        assert_eq!(parts.len(), 5);
        let records = request.topic_data[0].partition_data[0].records.as_ref().expect("some");
        assert_eq!(parts[1].as_ptr(), records.as_ptr(), "not copied");
        assert_eq!(parts.into_iter().flatten().collect::<Vec<u8>>(), copying.buffer);
    }

    proptest! {
        #[test]
        fn frames_survive_any_chunking(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
            chunk in 1usize..64,
        ) {
            let stream: Vec<u8> = contents.iter().flat_map(|content| framed(content)).collect();
            let mut reader = FrameReader::new(200);
            let mut frames = Vec::new();
            for bytes in stream.chunks(chunk) {
                reader.buffer().extend_from_slice(bytes);
                while let Some(frame) = reader.next_frame().expect("sizes are in the limit") {
                    frames.push(frame.to_vec());
                }
            }
            prop_assert_eq!(frames, contents);
            prop_assert!(reader.is_empty());
        }
    }
}
