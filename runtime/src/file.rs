//! Files and directories. Owns the traits that both worlds' disks implement; never caches or interprets bytes.
//!
//! What lasts: bytes are durable after [`File::sync_data`], directory entries (created, renamed, removed) after
//! [`FileSystem::sync_dir`] of the directory that holds them, and nothing before.

use crate::BoxFuture;
use std::{
    fmt,
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A file operation that is ready at once (production's page cache: no allocation), or boxed.
pub enum IoFuture<'a, T> {
    /// Done already.
    Ready(Option<io::Result<T>>),
    /// Takes its time.
    Boxed(BoxFuture<'a, io::Result<T>>),
}

impl<T> IoFuture<'_, T> {
    /// An operation that is done.
    pub fn ready(result: io::Result<T>) -> Self {
        IoFuture::Ready(Some(result))
    }
}

impl<T> fmt::Debug for IoFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IoFuture")
    }
}

impl<T: Unpin> Future for IoFuture<'_, T> {
    type Output = io::Result<T>;
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            IoFuture::Ready(result) => {
                Poll::Ready(result.take().expect("an IoFuture is polled once after it is ready"))
            }
            IoFuture::Boxed(future) => future.as_mut().poll(context),
        }
    }
}

/// How to open a file; as `std::fs::OpenOptions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Allow reading.
    pub read: bool,
    /// Allow writing.
    pub write: bool,
    /// Create the file where it is missing.
    pub create: bool,
    /// Create the file and fail where it exists.
    pub create_new: bool,
    /// Cut an existing file to nothing.
    pub truncate: bool,
}

impl OpenOptions {
    /// Read an existing file.
    pub const READ: OpenOptions =
        OpenOptions { read: true, write: false, create: false, create_new: false, truncate: false };
    /// Read and write, creating the file where it is missing.
    pub const READ_WRITE_CREATE: OpenOptions =
        OpenOptions { read: true, write: true, create: true, create_new: false, truncate: false };
    /// Write a file from nothing, whatever was there.
    pub const REWRITE: OpenOptions =
        OpenOptions { read: true, write: true, create: true, create_new: false, truncate: true };
}

/// An open file, read and written by position only (there is no cursor).
pub trait File: Send + Sync + 'static {
    /// Its length in bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    fn len(&self) -> io::Result<u64>;
    /// Whether it holds nothing.
    ///
    /// # Errors
    /// Those of the operating system.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Reads into `buffer` from `offset`; may read less than asked, 0 means the end of the file.
    fn read_at<'a>(&'a self, buffer: &'a mut [u8], offset: u64) -> IoFuture<'a, usize>;
    /// The same without waiting, for [`crate::WriteHalf::poll_send_file`] where there is no sendfile.
    ///
    /// # Errors
    /// Those of the operating system.
    fn read_at_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes `buffer` at `offset` into the page cache; may write less than asked.
    fn write_at<'a>(&'a self, buffer: &'a [u8], offset: u64) -> IoFuture<'a, usize>;
    /// Writes several buffers one after the other at `offset`, in one call; may write less than asked.
    fn write_vectored_at<'a>(&'a self, buffers: &'a [io::IoSlice<'a>], offset: u64) -> IoFuture<'a, usize>;
    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// Those of the operating system.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Makes everything written before the call durable (fdatasync(2)). After an error nothing is known about
    /// what was written since the last success, and a later success says nothing about it either.
    fn sync_data(&self) -> IoFuture<'_, ()>;
    /// The descriptor, in production only.
    fn raw_fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }
}

impl dyn File {
    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file ends before that, and those of [`File::read_at`].
    pub async fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_at(&mut buffer[done..], offset + done as u64).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => done += read,
            }
        }
        Ok(())
    }

    /// Writes all of `buffer` at `offset`.
    ///
    /// # Errors
    /// `WriteZero` where the disk takes nothing, and those of [`File::write_at`]. What was written is then unknown.
    pub async fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match self.write_at(&buffer[done..], offset + done as u64).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => done += written,
            }
        }
        Ok(())
    }

    /// Writes all of `head` and then all of `tail` at `offset`, in one call where the disk takes it whole.
    ///
    /// # Errors
    /// As [`File::write_all_at`](#method.write_all_at).
    pub async fn write_all_vectored_at(&self, head: &[u8], tail: &[u8], offset: u64) -> io::Result<()> {
        let buffers = [io::IoSlice::new(head), io::IoSlice::new(tail)];
        let written = self.write_vectored_at(&buffers, offset).await?;
        if written < head.len() {
            self.write_all_at(&head[written..], offset + written as u64).await?;
            self.write_all_at(tail, offset + head.len() as u64).await
        } else {
            self.write_all_at(&tail[written - head.len()..], offset + written as u64).await
        }
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirectoryEntry {
    /// The last part of its path.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The length in bytes, 0 for a directory.
    pub length: u64,
}

/// Held while a process owns a lock file; released when dropped, and by the operating system when the process dies.
pub trait FileLock: Send + Sync {}

/// A node's file system.
pub trait FileSystem: Send + Sync + 'static {
    /// Opens a file.
    fn open<'a>(&'a self, path: &'a Path, options: OpenOptions) -> IoFuture<'a, Arc<dyn File>>;
    /// Gives a file or directory another name, replacing a file that has it.
    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> IoFuture<'a, ()>;
    /// Removes a file.
    fn remove<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()>;
    /// Removes a directory and all it holds.
    fn remove_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()>;
    /// Creates a directory and those above it that are missing.
    fn create_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()>;
    /// What a directory holds, sorted by name (the order of readdir(3) would differ from run to run).
    fn list<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Vec<DirectoryEntry>>;
    /// Makes the names in a directory durable: created, renamed and removed ones.
    fn sync_dir<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()>;
    /// Takes the lock file at `path`, creating it where it is missing.
    ///
    /// The error is `WouldBlock` where another process holds it.
    fn lock<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Box<dyn FileLock>>;
}

impl dyn FileSystem {
    /// The whole of a file that is known to be small (a checkpoint, a configuration).
    ///
    /// # Errors
    /// `NotFound`, `FileTooLarge` where it is longer than `limit` bytes, and those of [`File::read_at`].
    pub async fn read_small(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenOptions::READ).await?;
        let length = file.len()?;
        if length > limit as u64 {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{} has {length} bytes, more than the {limit} allowed", path.display()),
            ));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).await?;
        Ok(bytes)
    }

    /// Replaces a file so that after a crash at any moment it is either the old one or the new one, whole:
    /// write beside it, sync, rename, sync the directory.
    ///
    /// # Errors
    /// Those of the steps; the old file is then still in place, or the new one is in place but not yet durable.
    pub async fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".tmp");
        let beside = Path::new(&beside);
        let file = self.open(beside, OpenOptions::REWRITE).await?;
        file.write_all_at(content, 0).await?;
        file.sync_data().await?;
        drop(file);
        self.rename(beside, path).await?;
        match path.parent() {
            Some(directory) => self.sync_dir(directory).await,
            None => Ok(()),
        }
    }
}
