//! One partition of a cluster: what its records are for everybody, and what each broker's replica holds. Owns how the
//! first follows from the second when leaders change; what that must look like is in i11, i10 and i08.
//!
//! The log that counts is that of the newest leader. When another one takes over, what only the old one had is gone:
//! legally where it was not committed.

use super::{
    Contract,
    ghost::{GhostBatch, Partition},
};
use sillon_broker::types::{TopicId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So many moves of the committed end are remembered with their times.
const REMEMBERED_MOVES: usize = 256;
/// For so long an answer of a broker that has removed its replica since may be on its way.
const UNDER_WAY_NS: u64 = 10_000_000_000;

/// A batch as the leader of its epoch wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub next: i64,
    pub crc: u32,
    /// It and all before it, where that goes back to the first record.
    pub chain: Option<u64>,
}

/// A reader that has read what was lost, and was not told yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deaf {
    /// What it had read from here on is not there any more.
    pub cut: i64,
    /// It had read all below.
    pub read_to: i64,
    /// The number of all that it had read; none where that is not known.
    pub chain: Option<u64>,
}

/// One partition of a cluster, in one life of its topic.
#[derive(Debug)]
pub(super) struct Lineage {
    /// The log as everybody must see it.
    pub log: Partition,
    /// What each broker holds.
    pub replicas: BTreeMap<u32, Partition>,
    /// The newest leader: its node and its epoch.
    pub leader: Option<(u32, i32)>,
    /// Who led in each epoch.
    pub leaders: BTreeMap<i32, u32>,
    /// Every batch that any leader wrote, by its base offset and epoch.
    pub written: BTreeMap<(i64, i32), Written>,
    /// More replicas lost unflushed records at the same time than may, or a leader was elected that need not have all.
    pub beyond_budget: bool,
    /// How the committed end rose, and when.
    pub committed_at: VecDeque<(i64, u64)>,
    /// Readers that have read what was lost: each must hear of it before it goes on.
    pub deaf: BTreeMap<u32, Deaf>,
    /// The topic is about to be deleted.
    pub deleting: bool,
    /// When a broker was last seen to give up a replica of another life of the topic; none where there was no other.
    pub settled_ns: Option<u64>,
}

/// The lives of topics that are no more, by name.
pub(super) type Former = BTreeMap<TopicPartition, Vec<Lineage>>;

/// Which life of a topic a client's word is about.
pub(super) enum Life<'a> {
    /// The one that the name stands for now.
    Current(&'a mut Lineage),
    /// One that is over. Nothing is promised for it any more, and what its last replicas still do is not followed.
    Over(TopicId),
    /// None that any broker ever held.
    Unknown,
}

/// The life of a topic that has this id, or where that is nil, the one that the name stands for.
pub(super) fn life_of<'a>(
    partitions: &'a mut BTreeMap<TopicPartition, Lineage>,
    former: &Former,
    name: &TopicPartition,
    topic_id: TopicId,
) -> Life<'a> {
    let by_name = topic_id == TopicId::default();
    let past = former.get(name).map_or(&[][..], Vec::as_slice);
    match partitions.get_mut(name) {
        Some(lineage) if by_name || lineage.log.topic_id == topic_id => Life::Current(lineage),
        _ => match past.iter().rev().find(|life| by_name || life.log.topic_id == topic_id) {
            Some(life) => Life::Over(life.log.topic_id),
            None => Life::Unknown,
        },
    }
}

impl Lineage {
    pub fn new(name: &TopicPartition, contract: &Contract, node: u32, topic_id: TopicId) -> Lineage {
        Lineage {
            log: Partition::new(name, &contract.log_directory, node, topic_id),
            replicas: BTreeMap::new(),
            leader: None,
            leaders: BTreeMap::new(),
            written: BTreeMap::new(),
            beyond_budget: false,
            committed_at: VecDeque::new(),
            deaf: BTreeMap::new(),
            deleting: false,
            settled_ns: None,
        }
    }

    /// Whether this is about the topic that the name stands for now.
    pub fn is_current(&self, node: u32) -> bool {
        self.replicas.get(&node).is_some_and(|replica| replica.topic_id == self.log.topic_id)
    }

    /// Whether what clients are told of it may be about another life of the topic.
    pub fn is_changing(&self) -> bool {
        self.deleting || self.replicas.values().any(|replica| replica.topic_id != self.log.topic_id)
    }

    /// Whether an answer that names the topic by its name alone is about this life, for all that is known: the client means
    /// this one, and nobody could have answered of another.
    pub fn is_settled(&self, now_ns: u64, topic_id: TopicId) -> bool {
        let is_meant = topic_id == TopicId::default() || topic_id == self.log.topic_id;
        let is_long_ago = |at_ns: u64| now_ns >= at_ns.saturating_add(UNDER_WAY_NS);
        is_meant && !self.is_changing() && self.settled_ns.is_none_or(is_long_ago)
    }

    /// Remembers what a leader wrote.
    pub fn note_written(&mut self, batch: &GhostBatch, chain: Option<u64>) {
        let written = Written { next: batch.next, crc: batch.crc, chain };
        self.written.entry((batch.base, batch.epoch)).or_insert(written);
    }

    /// The log that counts is this replica's from now on. Gives where the old one and it part.
    pub fn switch_to(&mut self, node: u32) -> i64 {
        let Lineage { log, replicas, .. } = self;
        let Some(replica) = replicas.get(&node) else { return log.log_end };
        let common = log.common_with(replica);
        let committed = log.committed_end;
        if common < log.log_end {
            let (lost, values) = (log.lost.len(), log.lost_values.len());
            log.lose_from(common);
            // Nobody may have seen what was never committed.
            let seen = |batch: &GhostBatch| batch.base < committed;
            let kept: Vec<GhostBatch> = log.lost.drain(lost..).filter(seen).collect();
            log.lost.extend(kept);
            log.lost_values.truncate(if common < committed { usize::MAX } else { values });
        }
        if let Some(first) = replica.batches.first().filter(|first| first.base > log.log_end) {
            log.begin_at(first.base);
        }
        let from = log.log_end;
        for (batch, chain) in replica.batches.iter().zip(&replica.chains) {
            if batch.base >= from {
                log.push_chained(*batch, Some(*chain));
            }
        }
        log.node = node;
        common
    }

    /// Everything below `to` is committed: a leader says so, rightly or not.
    pub fn commit(&mut self, now_ns: u64, to: i64) {
        let to = to.min(self.log.log_end);
        if to > self.log.committed_end {
            self.log.committed_end = to;
            if self.committed_at.len() == REMEMBERED_MOVES {
                self.committed_at.pop_front();
            }
            self.committed_at.push_back((to, now_ns));
        }
        let Lineage { log, replicas, .. } = self;
        for replica in replicas.values_mut() {
            if let Some(end) = replica.short_since
                && replica.open
                && replica.log_end >= end
                && replica.holds_all_of(log, log.committed_end)
            {
                replica.short_since = None;
            }
        }
    }

    /// When what is at `offset` was committed.
    pub fn committed_ns(&self, offset: i64) -> Option<u64> {
        let place = self.committed_at.partition_point(|(end, _)| *end <= offset);
        // What is older than all that is remembered is not known.
        (place > 0 || self.committed_at.len() < REMEMBERED_MOVES)
            .then(|| self.committed_at.get(place).map(|(_, at_ns)| *at_ns))?
    }

    /// The replicas that have lost records since they last held everything.
    pub fn short(&self) -> BTreeSet<u32> {
        let short = self.replicas.iter().filter(|(_, replica)| replica.short_since.is_some());
        short.map(|(node, _)| *node).collect()
    }

    /// A replica was found to have lost records. Gives a label where that is more than the promise covers.
    pub fn on_loss(&mut self, contract: &Contract) -> Option<String> {
        let short = self.short();
        if contract.flush_every_message || self.beyond_budget || short.len() <= contract.loss_budget() {
            return None;
        }
        self.beyond_budget = true;
        Some(format!(
            "{}: brokers {short:?} have lost unflushed records at the same time, min.insync.replicas is {}",
            self.log.name, contract.min_insync_replicas
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_broker::types::Uuid;

    fn topic(number: u128) -> TopicId {
        TopicId(Uuid::from_u128(number))
    }

    fn life(number: u128) -> Lineage {
        Lineage::new(&TopicPartition::new("t", 0), &Contract::default(), 0, topic(number))
    }

    #[test]
    fn a_word_is_about_the_life_that_it_names() {
        let name = TopicPartition::new("t", 0);
        let mut partitions = BTreeMap::from([(name.clone(), life(2))]);
        let former = Former::from([(name.clone(), vec![life(1)])]);
        let mut found = |topic_id| match life_of(&mut partitions, &former, &name, topic_id) {
            Life::Current(lineage) => Some(lineage.log.topic_id),
            Life::Over(id) => Some(id),
            Life::Unknown => None,
        };
        assert_eq!([2, 1].map(|number| found(topic(number))), [2, 1].map(|number| Some(topic(number))));
        assert_eq!(found(TopicId::default()), Some(topic(2)), "a name alone stands for what it names now");
        assert_eq!(found(topic(3)), None);
    }

    #[test]
    fn an_answer_by_name_counts_once_no_other_life_can_have_given_it() {
        let mut lineage = life(2);
        assert!(lineage.is_settled(0, topic(2)));
        assert!(!lineage.is_settled(0, topic(1)), "the client means another one");
        lineage.settled_ns = Some(5);
        assert!(!lineage.is_settled(6, topic(2)));
        assert!(lineage.is_settled(5 + UNDER_WAY_NS, topic(2)));
        lineage.deleting = true;
        assert!(!lineage.is_settled(5 + UNDER_WAY_NS, topic(2)));
    }
}
