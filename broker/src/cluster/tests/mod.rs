//! Memberships of several brokers with a real coordinator, over real sockets.

mod world;

use super::{Cluster, MembershipError, credentials};
use crate::{
    metadata::MetadataPosition,
    types::{BrokerEpoch, BrokerId},
};
use bytes::Bytes;
use sillon_coordinator::client::{Client, ClientConfig};
use sillon_runtime::Runtime;
use std::{collections::BTreeSet, path::Path, time::Duration};
use world::{Coordinator, Member, Start, eventually, mark, marked, scenario};

const SECOND: Duration = Duration::from_secs(1);
/// The tests share the machine with others: what takes milliseconds may take longer.
const SOON: Duration = Duration::from_secs(5);

async fn three(runtime: &Runtime, directory: &Path, coordinator: &Coordinator) -> Vec<Member> {
    let mut members = Vec::new();
    for id in [1, 2, 3] {
        members.push(Start::new(runtime, directory, id, coordinator).start().await.expect("it joins"));
    }
    for member in &members {
        assert!(member.membership.wait_until_known(SOON).await);
    }
    for member in &members {
        eventually(runtime, "all see all", SOON, || member.brokers() == [1, 2, 3]).await;
    }
    members
}

fn controller_of(members: &[Member]) -> usize {
    let controllers: Vec<usize> =
        (0..members.len()).filter(|index| members[*index].membership.controller().is_some()).collect();
    assert_eq!(controllers.len(), 1, "one controller at a time");
    controllers[0]
}

/// Ends a broker's session behind its back.
async fn expire(runtime: &Runtime, coordinator: &Coordinator, directory: &Path, id: i32) {
    let path = directory.join(format!("broker-{id}")).join(credentials::FILE_NAME);
    let credentials = credentials::load(runtime, &path).await.expect("it has a session");
    let mut config = ClientConfig::new(&format!("127.0.0.1:{}", coordinator.port), 2000).unwrap();
    config.credentials = Some(credentials);
    loop {
        let thief = Client::connect(runtime, config.clone());
        // The broker takes its session back where it can.
        if thief.wait_connected().await.is_err() || thief.close().await.is_ok() {
            return;
        }
    }
}

#[test]
fn a_broker_alone_becomes_a_cluster() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let member = Start::new(&runtime, directory.path(), 1, &coordinator).start().await.expect("it joins");
        assert_eq!(member.cluster_id, "new-id");
        assert!(member.membership.wait_until_known(SOON).await);
        let image = member.image();
        assert_eq!((image.controller, &image.cluster_id[..]), (Some(BrokerId(1)), "new-id"));
        assert_eq!(image.brokers[&BrokerId(1)].broker_epoch, member.membership.broker_epoch());
        assert_eq!(member.membership.seen_epoch(), member.membership.broker_epoch());

        let controller = member.membership.controller().expect("it is controller");
        let (_, position) = controller.submit(mark("7")).await.expect("carried out");
        assert!(member.membership.wait_for(position, SOON).await);
        assert_eq!(marked(&member.image()), Some("7"));
        let applied: Vec<MetadataPosition> =
            member.images.lock().unwrap().iter().map(|image| image.position).collect();
        assert!(applied.is_sorted() && applied.last() == Some(&position));

        let started = runtime.now();
        member.membership.leave().await;
        drop(member);
        let again = Start::new(&runtime, directory.path(), 1, &coordinator).start().await.expect("it joins");
        assert!(again.membership.wait_until_known(SOON).await);
        assert!(runtime.now() - started < SECOND, "a clean restart waits for nothing");
    });
}

#[test]
fn three_brokers_hear_the_same_and_hand_requests_on() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let members = three(&runtime, directory.path(), &coordinator).await;
        for (index, member) in members.iter().enumerate() {
            let value = Bytes::from(index.to_string());
            assert_eq!(member.membership.forward(value.clone()).await, Ok(value));
            // The broker that handed it on knows at once what came of it.
            assert_eq!(marked(&member.image()), Some(&index.to_string()[..]));
        }
        for member in &members {
            eventually(&runtime, "all know", SOON, || marked(&member.image()) == Some("2")).await;
            assert_eq!(member.image().topics, members[0].image().topics);
        }
        let mut ids = BTreeSet::new();
        for member in members.iter().chain(&members) {
            ids.insert(member.membership.allocate_producer_ids(1000).await.expect("there are enough"));
        }
        assert_eq!(ids.into_iter().collect::<Vec<_>>(), [0, 1000, 2000, 3000, 4000, 5000]);
    });
}

#[test]
fn a_controller_whose_process_is_gone_is_replaced_at_once() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let mut members = three(&runtime, directory.path(), &coordinator).await;
        for left in [2, 1] {
            let dead = members.remove(controller_of(&members));
            let epoch = dead.image().position.controller_epoch;
            let killed = runtime.now();
            let _dead = dead.kill();
            for member in &members {
                let fresh =
                    || member.image().position.controller_epoch > epoch && member.brokers().len() == left;
                eventually(&runtime, "another controller, without the dead broker", SECOND, fresh).await;
            }
            println!("replaced within {:?}", runtime.now() - killed);
            controller_of(&members);
        }
    });
}

#[test]
fn a_broker_whose_process_is_gone_is_taken_out_at_once() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let mut members = three(&runtime, directory.path(), &coordinator).await;
        let controller = controller_of(&members);
        let killed = runtime.now();
        let _dead = members.remove((controller + 1) % 3).kill();
        for member in &members {
            eventually(&runtime, "two are left", SECOND, || member.brokers().len() == 2).await;
        }
        println!("taken out within {:?}", runtime.now() - killed);
    });
}

#[test]
fn a_restart_within_the_old_session_is_quick_and_a_new_registration() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let start = || Start {
            // Nobody would wait for that.
            session_timeout_ms: 4000,
            ..Start::new(&runtime, directory.path(), 1, &coordinator)
        };
        let first = start().start().await.expect("it joins");
        assert!(first.membership.wait_until_known(SOON).await);
        let epoch = first.membership.broker_epoch();
        let dead = first.kill();
        let killed = runtime.now();
        let second = start().start().await.expect("it joins");
        assert!(second.membership.wait_until_known(SOON).await);
        println!("again within {:?}", runtime.now() - killed);
        assert!(runtime.now() - killed < SECOND);
        assert!(second.membership.broker_epoch() > epoch);
        drop(dead);
    });
}

#[test]
fn a_second_broker_of_the_same_number_is_refused_while_the_first_lives() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let first = Start::new(&runtime, directory.path(), 1, &coordinator).start().await.expect("it joins");
        let second = Start {
            directory: directory.path().join("elsewhere"),
            ..Start::new(&runtime, directory.path(), 1, &coordinator)
        };
        let error = second.start().await.err().expect("refused");
        assert!(matches!(error, MembershipError::LiveDuplicate { broker: BrokerId(1), .. }), "{error}");
        assert!(
            error.to_string().starts_with("broker id 1 is already registered by a live broker at 127.0.0.1:")
        );
        assert_ne!(first.membership.broker_epoch(), BrokerEpoch::NONE);
    });
}

#[test]
fn a_broker_whose_directory_was_lost_waits_for_the_old_session() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let first = Start::new(&runtime, directory.path(), 1, &coordinator).start().await.expect("it joins");
        let epoch = first.membership.broker_epoch();
        let _dead = first.kill();
        let second = Start {
            directory: directory.path().join("elsewhere"),
            ..Start::new(&runtime, directory.path(), 1, &coordinator)
        };
        let second = second.start().await.expect("the old session ends");
        assert!(second.membership.broker_epoch() > epoch);
    });
}

#[test]
fn a_broker_whose_session_expired_registers_again() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let members = three(&runtime, directory.path(), &coordinator).await;
        for _ in 0..3 {
            // Once it is the controller, at least once another broker.
            for (member, id) in members.iter().zip([1, 2, 3]) {
                let epoch = member.membership.broker_epoch();
                expire(&runtime, &coordinator, directory.path(), id).await;
                let again = || member.membership.broker_epoch() > epoch;
                eventually(&runtime, "registered again", SOON, again).await;
                assert!(member.membership.wait_until_known(SOON).await);
            }
        }
        eventually(&runtime, "a controller", SOON, || {
            members.iter().any(|member| member.membership.controller().is_some())
        })
        .await;
        let value = Bytes::from_static(b"77");
        let deadline = runtime.now() + SOON;
        while members[0].membership.forward(value.clone()).await.is_err() {
            assert!(runtime.now() < deadline, "the controller answers");
            runtime.sleep(Duration::from_millis(50)).await;
        }
        for member in &members {
            eventually(&runtime, "all know", SOON, || marked(&member.image()) == Some("77")).await;
        }
        controller_of(&members);
    });
}

#[test]
fn an_unclean_stop_is_told_until_the_controller_knows() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let member = Start { unclean: true, ..Start::new(&runtime, directory.path(), 1, &coordinator) };
        let member = member.start().await.expect("it joins");
        assert!(member.membership.wait_until_known(SOON).await);
        let own = BrokerId(1);
        assert!(member.image().brokers[&own].unclean);
        let epoch = member.membership.broker_epoch();
        expire(&runtime, &coordinator, directory.path(), 1).await;
        let again = || member.image().brokers.get(&own).is_some_and(|broker| broker.broker_epoch > epoch);
        eventually(&runtime, "registered again", SOON, again).await;
        assert!(!member.image().brokers[&own].unclean, "the process never stopped");
    });
}

#[test]
fn who_leaves_is_gone_at_once() {
    let directory = tempfile::tempdir().unwrap();
    scenario(|runtime| async move {
        let coordinator = Coordinator::start(&runtime, directory.path()).await;
        let mut members = three(&runtime, directory.path(), &coordinator).await;
        let controller = members.remove(controller_of(&members));
        controller.membership.prepare_stop(3, SECOND).await;
        controller.membership.leave().await;
        for member in &members {
            eventually(&runtime, "two are left", SECOND, || member.brokers().len() == 2).await;
        }
        controller_of(&members);
    });
}
