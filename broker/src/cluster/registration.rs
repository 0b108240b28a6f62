//! The broker's ephemeral node: creating it, and creating it again when it is gone.
//!
//! A node that exists already is never taken for a success without a look at the session that it goes with (B47): it may
//! be a live broker with the same number, or what an earlier process left behind.

use super::{
    MembershipError,
    dial::{self, Dialled},
    session::{self, insist},
    shared::{Registration, Shared},
};
use crate::{controller::layout, metadata::BrokerImage, types::BrokerEpoch};
use sillon_coordinator::client::{Client, ClientError, Multi, MultiResult, NewNode};
use sillon_protocol::zookeeper::ErrorCode;
use std::time::Duration;

/// The pause before another attempt.
const PAUSE: Duration = Duration::from_millis(50);
/// The pause after an attempt that only a person can help.
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// The multi's write of the ephemeral node.
const NODE: usize = 1;

/// What an attempt came to.
enum Attempt {
    Done(Registration),
    /// Somebody else was faster, or the connection was lost.
    Again,
    /// The node exists.
    Exists,
}

/// Keeps the broker registered while the session lasts. Tells `first` how the first registration went, and ends only
/// where that failed for good.
pub(super) async fn keep(
    shared: &Shared,
    client: &Client,
    mut first: impl FnMut(Result<(), MembershipError>) -> bool,
) {
    loop {
        if shared.leaving() {
            std::future::pending::<()>().await;
        }
        match register(shared, client).await {
            Ok(registration) => {
                shared.registered(registration);
                first(Ok(()));
                watch(shared, client, registration).await;
                shared.unregistered();
            }
            Err(error) => {
                let pause = if error.may_pass() { PAUSE } else { LONG_PAUSE };
                if pause == LONG_PAUSE {
                    tracing::error!(%error, "cannot register");
                    if first(Err(error)) {
                        return;
                    }
                }
                shared.runtime.sleep(pause).await;
            }
        }
    }
}

/// Returns when the registration is gone.
async fn watch(shared: &Shared, client: &Client, registration: Registration) {
    let path = layout::broker_path(shared.broker_id());
    loop {
        match insist(&shared.runtime, || client.exists_watched(&path)).await {
            Ok(reply) => {
                let (stat, mut watch) = reply.value;
                if stat.is_none_or(|stat| stat.czxid != registration.broker_epoch.0) {
                    return;
                }
                if watch.changed().await.is_err() {
                    return;
                }
            }
            // The session is over, which ends the registration as well.
            Err(_) => return,
        }
    }
}

async fn register(shared: &Shared, client: &Client) -> Result<Registration, MembershipError> {
    let deadline = shared.runtime.now() + patience(shared);
    loop {
        match attempt(shared, client).await? {
            Attempt::Done(registration) => return Ok(registration),
            Attempt::Again => shared.runtime.sleep(PAUSE).await,
            Attempt::Exists => {
                if let Some(registration) = look_at_holder(shared, client, deadline).await? {
                    return Ok(registration);
                }
            }
        }
    }
}

/// How long another session that holds the broker's number is waited for: as long as it may live, and then some.
fn patience(shared: &Shared) -> Duration {
    Duration::from_millis(shared.settings.session_timeout_ms * 3) + Duration::from_secs(10)
}

async fn attempt(shared: &Shared, client: &Client) -> Result<Attempt, MembershipError> {
    let (runtime, broker) = (&shared.runtime, shared.broker_id());
    let counter = layout::registration_path(broker);
    let version = match insist(runtime, || client.exists(&counter)).await {
        Ok(reply) => reply.value.map(|stat| stat.version),
        Err(error) => return Err(MembershipError::refused(counter)(error)),
    };
    let version = match version {
        Some(version) => version,
        None => match insist(runtime, || client.create(&NewNode::persistent(&counter))).await {
            Ok(_) => 0,
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(Attempt::Again),
            Err(error) => return Err(MembershipError::refused(counter)(error)),
        },
    };
    let unclean = shared.unclean();
    let image = BrokerImage {
        broker_epoch: BrokerEpoch::NONE,
        endpoints: shared.settings.endpoints.clone(),
        rack: shared.settings.rack.clone(),
        unclean,
        registration: version + 1,
        shutting_down: false,
    };
    let content = layout::encode_broker(&image, runtime.unix_time().0);
    let path = layout::broker_path(broker);
    let node = NewNode::ephemeral(&path).data(&content);
    let multi = Multi::new().set_data(&counter, Some(b""), Some(version)).create(node);
    match client.multi(&multi).await {
        Ok(reply) => match reply.value.get(NODE) {
            Some(MultiResult::Created(created)) => {
                let broker_epoch = BrokerEpoch(created.stat.czxid);
                Ok(Attempt::Done(Registration { broker_epoch, unclean }))
            }
            _ => Ok(Attempt::Again),
        },
        Err(ClientError::MultiFailed { index: NODE, code: ErrorCode::NodeExists, .. }) => Ok(Attempt::Exists),
        Err(ClientError::MultiFailed { code: ErrorCode::BadVersion, .. }) => Ok(Attempt::Again),
        Err(error @ ClientError::SessionExpired) => Err(MembershipError::refused(path)(error)),
        Err(error) if error.code().is_none() => Ok(Attempt::Again),
        Err(error) => Err(MembershipError::refused(path)(error)),
    }
}

/// Whose the node is that exists already. Returns after a while where it may go by itself.
async fn look_at_holder(
    shared: &Shared,
    client: &Client,
    deadline: sillon_runtime::Monotonic,
) -> Result<Option<Registration>, MembershipError> {
    let (runtime, broker) = (&shared.runtime, shared.broker_id());
    let path = layout::broker_path(broker);
    let (node, mut watch) = match insist(runtime, || client.get_data_watched(&path)).await {
        Ok(reply) => reply.value,
        Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(None),
        Err(error) => return Err(MembershipError::refused(path)(error)),
    };
    let stat = node.stat;
    let holder = layout::decode_broker(&path, &node.data.unwrap_or_default(), stat.czxid);
    if stat.ephemeral_owner == session::number(client) {
        // An attempt of this session whose answer was lost.
        let unclean = holder?.unclean;
        return Ok(Some(Registration { broker_epoch: BrokerEpoch(stat.czxid), unclean }));
    }
    let endpoint =
        holder.ok().and_then(|image| image.endpoint(&shared.settings.inter_broker_listener).cloned());
    let shown = endpoint.as_ref().map_or_else(
        || "an unknown address".to_owned(),
        |endpoint| format!("{}:{}", endpoint.host, endpoint.port),
    );
    // Somebody who answers at this broker's own address is this broker.
    let other = endpoint.filter(|endpoint| !shared.settings.endpoints.contains(endpoint));
    if let Some(endpoint) = other
        && dial::dial(runtime, &endpoint.host, endpoint.port).await == Dialled::Answered
    {
        return Err(MembershipError::LiveDuplicate { broker, endpoint: shown });
    }
    let owner = stat.ephemeral_owner;
    if runtime.now() >= deadline {
        let waited_ms = patience(shared).as_millis() as u64;
        return Err(MembershipError::StillRegistered { broker, owner, endpoint: shown, waited_ms });
    }
    tracing::info!(%broker, session = format!("0x{owner:x}"), "waiting for the end of the session that holds this broker's id");
    let _ = runtime.timeout(LONG_PAUSE, watch.changed()).await;
    Ok(None)
}
