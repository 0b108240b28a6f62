//! What the consensus has agreed on is applied: the state changes, watches fire, whoever waited is answered.
//!
//! Owns the order in which one entry's consequences leave: events first, then the reply.

use super::{
    Member,
    connection::{Answer, Step},
};
use crate::{
    command::{Command, Origin},
    consensus::{LogEntry, Output},
    observe::Observation,
    peer::PeerMessage,
    state::{Applied, SessionChange},
    types::{MemberId, SessionId, Term, Zxid},
};
use sillon_protocol::zookeeper::ErrorCode;

impl Member {
    pub(super) fn on_output(&mut self, output: Output) {
        for message in output.messages {
            self.effects.peers.push((message.to(), PeerMessage::Consensus(message)));
        }
        if output.install.is_some() {
            self.effects.persist_after_install.extend(output.persist);
        } else {
            self.effects.persist.extend(output.persist);
        }
        self.effects.send_snapshots.extend(output.send_snapshot);
        if let Some(mark) = output.install {
            assert!(self.effects.install.is_none(), "one snapshot is installed at a time");
            self.effects.install = Some(mark);
        }
        for entry in output.committed {
            self.apply(&entry);
        }
        for ready in output.reads {
            self.syncs.answered(ready.context, ready.index);
        }
        self.answer_syncs();
        if output.want_snapshot {
            self.want_snapshot();
        }
    }

    fn want_snapshot(&mut self) {
        if !self.snapshot_wanted {
            self.snapshot_wanted = true;
            self.effects.begin_snapshot = true;
        }
    }

    fn apply(&mut self, entry: &LogEntry) {
        let zxid = Zxid::of_index(entry.index);
        let command = (!entry.data.is_empty()).then(|| {
            // The log's checksums have held: what the leader wrote is what lies here.
            crate::frame::decode_payload::<Command>(&entry.data).expect("an entry of the log holds a command")
        });
        let origin = command.as_ref().and_then(|command| command.origin);
        let waiting = origin.filter(|origin| self.is_mine(origin)).and_then(|origin| {
            self.waiting.remove(&origin.sequence).map(|connection| (origin.sequence, connection))
        });
        let applied = self.state.apply(zxid, command.as_ref(), waiting.is_some());
        self.applied_term = entry.term;
        self.observers.tell(|| Observation::Applied {
            zxid,
            term: Term(entry.term),
            command: command.as_ref(),
            error: applied.error,
            changed: !applied.events.is_empty(),
            digest: self.state.digest(),
        });
        for event in &applied.events {
            self.fire(event);
        }
        if let Some(change) = &applied.session {
            self.on_session_change(change, waiting.map(|(_, connection)| connection));
        }
        if let Some((sequence, connection)) = waiting {
            self.settle(sequence, connection, applied);
        }
        self.entries_since_snapshot += 1;
        if self.entries_since_snapshot >= self.config.snapshot_interval_transactions {
            self.entries_since_snapshot = 0;
            self.want_snapshot();
        }
    }

    pub(super) fn is_mine(&self, origin: &Origin) -> bool {
        origin.member == self.id && origin.incarnation == self.incarnation
    }

    /// Answers the request whose command has been applied.
    fn settle(&mut self, sequence: u64, number: u64, applied: Applied) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.commits_waited_for =
            connection.commits_waited_for.checked_sub(1).expect("a commit that is waited for is counted");
        // Opening and moving a session answer through the handshake.
        let Some(request) = connection
            .queue
            .iter_mut()
            .find(|queued| matches!(queued.step, Step::Commit { sequence: waits } if waits == sequence))
        else {
            return;
        };
        let moved = applied.error == ErrorCode::SessionMoved.number();
        if moved || applied.error == ErrorCode::SessionExpired.number() {
            // As ZooKeeper does: the session is elsewhere or gone, so this connection has nothing to say any more.
            return self.drop_connection(number, "its session has moved or gone");
        }
        let last = matches!(applied.session, Some(SessionChange::Closed { .. }));
        let body = applied.body.unwrap_or_default();
        request.step = Step::Answered(Answer { zxid: applied.zxid.0, error: applied.error, body, last });
        self.advance(number);
    }

    fn on_session_change(&mut self, change: &SessionChange, waiting: Option<u64>) {
        match change {
            SessionChange::Opened { session } => {
                self.track(*session);
                if let Some(number) = waiting {
                    self.welcome(number, Some(*session));
                }
            }
            SessionChange::Attached { session, from, .. } => {
                self.has_moved(*session);
                self.track(*session);
                let Some(number) = waiting else { return };
                // On one member the old connection ends at once; on another it ends with its first write.
                if self.is_here(from.member, from.incarnation) && from.number != number {
                    self.drop_connection(from.number, "its session goes on with another connection");
                }
                self.welcome(number, Some(*session));
            }
            SessionChange::AttachRefused { session, .. } => {
                self.has_moved(*session);
                if let Some(number) = waiting {
                    self.welcome(number, None);
                }
            }
            SessionChange::Closed { session, .. } => self.on_closed(*session, waiting),
            SessionChange::CloseRefused { .. } => {}
        }
    }

    fn is_here(&self, member: MemberId, incarnation: u64) -> bool {
        member == self.id && incarnation == self.incarnation
    }

    /// A session has ended: its connections here end too, but for the one that is still to hear of it.
    fn on_closed(&mut self, session: SessionId, asking: Option<u64>) {
        self.untrack(session);
        self.session_connections.remove(&session);
        let ended: Vec<u64> = self
            .connections
            .iter()
            .filter(|(number, connection)| connection.session == Some(session) && Some(**number) != asking)
            .map(|(number, _)| *number)
            .collect();
        for number in ended {
            self.drop_connection(number, "its session has ended");
        }
    }

    /// After a snapshot has replaced the state: what depended on the old one starts over.
    pub(super) fn on_installed(&mut self) {
        let zxid = self.last_zxid();
        self.observers.tell(|| Observation::SnapshotInstalled { zxid, digest: self.state.digest() });
        // Watches may have been passed over, and answers with them: clients come back and set theirs again.
        self.drop_all_connections("this member was brought forward by a snapshot");
        self.watches = crate::watches::Watches::default();
        self.waiting.clear();
        self.answer_syncs();
    }
}
