//! A group whose coordinator stops goes on at another broker: its members, its generation, its offsets.

mod support;

use bytes::Bytes;
use sillon_broker::Running;
use sillon_client::Connection;
use sillon_protocol::{ErrorCode, messages::*, wire::Request};
use sillon_runtime::Runtime;
use std::{path::Path, time::Duration};
use support::*;

/// The tests share the machine with others.
const SOON: Duration = Duration::from_secs(20);

/// Three brokers, the coordinator inside the first, by their numbers.
async fn three(runtime: &Runtime, directory: &Path) -> Vec<(i32, Running)> {
    let mut brokers = Vec::new();
    let mut coordinator = String::new();
    for id in [1, 2, 3] {
        let of_id = match id {
            1 => String::new(),
            _ => format!("zookeeper.connect={coordinator}\n"),
        };
        let more = format!(
            "broker.id={id}\n{of_id}offsets.topic.num.partitions=6\ngroup.initial.rebalance.delay.ms=0"
        );
        let broker = start(runtime, &directory.join(id.to_string()), &more).await;
        coordinator = broker.coordinator().unwrap_or(coordinator);
        brokers.push((id, broker));
    }
    brokers
}

/// Asks again for as long as an answer says that it is too early.
async fn until<R: Request>(
    runtime: &Runtime,
    connection: &Connection,
    version: i16,
    request: &R,
    code: impl Fn(&R::Response) -> i16,
) -> R::Response {
    let deadline = runtime.now() + SOON;
    loop {
        let answer = ask(connection, version, request).await;
        let code = ErrorCode::from(code(&answer));
        let is_too_early = [
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
            ErrorCode::NOT_COORDINATOR,
        ];
        if !is_too_early.contains(&code) {
            return answer;
        }
        assert!(runtime.now() < deadline, "{code} for too long");
        runtime.sleep(Duration::from_millis(20)).await;
    }
}

async fn coordinator_of(runtime: &Runtime, connection: &Connection, group: &str) -> i32 {
    let request = FindCoordinatorRequest { coordinator_keys: vec![group.to_owned()], ..Default::default() };
    let found = until(runtime, connection, 6, &request, |found| found.coordinators[0].error_code).await;
    assert_eq!(found.coordinators[0].error_code, 0);
    found.coordinators[0].node_id
}

/// The only member of a group, with its generation; it has committed an offset.
async fn begin(runtime: &Runtime, connection: &Connection, group: &str) -> (String, i32) {
    let protocol = JoinGroupRequestProtocol { name: "range".to_owned(), metadata: Bytes::from_static(b"?") };
    let request = JoinGroupRequest {
        group_id: group.to_owned(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![protocol],
        ..JoinGroupRequest::default()
    };
    let joined = until(runtime, connection, 3, &request, |joined| joined.error_code).await;
    assert_eq!(joined.error_code, 0);
    let (member, generation) = (joined.member_id, joined.generation_id);
    let assignment = SyncGroupRequestAssignment {
        member_id: member.clone(),
        assignment: Bytes::from_static(b"all of it"),
    };
    let request = SyncGroupRequest {
        group_id: group.to_owned(),
        generation_id: generation,
        member_id: member.clone(),
        assignments: vec![assignment],
        ..SyncGroupRequest::default()
    };
    assert_eq!(ask(connection, 3, &request).await.error_code, 0);
    let partition = OffsetCommitRequestPartition { committed_offset: 7, ..Default::default() };
    let request = OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: generation,
        member_id: member.clone(),
        topics: vec![OffsetCommitRequestTopic { name: "t".to_owned(), partitions: vec![partition] }],
        ..OffsetCommitRequest::default()
    };
    assert_eq!(ask(connection, 8, &request).await.topics[0].partitions[0].error_code, 0);
    (member, generation)
}

#[test]
fn another_broker_goes_on_with_the_group() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let mut brokers = three(&runtime, directory.path()).await;
        let first = connect(&runtime, &brokers[0].1).await;
        let topic = CreatableTopic {
            name: "t".to_owned(),
            num_partitions: 1,
            replication_factor: 3,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() };
        assert_eq!(ask(&first, 7, &request).await.topics[0].error_code, 0);
        // A group that another broker than the first coordinates.
        let mut found = None;
        for number in 0..100 {
            let group = format!("g{number}");
            match coordinator_of(&runtime, &first, &group).await {
                1 => {}
                coordinator => {
                    found = Some((group, coordinator));
                    break;
                }
            }
        }
        let (group, coordinator) = found.expect("the partitions are led by all of them");
        let index = brokers.iter().position(|(id, _)| *id == coordinator).unwrap();
        let connection = connect(&runtime, &brokers[index].1).await;
        let (member, generation) = begin(&runtime, &connection, &group).await;
        brokers.remove(index).1.stop().await.unwrap();

        let next = coordinator_of(&runtime, &first, &group).await;
        assert_ne!(next, coordinator);
        let index = brokers.iter().position(|(id, _)| *id == next).unwrap();
        let connection = connect(&runtime, &brokers[index].1).await;
        let wanted = OffsetFetchRequestGroup { group_id: group.clone(), ..Default::default() };
        let request = OffsetFetchRequest { groups: vec![wanted], ..OffsetFetchRequest::default() };
        let fetched = until(&runtime, &connection, 8, &request, |fetched| fetched.groups[0].error_code).await;
        assert_eq!(fetched.groups[0].topics[0].partitions[0].committed_offset, 7);
        let heartbeat = HeartbeatRequest {
            group_id: group.clone(),
            generation_id: generation,
            member_id: member.clone(),
            ..HeartbeatRequest::default()
        };
        assert_eq!(ask(&connection, 3, &heartbeat).await.error_code, 0);
        let request = SyncGroupRequest {
            group_id: group,
            generation_id: generation,
            member_id: member,
            ..SyncGroupRequest::default()
        };
        assert_eq!(ask(&connection, 3, &request).await.assignment, &b"all of it"[..]);
        for (_, broker) in brokers.into_iter().rev() {
            broker.stop().await.unwrap();
        }
    });
}
