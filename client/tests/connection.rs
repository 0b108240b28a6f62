//! A connection against brokers that behave and brokers that do not, over real sockets of this machine.

use bytes::{BufMut, Bytes, BytesMut};
use sillon_client::{Connection, ConnectionError, ConnectionOptions};
use sillon_protocol::{
    ApiKey,
    frame::{FrameReader, encode_response},
    messages::{
        ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FetchRequest, InitProducerIdRequest,
        InitProducerIdResponse, MetadataRequest, MetadataResponse, RequestHeaderError, decode_request_header,
    },
    wire::{Encoder, Request},
};
use sillon_runtime::{BoxStream, JoinHandle, Runtime, tokio_backend};
use std::{future::Future, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The fake broker's side of one connection.
struct Broker {
    stream: BoxStream,
    frames: FrameReader,
}

/// What it was asked, as far as tests look at it.
#[derive(Debug)]
struct Asked {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
}

impl Broker {
    /// The next request, `None` when the client closed.
    async fn next(&mut self) -> Option<Asked> {
        loop {
            if let Some(frame) = self.frames.next_frame().expect("the client sends proper frames") {
                return Some(match decode_request_header(&frame) {
                    Ok((header, _body)) => Asked {
                        api: header.api_key,
                        version: header.api_version,
                        correlation_id: header.correlation_id,
                    },
                    Err(RequestHeaderError::Malformed(error)) => panic!("{error}"),
                    Err(error) => panic!("the client asks what this codec does not know: {error}"),
                });
            }
            if self.stream.read_buf(self.frames.buffer()).await.ok()? == 0 {
                return None;
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("the client reads");
    }

    async fn answer<R: Request>(&mut self, asked: &Asked, response: &R::Response) {
        let mut encoder = Encoder::new();
        encode_response::<R>(&mut encoder, asked.version, asked.correlation_id, response).expect("sayable");
        self.write(&encoder.buffer).await;
    }

    /// Answers ApiVersions as a broker that speaks these.
    async fn greet(&mut self) {
        let asked = self.next().await.expect("the client asks first");
        assert_eq!(asked.api, ApiKey::ApiVersions);
        self.answer::<ApiVersionsRequest>(&asked, &spoken()).await;
    }
}

fn spoken() -> ApiVersionsResponse {
    let api_keys = [(ApiKey::Metadata, 0, 12), (ApiKey::InitProducerId, 0, 4), (ApiKey::ApiVersions, 0, 3)]
        .map(|(api, min_version, max_version)| ApiVersion { api_key: api.code(), min_version, max_version });
    ApiVersionsResponse { api_keys: api_keys.into(), ..Default::default() }
}

fn options() -> ConnectionOptions {
    ConnectionOptions {
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(5),
        max_response_bytes: 1 << 20,
        ..Default::default()
    }
}

/// Runs a broker that serves one connection, and a client against it.
fn scenario<B, C>(serve: impl FnOnce(Broker) -> B + Send + 'static, client: impl FnOnce(Runtime, u16) -> C)
where
    B: Future<Output = ()> + Send + 'static,
    C: Future<Output = ()>,
{
    tokio_backend::block_on(Some(1), async |runtime| {
        let listener = runtime.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        let port = listener.local_addr().port();
        let broker: JoinHandle<()> = runtime.spawn("fake broker", async move {
            let stream = listener.accept().await.expect("the client comes");
            serve(Broker { stream, frames: FrameReader::new(1 << 20) }).await;
        });
        client(runtime.clone(), port).await;
        broker.await.expect("the broker's expectations hold");
    })
    .expect("tokio starts");
}

async fn connect(runtime: &Runtime, port: u16) -> Result<Connection, ConnectionError> {
    Connection::connect(runtime, "127.0.0.1", port, options()).await
}

fn producer(id: i64) -> InitProducerIdResponse {
    InitProducerIdResponse { producer_id: id, ..Default::default() }
}

#[test]
fn requests_are_pipelined_and_answered_in_order() {
    scenario(
        async |mut broker| {
            broker.greet().await;
            let first = broker.next().await.expect("one");
            let second = broker.next().await.expect("another, before the first is answered");
            assert_eq!((first.version, second.version), (4, 12));
            broker.answer::<InitProducerIdRequest>(&first, &producer(7)).await;
            let metadata = MetadataResponse { controller_id: 3, ..Default::default() };
            broker.answer::<MetadataRequest>(&second, &metadata).await;
            assert!(broker.next().await.is_none(), "dropping the connection closes it");
        },
        async |runtime, port| {
            let connection = connect(&runtime, port).await.expect("agreed");
            let (ids, topics) = (InitProducerIdRequest::default(), MetadataRequest::default());
            let (first, second) = tokio::join!(connection.send(&ids), connection.send(&topics));
            assert_eq!(first.expect("answered").producer_id, 7);
            assert_eq!(second.expect("answered").controller_id, 3);
        },
    );
}

#[test]
fn an_old_broker_names_its_versions_in_version_0() {
    scenario(
        async |mut broker| {
            let asked = broker.next().await.expect("the newest version first");
            assert_eq!(asked.version, 4);
            let refusal = ApiVersionsResponse { error_code: 35, ..spoken() };
            let mut encoder = Encoder::new();
            encode_response::<ApiVersionsRequest>(&mut encoder, 0, asked.correlation_id, &refusal)
                .expect("sayable");
            broker.write(&encoder.buffer).await;
            let asked = broker.next().await.expect("again");
            assert_eq!(asked.version, 3);
            broker.answer::<ApiVersionsRequest>(&asked, &spoken()).await;
        },
        async |runtime, port| {
            let connection = connect(&runtime, port).await.expect("agreed");
            assert_eq!(connection.common_versions::<MetadataRequest>().expect("both speak it"), 0..=12);
        },
    );
}

#[test]
fn a_request_that_the_broker_does_not_know_is_not_sent() {
    scenario(
        async |mut broker| {
            broker.greet().await;
            assert!(broker.next().await.is_none());
        },
        async |runtime, port| {
            let connection = connect(&runtime, port).await.expect("agreed");
            let error = connection.send(&FetchRequest::default()).await.expect_err("not spoken");
            assert!(matches!(error, ConnectionError::NoCommonVersion { api: ApiKey::Fetch, .. }));
            assert!(error.is_definite());
        },
    );
}

#[test]
fn a_timeout_leaves_the_connection_and_its_order_intact() {
    scenario(
        async |mut broker| {
            broker.greet().await;
            let slow = broker.next().await.expect("one");
            let next = broker.next().await.expect("another, after the first was given up");
            broker.answer::<InitProducerIdRequest>(&slow, &producer(1)).await;
            broker.answer::<InitProducerIdRequest>(&next, &producer(2)).await;
        },
        async |runtime, port| {
            let connection = connect(&runtime, port).await.expect("agreed");
            let request = InitProducerIdRequest::default();
            let error =
                connection.send_version(4, &request, Duration::from_millis(30)).await.expect_err("too late");
            assert!(matches!(error, ConnectionError::TimedOut { timeout_ms: 30, .. }), "{error}");
            assert!(!error.is_definite());
            assert_eq!(connection.send(&request).await.expect("answered").producer_id, 2);
        },
    );
}

#[test]
fn no_more_than_the_limit_is_in_flight() {
    scenario(
        async |mut broker| {
            broker.greet().await;
            for id in 0..3 {
                let asked = broker.next().await.expect("one at a time");
                assert!(broker.frames.is_empty(), "the next waits for its place");
                broker.answer::<InitProducerIdRequest>(&asked, &producer(id)).await;
            }
        },
        async |runtime, port| {
            let options = ConnectionOptions { max_in_flight: 1, ..options() };
            let connection = Connection::connect(&runtime, "127.0.0.1", port, options).await.expect("agreed");
            let request = InitProducerIdRequest::default();
            let (a, b, c) =
                tokio::join!(connection.send(&request), connection.send(&request), connection.send(&request));
            let ids = [a, b, c].map(|answer| answer.expect("answered").producer_id);
            assert_eq!(ids, [0, 1, 2]);
        },
    );
}

/// What a hostile broker sends in answer to the first request after the greeting, and the error it must give.
fn hostile(answer: impl Fn(i32) -> Vec<u8> + Send + 'static, expected: fn(&ConnectionError) -> bool) {
    scenario(
        async move |mut broker| {
            broker.greet().await;
            let asked = broker.next().await.expect("one");
            let bytes = answer(asked.correlation_id);
            broker.write(&bytes).await;
        },
        async |runtime, port| {
            let connection = connect(&runtime, port).await.expect("agreed");
            let error = connection.send(&InitProducerIdRequest::default()).await.expect_err("garbage");
            assert!(expected(&error), "{error:?}");
        },
    );
}

fn framed(content: &[u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    bytes.put_i32(i32::try_from(content.len()).expect("short"));
    bytes.put_slice(content);
    bytes.to_vec()
}

#[test]
fn hostile_answers_are_typed_errors() {
    hostile(|_id| Vec::new(), |error| matches!(error, ConnectionError::Closed | ConnectionError::Io(_)));
    hostile(|_id| vec![0xff, 0xff, 0xff, 0xff], |error| matches!(error, ConnectionError::Frame(_)));
    hostile(|_id| vec![0x7f, 0xff, 0xff, 0xff], |error| matches!(error, ConnectionError::Frame(_)));
    hostile(|_id| framed(&[0, 0]), |error| matches!(error, ConnectionError::ShortResponse { bytes: 2 }));
    hostile(
        |id| framed(&(id + 9).to_be_bytes()),
        |error| matches!(error, ConnectionError::WrongCorrelationId { .. }),
    );
    hostile(
        |id| framed(&[&id.to_be_bytes()[..], &[0, 0, 0]].concat()),
        |error| matches!(error, ConnectionError::Malformed { api: ApiKey::InitProducerId, version: 4, .. }),
    );
}

#[test]
fn everyone_who_waits_hears_of_the_end_and_everyone_after() {
    scenario(
        async |mut broker| {
            broker.greet().await;
            for _ in 0..2 {
                broker.next().await.expect("two wait");
            }
        },
        async |runtime, port| {
            let connection = connect(&runtime, port).await.expect("agreed");
            let request = InitProducerIdRequest::default();
            let (a, b) = tokio::join!(connection.send(&request), connection.send(&request));
            for error in [a.expect_err("closed"), b.expect_err("closed")] {
                assert!(!error.is_definite(), "{error}");
            }
            assert!(connection.failure().is_some());
            assert!(connection.send(&request).await.is_err());
        },
    );
}

#[test]
fn an_answer_that_nobody_asked_for_ends_the_connection() {
    scenario(
        async |mut broker| {
            broker.greet().await;
            broker.write(&framed(&5i32.to_be_bytes())).await;
            assert!(broker.next().await.is_none());
        },
        async |runtime, port| {
            let connection = connect(&runtime, port).await.expect("agreed");
            while connection.failure().is_none() {
                runtime.sleep(Duration::from_millis(1)).await;
            }
            let failure = connection.failure().expect("it failed");
            assert!(matches!(failure, ConnectionError::UnaskedResponse { received: 5 }), "{failure}");
        },
    );
}

#[test]
fn nobody_listens_and_nobody_answers() {
    tokio_backend::block_on(Some(1), async |runtime| {
        let listener = runtime.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        let port = listener.local_addr().port();
        let options = ConnectionOptions { connect_timeout: Duration::from_millis(30), ..options() };
        let silent = Connection::connect(&runtime, "127.0.0.1", port, options).await.expect_err("no answer");
        assert!(matches!(silent, ConnectionError::ConnectTimedOut { timeout_ms: 30, .. }), "{silent}");
        drop(listener);
        let refused = connect(&runtime, port).await.expect_err("refused");
        assert!(matches!(refused, ConnectionError::Connect { .. }) && refused.is_definite(), "{refused}");
    })
    .expect("tokio starts");
}

#[test]
fn frames_that_arrive_in_pieces_are_put_together() {
    scenario(
        async |mut broker| {
            broker.greet().await;
            let asked = broker.next().await.expect("one");
            let mut encoder = Encoder::new();
            encode_response::<InitProducerIdRequest>(
                &mut encoder,
                asked.version,
                asked.correlation_id,
                &producer(9),
            )
            .expect("sayable");
            let bytes: Bytes = encoder.buffer.freeze();
            for byte in bytes.iter() {
                broker.write(std::slice::from_ref(byte)).await;
            }
        },
        async |runtime, port| {
            let connection = connect(&runtime, port).await.expect("agreed");
            let answer = connection.send(&InitProducerIdRequest::default()).await.expect("answered");
            assert_eq!(answer.producer_id, 9);
        },
    );
}
