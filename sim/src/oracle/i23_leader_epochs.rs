//! I23 and I67: leader epochs rise, and each record carries that of the leader which wrote it.

use super::{Contract, ghost::Partition, invariant::Invariant, judge::Judge};

/// A broker leads from now on.
pub(super) fn on_leader(
    judge: &mut Judge,
    contract: &Contract,
    partition: &Partition,
    leader_epoch: i32,
    start_offset: i64,
) {
    if let Some(known) = partition.leader_epoch {
        // In a cluster a broker may start again so soon that nobody else has led.
        let holds = leader_epoch > known || (contract.is_replicated() && leader_epoch == known);
        judge.demand(Invariant::I23, holds, || {
            format!("the leader epoch was {known}, the new one is {leader_epoch}")
        });
    }
    let is_new = partition.leader_epoch != Some(leader_epoch);
    judge.demand(Invariant::I23, !is_new || start_offset == partition.log_end, || {
        format!("epoch {leader_epoch} starts at {start_offset}, the log ends at {}", partition.log_end)
    });
}

/// A batch was written.
pub(super) fn on_appended(judge: &mut Judge, partition: &Partition, leader_epoch: i32) {
    let known = partition.leader_epoch;
    let holds = match &partition.leading {
        Some(leading) => leading.epoch == leader_epoch,
        None => known.is_some_and(|known| leader_epoch <= known),
    };
    judge.demand(Invariant::I67, holds, || {
        let role = if partition.leading.is_some() { "leader" } else { "follower" };
        format!("a batch of epoch {leader_epoch} is written by the {role} of {known:?}")
    });
    if let Some(last) = partition.batches.last() {
        judge.demand(Invariant::I67, last.epoch <= leader_epoch, || {
            format!("a batch of epoch {leader_epoch} follows one of epoch {}", last.epoch)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, events::Stop, testing::Run};

    fn restarted_in(leader_epoch: i32) -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.stop(Stop::Killed);
        run.start();
        run.open(false, 0, 2);
        run.lead(leader_epoch);
        run
    }

    #[test]
    fn each_start_has_a_higher_epoch() {
        let run = restarted_in(1);
        run.append(2, 1);
        run.assert_legal(&[Invariant::I23, Invariant::I67]);
    }

    #[test]
    fn a_start_with_the_old_epoch() {
        restarted_in(0).assert_violated(Invariant::I23);
    }

    #[test]
    fn a_batch_of_another_epoch() {
        let run = Run::new();
        run.open_new();
        run.append_epoch(0, 2, 3);
        run.assert_violated(Invariant::I67);
    }
}
