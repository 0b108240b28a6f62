//! One blocking connection that speaks Kafka: what the load and the suites need to create topics, send
//! frames and read answers. Never retries: a measurement with errors in it is none.

use crate::Result;
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    frame::encode_request,
    messages::{
        ApiVersionsRequest, CreatableTopic, CreateTopicsRequest, DeleteTopicState, DeleteTopicsRequest,
        ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic, MetadataRequest, MetadataRequestTopic,
        MetadataResponse, ResponseHeader,
    },
    wire::{Decoder, Encoder, Message, Request},
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    thread::sleep,
    time::{Duration, Instant},
};

/// How long an answer may take before the measurement is given up.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// How long a server may take to create a topic, a thousand partitions included; less than [`ANSWER_LIMIT`].
const CREATION_LIMIT_MS: i32 = 50_000;
/// How long the partitions of a new topic may be without a leader.
const LEADERS_LIMIT: Duration = Duration::from_secs(30);

/// A connection to a broker.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    /// Bytes read from the socket; a frame is at its start.
    buffer: Vec<u8>,
    filled: usize,
    taken: usize,
    next_correlation_id: i32,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        Ok(Self::new(stream))
    }

    fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: vec![0; 256 * 1024], filled: 0, taken: 0, next_correlation_id: 0 }
    }

    /// A second handle on the same connection, to send on while the first receives.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn sender(&self) -> Result<Self> {
        Ok(Self::new(self.stream.try_clone()?))
    }

    /// Sends one request and reads its response.
    ///
    /// # Errors
    /// A connection that fails, or an answer that is no answer to this.
    pub fn call<R: Request>(&mut self, version: i16, request: &R) -> Result<R::Response> {
        let correlation_id = self.next_correlation_id;
        self.next_correlation_id += 1;
        let mut encoder = Encoder::new();
        encode_request(&mut encoder, version, correlation_id, Some("sillon-bench"), request)?;
        self.send(&encoder.buffer)?;
        let frame = Bytes::copy_from_slice(self.receive()?);
        let mut decoder = Decoder::new(&frame);
        let header = ResponseHeader::decode(R::response_header_version(version), &mut decoder)?;
        if header.correlation_id != correlation_id {
            return Err(format!("answer {} to request {correlation_id}", header.correlation_id).into());
        }
        Ok(R::Response::decode(version, &mut decoder)?)
    }

    /// Sends bytes as they are: a whole frame, or several.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn send(&mut self, frame: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(frame)?)
    }

    /// Reads the next frame, without its size, into a buffer that is used again.
    ///
    /// # Errors
    /// Those of the operating system, and a connection closed by the server.
    pub fn receive(&mut self) -> Result<&[u8]> {
        loop {
            let here = &self.buffer[self.taken..self.filled];
            if let Some(prefix) = here.first_chunk::<4>() {
                let size = usize::try_from(i32::from_be_bytes(*prefix))?;
                if here.len() >= 4 + size {
                    let start = self.taken + 4;
                    self.taken = start + size;
                    return Ok(&self.buffer[start..start + size]);
                }
                if self.buffer.len() < 4 + size {
                    self.buffer.resize(4 + size, 0);
                }
            }
            if self.taken > 0 {
                self.buffer.copy_within(self.taken..self.filled, 0);
                self.filled -= self.taken;
                self.taken = 0;
            }
            match self.stream.read(&mut self.buffer[self.filled..])? {
                0 => return Err("the server closed the connection".into()),
                read => self.filled += read,
            }
        }
    }

    /// Asks what the server speaks: its first sign of life.
    ///
    /// # Errors
    /// As [`call`](Self::call), and an error code.
    pub fn api_versions(&mut self) -> Result<()> {
        let answer = self.call(
            3,
            &ApiVersionsRequest {
                client_software_name: "sillon-bench".to_owned(),
                client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            },
        )?;
        expect_none(answer.error_code, "ApiVersions")
    }

    /// Creates a topic and waits until every partition has its leader.
    ///
    /// # Errors
    /// As [`call`](Self::call), an error code, or a leader that does not come within 30 s.
    pub fn create_topic(&mut self, name: &str, partitions: i32) -> Result<()> {
        self.create_replicated_topic(name, partitions, 1)
    }

    /// As [`create_topic`](Self::create_topic), with so many replicas. In a cluster this broker has to be the controller.
    ///
    /// # Errors
    /// As [`create_topic`](Self::create_topic).
    pub fn create_replicated_topic(&mut self, name: &str, partitions: i32, replicas: i16) -> Result<()> {
        let topic = CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor: replicas,
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic],
            timeout_ms: CREATION_LIMIT_MS,
            ..CreateTopicsRequest::default()
        };
        for result in self.call(5, &request)?.topics {
            expect_none(result.error_code, "CreateTopics")?;
        }
        let deadline = Instant::now() + LEADERS_LIMIT;
        while !self.has_leaders(name, partitions)? {
            if Instant::now() > deadline {
                return Err(format!("topic {name} has no leaders after {LEADERS_LIMIT:?}").into());
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn has_leaders(&mut self, name: &str, partitions: i32) -> Result<bool> {
        Ok(self.metadata(name)?.topics.iter().all(|topic| {
            topic.error_code == 0
                && i32::try_from(topic.partitions.len()) == Ok(partitions)
                && topic
                    .partitions
                    .iter()
                    .all(|partition| partition.error_code == 0 && partition.leader_id >= 0)
        }))
    }

    /// Who leads a topic's partitions, where brokers listen, and which of them is the controller.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn metadata(&mut self, topic: &str) -> Result<MetadataResponse> {
        let topic = MetadataRequestTopic { name: Some(topic.to_owned()), ..MetadataRequestTopic::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        self.call(9, &request)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// As [`call`](Self::call), and an error code.
    pub fn delete_topic(&mut self, name: &str) -> Result<()> {
        let topic = DeleteTopicState { name: Some(name.to_owned()), ..DeleteTopicState::default() };
        let request =
            DeleteTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..DeleteTopicsRequest::default() };
        for result in self.call(6, &request)?.responses {
            expect_none(result.error_code, "DeleteTopics")?;
        }
        Ok(())
    }

    /// The log end offset of a partition.
    ///
    /// # Errors
    /// As [`call`](Self::call), and an error code.
    pub fn log_end_offset(&mut self, topic: &str, partition: i32) -> Result<i64> {
        let partition =
            ListOffsetsPartition { partition_index: partition, timestamp: -1, ..Default::default() };
        let topic = ListOffsetsTopic { name: topic.to_owned(), partitions: vec![partition] };
        let request = ListOffsetsRequest { topics: vec![topic], ..ListOffsetsRequest::default() };
        let answer = self.call(7, &request)?;
        let found = answer.topics.first().and_then(|topic| topic.partitions.first());
        let found = found.ok_or("ListOffsets answers nothing")?;
        expect_none(found.error_code, "ListOffsets")?;
        Ok(found.offset)
    }
}

/// Turns an error code other than 0 into an error.
///
/// # Errors
/// Every code but 0.
pub fn expect_none(code: i16, what: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(format!("{what} answers {:?}", ErrorCode::from(code)).into())
}
