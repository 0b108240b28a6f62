//! One batch on its way from its first record to its outcome. Owns its bytes, and that they are encoded once: sent again
//! under the same sequence number they are the same bytes.

use super::{ProducerRecord, delivery::Outcome};
use bytes::{Bytes, BytesMut};
use sillon_protocol::records::{BATCH_OVERHEAD, BatchBuilder, Compression, set_producer};
use sillon_runtime::Monotonic;
use std::sync::Arc;

/// Who writes, as brokers know an idempotent producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// Where a batch stands among those of its producer and partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) identity: Identity,
    pub(super) base: i32,
}

/// The records of a batch.
#[derive(Debug)]
pub(super) enum Content {
    /// Being written, or never sent yet.
    Open(BatchBuilder),
    /// As it was sent last, under that sequence number.
    Built(Bytes, Option<Sequence>),
}

impl Content {
    /// The bytes to send under this sequence number. Compresses and computes the checksum, which may take long.
    pub(super) fn build(self, sequence: Option<Sequence>, compression: Compression) -> Bytes {
        match (self, sequence) {
            (Content::Open(builder), None) => builder.build(compression),
            (Content::Open(builder), Some(Sequence { identity, base })) => {
                builder.producer(identity.id, identity.epoch, base).build(compression)
            }
            (Content::Built(bytes, before), now) if before == now => bytes,
            (Content::Built(bytes, _), Some(Sequence { identity, base })) => {
                let mut bytes = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                set_producer(&mut bytes, identity.id, identity.epoch, base);
                bytes.freeze()
            }
            (Content::Built(bytes, _), None) => bytes,
        }
    }
}

/// A batch of one partition.
#[derive(Debug)]
pub(super) struct Batch {
    /// Rises with every batch of a producer: the order of sending within a partition.
    pub(super) id: u64,
    pub(super) outcome: Arc<Outcome>,
    /// When its first record came.
    pub(super) created: Monotonic,
    /// How much of the buffer it holds.
    pub(super) room: usize,
    pub(super) records: i32,
    /// Whether more records may join.
    pub(super) open: bool,
    /// `None` while its bytes are elsewhere to be sent.
    pub(super) content: Option<Content>,
    pub(super) sequence: Option<Sequence>,
    /// How often sending failed.
    pub(super) failures: u32,
    /// Not to be sent again before.
    pub(super) retry_at: Monotonic,
    /// Whether its outcome was told already, because it took too long.
    pub(super) told: bool,
}

impl Batch {
    pub(super) fn new(id: u64, now: Monotonic, room: usize) -> Batch {
        Batch {
            id,
            outcome: Arc::default(),
            created: now,
            room,
            records: 0,
            open: true,
            content: Some(Content::Open(BatchBuilder::with_capacity(room - BATCH_OVERHEAD))),
            sequence: None,
            failures: 0,
            retry_at: Monotonic::default(),
            told: false,
        }
    }

    /// Adds a record if it fits, and gives its place in the batch.
    pub(super) fn add(&mut self, record: &ProducerRecord<'_>, timestamp: i64) -> Option<i32> {
        let Some(Content::Open(builder)) = &mut self.content else { return None };
        if !self.open || self.records > 0 && builder.size_bytes() + record.bound() > self.room {
            self.open = false;
            return None;
        }
        builder.add(timestamp, record.key, record.value, record.headers.iter().copied());
        let index = self.records;
        self.records += 1;
        Some(index)
    }

    /// Bytes before compression, or as sent.
    pub(super) fn size_bytes(&self) -> usize {
        match &self.content {
            Some(Content::Open(builder)) => builder.size_bytes(),
            Some(Content::Built(bytes, _)) => bytes.len(),
            None => 0,
        }
    }
}
