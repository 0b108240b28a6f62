//! Which machines of a run are what, and which of them a fault may hit. Owns the numbering.

use crate::world::NodeId;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The servers of a run. Brokers are the first machines, the members of the ensemble follow; clients come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machines {
    /// How many brokers.
    pub brokers: u32,
    /// How many members.
    pub members: u32,
}

/// Which machines a random fault may hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// Each server.
    #[default]
    All,
    /// Each broker.
    Brokers,
    /// Each member of the ensemble.
    Members,
}

impl Machines {
    /// How many servers.
    pub fn count(self) -> u32 {
        self.brokers + self.members
    }

    /// Whether a machine is a member of the ensemble.
    pub fn is_member(self, node: u32) -> bool {
        (self.brokers..self.count()).contains(&node)
    }

    /// A member's `myid`.
    pub fn member_id(self, node: u32) -> u32 {
        assert!(self.is_member(node), "n{node} is a member");
        node - self.brokers + 1
    }

    /// The machines of a target.
    pub fn of(self, target: Target) -> Range<u32> {
        match target {
            Target::All => 0..self.count(),
            Target::Brokers => 0..self.brokers,
            Target::Members => self.brokers..self.count(),
        }
    }

    /// A server's host name: `n0` for the first broker, `c1` for the first member.
    pub fn name(self, node: u32) -> String {
        if self.is_member(node) { format!("c{}", self.member_id(node)) } else { format!("n{node}") }
    }

    /// How a line of the trace names a machine: `n` and its number where it is no member.
    pub fn label(self, node: NodeId) -> String {
        if self.is_member(node.0) { self.name(node.0) } else { node.to_string() }
    }

    /// The server of a name, or of a number.
    pub fn named(self, name: &str) -> Option<u32> {
        (0..self.count()).find(|node| self.name(*node) == name || node.to_string() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_come_first_and_members_are_counted_from_1() {
        let machines = Machines { brokers: 2, members: 3 };
        let names: Vec<String> = (0..machines.count()).map(|node| machines.name(node)).collect();
        assert_eq!(names, ["n0", "n1", "c1", "c2", "c3"]);
        assert_eq!(machines.named("c2"), Some(3));
        assert_eq!(machines.of(Target::Members), 2..5);
        assert_eq!(machines.named("c4"), None);
    }
}
