//! Hostile bytes for every decoder that reads from the network or the disk, for as long as `FUZZ_SECONDS` says
//! (altogether; 4 seconds by default). Nothing may panic, and no single allocation may be larger than 16 times the
//! input plus 64 KiB.

mod support;

use sillon_broker::{
    fuzzing::{TARGETS, Target, samples},
    log::{Log, LogConfig, LogContext, Opening},
    observe::Observers,
    types::{LeaderEpoch, Offset, TopicId, TopicPartition},
};
use sillon_protocol::{
    messages::{RequestHeader, SUPPORTED_APIS, arbitrary, request_header_version, supported_versions},
    records::{BatchBuilder, Compression, RecordBatch},
    wire::{Encoder, arbitrary::Random},
};
use sillon_runtime::Runtime;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    path::Path,
    time::Duration,
};
use support::scenario;

/// Notes the largest allocation of each thread.
struct Watch;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    // A thread that is going away allocates nothing that matters here.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: everything is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static WATCH: Watch = Watch;

/// How long all targets together may take.
fn budget() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "a test's length is set from outside")]
    let seconds = std::env::var("FUZZ_SECONDS").ok();
    Duration::from_secs(seconds.map_or(4, |text| text.parse().expect("FUZZ_SECONDS is a number")))
}

/// SplitMix64: the same inputs in every run of the same length.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A few edits of the kinds that find mistakes: flipped bits, extreme lengths, cuts, repeats, noise.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(4) {
            let position = self.below(bytes.len());
            match self.below(7) {
                0 if !bytes.is_empty() => bytes[position] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[position] = self.next() as u8,
                2 => {
                    let extreme =
                        [[0xff; 4], [0x7f, 0xff, 0xff, 0xff], [0x80, 0, 0, 0], [0; 4]][self.below(4)];
                    for (place, byte) in bytes.iter_mut().skip(position).zip(extreme) {
                        *place = byte;
                    }
                }
                3 => bytes.truncate(position),
                4 => bytes.extend((0..self.below(40)).map(|_| self.0 as u8).collect::<Vec<_>>()),
                5 => bytes.extend_from_within(position..),
                _ => bytes.insert(position, self.next() as u8),
            }
            bytes.truncate(1 << 16);
        }
    }
}

/// Sound inputs to start from: requests and responses of every API and version, batches of every codec, files.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = samples();
    let mut random = Random::new(1);
    for (number, api_key) in (0u8..).zip(SUPPORTED_APIS) {
        for version in supported_versions(*api_key).expect("it is supported") {
            let mut encoder = Encoder::new();
            let request = arbitrary::request(*api_key, version, &mut random).expect("it is supported");
            let header_version = request_header_version(*api_key, version);
            RequestHeader::encode_parts(
                &mut encoder,
                header_version,
                api_key.code(),
                version,
                7,
                Some("fuzz"),
            )
            .expect("the name is short");
            request.encode(version, &mut encoder).expect("it fits its version");
            seeds.push(encoder.buffer.to_vec());
            let mut encoder = Encoder::new();
            let response = arbitrary::response(*api_key, version, &mut random).expect("it is supported");
            response.encode(version, &mut encoder).expect("it fits its version");
            seeds.push([&[number], &encoder.buffer[..]].concat());
        }
    }
    seeds.extend(batches().iter().map(|batch| batch.to_vec()));
    seeds
}

fn batches() -> Vec<bytes::Bytes> {
    let codecs =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    let build = |codec| {
        let mut builder = BatchBuilder::new().producer(5, 0, 0);
        for number in 0..20i64 {
            builder.add(1_700_000_000_000 + number, Some(b"key"), Some(b"a value that repeats, repeats"), []);
        }
        builder.build(codec)
    };
    codecs.map(build).to_vec()
}

/// Feeds one target until its time is over; gives how many inputs that were.
fn feed(runtime: &Runtime, name: &str, target: Target, seeds: &[Vec<u8>], time: Duration) -> u64 {
    let mut chance = Chance(name.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31) + u64::from(byte)));
    let end = runtime.now() + time;
    let mut inputs = 0;
    while inputs < 100 || runtime.now() < end {
        for _ in 0..64 {
            let mut input = seeds[chance.below(seeds.len())].clone();
            chance.damage(&mut input);
            LARGEST.set(0);
            target(&input);
            let (largest, limit) = (LARGEST.get(), 16 * input.len() + 64 * 1024);
            assert!(
                largest <= limit,
                "{name}: {largest} bytes at once for an input of {}: {input:?}",
                input.len()
            );
            inputs += 1;
        }
    }
    inputs
}

#[test]
fn every_decoder_survives_hostile_bytes() {
    scenario(|runtime| async move {
        let seeds = seeds();
        let time = budget() * 3 / 4 / TARGETS.len() as u32;
        for (name, target) in TARGETS {
            let inputs = feed(&runtime, name, *target, &seeds, time);
            println!("{name}: {inputs} inputs");
        }
    });
}

async fn open(runtime: &Runtime, directory: &Path, clean: bool) -> Option<std::sync::Arc<Log>> {
    let context = LogContext { runtime: runtime.clone(), observers: Observers::NONE };
    let config = LogConfig { segment_bytes: 2000, index_interval_bytes: 100, ..LogConfig::default() };
    let opening = Opening { clean, recovery_point: Offset(0), log_start_offset: Offset(0) };
    let partition = TopicPartition::new("t", 0);
    Log::open(context, directory.to_owned(), partition, TopicId::default(), config, opening).await.ok()
}

/// A log of a few segments, with what lies beside them.
async fn write_log(runtime: &Runtime, directory: &Path) -> Vec<(String, Vec<u8>)> {
    let log = open(runtime, directory, true).await.expect("an empty directory");
    for (sequence, batch) in (0..).zip(batches().iter().cycle().take(20)) {
        let mut builder = BatchBuilder::new().producer(5, 0, sequence);
        builder.add(1_700_000_000_000, None, Some(batch), []);
        let batch = RecordBatch::parse(builder.build(Compression::None)).expect("it was built just now");
        log.append_as_leader(batch, LeaderEpoch(sequence / 7)).await.expect("the disk works");
    }
    log.close().await.expect("the disk works");
    let mut files = Vec::new();
    for entry in runtime.fs().list(directory).await.expect("the directory is there") {
        let content =
            runtime.fs().read_small(&directory.join(&entry.name), 1 << 20).await.expect("it was written");
        files.push((entry.name, content));
    }
    files
}

#[test]
fn a_log_with_any_damage_is_opened_or_refused() {
    let home = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let directory = home.path().join("t-0");
        let files = write_log(&runtime, &directory).await;
        let mut chance = Chance(3);
        let end = runtime.now() + budget() / 4;
        let (mut opened, mut refused) = (0, 0);
        while opened + refused < 20 || runtime.now() < end {
            runtime.fs().remove_dir_all(&directory).await.unwrap();
            runtime.fs().create_dir_all(&directory).await.unwrap();
            let damaged = chance.below(files.len());
            for (index, (name, content)) in files.iter().enumerate() {
                let mut content = content.clone();
                if index == damaged || chance.below(8) == 0 {
                    chance.damage(&mut content);
                }
                let path = directory.join(name);
                let file = runtime.fs().open(&path, sillon_runtime::OpenOptions::REWRITE).await.unwrap();
                file.write_all_at(&content, 0).await.unwrap();
            }
            match open(&runtime, &directory, chance.below(2) == 0).await {
                None => refused += 1,
                Some(log) => {
                    opened += 1;
                    for offset in 0..log.log_end_offset().0.min(30) {
                        let _damaged = log.read(Offset(offset), 1 << 16, log.log_end_offset(), true).await;
                    }
                    let _damaged = log.offset_for_timestamp(1_700_000_000_000, log.log_end_offset()).await;
                }
            }
        }
        println!("{opened} opened, {refused} refused");
        assert!(opened > 0, "damage beside the records does not cost the log");
    });
}
