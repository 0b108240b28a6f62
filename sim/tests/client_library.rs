//! The client library inside a simulated world: what it promises holds while its broker crashes and its network is cut, and
//! the same seed gives the same run.

mod support;

use sillon_broker::{config::BrokerConfig, observe::Observers};
use sillon_client::{
    ClientError,
    admin::{Address, Admin, AdminOptions, NewTopic},
    cluster::NetworkConfig,
    consumer::{Consumer, ConsumerConfig, OffsetReset, TopicPartition, assignor::CooperativeStickyAssignor},
    producer::{Producer, ProducerConfig, ProducerRecord},
};
use sillon_coordinator::config::CoordinatorConfig;
use sillon_runtime::Runtime;
use sillon_sim::{
    decisions::Decisions,
    world::{NodeId, World, WorldConfig, run_seeded, sleep},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};
use support::{run_on, seconds};

const PARTITIONS: i32 = 3;
const RECORDS: u32 = 600;

/// What the machines write down, and the judge reads.
#[derive(Default)]
struct Story {
    /// Partition and offset of what was confirmed, by value.
    confirmed: BTreeMap<u32, (i32, Option<i64>)>,
    failed: Vec<u32>,
    done: bool,
    /// Where each value was read, in the order of reading.
    read: Vec<(u32, i32, i64)>,
}

type Shared = Arc<Mutex<Story>>;

fn story(shared: &Shared) -> std::sync::MutexGuard<'_, Story> {
    shared.lock().expect("nothing panics while it holds this lock")
}

fn network(brokers: usize) -> NetworkConfig {
    let address = |number| Address { host: format!("broker{number}"), port: 9092 };
    NetworkConfig { request_timeout_ms: 3_000, ..NetworkConfig::new((0..brokers).map(address).collect()) }
}

/// So many brokers; several of them share a coordinator, one has its own.
fn brokers(world: &Arc<World>, count: usize) -> Vec<NodeId> {
    if count > 1 {
        run_on(world, "coordinator", |runtime| async move {
            let text = "dataDir=/data\nclientPort=2181\n";
            let (config, _) = CoordinatorConfig::from_text(text, "test", None).expect("legal");
            let observers = sillon_coordinator::observe::Observers::NONE;
            sillon_coordinator::run(runtime, config, observers, pending()).await.expect("for ever");
        });
    }
    (0..count)
        .map(|number| {
            run_on(world, &format!("broker{number}"), move |runtime| async move {
                let copies = count.min(3);
                let mut text = format!(
                    "broker.id={number}\nlisteners=PLAINTEXT://0.0.0.0:9092\nlog.dirs=/data\n\
                     advertised.listeners=PLAINTEXT://broker{number}:9092\n\
                     default.replication.factor={copies}\nmin.insync.replicas={}\n\
                     offsets.topic.replication.factor={copies}\noffsets.topic.num.partitions=2\n\
                     group.initial.rebalance.delay.ms=100\n",
                    copies.div_ceil(2)
                );
                if count > 1 {
                    text += "zookeeper.connect=coordinator:2181\n";
                }
                let (config, _) = BrokerConfig::from_properties(&text, "test").expect("legal");
                sillon_broker::run(runtime, config, Observers::NONE, pending()).await.expect("for ever");
            })
        })
        .collect()
}

async fn write(runtime: Runtime, brokers: usize, shared: Shared) {
    // All brokers have registered by then.
    runtime.sleep(seconds(1)).await;
    let mut admin = Admin::new(runtime.clone(), network(brokers).bootstrap_servers, AdminOptions::default());
    let topic = NewTopic { name: "orders".into(), partitions: Some(PARTITIONS), ..NewTopic::default() };
    admin.create_topic(&topic).await.expect("created");
    let config = ProducerConfig {
        batch_size: 256,
        delivery_timeout_ms: 60_000,
        ..ProducerConfig::new(network(brokers))
    };
    let producer = Producer::new(&runtime, config).expect("legal");
    for value in 0..RECORDS {
        let text = value.to_string();
        let record = ProducerRecord::new("orders", &text).partition((value % 3).cast_signed());
        let shared = shared.clone();
        let note = move |result: Result<sillon_client::producer::RecordMetadata, ClientError>| {
            let mut story = story(&shared);
            match result {
                Ok(written) => {
                    story.confirmed.insert(value, (written.partition, written.offset));
                }
                Err(_) => story.failed.push(value),
            }
        };
        producer.send_then(&record, note).await.expect("there is room");
        runtime.sleep(Duration::from_millis(60)).await;
    }
    producer.close(seconds(120)).await.expect("every fate is known");
    story(&shared).done = true;
}

async fn read(runtime: Runtime, brokers: usize, shared: Shared) {
    let config = ConsumerConfig {
        auto_offset_reset: OffsetReset::Earliest,
        partition_assignment_strategy: vec![Arc::new(CooperativeStickyAssignor)],
        session_timeout_ms: 6_000,
        heartbeat_interval_ms: 500,
        auto_commit_interval_ms: 500,
        allow_auto_create_topics: false,
        ..ConsumerConfig::in_group(network(brokers), "readers")
    };
    let mut consumer = Consumer::new(&runtime, config).expect("legal");
    consumer.subscribe(["orders"]).expect("it has a group");
    loop {
        match consumer.poll(Duration::from_millis(200)).await {
            Ok(records) => {
                for record in records {
                    let text = std::str::from_utf8(record.value.as_ref().expect("one")).expect("text");
                    let value = text.parse().expect("a number");
                    story(&shared).read.push((value, record.partition, record.offset));
                }
            }
            Err(error) => assert!(error.is_retriable(), "{error}"),
        }
    }
}

/// The log of the topic, partition by partition.
async fn scan(runtime: Runtime, brokers: usize) -> BTreeMap<i32, Vec<u32>> {
    let config = ConsumerConfig {
        auto_offset_reset: OffsetReset::Earliest,
        allow_auto_create_topics: false,
        ..ConsumerConfig::new(network(brokers))
    };
    let mut consumer = Consumer::new(&runtime, config).expect("legal");
    let parts: BTreeSet<_> =
        (0..PARTITIONS).map(|partition| TopicPartition::new("orders", partition)).collect();
    consumer.assign(parts.clone()).expect("not subscribed");
    let ends = consumer.end_offsets(&parts).await.expect("told");
    let mut logs: BTreeMap<i32, Vec<u32>> = BTreeMap::new();
    while i64::try_from(logs.values().map(Vec::len).sum::<usize>()).expect("few") < ends.values().sum::<i64>()
    {
        for record in consumer.poll(seconds(1)).await.expect("all is well by now") {
            let text = std::str::from_utf8(record.value.as_ref().expect("one")).expect("text");
            logs.entry(record.partition).or_default().push(text.parse().expect("a number"));
        }
    }
    logs
}

/// One run: what the judge saw, and the hash over all that happened.
fn run(brokers: usize, seed: u64) -> (String, u64) {
    run_seeded(seed, move || async move {
        let world = World::new(WorldConfig::default(), Arc::new(Decisions::random(seed, false)));
        let shared = Shared::default();
        let nodes = self::brokers(&world, brokers);
        let (writing, reading) = (shared.clone(), shared.clone());
        let writer = run_on(&world, "writer", move |runtime| write(runtime, brokers, writing.clone()));
        let readers = ["reader1", "reader2"].map(|name| {
            let reading = reading.clone();
            run_on(&world, name, move |runtime| read(runtime, brokers, reading.clone()))
        });
        let idle = run_on(&world, "judge", |_| pending());
        sleep(seconds(3)).await;
        for round in 0..5 {
            let broker = nodes[usize::try_from(round).expect("few") % nodes.len()];
            match (seed + round) % 3 {
                0 => {
                    world.kill(broker);
                    sleep(seconds(1)).await;
                    world.start(broker);
                }
                1 => world.network().partition(&[writer, readers[0]], &[broker]),
                _ => world.network().partition(&[readers[1]], &[broker]),
            }
            sleep(seconds(2 + 3 * (round % 3))).await;
            world.network().mend_all();
            sleep(seconds(2)).await;
        }
        let complete = |story: &Story| {
            let read: BTreeSet<u32> = story.read.iter().map(|(value, ..)| *value).collect();
            story.done && story.confirmed.keys().all(|value| read.contains(value))
        };
        for _ in 0..180 {
            if complete(&story(&shared)) {
                break;
            }
            sleep(seconds(1)).await;
        }
        assert_eq!(world.panics(), [], "no process panics");
        let logs = scan(world.runtime(idle).expect("it runs"), brokers).await;
        let story = story(&shared);
        (judge(&story, &logs, complete(&story)), world.trace().chain())
    })
    .unwrap_or_else(|panic| panic!("seed {seed}: {panic}"))
}

fn judge(story: &Story, logs: &BTreeMap<i32, Vec<u32>>, complete: bool) -> String {
    assert!(complete, "everything that was confirmed is read in the end");
    for (partition, log) in logs {
        assert!(log.is_sorted_by(|one, other| one < other), "{partition}: once and in order: {log:?}");
    }
    for (value, (partition, offset)) in &story.confirmed {
        let found = logs[partition].binary_search(value).expect("what is confirmed is there");
        assert!(
            offset.is_none_or(|offset| usize::try_from(offset) == Ok(found)),
            "{value} is where it was told"
        );
    }
    for (value, partition, offset) in &story.read {
        assert_eq!(logs[partition].get(usize::try_from(*offset).expect("not negative")), Some(value));
    }
    let (confirmed, failed, read) = (story.confirmed.len(), story.failed.len(), story.read.len());
    format!("{confirmed} confirmed, {failed} failed, {read} read")
}

#[test]
fn what_is_confirmed_stands_once_and_in_order_and_is_read() {
    for seed in 1..=6 {
        let (told, _) = run(1, seed);
        assert!(told.starts_with(&format!("{RECORDS} confirmed")), "seed {seed}: {told}");
    }
}

#[test]
fn it_stands_also_while_leaders_and_coordinators_change() {
    for seed in 1..=4 {
        let (told, _) = run(3, seed);
        assert!(told.starts_with(&format!("{RECORDS} confirmed")), "seed {seed}: {told}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(run(1, 3), run(1, 3));
    assert_eq!(run(3, 2), run(3, 2));
}
