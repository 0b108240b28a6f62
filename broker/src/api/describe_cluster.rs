//! DescribeCluster (60): the brokers and the controller.

use super::{ALL_CLUSTER_OPERATIONS, view::View};
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
    let view = View::of(broker, client);
    let brokers = view.brokers().into_iter().map(|broker| DescribeClusterBroker {
        broker_id: broker.id,
        host: broker.host,
        port: broker.port,
        rack: broker.rack,
        is_fenced: false,
    });
    DescribeClusterResponse {
        cluster_id: view.image.cluster_id.clone(),
        controller_id: view.controller(),
        brokers: brokers.collect(),
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            ALL_CLUSTER_OPERATIONS
        } else {
            AUTHORIZED_OPERATIONS_OMITTED
        },
        ..DescribeClusterResponse::default()
    }
}
