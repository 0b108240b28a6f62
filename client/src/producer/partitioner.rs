//! Where a record goes that does not say it. Owns the state of each rule; knows nothing of batches.

use super::{Partitioning, ProducerRecord, murmur2::partition_of_key};

/// A rule of one's own for where records go.
pub trait Partitioner: Send + Sync {
    /// The partition of a record among so many, or `None` to leave it to the sticky rule. A number that is no partition
    /// fails the record.
    fn partition(&self, record: &ProducerRecord<'_>, partitions: usize) -> Option<i32>;
}

/// The rules' state for one topic.
#[derive(Debug, Default)]
pub(super) struct Chooser {
    /// The partition that records stick to, and how many bytes did.
    sticky: Option<(usize, usize)>,
    next: usize,
}

impl Chooser {
    /// The partition of a record of `bytes` bytes. `available` are the partitions with a leader; `random` is any random
    /// number; `batch_size` is how many bytes stick together.
    pub(super) fn choose(
        &mut self,
        rule: &Partitioning,
        record: &ProducerRecord<'_>,
        partitions: usize,
        available: &[usize],
        random: &mut Random,
    ) -> i64 {
        if let Some(partition) = record.partition {
            return i64::from(partition);
        }
        let chosen = match (rule, record.key) {
            (Partitioning::KeyHash, Some(key)) => return partition_of_key(key, partitions) as i64,
            (Partitioning::RoundRobin, _) => {
                self.next = self.next.wrapping_add(1);
                return nth(available, partitions, self.next) as i64;
            }
            (Partitioning::Custom(rule), _) => rule.partition(record, partitions),
            _ => None,
        };
        chosen.map_or_else(|| self.stick(partitions, available, random) as i64, i64::from)
    }

    fn stick(&mut self, partitions: usize, available: &[usize], random: &mut Random) -> usize {
        match self.sticky {
            Some((partition, _)) if partition < partitions => partition,
            _ => {
                let partition = nth(available, partitions, random.next() as usize);
                self.sticky = Some((partition, 0));
                partition
            }
        }
    }

    /// So many bytes went to a partition. Records stick to it until a batch's worth did.
    pub(super) fn went(&mut self, partition: usize, bytes: usize, batch_size: usize) {
        if let Some((sticky, stuck)) = &mut self.sticky
            && *sticky == partition
        {
            *stuck += bytes;
            if *stuck >= batch_size {
                self.sticky = None;
            }
        }
    }
}

fn nth(available: &[usize], partitions: usize, number: usize) -> usize {
    if available.is_empty() { number % partitions } else { available[number % available.len()] }
}

/// A small generator, seeded from the runtime: which partition comes next has to be fair, not secret.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// Xorshift64 (Marsaglia).
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn choose(chooser: &mut Chooser, rule: &Partitioning, record: ProducerRecord<'_>) -> i64 {
        chooser.choose(rule, &record, 6, &[0, 2, 4], &mut Random::new(99))
    }

    #[test]
    fn a_partition_that_is_named_is_taken() {
        let record = ProducerRecord::new("t", "v").key("k").partition(5);
        assert_eq!(choose(&mut Chooser::default(), &Partitioning::RoundRobin, record), 5);
    }

    #[test]
    fn keys_go_by_their_hash_among_all_partitions() {
        let record = ProducerRecord::new("t", "v").key("foobar");
        let hash = (-790_332_482i32).cast_unsigned() & 0x7fff_ffff;
        assert_eq!(choose(&mut Chooser::default(), &Partitioning::KeyHash, record), i64::from(hash % 6));
    }

    #[test]
    fn round_robin_takes_those_with_a_leader_in_turn() {
        let mut chooser = Chooser::default();
        let record = ProducerRecord::new("t", "v").key("k");
        let chosen: Vec<_> =
            (0..6).map(|_| choose(&mut chooser, &Partitioning::RoundRobin, record)).collect();
        assert_eq!(chosen, [2, 4, 0, 2, 4, 0]);
    }

    #[test]
    fn records_without_a_key_stick_for_a_batch() {
        let mut chooser = Chooser::default();
        let mut random = Random::new(7);
        let record = ProducerRecord::new("t", "v");
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..64 {
            let first = chooser.choose(&Partitioning::KeyHash, &record, 6, &[0, 2, 4], &mut random);
            for _ in 0..4 {
                let next = chooser.choose(&Partitioning::KeyHash, &record, 6, &[0, 2, 4], &mut random);
                assert_eq!(next, first, "until there is a batch's worth");
                chooser.went(first as usize, 25, 100);
            }
            seen.insert(first);
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 2, 4]);
    }

    #[test]
    fn a_rule_of_ones_own() {
        struct Last;
        impl Partitioner for Last {
            fn partition(&self, _: &ProducerRecord<'_>, partitions: usize) -> Option<i32> {
                i32::try_from(partitions - 1).ok()
            }
        }
        let rule = Partitioning::Custom(Arc::new(Last));
        assert_eq!(choose(&mut Chooser::default(), &rule, ProducerRecord::new("t", "v")), 5);
    }
}
