//! Puts a plan together: the changes of states, nodes and brokers, in as few writes as there can be.
//!
//! Owns that each state is written once, on the version that is known, that a state which must not be is never written,
//! and that nobody becomes leader or joins those in sync whose registration has ended, seen by the controller or not.

use super::{
    Outcome, Plan, Write,
    core::Controller,
    election::{self, Leads, Standing},
    layout::{self, TopicNode},
    note::Note,
    plan::WRITES_AT_MOST,
    settings::Rules,
};
use crate::{
    metadata::{MetadataDelta, PartitionImage, TopicImage},
    types::{BrokerId, PartitionEpoch, TopicPartition},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A plan in the making.
pub(super) struct Draft<'a> {
    controller: &'a Controller,
    /// Who is registered once the plan is written.
    pub standing: Standing,
    leads: Leads,
    states: BTreeMap<Arc<str>, BTreeMap<i32, PartitionImage>>,
    state_count: usize,
    nodes: BTreeMap<Arc<str>, TopicNode>,
    counted_on: BTreeSet<BrokerId>,
    /// Writes beside those of states and topics in the image; they go first.
    pub writes: Vec<Write>,
    /// Deltas beside those of partitions; they go first.
    pub deltas: Vec<MetadataDelta>,
    /// What to remember.
    pub notes: Vec<Note>,
}

impl<'a> Draft<'a> {
    /// A plan that changes nothing yet.
    pub fn new(controller: &'a Controller) -> Draft<'a> {
        let brokers = controller.image().brokers.clone();
        Draft {
            controller,
            standing: Standing { brokers, ..Standing::default() },
            leads: controller.leads().clone(),
            states: BTreeMap::new(),
            state_count: 0,
            nodes: BTreeMap::new(),
            counted_on: BTreeSet::new(),
            writes: Vec::new(),
            deltas: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The plan counts on a broker that it did not count on before: it is written only while the broker's registration is
    /// the one that the controller knows. Word that it has ended may still be on its way.
    pub fn count_on(&mut self, broker: BrokerId) {
        self.counted_on.insert(broker);
    }

    fn count_on_newcomers(&mut self, before: &PartitionImage, after: &PartitionImage) {
        let joins = after.isr.iter().filter(|member| !before.isr.contains(member));
        let leads = after.leader.iter().filter(|_| after.leader_epoch != before.leader_epoch);
        self.counted_on.extend(joins.chain(leads));
    }

    fn registrations_counted_on(&self) -> Vec<Write> {
        let known = self.counted_on.iter().filter_map(|id| Some((*id, self.standing.brokers.get(id)?)));
        let checks = known.flat_map(|(id, broker)| {
            let node = Write::Check { path: layout::broker_path(id), version: None };
            let version = Some(broker.registration);
            [node, Write::Check { path: layout::registration_path(id), version }]
        });
        checks.collect()
    }

    /// How many more writes fit.
    pub fn room(&self) -> usize {
        WRITES_AT_MOST.saturating_sub(self.writes.len() + self.state_count + self.nodes.len())
    }

    /// Whether another state fits, and its topic's node with it.
    pub fn has_room(&self) -> bool {
        self.room() >= 2
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.state_count == 0 && self.nodes.is_empty()
    }

    /// How many partitions each broker leads once the plan is written.
    pub fn leads(&self) -> &Leads {
        &self.leads
    }

    /// A partition's state once the plan is written.
    pub fn state<'b>(&'b self, name: &str, topic: &'b TopicImage, index: i32) -> Option<&'b PartitionImage> {
        let changed = self.states.get(name).and_then(|states| states.get(&index));
        changed.or_else(|| topic.partition(index))
    }

    /// Changes a partition's state. Its partition epoch is counted here.
    pub fn set_state(&mut self, name: &Arc<str>, index: i32, mut after: PartitionImage) {
        let topic = self.controller.image().topic(name).expect("states of topics in the image are changed");
        let known = topic.partition(index).expect("states of partitions in the image are changed");
        let before = self.state(name, topic, index).expect("it is in the image");
        let epoch = known.partition_epoch.0.checked_add(1).expect("a state never changes 2^31 times");
        after.partition_epoch = PartitionEpoch(epoch);
        assert_sound(name, index, Some(before), &after);
        let (leader_before, replicas_changed) = (
            before.leader,
            before.replicas != after.replicas
                || before.adding != after.adding
                || before.removing != after.removing,
        );
        if replicas_changed {
            self.set_replicas(name, index, &after);
        }
        self.leads.change(leader_before, after.leader);
        if self.states.entry(name.clone()).or_default().insert(index, after).is_none() {
            self.state_count += 1;
        }
    }

    fn set_replicas(&mut self, name: &Arc<str>, index: i32, after: &PartitionImage) {
        let node = self.nodes.entry(name.clone()).or_insert_with(|| {
            let record = self.controller.record(name).expect("a topic in the image has its record");
            record.node.0.clone()
        });
        node.replicas.insert(index, after.replicas.clone());
        for (map, replicas) in [(&mut node.adding, &after.adding), (&mut node.removing, &after.removing)] {
            match replicas.is_empty() {
                true => map.remove(&index),
                false => map.insert(index, replicas.clone()),
            };
        }
    }

    /// Settles a partition by the rules. Gives whether that changes it.
    pub fn settle(&mut self, name: &Arc<str>, topic: &TopicImage, index: i32, rules: Rules) -> bool {
        let before = self.state(name, topic, index).expect("the caller names a partition of the topic");
        let after = election::settle(before, &self.standing, rules, &self.leads);
        let changes = after != *before;
        if changes {
            self.set_state(name, index, after);
        }
        changes
    }

    /// The plan.
    pub fn finish(mut self, outcome: Outcome, unfinished: bool) -> Plan {
        for (name, states) in std::mem::take(&mut self.states) {
            let topic = self.controller.image().topic(&name).expect("checked when the state was set");
            for (index, state) in &states {
                let before = topic.partition(*index).expect("checked when the state was set");
                self.count_on_newcomers(before, state);
                let path = layout::state_path(&TopicPartition { topic: name.clone(), partition: *index });
                let data = layout::encode_state(state, self.controller.controller_epoch());
                self.writes.push(Write::Set { path, data, version: state.partition_epoch.0 - 1 });
            }
            let partitions = states.into_iter().collect();
            self.deltas.push(MetadataDelta::Partitions { id: topic.id, partitions });
        }
        for (name, node) in std::mem::take(&mut self.nodes) {
            let mut record =
                self.controller.record(&name).expect("checked when it was changed").as_ref().clone();
            self.writes.push(Write::Set {
                path: layout::topic_path(&name),
                data: node.encode(),
                version: record.node.1,
            });
            record.node = (node, record.node.1 + 1);
            self.notes.push(Note::Record(name, Some(Arc::new(record))));
        }
        assert!(self.writes.len() <= WRITES_AT_MOST + 1, "a plan fits one multi");
        assert!(!self.writes.is_empty() || self.deltas.is_empty(), "what brokers are told was written");
        // They go first: where one fails, nothing else is looked at.
        self.writes.splice(0..0, self.registrations_counted_on());
        Plan { writes: self.writes, deltas: self.deltas, outcome, unfinished, notes: self.notes }
    }
}

/// What must hold for every state that is written.
pub(super) fn assert_sound(name: &str, index: i32, before: Option<&PartitionImage>, after: &PartitionImage) {
    let distinct = |list: &[BrokerId]| list.iter().enumerate().all(|(at, id)| !list[..at].contains(id));
    let within = |list: &[BrokerId]| distinct(list) && list.iter().all(|id| after.replicas.contains(id));
    let eligible = &after.eligible_leader_replicas;
    assert!(
        !after.replicas.is_empty() && distinct(&after.replicas),
        "{name}-{index} lies on distinct brokers: {after:?}"
    );
    assert!(within(&after.isr) && within(eligible), "{name}-{index} counts on its replicas only: {after:?}");
    assert!(
        !after.isr.iter().any(|member| eligible.contains(member)),
        "{name}-{index} has nobody in sync and eligible at once: {after:?}"
    );
    let counted = |member: &BrokerId| after.isr.contains(member) || eligible.contains(member);
    assert!(
        within(&after.unproven) && !after.unproven.iter().any(counted),
        "{name}-{index} has nobody unproven who is counted on, or is no replica: {after:?}"
    );
    assert!(
        after.leader.is_none_or(|leader| after.isr.contains(&leader)),
        "{name}-{index} is led by one who is in sync: {after:?}"
    );
    if let Some(before) = before {
        let counted = after.leader_epoch > before.leader_epoch;
        assert!(
            counted || (after.leader_epoch == before.leader_epoch && after.leader == before.leader),
            "{name}-{index} counts its leaders: {before:?} became {after:?}"
        );
    }
}
