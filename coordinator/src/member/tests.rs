//! A member alone, step by step: what it says when, and what it keeps to itself until the disk has spoken.

use super::*;
use crate::consensus::{ConsensusConfig, RaftConsensus};
use sillon_protocol::zookeeper::{
    ConnectRequest, ConnectResponse, CreateRequest, Jute, OpCode, PathWatchRequest, Reader, ReplyHeader,
    RequestHeader, SetDataRequest, records::open_acl,
};
use std::time::Duration;

const ALICE: u64 = 1;
const BOB: u64 = 2;

/// A standalone member whose disk works when it is told to.
struct Bench {
    member: Member,
    now: Monotonic,
    /// Tickets that have been asked for and are not durable.
    tickets: Vec<u64>,
    /// Frames for each client, without their lengths.
    inboxes: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Bench {
    fn new() -> Bench {
        let config = CoordinatorConfig::default();
        let consensus = ConsensusConfig::new(config.member, vec![config.member], 7);
        let consensus = RaftConsensus::restore(consensus, Default::default(), Vec::new(), None);
        let now = Monotonic(1);
        let member = Member::new(Start {
            config,
            consensus: Box::new(consensus.expect("an empty disk is legal")),
            state: StateMachine::new(),
            known_ensemble: None,
            incarnation: 99,
            secret: [3; 32],
            observers: Observers::NONE,
            moment: Moment { now, unix: UnixMillis(1_000) },
        });
        let mut bench = Bench { member, now, tickets: Vec::new(), inboxes: BTreeMap::new() };
        bench.happen(Event::Tick);
        bench.sync();
        bench
    }

    fn happen(&mut self, event: Event) {
        let moment = Moment { now: self.now, unix: UnixMillis(1_000) };
        self.member.on(event, moment);
        let effects = self.member.finish(moment);
        self.tickets.extend(effects.persist.iter().map(|persist| persist.ticket));
        for send in effects.sends {
            let mut bytes = &send.bytes[..];
            while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
                let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
                self.inboxes.entry(send.connection).or_default().push(frame.to_vec());
                bytes = rest;
            }
        }
    }

    /// The disk has done all that it was asked.
    fn sync(&mut self) {
        while let Some(ticket) = self.tickets.pop() {
            self.tickets.clear();
            self.happen(Event::Durable { ticket });
        }
    }

    fn connect(&mut self, connection: u64) {
        self.happen(Event::Accepted { connection, peer: "127.0.0.1:4000".parse().expect("an address") });
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: 10_000,
            session_id: 0,
            password: Some(&[0; 16]),
            read_only: Some(false),
        };
        self.happen(Event::Frames { connection, frames: vec![request.to_bytes().into()] });
        assert!(self.inbox(connection).is_empty(), "a session that is not durable is not told");
        self.sync();
        let welcome = self.inbox(connection).remove(0);
        let response = ConnectResponse::read(&mut Reader::new(&welcome)).expect("a welcome");
        assert_eq!(response.timeout_ms, 10_000);
    }

    fn ask(&mut self, connection: u64, requests: &[(i32, OpCode, Vec<u8>)]) {
        let frame = |(xid, operation, body): &(i32, OpCode, Vec<u8>)| {
            let mut bytes = RequestHeader { xid: *xid, operation: operation.number() }.to_bytes();
            bytes.extend_from_slice(body);
            Bytes::from(bytes)
        };
        self.happen(Event::Frames { connection, frames: requests.iter().map(frame).collect() });
    }

    fn inbox(&mut self, connection: u64) -> Vec<Vec<u8>> {
        self.inboxes.remove(&connection).unwrap_or_default()
    }

    /// The xids and errors of what a client has been sent; -1 is an event.
    fn heard(&mut self, connection: u64) -> Vec<(i32, i32)> {
        let header = |frame: &Vec<u8>| ReplyHeader::read(&mut Reader::new(frame)).expect("a header");
        self.inbox(connection).iter().map(header).map(|header| (header.xid, header.error)).collect()
    }
}

fn create(path: &str) -> Vec<u8> {
    CreateRequest { path, data: Some(b"x"), acl: open_acl(), flags: 0 }.to_bytes()
}

fn set(path: &str) -> Vec<u8> {
    SetDataRequest { path, data: Some(b"y"), version: -1 }.to_bytes()
}

fn get(path: &str, watch: bool) -> Vec<u8> {
    PathWatchRequest { path, watch }.to_bytes()
}

#[test]
fn nothing_is_acknowledged_before_it_is_durable() {
    let mut bench = Bench::new();
    bench.connect(ALICE);
    bench.ask(ALICE, &[(1, OpCode::Create, create("/a"))]);
    assert_eq!(bench.heard(ALICE), []);
    bench.sync();
    assert_eq!(bench.heard(ALICE), [(1, 0)]);
}

#[test]
fn a_read_waits_for_the_writes_before_it_and_replies_keep_their_order() {
    let mut bench = Bench::new();
    bench.connect(ALICE);
    bench.ask(
        ALICE,
        &[
            (1, OpCode::Create, create("/a")),
            (2, OpCode::GetData, get("/a", false)),
            (3, OpCode::Sync, create("/a")[..6].to_vec()),
            (4, OpCode::Create, create("/a")),
            (5, OpCode::Ping, Vec::new()),
        ],
    );
    assert_eq!(bench.heard(ALICE), [], "the read has nothing to read yet");
    bench.sync();
    assert_eq!(bench.heard(ALICE), [(1, 0), (2, 0), (3, 0), (4, -110), (5, 0)]);
}

#[test]
fn an_event_comes_before_the_reply_that_has_seen_it() {
    let mut bench = Bench::new();
    bench.connect(ALICE);
    bench.connect(BOB);
    bench.ask(ALICE, &[(1, OpCode::Create, create("/a")), (2, OpCode::GetData, get("/a", true))]);
    bench.sync();
    assert_eq!(bench.heard(ALICE), [(1, 0), (2, 0)]);
    bench.ask(BOB, &[(1, OpCode::SetData, set("/a"))]);
    bench.ask(ALICE, &[(3, OpCode::SetData, set("/a")), (4, OpCode::GetData, get("/a", false))]);
    bench.sync();
    assert_eq!(bench.heard(ALICE), [(-1, 0), (3, 0), (4, 0)], "once, and first");
}

#[test]
fn a_silent_session_ends_after_its_timeout_and_a_grace_and_not_before() {
    let mut bench = Bench::new();
    bench.connect(ALICE);
    let session = *bench.member.session_connections.keys().next().expect("a session");
    let tick = Duration::from_millis(100);
    for _ in 0..100 {
        bench.now = bench.now + tick;
        bench.happen(Event::Tick);
        bench.sync();
    }
    assert!(bench.member.state.session(session).is_some(), "ten seconds are not more than its timeout");
    for _ in 0..11 {
        bench.now = bench.now + tick;
        bench.happen(Event::Tick);
        bench.sync();
    }
    assert!(bench.member.state.session(session).is_none());
    assert!(bench.member.connections.is_empty(), "its connection ends with it");
}

#[test]
fn time_in_which_the_process_stood_still_counts_against_nobody() {
    let mut bench = Bench::new();
    bench.connect(ALICE);
    let session = *bench.member.session_connections.keys().next().expect("a session");
    bench.happen(Event::Tick);
    bench.now = bench.now + Duration::from_secs(60);
    bench.happen(Event::Tick);
    bench.sync();
    assert!(bench.member.state.session(session).is_some());
}

#[test]
fn whoever_leaves_with_a_request_under_way_leaves_nothing_behind() {
    let mut bench = Bench::new();
    bench.connect(ALICE);
    bench.ask(ALICE, &[(1, OpCode::Create, create("/a"))]);
    bench.happen(Event::Disconnected { connection: ALICE });
    bench.sync();
    assert!(bench.member.connections.is_empty() && bench.member.waiting.is_empty());
    assert_eq!(bench.member.statistics.outstanding, 0);
    assert!(bench.member.state.node("/a").is_some(), "what it asked for is done nevertheless");
}
