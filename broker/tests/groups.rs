//! Consumer groups over a socket: members share, offsets outlive the broker, the brokers' own topic is theirs.

mod support;

use bytes::Bytes;
use sillon_broker::Running;
use sillon_client::Connection;
use sillon_protocol::{ErrorCode, messages::*};
use sillon_runtime::Runtime;
use std::path::Path;
use support::*;

const GROUPS: &str = "group.initial.rebalance.delay.ms=100\noffsets.topic.num.partitions=4";

async fn start_groups(runtime: &Runtime, directory: &Path) -> (Running, Connection) {
    let broker = start(runtime, directory, GROUPS).await;
    let connection = connect(runtime, &broker).await;
    (broker, connection)
}

/// Who coordinates a group; asked until somebody does.
async fn find(connection: &Connection, group: &str) -> Coordinator {
    let request = FindCoordinatorRequest { coordinator_keys: vec![group.to_owned()], ..Default::default() };
    ask(connection, 6, &request).await.coordinators.remove(0)
}

fn join_request(member: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: 6000,
        rebalance_timeout_ms: 10_000,
        member_id: member.to_owned(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".to_owned(),
            metadata: Bytes::from_static(b"?"),
        }],
        ..JoinGroupRequest::default()
    }
}

/// Joins as a new member does: once to learn its id, once with it. A group that is being loaded is waited for.
async fn join(runtime: &Runtime, connection: &Connection) -> JoinGroupResponse {
    loop {
        let named = ask(connection, 9, &join_request("")).await;
        match ErrorCode::from(named.error_code) {
            ErrorCode::MEMBER_ID_REQUIRED => {
                return ask(connection, 9, &join_request(&named.member_id)).await;
            }
            code => assert_eq!(code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        }
        runtime.sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn sync(connection: &Connection, joined: &JoinGroupResponse) -> SyncGroupResponse {
    let assign = |member: &JoinGroupResponseMember| SyncGroupRequestAssignment {
        member_id: member.member_id.clone(),
        assignment: Bytes::copy_from_slice(member.member_id.as_bytes()),
    };
    let request = SyncGroupRequest {
        group_id: "g".to_owned(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: joined.protocol_type.clone(),
        protocol_name: joined.protocol_name.clone(),
        assignments: joined.members.iter().map(assign).collect(),
        ..SyncGroupRequest::default()
    };
    ask(connection, 5, &request).await
}

async fn commit(
    connection: &Connection,
    member: &str,
    generation: i32,
    topic: &str,
    offset: i64,
) -> ErrorCode {
    let partition = OffsetCommitRequestPartition {
        committed_offset: offset,
        committed_metadata: Some("noted".to_owned()),
        ..OffsetCommitRequestPartition::default()
    };
    let request = OffsetCommitRequest {
        group_id: "g".to_owned(),
        generation_id_or_member_epoch: generation,
        member_id: member.to_owned(),
        topics: vec![OffsetCommitRequestTopic { name: topic.to_owned(), partitions: vec![partition] }],
        ..OffsetCommitRequest::default()
    };
    ask(connection, 9, &request).await.topics[0].partitions[0].error_code.into()
}

/// All committed offsets of the group, as topic, partition and offset. A group that is being loaded is waited for.
async fn offsets(runtime: &Runtime, connection: &Connection) -> Vec<(String, i32, i64)> {
    loop {
        let group = OffsetFetchRequestGroup { group_id: "g".to_owned(), ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() };
        let group = ask(connection, 9, &request).await.groups.remove(0);
        match ErrorCode::from(group.error_code) {
            ErrorCode::NONE => {
                let topics = group.topics.into_iter();
                let offsets = topics.flat_map(|topic| {
                    let name = topic.name;
                    let partitions = topic.partitions.into_iter();
                    partitions.map(move |found| (name.clone(), found.partition_index, found.committed_offset))
                });
                return offsets.collect();
            }
            code => assert_eq!(code, ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        }
        runtime.sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn describe(connection: &Connection) -> DescribedGroup {
    let request = DescribeGroupsRequest { groups: vec!["g".to_owned()], ..Default::default() };
    ask(connection, 6, &request).await.groups.remove(0)
}

#[test]
fn two_members_share_and_their_offsets_outlive_the_broker() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let (broker, first) = start_groups(&runtime, directory.path()).await;
        create_topic(&first, "t", 2, &[]).await;
        let coordinator = find(&first, "g").await;
        assert_eq!((coordinator.error_code, coordinator.node_id), (0, 0));
        assert_eq!(coordinator.port, i32::from(broker.addresses()[0].port()));

        let second = connect(&runtime, &broker).await;
        let (left, right) = tokio::join!(join(&runtime, &first), join(&runtime, &second));
        assert_eq!((left.error_code, right.error_code, left.generation_id), (0, 0, 1));
        assert_eq!((&left.leader, left.members.len() + right.members.len()), (&right.leader, 2));
        let (left_synced, right_synced) = tokio::join!(sync(&first, &left), sync(&second, &right));
        assert_eq!(left_synced.assignment, left.member_id.as_bytes());
        assert_eq!(right_synced.assignment, right.member_id.as_bytes());

        assert_eq!(commit(&first, &left.member_id, 1, "t", 7).await, ErrorCode::NONE);
        assert_eq!(commit(&first, &left.member_id, 0, "t", 9).await, ErrorCode::ILLEGAL_GENERATION);
        let unknown = commit(&first, &left.member_id, 1, "unknown", 9).await;
        assert_eq!(unknown, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        assert_eq!(offsets(&runtime, &second).await, [("t".to_owned(), 0, 7)]);
        let described = describe(&first).await;
        assert_eq!((described.group_state.as_str(), described.members.len()), ("Stable", 2));
        assert_eq!(described.members[0].client_host, "/127.0.0.1");
        broker.stop().await.unwrap();

        let (broker, connection) = start_groups(&runtime, directory.path()).await;
        assert_eq!(offsets(&runtime, &connection).await, [("t".to_owned(), 0, 7)]);
        let again = describe(&connection).await;
        assert_eq!(again, described, "the members are still members, with the same assignments");
        let heartbeat = HeartbeatRequest {
            group_id: "g".to_owned(),
            generation_id: 1,
            member_id: left.member_id.clone(),
            ..HeartbeatRequest::default()
        };
        assert_eq!(ask(&connection, 4, &heartbeat).await.error_code, 0);
        broker.stop().await.unwrap();
    });
}

#[test]
fn the_offsets_topic_is_the_brokers_own() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let (broker, connection) = start_groups(&runtime, directory.path()).await;
        assert_eq!(find(&connection, "").await.error_code, ErrorCode::INVALID_GROUP_ID.code());
        assert_eq!(find(&connection, "g").await.error_code, 0);
        let metadata = ask(&connection, 12, &MetadataRequest { topics: None, ..Default::default() }).await;
        let topic = &metadata.topics[0];
        assert_eq!((topic.name.as_deref(), topic.is_internal), (Some("__consumer_offsets"), true));
        assert_eq!((topic.partitions.len(), topic.partitions[0].replica_nodes.len()), (4, 1));

        let records = batch(&["a"], 1_700_000_000_000, None);
        let produced = produce(&connection, "__consumer_offsets", records).await;
        assert_eq!(ErrorCode::from(produced.error_code), ErrorCode::INVALID_TOPIC_EXCEPTION);
        broker.stop().await.unwrap();
    });
}

#[test]
fn groups_and_topics_are_deleted_with_their_offsets() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let (broker, connection) = start_groups(&runtime, directory.path()).await;
        for topic in ["t", "u", "v"] {
            create_topic(&connection, topic, 1, &[]).await;
        }
        find(&connection, "g").await;
        // Whoever is no member keeps offsets in a group that has none.
        while commit(&connection, "", -1, "t", 1).await == ErrorCode::COORDINATOR_LOAD_IN_PROGRESS {}
        assert_eq!(commit(&connection, "", -1, "u", 2).await, ErrorCode::NONE);
        assert_eq!(commit(&connection, "", -1, "v", 3).await, ErrorCode::NONE);
        let topic = OffsetDeleteRequestTopic {
            name: "u".to_owned(),
            partitions: vec![OffsetDeleteRequestPartition::default()],
        };
        let request = OffsetDeleteRequest { group_id: "g".to_owned(), topics: vec![topic] };
        let deleted = ask(&connection, 0, &request).await;
        assert_eq!((deleted.error_code, deleted.topics[0].partitions[0].error_code), (0, 0));
        let left = [("t".to_owned(), 0, 1), ("v".to_owned(), 0, 3)];
        assert_eq!(offsets(&runtime, &connection).await, left);

        let request =
            DeleteTopicsRequest { topic_names: vec!["t".to_owned()], ..DeleteTopicsRequest::default() };
        assert_eq!(ask(&connection, 5, &request).await.responses[0].error_code, 0);
        while offsets(&runtime, &connection).await.len() > 1 {
            runtime.sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(offsets(&runtime, &connection).await, [("v".to_owned(), 0, 3)]);

        let listed = ask(&connection, 5, &ListGroupsRequest::default()).await;
        assert_eq!((listed.groups.len(), listed.groups[0].group_state.as_str()), (1, "Empty"));
        let names = vec!["g".to_owned(), "nobody".to_owned()];
        let deleted = ask(&connection, 2, &DeleteGroupsRequest { groups_names: names }).await;
        let codes: Vec<ErrorCode> = deleted.results.iter().map(|result| result.error_code.into()).collect();
        assert_eq!(codes, [ErrorCode::NONE, ErrorCode::GROUP_ID_NOT_FOUND]);
        broker.stop().await.unwrap();
        let (broker, connection) = start_groups(&runtime, directory.path()).await;
        assert_eq!(offsets(&runtime, &connection).await, []);
        assert_eq!(describe(&connection).await.error_code, ErrorCode::GROUP_ID_NOT_FOUND.code());
        broker.stop().await.unwrap();
    });
}
