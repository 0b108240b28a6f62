//! The disk of one machine. Owns its faults, its capacity and what a power failure leaves; contents are in
//! `page_cache`, names in `directory`, what processes hold in `file` and `file_system`.

mod directory;
mod faults;
mod file;
mod file_system;
mod page_cache;

pub use faults::DiskFaults;
pub(super) use file_system::ProcessFileSystem;
pub use page_cache::{FileLoss, PAGE_BYTES};

use super::{Core, FaultKind, NodeId, dead_process, lock};
use crate::decisions::Stream;
use directory::{FileInode, Inode, Tree, View};
use page_cache::SyncTicket;
use std::{
    collections::BTreeMap,
    fmt, io,
    path::Path,
    sync::{Arc, Mutex},
};

/// What a power failure did to a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerLoss {
    /// Each file of which something had not been synced, with its outcome.
    pub files: Vec<FileLoss>,
    /// Unsynced changes of directories that survived.
    pub kept_directory_changes: u64,
    /// Unsynced changes of directories that did not.
    pub lost_directory_changes: u64,
}

impl PowerLoss {
    /// Whether anything at all that processes had seen is not there any more.
    pub fn lost_anything(&self) -> bool {
        self.lost_directory_changes > 0
            || self
                .files
                .iter()
                .any(|file| file.lost_pages + file.torn_pages > 0 || file.length < file.cached_length)
    }
}

/// A simulated disk, with its page cache.
pub struct Disk {
    core: Arc<Core>,
    node: NodeId,
    state: Mutex<State>,
}

struct State {
    tree: Tree,
    faults: DiskFaults,
    used_bytes: u64,
    /// The process that may act; 0 for none.
    live: u64,
    /// Lock files that are held, by inode.
    locks: BTreeMap<u64, u64>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Disk({}, {} bytes)", self.node, self.used_bytes())
    }
}

fn os_error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl Disk {
    pub(super) fn new(core: Arc<Core>, node: NodeId, faults: DiskFaults) -> Arc<Disk> {
        let state = State { tree: Tree::new(), faults, used_bytes: 0, live: 0, locks: BTreeMap::new() };
        Arc::new(Disk { core, node, state: Mutex::new(state) })
    }

    /// How the disk behaves at present.
    pub fn faults(&self) -> DiskFaults {
        lock(&self.state).faults.clone()
    }

    /// Changes how the disk behaves from now on.
    pub fn set_faults(&self, faults: DiskFaults) {
        lock(&self.state).faults = faults;
    }

    /// Changes some of how the disk behaves.
    pub fn change_faults(&self, change: impl FnOnce(&mut DiskFaults)) {
        change(&mut lock(&self.state).faults);
    }

    /// How many bytes the files have, as processes see them.
    pub fn used_bytes(&self) -> u64 {
        lock(&self.state).used_bytes
    }

    /// The paths of all files, as processes see them, sorted.
    pub fn files(&self) -> Vec<String> {
        self.paths(View::Cached)
    }

    /// The paths of all files that would be there if power failed now and everything unsynced were lost.
    pub fn durable_files(&self) -> Vec<String> {
        self.paths(View::Durable)
    }

    /// The path of a file by the number that events name it with; nothing where it has been removed.
    pub fn path_of(&self, inode: u64) -> Option<String> {
        let files = lock(&self.state).tree.files(View::Cached);
        files.into_iter().find(|(_, file)| file.id == inode).map(|(path, _)| path)
    }

    /// The content of a file, as processes see it.
    pub fn read_file(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.file(path.as_ref(), View::Cached).map(|file| lock(&file.cache).content().to_vec())
    }

    /// What a file would hold if power failed now and everything unsynced were lost; nothing where it would not exist.
    pub fn durable_view(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.file(path.as_ref(), View::Durable).map(|file| lock(&file.cache).durable_image())
    }

    /// How long a file would be if power failed now and everything unsynced were lost.
    pub fn durable_length(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.file(path.as_ref(), View::Durable).map(|file| lock(&file.cache).durable_length() as u64)
    }

    /// Changes one stored bit of a file, in cache and on the platter. False where there is no such byte or its page
    /// is not on the platter as it is in the cache.
    pub fn flip_bit(&self, path: impl AsRef<Path>, position: u64, bit: u8) -> bool {
        let Some(file) = self.file(path.as_ref(), View::Cached) else { return false };
        let Ok(position) = usize::try_from(position) else { return false };
        let mut cache = lock(&file.cache);
        let rots = cache.is_clean_at(position);
        if rots {
            cache.flip_bit(position, bit);
            self.core.fault(
                self.node,
                FaultKind::BitRot,
                &[("inode", file.id), ("position", position as u64)],
            );
        }
        rots
    }

    /// Replaces the disk by an empty one. Open files of a process that runs become orphans.
    pub fn wipe(&self) {
        let old = {
            let mut state = lock(&self.state);
            state.used_bytes = 0;
            state.locks.clear();
            for (_, file) in state.tree.files(View::Cached) {
                file.set_removed(true);
            }
            std::mem::replace(&mut state.tree, Tree::new())
        };
        drop(old);
        self.core.fault(self.node, FaultKind::Wipe, &[]);
    }

    pub(super) fn process_started(&self, incarnation: u64) {
        lock(&self.state).live = incarnation;
    }

    /// The operating system releases what the process had locked. Its cached pages stay.
    pub(super) fn process_ended(&self) {
        let mut state = lock(&self.state);
        state.live = 0;
        state.locks.clear();
    }

    /// Power fails: the cache is gone, and of what was not synced there is what chance left.
    pub(super) fn power_loss(&self) -> PowerLoss {
        let decisions = &self.core.decisions;
        let mut draw = |what, low, high| decisions.draw(Stream::PowerLoss, what, low, high);
        let mut loss = PowerLoss::default();
        let mut state = lock(&self.state);
        (loss.kept_directory_changes, loss.lost_directory_changes) = state.tree.power_loss(&mut draw);
        state.used_bytes = 0;
        for (path, file) in state.tree.files(View::Cached) {
            file.set_removed(false);
            let mut cache = lock(&file.cache);
            let touched = !cache.is_durable();
            let outcome = FileLoss { path, ..cache.power_loss(&mut draw) };
            state.used_bytes += cache.len() as u64;
            if touched {
                self.core.event(
                    self.node,
                    "file-after-power-loss",
                    &[
                        ("inode", file.id),
                        ("cached", outcome.cached_length),
                        ("durable", outcome.durable_length),
                        ("length", outcome.length),
                        ("checksum", u64::from(crc32fast::hash(cache.content()))),
                    ],
                );
                loss.files.push(outcome);
            }
        }
        drop(state);
        self.report(&loss);
        loss
    }

    fn report(&self, loss: &PowerLoss) {
        let sum = |pages: fn(&FileLoss) -> u64| loss.files.iter().map(pages).sum::<u64>();
        let (kept, lost) = (sum(|file| file.kept_pages), sum(|file| file.lost_pages));
        let torn = sum(|file| file.torn_pages);
        self.core.faults.add(FaultKind::LostPage, lost);
        self.core.faults.add(FaultKind::TornPage, torn);
        self.core.faults.add(FaultKind::LostDirectoryChange, loss.lost_directory_changes);
        self.core.event(
            self.node,
            "disk-after-power-loss",
            &[
                ("kept_pages", kept),
                ("lost_pages", lost),
                ("torn_pages", torn),
                ("kept_directory_changes", loss.kept_directory_changes),
                ("lost_directory_changes", loss.lost_directory_changes),
            ],
        );
    }

    fn paths(&self, view: View) -> Vec<String> {
        lock(&self.state).tree.files(view).into_iter().map(|(path, _)| path).collect()
    }

    fn file(&self, path: &Path, view: View) -> Option<Arc<FileInode>> {
        match lock(&self.state).tree.find(path, view) {
            Ok(Inode::File(file)) => Some(file),
            _ => None,
        }
    }

    /// Locks for a process that wants to act.
    fn act(&self, incarnation: u64) -> io::Result<std::sync::MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.live == incarnation { Ok(state) } else { Err(dead_process()) }
    }

    fn strikes(&self, what: &'static str, parts_per_million: u32, kind: FaultKind, file: &FileInode) -> bool {
        let strikes = self.core.decisions.chance(Stream::DiskFault, what, parts_per_million);
        if strikes {
            self.core.fault(self.node, kind, &[("inode", file.id)]);
        }
        strikes
    }

    /// How long an operation takes, in nanoseconds.
    fn delay_ns(
        &self,
        what: &'static str,
        range_us: (u64, u64),
        stall_ppm: u32,
        stall_ms: (u64, u64),
    ) -> u64 {
        let decisions = &self.core.decisions;
        let mut delay_ns = 0;
        if range_us.1 > 0 {
            let (low, high) = (range_us.0.min(range_us.1) * 1_000, range_us.1 * 1_000);
            delay_ns = decisions.draw(Stream::DiskLatency, what, low, high);
        }
        if decisions.chance(Stream::DiskLatency, "disk stalls", stall_ppm) {
            let (low, high) = (stall_ms.0.min(stall_ms.1) * 1_000_000, stall_ms.1 * 1_000_000);
            let stall_ns = decisions.draw(Stream::DiskLatency, "time of a stall", low, high);
            self.core.fault(self.node, FaultKind::DiskStall, &[("ns", stall_ns)]);
            delay_ns += stall_ns;
        }
        delay_ns
    }

    /// Ends a sync that has begun with `ticket`, well or badly.
    fn finish_sync(&self, file: &FileInode, ticket: &SyncTicket) -> io::Result<()> {
        let (error_ppm, misdirected_ppm) = {
            let faults = &lock(&self.state).faults;
            (faults.sync_error_ppm, faults.misdirected_write_ppm)
        };
        let mut cache = lock(&file.cache);
        if self.strikes("sync fails", error_ppm, FaultKind::SyncError, file) {
            cache.fail_sync(ticket);
            return Err(os_error(libc::EIO));
        }
        let decisions = &self.core.decisions;
        if decisions.chance(Stream::DiskFault, "write is misdirected", misdirected_ppm) {
            let mut draw = |what, low, high| decisions.draw(Stream::DiskFault, what, low, high);
            if let Some((intended, hit)) = cache.misdirect_sync(ticket, &mut draw) {
                self.core.fault(
                    self.node,
                    FaultKind::MisdirectedWrite,
                    &[("inode", file.id), ("intended_page", intended as u64), ("hit_page", hit as u64)],
                );
            }
        } else {
            cache.complete_sync(ticket);
        }
        let durable = cache.durable_length() as u64;
        self.core.event(self.node, "sync", &[("inode", file.id), ("length", durable)]);
        Ok(())
    }
}
