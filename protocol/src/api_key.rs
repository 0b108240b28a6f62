//! The numbers of Kafka's APIs. Says nothing about which of them are built or in which versions.

use std::fmt;

/// The lowest code of Sillon's own APIs between brokers. Kafka's stay far below.
pub const FIRST_PRIVATE_API_KEY: i16 = 10_000;

/// The highest code of Sillon's own APIs between brokers.
pub const LAST_PRIVATE_API_KEY: i16 = 10_099;

macro_rules! api_keys {
    ($($(#[$meta:meta])* $name:ident = $code:literal,)*) => {
        /// An API of Kafka's protocol, or one of Sillon's own between brokers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ApiKey {
            $(
                #[doc = concat!(stringify!($name), ", key ", stringify!($code), ".")]
                $(#[$meta])* $name,
            )*
            /// One of Sillon's own, with its code from [`FIRST_PRIVATE_API_KEY`] to
            /// [`LAST_PRIVATE_API_KEY`]. Always flexible: request header 2, response header 1.
            Private(i16),
        }

        impl ApiKey {
            /// All of Kafka's APIs known here, in the order of their codes.
            pub const ALL: &[ApiKey] = &[$(ApiKey::$name,)*];

            /// The code on the wire.
            pub const fn code(self) -> i16 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Private(code) => code,
                }
            }

            /// The API with this code, or `None` if no such API is known.
            pub const fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    FIRST_PRIVATE_API_KEY..=LAST_PRIVATE_API_KEY => Some(Self::Private(code)),
                    _ => None,
                }
            }

            /// Kafka's name, as its tools print it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    Self::Private(_) => "Private",
                }
            }
        }
    };
}

api_keys! {
    Produce = 0,
    Fetch = 1,
    ListOffsets = 2,
    Metadata = 3,
    LeaderAndIsr = 4,
    StopReplica = 5,
    UpdateMetadata = 6,
    ControlledShutdown = 7,
    OffsetCommit = 8,
    OffsetFetch = 9,
    FindCoordinator = 10,
    JoinGroup = 11,
    Heartbeat = 12,
    LeaveGroup = 13,
    SyncGroup = 14,
    DescribeGroups = 15,
    ListGroups = 16,
    SaslHandshake = 17,
    ApiVersions = 18,
    CreateTopics = 19,
    DeleteTopics = 20,
    DeleteRecords = 21,
    InitProducerId = 22,
    OffsetForLeaderEpoch = 23,
    AddPartitionsToTxn = 24,
    AddOffsetsToTxn = 25,
    EndTxn = 26,
    WriteTxnMarkers = 27,
    TxnOffsetCommit = 28,
    DescribeAcls = 29,
    CreateAcls = 30,
    DeleteAcls = 31,
    DescribeConfigs = 32,
    AlterConfigs = 33,
    AlterReplicaLogDirs = 34,
    DescribeLogDirs = 35,
    SaslAuthenticate = 36,
    CreatePartitions = 37,
    CreateDelegationToken = 38,
    RenewDelegationToken = 39,
    ExpireDelegationToken = 40,
    DescribeDelegationToken = 41,
    DeleteGroups = 42,
    ElectLeaders = 43,
    IncrementalAlterConfigs = 44,
    AlterPartitionReassignments = 45,
    ListPartitionReassignments = 46,
    OffsetDelete = 47,
    DescribeClientQuotas = 48,
    AlterClientQuotas = 49,
    DescribeUserScramCredentials = 50,
    AlterUserScramCredentials = 51,
    Vote = 52,
    BeginQuorumEpoch = 53,
    EndQuorumEpoch = 54,
    DescribeQuorum = 55,
    AlterPartition = 56,
    UpdateFeatures = 57,
    Envelope = 58,
    FetchSnapshot = 59,
    DescribeCluster = 60,
    DescribeProducers = 61,
    BrokerRegistration = 62,
    BrokerHeartbeat = 63,
    UnregisterBroker = 64,
    DescribeTransactions = 65,
    ListTransactions = 66,
    AllocateProducerIds = 67,
    ConsumerGroupHeartbeat = 68,
    ConsumerGroupDescribe = 69,
    ControllerRegistration = 70,
    GetTelemetrySubscriptions = 71,
    PushTelemetry = 72,
    AssignReplicasToDirs = 73,
    ListConfigResources = 74,
    DescribeTopicPartitions = 75,
    ShareGroupHeartbeat = 76,
    ShareGroupDescribe = 77,
    ShareFetch = 78,
    ShareAcknowledge = 79,
    AddRaftVoter = 80,
    RemoveRaftVoter = 81,
    UpdateRaftVoter = 82,
    InitializeShareGroupState = 83,
    ReadShareGroupState = 84,
    WriteShareGroupState = 85,
    DeleteShareGroupState = 86,
    ReadShareGroupStateSummary = 87,
    DescribeShareGroupOffsets = 90,
    AlterShareGroupOffsets = 91,
    DeleteShareGroupOffsets = 92,
}

impl fmt::Display for ApiKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Private(code) => write!(formatter, "Private({code})"),
            known => formatter.write_str(known.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_leads_back_to_its_api() {
        for &api_key in ApiKey::ALL {
            assert_eq!(ApiKey::from_code(api_key.code()), Some(api_key));
        }
        assert!(ApiKey::ALL.is_sorted());
    }

    #[test]
    fn codes_outside_of_both_ranges_are_unknown() {
        for code in [i16::MIN, -1, 88, 89, 93, FIRST_PRIVATE_API_KEY - 1, LAST_PRIVATE_API_KEY + 1, i16::MAX]
        {
            assert_eq!(ApiKey::from_code(code), None);
        }
        for code in [FIRST_PRIVATE_API_KEY, LAST_PRIVATE_API_KEY] {
            assert_eq!(ApiKey::from_code(code), Some(ApiKey::Private(code)));
            assert_eq!(ApiKey::Private(code).code(), code);
        }
    }

    #[test]
    fn the_oracle_agrees_on_every_code_it_knows() {
        for code in 0..200 {
            if let Ok(theirs) = kafka_protocol::messages::ApiKey::try_from(code) {
                assert_eq!(ApiKey::from_code(code).map(ApiKey::name), Some(format!("{theirs:?}").as_str()));
            }
        }
    }
}
