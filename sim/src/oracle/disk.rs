//! Reads a partition's files as they lie on the simulated disk. Owns a parser of its own for everything but record
//! batches, so that a mistake in the broker's is not repeated here. Judges nothing.

use sillon_protocol::records::{RecordBatch, crc32c, split_views};
use sillon_runtime::DirectoryEntry;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The disks of the simulated machines, as a process started now would find them.
pub trait Disks: Send + Sync {
    /// What a directory holds; nothing where it is missing.
    fn list(&self, node: u32, directory: &Path) -> Vec<DirectoryEntry>;
    /// The whole of a file; `None` where it is missing.
    fn read(&self, node: u32, file: &Path) -> Option<Vec<u8>>;
}

/// Where the bytes begin that a batch's checksum covers.
const CHECKSUMMED_FROM: usize = 21;

/// A batch as it lies in a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskBatch {
    /// Base offset of its segment, which names the file.
    pub segment: i64,
    pub position: u64,
    pub size: u64,
    pub base: i64,
    pub next: i64,
    pub epoch: i32,
    pub crc: u32,
    pub producer: (i64, i16, i32),
    /// Its checksum is right.
    pub intact: bool,
}

/// Where a log's batches end, other than at the end of its last file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Break {
    pub segment: i64,
    pub position: u64,
    /// Length of the file.
    pub file_bytes: u64,
    pub text: String,
}

/// A log as it lies on disk: its batches in order up to where they stop making sense.
#[derive(Clone, Debug, Default)]
pub(super) struct LogImage {
    first_segment: Option<i64>,
    pub batches: Vec<DiskBatch>,
    pub broken: Option<Break>,
}

impl LogImage {
    /// Reads the log in `directory`. Segments that lie wholly below `log_start` do not count.
    pub fn read(disks: &dyn Disks, node: u32, directory: &Path, log_start: i64) -> LogImage {
        let entries = disks.list(node, directory);
        let mut segments: Vec<i64> = entries.iter().filter_map(|entry| segment_base(&entry.name)).collect();
        let mut swaps = BTreeMap::new();
        for base in entries.iter().filter_map(|entry| segment_base(entry.name.strip_suffix(SWAP_SUFFIX)?)) {
            // A cleaned segment on its way to the place of those that it was made from: it counts, they do not.
            let bytes = disks.read(node, &swap_path(directory, base)).unwrap_or_default();
            let end = split_views(&bytes).last().and_then(Result::ok).map_or(base, |last| last.next_offset());
            segments.retain(|other| *other < base || *other >= end);
            segments.push(base);
            swaps.insert(base, bytes);
        }
        segments.sort_unstable();
        let needed = segments.partition_point(|base| *base <= log_start).saturating_sub(1);
        let mut image = LogImage::default();
        for base in segments.drain(needed..) {
            let swapped = swaps.remove(&base);
            let bytes =
                swapped.or_else(|| disks.read(node, &segment_path(directory, base))).unwrap_or_default();
            image.add_segment(base, &bytes);
        }
        image
    }

    fn add_segment(&mut self, segment: i64, bytes: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        self.first_segment.get_or_insert(segment);
        if segment != self.end() {
            self.break_at(segment, 0, bytes, format!("the segment should begin at offset {}", self.end()));
            return;
        }
        let mut position = 0;
        while position < bytes.len() {
            match self.parse(segment, position, bytes) {
                Ok(batch) => {
                    position += batch.size as usize;
                    self.batches.push(batch);
                }
                Err(text) => return self.break_at(segment, position, bytes, text),
            }
        }
    }

    fn parse(&self, segment: i64, position: usize, bytes: &[u8]) -> Result<DiskBatch, String> {
        let rest = &bytes[position..];
        let size = sillon_protocol::records::batch_size(rest).map_err(|error| error.to_string())?;
        let whole = rest.get(..size).ok_or_else(|| format!("{size} bytes claimed, {} there", rest.len()))?;
        let batch = RecordBatch::parse(whole).map_err(|error| error.to_string())?;
        let (base, next, epoch) = (batch.base_offset(), batch.next_offset(), batch.leader_epoch());
        if base != self.end() || next <= base {
            return Err(format!("offsets {base}..{next} follow {}", self.end()));
        }
        if let Some(last) = self.batches.last().filter(|last| last.epoch > epoch) {
            return Err(format!("epoch {epoch} follows {}", last.epoch));
        }
        Ok(DiskBatch {
            segment,
            position: position as u64,
            size: size as u64,
            base,
            next,
            epoch,
            crc: batch.crc(),
            producer: (batch.producer_id(), batch.producer_epoch(), batch.base_sequence()),
            intact: crc32c(&whole[CHECKSUMMED_FROM..]) == batch.crc(),
        })
    }

    fn break_at(&mut self, segment: i64, position: usize, bytes: &[u8], text: String) {
        self.broken =
            Some(Break { segment, position: position as u64, file_bytes: bytes.len() as u64, text });
    }

    /// The first offset.
    pub fn start(&self) -> i64 {
        self.first_segment.unwrap_or(0)
    }

    /// One past the last whole batch, whatever its checksum.
    pub fn end(&self) -> i64 {
        self.batches.last().map_or(self.start(), |batch| batch.next)
    }

    /// The first batch with a wrong checksum that reaches past `offset`.
    pub fn first_rotten(&self, offset: i64) -> Option<&DiskBatch> {
        self.batches.iter().find(|batch| batch.next > offset && !batch.intact)
    }

    /// Where a recovery that checks everything past `checked_from` must cut.
    pub fn sound_end(&self, checked_from: i64) -> i64 {
        self.first_rotten(checked_from).map_or(self.end(), |batch| batch.base)
    }

    /// The producers' last batches.
    pub fn replay_producers(&self) -> BTreeMap<i64, super::ghost::ProducerGhost> {
        let mut producers = BTreeMap::new();
        for batch in self.batches.iter().filter(|batch| batch.producer.0 >= 0) {
            let ghost = super::ghost::GhostBatch::from(batch);
            let state = super::ghost::ProducerGhost {
                epoch: batch.producer.1,
                last_sequence: ghost.last_sequence(),
                last_offset: batch.next - 1,
            };
            producers.insert(batch.producer.0, state);
        }
        producers
    }
}

/// Twenty digits and `.log`.
fn segment_base(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// The file of the segment that begins at `base`.
pub(super) fn segment_path(directory: &Path, base: i64) -> PathBuf {
    directory.join(format!("{base:020}.log"))
}

/// What a cleaned segment is called until it has its place.
const SWAP_SUFFIX: &str = ".swap";

fn swap_path(directory: &Path, base: i64) -> PathBuf {
    directory.join(format!("{base:020}.log{SWAP_SUFFIX}"))
}

/// A checkpoint file in Kafka's form: version 0, the number of entries, then one entry a line.
///
/// The entries come back as words. The error says what is not whole about the file.
pub(super) fn parse_checkpoint(bytes: &[u8], words_per_entry: usize) -> Result<Vec<Vec<String>>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not text".to_owned())?;
    if !text.ends_with('\n') {
        return Err("the last line does not end".to_owned());
    }
    let mut lines = text.lines();
    match lines.next() {
        Some("0") => {}
        first => return Err(format!("the first line is {first:?}, not the version 0")),
    }
    let count: usize = lines
        .next()
        .and_then(|line| line.parse().ok())
        .ok_or_else(|| "the second line is not a number of entries".to_owned())?;
    let entries: Vec<Vec<String>> =
        lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    if entries.len() != count {
        return Err(format!("{count} entries are announced, {} are there", entries.len()));
    }
    match entries.iter().find(|entry| entry.len() != words_per_entry) {
        Some(entry) => Err(format!("the entry {entry:?} has not {words_per_entry} words")),
        None => Ok(entries),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use sillon_protocol::records::{BatchBuilder, Compression};

    /// A disk in memory.
    #[derive(Default)]
    pub struct MemoryDisk(pub std::sync::Mutex<BTreeMap<PathBuf, Vec<u8>>>);

    impl MemoryDisk {
        pub fn write(&self, file: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) {
            self.0.lock().unwrap().insert(file.into(), bytes.into());
        }
    }

    impl Disks for MemoryDisk {
        fn list(&self, _node: u32, directory: &Path) -> Vec<DirectoryEntry> {
            let files = self.0.lock().unwrap();
            let here = files.iter().filter(|(file, _)| file.parent() == Some(directory));
            here.map(|(file, bytes)| DirectoryEntry {
                name: file.file_name().unwrap().to_str().unwrap().to_owned(),
                is_directory: false,
                length: bytes.len() as u64,
            })
            .collect()
        }

        fn read(&self, _node: u32, file: &Path) -> Option<Vec<u8>> {
            self.0.lock().unwrap().get(file).cloned()
        }
    }

    /// A batch of `count` records as a broker stores it.
    pub fn stored_batch(base: i64, count: usize, epoch: i32, producer: (i64, i16, i32)) -> Vec<u8> {
        let mut builder = BatchBuilder::new().base_offset(base).leader_epoch(epoch);
        if producer.0 >= 0 {
            builder = builder.producer(producer.0, producer.1, producer.2);
        }
        for index in 0..count {
            let value = format!("{base}+{index}");
            builder.add(1_000, None, Some(value.as_bytes()), []);
        }
        builder.build(Compression::None).to_vec()
    }

    fn image(segments: &[(i64, Vec<u8>)], log_start: i64) -> LogImage {
        let disk = MemoryDisk::default();
        for (base, bytes) in segments {
            disk.write(segment_path(Path::new("/data/t-0"), *base), bytes.clone());
        }
        disk.write("/data/t-0/00000000000000000000.index", [1, 2, 3]);
        LogImage::read(&disk, 0, Path::new("/data/t-0"), log_start)
    }

    #[test]
    fn segments_follow_each_other() {
        let first = [stored_batch(0, 2, 0, (-1, -1, -1)), stored_batch(2, 1, 0, (7, 0, 0))].concat();
        let second = stored_batch(3, 4, 1, (7, 0, 1));
        let log = image(&[(0, first.clone()), (3, second.clone())], 0);
        assert_eq!((log.start(), log.end(), log.batches.len()), (0, 7, 3));
        assert_eq!(log.broken, None);
        assert_eq!(log.replay_producers()[&7].last_sequence, 4);
        let late = image(&[(0, first), (3, second)], 3);
        assert_eq!((late.start(), late.batches.len()), (3, 1));
    }

    #[test]
    fn a_segment_that_takes_the_place_of_others_counts_for_them() {
        let parts = [0, 2, 4, 6].map(|base| stored_batch(base, 2, 0, (-1, -1, -1)));
        let disk = MemoryDisk::default();
        let directory = Path::new("/data/t-0");
        // The third was removed already.
        for (base, bytes) in [0, 2, 6].into_iter().zip([&parts[0], &parts[1], &parts[3]]) {
            disk.write(segment_path(directory, base), bytes.clone());
        }
        disk.write(swap_path(directory, 0), parts[..3].concat());
        let log = LogImage::read(&disk, 0, directory, 0);
        assert_eq!((log.end(), log.batches.len(), log.broken), (8, 4, None));
    }

    #[test]
    fn a_torn_tail_and_a_missing_segment_end_the_log() {
        let whole = stored_batch(0, 2, 0, (-1, -1, -1));
        let mut torn = [whole.clone(), stored_batch(2, 1, 0, (-1, -1, -1))].concat();
        torn.truncate(torn.len() - 1);
        let log = image(&[(0, torn)], 0);
        assert_eq!(log.end(), 2);
        assert_eq!(log.broken.expect("it ends early").position, whole.len() as u64);
        let log = image(&[(0, whole), (9, stored_batch(9, 1, 0, (-1, -1, -1)))], 0);
        assert_eq!(log.end(), 2);
        assert_eq!(log.broken.expect("there is a gap").segment, 9);
    }

    #[test]
    fn rot_is_found_where_it_is_looked_for() {
        let mut bytes = [stored_batch(0, 2, 0, (-1, -1, -1)), stored_batch(2, 1, 0, (-1, -1, -1))].concat();
        bytes[70] ^= 1;
        let log = image(&[(0, bytes)], 0);
        assert_eq!((log.sound_end(0), log.sound_end(2), log.end()), (0, 3, 3));
    }

    #[test]
    fn checkpoints_are_whole_or_not() {
        assert_eq!(
            parse_checkpoint(b"0\n1\nt 0 17\n", 3),
            Ok(vec![vec!["t".into(), "0".into(), "17".into()]])
        );
        assert_eq!(parse_checkpoint(b"0\n0\n", 3), Ok(Vec::new()));
        for torn in
            [&b""[..], b"0\n", b"0\n2\nt 0 17\n", b"0\n1\nt 0", b"0\n1\nt 0 1", b"1\n0\n", b"0\n\0\0\0\0"]
        {
            assert!(parse_checkpoint(torn, 3).is_err(), "{torn:?}");
        }
    }
}
