//! Everything that turns bytes from outside into values, as one list, for fuzzing. Owns no decoder, and is no part of
//! the broker's interface.
//!
//! A target takes any bytes. It may refuse them; it may not panic, and it may not allocate by a length that the bytes
//! only claim.

use crate::{
    config::{BrokerConfig, properties},
    group::{self, Loader, Now},
    log::fuzz_targets,
    types::{Offset, TopicId},
};
use bytes::Bytes;
use sillon_protocol::{
    messages::{AnyRequest, AnyResponse, SUPPORTED_APIS, decode_request_header, supported_versions},
    records::{BatchHeader, produce_batch, split_batches},
    wire::Decoder,
};
use std::sync::Arc;

/// A decoder, fed with any bytes.
pub type Target = fn(&[u8]);

/// How much a batch may grow when it is decompressed here: what the allocations are measured against.
const GROWTH: usize = 16;

/// All decoders, by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("request", request),
    ("response", response),
    ("produced batch", produced_batch),
    ("stored batches", stored_batches),
    ("batch header", |bytes| drop(BatchHeader::parse(bytes))),
    ("server.properties", |bytes| drop(properties::parse(&String::from_utf8_lossy(bytes), "fuzz"))),
    ("configuration", configuration),
    ("topic id", topic_id),
    ("record of a group", record_of_a_group),
    ("offset checkpoint", fuzz_targets::offset_checkpoint),
    ("leader epoch checkpoint", fuzz_targets::epoch_checkpoint),
    ("partition.metadata", fuzz_targets::partition_metadata),
    ("meta.properties", fuzz_targets::meta_properties),
    ("producer snapshot", fuzz_targets::producer_snapshot),
    ("directory name", fuzz_targets::directory_name),
];

/// Bytes that each of some targets accepts, to start from.
pub fn samples() -> Vec<Vec<u8>> {
    let mut samples = fuzz_targets::samples();
    samples.extend(group::sample_records());
    samples.push(b"broker.id=1\nlisteners=PLAINTEXT://:9092\nlog.retention.hours=3\n".to_vec());
    samples
}

/// A whole frame, from the header on.
fn request(bytes: &[u8]) {
    let frame = Bytes::copy_from_slice(bytes);
    if let Ok((header, mut body)) = decode_request_header(&frame) {
        let _refused = AnyRequest::decode(header.api_key, header.api_version, &mut body);
    }
}

/// The first byte says of which API and version the rest is.
fn response(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let api_key = SUPPORTED_APIS[usize::from(*first) % SUPPORTED_APIS.len()];
    let frame = Bytes::copy_from_slice(rest);
    for version in supported_versions(api_key).into_iter().flatten() {
        let _refused = AnyResponse::decode(api_key, version, &mut Decoder::new(&frame));
    }
}

fn produced_batch(bytes: &[u8]) {
    for version in [3, 13] {
        let _refused = produce_batch(&Bytes::copy_from_slice(bytes), version);
    }
}

/// As a log or a fetch answer holds them; the records are opened although the checksum may be wrong.
fn stored_batches(bytes: &[u8]) {
    for batch in split_batches(&Bytes::copy_from_slice(bytes)) {
        let Ok(batch) = batch else { return };
        let _refused = batch.validate_header();
        let _refused = batch.validate_deep(GROWTH * bytes.len());
        if let Ok(body) = batch.decompress(GROWTH * bytes.len()) {
            for record in batch.records_in(&body) {
                let Ok(record) = record else { return };
                record.headers().for_each(drop);
            }
        }
    }
}

fn topic_id(bytes: &[u8]) {
    let _refused = String::from_utf8_lossy(bytes).parse::<TopicId>();
}

/// The first byte says how long the key is; the rest is the value.
fn record_of_a_group(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first() else { return };
    let (key, value) = rest.split_at(usize::from(*length).min(rest.len()));
    let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
    let mut loader = Loader::default();
    let _refused = loader.add(&key, Some(&value), 0);
    let now = Now { monotonic: Default::default(), unix_ms: 0 };
    let shard = loader.finish(Arc::new(BrokerConfig::default().groups), false, Offset::ZERO, now);
    let _described: Vec<_> = shard.list().filter_map(|group| shard.describe(&group.group_id)).collect();
}

fn configuration(bytes: &[u8]) {
    let _refused = BrokerConfig::from_properties(&String::from_utf8_lossy(bytes), "fuzz");
}
