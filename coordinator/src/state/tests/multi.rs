//! Several operations at once.

use super::*;
use sillon_protocol::zookeeper::multi::next_header;

/// The error of each result in a multi's reply. Panics at a result of any other operation than create and check.
pub(super) fn errors(body: &[u8]) -> Vec<i32> {
    let reader = &mut Reader::new(body);
    let mut errors = Vec::new();
    while let Some(header) = next_header(reader).unwrap() {
        errors.push(header.error);
        match OpCode::from_number(header.operation) {
            Some(OpCode::Error) => assert_eq!(i32::read(reader), Ok(header.error)),
            Some(OpCode::Create) => drop(<&str>::read(reader).unwrap()),
            Some(OpCode::Create2) => drop((<&str>::read(reader).unwrap(), Stat::read(reader).unwrap())),
            Some(OpCode::SetData) => drop(Stat::read(reader).unwrap()),
            Some(OpCode::Delete | OpCode::Check) => {}
            other => panic!("a result of {other:?}"),
        }
    }
    assert!(reader.is_empty());
    errors
}

#[test]
fn a_multi_is_one_transaction() {
    let mut lab = Lab::new();
    let applied =
        lab.ok(multi(&[create("/a", b"", 1), set_data("/a", b"x", 0), check("/a", 1), create("/b", b"", 0)]));
    assert_eq!(errors(&applied.body.unwrap()), [0; 4]);
    let (first, second) = (lab.stat("/a"), lab.stat("/b"));
    assert_eq!([first.czxid, first.mzxid, second.czxid, lab.stat("/").pzxid], [applied.zxid.0; 4]);
    assert_eq!(first.ephemeral_owner, ANN.0);
}

#[test]
fn the_failed_operation_says_why_and_the_others_that_they_did_not_happen() {
    let mut lab = Lab::new();
    lab.ok(create("/n", b"", 0));
    let before = lab.machine.digest();
    let requests = [create("/m", b"", 0), check("/n", 99), set_data("/n", b"q", -1)];
    let applied = lab.ok(multi(&requests));
    assert_eq!(applied.events, []);
    assert_eq!(lab.machine.digest(), before);
    let result = |error: i32| {
        let mut bytes = MultiHeader::failed(error).to_bytes();
        error.write(&mut bytes);
        bytes
    };
    let body = [result(0), result(-103), result(-2), MultiHeader::END.to_bytes()].concat();
    assert_eq!(applied.body.unwrap(), body);
}

#[test]
fn events_come_in_the_order_of_the_operations() {
    let mut lab = Lab::new();
    let applied = lab.ok(multi(&[
        create("/a", b"", 0),
        create("/a/b", b"", 0),
        delete("/a/b", 0),
        set_data("/a", b"", 0),
    ]));
    use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
    let expected = [
        (NodeCreated, "/a"),
        (NodeChildrenChanged, "/"),
        (NodeCreated, "/a/b"),
        (NodeChildrenChanged, "/a"),
        (NodeDeleted, "/a/b"),
        (NodeChildrenChanged, "/a"),
        (NodeDataChanged, "/a"),
    ];
    assert_eq!(told(&applied), expected);
}

#[test]
fn operations_see_those_before_them() {
    let mut lab = Lab::new();
    assert_eq!(lab.results(&[create("/x", b"", 0), create("/x/y", b"", 0), delete("/x", -1)]), [0, 0, -111]);
    let all = [
        create("/x", b"", 0),
        create("/x/y", b"", 0),
        delete("/x/y", -1),
        delete("/x", -1),
        create("/x", b"", 1),
        create("/x/y", b"", 0),
    ];
    assert_eq!(lab.results(&all), [0, 0, 0, 0, 0, -108]);
    assert!(!lab.has("/x"));
    assert_eq!(lab.results(&all[..5]), [0; 5]);
    assert_eq!(lab.results(&[create("/s-", b"", 2), create("/s-", b"", 2)]), [0, 0]);
    assert_eq!(lab.children("/"), ["s-0000000002", "s-0000000003", "x", "zookeeper"]);
}

#[test]
fn an_empty_multi_is_fine_and_so_is_one_that_only_checks() {
    let mut lab = Lab::new();
    assert_eq!(lab.ok(multi(&[])).body, Some(MultiHeader::END.to_bytes()));
    assert_eq!(lab.results(&[check("/", 0), check("/zookeeper", -1)]), [0, 0]);
}

#[test]
fn what_may_not_stand_in_a_multi() {
    let mut lab = Lab::new();
    for request in [
        read(OpCode::GetData, "/"),
        read(OpCode::GetChildren, "/"),
        set_acl("/", open_acl(), -1),
        read(OpCode::Sync, "/"),
        multi(&[]),
        create("/x", b"", 99),
        create("/x", b"", 5),
        (OpCode::Delete, vec![0xff; 8]),
    ] {
        assert_eq!(lab.error(multi(&[check("/", -1), request.clone()])), -5, "{request:?}");
    }
    let (code, mut cut) = multi(&[check("/", -1)]);
    cut.truncate(cut.len() - 1);
    assert_eq!(lab.error((code, cut)), -5);
}

#[test]
fn flags_decide_in_a_multi_which_create_it_is() {
    let mut lab = Lab::new();
    let result_of = |lab: &mut Lab, request: Request| {
        let body = lab.ok(multi(&[request])).body.unwrap();
        MultiHeader::read(&mut Reader::new(&body)).unwrap().operation
    };
    let plain = |code, path: &str, flags| create_with(code, path, None, flags, open_acl());
    assert_eq!(result_of(&mut lab, plain(OpCode::Create, "/1", 0)), 1);
    assert_eq!(result_of(&mut lab, plain(OpCode::Create, "/2", 4)), 15);
    assert_eq!(result_of(&mut lab, plain(OpCode::Create2, "/3", 1)), 15);
    assert_eq!(result_of(&mut lab, plain(OpCode::CreateContainer, "/4", 1)), 15);
    assert_eq!(result_of(&mut lab, create_ttl("/5", 0, 1)), 1);
    assert_eq!(result_of(&mut lab, create_ttl("/6", 4, 1)), 15);
    assert_eq!(result_of(&mut lab, create_ttl("/7", 5, 1)), 15);
    assert_eq!(lab.results(&[create_ttl("/8", 5, 0)]), [-8]);
    assert_eq!(lab.machine.tree.owners.containers.count, 3);
    assert_eq!(lab.machine.tree.owners.times_to_live.count, 1);
    assert_eq!(lab.machine.ephemerals(ANN), ["/3"]);
}

#[test]
fn who_asks_for_a_time_to_live() {
    let asks = |(code, body): Request| asks_for_time_to_live(code.number(), &body);
    assert!(asks(create_ttl("/a", 5, 0)) && asks(create("/a", b"", 6)));
    assert!(!asks(create_ttl("/a", 0, 9)) && !asks(create("/a", b"", 0)) && !asks(delete("/a", 5)));
    assert!(asks(multi(&[check("/", 0), create_ttl("/a", 5, 7)])) && !asks(multi(&[create_ttl("/a", 0, 7)])));
    assert!(!asks((OpCode::CreateTtl, vec![1])) && !asks_for_time_to_live(99, b""));
}
