//! Who is controller: watching `/controller`, running for it when it is free, and holding the office when it is won.
//!
//! The node alone proves nothing: one of an earlier session of this broker is somebody else's, and one of this session
//! without an office that runs here is taken anew, in a new epoch (B47, KAFKA-13407).

use super::{
    office,
    session::{self, insist},
    shared::{KnownController, Shared},
};
use crate::{
    controller::layout::{self, LayoutError},
    types::ControllerEpoch,
};
use sillon_coordinator::client::{Client, ClientError, Multi, MultiResult, NewNode};
use sillon_protocol::zookeeper::ErrorCode;
use std::{sync::Arc, time::Duration};

/// The pause after something that should not have failed.
const PAUSE: Duration = Duration::from_millis(100);

/// A term of office.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// Its epoch.
    pub(super) epoch: ControllerEpoch,
    /// The version of `/controller_epoch` in it.
    pub(super) epoch_version: i32,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ElectionError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Takes part in elections as long as the session lasts.
pub(super) async fn take_part(shared: &Arc<Shared>, client: &Client) {
    loop {
        match round(shared, client).await {
            Ok(()) => {}
            Err(ElectionError::Client(ClientError::SessionExpired | ClientError::Closed)) => {
                shared.set_controller(None);
                std::future::pending::<()>().await;
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take part in the election of a controller");
                shared.runtime.sleep(PAUSE).await;
            }
        }
    }
}

/// The controller's epoch, with the version of its node.
pub(super) async fn read_epoch(shared: &Shared, client: &Client) -> Result<Term, ElectionError> {
    let node = insist(&shared.runtime, || client.get_data(layout::CONTROLLER_EPOCH)).await?.value;
    let epoch = layout::decode_controller_epoch(&node.data.unwrap_or_default())?;
    Ok(Term { epoch, epoch_version: node.stat.version })
}

/// Looks who is controller and waits until that may have changed; runs where nobody is.
async fn round(shared: &Arc<Shared>, client: &Client) -> Result<(), ElectionError> {
    // The epoch first: whoever takes office after this look changes it, and then this broker cannot win by mistake.
    let term = read_epoch(shared, client).await?;
    let node = insist(&shared.runtime, || client.get_data_watched(layout::CONTROLLER)).await;
    let (node, mut watch) = match node {
        Ok(reply) => reply.value,
        Err(error) if error.code() == Some(ErrorCode::NoNode) => {
            shared.set_controller(None);
            return run(shared, client, term, false).await;
        }
        Err(error) => return Err(error.into()),
    };
    if node.stat.ephemeral_owner == session::number(client) {
        return run(shared, client, term, true).await;
    }
    let broker = layout::decode_controller(&node.data.unwrap_or_default())?;
    let known = KnownController { broker, czxid: node.stat.czxid, owner: node.stat.ephemeral_owner };
    if shared.controller().as_ref() != Some(&known) {
        tracing::info!(controller = %broker, "found the controller");
        shared.set_controller(Some(known));
    }
    // Where the watch ends without an event, the next look says why.
    let _ = watch.changed().await;
    Ok(())
}

/// Runs for the office, and holds it if it is won. `is_own`: the node is this session's already.
async fn run(shared: &Arc<Shared>, client: &Client, before: Term, is_own: bool) -> Result<(), ElectionError> {
    let epoch = ControllerEpoch(before.epoch.0 + 1);
    let epoch_text = epoch.to_string();
    let content = layout::encode_controller(shared.broker_id(), shared.runtime.unix_time().0);
    let version = Some(before.epoch_version);
    let multi = Multi::new().set_data(layout::CONTROLLER_EPOCH, Some(epoch_text.as_bytes()), version);
    let multi = match is_own {
        true => multi.set_data(layout::CONTROLLER, Some(&content), None),
        false => multi.create(NewNode::ephemeral(layout::CONTROLLER).data(&content)),
    };
    let results = match client.multi(&multi).await {
        Ok(reply) => reply.value,
        // Somebody else was faster; or nobody knows, and then the next look tells.
        Err(ClientError::MultiFailed { .. } | ClientError::ConnectionLoss) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (epoch_version, czxid) = match &results[..] {
        [MultiResult::DataSet(epoch), MultiResult::Created(node)] => (epoch.version, node.stat.czxid),
        [MultiResult::DataSet(epoch), MultiResult::DataSet(node)] => (epoch.version, node.czxid),
        _ => return Ok(()),
    };
    tracing::info!(broker = %shared.broker_id(), %epoch, "elected controller");
    let owner = session::number(client);
    shared.set_controller(Some(KnownController { broker: shared.broker_id(), czxid, owner }));
    let began = shared.runtime.now();
    let reason = office::hold(shared, client, Term { epoch, epoch_version }).await;
    tracing::warn!(broker = %shared.broker_id(), %epoch, %reason, "not controller any more");
    // An office that fails at once must not be taken at full speed.
    if shared.runtime.now() - began < PAUSE {
        shared.runtime.sleep(PAUSE).await;
    }
    Ok(())
}
