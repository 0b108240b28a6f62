//! Every request that the broker offers is answered in every version that it offers.

mod support;

use sillon_client::Connection;
use sillon_protocol::{
    messages::*,
    wire::{Message, Request},
};
use support::*;

/// Asks in all versions. An answer that cannot be encoded would end the connection.
async fn in_all_versions<R: Request>(connection: &Connection, request: impl Fn(i16) -> R) {
    for version in R::VERSIONS {
        ask(connection, version, &request(version)).await;
    }
}

fn topics_by_name(name: &str) -> Option<Vec<MetadataRequestTopic>> {
    let known = MetadataRequestTopic { name: Some(name.to_owned()), ..MetadataRequestTopic::default() };
    let unknown = MetadataRequestTopic { name: Some("..".to_owned()), ..MetadataRequestTopic::default() };
    Some(vec![known, unknown])
}

#[test]
fn every_offered_version_is_answered() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let more = "offsets.topic.num.partitions=2\ngroup.initial.rebalance.delay.ms=0";
        let broker = start(&runtime, directory.path(), more).await;
        let connection = connect(&runtime, &broker).await;
        create_topic(&connection, "t", 2, &[]).await;
        produce(&connection, "t", batch(&["a"], 1_700_000_000_000, None)).await;
        ask_about_records(&connection).await;
        ask_about_topics(&connection).await;
        ask_about_configuration(&connection).await;
        ask_about_groups(&connection).await;
        ask_about_offsets(&connection).await;
        broker.stop().await.unwrap();
    });
}

async fn ask_about_records(connection: &Connection) {
    in_all_versions(connection, |version| {
        let topic = ProduceTopic {
            name: if version < 13 { "t".to_owned() } else { String::new() },
            partition_data: vec![
                ProducePartition { index: 0, records: Some(batch(&["b"], 1_700_000_000_000, None)) },
                ProducePartition { index: 9, records: None },
            ],
            ..ProduceTopic::default()
        };
        ProduceRequest { acks: 1, topic_data: vec![topic], ..ProduceRequest::default() }
    })
    .await;
    for (offset, epoch) in [(0, -1), (0, 0), (0, 7), (99, -1)] {
        in_all_versions(connection, |version| {
            let mut request = fetch_request("t", offset);
            if version >= 9 {
                request.topics[0].partitions[0].current_leader_epoch = epoch;
            }
            if version >= 12 {
                request.topics[0].partitions[0].last_fetched_epoch = epoch;
            }
            request
        })
        .await;
    }
    for timestamp in [-1, -2, -3, -4, -5, -6, 0, i64::MAX] {
        in_all_versions(connection, |_| ListOffsetsRequest {
            topics: vec![ListOffsetsTopic {
                name: "t".to_owned(),
                partitions: vec![ListOffsetsPartition { timestamp, ..ListOffsetsPartition::default() }],
            }],
            ..ListOffsetsRequest::default()
        })
        .await;
    }
    in_all_versions(connection, |_| OffsetForLeaderEpochRequest {
        topics: vec![OffsetForLeaderTopic {
            topic: "t".to_owned(),
            partitions: vec![OffsetForLeaderPartition::default()],
        }],
        ..OffsetForLeaderEpochRequest::default()
    })
    .await;
    in_all_versions(connection, |_| DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: "t".to_owned(),
            partitions: vec![DeleteRecordsPartition { partition_index: 0, offset: 1 }],
        }],
        timeout_ms: 1000,
    })
    .await;
    in_all_versions(connection, |_| InitProducerIdRequest::default()).await;
    in_all_versions(connection, |_| InitProducerIdRequest {
        transactional_id: Some("x".to_owned()),
        ..InitProducerIdRequest::default()
    })
    .await;
}

async fn ask_about_topics(connection: &Connection) {
    in_all_versions(connection, |_| ApiVersionsRequest {
        client_software_name: "test".to_owned(),
        client_software_version: "1".to_owned(),
    })
    .await;
    in_all_versions(connection, |version| MetadataRequest {
        topics: if version == 0 { Some(Vec::new()) } else { topics_by_name("t") },
        include_topic_authorized_operations: version >= 8,
        include_cluster_authorized_operations: (8..=10).contains(&version),
        ..MetadataRequest::default()
    })
    .await;
    for version in 10..=*<MetadataRequest as Message>::VERSIONS.end() {
        let unknown = MetadataRequestTopic { topic_id: sillon_broker::types::Uuid::from_u128(7), name: None };
        let request = MetadataRequest { topics: Some(vec![unknown]), ..MetadataRequest::default() };
        let answer = ask(connection, version, &request).await;
        assert_ne!(answer.topics[0].error_code, 0);
    }
    in_all_versions(connection, |version| CreateTopicsRequest {
        topics: vec![
            CreatableTopic {
                name: format!("created-{version}"),
                num_partitions: 1,
                replication_factor: 1,
                ..CreatableTopic::default()
            },
            CreatableTopic { name: "..".to_owned(), ..CreatableTopic::default() },
        ],
        ..CreateTopicsRequest::default()
    })
    .await;
    in_all_versions(connection, |version| CreatePartitionsRequest {
        topics: vec![CreatePartitionsTopic {
            name: "created-7".to_owned(),
            count: i32::from(version) + 2,
            assignments: None,
        }],
        ..CreatePartitionsRequest::default()
    })
    .await;
    in_all_versions(connection, |version| {
        let names = vec![format!("created-{}", version + 1), "unknown".to_owned()];
        if version < 6 {
            return DeleteTopicsRequest { topic_names: names, ..DeleteTopicsRequest::default() };
        }
        let named = names
            .into_iter()
            .map(|name| DeleteTopicState { name: Some(name), ..DeleteTopicState::default() });
        let topics = named.chain([DeleteTopicState::default()]).collect();
        DeleteTopicsRequest { topics, ..DeleteTopicsRequest::default() }
    })
    .await;
    in_all_versions(connection, |version| {
        let key = "group".to_owned();
        match version {
            ..=3 => FindCoordinatorRequest { key, ..FindCoordinatorRequest::default() },
            _ => FindCoordinatorRequest { coordinator_keys: vec![key], ..FindCoordinatorRequest::default() },
        }
    })
    .await;
    in_all_versions(connection, |_| DescribeClusterRequest::default()).await;
    in_all_versions(connection, |_| DescribeLogDirsRequest::default()).await;
    in_all_versions(connection, |_| DescribeTopicPartitionsRequest {
        response_partition_limit: 1,
        ..Default::default()
    })
    .await;
    ask_about_replicas(connection).await;
}

async fn ask_about_replicas(connection: &Connection) {
    for partitions in [None, Some(vec![0, 9])] {
        in_all_versions(connection, |version| ElectLeadersRequest {
            election_type: i8::from(version >= 1),
            topic_partitions: partitions
                .clone()
                .map(|partitions| vec![ElectLeadersTopic { topic: "t".to_owned(), partitions }]),
            ..ElectLeadersRequest::default()
        })
        .await;
    }
    for replicas in [None, Some(vec![0]), Some(vec![99]), Some(Vec::new())] {
        in_all_versions(connection, |_| {
            let partition =
                |partition_index| ReassignablePartition { partition_index, replicas: replicas.clone() };
            let partitions = vec![partition(0), partition(9)];
            let topics = vec![ReassignableTopic { name: "t".to_owned(), partitions }];
            AlterPartitionReassignmentsRequest { topics, ..Default::default() }
        })
        .await;
    }
    in_all_versions(connection, |_| ListPartitionReassignmentsRequest::default()).await;
    in_all_versions(connection, |_| AlterReplicaLogDirsRequest {
        dirs: vec![AlterReplicaLogDir {
            path: "/nowhere".to_owned(),
            topics: vec![AlterReplicaLogDirTopic { name: "t".to_owned(), partitions: vec![0, 9] }],
        }],
    })
    .await;
    in_all_versions(connection, |_| DescribeProducersRequest {
        topics: vec![DescribeProducersTopic { name: "t".to_owned(), partition_indexes: vec![0, 9] }],
    })
    .await;
    in_all_versions(connection, |_| ListConfigResourcesRequest::default()).await;
}

async fn ask_about_configuration(connection: &Connection) {
    for (resource_type, resource_name) in [(2, "t"), (2, "unknown"), (4, "0"), (4, ""), (4, "9"), (77, "x")] {
        let resource_name = resource_name.to_owned();
        in_all_versions(connection, |version| DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type,
                resource_name: resource_name.clone(),
                configuration_keys: None,
            }],
            include_synonyms: true,
            include_documentation: version >= 3,
        })
        .await;
        in_all_versions(connection, |_| AlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type,
                resource_name: resource_name.clone(),
                configs: vec![AlterableConfig {
                    name: "retention.ms".to_owned(),
                    value: Some("5".to_owned()),
                }],
            }],
            validate_only: false,
        })
        .await;
        in_all_versions(connection, |_| IncrementalAlterConfigsRequest {
            resources: vec![IncrementalAlterConfigsResource {
                resource_type,
                resource_name: resource_name.clone(),
                configs: vec![IncrementalAlterableConfig {
                    name: "retention.ms".to_owned(),
                    config_operation: 1,
                    value: None,
                }],
            }],
            validate_only: false,
        })
        .await;
    }
}

async fn ask_about_groups(connection: &Connection) {
    in_all_versions(connection, |version| JoinGroupRequest {
        group_id: format!("joined-in-{version}"),
        session_timeout_ms: 6000,
        rebalance_timeout_ms: if version >= 1 { 6000 } else { -1 },
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol { name: "range".to_owned(), ..Default::default() }],
        reason: (version >= 8).then(|| "because".to_owned()),
        ..JoinGroupRequest::default()
    })
    .await;
    // As nobody in particular, and as somebody unknown to a group that exists and one that does not.
    for group_id in ["", "joined-in-3", "unknown"] {
        let group_id = group_id.to_owned();
        in_all_versions(connection, |_| SyncGroupRequest {
            group_id: group_id.clone(),
            member_id: "x".to_owned(),
            ..SyncGroupRequest::default()
        })
        .await;
        in_all_versions(connection, |version| HeartbeatRequest {
            group_id: group_id.clone(),
            member_id: "x".to_owned(),
            group_instance_id: (version >= 3).then(|| "i".to_owned()),
            ..HeartbeatRequest::default()
        })
        .await;
        in_all_versions(connection, |version| {
            let (group_id, member_id) = (group_id.clone(), "x".to_owned());
            match version {
                ..=2 => LeaveGroupRequest { group_id, member_id, ..LeaveGroupRequest::default() },
                _ => {
                    let member = MemberIdentity { member_id, ..MemberIdentity::default() };
                    LeaveGroupRequest { group_id, members: vec![member], ..LeaveGroupRequest::default() }
                }
            }
        })
        .await;
    }
    let groups = vec!["joined-in-3".to_owned(), "unknown".to_owned(), String::new()];
    in_all_versions(connection, |version| DescribeGroupsRequest {
        groups: groups.clone(),
        include_authorized_operations: version >= 3,
    })
    .await;
    in_all_versions(connection, |version| ListGroupsRequest {
        states_filter: if version >= 4 { vec!["Stable".to_owned()] } else { Vec::new() },
        types_filter: if version >= 5 { vec!["classic".to_owned()] } else { Vec::new() },
    })
    .await;
    in_all_versions(connection, |_| DeleteGroupsRequest { groups_names: groups.clone() }).await;
}

async fn ask_about_offsets(connection: &Connection) {
    for generation in [-1, 7] {
        in_all_versions(connection, |version| OffsetCommitRequest {
            group_id: format!("committed-in-{version}"),
            generation_id_or_member_epoch: generation,
            topics: vec![OffsetCommitRequestTopic {
                name: "t".to_owned(),
                partitions: vec![OffsetCommitRequestPartition { committed_offset: 1, ..Default::default() }],
            }],
            ..OffsetCommitRequest::default()
        })
        .await;
    }
    let topic = OffsetFetchRequestTopic { name: "t".to_owned(), partition_indexes: vec![0, 9] };
    for topics in [Some(vec![topic]), None] {
        in_all_versions(connection, |version| {
            let (group_id, mut topics) = (format!("committed-in-{version}"), topics.clone());
            if version >= 8 {
                let group =
                    OffsetFetchRequestGroup { group_id, topics, ..OffsetFetchRequestGroup::default() };
                return OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() };
            }
            if version < 2 {
                topics.get_or_insert_default();
            }
            OffsetFetchRequest { group_id, topics, ..OffsetFetchRequest::default() }
        })
        .await;
    }
    in_all_versions(connection, |_| OffsetDeleteRequest {
        group_id: "committed-in-8".to_owned(),
        topics: vec![OffsetDeleteRequestTopic {
            name: "t".to_owned(),
            partitions: vec![OffsetDeleteRequestPartition::default()],
        }],
    })
    .await;
}
