//! ZooKeeper's client protocol, as version 3.8 speaks it: jute records, operation and error codes, path rules.
//!
//! Everything here is pure. Bytes from outside never cause a panic, and never an allocation out of proportion to their
//! number. Owns formats; never decides what a request does.
//!
//! ```
//! use sillon_protocol::zookeeper::{CreateRequest, Jute, Reader, records::open_acl};
//!
//! let request = CreateRequest { path: "/a", data: Some(b"x"), acl: open_acl(), flags: 0 };
//! let bytes = request.to_bytes();
//! assert_eq!(CreateRequest::read(&mut Reader::new(&bytes)).unwrap(), request);
//! ```

pub mod acl;
pub mod error_code;
pub mod flags;
pub mod jute;
pub mod multi;
pub mod op_code;
pub mod path;
pub mod records;
pub mod requests;
#[cfg(test)]
mod tests;

pub use acl::{Acl, Identity};
pub use error_code::ErrorCode;
pub use flags::{AddWatchMode, CreateMode, EventType, KeeperState, WatcherType};
pub use jute::{Jute, JuteError, Reader};
pub use op_code::OpCode;
pub use records::{ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader, Stat, WatcherEvent};
pub use requests::*;
