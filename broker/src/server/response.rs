//! An answer on its way to a socket: encoded bytes, with slices of log files in between. Owns the framing of answers.

use crate::log::LogSlice;
use bytes::BytesMut;
use sillon_protocol::{
    messages::ResponseHeader,
    wire::{EncodeError, Encoder, Message},
};
use sillon_runtime::File;
use std::sync::Arc;

/// A frame that is ready to be sent.
pub(crate) struct Response {
    /// The bytes around the slices, with the frame's length in front.
    pub(super) buffer: BytesMut,
    /// What lies in files, by position.
    pub(super) slices: Vec<FileSlice>,
}

/// Bytes of a log file that belong into the frame.
pub(super) struct FileSlice {
    /// Before which byte of the buffer.
    pub(super) position: usize,
    pub(super) file: Arc<dyn File>,
    pub(super) file_position: u64,
    pub(super) length: usize,
}

impl Response {
    /// Encodes an answer. `files` are the slices for the message's deferred records, in their order.
    ///
    /// # Errors
    /// Where the message has a field that this version cannot carry.
    pub(crate) fn new<M: Message>(
        correlation_id: i32,
        header_version: i16,
        message: &M,
        version: i16,
        files: Vec<LogSlice>,
    ) -> Result<Response, EncodeError> {
        let mut encoder = Encoder::with_buffer(BytesMut::with_capacity(256));
        encoder.put_i32(0);
        ResponseHeader { correlation_id }.encode(header_version, &mut encoder);
        message.encode(version, &mut encoder)?;
        let Encoder { mut buffer, deferred, .. } = encoder;
        assert_eq!(deferred.len(), files.len(), "each deferred run of records has its slice of a file");
        let mut total = buffer.len() - 4;
        let mut slices = Vec::with_capacity(files.len());
        for (place, slice) in deferred.iter().zip(files) {
            assert_eq!(place.length, slice.length, "the length told is the length sent");
            total += slice.length;
            slices.push(FileSlice {
                position: place.position,
                file: slice.file,
                file_position: slice.position,
                length: slice.length,
            });
        }
        let total = i32::try_from(total).expect("fetch.max.bytes keeps an answer below 2 GiB");
        buffer[..4].copy_from_slice(&total.to_be_bytes());
        Ok(Response { buffer, slices })
    }
}
