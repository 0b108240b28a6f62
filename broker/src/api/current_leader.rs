//! Who leads a partition, told along with an error, so that a client need not ask (KIP-951). Owns the collecting; never
//! decides which errors tell it.

use crate::{
    broker::Broker,
    server::dispatch::Client,
    types::{BrokerId, TopicId},
};
use sillon_protocol::messages::{LeaderIdAndEpoch, NodeEndpoint};
use std::collections::BTreeMap;

/// The leaders that an answer names, and where they listen.
#[derive(Default)]
pub(super) struct CurrentLeaders(BTreeMap<BrokerId, NodeEndpoint>);

impl CurrentLeaders {
    /// Who leads a partition as far as the metadata knows; notes where.
    pub(super) fn of(
        &mut self,
        broker: &Broker,
        client: &Client,
        topic: TopicId,
        partition: i32,
    ) -> LeaderIdAndEpoch {
        let image = broker.image();
        let state = image.topic_by_id(topic).and_then(|(_, topic)| topic.partition(partition));
        let Some((leader, leader_epoch)) =
            state.and_then(|state| state.leader.map(|leader| (leader, state.leader_epoch)))
        else {
            return LeaderIdAndEpoch::default();
        };
        let registered = image.brokers.get(&leader);
        if let Some((registered, endpoint)) =
            registered.and_then(|known| Some((known, known.endpoint(listener_of(broker, client))?)))
        {
            self.0.entry(leader).or_insert_with(|| NodeEndpoint {
                node_id: leader.0,
                host: endpoint.host.clone(),
                port: i32::from(endpoint.port),
                rack: registered.rack.as_ref().map(|rack| rack.to_string()),
            });
        }
        LeaderIdAndEpoch { leader_id: leader.0, leader_epoch: leader_epoch.0 }
    }

    /// Where the leaders listen.
    pub(super) fn endpoints(self) -> Vec<NodeEndpoint> {
        self.0.into_values().collect()
    }
}

/// The name of the listener through which the client came.
fn listener_of<'a>(broker: &'a Broker, client: &Client) -> &'a str {
    let listeners = broker.config().listeners.iter().zip(broker.advertised());
    let came_through = listeners
        .clone()
        .find(|(listener, advertised)| [listener.port, advertised.port].contains(&client.local.port()));
    came_through.or(listeners.clone().next()).map_or("", |(listener, _)| &listener.name)
}
