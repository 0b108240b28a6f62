//! Sessions.

use super::*;

const EXPIRED: i32 = -112;
const MOVED: i32 = -118;

fn elsewhere(session: SessionId) -> ConnectionKey {
    ConnectionKey { member: MemberId(2), ..connection_of(session) }
}

fn attach(lab: &mut Lab, session: SessionId, password: u8) -> Applied {
    let (password, connection) = (vec![password; 16], elsewhere(session));
    lab.act(Action::AttachSession { session, password, timeout_ms: 4000, connection })
}

#[test]
fn a_session_that_is_not_there_writes_nothing() {
    let mut lab = Lab::new();
    let before = lab.machine.digest();
    let nobody = SessionId(77);
    assert_eq!(lab.write_as(nobody, &create("/a", b"", 0)).error, EXPIRED);
    assert_eq!(lab.write_as(nobody, &multi(&[create("/a", b"", 0)])).error, EXPIRED);
    assert_eq!(lab.machine.digest(), before);
    lab.close(ANN);
    assert_eq!(lab.write(create("/a", b"", 1)).error, EXPIRED);
    assert!(!lab.has("/a"));
}

#[test]
fn a_session_that_moved_does_not_hear_its_old_connection() {
    let mut lab = Lab::new();
    lab.ok(create("/mine", b"", 1));
    let applied = attach(&mut lab, ANN, 0xa);
    let change = SessionChange::Attached { session: ANN, timeout_ms: 4000, from: connection_of(ANN) };
    assert_eq!((applied.error, applied.session), (0, Some(change)));
    assert_eq!(lab.machine.session(ANN).unwrap().timeout_ms, 4000);
    assert_eq!(lab.write(create("/a", b"", 0)).error, MOVED);
    let applied = lab.close(ANN);
    let reason = RefusedClose::Moved { connection: elsewhere(ANN) };
    assert_eq!(
        (applied.error, applied.session),
        (MOVED, Some(SessionChange::CloseRefused { session: ANN, reason }))
    );
    assert!(lab.has("/mine"));
}

#[test]
fn a_session_is_not_attached_without_its_password() {
    let mut lab = Lab::new();
    let before = lab.machine.digest();
    let applied = attach(&mut lab, ANN, 0xb);
    let reason = RefusedAttach::WrongPassword { connection: connection_of(ANN) };
    assert_eq!(
        (applied.error, applied.session),
        (EXPIRED, Some(SessionChange::AttachRefused { session: ANN, reason }))
    );
    let applied = attach(&mut lab, SessionId(77), 0xb);
    let refused = SessionChange::AttachRefused { session: SessionId(77), reason: RefusedAttach::Unknown };
    assert_eq!(applied.session, Some(refused));
    assert_eq!(lab.machine.digest(), before);
}

#[test]
fn ephemerals_go_with_their_session_in_the_order_of_their_creation() {
    let mut lab = Lab::new();
    lab.ok(create("/d", b"", 0));
    for path in ["/d/z", "/b", "/d/a"] {
        lab.ok(create(path, b"", 1));
    }
    lab.write_as(BOB, &create("/d/bobs", b"", 1));
    let applied = lab.close(ANN);
    use EventType::{NodeChildrenChanged, NodeDeleted};
    let expected = [
        (NodeDeleted, "/d/z"),
        (NodeChildrenChanged, "/d"),
        (NodeDeleted, "/b"),
        (NodeChildrenChanged, "/"),
        (NodeDeleted, "/d/a"),
        (NodeChildrenChanged, "/d"),
    ];
    assert_eq!(told(&applied), expected);
    let closed = SessionChange::Closed { session: ANN, connection: connection_of(ANN), expired: false };
    assert_eq!(applied.session, Some(closed));
    assert_eq!(lab.children("/d"), ["bobs"]);
    assert_eq!(lab.stat("/d").pzxid, applied.zxid.0);
    assert_eq!(lab.machine.statistics().ephemerals, 1);
}

#[test]
fn an_expired_session_is_gone_whatever_its_connection_says() {
    let mut lab = Lab::new();
    lab.ok(create("/e", b"", 1));
    let applied = lab.act(Action::ExpireSession { session: ANN });
    let closed = SessionChange::Closed { session: ANN, connection: connection_of(ANN), expired: true };
    assert_eq!(applied.session, Some(closed));
    assert!(!lab.has("/e"));
    let again = lab.act(Action::ExpireSession { session: ANN });
    let refused = SessionChange::CloseRefused { session: ANN, reason: RefusedClose::Unknown };
    assert_eq!((again.error, again.session), (EXPIRED, Some(refused)));
}

#[test]
fn sessions_are_listed_by_number_and_opened_once() {
    let mut lab = Lab::new();
    let before = lab.machine.digest();
    assert_eq!(lab.open(ANN).session, None);
    assert_eq!(lab.machine.digest(), before);
    lab.open(SessionId(-1));
    let ids: Vec<SessionId> = lab.machine.sessions().map(|(id, _)| id).collect();
    assert_eq!(ids, [SessionId(-1), ANN, BOB]);
    assert_eq!(lab.machine.statistics().sessions, 3);
}

#[test]
fn an_ephemeral_that_was_deleted_or_created_by_another_stays_out_of_it() {
    let mut lab = Lab::new();
    lab.ok(create("/e", b"", 1));
    lab.write_as(BOB, &delete("/e", -1));
    lab.write_as(BOB, &create("/e", b"", 1));
    assert_eq!(lab.close(ANN).events, []);
    assert_eq!(lab.stat("/e").ephemeral_owner, BOB.0);
}
