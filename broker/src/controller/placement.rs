//! Where replicas lie: balanced over the brokers, and over racks where every broker has one (KIP-36); and what is asked
//! of an assignment that somebody made by hand. Pure.

use super::ControllerError;
use crate::{metadata::BrokerImage, types::BrokerId};
use sillon_protocol::ErrorCode;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Where the placement of a topic begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The place, in the list of brokers, of the first partition's first replica.
    pub first: usize,
    /// How far the second replica lies from the first.
    pub shift: usize,
    /// The number of the first partition.
    pub partition: usize,
}

impl Start {
    /// A start that the seed decides.
    pub fn of_seed(seed: u64, brokers: usize) -> Start {
        let brokers = brokers.max(1) as u64;
        let place = |number: u64| usize::try_from(number % brokers).expect("below the number of brokers");
        Start { first: place(seed), shift: place(seed >> 32), partition: 0 }
    }
}

/// The replicas of `partitions` partitions, the preferred leader first.
///
/// # Errors
/// INVALID_REPLICATION_FACTOR where there are fewer brokers than replicas.
pub(super) fn place(
    brokers: &BTreeMap<BrokerId, Arc<BrokerImage>>,
    partitions: usize,
    replication_factor: usize,
    start: Start,
) -> Result<Vec<Vec<BrokerId>>, ControllerError> {
    if replication_factor > brokers.len() {
        let text = format!(
            "Unable to replicate the partition {replication_factor} time(s): The target replication factor of \
             {replication_factor} cannot be reached because only {} broker(s) are registered.",
            brokers.len()
        );
        return Err(ControllerError::new(ErrorCode::INVALID_REPLICATION_FACTOR, text));
    }
    // Who is about to stop gets nothing, as long as the others are enough.
    let stays = |broker: &Arc<BrokerImage>| !broker.shutting_down;
    let staying = brokers.values().filter(|broker| stays(broker)).count();
    let candidates = brokers.iter().filter(|(_, broker)| staying < replication_factor || stays(broker));
    let candidates: Vec<(BrokerId, Option<&str>)> =
        candidates.map(|(id, broker)| (*id, broker.rack.as_deref())).collect();
    let racks: Option<BTreeMap<BrokerId, &str>> =
        candidates.iter().map(|(id, rack)| rack.map(|rack| (*id, rack))).collect();
    Ok(match racks {
        Some(racks) => over_racks(&racks, partitions, replication_factor, start),
        None => {
            let ids: Vec<BrokerId> = candidates.into_iter().map(|(id, _)| id).collect();
            round_robin(&ids, partitions, replication_factor, start)
        }
    })
}

/// The place of replica number `replica` + 1 of a partition whose first lies at `first`.
fn replica_place(first: usize, shift: usize, replica: usize, brokers: usize) -> usize {
    match brokers {
        1 => 0,
        _ => (first + 1 + (shift + replica) % (brokers - 1)) % brokers,
    }
}

fn round_robin(
    brokers: &[BrokerId],
    partitions: usize,
    replication_factor: usize,
    start: Start,
) -> Vec<Vec<BrokerId>> {
    let count = brokers.len();
    let mut shift = start.shift;
    let mut assignment = Vec::with_capacity(partitions);
    for partition in start.partition..start.partition + partitions {
        // Once around, the followers move on: not every partition of a broker has the same ones.
        if partition > 0 && partition % count == 0 {
            shift += 1;
        }
        let first = (partition + start.first) % count;
        let followers =
            (0..replication_factor - 1).map(|replica| replica_place(first, shift, replica, count));
        assignment.push(std::iter::once(first).chain(followers).map(|place| brokers[place]).collect());
    }
    assignment
}

/// Brokers in an order in which neighbours lie in different racks, as far as that can be.
fn alternate_racks(racks: &BTreeMap<BrokerId, &str>) -> Vec<BrokerId> {
    let mut by_rack: BTreeMap<&str, Vec<BrokerId>> = BTreeMap::new();
    for (broker, rack) in racks {
        by_rack.entry(*rack).or_default().push(*broker);
    }
    let deepest = by_rack.values().map(Vec::len).max().unwrap_or(0);
    (0..deepest)
        .flat_map(|row| by_rack.values().filter_map(move |brokers| brokers.get(row)).copied())
        .collect()
}

fn over_racks(
    racks: &BTreeMap<BrokerId, &str>,
    partitions: usize,
    replication_factor: usize,
    start: Start,
) -> Vec<Vec<BrokerId>> {
    let brokers = alternate_racks(racks);
    let count = brokers.len();
    let rack_count = racks.values().collect::<BTreeSet<_>>().len();
    let mut shift = start.shift;
    let mut assignment = Vec::with_capacity(partitions);
    for partition in start.partition..start.partition + partitions {
        if partition > 0 && partition % count == 0 {
            shift += 1;
        }
        let first = (partition + start.first) % count;
        let mut replicas = vec![brokers[first]];
        let mut used_racks = BTreeSet::from([racks[&brokers[first]]]);
        let mut step = 0;
        while replicas.len() < replication_factor {
            let broker = brokers[replica_place(first, shift * rack_count, step, count)];
            step += 1;
            // A rack is used twice only when every rack is used.
            let rack_fits = used_racks.len() == rack_count || !used_racks.contains(racks[&broker]);
            if rack_fits && !replicas.contains(&broker) {
                used_racks.insert(racks[&broker]);
                replicas.push(broker);
            }
        }
        assignment.push(replicas);
    }
    assignment
}

/// Checks the replicas that somebody chose for one partition. `expected` is how many the others have.
///
/// # Errors
/// INVALID_REPLICA_ASSIGNMENT.
pub(super) fn check_replicas(
    brokers: &BTreeMap<BrokerId, Arc<BrokerImage>>,
    replicas: &[BrokerId],
    expected: Option<usize>,
) -> Result<(), ControllerError> {
    let refuse = |text: String| Err(ControllerError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
    if replicas.is_empty() {
        return refuse("The manual partition assignment includes an empty replica list.".to_owned());
    }
    let mut seen = BTreeSet::new();
    for replica in replicas {
        if !brokers.contains_key(replica) {
            return refuse(format!(
                "The manual partition assignment includes broker {replica}, but no such broker is registered."
            ));
        }
        if !seen.insert(replica) {
            return refuse(format!(
                "The manual partition assignment includes the broker {replica} more than once."
            ));
        }
    }
    match expected {
        Some(expected) if expected != replicas.len() => refuse(format!(
            "The manual partition assignment includes a partition with {} replica(s), but this is not consistent \
             with previous partitions, which have {expected} replica(s).",
            replicas.len()
        )),
        _ => Ok(()),
    }
}

/// Checks the replicas that somebody chose for some partitions, the first of them number `first`.
///
/// # Errors
/// INVALID_REPLICA_ASSIGNMENT.
pub(super) fn check_assignment(
    brokers: &BTreeMap<BrokerId, Arc<BrokerImage>>,
    assignment: &[Vec<BrokerId>],
    mut expected: Option<usize>,
    first: usize,
) -> Result<(), ControllerError> {
    for (index, replicas) in assignment.iter().enumerate() {
        check_replicas(brokers, replicas, expected)?;
        expected = Some(replicas.len());
        if replicas.iter().all(|replica| brokers[replica].shutting_down) {
            let text = format!(
                "All brokers specified in the manual partition assignment for partition {} are fenced or in \
                 controlled shutdown.",
                first + index
            );
            return Err(ControllerError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, text));
        }
    }
    Ok(())
}
