//! An open file of one process. Owns the faults of reads and writes; the bytes are in `page_cache`.

use super::{Disk, FaultKind, directory::FileInode, os_error};
use crate::{
    decisions::Stream,
    profile::{self, Part},
    world::{
        lock,
        timer::{now_ns, sleep_until_ns},
    },
};
use sillon_runtime::{File, IoFuture, OpenOptions};
use std::{
    io::{self, IoSlice},
    sync::Arc,
};

/// The longest file: far beyond what a simulation has memory for, so that a wild offset is an error and no crash.
const MAX_FILE_BYTES: u64 = 1 << 32;

/// An open file.
pub(super) struct ProcessFile {
    pub(super) disk: Arc<Disk>,
    pub(super) inode: Arc<FileInode>,
    pub(super) incarnation: u64,
    pub(super) options: OpenOptions,
}

impl ProcessFile {
    fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let _counted = profile::within(Part::Disk);
        if !self.options.read {
            return Err(os_error(libc::EBADF));
        }
        let (error_ppm, rot_ppm) = {
            let faults = &self.disk.act(self.incarnation)?.faults;
            (faults.read_error_ppm, faults.bit_rot_ppm)
        };
        if self.disk.strikes("read fails", error_ppm, FaultKind::ReadError, &self.inode) {
            return Err(os_error(libc::EIO));
        }
        if self.disk.core.decisions.chance(Stream::DiskFault, "bit rots", rot_ppm) {
            self.rot(offset, buffer.len());
        }
        Ok(lock(&self.inode.cache).read(buffer, offset))
    }

    /// Changes one bit of what is about to be read.
    fn rot(&self, offset: u64, length: usize) {
        let decisions = &self.disk.core.decisions;
        let mut cache = lock(&self.inode.cache);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(cache.len());
        let range = length.min(cache.len() - start);
        if range == 0 {
            return;
        }
        let position = start + decisions.part_of(Stream::DiskFault, "place of the rot", range) - 1;
        let bit = decisions.draw(Stream::DiskFault, "bit that rots", 0, 7) as u8;
        if cache.is_clean_at(position) {
            cache.flip_bit(position, bit);
            let fields = [("inode", self.inode.id), ("position", position as u64)];
            self.disk.core.fault(self.disk.node, FaultKind::BitRot, &fields);
        }
    }

    fn write_now(&self, buffers: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let _counted = profile::within(Part::Disk);
        if !self.options.write {
            return Err(os_error(libc::EBADF));
        }
        let (error_ppm, short_ppm) = {
            let faults = &self.disk.act(self.incarnation)?.faults;
            (faults.write_error_ppm, faults.short_write_ppm)
        };
        if self.disk.strikes("write fails", error_ppm, FaultKind::WriteError, &self.inode) {
            return Err(os_error(libc::EIO));
        }
        let mut count: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if count > 1 && self.disk.strikes("write is short", short_ppm, FaultKind::ShortWrite, &self.inode) {
            count = self.disk.core.decisions.part_of(Stream::DiskFault, "part of a write", count - 1);
        }
        if count == 0 {
            return Ok(0);
        }
        let end = offset.checked_add(count as u64).filter(|end| *end <= MAX_FILE_BYTES);
        end.ok_or_else(|| os_error(libc::EFBIG))?;
        let count = self.reserve(offset, count)?;
        let mut cache = lock(&self.inode.cache);
        let mut done = 0;
        for buffer in buffers {
            let part = &buffer[..buffer.len().min(count - done)];
            cache.write(offset as usize + done, part);
            done += part.len();
            if done == count {
                break;
            }
        }
        Ok(count)
    }

    /// Takes room on the disk for a write: for all of it, or for as much as fits.
    fn reserve(&self, offset: u64, count: usize) -> io::Result<usize> {
        let mut state = self.disk.act(self.incarnation)?;
        if self.inode.is_removed() {
            return Ok(count);
        }
        let length = lock(&self.inode.cache).len() as u64;
        let grows = (offset + count as u64).saturating_sub(length);
        let free = state
            .faults
            .capacity_bytes
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used_bytes));
        if grows <= free {
            state.used_bytes += grows;
            return Ok(count);
        }
        self.disk.core.fault(
            self.disk.node,
            FaultKind::DiskFull,
            &[("inode", self.inode.id), ("free", free)],
        );
        let fits = (length + free).saturating_sub(offset).min(count as u64);
        if fits == 0 {
            return Err(os_error(libc::ENOSPC));
        }
        state.used_bytes += (offset + fits).saturating_sub(length);
        Ok(fits as usize)
    }

    fn read_delay_ns(&self) -> u64 {
        let range = lock(&self.disk.state).faults.read_latency_us;
        self.disk.delay_ns("latency of a read", range, 0, (0, 0))
    }

    fn write_delay_ns(&self) -> u64 {
        let (range, stall_ppm, stall_ms) = {
            let faults = &lock(&self.disk.state).faults;
            (faults.write_latency_us, faults.stall_ppm, faults.stall_ms)
        };
        self.disk.delay_ns("latency of a write", range, stall_ppm, stall_ms)
    }
}

impl File for ProcessFile {
    fn len(&self) -> io::Result<u64> {
        drop(self.disk.act(self.incarnation)?);
        Ok(lock(&self.inode.cache).len() as u64)
    }

    fn read_at<'a>(&'a self, buffer: &'a mut [u8], offset: u64) -> IoFuture<'a, usize> {
        match self.read_delay_ns() {
            0 => IoFuture::ready(self.read_now(buffer, offset)),
            delay_ns => IoFuture::Boxed(Box::pin(async move {
                sleep_until_ns(now_ns() + delay_ns).await;
                self.read_now(buffer, offset)
            })),
        }
    }

    fn read_at_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_now(buffer, offset)
    }

    fn write_at<'a>(&'a self, buffer: &'a [u8], offset: u64) -> IoFuture<'a, usize> {
        match self.write_delay_ns() {
            0 => IoFuture::ready(self.write_now(&[IoSlice::new(buffer)], offset)),
            delay_ns => IoFuture::Boxed(Box::pin(async move {
                sleep_until_ns(now_ns() + delay_ns).await;
                self.write_now(&[IoSlice::new(buffer)], offset)
            })),
        }
    }

    fn write_vectored_at<'a>(&'a self, buffers: &'a [IoSlice<'a>], offset: u64) -> IoFuture<'a, usize> {
        match self.write_delay_ns() {
            0 => IoFuture::ready(self.write_now(buffers, offset)),
            delay_ns => IoFuture::Boxed(Box::pin(async move {
                sleep_until_ns(now_ns() + delay_ns).await;
                self.write_now(buffers, offset)
            })),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if !self.options.write {
            return Err(os_error(libc::EINVAL));
        }
        if length > MAX_FILE_BYTES {
            return Err(os_error(libc::EFBIG));
        }
        let mut state = self.disk.act(self.incarnation)?;
        let mut cache = lock(&self.inode.cache);
        let before = cache.len() as u64;
        let free = state
            .faults
            .capacity_bytes
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(state.used_bytes));
        if length.saturating_sub(before) > free {
            self.disk.core.fault(
                self.disk.node,
                FaultKind::DiskFull,
                &[("inode", self.inode.id), ("free", free)],
            );
            return Err(os_error(libc::ENOSPC));
        }
        if !self.inode.is_removed() {
            state.used_bytes = state.used_bytes + length - before;
        }
        cache.set_len(length as usize);
        Ok(())
    }

    fn sync_data(&self) -> IoFuture<'_, ()> {
        let _counted = profile::within(Part::Disk);
        let (range, stall_ppm, stall_ms) = match self.disk.act(self.incarnation) {
            Ok(state) => (state.faults.sync_latency_us, state.faults.stall_ppm, state.faults.stall_ms),
            Err(error) => return IoFuture::ready(Err(error)),
        };
        // Only what was written before the call is synced.
        let ticket = lock(&self.inode.cache).begin_sync();
        match self.disk.delay_ns("latency of a sync", range, stall_ppm, stall_ms) {
            0 => IoFuture::ready(self.disk.finish_sync(&self.inode, &ticket)),
            delay_ns => IoFuture::Boxed(Box::pin(async move {
                sleep_until_ns(now_ns() + delay_ns).await;
                drop(self.disk.act(self.incarnation)?);
                self.disk.finish_sync(&self.inode, &ticket)
            })),
        }
    }
}
