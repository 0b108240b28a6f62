//! A member of a consumer group: a consumer of the product's own client library that processes what producers send, commits, and
//! now and then leaves, dies without a word, takes too long between two polls, or is away together with its whole group.
//! Owns when it does what; how a group works is the client's and the broker's.

use super::{Assignor, Chance, GroupsConfig, Shared, directory::Directory, topics, value};
use crate::{
    oracle::{
        ClientEvent,
        groups::events::{Delivery, GroupEvent},
    },
    world::now_ns,
};
use sillon_broker::types::TopicPartition;
use sillon_client::{
    admin::Address,
    cluster::NetworkConfig,
    consumer::{
        Consumer, ConsumerConfig, ConsumerRecord, OffsetReset, RebalanceListener, TopicPartition as Name,
        assignor::{
            Assignor as ClientAssignor, CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor,
            StickyAssignor,
        },
    },
};
use sillon_runtime::{BoxFuture, Monotonic, Runtime};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How long a poll waits for records.
const POLL: Duration = Duration::from_millis(200);
/// How often a member that is away looks whether the run wants it back.
const LOOK: Duration = Duration::from_millis(100);
/// How long it rests after an error.
const PAUSE: Duration = Duration::from_millis(100);
/// How long leaving may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// Which member this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The group's number.
    pub group: u32,
    /// The place in the group.
    pub slot: u32,
}

/// How a life of a member ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The run is over.
    Over,
    /// It leaves.
    Leave,
    /// It is gone without a word.
    Crash,
    /// Somebody else has its name, or it cannot go on.
    Fenced,
}

struct Member {
    client: u32,
    place: Place,
    group: String,
    shared: Arc<Shared>,
    chance: Chance,
    runtime: Runtime,
}

/// Lives, one life after the other, until the run is over.
pub(super) async fn run(runtime: Runtime, client: u32, place: Place, shared: Arc<Shared>, chance: Chance) {
    let mut directory = Directory::new(runtime.clone(), shared.clone(), format!("member-{client}"));
    if !topics::create(&mut directory, &shared).await {
        return;
    }
    drop(directory);
    let group = format!("group-{}", place.group);
    let mut member = Member { client, place, group, shared, chance, runtime };
    while !member.shared.is_stopped() {
        let end = member.live().await;
        if end == End::Over {
            return;
        }
        member.stay_away().await;
    }
}

impl Member {
    fn config(&self) -> &GroupsConfig {
        &self.shared.groups
    }

    fn tell(&self, event: GroupEvent) {
        (self.shared.events)(ClientEvent::Group(event));
    }

    fn instance(&self) -> Option<String> {
        self.config().static_members.then(|| format!("member-{}", self.place.slot))
    }

    fn consumer(&self) -> Consumer {
        let config = self.config();
        let ms = |ns: u64| ns / 1_000_000;
        let assignor: Arc<dyn ClientAssignor> = match config.assignor {
            Assignor::Range => Arc::new(RangeAssignor),
            Assignor::RoundRobin => Arc::new(RoundRobinAssignor),
            Assignor::Sticky => Arc::new(StickyAssignor),
            Assignor::CooperativeSticky => Arc::new(CooperativeStickyAssignor),
        };
        let network = NetworkConfig {
            bootstrap_servers: self
                .shared
                .brokers
                .iter()
                .map(|(host, port)| Address { host: host.clone(), port: *port })
                .collect(),
            client_id: format!("{}-{}", self.group, self.place.slot),
            request_timeout_ms: ms(self.shared.config.request_timeout_ns),
            socket_connection_setup_timeout_ms: ms(self.shared.config.request_timeout_ns),
            metadata_max_age_ms: 30_000,
            ..NetworkConfig::default()
        };
        let consumer = ConsumerConfig {
            group_instance_id: self.instance(),
            enable_auto_commit: false,
            auto_offset_reset: OffsetReset::Earliest,
            max_poll_interval_ms: ms(config.max_poll_interval_ns),
            session_timeout_ms: ms(config.session_timeout_ns),
            heartbeat_interval_ms: ms(config.heartbeat_interval_ns),
            partition_assignment_strategy: vec![assignor],
            default_api_timeout_ms: 2 * ms(self.shared.config.request_timeout_ns),
            allow_auto_create_topics: false,
            ..ConsumerConfig::in_group(network, &self.group)
        };
        Consumer::new(&self.runtime, consumer).expect("the scenario was checked")
    }

    /// From joining to the end.
    async fn live(&mut self) -> End {
        let mut consumer = self.consumer();
        let (group, client) = (self.group.clone(), self.client);
        let known = Known::default();
        consumer.set_rebalance_listener(Listener {
            group: group.clone(),
            shared: self.shared.clone(),
            delivery: self.config().delivery,
            known: known.clone(),
        });
        let names: Vec<&str> = self.shared.lasting_topics().collect();
        consumer.subscribe(names).expect("it has a group");
        self.tell(GroupEvent::Started { group: group.clone(), member: client, instance: self.instance() });
        let end = self.work(&mut consumer, &known).await;
        if end == End::Over {
            self.tell(GroupEvent::Closing { group: group.clone() });
        }
        match end {
            End::Over | End::Leave => {
                // Where the coordinator does not hear of it, the session ends by itself.
                let _ = consumer.close(GOODBYE).await;
            }
            End::Crash | End::Fenced => drop(consumer),
        }
        self.tell(GroupEvent::Ended { group, member: client });
        end
    }

    async fn work(&mut self, consumer: &mut Consumer, known: &Known) -> End {
        let config = self.config().clone();
        // Each of a group's members does its share.
        let share = f64::from(config.members);
        let mut leave = self.plan(config.leaves_per_minute / share);
        let mut crash = self.plan(config.crashes_per_minute / share);
        let mut slow = self.plan(config.slow_polls_per_minute / share);
        let leads_breaks = self.place.slot == 0;
        let mut rest = self.plan(if leads_breaks { config.breaks_per_minute } else { 0.0 });
        loop {
            if self.shared.is_stopped() {
                return End::Over;
            }
            let polled = consumer.poll(POLL).await;
            known.set(consumer.group_membership(), false);
            match polled {
                Ok(records) => self.take(consumer, records).await,
                Err(error) if error.is_fatal() => return End::Fenced,
                Err(_) => self.runtime.sleep(PAUSE).await,
            }
            if self.shared.is_administering_over() {
                continue;
            }
            if self.shared.is_group_resting(self.place.group) {
                return End::Leave;
            }
            if is_due(&mut rest, self.runtime.now()) {
                self.shared.rest_group(self.place.group, true);
                return End::Leave;
            }
            if is_due(&mut crash, self.runtime.now()) {
                return End::Crash;
            }
            if is_due(&mut leave, self.runtime.now()) {
                return End::Leave;
            }
            if is_due(&mut slow, self.runtime.now()) {
                let interval_ns = config.max_poll_interval_ns;
                let length_ns = self.chance.draw("slow poll", interval_ns, interval_ns * 2);
                self.stand_still(Duration::from_nanos(length_ns)).await;
                known.set(consumer.group_membership(), true);
                slow = self.plan(config.slow_polls_per_minute / share);
            }
        }
    }

    /// Does not poll for so long, but no longer than until nothing is broken any more: the group is to come to rest then.
    async fn stand_still(&self, length: Duration) {
        let until = self.runtime.now() + length;
        while self.runtime.now() < until && !self.shared.is_administering_over() {
            self.runtime.sleep(LOOK.min(until.saturating_since(self.runtime.now()))).await;
        }
    }

    /// When something is due that happens so often; never where it does not.
    fn plan(&self, per_minute: f64) -> Option<Monotonic> {
        (per_minute > 0.0).then(|| {
            let share = self.chance.draw("until then", 50, 1_950);
            self.runtime.now() + Duration::from_nanos((60e9 / per_minute * share as f64 / 1e3) as u64)
        })
    }

    /// What a poll gave.
    async fn take(&mut self, consumer: &mut Consumer, records: Vec<ConsumerRecord>) {
        if records.is_empty() {
            return;
        }
        let (least_ns, most_ns) = self.config().processing_ns;
        match self.config().delivery {
            Delivery::AtLeastOnce => {
                let takes_ns = self.chance.draw("processing", least_ns, most_ns);
                self.runtime.sleep(Duration::from_nanos(takes_ns)).await;
                self.process(&records);
                // What is not committed is processed again.
                commit(consumer, &self.shared, &self.group).await;
            }
            Delivery::AtMostOnce => {
                if commit(consumer, &self.shared, &self.group).await {
                    self.process(&records);
                }
            }
        }
    }

    fn process(&self, records: &[ConsumerRecord]) {
        for record in records {
            let Some(id) = record.value.as_deref().and_then(value::decode) else { continue };
            self.tell(GroupEvent::Processed {
                group: self.group.clone(),
                member: self.client,
                partition: TopicPartition::new(&record.topic, record.partition),
                offset: record.offset,
                record: id,
            });
        }
    }

    /// Does nothing for a while, or until the run wants it back.
    async fn stay_away(&mut self) {
        let (least_ns, most_ns) = self.config().away_ns;
        let until = self.runtime.now() + Duration::from_nanos(self.chance.draw("away", least_ns, most_ns));
        let group = self.place.group;
        let wanted = |shared: &Shared| shared.is_administering_over() || shared.is_stopped();
        while self.runtime.now() < until && !wanted(&self.shared) {
            self.runtime.sleep(LOOK).await;
        }
        if self.place.slot == 0 {
            self.shared.rest_group(group, false);
        }
        while self.shared.is_group_resting(group) && !wanted(&self.shared) {
            self.runtime.sleep(LOOK).await;
        }
    }
}

fn is_due(due: &mut Option<Monotonic>, now: Monotonic) -> bool {
    due.is_some_and(|at| at <= now)
}

fn name(partition: &Name) -> TopicPartition {
    TopicPartition::new(&partition.topic, partition.partition)
}

/// Commits what polls have given. Whether it is known to be committed.
async fn commit(consumer: &mut Consumer, shared: &Shared, group: &str) -> bool {
    let consumed = consumer.consumed();
    let offsets: Vec<(TopicPartition, i64)> =
        consumed.iter().map(|(partition, position)| (name(partition), position.offset)).collect();
    let tell = |event| (shared.events)(ClientEvent::Group(event));
    tell(GroupEvent::Committing { group: group.to_owned(), offsets: offsets.clone() });
    let is_committed = consumer.commit_offsets_sync(&consumed).await.is_ok();
    if is_committed {
        tell(GroupEvent::Confirmed { group: group.to_owned(), offsets });
    }
    is_committed
}

/// A member id, and the generation.
type Identity = (String, i32);

/// What a member last knew of itself, and whether it was slow since.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<(Option<Identity>, bool)>>);

impl Known {
    fn set(&self, identity: Option<Identity>, was_slow: bool) {
        // A run has one thread; a panic elsewhere in it leaves nothing half-made here.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 = identity.or(known.0.take());
        known.1 = was_slow;
    }

    fn get(&self) -> (Option<Identity>, bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Commits before partitions go, and looks at what is committed when they come.
struct Listener {
    group: String,
    shared: Arc<Shared>,
    delivery: Delivery,
    known: Known,
}

impl RebalanceListener for Listener {
    fn revoked<'a>(&'a mut self, consumer: &'a mut Consumer, _: &'a [Name]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if self.delivery == Delivery::AtLeastOnce {
                commit(consumer, &self.shared, &self.group).await;
            }
        })
    }

    fn assigned<'a>(&'a mut self, consumer: &'a mut Consumer, partitions: &'a [Name]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let asked_ns = now_ns();
            let wanted = partitions.iter().cloned().collect();
            let Ok(committed) = consumer.committed_offsets(&wanted).await else { return };
            for partition in partitions {
                (self.shared.events)(ClientEvent::Group(GroupEvent::Fetched {
                    group: self.group.clone(),
                    partition: name(partition),
                    offset: committed.get(partition).map(|committed| committed.offset),
                    asked_ns,
                }));
            }
        })
    }

    fn lost<'a>(&'a mut self, _: &'a mut Consumer, _: &'a [Name]) -> BoxFuture<'a, ()> {
        Box::pin(async {
            if let (Some(identity), was_slow) = self.known.get() {
                let group = self.group.clone();
                let event = GroupEvent::Lost { group, identity, was_slow };
                (self.shared.events)(ClientEvent::Group(event));
            }
        })
    }
}
