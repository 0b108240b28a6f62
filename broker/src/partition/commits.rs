//! Producers that wait until their records are committed (acks=all), by the offset that they wait for. Owns the order;
//! never looks at those whose offset has not been reached.

use crate::types::Offset;
use sillon_protocol::ErrorCode;
use std::collections::BTreeMap;
use tokio::sync::oneshot;

/// What a producer that waits is told.
pub type Verdict = Result<(), ErrorCode>;

/// Names one who waits: the offset, and a number that no other has.
pub type CommitKey = (Offset, u64);

/// Those who wait on one partition.
#[derive(Default)]
pub struct Commits {
    next: u64,
    waiting: BTreeMap<CommitKey, oneshot::Sender<Verdict>>,
}

impl Commits {
    /// Waits until everything below `offset` is committed.
    pub fn wait(&mut self, offset: Offset) -> (CommitKey, oneshot::Receiver<Verdict>) {
        let (sender, receiver) = oneshot::channel();
        let key = (offset, self.next);
        self.next += 1;
        self.waiting.insert(key, sender);
        (key, receiver)
    }

    /// Everything below `high_watermark` is committed.
    pub fn reached(&mut self, high_watermark: Offset, verdict: Verdict) {
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 <= high_watermark) {
            // One that does not wait any more needs no answer.
            let _ = first.remove().send(verdict);
        }
    }

    /// Nobody will ever know here whether the records are committed.
    pub fn fail_all(&mut self, code: ErrorCode) {
        for (_, sender) in std::mem::take(&mut self.waiting) {
            let _ = sender.send(Err(code));
        }
    }

    /// One waits no longer.
    pub fn forget(&mut self, key: CommitKey) {
        self.waiting.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_whose_offset_is_reached_are_told_and_no_others() {
        let mut commits = Commits::default();
        let (_, mut first) = commits.wait(Offset(5));
        let (key, mut second) = commits.wait(Offset(6));
        let (_, mut third) = commits.wait(Offset(9));
        commits.reached(Offset(6), Ok(()));
        assert_eq!((first.try_recv(), second.try_recv()), (Ok(Ok(())), Ok(Ok(()))));
        assert!(third.try_recv().is_err());
        commits.forget(key);
        commits.fail_all(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        assert_eq!(third.try_recv(), Ok(Err(ErrorCode::NOT_LEADER_OR_FOLLOWER)));
        assert!(commits.waiting.is_empty());
    }
}
