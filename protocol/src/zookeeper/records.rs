//! Records that belong to no single operation: headers, the handshake, stat, events.

use super::{
    acl::{Acl, Identity, permission},
    jute::{Jute, JuteError, Reader},
};

/// The xid of a watch event.
pub const EVENT_XID: i32 = -1;
/// The xid with which clients ping.
pub const PING_XID: i32 = -2;
/// The xid with which most clients prove identities.
pub const AUTH_XID: i32 = -4;
/// The xid with which most clients set watches again.
pub const SET_WATCHES_XID: i32 = -8;

crate::jute! {
    /// In front of each request.
    pub struct RequestHeader {
        /// The client's number for it, which the reply repeats.
        xid: i32,
        /// The operation's number.
        operation: i32,
    }

    /// In front of each reply and event.
    pub struct ReplyHeader {
        /// The request's number, or one of the special ones.
        xid: i32,
        /// The last transaction that the answer has seen.
        zxid: i64,
        /// 0, or an error's number: then nothing follows.
        error: i32,
    }

    /// What is known about a node besides its data.
    #[derive(Copy, Default)]
    pub struct Stat {
        /// The transaction that created it.
        czxid: i64,
        /// The transaction that wrote it last.
        mzxid: i64,
        /// When it was created, milliseconds since 1970.
        ctime: i64,
        /// When it was written last, milliseconds since 1970.
        mtime: i64,
        /// How often its data was written.
        version: i32,
        /// How often its children changed.
        cversion: i32,
        /// How often its access list was written.
        aversion: i32,
        /// The session that it goes with, or 0.
        ephemeral_owner: i64,
        /// Bytes of data.
        data_length: i32,
        /// How many children it has.
        num_children: i32,
        /// The transaction that changed its children last.
        pzxid: i64,
    }

    /// A watch fired.
    pub struct WatcherEvent<'a> {
        /// What happened: an [`EventType`](super::EventType).
        event_type: i32,
        /// The session's state: a [`KeeperState`](super::KeeperState).
        state: i32,
        /// The node.
        path: &'a str,
    }

    /// The server's half of the handshake, but for the byte that only newer clients get.
    pub struct ConnectResponse<'a> {
        /// 0.
        protocol_version: i32,
        /// The session's timeout in milliseconds; 0 where the session has gone.
        timeout_ms: i32,
        /// The session, or 0.
        session_id: i64,
        /// What proves it at the next connect: 16 bytes.
        password: Option<&'a [u8]>,
    }
}

/// The client's half of the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// 0.
    pub protocol_version: i32,
    /// The last transaction that the client has seen.
    pub last_zxid_seen: i64,
    /// The timeout that it wishes, in milliseconds.
    pub timeout_ms: i32,
    /// Its session, or 0 for a new one.
    pub session_id: i64,
    /// What proves the session.
    pub password: Option<&'a [u8]>,
    /// Whether a read-only server would do. `None` from clients that do not know of such: they get no such byte back.
    pub read_only: Option<bool>,
}

impl<'a> Jute<'a> for ConnectRequest<'a> {
    const MINIMUM_SIZE: usize = 28;

    fn read(reader: &mut Reader<'a>) -> Result<Self, JuteError> {
        Ok(ConnectRequest {
            protocol_version: i32::read(reader)?,
            last_zxid_seen: i64::read(reader)?,
            timeout_ms: i32::read(reader)?,
            session_id: i64::read(reader)?,
            password: Option::read(reader)?,
            read_only: if reader.is_empty() { None } else { Some(bool::read(reader)?) },
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.protocol_version.write(out);
        self.last_zxid_seen.write(out);
        self.timeout_ms.write(out);
        self.session_id.write(out);
        self.password.write(out);
        if let Some(read_only) = self.read_only {
            read_only.write(out);
        }
    }
}

/// The access list that permits everything to everybody.
pub fn open_acl() -> Vec<Acl> {
    vec![Acl { permissions: permission::ALL, identity: Identity::anyone() }]
}
