//! ListGroups (16): the groups that this broker coordinates.

use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::{
    ErrorCode,
    messages::{ListGroupsRequest, ListGroupsResponse, ListedGroup},
};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    let is_among = |filter: &[String], name: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    let is_wanted = |group: &ListedGroup| {
        is_among(&request.states_filter, &group.group_state)
            && is_among(&request.types_filter, &group.group_type)
    };
    let mut groups = Vec::new();
    let mut code = ErrorCode::NONE;
    for work in broker.groups().all() {
        match work.with(|shard, _| shard.list().filter(is_wanted).collect::<Vec<_>>()) {
            Ok(listed) => groups.extend(listed),
            Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS) => code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
            // Its groups are another broker's by now.
            Err(_) => {}
        }
    }
    ListGroupsResponse { error_code: code.code(), groups, ..ListGroupsResponse::default() }
}
