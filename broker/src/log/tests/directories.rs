//! The directories that hold the logs.

use super::*;
use crate::log::{LogDirectories, testing::world::Operation};
use crate::types::{BrokerEpoch, BrokerId};
use std::{collections::BTreeMap, io::ErrorKind};

fn context(world: &World) -> LogContext {
    LogContext { runtime: world.runtime(), observers: Observers::NONE }
}

fn try_open(world: &World, paths: &[&str]) -> Result<LogDirectories, LogError> {
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    block_on(LogDirectories::open(context(world), &paths))
}

fn open(world: &World) -> LogDirectories {
    try_open(world, &["/data"]).expect("opens")
}

fn open_log(directories: &LogDirectories, topic: &str, partition: i32) -> Arc<Log> {
    let partition = TopicPartition::new(topic, partition);
    block_on(directories.open_log(&partition, TOPIC_ID, LogConfig::default())).expect("opens")
}

#[test]
fn one_process_at_a_time() {
    let world = World::new();
    let first = open(&world);
    let second = try_open(&world, &["/other", "/data"]).expect_err("in use");
    assert!(matches!(&second, LogError::Locked { path } if path == Path::new("/data")));
    assert!(second.to_string().contains("/data"));
    drop(first);
    open(&world);
}

#[test]
fn a_directory_belongs_to_one_broker_of_one_cluster() {
    let world = World::new();
    let directories = open(&world);
    assert_eq!(directories.identity(), None);
    block_on(directories.identify(BrokerId(1), "cluster-a")).expect("new");
    assert_eq!(
        world.content(Path::new("/data/meta.properties")),
        b"#\nbroker.id=1\ncluster.id=cluster-a\nversion=0\n"
    );
    drop(directories);
    let directories = open(&world);
    let identity = directories.identity().expect("written");
    assert_eq!((identity.broker_id, identity.cluster_id.as_deref()), (Some(BrokerId(1)), Some("cluster-a")));
    block_on(directories.identify(BrokerId(1), "cluster-a")).expect("the same");
    assert!(matches!(
        block_on(directories.identify(BrokerId(2), "cluster-a")),
        Err(LogError::OtherBroker { .. })
    ));
    assert!(matches!(
        block_on(directories.identify(BrokerId(1), "cluster-b")),
        Err(LogError::OtherCluster { .. })
    ));
    drop(directories);
    world.put(Path::new("/data/meta.properties"), b"version=7\n");
    assert!(matches!(try_open(&world, &["/data"]), Err(LogError::Corrupt { .. })));
    world.put(Path::new("/data/meta.properties"), b"version=0\nbroker.id=1\n");
    world.put(Path::new("/more/meta.properties"), b"version=0\nbroker.id=2\n");
    assert!(matches!(try_open(&world, &["/data", "/more"]), Err(LogError::Disagreement { .. })));
    assert!(matches!(try_open(&world, &[]), Err(LogError::NoDirectory)));
}

#[test]
fn a_clean_stop_is_vouched_for_once() {
    let world = World::new();
    let marker = Path::new("/data/.kafka_cleanshutdown");
    let directories = open(&world);
    let log = open_log(&directories, "t", 0);
    fill(&log, 5);
    block_on(directories.close()).expect("closed");
    assert!(world.exists(marker));
    drop(directories);

    let directories = open(&world);
    assert!(!world.exists(marker));
    world.lose_power(None);
    drop(directories);
    assert!(!world.exists(marker), "B26: gone for good before any log was opened");
    assert!(
        world.content(Path::new("/data/recovery-point-offset-checkpoint")).starts_with(b"0\n1\nt 0 10\n")
    );

    // After an unclean start, a log that nobody opened stays in doubt.
    let directories = open(&world);
    block_on(directories.close()).expect("closed");
    assert!(!world.exists(marker));
    drop(directories);
    let directories = open(&world);
    assert_eq!(block_on(directories.unopened()).expect("listed").len(), 1);
    assert_eq!(contents(&open_log(&directories, "t", 0)), numbered(0, 10));
    assert_eq!(block_on(directories.unopened()).expect("listed"), []);
    block_on(directories.close()).expect("closed");
    assert!(world.exists(marker));
    drop(directories);

    // After a clean start it is as clean as it was.
    let directories = open(&world);
    block_on(directories.close()).expect("closed");
    assert!(world.exists(marker));
}

#[test]
fn a_stop_is_clean_for_the_cluster_only_under_a_registration_that_was_seen() {
    let world = World::new();
    let identity = |directories: &LogDirectories| block_on(directories.identify(BrokerId(1), "c"));
    let directories = open(&world);
    assert!(directories.is_unclean(), "a new directory may stand in for a lost one");
    identity(&directories).expect("its own");
    block_on(directories.close()).expect("closed");
    drop(directories);

    let directories = open(&world);
    assert!(directories.is_unclean(), "its registration was never seen");
    directories.note_broker_epoch(BrokerEpoch(7));
    block_on(directories.close()).expect("closed");
    drop(directories);

    let directories = open(&world);
    assert!(!directories.is_unclean());
    drop(directories);
    assert!(open(&world).is_unclean(), "it was not stopped at all");
}

#[test]
fn a_log_that_cannot_be_closed_is_not_vouched_for() {
    let world = World::new();
    let directories = open(&world);
    let log = open_log(&directories, "t", 0);
    fill(&log, 5);
    world.fail(Operation::Sync, 0, ErrorKind::Other);
    block_on(directories.close()).expect("the rest is closed");
    assert!(!world.exists(Path::new("/data/.kafka_cleanshutdown")));
    drop(directories);
    assert_eq!(contents(&open_log(&open(&world), "t", 0)), numbered(0, 10));
}

#[test]
fn checkpoints_keep_what_is_not_open() {
    let world = World::new();
    let directories = open(&world);
    for topic in ["a", "b"] {
        let log = open_log(&directories, topic, 3);
        fill(&log, 4);
        flush(&log);
        block_on(log.delete_records(Offset(2), Offset(8))).expect("deleted");
    }
    let (a, b) = (TopicPartition::new("a", 3), TopicPartition::new("b", 3));
    let both = BTreeMap::from([(a.clone(), Offset(7)), (b.clone(), Offset(8))]);
    block_on(directories.checkpoint_high_watermarks(both)).expect("written");
    block_on(directories.checkpoint_recovery_points()).expect("written");
    drop(directories);
    world.lose_power(None);
    let text = |name: &str| String::from_utf8(world.content(&Path::new("/data").join(name))).expect("text");
    assert_eq!(text("replication-offset-checkpoint"), "0\n2\na 3 7\nb 3 8\n");
    assert_eq!(text("recovery-point-offset-checkpoint"), "0\n2\na 3 8\nb 3 8\n");
    assert_eq!(text("log-start-offset-checkpoint"), "0\n2\na 3 2\nb 3 2\n");

    let directories = open(&world);
    let log = open_log(&directories, "a", 3);
    assert_eq!((log.recovery_point(), log.log_start_offset()), (Offset(8), Offset(2)));
    assert_eq!(block_on(directories.checkpointed_high_watermark(&b)), Some(Offset(8)), "B29");
    block_on(directories.checkpoint_high_watermarks(BTreeMap::from([(a, Offset(8))]))).expect("written");
    block_on(directories.checkpoint_recovery_points()).expect("written");
    assert_eq!(text("replication-offset-checkpoint"), "0\n2\na 3 8\nb 3 8\n", "B29");
    assert_eq!(text("recovery-point-offset-checkpoint"), "0\n2\na 3 8\nb 3 8\n");
    assert_eq!(text("log-start-offset-checkpoint"), "0\n2\na 3 2\nb 3 2\n");
}

#[test]
fn a_checkpoint_is_the_old_or_the_new_one() {
    let names = ["/data/replication-offset-checkpoint"];
    for operation in
        [Operation::Open, Operation::Write, Operation::Sync, Operation::Rename, Operation::SyncDirectory]
    {
        for seed in 0..8 {
            let world = World::new();
            let directories = open(&world);
            open_log(&directories, "t", 0);
            let write = |offset| {
                let offsets = BTreeMap::from([(TopicPartition::new("t", 0), Offset(offset))]);
                block_on(directories.checkpoint_high_watermarks(offsets))
            };
            write(1).expect("written");
            world.fail(operation, 0, ErrorKind::Other);
            write(2).expect_err("fails");
            world.lose_power(Some(seed));
            for name in names {
                let content = world.content(Path::new(name));
                assert!(
                    [b"0\n1\nt 0 1\n", b"0\n1\nt 0 2\n"]
                        .contains(&content.as_slice().try_into().expect("whole")),
                    "I21"
                );
            }
        }
    }
}

#[test]
fn damaged_checkpoints_count_as_missing() {
    let world = World::new();
    let directories = open(&world);
    let log = open_log(&directories, "t", 0);
    fill(&log, 4);
    block_on(directories.close()).expect("closed");
    drop(directories);
    for name in
        ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
    {
        world.put(&Path::new("/data").join(name), b"0\n5\nnonsense");
    }
    let log = open_log(&open(&world), "t", 0);
    assert_eq!((contents(&log), log.recovery_point()), (numbered(0, 8), Offset(0)));
}

#[test]
fn a_cut_lowers_the_checkpoint_first() {
    let world = World::new();
    let directories = open(&world);
    let log = open_log(&directories, "t", 0);
    fill(&log, 20);
    flush(&log);
    block_on(directories.checkpoint_recovery_points()).expect("written");
    block_on(log.truncate_to(Offset(10))).expect("cut");
    block_on(log.append_as_leader(records(&["new"], 0), LeaderEpoch(4))).expect("appended");
    drop((directories, log));
    world.lose_power(Some(3));
    assert!(world.content(Path::new("/data/recovery-point-offset-checkpoint")).ends_with(b"t 0 10\n"), "B27");
    let log = open_log(&open(&world), "t", 0);
    assert!(log.log_end_offset() <= Offset(11));
    assert_eq!(contents(&log)[..10], numbered(0, 10));
}

#[test]
fn a_deleted_log_is_gone_and_its_name_is_free() {
    let world = World::new();
    let directories = open(&world);
    let log = open_log(&directories, "t", 0);
    fill(&log, 5);
    flush(&log);
    let partition = TopicPartition::new("t", 0);
    let high_watermarks = BTreeMap::from([(partition.clone(), Offset(10))]);
    block_on(directories.checkpoint_high_watermarks(high_watermarks)).expect("written");
    block_on(directories.checkpoint_recovery_points()).expect("written");
    block_on(directories.delete_log(&partition)).expect("deleted");
    assert!(append(&log, records(&["x"], 0)).is_err());
    assert!(block_on(log.reopen()).is_err(), "it stays closed");
    let left = world.names(Path::new("/data"));
    assert!(!left.iter().any(|name| name.starts_with("t-")), "{left:?}");
    assert_eq!(block_on(directories.checkpointed_high_watermark(&partition)), None);
    let other = TopicId(Uuid::from_u128(8));
    let new = block_on(directories.open_log(&partition, other, LogConfig::default())).expect("a new topic");
    assert_eq!((new.log_end_offset(), new.topic_id()), (Offset(0), other), "I16");
    assert!(matches!(
        block_on(directories.open_log(&partition, TOPIC_ID, LogConfig::default())),
        Err(LogError::InconsistentTopicId { .. })
    ));
    block_on(directories.delete_log(&TopicPartition::new("unknown", 0))).expect("nothing to do");
}

#[test]
fn a_name_that_comes_again_inherits_nothing_from_a_removal_that_was_cut_short() {
    let world = World::new();
    for file in
        ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
    {
        // The directory of `a-0` was renamed away, and then the process ended.
        world.put(&Path::new("/data").join(file), b"0\n1\na 0 7\n");
    }
    let directories = open(&world);
    let log = open_log(&directories, "a", 0);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(0)));
    let noted = block_on(directories.checkpointed_high_watermark(&TopicPartition::new("a", 0)));
    assert_eq!(noted, None);
    assert_eq!(world.content(Path::new("/data/recovery-point-offset-checkpoint")), b"0\n0\n");
}

#[test]
fn the_scan_tells_logs_from_the_rest() {
    let world = World::new();
    let directories = try_open(&world, &["/data", "/more"]).expect("opens");
    for number in 0..4 {
        open_log(&directories, "t", number);
    }
    assert_eq!(
        world.names(Path::new("/more")).iter().filter(|name| name.starts_with("t-")).count(),
        2,
        "evenly"
    );
    for name in ["../escape", "a/b", "", "."] {
        let partition = TopicPartition::new(name, 0);
        let refused = block_on(directories.open_log(&partition, TOPIC_ID, LogConfig::default()));
        assert!(matches!(refused, Err(LogError::InvalidTopicName(_))), "{name}");
    }
    drop(directories);
    let files = world.runtime();
    for name in ["/data/t-0.0123456789abcdef0123456789abcdef-delete", "/data/lost+found"] {
        block_on(files.fs().create_dir_all(Path::new(name))).expect("created");
    }
    let directories = try_open(&world, &["/data", "/more"]).expect("opens");
    let left = world.names(Path::new("/data"));
    assert!(
        left.contains(&"lost+found".into()) && !left.iter().any(|name| name.ends_with("-delete")),
        "{left:?}"
    );
    let found = block_on(directories.unopened()).expect("listed");
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|found| found.topic_id == Some(TOPIC_ID)));
    drop(directories);
    block_on(files.fs().create_dir_all(Path::new("/more/t-0"))).expect("created");
    assert!(matches!(try_open(&world, &["/data", "/more"]), Err(LogError::DuplicatePartition { .. })));
}
