//! What is in a partition's directory. Pure: sorts a listing into segments, snapshots and leftovers; never looks
//! into a file.

use super::{names, offset_index, time_index};
use crate::types::Offset;
use sillon_runtime::DirectoryEntry;
use std::collections::{BTreeMap, BTreeSet};

/// The files of one segment, by their length in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentFiles {
    /// The batches.
    pub(super) log_bytes: u64,
    /// The offset index, if it is there.
    pub(super) index_bytes: Option<u64>,
    /// The time index, if it is there.
    pub(super) time_index_bytes: Option<u64>,
}

impl SegmentFiles {
    /// The number of entries in both indexes; none where one is missing or has a part of an entry.
    pub(super) fn index_entries(&self) -> Option<(u64, u64)> {
        let count =
            |bytes: u64, width: usize| bytes.is_multiple_of(width as u64).then_some(bytes / width as u64);
        Some((
            count(self.index_bytes?, offset_index::ENTRY_BYTES)?,
            count(self.time_index_bytes?, time_index::ENTRY_BYTES)?,
        ))
    }
}

/// A directory's content.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    /// By base offset.
    pub(super) segments: BTreeMap<Offset, SegmentFiles>,
    /// The offsets of producer snapshots.
    pub(super) snapshots: BTreeSet<Offset>,
    /// Names of files that nothing needs: of removed segments, of interrupted writes.
    pub(super) leftovers: Vec<String>,
    /// The base offsets of cleaned segments that were taking the place of others.
    pub(super) swaps: BTreeSet<Offset>,
    /// The bytes past the last sync must be written again.
    pub(super) sync_failed: bool,
}

impl Inventory {
    /// Sorts a listing.
    pub(super) fn of(entries: &[DirectoryEntry]) -> Inventory {
        let mut inventory = Inventory::default();
        for entry in entries.iter().filter(|entry| !entry.is_directory) {
            if let Some(base) = names::parse_file_name(&entry.name, names::LOG_SUFFIX) {
                inventory
                    .segments
                    .insert(base, SegmentFiles { log_bytes: entry.length, ..SegmentFiles::default() });
            }
        }
        for entry in entries.iter().filter(|entry| !entry.is_directory) {
            inventory.add_other(entry);
        }
        inventory
    }

    fn add_other(&mut self, entry: &DirectoryEntry) {
        let name = &entry.name;
        let indexes = [names::INDEX_SUFFIX, names::TIME_INDEX_SUFFIX, names::TRANSACTION_INDEX_SUFFIX];
        for suffix in indexes {
            let Some(base) = names::parse_file_name(name, suffix) else { continue };
            match self.segments.get_mut(&base) {
                None => self.leftovers.push(name.clone()),
                Some(files) if suffix == names::INDEX_SUFFIX => files.index_bytes = Some(entry.length),
                Some(files) if suffix == names::TIME_INDEX_SUFFIX => {
                    files.time_index_bytes = Some(entry.length)
                }
                Some(_) => {}
            }
            return;
        }
        if let Some(offset) = names::parse_file_name(name, names::SNAPSHOT_SUFFIX) {
            self.snapshots.insert(offset);
        } else if let Some(base) = name
            .strip_suffix(names::SWAP_SUFFIX)
            .and_then(|name| names::parse_file_name(name, names::LOG_SUFFIX))
        {
            self.swaps.insert(base);
        } else if [names::DELETED_SUFFIX, names::CLEANED_SUFFIX, names::SWAP_SUFFIX, names::BESIDE_SUFFIX]
            .iter()
            .any(|end| name.ends_with(end))
        {
            self.leftovers.push(name.clone());
        } else if name == names::SYNC_FAILED {
            self.sync_failed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sorted_by_what_they_are() {
        let names = [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex",
            "00000000000000000007.index",
            "00000000000000000009.log",
            "00000000000000000009.snapshot",
            "00000000000000000009.timeindex",
            "00000000000000000011.log.deleted",
            "00000000000000000012.index.swap",
            "00000000000000000012.log.swap",
            "00000000000000000013.log.cleaned",
            "leader-epoch-checkpoint",
            "leader-epoch-checkpoint.tmp",
            "partition.metadata",
            "sync-failed",
        ];
        let entries: Vec<_> = names
            .iter()
            .map(|name| DirectoryEntry { name: (*name).into(), is_directory: false, length: 24 })
            .collect();
        let inventory = Inventory::of(&entries);
        assert_eq!(inventory.segments.len(), 2);
        assert_eq!(inventory.segments[&Offset(0)].index_entries(), Some((3, 2)));
        assert_eq!(inventory.segments[&Offset(9)].index_entries(), None, "one index is missing");
        assert_eq!(inventory.snapshots, BTreeSet::from([Offset(9)]));
        let leftovers = [
            "00000000000000000007.index",
            "00000000000000000011.log.deleted",
            "00000000000000000012.index.swap",
            "00000000000000000013.log.cleaned",
            "leader-epoch-checkpoint.tmp",
        ];
        assert_eq!(inventory.leftovers, leftovers);
        assert_eq!(inventory.swaps, BTreeSet::from([Offset(12)]));
        assert!(inventory.sync_failed);
    }

    #[test]
    fn a_part_of_an_entry_makes_an_index_useless() {
        let files = SegmentFiles { log_bytes: 1, index_bytes: Some(8), time_index_bytes: Some(12) };
        assert_eq!(files.index_entries(), Some((1, 1)));
        assert_eq!(SegmentFiles { index_bytes: Some(9), ..files }.index_entries(), None);
        assert_eq!(SegmentFiles { time_index_bytes: Some(13), ..files }.index_entries(), None);
    }
}
