//! Bytes from an enemy: nothing panics, and no single allocation is larger than 16 times the input plus
//! 64 KiB, whatever lengths are claimed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::{BufMut, Bytes, BytesMut};
use sillon_protocol::ApiKey;
use sillon_protocol::frame::encode_response;
use sillon_protocol::messages::{
    AnyRequest, AnyResponse, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse,
    MetadataRequest, MetadataResponse, ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic,
    RequestHeader, RequestHeaderError, SUPPORTED_APIS, arbitrary, decode_request_header, supported_versions,
};
use sillon_protocol::wire::arbitrary::Random;
use sillon_protocol::wire::{DecodeError, Decoder, Encoder, Message, Records};

/// Notes the largest allocation of each thread, and how many there were.
struct Watch;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

fn note(size: usize) {
    // A thread that is going away allocates nothing that matters here.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: everything is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static WATCH: Watch = Watch;

/// Runs `decode` on `input` and asserts the limit on allocations.
fn watched<T>(input: &Bytes, decode: impl FnOnce(&Bytes) -> T) -> T {
    LARGEST.set(0);
    let outcome = decode(input);
    let largest = LARGEST.get();
    let limit = 16 * input.len() + 64 * 1024;
    assert!(largest <= limit, "an allocation of {largest} bytes for an input of {}", input.len());
    outcome
}

fn decode<M: Message>(version: i16, input: &Bytes) -> Result<M, DecodeError> {
    watched(input, |input| M::decode(version, &mut Decoder::new(input)))
}

fn input(write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut bytes = BytesMut::new();
    write(&mut bytes);
    bytes.freeze()
}

fn produce_7_with_topics(count: i32) -> Bytes {
    input(|bytes| {
        bytes.put_i16(-1);
        bytes.put_i16(-1);
        bytes.put_i32(1000);
        bytes.put_i32(count);
    })
}

#[test]
fn the_watch_sees_allocations() {
    LARGEST.set(0);
    drop(std::hint::black_box(Vec::<u8>::with_capacity(123_456)));
    assert_eq!(LARGEST.get(), 123_456);
}

#[test]
fn a_produce_request_costs_an_allocation_per_name_and_list_and_none_for_its_records() {
    let partition = |index| ProducePartition { index, records: Some(vec![7; 100_000].into()) };
    let topic = ProduceTopic {
        name: "orders".to_owned(),
        partition_data: vec![partition(0), partition(1)],
        ..Default::default()
    };
    let request = ProduceRequest { acks: -1, topic_data: vec![topic], ..Default::default() };
    let mut encoder = Encoder::new();
    request.encode(9, &mut encoder).expect("the version can carry it");
    let frame = encoder.buffer.freeze();

    COUNT.set(0);
    let decoded = ProduceRequest::decode(9, &mut Decoder::new(&frame));
    assert_eq!(COUNT.get(), 3, "topics, name, partitions");
    assert_eq!(decoded, Ok(request));
    let decoded = decoded.expect("it is equal to a request");
    let records = decoded.topic_data[0].partition_data[1].records.as_ref().expect("there are records");
    assert!(frame.as_ptr_range().contains(&records.as_ptr()), "records are a slice of the frame");
}

#[test]
fn responses_are_encoded_without_an_allocation_into_a_buffer_that_has_room() {
    let mut random = Random::new(3);
    let fetch = FetchResponse {
        responses: vec![FetchTopicResponse {
            topic: "orders".to_owned(),
            partitions: vec![FetchPartitionResponse {
                high_watermark: 7,
                records: Records::Bytes(vec![7; 10_000].into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut produce: ProduceResponse = arbitrary::message(9, &mut random);
    produce.throttle_time_ms = 1;
    let mut encoder = Encoder::with_buffer(BytesMut::with_capacity(1 << 20));
    COUNT.set(0);
    encode_response::<FetchRequest>(&mut encoder, 12, 1, &fetch).expect("the version can carry it");
    encode_response::<ProduceRequest>(&mut encoder, 9, 2, &produce).expect("the version can carry it");
    assert_eq!(COUNT.get(), 0);
}

#[test]
fn a_produce_request_with_two_billion_topics() {
    for count in [i32::MAX, 20_000_000, 1] {
        assert_eq!(
            decode::<ProduceRequest>(7, &produce_7_with_topics(count)),
            Err(DecodeError::LengthExceedsInput { length: count as usize, remaining: 0 })
        );
    }
}

#[test]
fn a_produce_request_with_minus_five_topics() {
    let result = decode::<ProduceRequest>(7, &produce_7_with_topics(-5));
    assert_eq!(result, Err(DecodeError::InvalidLength { length: -5 }));
}

#[test]
fn a_produce_request_whose_topics_are_null() {
    let result = decode::<ProduceRequest>(7, &produce_7_with_topics(-1));
    assert_eq!(result, Err(DecodeError::UnexpectedNull { field: "array" }));
}

#[test]
fn a_metadata_request_with_two_billion_topics() {
    let result = decode::<MetadataRequest>(1, &input(|bytes| bytes.put_i32(i32::MAX)));
    assert_eq!(result, Err(DecodeError::LengthExceedsInput { length: i32::MAX as usize, remaining: 0 }));
}

#[test]
fn a_metadata_request_with_a_compact_array_of_four_billion() {
    let result = decode::<MetadataRequest>(9, &Bytes::from_static(&[0xff, 0xff, 0xff, 0xff, 0x0f]));
    assert_eq!(result, Err(DecodeError::LengthExceedsInput { length: u32::MAX as usize - 1, remaining: 0 }));
}

#[test]
fn a_compact_length_beyond_32_bits() {
    for bytes in [[0xff, 0xff, 0xff, 0xff, 0x1f, 0], [0x80, 0x80, 0x80, 0x80, 0x80, 1]] {
        let result = decode::<MetadataRequest>(9, &Bytes::copy_from_slice(&bytes));
        assert_eq!(result, Err(DecodeError::VarintOverflow));
    }
}

#[test]
fn four_billion_tagged_fields() {
    let bytes = [0, 0xff, 0xff, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f];
    let result = decode::<ProduceRequest>(9, &Bytes::copy_from_slice(&bytes));
    assert_eq!(result, Err(DecodeError::Truncated { needed: 1, remaining: 0 }));
}

#[test]
fn a_tagged_field_of_four_gigabytes() {
    let bytes = [0, 0xff, 0xff, 0, 0, 0, 0, 1, 1, 7, 0xff, 0xff, 0xff, 0xff, 0x0f];
    let result = decode::<ProduceRequest>(9, &Bytes::copy_from_slice(&bytes));
    assert_eq!(result, Err(DecodeError::LengthExceedsInput { length: u32::MAX as usize, remaining: 0 }));
}

#[test]
fn a_string_and_a_batch_longer_than_the_input() {
    let request = input(|bytes| {
        bytes.put_i16(i16::MAX);
        bytes.put_slice(b"short");
    });
    let result = decode::<ProduceRequest>(7, &request);
    assert_eq!(result, Err(DecodeError::LengthExceedsInput { length: 32_767, remaining: 5 }));

    let request = input(|bytes| {
        bytes.put_slice(&produce_7_with_topics(1));
        bytes.put_slice(&[0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0]);
        bytes.put_i32(i32::MAX);
        bytes.put_slice(b"batch");
    });
    let result = decode::<ProduceRequest>(7, &request);
    assert_eq!(result, Err(DecodeError::LengthExceedsInput { length: i32::MAX as usize, remaining: 5 }));
}

#[test]
fn a_string_that_is_not_utf_8_or_longer_than_the_protocol_permits() {
    let result = decode::<ProduceRequest>(7, &Bytes::from_static(&[0, 1, 0xff]));
    assert_eq!(result, Err(DecodeError::InvalidUtf8));
    let result = decode::<ProduceRequest>(7, &Bytes::from_static(&[0xff, 0xfe]));
    assert_eq!(result, Err(DecodeError::InvalidLength { length: -2 }));
    let request = input(|bytes| {
        bytes.put_slice(&[0x81, 0x80, 0x02]);
        bytes.put_bytes(b'x', 32_768);
    });
    let result = decode::<ProduceRequest>(9, &request);
    assert_eq!(result, Err(DecodeError::InvalidLength { length: 32_768 }));
}

#[test]
fn a_million_empty_topic_names_are_refused_and_a_million_real_ones_read() {
    let topics = |name: &[u8]| {
        input(|bytes| {
            bytes.put_slice(&[0xc1, 0x84, 0x3d]);
            for _ in 0..1_000_000 {
                bytes.put_u8(name.len() as u8 + 1);
                bytes.put_slice(name);
                bytes.put_u8(0);
            }
            bytes.put_slice(&[1, 0, 0, 0]);
        })
    };
    let result = decode::<MetadataRequest>(9, &topics(b""));
    assert!(matches!(result, Err(DecodeError::Amplification { count: 1_000_000, .. })), "{result:?}");
    let request = decode::<MetadataRequest>(9, &topics(b"x")).expect("three bytes a topic suffice");
    assert_eq!(request.topics.map(|topics| topics.len()), Some(1_000_000));
}

#[test]
fn an_announced_count_gets_no_more_memory_than_the_bytes_that_came_with_it() {
    // As many brokers as might fit, but the first is none: its host is longer than the input.
    let response = input(|bytes| {
        bytes.put_slice(&[0, 0, 0, 0, 0x81, 0x80, 0x04]);
        bytes.put_slice(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        bytes.put_bytes(0, 1_000_000);
    });
    let result = decode::<MetadataResponse>(9, &response);
    assert!(matches!(result, Err(DecodeError::LengthExceedsInput { .. })), "{result:?}");
    assert!(LARGEST.get() <= response.len(), "{} bytes", LARGEST.get());
}

#[test]
fn headers_of_every_length_below_a_whole_one() {
    let whole: &[u8] = &[0, 3, 0, 9, 0, 0, 0, 1, 0, 1, b'c', 1, 5, 2, 8, 8];
    for length in 0..whole.len() {
        let input = Bytes::copy_from_slice(&whole[..length]);
        let result = watched(&input, |input| decode_request_header(input).map(|(header, _)| header));
        assert!(matches!(result, Err(RequestHeaderError::Malformed(_))), "{length}: {result:?}");
    }
    let input = Bytes::copy_from_slice(whole);
    let (header, body) = watched(&input, decode_whole).expect("the header is whole");
    assert_eq!((header.client_id.as_deref(), body), (Some("c"), 0));
}

fn decode_whole(input: &Bytes) -> Result<(RequestHeader, usize), RequestHeaderError> {
    decode_request_header(input).map(|(header, body)| (header, body.remaining()))
}

#[test]
fn a_header_without_a_client_id() {
    let input = Bytes::from_static(&[0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0]);
    let (header, body) = watched(&input, decode_whole).expect("the header is whole");
    assert_eq!((header.api_key, header.api_version), (ApiKey::Metadata, 9));
    assert_eq!((header.correlation_id, header.client_id, body), (1, None, 0));
}

#[test]
fn an_unknown_api_keeps_what_an_answer_needs() {
    for code in [0x7f03, 93, -1, ApiKey::LeaderAndIsr.code()] {
        let input = input(|bytes| {
            bytes.put_i16(code);
            bytes.put_slice(&[0, 9, 0, 0, 0, 1, 0xff, 0xff, 0]);
        });
        let unknown = RequestHeaderError::UnknownApi { api_key: code, api_version: 9, correlation_id: 1 };
        assert_eq!(watched(&input, decode_whole), Err(unknown));
    }
}

#[test]
fn an_unknown_version_keeps_what_an_answer_needs() {
    for (api_key, api_version) in [
        (ApiKey::Metadata, 0x7f09),
        (ApiKey::Metadata, -1),
        (ApiKey::ApiVersions, 5),
        (ApiKey::Produce, 2),
        (ApiKey::Fetch, 3),
    ] {
        let input = input(|bytes| {
            bytes.put_i16(api_key.code());
            bytes.put_i16(api_version);
            bytes.put_slice(&[0, 0, 0, 1, 0xff, 0xff, 0]);
        });
        let correlation_id = 1;
        let unsupported = RequestHeaderError::UnsupportedVersion { api_key, api_version, correlation_id };
        assert_eq!(watched(&input, decode_whole), Err(unsupported));
    }
}

#[test]
fn a_private_api_is_flexible() {
    let input = input(|bytes| {
        bytes.put_i16(sillon_protocol::FIRST_PRIVATE_API_KEY);
        bytes.put_slice(&[0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 42]);
    });
    let (header, body) = watched(&input, decode_whole).expect("the header is whole");
    assert_eq!((header.api_key, body), (ApiKey::Private(sillon_protocol::FIRST_PRIVATE_API_KEY), 1));
}

/// Every API at every version known.
fn every_version() -> impl Iterator<Item = (ApiKey, i16)> {
    SUPPORTED_APIS.iter().flat_map(|&api_key| {
        let versions = supported_versions(api_key).expect("a supported API has versions");
        versions.map(move |version| (api_key, version))
    })
}

/// Decodes `bytes` as request and as response. Whatever is accepted must be a message that can be encoded
/// and is the same when it is decoded again.
fn decode_both(api_key: ApiKey, version: i16, bytes: &Bytes) {
    let request = watched(bytes, |bytes| AnyRequest::decode(api_key, version, &mut Decoder::new(bytes)));
    if let Ok(request) = request {
        let mut encoder = Encoder::new();
        request.encode(version, &mut encoder).expect("what was decoded can be encoded");
        let again = encoder.buffer.freeze();
        assert_eq!(AnyRequest::decode(api_key, version, &mut Decoder::new(&again)), Ok(request));
    }
    let response = watched(bytes, |bytes| AnyResponse::decode(api_key, version, &mut Decoder::new(bytes)));
    if let Ok(response) = response {
        let mut encoder = Encoder::new();
        response.encode(version, &mut encoder).expect("what was decoded can be encoded");
        let again = encoder.buffer.freeze();
        assert_eq!(AnyResponse::decode(api_key, version, &mut Decoder::new(&again)), Ok(response));
    }
}

/// Spoils one place, the way that hurts: lengths become huge, negative or slightly wrong.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let place = random.below(bytes.len() + 1);
    match random.below(6) {
        0 => bytes.truncate(place),
        1 => bytes.insert(place, random.next_u64() as u8),
        2 => {
            let huge: &[&[u8]] =
                &[&[0x7f, 0xff, 0xff, 0xff], &[0xff; 4], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x7f, 0xff]];
            let huge = huge[random.below(huge.len())];
            let end = bytes.len().min(place + huge.len());
            bytes.splice(place..end, huge.iter().copied());
        }
        _ if place < bytes.len() => match random.below(3) {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => bytes[place] = bytes[place].wrapping_add(1),
            _ => bytes[place] = random.next_u64() as u8,
        },
        _ => bytes.push(0),
    }
}

#[test]
fn random_bytes_for_every_version() {
    for (api_key, version) in every_version() {
        let mut random = Random::new(version as u64);
        for _ in 0..300 {
            // Small values pass for lengths, so that such bytes get far into a message.
            let limit = [256, 4, 2][random.below(3)];
            let bytes: Vec<u8> = (0..random.below(400)).map(|_| random.below(limit) as u8).collect();
            decode_both(api_key, version, &bytes.into());
        }
    }
}

#[test]
fn spoilt_messages_for_every_version() {
    for (api_key, version) in every_version() {
        let mut random = Random::new(1000 + version as u64);
        for round in 0..200 {
            let mut encoder = Encoder::new();
            let encoded = if round % 2 == 0 {
                arbitrary::request(api_key, version, &mut random)
                    .map(|request| request.encode(version, &mut encoder))
            } else {
                arbitrary::response(api_key, version, &mut random)
                    .map(|response| response.encode(version, &mut encoder))
            };
            assert_eq!(encoded, Some(Ok(())));
            let mut bytes = encoder.buffer.to_vec();
            for _ in 0..=random.below(4) {
                mutate(&mut bytes, &mut random);
                decode_both(api_key, version, &Bytes::copy_from_slice(&bytes));
            }
        }
    }
}

#[test]
fn messages_cut_off_at_every_byte_are_errors() {
    for (api_key, version) in every_version() {
        let mut random = Random::new(7);
        let request = arbitrary::request(api_key, version, &mut random).expect("the API is supported");
        let mut encoder = Encoder::new();
        request.encode(version, &mut encoder).expect("the version can carry it");
        let whole = encoder.buffer.freeze();
        for length in 0..whole.len() {
            let cut = whole.slice(..length);
            let result = watched(&cut, |cut| AnyRequest::decode(api_key, version, &mut Decoder::new(cut)));
            assert!(result.is_err(), "{api_key} {version} cut at {length} of {}", whole.len());
        }
        // Bytes that follow are ignored: librdkafka sends some.
        let longer = Bytes::from([&whole[..], &[0, 0, 0]].concat());
        assert_eq!(AnyRequest::decode(api_key, version, &mut Decoder::new(&longer)), Ok(request));
    }
}
