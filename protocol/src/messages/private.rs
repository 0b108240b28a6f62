//! Sillon's own messages between brokers, with keys from [`crate::FIRST_PRIVATE_API_KEY`] on. All brokers of a cluster
//! speak version 0; what is in `payload` fields belongs to the broker.

use bytes::Bytes;
use uuid::Uuid;

use crate::ApiKey;
use crate::wire::Request;

crate::schema! {
    /// Follows the metadata: asks the controller for what changed, and waits for it. An open request of this kind also
    /// tells the controller that the broker's process lives.
    pub struct FetchMetadataRequest (versions 0..=0, flexible 0..) {
        /// The broker that asks.
        broker_id: i32;
        /// Its registration, -1 before it has one.
        broker_epoch: i64 = -1;
        /// The controller whose metadata it has, -1 for none.
        controller_epoch: i32 = -1;
        /// Up to where it has it.
        version: i64 = -1;
        /// How long to wait for a change, in milliseconds.
        max_wait_ms: i32;
    }

    /// What changed since.
    pub struct FetchMetadataResponse (versions 0..=0, flexible 0..) {
        /// Error code, 0 for none.
        error_code: i16;
        /// The controller that answers.
        controller_epoch: i32 = -1;
        /// Up to where the metadata goes.
        version: i64 = -1;
        /// Whether the deltas make the metadata out of nothing.
        is_snapshot: bool;
        /// The deltas.
        payload: Bytes;
    }

    /// Hands a client's request to the controller.
    pub struct ForwardRequest (versions 0..=0, flexible 0..) {
        /// The broker that hands it on.
        broker_id: i32;
        /// The request as it came: header and body.
        payload: Bytes;
    }

    /// The controller's answer to a client.
    pub struct ForwardResponse (versions 0..=0, flexible 0..) {
        /// Error code, 0 for none.
        error_code: i16;
        /// The controller that answers.
        controller_epoch: i32 = -1;
        /// What the request led to is in the metadata from here on.
        version: i64 = -1;
        /// The answer: header and body.
        payload: Bytes;
    }

    /// A broker wants to stop, and to lead nothing by then.
    pub struct PrepareShutdownRequest (versions 0..=0, flexible 0..) {
        /// The broker.
        broker_id: i32;
        /// Its registration.
        broker_epoch: i64 = -1;
    }

    /// How far others have taken over.
    pub struct PrepareShutdownResponse (versions 0..=0, flexible 0..) {
        /// Error code, 0 for none.
        error_code: i16;
        /// How many partitions the broker still leads.
        remaining_partitions: i32;
    }

    /// The controller asks a broker how far its logs go, where nobody leads and the most complete log is to.
    pub struct DescribeReplicasRequest (versions 0..=0, flexible 0..) {
        /// The broker's registration. A process that does not have it answers with an error.
        broker_epoch: i64 = -1;
        /// Which logs, by topic.
        topics: Vec<DescribeReplicasTopic>;
    }

    /// Logs of one topic.
    pub struct DescribeReplicasTopic {
        /// Topic id.
        topic_id: Uuid;
        /// Which logs, by partition.
        partitions: Vec<DescribeReplicasPartition>;
    }

    /// The log of one partition.
    pub struct DescribeReplicasPartition {
        /// Partition index.
        partition_index: i32;
        /// The state that the broker must have heard of, so that the log stands still.
        partition_epoch: i32;
    }

    /// How far logs go.
    pub struct DescribeReplicasResponse (versions 0..=0, flexible 0..) {
        /// Error code of the whole request, 0 for none.
        error_code: i16;
        /// The registration of the process that answers, -1 where it has none.
        broker_epoch: i64 = -1;
        /// The logs, by topic.
        topics: Vec<DescribedReplicasTopic>;
    }

    /// Logs of one topic.
    pub struct DescribedReplicasTopic {
        /// Topic id.
        topic_id: Uuid;
        /// The logs, by partition.
        partitions: Vec<DescribedReplica>;
    }

    /// The log of one partition.
    pub struct DescribedReplica {
        /// Partition index.
        partition_index: i32;
        /// Error code, 0 for none.
        error_code: i16;
        /// The state for which it holds.
        partition_epoch: i32;
        /// The epoch of the last record, -1 where there is none.
        latest_epoch: i32 = -1;
        /// Where the log ends, -1 with an error.
        log_end_offset: i64 = -1;
    }
}

macro_rules! keys {
    ($($code:literal: $request:ident => $response:ident;)*) => {
        $(
            impl Request for $request {
                const API_KEY: ApiKey = ApiKey::Private($code);
                type Response = $response;
            }
        )*
    };
}

keys! {
    10_000: FetchMetadataRequest => FetchMetadataResponse;
    10_001: ForwardRequest => ForwardResponse;
    10_002: PrepareShutdownRequest => PrepareShutdownResponse;
    10_003: DescribeReplicasRequest => DescribeReplicasResponse;
}
