//! I21: a checkpoint file is replaced whole or not at all.

use super::{disk::parse_checkpoint, ghost::Node, invariant::Invariant, judge::Judge};
use std::path::Path;

/// A starting broker finds this checkpoint file. Gives its entries where it is whole.
pub(super) fn on_file(
    judge: &mut Judge,
    node: &Node,
    file: &Path,
    bytes: &[u8],
    words_per_entry: usize,
) -> Vec<Vec<String>> {
    let parsed = parse_checkpoint(bytes, words_per_entry);
    let excused = node.is_damaged(file, 0, u64::MAX);
    judge.demand(Invariant::I21, parsed.is_ok() || excused, || {
        let error = parsed.as_ref().expect_err("that is what does not hold");
        format!("{} is neither the old nor the new one: {error}", file.display())
    });
    if excused { Vec::new() } else { parsed.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        events::{DiskFault, Stop},
        testing::Run,
    };

    const FILE: &str = "/data/replication-offset-checkpoint";

    fn started_with(bytes: &[u8], damaged: bool) -> Run {
        let run = Run::new();
        run.open_new();
        run.append(0, 2);
        run.stop(Stop::PowerLost);
        run.disk.write(FILE, bytes);
        if damaged {
            run.oracle.disk_fault(0, DiskFault::Corrupted { file: FILE.into(), offset: 0, length: 4 });
        }
        run.start();
        run
    }

    #[test]
    fn whole_files() {
        started_with(b"0\n1\nt 0 2\n", false).assert_legal(&[Invariant::I21]);
        started_with(b"\0\0\0\0", true).assert_legal(&[Invariant::I21]);
    }

    #[test]
    fn torn_files() {
        for torn in [&b""[..], b"0\n1\nt 0", b"0\n2\nt 0 2\n"] {
            started_with(torn, false).assert_violated(Invariant::I21);
        }
    }
}
