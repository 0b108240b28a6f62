//! Record batches (format 2, KIP-98) as views over bytes.
//!
//! ```text
//!  produce request ─┐                          ┌─ stamp ─▶ log (vectored write)
//!  fetch response  ─┼─▶ RecordBatch<B> ─▶ validate_*
//!  segment file    ─┘        │                 └─ error_code ─▶ response
//!                            └─ decompress ─▶ records_in ─▶ Record, Headers
//!  BatchBuilder ─▶ Bytes
//! ```
//!
//! A broker handles batches without opening them: it reads the header, checks the checksum, stamps offset and
//! epoch, and writes the bytes as they came. Bytes from outside never panic, and never make it allocate
//! more than they really hold. The formats before (magic 0 and 1) are recognised and refused.

mod batch;
mod builder;
pub mod compression;
mod control;
mod crc;
mod error;
mod header;
mod iterate;
mod stamp;
mod validate;
mod varint;

#[cfg(test)]
mod tests;

pub use batch::{BatchView, RecordBatch, SplitBatches, SplitViews, split_batches, split_views};
pub use builder::BatchBuilder;
pub use compression::{Compression, CompressionError};
pub use control::{CONTROL_RECORD_VERSION, EndTransactionMarker, MarkerKind};
pub use crc::{crc32c, crc32c_of_parts};
pub use error::{RecordError, RecordFault};
pub use header::{
    BATCH_OVERHEAD, BatchHeader, LOG_OVERHEAD, MAGIC, MAGIC_END, NO_LEADER_EPOCH, NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, TimestampType, batch_size, increment_sequence,
};
pub use iterate::{Header, Headers, Record, RecordIterator};
pub use stamp::{
    STAMPED_PREFIX, set_log_append_time, set_max_timestamp, set_producer, stamp, stamped_header,
    stamped_prefix,
};
pub use validate::{RecordsSummary, produce_batch};
