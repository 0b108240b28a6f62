//! Whatever a stranger sends: the broker answers with the protocol's own error or closes the connection, and goes on
//! serving everybody else.

mod support;

use sillon_protocol::{
    ErrorCode,
    messages::{MetadataRequest, MetadataRequestTopic},
};
use sillon_runtime::Runtime;
use support::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends raw bytes and gives what comes back until the broker closes the connection.
async fn raw(runtime: &Runtime, port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = runtime.connect("127.0.0.1", port).await.expect("the broker listens");
    stream.write_all(bytes).await.expect("a small write fits the socket's buffer");
    stream.shutdown().await.expect("the connection is open");
    let mut answer = Vec::new();
    // A reset is as good an end as a close.
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as i32).to_be_bytes()[..], body].concat()
}

fn header(api_key: i16, version: i16) -> Vec<u8> {
    [&api_key.to_be_bytes()[..], &version.to_be_bytes(), &7i32.to_be_bytes(), &(-1i16).to_be_bytes()].concat()
}

#[test]
fn hostile_frames_end_their_own_connection_only() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let port = broker.addresses()[0].port();
        let mut hostile: Vec<Vec<u8>> = vec![
            i32::MAX.to_be_bytes().to_vec(),
            (-1i32).to_be_bytes().to_vec(),
            frame(b""),
            frame(b"\0"),
            frame(&header(0x7f03, 9)),
            frame(&header(3, 0x7f09)),
            frame(&header(4, 1)),
            // Produce whose list of topics claims i32::MAX entries.
            frame(
                &[header(0, 7), vec![0xff, 0xff, 0xff, 0xff, 0, 0, 3, 0xe8, 0x7f, 0xff, 0xff, 0xff]].concat(),
            ),
            // Metadata whose compact list claims u32::MAX entries.
            frame(&[header(3, 9), vec![0, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat()),
        ];
        hostile.extend((0..200u8).map(|byte| frame(&[byte; 40])));
        for bytes in &hostile {
            assert_eq!(raw(&runtime, port, bytes).await, b"", "{bytes:?}");
        }
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "t", 1, &[]).await, 0);
        broker.stop().await.unwrap();
    });
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let port = broker.addresses()[0].port();
        let answer = raw(&runtime, port, &frame(&header(18, 99))).await;
        // Length, correlation id, error code, one entry: ApiVersions 0 to 4.
        assert_eq!(answer, [0, 0, 0, 16, 0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
        broker.stop().await.unwrap();
    });
}

#[test]
fn damaged_batches_are_refused_with_the_code_that_says_why() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        create_topic(&connection, "t", 1, &[("max.message.bytes", "200")]).await;
        let good = batch(&["value"], 1_700_000_000_000, None);
        let changed = |position: usize, value: u8| {
            let mut bytes = good.to_vec();
            bytes[position] = value;
            bytes::Bytes::from(bytes)
        };
        let last = good.len() - 1;
        let large = "x".repeat(300);
        let cases = [
            ("a flipped bit", changed(last, good[last] ^ 1), ErrorCode::CORRUPT_MESSAGE),
            ("cut short", good.slice(..last), ErrorCode::INVALID_RECORD),
            ("only a header", good.slice(..20), ErrorCode::INVALID_RECORD),
            ("the format before 0.11", changed(16, 1), ErrorCode::INVALID_RECORD),
            ("two batches", [good.clone(), good.clone()].concat().into(), ErrorCode::INVALID_RECORD),
            ("too large", batch(&[&large], 1_700_000_000_000, None), ErrorCode::MESSAGE_TOO_LARGE),
            ("no batch", bytes::Bytes::new(), ErrorCode::INVALID_RECORD),
            ("from the far future", batch(&["v"], i64::MAX / 2, None), ErrorCode::INVALID_TIMESTAMP),
        ];
        for (name, records, code) in cases {
            let answer = produce(&connection, "t", records).await;
            assert_eq!(ErrorCode::from(answer.error_code), code, "{name}");
        }
        assert_eq!(produce(&connection, "t", good).await.base_offset, 0, "nothing of it was stored");
        broker.stop().await.unwrap();
    });
}

#[test]
fn no_name_leads_out_of_the_log_directory() {
    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("logs");
    scenario(|runtime| async move {
        let broker = start(&runtime, &directory, "").await;
        let connection = connect(&runtime, &broker).await;
        for name in ["../x", "..", ".", "", "a/b", "a\0b", &"x".repeat(250)] {
            let code = create_topic(&connection, name, 1, &[]).await;
            assert_eq!(ErrorCode::from(code), ErrorCode::INVALID_TOPIC_EXCEPTION, "{name:?}");
            let wanted =
                MetadataRequestTopic { name: Some(name.to_owned()), ..MetadataRequestTopic::default() };
            let request = MetadataRequest { topics: Some(vec![wanted]), ..MetadataRequest::default() };
            let described = ask(&connection, 9, &request).await.topics.remove(0);
            assert_eq!(ErrorCode::from(described.error_code), ErrorCode::INVALID_TOPIC_EXCEPTION, "{name:?}");
        }
        broker.stop().await.unwrap();
    });
    let outside: Vec<_> = outer.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(outside, ["logs"]);
}

#[test]
fn a_port_in_use_and_a_directory_in_use_are_named_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let second = try_start(&runtime, directory.path(), "")
            .await
            .err()
            .expect("the directory is in use")
            .to_string();
        assert!(second.contains(&directory.path().display().to_string()), "{second}");
        assert!(second.contains("in use") && second.lines().count() == 1, "{second}");
        let address = broker.addresses()[0];
        let listeners = format!("listeners=PLAINTEXT://{address}");
        let second = try_start(&runtime, other.path(), &listeners)
            .await
            .err()
            .expect("the port is in use")
            .to_string();
        assert!(second.contains(&format!("cannot listen on PLAINTEXT://{address}")), "{second}");
        broker.stop().await.unwrap();
    });
}

#[test]
fn logs_without_their_metadata_are_not_taken_for_an_empty_broker() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "t", 1, &[]).await, 0);
        broker.stop().await.unwrap();
        let (coordinator, aside) = (directory.path().join("coordinator"), directory.path().join("aside"));
        runtime.fs().rename(&coordinator, &aside).await.unwrap();
        for _ in 0..2 {
            let missing =
                try_start(&runtime, directory.path(), "").await.err().expect("the logs belong to nobody");
            assert!(missing.to_string().contains("knows no cluster although there are logs"), "{missing}");
        }
        runtime.fs().remove_dir_all(&coordinator).await.unwrap();
        runtime.fs().rename(&aside, &coordinator).await.unwrap();
        let broker = start(&runtime, directory.path(), "").await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(
            ErrorCode::from(create_topic(&connection, "t", 1, &[]).await),
            ErrorCode::TOPIC_ALREADY_EXISTS
        );
        broker.stop().await.unwrap();
    });
}
