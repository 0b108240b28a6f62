//! AlterPartition: a leader proposes in-sync replicas (KIP-497, KIP-903, KIP-841).

use super::{ControllerError, IsrProposal, Outcome, Plan, core::Controller, draft::Draft, election};
use crate::{
    metadata::{PartitionImage, TopicImage},
    types::{BrokerEpoch, BrokerId},
};
use sillon_protocol::ErrorCode;
use std::sync::Arc;

impl Controller {
    pub(super) fn alter_partitions(
        &self,
        broker: BrokerId,
        broker_epoch: BrokerEpoch,
        proposals: &[IsrProposal],
    ) -> Result<Plan, ControllerError> {
        self.check_broker_epoch(broker, broker_epoch)?;
        let mut draft = Draft::new(self);
        let mut results = Vec::with_capacity(proposals.len());
        for proposal in proposals {
            if !draft.has_room() {
                return Ok(draft.finish(Outcome::PartitionsAltered(results), true));
            }
            results.push(self.alter_one(&mut draft, broker, proposal));
        }
        Ok(draft.finish(Outcome::PartitionsAltered(results), false))
    }

    fn alter_one(
        &self,
        draft: &mut Draft<'_>,
        broker: BrokerId,
        proposal: &IsrProposal,
    ) -> Result<PartitionImage, ControllerError> {
        let Some((name, topic)) = self.image().topic_by_id(proposal.topic_id) else {
            let text = format!("There is no topic with id {}.", proposal.topic_id);
            return Err(ControllerError::new(ErrorCode::UNKNOWN_TOPIC_ID, text));
        };
        let Some(state) = draft.state(name, topic, proposal.partition).cloned() else {
            let text = format!("Topic '{name}' has no partition {}.", proposal.partition);
            return Err(ControllerError::new(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, text));
        };
        let isr: Vec<BrokerId> = proposal.isr.iter().map(|(member, _)| *member).collect();
        if self.is_repeated(broker, proposal, &state, &isr) {
            return Ok(state);
        }
        self.check_proposal(broker, proposal, &state, &isr)?;
        let settled = |draft: &Draft<'_>| draft.state(name, topic, proposal.partition).cloned();
        if isr == state.isr {
            return Ok(state);
        }
        self.accept(draft, name, topic, proposal.partition, &state, isr);
        let after = settled(draft).expect("it was there before");
        if after.leader != state.leader {
            let text = "The proposal ended the partition's reassignment, and with it this leadership.";
            return Err(ControllerError::new(ErrorCode::NEW_LEADER_ELECTED, text));
        }
        Ok(after)
    }

    fn accept(
        &self,
        draft: &mut Draft<'_>,
        name: &Arc<str>,
        topic: &TopicImage,
        index: i32,
        state: &PartitionImage,
        isr: Vec<BrokerId>,
    ) {
        let rules = self.settings.rules(self.image(), &topic.configs);
        let after = election::with_in_sync(state, isr, &draft.standing, rules, draft.leads());
        draft.set_state(name, index, after);
    }

    /// Whether this is what was written last: the command is planned again, or its sender did not hear the answer.
    fn is_repeated(
        &self,
        broker: BrokerId,
        proposal: &IsrProposal,
        state: &PartitionImage,
        isr: &[BrokerId],
    ) -> bool {
        state.leader == Some(broker)
            && state.leader_epoch == proposal.leader_epoch
            && state.partition_epoch.0 == proposal.partition_epoch.0.wrapping_add(1)
            && state.isr == isr
    }

    fn check_proposal(
        &self,
        broker: BrokerId,
        proposal: &IsrProposal,
        state: &PartitionImage,
        isr: &[BrokerId],
    ) -> Result<(), ControllerError> {
        let refuse = |code, text: String| Err(ControllerError::new(code, text));
        if proposal.leader_epoch > state.leader_epoch || proposal.partition_epoch > state.partition_epoch {
            // The sender has seen more than this controller: another one is in office.
            return refuse(ErrorCode::NOT_CONTROLLER, "The proposal is ahead of this controller.".to_owned());
        }
        if proposal.leader_epoch < state.leader_epoch {
            let text = format!("The leader epoch is {} now.", state.leader_epoch);
            return refuse(ErrorCode::FENCED_LEADER_EPOCH, text);
        }
        if state.leader != Some(broker) {
            let text = format!("Broker {broker} does not lead the partition.");
            return refuse(ErrorCode::INVALID_REQUEST, text);
        }
        if proposal.partition_epoch < state.partition_epoch {
            let text = format!("The partition epoch is {} now.", state.partition_epoch);
            return refuse(ErrorCode::INVALID_UPDATE_VERSION, text);
        }
        let distinct = isr.iter().enumerate().all(|(at, member)| !isr[..at].contains(member));
        if !distinct || !isr.contains(&broker) || isr.iter().any(|member| !state.replicas.contains(member)) {
            let text = "In-sync replicas are distinct replicas, the leader among them.".to_owned();
            return refuse(ErrorCode::INVALID_REQUEST, text);
        }
        for (member, epoch) in &proposal.isr {
            let known = self.image().brokers.get(member);
            // A leader that is about to stop may let others in: they are who takes over from it.
            let fits = |known: &&std::sync::Arc<crate::metadata::BrokerImage>| {
                (*epoch == BrokerEpoch::NONE || known.broker_epoch == *epoch)
                    && (!known.shutting_down || *member == broker)
            };
            if known.filter(fits).is_none() {
                let text = format!(
                    "Broker {member} is not registered with broker epoch {epoch}, or is about to stop."
                );
                return refuse(ErrorCode::INELIGIBLE_REPLICA, text);
            }
        }
        Ok(())
    }
}
