//! How the leader of a group shares partitions among its members. Owns the rule of each assignor and its user data,
//! byte for byte as Kafka's Java client has them; never talks to anybody.
//!
//! Keeps I54 (each partition to at most one member) and I55 (each partition of a topic that somebody subscribes to, to one
//! who does).

mod range;
mod round_robin;
mod sticky;
#[cfg(test)]
mod tests;
mod user_data;

pub use range::RangeAssignor;
pub use round_robin::RoundRobinAssignor;
pub use sticky::{CooperativeStickyAssignor, StickyAssignor};

use super::TopicPartition;
use bytes::Bytes;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A member, as the leader knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberSubscription {
    /// The topics that it wants.
    pub topics: BTreeSet<Arc<str>>,
    /// What the assignor put in.
    pub user_data: Option<Bytes>,
    /// The partitions that it says it has.
    pub owned: BTreeSet<TopicPartition>,
    /// The generation in which it got them, `None` where it does not say.
    pub generation: Option<i32>,
    /// The name that outlives a restart.
    pub group_instance_id: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
}

/// All members by their ids.
pub type Members = BTreeMap<String, MemberSubscription>;

/// How many partitions each topic has that exists.
pub type PartitionCounts = BTreeMap<Arc<str>, i32>;

/// What each member gets.
pub type Assignment = BTreeMap<String, BTreeSet<TopicPartition>>;

/// A rule for sharing partitions among members.
pub trait Assignor: Send + Sync {
    /// Its name, by which the members of a group agree on it.
    fn name(&self) -> &'static str;

    /// Whether members keep what stays theirs while the group rebalances (KIP-429).
    fn is_cooperative(&self) -> bool {
        false
    }

    /// What the leader has to know besides the subscription: of a member that got these partitions in this generation.
    fn user_data(&self, owned: &BTreeSet<TopicPartition>, generation: Option<i32>) -> Option<Bytes> {
        let _ = (owned, generation);
        None
    }

    /// Shares the partitions.
    fn assign(&self, members: &Members, partitions: &PartitionCounts) -> Assignment;
}

/// Members in the order in which Kafka's assignors go through them: static ones by their instance ids before dynamic ones
/// by their member ids (KIP-345).
fn in_order(members: &Members) -> Vec<(&String, &MemberSubscription)> {
    let mut ordered: Vec<_> = members.iter().collect();
    ordered.sort_by_key(|(id, member)| {
        let instance = member.group_instance_id.as_ref();
        (instance.is_none(), instance.unwrap_or(id).clone(), (*id).clone())
    });
    ordered
}

fn nothing(members: &Members) -> Assignment {
    members.keys().map(|member| (member.clone(), BTreeSet::new())).collect()
}
