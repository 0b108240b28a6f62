//! Reading.

use super::*;
use sillon_protocol::zookeeper::{GetAllChildrenNumberResponse, multi::next_header};

fn lab() -> Lab {
    let mut lab = Lab::new();
    for path in ["/a", "/a/b", "/a/b/c", "/a/d"] {
        lab.ok(create(path, path.as_bytes(), 0));
    }
    lab
}

#[test]
fn the_empty_path_is_the_root() {
    let lab = lab();
    for code in [OpCode::Exists, OpCode::GetData, OpCode::GetAcl, OpCode::GetChildren2] {
        assert_eq!(lab.read(read(code, "")), lab.read(read(code, "/")));
    }
}

#[test]
fn what_a_read_would_watch() {
    let lab = lab();
    let watch = |code, path| lab.read(read(code, path)).watch;
    assert_eq!(watch(OpCode::Exists, "/a"), Some(WatchKind::Data));
    assert_eq!(watch(OpCode::Exists, "/none"), Some(WatchKind::Exists));
    assert_eq!(watch(OpCode::Exists, "/a\0"), None);
    assert_eq!(watch(OpCode::GetData, "/a"), Some(WatchKind::Data));
    assert_eq!(watch(OpCode::GetData, "/none"), None);
    assert_eq!(watch(OpCode::GetChildren, "/a"), Some(WatchKind::Child));
    assert_eq!(watch(OpCode::GetChildren2, "/a"), Some(WatchKind::Child));
    assert_eq!(watch(OpCode::GetAcl, "/a"), None);
}

#[test]
fn the_nodes_below_a_node() {
    let lab = lab();
    let count = |path| {
        let outcome = lab.read(read(OpCode::GetAllChildrenNumber, path));
        let total =
            GetAllChildrenNumberResponse::read(&mut Reader::new(&outcome.body)).map(|reply| reply.total);
        (outcome.error, total.unwrap_or(-1))
    };
    assert_eq!((count("/a"), count("/a/b/c"), count("/none")), ((0, 3), (0, 0), (-101, -1)));
    // ZooKeeper counts the root among the nodes below the empty path.
    assert_eq!((count("/"), count("")), ((0, 7), (0, 8)));
}

#[test]
fn the_ephemerals_of_a_session() {
    let mut lab = lab();
    for path in ["/e1", "/a/e2", "/a/e3"] {
        lab.ok(create(path, b"", 1));
    }
    lab.write_as(BOB, &create("/bobs", b"", 1));
    let ephemerals = |session, prefix| {
        let body = lab.read_as(session, &read(OpCode::GetEphemerals, prefix)).body;
        Vec::<String>::read(&mut Reader::new(&body)).unwrap()
    };
    for all in ["", "/", " / ", "\t"] {
        assert_eq!(ephemerals(ANN, all), ["/e1", "/a/e2", "/a/e3"]);
    }
    assert_eq!(ephemerals(ANN, "/a/e"), ["/a/e2", "/a/e3"]);
    assert_eq!(ephemerals(ANN, "x"), [""; 0]);
    assert_eq!(ephemerals(BOB, "/"), ["/bobs"]);
    assert_eq!(ephemerals(SessionId(5), "/"), [""; 0]);
}

#[test]
fn a_multi_read_goes_on_after_an_error_and_sets_no_watch() {
    let lab = lab();
    let reads = [
        read(OpCode::GetData, "/none"),
        read(OpCode::GetChildren, "/a/b"),
        read(OpCode::GetChildren, "/none"),
        read(OpCode::GetData, "/a"),
    ];
    let outcome = lab.read(framed(OpCode::MultiRead, &reads));
    assert_eq!((outcome.error, outcome.watch), (0, None));
    let reader = &mut Reader::new(&outcome.body);
    let header =
        |reader: &mut Reader<'_>| next_header(reader).unwrap().map(|header| (header.operation, header.error));
    assert_eq!(header(reader), Some((-1, -101)));
    assert_eq!(i32::read(reader), Ok(-101));
    assert_eq!(header(reader), Some((8, 0)));
    assert_eq!(Vec::<&str>::read(reader), Ok(vec!["c"]));
    assert_eq!(header(reader), Some((-1, -101)));
    assert_eq!(i32::read(reader), Ok(-101));
    assert_eq!(header(reader), Some((4, 0)));
    assert_eq!(Option::<&[u8]>::read(reader), Ok(Some(&b"/a"[..])));
    Stat::read(reader).unwrap();
    assert_eq!(header(reader), None);
    assert!(reader.is_empty());
}

#[test]
fn a_multi_read_of_anything_else() {
    let lab = lab();
    let outcome = |reads: &[Request]| lab.read(framed(OpCode::MultiRead, reads));
    assert_eq!(outcome(&[]).body, MultiHeader::END.to_bytes());
    let mixed = outcome(&[read(OpCode::GetData, "/a"), check("/a", 0)]);
    assert_eq!((mixed.error, mixed.body), (-5, vec![]));
    let writes = outcome(&[check("/a", 0)]);
    assert_eq!((writes.error, writes.body), (-5, MultiHeader::END.to_bytes()));
    assert_eq!(outcome(&[read(OpCode::Exists, "/a")]).error, -5);
}

#[test]
fn requests_that_cannot_be_read() {
    let lab = lab();
    for code in [OpCode::Exists, OpCode::GetData, OpCode::GetAcl, OpCode::GetChildren, OpCode::GetChildren2] {
        assert_eq!(lab.read((code, vec![0])).error, -5, "{code:?}");
        assert_eq!(lab.read((code, vec![0xff; 5])).error, -5, "{code:?} of null");
    }
    assert_eq!(lab.read((OpCode::GetData, "/a".to_bytes())).error, -5, "the flag is missing");
    assert_eq!(lab.read((OpCode::GetAcl, "/a".to_bytes())).error, 0);
    assert_eq!(lab.read((OpCode::GetEphemerals, vec![0xff; 4])).error, 0);
    assert_eq!(lab.read(read(OpCode::Ping, "/a")).error, -6);
}
