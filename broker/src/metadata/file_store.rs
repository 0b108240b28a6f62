//! A single broker's metadata in one file beside its logs, replaced whole at each change.
//!
//! Owns the file's format: JSON, and a last line with the CRC-32C of what stands before it, so that a damaged file is
//! noticed and never half believed. Never decides what a change means (`change`).

use super::{
    MetadataStore,
    change::{self, Change, MetadataError},
    delta::MetadataDelta,
    image::{MetadataImage, MetadataPosition},
};
use crate::{
    cluster::{ActiveController, Cluster, ClusterError},
    types::{BrokerEpoch, BrokerId},
};
use bytes::Bytes;
use sillon_protocol::{
    messages::{AlterPartitionRequest, AlterPartitionResponse},
    records::crc32c,
};
use sillon_runtime::{BoxFuture, Runtime};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};

/// The file's name in the first log directory.
pub const FILE_NAME: &str = "cluster-metadata.json";
/// More than a million partitions need.
const MAX_FILE_BYTES: usize = 1 << 30;
const CHECKSUM_KEY: &str = "crc32c=";

/// The store.
pub struct FileStore {
    runtime: Runtime,
    path: PathBuf,
    is_new: bool,
    image: RwLock<Arc<MetadataImage>>,
    next_producer_id: Mutex<i64>,
    /// Held while a change is on its way to the disk.
    writing: tokio::sync::Mutex<()>,
}

/// Why the store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the disk said.
        error: io::Error,
    },
    /// The file was damaged.
    #[error("{path} is damaged ({reason}); restore it from a copy, or remove it to start with no topics")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How that shows.
        reason: String,
    },
}

impl FileStore {
    /// Opens the file in `directory`, or starts a new cluster's metadata where there is none.
    ///
    /// # Errors
    /// Where the file cannot be read or is damaged.
    pub async fn open(
        runtime: Runtime,
        directory: &Path,
        new_cluster_id: String,
    ) -> Result<FileStore, OpenError> {
        let path = directory.join(FILE_NAME);
        let mut is_new = false;
        let (image, next_producer_id) = match runtime.fs().read_small(&path, MAX_FILE_BYTES).await {
            Ok(bytes) => {
                decode(&bytes).map_err(|reason| OpenError::Damaged { path: path.clone(), reason })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                is_new = true;
                (MetadataImage { cluster_id: new_cluster_id, ..MetadataImage::default() }, 0)
            }
            Err(error) => return Err(OpenError::Io { path, error }),
        };
        let image = RwLock::new(Arc::new(image));
        let next_producer_id = Mutex::new(next_producer_id);
        Ok(FileStore { runtime, path, is_new, image, next_producer_id, writing: tokio::sync::Mutex::new(()) })
    }

    /// Whether there was no file.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    async fn write(&self, change: Change) -> Result<Arc<MetadataImage>, MetadataError> {
        let _writing = self.writing.lock().await;
        let next = change::apply(&MetadataStore::image(self), change)?;
        let next_producer_id = *self.next_producer_id.lock().expect("no holder panics");
        self.store(&encode(&next, next_producer_id)).await?;
        let next = Arc::new(next);
        *self.image.write().expect("no writer panics") = next.clone();
        Ok(next)
    }

    async fn allocate(&self, count: i64) -> Result<i64, MetadataError> {
        let _writing = self.writing.lock().await;
        let first = *self.next_producer_id.lock().expect("no holder panics");
        let next = first.checked_add(count);
        let next = next.ok_or_else(|| MetadataError::Storage("producer ids are used up".into()))?;
        self.store(&encode(&MetadataStore::image(self), next)).await?;
        *self.next_producer_id.lock().expect("no holder panics") = next;
        Ok(first)
    }

    async fn store(&self, bytes: &[u8]) -> Result<(), MetadataError> {
        self.runtime
            .fs()
            .replace(&self.path, bytes)
            .await
            .map_err(|error| MetadataError::Storage(format!("cannot write {}: {error}", self.path.display())))
    }
}

/// What the file holds.
#[derive(serde::Serialize, serde::Deserialize)]
struct Stored {
    position: MetadataPosition,
    next_producer_id: i64,
    deltas: Vec<MetadataDelta>,
}

impl MetadataStore for FileStore {
    fn image(&self) -> Arc<MetadataImage> {
        self.image.read().expect("no writer panics").clone()
    }

    fn allocate_producer_ids(&self, count: i64) -> BoxFuture<'_, Result<i64, MetadataError>> {
        Box::pin(self.allocate(count))
    }

    fn submit(&self, change: Change) -> BoxFuture<'_, Result<Arc<MetadataImage>, MetadataError>> {
        Box::pin(self.write(change))
    }
}

impl Cluster for FileStore {
    fn broker_id(&self) -> BrokerId {
        MetadataStore::image(self).controller.unwrap_or_default()
    }

    fn image(&self) -> Arc<MetadataImage> {
        MetadataStore::image(self)
    }

    fn broker_epoch(&self) -> BrokerEpoch {
        BrokerEpoch::NONE
    }

    fn controller(&self) -> Option<Arc<dyn ActiveController>> {
        None
    }

    fn wait_for(&self, position: MetadataPosition, _: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move { MetadataStore::image(self).position >= position })
    }

    fn forward(&self, _: Bytes) -> BoxFuture<'_, Result<Bytes, ClusterError>> {
        Box::pin(async { Err(ClusterError::NoController) })
    }

    fn alter_partitions(
        &self,
        _: AlterPartitionRequest,
    ) -> BoxFuture<'_, Result<AlterPartitionResponse, ClusterError>> {
        Box::pin(async { Err(ClusterError::NoController) })
    }

    fn allocate_producer_ids(&self, count: i64) -> BoxFuture<'_, Result<i64, ClusterError>> {
        Box::pin(async move {
            self.allocate(count).await.map_err(|error| ClusterError::Coordinator(error.to_string()))
        })
    }
}

pub(crate) fn encode(image: &MetadataImage, next_producer_id: i64) -> Vec<u8> {
    let deltas = MetadataDelta::snapshot(image);
    let stored = Stored { position: image.position, next_producer_id, deltas };
    let mut bytes = serde_json::to_vec_pretty(&stored).expect("an image has string keys only");
    bytes.push(b'\n');
    let checksum = crc32c(&bytes);
    bytes.extend_from_slice(format!("{CHECKSUM_KEY}{checksum:08x}\n").as_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<(MetadataImage, i64), String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let body_end = text.trim_end().rfind('\n').map_or(0, |position| position + 1);
    let (body, last_line) = text.split_at(body_end);
    let stored = last_line.trim().strip_prefix(CHECKSUM_KEY).ok_or("its last line is not a checksum")?;
    let stored = u32::from_str_radix(stored, 16).map_err(|_| "its last line is not a checksum")?;
    let computed = crc32c(body.as_bytes());
    if stored != computed {
        return Err(format!("its checksum is {computed:08x} where {stored:08x} is stored"));
    }
    let stored: Stored = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let image = MetadataImage::default().after(&stored.deltas, stored.position);
    Ok((image.map_err(|error| error.to_string())?, stored.next_producer_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_noticed_at_every_byte() {
        let image = MetadataImage { cluster_id: "c".into(), ..MetadataImage::default() };
        let good = encode(&image, 3);
        assert_eq!(decode(&good), Ok((image, 3)));
        for position in 0..good.len() - 1 {
            let mut bad = good.clone();
            bad[position] ^= 1;
            assert!(decode(&bad).is_err(), "byte {position}");
            assert!(decode(&good[..position]).is_err(), "cut at {position}");
        }
        assert!(decode(b"").is_err());
    }
}
