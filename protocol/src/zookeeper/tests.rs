//! Records against bytes that a ZooKeeper 3.8 sent and received, and against random ones.

use super::*;
use proptest::prelude::*;

#[test]
fn a_short_connect_request_has_no_read_only_byte() {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 7,
        timeout_ms: 4000,
        session_id: 1,
        password: Some(&[0; 16]),
        read_only: None,
    };
    let bytes = request.to_bytes();
    assert_eq!(bytes.len(), 44);
    assert_eq!(ConnectRequest::read(&mut Reader::new(&bytes)), Ok(request.clone()));
    let longer = ConnectRequest { read_only: Some(true), ..request };
    let bytes = longer.to_bytes();
    assert_eq!(bytes.len(), 45);
    assert_eq!(ConnectRequest::read(&mut Reader::new(&bytes)), Ok(longer));
}

#[test]
fn a_stat_has_68_bytes() {
    assert_eq!(<Stat as Jute>::MINIMUM_SIZE, 68);
    assert_eq!(Stat::default().to_bytes().len(), 68);
}

#[test]
fn null_and_empty_data_differ() {
    let read =
        |bytes: &[u8]| Option::<&[u8]>::read(&mut Reader::new(bytes)).map(|data| data.map(<[u8]>::to_vec));
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xff]), Ok(None));
    assert_eq!(read(&[0, 0, 0, 0]), Ok(Some(vec![])));
    assert_eq!(read(&[0xff, 0xff, 0xff, 0xfe]), Err(JuteError::Length(-2)));
    assert_eq!(read(&[0, 0, 0, 2, 1]), Err(JuteError::Short { needed: 2, left: 1 }));
}

#[test]
fn a_list_is_bounded_by_the_bytes_that_are_there() {
    let bytes = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert!(matches!(Vec::<&str>::read(&mut Reader::new(&bytes)), Err(JuteError::Short { .. })));
}

#[test]
fn codes_are_read_back() {
    for code in OpCode::ALL {
        assert_eq!(OpCode::from_number(code.number()), Some(*code));
    }
    assert_eq!(OpCode::from_number(55), None);
    assert_eq!(ErrorCode::from_number(-101), Some(ErrorCode::NoNode));
    assert_eq!(ErrorCode::from_number(0), None);
    assert_eq!(ErrorCode::from_number(-999), Some(ErrorCode::Other(-999)));
}

#[test]
fn paths() {
    use path::{PathError, split, validate};
    for good in ["/", "/a", "/a/b", "/a/...", "/ä/.x", "/a b"] {
        assert_eq!(validate(good), Ok(()), "{good}");
    }
    for (bad, error) in [
        ("", PathError::Empty),
        ("a", PathError::Relative),
        ("/a/", PathError::TrailingSlash),
        ("/a//b", PathError::EmptyName),
        ("/a/../b", PathError::Dots),
        ("/.", PathError::Dots),
        ("/a\0", PathError::Character('\0')),
        ("/\u{1f}", PathError::Character('\u{1f}')),
        ("/\u{f000}", PathError::Character('\u{f000}')),
    ] {
        assert_eq!(validate(bad), Err(error), "{bad:?}");
    }
    assert_eq!(split("/a/b"), Some(("/a", "b")));
    assert_eq!(split("/a"), Some(("/", "a")));
    assert_eq!(split("/"), None);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let reader = || Reader::new(&bytes);
        let _ = CreateRequest::read(&mut reader());
        let _ = CreateTtlRequest::read(&mut reader());
        let _ = SetWatches2Request::read(&mut reader());
        let _ = ConnectRequest::read(&mut reader());
        let _ = GetAclResponse::read(&mut reader());
        let _ = GetChildren2Response::read(&mut reader());
        let _ = WhoAmIResponse::read(&mut reader());
        let mut multi = reader();
        while let Ok(Some(_)) = multi::next_header(&mut multi) {}
    }

    #[test]
    fn records_are_read_back(path in "[/a-zäö0-9]{0,40}", data in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..100)), flags: i32, ttl_ms: i64) {
        let request = CreateTtlRequest { path: &path, data: data.as_deref(), acl: records::open_acl(), flags, ttl_ms };
        let bytes = request.to_bytes();
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(CreateTtlRequest::read(&mut reader), Ok(request));
        prop_assert!(reader.is_empty());
        let watches = SetWatches2Request {
            relative_zxid: ttl_ms,
            data_watches: vec![&path],
            exist_watches: vec![],
            child_watches: vec![&path, "/x"],
            persistent_watches: vec![],
            persistent_recursive_watches: vec![&path],
        };
        let bytes = watches.to_bytes();
        prop_assert_eq!(SetWatches2Request::read(&mut Reader::new(&bytes)), Ok(watches));
    }
}
