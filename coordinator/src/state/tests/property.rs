//! Random histories against the model; snapshots at any point of them; hostile bytes.

use super::{
    model::{Events, Model},
    random::{SESSIONS, Step, proven, step},
    *,
};
use crate::state::arena::{NodeId, Slot};
use proptest::{collection::vec, prelude::*};
use std::collections::BTreeMap;

/// Machine and model, side by side.
struct Pair {
    machine: StateMachine,
    model: Model,
    now_ms: i64,
    /// All commands so far.
    history: Vec<Option<Command>>,
}

impl Pair {
    fn new() -> Pair {
        let (machine, model) = (StateMachine::new(), Model::new());
        let mut pair = Pair { machine, model, now_ms: 1_000_000, history: vec![] };
        for session in SESSIONS {
            pair.open(session);
        }
        pair
    }

    fn act(&mut self, action: Action) -> Applied {
        self.now_ms += 1;
        let command = Some(Command { origin: None, time_ms: self.now_ms, action });
        let applied = self.machine.apply(Zxid(self.machine.applied().0 + 1), command.as_ref(), true);
        self.history.push(command);
        applied
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write { session, operation } => self.write(*session, operation.request(), step),
            Step::Multi { session, operations } => {
                let requests: Vec<Request> = operations.iter().map(random::Operation::request).collect();
                self.write(*session, multi(&requests), step);
            }
            Step::Nothing => {
                self.machine.apply(Zxid(self.machine.applied().0 + 1), None, true);
                self.history.push(None);
            }
            Step::Open(session) => self.open(*session),
            Step::Attach { session, number, right } => self.attach(*session, *number, *right),
            Step::Close(session) => {
                let connection = connection_of(*session);
                self.end(*session, Some(connection), Action::CloseSession { session: *session, connection });
            }
            Step::Expire(session) => self.end(*session, None, Action::ExpireSession { session: *session }),
            Step::SweepAll { after_ms } => self.sweep(1_000_000 + after_ms),
        }
    }

    fn write(&mut self, session: SessionId, (code, body): Request, step: &Step) {
        let applied = self.act(Action::Write {
            session,
            connection: connection_of(session),
            identities: proven(session),
            operation: code.number(),
            body: body.into(),
        });
        let expected = self.model.apply(step, applied.zxid.0, self.now_ms);
        assert_eq!((applied.error, &applied.body), (expected.error, &expected.body));
        assert_eq!(owned(&applied), expected.events);
    }

    fn open(&mut self, session: SessionId) {
        let connection = connection_of(session);
        let applied =
            self.act(Action::OpenSession { session, password: [9; 16], timeout_ms: 5000, connection });
        let is_new = !self.model.sessions.contains_key(&session);
        assert_eq!(applied.session, is_new.then_some(SessionChange::Opened { session }));
        self.model.sessions.entry(session).or_insert(connection);
    }

    fn attach(&mut self, session: SessionId, number: u64, right: bool) {
        // Number 0 is the connection that the scenarios write on.
        let home = connection_of(session);
        let connection = if number == 0 { home } else { ConnectionKey { incarnation: number, ..home } };
        let password = vec![if right { 9 } else { 8 }; 16];
        let applied = self.act(Action::AttachSession { session, password, timeout_ms: 6000, connection });
        let expected = match self.model.sessions.get(&session).copied() {
            None => SessionChange::AttachRefused { session, reason: RefusedAttach::Unknown },
            Some(connection) if !right => {
                let reason = RefusedAttach::WrongPassword { connection };
                SessionChange::AttachRefused { session, reason }
            }
            Some(from) => {
                self.model.sessions.insert(session, connection);
                SessionChange::Attached { session, timeout_ms: 6000, from }
            }
        };
        assert_eq!(applied.session, Some(expected));
    }

    fn end(&mut self, session: SessionId, by: Option<ConnectionKey>, action: Action) {
        let applied = self.act(action);
        let expected = match self.model.sessions.get(&session).copied() {
            None => SessionChange::CloseRefused { session, reason: RefusedClose::Unknown },
            Some(connection) if by.is_some_and(|by| by != connection) => {
                SessionChange::CloseRefused { session, reason: RefusedClose::Moved { connection } }
            }
            Some(connection) => {
                self.model.sessions.remove(&session);
                let mut events = Events::new();
                for path in self.model.ephemerals(session) {
                    self.model.remove(&path, applied.zxid.0, &mut events);
                }
                let mut told = owned(&applied);
                // Nodes go in the order of their creation, which the model does not know.
                told.sort_by_key(|(kind, path, _)| (*kind, path.clone()));
                events.sort_by_key(|(kind, path, _)| (*kind, path.clone()));
                assert_eq!(told, events);
                SessionChange::Closed { session, connection, expired: by.is_none() }
            }
        };
        assert_eq!(applied.session, Some(expected));
    }

    fn sweep(&mut self, now_ms: i64) {
        let due = self.machine.sweepable(now_ms);
        let mut paths: Vec<String> = due.iter().map(|sweep| sweep.path.clone()).collect();
        paths.sort();
        assert_eq!(paths, self.model.due(now_ms));
        for Sweep { path, seen_zxid } in due {
            let time_over = self.model.due(self.now_ms + 1).contains(&path);
            let applied = self.act(Action::Sweep { path: path.clone(), seen_zxid });
            assert_eq!(applied.error == 0, time_over);
            let mut events = Events::new();
            if time_over {
                self.model.remove(&path, applied.zxid.0, &mut events);
            }
            assert_eq!(owned(&applied), events);
        }
    }

    /// Compares everything.
    fn compare(&self) {
        for (path, node) in &self.model.nodes {
            let ours = self.machine.node(path).unwrap_or_else(|| panic!("{path} exists"));
            assert_eq!(ours.stat, self.model.stat(path), "{path}");
            assert_eq!((ours.data, &**ours.acl), (node.data.as_deref(), node.acl.as_slice()), "{path}");
        }
        assert_eq!(self.machine.statistics().nodes, self.model.nodes.len() as u64);
        let sessions: BTreeMap<SessionId, ConnectionKey> =
            self.machine.sessions().map(|(id, session)| (id, session.connection)).collect();
        assert_eq!(sessions, self.model.sessions);
        for session in SESSIONS {
            let mut paths = self.machine.ephemerals(session);
            paths.sort();
            assert_eq!(paths, self.model.ephemerals(session));
        }
        audit(&self.machine);
    }
}

fn owned(applied: &Applied) -> Events {
    applied.events.iter().map(|event| (event.kind, event.path.clone(), event.acl.to_vec())).collect()
}

/// Computes everything that is kept up to date from scratch, and compares.
pub(super) fn audit(machine: &StateMachine) {
    let tree = &machine.tree;
    let (mut nodes, mut ephemerals, mut data_bytes, mut digest) = (0, 0, 0, 0u64);
    let mut uses = BTreeMap::from([(0, 1)]);
    let mut free = 0;
    for slot in 0..tree.arena.length() {
        let Slot::Node(node) = tree.arena.slot(NodeId(slot)) else {
            free += 1;
            continue;
        };
        let path = tree.path(NodeId(slot));
        assert_eq!(tree.find(&path), Some(NodeId(slot)), "{path}");
        assert_eq!(tree.children(NodeId(slot)).count(), node.child_count as usize, "{path}");
        nodes += 1;
        ephemerals += u64::from(tree.stat(NodeId(slot)).ephemeral_owner != 0);
        data_bytes += (path.chars().count() + node.data.as_ref().map_or(0, |data| data.len())) as u64;
        digest = digest.wrapping_add(tree.node_digest(node));
        *uses.entry(node.acl.0).or_insert(0) += 1;
    }
    let statistics = machine.statistics();
    assert_eq!(
        (statistics.nodes, statistics.ephemerals, statistics.data_bytes),
        (nodes, ephemerals, data_bytes)
    );
    assert_eq!(machine.digest().tree, digest);
    assert_eq!(tree.acls.len(), uses.len(), "every list in the table is in use");
    for (id, count) in uses {
        assert_eq!(tree.acls.uses(id), count, "list {id}");
    }
    let mut at = tree.arena.free();
    while let Some(id) = at.some() {
        let Slot::Free(next) = *tree.arena.slot(id) else { panic!("slot {} is free", id.0) };
        (at, free) = (next, free - 1);
    }
    assert_eq!(free, 0, "every free slot is in the list");
    assert!(tree.journal.is_none());
    for (session, list) in &tree.owners.sessions {
        assert!(machine.session(*session).is_some(), "ephemeral nodes have a session that lives");
        assert_eq!(tree.owned_nodes(*list).count(), list.count as usize);
    }
}

fn apply_all(machine: &mut StateMachine, commands: &[Option<Command>]) {
    for command in commands {
        machine.apply(Zxid(machine.applied().0 + 1), command.as_ref(), false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 200 } else { 1500 }, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(steps in vec(step(), 1..120)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
        }
        pair.compare();
    }

    #[test]
    fn a_snapshot_is_of_the_moment_when_it_began(
        before in vec(step(), 0..150),
        during in vec((step(), 0..2usize), 0..60),
        after in vec(step(), 0..20),
        budget in 16..600usize,
    ) {
        let mut pair = Pair::new();
        before.iter().for_each(|step| pair.step(step));
        let taken_at = pair.history.len();
        let whole = snapshot_of(&mut pair.machine);
        let start = pair.machine.begin_snapshot();
        prop_assert_eq!((start.zxid, start.digest), (pair.machine.applied(), pair.machine.digest()));
        let mut bytes = vec![];
        for (step, chunks) in &during {
            pair.step(step);
            for _ in 0..*chunks {
                bytes.extend(pair.machine.snapshot_chunk(budget).unwrap_or_default());
            }
        }
        while let Some(chunk) = pair.machine.snapshot_chunk(budget) {
            prop_assert!(chunk.len() <= budget);
            bytes.extend(chunk);
        }
        after.iter().for_each(|step| pair.step(step));

        let mut copy = restored(&bytes);
        audit(&copy);
        prop_assert_eq!((copy.applied(), copy.digest()), (start.zxid, start.digest));
        // The same in every respect, slots included, as if no write had gone on.
        prop_assert_eq!(snapshot_of(&mut copy), whole);
        apply_all(&mut copy, &pair.history[taken_at..]);
        prop_assert_eq!(copy.digest(), pair.machine.digest());
        prop_assert_eq!(snapshot_of(&mut copy), snapshot_of(&mut pair.machine));
        pair.compare();
    }

    #[test]
    fn a_multi_that_fails_leaves_no_trace(
        before in vec(step(), 0..60),
        session in proptest::sample::select(SESSIONS.to_vec()),
        steps in vec(step(), 1..6),
        captured: bool,
    ) {
        let mut pair = Pair::new();
        before.iter().for_each(|step| pair.step(step));
        let mut twin = StateMachine::new();
        apply_all(&mut twin, &pair.history);

        let mut requests: Vec<Request> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Write { operation, .. } => Some(operation.request()),
                _ => None,
            })
            .filter(|(code, _)| *code != OpCode::SetAcl)
            .collect();
        requests.push(check("/no/such/node", -1));
        if captured {
            pair.machine.begin_snapshot();
        }
        let (code, body) = multi(&requests);
        let applied = pair.act(Action::Write {
            session,
            connection: connection_of(session),
            identities: proven(session),
            operation: code.number(),
            body: body.into(),
        });
        prop_assert_eq!(applied.events.len(), 0);
        twin.apply(applied.zxid, None, true);
        prop_assert_eq!(snapshot_of(&mut twin), snapshot_of(&mut pair.machine));
        pair.compare();
    }

    #[test]
    fn hostile_bodies_do_no_harm(
        before in vec(step(), 0..30),
        bodies in vec((-12..110i32, vec(any::<u8>(), 0..80)), 0..30),
        cuts in vec((step(), any::<prop::sample::Index>(), any::<u8>()), 0..30),
    ) {
        let mut pair = Pair::new();
        before.iter().for_each(|step| pair.step(step));
        let mut hostile = bodies;
        for (step, index, byte) in cuts {
            let (code, mut body) = match step {
                Step::Write { operation, .. } => operation.request(),
                Step::Multi { operations, .. } => multi(&operations.iter().map(random::Operation::request).collect::<Vec<_>>()),
                _ => continue,
            };
            let at = index.index(body.len());
            body[at] = byte;
            hostile.push((code.number(), body.clone()));
            body.truncate(at);
            hostile.push((code.number(), body));
        }
        for (operation, body) in hostile {
            if let Some(code) = OpCode::from_number(operation) {
                pair.machine.read(code, &body, &[], ANN);
            }
            asks_for_time_to_live(operation, &body);
            let (session, connection) = (ANN, connection_of(ANN));
            pair.act(Action::Write { session, connection, identities: vec![], operation, body: body.into() });
        }
        audit(&pair.machine);
    }

    #[test]
    fn a_damaged_snapshot_is_refused(
        before in vec(step(), 0..60),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut pair = Pair::new();
        before.iter().for_each(|step| pair.step(step));
        let whole = snapshot_of(&mut pair.machine);
        let mut bytes = whole.clone();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let mut restorer = StateMachine::restore();
        let result = restorer.chunk(&bytes).and_then(|()| restorer.finish());
        match result {
            Ok(machine) => {
                // Only what the digest does not cover can have changed: the transaction, or nothing.
                audit(&machine);
                prop_assert_eq!(machine.digest(), pair.machine.digest());
            }
            Err(error) => prop_assert!(bytes != whole, "{}", error),
        }
    }
}
