//! Requests that change the cluster.

use super::{FakeCluster, cluster_of, partition, topic_id, with_admin};
use crate::{
    api::{
        alter_configs, alter_partition, alter_partition_reassignments, create_partitions, create_topics,
        delete_topics, elect_leaders, incremental_alter_configs,
    },
    cluster::{Cluster, ClusterError},
    controller::{Command, ConfigEdit, ConfigOperation, ControllerError, ElectionKind, IsrProposal, Outcome},
    metadata::{MetadataImage, image::ALL_BROKERS},
    types::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition},
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::*,
    wire::{Encoder, Message},
};
use std::collections::BTreeMap;

fn refusal(code: ErrorCode, text: &str) -> ControllerError {
    ControllerError::new(code, text)
}

fn created(replicas: &[&[i32]]) -> Outcome {
    let assignment =
        replicas.iter().map(|replicas| replicas.iter().copied().map(BrokerId).collect()).collect();
    let configs = BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]);
    Outcome::TopicCreated { id: topic_id(7), assignment, configs }
}

fn wanted(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic { name: name.to_owned(), num_partitions, replication_factor, ..CreatableTopic::default() }
}

fn create(cluster: &FakeCluster, topics: Vec<CreatableTopic>) -> Vec<CreatableTopicResult> {
    let request = CreateTopicsRequest { topics, ..CreateTopicsRequest::default() };
    with_admin(cluster, async |admin| create_topics::create_anywhere(admin, request).await).unwrap().topics
}

#[test]
fn a_topic_is_created_and_its_configuration_told() {
    let outcomes =
        [Ok(created(&[&[1, 2], &[2, 3]])), Err(refusal(ErrorCode::TOPIC_ALREADY_EXISTS, "exists"))];
    let cluster = FakeCluster::controlling(MetadataImage::default(), outcomes);
    let mut assigned = wanted("assigned", -1, -1);
    assigned.assignments = vec![
        CreatableReplicaAssignment { partition_index: 1, broker_ids: vec![2] },
        CreatableReplicaAssignment { partition_index: 0, broker_ids: vec![1] },
    ];
    let results = create(&cluster, vec![wanted("a", 2, -1), assigned]);
    assert_eq!((results[0].error_code, results[0].topic_id), (0, topic_id(7).0));
    assert_eq!((results[0].num_partitions, results[0].replication_factor), (2, 2));
    let configs = results[0].configs.as_ref().unwrap();
    let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
    assert_eq!((retention.value.as_deref(), retention.config_source), (Some("5"), 1));
    assert_eq!(ErrorCode::from(results[1].error_code), ErrorCode::TOPIC_ALREADY_EXISTS);
    assert_eq!(results[1].error_message.as_deref(), Some("exists"));
    let commands = cluster.commands();
    let Command::CreateTopic { partitions, replication_factor, assignment, .. } = &commands[0] else {
        panic!("{commands:?}")
    };
    assert_eq!((*partitions, *replication_factor, assignment), (Some(2), None, &None));
    let Command::CreateTopic { partitions, assignment, .. } = &commands[1] else { panic!("{commands:?}") };
    assert_eq!((partitions, assignment), (&None, &Some(vec![vec![BrokerId(1)], vec![BrokerId(2)]])));
    assert_eq!(cluster.waited_for(), [1], "the answer comes when the broker's own metadata shows the topic");
}

#[test]
fn a_request_that_contradicts_itself_never_reaches_the_controller() {
    let cluster = FakeCluster::controlling(MetadataImage::default(), []);
    let assigned = |name: &str, partitions: &[i32]| {
        let mut topic = wanted(name, -1, -1);
        let list = |index: &i32| CreatableReplicaAssignment { partition_index: *index, broker_ids: vec![1] };
        topic.assignments = partitions.iter().map(list).collect();
        topic
    };
    let mut both = assigned("both", &[0]);
    both.num_partitions = 1;
    let twice = [wanted("twice", 1, 1), wanted("twice", 2, 1)];
    let others = [both, assigned("gap", &[0, 2]), assigned("double", &[0, 0])];
    let results = create(&cluster, twice.into_iter().chain(others).collect());
    let codes: Vec<_> =
        results.iter().map(|result| (&*result.name, ErrorCode::from(result.error_code))).collect();
    assert_eq!(
        codes,
        [
            ("twice", ErrorCode::INVALID_REQUEST),
            ("both", ErrorCode::INVALID_REQUEST),
            ("gap", ErrorCode::INVALID_REPLICA_ASSIGNMENT),
            ("double", ErrorCode::INVALID_REPLICA_ASSIGNMENT),
        ]
    );
    assert_eq!(cluster.commands(), []);
}

#[test]
fn topics_are_created_by_way_of_the_controller() {
    let cluster = FakeCluster::elsewhere(|frame: Bytes| {
        let (header, mut body) = decode_request_header(&frame).expect("the header is one of a request");
        let request = CreateTopicsRequest::decode(header.api_version, &mut body).expect("it is whole");
        let name = request.topics[0].name.clone();
        let topics = vec![CreatableTopicResult { name, ..CreatableTopicResult::default() }];
        let response = CreateTopicsResponse { topics, ..CreateTopicsResponse::default() };
        let mut encoder = Encoder::new();
        ResponseHeader { correlation_id: header.correlation_id }
            .encode(response_header_version(header.api_key, header.api_version), &mut encoder);
        response.encode(header.api_version, &mut encoder).expect("it can be told");
        Ok(encoder.buffer.freeze())
    });
    let results = create(&cluster, vec![wanted("a", -1, -1)]);
    assert_eq!((&*results[0].name, results[0].error_code), ("a", 0));
    // Bytes that are no answer are no panic.
    let cluster = FakeCluster::elsewhere(|_| Ok(Bytes::from_static(b"\0\0\0\0\0\xff\xff")));
    let request = CreateTopicsRequest::default();
    let result = with_admin(&cluster, async |admin| create_topics::create_anywhere(admin, request).await);
    assert!(matches!(result, Err(ClusterError::Unreachable { .. })));
}

#[test]
fn a_broker_that_is_no_longer_controller_says_so() {
    let cluster = FakeCluster::elsewhere(|_| Err(ClusterError::NoController));
    let topics = vec![CreatePartitionsTopic { name: "t".to_owned(), count: 3, assignments: None }];
    let request = CreatePartitionsRequest { topics, ..CreatePartitionsRequest::default() };
    let answer = with_admin(&cluster, async |admin| create_partitions::create(admin, request).await);
    assert_eq!(ErrorCode::from(answer.results[0].error_code), ErrorCode::NOT_CONTROLLER);
    assert!(cluster.waited_for().is_empty());
}

#[test]
fn partitions_are_added_and_duplicates_refused() {
    let outcomes = [Ok(Outcome::Done)];
    let cluster = FakeCluster::controlling(MetadataImage::default(), outcomes);
    let topic = |name: &str| CreatePartitionsTopic {
        name: name.to_owned(),
        count: 3,
        assignments: Some(vec![CreatePartitionsAssignment { broker_ids: vec![2, 1] }]),
    };
    let topics = vec![topic("twice"), topic("a"), topic("twice")];
    let request = CreatePartitionsRequest { topics, validate_only: true, ..Default::default() };
    let answer = with_admin(&cluster, async |admin| create_partitions::create(admin, request).await);
    let codes: Vec<_> = answer.results.iter().map(|result| (&*result.name, result.error_code)).collect();
    assert_eq!(codes, [("twice", ErrorCode::INVALID_REQUEST.code()), ("a", 0)]);
    let commands = cluster.commands();
    let [Command::CreatePartitions { name, total, assignment, validate_only, .. }] = &commands[..] else {
        panic!("{commands:?}")
    };
    assert_eq!((&**name, *total, *validate_only), ("a", 3, true));
    assert_eq!(assignment, &Some(vec![vec![BrokerId(2), BrokerId(1)]]));
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let image = cluster_of(&[1], vec![partition(1, &[1], &[1])]);
    let cluster = FakeCluster::controlling(image, [Ok(Outcome::Done), Ok(Outcome::Done)]);
    let state = |name: Option<&str>, id| DeleteTopicState { name: name.map(str::to_owned), topic_id: id };
    let nil = Default::default();
    let topics = vec![
        state(Some("t"), nil),
        state(None, topic_id(5).0),
        state(Some("unknown"), nil),
        state(None, topic_id(6).0),
    ];
    let request = DeleteTopicsRequest { topics, ..DeleteTopicsRequest::default() };
    let answer = with_admin(&cluster, async |admin| delete_topics::delete(admin, request).await);
    let codes: Vec<_> = answer
        .responses
        .iter()
        .map(|topic| (topic.name.as_deref(), ErrorCode::from(topic.error_code)))
        .collect();
    assert_eq!(
        codes,
        [
            (Some("t"), ErrorCode::NONE),
            (Some("t"), ErrorCode::NONE),
            (Some("unknown"), ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            (None, ErrorCode::UNKNOWN_TOPIC_ID),
        ]
    );
    let delete = Command::DeleteTopic { id: topic_id(5) };
    assert_eq!(cluster.commands(), [delete.clone(), delete]);
}

#[test]
fn configuration_is_edited() {
    let cluster = FakeCluster::controlling(
        MetadataImage::default(),
        [Ok(Outcome::Done), Ok(Outcome::Done), Err(refusal(ErrorCode::INVALID_CONFIG, "no"))],
    );
    let config = |name: &str, config_operation, value: Option<&str>| IncrementalAlterableConfig {
        name: name.to_owned(),
        config_operation,
        value: value.map(str::to_owned),
    };
    let resource = |resource_type, name: &str, configs| IncrementalAlterConfigsResource {
        resource_type,
        resource_name: name.to_owned(),
        configs,
    };
    let all = vec![
        config("a", 0, Some("1")),
        config("b", 1, None),
        config("c", 2, Some("2")),
        config("d", 3, Some("3")),
    ];
    let resources = vec![
        resource(2, "t", all),
        resource(4, "", vec![config("a", 1, None)]),
        resource(4, "3", Vec::new()),
        resource(4, "x", Vec::new()),
        resource(9, "x", Vec::new()),
        resource(2, "null", vec![config("a", 0, None)]),
        resource(2, "keys", vec![config("a", 1, None), config("a", 1, None)]),
        resource(2, "twice", Vec::new()),
        resource(2, "twice", Vec::new()),
    ];
    let request = IncrementalAlterConfigsRequest { resources, validate_only: false };
    let answer = with_admin(&cluster, async |admin| incremental_alter_configs::alter(admin, request).await);
    let codes: Vec<_> =
        answer.responses.iter().map(|response| ErrorCode::from(response.error_code)).collect();
    let invalid = ErrorCode::INVALID_REQUEST;
    let none = ErrorCode::NONE;
    assert_eq!(
        codes,
        [none, none, ErrorCode::INVALID_CONFIG, invalid, invalid, invalid, invalid, invalid],
        "a resource that is named twice is told once"
    );
    let edit = |key: &str, operation| ConfigEdit { key: key.to_owned(), operation };
    let edits = vec![
        edit("a", ConfigOperation::Set("1".to_owned())),
        edit("b", ConfigOperation::Delete),
        edit("c", ConfigOperation::Append("2".to_owned())),
        edit("d", ConfigOperation::Subtract("3".to_owned())),
    ];
    let (replace_all, validate_only) = (false, false);
    let of_broker = |broker, edits| Command::EditBrokerConfigs { broker, edits, replace_all, validate_only };
    assert_eq!(
        cluster.commands(),
        [
            Command::EditTopicConfigs { name: "t".into(), edits, replace_all, validate_only },
            of_broker(ALL_BROKERS, vec![edit("a", ConfigOperation::Delete)]),
            of_broker(BrokerId(3), Vec::new()),
        ]
    );
    assert_eq!(cluster.waited_for(), [2], "once, for the last that was done");
}

#[test]
fn configuration_is_replaced() {
    let cluster = FakeCluster::controlling(MetadataImage::default(), [Ok(Outcome::Done)]);
    let configs = vec![AlterableConfig { name: "a".to_owned(), value: Some("1".to_owned()) }];
    let resource = AlterConfigsResource { resource_type: 2, resource_name: "t".to_owned(), configs };
    let request = AlterConfigsRequest { resources: vec![resource], validate_only: true };
    let answer = with_admin(&cluster, async |admin| alter_configs::alter(admin, request).await);
    assert_eq!(answer.responses[0].error_code, 0);
    let edits = vec![ConfigEdit { key: "a".to_owned(), operation: ConfigOperation::Set("1".to_owned()) }];
    let expected =
        Command::EditTopicConfigs { name: "t".into(), edits, replace_all: true, validate_only: true };
    assert_eq!(cluster.commands(), [expected]);
}

#[test]
fn elections_are_told_by_partition_and_those_of_all_only_where_there_was_one() {
    let results = vec![
        (TopicPartition::new("a", 0), Ok(())),
        (TopicPartition::new("a", 1), Err(refusal(ErrorCode::ELECTION_NOT_NEEDED, "not needed"))),
        (TopicPartition::new("b", 0), Err(refusal(ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE, "gone"))),
    ];
    let named = vec![
        ElectLeadersTopic { topic: "b".to_owned(), partitions: vec![0] },
        ElectLeadersTopic { topic: "a".to_owned(), partitions: vec![1, 0, 1] },
    ];
    for (topic_partitions, told) in [(None, [1, 1]), (Some(named), [2, 1])] {
        let outcome = Outcome::Elected(results.clone());
        let cluster = FakeCluster::controlling(MetadataImage::default(), [Ok(outcome)]);
        let partitions =
            topic_partitions.as_ref().map(|_| results.iter().map(|(name, _)| name.clone()).collect());
        let request = ElectLeadersRequest { topic_partitions, ..ElectLeadersRequest::default() };
        let answer = with_admin(&cluster, async |admin| elect_leaders::elect(admin, 2, request).await);
        let counts: Vec<_> =
            answer.replica_election_results.iter().map(|topic| topic.partition_result.len()).collect();
        assert_eq!((counts, answer.error_code), (told.to_vec(), 0));
        assert_eq!(cluster.commands(), [Command::ElectLeaders { kind: ElectionKind::Preferred, partitions }]);
    }
    let cluster = FakeCluster::controlling(MetadataImage::default(), []);
    let request = ElectLeadersRequest { election_type: 2, ..ElectLeadersRequest::default() };
    let answer = with_admin(&cluster, async |admin| elect_leaders::elect(admin, 2, request).await);
    assert_eq!(ErrorCode::from(answer.error_code), ErrorCode::INVALID_REQUEST);
}

#[test]
fn reassignments_begin_and_are_taken_back() {
    let results = vec![
        (TopicPartition::new("a", 0), Ok(())),
        (TopicPartition::new("a", 1), Err(refusal(ErrorCode::NO_REASSIGNMENT_IN_PROGRESS, "none"))),
    ];
    let cluster = FakeCluster::controlling(MetadataImage::default(), [Ok(Outcome::Reassigned(results))]);
    let partition = |partition_index, replicas| ReassignablePartition { partition_index, replicas };
    let partitions = vec![
        partition(0, Some(vec![2, 3])),
        partition(1, None),
        partition(2, None),
        partition(2, Some(vec![1])),
    ];
    let topics = vec![ReassignableTopic { name: "a".to_owned(), partitions }];
    let request = AlterPartitionReassignmentsRequest { topics, ..Default::default() };
    let answer =
        with_admin(&cluster, async |admin| alter_partition_reassignments::reassign(admin, request).await);
    let codes: Vec<_> = answer.responses[0]
        .partitions
        .iter()
        .map(|partition| (partition.partition_index, ErrorCode::from(partition.error_code)))
        .collect();
    assert_eq!(
        codes,
        [(0, ErrorCode::NONE), (1, ErrorCode::NO_REASSIGNMENT_IN_PROGRESS), (2, ErrorCode::INVALID_REQUEST),]
    );
    let partitions = vec![
        (TopicPartition::new("a", 0), Some(vec![BrokerId(2), BrokerId(3)])),
        (TopicPartition::new("a", 1), None),
    ];
    let expected = Command::Reassign { partitions, allow_replication_factor_change: true };
    assert_eq!(cluster.commands(), [expected]);
}

#[test]
fn in_sync_replicas_are_proposed_and_the_true_state_comes_back() {
    let refused = refusal(ErrorCode::FENCED_LEADER_EPOCH, "old");
    let outcomes = vec![Ok(partition(1, &[1, 2, 3], &[1, 2])), Err(refused)];
    let outcome = Outcome::PartitionsAltered(outcomes);
    let stale = refusal(ErrorCode::STALE_BROKER_EPOCH, "old");
    let cluster = FakeCluster::controlling(MetadataImage::default(), [Ok(outcome), Err(stale)]);
    let controller = Cluster::controller(&cluster).unwrap();
    let member = AlterPartitionBroker { broker_id: 2, broker_epoch: 20 };
    let proposed = |partition_index| AlterPartitionPartition {
        partition_index,
        leader_epoch: 7,
        partition_epoch: 9,
        new_isr: vec![2],
        new_isr_with_epochs: vec![member.clone()],
        ..AlterPartitionPartition::default()
    };
    let partitions = vec![proposed(0), proposed(1)];
    let topics = vec![AlterPartitionTopic { topic_id: topic_id(5).0, partitions }];
    let request = AlterPartitionRequest { broker_id: 1, broker_epoch: 10, topics };
    let ask = |version| {
        let (controller, request) = (controller.clone(), request.clone());
        with_admin(&cluster, async move |_| alter_partition::alter(&*controller, version, request).await)
    };
    let answer = ask(3);
    let [first, second] = &answer.topics[0].partitions[..] else { panic!("two partitions") };
    assert_eq!((first.error_code, first.leader_id, first.leader_epoch, first.partition_epoch), (0, 1, 7, 9));
    assert_eq!(first.isr, [1, 2]);
    assert_eq!(ErrorCode::from(second.error_code), ErrorCode::FENCED_LEADER_EPOCH);
    assert_eq!(ErrorCode::from(ask(2).error_code), ErrorCode::STALE_BROKER_EPOCH);
    let epochs: Vec<_> = cluster
        .commands()
        .into_iter()
        .map(|command| match command {
            Command::AlterPartitions { proposals, .. } => proposals[0].clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = |epoch| IsrProposal {
        topic_id: topic_id(5),
        partition: 0,
        leader_epoch: LeaderEpoch(7),
        partition_epoch: PartitionEpoch(9),
        isr: vec![(BrokerId(2), BrokerEpoch(epoch))],
    };
    assert_eq!(epochs, [expected(20), expected(-1)], "before version 3 a proposal names no registrations");
}

#[test]
fn every_kind_of_change_can_be_refused_in_its_own_words() {
    let refusal = || (ErrorCode::NOT_CONTROLLER, "nobody".to_owned());
    let request = CreateTopicsRequest { topics: vec![wanted("a", 1, 1)], ..Default::default() };
    assert_eq!(create_topics::refused(1, request, refusal()).topics[0].error_code, 41);
    let request = DeleteTopicsRequest { topic_names: vec!["a".to_owned()], ..Default::default() };
    let answer = delete_topics::refused(1, request, refusal());
    assert_eq!((answer.responses[0].name.as_deref(), answer.responses[0].error_code), (Some("a"), 41));
    let resource = IncrementalAlterConfigsResource { resource_type: 2, ..Default::default() };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    assert_eq!(incremental_alter_configs::refused(1, request, refusal()).responses[0].error_code, 41);
    let topic_partitions = Some(vec![ElectLeadersTopic { topic: "a".to_owned(), partitions: vec![0] }]);
    let request = ElectLeadersRequest { topic_partitions, ..Default::default() };
    for (version, code) in [(0, 0), (1, 41)] {
        let answer = elect_leaders::refused(version, request.clone(), refusal());
        assert_eq!(answer.error_code, code, "version 0 cannot tell it");
        assert_eq!(answer.replica_election_results[0].partition_result[0].error_code, 41);
    }
    let request = AlterPartitionReassignmentsRequest::default();
    assert_eq!(alter_partition_reassignments::refused(1, request, refusal()).error_code, 41);
}
