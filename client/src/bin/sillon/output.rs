//! What the program prints: the tables that Kafka's users know, or JSON. Owns no decision but how things look.

use serde_json::{Value, json};
use sillon_client::admin::{ClusterDescription, PartitionDescription, TopicConfigEntry, TopicDescription};
use std::fmt::Write;

/// A line and its end, appended.
fn line(text: &mut String, content: &str) {
    text.push_str(content);
    text.push('\n');
}

/// JSON for people and programs.
pub fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Names of topics, one a line.
pub fn topic_names(topics: &[TopicDescription], json: bool) -> String {
    let names: Vec<_> = topics.iter().map(|topic| topic.name.as_str()).collect();
    if json {
        return pretty(&json!(names));
    }
    let mut text = String::new();
    names.iter().for_each(|name| line(&mut text, name));
    text
}

/// Says that a topic is created or deleted.
pub fn done(what: &str, key: &str, topic: &str, json: bool) -> String {
    if json { pretty(&json!({ key: topic })) } else { format!("{what} topic {topic}.\n") }
}

/// Topics with their partitions: the table of Kafka 4.1's own tool, byte by byte. `with_heads` prints the line of the topic.
pub fn topics(topics: &[TopicDescription], json: bool, with_heads: bool) -> String {
    if json {
        return pretty(&topics.iter().map(topic_json).collect());
    }
    let mut text = String::new();
    for topic in topics {
        if with_heads {
            line(&mut text, &head(topic));
        }
        for partition in &topic.partitions {
            line(&mut text, &row(&topic.name, partition));
        }
    }
    text
}

fn head(topic: &TopicDescription) -> String {
    let mut text = format!("Topic: {}", topic.name);
    if let Some(id) = topic.topic_id_text() {
        let _ = write!(text, "\tTopicId: {id}");
    }
    let factor = topic.partitions.first().map_or(0, |partition| partition.replicas.len());
    let _ =
        write!(text, "\tPartitionCount: {}\tReplicationFactor: {factor}\tConfigs: ", topic.partitions.len());
    let set = in_java_order(&topic.configs).into_iter().filter(|config| !config.is_default);
    let set: Vec<_> = set.map(|config| format!("{}={}", config.name, config.value)).collect();
    text + &set.join(",")
}

fn row(topic: &str, partition: &PartitionDescription) -> String {
    format!(
        "\tTopic: {topic}\tPartition: {}\tLeader: {}\tReplicas: {}\tIsr: {}\tElr: {}\tLastKnownElr: {}",
        partition.index,
        partition.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string()),
        numbers(&partition.replicas),
        numbers(&partition.isr),
        told(partition.eligible_leaders.as_deref()),
        told(partition.last_known_eligible_leaders.as_deref()),
    )
}

fn told(ids: Option<&[i32]>) -> String {
    ids.map_or_else(|| "N/A".to_owned(), numbers)
}

fn numbers(ids: &[i32]) -> String {
    ids.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

/// Kafka's tool prints configurations in the order of a Java hash map that they are put into one after the other.
fn in_java_order(configs: &[TopicConfigEntry]) -> Vec<&TopicConfigEntry> {
    let mut buckets: u32 = 16;
    while configs.len() > buckets as usize / 4 * 3 {
        buckets *= 2;
    }
    let bucket = |config: &&TopicConfigEntry| {
        let hash = config
            .name
            .encode_utf16()
            .fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
        (hash ^ (hash >> 16)) & (buckets - 1)
    };
    let mut ordered: Vec<_> = configs.iter().collect();
    ordered.sort_by_key(bucket);
    ordered
}

fn topic_json(topic: &TopicDescription) -> Value {
    let partition = |partition: &PartitionDescription| {
        json!({
            "partition": partition.index,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": partition.replicas,
            "isr": partition.isr,
            "offline": partition.offline,
        })
    };
    let set = topic.configs.iter().filter(|config| !config.is_default);
    json!({
        "topic": topic.name,
        "topic_id": topic.topic_id_text(),
        "internal": topic.is_internal,
        "configs": set.map(|config| (config.name.clone(), json!(config.value))).collect::<serde_json::Map<_, _>>(),
        "partitions": topic.partitions.iter().map(partition).collect::<Vec<_>>(),
    })
}

/// The brokers, and which of them is the controller.
pub fn cluster(cluster: &ClusterDescription, json: bool) -> String {
    if json {
        let brokers = cluster.brokers.iter().map(|broker| {
            json!({
                "id": broker.id,
                "host": broker.address.host,
                "port": broker.address.port,
                "rack": broker.rack,
                "controller": cluster.controller_id == Some(broker.id),
            })
        });
        return pretty(&json!({
            "cluster_id": cluster.cluster_id,
            "controller": cluster.controller_id,
            "brokers": brokers.collect::<Vec<_>>(),
        }));
    }
    let controller = cluster.controller_id.map_or_else(|| "none".to_owned(), |id| id.to_string());
    let mut text = format!(
        "ClusterId: {}\tController: {controller}\tBrokerCount: {}\n",
        cluster.cluster_id.as_deref().unwrap_or("none"),
        cluster.brokers.len()
    );
    for broker in &cluster.brokers {
        let role = if cluster.controller_id == Some(broker.id) { "\tcontroller" } else { "" };
        let rack = broker.rack.as_deref().unwrap_or("none");
        line(&mut text, &format!("\tBroker: {}\tAddress: {}\tRack: {rack}{role}", broker.id, broker.address));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use sillon_client::admin::{Address, BrokerDescription};

    fn config(name: &str, value: &str, is_default: bool) -> TopicConfigEntry {
        TopicConfigEntry { name: name.into(), value: value.into(), is_default }
    }

    fn orders() -> TopicDescription {
        let partition = |index, leader, replicas: [i32; 3], isr: &[i32]| PartitionDescription {
            index,
            leader,
            leader_epoch: 4,
            replicas: replicas.into(),
            isr: isr.into(),
            offline: Vec::new(),
            eligible_leaders: (index == 0).then(Vec::new),
            last_known_eligible_leaders: None,
        };
        TopicDescription {
            name: "orders".into(),
            topic_id: uuid::Uuid::from_u128(1),
            is_internal: false,
            partitions: vec![
                partition(0, Some(1), [1, 2, 3], &[1, 2, 3]),
                partition(1, None, [2, 3, 1], &[2]),
            ],
            configs: vec![
                config("compression.type", "producer", true),
                config("retention.ms", "1000", false),
                config("min.insync.replicas", "2", false),
            ],
        }
    }

    #[test]
    fn the_table_of_topics_is_that_of_kafka() {
        let table = topics(&[orders()], false, true);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(
            lines[0],
            "Topic: orders\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 2\tReplicationFactor: 3\t\
             Configs: min.insync.replicas=2,retention.ms=1000"
        );
        assert_eq!(
            lines[1],
            "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: N/A"
        );
        assert_eq!(
            lines[2],
            "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 2,3,1\tIsr: 2\tElr: N/A\tLastKnownElr: N/A"
        );
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn the_cluster_names_its_controller() {
        let broker = |id: i32, rack: Option<&str>| BrokerDescription {
            id,
            address: Address { host: "127.0.0.1".into(), port: 9091 + u16::try_from(id).expect("small") },
            rack: rack.map(str::to_owned),
        };
        let described = ClusterDescription {
            cluster_id: Some("c".into()),
            controller_id: Some(2),
            brokers: vec![broker(1, None), broker(2, Some("r2"))],
        };
        assert_eq!(
            cluster(&described, false),
            "ClusterId: c\tController: 2\tBrokerCount: 2\n\
             \tBroker: 1\tAddress: 127.0.0.1:9092\tRack: none\n\
             \tBroker: 2\tAddress: 127.0.0.1:9093\tRack: r2\tcontroller\n"
        );
    }

    #[test]
    fn json_tells_the_same() {
        let told: Value = serde_json::from_str(&topics(&[orders()], true, true)).expect("JSON");
        assert_eq!(told[0]["partitions"][1]["leader"], Value::Null);
        assert_eq!(told[0]["configs"]["min.insync.replicas"], "2");
    }
}
