//! The receiving half of a session: what each frame from the server means.

use super::{
    Effect, Ending, Extra, InFlight, Notice, RawReply, Session, SessionCredentials, SessionEvent, State,
    WatchEnded, WatchedEvent, millis,
};
use crate::{
    client::{
        error::{ClientError, Loss},
        observe::ClientFact,
        registry::WatchedThing,
    },
    types::{SessionId, Zxid},
};
use sillon_protocol::zookeeper::{
    ConnectResponse, ErrorCode, EventType, Jute, OpCode, Reader, ReplyHeader, WatcherEvent,
    records::{AUTH_XID, EVENT_XID, PING_XID, SET_WATCHES_XID},
};
use sillon_runtime::Monotonic;
use std::time::Duration;

impl Session {
    /// A frame arrived, without its length.
    pub(in crate::client) fn received(&mut self, now: Monotonic, frame: &[u8]) {
        let outcome = match &mut self.state {
            State::Handshaking { .. } => self.handshake(now, frame),
            State::Connected { last_heard, .. } => {
                *last_heard = now;
                self.message(frame)
            }
            // A frame that the loss of its connection has overtaken.
            State::Waiting { .. } | State::Connecting { .. } | State::Ended(_) => Ok(()),
        };
        if let Err(loss) = outcome {
            self.lost(now, loss);
        }
    }

    fn handshake(&mut self, now: Monotonic, frame: &[u8]) -> Result<(), Loss> {
        let response = ConnectResponse::read(&mut Reader::new(frame)).map_err(Loss::Frame)?;
        let wanted = self.credentials.as_ref().map(|credentials| credentials.id.0);
        let another = wanted.is_some_and(|wanted| wanted != response.session_id);
        let Some(timeout_ms) =
            u64::try_from(response.timeout_ms).ok().filter(|timeout| *timeout > 0 && !another)
        else {
            self.drop_connection();
            self.end(Ending::Expired);
            return Ok(());
        };
        self.timeout = Duration::from_millis(timeout_ms);
        let session = SessionId(response.session_id);
        let password = response.password.unwrap_or_default().to_vec();
        self.credentials = Some(SessionCredentials { id: session, password });
        self.state = State::Connected { last_sent: now, last_heard: now };
        self.failures = 0;
        let server = self.settings.servers[self.server].clone();
        let (timeout_ms, resumed) = (millis(self.timeout), wanted.is_some());
        self.session_event(SessionEvent::Connected { server, session, timeout_ms, resumed });
        for proof in 0..self.proofs.len() {
            self.send_proof(now, proof);
        }
        self.send_watches(now);
        for watch in self.registry.persistent() {
            self.effects.push_back(Effect::Notify(watch, Notice::Gap));
        }
        for (_, request) in std::mem::take(&mut self.queued) {
            self.send_request(now, request);
        }
        Ok(())
    }

    fn message(&mut self, frame: &[u8]) -> Result<(), Loss> {
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::read(&mut reader).map_err(Loss::Frame)?;
        self.last_zxid = self.last_zxid.max(header.zxid);
        match header.xid {
            EVENT_XID => self.event(&header, &mut reader)?,
            PING_XID => self.tell_reply(&header, OpCode::Ping, reader.rest()),
            SET_WATCHES_XID => self.tell_reply(&header, OpCode::SetWatches2, reader.rest()),
            AUTH_XID => {
                self.tell_reply(&header, OpCode::Auth, reader.rest());
                self.proof_answered(&header);
            }
            _ => self.reply(&header, reader.rest())?,
        }
        Ok(())
    }

    fn tell_reply(&self, header: &ReplyHeader, operation: OpCode, body: &[u8]) {
        let ReplyHeader { xid, zxid, error } = *header;
        let error = ErrorCode::from_number(error);
        self.observe(ClientFact::ReplyReceived { xid, operation: operation.number(), zxid, error, body });
    }

    fn event(&mut self, header: &ReplyHeader, reader: &mut Reader<'_>) -> Result<(), Loss> {
        let event = WatcherEvent::read(reader).map_err(Loss::Frame)?;
        // Others tell of the session's state, which this client knows by itself.
        let Some(event_type) = EventType::from_number(event.event_type) else { return Ok(()) };
        self.observe(ClientFact::EventReceived { zxid: header.zxid, event_type, path: event.path });
        for watch in self.registry.fire(event_type, event.path) {
            let event = WatchedEvent { event_type, path: event.path.to_owned() };
            self.effects.push_back(Effect::Notify(watch, Notice::Changed(event)));
        }
        if let Some((above, watches)) = self.registry.fire_above(event_type, event.path) {
            for watch in watches {
                let event =
                    WatchedEvent { event_type: EventType::NodeChildrenChanged, path: above.to_owned() };
                self.effects.push_back(Effect::Notify(watch, Notice::Changed(event)));
            }
        }
        Ok(())
    }

    fn proof_answered(&mut self, header: &ReplyHeader) {
        // An answer that nobody waits for: some servers say by it that they close the connection.
        let index = self.proofs_in_flight.pop_front();
        match (ErrorCode::from_number(header.error), index) {
            (Some(_), _) => {
                self.drop_connection();
                self.end(Ending::AuthFailed);
            }
            (None, Some(index)) => {
                if let Some(ticket) = self.proofs[index].waiting.take() {
                    let reply = RawReply { zxid: Zxid(header.zxid), body: Vec::new() };
                    self.effects.push_back(Effect::Complete(ticket, Ok(reply)));
                }
            }
            (None, None) => {}
        }
    }

    fn reply(&mut self, header: &ReplyHeader, body: &[u8]) -> Result<(), Loss> {
        let expected = self.in_flight.front().map(|oldest| oldest.xid);
        if expected != Some(header.xid) {
            return Err(Loss::WrongXid { expected, received: header.xid });
        }
        let request = self.in_flight.pop_front().expect("the front was there a moment ago");
        self.tell_reply(header, request.operation, body);
        let (zxid, error) = (Zxid(header.zxid), ErrorCode::from_number(header.error));
        self.settle(&request, error);
        let result = match error {
            Some(code) => Err(ClientError::Server { code, zxid }),
            None => Ok(RawReply { zxid, body: body.to_vec() }),
        };
        self.effects.push_back(Effect::Complete(request.ticket, result));
        if request.extra == Extra::Close {
            self.drop_connection();
            self.end(Ending::Closed);
        } else if error == Some(ErrorCode::SessionExpired) {
            self.drop_connection();
            self.end(Ending::Expired);
        }
        Ok(())
    }

    /// What a request that was answered means for the watches.
    fn settle(&mut self, request: &InFlight, error: Option<ErrorCode>) {
        match &request.extra {
            Extra::Watch { watch, thing, path } => {
                if thing.is_persistent() {
                    self.no_longer_setting(path, *thing);
                }
                // What does not exist can be watched for its creation, but by exists alone.
                let absent = error == Some(ErrorCode::NoNode) && request.operation == OpCode::Exists;
                let thing = if absent { WatchedThing::Absence } else { *thing };
                if error.is_some() && !absent {
                    self.effects.push_back(Effect::EndWatch(*watch, WatchEnded::NotSet));
                } else if request.covered && !self.registry.covers(path) {
                    // The persistent watch that it relied on was removed meanwhile, or never came about.
                    self.effects.push_back(Effect::EndWatch(*watch, WatchEnded::Removed));
                } else {
                    self.registry.add(*watch, thing, path);
                }
            }
            Extra::RemoveWatches { path, watcher_type } if error.is_none() => {
                for watch in self.registry.remove(path, *watcher_type) {
                    self.effects.push_back(Effect::EndWatch(watch, WatchEnded::Removed));
                }
            }
            Extra::RemoveWatches { .. } | Extra::Nothing | Extra::Close => {}
        }
    }

    fn no_longer_setting(&mut self, path: &str, thing: WatchedThing) {
        let key = (path.to_owned(), thing);
        let count = self.setting.get_mut(&key).expect("each request that sets a watch is counted");
        *count -= 1;
        if *count == 0 {
            self.setting.remove(&key);
        }
    }
}
