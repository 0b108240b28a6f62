//! A disk in memory for the tests of this folder: with a page cache that a power loss empties sector by sector, and that
//! dies at a chosen step. Owns nothing else of a world.

use sillon_runtime::{
    AbortTask, Backend, BoxFuture, BoxStream, DirectoryEntry, File, FileLock, FileSystem, IoFuture, Listener,
    Monotonic, OpenOptions, Runtime, UnixMillis,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};

/// Runs a future all of whose operations are ready at once.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a file in memory is always ready"),
    }
}

/// What reaches the disk together.
const SECTOR_BYTES: usize = 64;

#[derive(Clone, Default)]
struct Inode {
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Bytes that look clean since a sync failed: no later one writes them, unless they are written again.
    stuck: BTreeSet<usize>,
}

impl Inode {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        self.content.resize(self.content.len().max(end), 0);
        self.content[offset..end].copy_from_slice(bytes);
        self.stuck.retain(|position| !(offset..end).contains(position));
    }

    fn sync(&mut self) {
        let old = std::mem::replace(&mut self.durable, self.content.clone());
        for position in self.stuck.iter().filter(|position| **position < self.content.len()) {
            self.durable[*position] = old.get(*position).copied().unwrap_or(0);
        }
    }

    fn fail_sync(&mut self) {
        let differs = |position: &usize| self.durable.get(*position) != self.content.get(*position);
        self.stuck.extend((0..self.content.len()).filter(differs));
    }
}

type Shared<T> = Arc<Mutex<T>>;

#[derive(Default)]
struct Disk {
    files: BTreeMap<PathBuf, Shared<Inode>>,
    durable_files: BTreeMap<PathBuf, Shared<Inode>>,
    directories: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    /// Changes to the disk that succeed from here on; then all fail.
    steps_left: Option<usize>,
    fail_next_sync: bool,
    random: u64,
    syncs: usize,
    writes: usize,
}

impl Disk {
    /// One more change, if the process still lives.
    fn step(&mut self) -> io::Result<()> {
        match &mut self.steps_left {
            Some(0) => Err(io::Error::other("the process is dead")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// The disk; clones are the same one.
#[derive(Clone, Default)]
pub(super) struct World(Shared<Disk>);

impl World {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("not poisoned")
    }

    pub(super) fn runtime(&self) -> Runtime {
        Runtime::new(Arc::new(MemoryBackend { world: self.clone(), files: MemoryFiles(self.clone()) }))
    }

    /// After so many more changes to the disk the process dies: a write in the middle of itself.
    pub(super) fn die_after(&self, steps: usize) {
        self.disk().steps_left = Some(steps);
    }

    /// Whether it died.
    pub(super) fn is_dead(&self) -> bool {
        self.disk().steps_left == Some(0)
    }

    /// The next sync fails, and what it was to sync looks clean afterwards.
    pub(super) fn fail_next_sync(&self) {
        self.disk().fail_next_sync = true;
    }

    /// How many syncs of files and writes there were.
    pub(super) fn syncs_and_writes(&self) -> (usize, usize) {
        let disk = self.disk();
        (disk.syncs, disk.writes)
    }

    /// The process is dead; another may start.
    pub(super) fn kill(&self) {
        let mut disk = self.disk();
        disk.locks.clear();
        disk.steps_left = None;
    }

    /// The power fails. Of what was not synced, each sector, length and name survives or not, by the seed; without a
    /// seed nothing does.
    pub(super) fn lose_power(&self, seed: Option<u64>) {
        self.kill();
        let mut disk = self.disk();
        let mut random = seed.unwrap_or(0).wrapping_mul(2).wrapping_add(1);
        let mut survives = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed.is_some() && (random >> 40) & 1 == 1
        };
        let paths: BTreeSet<PathBuf> = disk.files.keys().chain(disk.durable_files.keys()).cloned().collect();
        let mut files = disk.durable_files.clone();
        for path in paths {
            if survives() {
                match disk.files.get(&path) {
                    Some(inode) => files.insert(path, inode.clone()),
                    None => files.remove(&path),
                };
            }
        }
        for inode in files.values() {
            let mut inode = inode.lock().expect("not poisoned");
            if survives() {
                let length = inode.content.len();
                inode.durable.resize(length, 0);
            }
            let common = inode.durable.len().min(inode.content.len());
            for start in (0..common).step_by(SECTOR_BYTES) {
                let sector = start..common.min(start + SECTOR_BYTES);
                if survives() {
                    let written = inode.content[sector.clone()].to_vec();
                    inode.durable[sector].copy_from_slice(&written);
                }
            }
            inode.content = inode.durable.clone();
            inode.stuck.clear();
        }
        disk.files = files.clone();
        disk.durable_files = files;
    }

    pub(super) fn names(&self, directory: &Path) -> Vec<String> {
        let disk = self.disk();
        let here = disk.files.keys().filter(|path| path.parent() == Some(directory));
        here.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
    }

    pub(super) fn content(&self, path: &Path) -> Vec<u8> {
        let inode = self.disk().files.get(path).cloned();
        let inode = inode.unwrap_or_else(|| panic!("{} is missing", path.display()));
        let inode = inode.lock().expect("not poisoned");
        inode.content.clone()
    }

    /// Puts bytes on the disk behind everybody's back.
    pub(super) fn put(&self, path: &Path, content: &[u8]) {
        let inode = Arc::new(Mutex::new(Inode {
            content: content.to_vec(),
            durable: content.to_vec(),
            stuck: BTreeSet::new(),
        }));
        let mut disk = self.disk();
        disk.files.insert(path.into(), inode.clone());
        disk.durable_files.insert(path.into(), inode);
    }

    pub(super) fn delete(&self, path: &Path) {
        let mut disk = self.disk();
        disk.files.remove(path);
        disk.durable_files.remove(path);
    }

    /// A copy, for trying one thing after the other from the same state; what is not synced is still not.
    pub(super) fn copy(&self) -> World {
        let disk = self.disk();
        let mut copies: Vec<(Shared<Inode>, Shared<Inode>)> = Vec::new();
        let mut copy = |files: &BTreeMap<PathBuf, Shared<Inode>>| -> BTreeMap<PathBuf, Shared<Inode>> {
            let mut copied = BTreeMap::new();
            for (path, inode) in files {
                let known = copies.iter().find(|(original, _)| Arc::ptr_eq(original, inode));
                let new = known.map(|(_, copy)| copy.clone()).unwrap_or_else(|| {
                    let new = Arc::new(Mutex::new(inode.lock().expect("not poisoned").clone()));
                    copies.push((inode.clone(), new.clone()));
                    new
                });
                copied.insert(path.clone(), new);
            }
            copied
        };
        let (files, durable_files) = (copy(&disk.files), copy(&disk.durable_files));
        let directories = disk.directories.clone();
        World(Arc::new(Mutex::new(Disk { files, durable_files, directories, ..Disk::default() })))
    }
}

struct MemoryBackend {
    world: World,
    files: MemoryFiles,
}
struct MemoryFiles(World);
struct MemoryFile(World, Shared<Inode>);

struct MemoryLock(World, PathBuf);
impl FileLock for MemoryLock {}
impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.disk().locks.remove(&self.1);
    }
}

impl Backend for MemoryBackend {
    fn now(&self) -> Monotonic {
        Monotonic(0)
    }
    fn unix_time(&self) -> UnixMillis {
        UnixMillis(0)
    }
    fn sleep_until(&self, _: Monotonic) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    fn spawn(&self, _: &'static str, _: BoxFuture<'static, ()>) -> Box<dyn AbortTask> {
        panic!("storage starts no tasks")
    }
    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        work();
        Box::pin(std::future::ready(()))
    }
    fn fill_random(&self, buffer: &mut [u8]) {
        for byte in buffer {
            let mut disk = self.world.disk();
            disk.random = disk.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            *byte = (disk.random >> 56) as u8;
        }
    }
    fn listen(&self, _: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }
    fn connect<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }
    fn fs(&self) -> &dyn FileSystem {
        &self.files
    }

    fn boot_id(&self) -> Option<u128> {
        None
    }
}

impl MemoryFile {
    fn inode(&self) -> MutexGuard<'_, Inode> {
        self.1.lock().expect("not poisoned")
    }
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inode().content.len() as u64)
    }

    fn read_at<'a>(&'a self, buffer: &'a mut [u8], offset: u64) -> IoFuture<'a, usize> {
        IoFuture::ready(self.read_at_now(buffer, offset))
    }

    fn read_at_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let inode = self.inode();
        let rest = inode.content.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at<'a>(&'a self, buffer: &'a [u8], offset: u64) -> IoFuture<'a, usize> {
        let result = self.0.disk().step();
        self.0.disk().writes += 1;
        // The write in which the process dies is done to a half.
        let written = if result.is_ok() { buffer } else { &buffer[..buffer.len() / 2] };
        self.inode().write(written, offset as usize);
        IoFuture::ready(result.map(|()| written.len()))
    }

    fn write_vectored_at<'a>(&'a self, buffers: &'a [io::IoSlice<'a>], offset: u64) -> IoFuture<'a, usize> {
        self.write_at(buffers.first().map_or(&[], |buffer| buffer), offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.disk().step()?;
        self.inode().content.resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> IoFuture<'_, ()> {
        let mut disk = self.0.disk();
        disk.syncs += 1;
        if let Err(error) = disk.step() {
            return IoFuture::ready(Err(error));
        }
        if std::mem::take(&mut disk.fail_next_sync) {
            self.inode().fail_sync();
            return IoFuture::ready(Err(io::Error::other("the disk did not answer")));
        }
        self.inode().sync();
        IoFuture::ready(Ok(()))
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl MemoryFiles {
    fn change<T>(&self, work: impl FnOnce(&mut Disk) -> io::Result<T>) -> IoFuture<'static, T> {
        let mut disk = self.0.disk();
        let result = disk.step().and_then(|()| work(&mut disk));
        IoFuture::ready(result)
    }
}

impl FileSystem for MemoryFiles {
    fn open<'a>(&'a self, path: &'a Path, options: OpenOptions) -> IoFuture<'a, Arc<dyn File>> {
        let world = self.0.clone();
        let open = |disk: &mut Disk| {
            let known = disk.files.get(path).cloned();
            if known.is_some() && options.create_new {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let inode = match known {
                Some(inode) => inode,
                None if options.create && disk.directories.contains(path.parent().expect("absolute")) => {
                    disk.files.entry(path.into()).or_default().clone()
                }
                None => return Err(not_found()),
            };
            if options.truncate {
                inode.lock().expect("not poisoned").content.clear();
            }
            Ok(Arc::new(MemoryFile(world, inode)) as Arc<dyn File>)
        };
        match options.create || options.truncate {
            true => self.change(open),
            false => IoFuture::ready(open(&mut self.0.disk())),
        }
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> IoFuture<'a, ()> {
        self.change(|disk| {
            let inode = disk.files.remove(from).ok_or_else(not_found)?;
            disk.files.insert(to.into(), inode);
            Ok(())
        })
    }

    fn remove<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        self.change(|disk| disk.files.remove(path).map(drop).ok_or_else(not_found))
    }

    fn remove_dir_all<'a>(&'a self, _: &'a Path) -> IoFuture<'a, ()> {
        panic!("storage removes no directories")
    }

    fn create_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        self.change(|disk| {
            disk.directories.extend(path.ancestors().map(PathBuf::from));
            Ok(())
        })
    }

    fn list<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Vec<DirectoryEntry>> {
        let disk = self.0.disk();
        let entry = |(file, inode): (&PathBuf, &Shared<Inode>)| {
            let name = file.file_name().filter(|_| file.parent() == Some(path))?.to_str()?.to_owned();
            let length = inode.lock().expect("not poisoned").content.len() as u64;
            Some(DirectoryEntry { name, is_directory: false, length })
        };
        IoFuture::ready(Ok(disk.files.iter().filter_map(entry).collect()))
    }

    fn sync_dir<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        self.change(|disk| {
            disk.durable_files.retain(|file, _| file.parent() != Some(path));
            let here: Vec<_> = disk.files.iter().filter(|(file, _)| file.parent() == Some(path)).collect();
            let here: Vec<_> = here.into_iter().map(|(file, inode)| (file.clone(), inode.clone())).collect();
            disk.durable_files.extend(here);
            Ok(())
        })
    }

    fn lock<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Box<dyn FileLock>> {
        let world = self.0.clone();
        self.change(|disk| {
            disk.files.entry(path.into()).or_default();
            match disk.locks.insert(path.into()) {
                true => Ok(Box::new(MemoryLock(world, path.into())) as Box<dyn FileLock>),
                false => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
    }
}
