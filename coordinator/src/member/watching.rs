//! Watches: reads set them, entries fire them, and the operations that add, remove and restore them.
//!
//! Owns who is told what. The table itself is `watches`; a watch is set in the same step as its read, so that nothing
//! can happen in between.

use super::{
    Member,
    connection::{Answer, Connection},
};
use crate::{
    state::TreeEvent,
    watches::{self, NodeZxids, SetWatches, WatchKind},
};
use sillon_protocol::zookeeper::{
    AddWatchMode, AddWatchRequest, ErrorCode, ErrorResponse, Jute, JuteError, OpCode, PathWatchRequest,
    Reader, SetWatches2Request, SetWatchesRequest, WatcherType, WatchesRequest, path,
};

impl Member {
    /// Answers a read, and sets the watch that it asks for.
    pub(super) fn answer_read(&mut self, number: u64, operation: OpCode, body: &[u8]) -> Answer {
        let connection = &self.connections[&number];
        let session = connection.session.expect("an open connection has a session");
        let outcome = self.state.read(operation, body, &connection.identities, session);
        if let Some(kind) = outcome.watch
            && let Ok(request) = PathWatchRequest::read(&mut Reader::new(body))
            && request.watch
        {
            let kind = match kind {
                crate::state::WatchKind::Child => WatchKind::Child,
                crate::state::WatchKind::Data | crate::state::WatchKind::Exists => WatchKind::Data,
            };
            self.watches.add(number, request.path, kind);
        }
        Connection::answer(self.last_zxid(), outcome.error, outcome.body)
    }

    pub(super) fn answer_about_watches(&mut self, number: u64, operation: OpCode, body: &[u8]) -> Answer {
        let zxid = self.last_zxid();
        let result = match operation {
            OpCode::AddWatch => self.add_watch(number, body),
            OpCode::RemoveWatches => self.remove_watches(number, body),
            OpCode::CheckWatches => self.check_watches(number, body),
            OpCode::SetWatches => self.set_watches(number, body),
            _ => self.set_watches_2(number, body),
        };
        match result {
            Ok(body) => Connection::answer(zxid, 0, body),
            Err(error) => Connection::answer(zxid, error.number(), Vec::new()),
        }
    }

    fn add_watch(&mut self, number: u64, body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
        let request = read::<AddWatchRequest<'_>>(body)?;
        let mode = AddWatchMode::from_number(request.mode).ok_or(ErrorCode::MarshallingError)?;
        path::validate(request.path).map_err(|_| ErrorCode::BadArguments)?;
        let kind = match mode {
            AddWatchMode::Persistent => WatchKind::Persistent,
            AddWatchMode::PersistentRecursive => WatchKind::PersistentRecursive,
        };
        self.watches.add(number, request.path, kind);
        Ok(ErrorResponse { error: 0 }.to_bytes())
    }

    fn remove_watches(&mut self, number: u64, body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
        let (path, kind) = watches_request(body)?;
        let removed = self.watches.remove(number, path, kind);
        if removed { Ok(Vec::new()) } else { Err(ErrorCode::NoWatcher) }
    }

    fn check_watches(&mut self, number: u64, body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
        let (path, kind) = watches_request(body)?;
        if self.watches.has(number, path, kind) { Ok(Vec::new()) } else { Err(ErrorCode::NoWatcher) }
    }

    fn set_watches(&mut self, number: u64, body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
        let request = read::<SetWatchesRequest<'_>>(body)?;
        self.restore_watches(number, &request.into());
        Ok(Vec::new())
    }

    fn set_watches_2(&mut self, number: u64, body: &[u8]) -> Result<Vec<u8>, ErrorCode> {
        let request = read::<SetWatches2Request<'_>>(body)?;
        self.restore_watches(number, &request.into());
        Ok(Vec::new())
    }

    /// After a reconnect: what changed meanwhile is told at once, watches for the rest are set.
    fn restore_watches(&mut self, number: u64, request: &SetWatches<'_>) {
        let state = &self.state;
        let missed = watches::catch_up(request, |path| {
            state.node(path).map(|node| NodeZxids {
                czxid: node.stat.czxid,
                mzxid: node.stat.mzxid,
                pzxid: node.stat.pzxid,
            })
        });
        let connection =
            self.connections.get_mut(&number).expect("requests come from connections that exist");
        for (event, path) in &missed.events {
            connection.event(event.number(), path);
        }
        missed.apply(number, &mut self.watches);
        self.dirty.insert(number);
    }

    /// Tells an event to everybody who watches and may read the node.
    pub(super) fn fire(&mut self, event: &TreeEvent) {
        let mut watchers = Vec::new();
        self.watches.fire(event.kind, &event.path, &mut watchers);
        for number in watchers {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            if event.is_told_to(&connection.identities) {
                connection.event(event.kind.number(), &event.path);
                self.statistics.packets_sent += 1;
                self.dirty.insert(number);
            }
        }
    }
}

fn read<'a, T: Jute<'a>>(body: &'a [u8]) -> Result<T, ErrorCode> {
    T::read(&mut Reader::new(body)).map_err(|_: JuteError| ErrorCode::MarshallingError)
}

fn watches_request(body: &[u8]) -> Result<(&str, WatcherType), ErrorCode> {
    let request = read::<WatchesRequest<'_>>(body)?;
    let kind = WatcherType::from_number(request.watcher_type).ok_or(ErrorCode::MarshallingError)?;
    Ok((request.path, kind))
}
