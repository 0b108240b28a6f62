//! Reading a partition of the offsets topic from its start to where its leader began. Owns the way from files to
//! records; what they say is `load`'s.

use super::Loader;
use crate::{
    log::{LogSlice, ReadError},
    partition::{Bell, Interest, Partition},
    types::{LeaderEpoch, Offset},
};
use bytes::Bytes;
use sillon_protocol::records::{RecordBatch, RecordError, split_batches};
use std::{io, sync::Arc};

/// No batch is opened to more than this.
const BATCH_LIMIT_BYTES: usize = 1 << 30;

/// Why groups cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("this broker does not lead the partition any more")]
    NotLeader,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the log cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("a batch of the log is damaged: {0}")]
    Batch(#[from] RecordError),
}

/// Reads all that was in the log when this broker began to lead, once it is committed. Gives up to where that was.
pub(super) async fn read_partition(
    partition: &Partition,
    leader_epoch: LeaderEpoch,
    buffer_bytes: usize,
) -> Result<(Loader, Offset), LoadError> {
    let log = partition.log();
    let end = log.log_end_offset();
    wait_until_committed(partition, leader_epoch, end).await?;
    let mut loader = Loader::default();
    let mut next = log.log_start_offset();
    while next < end {
        let slice = match log.read(next, buffer_bytes, end, true).await {
            Err(ReadError::OutOfRange { log_start, .. }) if next < log_start => {
                next = log_start;
                continue;
            }
            slice => slice?,
        };
        // What compaction has left may end before the log does (B58).
        if slice.length == 0 || slice.next_offset <= next {
            break;
        }
        for batch in split_batches(&bytes_of(&slice).await?) {
            add_batch(&mut loader, &batch?, partition)?;
        }
        next = slice.next_offset;
    }
    Ok((loader, end))
}

/// What is not committed may still be lost: a coordinator that answered from it would take it back later (I38).
async fn wait_until_committed(
    partition: &Partition,
    leader_epoch: LeaderEpoch,
    end: Offset,
) -> Result<(), LoadError> {
    let bell = Arc::new(Bell::default());
    let _ticket = partition.wait(bell.clone(), 0, Interest::Committed);
    loop {
        if !partition.is_leader() || partition.leader_epoch() != leader_epoch {
            return Err(LoadError::NotLeader);
        }
        if partition.high_watermark() >= end {
            return Ok(());
        }
        bell.rung().await;
    }
}

async fn bytes_of(slice: &LogSlice) -> io::Result<Bytes> {
    let mut bytes = vec![0; slice.length];
    let mut read = 0;
    while read < bytes.len() {
        match slice.file.read_at(&mut bytes[read..], slice.position + read as u64).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => read += count,
        }
    }
    Ok(bytes.into())
}

fn add_batch(loader: &mut Loader, batch: &RecordBatch, partition: &Partition) -> Result<(), RecordError> {
    if batch.is_control() {
        return Ok(());
    }
    let body = batch.decompress(BATCH_LIMIT_BYTES)?;
    for record in batch.records_in(&body) {
        let record = record?;
        let Some(key) = record.key().map(Bytes::copy_from_slice) else { continue };
        let value = record.value().map(Bytes::copy_from_slice);
        if let Err(error) = loader.add(&key, value.as_ref(), record.timestamp()) {
            let offset = record.offset();
            tracing::warn!(partition = %partition.name(), offset, %error, "a record of a group cannot be read; it is left out");
        }
    }
    Ok(())
}
