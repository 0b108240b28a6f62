//! Brokers that follow one another over real sockets, with a controller that the test plays.

mod cluster;

use crate::types::{BrokerId, LeaderEpoch, Offset};
use cluster::{Nodes, TOPIC};
use sillon_protocol::ErrorCode;
use sillon_runtime::tokio_backend;

fn scenario<F: Future>(run: impl FnOnce(sillon_runtime::Runtime) -> F) -> F::Output {
    tokio_backend::block_on(Some(2), run).expect("threads can be started")
}

#[test]
fn a_record_is_acknowledged_when_all_in_sync_have_it_and_all_learn_that_it_is_committed() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 3, "").await;
        nodes.lead(1, &[1, 2, 3]).await;
        let entered = nodes.partition(1).log().latest_epoch();
        assert_eq!(
            entered,
            Some(LeaderEpoch(1)),
            "B04: a leader's epoch is in its log before its first record"
        );
        let began = runtime.now();
        for number in 0..20 {
            let answer = nodes.produce(1, &format!("record {number}"), -1).await;
            assert_eq!((answer.error_code, answer.base_offset), (0, number));
        }
        assert!((runtime.now() - began).as_secs() < 5, "nothing waits for a fetch to time out");
        for node in [1, 2, 3] {
            nodes
                .until(node, "the high watermark", |partition| partition.high_watermark() == Offset(20))
                .await;
            assert_eq!(nodes.values(node).await.len(), 20);
        }
        assert_eq!(
            nodes.produce(2, "elsewhere", -1).await.error_code,
            ErrorCode::NOT_LEADER_OR_FOLLOWER.code()
        );
        nodes.stop().await;
    });
}

#[test]
fn what_a_deposed_leader_has_alone_is_cut_off_and_it_is_in_sync_again() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 2, "").await;
        nodes.lead(1, &[1, 2]).await;
        assert_eq!(nodes.produce(1, "common", -1).await.error_code, 0);
        // Only broker 2 hears that it leads now.
        nodes.until(2, "the high watermark", |partition| partition.high_watermark() == Offset(1)).await;
        nodes.change(|state| {
            state.leader = Some(BrokerId(2));
            state.isr = vec![BrokerId(2)];
        });
        nodes.tell(2).await;
        assert_eq!(nodes.produce(1, "lost", 1).await.error_code, 0, "the old leader does not know yet");
        assert_eq!(nodes.produce(2, "kept", -1).await.error_code, 0);
        nodes.tell(1).await;
        nodes.until(1, "the same log", |partition| partition.high_watermark() == Offset(2)).await;
        assert_eq!(nodes.values(1).await, ["common", "kept"]);
        nodes
            .until(2, "1 in sync", |partition| partition.leading(|leader| leader.in_sync().len()) == Some(2))
            .await;
        assert_eq!(nodes.partition(1).following(), Some((BrokerId(2), LeaderEpoch(2))));
        nodes.stop().await;
    });
}

#[test]
fn a_produce_that_waits_ends_when_another_leads() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 2, "").await;
        nodes.lead(1, &[1, 2]).await;
        nodes.silence(2).await;
        let waiting = nodes.begin_produce(1, "waits", -1).await;
        runtime.sleep(std::time::Duration::from_millis(100)).await;
        nodes.change(|state| state.leader = Some(BrokerId(2)));
        nodes.tell(1).await;
        let answer = waiting.await.unwrap();
        assert_eq!(answer.error_code, ErrorCode::NOT_LEADER_OR_FOLLOWER.code());
        assert_eq!((answer.current_leader.leader_id, answer.current_leader.leader_epoch), (2, 2));
        nodes.stop().await;
    });
}

#[test]
fn a_silent_follower_leaves_the_in_sync_set_and_the_rest_goes_on() {
    scenario(|runtime| async move {
        let nodes =
            Nodes::start(&runtime, 3, "replica.lag.time.max.ms=400\nreplica.fetch.wait.max.ms=100").await;
        nodes.lead(1, &[1, 2, 3]).await;
        assert_eq!(nodes.produce(1, "a", -1).await.error_code, 0);
        nodes.silence(3).await;
        assert_eq!(nodes.produce(1, "b", -1).await.error_code, 0, "once 3 is known to lag");
        let in_sync = nodes.partition(1).leading(|leader| leader.in_sync()).unwrap();
        assert_eq!(in_sync, [BrokerId(1), BrokerId(2)]);
        nodes.stop().await;
    });
}

#[test]
fn after_a_long_silence_the_followers_are_still_in_sync_when_a_record_comes() {
    scenario(|runtime| async move {
        let nodes =
            Nodes::start(&runtime, 3, "replica.lag.time.max.ms=600\nreplica.fetch.wait.max.ms=100").await;
        nodes.lead(1, &[1, 2, 3]).await;
        assert_eq!(nodes.produce(1, "a", -1).await.error_code, 0);
        let before = nodes.partition(1).partition_epoch();
        // No fetch names the partition meanwhile.
        runtime.sleep(std::time::Duration::from_millis(1500)).await;
        for number in 0..20 {
            assert_eq!(nodes.produce(1, &format!("record {number}"), 1).await.error_code, 0);
            runtime.sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(nodes.produce(1, "b", -1).await.error_code, 0);
        assert_eq!(nodes.partition(1).partition_epoch(), before, "nobody was found to lag");
        nodes.stop().await;
    });
}

#[test]
fn too_few_in_sync_refuse_and_commit_nothing() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 2, "min.insync.replicas=2").await;
        nodes.lead(1, &[1]).await;
        nodes.silence(2).await;
        assert_eq!(nodes.produce(1, "a", -1).await.error_code, ErrorCode::NOT_ENOUGH_REPLICAS.code());
        assert_eq!(nodes.produce(1, "a", 1).await.error_code, 0);
        assert_eq!(nodes.partition(1).high_watermark(), Offset(0));
        nodes.tell(2).await;
        nodes.until(1, "the high watermark", |partition| partition.high_watermark() == Offset(1)).await;
        nodes.stop().await;
    });
}

#[test]
fn every_record_is_on_both_disks_before_it_is_acknowledged_where_that_is_demanded() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 2, "log.flush.interval.messages=1").await;
        nodes.lead(1, &[1, 2]).await;
        for _ in 0..5 {
            assert_eq!(nodes.produce(1, "a", -1).await.error_code, 0);
            let end = nodes.partition(1).log().log_end_offset();
            for node in [1, 2] {
                assert!(nodes.partition(node).log().recovery_point() >= end);
            }
        }
        nodes.stop().await;
    });
}

#[test]
fn records_that_the_leader_removed_are_removed_everywhere_and_nobody_waits_for_them() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 2, "").await;
        nodes.lead(1, &[1, 2]).await;
        for _ in 0..4 {
            nodes.produce(1, "a", -1).await;
        }
        nodes.until(2, "the high watermark", |partition| partition.high_watermark() == Offset(4)).await;
        assert_eq!(nodes.delete_records(1, 3).await, (3, 0));
        assert_eq!(nodes.partition(2).log().log_start_offset(), Offset(3));
        nodes.stop().await;
    });
}

#[test]
fn a_replica_that_goes_elsewhere_takes_its_log_along() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 2, "").await;
        nodes.lead(1, &[1, 2]).await;
        nodes.produce(1, "a", -1).await;
        let directory = nodes.partition(2).log().directory().to_owned();
        nodes.change(|state| {
            state.replicas = vec![BrokerId(1)];
            state.isr = vec![BrokerId(1)];
        });
        nodes.tell(1).await;
        nodes.tell(2).await;
        assert!(runtime.fs().list(&directory).await.is_err(), "it has another name, and goes later");
        assert_eq!(nodes.held(2).err(), Some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
        assert_eq!(nodes.produce(1, "b", -1).await.error_code, 0);
        assert_eq!(TOPIC, "t");
        nodes.stop().await;
    });
}

#[test]
fn b11_a_consumer_reads_from_the_follower_in_its_rack_as_soon_as_a_record_is_committed() {
    scenario(|runtime| async move {
        let more = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector\n\
            replica.fetch.wait.max.ms=8000";
        let nodes = Nodes::start(&runtime, 2, more).await;
        nodes.lead(1, &[1, 2]).await;
        assert_eq!(nodes.produce(1, "a", -1).await.error_code, 0);
        let (answer, bytes) = nodes.fetch(1, 0, "rack-2").await;
        assert_eq!((answer.preferred_read_replica, bytes), (2, 0));
        let (answer, bytes) = nodes.fetch(1, 0, "rack-1").await;
        assert_eq!((answer.preferred_read_replica, bytes > 0), (-1, true), "the leader is as near");
        let began = runtime.now();
        let (waiting, _) = tokio::join!(nodes.fetch(2, 1, "rack-2"), async {
            runtime.sleep(std::time::Duration::from_millis(200)).await;
            nodes.produce(1, "b", -1).await
        });
        assert!(waiting.1 > 0);
        assert!((runtime.now() - began).as_secs() < 4, "no fetch had to time out for it");
        nodes.stop().await;
    });
}

#[test]
fn b07_a_follower_of_another_epoch_is_not_heard() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 2, "").await;
        nodes.lead(1, &[1, 2]).await;
        nodes.silence(2).await;
        assert_eq!(nodes.produce(1, "a", 1).await.error_code, 0);
        for (epoch, code) in [
            (0, ErrorCode::FENCED_LEADER_EPOCH),
            (2, ErrorCode::UNKNOWN_LEADER_EPOCH),
            (-1, ErrorCode::UNKNOWN_LEADER_EPOCH),
        ] {
            assert_eq!(nodes.fetch_as_follower(1, 2, epoch).await, code);
        }
        assert_eq!(nodes.partition(1).high_watermark(), Offset(0));
        assert_eq!(nodes.fetch_as_follower(1, 9, 1).await, ErrorCode::UNKNOWN_LEADER_EPOCH, "no replica");
        assert_eq!(nodes.fetch_as_follower(1, 2, 1).await, ErrorCode::NONE);
        assert_eq!(nodes.partition(1).high_watermark(), Offset(1));
        nodes.stop().await;
    });
}

#[test]
fn b14_a_follower_that_is_too_far_behind_begins_anew_at_the_start_of_the_leaders_log() {
    scenario(|runtime| async move {
        let nodes = Nodes::start(&runtime, 2, "").await;
        nodes.lead(1, &[1]).await;
        nodes.silence(2).await;
        nodes.produce(1, "a", -1).await;
        nodes.tell(2).await;
        nodes.until(2, "one record", |partition| partition.log().log_end_offset() == Offset(1)).await;
        nodes
            .until(1, "2 in sync", |leader| leader.leading(|leader| leader.in_sync().len()) == Some(2))
            .await;
        nodes.change(|state| {
            state.leader_epoch.0 -= 1;
            state.isr = vec![BrokerId(1)];
        });
        nodes.tell(1).await;
        nodes.silence(2).await;
        for _ in 0..3 {
            assert_eq!(nodes.produce(1, "b,c", -1).await.error_code, 0);
        }
        // In the middle of a batch, which is fetched whole.
        nodes.partition(1).delete_records(Offset(4)).await.unwrap();
        nodes.tell(2).await;
        nodes.until(2, "the whole log", |partition| partition.high_watermark() == Offset(7)).await;
        nodes.until(2, "the leader's start", |follower| follower.log().log_start_offset() == Offset(4)).await;
        assert_eq!(nodes.partition(2).log().log_end_offset(), Offset(7));
        nodes.stop().await;
    });
}
