//! Nodes that nobody deletes but the ensemble itself: containers without children, nodes whose time is over.
//!
//! Owns which they are. The leader proposes what [`StateMachine::sweepable`](super::StateMachine::sweepable) names; it
//! is checked again when it is applied.

use super::{StateMachine, TreeEvent, arena::NodeId, owners::Owner, tree::Tree};
use sillon_protocol::zookeeper::ErrorCode;

/// A node to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The node.
    pub path: String,
    /// What was seen of it: its pzxid for a container, its mzxid for one with a time to live.
    pub seen_zxid: i64,
}

impl StateMachine {
    /// Containers that had a child and have none, and nodes without children whose time to live is over at `now_ms`,
    /// milliseconds since 1970. Takes time in proportion to how many containers and such nodes there are.
    pub fn sweepable(&self, now_ms: i64) -> Vec<Sweep> {
        let tree = &self.tree;
        let candidates =
            tree.owned_nodes(tree.owners.containers).chain(tree.owned_nodes(tree.owners.times_to_live));
        let due = candidates.filter_map(|id| tree.due(id, now_ms).map(|seen_zxid| (id, seen_zxid)));
        due.map(|(id, seen_zxid)| Sweep { path: tree.path(id), seen_zxid }).collect()
    }
}

impl Tree {
    /// Whether a node is to be swept, and if so the transaction that this follows from.
    fn due(&self, id: NodeId, now_ms: i64) -> Option<i64> {
        let node = self.arena.node(id);
        if node.child_count > 0 {
            return None;
        }
        match self.owners.owner(node.owned)? {
            Owner::Session(_) => None,
            // One that never had a child is still to be used.
            Owner::Container => (node.creates > 0).then_some(node.pzxid),
            Owner::TimeToLive(ttl_ms) => {
                (now_ms.saturating_sub(node.mtime_ms) > ttl_ms).then_some(node.mzxid)
            }
        }
    }

    /// Deletes a node that is to be swept.
    ///
    /// # Errors
    /// NoNode where it has gone, BadVersion where it is no longer, or not yet, to be swept.
    pub(super) fn sweep(
        &mut self,
        sweep: &Sweep,
        zxid: i64,
        now_ms: i64,
        events: &mut Vec<TreeEvent>,
    ) -> Result<(), ErrorCode> {
        let id = self.find(&sweep.path).ok_or(ErrorCode::NoNode)?;
        if self.due(id, now_ms) != Some(sweep.seen_zxid) {
            return Err(ErrorCode::BadVersion);
        }
        self.delete_now(id, sweep.path.clone(), zxid, events);
        Ok(())
    }
}
