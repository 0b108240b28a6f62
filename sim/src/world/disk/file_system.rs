//! The file system as one process sees it. Owns opening and lock files; names are in `directory`.

use super::{Disk, FaultKind, FileInode, Inode, State, View, file::ProcessFile, os_error};
use crate::{
    decisions::Stream,
    profile::{self, Part},
    world::{
        lock,
        timer::{now_ns, sleep_until_ns},
    },
};
use sillon_runtime::{DirectoryEntry, File, FileLock, FileSystem, IoFuture, OpenOptions};
use std::{io, path::Path, sync::Arc};

/// A process's files.
pub(in crate::world) struct ProcessFileSystem {
    disk: Arc<Disk>,
    incarnation: u64,
}

/// A lock file that a process holds.
struct ProcessLock {
    disk: Arc<Disk>,
    incarnation: u64,
    inode: u64,
}

impl FileLock for ProcessLock {}

impl Drop for ProcessLock {
    fn drop(&mut self) {
        let mut state = lock(&self.disk.state);
        // Another process may hold it by the time that a dead one's tasks are dropped.
        if state.locks.get(&self.inode) == Some(&self.incarnation) {
            state.locks.remove(&self.inode);
        }
    }
}

impl ProcessFileSystem {
    pub(in crate::world) fn new(disk: Arc<Disk>, incarnation: u64) -> ProcessFileSystem {
        ProcessFileSystem { disk, incarnation }
    }

    fn act<T>(&self, f: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let _counted = profile::within(Part::Disk);
        f(&mut *self.disk.act(self.incarnation)?)
    }

    fn open_now(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let inode = self.act(|state| match state.tree.find(path, View::Cached) {
            Ok(_) if options.create_new => Err(io::ErrorKind::AlreadyExists.into()),
            Ok(Inode::File(file)) => Ok(file),
            Ok(Inode::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && (options.create || options.create_new) =>
            {
                if !options.write {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                state.tree.create_file(path)
            }
            Err(error) => Err(error),
        })?;
        let file = ProcessFile { disk: self.disk.clone(), inode, incarnation: self.incarnation, options };
        if options.truncate {
            file.set_len(0)?;
        }
        Ok(Arc::new(file))
    }

    fn list_now(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let entries = self.act(|state| state.tree.list(path))?;
        Ok(entries
            .into_iter()
            .map(|(name, inode)| match inode {
                Inode::Directory(_) => DirectoryEntry { name, is_directory: true, length: 0 },
                Inode::File(file) => {
                    DirectoryEntry { name, is_directory: false, length: lock(&file.cache).len() as u64 }
                }
            })
            .collect())
    }

    fn sync_dir_now(&self, path: &Path) -> io::Result<()> {
        self.act(|state| {
            let directory = state.tree.find_directory(path)?;
            let fails = state.faults.sync_dir_error_ppm;
            if self.disk.core.decisions.chance(Stream::DiskFault, "sync of a directory fails", fails) {
                self.disk.core.fault(self.disk.node, FaultKind::SyncError, &[("inode", 0)]);
                return Err(os_error(libc::EIO));
            }
            state.tree.sync_directory(&directory);
            Ok(())
        })
    }

    fn lock_now(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let incarnation = self.incarnation;
        let inode = self.act(|state| {
            let file = match state.tree.find(path, View::Cached) {
                Ok(Inode::File(file)) => file,
                Ok(Inode::Directory(_)) => return Err(io::ErrorKind::IsADirectory.into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => state.tree.create_file(path)?,
                Err(error) => return Err(error),
            };
            if state.locks.contains_key(&file.id) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            state.locks.insert(file.id, incarnation);
            Ok(file.id)
        })?;
        Ok(Box::new(ProcessLock { disk: self.disk.clone(), incarnation, inode }))
    }
}

impl State {
    /// A file has lost its name, and its room is free.
    fn removed(&mut self, file: &FileInode) {
        file.set_removed(true);
        self.used_bytes -= lock(&file.cache).len() as u64;
    }
}

impl FileSystem for ProcessFileSystem {
    fn open<'a>(&'a self, path: &'a Path, options: OpenOptions) -> IoFuture<'a, Arc<dyn File>> {
        IoFuture::ready(self.open_now(path, options))
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> IoFuture<'a, ()> {
        IoFuture::ready(self.act(|state| {
            if let Some(Inode::File(replaced)) = state.tree.rename(from, to)? {
                state.removed(&replaced);
            }
            Ok(())
        }))
    }

    fn remove<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        IoFuture::ready(self.act(|state| {
            let removed = state.tree.remove_file(path)?;
            state.removed(&removed);
            Ok(())
        }))
    }

    fn remove_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        IoFuture::ready(self.act(|state| {
            for file in state.tree.remove_dir_all(path)? {
                state.removed(&file);
            }
            Ok(())
        }))
    }

    fn create_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        IoFuture::ready(self.act(|state| state.tree.create_dir_all(path)))
    }

    fn list<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Vec<DirectoryEntry>> {
        IoFuture::ready(self.list_now(path))
    }

    fn sync_dir<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        let (range, stall_ppm, stall_ms) = {
            let faults = &lock(&self.disk.state).faults;
            (faults.sync_latency_us, faults.stall_ppm, faults.stall_ms)
        };
        match self.disk.delay_ns("latency of a sync", range, stall_ppm, stall_ms) {
            0 => IoFuture::ready(self.sync_dir_now(path)),
            delay_ns => IoFuture::Boxed(Box::pin(async move {
                sleep_until_ns(now_ns() + delay_ns).await;
                self.sync_dir_now(path)
            })),
        }
    }

    fn lock<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Box<dyn FileLock>> {
        IoFuture::ready(self.lock_now(path))
    }
}
