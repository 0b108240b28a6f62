//! Which batches belong to transactions that were aborted, and which markers have outlived what they mark (KIP-98). Pure:
//! owns the bookkeeping of two passes over a log; never opens a batch.
//!
//! ```text
//!   first pass,  up to the first open transaction:  data, markers ──► Aborted: who, from where to where
//!   second pass, in the same order:                 data          ──► is it to be dropped?
//!                                                   marker        ──► is nothing left of its transaction?
//! ```

use sillon_protocol::records::{BatchHeader, EndTransactionMarker, MarkerKind};
use std::collections::{BTreeMap, BTreeSet};

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Aborted {
    first_offset: i64,
    /// Of the marker.
    last_offset: i64,
    producer_id: i64,
}

/// Finds the aborted transactions: the first pass.
#[derive(Debug, Default)]
pub(super) struct Collector {
    open: BTreeMap<i64, i64>,
    aborted: Vec<Aborted>,
}

impl Collector {
    /// Takes note of the next batch.
    pub(super) fn note(&mut self, batch: &BatchHeader, marker: Option<EndTransactionMarker>) {
        if let Some(marker) = marker {
            let first = self.open.remove(&batch.producer_id());
            if let (Some(first_offset), MarkerKind::Abort) = (first, marker.kind) {
                let (producer_id, last_offset) = (batch.producer_id(), batch.last_offset());
                self.aborted.push(Aborted { first_offset, last_offset, producer_id });
            }
        } else if batch.is_transactional() && !batch.is_control() {
            self.open.entry(batch.producer_id()).or_insert(batch.base_offset());
        }
    }

    /// What was found, for a second pass from the same place on, and where the first transaction begins that has no
    /// marker yet.
    pub(super) fn finish(mut self) -> (Transactions, Option<i64>) {
        self.aborted.sort_unstable();
        let first_open = self.open.values().min().copied();
        (Transactions { aborted: self.aborted, ..Transactions::default() }, first_open)
    }
}

/// Follows the transactions: the second pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Transactions {
    aborted: Vec<Aborted>,
    /// How many of them have begun.
    begun: usize,
    /// Aborted ones under way, and whether a batch of theirs was met.
    ongoing: BTreeMap<i64, bool>,
    /// Producers of which a batch was met that is in no aborted transaction, and no marker since.
    committed: BTreeSet<i64>,
}

impl Transactions {
    fn begin_up_to(&mut self, offset: i64) {
        while let Some(next) = self.aborted.get(self.begun).filter(|next| next.first_offset <= offset) {
            self.ongoing.insert(next.producer_id, false);
            self.begun += 1;
        }
    }

    /// Takes note of a data batch, and gives whether it was aborted.
    pub(super) fn on_data(&mut self, batch: &BatchHeader) -> bool {
        self.begin_up_to(batch.last_offset());
        if !batch.is_transactional() {
            return false;
        }
        if let Some(met) = self.ongoing.get_mut(&batch.producer_id()) {
            *met = true;
            return true;
        }
        self.committed.insert(batch.producer_id());
        false
    }

    /// Takes note of a marker, and gives whether nothing is left of its transaction.
    pub(super) fn on_marker(&mut self, batch: &BatchHeader, marker: EndTransactionMarker) -> bool {
        self.begin_up_to(batch.last_offset());
        match marker.kind {
            // It stays until a pass after the one that drops the last batch: readers must know what was aborted for
            // as long as there may be something of it.
            MarkerKind::Abort => !self.ongoing.remove(&batch.producer_id()).unwrap_or(false),
            MarkerKind::Commit => !self.committed.remove(&batch.producer_id()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_protocol::records::{BatchBuilder, Compression};

    fn data(producer: i64, offset: i64) -> (BatchHeader, Option<EndTransactionMarker>) {
        let mut builder =
            BatchBuilder::new().base_offset(offset).producer(producer, 0, 0).transactional(true);
        builder.add(0, Some(b"k"), None, []);
        (BatchHeader::parse(&builder.build(Compression::None)).expect("built"), None)
    }

    fn marker(producer: i64, offset: i64, kind: MarkerKind) -> (BatchHeader, Option<EndTransactionMarker>) {
        let marker = EndTransactionMarker { kind, coordinator_epoch: 0 };
        let mut bytes = marker.to_batch(0, producer, 0).to_vec();
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        (BatchHeader::parse(&bytes).expect("built"), Some(marker))
    }

    fn second_pass(
        mut transactions: Transactions,
        batches: &[(BatchHeader, Option<EndTransactionMarker>)],
    ) -> Vec<bool> {
        let step = |(batch, marker): &(BatchHeader, Option<EndTransactionMarker>)| match marker {
            None => transactions.on_data(batch),
            Some(marker) => transactions.on_marker(batch, *marker),
        };
        batches.iter().map(step).collect()
    }

    #[test]
    fn aborted_batches_go_and_their_marker_stays_once_more() {
        let log = [
            data(1, 0),
            data(2, 1),
            marker(1, 2, MarkerKind::Abort),
            data(1, 3),
            marker(2, 4, MarkerKind::Commit),
            marker(1, 5, MarkerKind::Commit),
        ];
        let mut collector = Collector::default();
        log.iter().for_each(|(batch, marker)| collector.note(batch, *marker));
        let verdicts = second_pass(collector.finish().0, &log);
        assert_eq!(verdicts, [true, false, false, false, false, false]);

        // The next pass meets the marker alone.
        let mut collector = Collector::default();
        log[1..].iter().for_each(|(batch, marker)| collector.note(batch, *marker));
        let verdicts = second_pass(collector.finish().0, &log[1..]);
        assert_eq!(verdicts, [false, true, false, false, false], "the abort marker has nothing left to say");
    }

    #[test]
    fn what_has_no_marker_yet_is_open() {
        let mut collector = Collector::default();
        for (batch, marker) in [data(1, 0), data(2, 1), marker(1, 2, MarkerKind::Commit), data(2, 3)] {
            collector.note(&batch, marker);
        }
        assert_eq!(collector.finish().1, Some(1));
    }

    #[test]
    fn a_marker_alone_has_outlived_its_transaction() {
        for kind in [MarkerKind::Abort, MarkerKind::Commit] {
            let log = [marker(1, 2, kind)];
            assert_eq!(second_pass(Collector::default().finish().0, &log), [true]);
        }
    }
}
