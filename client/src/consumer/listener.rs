//! Whoever wants to hear of it when partitions come and go.

use super::{Consumer, TopicPartition};
use sillon_runtime::BoxFuture;

/// Hears of partitions that come and go, inside the polls of the consumer: so it can commit, seek and ask for positions
/// there. It is not to poll.
pub trait RebalanceListener: Send {
    /// These partitions are given up, after this returns. What was processed of them is best committed now.
    fn revoked<'a>(
        &'a mut self,
        consumer: &'a mut Consumer,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, ()>;

    /// These partitions are new; `position` and `seek` know them already.
    fn assigned<'a>(
        &'a mut self,
        consumer: &'a mut Consumer,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, ()>;

    /// These partitions may be somebody else's already: the group has gone on without this member. Nothing can be committed.
    /// Unless this is written, it is as [`RebalanceListener::revoked`].
    fn lost<'a>(
        &'a mut self,
        consumer: &'a mut Consumer,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, ()> {
        self.revoked(consumer, partitions)
    }
}
