//! The directories that hold a broker's logs (`log.dirs`). Owns who may use them, which logs are in them, the
//! checkpoints beside the logs, and the marker of a clean stop. Never looks into a log.
//!
//! The marker is removed, durably, before any log is opened (B26), and written when every log was closed in order.

use super::{
    Log, LogConfig, LogContext, LogError, checkpoint,
    checkpoint::Offsets,
    clean_marker::{self, CLEAN_SHUTDOWN},
    durable_offsets::{Checkpoint, DurableOffsets},
    meta_properties::{self, META_PROPERTIES, MetaProperties},
    names,
    open::Opening,
};
use crate::types::{BrokerEpoch, BrokerId, Offset, TopicId, TopicPartition};
use sillon_runtime::{FileLock, FileSystem, Runtime};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

const LOCK: &str = ".lock";

/// A partition that was found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPartition {
    /// The partition.
    pub partition: TopicPartition,
    /// Its topic's id; none where its directory does not say, or says it illegibly.
    pub topic_id: Option<TopicId>,
    /// Its directory.
    pub path: PathBuf,
}

/// One of `log.dirs`.
struct Directory {
    path: PathBuf,
    /// Whether its last stop was clean.
    clean: bool,
    /// Whether something vouches for every record that was ever acknowledged out of it.
    lost_nothing: bool,
    durable: Arc<DurableOffsets>,
    high_watermarks: Checkpoint,
    meta: Option<MetaProperties>,
    _lock: Box<dyn FileLock>,
}

/// A partition's place, and its log once it is open.
struct Entry {
    directory: usize,
    log: Option<Arc<Log>>,
}

/// See the module. One per process.
pub struct LogDirectories {
    context: LogContext,
    directories: Vec<Directory>,
    entries: Mutex<BTreeMap<TopicPartition, Entry>>,
    /// Logs are opened beside one another; nothing is opened while logs are deleted.
    changing: tokio::sync::RwLock<()>,
    /// Partitions whose logs are being opened: each once at a time.
    opening: Mutex<BTreeMap<TopicPartition, Arc<tokio::sync::Mutex<()>>>>,
    /// The registration that the marker of a clean stop is going to name.
    broker_epoch: Mutex<BrokerEpoch>,
}

impl LogDirectories {
    /// Takes possession of the directories, creating those that are missing: locks them, reads their checkpoints,
    /// removes the markers of a clean stop and what is left of deleted logs.
    ///
    /// # Errors
    /// [`LogError::Locked`] where another process uses one, [`LogError::DuplicatePartition`],
    /// [`LogError::Disagreement`], [`LogError::NoDirectory`], [`LogError::Io`].
    pub async fn open(context: LogContext, paths: &[PathBuf]) -> Result<LogDirectories, LogError> {
        if paths.is_empty() {
            return Err(LogError::NoDirectory);
        }
        let mut directories: Vec<Directory> = Vec::with_capacity(paths.len());
        let mut entries = BTreeMap::new();
        for (index, path) in paths.iter().enumerate() {
            let directory = Directory::open(&context.runtime, path).await?;
            for partition in directory.scan(&context.runtime).await? {
                let entry = Entry { directory: index, log: None };
                if let Some(first) = entries.insert(partition.clone(), entry) {
                    let first = directories[first.directory].path.clone();
                    return Err(LogError::DuplicatePartition { partition, first, second: path.clone() });
                }
            }
            directories.push(directory);
        }
        let known: Vec<_> = directories.iter().filter(|directory| directory.meta.is_some()).collect();
        if let Some(pair) = known.windows(2).find(|pair| pair[0].meta != pair[1].meta) {
            return Err(LogError::Disagreement { first: pair[0].path.clone(), second: pair[1].path.clone() });
        }
        let entries = Mutex::new(entries);
        let broker_epoch = Mutex::new(BrokerEpoch::NONE);
        Ok(LogDirectories {
            context,
            directories,
            entries,
            changing: tokio::sync::RwLock::new(()),
            opening: Mutex::default(),
            broker_epoch,
        })
    }

    /// Whether records that this broker had acknowledged may be missing (KIP-966): some directory was not stopped
    /// cleanly, or under a registration that the controller never saw, or is new and may stand for a lost one. A process
    /// that was killed lost nothing as long as its machine goes on.
    pub fn is_unclean(&self) -> bool {
        !self.directories.iter().all(|directory| directory.lost_nothing)
    }

    /// Notes that the controller knows of this process: from now on its death alone is no reason to doubt the logs.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn note_known(&self) -> Result<(), LogError> {
        for directory in &self.directories {
            clean_marker::note_boot(&self.context.runtime, &directory.path).await?;
        }
        Ok(())
    }

    /// Says which registration the marker of a clean stop is to name: one that the controller has seen, or
    /// [`BrokerEpoch::NONE`].
    pub fn note_broker_epoch(&self, broker_epoch: BrokerEpoch) {
        *self.broker_epoch.lock().expect("nobody panics while holding a number") = broker_epoch;
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, Entry>> {
        self.entries.lock().expect("nobody panics while holding the list of logs")
    }

    fn directory_of(&self, partition: &TopicPartition) -> Option<&Directory> {
        self.entries().get(partition).map(|entry| &self.directories[entry.directory])
    }

    /// Who the directories belong to, by their `meta.properties`; none where they are new.
    pub fn identity(&self) -> Option<&MetaProperties> {
        self.directories.iter().find_map(|directory| directory.meta.as_ref())
    }

    /// Makes sure that the directories belong to this broker and cluster, and writes so into new ones.
    ///
    /// # Errors
    /// [`LogError::OtherCluster`], [`LogError::OtherBroker`], [`LogError::Io`].
    pub async fn identify(&self, broker_id: BrokerId, cluster_id: &str) -> Result<(), LogError> {
        for directory in &self.directories {
            let path = directory.path.clone();
            let meta = directory.meta.as_ref();
            if let Some(found) =
                meta.and_then(|meta| meta.cluster_id.clone()).filter(|found| found != cluster_id)
            {
                return Err(LogError::OtherCluster { path, found, expected: cluster_id.to_owned() });
            }
            if let Some(found) = meta.and_then(|meta| meta.broker_id).filter(|found| *found != broker_id) {
                return Err(LogError::OtherBroker { path, found, expected: broker_id });
            }
            if meta.is_none_or(|meta| meta.broker_id.is_none() || meta.cluster_id.is_none()) {
                let file = path.join(META_PROPERTIES);
                let content = meta_properties::encode(broker_id, cluster_id);
                self.context
                    .runtime
                    .fs()
                    .replace(&file, &content)
                    .await
                    .map_err(LogError::io(file, "writing"))?;
            }
        }
        Ok(())
    }

    /// The partitions on disk whose logs are not open: strays, where nobody is going to open them.
    pub async fn unopened(&self) -> Result<Vec<FoundPartition>, LogError> {
        let unopened: Vec<_> = {
            let entries = self.entries();
            let unopened = entries.iter().filter(|(_, entry)| entry.log.is_none());
            unopened.map(|(partition, entry)| (partition.clone(), entry.directory)).collect()
        };
        let mut found = Vec::with_capacity(unopened.len());
        for (partition, directory) in unopened {
            let path = self.directories[directory].path.join(partition.to_string());
            let metadata =
                checkpoint::read(self.context.runtime.fs(), &path.join(names::PARTITION_METADATA)).await?;
            let topic_id = metadata.and_then(|bytes| checkpoint::decode_topic_id(&bytes).ok());
            found.push(FoundPartition { partition, topic_id, path });
        }
        Ok(found)
    }

    /// Opens a partition's log, or creates it in the directory with the fewest logs. Gives the same log where it is
    /// open already.
    ///
    /// # Errors
    /// [`LogError::InvalidTopicName`], and those of [`Log::open`].
    pub async fn open_log(
        &self,
        partition: &TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
    ) -> Result<Arc<Log>, LogError> {
        let name = names::partition_directory(partition)?;
        let _changing = self.changing.read().await;
        let turn = {
            let mut opening = self.opening.lock().expect("nobody panics while holding the turns");
            opening.entry(partition.clone()).or_default().clone()
        };
        let _turn = turn.lock().await;
        if let Some(log) = self.log(partition) {
            return match log.topic_id() == topic_id {
                true => Ok(log),
                false => Err(LogError::InconsistentTopicId {
                    path: log.directory().into(),
                    found: log.topic_id(),
                    expected: topic_id,
                }),
            };
        }
        let (index, is_new) = self.place(partition);
        let directory = &self.directories[index];
        // The process that removed one of the same name may have ended in the middle of it.
        if is_new && let Err(error) = directory.forget(partition).await {
            self.entries().remove(partition);
            return Err(error);
        }
        let opening = Opening {
            clean: directory.clean,
            recovery_point: directory.durable.recovery_points.get(partition).unwrap_or(Offset::ZERO),
            log_start_offset: directory.durable.log_starts.get(partition).unwrap_or(Offset::ZERO),
        };
        let opened = Log::open_in(
            self.context.clone(),
            directory.path.join(name),
            partition.clone(),
            topic_id,
            config,
            opening,
            Some(directory.durable.clone()),
        )
        .await;
        let log = match opened {
            Ok(log) => log,
            Err(error) => {
                if is_new {
                    self.entries().remove(partition);
                }
                return Err(error);
            }
        };
        self.entries().insert(partition.clone(), Entry { directory: index, log: Some(log.clone()) });
        Ok(log)
    }

    /// The directory of a log that is about to be opened, and whether it is new: a new one is counted from now on where
    /// there are fewest, the first of those.
    fn place(&self, partition: &TopicPartition) -> (usize, bool) {
        let mut entries = self.entries();
        if let Some(entry) = entries.get(partition) {
            return (entry.directory, false);
        }
        let mut counts = vec![0usize; self.directories.len()];
        entries.values().for_each(|entry| counts[entry.directory] += 1);
        let directory = (0..counts.len()).min_by_key(|index| counts[*index]).expect("there is a directory");
        entries.insert(partition.clone(), Entry { directory, log: None });
        (directory, true)
    }

    /// A partition's log, where it is open.
    pub fn log(&self, partition: &TopicPartition) -> Option<Arc<Log>> {
        self.entries().get(partition)?.log.clone()
    }

    /// All open logs, by partition.
    pub fn logs(&self) -> Vec<Arc<Log>> {
        self.entries().values().filter_map(|entry| entry.log.clone()).collect()
    }

    /// The high watermark that was noted for a partition when its directory was opened, or since.
    pub async fn checkpointed_high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        self.directory_of(partition)?.high_watermarks.get(partition)
    }

    /// Removes partitions' logs: at once under their names, from the disk after `file.delete.delay.ms`. The logs take no
    /// appends afterwards. Does nothing for a partition that has none.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn delete_logs(&self, partitions: &[TopicPartition]) -> Result<(), LogError> {
        let _changing = self.changing.write().await;
        for (index, directory) in self.directories.iter().enumerate() {
            let is_here = |partition: &&TopicPartition| {
                self.entries().get(partition).is_some_and(|entry| entry.directory == index)
            };
            let here: Vec<&TopicPartition> = partitions.iter().filter(is_here).collect();
            if !here.is_empty() {
                self.delete_in(directory, &here).await?;
            }
        }
        Ok(())
    }

    /// Deletes logs of one directory, with one sync for all.
    async fn delete_in(&self, directory: &Directory, partitions: &[&TopicPartition]) -> Result<(), LogError> {
        let (files, mut renamed) = (self.context.runtime.fs(), Vec::with_capacity(partitions.len()));
        for partition in partitions {
            let name = names::partition_directory(partition)?;
            let log = self.log(partition);
            if let Some(log) = &log {
                log.retire().await;
            }
            let unique = u128::from(self.context.runtime.random_u64()) << 64
                | u128::from(self.context.runtime.random_u64());
            let (from, to) =
                (directory.path.join(name), directory.path.join(names::deleted_directory(partition, unique)));
            match files.rename(&from, &to).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(LogError::io(from, "renaming")(error));
                }
                _ => {}
            }
            let delay_ms = log.map_or(0, |log| log.config().file_delete_delay_ms);
            renamed.push((to, Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0))));
        }
        files.sync_dir(&directory.path).await.map_err(LogError::io(&directory.path, "syncing"))?;
        for partition in partitions {
            self.entries().remove(partition);
            self.opening.lock().expect("nobody panics while holding the turns").remove(partition);
        }
        // A topic of the same name must not inherit them.
        for checkpoint in directory.checkpoints() {
            let forget = |offsets: &mut Offsets| {
                for partition in partitions {
                    offsets.remove(partition);
                }
            };
            checkpoint.change(forget).await?;
        }
        for (path, delay) in renamed {
            remove_later(&self.context.runtime, path, delay);
        }
        Ok(())
    }

    /// [`LogDirectories::delete_logs`] of one partition.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn delete_log(&self, partition: &TopicPartition) -> Result<(), LogError> {
        self.delete_logs(std::slice::from_ref(partition)).await
    }
    /// Writes the recovery points of all open logs, and their start offsets, to the checkpoints.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn checkpoint_recovery_points(&self) -> Result<(), LogError> {
        for (index, directory) in self.directories.iter().enumerate() {
            // Looked up while the file's turn is held: one that is lowered for a cut is not raised again.
            let logs = || self.logs_in(index);
            let recovery_points = |offsets: &mut Offsets| {
                offsets.extend(logs().iter().map(|log| (log.partition().clone(), log.recovery_point())));
            };
            directory.durable.recovery_points.change(recovery_points).await?;
            let log_starts = |offsets: &mut Offsets| {
                for log in logs() {
                    // One that was raised a moment ago may not be visible in the log yet: it is never taken back here.
                    // And once noted it stays noted: files of segments that are gone from the log may be there still.
                    let raised = offsets.get(log.partition()).copied();
                    let log_start = raised.unwrap_or(Offset::ZERO).max(log.log_start_offset());
                    if raised.is_some() || log_start > log.first_segment_offset() {
                        offsets.insert(log.partition().clone(), log_start);
                    }
                }
            };
            directory.durable.log_starts.change(log_starts).await?;
        }
        Ok(())
    }

    fn logs_in(&self, index: usize) -> Vec<Arc<Log>> {
        self.entries()
            .values()
            .filter(|entry| entry.directory == index)
            .filter_map(|entry| entry.log.clone())
            .collect()
    }

    /// Writes high watermarks to the checkpoints. What they say of partitions that are not named stays.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub async fn checkpoint_high_watermarks(
        &self,
        high_watermarks: BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), LogError> {
        for (index, directory) in self.directories.iter().enumerate() {
            let here = |partition: &TopicPartition| {
                self.entries().get(partition).is_some_and(|entry| entry.directory == index)
            };
            let note = |offsets: &mut Offsets| {
                offsets.extend(
                    high_watermarks
                        .iter()
                        .filter(|(partition, _)| here(partition))
                        .map(|(p, o)| (p.clone(), *o)),
                );
            };
            directory.high_watermarks.change(note).await?;
        }
        Ok(())
    }

    /// Closes all logs that are still open, writes the checkpoints, and marks the directories in which nothing is in
    /// doubt as cleanly stopped.
    ///
    /// # Errors
    /// [`LogError::Io`]; the next start then checks the logs.
    pub async fn close(&self) -> Result<(), LogError> {
        let _changing = self.changing.write().await;
        let mut in_doubt = vec![false; self.directories.len()];
        let entries: Vec<_> = {
            let entries = self.entries();
            entries
                .iter()
                .map(|(partition, entry)| (partition.clone(), entry.directory, entry.log.clone()))
                .collect()
        };
        for (partition, directory, log) in entries {
            match log {
                Some(log) => {
                    if let Err(error) = log.close().await {
                        tracing::warn!(%partition, %error, "not closed in order; it is checked at the next start");
                        in_doubt[directory] = true;
                    }
                }
                // Nobody looked at it: it is as clean as it was.
                None => in_doubt[directory] |= !self.directories[directory].clean,
            }
        }
        self.checkpoint_recovery_points().await?;
        let files = self.context.runtime.fs();
        let content =
            clean_marker::encode(*self.broker_epoch.lock().expect("nobody panics while holding a number"));
        for (directory, in_doubt) in self.directories.iter().zip(in_doubt) {
            if in_doubt {
                tracing::warn!(path = %directory.path.display(), "not marked as cleanly stopped");
                continue;
            }
            let marker = directory.path.join(CLEAN_SHUTDOWN);
            files.replace(&marker, &content).await.map_err(LogError::io(marker, "writing"))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for LogDirectories {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.directories.iter().map(|directory| &directory.path)).finish()
    }
}

impl Directory {
    /// All that is noted of its logs.
    fn checkpoints(&self) -> [&Checkpoint; 4] {
        let DurableOffsets { recovery_points, log_starts, cleaned } = &*self.durable;
        [recovery_points, log_starts, cleaned, &self.high_watermarks]
    }

    /// Forgets the offsets noted for a partition: a topic of the same name must not inherit them (I16).
    async fn forget(&self, partition: &TopicPartition) -> Result<(), LogError> {
        for checkpoint in
            self.checkpoints().into_iter().filter(|checkpoint| checkpoint.get(partition).is_some())
        {
            let forget = |offsets: &mut Offsets| {
                offsets.remove(partition);
            };
            checkpoint.change(forget).await?;
        }
        Ok(())
    }

    async fn open(runtime: &Runtime, path: &Path) -> Result<Directory, LogError> {
        let files = runtime.fs();
        create_durably(files, path).await.map_err(LogError::io(path, "creating"))?;
        let lock = runtime.lock(&path.join(LOCK)).await.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => LogError::Locked { path: path.into() },
            _ => LogError::io(path.join(LOCK), "locking")(error),
        })?;
        let file = path.join(META_PROPERTIES);
        let meta = match checkpoint::read(files, &file).await? {
            None => None,
            Some(bytes) => Some(
                meta_properties::decode(&bytes)
                    .map_err(|error| LogError::Corrupt { path: file, problem: error.to_string() })?,
            ),
        };
        let recovery_points = Checkpoint::read(runtime, path, checkpoint::RECOVERY_POINTS).await?;
        let log_starts = Checkpoint::read(runtime, path, checkpoint::LOG_STARTS).await?;
        let high_watermarks = Checkpoint::read(runtime, path, checkpoint::HIGH_WATERMARKS).await?;
        let cleaned = Checkpoint::read(runtime, path, checkpoint::CLEANED).await?;
        let marker = clean_marker::take(files, path).await?;
        // A new directory may stand in for one that was lost.
        let vouched = marker.is_some_and(|epoch| epoch != BrokerEpoch::NONE)
            || clean_marker::served_in_this_boot(runtime, path).await?;
        Ok(Directory {
            path: path.into(),
            clean: marker.is_some(),
            lost_nothing: vouched && meta.is_some(),
            durable: Arc::new(DurableOffsets { recovery_points, log_starts, cleaned }),
            high_watermarks,
            meta,
            _lock: lock,
        })
    }

    /// Finds the partitions, and removes what is left of deleted ones.
    async fn scan(&self, runtime: &Runtime) -> Result<Vec<TopicPartition>, LogError> {
        let files = runtime.fs();
        let mut partitions = Vec::new();
        for entry in files.list(&self.path).await.map_err(LogError::io(&self.path, "listing"))? {
            let path = self.path.join(&entry.name);
            if !entry.is_directory {
                continue;
            }
            if names::is_deleted_directory(&entry.name) {
                // There may be thousands: nobody waits for them.
                remove_later(runtime, path, Duration::ZERO);
            } else if let Some(partition) = names::parse_partition_directory(&entry.name) {
                partitions.push(partition);
            } else {
                tracing::warn!(path = %path.display(), "not a partition's directory; left alone");
            }
        }
        Ok(partitions)
    }
}

/// Removes what is left of a deleted log, after a while. Where this process ends before, the next one removes it.
fn remove_later(runtime: &Runtime, path: PathBuf, delay: Duration) {
    let own = runtime.clone();
    runtime.spawn("log-delete", async move {
        own.sleep(delay).await;
        if let Err(error) = own.fs().remove_dir_all(&path).await {
            tracing::warn!(path = %path.display(), %error, "the log of a deleted partition stays on disk");
        }
    });
}

/// Creates a directory, and those above it that are missing, so that their own names outlast a power failure: without
/// them, what was synced inside would be out of reach.
async fn create_durably(files: &dyn FileSystem, directory: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for candidate in directory.ancestors().filter(|candidate| !candidate.as_os_str().is_empty()) {
        match files.list(candidate).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(candidate),
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    files.create_dir_all(directory).await?;
    for created in missing {
        let parent = created.parent().filter(|parent| !parent.as_os_str().is_empty());
        files.sync_dir(parent.unwrap_or(Path::new("."))).await?;
    }
    Ok(())
}
