//! The raft crate, driven so that persistence is asynchronous and nothing random decides. Owns the order of what it
//! asks for: what is handed out when, and which messages wait for the disk.
//!
//! Two things differ from how that crate is usually driven. A snapshot counts as durable the moment it is handed out,
//! because the shell makes its bytes durable *before* it steps the message that names it; so there is never a moment
//! with a snapshot pending, in which an election would panic. And an entry counts as applied the moment it is handed
//! out, because only membership changes, which this ensemble does not have, ask for more.

use super::{
    Consensus, ConsensusConfig, ConsensusMessage, HardState, LogEntry, MAX_ENTRY_BYTES, Output, PeerProgress,
    Persist, ProposalRefused, ReadReady, RestoreError, Role, SendSnapshot, SnapshotMark, Status, logger,
    memory_log::MemoryLog,
    message::{Kind, entry_from_raft, entry_into_raft},
    start::{check_config, check_recovered, election_timeout, raft_config, uncommitted_limit},
    validate::{self, Here},
};
use crate::types::{MemberId, Term};
use bytes::Bytes;
use raft::{
    ProgressState, RawNode, Ready, SnapshotStatus, StateRole,
    eraftpb::{self, ConfState, Entry, Message, MessageType},
};
use std::{collections::VecDeque, mem};

/// Reads that wait for a new leader's first commit.
const MAX_HELD_READS: usize = 4096;
/// While a snapshot is on its way, the entries after it are kept up to so many times the usual memory.
const MEMORY_FACTOR_DURING_SNAPSHOT: usize = 4;

/// What waits until a ticket is durable.
struct Waiting {
    /// The raft crate's number for it.
    ready: u64,
    ticket: u64,
    /// The hard state that is durable then, where it changed.
    hard_state: Option<HardState>,
    messages: Vec<Message>,
}

/// The part of a member in the agreement, by the raft algorithm.
pub struct RaftConsensus {
    config: ConsensusConfig,
    node: RawNode<MemoryLog>,
    voting: bool,
    proposals: Vec<Entry>,
    proposal_bytes: usize,
    /// Reads asked for before this leader has committed anything in its term.
    held_reads: Vec<Message>,
    /// Outputs made ahead of the shell's asking, around a snapshot.
    made: VecDeque<Output>,
    waiting: VecDeque<Waiting>,
    /// Messages that need not wait any more.
    released: Vec<Message>,
    last_ticket: u64,
    /// The last ticket that something waits for.
    last_sync_ticket: u64,
    persisted_ticket: u64,
    /// As last handed out.
    hard_state: HardState,
    durable_term: Term,
    handed_out: u64,
}

impl RaftConsensus {
    /// Continues from what is durable: the hard state, a snapshot that the state machine has loaded, and the entries
    /// after it. All three empty: a new member.
    ///
    /// # Errors
    /// [`RestoreError`] where the configuration or what was on disk contradicts itself.
    pub fn restore(
        config: ConsensusConfig,
        hard_state: HardState,
        entries: Vec<LogEntry>,
        snapshot: Option<SnapshotMark>,
    ) -> Result<RaftConsensus, RestoreError> {
        check_config(&config)?;
        let start = snapshot.unwrap_or_default();
        let hard_state = check_recovered(hard_state, &entries, start)?;
        let mut voters = ConfState::default();
        voters.set_voters(config.voters.iter().map(|voter| voter.0).collect());
        let entries = entries.into_iter().map(entry_into_raft).collect();
        let log = MemoryLog::new(to_raft(hard_state), voters, snapshot, entries);
        let node = RawNode::new(&raft_config(&config, start.index), log, &logger::to_tracing())
            .map_err(|error| RestoreError::Config(error.to_string()))?;
        Ok(RaftConsensus {
            config,
            node,
            voting: true,
            proposals: Vec::new(),
            proposal_bytes: 0,
            held_reads: Vec::new(),
            made: VecDeque::new(),
            waiting: VecDeque::new(),
            released: Vec::new(),
            last_ticket: 0,
            last_sync_ticket: 0,
            persisted_ticket: 0,
            hard_state,
            durable_term: hard_state.term,
            handed_out: start.index,
        })
    }

    fn role(&self) -> Role {
        match self.node.raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Candidate => Role::Candidate,
            StateRole::PreCandidate => Role::PreCandidate,
            StateRole::Follower => Role::Follower,
        }
    }

    fn leader(&self) -> Option<MemberId> {
        member(self.node.raft.leader_id)
    }

    fn here(&self) -> Here<'_> {
        Here {
            member: self.config.member,
            voters: &self.config.voters,
            voting: self.voting,
            role: self.role(),
            leader: self.leader(),
            term: self.node.raft.term,
            last_index: self.node.raft.raft_log.last_index(),
        }
    }

    /// Gives the collected proposals to the raft crate: one append, one message to each member.
    fn flush_proposals(&mut self) {
        if self.proposals.is_empty() {
            return;
        }
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.config.member.0;
        message.set_entries(mem::take(&mut self.proposals).into());
        self.proposal_bytes = 0;
        let taken = self.node.raft.step(message);
        assert!(taken.is_ok(), "proposals were refused after they had been taken: {taken:?}");
    }

    /// Gives held reads to the raft crate once it answers them.
    fn flush_held_reads(&mut self) {
        if self.held_reads.is_empty() {
            return;
        }
        if self.role() != Role::Leader {
            // Lost with the leadership: who asked asks again.
            self.held_reads.clear();
        } else if self.node.raft.commit_to_current_term() {
            for read in mem::take(&mut self.held_reads) {
                // A leader takes every read.
                let _ = self.node.raft.step(read);
            }
        }
    }

    fn read(&mut self, read: Message) {
        if self.role() == Role::Leader && !self.node.raft.commit_to_current_term() {
            if self.held_reads.len() < MAX_HELD_READS {
                self.held_reads.push(read);
            }
            return;
        }
        // Without a leader it is lost, as announced.
        let _ = self.node.raft.step(read);
    }

    /// A leader that takes entries to be durable here which are gone (the disk was replaced) is told so. Nothing is
    /// known to be committed until it has sent them again.
    fn admit_loss(&mut self, message: &mut ConsensusMessage) {
        let log = &self.node.raft.raft_log;
        let (last_index, is_current) = (log.last_index(), message.term >= self.node.raft.term);
        if message.kind != Kind::Heartbeat || message.commit <= last_index || !is_current {
            return;
        }
        tracing::warn!("entries {} to {} were durable here and are missing", last_index + 1, message.commit);
        let mut rejection = Message::default();
        rejection.set_msg_type(MessageType::MsgAppendResponse);
        (rejection.from, rejection.to, rejection.term) = (message.to.0, message.from.0, message.term);
        (rejection.index, rejection.reject, rejection.reject_hint) = (message.commit, true, last_index);
        self.node.raft.msgs.push(rejection);
        message.commit = 0;
    }

    /// A member that lost durable entries (its disk was replaced) rejects what follows on them. The raft crate takes
    /// that for an old message for ever; believe the member instead. An old message costs one needless probe.
    fn believe_rejection(&mut self, message: &ConsensusMessage) {
        let is_about_now = message.term == self.node.raft.term && self.role() == Role::Leader;
        if message.kind != Kind::AppendResponse || !message.reject || !is_about_now {
            return;
        }
        let Some(progress) = self.node.raft.mut_prs().get_mut(message.from.0) else { return };
        if message.reject_hint < progress.matched {
            let (member, matched) = (message.from, progress.matched);
            tracing::warn!("member {member} no longer has entry {matched} that it had made durable");
            progress.matched = 0;
            progress.become_probe();
            progress.next_idx = message.reject_hint + 1;
        }
    }

    /// One batch of what the raft crate wants done.
    fn collect(&mut self) -> Output {
        let mut output = Output { want_snapshot: self.node.store().take_wanted(), ..Output::default() };
        if self.node.has_ready() {
            self.take_ready(&mut output);
            self.settle();
        }
        for message in mem::take(&mut self.released) {
            send(message, &mut output);
        }
        output
    }

    fn take_ready(&mut self, output: &mut Output) {
        let mut ready = self.node.ready();
        let number = ready.number();
        let after_disk = self.take_messages(&mut ready, output);
        let reads = ready.take_read_states();
        output.reads.extend(reads.iter().filter_map(|read| self.own_read(&read.request_ctx, read.index)));
        output.persist = self.persist(&mut ready);
        let hard_state = output.persist.as_ref().and_then(|persist| persist.hard_state);
        let waiting =
            Waiting { ready: number, ticket: self.last_sync_ticket, hard_state, messages: after_disk };
        self.waiting.push_back(waiting);
        let metadata = ready.snapshot().get_metadata();
        let mark = SnapshotMark { index: metadata.index, term: metadata.term };
        let committed = ready.take_committed_entries();
        if mark.index != 0 {
            self.node.mut_store().install(mark);
            self.node.advance_append_async(ready);
            self.node.on_persist_ready(number);
            assert!(mark.index > self.handed_out, "a snapshot goes back from {} to {mark}", self.handed_out);
            self.handed_out = mark.index;
            output.install = Some(mark);
        } else {
            self.node.advance_append_async(ready);
        }
        self.hand_out(committed, output);
    }

    /// Sends what may be sent now and gives the messages that have to wait for the disk.
    fn take_messages(&self, ready: &mut Ready, output: &mut Output) -> Vec<Message> {
        let mut after_disk = Vec::new();
        for message in ready.take_messages() {
            send(message, output);
        }
        for message in ready.take_persisted_messages() {
            // A question promises nothing; an answer to a heartbeat promises only the term, and that is durable.
            let promises_nothing = match message.get_msg_type() {
                MessageType::MsgReadIndex => true,
                MessageType::MsgHeartbeatResponse => Term(message.term) == self.durable_term,
                _ => false,
            };
            if promises_nothing {
                send(message, output);
            } else {
                after_disk.push(message);
            }
        }
        after_disk
    }

    /// What has to be made durable of it, and puts the entries where the raft crate can read them.
    fn persist(&mut self, ready: &mut Ready) -> Option<Persist> {
        let hard_state = ready.hs().map(from_raft);
        if let Some(new) = hard_state {
            let old = self.hard_state;
            assert!(new.term >= old.term, "the term goes back: {old:?} to {new:?}");
            assert!(new.commit >= old.commit, "the commit index goes back: {old:?} to {new:?}");
            assert!(
                new.term > old.term || old.vote.is_none() || new.vote == old.vote,
                "two votes in one term: {old:?} to {new:?}"
            );
            self.hard_state = new;
        }
        let must_sync = ready.must_sync();
        let entries = ready.take_entries();
        self.node.mut_store().append(&entries);
        if hard_state.is_none() && !must_sync {
            return None;
        }
        self.last_ticket += 1;
        if must_sync {
            self.last_sync_ticket = self.last_ticket;
        }
        let entries = entries.into_iter().map(entry_from_raft).collect();
        Some(Persist { ticket: self.last_ticket, hard_state, entries, must_sync })
    }

    /// Hands committed entries out, and drops applied ones from memory.
    fn hand_out(&mut self, committed: Vec<Entry>, output: &mut Output) {
        for entry in &committed {
            assert_eq!(entry.index, self.handed_out + 1, "committed entries are handed out in order");
            self.handed_out = entry.index;
        }
        self.node.advance_apply_to(self.handed_out);
        output.committed = committed.into_iter().map(entry_from_raft).collect();
        self.trim();
    }

    /// Drops applied entries from memory; those after a snapshot that is on its way only when there are very many.
    fn trim(&mut self) {
        let limit = self.config.memory_bytes;
        if self.node.store().bytes() <= limit {
            return;
        }
        let applied = self.handed_out;
        let peers = self.node.raft.prs().iter().map(|(_, progress)| progress);
        let sent = peers.filter(|peer| self.role() == Role::Leader && peer.state == ProgressState::Snapshot);
        let first_sent = sent.map(|peer| peer.pending_snapshot).min();
        let log = self.node.mut_store();
        log.trim(first_sent.unwrap_or(applied).min(applied), limit);
        log.trim(applied, limit.saturating_mul(MEMORY_FACTOR_DURING_SNAPSHOT));
    }

    /// Tells the raft crate what is durable by now, and releases what waited for it.
    fn settle(&mut self) {
        let mut number = None;
        while self.waiting.front().is_some_and(|waiting| waiting.ticket <= self.persisted_ticket) {
            let Some(done) = self.waiting.pop_front() else { break };
            number = Some(done.ready);
            self.durable_term = done.hard_state.map_or(self.durable_term, |state| state.term);
            let term = self.node.raft.term;
            self.released.extend(done.messages.into_iter().filter(|message| !is_outdated(message, term)));
        }
        if let Some(number) = number {
            self.node.on_persist_ready(number);
        }
    }

    /// The context of a read, unique among members and starts: the raft crate confuses equal ones.
    fn read_context(&self, context: u64) -> Bytes {
        let parts = [self.config.member.0, self.config.seed, context];
        parts.iter().flat_map(|part| part.to_le_bytes()).collect::<Vec<u8>>().into()
    }

    /// Whether an answer is to a read of this start of this member.
    fn own_read(&self, request: &[u8], index: u64) -> Option<ReadReady> {
        let context = u64::from_le_bytes(*request.last_chunk()?);
        (*request == *self.read_context(context)).then_some(ReadReady { context, index })
    }
}

impl Consensus for RaftConsensus {
    fn tick(&mut self) {
        self.flush_proposals();
        if self.role() == Role::Leader {
            self.node.tick();
        } else if self.voting && self.config.voters.len() == 1 {
            self.campaign();
        } else if self.voting {
            let timeout = election_timeout(&self.config, Term(self.node.raft.term));
            self.node.raft.set_randomized_election_timeout(timeout);
            self.node.tick();
        }
    }

    fn step(&mut self, mut message: ConsensusMessage) {
        self.flush_proposals();
        if let Err(reason) = validate::check(&message, &self.here()) {
            tracing::debug!("ignored {} from member {}: {reason}", message.kind(), message.from());
            return;
        }
        self.admit_loss(&mut message);
        self.believe_rejection(&message);
        let is_snapshot = message.kind == Kind::Snapshot;
        let is_read = message.kind == Kind::ReadIndex;
        if is_snapshot {
            self.make_ahead();
        }
        let message = message.into_raft(self.node.store().voters());
        if is_read {
            self.read(message);
        } else {
            // An error is a message that came too late, such as a vote for an election that is over.
            let _ = self.node.step(message);
        }
        if is_snapshot {
            self.make_ahead();
        }
    }

    fn propose(&mut self, data: Bytes) -> Result<(), ProposalRefused> {
        if self.role() != Role::Leader {
            return Err(ProposalRefused::NotLeader { leader: self.leader() });
        }
        if self.node.raft.lead_transferee.is_some() {
            return Err(ProposalRefused::Transferring);
        }
        if !(1..=MAX_ENTRY_BYTES).contains(&data.len()) {
            return Err(ProposalRefused::Length { length_bytes: data.len(), limit_bytes: MAX_ENTRY_BYTES });
        }
        let before = self.node.raft.uncommitted_size() + self.proposal_bytes;
        let limit_bytes = uncommitted_limit(&self.config) as usize;
        if before > 0 && before + data.len() > limit_bytes {
            return Err(ProposalRefused::Busy { limit_bytes });
        }
        self.proposal_bytes += data.len();
        self.proposals.push(Entry { data, ..Entry::default() });
        Ok(())
    }

    fn read_index(&mut self, context: u64) {
        self.flush_proposals();
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgReadIndex);
        let data = self.read_context(context);
        message.set_entries(vec![Entry { data, ..Entry::default() }].into());
        self.read(message);
    }

    fn campaign(&mut self) {
        self.flush_proposals();
        if self.voting && self.role() != Role::Leader {
            // It fails for no reason that another tick would not try again.
            let _ = self.node.campaign();
        }
    }

    fn transfer_leadership(&mut self, to: MemberId) {
        self.flush_proposals();
        if self.role() == Role::Leader && self.config.voters.contains(&to) {
            self.node.transfer_leader(to.0);
        }
    }

    fn unreachable(&mut self, member: MemberId) {
        self.flush_proposals();
        self.node.report_unreachable(member.0);
    }

    fn snapshot_sent(&mut self, to: MemberId, ok: bool) {
        self.flush_proposals();
        let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.node.report_snapshot(to.0, status);
    }

    fn output(&mut self) -> Output {
        self.flush_proposals();
        self.flush_held_reads();
        self.made.pop_front().unwrap_or_else(|| self.collect())
    }

    fn persisted(&mut self, ticket: u64) {
        assert!(ticket <= self.last_ticket, "ticket {ticket} was never given out");
        self.flush_proposals();
        self.persisted_ticket = self.persisted_ticket.max(ticket);
        self.settle();
    }

    fn snapshot_taken(&mut self, mark: SnapshotMark) {
        assert!(mark.index <= self.handed_out, "a snapshot of {mark}, applied is {}", self.handed_out);
        let log = self.node.mut_store();
        assert!(log.term_of(mark.index).is_none_or(|term| term == mark.term), "no entry has {mark}");
        log.snapshot_taken(mark);
    }

    fn set_voting(&mut self, voting: bool) {
        self.voting = voting;
    }

    fn status(&self) -> Status {
        let log = &self.node.raft.raft_log;
        let mut progress = Vec::new();
        if self.role() == Role::Leader {
            let peers = self.node.raft.prs().iter().filter(|(id, _)| **id != self.config.member.0);
            progress.extend(peers.map(|(id, peer)| PeerProgress {
                member: MemberId(*id),
                matched: peer.matched,
                active: peer.recent_active,
            }));
            progress.sort_by_key(|peer| peer.member);
        }
        Status {
            role: self.role(),
            leader: self.leader(),
            term: Term(self.node.raft.term),
            last_index: log.last_index(),
            commit_index: log.committed,
            applied_index: self.handed_out,
            first_index: self.node.store().first(),
            progress,
        }
    }
}

impl RaftConsensus {
    /// Collects all there is, so that a snapshot is handed out by itself.
    fn make_ahead(&mut self) {
        loop {
            let output = self.collect();
            if output.is_empty() {
                return;
            }
            self.made.push_back(output);
        }
    }
}

/// Whether a message acknowledges entries to the leader of a term that is over: what followed may have replaced them
/// before they ever reached the disk, and nobody counts the answer any more.
fn is_outdated(message: &Message, term: u64) -> bool {
    message.get_msg_type() == MessageType::MsgAppendResponse && !message.reject && message.term < term
}

/// Puts a message where the shell finds it.
fn send(message: Message, output: &mut Output) {
    let Some(message) = ConsensusMessage::from_raft(message) else { return };
    match message.snapshot() {
        Some(mark) => output.send_snapshot.push(SendSnapshot { to: message.to, mark, message }),
        None => output.messages.push(message),
    }
}

fn member(id: u64) -> Option<MemberId> {
    (id != raft::INVALID_ID).then_some(MemberId(id))
}

fn from_raft(state: &eraftpb::HardState) -> HardState {
    HardState { term: Term(state.term), vote: member(state.vote), commit: state.commit }
}

fn to_raft(state: HardState) -> eraftpb::HardState {
    let vote = state.vote.map_or(raft::INVALID_ID, |vote| vote.0);
    eraftpb::HardState { term: state.term.0, vote, commit: state.commit, ..eraftpb::HardState::default() }
}
