//! DescribeCluster (60): the brokers and the controller.

use super::{ALL_CLUSTER_OPERATIONS, endpoint};
use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{
        AUTHORIZED_OPERATIONS_OMITTED, DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
    },
};

/// The endpoint type that asks for brokers; the other known one, 2, asks for controllers of their own.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(crate) async fn handle(
    broker: &Broker,
    client: &Client,
    _: i16,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let refused = match request.endpoint_type {
        BROKERS => None,
        CONTROLLERS => Some(ErrorCode::MISMATCHED_ENDPOINT_TYPE),
        _ => Some(ErrorCode::UNSUPPORTED_ENDPOINT_TYPE),
    };
    if let Some(code) = refused {
        let error_message = Some(code.message().to_owned());
        return DescribeClusterResponse { error_code: code.code(), error_message, ..Default::default() };
    }
    let (host, port) = endpoint(broker, client);
    let broker_id = broker.config().broker_id.0;
    DescribeClusterResponse {
        cluster_id: broker.image().cluster_id.clone(),
        controller_id: broker_id,
        brokers: vec![DescribeClusterBroker { broker_id, host, port, rack: None, is_fenced: false }],
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            ALL_CLUSTER_OPERATIONS
        } else {
            AUTHORIZED_OPERATIONS_OMITTED
        },
        ..DescribeClusterResponse::default()
    }
}
