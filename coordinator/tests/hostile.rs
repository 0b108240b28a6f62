//! What a server does with clients that send what they should not: each is answered or sent away, and all others are
//! served on.

mod support;

use sillon_protocol::zookeeper::{
    ErrorCode, Jute, OpCode,
    requests::{PathVersionRequest, PathWatchRequest, SetDataRequest},
};
use std::time::Duration;
use support::{Server, Wire, config, scenario};

#[test]
fn frames_that_are_too_long_end_the_connection() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        let mut good = Wire::open(&runtime, server.address).await;
        for length in [i32::MAX, 0x10_0000, -1, i32::MIN] {
            let mut wire = Wire::open(&runtime, server.address).await;
            wire.send_raw(&length.to_be_bytes()).await;
            wire.send_raw(&[0; 100]).await;
            assert_eq!(wire.rest().await, [], "a frame of {length} bytes");
        }
        assert_eq!(good.create("/good", b"").await, Some(0));
        server.stop().await;
    });
}

#[test]
fn garbage_before_the_handshake_ends_the_connection() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        let mut good = Wire::open(&runtime, server.address).await;
        for garbage in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0, 0, 0, 3, 1, 2, 3], &[0, 0, 0, 0, 0, 0, 0, 0]]
        {
            let mut wire = Wire::dial(&runtime, server.address).await;
            wire.send_raw(garbage).await;
            let _ = wire.rest().await;
        }
        assert_eq!(good.create("/good", b"").await, Some(0));
        server.stop().await;
    });
}

#[test]
fn nobody_gets_a_session_that_is_not_theirs() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        let owner = Wire::open(&runtime, server.address).await;
        let mut thief = Wire::dial(&runtime, server.address).await;
        assert_eq!(thief.greet(owner.session, 0, 4_000, vec![7; 16]).await, Some(0), "a wrong password");
        let mut stranger = Wire::dial(&runtime, server.address).await;
        assert_eq!(stranger.greet(0x1234, 0, 4_000, vec![7; 16]).await, Some(0), "an unknown session");
        let mut ahead = Wire::dial(&runtime, server.address).await;
        assert_eq!(ahead.greet(0, 1 << 62, 4_000, vec![0; 16]).await, None, "a zxid from the future");
        let mut again = Wire::dial(&runtime, server.address).await;
        let timeout_ms = again.greet(owner.session, 0, 4_000, owner.password.clone()).await;
        assert_eq!(timeout_ms, Some(4_000), "the owner goes on");
        server.stop().await;
    });
}

#[test]
fn operations_that_do_not_exist_end_the_connection() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        for operation in [55, -10, 0, i32::MAX, i32::MIN] {
            let mut wire = Wire::open(&runtime, server.address).await;
            wire.send(operation, b"").await;
            let reply = wire.reply().await.expect("an answer");
            assert_eq!((reply.zxid, reply.error), (-1, ErrorCode::Unimplemented.number()), "{operation}");
            assert_eq!(wire.reply().await, None);
        }
        server.stop().await;
    });
}

#[test]
fn paths_that_are_none_are_refused() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        let mut wire = Wire::open(&runtime, server.address).await;
        for path in ["", "a", "/..", "/.", "/a\0b", "/\u{1}"] {
            let error = wire.create(path, b"").await;
            assert_eq!(error, Some(ErrorCode::BadArguments.number()), "{path:?}");
        }
        assert_eq!(wire.create("/a", &[0; 900_000]).await, Some(0), "a large value is none of that");
        server.stop().await;
    });
}

#[test]
fn bodies_that_are_cut_off_are_answered() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "extendedTypesEnabled=true\n")).await;
        let bodies = [
            SetDataRequest { path: "/", data: Some(b"x"), version: -1 }.to_bytes(),
            PathWatchRequest { path: "/", watch: true }.to_bytes(),
            PathVersionRequest { path: "/", version: 0 }.to_bytes(),
            vec![0xff; 40],
            vec![0x7f; 40],
        ];
        for operation in OpCode::ALL.iter().filter(|operation| **operation != OpCode::CloseSession) {
            for body in &bodies {
                let mut wire = Wire::open(&runtime, server.address).await;
                for length in 0..body.len() {
                    wire.send(operation.number(), &body[..length]).await;
                }
                // Whatever it answers, and whether it ends the connection: it does so at once, and lives.
                wire.send(OpCode::CloseSession.number(), b"").await;
                let _ = wire.rest().await;
            }
        }
        let mut good = Wire::open(&runtime, server.address).await;
        assert_eq!(good.create("/good", b"").await, Some(0));
        server.stop().await;
    });
}

#[test]
fn a_client_that_never_reads_is_not_read_from_for_ever() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        let mut good = Wire::open(&runtime, server.address).await;
        assert_eq!(good.create("/big", &[1; 500_000]).await, Some(0));
        let mut greedy = Wire::open(&runtime, server.address).await;
        let body = PathWatchRequest { path: "/big", watch: false }.to_bytes();
        let asking = async {
            for _ in 0..100_000 {
                greedy.send(OpCode::GetData.number(), &body).await;
            }
        };
        // Two gigabytes of answers: the client is cut off, or stops being read from, long before that.
        let _ = runtime.timeout(Duration::from_secs(2), asking).await;
        assert_eq!(good.create("/good", b"").await, Some(0));
        server.stop().await;
    });
}
