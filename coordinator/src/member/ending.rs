//! How connections end, and how their bytes leave.
//!
//! Owns the bookkeeping of both: nothing of an ended connection stays behind but its session.

use super::{Member, Send, connection::Phase};

impl Member {
    /// Ends a connection at once: what was asked on it is not answered.
    pub(super) fn drop_connection(&mut self, number: u64, why: &str) {
        if let Some(connection) = self.connections.get(&number) {
            tracing::debug!(member = %self.id, connection = number, peer = %connection.peer, why, "connection ended");
            self.close_connection(number);
        }
    }

    pub(super) fn drop_all_connections(&mut self, why: &str) {
        let all: Vec<u64> = self.connections.keys().copied().collect();
        for number in all {
            self.drop_connection(number, why);
        }
    }

    /// Ends a connection behind what was already answered.
    pub(super) fn close_connection(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.phase = Phase::Closing;
        self.dirty.insert(number);
        self.detach(number);
    }

    /// Takes a connection out of everything that would still reach it.
    fn detach(&mut self, number: u64) {
        self.watches.remove_watcher(number);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        self.statistics.outstanding -= connection.queue.len() as u64;
        connection.queue.clear();
        if let Some(session) = connection.session
            && self.session_connections.get(&session) == Some(&number)
        {
            self.session_connections.remove(&session);
        }
    }

    /// The client has gone.
    pub(super) fn forget_connection(&mut self, number: u64) {
        self.detach(number);
        self.connections.remove(&number);
        self.dirty.remove(&number);
    }

    /// Hands over the bytes that the events at hand have brought forth.
    pub(super) fn flush_connections(&mut self) {
        for number in std::mem::take(&mut self.dirty) {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            if !connection.out.is_empty() {
                let bytes = std::mem::take(&mut connection.out);
                let replies = std::mem::take(&mut connection.out_replies);
                self.effects.sends.push(Send { connection: number, bytes, replies });
            }
            if connection.phase == Phase::Closing {
                self.connections.remove(&number);
                self.effects.closes.push(number);
            }
        }
    }
}
