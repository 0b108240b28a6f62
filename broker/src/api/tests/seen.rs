//! What clients see of a cluster.

use super::{cluster_of, partition, topic_id};
use crate::{
    api::{
        describe_topic_partitions, list_config_resources, list_partition_reassignments, metadata, view::View,
    },
    metadata::MetadataImage,
    types::BrokerId,
};
use sillon_protocol::{
    ErrorCode,
    messages::{
        Cursor, DescribeTopicPartitionsRequest, ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsTopic, MetadataRequest, MetadataRequestTopic, MetadataResponse,
    },
};
use std::{collections::BTreeMap, sync::Arc};

fn view(image: MetadataImage) -> View {
    View {
        image: Arc::new(image),
        departed: Vec::new(),
        own: BrokerId(1),
        own_endpoint: ("own".to_owned(), 9999),
        listener: "PLAINTEXT".to_owned(),
        is_open: Box::new(|_, _| true),
    }
}

/// Three brokers of which the third is gone, with a partition that it was in sync for, and one that only it had.
fn wounded() -> MetadataImage {
    let mut leaderless = partition(-1, &[3], &[]);
    leaderless.eligible_leader_replicas = vec![BrokerId(3)];
    leaderless.last_known_leader = Some(BrokerId(3));
    cluster_of(&[1, 2], vec![partition(1, &[3, 1, 2], &[1, 2]), leaderless])
}

fn all(view: &View, version: i16) -> MetadataResponse {
    let request = MetadataRequest { topics: None, ..MetadataRequest::default() };
    metadata::answer(view, version, request, &BTreeMap::new())
}

#[test]
fn metadata_of_three_brokers_one_gone() {
    let seen = all(&view(wounded()), 13);
    let brokers: Vec<_> =
        seen.brokers.iter().map(|b| (b.node_id, &*b.host, b.port, b.rack.as_deref())).collect();
    // Of itself the broker knows best through which address this client reaches it.
    assert_eq!(brokers, [(1, "own", 9999, Some("rack-1")), (2, "n2", 9092, Some("rack-2"))]);
    assert_eq!((seen.controller_id, seen.cluster_id.as_deref()), (2, Some("c")));
    let mut moved = view(wounded());
    let third = cluster_of(&[3], Vec::new()).brokers[&BrokerId(3)].clone();
    moved.departed.push((BrokerId(3), third));
    let later = all(&moved, 13);
    let ids: Vec<_> = later.brokers.iter().map(|broker| broker.node_id).collect();
    assert_eq!(ids, [1, 2, 3], "one that was there a moment ago is told of");
    assert_eq!(later.topics, seen.topics, "and leads and holds nothing");
    let mut without = wounded();
    without.controller = Some(BrokerId(3));
    assert_eq!(all(&view(without), 13).controller_id, -1, "a controller that is gone is none");
    let topic = &seen.topics[0];
    assert_eq!((topic.name.as_deref(), topic.topic_id, topic.error_code), (Some("t"), topic_id(5).0, 0));
    let [first, second] = &topic.partitions[..] else { panic!("two partitions") };
    assert_eq!((first.error_code, first.leader_id, first.leader_epoch), (0, 1, 7));
    assert_eq!((&first.replica_nodes[..], &first.isr_nodes[..]), (&[3, 1, 2][..], &[1, 2][..]));
    assert_eq!(first.offline_replicas, [3]);
    assert_eq!(ErrorCode::from(second.error_code), ErrorCode::LEADER_NOT_AVAILABLE);
    assert_eq!((second.leader_id, second.leader_epoch), (-1, 7));
    assert_eq!((&second.isr_nodes[..], &second.offline_replicas[..]), (&[][..], &[3][..]));
}

#[test]
fn a_leader_without_the_clients_listener_cannot_be_seen() {
    let mut image = cluster_of(&[1, 2], vec![partition(2, &[1, 2], &[1, 2])]);
    let mut second = (*image.brokers[&BrokerId(2)]).clone();
    second.endpoints[0].listener = "INTERNAL".to_owned();
    image.brokers.insert(BrokerId(2), Arc::new(second));
    let view = view(image);
    for (version, code) in [(5, ErrorCode::LEADER_NOT_AVAILABLE), (6, ErrorCode::LISTENER_NOT_FOUND)] {
        let seen = all(&view, version);
        assert_eq!(seen.brokers.len(), 1);
        assert_eq!(
            seen.controller_id, 1,
            "it is the controller that cannot be seen, and this broker hands on"
        );
        let partition = &seen.topics[0].partitions[0];
        assert_eq!((ErrorCode::from(partition.error_code), partition.leader_id), (code, -1));
        // It lives: the replica is not offline.
        assert!(partition.offline_replicas.is_empty());
    }
}

#[test]
fn a_partition_whose_log_cannot_be_opened_here_has_no_leader() {
    let mut view =
        view(cluster_of(&[1, 2], vec![partition(1, &[1, 2], &[1, 2]), partition(2, &[1, 2], &[1])]));
    view.is_open = Box::new(|_, _| false);
    let seen = all(&view, 13);
    let partitions = &seen.topics[0].partitions;
    assert_eq!(ErrorCode::from(partitions[0].error_code), ErrorCode::LEADER_NOT_AVAILABLE);
    assert_eq!((partitions[1].error_code, partitions[1].leader_id), (0, 2));
    assert!(partitions.iter().all(|partition| partition.offline_replicas == [1]));
}

#[test]
fn unknown_topics_have_the_code_for_the_way_they_were_asked_for() {
    let view = view(wounded());
    let by_name = |name: &str| MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() };
    let by_id = MetadataRequestTopic { topic_id: topic_id(6).0, name: None };
    let topics = vec![by_name("new"), by_name(".."), by_name("refused"), by_id];
    let refusals = BTreeMap::from([("refused".to_owned(), ErrorCode::INVALID_REPLICATION_FACTOR)]);
    let expected = [
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::INVALID_TOPIC_EXCEPTION,
        ErrorCode::INVALID_REPLICATION_FACTOR,
        ErrorCode::UNKNOWN_TOPIC_ID,
    ];
    for (version, nameless) in [(10, Some("")), (12, None)] {
        let request = MetadataRequest { topics: Some(topics.clone()), ..MetadataRequest::default() };
        let seen = metadata::answer(&view, version, request, &refusals).topics;
        let codes: Vec<_> = seen.iter().map(|topic| ErrorCode::from(topic.error_code)).collect();
        assert_eq!(codes, expected);
        assert_eq!(seen[3].name.as_deref(), nameless);
    }
}

#[test]
fn partitions_are_described_page_by_page() {
    let view = view(wounded());
    let mut request = DescribeTopicPartitionsRequest { response_partition_limit: 1, ..Default::default() };
    let first = describe_topic_partitions::answer(&view, request.clone());
    assert_eq!(first.topics[0].partitions.len(), 1);
    let cursor = Cursor { topic_name: "t".to_owned(), partition_index: 1 };
    assert_eq!(first.next_cursor, Some(cursor.clone()));
    request.cursor = Some(cursor);
    let second = describe_topic_partitions::answer(&view, request);
    let partition = &second.topics[0].partitions[0];
    assert_eq!((partition.partition_index, partition.leader_id), (1, -1));
    assert_eq!(partition.eligible_leader_replicas.as_deref(), Some(&[3][..]));
    assert_eq!(partition.last_known_elr.as_deref(), Some(&[3][..]));
    assert_eq!(second.next_cursor, None);
}

#[test]
fn only_what_is_being_moved_is_listed() {
    let mut moving = partition(1, &[1, 2, 3], &[1, 2]);
    moving.adding = vec![BrokerId(3)];
    moving.removing = vec![BrokerId(2)];
    let image = cluster_of(&[1, 2, 3], vec![partition(1, &[1, 2], &[1, 2]), moving]);
    let all = list_partition_reassignments::list(&image, ListPartitionReassignmentsRequest::default());
    assert_eq!(all.topics.len(), 1);
    let [moved] = &all.topics[0].partitions[..] else { panic!("one is moved") };
    assert_eq!((moved.partition_index, &moved.replicas[..]), (1, &[1, 2, 3][..]));
    assert_eq!((&moved.adding_replicas[..], &moved.removing_replicas[..]), (&[3][..], &[2][..]));
    let of = |name: &str, indexes: &[i32]| {
        let (name, partition_indexes) = (name.to_owned(), indexes.to_vec());
        let topics = Some(vec![ListPartitionReassignmentsTopic { name, partition_indexes }]);
        let request = ListPartitionReassignmentsRequest { topics, ..Default::default() };
        list_partition_reassignments::list(&image, request).topics.len()
    };
    assert_eq!((of("t", &[0, 99, -1]), of("t", &[1, 1]), of("unknown", &[0])), (0, 1, 0));
}

#[test]
fn topics_and_brokers_can_be_configured() {
    let image = cluster_of(&[1, 2], vec![partition(1, &[1], &[1])]);
    let names = |version, types: &[i8]| -> Result<Vec<String>, ErrorCode> {
        let answer = list_config_resources::list(&image, version, types);
        match ErrorCode::from(answer.error_code) {
            ErrorCode::NONE => {
                Ok(answer.config_resources.into_iter().map(|found| found.resource_name).collect())
            }
            code => Err(code),
        }
    };
    let owned = |names: &[&str]| Ok(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(names(1, &[]), owned(&["t", "1", "2"]));
    assert_eq!(names(1, &[4]), owned(&["1", "2"]));
    assert_eq!(names(1, &[32, 2]), owned(&["t"]));
    assert_eq!(names(0, &[]), owned(&[]));
    assert_eq!(names(1, &[1]), Err(ErrorCode::UNSUPPORTED_VERSION));
}
