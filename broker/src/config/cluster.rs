//! What a broker's file says of its cluster and of replication. Owns the typed values; the table of keys has the names.

use super::Values;

/// How the broker is part of its cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `inter.broker.listener.name`; none for the first listener.
    pub inter_broker_listener: Option<String>,
    /// `zookeeper.connect`; none to run a coordinator inside the broker.
    pub coordinator_connect: Option<String>,
    /// `zookeeper.session.timeout.ms`.
    pub coordinator_session_timeout_ms: u64,
    /// `sillon.coordinator.port`, of the coordinator inside the broker; 0 for a free one.
    pub coordinator_port: u16,
    /// `sillon.coordinator.data.dir`; none for the first log directory's name with `.coordinator` behind it.
    pub coordinator_data_dir: Option<String>,
    /// `controlled.shutdown.enable`.
    pub controlled_shutdown: bool,
    /// `controlled.shutdown.max.retries`.
    pub controlled_shutdown_max_retries: u32,
    /// `controlled.shutdown.retry.backoff.ms`.
    pub controlled_shutdown_retry_backoff_ms: u64,
    /// `auto.leader.rebalance.enable`.
    pub leader_rebalance: bool,
    /// `leader.imbalance.check.interval.seconds`, in milliseconds.
    pub leader_imbalance_check_interval_ms: u64,
    /// `leader.imbalance.per.broker.percentage`.
    pub leader_imbalance_percentage: u32,
}

/// How replicas follow their leaders.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicationConfig {
    /// `replica.lag.time.max.ms`.
    pub lag_time_max_ms: u64,
    /// `replica.fetch.max.bytes`.
    pub fetch_max_bytes: i32,
    /// `replica.fetch.response.max.bytes`.
    pub fetch_response_max_bytes: i32,
    /// `replica.fetch.wait.max.ms`.
    pub fetch_wait_max_ms: i32,
    /// `replica.fetch.min.bytes`.
    pub fetch_min_bytes: i32,
    /// `replica.fetch.backoff.ms`. Kafka waits a second; a leader that has just moved is back much sooner.
    pub fetch_backoff_ms: u64,
    /// `num.replica.fetchers`: connections to each other broker.
    pub fetchers: usize,
    /// `replica.selector.class`.
    pub selector: ReplicaSelector,
}

/// Which replica a consumer is sent to (KIP-392).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaSelector {
    /// The leader, always.
    Leader,
    /// One in the consumer's own rack, where there is one that is in sync.
    RackAware,
}

impl ClusterConfig {
    pub(super) fn read(values: &Values<'_>) -> ClusterConfig {
        let text = |name: &str| Some(values.text(name).to_owned()).filter(|value| !value.is_empty());
        let imbalance_check_seconds: u64 = values.number("leader.imbalance.check.interval.seconds");
        ClusterConfig {
            rack: text("broker.rack"),
            inter_broker_listener: text("inter.broker.listener.name"),
            coordinator_connect: text("zookeeper.connect"),
            coordinator_session_timeout_ms: values.number("zookeeper.session.timeout.ms"),
            coordinator_port: values.number("sillon.coordinator.port"),
            coordinator_data_dir: text("sillon.coordinator.data.dir"),
            controlled_shutdown: values.boolean("controlled.shutdown.enable"),
            controlled_shutdown_max_retries: values.number("controlled.shutdown.max.retries"),
            controlled_shutdown_retry_backoff_ms: values.number("controlled.shutdown.retry.backoff.ms"),
            leader_rebalance: values.boolean("auto.leader.rebalance.enable"),
            leader_imbalance_check_interval_ms: imbalance_check_seconds.saturating_mul(1000),
            leader_imbalance_percentage: values.number("leader.imbalance.per.broker.percentage"),
        }
    }
}

impl ReplicationConfig {
    pub(super) fn read(values: &Values<'_>) -> ReplicationConfig {
        ReplicationConfig {
            lag_time_max_ms: values.number("replica.lag.time.max.ms"),
            fetch_max_bytes: values.number("replica.fetch.max.bytes"),
            fetch_response_max_bytes: values.number("replica.fetch.response.max.bytes"),
            fetch_wait_max_ms: values.number("replica.fetch.wait.max.ms"),
            fetch_min_bytes: values.number("replica.fetch.min.bytes"),
            fetch_backoff_ms: values.number("replica.fetch.backoff.ms"),
            fetchers: values.number("num.replica.fetchers"),
            selector: match values.text("replica.selector.class") {
                "org.apache.kafka.common.replica.RackAwareReplicaSelector" => ReplicaSelector::RackAware,
                _ => ReplicaSelector::Leader,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::BrokerConfig;

    #[test]
    fn a_broker_without_a_coordinator_runs_one_inside() {
        let config = BrokerConfig::default();
        assert_eq!(config.cluster.coordinator_connect, None);
        assert_eq!(config.replication.lag_time_max_ms, 30_000);
        let text = "zookeeper.connect=c1:2181,c2:2181/sillon\nbroker.rack=a\nreplica.lag.time.max.ms=500";
        let (config, warnings) = BrokerConfig::from_properties(text, "x").unwrap();
        assert_eq!(warnings, []);
        assert_eq!(config.cluster.coordinator_connect.as_deref(), Some("c1:2181,c2:2181/sillon"));
        assert_eq!(config.cluster.rack.as_deref(), Some("a"));
        assert_eq!(config.replication.lag_time_max_ms, 500);
    }

    #[test]
    fn brokers_talk_over_a_listener_that_there_is() {
        let error = BrokerConfig::from_properties("inter.broker.listener.name=SSL", "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "x:1: invalid value \"SSL\" for inter.broker.listener.name: the name of one of the listeners is expected"
        );
    }
}
