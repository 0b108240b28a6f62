//! The load: requests with pre-built batches over raw sockets, so that what is measured is the server and
//! the generator needs little CPU. The same bytes every time; nothing is random.

use crate::{
    Result,
    client::{Connection, expect_none},
    floor::FILE_REQUEST_BYTES,
    process,
};
use bytes::Bytes;
use sillon_protocol::{
    frame::encode_request,
    messages::{
        FetchPartition, FetchRequest, FetchTopic, ProducePartition, ProduceRequest, ProduceResponse,
        ProduceTopic, ResponseHeader,
    },
    records::{BatchBuilder, Compression, Header},
    wire::{Decoder, Encoder, Message, Request},
};
use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

/// Bytes of a record's value.
pub const VALUE_BYTES: usize = 1024;
/// How many requests are on their way at once, as many as an idempotent producer allows.
const IN_FLIGHT: usize = 5;
/// How many different batches a run goes through in turn.
const DIFFERENT_BATCHES: u8 = 8;
/// The newest version of Produce that every server measured here speaks in its plain layout.
const PRODUCE_VERSION: i16 = 7;
/// The newest version of Fetch that names topics and is not flexible.
const FETCH_VERSION: i16 = 11;

/// What a produce run gave.
#[derive(Debug, Clone, Copy)]
pub struct Produced {
    /// Bytes of batches that were acknowledged.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// A Produce request with one batch, ready to be sent again and again.
struct ProduceFrame {
    frame: Vec<u8>,
    batch_bytes: u64,
    records: i64,
}

impl ProduceFrame {
    /// A request with as many records of [`VALUE_BYTES`] as fit `batch_bytes`, but at least one.
    fn new(topic: &str, partition: i32, acks: i16, batch_bytes: usize, seed: u8) -> Result<Self> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        let timestamp = i64::try_from(now.as_millis())?;
        let mut builder = BatchBuilder::with_capacity(batch_bytes);
        let mut state = u32::from(seed) + 1;
        loop {
            let value: Vec<u8> = std::iter::repeat_with(|| next_byte(&mut state)).take(VALUE_BYTES).collect();
            builder.add(timestamp, None, Some(&value), std::iter::empty::<Header<'_>>());
            if builder.size_bytes() + VALUE_BYTES + 16 > batch_bytes {
                break;
            }
        }
        let records = i64::from(builder.record_count());
        let batch: Bytes = builder.build(Compression::None);
        let batch_bytes = batch.len() as u64;
        let partition = ProducePartition { index: partition, records: Some(batch) };
        let topic =
            ProduceTopic { name: topic.to_owned(), partition_data: vec![partition], ..Default::default() };
        let request =
            ProduceRequest { acks, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() };
        let mut encoder = Encoder::new();
        encode_request(&mut encoder, PRODUCE_VERSION, 0, Some("sillon-bench"), &request)?;
        Ok(Self { frame: encoder.buffer.to_vec(), batch_bytes, records })
    }
}

/// A byte that no codec makes smaller (xorshift).
fn next_byte(state: &mut u32) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    (*state >> 11) as u8
}

/// Reads one Produce response and checks it; gives the base offset.
fn acknowledged(connection: &mut Connection) -> Result<i64> {
    let frame = Bytes::copy_from_slice(connection.receive()?);
    let mut decoder = Decoder::new(&frame);
    ResponseHeader::decode(ProduceRequest::response_header_version(PRODUCE_VERSION), &mut decoder)?;
    let response = ProduceResponse::decode(PRODUCE_VERSION, &mut decoder)?;
    let topic = response.responses.first().ok_or("Produce answers nothing")?;
    let partition = topic.partition_responses.first().ok_or("Produce answers nothing")?;
    expect_none(partition.error_code, "Produce")?;
    Ok(partition.base_offset)
}

/// Writes `volume` bytes of batches to partition 0 of an empty topic, five requests on their way at a time.
///
/// # Errors
/// A connection that fails, an error code, or offsets that are not those of an empty log.
pub fn produce(
    address: SocketAddr,
    topic: &str,
    acks: i16,
    batch_bytes: usize,
    volume: u64,
) -> Result<Produced> {
    produce_to(address, topic, 0, acks, batch_bytes, volume)
}

/// As [`produce`], to any partition.
///
/// # Errors
/// As [`produce`].
pub fn produce_to(
    address: SocketAddr,
    topic: &str,
    partition: i32,
    acks: i16,
    batch_bytes: usize,
    volume: u64,
) -> Result<Produced> {
    let frames = (0..DIFFERENT_BATCHES)
        .map(|seed| ProduceFrame::new(topic, partition, acks, batch_bytes, seed))
        .collect::<Result<Vec<_>>>()?;
    let mut connection = Connection::connect(address)?;
    let start = Instant::now();
    let (mut sent, mut answered, mut bytes, mut next_offset) = (0, 0, 0, 0);
    while bytes < volume || answered < sent {
        if bytes < volume && sent - answered < IN_FLIGHT {
            let frame = &frames[sent % frames.len()];
            connection.send(&frame.frame)?;
            bytes += frame.batch_bytes;
            sent += 1;
        } else {
            let base_offset = acknowledged(&mut connection)?;
            if base_offset != next_offset {
                return Err(
                    format!("batch {answered} was given offset {base_offset}, not {next_offset}").into()
                );
            }
            next_offset += frames[answered % frames.len()].records;
            answered += 1;
        }
    }
    Ok(Produced { bytes, elapsed: start.elapsed() })
}

/// Sends single records at a steady rate and gives how long each took from the moment when it was due, in microseconds,
/// in ascending order.
///
/// # Errors
/// A connection that fails, or an error code.
pub fn latencies(
    address: SocketAddr,
    topic: &str,
    acks: i16,
    per_second: u32,
    count: u32,
) -> Result<Vec<u64>> {
    let frame = ProduceFrame::new(topic, 0, acks, 0, 0)?;
    let mut receiver = Connection::connect(address)?;
    let mut sender = receiver.sender()?;
    let start = Instant::now() + Duration::from_millis(10);
    let due = move |index: u32| start + Duration::from_secs(1) * index / per_second;
    let sending = thread::spawn(move || -> Result<()> {
        for index in 0..count {
            let now = Instant::now();
            if due(index) > now {
                thread::sleep(due(index) - now);
            }
            sender.send(&frame.frame)?;
        }
        Ok(())
    });
    let mut taken = Vec::with_capacity(count as usize);
    for index in 0..count {
        acknowledged(&mut receiver)?;
        taken.push(u64::try_from(due(index).elapsed().as_micros())?);
    }
    sending.join().map_err(|_| "the sending thread has panicked")??;
    taken.sort_unstable();
    Ok(taken)
}

/// What a fetch run gave.
#[derive(Debug, Clone, Copy)]
pub struct Fetched {
    /// Bytes of whole batches, or of the file.
    pub bytes: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// The CPU time of the client, in seconds.
    pub client_cpu_seconds: f64,
}

/// Where the records of a Fetch response of one partition begin, and the offset after the last whole batch.
struct FetchedBatches {
    whole_bytes: u64,
    next_offset: Option<i64>,
}

/// Finds the batches in a Fetch response (version 11) for one partition of a topic.
fn fetched_batches(frame: &[u8], topic: &str) -> Result<FetchedBatches> {
    // Correlation id, throttle time, error, session id, number of topics; the topic; number of partitions, index.
    let error_at = 4 + 4;
    expect_none(i16_at(frame, error_at)?, "Fetch")?;
    let partition_at = error_at + 2 + 4 + 4 + 2 + topic.len() + 4 + 4;
    expect_none(i16_at(frame, partition_at)?, "Fetch")?;
    // Error, high watermark, last stable offset, log start offset; aborted transactions; preferred replica.
    let aborted_at = partition_at + 2 + 8 + 8 + 8;
    let aborted = usize::try_from(i32_at(frame, aborted_at)?).unwrap_or(0);
    let length_at = aborted_at + 4 + 16 * aborted + 4;
    let length = usize::try_from(i32_at(frame, length_at)?)?;
    let records = frame.get(length_at + 4..length_at + 4 + length).ok_or("a short Fetch response")?;
    let mut batches = FetchedBatches { whole_bytes: 0, next_offset: None };
    let mut at = 0;
    while let Some(header) = records.get(at..at + 61) {
        let end = at + 12 + usize::try_from(i32_at(header, 8)?)?;
        if end > records.len() {
            break;
        }
        batches.next_offset = Some(i64_at(header, 0)? + i64::from(i32_at(header, 23)?) + 1);
        batches.whole_bytes = end as u64;
        at = end;
    }
    Ok(batches)
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    Ok(*bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or("a short Fetch response")?)
}

fn i16_at(bytes: &[u8], at: usize) -> Result<i16> {
    Ok(i16::from_be_bytes(bytes_at(bytes, at)?))
}

fn i32_at(bytes: &[u8], at: usize) -> Result<i32> {
    Ok(i32::from_be_bytes(bytes_at(bytes, at)?))
}

fn i64_at(bytes: &[u8], at: usize) -> Result<i64> {
    Ok(i64::from_be_bytes(bytes_at(bytes, at)?))
}

/// Reads partition 0 of a topic from its start to `end`, `piece_bytes` at a time.
///
/// # Errors
/// A connection that fails, an error code, or an answer without a batch before `end`.
pub fn fetch(address: SocketAddr, topic: &str, end: i64, piece_bytes: i32) -> Result<Fetched> {
    let mut connection = Connection::connect(address)?;
    let mut encoder = Encoder::new();
    let (start, cpu_before) = (Instant::now(), process::thread_cpu_seconds()?);
    let (mut offset, mut bytes) = (0, 0);
    while offset < end {
        let partition =
            FetchPartition { fetch_offset: offset, partition_max_bytes: piece_bytes, ..Default::default() };
        let request = FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: piece_bytes,
            topics: vec![FetchTopic {
                topic: topic.to_owned(),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..FetchRequest::default()
        };
        encoder.buffer.clear();
        encode_request(&mut encoder, FETCH_VERSION, 0, Some("sillon-bench"), &request)?;
        connection.send(&encoder.buffer)?;
        let batches = fetched_batches(connection.receive()?, topic)?;
        offset = batches.next_offset.ok_or_else(|| format!("nothing at offset {offset} of {end}"))?;
        bytes += batches.whole_bytes;
    }
    let client_cpu_seconds = process::thread_cpu_seconds()? - cpu_before;
    Ok(Fetched { bytes, elapsed: start.elapsed(), client_cpu_seconds })
}

/// Reads a file of `length` bytes from the bare sendfile server in the same way.
///
/// # Errors
/// A connection that fails.
pub fn fetch_file(address: SocketAddr, length: u64, piece_bytes: i32) -> Result<Fetched> {
    let mut connection = Connection::connect(address)?;
    let (start, cpu_before) = (Instant::now(), process::thread_cpu_seconds()?);
    let mut offset = 0;
    while offset < length {
        let piece = i32::try_from(length - offset).unwrap_or(i32::MAX).min(piece_bytes);
        let mut request = [0; FILE_REQUEST_BYTES];
        request[..8].copy_from_slice(&i64::try_from(offset)?.to_be_bytes());
        request[8..].copy_from_slice(&piece.to_be_bytes());
        connection.send(&request)?;
        offset += connection.receive()?.len() as u64;
    }
    let client_cpu_seconds = process::thread_cpu_seconds()? - cpu_before;
    Ok(Fetched { bytes: length, elapsed: start.elapsed(), client_cpu_seconds })
}
