//! An ensemble in memory: members with disks that lag and lose what was not synced, and a network that loses, repeats
//! and reorders. Owns what a shell does around the consensus, as small as it can be; every step goes by the judge.

use super::judge::{Judge, Seen};
use crate::{
    consensus::{
        Consensus, ConsensusConfig, ConsensusMessage, HardState, LogEntry, Output, Persist, ProposalRefused,
        RaftConsensus, Role, SnapshotMark, Status,
    },
    types::MemberId,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
};

/// A snapshot: the state machine is the list of all that was applied, a snapshot is a part of that list.
#[derive(Clone)]
struct Snapshot {
    mark: SnapshotMark,
    state: Vec<LogEntry>,
}

/// What survives a crash.
#[derive(Clone, Default)]
struct Disk {
    hard_state: HardState,
    /// The entry before the first of the log, whose snapshot is there.
    start: SnapshotMark,
    log: Vec<LogEntry>,
    snapshots: BTreeMap<u64, Snapshot>,
}

impl Disk {
    fn write(&mut self, persist: Persist) {
        self.hard_state = persist.hard_state.unwrap_or(self.hard_state);
        append(&mut self.log, self.start, persist.entries);
    }

    /// The log from the first entry ever on.
    fn whole_log(&self) -> Vec<LogEntry> {
        let before = self.snapshots.get(&self.start.index).map(|snapshot| snapshot.state.clone());
        let mut log = before.unwrap_or_default();
        log.extend(self.log.iter().cloned());
        log
    }

    /// The log begins after that snapshot, and is empty.
    fn install(&mut self, mark: SnapshotMark) {
        assert_eq!(
            self.snapshots.get(&mark.index).map(|snapshot| snapshot.mark),
            Some(mark),
            "bytes come before"
        );
        self.start = mark;
        self.log.clear();
        self.hard_state.commit = self.hard_state.commit.max(mark.index);
    }

    /// What a start finds: the newest snapshot, and what the log has after it, if it contains its mark.
    fn recover(&mut self) -> (Option<SnapshotMark>, Vec<LogEntry>, Vec<LogEntry>) {
        let Some(newest) = self.snapshots.values().next_back().cloned() else {
            return (None, Vec::new(), self.log.clone());
        };
        let mark = newest.mark;
        let position = mark.index.checked_sub(self.start.index + 1);
        let at_mark = position.and_then(|position| self.log.get(position as usize));
        if mark != self.start && at_mark.is_none_or(|entry| entry.term != mark.term) {
            self.install(mark);
        }
        let after = (mark.index - self.start.index) as usize;
        self.hard_state.commit = self.hard_state.commit.max(mark.index);
        (Some(mark), newest.state, self.log[after..].to_vec())
    }
}

/// Appends entries; where the first has an index that is there, it replaces all from there on.
fn append(log: &mut Vec<LogEntry>, start: SnapshotMark, entries: Vec<LogEntry>) {
    if let Some(first) = entries.first() {
        let kept = (first.index - start.index) as usize - 1;
        assert!(kept <= log.len(), "a gap before {first:?}");
        log.truncate(kept);
        log.extend(entries);
    }
}

/// One member and its shell.
pub(super) struct Member {
    id: MemberId,
    consensus: RaftConsensus,
    disk: Disk,
    /// Written and not yet synced.
    unsynced: VecDeque<Persist>,
    applied: Vec<LogEntry>,
    pub(super) reads: BTreeMap<u64, u64>,
    /// Its syncs do not end.
    pub(super) disk_hangs: bool,
    pub(super) installs: usize,
}

/// A message on its way; with a snapshot, its bytes travel along.
#[derive(Clone)]
pub(super) struct Envelope {
    message: ConsensusMessage,
    snapshot: Option<Snapshot>,
}

/// The ensemble.
pub(super) struct Ensemble {
    members: BTreeMap<MemberId, Member>,
    pub(super) network: Vec<Envelope>,
    pub(super) cut: BTreeSet<MemberId>,
    pub(super) judge: Judge,
    memory_bytes: usize,
    starts: u64,
}

impl Ensemble {
    pub(super) fn new(size: u64, memory_bytes: usize, seed: u64) -> Ensemble {
        let mut ensemble = Ensemble {
            members: BTreeMap::new(),
            network: Vec::new(),
            cut: BTreeSet::new(),
            judge: Judge::default(),
            memory_bytes,
            starts: seed << 32,
        };
        for id in (1..=size).map(MemberId) {
            let voters = (1..=size).map(MemberId).collect();
            let consensus = ensemble.start(id, voters, HardState::default(), None, Vec::new());
            let member = Member {
                id,
                consensus,
                disk: Disk::default(),
                unsynced: VecDeque::new(),
                applied: Vec::new(),
                reads: BTreeMap::new(),
                disk_hangs: false,
                installs: 0,
            };
            ensemble.members.insert(id, member);
        }
        ensemble
    }

    fn start(
        &mut self,
        id: MemberId,
        voters: Vec<MemberId>,
        hard_state: HardState,
        snapshot: Option<SnapshotMark>,
        entries: Vec<LogEntry>,
    ) -> RaftConsensus {
        self.starts += 1;
        let mut config = ConsensusConfig::new(id, voters, self.starts);
        config.memory_bytes = self.memory_bytes;
        config.max_size_per_message = 1_000;
        RaftConsensus::restore(config, hard_state, entries, snapshot)
            .expect("what was made durable can be started from")
    }

    pub(super) fn ids(&self) -> Vec<MemberId> {
        self.members.keys().copied().collect()
    }

    pub(super) fn member(&self, id: MemberId) -> &Member {
        &self.members[&id]
    }

    pub(super) fn status(&self, id: MemberId) -> Status {
        self.members[&id].consensus.status()
    }

    pub(super) fn leader(&self) -> Option<MemberId> {
        let leaders = self.ids().into_iter().filter(|id| self.status(*id).role == Role::Leader);
        leaders.max_by_key(|id| self.status(*id).term)
    }

    /// What a member applied, the leaders' own entries left out.
    pub(super) fn applied(&self, id: MemberId) -> Vec<String> {
        let entries = self.members[&id].applied.iter().filter(|entry| !entry.data.is_empty());
        entries.map(|entry| String::from_utf8_lossy(&entry.data).into_owned()).collect()
    }

    /// Gives a member an input and does all that it asks for.
    pub(super) fn input(&mut self, id: MemberId, input: impl FnOnce(&mut RaftConsensus)) {
        input(&mut self.member_mut(id).consensus);
        self.drain(id);
    }

    fn member_mut(&mut self, id: MemberId) -> &mut Member {
        self.members.get_mut(&id).expect("a member")
    }

    pub(super) fn propose(&mut self, id: MemberId, data: &str) -> Result<(), ProposalRefused> {
        let result = self.member_mut(id).consensus.propose(data.as_bytes().to_vec().into());
        self.drain(id);
        result
    }

    pub(super) fn hang_disk(&mut self, id: MemberId, hangs: bool) {
        self.member_mut(id).disk_hangs = hangs;
    }

    /// Does what there is to do; nothing becomes durable.
    fn drain(&mut self, id: MemberId) {
        loop {
            let output = self.member_mut(id).consensus.output();
            let is_last = output.is_empty();
            self.carry_out(id, output);
            if is_last {
                break;
            }
        }
        let member = self.members.get_mut(&id).expect("a member");
        let mut log = member.disk.whole_log();
        for persist in &member.unsynced {
            append(&mut log, SnapshotMark::default(), persist.entries.clone());
        }
        self.judge.status(id, &member.consensus.status(), &log);
    }

    fn carry_out(&mut self, id: MemberId, output: Output) {
        let member = self.members.get_mut(&id).expect("a member");
        if let Some(mark) = output.install {
            member.disk.install(mark);
            member.applied = member.disk.snapshots[&mark.index].state.clone();
            // The log begins after it; nothing that was written before matters any more, but term and vote.
            let unsynced = mem::take(&mut member.unsynced);
            if let Some(state) = unsynced.into_iter().filter_map(|persist| persist.hard_state).next_back() {
                member.disk.hard_state = state;
            }
            member.installs += 1;
        }
        member.unsynced.extend(output.persist);
        for entry in output.committed {
            assert_eq!(entry.index as usize, member.applied.len() + 1, "applied in order, each once");
            self.judge.applied(id, &entry);
            member.applied.push(entry);
        }
        member.reads.extend(output.reads.into_iter().map(|read| (read.context, read.index)));
        if output.want_snapshot {
            member.snapshot();
        }
        let log = member.disk.whole_log();
        let seen = Seen { member: id, hard_state: member.disk.hard_state, durable: &log };
        for message in output.messages {
            self.judge.sent(&message, &seen);
            self.network.push(Envelope { message, snapshot: None });
        }
        for send in output.send_snapshot {
            let snapshot = member.disk.snapshots[&send.mark.index].clone();
            assert_eq!(snapshot.mark, send.mark);
            self.network.push(Envelope { message: send.message, snapshot: Some(snapshot) });
            member.consensus.snapshot_sent(send.to, true);
        }
    }

    /// The first `count` unsynced writes of a member become durable.
    pub(super) fn sync(&mut self, id: MemberId, count: usize) {
        let member = self.members.get_mut(&id).expect("a member");
        let count = count.min(member.unsynced.len());
        if count == 0 || member.disk_hangs {
            return;
        }
        let mut ticket = 0;
        for persist in member.unsynced.drain(..count) {
            ticket = persist.ticket;
            member.disk.write(persist);
        }
        let log = member.disk.whole_log();
        let seen = Seen { member: id, hard_state: member.disk.hard_state, durable: &log };
        self.judge.durable(&seen);
        member.consensus.persisted(ticket);
        self.drain(id);
    }

    /// A message reaches its receiver, unless one of the two is cut off.
    pub(super) fn deliver(&mut self, envelope: Envelope) {
        let (from, to) = (envelope.message.from(), envelope.message.to());
        if self.cut.contains(&from) || self.cut.contains(&to) {
            self.input(from, |consensus| consensus.unreachable(to));
            return;
        }
        let member = self.member_mut(to);
        if let Some(snapshot) = envelope.snapshot {
            // Its bytes arrive first, and are durable before anything is done with them.
            assert_eq!(envelope.message.snapshot(), Some(snapshot.mark));
            member.disk.snapshots.insert(snapshot.mark.index, snapshot);
        }
        self.input(to, |consensus| consensus.step(envelope.message));
    }

    /// Delivers and syncs until nothing is left to do.
    pub(super) fn stabilize(&mut self) {
        for _ in 0..10_000 {
            let mut idle = true;
            for envelope in mem::take(&mut self.network) {
                idle = false;
                self.deliver(envelope);
            }
            for id in self.ids() {
                let member = &self.members[&id];
                idle &= member.disk_hangs || member.unsynced.is_empty();
                self.sync(id, usize::MAX);
            }
            if idle {
                return;
            }
        }
        panic!("the ensemble does not come to rest");
    }

    /// The process dies and starts again; of what was not synced, the first `kept` writes survive.
    pub(super) fn restart(&mut self, id: MemberId, kept: usize) {
        let voters = self.ids();
        let member = self.members.get_mut(&id).expect("a member");
        member.disk_hangs = false;
        let kept = kept.min(member.unsynced.len());
        for persist in member.unsynced.drain(..kept) {
            member.disk.write(persist);
        }
        member.unsynced.clear();
        member.reads.clear();
        let (mark, state, entries) = member.disk.recover();
        member.applied = state;
        let hard_state = member.disk.hard_state;
        self.member_mut(id).consensus = self.start(id, voters, hard_state, mark, entries);
        self.drain(id);
    }

    /// The disk is replaced by an empty one.
    pub(super) fn wipe(&mut self, id: MemberId) {
        let member = self.member_mut(id);
        member.disk = Disk::default();
        member.unsynced.clear();
        self.judge.forget(id);
        self.restart(id, 0);
    }

    pub(super) fn snapshot(&mut self, id: MemberId) {
        self.member_mut(id).snapshot();
        self.drain(id);
    }
}

impl Member {
    /// Takes a snapshot of what is applied.
    fn snapshot(&mut self) {
        let Some(last) = self.applied.last() else { return };
        let mark = SnapshotMark { index: last.index, term: last.term };
        if !self.disk.snapshots.contains_key(&mark.index) {
            let durable = self.disk.start.index + self.disk.log.len() as u64;
            assert!(durable >= mark.index, "{}: applied before durable", self.id);
            self.disk.snapshots.insert(mark.index, Snapshot { mark, state: self.applied.clone() });
        }
        self.consensus.snapshot_taken(mark);
    }
}
