//! Random schedules: every order of messages, syncs, crashes and cuts that a seed draws. Owns the drawing; the judge
//! decides.

use super::harness::Ensemble;
use crate::{
    consensus::{
        Consensus, ConsensusConfig, ConsensusMessage, HardState, LogEntry, RaftConsensus, Role, SnapshotMark,
        message::Kind,
    },
    types::MemberId,
};
use proptest::prelude::*;

/// One event; the numbers are taken modulo what there is to choose from.
#[derive(Clone, Copy, Debug)]
enum Event {
    Tick(usize, usize),
    Deliver(usize),
    Lose(usize),
    Repeat(usize),
    Propose,
    Read(usize),
    Sync(usize, usize),
    Restart(usize, usize),
    Cut(usize),
    Heal,
    Snapshot(usize),
    Transfer(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let any_number = || 0..1_000_usize;
    prop_oneof![
        6 => (any_number(), 1..12_usize).prop_map(|(member, ticks)| Event::Tick(member, ticks)),
        40 => any_number().prop_map(Event::Deliver),
        3 => any_number().prop_map(Event::Lose),
        2 => any_number().prop_map(Event::Repeat),
        10 => Just(Event::Propose),
        2 => any_number().prop_map(Event::Read),
        20 => (any_number(), 1..5_usize).prop_map(|(member, count)| Event::Sync(member, count)),
        1 => (any_number(), 0..3_usize).prop_map(|(member, kept)| Event::Restart(member, kept)),
        1 => any_number().prop_map(Event::Cut),
        2 => Just(Event::Heal),
        1 => any_number().prop_map(Event::Snapshot),
        1 => any_number().prop_map(Event::Transfer),
    ]
}

struct Run {
    ensemble: Ensemble,
    proposed: usize,
    asked: u64,
    /// Reads asked for: the member, the context, and what had been committed by then.
    reads: Vec<(MemberId, u64, usize)>,
}

impl Run {
    fn choose(&self, number: usize) -> MemberId {
        let ids = self.ensemble.ids();
        ids[number % ids.len()]
    }

    fn happen(&mut self, event: Event) {
        let ensemble = &mut self.ensemble;
        let on_the_way = ensemble.network.len().max(1);
        match event {
            Event::Tick(member, ticks) => {
                let id = self.choose(member);
                (0..ticks).for_each(|_| self.ensemble.input(id, |consensus| consensus.tick()));
            }
            Event::Deliver(number) if !ensemble.network.is_empty() => {
                let envelope = ensemble.network.remove(number % on_the_way.min(4));
                ensemble.deliver(envelope);
            }
            Event::Lose(number) if !ensemble.network.is_empty() => {
                ensemble.network.remove(number % on_the_way);
            }
            Event::Repeat(number) if !ensemble.network.is_empty() => {
                let envelope = ensemble.network[number % on_the_way].clone();
                ensemble.deliver(envelope);
            }
            Event::Propose => {
                if let Some(leader) = ensemble.leader() {
                    let data = format!("entry number {}", self.proposed);
                    self.proposed += usize::from(ensemble.propose(leader, &data).is_ok());
                }
            }
            Event::Sync(member, count) => {
                let id = self.choose(member);
                self.ensemble.sync(id, count);
            }
            Event::Restart(member, kept) => {
                let id = self.choose(member);
                self.reads.retain(|(reader, _, _)| *reader != id);
                self.ensemble.restart(id, kept);
            }
            Event::Cut(member) => {
                let id = self.choose(member);
                self.ensemble.cut.insert(id);
            }
            Event::Heal => ensemble.cut.clear(),
            _ => self.happen_rarely(event),
        }
        self.judge_reads();
    }

    fn happen_rarely(&mut self, event: Event) {
        match event {
            Event::Read(member) => {
                let (id, context) = (self.choose(member), self.asked);
                self.asked += 1;
                self.reads.push((id, context, self.ensemble.judge.committed().len()));
                self.ensemble.input(id, |consensus| consensus.read_index(context));
            }
            Event::Snapshot(member) => {
                let id = self.choose(member);
                self.ensemble.snapshot(id);
            }
            Event::Transfer(member) => {
                let to = self.choose(member);
                if let Some(leader) = self.ensemble.leader() {
                    self.ensemble.input(leader, |consensus| consensus.transfer_leadership(to));
                }
            }
            _ => (),
        }
    }

    /// A read sees all that was committed before it was asked for.
    fn judge_reads(&self) {
        for (member, context, committed) in &self.reads {
            if let Some(index) = self.ensemble.member(*member).reads.get(context) {
                assert!(*index as usize >= *committed, "a stale read at member {member}");
            }
        }
    }

    /// Once everything works again, all members agree and go on.
    fn come_to_rest(&mut self) {
        self.ensemble.cut.clear();
        for _ in 0..200 {
            for id in self.ensemble.ids() {
                self.ensemble.input(id, |consensus| consensus.tick());
            }
            self.ensemble.stabilize();
        }
        let leader = self.ensemble.leader().expect("a leader is elected");
        self.ensemble.propose(leader, "the last").unwrap();
        for _ in 0..5 {
            self.ensemble.stabilize();
            self.ensemble.input(leader, |consensus| consensus.tick());
        }
        let expected = self.ensemble.applied(leader);
        assert_eq!(expected.last().map(String::as_str), Some("the last"));
        for id in self.ensemble.ids() {
            assert_eq!(self.ensemble.applied(id), expected, "member {id}");
        }
    }
}

fn run(size: u64, memory_bytes: usize, seed: u64, events: &[Event]) -> Run {
    let ensemble = Ensemble::new(size, memory_bytes, seed);
    let mut run = Run { ensemble, proposed: 0, asked: 0, reads: Vec::new() };
    for event in events {
        run.happen(*event);
    }
    run.come_to_rest();
    run
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn three_members_agree(seed in 0..1_000_u64, memory in prop_oneof![Just(600), Just(1 << 20)],
                           events in proptest::collection::vec(event(), 0..600)) {
        run(3, memory, seed, &events);
    }

    #[test]
    fn five_members_agree(seed in 0..1_000_u64, events in proptest::collection::vec(event(), 0..500)) {
        run(5, 800, seed, &events);
    }

    #[test]
    fn messages_of_any_content_do_no_harm(messages in proptest::collection::vec(any_message(), 0..60),
                                          role in 0..3_usize) {
        hostile(role, messages);
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..6_u64, 1 => Just(u64::MAX), 1 => Just(1 << 62), 1 => any::<u64>()]
}

fn any_message() -> impl Strategy<Value = ConsensusMessage> {
    let kinds = vec![
        Kind::Append,
        Kind::AppendResponse,
        Kind::RequestVote,
        Kind::RequestVoteResponse,
        Kind::Heartbeat,
        Kind::HeartbeatResponse,
        Kind::TimeoutNow,
        Kind::ReadIndex,
        Kind::ReadIndexResponse,
        Kind::RequestPreVote,
        Kind::RequestPreVoteResponse,
    ];
    let entry = (number(), number()).prop_map(|(index, term)| LogEntry { index, term, data: vec![1].into() });
    let numbers = (number(), number(), number(), number(), number(), number());
    let entries = proptest::collection::vec(entry, 0..4);
    let rest = (0..4_u64, any::<bool>(), proptest::option::weighted(0.1, (number(), number())));
    (proptest::sample::select(kinds), numbers, entries, rest).prop_map(
        |(kind, (term, log_term, index, commit, commit_term, reject_hint), entries, (from, reject, mark))| {
            ConsensusMessage {
                kind,
                to: MemberId(1),
                from: MemberId(from),
                term,
                log_term,
                index,
                entries,
                commit,
                commit_term,
                snapshot: mark.map(|(index, term)| SnapshotMark { index, term }),
                reject,
                reject_hint,
                context: bytes::Bytes::from_static(b"x"),
            }
        },
    )
}

/// Does what there is to do, all of it durable at once.
fn drain(member: &mut RaftConsensus) {
    for _ in 0..20 {
        if let Some(persist) = member.output().persist {
            member.persisted(persist.ticket);
        }
    }
}

/// A follower, a pre-candidate and a leader take whatever comes.
fn hostile(role: usize, messages: Vec<ConsensusMessage>) {
    let voters = vec![MemberId(1), MemberId(2), MemberId(3)];
    let config = ConsensusConfig::new(MemberId(1), voters, 1);
    let mut member = RaftConsensus::restore(config, HardState::default(), vec![], None).unwrap();
    (0..role.min(1) * 20).for_each(|_| member.tick());
    drain(&mut member);
    if role == 2 {
        for kind in [Kind::RequestPreVoteResponse, Kind::RequestVoteResponse] {
            member.step(vote(kind));
            drain(&mut member);
        }
        assert_eq!(member.status().role, Role::Leader);
    }
    for message in messages {
        member.step(message);
        member.tick();
        drain(&mut member);
    }
}

/// A vote of member 2 for member 1 in term 1.
fn vote(kind: Kind) -> ConsensusMessage {
    ConsensusMessage {
        kind,
        to: MemberId(1),
        from: MemberId(2),
        term: 1,
        log_term: 0,
        index: 0,
        entries: Vec::new(),
        commit: 0,
        commit_term: 0,
        snapshot: None,
        reject: false,
        reject_hint: 0,
        context: bytes::Bytes::new(),
    }
}
