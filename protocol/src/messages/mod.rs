//! Kafka's messages, one file per API, at the versions of Kafka 4.1, and the dispatch over all of them.
//! Knows the layout of messages, nothing of what they do.
//!
//! Names follow Kafka's JSON schemas in snake case. Nullable fields default to `None`, also where
//! Kafka's generated classes default to an empty string or array.

mod alter_configs;
mod alter_partition;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod api_versions;
mod common;
mod consumer_protocol;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod elect_leaders;
mod fetch;
mod find_coordinator;
mod header;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod offsets_topic;
mod private;
mod produce;
mod sync_group;

use std::ops::RangeInclusive;

pub use alter_configs::*;
pub use alter_partition::*;
pub use alter_partition_reassignments::*;
pub use alter_replica_log_dirs::*;
pub use api_versions::*;
pub use common::*;
pub use consumer_protocol::*;
pub use create_partitions::*;
pub use create_topics::*;
pub use delete_groups::*;
pub use delete_records::*;
pub use delete_topics::*;
pub use describe_cluster::*;
pub use describe_configs::*;
pub use describe_groups::*;
pub use describe_log_dirs::*;
pub use describe_producers::*;
pub use describe_topic_partitions::*;
pub use elect_leaders::*;
pub use fetch::*;
pub use find_coordinator::*;
pub use header::*;
pub use heartbeat::*;
pub use incremental_alter_configs::*;
pub use init_producer_id::*;
pub use join_group::*;
pub use leave_group::*;
pub use list_config_resources::*;
pub use list_groups::*;
pub use list_offsets::*;
pub use list_partition_reassignments::*;
pub use metadata::*;
pub use offset_commit::*;
pub use offset_delete::*;
pub use offset_fetch::*;
pub use offset_for_leader_epoch::*;
pub use offsets_topic::*;
pub use private::*;
pub use produce::*;
pub use sync_group::*;

use crate::ApiKey;
use crate::wire::{DecodeError, Decoder, EncodeError, Encoder, Message, Request};

macro_rules! requests {
    ($($api:ident: $request:ident => $response:ident;)*) => {
        /// The APIs that have messages here, in the order of their codes.
        pub const SUPPORTED_APIS: &[ApiKey] = &[$(ApiKey::$api,)*];

        $(
            impl Request for $request {
                const API_KEY: ApiKey = ApiKey::$api;
                type Response = $response;
            }
        )*

        /// A request of any supported API.
        #[derive(Debug, Clone, PartialEq)]
        pub enum AnyRequest {
            $(#[doc = concat!("A request of ", stringify!($api), ".")] $api($request),)*
        }

        /// A response of any supported API.
        #[derive(Debug, Clone, PartialEq)]
        pub enum AnyResponse {
            $(#[doc = concat!("A response of ", stringify!($api), ".")] $api($response),)*
        }

        impl AnyRequest {
            /// The API of this request.
            pub fn api_key(&self) -> ApiKey {
                match self {
                    $(Self::$api(_) => ApiKey::$api,)*
                }
            }

            /// Reads the body of a request. Bytes that follow it are ignored: some clients send them.
            ///
            /// # Errors
            /// An API without messages here, an unknown version, or bytes that are no such request.
            pub fn decode(
                api_key: ApiKey,
                version: i16,
                decoder: &mut Decoder<'_>,
            ) -> Result<Self, DecodeError> {
                match api_key {
                    $(ApiKey::$api => Message::decode(version, decoder).map(Self::$api),)*
                    _ => Err(DecodeError::UnsupportedApi { api_key: api_key.code() }),
                }
            }

            /// Appends the body of the request.
            ///
            /// # Errors
            /// A request that `version` cannot carry.
            pub fn encode(&self, version: i16, encoder: &mut Encoder) -> Result<(), EncodeError> {
                match self {
                    $(Self::$api(request) => Message::encode(request, version, encoder),)*
                }
            }
        }

        impl AnyResponse {
            /// The API of this response.
            pub fn api_key(&self) -> ApiKey {
                match self {
                    $(Self::$api(_) => ApiKey::$api,)*
                }
            }

            /// Reads the body of a response.
            ///
            /// # Errors
            /// An API without messages here, an unknown version, or bytes that are no such response.
            pub fn decode(
                api_key: ApiKey,
                version: i16,
                decoder: &mut Decoder<'_>,
            ) -> Result<Self, DecodeError> {
                match api_key {
                    $(ApiKey::$api => Message::decode(version, decoder).map(Self::$api),)*
                    _ => Err(DecodeError::UnsupportedApi { api_key: api_key.code() }),
                }
            }

            /// Appends the body of the response.
            ///
            /// # Errors
            /// A response that `version` cannot carry.
            pub fn encode(&self, version: i16, encoder: &mut Encoder) -> Result<(), EncodeError> {
                match self {
                    $(Self::$api(response) => Message::encode(response, version, encoder),)*
                }
            }
        }

        $(
            impl From<$request> for AnyRequest {
                fn from(request: $request) -> Self {
                    Self::$api(request)
                }
            }

            impl From<$response> for AnyResponse {
                fn from(response: $response) -> Self {
                    Self::$api(response)
                }
            }
        )*

        /// The versions in which messages of an API are known; `None` if there are none here.
        pub fn supported_versions(api_key: ApiKey) -> Option<RangeInclusive<i16>> {
            match api_key {
                $(ApiKey::$api => Some(<$request as Message>::VERSIONS),)*
                _ => None,
            }
        }

        /// Version of the header in front of a request. APIs without messages here are taken as flexible,
        /// as all of Kafka's newer ones and the private ones are.
        pub fn request_header_version(api_key: ApiKey, version: i16) -> i16 {
            match api_key {
                $(ApiKey::$api => <$request as Request>::request_header_version(version),)*
                _ => 2,
            }
        }

        /// Version of the header in front of a response. APIs without messages here are taken as flexible,
        /// as all of Kafka's newer ones and the private ones are.
        pub fn response_header_version(api_key: ApiKey, version: i16) -> i16 {
            match api_key {
                $(ApiKey::$api => <$request as Request>::response_header_version(version),)*
                _ => 1,
            }
        }

        /// Random messages of every API, for tests (feature `arbitrary`).
        #[cfg(any(test, feature = "arbitrary"))]
        pub mod arbitrary {
            use super::{$($request, $response,)* AnyRequest, AnyResponse};
            use crate::ApiKey;
            use crate::wire::arbitrary::{Arbitrary, Random};
            use crate::wire::{Format, Message};

            /// A random request that `version` can carry; `None` for an API without messages here.
            pub fn request(api_key: ApiKey, version: i16, random: &mut Random) -> Option<AnyRequest> {
                match api_key {
                    $(ApiKey::$api => {
                        Some(AnyRequest::$api(message::<$request>(version, random)))
                    })*
                    _ => None,
                }
            }

            /// A random response that `version` can carry; `None` for an API without messages here.
            pub fn response(api_key: ApiKey, version: i16, random: &mut Random) -> Option<AnyResponse> {
                match api_key {
                    $(ApiKey::$api => {
                        Some(AnyResponse::$api(message::<$response>(version, random)))
                    })*
                    _ => None,
                }
            }

            /// A random message that `version` can carry.
            pub fn message<M: Message + Arbitrary>(version: i16, random: &mut Random) -> M {
                let format = Format { version, flexible: M::is_flexible(version) };
                M::arbitrary(format, false, random)
            }
        }
    };
}

requests! {
    Produce: ProduceRequest => ProduceResponse;
    Fetch: FetchRequest => FetchResponse;
    ListOffsets: ListOffsetsRequest => ListOffsetsResponse;
    Metadata: MetadataRequest => MetadataResponse;
    OffsetCommit: OffsetCommitRequest => OffsetCommitResponse;
    OffsetFetch: OffsetFetchRequest => OffsetFetchResponse;
    FindCoordinator: FindCoordinatorRequest => FindCoordinatorResponse;
    JoinGroup: JoinGroupRequest => JoinGroupResponse;
    Heartbeat: HeartbeatRequest => HeartbeatResponse;
    LeaveGroup: LeaveGroupRequest => LeaveGroupResponse;
    SyncGroup: SyncGroupRequest => SyncGroupResponse;
    DescribeGroups: DescribeGroupsRequest => DescribeGroupsResponse;
    ListGroups: ListGroupsRequest => ListGroupsResponse;
    ApiVersions: ApiVersionsRequest => ApiVersionsResponse;
    CreateTopics: CreateTopicsRequest => CreateTopicsResponse;
    DeleteTopics: DeleteTopicsRequest => DeleteTopicsResponse;
    DeleteRecords: DeleteRecordsRequest => DeleteRecordsResponse;
    InitProducerId: InitProducerIdRequest => InitProducerIdResponse;
    OffsetForLeaderEpoch: OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse;
    DescribeConfigs: DescribeConfigsRequest => DescribeConfigsResponse;
    AlterConfigs: AlterConfigsRequest => AlterConfigsResponse;
    AlterReplicaLogDirs: AlterReplicaLogDirsRequest => AlterReplicaLogDirsResponse;
    DescribeLogDirs: DescribeLogDirsRequest => DescribeLogDirsResponse;
    CreatePartitions: CreatePartitionsRequest => CreatePartitionsResponse;
    DeleteGroups: DeleteGroupsRequest => DeleteGroupsResponse;
    ElectLeaders: ElectLeadersRequest => ElectLeadersResponse;
    IncrementalAlterConfigs: IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse;
    AlterPartitionReassignments: AlterPartitionReassignmentsRequest => AlterPartitionReassignmentsResponse;
    ListPartitionReassignments: ListPartitionReassignmentsRequest => ListPartitionReassignmentsResponse;
    OffsetDelete: OffsetDeleteRequest => OffsetDeleteResponse;
    AlterPartition: AlterPartitionRequest => AlterPartitionResponse;
    DescribeCluster: DescribeClusterRequest => DescribeClusterResponse;
    DescribeProducers: DescribeProducersRequest => DescribeProducersResponse;
    ListConfigResources: ListConfigResourcesRequest => ListConfigResourcesResponse;
    DescribeTopicPartitions: DescribeTopicPartitionsRequest => DescribeTopicPartitionsResponse;
}
