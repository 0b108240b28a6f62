//! Tests of a user's own application, as a user writes them.

use sillon_client::{Connection, ConnectionOptions};
use sillon_protocol::messages::MetadataRequest;
use sillon_runtime::Runtime;
use sillon_sim::app::{Options, Simulation, check};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    time::Duration,
};

/// How many brokers a broker knows.
async fn brokers_known_at(runtime: &Runtime, server: &str) -> Result<usize, String> {
    let (host, port) = server.rsplit_once(':').ok_or("no port")?;
    let port = port.parse().map_err(|_| "no port")?;
    let connection = Connection::connect(runtime, host, port, ConnectionOptions::default())
        .await
        .map_err(|error| error.to_string())?;
    let answer = connection.send(&MetadataRequest::default()).await.map_err(|error| error.to_string())?;
    Ok(answer.brokers.len())
}

#[sillon_sim::test(seeds = 3)]
async fn after_peace_every_broker_knows_all(sim: Simulation) -> Result<(), String> {
    sim.sleep(Duration::from_secs(20)).await;
    sim.peace().await;
    sim.sleep(Duration::from_secs(15)).await;
    for server in sim.bootstrap_servers() {
        assert_eq!(brokers_known_at(sim.runtime(), &server).await?, 3, "{server}");
    }
    Ok(())
}

#[sillon_sim::test(seeds = 2)]
async fn files_of_a_program_outlive_it_where_they_were_synced(sim: Simulation) {
    let note = Path::new("/data/count");
    let machine = sim.spawn("counter", move |runtime| async move {
        let fs = runtime.fs();
        fs.create_dir_all(Path::new("/data")).await.expect("the disk is well");
        let before = fs.read_small(note, 100).await.map_or(0, |bytes| bytes.len());
        fs.replace(note, &vec![b'x'; before + 1]).await.expect("the disk is well");
        std::future::pending().await
    });
    sim.sleep(Duration::from_secs(1)).await;
    machine.power_off();
    machine.start();
    sim.sleep(Duration::from_secs(1)).await;
    machine.kill();
    assert!(!machine.is_alive());
    let reader = sim.spawn("reader", |_| async {});
    reader.ended().await;
}

fn message(options: &Options, verdict: fn(u64) -> Result<(), String>) -> String {
    let run = || {
        check("orders_are_shipped", options, move |sim| async move {
            sim.sleep(Duration::from_secs(1)).await;
            verdict(sim.seed())
        });
    };
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("a seed fails");
    panic.downcast_ref::<String>().cloned().expect("it says why")
}

#[test]
fn a_failure_names_its_seed_and_how_to_see_it_again() {
    let fails_from_two = |seed| if seed >= 2 { Err(format!("{seed} orders are missing")) } else { Ok(()) };
    let text = message(&Options { seeds: 4, ..Options::default() }, fails_from_two);
    assert!(text.contains("orders_are_shipped failed with seed 2\n"), "{text}");
    assert!(text.contains("2 orders are missing"), "{text}");
    assert!(text.contains("the same failure"), "{text}");
    assert!(text.contains("SILLON_SEED=2 cargo test orders_are_shipped"), "{text}");
}

#[test]
fn a_panic_in_a_program_is_a_failure_as_well() {
    let text = message(&Options { seeds: 1, ..Options::default() }, |_| panic!("an order has no address"));
    assert!(text.contains("an order has no address"), "{text}");
    assert!(text.contains("on test"), "{text}");
}

#[test]
fn a_scenario_that_is_not_there_is_named() {
    let options = Options { seeds: 1, scenario: Some("nowhere.toml".into()) };
    assert!(message(&options, |_| Ok(())).contains("nowhere.toml"));
}
