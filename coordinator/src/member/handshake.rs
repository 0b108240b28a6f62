//! The first frame of a connection: a session is opened, or an old one goes on here.
//!
//! Owns how timeouts are negotiated, how sessions are numbered and what proves them. A session exists once its entry is
//! applied, and not before.

use super::{
    Member,
    connection::{Phase, frame},
};
use crate::{
    command::Action,
    types::{MemberId, SessionId},
};
use sha1::{Digest, Sha1};
use sillon_protocol::zookeeper::{ConnectRequest, ConnectResponse, Jute, Reader};
use sillon_runtime::UnixMillis;

/// How many bytes prove a session.
const PASSWORD_BYTES: usize = 16;

/// Sessions are numbered from here: the member in the highest byte, as ZooKeeper has it, then the time at which the
/// process started and some of its random number, so that two processes do not meet.
pub(super) fn first_session(member: MemberId, unix: UnixMillis, incarnation: u64) -> i64 {
    let member = (member.0 & 0x7f).max(1) << 56;
    let time = (unix.0.cast_unsigned() & 0xff_ffff_ffff) << 16;
    let random = incarnation & 0xff00;
    (member | time | random).cast_signed()
}

impl Member {
    /// Takes the handshake's frame.
    pub(super) fn greet(&mut self, number: u64, bytes: &[u8]) {
        let Ok(request) = ConnectRequest::read(&mut Reader::new(bytes)) else {
            return self.drop_connection(number, "its first frame is no handshake");
        };
        if request.last_zxid_seen > self.last_zxid().0 {
            return self.drop_connection(number, "it has seen more than this member");
        }
        if !self.roles.is_serving() {
            return self.drop_connection(number, "this member does not serve now");
        }
        let timeout_ms =
            request.timeout_ms.clamp(self.config.min_session_timeout_ms, self.config.max_session_timeout_ms);
        let key = self.key_of(number);
        let action = if request.session_id == 0 {
            let session = self.new_session();
            Action::OpenSession { session, password: self.password_of(session), timeout_ms, connection: key }
        } else {
            let session = SessionId(request.session_id);
            // As ZooKeeper does: whoever names a session ends the connection that it has on this server.
            if let Some(old) = self.session_connections.get(&session).copied() {
                self.drop_connection(old, "its session is claimed by another connection");
            }
            let password = request.password.unwrap_or_default().to_vec();
            Action::AttachSession { session, password, timeout_ms, connection: key }
        };
        let sequence = self.propose(action);
        self.waiting.insert(sequence, number);
        let connection = self.connections.get_mut(&number).expect("frames come from connections that exist");
        connection.phase = Phase::Opening { read_only_byte: request.read_only.is_some() };
        connection.commits_waited_for += 1;
    }

    fn new_session(&mut self) -> SessionId {
        while self.state.session(SessionId(self.next_session)).is_some() {
            self.next_session += 1;
        }
        let session = SessionId(self.next_session);
        self.next_session += 1;
        session
    }

    fn password_of(&self, session: SessionId) -> [u8; PASSWORD_BYTES] {
        let mut hash = Sha1::new();
        hash.update(self.secret);
        hash.update(session.0.to_be_bytes());
        let digest = hash.finalize();
        digest[..PASSWORD_BYTES].try_into().expect("SHA-1 gives twenty bytes")
    }

    /// Ends the handshake: the session goes on here, or, without one, the client is told that it has gone.
    pub(super) fn welcome(&mut self, number: u64, session: Option<SessionId>) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Phase::Opening { read_only_byte } = connection.phase else { return };
        let alive = session.and_then(|session| self.state.session(session).map(|state| (session, state)));
        let mut password = vec![0; PASSWORD_BYTES];
        let (mut session_id, mut timeout_ms) = (0, 0);
        if let Some((session, state)) = alive {
            password.copy_from_slice(&state.password);
            (session_id, timeout_ms) = (session.0, state.timeout_ms);
        }
        let response =
            ConnectResponse { protocol_version: 0, timeout_ms, session_id, password: Some(&password) };
        frame(&mut connection.out, |out| {
            response.write(out);
            if read_only_byte {
                false.write(out);
            }
        });
        connection.out_replies += 1;
        connection.report.sent += 1;
        self.dirty.insert(number);
        let Some((session, _)) = alive else {
            connection.phase = Phase::Closing;
            return;
        };
        connection.phase = Phase::Open;
        connection.session = Some(session);
        connection.timeout_ms = timeout_ms;
        let early = std::mem::take(&mut connection.early_frames);
        self.session_connections.insert(session, number);
        self.hear(number);
        self.on_frames(number, early);
    }
}
