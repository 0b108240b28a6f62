//! Consumers of the client library that share the partitions of a real broker's topics.

mod support;

use sillon_broker::Running;
use sillon_client::{
    ClientError,
    admin::{Address, Admin, AdminOptions},
    cluster::NetworkConfig,
    consumer::{
        Consumer, ConsumerConfig, ConsumerRecord, OffsetAndMetadata, OffsetReset, RebalanceListener,
        TopicPartition,
        assignor::{CooperativeStickyAssignor, StickyAssignor},
    },
    producer::{Producer, ProducerConfig, ProducerRecord},
};
use sillon_runtime::{BoxFuture, Runtime};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{connect, create_topic, scenario, start};

const LIMIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(50);
const QUICK: &str =
    "group.initial.rebalance.delay.ms=0\ngroup.min.session.timeout.ms=500\noffsets.topic.num.partitions=2";

fn bootstrap(broker: &Running) -> Vec<Address> {
    vec![Address { host: "127.0.0.1".into(), port: broker.addresses()[0].port() }]
}

fn config(broker: &Running) -> ConsumerConfig {
    ConsumerConfig {
        auto_offset_reset: OffsetReset::Earliest,
        heartbeat_interval_ms: 100,
        fetch_max_wait_ms: 100,
        ..ConsumerConfig::in_group(NetworkConfig::new(bootstrap(broker)), "readers")
    }
}

fn cooperative(broker: &Running) -> ConsumerConfig {
    ConsumerConfig {
        partition_assignment_strategy: vec![Arc::new(CooperativeStickyAssignor)],
        ..config(broker)
    }
}

fn consumer(runtime: &Runtime, config: ConsumerConfig) -> Consumer {
    let mut consumer = Consumer::new(runtime, config).expect("legal");
    consumer.subscribe(["orders"]).expect("it has a group");
    consumer
}

async fn produce(runtime: &Runtime, broker: &Running, values: std::ops::Range<i32>) {
    let producer =
        Producer::new(runtime, ProducerConfig::new(NetworkConfig::new(bootstrap(broker)))).expect("legal");
    for value in values {
        let text = value.to_string();
        let record = ProducerRecord::new("orders", &text).partition(value % 4);
        producer.send(&record).await.expect("there is room").forget();
    }
    producer.close(LIMIT).await.expect("all is written");
}

fn number(record: &ConsumerRecord) -> i32 {
    std::str::from_utf8(record.value.as_ref().expect("one")).expect("text").parse().expect("a number")
}

/// Polls all of them in turn until `done` says so.
async fn poll_until(
    consumers: &mut [&mut Consumer],
    mut done: impl FnMut(&[&mut Consumer], &[ConsumerRecord]) -> bool,
) {
    let mut records = Vec::new();
    for _ in 0..400 {
        for consumer in consumers.iter_mut() {
            records.extend(consumer.poll(STEP).await.expect("nothing goes wrong"));
        }
        if done(consumers, &records) {
            return;
        }
    }
    panic!(
        "it takes too long: {:?}",
        consumers.iter().map(|consumer| consumer.assignment()).collect::<Vec<_>>()
    );
}

/// Whether they have all four partitions among them, each so many.
fn shared(consumers: &[&mut Consumer], sizes: &[usize]) -> bool {
    let parts: Vec<BTreeSet<TopicPartition>> =
        consumers.iter().map(|consumer| consumer.assignment()).collect();
    let mut found: Vec<usize> = parts.iter().map(BTreeSet::len).collect();
    found.sort_unstable();
    let all: BTreeSet<&TopicPartition> = parts.iter().flatten().collect();
    found == sizes && all.len() == 4
}

/// Runs a scenario against a broker with a topic of four partitions.
fn with_topic<F: Future<Output = ()>>(run: impl FnOnce(Runtime, Running) -> F) {
    let directory = tempfile::tempdir().expect("a directory");
    scenario(async |runtime| {
        let broker = start(&runtime, directory.path(), QUICK).await;
        let connection = connect(&runtime, &broker).await;
        assert_eq!(create_topic(&connection, "orders", 4, &[]).await, 0);
        run(runtime.clone(), broker).await;
    });
}

#[test]
fn the_next_consumer_goes_on_where_the_last_one_stopped() {
    with_topic(async |runtime, broker| {
        produce(&runtime, &broker, 0..100).await;
        let mut first = consumer(&runtime, config(&broker));
        poll_until(&mut [&mut first], |_, records| records.len() == 100).await;
        first.close(LIMIT).await.expect("committed and left");
        produce(&runtime, &broker, 100..120).await;
        let mut second = consumer(&runtime, config(&broker));
        let mut seen = Vec::new();
        poll_until(&mut [&mut second], |_, records| {
            seen = records.iter().map(number).collect();
            records.len() >= 20
        })
        .await;
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(100..120), "{seen:?}");
    });
}

#[test]
fn members_share_the_partitions_and_take_over_from_one_another() {
    with_topic(async |runtime, broker| {
        for strategy in ["range", "sticky", "cooperative-sticky"] {
            let mut config = ConsumerConfig { group_id: Some(strategy.to_owned()), ..config(&broker) };
            match strategy {
                "sticky" => config.partition_assignment_strategy = vec![Arc::new(StickyAssignor)],
                "cooperative-sticky" => {
                    config.partition_assignment_strategy = vec![Arc::new(CooperativeStickyAssignor)];
                }
                _ => {}
            }
            let mut one = consumer(&runtime, config.clone());
            poll_until(&mut [&mut one], |consumers, _| shared(consumers, &[4])).await;
            let mut two = consumer(&runtime, config.clone());
            poll_until(&mut [&mut one, &mut two], |consumers, _| shared(consumers, &[2, 2])).await;
            let mut three = consumer(&runtime, config.clone());
            poll_until(&mut [&mut one, &mut two, &mut three], |consumers, _| shared(consumers, &[1, 1, 2]))
                .await;
            two.close(LIMIT).await.expect("left");
            poll_until(&mut [&mut one, &mut three], |consumers, _| shared(consumers, &[2, 2])).await;
        }
    });
}

/// Writes down what comes and goes.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: &str, parts: &[TopicPartition]) {
        self.0.lock().expect("not poisoned").push(format!("{what} {}", parts.len()));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("not poisoned"))
    }
}

impl RebalanceListener for Diary {
    fn revoked<'a>(
        &'a mut self,
        consumer: &'a mut Consumer,
        parts: &'a [TopicPartition],
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            consumer.commit_sync().await.expect("it is still a member");
            assert!(parts.iter().all(|part| consumer.assignment().contains(part)));
            let polled = consumer.poll(STEP).await;
            assert!(matches!(polled, Err(ClientError::Misuse { .. })), "not in here");
            self.note("revoked", parts);
        })
    }

    fn assigned<'a>(
        &'a mut self,
        consumer: &'a mut Consumer,
        parts: &'a [TopicPartition],
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            assert!(parts.iter().all(|part| consumer.assignment().contains(part)));
            self.note("assigned", parts);
        })
    }

    fn lost<'a>(&'a mut self, _: &'a mut Consumer, parts: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async move { self.note("lost", parts) })
    }
}

#[test]
fn a_cooperative_member_gives_up_only_what_moves() {
    with_topic(async |runtime, broker| {
        let diary = Diary::default();
        let mut one = consumer(&runtime, cooperative(&broker));
        one.set_rebalance_listener(diary.clone());
        poll_until(&mut [&mut one], |consumers, _| shared(consumers, &[4])).await;
        assert_eq!(diary.take(), ["assigned 4"]);
        let mut two = consumer(&runtime, cooperative(&broker));
        poll_until(&mut [&mut one, &mut two], |consumers, _| shared(consumers, &[2, 2])).await;
        assert_eq!(diary.take(), ["revoked 2"]);
        two.close(LIMIT).await.expect("left");
        poll_until(&mut [&mut one], |consumers, _| shared(consumers, &[4])).await;
        assert_eq!(diary.take(), ["assigned 2"]);
        one.close(LIMIT).await.expect("left");
        assert_eq!(diary.take(), ["revoked 4"]);
    });
}

#[test]
fn every_record_is_seen_while_members_come_and_go() {
    with_topic(async |runtime, broker| {
        let mut seen: BTreeSet<i32> = BTreeSet::new();
        let mut one = consumer(&runtime, cooperative(&broker));
        let mut two = consumer(&runtime, cooperative(&broker));
        for round in 0..6 {
            produce(&runtime, &broker, round * 100..round * 100 + 100).await;
            for _ in 0..6 {
                for member in [&mut one, &mut two] {
                    seen.extend(member.poll(STEP).await.expect("nothing goes wrong").iter().map(number));
                }
            }
            let next = consumer(&runtime, cooperative(&broker));
            std::mem::replace(&mut two, next).close(LIMIT).await.expect("left");
        }
        poll_until(&mut [&mut one, &mut two], |_, records| {
            seen.extend(records.iter().map(number));
            seen.len() == 600
        })
        .await;
    });
}

#[test]
fn a_static_member_keeps_its_partitions_over_a_restart() {
    with_topic(async |runtime, broker| {
        let fixed =
            |name: &str| ConsumerConfig { group_instance_id: Some(name.to_owned()), ..config(&broker) };
        let mut one = consumer(&runtime, fixed("a"));
        let mut two = consumer(&runtime, fixed("b"));
        poll_until(&mut [&mut one, &mut two], |consumers, _| shared(consumers, &[2, 2])).await;
        let (before, (_, generation)) = (two.assignment(), one.group_membership().expect("a member"));
        two.close(LIMIT).await.expect("gone without a word");
        let mut again = consumer(&runtime, fixed("b"));
        poll_until(&mut [&mut one, &mut again], |consumers, _| shared(consumers, &[2, 2])).await;
        assert_eq!(again.assignment(), before);
        assert_eq!(one.group_membership().expect("a member").1, generation, "nobody else noticed");
        let mut usurper = consumer(&runtime, fixed("b"));
        poll_until(&mut [&mut one, &mut usurper], |consumers, _| shared(consumers, &[2, 2])).await;
        let mut error = None;
        for _ in 0..100 {
            if let Err(fenced) = again.poll(STEP).await {
                error = Some(fenced);
                break;
            }
        }
        assert!(error.expect("its place is taken").is_fatal());
    });
}

/// The last of so many static members is to give something up to one more, dies before it does, and comes back.
fn dies_with_what_it_was_to_give_up(before: usize) {
    with_topic(async |runtime, broker| {
        let member = |place: usize| {
            let name = Some(format!("member-{place}"));
            let config =
                ConsumerConfig { group_instance_id: name, session_timeout_ms: 2000, ..cooperative(&broker) };
            consumer(&runtime, config)
        };
        let mut members: Vec<Consumer> = Vec::new();
        for place in 0..before {
            members.push(member(place));
            let mut all: Vec<&mut Consumer> = members.iter_mut().collect();
            poll_until(&mut all, |consumers, _| shared(consumers, &vec![4 / (place + 1); place + 1])).await;
        }
        let dying = members.pop().expect("one at least");
        let generation = |consumer: &Consumer| consumer.group_membership().map(|(_, generation)| generation);
        let last = generation(&dying);
        members.push(member(before));
        let mut others: Vec<&mut Consumer> = members.iter_mut().collect();
        poll_until(&mut others, |consumers, _| {
            let newest = generation(&dying);
            newest > last && consumers.iter().all(|consumer| generation(consumer) == newest)
        })
        .await;
        drop(dying);
        members.push(member(before - 1));
        let sizes: &[usize] = if before == 1 { &[2, 2] } else { &[1, 1, 2] };
        let mut all: Vec<&mut Consumer> = members.iter_mut().collect();
        poll_until(&mut all, |consumers, _| shared(consumers, sizes)).await;
    });
}

#[test]
fn a_leader_that_comes_back_asks_for_what_it_held_back() {
    dies_with_what_it_was_to_give_up(1);
}

#[test]
fn a_leader_asks_for_what_a_dead_member_did_not_give_up() {
    dies_with_what_it_was_to_give_up(2);
}

#[test]
fn who_does_not_poll_is_out_and_comes_back() {
    with_topic(async |runtime, broker| {
        let diary = Diary::default();
        let slow = ConsumerConfig { max_poll_interval_ms: 1000, ..config(&broker) };
        let mut one = consumer(&runtime, slow);
        one.set_rebalance_listener(diary.clone());
        poll_until(&mut [&mut one], |consumers, _| shared(consumers, &[4])).await;
        runtime.sleep(Duration::from_millis(1500)).await;
        let error = one.commit_sync().await;
        assert!(matches!(error, Ok(()) | Err(ClientError::CommitFailed)), "{error:?}");
        let mut two = consumer(&runtime, config(&broker));
        poll_until(&mut [&mut two], |consumers, _| shared(consumers, &[4])).await;
        poll_until(&mut [&mut one, &mut two], |consumers, _| shared(consumers, &[2, 2])).await;
        assert_eq!(diary.take(), ["assigned 4", "lost 4", "assigned 2"]);
    });
}

#[test]
fn groups_are_administrated() {
    with_topic(async |runtime, broker| {
        produce(&runtime, &broker, 0..40).await;
        let mut one = consumer(&runtime, config(&broker));
        poll_until(&mut [&mut one], |_, records| records.len() == 40).await;
        one.commit_sync().await.expect("a member");
        let mut admin = Admin::new(runtime.clone(), bootstrap(&broker), AdminOptions::default());
        let listed = admin.list_groups().await.expect("listed");
        assert_eq!(listed.iter().map(|group| group.group_id.as_str()).collect::<Vec<_>>(), ["readers"]);
        let described = admin.describe_group("readers").await.expect("described");
        assert_eq!((described.state.as_str(), described.protocol.as_str()), ("Stable", "range"));
        assert_eq!(described.members[0].assignment, one.assignment());
        let back: BTreeMap<_, _> =
            one.assignment().into_iter().map(|part| (part, OffsetAndMetadata::from(3))).collect();
        let error = admin.alter_group_offsets("readers", &back).await.expect_err("it has a member");
        assert!(error.to_string().contains("stop its consumers"), "{error}");
        one.close(LIMIT).await.expect("left");
        assert!(
            admin.group_offsets("readers").await.expect("listed").values().all(|found| found.offset == 10)
        );
        admin.alter_group_offsets("readers", &back).await.expect("nobody is in it");
        let mut two = consumer(&runtime, config(&broker));
        poll_until(&mut [&mut two], |_, records| records.len() == 28).await;
        two.close(LIMIT).await.expect("left");
        admin.delete_group("readers").await.expect("nobody is in it");
        assert_eq!(admin.list_groups().await.expect("listed"), []);
    });
}
