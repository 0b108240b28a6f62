//! How long writes stand still when the leader of three is killed, seen by clients that turn to another member at once.

use super::{Ensemble, OURS, Settings, make};
use crate::{
    Result,
    report::{Report, median},
    suites::order,
    zookeeper::{Connection, Operation, Session},
};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, sleep},
    time::{Duration, Instant},
};

const LONGEST_GAP: &str = "ms between acknowledged writes";
/// Twice the election timeout (`sillon.electionTimeoutMs`), in milliseconds.
const BOUND_MS: f64 = 1000.0;
const MEMBERS: usize = 3;
const CLIENTS: usize = 6;
/// Load before the kill, and after it: longer than ZooKeeper takes to elect a leader.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(10);
/// A client that has no answer for so long turns to another member.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(2);

/// Kill -9 of the leader under a load of writes, again and again; the killed member is started between the runs.
///
/// # Errors
/// Servers that do not start, and ensembles that do not elect a leader.
pub fn failover(settings: &Settings) -> Result<Vec<Report>> {
    let ensembles = settings.start(MEMBERS)?;
    let mut gaps = vec![Vec::new(); ensembles.len()];
    for turn in 0..settings.pairs {
        for index in order(ensembles.len(), turn) {
            gaps[index].push(gap_at_kill(&ensembles[index], &format!("/failover-{turn}"))?);
        }
    }
    let mut report = Report::new(format!(
        "failover: {MEMBERS} members, {CLIENTS} clients that write one at a time, the leader killed: {} interleaved runs",
        settings.pairs
    ));
    for (ensemble, gaps) in ensembles.iter().zip(gaps) {
        if ensemble.name == OURS {
            report.bound(format!("{OURS}, {LONGEST_GAP}"), median(&gaps), BOUND_MS);
        }
        report.measure(ensemble.name, LONGEST_GAP, gaps);
    }
    report.note("the longest time in which no client at all was acknowledged a write");
    Ok(vec![report])
}

/// The longest gap between acknowledgements around a kill, in milliseconds.
fn gap_at_kill(ensemble: &Ensemble, top: &str) -> Result<f64> {
    let servers = ensemble.addresses()?;
    make(ensemble.leader_address()?, top)?;
    let done = AtomicBool::new(false);
    let start = Instant::now();
    let (killed_at, acknowledged) = thread::scope(|scope| -> Result<_> {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (servers, done) = (&servers, &done);
                scope.spawn(move || write_until(servers, client, &format!("{top}/n{client}"), done))
            })
            .collect();
        sleep(BEFORE);
        let killed_at = Instant::now();
        let killed = ensemble.kill_leader();
        if killed.is_ok() {
            sleep(AFTER);
        }
        done.store(true, Ordering::Relaxed);
        let mut acknowledged: Vec<Instant> = Vec::new();
        for client in clients {
            acknowledged.extend(client.join().expect("a client panicked"));
        }
        ensemble.start(&killed?)?;
        Ok((killed_at, acknowledged))
    })?;
    let mut times: Vec<Duration> = acknowledged.iter().map(|time| *time - start).collect();
    times.sort_unstable();
    if times.last().is_none_or(|last| start + *last < killed_at + AFTER / 2) {
        return Err(format!("{}: no writes {AFTER:?} after the kill", ensemble.name).into());
    }
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
    Ok(longest.ok_or("no writes")?.as_secs_f64() * 1e3)
}

/// Writes one after the other, through whichever member answers; gives when each was acknowledged.
fn write_until(servers: &[SocketAddr], client: usize, path: &str, done: &AtomicBool) -> Vec<Instant> {
    let mut acknowledged = Vec::new();
    let mut session = Session::default();
    let mut next = client;
    while !done.load(Ordering::Relaxed) {
        let server = servers[next % servers.len()];
        next += 1;
        // A session that the servers do not know any more is given up.
        let connected = Connection::resume(server, session, ANSWER_LIMIT)
            .or_else(|_| Connection::resume(server, Session::default(), ANSWER_LIMIT));
        let Ok(mut connection) = connected else {
            sleep(PAUSE);
            continue;
        };
        let mut operation = Operation::Create;
        while !done.load(Ordering::Relaxed) {
            match connection.call(operation, path, b"x") {
                Ok(error) if error == 0 || operation == Operation::Create => {
                    if error == 0 {
                        acknowledged.push(Instant::now());
                    }
                    operation = Operation::Set;
                }
                // The connection has broken, or nothing was answered: another member.
                Ok(_) | Err(_) => break,
            }
        }
        session = connection.session;
    }
    acknowledged
}
