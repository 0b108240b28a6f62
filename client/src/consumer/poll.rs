//! What a poll does: callbacks, automatic commits, questions about positions, fetches, and records out of what has come.
//! All requests are under way inside the consumer and end with it.

use super::{
    Consumer, ConsumerRecord, IsolationLevel,
    fetched::Fetched,
    membership::{Callback, MemberIdentity},
    offsets::Offsets,
    positions::{FetchFrom, Question, Questions, SeekTarget},
    requests::{self, Answers},
};
use crate::{
    ClientError,
    cluster::{Channel, Cluster},
};
use sillon_protocol::{
    ErrorCode,
    messages::{FetchRequest, FetchResponse, ListOffsetsResponse, OffsetForLeaderEpochResponse},
};
use sillon_runtime::Monotonic;
use std::time::Duration;

/// The first version of Fetch that names topics by id.
const TOPIC_IDS: i16 = 13;
/// How long a poll sleeps at most before it looks at everything again.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

type CommitCallback = Box<dyn FnOnce(Result<(), ClientError>) + Send>;

/// What was under way.
pub(super) enum Done {
    Fetched {
        broker: i32,
        asked: Vec<Question<FetchFrom>>,
        result: Result<FetchResponse, ClientError>,
    },
    Offsets {
        asked: Vec<Question<SeekTarget>>,
        result: Result<ListOffsetsResponse, ClientError>,
    },
    Epochs {
        asked: Vec<Question<i32>>,
        result: Result<OffsetForLeaderEpochResponse, ClientError>,
    },
    Committed {
        asked: Vec<Question<()>>,
        result: Result<Offsets, ClientError>,
    },
    Commit {
        identity: Option<MemberIdentity>,
        result: Result<(), (ErrorCode, ClientError)>,
        automatic: bool,
        callback: Option<CommitCallback>,
    },
}

impl Consumer {
    /// Waits at most `timeout` for records and gives what there is, at most `max_poll_records`; nothing, where nothing came.
    /// Callbacks of the rebalance listener run in here, and automatic commits of what earlier polls gave.
    ///
    /// # Errors
    /// What the user has to know or to do something about: see [`ClientError::remedy`]. Everything that passes by itself is
    /// tried again in the background. After an error polling may go on.
    pub async fn poll(&mut self, timeout: Duration) -> Result<Vec<ConsumerRecord>, ClientError> {
        if self.listener.as_ref().is_some_and(|listener| listener.try_lock().is_err()) {
            return Err(ClientError::Misuse { problem: "a rebalance listener does not poll".to_owned() });
        }
        if self.positions.assigned().is_empty() && self.subscription.is_none() && !self.manual {
            let problem = "nothing to poll: subscribe to topics or assign partitions first".to_owned();
            return Err(ClientError::Misuse { problem });
        }
        let deadline = self.runtime.now() + timeout;
        loop {
            let (version, due) = self.look_after_everything().await?;
            let news = self.collect().await;
            let before = self.buffered.len();
            let records = self.take()?;
            if !records.is_empty() {
                // The next are on their way while these are processed.
                self.send_fetches();
                self.collect().await;
                return Ok(records);
            }
            let now = self.runtime.now();
            if now >= deadline {
                return Ok(records);
            }
            if news || self.buffered.len() < before {
                // What came may have answered a question, or made room for more.
                continue;
            }
            let until = due.unwrap_or(deadline).min(deadline).min(now + LONGEST_SLEEP).max(now);
            self.wait(version, until).await;
        }
    }

    /// Takes in all that is done, and lets the rest set out. True where something was.
    async fn collect(&mut self) -> bool {
        let mut news = false;
        while let Some(done) = self.flights.next_now().await {
            self.on(done);
            news = true;
        }
        news
    }

    /// One round without taking records, for whoever waits for something else.
    pub(super) async fn step(&mut self, deadline: Monotonic) -> Result<(), ClientError> {
        self.ask_and_fetch()?;
        let version = self.cluster.metadata().version;
        let until =
            deadline.min(self.runtime.now() + Duration::from_millis(self.config.network.retry_backoff_ms));
        self.wait(version, until).await;
        Ok(())
    }

    /// Whatever can be done without waiting for records. Gives the metadata it was done by, and when there is more.
    async fn look_after_everything(&mut self) -> Result<(u64, Option<Monotonic>), ClientError> {
        self.match_topics();
        if let Some(group) = &self.group {
            group.polled();
        }
        self.run_callbacks().await;
        if let Some(error) = self.group.as_ref().and_then(|group| group.membership().take_error()) {
            return Err(error);
        }
        self.commit_automatically();
        self.ask_and_fetch()
    }

    fn ask_and_fetch(&mut self) -> Result<(u64, Option<Monotonic>), ClientError> {
        let now = self.runtime.now();
        let metadata = self.cluster.metadata();
        let questions = self.positions.questions(now, &metadata);
        let due = [questions.due, self.positions.next_retry(now)].into_iter().flatten().min();
        if questions.leaderless {
            self.cluster.request_update();
        }
        self.ask(questions);
        if let Some(error) = self.positions.take_error() {
            return Err(error);
        }
        self.send_fetches();
        Ok((metadata.version, due))
    }

    async fn wait(&mut self, version: u64, until: Monotonic) {
        let (group, cluster) = (self.group.clone(), self.cluster.clone());
        let changed = async {
            match &group {
                Some(group) => group.changed.notified().await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            biased;
            done = self.flights.next() => Some(done),
            () = changed => None,
            () = cluster.changed_since(version) => None,
            () = self.runtime.sleep_until(until) => None,
        };
        if let Some(done) = done {
            self.on(done);
        }
    }

    /// Tells the user of partitions that come and go. Where the user drops the poll meanwhile, the next begins with it again.
    pub(super) async fn run_callbacks(&mut self) {
        let Some(group) = self.group.clone() else { return };
        loop {
            let callback = group.membership().callback();
            let Some(callback) = callback else { return };
            let listener = self.listener.clone();
            match &callback {
                Callback::Revoked(parts) => {
                    self.commit_before_revocation().await;
                    let parts: Vec<_> = parts.iter().cloned().collect();
                    if let Some(listener) = listener {
                        listener.lock().await.revoked(self, &parts).await;
                    }
                }
                Callback::Lost(parts) => {
                    let parts: Vec<_> = parts.iter().cloned().collect();
                    if let Some(listener) = listener {
                        listener.lock().await.lost(self, &parts).await;
                    }
                }
                Callback::Assigned(parts) => {
                    let all = group.membership().owned().union(parts).cloned().collect();
                    self.positions.assign(&all);
                    let parts: Vec<_> = parts.iter().cloned().collect();
                    if let Some(listener) = listener {
                        listener.lock().await.assigned(self, &parts).await;
                    }
                }
            }
            let owned = group.change(|membership| {
                membership.called(&callback);
                membership.owned().clone()
            });
            self.positions.assign(&owned);
        }
    }

    async fn commit_before_revocation(&mut self) {
        if !self.config.enable_auto_commit {
            return;
        }
        let limit = Duration::from_millis(
            self.config.default_api_timeout_ms.min(self.config.max_poll_interval_ms / 4),
        );
        let offsets = self.consumed();
        // What cannot be committed is read again by whoever gets the partition: at least once.
        let _ = self.commit_within(&offsets, limit).await;
    }

    fn commit_automatically(&mut self) {
        let now = self.runtime.now();
        if !self.config.enable_auto_commit || self.coordinator.is_none() || now < self.next_auto_commit {
            return;
        }
        self.next_auto_commit = now + Duration::from_millis(self.config.auto_commit_interval_ms);
        let offsets = self.consumed();
        if !offsets.is_empty() {
            self.begin_commit(offsets, true, None);
        }
    }

    /// Puts a commit on its way.
    pub(super) fn begin_commit(
        &mut self,
        offsets: Offsets,
        automatic: bool,
        callback: Option<CommitCallback>,
    ) {
        let Some(coordinator) = self.coordinator.clone() else { return };
        let identity = self.group.as_ref().and_then(|group| group.membership().identity());
        self.commits += 1;
        self.flights.push(async move {
            let result = coordinator.commit(identity.as_ref(), &offsets).await;
            Done::Commit { identity, result, automatic, callback }
        });
    }

    fn ask(&mut self, questions: Questions) {
        let Questions { committed, offsets, epochs, .. } = questions;
        if let (false, Some(coordinator)) = (committed.is_empty(), self.coordinator.clone()) {
            let stable = self.config.isolation_level == IsolationLevel::ReadCommitted;
            self.flights.push(async move {
                let partitions = committed.iter().map(|question| question.partition.clone()).collect();
                let result = coordinator.committed(Some(&partitions), stable).await;
                Done::Committed { asked: committed, result }
            });
        }
        for (broker, asked) in offsets {
            let (cluster, isolation) = (self.cluster.clone(), self.config.isolation_level);
            self.flights.push(async move {
                let result = cluster.send(broker, &requests::list_offsets(isolation, &asked)).await;
                Done::Offsets { asked, result }
            });
        }
        for (broker, asked) in epochs {
            let cluster = self.cluster.clone();
            self.flights.push(async move {
                let result = cluster.send(broker, &requests::epoch_ends(&asked)).await;
                Done::Epochs { asked, result }
            });
        }
    }

    /// One fetch to each broker that has something to give, is not asked already, and of which all is taken that came.
    pub(super) fn send_fetches(&mut self) {
        let now = self.runtime.now();
        let metadata = self.cluster.metadata();
        let (fetches, leaderless) = self.positions.fetches(now, &metadata);
        if leaderless {
            self.cluster.request_update();
        }
        for (broker, asked) in fetches {
            // A request for the others alone would wait for them at the broker, and whoever is drained meanwhile with it.
            let buffered = asked.iter().any(|question| {
                let current = |fetched: &Fetched| {
                    fetched.partition == question.partition && fetched.token == question.token
                };
                self.buffered.iter().any(current)
            });
            if buffered || !self.fetching.insert(broker) {
                continue;
            }
            let (request, by_id) = requests::fetch(&self.config, &metadata, &asked);
            let cluster = self.cluster.clone();
            self.flights.push(async move {
                let result = send_fetch(&cluster, broker, &request, by_id).await;
                Done::Fetched { broker, asked, result }
            });
        }
    }

    /// Takes in what was under way.
    pub(super) fn on(&mut self, done: Done) {
        let mut answers = Answers {
            config: &self.config,
            cluster: &self.cluster,
            positions: &mut self.positions,
            now: self.runtime.now(),
            random: self.runtime.random_u64(),
        };
        match done {
            Done::Fetched { broker, asked, result } => {
                self.fetching.remove(&broker);
                match result {
                    Ok(response) => self.buffered.extend(answers.fetched(&asked, response)),
                    Err(_) => asked.iter().for_each(|question| answers.failed(question)),
                }
            }
            Done::Offsets { asked, result } => match result {
                Ok(response) => answers.offsets(&asked, &response),
                Err(_) => asked.iter().for_each(|question| answers.failed(question)),
            },
            Done::Epochs { asked, result } => match result {
                Ok(response) => answers.epochs(&asked, &response),
                Err(_) => asked.iter().for_each(|question| answers.failed(question)),
            },
            Done::Committed { asked, result } => match result {
                Ok(offsets) => {
                    for question in &asked {
                        let found = offsets.get(&question.partition);
                        let found = found.map(|found| (found.offset, found.leader_epoch));
                        answers.positions.committed(&question.partition, question.token, found);
                    }
                }
                Err(error) => {
                    for question in &asked {
                        answers.unanswered(question, &error);
                    }
                }
            },
            Done::Commit { identity, result, automatic, callback } => {
                self.commits -= 1;
                self.committed(identity.as_ref(), &result, automatic);
                if let Some(callback) = callback {
                    callback(result.map_err(|(_, error)| error));
                }
            }
        }
    }

    /// A commit ended.
    pub(super) fn committed(
        &mut self,
        identity: Option<&MemberIdentity>,
        result: &Result<(), (ErrorCode, ClientError)>,
        automatic: bool,
    ) {
        let Err((code, error)) = result else { return };
        if let (Some(group), Some(identity)) = (&self.group, identity) {
            group.change(|membership| membership.heard(identity, *code));
        }
        if automatic && error.is_retriable() {
            let soon = self.runtime.now() + Duration::from_millis(self.config.network.retry_backoff_ms);
            self.next_auto_commit = self.next_auto_commit.min(soon);
        }
    }

    /// Records out of what has come, in the order in which it came.
    fn take(&mut self) -> Result<Vec<ConsumerRecord>, ClientError> {
        let mut records = Vec::new();
        let paused = self.positions.paused();
        let mut index = 0;
        while index < self.buffered.len() && records.len() < self.config.max_poll_records {
            let fetched = &mut self.buffered[index];
            if paused.contains(&fetched.partition) {
                index += 1;
                continue;
            }
            let result = take_from(&mut self.positions, fetched, self.config.max_poll_records, &mut records);
            match result {
                Ok(true) => {
                    self.buffered.remove(index);
                }
                Ok(false) => index += 1,
                Err(error) => {
                    self.buffered.remove(index);
                    if records.is_empty() {
                        return Err(error);
                    }
                }
            }
        }
        Ok(records)
    }
}

/// Takes records of one partition; true where nothing is left of them.
fn take_from(
    positions: &mut super::positions::Positions,
    fetched: &mut Fetched,
    max: usize,
    records: &mut Vec<ConsumerRecord>,
) -> Result<bool, ClientError> {
    let (partition, token) = (&fetched.partition, fetched.token);
    let fits = positions.is_current(partition, token)
        && positions.position(partition).is_some_and(|position| position.offset == fetched.next_offset);
    if !fits {
        return Ok(true);
    }
    let wanted = max - records.len();
    let before = records.len();
    fetched.take(wanted, records)?;
    let (partition, offset, epoch) = (fetched.partition.clone(), fetched.next_offset, fetched.last_epoch);
    positions.advance(&partition, token, offset, epoch);
    Ok(records.len() - before < wanted)
}

async fn send_fetch(
    cluster: &Cluster,
    broker: i32,
    request: &FetchRequest,
    by_id: bool,
) -> Result<FetchResponse, ClientError> {
    let connection = cluster.connection(broker, Channel::Data).await?;
    let wrong = |source| ClientError::Connection { broker, source };
    let newest = *connection.common_versions::<FetchRequest>().map_err(wrong)?.end();
    let version = if by_id { newest } else { newest.min(TOPIC_IDS - 1) };
    let timeout = Duration::from_millis(cluster.config().request_timeout_ms);
    let sent = connection.send_version(version, request, timeout).await;
    sent.map_err(|source| crate::cluster::failed(broker, &connection, source))
}
