//! An application under test: orders come in over a topic, and each has to be shipped, whatever breaks.
//!
//! ```text
//!   taker ──► topic "orders" ──► shippers (a group of two, killed again and again) ──► the world outside
//! ```
//! Shippers commit after they have shipped: an order may be shipped twice, and none is forgotten. One that commits first
//! forgets what it had not shipped when it was killed. Run the tests with
//!
//! ```text
//! cargo test -p sillon-sim --example orders
//! ```
//! The first one passes. To see how a mistake shows, write `Commit::BeforeShipping` into it: it fails, and prints the seed and what
//! to type to see that run again. The second test makes sure that it does.

use sillon_client::{
    admin::{Address, Admin, AdminError, AdminOptions, NewTopic},
    cluster::NetworkConfig,
    consumer::{Consumer, ConsumerConfig, OffsetReset},
    producer::{Producer, ProducerConfig, ProducerRecord},
};
use sillon_protocol::ErrorCode;
use sillon_runtime::Runtime;
use sillon_sim::app::Simulation;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

const TOPIC: &str = "orders";
const ORDERS: u32 = 300;
/// Packing an order takes its time.
const PACKING: Duration = Duration::from_millis(40);

/// What has left the house.
type Shipped = Arc<Mutex<BTreeSet<u32>>>;

/// When a shipper commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    AfterShipping,
    BeforeShipping,
}

fn network(servers: &[String]) -> NetworkConfig {
    let servers = Address::parse_list(&servers.join(",")).expect("the simulation names its brokers rightly");
    NetworkConfig { request_timeout_ms: 2_000, ..NetworkConfig::new(servers) }
}

/// The topic has to be there, with a replica on each broker: while one is away it cannot be made.
async fn make_topic(runtime: &Runtime, servers: &[String]) {
    let servers = Address::parse_list(&servers.join(",")).expect("the simulation names its brokers rightly");
    let mut admin = Admin::new(runtime.clone(), servers, AdminOptions::default());
    let topic = NewTopic {
        name: TOPIC.to_owned(),
        partitions: Some(3),
        replication_factor: Some(3),
        ..Default::default()
    };
    loop {
        match admin.create_topic(&topic).await {
            Ok(_) => return,
            // An attempt whose answer was lost.
            Err(AdminError::Refused { code: ErrorCode::TOPIC_ALREADY_EXISTS, .. }) => return,
            Err(_) => runtime.sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Takes orders, and is content only when the cluster has each.
async fn take_orders(runtime: Runtime, servers: Vec<String>) -> Result<(), String> {
    let producer =
        Producer::new(&runtime, ProducerConfig::new(network(&servers))).map_err(|e| e.to_string())?;
    for order in 0..ORDERS {
        let value = order.to_string();
        let record = ProducerRecord::new(TOPIC, &value).key(&value);
        producer.send_and_wait(&record).await.map_err(|error| format!("order {order}: {error}"))?;
        runtime.sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Ships what it is given, for ever.
async fn ship(runtime: Runtime, servers: Vec<String>, shipped: Shipped, commit: Commit) {
    let config = ConsumerConfig {
        enable_auto_commit: false,
        auto_offset_reset: OffsetReset::Earliest,
        session_timeout_ms: 6_000,
        heartbeat_interval_ms: 1_000,
        default_api_timeout_ms: 5_000,
        ..ConsumerConfig::in_group(network(&servers), "shippers")
    };
    let mut consumer = Consumer::new(&runtime, config).expect("the configuration is right");
    consumer.subscribe([TOPIC]).expect("it is in a group");
    loop {
        // What passes by itself is tried again; an order is committed only once it is shipped.
        let Ok(orders) = consumer.poll(Duration::from_millis(500)).await else {
            runtime.sleep(Duration::from_millis(100)).await;
            continue;
        };
        if commit == Commit::BeforeShipping && consumer.commit_sync().await.is_err() {
            continue;
        }
        for order in &orders {
            runtime.sleep(PACKING).await;
            let number =
                order.value.as_deref().and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
            shipped.lock().expect("nobody panics with it").insert(number.expect("orders are numbers"));
        }
        if commit == Commit::AfterShipping {
            // Where that fails, the orders are shipped again: better than never.
            let _ = consumer.commit_sync().await;
        }
    }
}

async fn every_order_leaves(sim: Simulation, commit: Commit) -> Result<(), String> {
    let (servers, shipped) = (sim.bootstrap_servers(), Shipped::default());
    let shippers = ["shipper-1", "shipper-2"].map(|name| {
        let (servers, shipped) = (servers.clone(), shipped.clone());
        sim.spawn(name, move |runtime| ship(runtime, servers.clone(), shipped.clone(), commit))
    });
    for shipper in &shippers {
        let (shipper, runtime) = (shipper.clone(), sim.runtime());
        drop(runtime.spawn("strikes", async move {
            shipper.crash_until_peace(Duration::from_secs(6), Duration::from_secs(2)).await;
        }));
    }
    make_topic(sim.runtime(), &servers).await;
    take_orders(sim.runtime().clone(), servers).await?;
    sim.peace().await;
    // The session of one that was killed has to end before the other gets its orders.
    for _ in 0..100 {
        if shipped.lock().expect("nobody panics with it").len() == ORDERS as usize {
            return Ok(());
        }
        sim.sleep(Duration::from_secs(1)).await;
    }
    let shipped = shipped.lock().expect("nobody panics with it");
    let forgotten: Vec<u32> = (0..ORDERS).filter(|order| !shipped.contains(order)).collect();
    Err(format!("{} orders were taken and never shipped: {forgotten:?}", forgotten.len()))
}

#[sillon_sim::test(seeds = 20)]
async fn every_order_is_shipped(sim: Simulation) -> Result<(), String> {
    every_order_leaves(sim, Commit::AfterShipping).await
}

#[test]
fn a_shipper_that_commits_first_is_caught() {
    let run = || {
        let options = sillon_sim::app::Options { seeds: 20, ..Default::default() };
        sillon_sim::app::check("every_order_is_shipped", &options, |sim| {
            every_order_leaves(sim, Commit::BeforeShipping)
        });
    };
    let panic = std::panic::catch_unwind(run).expect_err("some order is forgotten");
    let text = panic.downcast_ref::<String>().expect("it says why");
    assert!(text.contains("never shipped"), "{text}");
    assert!(text.contains("see it again SILLON_SEED="), "{text}");
}

/// `cargo run -p sillon-sim --example orders` runs the seeds without a test around them; with `-- --commit-first` it shows what a
/// mistake looks like.
fn main() {
    let commit = match std::env::args().any(|word| word == "--commit-first") {
        true => Commit::BeforeShipping,
        false => Commit::AfterShipping,
    };
    let options = sillon_sim::app::Options { seeds: 20, ..Default::default() };
    sillon_sim::app::check("every_order_is_shipped", &options, move |sim| every_order_leaves(sim, commit));
    println!("{} seeds: every order was shipped", options.seeds);
}
