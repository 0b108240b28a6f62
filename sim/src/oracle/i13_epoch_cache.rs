//! I13: the leader-epoch cache tells of each offset the epoch that its record really has.

use super::{disk::LogImage, invariant::Invariant, judge::Judge};

/// A leader's own epoch is in its log's cache before its first record: `latest` is the newest entry, (epoch, start offset).
pub(super) fn on_leader(judge: &mut Judge, latest: Option<(i32, i64)>, epoch: i32, start: i64) {
    judge.demand(Invariant::I13, latest == Some((epoch, start)), || {
        format!(
            "it leads in epoch {epoch} from {start} on, the newest entry of its epoch cache is {latest:?}"
        )
    });
}

/// The cache of an opened log, as (epoch, start offset), against the log on disk.
pub(super) fn check(judge: &mut Judge, cache: &[(i32, i64)], image: &LogImage, log_start: i64, log_end: i64) {
    let ordered = cache.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    judge.demand(Invariant::I13, ordered, || format!("the epoch cache {cache:?} is out of order"));
    let inside = cache.iter().all(|(_, start)| *start <= log_end);
    judge.demand(Invariant::I13, inside, || {
        format!("the epoch cache {cache:?} goes past the log end {log_end}")
    });
    let wrong =
        image.batches.iter().filter(|batch| batch.next > log_start && batch.next <= log_end).find(|batch| {
            let of = |offset| {
                cache
                    .partition_point(|(_, start)| *start <= offset)
                    .checked_sub(1)
                    .map(|index| cache[index].0)
            };
            [batch.base.max(log_start), batch.next - 1].map(of) != [Some(batch.epoch); 2]
        });
    judge.demand(Invariant::I13, wrong.is_none(), || {
        let batch = wrong.expect("that is what does not hold");
        format!("the batch at {} has epoch {}, the epoch cache is {cache:?}", batch.base, batch.epoch)
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, events::Stop, testing::Run};

    fn opened_with(cache: &[(i32, i64)]) -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.stop(Stop::Killed);
        run.start();
        run.open(false, 0, 2);
        run.lead(1);
        run.append(2, 1);
        run.stop(Stop::Killed);
        run.start();
        run.open_epochs(false, 0, 3, cache);
        run
    }

    #[test]
    fn a_cache_that_fits_its_log() {
        opened_with(&[(0, 0), (1, 2)]).assert_legal(&[Invariant::I13]);
        opened_with(&[(0, 0), (1, 2), (2, 3)]).assert_legal(&[Invariant::I13]);
    }

    #[test]
    fn a_leader_that_has_not_noted_its_epoch() {
        for (latest, is_legal) in
            [(Some((3, 2)), true), (Some((0, 0)), false), (Some((3, 1)), false), (None, false)]
        {
            let run = Run::new();
            run.open_new();
            run.append(0, 2);
            run.lead_with_cache(3, latest);
            match is_legal {
                true => run.assert_legal(&[Invariant::I13]),
                false => run.assert_violated(Invariant::I13),
            }
        }
    }

    #[test]
    fn a_cache_that_does_not() {
        for cache in [
            &[(0, 0)][..],
            &[(0, 0), (1, 1)],
            &[(0, 0), (1, 3)],
            &[(1, 0), (0, 2)],
            &[(0, 0), (1, 2), (2, 4)],
            &[],
        ] {
            opened_with(cache).assert_violated(Invariant::I13);
        }
    }
}
