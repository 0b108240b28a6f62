//! Helpers for the tests of this folder: files in memory, batches, an executor for futures that never wait.

pub(crate) mod world;

use bytes::Bytes;
use sillon_protocol::records::{BatchBuilder, Compression};
use sillon_runtime::{File, IoFuture};
use std::{
    future::Future,
    io,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

/// Runs a future all of whose operations are ready at once.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a file in memory is always ready"),
    }
}

struct MemoryFile(Mutex<Vec<u8>>);

/// A file with this content.
pub(crate) fn memory_file(content: Vec<u8>) -> Arc<dyn File> {
    Arc::new(MemoryFile(Mutex::new(content)))
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().expect("not poisoned").len() as u64)
    }

    fn read_at<'a>(&'a self, buffer: &'a mut [u8], offset: u64) -> IoFuture<'a, usize> {
        IoFuture::ready(self.read_at_now(buffer, offset))
    }

    fn read_at_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.0.lock().expect("not poisoned");
        let rest = content.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at<'a>(&'a self, _: &'a [u8], _: u64) -> IoFuture<'a, usize> {
        IoFuture::ready(Err(io::ErrorKind::ReadOnlyFilesystem.into()))
    }

    fn write_vectored_at<'a>(&'a self, _: &'a [io::IoSlice<'a>], _: u64) -> IoFuture<'a, usize> {
        IoFuture::ready(Err(io::ErrorKind::ReadOnlyFilesystem.into()))
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> IoFuture<'_, ()> {
        IoFuture::ready(Ok(()))
    }
}

/// A stamped batch of `count` records, the first with a value of `value_bytes` bytes.
pub(crate) fn batch(base_offset: i64, leader_epoch: i32, count: usize, value_bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new().base_offset(base_offset).leader_epoch(leader_epoch);
    for index in 0..count {
        let value = vec![b'v'; if index == 0 { value_bytes } else { 1 }];
        builder.add(1_000_000 + base_offset + index as i64, None, Some(&value), []);
    }
    builder.build(Compression::None)
}
