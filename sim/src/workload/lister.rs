//! A client that asks each leader for the latest offset, partition after partition, as long as the run lasts, and tells the
//! oracle each answer. Owns nothing but its place in the round; never reads a record.

use super::{Shared, directory::Directory, offsets, topics};
use crate::oracle::ClientEvent;
use sillon_broker::types::TopicPartition;
use sillon_runtime::Runtime;
use std::{sync::Arc, time::Duration};

/// Asks until the run is over.
pub(super) async fn run(runtime: Runtime, client: u32, shared: Arc<Shared>) {
    let mut directory = Directory::new(runtime.clone(), shared.clone(), format!("lister-{client}"));
    if !topics::create(&mut directory, &shared).await {
        return;
    }
    directory.refresh().await;
    let pause = Duration::from_nanos(shared.config.latest_every_ns);
    let mut turn = 0;
    while !shared.is_stopped() {
        directory.keep_fresh().await;
        let partitions = directory.partitions();
        let partition = &partitions[turn % partitions.len()];
        turn += 1;
        ask(&mut directory, client, &shared, partition).await;
        runtime.sleep(pause).await;
    }
}

async fn ask(directory: &mut Directory, client: u32, shared: &Shared, partition: &TopicPartition) {
    let leader = directory.routes.leader(partition);
    let topic_id = directory.life(&partition.topic);
    match offsets::list(directory, partition, offsets::LATEST).await {
        Ok(Some(listed)) => (shared.events)(ClientEvent::Listed {
            client,
            partition: partition.clone(),
            topic_id,
            timestamp: offsets::LATEST,
            leader_epoch: listed.leader_epoch,
            offset: listed.offset,
        }),
        Ok(None) => {}
        Err(_) => leader.into_iter().for_each(|leader| directory.give_up(leader)),
    }
}
