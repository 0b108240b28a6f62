//! What each request does: one file per Kafka API, named after it.
//!
//! Owns the meaning of requests, and which versions are offered. Never touches a socket (`server`) or a file (`log`).

pub(crate) mod admin;
pub(crate) mod alter_configs;
pub(crate) mod alter_partition;
pub(crate) mod alter_partition_reassignments;
pub(crate) mod alter_replica_log_dirs;
pub(crate) mod api_versions;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
mod current_leader;
pub(crate) mod delete_groups;
pub(crate) mod delete_records;
pub(crate) mod delete_topics;
pub(crate) mod describe_cluster;
pub(crate) mod describe_configs;
pub(crate) mod describe_groups;
pub(crate) mod describe_log_dirs;
pub(crate) mod describe_producers;
pub(crate) mod describe_replicas;
pub(crate) mod describe_topic_partitions;
pub(crate) mod elect_leaders;
pub(crate) mod fetch;
mod fetch_read;
pub mod fetch_session;
mod fetch_watch;
pub(crate) mod find_coordinator;
mod groups;
pub(crate) mod heartbeat;
pub(crate) mod incremental_alter_configs;
pub(crate) mod init_producer_id;
pub(crate) mod join_group;
pub(crate) mod leave_group;
pub(crate) mod list_config_resources;
pub(crate) mod list_groups;
pub(crate) mod list_offsets;
pub(crate) mod list_partition_reassignments;
pub(crate) mod metadata;
pub(crate) mod offset_commit;
pub(crate) mod offset_delete;
pub(crate) mod offset_fetch;
pub(crate) mod offset_for_leader_epoch;
pub(crate) mod produce;
pub(crate) mod sync_group;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use crate::{broker::Broker, config::listener::Listener, server::dispatch::Client, types::LeaderEpoch};
use sillon_protocol::{ApiKey, ErrorCode};

/// The APIs that are offered.
const OFFERED: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::JoinGroup,
    ApiKey::Heartbeat,
    ApiKey::LeaveGroup,
    ApiKey::SyncGroup,
    ApiKey::DescribeGroups,
    ApiKey::ListGroups,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteRecords,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::DescribeConfigs,
    ApiKey::AlterConfigs,
    ApiKey::AlterReplicaLogDirs,
    ApiKey::DescribeLogDirs,
    ApiKey::CreatePartitions,
    ApiKey::DeleteGroups,
    ApiKey::ElectLeaders,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::AlterPartitionReassignments,
    ApiKey::ListPartitionReassignments,
    ApiKey::OffsetDelete,
    ApiKey::DescribeCluster,
    ApiKey::DescribeProducers,
    ApiKey::ListConfigResources,
    ApiKey::DescribeTopicPartitions,
];

/// Everything a client may do to a topic, as a bit field of Kafka's operations: read, write, create, delete, alter,
/// describe, describe configs, alter configs. There is no authorizer, so everything is allowed.
const ALL_TOPIC_OPERATIONS: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;
/// Likewise for the cluster: create, cluster action, describe configs, alter configs, idempotent write, alter, describe.
const ALL_CLUSTER_OPERATIONS: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;

/// Likewise for a group: read, delete, describe, describe configs, alter configs.
const ALL_GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// The number of the listener that a client came in by.
fn listener_index(broker: &Broker, client: &Client) -> usize {
    let listeners = &broker.config().listeners;
    listeners.iter().position(|listener| listener.port == client.local.port()).unwrap_or(0)
}

/// The listener that a client came in by.
fn listener<'a>(broker: &'a Broker, client: &Client) -> &'a Listener {
    &broker.config().listeners[listener_index(broker, client)]
}

/// Where this broker is to be reached by a client, as host and port. Where no host is advertised it is the address
/// through which the client came.
fn endpoint(broker: &Broker, client: &Client) -> (String, i32) {
    let index = listener_index(broker, client);
    let advertised =
        broker.advertised().get(index).or(broker.advertised().first()).expect("there is a listener");
    let host = match advertised.host.as_str() {
        "" | "0.0.0.0" | "::" => client.local.ip().to_string(),
        host => host.to_owned(),
    };
    (host, i32::from(advertised.port))
}

/// Compares the leader epoch that a client believes in with the true one (KIP-320).
pub(crate) fn check_leader_epoch(claimed: i32, true_epoch: LeaderEpoch) -> Result<(), ErrorCode> {
    match claimed {
        -1 => Ok(()),
        claimed if claimed < true_epoch.0 => Err(ErrorCode::FENCED_LEADER_EPOCH),
        claimed if claimed > true_epoch.0 => Err(ErrorCode::UNKNOWN_LEADER_EPOCH),
        _ => Ok(()),
    }
}
