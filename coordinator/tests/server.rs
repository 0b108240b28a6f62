//! A server over real sockets and files: what it was told survives a restart, operators get answers, and a directory
//! serves one process.

mod support;

use sillon_coordinator::{CoordinatorError, config::CoordinatorConfig};
use sillon_protocol::zookeeper::{Jute, OpCode, requests::PathWatchRequest};
use support::{Server, Wire, config, scenario};

#[test]
fn what_was_acknowledged_survives_a_restart() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let more = "snapCount=7\n";
        for round in 0..3 {
            let server = Server::start(&runtime, config(directory.path(), more)).await;
            let mut wire = Wire::open(&runtime, server.address).await;
            for number in 0..20 {
                let path = format!("/r{round}-{number}");
                assert_eq!(wire.create(&path, path.as_bytes()).await, Some(0));
            }
            for old in 0..=round {
                let path = format!("/r{old}-19");
                let body = PathWatchRequest { path: &path, watch: false }.to_bytes();
                let reply = wire.ask(OpCode::GetData, &body).await.expect("an answer");
                assert_eq!(reply.error, 0, "{path} in round {round}");
                assert_eq!(&reply.body[4..4 + path.len()], path.as_bytes());
            }
            server.stop().await;
        }
    });
}

#[test]
fn a_session_survives_a_restart_of_its_server() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        let wire = Wire::open(&runtime, server.address).await;
        server.stop().await;
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        let _served = Wire::open(&runtime, server.address).await;
        let mut again = Wire::dial(&runtime, server.address).await;
        assert_eq!(again.greet(wire.session, 0, 4_000, wire.password.clone()).await, Some(4_000));
        assert_eq!(again.session, wire.session);
        server.stop().await;
    });
}

#[test]
fn a_directory_serves_one_process_and_one_member() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&runtime, config(directory.path(), "")).await;
        let Err(second) = Server::try_start(&runtime, config(directory.path(), "")).await else {
            panic!("a second process shares the directory");
        };
        assert!(matches!(second, CoordinatorError::Storage(_)), "{second}");
        server.stop().await;
        let free = runtime.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a port is free");
        let port = free.local_addr().port();
        drop(free);
        let text = format!(
            "clientPort=0\nclientPortAddress=127.0.0.1\ndataDir={}\n\
             server.2=127.0.0.1:9:9\nserver.3=127.0.0.1:{port}:9\n",
            directory.path().display()
        );
        let (other, _) = CoordinatorConfig::from_text(&text, "test.cfg", Some("3")).expect("legal");
        let Err(error) = Server::try_start(&runtime, other).await else {
            panic!("another member takes the directory");
        };
        let text = error.to_string();
        assert!(text.contains("meta"), "{text}");
    });
}

#[test]
fn operators_are_answered() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let more = "metricsProvider.httpPort=0\nmetricsProvider.httpHost=127.0.0.1\n";
        let server = Server::start(&runtime, config(directory.path(), more)).await;
        let _wire = Wire::open(&runtime, server.address).await;
        for (word, expected) in [
            ("ruok", "imok"),
            ("isro", "rw"),
            ("srvr", "Mode: standalone"),
            ("stat", "Clients:"),
            ("mntr", "zk_znode_count\t"),
            ("conf", "tickTime=400"),
            ("cons", "sid=0x"),
            ("dump", "Sessions with Ephemerals (0):"),
            ("envi", "zookeeper.version=3.8"),
            ("wchs", "0 connections watching 0 paths"),
            ("wchc", ""),
            ("wchp", ""),
            ("srst", "Server stats reset."),
            ("crst", "Connection stats reset."),
        ] {
            let mut asking = Wire::dial(&runtime, server.address).await;
            asking.send_raw(word.as_bytes()).await;
            let answer = String::from_utf8(asking.rest().await).expect("text");
            assert!(answer.contains(expected), "{word}: {answer}");
        }
        let mut scrape = Wire::dial(&runtime, server.metrics.expect("metrics are served")).await;
        scrape.send_raw(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        let answer = String::from_utf8(scrape.rest().await).expect("text");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\nznode_count "), "{answer}");
        server.stop().await;
    });
}

#[test]
fn a_word_that_is_not_allowed_is_not_answered() {
    scenario(|runtime| async move {
        let directory = tempfile::tempdir().expect("a directory");
        let more = "4lw.commands.whitelist=srvr\n";
        let server = Server::start(&runtime, config(directory.path(), more)).await;
        let mut asking = Wire::dial(&runtime, server.address).await;
        asking.send_raw(b"dump").await;
        let answer = String::from_utf8(asking.rest().await).expect("text");
        assert_eq!(answer, "dump is not executed because it is not in the whitelist.\n");
        server.stop().await;
    });
}
