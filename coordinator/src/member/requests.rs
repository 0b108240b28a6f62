//! Frames of an open connection: each becomes a request, writes set out for the leader at once, reads wait their turn.
//!
//! Owns which operation goes which way. What a write does is decided when it is applied, in `state`.

use super::{
    Member,
    connection::{Answer, Connection, Phase, Queued, Request, Step},
};
use crate::{command::Action, state::asks_for_time_to_live};
use bytes::Bytes;
use sillon_protocol::zookeeper::{
    ErrorCode, Jute, OpCode, Reader, RequestHeader, WhoAmIResponse,
    requests::{ClientInfo, PathRecord},
};

/// How many bytes of a frame come before the request's body.
const HEADER_BYTES: usize = 8;
/// How many frames may wait for a handshake to end.
const MAXIMUM_EARLY_FRAMES: usize = 1024;

impl Member {
    pub(super) fn on_accepted(&mut self, number: u64, peer: std::net::SocketAddr) {
        let connection = Connection::new(peer, self.moment.now, self.moment.unix.0);
        let before = self.connections.insert(number, connection);
        assert!(before.is_none(), "connection numbers are used once");
    }

    pub(super) fn on_frames(&mut self, number: u64, frames: Vec<Bytes>) {
        for frame in frames {
            let Some(connection) = self.connections.get_mut(&number) else { return };
            connection.report.received += 1;
            self.statistics.packets_received += 1;
            match connection.phase {
                Phase::Greeting => self.greet(number, &frame),
                Phase::Opening { .. } if connection.early_frames.len() < MAXIMUM_EARLY_FRAMES => {
                    connection.early_frames.push(frame);
                }
                Phase::Opening { .. } => {
                    return self.drop_connection(number, "it does not wait for its session");
                }
                Phase::Open => self.on_request(number, frame),
                Phase::Closing => return,
            }
        }
    }

    fn on_request(&mut self, number: u64, frame: Bytes) {
        let Ok(header) = RequestHeader::read(&mut Reader::new(&frame)) else {
            return self.drop_connection(number, "a frame has no request header");
        };
        self.hear(number);
        let body = frame.slice(HEADER_BYTES..);
        let step = match OpCode::from_number(header.operation) {
            Some(operation) => self.first_step(number, operation, header.operation, body),
            None => unimplemented(),
        };
        let received = self.moment.now;
        let request = Request { xid: header.xid, operation: header.operation, received };
        let request = Queued { request, step };
        let connection =
            self.connections.get_mut(&number).expect("requests come from connections that exist");
        if matches!(request.step, Step::Commit { .. }) {
            connection.commits_waited_for += 1;
        }
        connection.queue.push_back(request);
        self.statistics.outstanding += 1;
        self.advance(number);
    }

    fn first_step(&mut self, number: u64, operation: OpCode, code: i32, body: Bytes) -> Step {
        match operation {
            OpCode::CreateTtl | OpCode::Create | OpCode::Create2 | OpCode::Multi
                if !self.config.extended_types_enabled && asks_for_time_to_live(code, &body) =>
            {
                answered(self.last_zxid().0, ErrorCode::Unimplemented)
            }
            OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::SetAcl
            | OpCode::Check
            | OpCode::Multi => self.write(number, code, body),
            OpCode::CloseSession => {
                let (session, connection) = (self.session_of(number), self.key_of(number));
                let sequence = self.propose(Action::CloseSession { session, connection });
                self.waiting.insert(sequence, number);
                Step::Commit { sequence }
            }
            OpCode::Sync => {
                let ticket = self.syncs.ask(number);
                Step::Sync { ticket, body }
            }
            OpCode::Auth => {
                let error = self.prove(number, &body);
                Step::Answered(Answer { zxid: 0, error, body: Vec::new(), last: error != 0 })
            }
            OpCode::Reconfig => answered(-1, ErrorCode::ReconfigDisabled),
            OpCode::Sasl
            | OpCode::Notification
            | OpCode::DeleteContainer
            | OpCode::CreateSession
            | OpCode::Error => unimplemented(),
            OpCode::Exists
            | OpCode::GetData
            | OpCode::GetAcl
            | OpCode::GetChildren
            | OpCode::GetChildren2
            | OpCode::Ping
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::MultiRead
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::GetEphemerals
            | OpCode::GetAllChildrenNumber
            | OpCode::AddWatch
            | OpCode::WhoAmI => Step::Turn { operation, body },
        }
    }

    fn write(&mut self, number: u64, operation: i32, body: Bytes) -> Step {
        let identities = self.connections[&number]
            .identities
            .iter()
            .map(|identity| (identity.scheme.clone(), identity.id.clone()))
            .collect();
        let (session, connection) = (self.session_of(number), self.key_of(number));
        let sequence = self.propose(Action::Write { session, connection, identities, operation, body });
        self.waiting.insert(sequence, number);
        Step::Commit { sequence }
    }

    fn session_of(&self, number: u64) -> crate::types::SessionId {
        self.connections[&number].session.expect("an open connection has a session")
    }

    /// Answers all requests at the head of a connection's queue that wait for nothing but their turn.
    pub(super) fn advance(&mut self, number: u64) {
        loop {
            let Some(connection) = self.connections.get_mut(&number) else { return };
            if connection.phase == Phase::Closing {
                return;
            }
            match connection.queue.front() {
                Some(Queued {
                    step: Step::Turn { .. } | Step::Synced { .. } | Step::Answered(_), ..
                }) => {}
                _ => return,
            }
            let request = connection.queue.pop_front().expect("the queue has a head");
            self.statistics.outstanding -= 1;
            let Queued { request, step } = request;
            let answer = match step {
                Step::Turn { operation, body } => self.answer(number, operation, &body),
                Step::Synced { body } => self.sync_answer(&body),
                Step::Answered(answer) => answer,
                Step::Commit { .. } | Step::Sync { .. } => {
                    unreachable!("these wait for more than their turn")
                }
            };
            let now = self.moment.now;
            let connection = self.connections.get_mut(&number).expect("it was there before");
            connection.reply(&request, &answer, now);
            self.statistics.answered(now - request.received);
            self.dirty.insert(number);
            if answer.last {
                self.close_connection(number);
            }
        }
    }

    /// Answers an operation from the state as it is.
    fn answer(&mut self, number: u64, operation: OpCode, body: &[u8]) -> Answer {
        let zxid = self.last_zxid();
        match operation {
            OpCode::Ping => Connection::answer(zxid, 0, Vec::new()),
            OpCode::WhoAmI => Connection::answer(zxid, 0, self.who_is(number)),
            OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::AddWatch
            | OpCode::RemoveWatches
            | OpCode::CheckWatches => self.answer_about_watches(number, operation, body),
            _ => self.answer_read(number, operation, body),
        }
    }

    fn who_is(&self, number: u64) -> Vec<u8> {
        let identities = self.connections[&number].identities.iter().map(|identity| {
            let user = match identity.scheme.as_str() {
                "digest" => identity.id.split(':').next().unwrap_or_default().to_owned(),
                _ => identity.id.clone(),
            };
            ClientInfo { scheme: identity.scheme.clone(), user }
        });
        WhoAmIResponse { identities: identities.collect() }.to_bytes()
    }

    /// The path that a sync's reply repeats.
    pub(super) fn sync_answer(&self, body: &[u8]) -> Answer {
        let zxid = self.last_zxid();
        match PathRecord::read(&mut Reader::new(body)) {
            Ok(request) => Connection::answer(zxid, 0, request.to_bytes()),
            Err(_) => Connection::answer(zxid, ErrorCode::MarshallingError.number(), Vec::new()),
        }
    }
}

/// An answer that needs nothing but its turn.
fn answered(zxid: i64, error: ErrorCode) -> Step {
    Step::Answered(Answer { zxid, error: error.number(), body: Vec::new(), last: false })
}

/// The answer to an operation that is not offered; ZooKeeper ends the connection behind it.
fn unimplemented() -> Step {
    Step::Answered(Answer {
        zxid: -1,
        error: ErrorCode::Unimplemented.number(),
        body: Vec::new(),
        last: true,
    })
}
