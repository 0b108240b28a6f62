//! Brokers come, go, and prepare to go.
//!
//! Each registration is processed exactly once, whatever becomes of the controller meanwhile: the write that ends the
//! processing also writes the broker epoch to `/sillon/processed/N`. Until then the registration is not in the image,
//! so that its broker neither leads nor is admitted anywhere; a controller that takes over begins the processing anew,
//! and finds that what was done in part needs no doing. That a broker is about to stop is written to the same node.

use super::{
    ControllerError, Outcome, Plan, Write, core::Controller, draft::Draft, election, layout, note::Note,
};
use crate::{
    metadata::{BrokerImage, MetadataDelta, PartitionImage},
    types::{BrokerEpoch, BrokerId, TopicPartition},
};
use sillon_protocol::ErrorCode;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Brokers = BTreeMap<BrokerId, Arc<BrokerImage>>;

/// At most so many registrations are processed in one plan.
const FRESH_AT_MOST: usize = 100;

/// What is new about the registered brokers.
#[derive(Default)]
struct Difference {
    /// Registrations in the image that ended.
    ended: BTreeMap<BrokerId, BrokerEpoch>,
    /// Registrations that are not in the image.
    fresh: Brokers,
    /// Those of the fresh ones that may have lost records, and were not processed yet.
    unclean: BTreeSet<BrokerId>,
    /// Fresh ones that are too many for one plan.
    later: Brokers,
    /// Registrations that waited to be processed and ended before: what they said of lost records is true still.
    vanished: Brokers,
}

impl Difference {
    fn is_urgent(&self, state: &PartitionImage) -> bool {
        let over = |leader: BrokerId| self.ended.contains_key(&leader) || self.fresh.contains_key(&leader);
        let counts_on_unclean = |list: &[BrokerId]| list.iter().any(|member| self.unclean.contains(member));
        state.leader.is_some_and(over)
            || counts_on_unclean(&state.isr)
            || counts_on_unclean(&state.eligible_leader_replicas)
    }
}

impl Controller {
    fn difference(&self, brokers: &Brokers) -> Difference {
        let known = &self.image().brokers;
        let same = |left: &Brokers, id: &BrokerId, broker: &Arc<BrokerImage>| {
            left.get(id).is_some_and(|other| other.broker_epoch == broker.broker_epoch)
        };
        let ended = known.iter().filter(|(id, broker)| !same(brokers, id, broker));
        let mut fresh: Brokers = brokers
            .iter()
            .filter(|(id, broker)| !same(known, id, broker))
            .map(|(id, broker)| (*id, broker.clone()))
            .collect();
        let was_processed = |id: &BrokerId, broker: &Arc<BrokerImage>| {
            self.processed.get(id).is_some_and(|(epoch, _)| *epoch == broker.broker_epoch)
        };
        let later = fresh.keys().nth(FRESH_AT_MOST).copied();
        let later = later.map_or_else(Brokers::new, |id| fresh.split_off(&id));
        let waiting = self.waiting.iter().filter(|(id, broker)| !same(brokers, id, broker));
        let vanished: Brokers = waiting.map(|(id, broker)| (*id, broker.clone())).collect();
        let unclean = fresh.iter().chain(&vanished);
        let unclean = unclean.filter(|(id, broker)| broker.unclean && !was_processed(id, broker));
        Difference {
            ended: ended.map(|(id, broker)| (*id, broker.broker_epoch)).collect(),
            unclean: unclean.map(|(id, _)| *id).collect(),
            fresh,
            later,
            vanished,
        }
    }

    /// The brokers are these from now on.
    pub(super) fn brokers_changed(&self, brokers: &Brokers) -> Plan {
        // What is not in the image cannot be looked at: topics are made whole before somebody is found to be unclean.
        let has_states = |name: &&Arc<str>| self.record(name).is_some_and(|record| !record.states.is_empty());
        if let Some(name) = self.unfinished().iter().find(has_states) {
            let plan = self.finish_one_topic(name);
            return Plan { unfinished: true, ..plan };
        }
        let difference = self.difference(brokers);
        self.change_whole(&difference).unwrap_or_else(|| self.change_in_part(&difference))
    }

    /// All that must happen before the fresh brokers count, and that they count; none where it does not fit one plan.
    fn change_whole(&self, difference: &Difference) -> Option<Plan> {
        let mut draft = self.begin(difference);
        for (id, broker) in &difference.fresh {
            draft.standing.brokers.insert(*id, broker.clone());
            draft.deltas.push(MetadataDelta::Broker { id: *id, broker: broker.clone() });
            self.mark_processed(&mut draft, *id, broker.broker_epoch, false);
        }
        if !self.settle_where(&mut draft, |state| difference.is_urgent(state)) {
            return None;
        }
        let whole = self.settle_where(&mut draft, |state| !difference.is_urgent(state));
        self.end(&mut draft, difference, difference.later.clone());
        Some(draft.finish(Outcome::Done, !whole || !difference.later.is_empty()))
    }

    /// A part of what must happen before the fresh brokers count.
    fn change_in_part(&self, difference: &Difference) -> Plan {
        let mut draft = self.begin(difference);
        self.settle_where(&mut draft, |state| difference.is_urgent(state));
        let mut waiting = difference.fresh.clone();
        waiting.extend(difference.later.clone());
        // Who has vanished is looked at to the end before it is forgotten.
        waiting.extend(difference.vanished.clone());
        self.end(&mut draft, difference, waiting);
        draft.finish(Outcome::Done, true)
    }

    fn begin(&self, difference: &Difference) -> Draft<'_> {
        let mut draft = Draft::new(self);
        for (id, broker_epoch) in &difference.ended {
            draft.standing.brokers.remove(id);
            draft.deltas.push(MetadataDelta::BrokerGone { id: *id, broker_epoch: *broker_epoch });
        }
        draft.standing.ended = difference.ended.keys().chain(difference.fresh.keys()).copied().collect();
        draft.standing.unclean = difference.unclean.clone();
        draft
    }

    fn end(&self, draft: &mut Draft<'_>, difference: &Difference, waiting: Brokers) {
        if draft.is_empty() {
            // Nothing is written for it, but the image changes: a write gives the change its place in the order.
            let ended = difference.ended.iter().next().map(|(id, epoch)| (*id, *epoch));
            let vanished = difference.vanished.iter().next().map(|(id, broker)| (*id, broker.broker_epoch));
            if let Some((id, epoch)) = ended.or(vanished) {
                self.mark_processed(draft, id, epoch, false);
            }
        }
        if waiting != self.waiting {
            draft.notes.push(Note::Waiting(waiting));
        }
    }

    fn mark_processed(&self, draft: &mut Draft<'_>, id: BrokerId, epoch: BrokerEpoch, shutting_down: bool) {
        let (path, data) = (layout::processed_path(id), layout::encode_processed(epoch, shutting_down));
        let version = match self.processed.get(&id) {
            Some((_, version)) => {
                draft.writes.push(Write::Set { path, data, version: *version });
                version + 1
            }
            None => {
                draft.writes.push(Write::Create { path, data });
                0
            }
        };
        draft.notes.push(Note::Processed(id, epoch, version));
    }

    /// Settles the partitions that are meant, as far as there is room. Gives whether there was.
    fn settle_where(&self, draft: &mut Draft<'_>, is_meant: impl Fn(&PartitionImage) -> bool) -> bool {
        for (name, topic) in &self.image().topics {
            let rules = self.settings.rules(self.image(), &topic.configs);
            for (index, state) in (0..).zip(&topic.partitions) {
                if !is_meant(state) || election::is_in_order(state, &draft.standing) {
                    continue;
                }
                if !draft.has_room() {
                    return false;
                }
                draft.settle(name, topic, index, rules);
            }
        }
        true
    }

    pub(super) fn process_gone(&self, broker: BrokerId, broker_epoch: BrokerEpoch) -> Plan {
        let known = self.image().brokers.get(&broker).or_else(|| self.waiting.get(&broker));
        let Some(known) = known.filter(|known| known.broker_epoch == broker_epoch) else {
            return Draft::new(self).finish(Outcome::Done, false);
        };
        let is_counted = self.image().brokers.contains_key(&broker);
        let difference = Difference {
            ended: is_counted.then_some((broker, broker_epoch)).into_iter().collect(),
            ..Difference::default()
        };
        let mut draft = self.begin(&difference);
        draft.writes.push(Write::Check {
            path: layout::registration_path(broker),
            version: Some(known.registration),
        });
        draft.writes.push(Write::Delete { path: layout::broker_path(broker), version: None });
        // What does not fit is due afterwards.
        let whole = self.settle_where(&mut draft, |state| difference.is_urgent(state));
        if whole {
            self.settle_where(&mut draft, |state| !difference.is_urgent(state));
        }
        draft.finish(Outcome::Done, false)
    }

    pub(super) fn controlled_shutdown(
        &self,
        broker: BrokerId,
        broker_epoch: BrokerEpoch,
    ) -> Result<Plan, ControllerError> {
        let known = self.check_broker_epoch(broker, broker_epoch)?;
        let mut draft = Draft::new(self);
        if !known.shutting_down {
            let stopping = Arc::new(BrokerImage { shutting_down: true, ..known.as_ref().clone() });
            draft.standing.brokers.insert(broker, stopping.clone());
            draft.deltas.push(MetadataDelta::Broker { id: broker, broker: stopping });
            // Written with what it gives up: the next controller must not let it in again.
            self.mark_processed(&mut draft, broker, broker_epoch, true);
        }
        let whole = self.settle_where(&mut draft, |state| state.isr.contains(&broker));
        let mut led = Vec::new();
        for (name, topic) in &self.image().topics {
            for index in 0..self.present(name) {
                if draft.state(name, topic, index).is_some_and(|state| state.leader == Some(broker)) {
                    led.push(TopicPartition { topic: name.clone(), partition: index });
                }
            }
        }
        Ok(draft.finish(Outcome::StillLed(led), !whole))
    }

    /// The registration of that epoch.
    pub(super) fn check_broker_epoch(
        &self,
        broker: BrokerId,
        broker_epoch: BrokerEpoch,
    ) -> Result<&Arc<BrokerImage>, ControllerError> {
        let known = self.image().brokers.get(&broker).filter(|known| known.broker_epoch == broker_epoch);
        known.ok_or_else(|| {
            let text = format!("Broker {broker} is not registered with broker epoch {broker_epoch}.");
            ControllerError::new(ErrorCode::STALE_BROKER_EPOCH, text)
        })
    }
}
