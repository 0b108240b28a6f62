//! I37: an offset that nobody deletes stays for its retention, counted from when its group became empty.

use super::{Group, GroupContract};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_broker::{group::facts::OffsetGone, types::TopicPartition};

/// An offset is gone.
pub(super) fn on_removed(
    judge: &mut Judge,
    contract: &GroupContract,
    known: &Group,
    (group, partition): (&str, &TopicPartition),
    reason: OffsetGone,
) {
    if reason != OffsetGone::Expired {
        return;
    }
    let Some(retention_ns) = contract.offsets_retention_ns else {
        return judge.violated(
            Invariant::I37,
            format!("{group}: the offset of {partition} has expired; none may in this run"),
        );
    };
    // Time that passed under another coordinator is known by its wall clock alone.
    if contract.wall_clocks_differ && known.found_since_empty {
        return;
    }
    let now_ns = judge.now_ns();
    let for_ns = known.empty_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
    judge.demand(Invariant::I37, for_ns >= retention_ns, || {
        format!(
            "{group}: the offset of {partition} has expired; the group has been empty for {} ms, the retention is {} ms",
            for_ns / 1_000_000,
            retention_ns / 1_000_000
        )
    });
}

#[cfg(test)]
mod tests {
    use super::super::{
        GroupContract,
        testing::{Told, member},
    };
    use crate::oracle::Invariant;

    fn expired_after_ms(ms: u64) -> Told {
        let contract =
            GroupContract { offsets_retention_ns: Some(60_000_000_000), ..GroupContract::default() };
        let mut told = Told::with(contract);
        told.formed("g", 1, "range", &[member("a", &[], &[0])]);
        told.committed("g", "a", 1, 0, 5);
        told.emptied("g", 2);
        told.later_ms(ms);
        told.expired("g", 0);
        told
    }

    #[test]
    fn after_its_time() {
        expired_after_ms(60_000).assert_legal(&[Invariant::I37]);
    }

    #[test]
    fn before_its_time() {
        expired_after_ms(59_000).assert_violated(Invariant::I37);
    }
}
