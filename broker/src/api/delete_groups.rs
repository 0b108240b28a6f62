//! DeleteGroups (42): removes groups without members, and their offsets.

use super::groups::written;
use crate::{broker::Broker, server::dispatch::Client};
use sillon_protocol::messages::{DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse};

pub(crate) async fn handle(
    broker: &Broker,
    _: &Client,
    _: i16,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let mut asked = Vec::with_capacity(request.groups_names.len());
    for group_id in request.groups_names {
        let waiting = broker
            .groups()
            .find(broker, &group_id)
            .and_then(|work| work.ask(|shard, token, now| shard.delete(&group_id, token, now)));
        asked.push((group_id, waiting));
    }
    let mut results = Vec::with_capacity(asked.len());
    for (group_id, waiting) in asked {
        let code = match waiting {
            Ok(((), receiver)) => {
                written(broker.runtime(), broker.groups().settings().commit_timeout, receiver).await
            }
            Err(code) => code,
        };
        results.push(DeletableGroupResult { group_id, error_code: code.code() });
    }
    DeleteGroupsResponse { results, ..DeleteGroupsResponse::default() }
}
