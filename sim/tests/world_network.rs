//! The network of the world, as a process sees it.

mod support;

use sillon_sim::{
    decisions::{Decisions, Stream},
    world::{
        ConnectionInfo, Direction, FaultKind, LinkProfile, NetworkTap, World, WorldConfig, now_ns,
        run_seeded, sleep,
    },
};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use support::{Client, PORT, echo, everywhere, hold, in_world, plain_network, run_on, seconds};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn second_of_now() -> u64 {
    now_ns() / 1_000_000_000
}

#[test]
fn a_write_takes_a_segment_and_a_connection_a_window() {
    let notes = in_world(|world, notes| async move {
        run_on(&world, "server", hold);
        let of_client = notes.clone();
        run_on(&world, "client", move |runtime| {
            let notes = of_client.clone();
            async move {
                runtime.sleep(seconds(1)).await;
                let mut stream = runtime.connect("server", PORT).await.expect("it listens");
                let bytes = vec![0; 100 << 10];
                let first = stream.write(&bytes).await.expect("connected");
                let mut total = first;
                while let Ok(Ok(count)) = runtime.timeout(seconds(5), stream.write(&bytes)).await {
                    total += count;
                }
                notes.add(format!("first write {first}, blocked after {total}"));
            }
        });
        sleep(seconds(20)).await;
    });
    assert_eq!(notes, ["first write 16384, blocked after 65536"]);
}

#[test]
fn a_connection_is_half_open_after_a_power_failure_and_reset_after_the_restart() {
    let notes = in_world(|world, notes| async move {
        let server = run_on(&world, "server", hold);
        let of_client = notes.clone();
        run_on(&world, "client", move |runtime| {
            let notes = of_client.clone();
            async move {
                runtime.sleep(seconds(1)).await;
                let mut stream = runtime.connect("server", PORT).await.expect("it listens");
                let mut buffer = [0; 8];
                runtime.sleep(seconds(2)).await;
                stream.write_all(b"x").await.expect("nobody has said no");
                let silent = runtime.timeout(seconds(10), stream.read(&mut buffer)).await.is_err();
                notes.add(format!("silence while it is down: {silent}"));
                let error = runtime
                    .timeout(seconds(30), stream.read(&mut buffer))
                    .await
                    .expect("in time")
                    .unwrap_err();
                let in_time = (20..=23).contains(&second_of_now());
                notes.add(format!("{:?} after the restart at 20 s: {in_time}", error.kind()));
            }
        });
        sleep(seconds(2)).await;
        world.power_fail(server);
        sleep(seconds(18)).await;
        world.start(server);
        sleep(seconds(20)).await;
    });
    assert_eq!(notes, ["silence while it is down: true", "ConnectionReset after the restart at 20 s: true"]);
}

#[test]
fn a_crash_resets_a_partition_hides_it_and_swallows_a_syn() {
    let notes = in_world(|world, notes| async move {
        let server = run_on(&world, "server", hold);
        let of_client = notes.clone();
        let client = run_on(&world, "client", move |runtime| {
            let notes = of_client.clone();
            async move {
                runtime.sleep(seconds(1)).await;
                let mut stream = runtime.connect("server", PORT).await.expect("it listens");
                let error = stream.read(&mut [0; 8]).await.expect_err("the server died");
                let in_time = (10..=13).contains(&second_of_now());
                notes.add(format!("{:?} when the partition heals: {in_time}", error.kind()));
                let before = now_ns();
                let refused = runtime.connect("server", PORT).await.err().expect("nobody listens");
                notes.add(format!("{:?} quickly: {}", refused.kind(), now_ns() - before < 200_000_000));
                runtime.sleep(seconds(8)).await;
                let swallowed = runtime.timeout(seconds(4), runtime.connect("server", PORT)).await.is_err();
                notes.add(format!("no answer in a partition: {swallowed}"));
            }
        });
        sleep(seconds(3)).await;
        world.network().partition(&[server], &[client]);
        sleep(seconds(2)).await;
        world.kill(server);
        sleep(seconds(5)).await;
        world.network().mend_all();
        sleep(seconds(5)).await;
        world.network().partition(&[server], &[client]);
        sleep(seconds(20)).await;
    });
    assert_eq!(
        notes,
        [
            "ConnectionReset when the partition heals: true",
            "ConnectionRefused quickly: true",
            "no answer in a partition: true",
        ]
    );
}

/// Bytes flow one way while the other is cut; what is read is not acknowledged, so the sender's window closes.
#[test]
fn a_partition_can_be_one_way() {
    let notes = in_world(|world, notes| async move {
        let of_server = notes.clone();
        let server = run_on(&world, "server", move |runtime| {
            let notes = of_server.clone();
            async move {
                let listener = runtime.listen(everywhere()).await.expect("the port is free");
                let mut stream = listener.accept().await.expect("alive");
                let mut received = 0;
                loop {
                    let mut buffer = vec![0; 4_096];
                    match runtime.timeout(seconds(5), stream.read(&mut buffer)).await {
                        Ok(count) => received += count.expect("connected"),
                        Err(_) => break,
                    }
                }
                notes.add(format!("server has {received} after 5 s of silence"));
                stream.write_all(b"answer").await.expect("connected");
            }
        });
        let of_client = notes.clone();
        let client = run_on(&world, "client", move |runtime| {
            let notes = of_client.clone();
            async move {
                runtime.sleep(seconds(1)).await;
                let mut stream = runtime.connect("server", PORT).await.expect("it listens");
                runtime.sleep(seconds(2)).await;
                let mut sent = 0;
                while let Ok(Ok(count)) = runtime.timeout(seconds(3), stream.write(&[7; 10_000])).await {
                    sent += count;
                }
                notes.add(format!("client has sent {sent}"));
                let answered = runtime.timeout(seconds(6), stream.read(&mut [0; 8])).await.is_ok();
                notes.add(format!("client has an answer: {answered}"));
                stream.read_exact(&mut [0; 6]).await.expect("in the end it has");
                notes.add(format!("answer after the end of the partition: {}", second_of_now() >= 20));
            }
        });
        sleep(seconds(2)).await;
        world.network().cut(server, client);
        sleep(seconds(18)).await;
        world.network().mend(server, client);
        sleep(seconds(10)).await;
        assert_eq!(world.fault_count(FaultKind::Partition), 1);
    });
    assert_eq!(
        notes,
        [
            "client has sent 65536",
            "server has 65536 after 5 s of silence",
            "client has an answer: false",
            "answer after the end of the partition: true",
        ]
    );
}

#[test]
fn what_was_sent_outlives_the_connection_and_the_process() {
    let notes = in_world(|world, notes| async move {
        let of_server = notes.clone();
        run_on(&world, "server", move |runtime| {
            let notes = of_server.clone();
            async move {
                let listener = runtime.listen(everywhere()).await.expect("the port is free");
                let mut stream = listener.accept().await.expect("alive");
                let mut buffer = [0; 16];
                let count = stream.read(&mut buffer).await.expect("the data comes before the reset");
                notes.add(format!("{} at {} s", String::from_utf8_lossy(&buffer[..count]), second_of_now()));
                let end = stream.read(&mut buffer).await;
                notes.add(format!("then {:?}", end.map_err(|error| error.kind())));
            }
        });
        let client = run_on(&world, "client", |runtime| async move {
            runtime.sleep(seconds(1)).await;
            let mut stream = runtime.connect("server", PORT).await.expect("it listens");
            stream.write_all(b"last words").await.expect("connected");
            std::future::pending::<()>().await;
        });
        sleep(Duration::from_millis(900)).await;
        let slow = LinkProfile {
            latency_min_us: 3_000_000,
            latency_max_us: 3_000_000,
            tail_ppm: 0,
            ..LinkProfile::default()
        };
        sleep(Duration::from_millis(98)).await;
        let server = world.nodes()[0];
        // The handshake takes 6 s, then the words take 3 more.
        world.network().set_link(client, server, Some(slow));
        sleep(seconds(6)).await;
        world.kill(client);
        sleep(seconds(10)).await;
    });
    assert_eq!(notes, ["last words at 7 s", "then Err(ConnectionReset)"]);
}

#[test]
fn an_end_that_is_dropped_says_goodbye_and_a_process_that_exits_too() {
    let notes = in_world(|world, notes| async move {
        let of_server = notes.clone();
        run_on(&world, "server", move |runtime| {
            let notes = of_server.clone();
            async move {
                let listener = runtime.listen(everywhere()).await.expect("the port is free");
                for _ in 0..2 {
                    let mut stream = listener.accept().await.expect("alive");
                    let end = stream.read(&mut [0; 8]).await.map_err(|error| error.kind());
                    notes.add(format!("{end:?}"));
                    // The other side is closed: its machine answers with a reset.
                    stream.write_all(b"anybody?").await.expect("not known yet");
                    runtime.sleep(seconds(1)).await;
                    let error = stream.write(b"hello?").await.expect_err("reset by now");
                    notes.add(format!("{:?}", error.kind()));
                }
            }
        });
        run_on(&world, "client", |runtime| async move {
            runtime.sleep(seconds(1)).await;
            drop(runtime.connect("server", PORT).await.expect("it listens"));
            runtime.sleep(seconds(3)).await;
            let held = runtime.connect("server", PORT).await.expect("it listens");
            runtime.spawn("holder", async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
        });
        sleep(seconds(20)).await;
    });
    assert_eq!(notes, ["Ok(0)", "ConnectionReset", "Ok(0)", "ConnectionReset"]);
}

#[test]
fn names_and_addresses_are_resolved_and_ports_are_taken_once() {
    in_world(|world, _| async move {
        run_on(&world, "server", |runtime| async move {
            let listener = runtime.listen(([0, 0, 0, 0], 0).into()).await.expect("some port is free");
            assert!(listener.local_addr().port() > 0);
            let port = listener.local_addr().port();
            let taken = runtime.listen(([0, 0, 0, 0], port).into()).await.err().expect("it is taken");
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
            drop(listener);
            runtime.listen(([0, 0, 0, 0], port).into()).await.expect("it is free again");
            let foreign = runtime.listen(([10, 0, 0, 9], 1).into()).await.err().expect("not ours");
            assert_eq!(foreign.kind(), io::ErrorKind::AddrNotAvailable);
            echo(runtime, everywhere(), None).await.expect("for ever");
        });
        run_on(&world, "client", |runtime| async move {
            runtime.sleep(seconds(1)).await;
            for host in ["server", "10.0.0.1"] {
                let mut client = Client::new(&runtime, host, PORT);
                assert_eq!(client.call(b"hi", seconds(5)).await.expect("an answer"), b"hi");
                let stream = client.stream.expect("still open");
                assert_eq!(stream.peer_addr().to_string(), "10.0.0.1:9000");
                assert_eq!(stream.local_addr().ip().to_string(), "10.0.0.2");
            }
            let unknown = runtime.connect("nobody", 1).await.err().expect("no such name");
            assert_eq!(unknown.kind(), io::ErrorKind::NotFound);
        });
        sleep(seconds(10)).await;
    });
}

#[test]
fn a_bad_network_delivers_the_bytes_in_order_or_resets() {
    let (answers, resets, pieces) = run_seeded(3, || async {
        let mut config = WorldConfig { network: plain_network(), ..WorldConfig::default() };
        config.network.partial_read_ppm = 300_000;
        config.network.partial_write_ppm = 300_000;
        config.network.link.loss_ppm = 20_000;
        config.network.link.reset_ppm = 5_000;
        config.network.link.bandwidth_bytes_per_second = 10_000_000;
        let world = World::new(config, Arc::new(Decisions::random(3, false)));
        run_on(&world, "server", |runtime| async move {
            echo(runtime, everywhere(), None).await.expect("for ever")
        });
        let answers = Arc::new(AtomicU64::new(0));
        let counted = answers.clone();
        run_on(&world, "client", move |runtime| {
            let answers = counted.clone();
            async move {
                let mut client = Client::new(&runtime, "server", PORT);
                for round in 0..2_000u32 {
                    let frame: Vec<u8> = (0..round % 9_000).map(|index| (index * 7 + round) as u8).collect();
                    if let Ok(answer) = client.call(&frame, seconds(20)).await {
                        assert_eq!(answer, frame);
                        answers.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        sleep(seconds(600)).await;
        assert_eq!(world.panics(), []);
        (answers.load(Ordering::Relaxed), world.fault_count(FaultKind::Reset), world.network().counters())
    })
    .expect("no panic");
    assert!(answers > 1_500, "{answers} answers");
    assert!((3..300).contains(&resets), "{resets} resets");
    assert!(pieces.delivered_segments > 4_000, "{pieces:?}");
}

#[derive(Default)]
struct Counting {
    opened: AtomicU64,
    sent: AtomicU64,
    delivered: AtomicU64,
}

impl NetworkTap for Counting {
    fn opened(&self, connection: &ConnectionInfo) {
        assert_eq!(connection.server.address.port(), PORT);
        self.opened.fetch_add(1, Ordering::Relaxed);
    }
    fn sent(&self, _: &ConnectionInfo, _: Direction, _: &[io::IoSlice<'_>], count: usize) {
        self.sent.fetch_add(count as u64, Ordering::Relaxed);
    }
    fn delivered(&self, _: &ConnectionInfo, direction: Direction, bytes: [&[u8]; 2]) {
        let count = (bytes[0].len() + bytes[1].len()) as u64;
        assert!(
            bytes[0].iter().chain(bytes[1]).rev().take(4).all(|byte| *byte == 5)
                || direction == Direction::ToClient
        );
        self.delivered.fetch_add(count, Ordering::Relaxed);
    }
}

#[test]
fn a_tap_sees_what_is_sent_and_what_arrives() {
    in_world(|world, _| async move {
        let tap = Arc::new(Counting::default());
        world.network().set_tap(Some(tap.clone()));
        run_on(&world, "server", |runtime| async move {
            echo(runtime, everywhere(), None).await.expect("for ever")
        });
        run_on(&world, "client", |runtime| async move {
            runtime.sleep(seconds(1)).await;
            let mut client = Client::new(&runtime, "server", PORT);
            for _ in 0..10 {
                client.call(&[5; 96], seconds(5)).await.expect("an answer");
            }
        });
        sleep(seconds(10)).await;
        assert_eq!(tap.opened.load(Ordering::Relaxed), 1);
        assert_eq!(tap.sent.load(Ordering::Relaxed), 2_000);
        assert_eq!(tap.delivered.load(Ordering::Relaxed), 2_000);
        assert!(world.decisions().draw(Stream::FaultPlan, "any", 0, 9) < 10);
    });
}

#[test]
fn what_listens_on_loopback_is_reached_by_its_own_machine_alone_and_through_every_partition() {
    let notes = in_world(|world, notes| async move {
        let of_server = notes.clone();
        let server = run_on(&world, "server", move |runtime| {
            let notes = of_server.clone();
            async move {
                let inside = runtime.listen(([127, 0, 0, 1], 2181).into()).await.expect("the port is free");
                let outside = runtime.listen(everywhere()).await.expect("it is another port");
                let _outside = outside;
                runtime.spawn("inside", async move {
                    let mut stream = inside.accept().await.expect("it lives");
                    let mut byte = [0; 1];
                    while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok()
                    {
                    }
                });
                let mut stream = runtime.connect("127.0.0.1", 2181).await.expect("it listens");
                for _ in 0..3 {
                    runtime.sleep(seconds(4)).await;
                    let mut byte = [7; 1];
                    stream.write_all(&byte).await.expect("connected");
                    stream.read_exact(&mut byte).await.expect("answered");
                    notes.add(format!("an answer after {} s", second_of_now()));
                }
            }
        });
        let of_client = notes.clone();
        let client = run_on(&world, "client", move |runtime| {
            let notes = of_client.clone();
            async move {
                runtime.sleep(seconds(1)).await;
                let Err(error) = runtime.connect("server", 2181).await else {
                    panic!("it is not for others")
                };
                notes.add(format!("from elsewhere: {:?}", error.kind()));
            }
        });
        sleep(seconds(2)).await;
        world.network().partition(&[server], &[client]);
        sleep(seconds(12)).await;
    });
    let expected = [
        "from elsewhere: ConnectionRefused",
        "an answer after 4 s",
        "an answer after 8 s",
        "an answer after 12 s",
    ];
    assert_eq!(notes, expected);
}
