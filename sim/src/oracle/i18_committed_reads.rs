//! I18: consumers are given nothing that is not committed.

use super::{events::ReadBatch, ghost::Partition, invariant::Invariant, judge::Judge, lineage::Lineage};

/// The broker gives records to a consumer.
pub(super) fn on_served(judge: &mut Judge, partition: &Partition, next_offset: i64, high_watermark: i64) {
    judge.demand(Invariant::I18, next_offset <= high_watermark, || {
        format!("records up to {next_offset} are given away with the high watermark at {high_watermark}")
    });
    let known = partition.high_watermark.unwrap_or(partition.log_end);
    judge.demand(Invariant::I18, high_watermark <= known, || {
        format!("a consumer is told the high watermark {high_watermark}, it is {known}")
    });
}

/// A replica gives records to a consumer: each is committed, and this replica holds the one that is.
pub(super) fn on_served_by_replica(judge: &mut Judge, lineage: &Lineage, node: u32, next_offset: i64) {
    let committed = lineage.log.committed_end;
    judge.demand(Invariant::I18, next_offset <= committed, || {
        format!("records up to {next_offset} are given away, committed is what is below {committed}")
    });
    let Some(replica) = lineage.replicas.get(&node) else { return };
    judge.demand(Invariant::I18, replica.holds_all_of(&lineage.log, next_offset), || {
        format!(
            "records up to {next_offset} are given away; only those below {} are the committed ones",
            replica.common_with(&lineage.log)
        )
    });
}

/// A follower's high watermark moves: what it shows then is committed.
pub(super) fn on_follower_moved(judge: &mut Judge, lineage: &Lineage, replica: &Partition, to: i64) {
    let committed = lineage.log.committed_end;
    let common = replica.common_with(&lineage.log);
    judge.demand(Invariant::I18, to <= committed && common >= to, || {
        format!(
            "a follower's high watermark moves to {to}; committed is what is below {committed}, and of its log what is              below {common} is what others have"
        )
    });
}

/// A consumer got a batch.
pub(super) fn on_read(judge: &mut Judge, partition: &Partition, read: &ReadBatch, high_watermark: i64) {
    judge.demand(Invariant::I18, read.next_offset <= high_watermark, || {
        format!("a batch up to {} came with the high watermark {high_watermark}", read.next_offset)
    });
    let committed =
        read.next_offset <= partition.committed_end || partition.lost_at(read.base_offset, |_| true);
    judge.demand(Invariant::I18, committed, || {
        format!(
            "a batch up to {} was read, committed is what is below {}",
            read.next_offset, partition.committed_end
        )
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, cluster_testing::Cluster, events::Purpose, testing::Run};

    fn half_committed() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 2);
        run.high_watermark(0, 2);
        run
    }

    #[test]
    fn up_to_the_high_watermark() {
        let run = half_committed();
        run.served(0, 2, 2);
        run.read(1, Purpose::Tail, 0, &[0]);
        run.assert_legal(&[Invariant::I18]);
    }

    #[test]
    fn served_past_it() {
        let run = half_committed();
        run.served(0, 4, 2);
        run.assert_violated(Invariant::I18);
    }

    #[test]
    fn told_a_wrong_one() {
        let run = half_committed();
        run.served(0, 4, 4);
        run.assert_violated(Invariant::I18);
    }

    #[test]
    fn read_past_it() {
        let run = half_committed();
        run.read(1, Purpose::Tail, 0, &[0, 2]);
        run.assert_violated(Invariant::I18);
    }

    /// Broker 0 led, and wrote a tail that nobody else has; broker 1 leads and commits past it.
    fn replaced_leader() -> Cluster {
        let cluster = Cluster::three();
        cluster.lead(0, 0, &[0, 1]);
        cluster.append(0, 0, 2);
        cluster.fetch(1);
        cluster.advance(0, 2);
        cluster.append_as(0, 2, 2, 77);
        cluster.lead(1, 1, &[1, 2]);
        cluster.append(1, 2, 2);
        cluster.fetch(2);
        cluster.advance(1, 4);
        cluster.follow(0, 1, 1);
        cluster
    }

    #[test]
    fn a_follower_that_cuts_before_it_shows_more() {
        let cluster = replaced_leader();
        cluster.cut(0, 1, Some((0, 2)), 2);
        cluster.fetch(0);
        cluster.learn_high_watermark(0, 4);
        cluster.serve(0, 0, 4);
        cluster.assert_legal(&[Invariant::I18, Invariant::I08]);
    }

    #[test]
    fn a_follower_that_shows_more_before_it_cuts() {
        // B10
        let cluster = replaced_leader();
        cluster.learn_high_watermark(0, 4);
        cluster.assert_violated(Invariant::I18);
    }

    #[test]
    fn a_replaced_leader_that_serves_its_tail() {
        let cluster = replaced_leader();
        cluster.serve(0, 0, 2);
        cluster.assert_legal(&[Invariant::I18]);
        cluster.serve(0, 2, 4);
        cluster.assert_violated(Invariant::I18);
    }
}
