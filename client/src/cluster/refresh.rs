//! The task that keeps the metadata fresh: asks when somebody wants it or when it is old, and no more often than the
//! backoff permits.

use super::{Cluster, Interest, Shared, State};
use crate::{ClientError, backoff::backoff, cluster::failed};
use sillon_protocol::messages::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use sillon_runtime::{Monotonic, Tasks};
use std::{sync::Arc, time::Duration};

/// Runs until it is aborted.
pub(super) async fn run(shared: Arc<Shared>) {
    // A view without a task of its own.
    let cluster = Cluster { shared: shared.clone(), _tasks: Arc::new(Tasks::default()) };
    loop {
        wait_for_a_reason(&shared).await;
        let interest = {
            let mut state = shared.lock();
            state.wanted = false;
            state.asked_at = Some(shared.runtime.now());
            state.interest.clone()
        };
        let answer = ask(&cluster, &interest).await;
        let mut state = shared.lock();
        match answer {
            Ok(response) => {
                Arc::make_mut(&mut state.metadata).update(&response, interest.all);
                state.answers += 1;
                state.failures = 0;
                state.last_error = None;
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                state.last_error = Some(error);
                state.wanted = true;
            }
        }
        drop(state);
        shared.updated.notify_waiters();
    }
}

impl State {
    /// Whether there is a topic that is wanted and not known.
    fn is_incomplete(&self) -> bool {
        self.interest.topics.iter().any(|topic| self.metadata.topic(topic).is_none())
    }
}

async fn wait_for_a_reason(shared: &Shared) {
    loop {
        let now = shared.runtime.now();
        let due = {
            let state = shared.lock();
            match state.asked_at {
                None if state.wanted => return,
                // Nothing is asked before anybody wants to know anything.
                None => None,
                Some(asked_at) if state.wanted => Some(earliest(shared, asked_at, state.failures)),
                // A topic that somebody wants may be created any moment.
                Some(asked_at) if state.is_incomplete() => {
                    Some(asked_at + Duration::from_millis(shared.config.retry_backoff_max_ms))
                }
                Some(asked_at) => Some(asked_at + Duration::from_millis(shared.config.metadata_max_age_ms)),
            }
        };
        match due {
            Some(due) if due <= now => return,
            Some(due) => tokio::select! {
                biased;
                () = shared.wanted.notified() => {}
                () = shared.runtime.sleep_until(due) => {}
            },
            None => shared.wanted.notified().await,
        }
    }
}

fn earliest(shared: &Shared, asked_at: Monotonic, failures: u32) -> Monotonic {
    let (initial, max) = (shared.config.retry_backoff_ms, shared.config.retry_backoff_max_ms);
    asked_at + backoff(initial, max, failures.max(1), shared.runtime.random_u64())
}

async fn ask(cluster: &Cluster, interest: &Interest) -> Result<MetadataResponse, ClientError> {
    let connection = cluster.any_connection().await?;
    let topics = interest
        .topics
        .iter()
        .map(|name| MetadataRequestTopic { name: Some(name.to_string()), ..MetadataRequestTopic::default() })
        .collect();
    let request = MetadataRequest {
        topics: (!interest.all).then_some(topics),
        allow_auto_topic_creation: interest.auto_create,
        ..MetadataRequest::default()
    };
    let version = connection
        .common_versions::<MetadataRequest>()
        .map_err(|source| ClientError::Connection { broker: -1, source })?;
    // Version 4 is the first that can say whether topics may be created.
    let request = MetadataRequest {
        allow_auto_topic_creation: request.allow_auto_topic_creation || *version.end() < 4,
        ..request
    };
    let timeout = Duration::from_millis(cluster.config().request_timeout_ms);
    let sent = connection.send_version(*version.end(), &request, timeout).await;
    sent.map_err(|source| failed(-1, &connection, source))
}
