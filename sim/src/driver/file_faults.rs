//! What disks really did wrong, told to the oracle in its words. Owns the translation.

use super::judges::Judges;
use crate::{
    oracle::DiskFault,
    world::{FaultKind, FileFault, PAGE_BYTES, World},
};
use std::path::PathBuf;

/// Tells the oracle what has struck since the last call. To be called before anything that such a fault explains is
/// told: each fact of a server, each end and start of a process.
pub(super) fn tell(world: &World, judges: &Judges) {
    for fault in world.take_file_faults() {
        let is_damage = matches!(fault.kind, FaultKind::BitRot | FaultKind::MisdirectedWrite);
        judges.disk_struck(fault.node.0, is_damage);
        let inode = fault.field("inode").unwrap_or(0);
        let Some(file) = world.disk(fault.node).path_of(inode).map(PathBuf::from) else {
            // A directory, or a file that has no name any more: it explains nothing about a log.
            continue;
        };
        for told in translate(&fault, &file) {
            judges.disk_fault(fault.node.0, told);
        }
    }
}

fn translate(fault: &FileFault, file: &std::path::Path) -> Vec<DiskFault> {
    let file = file.to_path_buf();
    let field = |name| fault.field(name).unwrap_or(0);
    match fault.kind {
        FaultKind::BitRot => vec![DiskFault::Corrupted { file, offset: field("position"), length: 1 }],
        FaultKind::MisdirectedWrite => ["intended_page", "hit_page"]
            .map(|page| {
                let (offset, length) = (field(page) * PAGE_BYTES as u64, PAGE_BYTES as u64);
                DiskFault::Corrupted { file: file.clone(), offset, length }
            })
            .to_vec(),
        FaultKind::SyncError => vec![DiskFault::SyncFailed { file }],
        FaultKind::WriteError => vec![DiskFault::WriteFailed { file }],
        // With some room left the write only falls short, and the process goes on with the rest.
        FaultKind::DiskFull if field("free") == 0 => vec![DiskFault::WriteFailed { file }],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::NodeId;

    fn told(kind: FaultKind, fields: &[(&'static str, u64)]) -> Vec<DiskFault> {
        translate(&FileFault { node: NodeId(0), kind, fields: fields.to_vec() }, "/data/a.log".as_ref())
    }

    #[test]
    fn a_misdirected_write_damages_two_places() {
        let file = PathBuf::from("/data/a.log");
        let damage = |offset| DiskFault::Corrupted { file: file.clone(), offset, length: 4096 };
        assert_eq!(
            told(FaultKind::MisdirectedWrite, &[("intended_page", 2), ("hit_page", 5)]),
            [damage(8192), damage(20480)]
        );
    }

    #[test]
    fn a_write_that_falls_short_has_not_failed() {
        assert_eq!(told(FaultKind::ShortWrite, &[]), []);
        assert_eq!(told(FaultKind::DiskFull, &[("free", 10)]), []);
        assert_eq!(
            told(FaultKind::DiskFull, &[("free", 0)]),
            [DiskFault::WriteFailed { file: "/data/a.log".into() }]
        );
    }
}
