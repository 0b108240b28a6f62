//! The nodes at the coordinator, where they are and what is in them: Apache Kafka's own, so that its tools read them.
//!
//! Owns paths and JSON. What Kafka does not have lies below `/sillon`, or in fields that Kafka's readers skip. Never reads
//! or writes a node. What comes from outside never panics: it is a [`LayoutError`].

use crate::{
    metadata::{BrokerImage, Endpoint, PartitionImage},
    types::{BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The active controller's ephemeral node.
pub const CONTROLLER: &str = "/controller";
/// The controller epoch, as a number in decimal. Its version is what writes of partition state check.
pub const CONTROLLER_EPOCH: &str = "/controller_epoch";
/// The cluster's id.
pub const CLUSTER_ID: &str = "/cluster/id";
/// The registered brokers.
pub const BROKER_IDS: &str = "/brokers/ids";
/// The topics.
pub const TOPICS: &str = "/brokers/topics";
/// Topics that are to be deleted.
pub const DELETE_TOPICS: &str = "/admin/delete_topics";
/// Configuration of topics.
pub const TOPIC_CONFIGS: &str = "/config/topics";
/// Configuration of brokers.
pub const BROKER_CONFIGS: &str = "/config/brokers";
/// The name under [`BROKER_CONFIGS`] that stands for all brokers.
pub const ALL_BROKERS_NAME: &str = "<default>";
/// The next block of producer ids.
pub const PRODUCER_IDS: &str = "/latest_producer_id_block";
/// Counts the registrations of each broker: `/sillon/registrations/N`.
pub const REGISTRATIONS: &str = "/sillon/registrations";
/// The last registration of each broker that a controller has processed, as its broker epoch in decimal, and whether it is
/// about to stop: `/sillon/processed/N`.
pub const PROCESSED: &str = "/sillon/processed";
/// What must exist before a broker registers; parents first.
pub const PERSISTENT_PATHS: &[&str] = &[
    "/admin",
    DELETE_TOPICS,
    "/brokers",
    BROKER_IDS,
    "/brokers/seqid",
    TOPICS,
    "/cluster",
    "/config",
    BROKER_CONFIGS,
    "/config/changes",
    "/config/clients",
    "/config/ips",
    TOPIC_CONFIGS,
    "/config/users",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/sillon",
    REGISTRATIONS,
    PROCESSED,
];

/// A broker's ephemeral node.
pub fn broker_path(broker: BrokerId) -> String {
    format!("{BROKER_IDS}/{broker}")
}

/// The node that counts a broker's registrations.
pub fn registration_path(broker: BrokerId) -> String {
    format!("{REGISTRATIONS}/{broker}")
}

/// Whether a node says who is registered, and is written by brokers, not by the controller.
pub fn is_of_registrations(path: &str) -> bool {
    let below = |parent: &str| path.strip_prefix(parent).is_some_and(|rest| rest.starts_with('/'));
    below(BROKER_IDS) || below(REGISTRATIONS)
}

/// The node that says which registration of a broker was processed last.
pub fn processed_path(broker: BrokerId) -> String {
    format!("{PROCESSED}/{broker}")
}

/// A topic's node.
pub fn topic_path(topic: &str) -> String {
    format!("{TOPICS}/{topic}")
}

/// The node above a topic's partitions.
pub fn partitions_path(topic: &str) -> String {
    format!("{TOPICS}/{topic}/partitions")
}

/// A partition's node.
pub fn partition_path(partition: &TopicPartition) -> String {
    format!("{TOPICS}/{}/partitions/{}", partition.topic, partition.partition)
}

/// The node with a partition's true state.
pub fn state_path(partition: &TopicPartition) -> String {
    format!("{}/state", partition_path(partition))
}

/// The node of a topic's configuration.
pub fn topic_config_path(topic: &str) -> String {
    format!("{TOPIC_CONFIGS}/{topic}")
}

/// The node of a broker's configuration, or that of all.
pub fn broker_config_path(broker: BrokerId) -> String {
    match broker {
        crate::metadata::image::ALL_BROKERS => format!("{BROKER_CONFIGS}/{ALL_BROKERS_NAME}"),
        broker => format!("{BROKER_CONFIGS}/{broker}"),
    }
}

/// The node that asks for a topic's deletion.
pub fn deletion_path(topic: &str) -> String {
    format!("{DELETE_TOPICS}/{topic}")
}

/// A node's content is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} holds {content:?}: {problem}")]
pub struct LayoutError {
    /// The node.
    pub path: String,
    /// The beginning of what it holds.
    pub content: String,
    /// What is wrong with it.
    pub problem: String,
}

fn decode<'a, T: Deserialize<'a>>(path: &str, data: &'a [u8]) -> Result<T, LayoutError> {
    serde_json::from_slice(data).map_err(|error| wrong(path, data, &error))
}

fn wrong(path: &str, data: &[u8], problem: &dyn std::fmt::Display) -> LayoutError {
    let content = String::from_utf8_lossy(&data[..data.len().min(200)]).into_owned();
    LayoutError { path: path.to_owned(), content, problem: problem.to_string() }
}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("keys are strings")
}

/// What is at a topic's node: its id, and which brokers hold which partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicNode {
    /// Its id; none where a tool that knows no ids wrote it.
    pub id: Option<TopicId>,
    /// For each partition its replicas; during a reassignment old and new ones together.
    pub replicas: BTreeMap<i32, Vec<BrokerId>>,
    /// For each partition in reassignment those that are added.
    pub adding: BTreeMap<i32, Vec<BrokerId>>,
    /// For each partition in reassignment those that will be removed.
    pub removing: BTreeMap<i32, Vec<BrokerId>>,
}

#[derive(Serialize, Deserialize)]
struct TopicJson {
    #[serde(default)]
    removing_replicas: BTreeMap<i32, Vec<BrokerId>>,
    partitions: BTreeMap<i32, Vec<BrokerId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topic_id: Option<String>,
    #[serde(default)]
    adding_replicas: BTreeMap<i32, Vec<BrokerId>>,
    version: i32,
}

impl TopicNode {
    /// Its content.
    pub fn encode(&self) -> Vec<u8> {
        encode(&TopicJson {
            removing_replicas: self.removing.clone(),
            partitions: self.replicas.clone(),
            topic_id: self.id.map(|id| id.to_string()),
            adding_replicas: self.adding.clone(),
            version: 3,
        })
    }

    /// Reads the content of the node at `path`.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn decode(path: &str, data: &[u8]) -> Result<TopicNode, LayoutError> {
        let json: TopicJson = decode(path, data)?;
        let id = json.topic_id.as_deref().map(str::parse).transpose();
        Ok(TopicNode {
            id: id.map_err(|error| wrong(path, data, &error))?,
            replicas: json.partitions,
            adding: json.adding_replicas,
            removing: json.removing_replicas,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StateJson {
    controller_epoch: i32,
    leader: i32,
    version: i32,
    leader_epoch: i32,
    isr: Vec<BrokerId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    eligible_leader_replicas: Vec<BrokerId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_known_leader: Option<BrokerId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unproven: Vec<BrokerId>,
}

/// The content of a partition's state node.
pub fn encode_state(state: &PartitionImage, controller_epoch: ControllerEpoch) -> Vec<u8> {
    encode(&StateJson {
        controller_epoch: controller_epoch.0,
        leader: state.leader.unwrap_or(BrokerId::NONE).0,
        version: 1,
        leader_epoch: state.leader_epoch.0,
        isr: state.isr.clone(),
        eligible_leader_replicas: state.eligible_leader_replicas.clone(),
        last_known_leader: state.last_known_leader,
        unproven: state.unproven.clone(),
    })
}

/// Reads the content of the state node at `path`, whose version is `version`. Replicas are not in it. Gives also the
/// epoch of the controller that wrote it.
///
/// # Errors
/// [`LayoutError`].
pub fn decode_state(
    path: &str,
    data: &[u8],
    version: i32,
) -> Result<(PartitionImage, ControllerEpoch), LayoutError> {
    let json: StateJson = decode(path, data)?;
    let state = PartitionImage {
        leader: (json.leader >= 0).then_some(BrokerId(json.leader)),
        leader_epoch: LeaderEpoch(json.leader_epoch),
        partition_epoch: PartitionEpoch(version),
        replicas: Vec::new(),
        adding: Vec::new(),
        removing: Vec::new(),
        isr: json.isr,
        eligible_leader_replicas: json.eligible_leader_replicas,
        last_known_leader: json.last_known_leader,
        unproven: json.unproven,
    };
    Ok((state, ControllerEpoch(json.controller_epoch)))
}

#[derive(Serialize, Deserialize)]
struct BrokerJson {
    #[serde(default)]
    features: BTreeMap<String, i32>,
    #[serde(default)]
    listener_security_protocol_map: BTreeMap<String, String>,
    endpoints: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rack: Option<Arc<str>>,
    #[serde(default)]
    jmx_port: i32,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    port: i32,
    #[serde(default)]
    timestamp: String,
    version: i32,
    #[serde(default)]
    unclean: bool,
    #[serde(default)]
    registration: i32,
}

/// The content of a broker's node. `unix_time_ms` is for people only.
pub fn encode_broker(broker: &BrokerImage, unix_time_ms: i64) -> Vec<u8> {
    let endpoint = |endpoint: &Endpoint| match endpoint.host.contains(':') {
        true => format!("{}://[{}]:{}", endpoint.listener, endpoint.host, endpoint.port),
        false => format!("{}://{}:{}", endpoint.listener, endpoint.host, endpoint.port),
    };
    let first = broker.endpoints.first();
    encode(&BrokerJson {
        features: BTreeMap::new(),
        listener_security_protocol_map: broker
            .endpoints
            .iter()
            .map(|endpoint| (endpoint.listener.clone(), "PLAINTEXT".to_owned()))
            .collect(),
        endpoints: broker.endpoints.iter().map(endpoint).collect(),
        rack: broker.rack.clone(),
        jmx_port: -1,
        host: first.map(|endpoint| endpoint.host.clone()),
        port: first.map_or(-1, |endpoint| i32::from(endpoint.port)),
        timestamp: unix_time_ms.to_string(),
        version: 5,
        unclean: broker.unclean,
        registration: broker.registration,
    })
}

/// Reads the content of the broker's node at `path`, which was created by the transaction `czxid`.
///
/// # Errors
/// [`LayoutError`].
pub fn decode_broker(path: &str, data: &[u8], czxid: i64) -> Result<BrokerImage, LayoutError> {
    let json: BrokerJson = decode(path, data)?;
    let endpoint = |text: &String| -> Option<Endpoint> {
        let (listener, address) = text.split_once("://")?;
        let (host, port) = address.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Endpoint { listener: listener.to_owned(), host: host.to_owned(), port: port.parse().ok()? })
    };
    let endpoints: Option<Vec<Endpoint>> = json.endpoints.iter().map(endpoint).collect();
    Ok(BrokerImage {
        broker_epoch: BrokerEpoch(czxid),
        endpoints: endpoints.ok_or_else(|| wrong(path, data, &"an endpoint is not NAME://HOST:PORT"))?,
        rack: json.rack,
        unclean: json.unclean,
        registration: json.registration,
        shutting_down: false,
    })
}

#[derive(Serialize, Deserialize)]
struct ControllerJson {
    version: i32,
    brokerid: i32,
    timestamp: String,
}

/// The content of the controller's node.
pub fn encode_controller(broker: BrokerId, unix_time_ms: i64) -> Vec<u8> {
    encode(&ControllerJson { version: 1, brokerid: broker.0, timestamp: unix_time_ms.to_string() })
}

/// Reads the content of the controller's node: the broker.
///
/// # Errors
/// [`LayoutError`].
pub fn decode_controller(data: &[u8]) -> Result<BrokerId, LayoutError> {
    decode::<ControllerJson>(CONTROLLER, data).map(|json| BrokerId(json.brokerid))
}

/// Reads the content of the controller epoch's node.
///
/// # Errors
/// [`LayoutError`].
pub fn decode_controller_epoch(data: &[u8]) -> Result<ControllerEpoch, LayoutError> {
    let number = std::str::from_utf8(data).ok().and_then(|text| text.trim().parse().ok());
    number.map(ControllerEpoch).ok_or_else(|| wrong(CONTROLLER_EPOCH, data, &"a number is expected"))
}

/// What follows the broker epoch where the broker is about to stop.
const STOPPING: &str = "stopping";

/// The content of the node that says which registration was processed last, and whether its broker is about to stop.
pub fn encode_processed(broker_epoch: BrokerEpoch, shutting_down: bool) -> Vec<u8> {
    match shutting_down {
        true => format!("{broker_epoch} {STOPPING}").into_bytes(),
        false => broker_epoch.to_string().into_bytes(),
    }
}

/// Reads the content of the node at `path` that says which registration was processed last, and whether its broker is
/// about to stop.
///
/// # Errors
/// [`LayoutError`].
pub fn decode_processed(path: &str, data: &[u8]) -> Result<(BrokerEpoch, bool), LayoutError> {
    let text = std::str::from_utf8(data).unwrap_or_default().trim();
    let (number, word) = text.split_once(' ').map_or((text, None), |(number, word)| (number, Some(word)));
    let number = number.parse().ok().filter(|_| word.is_none_or(|word| word == STOPPING));
    let number = number.ok_or_else(|| wrong(path, data, &"a number is expected, and perhaps a word"))?;
    Ok((BrokerEpoch(number), word.is_some()))
}

#[derive(Serialize, Deserialize)]
struct ConfigJson {
    version: i32,
    config: BTreeMap<String, String>,
}

/// The content of a configuration's node.
pub fn encode_configs(configs: &BTreeMap<String, String>) -> Vec<u8> {
    encode(&ConfigJson { version: 1, config: configs.clone() })
}

/// Reads the content of the configuration's node at `path`.
///
/// # Errors
/// [`LayoutError`].
pub fn decode_configs(path: &str, data: &[u8]) -> Result<BTreeMap<String, String>, LayoutError> {
    decode::<ConfigJson>(path, data).map(|json| json.config)
}

#[derive(Serialize, Deserialize)]
struct ClusterIdJson {
    version: String,
    id: String,
}

/// The content of the cluster id's node.
pub fn encode_cluster_id(id: &str) -> Vec<u8> {
    encode(&ClusterIdJson { version: "1".to_owned(), id: id.to_owned() })
}

/// Reads the content of the cluster id's node.
///
/// # Errors
/// [`LayoutError`].
pub fn decode_cluster_id(data: &[u8]) -> Result<String, LayoutError> {
    decode::<ClusterIdJson>(CLUSTER_ID, data).map(|json| json.id)
}

#[derive(Serialize, Deserialize)]
struct ProducerIdsJson {
    version: i32,
    broker: i32,
    block_start: String,
    block_end: String,
}

/// The content of the producer ids' node: `broker` has taken the ids from `first` to `last`.
pub fn encode_producer_ids(broker: BrokerId, first: i64, last: i64) -> Vec<u8> {
    let (block_start, block_end) = (first.to_string(), last.to_string());
    encode(&ProducerIdsJson { version: 1, broker: broker.0, block_start, block_end })
}

/// Reads the content of the producer ids' node: the last id that was taken; none where none was.
///
/// # Errors
/// [`LayoutError`].
pub fn decode_producer_ids(data: &[u8]) -> Result<Option<i64>, LayoutError> {
    if data.is_empty() {
        return Ok(None);
    }
    let json: ProducerIdsJson = decode(PRODUCER_IDS, data)?;
    json.block_end.parse().map(Some).map_err(|error| wrong(PRODUCER_IDS, data, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(list: &[i32]) -> Vec<BrokerId> {
        list.iter().copied().map(BrokerId).collect()
    }

    /// Contents as Apache Kafka 2.8 writes them.
    #[test]
    fn kafkas_own_contents_are_read() {
        let topic = br#"{"removing_replicas":{},"partitions":{"2":[3,1,2],"1":[2,3,1],"0":[1,2,3]},"topic_id":"q0F3bvhLQdSxF1lD4zkWkQ","adding_replicas":{},"version":3}"#;
        let node = TopicNode::decode("/brokers/topics/t", topic).unwrap();
        assert_eq!(node.replicas[&2], numbers(&[3, 1, 2]));
        assert_eq!(node.id.unwrap().to_string(), "q0F3bvhLQdSxF1lD4zkWkQ");
        // As a tool without topic ids writes it.
        let old = TopicNode::decode("/brokers/topics/t", br#"{"version":2,"partitions":{"0":[1]}}"#).unwrap();
        assert_eq!(old.id, None);

        let state = br#"{"controller_epoch":4,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2]}"#;
        let (state, controller_epoch) = decode_state("/s", state, 9).unwrap();
        assert_eq!((state.leader, state.leader_epoch), (Some(BrokerId(1)), LeaderEpoch(7)));
        assert_eq!((state.partition_epoch, controller_epoch), (PartitionEpoch(9), ControllerEpoch(4)));
        assert_eq!(
            encode_state(&state, controller_epoch),
            br#"{"controller_epoch":4,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2]}"#
        );

        let broker = br#"{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:9092"],"jmx_port":-1,"port":9092,"host":"127.0.0.1","version":5,"timestamp":"1700000000000"}"#;
        let broker = decode_broker("/brokers/ids/1", broker, 33).unwrap();
        assert_eq!(broker.broker_epoch, BrokerEpoch(33));
        assert_eq!(broker.endpoints[0].port, 9092);
        assert_eq!(decode_broker("/b", &encode_broker(&broker, 0), 33), Ok(broker));

        let controller = br#"{"version":1,"brokerid":2,"timestamp":"1700000000000"}"#;
        assert_eq!(decode_controller(controller), Ok(BrokerId(2)));
        let ids = br#"{"version":1,"broker":0,"block_start":"0","block_end":"999"}"#;
        assert_eq!(decode_producer_ids(ids), Ok(Some(999)));
        let configs = br#"{"version":1,"config":{"retention.ms":"1"}}"#;
        assert_eq!(decode_configs("/c", configs).unwrap()["retention.ms"], "1");
    }

    #[test]
    fn what_is_written_is_read() {
        let node = TopicNode {
            id: Some("q0F3bvhLQdSxF1lD4zkWkQ".parse().unwrap()),
            replicas: BTreeMap::from([(0, numbers(&[1, 2]))]),
            adding: BTreeMap::from([(0, numbers(&[2]))]),
            removing: BTreeMap::from([(0, numbers(&[1]))]),
        };
        assert_eq!(TopicNode::decode("/t", &node.encode()), Ok(node));
        assert_eq!(decode_cluster_id(&encode_cluster_id("x")).unwrap(), "x");
        assert_eq!(decode_controller(&encode_controller(BrokerId(3), 5)), Ok(BrokerId(3)));
        assert_eq!(decode_producer_ids(&encode_producer_ids(BrokerId(3), 0, 9)), Ok(Some(9)));
        for processed in [(BrokerEpoch(7), false), (BrokerEpoch(8), true)] {
            assert_eq!(decode_processed("/p", &encode_processed(processed.0, processed.1)), Ok(processed));
        }
    }

    #[test]
    fn damaged_contents_name_their_node() {
        let error = decode_controller(b"{").unwrap_err();
        assert_eq!(error.path, CONTROLLER);
        assert!(decode_state("/s", b"[]", 0).is_err());
        assert!(decode_controller_epoch(b"x").is_err());
        for processed in [&b""[..], b"x", b"7 or so", b"\xff"] {
            assert!(decode_processed("/p", processed).is_err());
        }
        assert!(TopicNode::decode("/t", br#"{"version":3,"partitions":{"x":[1]}}"#).is_err());
    }
}
