//! A world in memory for the tests of this folder: a clock that is set by hand, and a disk with a page cache that
//! loses what was not synced, whose failed syncs leave clean-looking pages, and that fails on demand.

use super::block_on;
use sillon_runtime::{
    AbortTask, Backend, BoxFuture, BoxStream, DirectoryEntry, File, FileLock, FileSystem, IoFuture, Listener,
    Monotonic, OpenOptions, Runtime, UnixMillis,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Write,
    Sync,
    SyncDirectory,
    Open,
    Rename,
}

/// One failure to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) operation: Operation,
    /// How many such operations succeed before.
    pub(crate) after: usize,
    /// A write that fails stores so many bytes nevertheless.
    pub(crate) stored: usize,
    pub(crate) kind: io::ErrorKind,
}

#[derive(Default)]
struct Inode {
    content: Vec<u8>,
    durable: Vec<u8>,
    dirty: Vec<Range<usize>>,
}

impl Inode {
    fn write(&mut self, bytes: &[u8], at: usize) {
        if self.content.len() < at + bytes.len() {
            self.content.resize(at + bytes.len(), 0);
        }
        self.content[at..at + bytes.len()].copy_from_slice(bytes);
        self.dirty.push(at..at + bytes.len());
    }

    fn sync(&mut self) {
        self.durable.resize(self.content.len(), 0);
        for range in std::mem::take(&mut self.dirty) {
            let range = range.start.min(self.content.len())..range.end.min(self.content.len());
            self.durable[range.clone()].copy_from_slice(&self.content[range]);
        }
    }
}

type Meanwhile = Box<dyn FnOnce() + Send>;
type Shared<T> = Arc<Mutex<T>>;

#[derive(Default)]
struct Disk {
    files: BTreeMap<PathBuf, Shared<Inode>>,
    directories: BTreeSet<PathBuf>,
    durable_files: BTreeMap<PathBuf, Shared<Inode>>,
    durable_directories: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    faults: Vec<Fault>,
    /// After how many more changes everything fails; none where nothing does.
    steps_left: Option<usize>,
    /// What happens in the middle of somebody else's write, after so many of them.
    meanwhile: Option<(usize, Meanwhile)>,
    /// Names that were given to files since their directory was synced: the old one goes with the new one.
    renamed: Vec<(PathBuf, PathBuf)>,
    random: u64,
    now: u64,
    unix_ms: i64,
}

impl Disk {
    /// Counts a change; an error once the process is as good as dead.
    fn step(&mut self) -> io::Result<()> {
        match &mut self.steps_left {
            None => Ok(()),
            Some(0) => Err(io::ErrorKind::BrokenPipe.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// The failure that is due now, if any.
    fn fault(&mut self, operation: Operation) -> Option<Fault> {
        let index = self.faults.iter().position(|fault| fault.operation == operation)?;
        if self.faults[index].after > 0 {
            self.faults[index].after -= 1;
            return None;
        }
        Some(self.faults.remove(index))
    }
}

/// The world; clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct World(Shared<Disk>);

impl World {
    pub(crate) fn new() -> World {
        let world = World::default();
        world.disk().unix_ms = 1_700_000_000_000;
        world
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().expect("not poisoned")
    }

    pub(crate) fn runtime(&self) -> Runtime {
        Runtime::new(Arc::new(MemoryBackend { world: self.clone(), files: MemoryFiles(self.clone()) }))
    }

    pub(crate) fn unix_ms(&self) -> i64 {
        self.disk().unix_ms
    }

    /// Moves both clocks.
    pub(crate) fn advance(&self, by_ms: i64) {
        let mut disk = self.disk();
        disk.now += by_ms as u64 * 1_000_000;
        disk.unix_ms += by_ms;
    }

    pub(crate) fn fail(&self, operation: Operation, after: usize, kind: io::ErrorKind) {
        self.disk().faults.push(Fault { operation, after, stored: 0, kind });
    }

    pub(crate) fn fail_write_halfway(&self, stored: usize) {
        let kind = io::ErrorKind::StorageFull;
        self.disk().faults.push(Fault { operation: Operation::Write, after: 0, stored, kind });
    }

    pub(crate) fn no_more_faults(&self) {
        self.disk().faults.clear();
    }

    /// Has something else happen right before a write, after so many of them.
    pub(crate) fn meanwhile(&self, after: usize, what: impl FnOnce() + Send + 'static) {
        self.disk().meanwhile = Some((after, Box::new(what)));
    }

    fn let_others_work(&self) {
        let mut disk = self.disk();
        let due = match &mut disk.meanwhile {
            Some((0, _)) => disk.meanwhile.take(),
            Some((after, _)) => {
                *after -= 1;
                None
            }
            None => None,
        };
        drop(disk);
        if let Some((_, what)) = due {
            what();
        }
    }

    /// Lets so many changes to the disk happen, and no more; none lifts that. Gives what was left of the last limit.
    pub(crate) fn limit_steps(&self, steps: Option<usize>) -> Option<usize> {
        std::mem::replace(&mut self.disk().steps_left, steps)
    }

    /// The machine loses power: what was not synced is gone. With a seed, some of it is not.
    pub(crate) fn lose_power(&self, seed: Option<u64>) {
        let mut disk = self.disk();
        let mut random = seed.unwrap_or(0) | 1;
        let mut survives = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed.is_some() && random >> 62 != 0
        };
        let mut files = disk.durable_files.clone();
        let mut paths: BTreeSet<PathBuf> =
            disk.files.keys().chain(disk.durable_files.keys()).cloned().collect();
        // A rename is in the journal as a whole or not at all, and in its order.
        let renamed = std::mem::take(&mut disk.renamed);
        for (from, to) in &renamed {
            paths.remove(from);
            paths.remove(to);
        }
        let lasting = renamed.iter().take_while(|_| survives()).count();
        for (from, to) in &renamed[..lasting] {
            if let Some(inode) = files.remove(from).or_else(|| disk.files.get(to).cloned()) {
                files.insert(to.clone(), inode);
            }
        }
        for path in paths {
            let (new, old) = (disk.files.get(&path), disk.durable_files.get(&path));
            let same = matches!((new, old), (Some(new), Some(old)) if Arc::ptr_eq(new, old));
            if !same && survives() {
                match new {
                    Some(new) => files.insert(path, new.clone()),
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
            for range in std::mem::take(&mut inode.dirty) {
                let end = range.end.min(inode.durable.len()).min(inode.content.len());
                if range.start < end && survives() {
                    let written = inode.content[range.start..end].to_vec();
                    inode.durable[range.start..end].copy_from_slice(&written);
                }
            }
            inode.content = inode.durable.clone();
        }
        if seed.is_none() {
            disk.directories = disk.durable_directories.clone();
        }
        disk.files = files.clone();
        disk.durable_files = files;
        disk.durable_directories = disk.directories.clone();
        disk.locks.clear();
    }

    /// The process dies; the machine does not.
    pub(crate) fn kill(&self) {
        self.disk().locks.clear();
    }

    pub(crate) fn names(&self, directory: &Path) -> Vec<String> {
        let entries = block_on(MemoryFiles(self.clone()).list(directory)).expect("the directory is there");
        entries.into_iter().map(|entry| entry.name).collect()
    }

    pub(crate) fn content(&self, path: &Path) -> Vec<u8> {
        let inode =
            self.disk().files.get(path).cloned().unwrap_or_else(|| panic!("{} is missing", path.display()));
        let inode = inode.lock().expect("not poisoned");
        inode.content.clone()
    }

    /// Puts bytes on the disk behind everybody's back.
    pub(crate) fn put(&self, path: &Path, content: &[u8]) {
        let mut disk = self.disk();
        let inode = Inode { content: content.to_vec(), durable: content.to_vec(), dirty: Vec::new() };
        let inode = Arc::new(Mutex::new(inode));
        disk.files.insert(path.into(), inode.clone());
        disk.durable_files.insert(path.into(), inode);
    }

    pub(crate) fn delete(&self, path: &Path) {
        let mut disk = self.disk();
        disk.files.remove(path);
        disk.durable_files.remove(path);
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        self.disk().files.contains_key(path)
    }

    /// A copy of the disk, for trying one thing after the other from the same state.
    pub(crate) fn copy(&self) -> World {
        let disk = self.disk();
        let copy = |files: &BTreeMap<PathBuf, Shared<Inode>>| -> BTreeMap<PathBuf, Shared<Inode>> {
            let inode = |inode: &Shared<Inode>| {
                let inode = inode.lock().expect("not poisoned");
                let (content, durable, dirty) =
                    (inode.content.clone(), inode.durable.clone(), inode.dirty.clone());
                Arc::new(Mutex::new(Inode { content, durable, dirty }))
            };
            files.iter().map(|(path, file)| (path.clone(), inode(file))).collect()
        };
        let files = copy(&disk.files);
        let copied = Disk {
            durable_files: files.clone(),
            files,
            directories: disk.directories.clone(),
            durable_directories: disk.durable_directories.clone(),
            now: disk.now,
            unix_ms: disk.unix_ms,
            ..Disk::default()
        };
        World(Arc::new(Mutex::new(copied)))
    }
}

struct MemoryBackend {
    world: World,
    files: MemoryFiles,
}
struct MemoryFiles(World);

struct MemoryFile {
    world: World,
    inode: Shared<Inode>,
}

struct MemoryLock(World, PathBuf);
impl FileLock for MemoryLock {}
impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.disk().locks.remove(&self.1);
    }
}

struct Done;
impl AbortTask for Done {
    fn abort(&self) {}
}

impl Backend for MemoryBackend {
    fn now(&self) -> Monotonic {
        Monotonic(self.world.disk().now)
    }
    fn unix_time(&self) -> UnixMillis {
        UnixMillis(self.world.disk().unix_ms)
    }
    fn sleep_until(&self, _: Monotonic) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    fn spawn(&self, _: &'static str, future: BoxFuture<'static, ()>) -> Box<dyn AbortTask> {
        block_on(future);
        Box::new(Done)
    }
    fn blocking(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'static, ()> {
        work();
        Box::pin(std::future::ready(()))
    }
    fn fill_random(&self, buffer: &mut [u8]) {
        for byte in buffer {
            let mut disk = self.world.disk();
            disk.random += 1;
            *byte = disk.random as u8;
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

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.inode.lock().expect("not poisoned").content.len() as u64)
    }

    fn read_at<'a>(&'a self, buffer: &'a mut [u8], offset: u64) -> IoFuture<'a, usize> {
        IoFuture::ready(self.read_at_now(buffer, offset))
    }

    fn read_at_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let inode = self.inode.lock().expect("not poisoned");
        let rest = inode.content.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at<'a>(&'a self, buffer: &'a [u8], offset: u64) -> IoFuture<'a, usize> {
        self.world.let_others_work();
        if let Err(error) = self.world.disk().step() {
            return IoFuture::ready(Err(error));
        }
        let fault = self.world.disk().fault(Operation::Write);
        let stored = fault.map_or(buffer.len(), |fault| fault.stored.min(buffer.len()));
        self.inode.lock().expect("not poisoned").write(&buffer[..stored], offset as usize);
        IoFuture::ready(fault.map_or(Ok(stored), |fault| Err(fault.kind.into())))
    }

    fn write_vectored_at<'a>(&'a self, buffers: &'a [io::IoSlice<'a>], offset: u64) -> IoFuture<'a, usize> {
        if let Err(error) = self.world.disk().step() {
            return IoFuture::ready(Err(error));
        }
        let joined: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        let fault = self.world.disk().fault(Operation::Write);
        let stored = fault.map_or(joined.len(), |fault| fault.stored.min(joined.len()));
        self.inode.lock().expect("not poisoned").write(&joined[..stored], offset as usize);
        IoFuture::ready(fault.map_or(Ok(stored), |fault| Err(fault.kind.into())))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inode.lock().expect("not poisoned").content.resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> IoFuture<'_, ()> {
        if let Err(error) = self.world.disk().step() {
            return IoFuture::ready(Err(error));
        }
        let fault = self.world.disk().fault(Operation::Sync);
        let mut inode = self.inode.lock().expect("not poisoned");
        match fault {
            None => inode.sync(),
            // The pages look clean from here on, and were never written.
            Some(_) => inode.dirty.clear(),
        }
        IoFuture::ready(fault.map_or(Ok(()), |fault| Err(fault.kind.into())))
    }
}

impl MemoryFiles {
    fn run<T>(
        &self,
        operation: Option<Operation>,
        work: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> IoFuture<'static, T> {
        let mut disk = self.0.disk();
        if let Some(fault) = operation.and_then(|operation| disk.fault(operation)) {
            return IoFuture::ready(Err(fault.kind.into()));
        }
        IoFuture::ready(work(&mut disk))
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl FileSystem for MemoryFiles {
    fn open<'a>(&'a self, path: &'a Path, options: OpenOptions) -> IoFuture<'a, Arc<dyn File>> {
        let world = self.0.clone();
        self.run(Some(Operation::Open), |disk| {
            let inode = match disk.files.get(path) {
                Some(inode) => inode.clone(),
                None if options.create => {
                    let parent = path.parent().expect("tests use absolute paths");
                    if !disk.directories.contains(parent) {
                        return Err(not_found());
                    }
                    disk.files.entry(path.into()).or_default().clone()
                }
                None => return Err(not_found()),
            };
            if options.truncate {
                inode.lock().expect("not poisoned").content.clear();
            }
            Ok(Arc::new(MemoryFile { world, inode }) as Arc<dyn File>)
        })
    }

    fn rename<'a>(&'a self, from: &'a Path, to: &'a Path) -> IoFuture<'a, ()> {
        self.run(Some(Operation::Rename), |disk| {
            disk.step()?;
            if let Some(inode) = disk.files.remove(from) {
                disk.files.insert(to.into(), inode);
                disk.renamed.push((from.into(), to.into()));
                return Ok(());
            }
            if !disk.directories.remove(from) {
                return Err(not_found());
            }
            disk.directories.insert(to.into());
            let inside: Vec<_> = disk.files.keys().filter(|path| path.starts_with(from)).cloned().collect();
            for path in inside {
                let moved = to.join(path.strip_prefix(from).expect("it starts with it"));
                let inode = disk.files.remove(&path).expect("listed");
                disk.files.insert(moved, inode);
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        self.run(None, |disk| {
            disk.step()?;
            disk.files.remove(path).map(drop).ok_or_else(not_found)
        })
    }

    fn remove_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        self.run(None, |disk| {
            disk.files.retain(|file, _| !file.starts_with(path));
            disk.directories.retain(|directory| !directory.starts_with(path));
            Ok(())
        })
    }

    fn create_dir_all<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        self.run(None, |disk| {
            disk.directories.extend(path.ancestors().map(PathBuf::from));
            Ok(())
        })
    }

    fn list<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Vec<DirectoryEntry>> {
        self.run(None, |disk| {
            if !disk.directories.contains(path) {
                return Err(not_found());
            }
            let name = |entry: &Path| {
                let name = entry.file_name().filter(|_| entry.parent() == Some(path))?;
                Some(name.to_str().expect("tests use UTF-8").to_owned())
            };
            let files = disk.files.iter().filter_map(|(file, inode)| {
                let length = inode.lock().expect("not poisoned").content.len() as u64;
                Some(DirectoryEntry { name: name(file)?, is_directory: false, length })
            });
            let directories = disk.directories.iter().filter_map(|directory| {
                Some(DirectoryEntry { name: name(directory)?, is_directory: true, length: 0 })
            });
            let mut entries: Vec<_> = files.chain(directories).collect();
            entries.sort();
            Ok(entries)
        })
    }

    fn sync_dir<'a>(&'a self, path: &'a Path) -> IoFuture<'a, ()> {
        self.run(Some(Operation::SyncDirectory), |disk| {
            disk.step()?;
            let here = |entry: &Path| entry.parent() == Some(path);
            disk.renamed.retain(|(from, _)| !here(from));
            disk.durable_files.retain(|file, _| !here(file));
            let files: Vec<_> = disk
                .files
                .iter()
                .filter(|(file, _)| here(file))
                .map(|(path, inode)| (path.clone(), inode.clone()))
                .collect();
            disk.durable_files.extend(files);
            disk.durable_directories.retain(|directory| !here(directory));
            let directories: Vec<_> =
                disk.directories.iter().filter(|directory| here(directory)).cloned().collect();
            disk.durable_directories.extend(directories);
            Ok(())
        })
    }

    fn lock<'a>(&'a self, path: &'a Path) -> IoFuture<'a, Box<dyn FileLock>> {
        let world = self.0.clone();
        self.run(None, |disk| {
            disk.files.entry(path.into()).or_default();
            match disk.locks.insert(path.into()) {
                true => Ok(Box::new(MemoryLock(world, path.into())) as Box<dyn FileLock>),
                false => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
    }
}
