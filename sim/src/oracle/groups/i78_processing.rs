//! I78: with commits after processing every record is processed; I78b: with confirmed commits before processing none is
//! processed twice.

use super::{Groups, events::Delivery};
use crate::oracle::{RecordId, ghost::Partition, invariant::Invariant, judge::Judge, lineage::Lineage};
use sillon_broker::types::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};

/// What a group has processed.
#[derive(Debug, Default)]
pub(super) struct Processed {
    records: BTreeSet<RecordId>,
    /// The offsets of each partition, in runs without gaps: from → to.
    runs: BTreeMap<TopicPartition, BTreeMap<i64, i64>>,
}

impl Processed {
    fn note(&mut self, partition: &TopicPartition, offset: i64) {
        let runs = self.runs.entry(partition.clone()).or_default();
        if let Some((from, to)) = runs.range(..=offset).next_back().map(|(from, to)| (*from, *to)) {
            if offset < to {
                return;
            }
            if offset == to {
                runs.insert(from, offset + 1);
                return join(runs, from);
            }
        }
        runs.insert(offset, offset + 1);
        join(runs, offset);
    }

    /// The first offset in `from..to` that was not processed.
    fn gap(&self, partition: &TopicPartition, from: i64, to: i64) -> Option<i64> {
        let mut next = from;
        for (start, end) in self.runs.get(partition).into_iter().flatten() {
            if *end <= next {
                continue;
            }
            if *start > next {
                break;
            }
            next = *end;
        }
        (next < to).then_some(next)
    }
}

/// A run that ends where the next begins is one with it.
fn join(runs: &mut BTreeMap<i64, i64>, from: i64) {
    let end = runs[&from];
    if let Some(next) = runs.remove(&end) {
        runs.insert(from, next);
    }
}

/// A member processes a record.
pub(super) fn on_processed(
    judge: &mut Judge,
    delivery: Delivery,
    group: &str,
    processed: &mut Processed,
    (member, partition, offset, record): (u32, TopicPartition, i64, RecordId),
) {
    let is_new = processed.records.insert(record);
    if delivery == Delivery::AtMostOnce {
        judge.demand(Invariant::I78b, is_new, || {
            format!("{group}: member {member} processes {record} of {partition} at {offset}, which was processed before")
        });
    }
    processed.note(&partition, offset);
}

/// A record that a group with members has still to process.
pub(super) fn backlog(
    groups: &Groups,
    partitions: &BTreeMap<TopicPartition, Lineage>,
) -> Option<(String, TopicPartition, i64)> {
    if groups.contract.delivery == Delivery::AtMostOnce {
        return None;
    }
    groups.groups.iter().filter(|(_, group)| !group.alive.is_empty()).find_map(|(name, group)| {
        let current = group.current.as_ref()?;
        let wanted: BTreeSet<&str> =
            current.members.values().flat_map(|member| &member.topics).map(String::as_str).collect();
        partitions.iter().filter(|(partition, _)| wanted.contains(&*partition.topic)).find_map(
            |(partition, lineage)| {
                // What was removed at the start, or lost beyond what is promised, nobody can process.
                let from = lineage.log.highest_log_start;
                let gap = group.processed.gap(partition, from, lineage.log.committed_end)?;
                Some((name.clone(), partition.clone(), gap))
            },
        )
    })
}

/// A record that a group never processed, although it has processed another one that was once at the same place: the log was
/// cut, and the group was not told (B08).
fn skipped(
    groups: &Groups,
    partitions: &BTreeMap<TopicPartition, Lineage>,
) -> Option<(String, TopicPartition, i64)> {
    let mut all = groups.groups.iter().filter(|(_, group)| !group.alive.is_empty());
    all.find_map(|(name, group)| {
        group.processed.runs.keys().find_map(|partition| {
            let log = &partitions.get(partition)?.log;
            let offset = log
                .values
                .range(log.highest_log_start..log.committed_end)
                .filter(|(_, record)| !group.processed.records.contains(record))
                .find(|(offset, _)| !came_back(log, **offset))
                .map(|(offset, _)| *offset)?;
            Some((name.clone(), partition.clone(), offset))
        })
    })
}

/// Whether a record of an older epoch than some that were lost stands here: a log that an election had set aside counts again.
/// Whoever has read the later one is told where the last epoch ends that both logs have, which need not be where they part.
fn came_back(log: &Partition, offset: i64) -> bool {
    let batch = log.batches_from(offset).first();
    batch.is_some_and(|batch| log.lost.iter().any(|lost| lost.epoch > batch.epoch))
}

/// The run is over: nothing was left out.
pub(super) fn at_end(groups: &Groups, judge: &mut Judge, partitions: &BTreeMap<TopicPartition, Lineage>) {
    let is_there = groups.groups.values().any(|group| !group.processed.records.is_empty());
    if !is_there || groups.contract.delivery == Delivery::AtMostOnce {
        return;
    }
    let missing = backlog(groups, partitions).or_else(|| skipped(groups, partitions));
    judge.demand(Invariant::I78, missing.is_none(), || {
        let (group, partition, offset) = missing.expect("that is what does not hold");
        format!("{group} has never processed what is at {offset} of {partition}, and came to rest")
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gaps_are_found_whatever_the_order(offsets in proptest::collection::vec(0_i64..40, 0..80)) {
            let partition = TopicPartition::new("t", 0);
            let mut processed = Processed::default();
            offsets.iter().for_each(|offset| processed.note(&partition, *offset));
            let expected = (0..40).find(|offset| !offsets.contains(offset));
            prop_assert_eq!(processed.gap(&partition, 0, 40), expected);
            let runs = processed.runs.get(&partition).cloned().unwrap_or_default();
            prop_assert!(runs.iter().zip(runs.iter().skip(1)).all(|((_, end), (start, _))| end < start));
        }
    }

    #[test]
    fn processed_twice() {
        let mut judge = Judge::new();
        let mut processed = Processed::default();
        let what = |offset| (1, TopicPartition::new("t", 0), offset, RecordId { client: 0, counter: 5 });
        on_processed(&mut judge, Delivery::AtMostOnce, "g", &mut processed, what(3));
        assert!(judge.violations().is_empty());
        on_processed(&mut judge, Delivery::AtMostOnce, "g", &mut processed, what(3));
        assert_eq!(judge.violations()[0].invariant, Invariant::I78b);
    }
}
