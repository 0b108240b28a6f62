//! Real files. Reads and writes go to the page cache and are ready at once; opening and syncing use the blocking pool.

use crate::{DirectoryEntry, File, FileLock, FileSystem, IoFuture, OpenOptions};
use std::{
    fs,
    io::{self, IoSlice},
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::FileExt,
    },
    path::Path,
    sync::Arc,
};

pub(super) struct RealFileSystem;

struct RealFile(Arc<fs::File>);

struct RealLock {
    _file: fs::File,
}

impl FileLock for RealLock {}

/// Runs a system call that may wait for the disk on the blocking pool.
fn offload<T: Send + 'static>(call: impl FnOnce() -> io::Result<T> + Send + 'static) -> IoFuture<'static, T> {
    IoFuture::Boxed(Box::pin(async { tokio::task::spawn_blocking(call).await.map_err(io::Error::other)? }))
}

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at<'a>(&'a self, buffer: &'a mut [u8], offset: u64) -> IoFuture<'a, usize> {
        IoFuture::ready(self.0.read_at(buffer, offset))
    }

    fn read_at_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at<'a>(&'a self, buffer: &'a [u8], offset: u64) -> IoFuture<'a, usize> {
        IoFuture::ready(self.0.write_at(buffer, offset))
    }

    fn write_vectored_at<'a>(&'a self, buffers: &'a [IoSlice<'a>], offset: u64) -> IoFuture<'a, usize> {
        IoFuture::ready(write_vectored(&self.0, buffers, offset))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> IoFuture<'_, ()> {
        let file = self.0.clone();
        offload(move || file.sync_data())
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.0.as_raw_fd())
    }
}

fn write_vectored(file: &fs::File, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
    let count = libc::c_int::try_from(buffers.len().min(1024)).expect("at most 1024");
    let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
    loop {
        // SAFETY: IoSlice has the layout of iovec, and the slices stay borrowed for the call.
        let written = unsafe { libc::pwritev(file.as_raw_fd(), buffers.as_ptr().cast(), count, offset) };
        match usize::try_from(written) {
            Ok(written) => return Ok(written),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

impl FileSystem for RealFileSystem {
    fn open<'a>(&'a self, path: &'a Path, options: OpenOptions) -> IoFuture<'a, Arc<dyn File>> {
        let path = path.to_owned();
        offload(move || {
            let file = fs::OpenOptions::new()
                .read(options.read)
                .write(options.write)
                .create(options.create)
                .create_new(options.create_new)
                .truncate(options.truncate)
                .open(path)?;
            Ok(Arc::new(RealFile(Arc::new(file))) as Arc<dyn File>)
        })
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> IoFuture<'a, ()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        offload(move || fs::rename(from, to))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        let path = path.to_owned();
        offload(move || fs::remove_file(path))
    }

    fn remove_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        let path = path.to_owned();
        offload(move || fs::remove_dir_all(path))
    }

    fn create_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        let path = path.to_owned();
        offload(move || fs::create_dir_all(path))
    }

    fn list<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Vec<DirectoryEntry>> {
        let path = path.to_owned();
        offload(move || {
            let mut entries = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                let metadata = entry.metadata()?;
                // A name that is not UTF-8 is none of ours: nothing here creates one.
                let Ok(name) = entry.file_name().into_string() else { continue };
                let length = if metadata.is_dir() { 0 } else { metadata.len() };
                entries.push(DirectoryEntry { name, is_directory: metadata.is_dir(), length });
            }
            entries.sort();
            Ok(entries)
        })
    }

    fn sync_dir<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        let path = path.to_owned();
        offload(move || fs::File::open(path)?.sync_all())
    }

    fn lock<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Box<dyn FileLock>> {
        let path = path.to_owned();
        offload(move || {
            let file =
                fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            file.try_lock().map_err(io::Error::from)?;
            Ok(Box::new(RealLock { _file: file }) as Box<dyn FileLock>)
        })
    }
}
