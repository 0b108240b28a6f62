//! Proposals of in-sync replicas on their way to the controller. Owns the batching and the pauses between attempts;
//! what is proposed, and what an answer means, is decided in `partition::leader`.

use super::ReplicaKey;
use crate::{
    broker::Broker,
    partition::{Partition, leader::Proposal, leader::TrueState},
    types::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId},
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AlterPartitionBroker, AlterPartitionPartition, AlterPartitionRequest, AlterPartitionResponse,
        AlterPartitionTopic,
    },
};
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

/// The pause after a first failed attempt; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// An answer that has not come by then never will.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The partitions that have something to propose.
#[derive(Default)]
pub struct Outbox {
    ready: Mutex<BTreeSet<ReplicaKey>>,
    notify: Notify,
}

impl Outbox {
    /// A partition has something to propose.
    pub fn put(&self, topic: TopicId, partition: i32) {
        self.ready.lock().expect("no holder panics").insert((topic, partition));
        self.notify.notify_one();
    }

    fn take(&self) -> BTreeSet<ReplicaKey> {
        std::mem::take(&mut *self.ready.lock().expect("no holder panics"))
    }
}

/// Attempts that failed, and when each is made again.
type Retries = BTreeMap<ReplicaKey, (Monotonic, Duration)>;

/// Sends what is put into the outbox, for as long as the broker runs.
pub(super) async fn send_all(broker: Arc<Broker>) {
    let mut retries = Retries::new();
    loop {
        let now = broker.runtime().now();
        let mut batch = broker.outbox().take();
        batch.extend(retries.iter().filter(|(_, (due, _))| *due <= now).map(|(key, _)| *key));
        if batch.is_empty() {
            let next = retries.values().map(|(due, _)| *due).min();
            tokio::select! {
                biased;
                () = broker.outbox().notify.notified() => {}
                () = broker.runtime().sleep_until(next.unwrap_or(Monotonic(u64::MAX))), if next.is_some() => {}
            }
            continue;
        }
        send_batch(&broker, batch, &mut retries).await;
    }
}

struct Asked {
    partition: Arc<Partition>,
    proposal: Proposal,
}

async fn send_batch(broker: &Arc<Broker>, batch: BTreeSet<ReplicaKey>, retries: &mut Retries) {
    let topics = broker.topics();
    let mut asked: BTreeMap<ReplicaKey, Asked> = BTreeMap::new();
    for key in batch {
        let partition = topics.by_id(key.0).and_then(|topic| topic.partition(key.1).ok());
        match partition.and_then(|partition| Some((partition.clone(), partition.proposal()?))) {
            Some((partition, proposal)) => drop(asked.insert(key, Asked { partition, proposal })),
            None => drop(retries.remove(&key)),
        }
    }
    if asked.is_empty() {
        return;
    }
    let me = (broker.config().broker_id, broker.cluster().broker_epoch());
    let request = request(me, &asked);
    let answer = broker.runtime().timeout(ANSWER_TIMEOUT, broker.cluster().alter_partitions(request)).await;
    let mut results = match answer {
        Ok(Ok(response)) => results(response),
        Ok(Err(error)) => {
            tracing::debug!(%error, "in-sync replicas cannot be proposed at present");
            BTreeMap::new()
        }
        Err(_) => BTreeMap::new(),
    };
    let now = broker.runtime().now();
    for (key, Asked { partition, proposal }) in asked {
        let result = results.remove(&key).unwrap_or(Err(ErrorCode::REQUEST_TIMED_OUT));
        let worked = result.is_ok();
        let epochs = (proposal.leader_epoch, proposal.partition_epoch);
        if !partition.on_proposal_result(epochs, result) {
            retries.remove(&key);
        } else {
            let pause = match retries.get(&key) {
                Some((_, pause)) if !worked => (*pause * 2).min(LONGEST_PAUSE),
                _ => FIRST_PAUSE,
            };
            retries.insert(key, (now + pause, pause));
        }
    }
}

fn request(me: (BrokerId, BrokerEpoch), asked: &BTreeMap<ReplicaKey, Asked>) -> AlterPartitionRequest {
    let mut topics: Vec<AlterPartitionTopic> = Vec::new();
    for ((topic, index), Asked { proposal, .. }) in asked {
        let isr = proposal.isr.iter().map(|(broker, broker_epoch)| AlterPartitionBroker {
            broker_id: broker.0,
            broker_epoch: if *broker == me.0 { me.1.0 } else { broker_epoch.0 },
        });
        let partition = AlterPartitionPartition {
            partition_index: *index,
            leader_epoch: proposal.leader_epoch.0,
            new_isr_with_epochs: isr.collect(),
            partition_epoch: proposal.partition_epoch.0,
            ..AlterPartitionPartition::default()
        };
        match topics.last_mut().filter(|last| last.topic_id == topic.0) {
            Some(last) => last.partitions.push(partition),
            None => topics.push(AlterPartitionTopic { topic_id: topic.0, partitions: vec![partition] }),
        }
    }
    AlterPartitionRequest { broker_id: me.0.0, broker_epoch: me.1.0, topics }
}

fn results(response: AlterPartitionResponse) -> BTreeMap<ReplicaKey, Result<TrueState, ErrorCode>> {
    let mut results = BTreeMap::new();
    if response.error_code != 0 {
        // Of the whole request: nothing was done, and every proposal is tried again.
        tracing::debug!(code = %ErrorCode::from(response.error_code), "in-sync replicas were not accepted");
        return results;
    }
    for topic in response.topics {
        for partition in topic.partitions {
            let result = match ErrorCode::from(partition.error_code) {
                ErrorCode::NONE => Ok(TrueState {
                    leader_epoch: LeaderEpoch(partition.leader_epoch),
                    partition_epoch: PartitionEpoch(partition.partition_epoch),
                    isr: partition.isr.into_iter().map(BrokerId).collect(),
                }),
                code => Err(code),
            };
            results.insert((TopicId(topic.topic_id), partition.partition_index), result);
        }
    }
    results
}
