//! Records of the log, and how a segment's bytes are read back. Owns what tells a torn tail, which nobody was promised,
//! from damage to what was durable; touches no file.
//!
//! Every record says where it stands and up to where the segment was durable when it was written. A record that cannot
//! be read is damage if a later one says that it was durable, and a torn tail otherwise: writes that were not synced
//! may reach the disk in any order, or not at all.

use crate::{
    consensus::{HardState, LogEntry, SnapshotMark},
    frame::{self, FrameError, MAX_PAYLOAD_BYTES},
};
use serde::{Deserialize, Serialize};

/// What a record is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    /// The first of a segment.
    Start,
    /// Entries, perhaps none.
    Append,
    /// The log is empty and continues after `before`, of which there is a snapshot.
    Reset,
    /// Nothing: it tells that all before it is durable. The next record takes its place.
    Durable,
}

/// Where a record stands. The salt comes first: it is what a search for records looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) salt: u64,
    /// The first index of the segment, which is in its name.
    pub(super) segment: u64,
    /// Of the record in the segment, in bytes.
    pub(super) position: u64,
    /// The bytes of the segment that were durable when this was written.
    pub(super) durable: u64,
}

/// A record to be written; entries are borrowed.
#[derive(Serialize)]
struct Written<'a> {
    place: Place,
    kind: Kind,
    hard_state: HardState,
    before: SnapshotMark,
    entries: &'a [LogEntry],
}

/// A record as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Record {
    pub(super) place: Place,
    pub(super) kind: Kind,
    pub(super) hard_state: HardState,
    /// The entry before the first in `entries`: what the log had after it is replaced.
    pub(super) before: SnapshotMark,
    pub(super) entries: Vec<LogEntry>,
}

/// Appends a record to what is to be written.
///
/// # Errors
/// [`FrameError`] where the entries are too large for one record.
pub(super) fn encode(
    place: Place,
    kind: Kind,
    hard_state: HardState,
    before: SnapshotMark,
    entries: &[LogEntry],
    into: &mut Vec<u8>,
) -> Result<usize, FrameError> {
    frame::encode(&Written { place, kind, hard_state, before, entries }, into)
}

/// What a segment holds.
pub(super) struct Scan {
    /// The records from the start up to the first that cannot be read.
    pub(super) records: Vec<Record>,
    /// Where the next record goes.
    pub(super) end: u64,
    /// How many bytes are known to have been durable.
    pub(super) durable: u64,
    /// Why the record at that offset cannot be read, where there is more than nothing after the last.
    pub(super) bad: Option<(u64, FrameError)>,
    /// Whether a later record says that the bad one was durable.
    pub(super) is_damage: bool,
}

/// Reads a segment.
pub(super) fn scan(bytes: &[u8], salt: u64, segment: u64) -> Scan {
    let mut scan = Scan { records: Vec::new(), end: 0, durable: 0, bad: None, is_damage: false };
    let mut position = 0;
    while position < bytes.len() {
        match read(bytes, position, salt, segment) {
            Ok((record, length)) => {
                position += length;
                scan.durable = scan.durable.max(record.place.durable);
                if record.kind != Kind::Durable {
                    scan.end = position as u64;
                    scan.records.push(record);
                }
            }
            // Room that was made for what has not come.
            Err(_) if bytes[position..].iter().all(|byte| *byte == 0) => break,
            Err(error) => {
                scan.bad = Some((position as u64, error));
                scan.is_damage = later_records(bytes, position + 1, salt, segment)
                    .any(|record| record.place.durable > position as u64);
                break;
            }
        }
    }
    scan
}

fn read(bytes: &[u8], position: usize, salt: u64, segment: u64) -> Result<(Record, usize), FrameError> {
    let (record, length) = frame::decode::<Record>(&bytes[position..], MAX_PAYLOAD_BYTES)?;
    let place = record.place;
    let belongs = place.salt == salt && place.segment == segment && place.position == position as u64;
    if belongs && place.durable <= place.position {
        Ok((record, length))
    } else {
        let problem = format!("a record of segment {:x} at {}", place.segment, place.position);
        Err(FrameError::Undecodable { problem })
    }
}

/// Every record that stands where it should, at or after a position.
fn later_records(bytes: &[u8], from: usize, salt: u64, segment: u64) -> impl Iterator<Item = Record> + '_ {
    let salt_bytes = salt.to_le_bytes();
    let starts = from..bytes.len().saturating_sub(frame::HEADER_BYTES + salt_bytes.len());
    starts
        .filter(move |start| bytes[start + frame::HEADER_BYTES..].starts_with(&salt_bytes))
        .filter_map(move |start| read(bytes, start, salt, segment).ok())
        .map(|(record, _)| record)
}
