//! What a node costs in memory and an operation in time. Ignored: figures, not verdicts. Run in release, one at a time:
//! `cargo test --release -p sillon-coordinator measure -- --ignored --nocapture --test-threads 1`.

use super::*;

/// Bytes that the process holds in memory.
#[expect(clippy::disallowed_methods, reason = "asks the system about this process; no product code")]
fn resident_bytes() -> u64 {
    let pages =
        std::fs::read_to_string("/proc/self/statm").expect("Linux says how much memory a process holds");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages") * 4096
}

/// Runs something so many times and prints how long one time takes.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measures real time; no product code"
)]
fn timed(what: &str, times: u32, mut run: impl FnMut(u32)) {
    let start = std::time::Instant::now();
    for time in 0..times {
        run(time);
    }
    println!("{what:48} {:8} ns", start.elapsed().as_nanos() / u128::from(times));
}

/// The path of node `number` of a tree with 100 nodes in each directory.
fn path(number: u32) -> String {
    format!("/dir-{:05}/node-{number:09}", number / 100)
}

fn grow(lab: &mut Lab, from: u32, to: u32, data: &[u8]) {
    for number in from..to {
        if number % 100 == 0 {
            lab.ok(create(&format!("/dir-{:05}", number / 100), b"", 0));
        }
        lab.ok(create(&path(number), data, 0));
    }
}

#[test]
#[ignore = "prints figures"]
fn bytes_per_node() {
    const NODES: u32 = 200_000;
    for data_bytes in [0usize, 8, 100, 1000] {
        let mut lab = Lab::new();
        let before = resident_bytes();
        grow(&mut lab, 0, NODES, &vec![b'x'; data_bytes]);
        let held = resident_bytes() - before;
        let data = u64::from(NODES) * data_bytes as u64;
        let nodes = lab.machine.statistics().nodes;
        println!(
            "{nodes} nodes with {data_bytes} bytes of data: {} bytes each besides",
            (held - data) / nodes
        );
        // The allocator keeps what was freed: the next round would be measured too small.
        std::mem::forget(lab);
    }
}

#[test]
#[ignore = "prints figures"]
fn time_per_operation() {
    let mut lab = Lab::new();
    let data = vec![b'x'; 1024];
    let mut number = 0;
    for nodes in [1_000, 10_000, 100_000, 1_000_000] {
        grow(&mut lab, number, nodes, b"12345678");
        number = nodes;
        println!("with {nodes} nodes");
        operations(&mut lab, nodes, &data);
    }
    snapshot_while_writing(&mut lab);
}

fn operations(lab: &mut Lab, nodes: u32, data: &[u8]) {
    const TIMES: u32 = 20_000;
    // Neighbours in the order of a walk over the tree that a cache does not know.
    let any = |time: u32| path(((u64::from(time) * 7_919_999 + 17) % u64::from(nodes)) as u32);
    let commands = |requests: Vec<Request>| -> Vec<Command> {
        let command = |(code, body): Request| Command {
            origin: None,
            time_ms: 5,
            action: Action::Write {
                session: ANN,
                connection: connection_of(ANN),
                identities: vec![("ip".to_owned(), "127.0.0.1".to_owned())],
                operation: code.number(),
                body: body.into(),
            },
        };
        requests.into_iter().map(command).collect()
    };
    let mut apply = |what: &str, requests: Vec<Request>| {
        let commands = commands(requests);
        timed(what, TIMES, |time| {
            let zxid = Zxid(lab.machine.applied().0 + 1);
            let applied = lab.machine.apply(zxid, Some(&commands[time as usize]), true);
            assert_eq!(applied.error, 0);
        });
    };
    let extra = |time: u32| format!("{}-extra", any(time));
    apply(
        "create, 1 KiB",
        (0..TIMES).map(|time| create(&format!("{}-{time}", extra(time)), data, 0)).collect(),
    );
    apply(
        "setData, 1 KiB",
        (0..TIMES).map(|time| set_data(&format!("{}-{time}", extra(time)), data, -1)).collect(),
    );
    let checked = |time: u32| {
        let path = format!("{}-{time}", extra(time));
        multi(&[check(&path, -1), set_data(&path, data, -1)])
    };
    apply("multi of check and setData, 1 KiB", (0..TIMES).map(checked).collect());
    apply("delete", (0..TIMES).map(|time| delete(&format!("{}-{time}", extra(time)), -1)).collect());
    apply(
        "create ephemeral",
        (0..TIMES).map(|time| create(&format!("{}-{time}", extra(time)), b"", 1)).collect(),
    );
    timed("close of a session, for each of its ephemerals", TIMES, |time| {
        if time == 0 {
            assert_eq!(lab.close(ANN).events.len(), 2 * TIMES as usize);
            lab.open(ANN);
        }
    });
    let identities = [Identity::new("ip", "127.0.0.1")];
    for (what, code) in [("getData", OpCode::GetData), ("exists", OpCode::Exists)] {
        let reads: Vec<Request> = (0..TIMES).map(|time| read(code, &any(time))).collect();
        timed(what, TIMES, |time| {
            let outcome = lab.machine.read(code, &reads[time as usize].1, &identities, ANN);
            assert_eq!(outcome.error, 0);
        });
    }
    timed("digest", TIMES, |_| _ = std::hint::black_box(lab.machine.digest()));
    timed("begin_snapshot", 3, |_| _ = lab.machine.begin_snapshot());
    lab.machine.abandon_snapshot();
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "measures real time; no product code"
)]
fn snapshot_while_writing(lab: &mut Lab) {
    lab.machine.begin_snapshot();
    let (mut bytes, mut worst_write, mut worst_chunk) = (Vec::new(), 0, 0);
    let started = std::time::Instant::now();
    for number in 0.. {
        let start = std::time::Instant::now();
        lab.ok(set_data(&path((number * 31_337) % 1_000_000), b"another", -1));
        worst_write = worst_write.max(start.elapsed().as_micros());
        let start = std::time::Instant::now();
        let Some(chunk) = lab.machine.snapshot_chunk(256 * 1024) else { break };
        worst_chunk = worst_chunk.max(start.elapsed().as_micros());
        bytes.extend(chunk);
    }
    let taken = started.elapsed().as_millis();
    println!(
        "snapshot of {} bytes: {taken} ms, worst write {worst_write} µs, worst chunk {worst_chunk} µs",
        bytes.len()
    );
    let started = std::time::Instant::now();
    let mut restorer = StateMachine::restore();
    for chunk in bytes.chunks(256 * 1024) {
        restorer.chunk(chunk).unwrap();
    }
    restorer.finish().unwrap();
    println!("restored in {} ms", started.elapsed().as_millis());
}
