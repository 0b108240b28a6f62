//! Round robin: all partitions of all topics in order, to the members in turn.

use super::{Assignment, Assignor, Members, PartitionCounts, in_order, nothing};
use crate::consumer::TopicPartition;

/// All partitions in the order of topics and numbers to the members in turn; who does not want the topic is passed over.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobinAssignor;

impl Assignor for RoundRobinAssignor {
    fn name(&self) -> &'static str {
        "roundrobin"
    }

    fn assign(&self, members: &Members, partitions: &PartitionCounts) -> Assignment {
        let mut assignment = nothing(members);
        let ordered = in_order(members);
        let mut turn = 0;
        for (topic, count) in partitions {
            if !ordered.iter().any(|(_, member)| member.topics.contains(topic)) {
                continue;
            }
            for partition in 0..*count {
                while !ordered[turn % ordered.len()].1.topics.contains(topic) {
                    turn += 1;
                }
                let (id, _) = ordered[turn % ordered.len()];
                turn += 1;
                let partition = TopicPartition { topic: topic.clone(), partition };
                assignment.get_mut(id).expect("every member has an entry").insert(partition);
            }
        }
        assignment
    }
}
