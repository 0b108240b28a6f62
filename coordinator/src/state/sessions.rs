//! Sessions: which there are, and on which connection each goes on.
//!
//! Owns the table, its digest and its part of a snapshot. Measures no time: whether a session was silent for too long is
//! the leader's to notice.

use super::{
    capture::{Output, kind},
    hash::{hash_bytes, mix},
};
use crate::types::{ConnectionKey, MemberId, SessionId};
use sillon_protocol::zookeeper::{ErrorCode, Jute, JuteError, Reader};
use std::collections::{BTreeMap, BTreeSet};

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its timeout, negotiated.
    pub timeout_ms: i32,
    /// What proves it.
    pub password: [u8; 16],
    /// The connection that it goes on with.
    pub connection: ConnectionKey,
}

/// All sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    table: BTreeMap<SessionId, Session>,
    digest: u64,
    capture: Option<Capture>,
}

/// A snapshot of the table that is being taken.
#[derive(Debug, Default)]
struct Capture {
    /// The scan has come this far.
    last: Option<SessionId>,
    done: bool,
    /// Sessions that the scan must pass over: written before it came to them, or opened since the snapshot began.
    early: BTreeSet<SessionId>,
    output: Output,
}

fn digest(id: SessionId, session: &Session) -> u64 {
    let ConnectionKey { member, incarnation, number } = session.connection;
    let timeout_ms = u64::from(session.timeout_ms.cast_unsigned());
    let hash = mix(mix(4, id.0.cast_unsigned(), timeout_ms), member.0, incarnation);
    hash_bytes(mix(hash, number, 0), &session.password)
}

impl Sessions {
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.table.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.table.iter().map(|(id, session)| (*id, session))
    }

    /// Whether this connection may write for the session.
    ///
    /// # Errors
    /// SessionExpired where there is no such session, SessionMoved where it goes on with another connection.
    pub(super) fn check(&self, id: SessionId, connection: ConnectionKey) -> Result<(), ErrorCode> {
        match self.table.get(&id) {
            None => Err(ErrorCode::SessionExpired),
            Some(session) if session.connection != connection => Err(ErrorCode::SessionMoved),
            Some(_) => Ok(()),
        }
    }

    /// Adds a session or replaces it.
    pub(super) fn put(&mut self, id: SessionId, session: Session) {
        self.touch(id);
        self.digest = self.digest.wrapping_add(digest(id, &session));
        if let Some(old) = self.table.insert(id, session) {
            self.digest = self.digest.wrapping_sub(digest(id, &old));
        }
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<Session> {
        self.touch(id);
        let session = self.table.remove(&id)?;
        self.digest = self.digest.wrapping_sub(digest(id, &session));
        Some(session)
    }

    /// A session is about to change, to come or to go.
    fn touch(&mut self, id: SessionId) {
        let Some(capture) = &mut self.capture else { return };
        if capture.done || capture.last.is_some_and(|last| id <= last) || !capture.early.insert(id) {
            return;
        }
        if let Some(session) = self.table.get(&id) {
            write(id, session, &mut capture.output);
        }
    }

    pub(super) fn begin_capture(&mut self) {
        self.capture = Some(Capture::default());
    }

    pub(super) fn end_capture(&mut self) {
        self.capture = None;
    }

    /// Goes on with the scan, and takes up to so many bytes; nothing once all was taken.
    pub(super) fn take(&mut self, budget: usize) -> Vec<u8> {
        let Some(capture) = &mut self.capture else { return Vec::new() };
        let after = |last| (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
        while !capture.done && capture.output.len() < budget {
            let next = match capture.last {
                None => self.table.iter().next(),
                Some(last) => self.table.range(after(last)).next(),
            };
            let Some((id, session)) = next else {
                capture.done = true;
                break;
            };
            if !capture.early.contains(id) {
                write(*id, session, &mut capture.output);
            }
            capture.last = Some(*id);
        }
        capture.output.take(budget)
    }
}

fn write(id: SessionId, session: &Session, output: &mut Output) {
    output.record(kind::SESSION, |out| {
        id.0.write(out);
        session.timeout_ms.write(out);
        out.extend_from_slice(&session.password);
        let ConnectionKey { member, incarnation, number } = session.connection;
        for word in [member.0, incarnation, number] {
            word.cast_signed().write(out);
        }
    });
}

/// Reads what [`write`] wrote.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<(SessionId, Session), JuteError> {
    let id = SessionId(i64::read(reader)?);
    let timeout_ms = i32::read(reader)?;
    let password = reader.take(16)?.try_into().expect("sixteen bytes");
    let mut word = || i64::read(reader).map(i64::cast_unsigned);
    let connection = ConnectionKey { member: MemberId(word()?), incarnation: word()?, number: word()? };
    Ok((id, Session { timeout_ms, password, connection }))
}
