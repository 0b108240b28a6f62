//! Snapshots of the whole state machine, taken piece by piece while commands are applied.
//!
//! Owns the order of the parts: a header that says what must come out, the slots of the tree, the sessions, the end.

use super::{
    StateMachine,
    capture::{Output, kind},
    restore::{Header, Restorer},
};
use crate::{observe::Digest, types::Zxid};

/// What a snapshot is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotStart {
    /// The last transaction that it holds.
    pub zxid: Zxid,
    /// The digest of what it holds.
    pub digest: Digest,
}

/// How far a snapshot has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Tree,
    Sessions,
    End,
}

impl StateMachine {
    /// Begins a snapshot of the state as it is now; one that is under way is abandoned. Takes the same short time however
    /// large the tree is, but for a bit per node.
    pub fn begin_snapshot(&mut self) -> SnapshotStart {
        let digest = self.digest();
        let header = Header {
            zxid: self.applied,
            ensemble: self.ensemble,
            slots: self.tree.arena.length(),
            free: self.tree.arena.free(),
            nodes: self.tree.counts.nodes,
            sessions: u32::try_from(self.sessions.len()).expect("fewer than 2^32 sessions"),
            digest,
        };
        let mut output = Output::default();
        output.record(kind::HEADER, |out| header.write(out));
        self.tree.begin_capture(output);
        self.sessions.begin_capture();
        self.snapshot = Some(Stage::Tree);
        SnapshotStart { zxid: self.applied, digest }
    }

    /// The next bytes of the snapshot, at most so many; `None` once it is complete, or where none was begun.
    pub fn snapshot_chunk(&mut self, budget_bytes: usize) -> Option<Vec<u8>> {
        let budget = budget_bytes.max(16);
        loop {
            match self.snapshot? {
                Stage::Tree => {
                    let done = self.tree.scan(budget);
                    let output = self.tree.capture.as_mut().map(|capture| &mut capture.output);
                    let chunk = output.expect("the tree is being captured").take(budget);
                    if !chunk.is_empty() {
                        return Some(chunk);
                    }
                    assert!(done, "a scan that is not through has something to take");
                    self.tree.capture = None;
                    self.snapshot = Some(Stage::Sessions);
                }
                Stage::Sessions => {
                    let chunk = self.sessions.take(budget);
                    if !chunk.is_empty() {
                        return Some(chunk);
                    }
                    self.sessions.end_capture();
                    self.snapshot = Some(Stage::End);
                }
                Stage::End => {
                    self.snapshot = None;
                    let mut output = Output::default();
                    output.record(kind::END, |_| {});
                    return Some(output.take(budget));
                }
            }
        }
    }

    /// Gives up a snapshot, if one is under way.
    pub fn abandon_snapshot(&mut self) {
        self.tree.capture = None;
        self.sessions.end_capture();
        self.snapshot = None;
    }

    /// Begins to take in a snapshot.
    pub fn restore() -> Restorer {
        Restorer::new()
    }
}
