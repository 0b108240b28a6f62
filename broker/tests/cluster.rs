//! Three real brokers over real sockets, with the coordinator inside the first.

mod support;

use sillon_broker::Running;
use sillon_client::Connection;
use sillon_protocol::{
    ErrorCode,
    messages::{
        CreatableTopic, CreateTopicsRequest, MetadataRequest, MetadataRequestTopic, MetadataResponseTopic,
    },
};
use sillon_runtime::Runtime;
use std::{path::Path, time::Duration};
use support::{ask, batch, connect, fetch_request, produce, scenario, start, values};

/// The tests share the machine with others.
const SOON: Duration = Duration::from_secs(10);

async fn three(runtime: &Runtime, directory: &Path) -> Vec<Running> {
    let mut brokers = Vec::new();
    let mut coordinator = String::new();
    for id in [1, 2, 3] {
        let more = match id {
            1 => "broker.id=1".to_owned(),
            id => format!("broker.id={id}\nzookeeper.connect={coordinator}"),
        };
        let broker = start(runtime, &directory.join(id.to_string()), &more).await;
        coordinator = broker.coordinator().unwrap_or(coordinator);
        brokers.push(broker);
    }
    brokers
}

async fn create(connection: &Connection, name: &str, replicas: i16) -> ErrorCode {
    let topic = CreatableTopic {
        name: name.to_owned(),
        num_partitions: 1,
        replication_factor: replicas,
        ..CreatableTopic::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..CreateTopicsRequest::default() };
    ErrorCode::from(ask(connection, 7, &request).await.topics[0].error_code)
}

async fn describe(connection: &Connection, name: &str) -> MetadataResponseTopic {
    let topic = MetadataRequestTopic { name: Some(name.to_owned()), ..MetadataRequestTopic::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..MetadataRequest::default() };
    ask(connection, 9, &request).await.topics.remove(0)
}

/// The broker that leads, as that broker sees it.
async fn leader<'a>(runtime: &Runtime, brokers: &'a [(i32, Running)], not: i32) -> (i32, &'a Running) {
    let deadline = runtime.now() + SOON;
    loop {
        for (id, broker) in brokers {
            let topic = describe(&connect(runtime, broker).await, "t").await;
            if topic.partitions.first().is_some_and(|partition| partition.leader_id == *id && *id != not) {
                return (*id, broker);
            }
        }
        assert!(runtime.now() < deadline, "somebody leads");
        runtime.sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn a_topic_outlives_the_stop_of_its_leader() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let brokers = three(&runtime, directory.path()).await;
        // Only one of them is controller; whom a client asks does not matter.
        for broker in &brokers[1..] {
            let connection = connect(&runtime, broker).await;
            let code = create(&connection, "t", 3).await;
            assert!([ErrorCode::NONE, ErrorCode::TOPIC_ALREADY_EXISTS].contains(&code), "{code}");
            assert_eq!(describe(&connection, "t").await.partitions[0].replica_nodes.len(), 3);
        }
        let mut brokers: Vec<(i32, Running)> = (1..).zip(brokers).collect();
        let (first, broker) = leader(&runtime, &brokers, -1).await;
        let written = produce(&connect(&runtime, broker).await, "t", batch(&["a", "b"], 1000, None)).await;
        assert_eq!((ErrorCode::from(written.error_code), written.base_offset), (ErrorCode::NONE, 0));
        // The coordinator is inside broker 1, which stops last.
        let stopping = brokers.iter().position(|(id, _)| *id == if first == 1 { 2 } else { first });
        let (stopped, broker) = brokers.remove(stopping.expect("it is one of them"));
        broker.stop().await.unwrap();
        let (_, broker) = leader(&runtime, &brokers, stopped).await;
        let connection = connect(&runtime, broker).await;
        let written = produce(&connection, "t", batch(&["c"], 1000, None)).await;
        assert_eq!((ErrorCode::from(written.error_code), written.base_offset), (ErrorCode::NONE, 2));
        assert_eq!(values(&ask(&connection, 12, &fetch_request("t", 0)).await), ["a", "b", "c"]);
        while let Some((_, broker)) = brokers.pop() {
            broker.stop().await.unwrap();
        }
    });
}

#[test]
fn produces_do_not_wait_for_one_another_and_whatever_else_comes_waits_for_them() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let brokers = three(&runtime, directory.path()).await;
        let brokers: Vec<(i32, Running)> = (1..).zip(brokers).collect();
        let code = create(&connect(&runtime, &brokers[0].1).await, "t", 3).await;
        assert_eq!(code, ErrorCode::NONE);
        let (_, broker) = leader(&runtime, &brokers, -1).await;
        let connection = connect(&runtime, broker).await;
        for round in 0..20 {
            let fetch = fetch_request("t", 4 * round);
            // All are on their way before the first is answered; the last request looks at what those before it did.
            let (first, second, third, fetched) = tokio::join!(
                biased;
                produce(&connection, "t", batch(&["a"], 1000, None)),
                produce(&connection, "t", batch(&["b", "c"], 1000, None)),
                produce(&connection, "t", batch(&["d"], 1000, None)),
                ask(&connection, 12, &fetch),
            );
            let offsets = [&first, &second, &third].map(|written| {
                assert_eq!(ErrorCode::from(written.error_code), ErrorCode::NONE);
                written.base_offset - 4 * round
            });
            assert_eq!(offsets, [0, 1, 3]);
            assert_eq!(values(&fetched), ["a", "b", "c", "d"]);
        }
        for (_, broker) in brokers.into_iter().rev() {
            broker.stop().await.unwrap();
        }
    });
}
