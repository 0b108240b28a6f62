//! The clients and the oracle against a real broker on this machine: without faults nothing may be found.
#![allow(clippy::disallowed_methods)] // The test looks at the real disk.

use super::{
    AdminConfig, Compression, GroupsConfig, Shared, TopicPlan, WorkloadConfig, final_scan, roles, run,
};
use crate::{
    decisions::Decisions,
    oracle::{Contract, Disks, Invariant, Oracle, Stop},
};
use sillon_broker::{config::BrokerConfig, observe::Observers};
use sillon_runtime::{DirectoryEntry, Runtime, tokio_backend};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// This machine's disk.
struct RealDisk;

impl Disks for RealDisk {
    fn list(&self, _node: u32, directory: &Path) -> Vec<DirectoryEntry> {
        let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
        let mut list: Vec<DirectoryEntry> = entries
            .map(|entry| {
                let entry = entry.expect("the directory can be read");
                let name = entry.file_name().into_string().expect("names are text");
                let kind = entry.file_type().expect("files have a type");
                DirectoryEntry { name, is_directory: kind.is_dir(), length: 0 }
            })
            .collect();
        list.sort();
        list
    }

    fn read(&self, _node: u32, file: &Path) -> Option<Vec<u8>> {
        std::fs::read(file).ok()
    }
}

struct Story {
    runtime: Runtime,
    oracle: Arc<Oracle>,
    shared: Arc<Shared>,
    decisions: Arc<Decisions>,
    directory: PathBuf,
    port: u16,
}

impl Story {
    async fn start_broker(&self) -> sillon_broker::Running {
        self.oracle.node_starting(0);
        let text = format!(
            "broker.id=0\nlog.dirs={}\nlisteners=PLAINTEXT://127.0.0.1:{}\n",
            self.directory.display(),
            self.port
        );
        let config = BrokerConfig::from_properties(&text, "test").expect("legal").0;
        let observers = Observers::new(self.oracle.observer(0));
        sillon_broker::Running::start(self.runtime.clone(), config, observers).await.expect("it starts")
    }

    async fn stop_broker(&self, broker: sillon_broker::Running) {
        broker.stop().await.expect("it stops");
        self.oracle.node_stopped(0, Stop::Controlled);
    }

    fn assert_innocent(&self) {
        let violations = self.oracle.violations();
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(violations.is_empty(), "{texts:#?}");
    }
}

fn story(runtime: Runtime, directory: PathBuf, port: u16, config: WorkloadConfig, flush: bool) -> Story {
    let contract =
        Contract { log_directory: directory.clone(), flush_every_message: flush, ..Contract::default() };
    let clock = runtime.clone();
    let oracle = Oracle::new(Arc::new(move || clock.now().0), Arc::new(RealDisk), contract);
    let mut properties = BTreeMap::from([("segment.bytes".to_owned(), "65536".to_owned())]);
    if flush {
        properties.insert("flush.messages".to_owned(), "1".to_owned());
    }
    let topics = vec![TopicPlan {
        name: "sim-0".into(),
        partitions: 2,
        replication_factor: 1,
        comes_and_goes: false,
        properties,
    }];
    let events = {
        let oracle = oracle.clone();
        Arc::new(move |event| oracle.client_event(event))
    };
    let shared = Shared::new(
        (config, AdminConfig::default(), GroupsConfig::default()),
        topics,
        vec![("127.0.0.1".into(), port)],
        Vec::new(),
        events,
    );
    Story { runtime, oracle, shared, decisions: Arc::new(Decisions::random(1, false)), directory, port }
}

async fn play(story: &Story) {
    let broker = story.start_broker().await;
    let mut clients = Vec::new();
    for role in roles(&story.shared.config, &AdminConfig::default(), &GroupsConfig::default()) {
        let client = run(story.runtime.clone(), role, story.shared.clone(), story.decisions.clone());
        clients.push(story.runtime.spawn("client", client));
    }
    story.runtime.sleep(Duration::from_millis(1500)).await;
    story.stop_broker(broker).await;
    let broker = story.start_broker().await;
    story.oracle.healed(crate::oracle::Healing::Full);
    let deadline = story.runtime.now() + Duration::from_secs(20);
    while !story.oracle.converged() && story.runtime.now() < deadline {
        story.runtime.sleep(Duration::from_millis(50)).await;
        story.oracle.check_liveness();
    }
    assert!(story.oracle.converged(), "{:?}", story.oracle.violations());
    story.shared.stop_producing();
    let readers = clients.split_off(story.shared.config.producers as usize);
    for client in clients {
        client.await.expect("producers end");
    }
    final_scan(story.runtime.clone(), story.shared.clone()).await.expect("everything can be read");
    story.shared.stop();
    for client in readers {
        client.await.expect("readers end");
    }
    story.stop_broker(broker).await;
    story.oracle.finish();
}

/// Runs the story of one configuration; gives the oracle.
fn told(config: WorkloadConfig, flush: bool) -> Arc<Oracle> {
    let directory = tempfile::tempdir().expect("a place for logs");
    tokio_backend::block_on(Some(2), async |runtime| {
        let listener = runtime.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        let port = listener.local_addr().port();
        drop(listener);
        let story = story(runtime, directory.path().to_owned(), port, config, flush);
        play(&story).await;
        story.assert_innocent();
        story.oracle
    })
    .expect("tokio starts")
}

#[test]
fn idempotent_clients_and_a_good_broker() {
    let compression =
        vec![Compression::None, Compression::Zstd, Compression::Lz4, Compression::Gzip, Compression::Snappy];
    let config =
        WorkloadConfig { records_per_second: 400.0, readers: 2, compression, ..WorkloadConfig::default() };
    let oracle = told(config, true);
    let statistics = oracle.statistics();
    assert!(statistics.records_confirmed > 100 && statistics.records_read > 100, "{statistics:?}");
    assert_eq!((statistics.records_failed, statistics.records_lost), (0, 0));
    let evaluations = oracle.evaluations();
    use Invariant::*;
    for invariant in [
        I01, I02, I06, I09, I12, I13, I15, I18, I20, I21, I23, I25, I26, I27, I28, I48, I65a, I67, I69, I70,
        I71,
    ] {
        assert!(evaluations[&invariant] > 0, "{invariant} was never evaluated: {evaluations:?}");
    }
}

#[test]
fn plain_clients_and_a_good_broker() {
    let config = WorkloadConfig {
        records_per_second: 400.0,
        idempotence: false,
        acks: 1,
        in_flight: 3,
        ..WorkloadConfig::default()
    };
    let statistics = told(config, false).statistics();
    assert!(statistics.records_confirmed > 100 && statistics.records_read > 100, "{statistics:?}");
}

#[test]
fn clients_that_want_no_answer() {
    let config = WorkloadConfig { idempotence: false, acks: 0, ..WorkloadConfig::default() };
    // Nothing is ever confirmed, so that nothing converges: the clients alone are looked at.
    let directory = tempfile::tempdir().expect("a place for logs");
    tokio_backend::block_on(Some(2), async |runtime| {
        let listener = runtime.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        let port = listener.local_addr().port();
        drop(listener);
        let story = story(runtime, directory.path().to_owned(), port, config, false);
        let broker = story.start_broker().await;
        let mut clients = Vec::new();
        for role in roles(&story.shared.config, &AdminConfig::default(), &GroupsConfig::default()) {
            let client = run(story.runtime.clone(), role, story.shared.clone(), story.decisions.clone());
            clients.push(story.runtime.spawn("client", client));
        }
        story.runtime.sleep(Duration::from_millis(1000)).await;
        story.shared.stop();
        for client in clients {
            client.await.expect("clients end");
        }
        story.stop_broker(broker).await;
        story.assert_innocent();
        let statistics = story.oracle.statistics();
        assert!(statistics.records_unknown > 0 && statistics.records_read > 0, "{statistics:?}");
    })
    .expect("tokio starts");
}
