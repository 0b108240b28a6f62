//! Gives out producer ids, each once in the life of the cluster: they are taken from the cluster in blocks, and a
//! block is used up only by the process that took it. Owns the block at hand.

use crate::{
    cluster::{Cluster, ClusterError},
    types::ProducerId,
};
use std::sync::Arc;

/// As many as Kafka takes at a time.
const BLOCK: i64 = 1000;

/// The ids at hand.
pub struct ProducerIds {
    cluster: Arc<dyn Cluster>,
    /// The next id and the end of the block.
    at_hand: tokio::sync::Mutex<(i64, i64)>,
}

impl ProducerIds {
    /// Nothing is at hand yet.
    pub fn new(cluster: Arc<dyn Cluster>) -> ProducerIds {
        ProducerIds { cluster, at_hand: tokio::sync::Mutex::new((0, 0)) }
    }

    /// An id that was never given out before.
    ///
    /// # Errors
    /// Where no block can be had at present.
    pub async fn next(&self) -> Result<ProducerId, ClusterError> {
        let mut at_hand = self.at_hand.lock().await;
        if at_hand.0 == at_hand.1 {
            let first = self.cluster.allocate_producer_ids(BLOCK).await?;
            *at_hand = (first, first + BLOCK);
        }
        let id = at_hand.0;
        at_hand.0 += 1;
        Ok(ProducerId(id))
    }
}
