//! Every configuration key that this broker honours, as one table: name, type, default, range, meaning.
//! Owns the table and the checking of a single value; never holds a configuration.

mod cleaner;

pub use cleaner::CLEANER_KEYS;

use super::group::GROUP_KEYS;

/// What values a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A 32-bit number in a range.
    Int(i32, i32),
    /// A 64-bit number in a range.
    Long(i64, i64),
    /// A number from 0 to 1.
    Ratio,
    /// A number from 0 on, whole or not.
    Double,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// A comma-separated list of these words.
    List(&'static [&'static str]),
    /// A comma-separated list of replicas as `partition:broker`, or `*` for all.
    Replicas,
    /// Any text.
    Text,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Kafka's name for it.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value where nobody sets it.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub documentation: &'static str,
    /// For a topic's key: the broker's key that gives its default, empty where there is none. Empty for a broker's key.
    pub broker_synonym: &'static str,
    /// Whether it can be changed while the broker runs.
    pub dynamic: bool,
}

const fn topic(
    name: &'static str,
    broker_synonym: &'static str,
    kind: Kind,
    default: &'static str,
    documentation: &'static str,
) -> Key {
    Key { name, kind, default, documentation, broker_synonym, dynamic: true }
}

pub(super) const fn broker(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    documentation: &'static str,
) -> Key {
    Key { name, kind, default, documentation, broker_synonym: "", dynamic: false }
}

const fn while_running(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    documentation: &'static str,
) -> Key {
    Key { name, kind, default, documentation, broker_synonym: "", dynamic: true }
}

const LONG_MAX: &str = "9223372036854775807";
const ANY_LONG: Kind = Kind::Long(i64::MIN, i64::MAX);
const NOT_NEGATIVE: Kind = Kind::Long(0, i64::MAX);
/// The codecs of `compression.type`.
pub const COMPRESSION_TYPES: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
/// The values of `message.timestamp.type`.
pub const TIMESTAMP_TYPES: &[&str] = &["CreateTime", "LogAppendTime"];
/// The values of `replica.selector.class`: empty for the leader.
pub const REPLICA_SELECTORS: &[&str] = &[
    "",
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
];

/// The keys of a topic. Defaults are Kafka's.
pub const TOPIC_KEYS: &[Key] = &[
    topic(
        "cleanup.policy",
        "log.cleanup.policy",
        Kind::List(&["compact", "delete"]),
        "delete",
        "What is done with old segments: delete them when they are past retention, compact them to the newest record of each key, or both.",
    ),
    topic(
        "compression.type",
        "compression.type",
        Kind::Enum(COMPRESSION_TYPES),
        "producer",
        "The codec batches are stored with; `producer` keeps the producer's.",
    ),
    topic(
        "delete.retention.ms",
        "log.cleaner.delete.retention.ms",
        NOT_NEGATIVE,
        "86400000",
        "How long compaction keeps a tombstone, a key without a value, for readers that have yet to see it.",
    ),
    topic(
        "file.delete.delay.ms",
        "log.segment.delete.delay.ms",
        NOT_NEGATIVE,
        "60000",
        "How long a removed segment's files stay on disk for fetches that still read them.",
    ),
    topic(
        "flush.messages",
        "log.flush.interval.messages",
        Kind::Long(1, i64::MAX),
        LONG_MAX,
        "After how many records the log is synced to disk; 1 syncs before each acknowledgement.",
    ),
    topic(
        "flush.ms",
        "log.flush.interval.ms",
        NOT_NEGATIVE,
        LONG_MAX,
        "After how long an appended record is synced to disk.",
    ),
    topic(
        "follower.replication.throttled.replicas",
        "",
        Kind::Replicas,
        "",
        "Which replicas the throttled rate holds back as followers, as partition:broker; `*` for all.",
    ),
    topic(
        "index.interval.bytes",
        "log.index.interval.bytes",
        Kind::Int(0, i32::MAX),
        "4096",
        "How many bytes of log lie between two entries of the offset index.",
    ),
    topic(
        "leader.replication.throttled.replicas",
        "",
        Kind::Replicas,
        "",
        "Which replicas the throttled rate holds back as leaders, as partition:broker; `*` for all.",
    ),
    topic(
        "max.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        Kind::Long(1, i64::MAX),
        LONG_MAX,
        "After how long a record must have been looked at by compaction, however little of the log is dirty.",
    ),
    topic(
        "max.message.bytes",
        "message.max.bytes",
        Kind::Int(0, i32::MAX),
        "1048588",
        "The largest record batch that is accepted, after compression.",
    ),
    topic(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        NOT_NEGATIVE,
        "3600000",
        "How far in the future a record's time stamp may lie.",
    ),
    topic(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        NOT_NEGATIVE,
        LONG_MAX,
        "How far in the past a record's time stamp may lie.",
    ),
    topic(
        "message.timestamp.type",
        "log.message.timestamp.type",
        Kind::Enum(TIMESTAMP_TYPES),
        "CreateTime",
        "Whether records keep their producer's time stamp or get the broker's.",
    ),
    topic(
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        Kind::Ratio,
        "0.5",
        "Which part of a log must be dirty before it is compacted.",
    ),
    topic(
        "min.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        NOT_NEGATIVE,
        "0",
        "For how long compaction leaves a record alone.",
    ),
    topic(
        "min.insync.replicas",
        "min.insync.replicas",
        Kind::Int(1, i32::MAX),
        "1",
        "How many replicas must be in sync for acks=all to be accepted.",
    ),
    topic(
        "retention.bytes",
        "log.retention.bytes",
        ANY_LONG,
        "-1",
        "How large a partition may grow before its oldest segments are deleted; -1 for no limit.",
    ),
    topic(
        "retention.ms",
        "log.retention.ms",
        Kind::Long(-1, i64::MAX),
        "604800000",
        "How long records are kept; -1 for ever.",
    ),
    topic(
        "segment.bytes",
        "log.segment.bytes",
        Kind::Int(14, i32::MAX),
        "1073741824",
        "How large a segment grows before the log rolls to a new one.",
    ),
    topic(
        "segment.index.bytes",
        "log.index.size.max.bytes",
        Kind::Int(4, i32::MAX),
        "10485760",
        "How large a segment's index grows before the log rolls to a new segment.",
    ),
    topic(
        "segment.ms",
        "log.roll.ms",
        Kind::Long(1, i64::MAX),
        "604800000",
        "How old a segment grows before the log rolls to a new one.",
    ),
    topic(
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
        Kind::Boolean,
        "false",
        "Whether a replica that is not in sync may lead when no other can, at the cost of records.",
    ),
];

/// The keys of a broker that are not the defaults of a topic's keys, but for those of a part in a file of its own.
pub const BROKER_KEYS: &[Key] = &[
    broker(
        "advertised.listeners",
        Kind::Text,
        "",
        "The addresses that clients are told to use; empty for those of `listeners`.",
    ),
    broker(
        "auto.create.topics.enable",
        Kind::Boolean,
        "true",
        "Whether a topic is created when a client first asks for it.",
    ),
    broker(
        "auto.leader.rebalance.enable",
        Kind::Boolean,
        "true",
        "Whether the controller gives partitions back to their preferred leaders by itself.",
    ),
    broker("broker.id", Kind::Int(0, i32::MAX), "0", "This broker's number in the cluster (also `node.id`)."),
    broker(
        "broker.rack",
        Kind::Text,
        "",
        "Where this broker stands; replicas of a partition are spread over racks.",
    ),
    broker(
        "connections.max.idle.ms",
        Kind::Long(1, i64::MAX),
        "600000",
        "After how long a connection without requests is closed.",
    ),
    broker(
        "controlled.shutdown.enable",
        Kind::Boolean,
        "true",
        "Whether a broker that stops hands over first what it leads.",
    ),
    broker(
        "controlled.shutdown.max.retries",
        Kind::Int(0, i32::MAX),
        "3",
        "How often a broker that stops asks again where others cannot take over yet.",
    ),
    broker(
        "controlled.shutdown.retry.backoff.ms",
        NOT_NEGATIVE,
        "5000",
        "How long a broker that stops waits before it asks again.",
    ),
    broker(
        "default.replication.factor",
        Kind::Int(1, 32767),
        "1",
        "How many replicas a topic gets that names none.",
    ),
    broker("delete.topic.enable", Kind::Boolean, "true", "Whether topics can be deleted."),
    broker(
        "fetch.max.bytes",
        Kind::Int(1024, i32::MAX),
        "57671680",
        "The most that one fetch answer carries, whatever the client allows.",
    ),
    while_running(
        "follower.replication.throttled.rate",
        NOT_NEGATIVE,
        LONG_MAX,
        "How much throttled replicas may fetch as followers, in bytes per second.",
    ),
    broker(
        "inter.broker.listener.name",
        Kind::Text,
        "",
        "The listener that other brokers are to use; empty for the first one.",
    ),
    broker(
        "leader.imbalance.check.interval.seconds",
        Kind::Long(1, i64::MAX),
        "300",
        "How often the controller looks for partitions that their preferred leader does not lead.",
    ),
    broker(
        "leader.imbalance.per.broker.percentage",
        Kind::Int(0, i32::MAX),
        "10",
        "Which share of its preferred partitions a broker may miss before they are given back to it, in percent.",
    ),
    while_running(
        "leader.replication.throttled.rate",
        NOT_NEGATIVE,
        LONG_MAX,
        "How much throttled replicas may send as leaders, in bytes per second.",
    ),
    broker(
        "listeners",
        Kind::Text,
        "PLAINTEXT://127.0.0.1:9092",
        "Where to listen, as PLAINTEXT://host:port; an empty host is every address of the machine.",
    ),
    broker(
        "log.dirs",
        Kind::Text,
        "data/sillon",
        "The directories that hold the logs, comma-separated (also `log.dir`).",
    ),
    broker(
        "log.flush.offset.checkpoint.interval.ms",
        Kind::Int(1, i32::MAX),
        "60000",
        "How often the recovery points are written to their checkpoint.",
    ),
    broker(
        "log.flush.scheduler.interval.ms",
        Kind::Long(1, i64::MAX),
        "1000",
        "How often logs are looked at whose `flush.ms` has passed.",
    ),
    broker(
        "log.retention.check.interval.ms",
        Kind::Long(1, i64::MAX),
        "300000",
        "How often logs are looked at for segments past retention.",
    ),
    broker(
        "max.incremental.fetch.session.cache.slots",
        Kind::Int(0, i32::MAX),
        "1000",
        "How many incremental fetch sessions are kept.",
    ),
    broker(
        "num.partitions",
        Kind::Int(1, i32::MAX),
        "1",
        "How many partitions a topic gets that names no number.",
    ),
    broker(
        "num.replica.fetchers",
        Kind::Int(1, i32::MAX),
        "1",
        "Over how many connections a broker follows each other broker.",
    ),
    broker(
        "producer.id.expiration.ms",
        Kind::Int(1, i32::MAX),
        "86400000",
        "After how long without a write an idempotent producer is forgotten.",
    ),
    while_running(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        NOT_NEGATIVE,
        LONG_MAX,
        "How fast a log may move between the directories of a broker.",
    ),
    broker(
        "replica.fetch.backoff.ms",
        NOT_NEGATIVE,
        "100",
        "How long a follower waits after an error before it fetches again.",
    ),
    broker(
        "replica.fetch.max.bytes",
        Kind::Int(0, i32::MAX),
        "1048576",
        "How much of one partition a follower asks for at a time.",
    ),
    broker(
        "replica.fetch.min.bytes",
        Kind::Int(0, i32::MAX),
        "1",
        "How much there is to be before a follower's fetch is answered early.",
    ),
    broker(
        "replica.fetch.response.max.bytes",
        Kind::Int(0, i32::MAX),
        "10485760",
        "How much a follower asks for at a time in all.",
    ),
    broker(
        "replica.fetch.wait.max.ms",
        Kind::Int(0, i32::MAX),
        "500",
        "How long a follower's fetch waits where there is nothing new.",
    ),
    broker(
        "replica.high.watermark.checkpoint.interval.ms",
        Kind::Long(1, i64::MAX),
        "5000",
        "How often the high watermarks are written to their checkpoint.",
    ),
    broker(
        "replica.lag.time.max.ms",
        Kind::Long(1, i64::MAX),
        "30000",
        "After how long without catching up a follower is no longer in sync.",
    ),
    broker(
        "replica.selector.class",
        Kind::Enum(REPLICA_SELECTORS),
        "",
        "Which replica a consumer is sent to: the leader, or one in its own rack.",
    ),
    broker(
        "sillon.coordinator.data.dir",
        Kind::Text,
        "",
        "Where the embedded coordinator keeps its data; empty for the first log directory's name with `.coordinator` behind it.",
    ),
    broker(
        "sillon.coordinator.port",
        Kind::Int(0, 65535),
        "0",
        "The port of the embedded coordinator, on the loopback address; 0 for a free one.",
    ),
    broker(
        "socket.request.max.bytes",
        Kind::Int(1, i32::MAX),
        "104857600",
        "The largest request that is read; a larger one closes the connection.",
    ),
    broker(
        "zookeeper.connect",
        Kind::Text,
        "",
        "The coordinator's members, as host:port,host:port/path; empty to run a coordinator inside the broker.",
    ),
    broker(
        "zookeeper.session.timeout.ms",
        Kind::Int(1, i32::MAX),
        "6000",
        "After how long of silence the coordinator takes the broker for dead. (Kafka: 18000.)",
    ),
];

impl Key {
    /// Checks a value. The text of an error says what is allowed.
    ///
    /// # Errors
    /// What is wrong with it, in words that follow "Invalid value X for configuration Y: ".
    pub fn check(&self, value: &str) -> Result<(), String> {
        match self.kind {
            Kind::Boolean if value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") => {
                Ok(())
            }
            Kind::Boolean => Err("true or false is expected".to_owned()),
            Kind::Int(low, high) => check_number(value, i64::from(low), i64::from(high)),
            Kind::Long(low, high) => check_number(value, low, high),
            Kind::Ratio => match value.parse::<f64>() {
                Ok(number) if (0.0..=1.0).contains(&number) => Ok(()),
                _ => Err("a number from 0 to 1 is expected".to_owned()),
            },
            Kind::Double => match value.parse::<f64>() {
                Ok(number) if number >= 0.0 => Ok(()),
                _ => Err("a number from 0 on is expected".to_owned()),
            },
            Kind::Enum(words) if words.contains(&value) => Ok(()),
            Kind::Enum(words) => Err(format!("one of {} is expected", words.join(", "))),
            Kind::List(words) => match value.split(',').map(str::trim).find(|word| !words.contains(word)) {
                None => Ok(()),
                Some(_) => Err(format!("a list of {} is expected", words.join(", "))),
            },
            Kind::Replicas if value == "*" || words(value).all(is_replica) => Ok(()),
            Kind::Replicas => Err("* or a list of partition:broker is expected".to_owned()),
            Kind::Text => Ok(()),
        }
    }

    /// Whether words can be added to its value and taken out of it.
    pub fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_) | Kind::Replicas)
    }

    /// Its name on a broker: the one that gives the default of a topic's key, else its own.
    pub fn name_on_broker(&self) -> &'static str {
        if self.broker_synonym.is_empty() { self.name } else { self.broker_synonym }
    }
}

fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn is_replica(word: &str) -> bool {
    let is_number = |text: &str| text.parse::<i32>().is_ok_and(|number| number >= 0);
    word.split_once(':').is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
}

fn check_number(value: &str, low: i64, high: i64) -> Result<(), String> {
    match value.parse::<i64>() {
        Ok(number) if (low..=high).contains(&number) => Ok(()),
        Ok(_) if high == i64::MAX || high == i64::from(i32::MAX) => {
            Err(format!("at least {low} is expected"))
        }
        Ok(_) => Err(format!("a number from {low} to {high} is expected")),
        Err(_) => Err("a whole number is expected".to_owned()),
    }
}

/// The topic key of that name.
pub fn topic_key(name: &str) -> Option<&'static Key> {
    TOPIC_KEYS.iter().find(|key| key.name == name)
}

/// Every key of a broker, those that give topics their defaults among them.
pub fn broker_keys() -> impl Iterator<Item = &'static Key> {
    BROKER_KEYS
        .iter()
        .chain(GROUP_KEYS)
        .chain(CLEANER_KEYS)
        .chain(TOPIC_KEYS.iter().filter(|key| !key.broker_synonym.is_empty()))
}

/// The key of a broker of that name, with the topic key whose default it gives, if it gives one.
pub fn broker_key(name: &str) -> Option<&'static Key> {
    broker_keys().find(|key| key.name_on_broker() == name)
}

#[cfg(test)]
mod tests;
