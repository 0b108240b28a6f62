//! A reading client: follows every partition to its end at whoever leads it, or at a replica nearby, looks back now and then,
//! asks for offsets, seldom removes old records, and tells the oracle all it sees.
//!
//! ```text
//!   poll (one long poll at a time to each broker, a task of its own) ──► answers ──► taking.rs (what each means)
//!   between two answers: looking.rs (one other thing that readers do)
//! ```
//! Owns who is asked for which partition, and from where on.

mod looking;
mod taking;

use super::{
    Chance, Shared,
    directory::Directory,
    fetching::{self, Fetched, Limits},
    routes::BrokerNumber,
    session::{Session, Wanted},
    topics,
};
use crate::oracle::ClientEvent;
use sillon_broker::types::TopicPartition;
use sillon_client::{Connection, ConnectionError};
use sillon_protocol::messages::{FetchRequest, FetchResponse};
use sillon_runtime::{Monotonic, Runtime};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc;

/// How long a reader rests after something went wrong.
const PAUSE: Duration = Duration::from_millis(100);
/// The largest answer a reader takes, in bytes.
const LARGE_BYTES: i32 = 1 << 20;

/// Where a reader is in a partition.
#[derive(Clone, Copy, Debug)]
struct Position {
    offset: i64,
    /// The epoch of the last record before it; −1 where none was read.
    last_epoch: i32,
    /// The replica that the leader has sent this reader to.
    preferred: Option<BrokerNumber>,
}

/// A reader's dealings with one broker.
#[derive(Debug)]
struct Poll {
    session: Session,
    /// The version of its fetches, drawn anew with each connection.
    version: Option<i16>,
    /// What was asked for in the poll that is on its way, or in the last one.
    asked: BTreeMap<TopicPartition, Wanted>,
    is_under_way: bool,
    /// No poll before this.
    resting_until: Monotonic,
}

/// What came of a poll.
struct Polled {
    broker: BrokerNumber,
    version: i16,
    result: Result<FetchResponse, ConnectionError>,
}

struct Reader {
    client: u32,
    shared: Arc<Shared>,
    chance: Chance,
    directory: Directory,
    /// Where it stands, and where a replica in the same place may serve it; empty for none.
    rack: String,
    positions: BTreeMap<TopicPartition, Position>,
    polls: BTreeMap<BrokerNumber, Poll>,
    answers: mpsc::UnboundedSender<Polled>,
    /// Which partition is the first of the next request.
    turn: usize,
}

/// Reads until the run is over.
pub(super) async fn run(runtime: Runtime, client: u32, shared: Arc<Shared>, chance: Chance) {
    let mut directory = Directory::new(runtime.clone(), shared.clone(), format!("reader-{client}"));
    if !topics::create(&mut directory, &shared).await {
        return;
    }
    directory.refresh().await;
    let (answers, mut received) = mpsc::unbounded_channel();
    let rack = rack(&shared, client);
    let (positions, polls) = (BTreeMap::new(), BTreeMap::new());
    let mut reader = Reader { client, shared, chance, directory, rack, positions, polls, answers, turn: 0 };
    while !reader.shared.is_stopped() {
        let replaced = reader.directory.keep_fresh().await;
        reader.follow_partitions(&replaced);
        reader.poll_all().await;
        tokio::select! {
            biased;
            Some(polled) = received.recv() => {
                reader.on_polled(polled).await;
                reader.look_around().await;
            }
            () = runtime.sleep(PAUSE) => {}
        }
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// Every other reader stands in a rack.
fn rack(shared: &Shared, client: u32) -> String {
    let number = client.saturating_sub(shared.config.producers) as usize;
    let stands = shared.config.read_from_followers && !shared.racks.is_empty() && number.is_multiple_of(2);
    if stands { shared.racks[number / 2 % shared.racks.len()].clone() } else { String::new() }
}

impl Reader {
    fn tell(&self, event: ClientEvent) {
        (self.shared.events)(event);
    }

    fn now(&self) -> Monotonic {
        self.directory.runtime.now()
    }

    /// Every partition that there is has a position; those of topics that were replaced begin anew.
    fn follow_partitions(&mut self, replaced: &BTreeSet<String>) {
        self.positions.retain(|partition, _| !replaced.contains(&*partition.topic));
        if !replaced.is_empty() {
            // A broker that remembers a partition does so by its topic's id.
            self.polls.values_mut().for_each(|poll| poll.session.lost());
        }
        for partition in self.directory.partitions() {
            if self.positions.contains_key(&partition) {
                continue;
            }
            let position = Position { offset: 0, last_epoch: -1, preferred: None };
            self.positions.insert(partition.clone(), position);
            self.tell(ClientEvent::Following { reader: self.client, partition, from: 0 });
        }
    }

    /// Who is asked for a partition.
    fn server(&self, partition: &TopicPartition, position: &Position) -> Option<BrokerNumber> {
        let knows_id = self.directory.routes.ids().contains_key(&*partition.topic);
        if self.shared.comes_and_goes(&partition.topic) && !knows_id {
            return None;
        }
        let is_known = |broker: &BrokerNumber| self.directory.routes.address(*broker).is_some();
        position.preferred.filter(is_known).or_else(|| self.directory.routes.leader(partition))
    }

    /// Begins a poll at each broker that serves something and has none under way.
    async fn poll_all(&mut self) {
        let mut wanted: BTreeMap<BrokerNumber, Vec<(TopicPartition, Wanted)>> = BTreeMap::new();
        let mut has_all = true;
        for (partition, position) in &self.positions {
            let Some(broker) = self.server(partition, position) else {
                has_all = false;
                continue;
            };
            let mut wants = Wanted::from(position.offset, LARGE_BYTES);
            wants.leader_epoch = self.directory.routes.leader_epoch(partition);
            wants.last_epoch = position.last_epoch;
            wanted.entry(broker).or_default().push((partition.clone(), wants));
        }
        if !has_all {
            self.directory.doubt();
        }
        let now = self.now();
        for (broker, wanted) in wanted {
            let poll = self.polls.entry(broker).or_insert_with(|| Poll {
                session: Session::new(false),
                version: None,
                asked: BTreeMap::new(),
                is_under_way: false,
                resting_until: now,
            });
            if !poll.is_under_way && poll.resting_until <= now {
                self.poll(broker, wanted).await;
            }
        }
    }

    async fn poll(&mut self, broker: BrokerNumber, mut wanted: Vec<(TopicPartition, Wanted)>) {
        let Some(connection) = self.directory.polling_connection(broker).await else {
            return self.rest(broker);
        };
        let Some(version) = self.version(broker, &connection) else { return self.rest(broker) };
        let small = self.chance.draw("small fetch", 0, 9) == 0;
        let wait = Duration::from_nanos(self.shared.config.fetch_wait_ns);
        let limits =
            Limits { max_wait_ms: milliseconds(wait), max_bytes: if small { 100 } else { LARGE_BYTES } };
        // Each in turn is the first, so that small answers leave nobody out.
        self.turn += 1;
        let places = wanted.len();
        wanted.rotate_left(self.turn % places);
        wanted.sort_by(|(one, _), (other, _)| one.topic.cmp(&other.topic));
        let Some(poll) = self.polls.get_mut(&broker) else { return };
        let plan = poll.session.plan(&wanted);
        poll.asked = wanted.into_iter().collect();
        poll.is_under_way = true;
        let request = fetching::request(&plan, self.directory.routes.ids(), limits, &self.rack);
        let patience = self.shared.request_timeout() + wait;
        let begun = connection.begin(version, &request, patience).await;
        let answers = self.answers.clone();
        self.directory.runtime.spawn("poll", async move {
            let result = match begun {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            drop(connection);
            // Nobody listens any more when the run is over.
            let _ = answers.send(Polled { broker, version, result });
        });
    }

    /// The version of fetches on a connection.
    fn version(&mut self, broker: BrokerNumber, connection: &Connection) -> Option<i16> {
        let known = self.polls.get(&broker).and_then(|poll| poll.version);
        if known.is_some() {
            return known;
        }
        let common = connection.common_versions::<FetchRequest>().ok()?;
        let newest = *common.end();
        // Where leaders change, a reader has to notice that what it has read is not there any more.
        let follows_leaders = self.shared.brokers.len() > 1;
        let least = match follows_leaders {
            true => fetching::FIRST_VERSION_WITH_LAST_EPOCH,
            false => fetching::FIRST_VERSION_WITH_ZSTD,
        };
        let by_id_alone = self.shared.topics.iter().any(|plan| plan.comes_and_goes);
        let least = if by_id_alone { fetching::FIRST_VERSION_WITH_TOPIC_IDS } else { least };
        let low = (*common.start()).max(least).min(newest);
        let ids = self.directory.routes.ids();
        let knows_ids = self.shared.topics.iter().all(|plan| ids.contains_key(&plan.name));
        let high = match knows_ids || by_id_alone {
            true => newest,
            false => newest.min(fetching::FIRST_VERSION_WITH_TOPIC_IDS - 1),
        };
        let version = self.chance.draw("version", low as u64, high.max(low) as u64) as i16;
        let with_session =
            version >= fetching::FIRST_VERSION_WITH_SESSIONS && self.chance.draw("session", 0, 1) == 1;
        let poll = self.polls.get_mut(&broker)?;
        poll.session = Session::new(with_session);
        poll.version = Some(version);
        Some(version)
    }

    /// Nothing is asked of a broker for a while.
    fn rest(&mut self, broker: BrokerNumber) {
        let until = self.now() + PAUSE;
        if let Some(poll) = self.polls.get_mut(&broker) {
            poll.resting_until = until;
        }
    }

    /// The connection to a broker is given up, and with it what the broker remembers.
    fn lose(&mut self, broker: BrokerNumber) {
        self.directory.give_up(broker);
        if let Some(poll) = self.polls.get_mut(&broker) {
            poll.session.lost();
            poll.version = None;
        }
        for position in self.positions.values_mut().filter(|position| position.preferred == Some(broker)) {
            position.preferred = None;
        }
        self.rest(broker);
    }

    /// What a poll has brought.
    async fn on_polled(&mut self, polled: Polled) {
        let Polled { broker, version, result } = polled;
        let Some(poll) = self.polls.get_mut(&broker) else { return };
        poll.is_under_way = false;
        let response = match result {
            Ok(response) if response.error_code == 0 => response,
            Ok(_) => {
                // The broker has forgotten the session, or does not know an id.
                poll.session.lost();
                self.directory.doubt();
                return;
            }
            Err(_) => return self.lose(broker),
        };
        poll.session.answered(response.session_id);
        let asked = poll.asked.clone();
        let answers = fetching::read(version, response, self.directory.routes.ids());
        let mut is_well = true;
        for fetched in answers {
            // A session may have named what was not asked for this time.
            let Some(wanted) = asked.get(&fetched.partition).copied() else { continue };
            is_well &= self.take(broker, wanted, fetched).await;
        }
        if !is_well {
            self.rest(broker);
        }
    }
}
