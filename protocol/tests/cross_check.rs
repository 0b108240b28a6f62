//! The check against an independent codec, the crate `kafka-protocol`: every API, request and response,
//! at every version. What we encode it decodes, what it encodes again is the same bytes, and those we
//! decode to what we began with.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages as theirs;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Message as TheirMessage, StrBytes};
use sillon_protocol::ApiKey;
use sillon_protocol::messages as ours;
use sillon_protocol::messages::arbitrary::message;
use sillon_protocol::wire::arbitrary::{Arbitrary, Random};
use sillon_protocol::wire::{Decoder, Encoder, Message, Request};

/// Random messages for each type and version.
const ROUNDS: u64 = 100;

/// Versions that we know and the oracle does not yet, with our last and its last version. Checked by hand
/// below; a newer oracle makes this test fail, and then the entry can go.
const ORACLE_LAGS: &[(&str, i16, i16)] = &[
    ("ListOffsetsRequest", 11, 10),
    ("ListOffsetsResponse", 11, 10),
    ("DescribeLogDirsRequest", 5, 4),
    ("DescribeLogDirsResponse", 5, 4),
];

/// Versions that the oracle claims and we do not: InitProducerId 6 (KIP-939), OffsetCommit 10 and OffsetFetch 10 (topic
/// ids) are unstable in Kafka 4.1, and the oracle itself has them in the response only.
const ORACLE_OVERSTATES: &[(&str, i16, i16)] =
    &[("InitProducerIdResponse", 5, 6), ("OffsetCommitResponse", 9, 10), ("OffsetFetchResponse", 9, 10)];

fn encoded<M: Message>(message: &M, version: i16) -> Bytes {
    let mut encoder = Encoder::new();
    message.encode(version, &mut encoder).expect("a random message is one that the version can carry");
    assert!(encoder.deferred.is_empty());
    encoder.buffer.freeze()
}

fn decoded<M: Message>(bytes: &Bytes, version: i16) -> M {
    let mut decoder = Decoder::new(bytes);
    let message = M::decode(version, &mut decoder).expect("these bytes are a valid message");
    assert_eq!(decoder.remaining(), 0, "nothing is left over");
    message
}

/// The versions that both know, after a check that the differences are the ones listed.
fn common_versions<Ours: Message, Theirs: TheirMessage>(name: &str) -> RangeInclusive<i16> {
    let (first, last) = (*Ours::VERSIONS.start(), *Ours::VERSIONS.end());
    assert_eq!(first, Theirs::VERSIONS.min, "first version of {name}");
    let difference = (name, last, Theirs::VERSIONS.max);
    let listed = ORACLE_LAGS.iter().chain(ORACLE_OVERSTATES).any(|entry| *entry == difference);
    assert_eq!(last != Theirs::VERSIONS.max, listed, "last versions {difference:?}");
    first..=last.min(Theirs::VERSIONS.max)
}

/// Fields that only one side has, with the value that they have in every version which both know.
const ONE_SIDED_FIELDS: &[(&str, &str)] = &[
    ("unknown_tagged_fields", "{}"),
    ("enable_2_pc", "false"),
    ("keep_prepared_txn", "false"),
    ("ongoing_txn_producer_id", "-1"),
    ("ongoing_txn_producer_epoch", "-1"),
    ("is_cordoned", "false"),
    ("topic_id", "00000000-0000-0000-0000-000000000000"),
];

/// The end of the string literal that begins at `start`, which stands after its opening quote.
fn end_of_literal(text: &str, start: usize) -> usize {
    let mut escaped = false;
    for (index, letter) in text[start..].char_indices() {
        match letter {
            '"' if !escaped => return start + index + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    panic!("no end of the literal in {text}");
}

/// The names and values of all fields, from what `Debug` prints: names of types and wrappers are left out.
fn fields(message: &impl Debug) -> Vec<String> {
    let text = format!("{message:?}");
    let mut tokens: Vec<String> = Vec::new();
    let mut position = 0;
    while let Some(letter) = text[position..].chars().next() {
        let start = position;
        position += letter.len_utf8();
        match letter {
            '"' => position = end_of_literal(&text, position),
            'b' if text[position..].starts_with('"') => position = end_of_literal(&text, position + 1),
            '{' if text[position..].starts_with('}') => position += 1,
            '[' | ']' => {}
            _ if letter.is_ascii_alphanumeric() || "_-".contains(letter) => {
                let inside = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
                position += text[position..].find(|letter| !inside(letter)).unwrap_or(0);
                let is_type = text[position..].starts_with(['(']) || text[position..].starts_with(" {");
                if is_type {
                    continue;
                }
            }
            _ => continue,
        }
        tokens.push(text[start..position].replace("Null", "None"));
        let one_sided = ONE_SIDED_FIELDS.iter().any(|one_sided| match &tokens[..] {
            [.., name, value] => *one_sided == (name.as_str(), value.as_str()),
            _ => false,
        });
        if one_sided {
            tokens.truncate(tokens.len() - 2);
        }
    }
    tokens
}

/// Asserts that fields of the same name have the same value: equal bytes alone would not show two names
/// that have been swapped, nor a tag that the oracle does not know and merely passes on.
fn assert_same_fields(ours: &impl Debug, theirs: &impl Debug) {
    let (our_fields, their_fields) = (fields(ours), fields(theirs));
    let mut rest = &their_fields[..];
    for field in &our_fields {
        let skip = match rest {
            [first, ..] if first == field => 1,
            // A nullable field that the version lacks: null with us, empty with them.
            [first, ..] if field == "None" && first == "\"\"" => 1,
            [first, second, ..] if field == "None" && first == "[" && second == "]" => 2,
            _ => panic!("{field} of {ours:?} is not in {theirs:?}: {rest:?}"),
        };
        rest = &rest[skip..];
    }
    assert!(rest.is_empty(), "{rest:?} of {theirs:?} is not in {ours:?}");
}

fn check<Ours, Theirs>(name: &str)
where
    Ours: Message + Arbitrary,
    Theirs: Encodable + Decodable + TheirMessage + Debug,
{
    for version in common_versions::<Ours, Theirs>(name) {
        let mut random = Random::new(version as u64);
        for _ in 0..ROUNDS {
            let original: Ours = message(version, &mut random);
            let bytes = encoded(&original, version);
            let mut unread = bytes.clone();
            let foreign = Theirs::decode(&mut unread, version)
                .unwrap_or_else(|error| panic!("{name} {version}: {error} in {original:?}"));
            assert!(unread.is_empty(), "{name} {version}: the oracle leaves {unread:?} of {original:?}");
            assert_same_fields(&original, &foreign);
            let mut again = BytesMut::new();
            foreign.encode(&mut again, version).expect("the oracle can write what it has read");
            assert_eq!(bytes, again, "{name} {version}: {original:?} against {foreign:?}");
            assert_eq!(decoded::<Ours>(&bytes, version), original, "{name} {version}");
        }
    }
}

fn check_headers<Ours: Request, TheirRequest: HeaderVersion, TheirResponse: HeaderVersion>() {
    for version in Ours::VERSIONS {
        assert_eq!(Ours::request_header_version(version), TheirRequest::header_version(version));
        assert_eq!(Ours::response_header_version(version), TheirResponse::header_version(version));
        assert_eq!(
            ours::request_header_version(Ours::API_KEY, version),
            TheirRequest::header_version(version)
        );
        assert_eq!(
            ours::response_header_version(Ours::API_KEY, version),
            TheirResponse::header_version(version)
        );
        assert_eq!(ours::supported_versions(Ours::API_KEY), Some(Ours::VERSIONS));
    }
}

macro_rules! cross_checks {
    ($($name:ident: $request:ident, $response:ident;)*) => {
        $(
            #[test]
            fn $name() {
                check::<ours::$request, theirs::$request>(stringify!($request));
                check::<ours::$response, theirs::$response>(stringify!($response));
                check_headers::<ours::$request, theirs::$request, theirs::$response>();
            }
        )*

        #[test]
        fn no_supported_api_is_left_out_of_the_check() {
            let checked: Vec<ApiKey> = vec![$(<ours::$request as Request>::API_KEY,)*];
            assert_eq!(checked, ours::SUPPORTED_APIS);
        }
    };
}

cross_checks! {
    produce: ProduceRequest, ProduceResponse;
    fetch: FetchRequest, FetchResponse;
    list_offsets: ListOffsetsRequest, ListOffsetsResponse;
    metadata: MetadataRequest, MetadataResponse;
    offset_commit: OffsetCommitRequest, OffsetCommitResponse;
    offset_fetch: OffsetFetchRequest, OffsetFetchResponse;
    find_coordinator: FindCoordinatorRequest, FindCoordinatorResponse;
    join_group: JoinGroupRequest, JoinGroupResponse;
    heartbeat: HeartbeatRequest, HeartbeatResponse;
    leave_group: LeaveGroupRequest, LeaveGroupResponse;
    sync_group: SyncGroupRequest, SyncGroupResponse;
    describe_groups: DescribeGroupsRequest, DescribeGroupsResponse;
    list_groups: ListGroupsRequest, ListGroupsResponse;
    api_versions: ApiVersionsRequest, ApiVersionsResponse;
    create_topics: CreateTopicsRequest, CreateTopicsResponse;
    delete_topics: DeleteTopicsRequest, DeleteTopicsResponse;
    delete_records: DeleteRecordsRequest, DeleteRecordsResponse;
    init_producer_id: InitProducerIdRequest, InitProducerIdResponse;
    offset_for_leader_epoch: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
    describe_configs: DescribeConfigsRequest, DescribeConfigsResponse;
    alter_configs: AlterConfigsRequest, AlterConfigsResponse;
    alter_replica_log_dirs: AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse;
    describe_log_dirs: DescribeLogDirsRequest, DescribeLogDirsResponse;
    create_partitions: CreatePartitionsRequest, CreatePartitionsResponse;
    delete_groups: DeleteGroupsRequest, DeleteGroupsResponse;
    elect_leaders: ElectLeadersRequest, ElectLeadersResponse;
    incremental_alter_configs: IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
    alter_partition_reassignments: AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse;
    list_partition_reassignments: ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse;
    offset_delete: OffsetDeleteRequest, OffsetDeleteResponse;
    alter_partition: AlterPartitionRequest, AlterPartitionResponse;
    describe_cluster: DescribeClusterRequest, DescribeClusterResponse;
    describe_producers: DescribeProducersRequest, DescribeProducersResponse;
    list_config_resources: ListConfigResourcesRequest, ListConfigResourcesResponse;
    describe_topic_partitions: DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse;
}

#[test]
fn what_consumers_tell_each_other_agrees() {
    check::<ours::ConsumerProtocolSubscription, theirs::ConsumerProtocolSubscription>("subscription");
    check::<ours::ConsumerProtocolAssignment, theirs::ConsumerProtocolAssignment>("assignment");
}

/// A version that only permits new values of a field (KIP-1023) has the layout of the one before.
fn check_same_layout<M: Message + Arbitrary>(version: i16) {
    let mut random = Random::new(1);
    for _ in 0..ROUNDS {
        let original: M = message(version, &mut random);
        let bytes = encoded(&original, version);
        assert_eq!(bytes, encoded(&original, version - 1));
        assert_eq!(decoded::<M>(&bytes, version), original);
    }
}

#[test]
fn list_offsets_11_and_the_request_of_describe_log_dirs_5_look_as_the_version_before() {
    check_same_layout::<ours::ListOffsetsRequest>(11);
    check_same_layout::<ours::ListOffsetsResponse>(11);
    check_same_layout::<ours::DescribeLogDirsRequest>(5);
}

#[test]
fn the_response_of_describe_log_dirs_5_ends_each_directory_with_whether_it_is_cordoned() {
    let mut random = Random::new(1);
    for _ in 0..ROUNDS {
        let original: ours::DescribeLogDirsResponse = message(5, &mut random);
        assert_eq!(decoded::<ours::DescribeLogDirsResponse>(&encoded(&original, 5), 5), original);
    }
    let directory = ours::DescribeLogDirsResult {
        error_code: 3,
        log_dir: "/a".to_owned(),
        total_bytes: 8,
        usable_bytes: 9,
        is_cordoned: true,
        ..Default::default()
    };
    let response =
        ours::DescribeLogDirsResponse { throttle_time_ms: 1, error_code: 2, results: vec![directory] };
    let expected = [
        &[0, 0, 0, 1, 0, 2, 2][..],   // throttle time, error, one directory
        &[0, 3, 3, b'/', b'a', 1],    // its error, path, no topics
        &[0, 0, 0, 0, 0, 0, 0, 8],    // total bytes
        &[0, 0, 0, 0, 0, 0, 0, 9, 1], // usable bytes, cordoned
        &[0, 0],                      // no tagged fields, twice
    ]
    .concat();
    assert_eq!(encoded(&response, 5), expected);
}

#[test]
fn request_headers_agree() {
    for (api_key, version) in [(ApiKey::Metadata, 8), (ApiKey::Metadata, 9), (ApiKey::ApiVersions, 3)] {
        for client_id in [None, Some(""), Some("kafka-klient é")] {
            let header_version = ours::request_header_version(api_key, version);
            let mut encoder = Encoder::new();
            ours::RequestHeader::encode_parts(
                &mut encoder,
                header_version,
                api_key.code(),
                version,
                77,
                client_id,
            )
            .expect("the name is short");
            let bytes = encoder.buffer.freeze();

            let foreign = theirs::RequestHeader::default()
                .with_request_api_key(api_key.code())
                .with_request_api_version(version)
                .with_correlation_id(77)
                .with_client_id(client_id.map(StrBytes::from_static_str));
            let mut expected = BytesMut::new();
            foreign.encode(&mut expected, header_version).expect("the header is valid");
            assert_eq!(bytes, expected);

            let (header, body) = ours::decode_request_header(&bytes).expect("the header is valid");
            assert_eq!((header.api_key, header.api_version), (api_key, version));
            assert_eq!((header.correlation_id, header.client_id.as_deref()), (77, client_id));
            assert_eq!(body.remaining(), 0);
        }
    }
}

#[test]
fn response_headers_agree() {
    for header_version in [0, 1] {
        let mut encoder = Encoder::new();
        ours::ResponseHeader { correlation_id: -9 }.encode(header_version, &mut encoder);
        let bytes = encoder.buffer.freeze();
        let foreign = theirs::ResponseHeader::default().with_correlation_id(-9);
        let mut expected = BytesMut::new();
        foreign.encode(&mut expected, header_version).expect("the header is valid");
        assert_eq!(bytes, expected);
        let header = ours::ResponseHeader::decode(header_version, &mut Decoder::new(&bytes));
        assert_eq!(header, Ok(ours::ResponseHeader { correlation_id: -9 }));
    }
}

#[test]
fn tagged_fields_that_nobody_knows_are_skipped() {
    let unknown = |tag| (tag, Bytes::from_static(b"from the future"));
    let header = theirs::RequestHeader::default()
        .with_request_api_key(0)
        .with_request_api_version(9)
        .with_unknown_tagged_fields([unknown(5), unknown(900)].into());
    let partition = theirs::produce_request::PartitionProduceData::default()
        .with_index(3)
        .with_records(Some(Bytes::from_static(b"batch")))
        .with_unknown_tagged_fields([unknown(0)].into());
    let topic = theirs::produce_request::TopicProduceData::default()
        .with_name(StrBytes::from_static_str("t").into())
        .with_partition_data(vec![partition])
        .with_unknown_tagged_fields([unknown(1), unknown(2)].into());
    let request = theirs::ProduceRequest::default()
        .with_topic_data(vec![topic])
        .with_unknown_tagged_fields([unknown(i32::MAX)].into());
    let mut bytes = BytesMut::new();
    header.encode(&mut bytes, 2).expect("the header is valid");
    request.encode(&mut bytes, 9).expect("the request is valid");

    let bytes = bytes.freeze();
    let (header, mut body) = ours::decode_request_header(&bytes).expect("the header is valid");
    let request = ours::ProduceRequest::decode(header.api_version, &mut body).expect("the request is valid");
    assert_eq!(body.remaining(), 0);
    let partition = ours::ProducePartition { index: 3, records: Some(Bytes::from_static(b"batch")) };
    let topic =
        ours::ProduceTopic { name: "t".to_owned(), partition_data: vec![partition], ..Default::default() };
    assert_eq!(request, ours::ProduceRequest { topic_data: vec![topic], ..Default::default() });
}
