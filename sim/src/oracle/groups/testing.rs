//! Short words for stories about groups.

use super::{GroupContract, Groups, events::GroupEvent};
use crate::oracle::{invariant::Invariant, judge::Judge};
use bytes::Bytes;
use sillon_broker::{
    group::facts::{GenerationFact, GroupFact, MemberFact, OffsetGone},
    types::{Offset, TopicPartition},
};
use sillon_protocol::{
    messages::{
        ConsumerProtocolAssignment, ConsumerProtocolSubscription, ConsumerProtocolTopicPartitions,
        encode_versioned,
    },
    wire::Message,
};

const TOPIC: &str = "t";

/// An oracle of groups, and what it is told.
pub(super) struct Told {
    groups: Groups,
    judge: Judge,
    home: TopicPartition,
    now_ns: u64,
}

/// A member with what it says that it has, and what it is given, in the generation that forms; it says that it got the former
/// in the generation before.
pub(super) struct TestMember {
    id: String,
    owned: Vec<i32>,
    assigned: Vec<i32>,
}

pub(super) fn member(id: &str, owned: &[i32], assigned: &[i32]) -> TestMember {
    TestMember { id: id.to_owned(), owned: owned.to_vec(), assigned: assigned.to_vec() }
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, number)
}

fn bytes(message: &impl Message) -> Bytes {
    encode_versioned(message, 3).expect("it fits")
}

fn topics(partitions: &[i32]) -> Vec<ConsumerProtocolTopicPartitions> {
    vec![ConsumerProtocolTopicPartitions { topic: TOPIC.to_owned(), partitions: partitions.to_vec() }]
}

impl TestMember {
    fn fact(&self, generation: i32) -> MemberFact {
        let subscription = ConsumerProtocolSubscription {
            topics: vec![TOPIC.to_owned()],
            owned_partitions: topics(&self.owned),
            generation_id: if self.owned.is_empty() { -1 } else { generation - 1 },
            ..ConsumerProtocolSubscription::default()
        };
        let assignment =
            ConsumerProtocolAssignment { assigned_partitions: topics(&self.assigned), user_data: None };
        MemberFact {
            member: self.id.as_str().into(),
            instance: None,
            metadata: bytes(&subscription),
            assignment: bytes(&assignment),
        }
    }
}

fn generation(number: i32, protocol: &str, members: &[TestMember]) -> GenerationFact {
    GenerationFact {
        generation: number,
        protocol_type: "consumer".to_owned(),
        protocol: protocol.to_owned(),
        leader: members[0].id.as_str().into(),
        members: members.iter().map(|member| member.fact(number)).collect(),
    }
}

impl Told {
    pub fn new() -> Told {
        Told::with(GroupContract::default())
    }

    pub fn with(contract: GroupContract) -> Told {
        let home = TopicPartition::new("__consumer_offsets", 7);
        Told { groups: Groups::new(contract), judge: Judge::new(), home, now_ns: 1_000_000_000 }
    }

    fn fact(&mut self, fact: &GroupFact) {
        self.now_ns += 1_000_000;
        self.judge.at(self.now_ns, None, None);
        self.groups.on_fact(&mut self.judge, &self.home.clone(), true, fact);
    }

    fn event(&mut self, event: GroupEvent) {
        self.now_ns += 1_000_000;
        self.judge.at(self.now_ns, None, None);
        self.groups.on_event(&mut self.judge, event);
    }

    pub fn later_ms(&mut self, ms: u64) {
        self.now_ns += ms * 1_000_000;
    }

    pub fn formed(&mut self, group: &str, number: i32, protocol: &str, members: &[TestMember]) {
        let generation = generation(number, protocol, members);
        self.fact(&GroupFact::GenerationFormed { group: group.into(), generation });
    }

    pub fn rebalancing(&mut self, group: &str, generation: i32) {
        self.fact(&GroupFact::Rebalancing { group: group.into(), generation });
    }

    pub fn found(&mut self, group: &str, number: i32, members: &[TestMember]) {
        let generation = generation(number, "range", members);
        self.fact(&GroupFact::Found { group: group.into(), generation });
    }

    pub fn emptied(&mut self, group: &str, generation: i32) {
        self.fact(&GroupFact::Emptied { group: group.into(), generation, since_ms: 0 });
    }

    pub fn committed(&mut self, group: &str, member: &str, generation: i32, number: i32, offset: i64) {
        self.fact(&GroupFact::OffsetCommitted {
            group: group.into(),
            partition: partition(number),
            offset,
            member: member.to_owned(),
            generation,
            commit_timestamp_ms: 0,
            log_offset: Offset(0),
        });
    }

    pub fn expired(&mut self, group: &str, number: i32) {
        let reason = OffsetGone::Expired;
        self.fact(&GroupFact::OffsetRemoved { group: group.into(), partition: partition(number), reason });
    }

    pub fn offset_found(&mut self, group: &str, number: i32, offset: i64) {
        self.fact(&GroupFact::OffsetFound { group: group.into(), partition: partition(number), offset });
    }

    pub fn loaded(&mut self) {
        self.fact(&GroupFact::Loaded { groups: 1, offsets: 1, up_to: Offset(0) });
    }

    pub fn committing(&mut self, group: &str, number: i32, offset: i64) {
        self.event(GroupEvent::Committing {
            group: group.into(),
            offsets: vec![(partition(number), offset)],
        });
    }

    pub fn confirmed(&mut self, group: &str, number: i32, offset: i64) {
        self.event(GroupEvent::Confirmed { group: group.into(), offsets: vec![(partition(number), offset)] });
    }

    pub fn lost(&mut self, group: &str, member: &str, generation: i32) {
        let identity = (member.to_owned(), generation);
        self.event(GroupEvent::Lost { group: group.into(), identity, was_slow: false });
    }

    pub fn fetched(&mut self, group: &str, number: i32, offset: Option<i64>) {
        let asked_ns = self.now_ns;
        let (group, partition) = (group.into(), partition(number));
        self.event(GroupEvent::Fetched { group, partition, offset, asked_ns });
    }

    pub fn assert_legal(&self, evaluated: &[Invariant]) {
        assert_eq!(self.judge.violations(), &[]);
        let evaluations = self.judge.evaluations();
        for invariant in evaluated {
            assert!(evaluations[invariant] > 0, "{invariant} was not looked at");
        }
    }

    pub fn assert_violated(&self, invariant: Invariant) {
        let violations = self.judge.violations();
        assert!(violations.iter().any(|one| one.invariant == invariant), "{violations:?}");
    }
}
