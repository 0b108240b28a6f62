//! Scenarios of groups against one shard and a log in memory: records are committed when the scenario says so.

mod membership;
mod offsets;
mod property;
mod reload;
mod static_members;

use super::{
    Answer, GroupRecord, JoinCall, Loader, MemberId, Now, OffsetToCommit, Shard, SyncCall, Token, Verdict,
    WriteId, facts::GroupFact,
};
use crate::{
    config::{BrokerConfig, group::GroupConfig},
    types::Offset,
};
use bytes::Bytes;
use sillon_protocol::{
    ErrorCode,
    messages::{
        ConsumerProtocolSubscription, HeartbeatRequest, JoinGroupRequest, JoinGroupRequestProtocol,
        JoinGroupResponse, LeaveGroupRequest, MemberIdentity, OffsetCommitRequest, SyncGroupRequest,
        SyncGroupRequestAssignment, SyncGroupResponse, encode_versioned,
    },
};
use sillon_runtime::Monotonic;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

pub(super) const GROUP: &str = "g";
/// The session timeout of every member.
pub(super) const SESSION: Duration = Duration::from_secs(10);
/// The rebalance timeout of every member.
pub(super) const REBALANCE: Duration = Duration::from_secs(60);

/// A shard, the clock, the log, and who waits.
pub(super) struct Scene {
    pub(super) shard: Shard,
    pub(super) settings: Arc<GroupConfig>,
    pub(super) now: Now,
    /// What is committed.
    pub(super) log: Vec<GroupRecord>,
    pub(super) under_way: VecDeque<(WriteId, Vec<GroupRecord>)>,
    /// Whether records are committed as soon as they are written.
    pub(super) commits_at_once: bool,
    pub(super) facts: Vec<GroupFact>,
    answers: BTreeMap<Token, Answer>,
    next: u64,
    /// The number of the connection over which members commit.
    pub(super) connection: u64,
}

/// How somebody joins.
#[derive(Clone)]
pub(super) struct Who {
    pub(super) member: String,
    pub(super) instance: Option<String>,
    pub(super) topics: Vec<&'static str>,
    pub(super) protocols: Vec<&'static str>,
    pub(super) version: i16,
}

/// Somebody without an id who reads topic `t`.
pub(super) fn anybody() -> Who {
    Who { member: String::new(), instance: None, topics: vec!["t"], protocols: vec!["range"], version: 3 }
}

/// A member that has an id.
pub(super) fn member(id: &str) -> Who {
    Who { member: id.to_owned(), ..anybody() }
}

/// Somebody with an instance id.
pub(super) fn instance(name: &str) -> Who {
    Who { instance: Some(name.to_owned()), version: 5, ..anybody() }
}

impl Scene {
    /// A shard that has read an empty log. The first rebalance waits for nobody.
    pub(super) fn new() -> Scene {
        Scene::with("group.initial.rebalance.delay.ms=0")
    }

    pub(super) fn with(properties: &str) -> Scene {
        let (config, warnings) = BrokerConfig::from_properties(properties, "test").expect("legal");
        assert_eq!(warnings, []);
        let settings = Arc::new(config.groups);
        let now = Now { monotonic: Monotonic(1_000_000_000), unix_ms: 1_700_000_000_000 };
        let shard = Loader::default().finish(settings.clone(), true, Offset::ZERO, now);
        let mut scene = Scene {
            shard,
            settings,
            now,
            log: Vec::new(),
            under_way: VecDeque::new(),
            commits_at_once: true,
            facts: Vec::new(),
            answers: BTreeMap::new(),
            next: 0,
            connection: 0,
        };
        scene.collect();
        scene
    }

    fn token(&mut self) -> Token {
        self.next += 1;
        Token(self.next)
    }

    /// Takes what the shard wants done.
    fn collect(&mut self) {
        loop {
            let output = self.shard.take_output();
            self.answers.extend(output.answers);
            self.facts.extend(output.facts);
            self.under_way.extend(output.writes);
            if !self.commits_at_once || self.under_way.is_empty() {
                return;
            }
            self.commit_one();
        }
    }

    fn commit_one(&mut self) {
        let (id, records) = self.under_way.pop_front().expect("something is under way");
        let offset = Offset(self.log.len() as i64);
        self.log.extend(records);
        self.shard.on_written(id, Verdict::Committed(offset, ErrorCode::NONE), self.now);
    }

    /// Everything that is under way is committed.
    pub(super) fn commit_all(&mut self) {
        while !self.under_way.is_empty() {
            self.commit_one();
            self.collect();
        }
    }

    /// Everything that is under way is refused.
    pub(super) fn refuse_all(&mut self, code: ErrorCode) {
        while let Some((id, _)) = self.under_way.pop_front() {
            self.shard.on_written(id, Verdict::Refused(code), self.now);
            self.collect();
        }
    }

    /// Time passes, on both clocks, with the timers that come due.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now.monotonic + time;
        while self.shard.next_timer() <= end {
            let next = self.shard.next_timer().max(self.now.monotonic);
            self.advance_to(next);
            self.shard.on_tick(self.now);
            self.collect();
        }
        self.advance_to(end);
    }

    fn advance_to(&mut self, at: Monotonic) {
        let passed = at.saturating_since(self.now.monotonic);
        self.now.unix_ms += passed.as_millis() as i64;
        self.now.monotonic = at;
    }

    /// Joins; the answer may come later.
    pub(super) fn join(&mut self, who: &Who) -> Token {
        let token = self.token();
        let prefix = who.instance.as_deref().unwrap_or("m");
        let subscription = ConsumerProtocolSubscription {
            topics: who.topics.iter().map(|topic| (*topic).to_owned()).collect(),
            ..ConsumerProtocolSubscription::default()
        };
        let metadata = encode_versioned(&subscription, 1).expect("it fits");
        let protocol =
            |name: &&str| JoinGroupRequestProtocol { name: (*name).to_owned(), metadata: metadata.clone() };
        let call = JoinCall {
            token,
            request: JoinGroupRequest {
                group_id: GROUP.to_owned(),
                session_timeout_ms: SESSION.as_millis() as i32,
                rebalance_timeout_ms: REBALANCE.as_millis() as i32,
                member_id: who.member.clone(),
                group_instance_id: who.instance.clone(),
                protocol_type: "consumer".to_owned(),
                protocols: who.protocols.iter().map(protocol).collect(),
                ..JoinGroupRequest::default()
            },
            new_member_id: MemberId::from(format!("{prefix}{}", token.0)),
            client_id: "client".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            needs_member_id: who.version >= 4,
            can_skip_assignment: who.version >= 9,
        };
        self.shard.join(call, self.now);
        self.collect();
        token
    }

    /// The answer to a join, once.
    pub(super) fn joined(&mut self, token: Token) -> Option<JoinGroupResponse> {
        self.answers.remove(&token).map(|answer| match answer {
            Answer::Joined(response) => response,
            other => panic!("{other:?}"),
        })
    }

    /// The code of the answer to a join.
    pub(super) fn join_code(&mut self, token: Token) -> ErrorCode {
        self.joined(token).expect("it was answered").error_code.into()
    }

    /// Asks for an assignment; as the leader, gives each of these members its own name.
    pub(super) fn sync(&mut self, id: &str, generation: i32, assigned: &[&str]) -> Token {
        let token = self.token();
        let assign = |id: &&str| SyncGroupRequestAssignment {
            member_id: (*id).to_owned(),
            assignment: Bytes::copy_from_slice(id.as_bytes()),
        };
        let request = SyncGroupRequest {
            group_id: GROUP.to_owned(),
            generation_id: generation,
            member_id: id.to_owned(),
            assignments: assigned.iter().map(assign).collect(),
            ..SyncGroupRequest::default()
        };
        self.shard.sync(SyncCall { token, request }, self.now);
        self.collect();
        token
    }

    pub(super) fn synced(&mut self, token: Token) -> Option<SyncGroupResponse> {
        self.answers.remove(&token).map(|answer| match answer {
            Answer::Synced(response) => response,
            other => panic!("{other:?}"),
        })
    }

    pub(super) fn sync_code(&mut self, token: Token) -> ErrorCode {
        self.synced(token).expect("it was answered").error_code.into()
    }

    pub(super) fn heartbeat(&mut self, id: &str, instance: Option<&str>, generation: i32) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id: generation,
            member_id: id.to_owned(),
            group_instance_id: instance.map(str::to_owned),
        };
        let heard = self.shard.heartbeat(&request, self.now);
        self.collect();
        heard.err().unwrap_or(ErrorCode::NONE)
    }

    pub(super) fn leave(&mut self, members: &[(&str, Option<&str>)]) -> Vec<ErrorCode> {
        let identity = |(id, instance): &(&str, Option<&str>)| MemberIdentity {
            member_id: (*id).to_owned(),
            group_instance_id: instance.map(str::to_owned),
            ..MemberIdentity::default()
        };
        let members = members.iter().map(identity).collect();
        let request =
            LeaveGroupRequest { group_id: GROUP.to_owned(), members, ..LeaveGroupRequest::default() };
        let left = self.shard.leave(&request, self.now);
        self.collect();
        match left {
            Ok(left) => left.into_iter().map(|member| member.error_code.into()).collect(),
            Err(code) => vec![code],
        }
    }

    /// Commits an offset of partition `t-0`.
    pub(super) fn commit(&mut self, id: &str, generation: i32, offset: i64) -> Token {
        self.commit_to("t", id, generation, offset)
    }

    pub(super) fn commit_to(&mut self, topic: &str, id: &str, generation: i32, offset: i64) -> Token {
        let token = self.token();
        let request = OffsetCommitRequest {
            group_id: GROUP.to_owned(),
            generation_id_or_member_epoch: generation,
            member_id: id.to_owned(),
            ..OffsetCommitRequest::default()
        };
        let offset = OffsetToCommit {
            topic: topic.to_owned(),
            partition: 0,
            offset,
            leader_epoch: -1,
            metadata: "noted".to_owned(),
        };
        self.shard.commit((&request, self.connection), vec![offset], token, self.now);
        self.collect();
        token
    }

    /// What whoever waits for records was told.
    pub(super) fn written(&mut self, token: Token) -> Option<ErrorCode> {
        self.answers.remove(&token).map(|answer| match answer {
            Answer::Written(code) => code,
            other => panic!("{other:?}"),
        })
    }

    /// The committed offset of a topic's partition 0.
    pub(super) fn offset(&self, topic: &str) -> Option<i64> {
        self.shard.committed(GROUP, &topic.into(), 0).map(|committed| committed.offset)
    }

    /// The group's state, as Kafka names it.
    pub(super) fn state(&self) -> String {
        self.shard.describe(GROUP).map_or_else(|| "none".to_owned(), |group| group.group_state)
    }

    /// How many members the group has.
    pub(super) fn size(&self) -> usize {
        self.shard.describe(GROUP).map_or(0, |group| group.members.len())
    }

    /// The broker is gone; another one has read the log.
    pub(super) fn fail_over(&mut self) {
        self.under_way.clear();
        self.answers.clear();
        let mut loader = Loader::default();
        for record in &self.log {
            loader
                .add(&record.key, record.value.as_ref(), self.now.unix_ms)
                .expect("the record is as it was written");
        }
        let up_to = Offset(self.log.len() as i64);
        self.shard = loader.finish(self.settings.clone(), true, up_to, self.now);
        self.collect();
    }

    /// A stable group of so many members that joined one after the other. Gives their ids, the leader first, and the
    /// generation.
    pub(super) fn stable(&mut self, count: usize) -> (Vec<String>, i32) {
        let mut tokens = vec![self.join(&anybody())];
        let first = self.joined(tokens[0]).expect("nobody else is waited for");
        if count == 1 {
            let token = self.sync(&first.member_id, first.generation_id, &[&first.member_id]);
            assert_eq!(self.sync_code(token), ErrorCode::NONE);
            return (vec![first.member_id], first.generation_id);
        }
        tokens = (1..count).map(|_| self.join(&anybody())).collect();
        tokens.insert(0, self.join(&member(&first.member_id)));
        let joined: Vec<JoinGroupResponse> =
            tokens.into_iter().map(|token| self.joined(token).expect("all have joined")).collect();
        self.settle(joined)
    }

    /// Everybody asks for its assignment, the leader first.
    pub(super) fn settle(&mut self, mut joined: Vec<JoinGroupResponse>) -> (Vec<String>, i32) {
        joined.sort_by_key(|joined| joined.leader != joined.member_id);
        let generation = joined[0].generation_id;
        let ids: Vec<String> = joined.into_iter().map(|joined| joined.member_id).collect();
        let names: Vec<&str> = ids.iter().map(String::as_str).collect();
        for id in &ids {
            let token = self.sync(id, generation, &names);
            let synced = self.synced(token).expect("the leader has assigned");
            assert_eq!(synced.error_code, 0);
            assert_eq!(synced.assignment, id.as_bytes(), "each gets what is its own");
        }
        assert_eq!(self.state(), "Stable");
        (ids, generation)
    }
}
