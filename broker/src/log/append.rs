//! Appending. Owns the order of the steps; the decisions are in `validate`, `producer_state` and `roll`.
//!
//! Nothing is remembered of a batch before its bytes are in the file, and nothing can come between that and its
//! publication: a caller that goes away in the middle of an append leaves bytes that the next append overwrites.

use super::{
    Log, LogError, Writer,
    config::LogConfig,
    error::AppendError,
    producer_snapshot,
    producer_state::{AppendOrigin, Verdict},
    roll::{self, ActiveSegment},
    segment::Segment,
    validate,
};
use crate::{
    log::names,
    observe::Observation,
    types::{LeaderEpoch, Offset, ProducerId},
};
use bytes::Bytes;
use sillon_protocol::records::{
    BATCH_OVERHEAD, BatchBuilder, BatchHeader, Compression, EndTransactionMarker, RecordBatch, RecordError,
    TimestampType, split_batches, stamped_header,
};
use sillon_runtime::OpenOptions;
use std::{io, sync::Arc};

/// The most bytes that a batch may decompress to, where it has to be opened.
pub(super) const DECOMPRESSED_LIMIT_BYTES: usize = 100 << 20;

/// A batch is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// One past its last record.
    pub next_offset: Offset,
    /// The time stamp the leader gave it, in ms, where the topic says that it does.
    pub log_append_time_ms: Option<i64>,
    /// It was in the log already (idempotence); nothing was written.
    pub duplicate: bool,
    /// `flush.messages` was reached: flush up to `next_offset` before acknowledging anything.
    pub flush_due: bool,
}

impl Log {
    /// Appends one batch as the partition's leader, at the log's end and in `leader_epoch`.
    ///
    /// The batch must have been checked by `records::produce_batch` (a client's), or have been built by this broker.
    /// A duplicate of one of the producer's last five batches is not an error: its original offsets are given.
    ///
    /// # Errors
    /// [`AppendError`]; the log is then unchanged. [`AppendError::Offline`] also where this very append failed.
    pub async fn append_as_leader(
        &self,
        batch: RecordBatch,
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        self.append_from(batch, leader_epoch, AppendOrigin::Client).await
    }

    /// As [`Log::append_as_leader`], for what a coordinator on this broker writes: offsets without sequence numbers,
    /// transaction markers.
    ///
    /// # Errors
    /// As [`Log::append_as_leader`].
    pub async fn append_as_coordinator(
        &self,
        batch: RecordBatch,
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        self.append_from(batch, leader_epoch, AppendOrigin::Coordinator).await
    }

    async fn append_from(
        &self,
        batch: RecordBatch,
        leader_epoch: LeaderEpoch,
        origin: AppendOrigin,
    ) -> Result<Appended, AppendError> {
        let config = self.config();
        validate::check_size(batch.size_bytes(), &config)?;
        self.check_keys(&batch, &config).await?;
        let batch = self.recompress(batch, &config).await?;

        let mut writer = self.writer.lock().await;
        self.check_appendable()?;
        let marker = EndTransactionMarker::from_batch(&batch);
        if let Verdict::Duplicate { base_offset, next_offset, timestamp_ms } =
            writer.producers.check(&batch, marker, origin)?
        {
            let log_append_time = config.message_timestamp_type == TimestampType::LogAppendTime;
            return Ok(Appended {
                base_offset,
                next_offset,
                log_append_time_ms: log_append_time.then_some(timestamp_ms),
                duplicate: true,
                flush_due: self.is_flush_due(&config),
            });
        }
        let now_ms = self.context.runtime.unix_time().0;
        validate::check_timestamps(&batch, &config, now_ms)?;
        let base_offset = self.log_end_offset();
        self.enter_epoch(leader_epoch, base_offset).await?;
        self.roll_if_due(&mut writer, &batch, base_offset, &config).await?;
        let log_append_time_ms =
            (config.message_timestamp_type == TimestampType::LogAppendTime).then_some(now_ms.max(0));
        let header = stamped_header(&batch, base_offset.0, leader_epoch.0, log_append_time_ms);
        let next_offset = self.write(&mut writer, &header, batch.body(), marker, &config).await?;
        let flush_due = self.is_flush_due(&config);
        Ok(Appended { base_offset, next_offset, log_append_time_ms, duplicate: false, flush_due })
    }

    /// Appends what a leader gave, at the offsets and in the epochs that it gave. A batch that is cut off at the
    /// end of `batches` is left for the next fetch. Gives the log's end.
    ///
    /// # Errors
    /// [`AppendError`]; the batches before the one that failed are then in the log.
    pub async fn append_as_follower(&self, batches: &Bytes) -> Result<Offset, AppendError> {
        let config = self.config();
        let mut writer = self.writer.lock().await;
        self.check_appendable()?;
        for batch in split_batches(batches) {
            let batch = match batch {
                Err(RecordError::Truncated { .. }) => break,
                batch => batch?,
            };
            batch.validate_header()?;
            let (given, log_end) = (Offset(batch.base_offset()), self.log_end_offset());
            if given < log_end {
                return Err(AppendError::OutOfOrderOffset { given, log_end });
            }
            if given > log_end && !config.compact {
                // The leader compacted the log while that was the topic's policy.
                tracing::warn!(partition = %self.partition, %log_end, %given, "the leader's log has a gap");
            }
            validate::check_size(
                batch.size_bytes(),
                &LogConfig { max_message_bytes: u32::MAX, ..(*config).clone() },
            )?;
            self.forget_empty_epochs(LeaderEpoch(batch.leader_epoch())).await?;
            self.enter_epoch(LeaderEpoch(batch.leader_epoch()), given).await?;
            self.roll_if_due(&mut writer, &batch, given, &config).await?;
            let marker = EndTransactionMarker::from_batch(&batch);
            let header = *batch.as_bytes().first_chunk().expect("a parsed batch has a whole header");
            self.write(&mut writer, &header, batch.body(), marker, &config).await?;
        }
        Ok(self.log_end_offset())
    }

    /// Notes that this broker leads in `epoch` from here on, durably, before its first record (B04). Gives the
    /// offset where the epoch starts. Repeating it changes nothing.
    ///
    /// # Errors
    /// [`LogError::StaleLeaderEpoch`], [`LogError::Offline`].
    pub async fn start_leader_epoch(&self, epoch: LeaderEpoch) -> Result<Offset, LogError> {
        let _writer = self.writer.lock().await;
        self.check_online()?;
        self.enter_epoch(epoch, self.log_end_offset()).await?;
        let latest = self.view().epochs.latest().expect("the epoch was entered just now");
        Ok(latest.start_offset)
    }

    fn check_appendable(&self) -> Result<(), AppendError> {
        self.is_offline().map_or(Ok(()), |reason| Err(AppendError::Offline(reason)))
    }

    fn append_failed(&self, action: &str, error: &dyn std::fmt::Display) -> AppendError {
        AppendError::Offline(self.take_offline(action, error))
    }

    fn is_flush_due(&self, config: &LogConfig) -> bool {
        let view = self.view();
        view.log_end.0 - view.recovery_point.0 >= config.flush_messages
    }

    /// What compaction is going to open must be sound, and have keys.
    async fn check_keys(&self, batch: &RecordBatch, config: &LogConfig) -> Result<(), AppendError> {
        if !config.compact || batch.is_control() {
            return Ok(());
        }
        let summary = match batch.compression()? {
            Compression::None => batch.validate_deep(DECOMPRESSED_LIMIT_BYTES)?,
            _ => {
                let batch = batch.clone();
                let open = move || batch.validate_deep(DECOMPRESSED_LIMIT_BYTES);
                let summary = self.context.runtime.blocking(open).await;
                summary.map_err(|error| AppendError::Offline(error.to_string().into()))??
            }
        };
        match summary.first_null_key_index {
            None => Ok(()),
            Some(_) => {
                let indexes = batch.null_key_indexes(DECOMPRESSED_LIMIT_BYTES)?;
                Err(AppendError::MissingKey { partition: self.partition.clone(), indexes })
            }
        }
    }

    /// The same batch with the topic's codec.
    async fn recompress(&self, source: RecordBatch, config: &LogConfig) -> Result<RecordBatch, AppendError> {
        let Some(target) = config.compression else { return Ok(source) };
        if source.is_control() || source.compression()? == target {
            return Ok(source);
        }
        let convert = move || -> Result<RecordBatch, RecordError> {
            let body = source.decompress(DECOMPRESSED_LIMIT_BYTES)?;
            let mut builder = BatchBuilder::with_capacity(body.len())
                .timestamp_type(source.timestamp_type())
                .producer(source.producer_id(), source.producer_epoch(), source.base_sequence())
                .transactional(source.is_transactional());
            source.validate_deep(DECOMPRESSED_LIMIT_BYTES)?;
            for record in source.records_in(&body) {
                builder.add_record(&record?);
            }
            RecordBatch::parse(builder.build(target))
        };
        let converted = self.context.runtime.blocking(convert).await;
        let converted = converted.map_err(|error| AppendError::Offline(error.to_string().into()))??;
        validate::check_size(converted.size_bytes(), config)?;
        Ok(converted)
    }

    /// Has `epoch` in the leader-epoch cache, on disk before in memory: a batch's epoch is always found in the file.
    async fn enter_epoch(&self, epoch: LeaderEpoch, start: Offset) -> Result<(), LogError> {
        let mut epochs = {
            let view = self.view();
            match view.epochs.latest() {
                Some(latest) if latest.epoch == epoch => return Ok(()),
                Some(latest) if latest.epoch > epoch => {
                    return Err(LogError::StaleLeaderEpoch { given: epoch, latest: latest.epoch });
                }
                _ => view.epochs.clone(),
            }
        };
        epochs.assign(epoch, start);
        self.persist_epochs(&epochs)
            .await
            .map_err(|error| self.failed("writing the leader epochs", error))?;
        self.view().epochs = epochs;
        Ok(())
    }

    /// This replica may have led for a while without a record, and now follows one whose log goes on with records of an
    /// older epoch: its own epoch left nothing behind and gives way, on disk before in memory.
    async fn forget_empty_epochs(&self, epoch: LeaderEpoch) -> Result<(), LogError> {
        let (mut epochs, log_end) = {
            let view = self.view();
            if view.epochs.latest().is_none_or(|latest| latest.epoch <= epoch) {
                return Ok(());
            }
            (view.epochs.clone(), view.log_end)
        };
        if epochs.truncate_end(log_end) {
            self.persist_epochs(&epochs)
                .await
                .map_err(|error| self.failed("writing the leader epochs", error))?;
            self.view().epochs = epochs;
        }
        Ok(())
    }

    /// Writes a stamped batch at the end of the active segment, and publishes it. Gives the log's new end.
    async fn write(
        &self,
        writer: &mut Writer,
        head: &[u8; BATCH_OVERHEAD],
        body: &[u8],
        marker: Option<EndTransactionMarker>,
        config: &LogConfig,
    ) -> Result<Offset, AppendError> {
        let header = BatchHeader::parse(head).expect("the header of a parsed batch");
        let base_offset = Offset(header.base_offset());
        let (segment, log_end) = {
            let view = self.view();
            (view.active().clone(), view.log_end)
        };
        assert!(base_offset >= log_end, "I12: appended at the end and nowhere else");
        let position = segment.size_bytes();
        let now = self.context.runtime.now();
        if let Err(error) = segment.file.write_all_vectored_at(head, body, position).await {
            // What was written is cut off as far as the disk allows; opening the log again makes sure of it.
            let cut = segment.file.set_len(position);
            let rest =
                cut.err().map(|cut| format!(", and what was written stays: {cut}")).unwrap_or_default();
            return Err(self.append_failed("appending", &format!("{error}{rest}")));
        }
        let next_offset = Offset(header.next_offset());
        let entries_due = {
            let mut view = self.view();
            if let Some(reason) = view.offline.clone() {
                // A sync failed while this was written (I19). What was written lies past the log's end: opening the
                // log again cuts it off.
                return Err(AppendError::Offline(reason));
            }
            if position == 0 {
                writer.active_since = now;
            }
            writer.producers.record(&header, base_offset, marker, now);
            let due = segment.note(&header, config.index_interval_bytes);
            view.log_end = next_offset;
            assert_eq!(view.active().end_offset(), next_offset, "the batch is the last one of the log");
            due
        };
        self.tell_appended(&header);
        if entries_due && let Err(error) = segment.write_pending(self.files()).await {
            // The batch is in the log all the same.
            self.take_offline("writing an index", &error);
        }
        Ok(next_offset)
    }

    fn tell_appended(&self, header: &BatchHeader) {
        self.context.observers.tell(|| Observation::Appended {
            partition: &self.partition,
            base_offset: Offset(header.base_offset()),
            next_offset: Offset(header.next_offset()),
            leader_epoch: LeaderEpoch(header.leader_epoch()),
            batch_crc: header.crc(),
            size_bytes: header.size_bytes(),
            producer: (ProducerId(header.producer_id()), header.producer_epoch(), header.base_sequence()),
        });
    }

    async fn roll_if_due(
        &self,
        writer: &mut Writer,
        batch: &BatchHeader,
        base_offset: Offset,
        config: &LogConfig,
    ) -> Result<(), AppendError> {
        let segment = self.view().active().clone();
        let active = ActiveSegment {
            size_bytes: segment.size_bytes(),
            age: self.context.runtime.now().saturating_since(writer.active_since),
            index_entries: segment.index_entries(),
            relative_offset: base_offset.0 - segment.base_offset.0 + i64::from(batch.last_offset_delta()),
        };
        if roll::is_due(&active, batch.size_bytes(), config) {
            self.roll(writer).await.map_err(|error| self.append_failed("closing a segment", &error))?;
        }
        Ok(())
    }

    /// Closes the active segment and begins a new one at the log's end. May be repeated after it was interrupted.
    pub(super) async fn roll(&self, writer: &mut Writer) -> io::Result<()> {
        let (old, base_offset) = {
            let view = self.view();
            (view.active().clone(), view.log_end)
        };
        assert!(old.size_bytes() > 0, "an empty segment is not closed: the next one would have its name");
        self.complete(&old).await?;
        self.write_snapshot(writer, base_offset).await?;
        let new = Segment::create(self.files(), &self.directory, base_offset).await?;
        let now = self.context.runtime.now();
        old.close(now);
        writer.active_since = now;
        let mut view = self.view();
        let mut segments = Vec::with_capacity(view.segments.len() + 1);
        segments.extend(view.segments.iter().cloned());
        segments.push(new);
        view.segments = Arc::new(segments);
        view.names_changed += 1;
        view.check();
        Ok(())
    }

    /// Completes a segment's indexes, and cuts off what an abandoned append may have left behind its end.
    pub(super) async fn complete(&self, segment: &Segment) -> io::Result<()> {
        segment.complete_indexes(self.files()).await?;
        let size = segment.size_bytes();
        if segment.file.len()? != size {
            segment.file.set_len(size)?;
        }
        Ok(())
    }

    /// Writes the producer table beside the segments. It need not be durable: a damaged one is noticed by its
    /// checksum and an older one is used.
    pub(super) async fn write_snapshot(&self, writer: &Writer, offset: Offset) -> io::Result<()> {
        let path = self.directory.join(names::file_name(offset, names::SNAPSHOT_SUFFIX));
        let file = self.files().open(&path, OpenOptions::REWRITE).await?;
        file.write_all_at(&producer_snapshot::encode(&writer.producers), 0).await
    }
}
