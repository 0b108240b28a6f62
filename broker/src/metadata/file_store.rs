//! A single broker's metadata in one file beside its logs, replaced whole at each change.
//!
//! Owns the file's format: JSON, and a last line with the CRC-32C of what stands before it, so that a damaged file is
//! noticed and never half believed. Never decides what a change means (`change`).

use super::{
    MetadataStore,
    change::{self, Change, MetadataError},
    image::MetadataImage,
};
use sillon_protocol::records::crc32c;
use sillon_runtime::{BoxFuture, Runtime};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
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
        let image = match runtime.fs().read_small(&path, MAX_FILE_BYTES).await {
            Ok(bytes) => {
                decode(&bytes).map_err(|reason| OpenError::Damaged { path: path.clone(), reason })?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                is_new = true;
                MetadataImage { cluster_id: new_cluster_id, ..MetadataImage::default() }
            }
            Err(error) => return Err(OpenError::Io { path, error }),
        };
        let image = RwLock::new(Arc::new(image));
        Ok(FileStore { runtime, path, is_new, image, writing: tokio::sync::Mutex::new(()) })
    }

    /// Whether there was no file.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    async fn write(&self, change: Change) -> Result<Arc<MetadataImage>, MetadataError> {
        let _writing = self.writing.lock().await;
        let next = change::apply(&self.image(), change)?;
        self.runtime.fs().replace(&self.path, &encode(&next)).await.map_err(|error| {
            MetadataError::Storage(format!("cannot write {}: {error}", self.path.display()))
        })?;
        let next = Arc::new(next);
        *self.image.write().expect("no writer panics") = next.clone();
        Ok(next)
    }
}

impl MetadataStore for FileStore {
    fn image(&self) -> Arc<MetadataImage> {
        self.image.read().expect("no writer panics").clone()
    }

    fn submit(&self, change: Change) -> BoxFuture<'_, Result<Arc<MetadataImage>, MetadataError>> {
        Box::pin(self.write(change))
    }
}

pub(crate) fn encode(image: &MetadataImage) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(image).expect("an image has string keys only");
    bytes.push(b'\n');
    let checksum = crc32c(&bytes);
    bytes.extend_from_slice(format!("{CHECKSUM_KEY}{checksum:08x}\n").as_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8]) -> Result<MetadataImage, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let body_end = text.trim_end().rfind('\n').map_or(0, |position| position + 1);
    let (body, last_line) = text.split_at(body_end);
    let stored = last_line.trim().strip_prefix(CHECKSUM_KEY).ok_or("its last line is not a checksum")?;
    let stored = u32::from_str_radix(stored, 16).map_err(|_| "its last line is not a checksum")?;
    let computed = crc32c(body.as_bytes());
    if stored != computed {
        return Err(format!("its checksum is {computed:08x} where {stored:08x} is stored"));
    }
    serde_json::from_str(body).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_noticed_at_every_byte() {
        let image = MetadataImage { cluster_id: "c".into(), version: 3, ..MetadataImage::default() };
        let good = encode(&image);
        assert_eq!(decode(&good), Ok(image));
        for position in 0..good.len() - 1 {
            let mut bad = good.clone();
            bad[position] ^= 1;
            assert!(decode(&bad).is_err(), "byte {position}");
            assert!(decode(&good[..position]).is_err(), "cut at {position}");
        }
        assert!(decode(b"").is_err());
    }
}
