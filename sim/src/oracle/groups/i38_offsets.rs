//! I38: what was committed is what every later coordinator finds, and what members are told.

use super::{Group, Groups};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_broker::types::TopicPartition;
use std::collections::{BTreeSet, VecDeque};

/// So many commits of a partition are remembered with their times.
const REMEMBERED: usize = 64;

/// The committed offset of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Committed {
    /// As told by coordinators, with the times; the last one counts.
    told: VecDeque<(u64, i64)>,
    /// What members have asked to be committed since the last one was told: each may be in the log already.
    asked: BTreeSet<i64>,
}

impl Committed {
    fn last(&self) -> Option<i64> {
        self.told.back().map(|(_, offset)| *offset)
    }

    fn tell(&mut self, now_ns: u64, offset: i64) {
        if self.told.len() == REMEMBERED {
            self.told.pop_front();
        }
        self.told.push_back((now_ns, offset));
    }
}

/// What a coordinator that reads its partition has found so far.
#[derive(Debug, Default)]
pub(super) struct Loading {
    offsets: BTreeSet<(String, TopicPartition)>,
}

/// A coordinator tells that an offset is committed.
pub(super) fn on_committed(judge: &Judge, known: &mut Group, partition: &TopicPartition, offset: i64) {
    let committed = known.offsets.entry(partition.clone()).or_default();
    committed.tell(judge.now_ns(), offset);
    committed.asked.remove(&offset);
}

/// A member asks for offsets to be committed.
pub(super) fn on_committing(known: &mut Group, offsets: Vec<(TopicPartition, i64)>) {
    for (partition, offset) in offsets {
        known.offsets.entry(partition).or_default().asked.insert(offset);
    }
}

/// A member was told that its offsets are committed: a coordinator has told so before.
pub(super) fn on_confirmed(judge: &mut Judge, known: &Group, group: &str, offsets: &[(TopicPartition, i64)]) {
    for (partition, offset) in offsets {
        let committed = known.offsets.get(partition);
        let was_told =
            committed.is_some_and(|committed| committed.told.iter().any(|(_, told)| told == offset));
        judge.demand(Invariant::I38, was_told, || {
            format!("{group}: {offset} of {partition} is confirmed, and no coordinator has committed it")
        });
    }
}

/// A member was told what is committed: what was so when it asked, or since.
pub(super) fn on_fetched(
    judge: &mut Judge,
    known: &Group,
    group: &str,
    (partition, offset): (&TopicPartition, Option<i64>),
    asked_ns: u64,
) {
    let Some(committed) = known.offsets.get(partition) else {
        let text = || format!("{group}: {offset:?} of {partition} is told to be committed, nobody ever did");
        return judge.demand(Invariant::I38, offset.is_none(), text);
    };
    let first_since = committed.told.partition_point(|(at_ns, _)| *at_ns <= asked_ns);
    let mut valid = committed.told.iter().skip(first_since.saturating_sub(1)).map(|(_, told)| *told);
    let holds = match offset {
        None => first_since == 0,
        Some(offset) => valid.any(|told| told == offset),
    };
    judge.demand(Invariant::I38, holds, || {
        format!("{group}: {offset:?} of {partition} is told to be committed, it is {:?}", committed.last())
    });
}

/// A coordinator has found an offset in its log.
pub(super) fn on_found(
    groups: &mut Groups,
    judge: &mut Judge,
    home: &TopicPartition,
    (group, partition, offset): (&str, &TopicPartition, i64),
    promised: bool,
) {
    let loading = groups.loading.entry(home.clone()).or_default();
    loading.offsets.insert((group.to_owned(), partition.clone()));
    let committed = groups.group(group).offsets.entry(partition.clone()).or_default();
    let last = committed.last();
    if promised {
        let holds = last == Some(offset) || committed.asked.contains(&offset);
        judge.demand(Invariant::I38, holds, || {
            format!("{group}: {last:?} of {partition} was committed, the next coordinator finds {offset}")
        });
    }
    if last != Some(offset) {
        committed.tell(judge.now_ns(), offset);
        committed.asked.remove(&offset);
    }
}

/// A coordinator has read all of its partition: what is known to be in there was found.
pub(super) fn on_loaded(groups: &mut Groups, judge: &mut Judge, home: &TopicPartition, promised: bool) {
    let found = groups.loading.remove(home).unwrap_or_default();
    let of_home: Vec<String> = groups
        .homes
        .iter()
        .filter(|(_, partition)| *partition == home)
        .map(|(name, _)| name.clone())
        .collect();
    for name in of_home {
        let Some(known) = groups.groups.get_mut(&name) else { continue };
        let is_missing =
            |partition: &TopicPartition| !found.offsets.contains(&(name.clone(), partition.clone()));
        let told = known.offsets.iter().filter(|(_, committed)| committed.last().is_some());
        let missing: Vec<TopicPartition> =
            told.map(|(partition, _)| partition.clone()).filter(is_missing).collect();
        if promised {
            judge.demand(Invariant::I38, missing.is_empty(), || {
                format!(
                    "{name}: offsets of {missing:?} were committed, the next coordinator does not find them"
                )
            });
        } else {
            missing.iter().for_each(|partition| drop(known.offsets.remove(partition)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Told, member};
    use crate::oracle::Invariant;

    fn committed() -> Told {
        let mut told = Told::new();
        told.formed("g", 1, "range", &[member("a", &[], &[0])]);
        told.committing("g", 0, 5);
        told.committed("g", "a", 1, 0, 5);
        told.confirmed("g", 0, 5);
        told
    }

    #[test]
    fn what_was_committed_is_found() {
        let mut told = committed();
        told.offset_found("g", 0, 5);
        told.loaded();
        told.fetched("g", 0, Some(5));
        told.assert_legal(&[Invariant::I38]);
    }

    #[test]
    fn what_may_have_been_committed_may_be_found() {
        let mut told = committed();
        told.committing("g", 0, 9);
        told.offset_found("g", 0, 9);
        told.loaded();
        told.assert_legal(&[Invariant::I38]);
        told.fetched("g", 0, Some(5));
        told.assert_violated(Invariant::I38);
    }

    #[test]
    fn an_older_one_is_found() {
        let mut told = committed();
        told.committing("g", 0, 9);
        told.committed("g", "a", 1, 0, 9);
        told.offset_found("g", 0, 5);
        told.assert_violated(Invariant::I38);
    }

    #[test]
    fn nothing_is_found() {
        let mut told = committed();
        told.loaded();
        told.assert_violated(Invariant::I38);
    }

    #[test]
    fn a_confirmation_out_of_nothing() {
        let mut told = committed();
        told.committing("g", 0, 9);
        told.confirmed("g", 0, 9);
        told.assert_violated(Invariant::I38);
    }
}
