//! I41: compaction touches only what is committed and durable, and keeps offsets and their order. Looks at the files of
//! the segment that was cleaned, right afterwards.

use super::{
    disk::{Disks, segment_path},
    ghost::Partition,
    invariant::Invariant,
    judge::Judge,
};
use sillon_protocol::records::split_views;

/// What the broker told of a cleaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleaning {
    pub from: i64,
    pub to: i64,
    pub records_kept: u64,
}

/// Segments were compacted.
pub(super) fn on_cleaned(
    judge: &mut Judge,
    disks: &dyn Disks,
    node: u32,
    partition: &Partition,
    cleaning: Cleaning,
) {
    let Cleaning { from, to, records_kept } = cleaning;
    let committed = partition.high_watermark.unwrap_or(partition.log_end);
    judge.demand(Invariant::I41, to <= committed, || {
        format!("records up to {to} are compacted, the high watermark is {committed}")
    });
    judge.demand(Invariant::I41, to <= partition.durable, || {
        format!("records up to {to} are compacted, only those below {} are durable", partition.durable)
    });
    let file = segment_path(&partition.directory, from);
    let bytes = disks.read(node, &file).unwrap_or_default();
    let found = read(&bytes, from);
    judge.demand(Invariant::I41, found == Ok((to, records_kept)), || {
        format!("the cleaned segment {from} goes to {to} with {records_kept} records, its file: {found:?}")
    });
}

/// One past the last offset of a segment's file, and how many records are in it.
fn read(bytes: &[u8], base: i64) -> Result<(i64, u64), String> {
    let (mut end, mut records) = (base, 0);
    for batch in split_views(bytes) {
        let batch = batch.map_err(|error| error.to_string())?;
        batch.validate_header().map_err(|error| error.to_string())?;
        if batch.base_offset() < end {
            return Err(format!("offset {} follows {end}", batch.base_offset()));
        }
        records += batch
            .validate_deep(usize::MAX)
            .map_err(|error| error.to_string())
            .map(|_| batch.record_count())?;
        end = batch.next_offset();
    }
    Ok((end, u64::try_from(records).map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        testing::{LOG, Run},
    };
    use sillon_protocol::records::{BatchBuilder, Compression};

    fn durable() -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.append(2, 2);
        run.append(4, 2);
        run.flush(6);
        run.high_watermark(0, 4);
        run
    }

    fn cleaned_batch(base: i64, last_delta: i32, kept: &[i32]) -> Vec<u8> {
        let mut builder = BatchBuilder::new().base_offset(base);
        for delta in kept {
            builder.add_at(*delta, 5, Some(b"k"), Some(b"v"), []);
        }
        builder.last_offset_delta(last_delta).build(Compression::None).to_vec()
    }

    #[test]
    fn what_is_committed_may_be_compacted() {
        let run = durable();
        run.disk.write(LOG, [cleaned_batch(0, 1, &[1]), cleaned_batch(2, 1, &[])].concat());
        run.cleaned(0, 4, 1);
        run.assert_legal(&[Invariant::I41]);
    }

    #[test]
    fn what_is_not_committed_may_not() {
        let run = durable();
        run.disk.write(LOG, cleaned_batch(0, 5, &[5]));
        run.cleaned(0, 6, 1);
        run.assert_violated(Invariant::I41);
    }

    #[test]
    fn what_is_not_durable_may_not() {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.high_watermark(0, 2);
        run.disk.write(LOG, cleaned_batch(0, 1, &[1]));
        run.cleaned(0, 2, 1);
        run.assert_violated(Invariant::I41);
    }

    #[test]
    fn the_file_is_what_was_told() {
        for (bytes, kept) in [
            (cleaned_batch(0, 3, &[1]), 2),
            (cleaned_batch(0, 2, &[1]), 1),
            ([cleaned_batch(2, 1, &[0]), cleaned_batch(0, 1, &[1])].concat(), 2),
            (Vec::new(), 0),
        ] {
            let run = durable();
            run.disk.write(LOG, bytes);
            run.cleaned(0, 4, kept);
            run.assert_violated(Invariant::I41);
        }
    }
}
