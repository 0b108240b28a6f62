//! Throttled replication (KIP-73): so many bytes per second for the replicas that a topic names. Owns the bucket and the
//! reading of the lists; never delays anything itself. Pure.

use crate::types::BrokerId;
use sillon_runtime::Monotonic;
use std::{collections::BTreeSet, time::Duration};

/// A full bucket holds what may pass in this time.
const BURST: Duration = Duration::from_secs(1);

/// Which replicas of a topic are throttled: `*`, or a list of `partition:broker`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThrottledReplicas {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// These.
    Some(BTreeSet<(i32, BrokerId)>),
}

impl ThrottledReplicas {
    /// Reads a checked value.
    pub fn parse(text: &str) -> ThrottledReplicas {
        let pair = |word: &str| {
            let (partition, broker) = word.trim().split_once(':')?;
            Some((partition.parse().ok()?, BrokerId(broker.parse().ok()?)))
        };
        match text.trim() {
            "" => ThrottledReplicas::None,
            "*" => ThrottledReplicas::All,
            list => ThrottledReplicas::Some(list.split(',').filter_map(pair).collect()),
        }
    }

    /// Whether a replica is throttled.
    pub fn contains(&self, partition: i32, broker: BrokerId) -> bool {
        match self {
            ThrottledReplicas::None => false,
            ThrottledReplicas::All => true,
            ThrottledReplicas::Some(replicas) => replicas.contains(&(partition, broker)),
        }
    }
}

/// A bucket that fills with time and may be overdrawn once: an answer's size is known only when it is there.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    bytes_per_second: u64,
    /// Negative while overdrawn.
    bytes: i64,
    filled_at: Monotonic,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(bytes_per_second: u64, now: Monotonic) -> TokenBucket {
        TokenBucket { bytes_per_second, bytes: capacity(bytes_per_second), filled_at: now }
    }

    /// Another rate is in force.
    pub fn set_rate(&mut self, bytes_per_second: u64, now: Monotonic) {
        if bytes_per_second != self.bytes_per_second {
            *self = TokenBucket::new(bytes_per_second, now);
        }
    }

    /// Whether something may pass now.
    pub fn is_open(&mut self, now: Monotonic) -> bool {
        self.fill(now);
        self.bytes > 0
    }

    /// When something may pass.
    pub fn opens_at(&mut self, now: Monotonic) -> Monotonic {
        if self.is_open(now) {
            return now;
        }
        let missing = self.bytes.unsigned_abs() + 1;
        now + Duration::from_millis(missing.saturating_mul(1000).div_ceil(self.bytes_per_second.max(1)))
    }

    /// So much has passed.
    pub fn take(&mut self, bytes: usize, now: Monotonic) {
        self.fill(now);
        self.bytes = self.bytes.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn fill(&mut self, now: Monotonic) {
        let elapsed = now.saturating_since(self.filled_at);
        let gained = u128::from(self.bytes_per_second) * elapsed.as_nanos() / 1_000_000_000;
        if gained > 0 {
            let gained = i64::try_from(gained).unwrap_or(i64::MAX);
            self.bytes = self.bytes.saturating_add(gained).min(capacity(self.bytes_per_second));
            self.filled_at = now;
        }
    }
}

fn capacity(bytes_per_second: u64) -> i64 {
    i64::try_from(bytes_per_second.saturating_mul(BURST.as_secs())).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_replicas() {
        let some = ThrottledReplicas::parse("0:1, 3:2");
        assert!(some.contains(0, BrokerId(1)) && some.contains(3, BrokerId(2)));
        assert!(!some.contains(0, BrokerId(2)));
        assert!(ThrottledReplicas::parse("*").contains(9, BrokerId(9)));
        assert!(!ThrottledReplicas::parse("").contains(0, BrokerId(0)));
    }

    #[test]
    fn an_overdrawn_bucket_opens_when_the_debt_is_paid() {
        let at = |ms| Monotonic(0) + Duration::from_millis(ms);
        let mut bucket = TokenBucket::new(1000, at(0));
        assert!(bucket.is_open(at(0)));
        bucket.take(3000, at(0));
        let opens = bucket.opens_at(at(0));
        assert_eq!(opens.saturating_since(at(0)).as_millis(), 2001);
        assert!(!bucket.is_open(at(1999)));
        assert!(bucket.is_open(at(2001)));
    }
}
