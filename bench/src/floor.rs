//! Two servers that do only what cannot be left out, to measure the broker against.
//!
//! [`serve_produce`] receives Produce requests, checks the checksum of each batch, appends it to a file with
//! one write, and acknowledges. [`serve_file`] sends pieces of a file with sendfile(2). Both are a thread for
//! each connection that blocks, and neither knows topics, offsets of others, or errors of disks.

use crate::Result;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, checksum};
use sillon_protocol::{
    ApiKey,
    frame::encode_response,
    messages::{
        ApiVersion, ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse,
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic, decode_request_header,
    },
    wire::{Encoder, Message},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
};

/// Produce versions whose layout is the one that [`ProduceParts::parse`] knows.
const PRODUCE_VERSIONS: std::ops::RangeInclusive<i16> = 3..=8;
/// Bytes of a batch before those that the checksum covers.
const CHECKSUMMED_FROM: usize = 21;
/// Where a batch keeps its checksum.
const CHECKSUM_AT: usize = 17;
/// Where a batch keeps the offset of its last record, relative to the first.
const LAST_OFFSET_DELTA_AT: usize = 23;
const READ_BUFFER_BYTES: usize = 256 * 1024;

/// Answers on `address` until the process ends; the files are kept in `directory`.
///
/// # Errors
/// An address that cannot be listened on.
pub fn serve_produce(address: SocketAddr, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let listener = TcpListener::bind(address)?;
    let logs = Arc::new(Logs { directory: directory.to_owned(), open: Mutex::default() });
    for stream in listener.incoming() {
        let (stream, logs) = (stream?, logs.clone());
        thread::spawn(move || {
            if let Err(error) = (FloorConnection { stream, address, logs }).run() {
                eprintln!("floor: {error}");
            }
        });
    }
    Ok(())
}

/// A topic's name as on the wire, and a partition of it.
type TopicPartition = (Vec<u8>, i32);

/// The files of the topic that is written to.
struct Logs {
    directory: PathBuf,
    open: Mutex<BTreeMap<TopicPartition, Arc<Mutex<Log>>>>,
}

struct Log {
    file: File,
    end: u64,
    next_offset: i64,
}

impl Logs {
    fn get(&self, topic: &[u8], partition: i32) -> Result<Arc<Mutex<Log>>> {
        let mut open = self.open.lock().map_err(|_| "a thread has panicked")?;
        if let Some(log) = open.get(&(topic.to_vec(), partition)) {
            return Ok(log.clone());
        }
        // Only the topic of the present run is kept, as the broker's is deleted after each run.
        let (kept, past): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut *open).into_iter().partition(|((name, _), _)| name == topic);
        *open = kept;
        for (name, partition) in past.into_keys() {
            std::fs::remove_file(self.path(&name, partition))?;
        }
        let file =
            File::options().create(true).truncate(true).write(true).open(self.path(topic, partition))?;
        let log = Arc::new(Mutex::new(Log { file, end: 0, next_offset: 0 }));
        open.insert((topic.to_vec(), partition), log.clone());
        Ok(log)
    }

    fn path(&self, topic: &[u8], partition: i32) -> PathBuf {
        self.directory.join(format!("{}-{partition}.log", String::from_utf8_lossy(topic)))
    }
}

struct FloorConnection {
    stream: TcpStream,
    address: SocketAddr,
    logs: Arc<Logs>,
}

impl FloorConnection {
    fn run(mut self) -> Result<()> {
        self.stream.set_nodelay(true)?;
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        let mut filled = 0;
        let mut answers = Vec::new();
        loop {
            let mut taken = 0;
            while let Some(prefix) = buffer[taken..filled].first_chunk::<4>() {
                let size = usize::try_from(i32::from_be_bytes(*prefix))?;
                if filled - taken < 4 + size {
                    if buffer.len() < 4 + size {
                        buffer.resize(4 + size, 0);
                    }
                    break;
                }
                self.answer(&buffer[taken + 4..taken + 4 + size], &mut answers)?;
                taken += 4 + size;
            }
            if !answers.is_empty() {
                self.stream.write_all(&answers)?;
                answers.clear();
            }
            if taken > 0 {
                buffer.copy_within(taken..filled, 0);
                filled -= taken;
            }
            match self.stream.read(&mut buffer[filled..])? {
                0 => return Ok(()),
                read => filled += read,
            }
        }
    }

    fn answer(&self, frame: &[u8], answers: &mut Vec<u8>) -> Result<()> {
        let api_key = i16::from_be_bytes(*frame.first_chunk().ok_or("a frame without a header")?);
        if api_key == ApiKey::Produce.code() {
            return self.append(frame, answers);
        }
        let frame = Bytes::copy_from_slice(frame);
        let (header, mut body) = decode_request_header(&frame)?;
        let mut encoder = Encoder::new();
        match header.api_key {
            ApiKey::ApiVersions => {
                let response = api_versions();
                encode_response::<ApiVersionsRequest>(
                    &mut encoder,
                    header.api_version,
                    header.correlation_id,
                    &response,
                )?;
            }
            ApiKey::Metadata => {
                let request = MetadataRequest::decode(header.api_version, &mut body)?;
                let response = self.metadata(&request);
                encode_response::<MetadataRequest>(
                    &mut encoder,
                    header.api_version,
                    header.correlation_id,
                    &response,
                )?;
            }
            other => return Err(format!("{other} is not served").into()),
        }
        answers.extend_from_slice(&encoder.buffer);
        Ok(())
    }

    fn append(&self, frame: &[u8], answers: &mut Vec<u8>) -> Result<()> {
        let request = ProduceParts::parse(frame)?;
        let batch = request.batch;
        let stored = u32::from_be_bytes(*field(batch, CHECKSUM_AT)?);
        let computed = checksum(CrcAlgorithm::Crc32Iscsi, &batch[CHECKSUMMED_FROM..]);
        if u64::from(stored) != computed {
            return Err("a batch with a wrong checksum".into());
        }
        let records = i64::from(i32::from_be_bytes(*field(batch, LAST_OFFSET_DELTA_AT)?)) + 1;
        let log = self.logs.get(request.topic, request.partition)?;
        let mut log = log.lock().map_err(|_| "a thread has panicked")?;
        log.file.write_all_at(batch, log.end)?;
        log.end += batch.len() as u64;
        let base_offset = log.next_offset;
        log.next_offset += records;
        if request.acks != 0 {
            request.acknowledge(base_offset, answers)?;
        }
        Ok(())
    }

    fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
        let topics = request.topics.iter().flatten().map(|topic| MetadataResponseTopic {
            name: topic.name.clone(),
            partitions: vec![MetadataResponsePartition {
                leader_id: 1,
                replica_nodes: vec![1],
                isr_nodes: vec![1],
                ..MetadataResponsePartition::default()
            }],
            ..MetadataResponseTopic::default()
        });
        MetadataResponse {
            topics: topics.collect(),
            controller_id: 1,
            brokers: vec![MetadataResponseBroker {
                node_id: 1,
                host: self.address.ip().to_string(),
                port: i32::from(self.address.port()),
                ..MetadataResponseBroker::default()
            }],
            ..MetadataResponse::default()
        }
    }
}

/// What a client of librdkafka wants to see before it sends batches of the present format.
fn api_versions() -> ApiVersionsResponse {
    let version = |key: ApiKey, max_version| ApiVersion { api_key: key.code(), min_version: 0, max_version };
    ApiVersionsResponse {
        api_keys: vec![
            version(ApiKey::Produce, *PRODUCE_VERSIONS.end()),
            version(ApiKey::Fetch, 11),
            version(ApiKey::Metadata, 8),
            version(ApiKey::ApiVersions, 3),
        ],
        ..ApiVersionsResponse::default()
    }
}

/// What there is to know in a Produce request with one batch.
struct ProduceParts<'a> {
    correlation_id: i32,
    version: i16,
    acks: i16,
    topic: &'a [u8],
    partition: i32,
    batch: &'a [u8],
}

impl<'a> ProduceParts<'a> {
    fn parse(frame: &'a [u8]) -> Result<Self> {
        let mut reader = Reader(frame);
        reader.i16()?; // the API
        let version = reader.i16()?;
        if !PRODUCE_VERSIONS.contains(&version) {
            return Err(format!("Produce {version} is not served").into());
        }
        let correlation_id = reader.i32()?;
        reader.string()?; // the client's name
        reader.string()?; // the transactional id
        let acks = reader.i16()?;
        reader.i32()?; // the time limit
        let topics = reader.i32()?;
        let topic = reader.string()?;
        let partitions = reader.i32()?;
        let partition = reader.i32()?;
        let length = usize::try_from(reader.i32()?)?;
        let batch = reader.take(length)?;
        if topics != 1 || partitions != 1 || !reader.0.is_empty() {
            return Err("more than one batch in a request".into());
        }
        Ok(Self { correlation_id, version, acks, topic, partition, batch })
    }

    fn acknowledge(&self, base_offset: i64, answers: &mut Vec<u8>) -> Result<()> {
        let start = answers.len();
        answers.extend_from_slice(&[0; 4]);
        answers.extend_from_slice(&self.correlation_id.to_be_bytes());
        answers.extend_from_slice(&1_i32.to_be_bytes()); // topics
        answers.extend_from_slice(&u16::try_from(self.topic.len())?.to_be_bytes());
        answers.extend_from_slice(self.topic);
        answers.extend_from_slice(&1_i32.to_be_bytes()); // partitions
        answers.extend_from_slice(&self.partition.to_be_bytes());
        answers.extend_from_slice(&0_i16.to_be_bytes()); // no error
        answers.extend_from_slice(&base_offset.to_be_bytes());
        answers.extend_from_slice(&(-1_i64).to_be_bytes()); // no log append time
        if self.version >= 5 {
            answers.extend_from_slice(&0_i64.to_be_bytes()); // log start offset
        }
        if self.version >= 8 {
            answers.extend_from_slice(&0_i32.to_be_bytes()); // no errors of records
            answers.extend_from_slice(&(-1_i16).to_be_bytes()); // no message
        }
        answers.extend_from_slice(&0_i32.to_be_bytes()); // throttle time
        let size = u32::try_from(answers.len() - start - 4)?;
        answers[start..start + 4].copy_from_slice(&size.to_be_bytes());
        Ok(())
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<&[u8; N]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(|| "a batch that is too short".into())
}

/// Reads integers and strings from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length).ok_or("a request that is too short")?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into()?)
    }

    fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// A nullable string; null is given as empty.
    fn string(&mut self) -> Result<&'a [u8]> {
        let length = self.i16()?;
        self.take(usize::try_from(length).unwrap_or(0))
    }
}

/// Bytes of a request to [`serve_file`]: an offset of eight bytes and a length of four.
pub const FILE_REQUEST_BYTES: usize = 12;

/// Sends pieces of `file` on `address` until the process ends: to each request (offset, length) its size in four
/// bytes and the bytes themselves.
///
/// # Errors
/// A file that cannot be opened, or an address that cannot be listened on.
pub fn serve_file(address: SocketAddr, file: &Path) -> Result<()> {
    let file = Arc::new(File::open(file)?);
    for stream in TcpListener::bind(address)?.incoming() {
        let (stream, file) = (stream?, file.clone());
        thread::spawn(move || {
            if let Err(error) = send_pieces(stream, &file) {
                eprintln!("floor: {error}");
            }
        });
    }
    Ok(())
}

fn send_pieces(mut stream: TcpStream, file: &File) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; FILE_REQUEST_BYTES];
    loop {
        match stream.read_exact(&mut request) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            result => result?,
        }
        let mut reader = Reader(&request);
        let mut offset = i64::from_be_bytes(reader.array()?);
        let length = reader.i32()?;
        // MSG_MORE: the size travels with the first bytes of the file, as in one response.
        send_more(&stream, &length.to_be_bytes())?;
        let mut left = usize::try_from(length)?;
        while left > 0 {
            // SAFETY: both descriptors are open for the call, and the offset is a local.
            let sent = unsafe { libc::sendfile(stream.as_raw_fd(), file.as_raw_fd(), &raw mut offset, left) };
            match usize::try_from(sent) {
                Ok(0) => return Err("the file is shorter than was asked for".into()),
                Ok(sent) => left -= sent,
                Err(_) => return Err(io::Error::last_os_error().into()),
            }
        }
    }
}

fn send_more(stream: &TcpStream, bytes: &[u8]) -> Result<()> {
    // SAFETY: the pointer and the length are those of a slice that outlives the call.
    let sent = unsafe { libc::send(stream.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_MORE) };
    if usize::try_from(sent) == Ok(bytes.len()) { Ok(()) } else { Err(io::Error::last_os_error().into()) }
}
