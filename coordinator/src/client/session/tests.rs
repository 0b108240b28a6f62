//! A session as scenarios: what the server sends and when, and what the session does about it.

use super::{world::*, *};
use crate::{
    config::members::HostPort,
    types::{SessionId, Zxid},
};
use proptest::prelude::*;
use sillon_protocol::zookeeper::{ErrorCode, EventType, Reader, SetWatches2Request, Stat, WatcherType};

#[test]
fn requests_wait_for_the_session_and_are_answered_in_order() {
    let mut world = World::new(1);
    let first = world.ask();
    let second = world.ask();
    assert_eq!(world.await_attempt(), "n0");
    world.session.connected(world.now);
    let greeting = world.session.take_outgoing();
    assert_eq!(greeting.len(), 4 + 45);
    let request = ConnectRequest::read(&mut Reader::new(&greeting[4..])).unwrap();
    assert_eq!((request.session_id, request.last_zxid_seen, request.timeout_ms), (0, 0, 6000));
    assert!(world.sent().is_empty());

    world.welcome(5, 4000);
    let sent = world.sent();
    assert_eq!(sent.iter().map(|sent| sent.xid).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(sent[0].body, [1, 2]);
    let server = HostPort { host: "n0".into(), port: 2181 };
    let session = SessionId(5);
    assert_eq!(
        world.effects(),
        [Effect::Session(SessionEvent::Connected { server, session, timeout_ms: 4000, resumed: false })]
    );
    let third = world.ask();
    assert_eq!(world.sent()[0].xid, 3);
    world.answer(1, 10, None, b"");
    world.answer(2, 11, Some(ErrorCode::NoNode), b"");
    world.answer(3, 12, None, b"");
    let no_node = ClientError::Server { code: ErrorCode::NoNode, zxid: Zxid(11) };
    assert_eq!(world.effects(), [done(first, 10), failed(second, no_node), done(third, 12)]);
}

#[test]
fn what_was_in_flight_is_lost_and_never_sent_again() {
    let mut world = World::connected();
    let answered = world.ask();
    let lost = world.ask();
    world.answer(1, 10, None, b"");
    world.sent();
    world.lose();
    let waits = world.ask();
    assert_eq!(
        world.effects(),
        [
            done(answered, 10),
            failed(lost, ClientError::ConnectionLoss),
            Effect::Disconnect,
            Effect::Session(SessionEvent::Disconnected(Loss::Closed)),
        ]
    );
    world.await_attempt();
    world.session.connected(world.now);
    let greeting = world.session.take_outgoing();
    let request = ConnectRequest::read(&mut Reader::new(&greeting[4..])).unwrap();
    assert_eq!((request.session_id, request.last_zxid_seen), (5, 10));
    assert_eq!(request.password, Some(&PASSWORD[..]));
    world.welcome(5, 6000);
    let sent = world.sent();
    assert_eq!(sent.len(), 1);
    world.answer(sent[0].xid, 11, None, b"");
    assert_eq!(world.effects()[1], done(waits, 11));
}

#[test]
fn identities_then_watches_then_requests_after_a_reconnect() {
    let mut world = World::connected();
    world.session.prove(world.now, "digest".into(), b"a:b".to_vec(), Some(Ticket(100)));
    world.watched(OpCode::GetData, WatchedThing::Data, "/data", 1);
    world.watched(OpCode::Exists, WatchedThing::Data, "/none", 2);
    world.watched(OpCode::GetChildren2, WatchedThing::Children, "/parent", 3);
    assert_eq!(
        world.sent()[0],
        Sent {
            xid: AUTH_XID,
            operation: OpCode::Auth,
            body: AuthRequest { kind: 0, scheme: "digest", proof: Some(b"a:b") }.to_bytes(),
        }
    );
    world.answer(AUTH_XID, 0, None, b"");
    world.answer(1, 20, None, b"");
    world.answer(2, 21, Some(ErrorCode::NoNode), b"");
    world.answer(3, 22, None, b"");
    assert_eq!(world.effects()[0], done(Ticket(100), 0));
    world.watched(OpCode::AddWatch, WatchedThing::Persistent, "/stays", 4);
    world.watched(OpCode::AddWatch, WatchedThing::PersistentRecursive, "/all", 5);
    let unanswered = world.watched(OpCode::GetData, WatchedThing::Data, "/unanswered", 6);
    world.answer(4, 23, None, b"");
    world.answer(5, 23, None, b"");
    world.lose();
    assert!(world.effects().contains(&failed(unanswered, ClientError::ConnectionLoss)));
    world.ask();

    let sent = world.connect();
    assert_eq!(operations(&sent), [OpCode::Auth, OpCode::SetWatches2, OpCode::Sync]);
    assert_eq!(sent[1].xid, SET_WATCHES_XID);
    assert_eq!(
        SetWatches2Request::read(&mut Reader::new(&sent[1].body)).unwrap(),
        SetWatches2Request {
            relative_zxid: 23,
            data_watches: vec!["/data"],
            exist_watches: vec!["/none"],
            child_watches: vec!["/parent"],
            persistent_watches: vec!["/stays"],
            persistent_recursive_watches: vec!["/all"],
        }
    );
    let effects = world.effects();
    assert_eq!(
        effects[1..],
        [Effect::Notify(WatchId(4), Notice::Gap), Effect::Notify(WatchId(5), Notice::Gap)],
        "what watches that stay have missed is not told: {effects:?}"
    );
    world.event(EventType::NodeDeleted, "/data");
    world.answer(SET_WATCHES_XID, 30, None, b"");
    assert_eq!(world.effects(), [changed(1, EventType::NodeDeleted, "/data")]);
}

#[test]
fn an_event_is_told_before_the_reply_behind_it() {
    let mut world = World::connected();
    world.watched(OpCode::GetData, WatchedThing::Data, "/a", 1);
    let later = world.ask();
    world.answer(1, 10, None, b"");
    world.event(EventType::NodeDataChanged, "/a");
    world.event(EventType::NodeDataChanged, "/a");
    world.answer(2, 11, None, b"");
    assert_eq!(world.effects()[1..], [changed(1, EventType::NodeDataChanged, "/a"), done(later, 11)]);
}

#[test]
fn a_read_that_fails_sets_no_watch_but_exists_does() {
    let mut world = World::connected();
    world.watched(OpCode::GetData, WatchedThing::Data, "/a", 1);
    world.watched(OpCode::Exists, WatchedThing::Data, "/a", 2);
    world.answer(1, 10, Some(ErrorCode::NoNode), b"");
    world.answer(2, 10, Some(ErrorCode::NoNode), b"");
    assert_eq!(world.effects()[0], Effect::EndWatch(WatchId(1), WatchEnded::NotSet));
    world.event(EventType::NodeCreated, "/a");
    assert_eq!(world.effects(), [changed(2, EventType::NodeCreated, "/a")]);
}

#[test]
fn a_persistent_watch_is_not_displaced_by_a_one_shot_one() {
    let mut world = World::connected();
    world.watched(OpCode::AddWatch, WatchedThing::PersistentRecursive, "/a", 1);
    world.watched(OpCode::GetData, WatchedThing::Data, "/a", 2);
    world.watched(OpCode::GetChildren2, WatchedThing::Children, "/a", 3);
    world.watched(OpCode::GetData, WatchedThing::Data, "/a/b", 4);
    let asks_for_a_watch = |sent: &Sent| sent.body.last() == Some(&1);
    let sent = world.sent();
    assert_eq!(sent.iter().skip(1).map(asks_for_a_watch).collect::<Vec<_>>(), [false, false, true]);
    for xid in 1..=4 {
        world.answer(xid, 10, None, b"");
    }
    world.effects();
    world.event(EventType::NodeDataChanged, "/a");
    world.event(EventType::NodeDataChanged, "/a");
    let event = |watch| changed(watch, EventType::NodeDataChanged, "/a");
    assert_eq!(world.effects(), [event(2), event(1), event(1)]);
    world.event(EventType::NodeCreated, "/a/c");
    world.event(EventType::NodeDeleted, "/a/c");
    assert_eq!(
        world.effects(),
        [
            changed(1, EventType::NodeCreated, "/a/c"),
            changed(3, EventType::NodeChildrenChanged, "/a"),
            changed(1, EventType::NodeDeleted, "/a/c"),
        ],
        "the server tells who watches recursively of children, but not of their list"
    );
}

#[test]
fn a_one_shot_watch_is_not_lost_to_a_persistent_one_that_comes_later() {
    let mut world = World::connected();
    world.watched(OpCode::GetChildren2, WatchedThing::Children, "/a", 1);
    world.watched(OpCode::GetData, WatchedThing::Data, "/a", 2);
    world.watched(OpCode::AddWatch, WatchedThing::PersistentRecursive, "/a", 3);
    for xid in 1..=3 {
        world.answer(xid, 10, None, b"");
    }
    world.effects();
    world.event(EventType::NodeCreated, "/a/b");
    world.event(EventType::NodeDataChanged, "/a");
    assert_eq!(
        world.effects(),
        [
            changed(3, EventType::NodeCreated, "/a/b"),
            changed(1, EventType::NodeChildrenChanged, "/a"),
            changed(2, EventType::NodeDataChanged, "/a"),
            changed(3, EventType::NodeDataChanged, "/a"),
        ]
    );
}

#[test]
fn a_watch_that_relied_on_a_removed_one_ends() {
    let mut world = World::connected();
    world.watched(OpCode::AddWatch, WatchedThing::Persistent, "/a", 1);
    world.answer(1, 10, None, b"");
    let extra = Extra::RemoveWatches { path: "/a".into(), watcher_type: WatcherType::Any };
    world.submit(OpCode::RemoveWatches, Vec::new(), extra);
    world.watched(OpCode::GetData, WatchedThing::Data, "/a", 2);
    world.answer(2, 11, None, b"");
    world.answer(3, 11, None, b"");
    let ends: Vec<Effect> =
        world.effects().into_iter().filter(|effect| matches!(effect, Effect::EndWatch(..))).collect();
    let removed = |watch| Effect::EndWatch(WatchId(watch), WatchEnded::Removed);
    assert_eq!(ends, [removed(1), removed(2)]);
}

#[test]
fn two_kinds_of_persistent_watches_on_one_node_are_refused() {
    let mut world = World::connected();
    world.watched(OpCode::AddWatch, WatchedThing::Persistent, "/a", 1);
    let refused = world.watched(OpCode::AddWatch, WatchedThing::PersistentRecursive, "/a", 2);
    assert_eq!(world.effects()[1], failed(refused, ClientError::WatchConflict { path: "/a".into() }));
    world.answer(1, 10, None, b"");
    let again = world.watched(OpCode::AddWatch, WatchedThing::Persistent, "/a", 3);
    world.answer(2, 10, None, b"");
    assert!(world.effects().contains(&done(again, 10)), "the same kind twice is fine");
}

#[test]
fn a_watch_that_is_dropped_before_it_is_set_is_nobodys() {
    let mut world = World::connected();
    world.watched(OpCode::GetData, WatchedThing::Data, "/a", 1);
    world.session.forget(WatchId(1));
    world.answer(1, 10, None, b"");
    world.effects();
    world.event(EventType::NodeDataChanged, "/a");
    assert_eq!(world.effects(), []);
    world.lose();
    assert_eq!(operations(&world.connect()), [OpCode::SetWatches2; 0]);
}

#[test]
fn an_expired_session_ends_everything_once() {
    for (session_id, timeout_ms) in [(0, 0), (6, 6000)] {
        let mut world = World::connected();
        world.watched(OpCode::GetData, WatchedThing::Data, "/a", 1);
        world.answer(1, 10, None, b"");
        world.lose();
        let waits = world.ask();
        world.await_attempt();
        world.session.connected(world.now);
        world.welcome(session_id, timeout_ms);
        assert_eq!(
            world.effects(),
            [
                Effect::Disconnect,
                failed(waits, ClientError::SessionExpired),
                Effect::EndWatch(WatchId(1), WatchEnded::Expired),
                Effect::Session(SessionEvent::Expired),
            ]
        );
        let late = world.ask();
        assert_eq!(world.effects(), [failed(late, ClientError::SessionExpired)]);
        assert_eq!(world.session.deadline(), None);
    }
}

#[test]
fn pings_keep_the_session_and_silence_ends_the_connection() {
    let mut world = World::connected();
    world.pass(Duration::from_millis(1999));
    assert_eq!(world.sent(), []);
    world.pass(Duration::from_millis(1));
    assert_eq!(operations(&world.sent()), [OpCode::Ping]);
    world.answer(PING_XID, 10, None, b"");
    world.pass(2 * SECOND);
    assert_eq!(operations(&world.sent()), [OpCode::Ping]);
    assert_eq!(world.session.deadline(), Some(world.now + 2 * SECOND));
    world.pass(2 * SECOND);
    let silent = Loss::Silent { timeout_ms: 4000 };
    assert_eq!(world.effects(), [Effect::Disconnect, Effect::Session(SessionEvent::Disconnected(silent))]);
}

#[test]
fn servers_are_tried_in_turn_with_longer_and_longer_pauses() {
    let mut world = World::new(3);
    let mut tried = Vec::new();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let before = world.now;
        tried.push(world.await_attempt());
        pauses.push(world.now.saturating_since(before));
        world.session.lost(world.now, Loss::Connect("refused".into()));
    }
    let mut first: Vec<String> = tried[..3].to_vec();
    first.sort();
    assert_eq!(first, ["n0", "n1", "n2"]);
    assert_eq!(tried[..3], tried[3..6]);
    assert_eq!(pauses[0], Duration::ZERO);
    assert!(pauses[1..4].iter().all(|pause| *pause <= Duration::from_millis(50)), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= SECOND), "{pauses:?}");
    assert!(pauses[7..].iter().any(|pause| *pause > Duration::from_millis(50)), "{pauses:?}");
}

#[test]
fn an_attempt_that_takes_too_long_is_given_up() {
    let mut world = World::new(2);
    world.await_attempt();
    world.pass(2 * SECOND);
    assert_eq!(world.effects(), [Effect::Disconnect]);
    world.await_attempt();
    world.session.connected(world.now);
    world.pass(2 * SECOND);
    assert!(world.effects().contains(&Effect::Disconnect), "a server that does not greet back");
}

#[test]
fn an_identity_that_is_not_proven_ends_the_client() {
    let mut world = World::connected();
    world.session.prove(world.now, "digest".into(), b"x".to_vec(), Some(Ticket(100)));
    let in_flight = world.ask();
    world.answer(AUTH_XID, 0, Some(ErrorCode::AuthFailed), b"");
    assert_eq!(
        world.effects(),
        [
            failed(in_flight, ClientError::ConnectionLoss),
            Effect::Disconnect,
            failed(Ticket(100), ClientError::AuthFailed),
            Effect::Session(SessionEvent::AuthFailed),
        ]
    );
}

#[test]
fn a_proof_that_was_not_answered_is_answered_on_the_next_connection() {
    let mut world = World::connected();
    world.session.prove(world.now, "digest".into(), b"a:b".to_vec(), Some(Ticket(100)));
    world.lose();
    assert!(!world.effects().iter().any(|effect| matches!(effect, Effect::Complete(..))));
    assert_eq!(operations(&world.connect()), [OpCode::Auth]);
    world.answer(AUTH_XID, 0, None, b"");
    assert_eq!(world.effects()[1..], [done(Ticket(100), 0)]);
}

#[test]
fn closing_ends_the_session_after_what_was_asked_before() {
    let mut world = World::connected();
    let before = world.ask();
    let close = world.submit(OpCode::CloseSession, Vec::new(), Extra::Close);
    let after = world.ask();
    assert_eq!(operations(&world.sent()), [OpCode::Sync, OpCode::CloseSession]);
    world.answer(1, 10, None, b"");
    world.answer(2, 11, None, b"");
    assert_eq!(
        world.effects(),
        [
            failed(after, ClientError::Closed),
            done(before, 10),
            done(close, 11),
            Effect::Disconnect,
            Effect::Session(SessionEvent::Closed),
        ]
    );
}

#[test]
fn closing_without_an_answer_leaves_it_open_whether_the_session_has_ended() {
    let mut world = World::connected();
    let close = world.submit(OpCode::CloseSession, Vec::new(), Extra::Close);
    world.lose();
    assert_eq!(world.effects()[0], failed(close, ClientError::ConnectionLoss));
    assert_eq!(world.session.deadline(), None, "it does not come back");

    let mut world = World::new(1);
    world.await_attempt();
    let close = world.submit(OpCode::CloseSession, Vec::new(), Extra::Close);
    assert_eq!(world.effects()[0], failed(close, ClientError::NotConnected { waited_ms: 0 }));
}

#[test]
fn requests_do_not_wait_for_ever_nor_without_limit() {
    let mut world = World::new(1);
    world.await_attempt();
    let tickets: Vec<Ticket> = (0..5).map(|_| world.ask()).collect();
    assert_eq!(world.effects(), [failed(tickets[4], ClientError::TooManyRequests { limit: 4 })]);
    world.lose();
    world.pass(6 * SECOND);
    let effects = world.effects();
    for ticket in &tickets[..4] {
        assert!(effects.contains(&failed(*ticket, ClientError::NotConnected { waited_ms: 6000 })));
    }
}

#[test]
fn a_reply_out_of_order_ends_the_connection() {
    let mut world = World::connected();
    world.ask();
    world.ask();
    world.answer(2, 10, None, b"");
    let wrong = Loss::WrongXid { expected: Some(1), received: 2 };
    assert_eq!(world.effects().last(), Some(&Effect::Session(SessionEvent::Disconnected(wrong))));
}

#[test]
fn a_session_can_be_resumed_by_another_process() {
    let mut world = World::new(1);
    world.session.credentials = Some(SessionCredentials { id: SessionId(5), password: PASSWORD.to_vec() });
    world.await_attempt();
    world.session.connected(world.now);
    let greeting = world.session.take_outgoing();
    assert_eq!(ConnectRequest::read(&mut Reader::new(&greeting[4..])).unwrap().session_id, 5);
    world.welcome(5, 6000);
    assert!(matches!(world.effects()[..], [Effect::Session(SessionEvent::Connected { resumed: true, .. })]));
}

proptest! {
    #[test]
    fn whatever_a_server_sends_nothing_panics(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8), greeted: bool) {
        let mut world = if greeted { World::connected() } else { World::new(2) };
        world.watched(OpCode::Exists, WatchedThing::Data, "/a", 1);
        world.session.tick(world.now);
        world.session.connected(world.now);
        for frame in frames {
            world.session.received(world.now, &frame);
            world.pass(SECOND);
            world.effects();
            world.session.take_outgoing();
        }
    }

    #[test]
    fn each_request_is_answered_exactly_once(steps in prop::collection::vec(0..7u8, 0..60)) {
        let mut world = World::new(2);
        let mut answered = std::collections::BTreeMap::new();
        let mut xid = 0;
        for step in steps {
            match step {
                0 | 1 => { world.ask(); }
                2 => { world.watched(OpCode::GetData, WatchedThing::Data, "/a", 1); }
                3 => world.session.connected(world.now),
                4 => world.welcome(5, 6000),
                5 => world.lose(),
                _ => {
                    xid = world.session.in_flight.front().map_or(xid, |oldest| oldest.xid);
                    world.answer(xid, 9, None, &Stat::default().to_bytes());
                }
            }
            world.pass(SECOND / 10);
            for effect in world.effects() {
                if let Effect::Complete(ticket, _) = effect {
                    *answered.entry(ticket).or_insert(0) += 1;
                }
            }
        }
        world.session.submit(world.now, Request {
            ticket: Ticket(1000), operation: OpCode::CloseSession, body: Vec::new(), extra: Extra::Close,
        });
        world.lose();
        for effect in world.effects() {
            if let Effect::Complete(ticket, _) = effect {
                *answered.entry(ticket).or_insert(0) += 1;
            }
        }
        prop_assert!(answered.values().all(|count| *count == 1), "{answered:?}");
        prop_assert_eq!(answered.len() as u64, world.tickets + 1);
    }
}
