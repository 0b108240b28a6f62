//! Range: each topic by itself, neighbouring partitions together, the first members get one more.

use super::{Assignment, Assignor, Members, PartitionCounts, in_order, nothing};
use crate::consumer::TopicPartition;

/// Each topic by itself: its partitions in their order to its members in their order, so many to each that the numbers
/// differ by at most one.
#[derive(Clone, Copy, Debug, Default)]
pub struct RangeAssignor;

impl Assignor for RangeAssignor {
    fn name(&self) -> &'static str {
        "range"
    }

    fn assign(&self, members: &Members, partitions: &PartitionCounts) -> Assignment {
        let mut assignment = nothing(members);
        let ordered = in_order(members);
        for (topic, count) in partitions {
            let wanting: Vec<_> =
                ordered.iter().filter(|(_, member)| member.topics.contains(topic)).collect();
            let Ok(among) = i32::try_from(wanting.len()) else { continue };
            if among == 0 {
                continue;
            }
            let (each, more) = (count / among, count % among);
            let mut next = 0;
            for (place, (id, _)) in (0..).zip(wanting) {
                let end = next + each + i32::from(place < more);
                let part = (next..end).map(|partition| TopicPartition { topic: topic.clone(), partition });
                assignment.get_mut(*id).expect("every member has an entry").extend(part);
                next = end;
            }
        }
        assignment
    }
}
