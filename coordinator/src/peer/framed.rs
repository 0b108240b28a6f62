//! Frames on a connection between members. Owns the read buffer; never interprets a frame.

use crate::frame::{self, FrameError};
use bytes::{Buf, BytesMut};
use serde::{Serialize, de::DeserializeOwned};
use sillon_runtime::{ReadHalf, WriteHalf};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How much is read at a time at least.
const READ_CHUNK_BYTES: usize = 64 * 1024;
/// The longest frame of a greeting: whoever has not been let in gets no more memory than that.
pub(super) const GREETING_LIMIT_BYTES: usize = 4 * 1024;
/// The longest frame of a member.
pub(super) const LIMIT_BYTES: usize = frame::MAX_PAYLOAD_BYTES;

/// Why a connection between members ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("what arrived is damaged: {0}")]
    Frame(#[from] FrameError),
    #[error("the other side has closed the connection")]
    Closed,
    #[error("nothing was heard for too long")]
    Silent,
    #[error("refused: {0}")]
    Refused(String),
    #[error("an unexpected answer")]
    Unexpected,
    #[error("snapshot: {0}")]
    Storage(#[from] crate::storage::StorageError),
    #[error("the member has ended")]
    MemberEnded,
}

/// The receiving half.
pub(super) struct FrameReader {
    reader: Box<dyn ReadHalf>,
    buffer: BytesMut,
}

impl FrameReader {
    pub fn new(reader: Box<dyn ReadHalf>) -> FrameReader {
        FrameReader { reader, buffer: BytesMut::new() }
    }

    /// The next frame. Loses nothing where it is dropped before it is ready.
    pub async fn next<T: DeserializeOwned>(&mut self, limit_bytes: usize) -> Result<T, PeerError> {
        loop {
            if let Some(needed) = frame::frame_bytes(&self.buffer, limit_bytes)?
                && self.buffer.len() >= needed
            {
                let (value, length) = frame::decode(&self.buffer, limit_bytes)?;
                self.buffer.advance(length);
                return Ok(value);
            }
            if self.buffer.capacity() - self.buffer.len() < READ_CHUNK_BYTES / 2 {
                // No more than twice of what has arrived, whatever a length claims.
                self.buffer.reserve(READ_CHUNK_BYTES.max(self.buffer.len()));
            }
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                return Err(PeerError::Closed);
            }
        }
    }
}

/// The sending half.
pub(super) struct FrameWriter {
    writer: Box<dyn WriteHalf>,
    buffer: BytesMut,
}

impl FrameWriter {
    pub fn new(writer: Box<dyn WriteHalf>) -> FrameWriter {
        FrameWriter { writer, buffer: BytesMut::new() }
    }

    /// Appends a frame to what is sent next.
    pub fn put<T: Serialize>(&mut self, value: &T) -> Result<(), PeerError> {
        frame::encode(value, &mut self.buffer)?;
        Ok(())
    }

    /// How many bytes wait to be sent.
    pub fn waiting_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Sends everything that waits.
    pub async fn send(&mut self) -> Result<(), PeerError> {
        self.writer.write_all_buf(&mut self.buffer).await?;
        self.writer.flush().await?;
        Ok(())
    }
}
