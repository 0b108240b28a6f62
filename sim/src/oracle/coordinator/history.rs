//! Takes what clients did and saw: hands each event to the invariants that it concerns, and remembers. Decides nothing
//! by itself but the order of a session (I61) and what a sync promises (K08).

use super::{
    events::{ClientId, CoordinatorEvent, OperationId, Outcome, Request},
    i63_watches::Watches,
    k05_outcomes::{self as k05, Asked},
    k09_registers::Registers,
    k10_reply_order::Wire,
    k13_reconnects::{self as k13, Before},
    model::Operation,
    state::State,
};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_protocol::zookeeper::{ErrorCode, EventType, records::SET_WATCHES_XID};
use std::collections::BTreeMap;

/// A sync that was answered.
#[derive(Clone, Copy, Debug)]
struct Synced {
    operation: OperationId,
    connection: u64,
    /// When it was asked for, as a place in the order of all events.
    at: u64,
    /// The newest write that anybody had been told of by then.
    floor: i64,
}

/// A client.
#[derive(Debug, Default)]
struct Client {
    before: Before,
    /// Its session, even after it has gone.
    session: i64,
    connection: Option<u64>,
    /// Its last connection.
    last_connection: u64,
    /// The newest transaction that this session has seen.
    seen: i64,
    /// The last write that was done, and its transaction.
    written: Option<(OperationId, i64)>,
    synced: Option<Synced>,
    watches: Watches,
    wire: Wire,
}

/// A request under way.
#[derive(Debug)]
struct Pending {
    client: ClientId,
    session: i64,
    connection: u64,
    request: Request,
    at: u64,
    asked_ns: u64,
    /// The newest transaction that the session had seen.
    seen: i64,
    /// The newest write that anybody had been told of.
    acknowledged: i64,
    /// The watch that it asks for may have fired already.
    fired: bool,
}

/// All clients.
#[derive(Debug, Default)]
pub(super) struct History {
    pub asked: Asked,
    pub registers: Registers,
    clients: BTreeMap<ClientId, Client>,
    pending: BTreeMap<OperationId, Pending>,
    /// When each session ended.
    ended_ns: BTreeMap<i64, u64>,
    /// The newest write that anybody has been told of.
    acknowledged: i64,
    events: u64,
}

impl History {
    pub fn on_session_ended(&mut self, now_ns: u64, session: i64) {
        self.ended_ns.insert(session, now_ns);
    }

    pub fn finish(&mut self, judge: &mut Judge) {
        self.registers.finish(judge);
    }

    fn client(&mut self, client: ClientId) -> &mut Client {
        self.clients.entry(client).or_default()
    }

    fn on_invoked(
        &mut self,
        now_ns: u64,
        client: ClientId,
        operation: OperationId,
        session: i64,
        request: Request,
    ) {
        let (at, acknowledged) = (self.events, self.acknowledged);
        if let Some(write) = Operation::of_request(&request) {
            self.asked.on_invoked(session, write.content());
            self.registers.on_invoked(at, operation, &request);
        }
        let known = self.client(client);
        let (connection, seen) = (known.last_connection, known.seen);
        let asked_ns = now_ns;
        let pending =
            Pending { client, session, connection, request, at, asked_ns, seen, acknowledged, fired: false };
        self.pending.insert(operation, pending);
    }
}

impl State {
    pub(super) fn on_client(&mut self, now_ns: u64, event: CoordinatorEvent) {
        self.judge.at(now_ns, None, None);
        self.history.events += 1;
        match event {
            CoordinatorEvent::Invoked { client, operation, session, request } => {
                if request.is_write() {
                    self.liveness.on_asked(now_ns);
                }
                self.history.on_invoked(now_ns, client, operation, session, request);
            }
            CoordinatorEvent::Completed { operation, outcome, .. } => self.on_completed(operation, &outcome),
            CoordinatorEvent::WatchEvent { client, session, connection, event, .. } => {
                self.on_watch(client, session, connection, &event);
            }
            CoordinatorEvent::Connected { client, session, connection, .. } => {
                self.on_connected(client, session, connection);
            }
            CoordinatorEvent::Refused { client, session } => {
                if !self.model_is_lost {
                    k13::on_refused(&mut self.judge, &self.model, session);
                }
                self.on_session_over(client, session);
            }
            CoordinatorEvent::SessionClosed { client, session } => self.on_session_over(client, session),
            CoordinatorEvent::Disconnected { client, connection } => {
                self.on_disconnected(now_ns, client, connection);
            }
            CoordinatorEvent::Sent { client, connection, xid } => {
                let known = self.history.client(client);
                if known.connection == Some(connection) {
                    known.wire.on_sent(xid);
                    if xid == SET_WATCHES_XID {
                        known.watches.on_setting_again();
                    }
                }
            }
            CoordinatorEvent::Replied { client, connection, xid, zxid, .. } => {
                self.on_replied(client, connection, xid, zxid);
            }
        }
    }

    fn on_connected(&mut self, client: ClientId, session: i64, connection: u64) {
        let State { judge, model, history, liveness, .. } = self;
        history.asked.on_session(session);
        let History { clients, ended_ns, .. } = history;
        let known = clients.entry(client).or_default();
        if !self.model_is_lost {
            k13::on_connected(judge, model, ended_ns, known.before, session);
        }
        liveness.on_served(judge, client);
        if known.session != session {
            known.session = session;
            known.seen = 0;
            known.written = None;
            known.watches = Watches::default();
        }
        known.before = Before { session: Some(session), disconnected_ns: None };
        (known.connection, known.last_connection) = (Some(connection), connection);
        known.wire = Wire::default();
        known.synced = None;
        known.watches.on_connected(connection);
    }

    fn on_disconnected(&mut self, now_ns: u64, client: ClientId, connection: u64) {
        let known = self.history.client(client);
        if known.connection != Some(connection) {
            return;
        }
        known.connection = None;
        known.before.disconnected_ns = Some(now_ns);
        if known.before.session.is_some() {
            self.liveness.on_waiting(now_ns, client);
        }
    }

    fn on_session_over(&mut self, client: ClientId, session: i64) {
        let State { judge, history, liveness, .. } = self;
        let known = history.client(client);
        if known.session == session {
            known.before.session = None;
            known.watches = Watches::default();
        }
        liveness.on_served(judge, client);
    }

    /// A client gives its session up without a word, because it was made to.
    pub(super) fn on_abandoned(&mut self, client: ClientId) {
        let known = self.history.client(client);
        known.before.session = None;
        known.watches = Watches::default();
        self.liveness.on_gone(client);
    }

    fn on_replied(&mut self, client: ClientId, connection: u64, xid: i32, zxid: i64) {
        let State { judge, history, model, .. } = self;
        let known = history.client(client);
        if known.connection != Some(connection) {
            return;
        }
        known.wire.on_replied(judge, xid);
        if zxid <= 0 {
            return;
        }
        let (seen, session) = (known.seen, known.session);
        judge.demand(Invariant::I61, zxid >= seen, || {
            format!("session 0x{session:x} has seen transaction {seen}, and gets a reply that shows {zxid}")
        });
        known.seen = seen.max(zxid);
        if !self.model_is_lost && zxid <= model.tree.zxid() {
            known.watches.on_replied(judge, &model.tree, zxid);
        }
    }

    fn on_watch(&mut self, client: ClientId, session: i64, connection: u64, event: &(EventType, String)) {
        self.statistics.watch_events += 1;
        let State { judge, history, model, .. } = self;
        let (event, path) = (event.0, event.1.as_str());
        let known = history.clients.entry(client).or_default();
        if self.model_is_lost || known.session != session || known.connection != Some(connection) {
            return;
        }
        let of_client = history.pending.values_mut().filter(|pending| pending.client == client);
        let mut reasons: Vec<&mut Pending> =
            of_client.filter(|pending| Watches::explains(&pending.request, event, path)).collect();
        let explained = !reasons.is_empty();
        if known.watches.on_event(judge, &model.tree, (event, path), connection, explained) {
            reasons.iter_mut().for_each(|pending| pending.fired = true);
        }
    }

    fn on_completed(&mut self, operation: OperationId, outcome: &Outcome) {
        let Some(pending) = self.history.pending.remove(&operation) else { return };
        self.history.registers.on_completed(self.history.events, operation, outcome);
        let zxid = match outcome {
            Outcome::Unknown => {
                self.statistics.unknown += 1;
                return;
            }
            Outcome::Ok { zxid, .. } | Outcome::Failed { zxid, .. } => *zxid,
        };
        let State { judge, history, .. } = self;
        let known = history.client(pending.client);
        if zxid > 0 && known.session == pending.session {
            known.seen = known.seen.max(zxid);
            judge.demand(Invariant::I61, zxid >= pending.seen, || {
                let (session, seen) = (pending.session, pending.seen);
                format!("session 0x{session:x} has seen transaction {seen}, and is then shown {zxid}")
            });
        }
        if self.model_is_lost {
            return;
        }
        match &pending.request {
            Request::Sync { .. } => self.on_synced(operation, &pending, outcome, zxid),
            Request::CloseSession => self.on_closed(&pending, outcome, zxid),
            Request::AddWatch { path, recursive } => {
                let State { history, model, .. } = self;
                let known = history.client(pending.client);
                let is_same = known.connection == Some(pending.connection);
                if is_same && matches!(outcome, Outcome::Ok { .. }) {
                    known.watches.on_added(&model.tree, path, *recursive, zxid);
                }
            }
            request if request.is_write() => self.on_written(operation, &pending, outcome),
            _ => self.on_read(operation, &pending, outcome, zxid),
        }
    }

    fn on_written(&mut self, operation: OperationId, pending: &Pending, outcome: &Outcome) {
        let Some(write) = Operation::of_request(&pending.request) else { return };
        let State { judge, history, entries, liveness, statistics, .. } = self;
        let session = pending.session;
        match outcome {
            Outcome::Unknown => {}
            Outcome::Failed { zxid, error } => {
                statistics.writes_failed += 1;
                k05::on_refused(judge, entries, (session, *zxid), &write, *error);
            }
            Outcome::Ok { zxid, response } => {
                let zxid = *zxid;
                statistics.writes_confirmed += 1;
                k05::on_done(judge, entries, (session, zxid), &write, response);
                let acknowledged = pending.acknowledged;
                judge.demand(Invariant::I61, zxid > acknowledged, || {
                    format!(
                        "{write} is transaction {zxid}, but it was asked for after {acknowledged} had been told \
                         to be done"
                    )
                });
                let known = history.client(pending.client);
                if let Some((other, at)) = known.written.filter(|_| known.session == session) {
                    judge.demand(Invariant::I61, (operation > other) == (zxid > at), || {
                        let order = if operation > other { "after" } else { "before" };
                        format!(
                            "{write} is transaction {zxid}, but its session asked for it {order} that in {at}"
                        )
                    });
                }
                if known.session == session {
                    known.written = known.written.max(Some((operation, zxid)));
                }
                history.acknowledged = history.acknowledged.max(zxid);
                liveness.on_written(judge, pending.asked_ns);
            }
        }
    }

    fn on_closed(&mut self, pending: &Pending, outcome: &Outcome, zxid: i64) {
        if !matches!(outcome, Outcome::Ok { .. }) {
            return;
        }
        let State { judge, history, entries, liveness, .. } = self;
        let session = pending.session;
        let ended = entries.get(zxid).and_then(|entry| entry.ended);
        let gone = history.ended_ns.contains_key(&session);
        judge.demand(Invariant::I62, ended == Some(session) || gone, || {
            format!("session 0x{session:x} is told to be closed by transaction {zxid}, but it lives")
        });
        history.acknowledged = history.acknowledged.max(zxid);
        liveness.on_written(judge, pending.asked_ns);
    }

    fn on_synced(&mut self, operation: OperationId, pending: &Pending, outcome: &Outcome, zxid: i64) {
        if !matches!(outcome, Outcome::Ok { .. }) {
            return;
        }
        let State { judge, history, .. } = self;
        let floor = pending.acknowledged;
        judge.demand(Invariant::K08, zxid >= floor, || {
            format!("a sync shows transaction {zxid}, but {floor} had been told to be done before it")
        });
        let known = history.client(pending.client);
        if known.session == pending.session {
            let connection = pending.connection;
            known.synced = Some(Synced { operation, connection, at: pending.at, floor });
        }
    }

    fn on_read(&mut self, operation: OperationId, pending: &Pending, outcome: &Outcome, zxid: i64) {
        let told = match outcome {
            Outcome::Unknown => return,
            Outcome::Ok { response, .. } => Ok(response),
            Outcome::Failed { error, .. } => match ErrorCode::from_number(*error) {
                Some(ErrorCode::NoNode | ErrorCode::NoAuth | ErrorCode::BadArguments) => Err(*error),
                _ => return,
            },
        };
        self.statistics.reads += 1;
        let State { judge, history, model, .. } = self;
        k05::on_read(judge, model, zxid, &pending.request, told);
        let now = history.events;
        let History { clients, registers, .. } = history;
        let known = clients.entry(pending.client).or_default();
        let is_later =
            |synced: &Synced| synced.operation < operation && synced.connection == pending.connection;
        if let Some(synced) = known.synced.filter(is_later) {
            judge.demand(Invariant::K08, zxid >= synced.floor, || {
                let floor = synced.floor;
                format!("a read shows transaction {zxid}, but a sync before it was asked for after {floor}")
            });
            registers.on_read((synced.at, now), &pending.request, outcome);
        }
        let missing = told == Err(ErrorCode::NoNode.number());
        if known.session == pending.session && (told.is_ok() || missing) {
            let doubtful = pending.fired || known.connection != Some(pending.connection);
            known.watches.on_read(&pending.request, told.is_ok(), zxid, pending.connection, doubtful);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        coordinator::testing::{Run, create, get, set},
    };

    fn with_node() -> Run {
        let run = Run::new();
        run.join(7);
        run.join(8);
        run.write(7, &create("/a"));
        run
    }

    #[test]
    fn a_session_goes_on_from_what_it_has_seen() {
        let run = with_node();
        run.write(7, &set("/a", "1"));
        run.read_at(8, &get("/a"), run.zxid.get() - 1);
        run.disconnected(8);
        run.connected(8, 8);
        run.read_at(8, &get("/a"), run.zxid.get());
        run.assert_legal(&[Invariant::I61, Invariant::K06]);
    }

    #[test]
    fn a_session_sees_less_than_before() {
        let run = with_node();
        run.write(7, &set("/a", "1"));
        run.read(8, &get("/a"));
        run.disconnected(8);
        run.connected(8, 8);
        run.read_at(8, &get("/a"), run.zxid.get() - 1);
        run.assert_violated(Invariant::I61);
    }

    #[test]
    fn writes_of_a_session_change_places() {
        let run = with_node();
        let first = run.invoke(7, &set("/a", "1"));
        let second = run.invoke(7, &set("/a", "2"));
        let of_second = run.log(7, &set("/a", "2"));
        let of_first = run.log(7, &set("/a", "1"));
        run.complete(second, of_second);
        run.complete(first, of_first);
        run.assert_violated(Invariant::I61);
    }

    #[test]
    fn a_sync_shows_what_others_were_told() {
        let run = with_node();
        run.write(7, &set("/a", "1"));
        run.synced(8, run.zxid.get());
        run.read(8, &get("/a"));
        run.assert_legal(&[Invariant::K08]);
    }

    #[test]
    fn a_sync_shows_less() {
        let run = with_node();
        run.write(7, &set("/a", "1"));
        run.synced(8, run.zxid.get() - 1);
        run.assert_violated(Invariant::K08);
    }
}
