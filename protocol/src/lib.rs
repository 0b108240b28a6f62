//! Wire and record formats of Kafka: messages at every version that clients of today send, from a
//! compact declarative schema, and record batches as views over bytes; and ZooKeeper's client protocol
//! ([`zookeeper`]).
//!
//! Everything here is pure: no sockets, no files, no clock. Bytes from outside never cause a panic and
//! never an allocation out of proportion to their number.
//!
//! ```
//! use sillon_protocol::frame::{FrameReader, encode_request};
//! use sillon_protocol::messages::{AnyRequest, MetadataRequest, decode_request_header};
//! use sillon_protocol::wire::Encoder;
//!
//! // A client writes ...
//! let mut encoder = Encoder::new();
//! encode_request(&mut encoder, 12, 7, Some("example"), &MetadataRequest::default()).unwrap();
//!
//! // ... and a broker reads.
//! let mut reader = FrameReader::new(1 << 20);
//! reader.push(&encoder.buffer);
//! let frame = reader.next_frame().unwrap().expect("the frame is whole");
//! let (header, mut body) = decode_request_header(&frame).unwrap();
//! assert_eq!(header.correlation_id, 7);
//! let request = AnyRequest::decode(header.api_key, header.api_version, &mut body).unwrap();
//! assert_eq!(request, AnyRequest::Metadata(MetadataRequest::default()));
//! ```

mod api_key;
pub mod error_code;
pub mod frame;
pub mod messages;
pub mod records;
pub mod wire;
pub mod zookeeper;

pub use api_key::{ApiKey, FIRST_PRIVATE_API_KEY, LAST_PRIVATE_API_KEY};
pub use error_code::ErrorCode;
