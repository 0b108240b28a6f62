//! I27: what a broker remembers of producers after a start is what its log says.

use super::{
    disk::LogImage,
    ghost::{Node, Partition, ProducerGhost},
    invariant::Invariant,
    judge::Judge,
};
use std::collections::BTreeMap;

/// The table of an opened log against a replay of the files.
pub(super) fn check(
    judge: &mut Judge,
    node: &Node,
    partition: &Partition,
    (table, may_expire): (&BTreeMap<i64, ProducerGhost>, bool),
    image: &LogImage,
) {
    if node.has_damage_in(&partition.directory) {
        return;
    }
    let replayed = image.replay_producers();
    let expected: Vec<_> = replayed
        .iter()
        .filter(|(id, state)| match table.get(id) {
            Some(known) => known != *state,
            // A replay may begin at log start and never see what is below.
            None => !may_expire && state.last_offset >= partition.log_start,
        })
        .collect();
    // Whose records log start has passed may be remembered, but not wrongly.
    let invented: Vec<_> = table
        .iter()
        .filter(|(id, state)| !replayed.contains_key(id) && partition.producers.get(id) != Some(state))
        .collect();
    if replayed.is_empty() && table.is_empty() {
        return;
    }
    judge.demand(Invariant::I27, expected.is_empty(), || {
        let (id, state) = expected[0];
        format!("the log says {state:?} of producer {id}, the table says {:?}", table.get(id))
    });
    judge.demand(Invariant::I27, invented.is_empty(), || {
        let (id, state) = invented[0];
        format!("the table says {state:?} of producer {id}, which is {:?}", partition.producers.get(id))
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, events::Stop, testing::Run};

    fn restarted_with(table: &[(i64, i16, i32, i64)]) -> Run {
        let run = Run::new();
        run.open_new();
        run.append_from(0, 2, (7, 0, 0));
        run.append_from(2, 1, (8, 3, 0));
        run.append_from(3, 1, (7, 0, 2));
        run.stop(Stop::Killed);
        run.start();
        run.open_producers(false, 0, 4, table);
        run
    }

    #[test]
    fn the_table_that_the_log_gives() {
        restarted_with(&[(7, 0, 2, 3), (8, 3, 0, 2)]).assert_legal(&[Invariant::I27]);
    }

    #[test]
    fn a_producer_below_log_start_may_be_forgotten_and_begins_anywhere() {
        let run = Run::new();
        run.open_new();
        run.append_from(0, 2, (7, 0, 0));
        run.append_from(2, 1, (8, 0, 0));
        run.high_watermark(0, 3);
        run.flush(3);
        run.stop(Stop::Killed);
        run.start();
        run.open_at(2, 3, &[(8, 0, 0, 2)]);
        run.lead(1);
        run.append_from(3, 1, (7, 0, 9));
        run.assert_legal(&[Invariant::I27]);
    }

    #[test]
    fn any_other_table() {
        for table in [
            &[(7, 0, 2, 3)][..],
            &[(7, 0, 1, 1), (8, 3, 0, 2)],
            &[(7, 0, 2, 3), (8, 2, 0, 2)],
            &[(7, 0, 2, 3), (8, 3, 0, 2), (9, 0, 0, 0)],
        ] {
            restarted_with(table).assert_violated(Invariant::I27);
        }
    }
}
