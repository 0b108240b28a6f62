//! ElectLeaders (KIP-460), and the automatic return of leadership to preferred replicas.

use super::{
    Command, ControllerError, ElectionKind, Outcome, Plan,
    core::Controller,
    draft::Draft,
    election,
    note::{Note, Progress},
};
use crate::{
    metadata::{PartitionImage, TopicImage},
    types::{BrokerId, TopicPartition},
};
use sillon_protocol::ErrorCode;
use std::{collections::BTreeMap, sync::Arc};

type Results = Vec<(TopicPartition, Result<(), ControllerError>)>;

impl Controller {
    pub(super) fn elect_leaders(
        &self,
        command: &Command,
        kind: ElectionKind,
        partitions: Option<&[TopicPartition]>,
    ) -> Plan {
        let mut draft = Draft::new(self);
        let mut results = self.results_so_far(command);
        let all;
        let partitions = match partitions {
            Some(partitions) => &partitions[results.len().min(partitions.len())..],
            None => {
                all = self.wanting(kind);
                &all[..]
            }
        };
        for partition in partitions {
            if !draft.has_room() {
                return self.pause(draft, command, results, Outcome::Elected);
            }
            results.push((partition.clone(), self.elect_one(&mut draft, kind, partition)));
        }
        draft.finish(Outcome::Elected(results), false)
    }

    /// What became of the command's partitions in earlier plans.
    pub(super) fn results_so_far(&self, command: &Command) -> Results {
        let progress = self.progress.as_ref().filter(|progress| progress.command == *command);
        progress.map_or_else(Vec::new, |progress| progress.results.clone())
    }

    /// The plan of a part: the next one goes on with these results.
    pub(super) fn pause(
        &self,
        mut draft: Draft<'_>,
        command: &Command,
        results: Results,
        outcome: fn(Results) -> Outcome,
    ) -> Plan {
        let progress = Progress { command: command.clone(), results: results.clone() };
        draft.notes.push(Note::Progress(Box::new(progress)));
        draft.finish(outcome(results), true)
    }

    /// All partitions for which the election is needed.
    fn wanting(&self, kind: ElectionKind) -> Vec<TopicPartition> {
        let mut wanting = Vec::new();
        for (name, topic) in &self.image().topics {
            for (index, state) in (0..).zip(&topic.partitions) {
                if !is_needless(state, kind) {
                    wanting.push(TopicPartition { topic: name.clone(), partition: index });
                }
            }
        }
        wanting
    }

    fn elect_one(
        &self,
        draft: &mut Draft<'_>,
        kind: ElectionKind,
        partition: &TopicPartition,
    ) -> Result<(), ControllerError> {
        let (name, topic, state) = self.find(draft, partition)?;
        if is_needless(&state, kind) {
            let text = ErrorCode::ELECTION_NOT_NEEDED.message();
            return Err(ControllerError::new(ErrorCode::ELECTION_NOT_NEEDED, text));
        }
        let rules = self.settings.rules(self.image(), &topic.configs);
        let (standing, leads) = (&draft.standing, draft.leads());
        let (after, code) = match kind {
            ElectionKind::Preferred => {
                (preferred(&state, draft, rules), ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE)
            }
            ElectionKind::Unclean => (
                election::led_by_anybody(&state, standing, rules, leads),
                ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE,
            ),
        };
        let after = after.ok_or_else(|| ControllerError::new(code, code.message()))?;
        draft.set_state(name, partition.partition, after);
        Ok(())
    }

    /// A partition that somebody names, as it is once the draft is written.
    pub(super) fn find(
        &self,
        draft: &Draft<'_>,
        partition: &TopicPartition,
    ) -> Result<(&Arc<str>, &Arc<TopicImage>, PartitionImage), ControllerError> {
        let refuse = |text| ControllerError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text);
        let topic = self.image().topics.get_key_value(&partition.topic);
        let (name, topic) = topic.ok_or_else(|| refuse(format!("No such topic as {}", partition.topic)))?;
        let state = draft.state(name, topic, partition.partition).cloned();
        let state = state.ok_or_else(|| refuse(format!("No such partition as {partition}")))?;
        Ok((name, topic, state))
    }

    /// The election that brings leadership back to preferred replicas, where too many of a broker's are led by others;
    /// none where all is in balance, or `auto.leader.rebalance.enable` is off.
    pub fn balance(&self) -> Option<Command> {
        if !self.settings.balances_leaders() {
            return None;
        }
        let mut preferring: BTreeMap<BrokerId, (usize, Vec<TopicPartition>, usize)> = BTreeMap::new();
        let draft = Draft::new(self);
        for (name, topic) in &self.image().topics {
            for (index, state) in (0..).zip(&topic.partitions) {
                let Some(first) = state.target_replicas().next() else { continue };
                let (all, movable, elsewhere) = preferring.entry(first).or_default();
                *all += 1;
                if state.leader == Some(first) {
                    continue;
                }
                *elsewhere += 1;
                let can = state.isr.contains(&first) && draft.standing.may_lead(first);
                if can && !state.is_reassigning() {
                    movable.push(TopicPartition { topic: name.clone(), partition: index });
                }
            }
        }
        let percent = self.settings.imbalance_percent();
        let out_of_balance = preferring.into_values();
        let partitions: Vec<TopicPartition> = out_of_balance
            .filter(|(all, _, elsewhere)| elsewhere * 100 > all * percent)
            .flat_map(|(_, movable, _)| movable)
            .collect();
        (!partitions.is_empty())
            .then_some(Command::ElectLeaders { kind: ElectionKind::Preferred, partitions: Some(partitions) })
    }
}

fn is_needless(state: &PartitionImage, kind: ElectionKind) -> bool {
    match kind {
        ElectionKind::Preferred => state.leader.is_some() && state.leader == state.target_replicas().next(),
        ElectionKind::Unclean => state.leader.is_some(),
    }
}

fn preferred(
    state: &PartitionImage,
    draft: &Draft<'_>,
    rules: super::settings::Rules,
) -> Option<PartitionImage> {
    let first = state.target_replicas().next()?;
    if !draft.standing.may_lead(first) {
        return None;
    }
    if state.isr.contains(&first) {
        return Some(election::led_by(state, first));
    }
    // Where nobody leads, it may be eligible all the same.
    let after = election::settle(state, &draft.standing, rules, draft.leads());
    (after.leader == Some(first)).then_some(after)
}
