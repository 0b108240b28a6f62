//! Where nobody is in sync or eligible any more, the most complete log leads (KIP-966): whom to ask, and who it is.
//!
//! Asked are all replicas that were in sync or eligible until they were found to be unclean, once all of them are there.
//! While no more of them lost records than the durability contract allows, one of them holds all that was committed; and
//! a log whose last record is of a later epoch, or that is longer at the same epoch, holds all that the other one does.
//! Asks nobody itself: that is `cluster`.

use super::{Outcome, Plan, core::Controller, draft::Draft, election};
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId};
use std::collections::BTreeMap;

/// At most so many logs are asked for at a time.
const LOGS_AT_MOST: usize = 10_000;

/// A partition in one state: what is said of it holds for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// The topic.
    pub topic_id: TopicId,
    /// The partition.
    pub partition: i32,
    /// The state.
    pub partition_epoch: PartitionEpoch,
}

/// How far a log goes. The more complete one is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogEnd {
    /// The epoch of its last record, −1 where it has none.
    pub epoch: LeaderEpoch,
    /// Its end.
    pub end: Offset,
}

/// What one broker is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogQuestion {
    /// The broker.
    pub broker: BrokerId,
    /// The registration whose process is meant.
    pub broker_epoch: BrokerEpoch,
    /// The partitions.
    pub places: Vec<LogPlace>,
}

/// What one broker said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogAnswer {
    /// The broker.
    pub broker: BrokerId,
    /// The registration whose process was asked, and is the one that said it.
    pub broker_epoch: BrokerEpoch,
    /// Its logs. Partitions of which it could not say anything are missing.
    pub logs: Vec<(LogPlace, LogEnd)>,
}

impl Controller {
    /// Which brokers are to be asked for their logs now. Empty where no leader depends on it. The answers come back, all
    /// together, as [`super::Command::LogsCompared`]; what is asked again then was not answered whole.
    pub fn questions(&self) -> Vec<LogQuestion> {
        let mut asked: BTreeMap<BrokerId, Vec<LogPlace>> = BTreeMap::new();
        let mut count = 0;
        for partition in &self.undecided {
            let topic = self.image().topic(&partition.topic).expect("what is undecided is in the image");
            let state = topic.partition(partition.partition).expect("what is undecided is in the image");
            count += state.unproven.len();
            if count > LOGS_AT_MOST {
                break;
            }
            let (partition, partition_epoch) = (partition.partition, state.partition_epoch);
            for member in &state.unproven {
                let place = LogPlace { topic_id: topic.id, partition, partition_epoch };
                asked.entry(*member).or_default().push(place);
            }
        }
        let question = |(broker, places): (BrokerId, Vec<LogPlace>)| {
            let broker_epoch = self.image().brokers.get(&broker).expect("all are registered").broker_epoch;
            LogQuestion { broker, broker_epoch, places }
        };
        asked.into_iter().map(question).collect()
    }

    /// Gives partitions the leaders that the answers speak for. What is not current any more is passed over.
    pub(super) fn logs_compared(&self, answers: &[LogAnswer]) -> Plan {
        let mut draft = Draft::new(self);
        let mut said: BTreeMap<LogPlace, BTreeMap<BrokerId, LogEnd>> = BTreeMap::new();
        for answer in answers {
            let known = draft.standing.brokers.get(&answer.broker);
            if known.is_none_or(|known| known.broker_epoch != answer.broker_epoch) {
                // Another process is there, whose log may be another one.
                continue;
            }
            for (place, log) in &answer.logs {
                said.entry(*place).or_default().insert(answer.broker, *log);
            }
        }
        for (place, logs) in &said {
            let Some((name, topic)) = self.image().topic_by_id(place.topic_id) else { continue };
            let Some(state) = topic.partition(place.partition) else { continue };
            let is_current = state.partition_epoch == place.partition_epoch
                && election::is_to_be_compared(state, &draft.standing)
                && state.unproven.iter().all(|member| logs.contains_key(member));
            if !is_current {
                continue;
            }
            if !draft.has_room() {
                return draft.finish(Outcome::Done, true);
            }
            // Of equal logs the one that was counted on longest.
            let best = state.unproven.iter().copied().max_by_key(|member| logs[member]);
            let best = best.expect("several were compared");
            let rules = self.settings.rules(self.image(), &topic.configs);
            let after = election::led_by_most_complete(state, best, &draft.standing, rules, draft.leads());
            draft.set_state(name, place.partition, after);
        }
        draft.finish(Outcome::Done, false)
    }
}
