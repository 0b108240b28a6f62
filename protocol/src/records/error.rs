//! What can be wrong with a record batch. Owns the typed error of this module and the mapping to the
//! error code a broker answers with. Never formats bytes of a record into a message: those
//! are the user's data.

use super::compression::{Compression, CompressionError};
use crate::ErrorCode;

/// Why bytes are not a record batch, or why a batch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the batch does. At the end of a fetched byte run this is no fault: a fetch may
    /// end in the middle of a batch.
    #[error("record batch is cut short: {needed} bytes are needed, {available} are there")]
    Truncated {
        /// Bytes needed to go on.
        needed: usize,
        /// Bytes at hand.
        available: usize,
    },
    /// There is no batch at all where one is needed.
    #[error("no record batch")]
    NoBatch,
    /// More bytes follow where exactly one batch is allowed.
    #[error("{bytes} bytes follow the one record batch that is allowed")]
    MoreThanOneBatch {
        /// Bytes after the first batch.
        bytes: usize,
    },
    /// The batch length field is negative or less than a batch header takes.
    #[error("record batch length {length} is less than a batch header takes")]
    BatchLength {
        /// The field as it stands.
        length: i32,
    },
    /// A message set in the format of Kafka before 0.11 (magic 0 or 1), which is not supported.
    #[error("message format with magic {magic} is not supported, only record batches with magic 2 are")]
    OldFormat {
        /// 0 or 1.
        magic: i8,
    },
    /// A magic value that no version of the format has.
    #[error("unknown record batch magic {magic}")]
    UnknownMagic {
        /// The field as it stands.
        magic: i8,
    },
    /// The checksum does not match the bytes.
    #[error("record batch checksum is {stored:#010x}, but the bytes give {computed:#010x}")]
    Checksum {
        /// The field as it stands.
        stored: u32,
        /// CRC-32C of the bytes.
        computed: u32,
    },
    /// The record count is negative, zero where records are needed, or more than the bytes can hold.
    #[error("record count {count} is invalid for this batch")]
    RecordCount {
        /// The field as it stands.
        count: i32,
    },
    /// The range of offsets is invalid: negative, past the largest offset, or at odds with the count.
    #[error("offset range is invalid: base {base_offset}, last delta {last_offset_delta}, {count} records")]
    OffsetRange {
        /// Base offset of the batch.
        base_offset: i64,
        /// Last offset delta of the batch.
        last_offset_delta: i32,
        /// Record count of the batch.
        count: i32,
    },
    /// A produced batch has a base offset other than 0: only the leader assigns offsets.
    #[error("base offset of a produced batch must be 0, it is {base_offset}")]
    BaseOffset {
        /// The field as it stands.
        base_offset: i64,
    },
    /// A batch with a producer id must have a sequence.
    #[error("batch of producer {producer_id} has the invalid base sequence {base_sequence}")]
    Sequence {
        /// Producer id of the batch.
        producer_id: i64,
        /// Base sequence of the batch.
        base_sequence: i32,
    },
    /// A transactional batch without a producer id belongs to no transaction.
    #[error("transactional batch has no producer id")]
    TransactionalWithoutProducer,
    /// Only brokers write control batches.
    #[error("clients may not write control batches")]
    ControlFromClient,
    /// The compression bits have a value that no codec has.
    #[error("unknown compression type {id}")]
    UnknownCompression {
        /// The three bits as they stand.
        id: u8,
    },
    /// The codec is not allowed in the version of the produce request (KIP-110: zstd from version 7 on).
    #[error("compression type {compression} is not allowed in produce requests of version {version}")]
    CompressionVersion {
        /// Codec of the batch.
        compression: Compression,
        /// Version of the produce request.
        version: i16,
    },
    /// The records were asked for as plain bytes, but they are compressed.
    #[error("records are compressed with {compression}")]
    Compressed {
        /// Codec of the batch.
        compression: Compression,
    },
    /// The records cannot be decompressed.
    #[error(transparent)]
    Decompress(#[from] CompressionError),
    /// One record is malformed.
    #[error("record {index}: {fault}")]
    Record {
        /// Place of the record in its batch, from 0.
        index: i32,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// Bytes follow the last record.
    #[error("{bytes} bytes follow the last record of the batch")]
    TrailingRecordBytes {
        /// How many.
        bytes: usize,
    },
}

/// What is wrong with one record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// A field ends after the record, or the record after the batch.
    #[error("a field takes {needed} bytes, {available} are left")]
    Truncated {
        /// Bytes the field takes.
        needed: usize,
        /// Bytes left.
        available: usize,
    },
    /// A variable-length number does not end in the bytes its type allows.
    #[error("variable-length number is malformed")]
    Varint,
    /// A length or count is negative where it may not be, or below -1 where -1 means null.
    #[error("length or count {length} is invalid")]
    Length {
        /// The field as it stands.
        length: i32,
    },
    /// More headers are claimed than the bytes can hold.
    #[error("{count} headers are claimed in {available} bytes")]
    HeaderCount {
        /// The field as it stands.
        count: i32,
        /// Bytes left for them.
        available: usize,
    },
    /// The record is longer than its fields.
    #[error("{bytes} bytes are left after the fields of the record")]
    TrailingBytes {
        /// How many.
        bytes: usize,
    },
    /// The offset delta is not above the one before, or is outside of the range of the batch.
    #[error("offset delta {offset_delta} is out of order or outside of the batch")]
    OffsetDelta {
        /// The field as it stands.
        offset_delta: i32,
    },
}

impl RecordError {
    /// The Kafka error for it, as the broker of Kafka 4.x answers a produce request.
    ///
    /// Old formats (magic 0 and 1) are `INVALID_RECORD` there, not `UNSUPPORTED_FOR_MESSAGE_FORMAT`: the
    /// latter was for logs kept in an older format than the request, which Kafka 4.0 dropped (KIP-724).
    /// A batch that ends too early also is `INVALID_RECORD`: Kafka sees no batch in it.
    #[must_use]
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::BatchLength { .. } | Self::UnknownMagic { .. } | Self::Checksum { .. } => {
                ErrorCode::CORRUPT_MESSAGE
            }
            Self::UnknownCompression { .. } | Self::CompressionVersion { .. } => {
                ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
            }
            Self::Decompress(CompressionError::LimitExceeded { .. }) => ErrorCode::MESSAGE_TOO_LARGE,
            Self::Truncated { .. }
            | Self::NoBatch
            | Self::MoreThanOneBatch { .. }
            | Self::OldFormat { .. }
            | Self::RecordCount { .. }
            | Self::OffsetRange { .. }
            | Self::BaseOffset { .. }
            | Self::Sequence { .. }
            | Self::TransactionalWithoutProducer
            | Self::ControlFromClient
            | Self::Compressed { .. }
            | Self::Decompress(CompressionError::Corrupt { .. })
            | Self::Record { .. }
            | Self::TrailingRecordBytes { .. } => ErrorCode::INVALID_RECORD,
        }
    }
}
