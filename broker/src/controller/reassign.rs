//! AlterPartitionReassignments (KIP-455): replicas move from broker to broker.
//!
//! While it goes on, old and new replicas hold the partition together. It ends when the new ones are in sync
//! (`election`); it can be replaced, and taken back.

use super::{
    Command, ControllerError, Outcome, Plan, core::Controller, draft::Draft, election, placement,
    settings::Rules,
};
use crate::{
    metadata::PartitionImage,
    types::{BrokerId, LeaderEpoch, TopicPartition},
};
use sillon_protocol::ErrorCode;
use std::collections::BTreeSet;

impl Controller {
    pub(super) fn reassign(
        &self,
        command: &Command,
        partitions: &[(TopicPartition, Option<Vec<BrokerId>>)],
        allow_replication_factor_change: bool,
    ) -> Result<Plan, ControllerError> {
        let mut draft = Draft::new(self);
        let mut results = self.results_so_far(command);
        for (partition, target) in &partitions[results.len().min(partitions.len())..] {
            if !draft.has_room() {
                return Ok(self.pause(draft, command, results, Outcome::Reassigned));
            }
            let result = match target {
                Some(target) => {
                    self.reassign_one(&mut draft, partition, target, allow_replication_factor_change)
                }
                None => self.take_back(&mut draft, partition),
            };
            results.push((partition.clone(), result));
        }
        Ok(draft.finish(Outcome::Reassigned(results), false))
    }

    fn reassign_one(
        &self,
        draft: &mut Draft<'_>,
        partition: &TopicPartition,
        target: &[BrokerId],
        allow_replication_factor_change: bool,
    ) -> Result<(), ControllerError> {
        let (name, topic, state) = self.find(draft, partition)?;
        placement::check_replicas(&self.image().brokers, target, None)?;
        let present = state.target_replicas().count();
        if !allow_replication_factor_change && present != target.len() {
            let text = format!("The replication factor is changed from {present} to {}", target.len());
            return Err(ControllerError::new(ErrorCode::INVALID_REPLICATION_FACTOR, text));
        }
        if state.target_replicas().eq(target.iter().copied()) {
            return Ok(());
        }
        let original: Vec<BrokerId> = original(&state);
        let mut replicas = target.to_vec();
        replicas.extend(original.iter().filter(|replica| !target.contains(replica)));
        let next = PartitionImage {
            adding: target.iter().copied().filter(|replica| !original.contains(replica)).collect(),
            removing: original.iter().copied().filter(|replica| !target.contains(replica)).collect(),
            replicas,
            ..state.clone()
        };
        let rules = self.settings.rules(self.image(), &topic.configs);
        let after = relieve(&state, next, draft, rules, partition)?;
        draft.set_state(name, partition.partition, after);
        Ok(())
    }

    fn take_back(&self, draft: &mut Draft<'_>, partition: &TopicPartition) -> Result<(), ControllerError> {
        let (name, topic, state) = self.find(draft, partition)?;
        if !state.is_reassigning() {
            let code = ErrorCode::NO_REASSIGNMENT_IN_PROGRESS;
            return Err(ControllerError::new(code, "No partition reassignment is in progress."));
        }
        let next = PartitionImage {
            replicas: original(&state),
            adding: Vec::new(),
            removing: Vec::new(),
            ..state.clone()
        };
        let rules = self.settings.rules(self.image(), &topic.configs);
        let after = relieve(&state, next, draft, rules, partition)?;
        draft.set_state(name, partition.partition, after);
        Ok(())
    }
}

/// The replicas that a partition has besides those that a reassignment adds.
fn original(state: &PartitionImage) -> Vec<BrokerId> {
    let all = state.replicas.iter().copied();
    let original: Vec<BrokerId> = all.filter(|replica| !state.adding.contains(replica)).collect();
    if original.is_empty() { state.replicas.clone() } else { original }
}

/// The state with other replicas: those that are none any more are relieved of everything.
///
/// # Errors
/// INVALID_REPLICA_ASSIGNMENT where those that are left do not hold what was committed.
fn relieve(
    before: &PartitionImage,
    mut next: PartitionImage,
    draft: &Draft<'_>,
    rules: Rules,
    partition: &TopicPartition,
) -> Result<PartitionImage, ControllerError> {
    let replicas = next.replicas.clone();
    let holders = |state: &PartitionImage| -> BTreeSet<BrokerId> {
        state.isr.iter().chain(&state.eligible_leader_replicas).copied().collect()
    };
    // Who is unproven may be the only one that holds all.
    let candidates = |state: &PartitionImage| -> BTreeSet<BrokerId> {
        holders(state).into_iter().chain(state.unproven.iter().copied()).collect()
    };
    next.isr.retain(|member| replicas.contains(member));
    next.eligible_leader_replicas.retain(|member| replicas.contains(member));
    next.unproven.retain(|member| replicas.contains(member));
    // As many as are needed must hold what was committed, unless there were fewer before.
    let needed = rules.needed(before.replicas.len());
    let is_short = |left: usize, held: usize| {
        left < held.min(needed).max(usize::from(held > 0)).min(replicas.len().max(1))
    };
    if is_short(holders(&next).len(), holders(before).len())
        || is_short(candidates(&next).len(), candidates(before).len())
    {
        let text = format!(
            "Unable to revert partition assignment for {}:{} because it would require an unclean leader election.",
            partition.topic, partition.partition
        );
        return Err(ControllerError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
    }
    next.eligible_leader_replicas = election::eligible(before, &next, &BTreeSet::new(), rules);
    election::forget_proven(&mut next);
    next.last_known_leader = before.last_known_leader.filter(|leader| replicas.contains(leader));
    // The set of replicas is another one: who is none any more must not be taken for one.
    let epoch = before.leader_epoch.0.checked_add(1).expect("a partition never sees 2^31 leaders");
    let changes_set =
        before.replicas.iter().collect::<BTreeSet<_>>() != next.replicas.iter().collect::<BTreeSet<_>>();
    let settled = election::settle(&next, &draft.standing, rules, draft.leads());
    let counted = changes_set || settled.leader_epoch != before.leader_epoch;
    Ok(PartitionImage {
        leader_epoch: if counted { LeaderEpoch(epoch) } else { before.leader_epoch },
        ..settled
    })
}
