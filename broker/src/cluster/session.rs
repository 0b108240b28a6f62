//! Sessions with the coordinator: opening one, ending the one of an earlier process, and the nodes that must exist before
//! a broker registers. Owns what is asked again and for how long.

use super::{MembershipError, credentials, shared::Shared};
use crate::controller::layout;
use sillon_coordinator::client::{Client, ClientConfig, ClientError, NewNode, Pending, Reply};
use sillon_protocol::zookeeper::ErrorCode;
use sillon_runtime::Runtime;
use std::time::Duration;

/// How long the coordinator may take to serve a broker that starts: an ensemble that starts with it has to elect first.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// The pause before something is asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// How often the end of an old session is tried; then it is waited for.
const END_ATTEMPTS: usize = 3;

/// Asks until there is an answer, across lost connections. Only for what may happen twice.
///
/// # Errors
/// The answer's, and the end of the session.
pub(super) async fn insist<T: Unpin + 'static>(
    runtime: &Runtime,
    ask: impl Fn() -> Pending<T>,
) -> Result<Reply<T>, ClientError> {
    loop {
        match ask().await {
            Err(
                ClientError::ConnectionLoss
                | ClientError::NotConnected { .. }
                | ClientError::TooManyRequests { .. },
            ) => runtime.sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}

fn config(shared: &Shared) -> Result<ClientConfig, MembershipError> {
    let settings = &shared.settings;
    let mut config = ClientConfig::new(&settings.connect, settings.session_timeout_ms)?;
    // A coordinator that is just starting is there in a moment.
    config.backoff_min_ms = 10;
    config.backoff_max_ms = 250;
    Ok(config)
}

/// Opens a session, and keeps what proves it for the next process.
///
/// # Errors
/// [`MembershipError::Connect`], [`MembershipError::Unreachable`].
pub(super) async fn open(shared: &Shared) -> Result<Client, MembershipError> {
    let client = Client::connect(&shared.runtime, config(shared)?);
    let connected = shared.runtime.timeout(START_PATIENCE, client.wait_connected()).await;
    if !matches!(connected, Ok(Ok(()))) {
        return Err(MembershipError::Unreachable {
            connect: shared.settings.connect.clone(),
            waited_ms: START_PATIENCE.as_millis() as u64,
        });
    }
    let path = &shared.settings.credentials_file;
    if let Some(credentials) = client.credentials()
        && let Err(error) = credentials::store(&shared.runtime, path, &credentials).await
    {
        tracing::warn!(path = %path.display(), %error, "cannot be written; a restart waits for this session's end");
    }
    Ok(client)
}

/// Ends the session of the process before this one, if it is known: its nodes go at once.
pub(super) async fn end_previous(shared: &Shared) -> Result<(), MembershipError> {
    let path = &shared.settings.credentials_file;
    let Some(previous) = credentials::load(&shared.runtime, path).await else { return Ok(()) };
    for _ in 0..END_ATTEMPTS {
        let mut config = config(shared)?;
        config.credentials = Some(previous.clone());
        let client = Client::connect(&shared.runtime, config);
        match shared.runtime.timeout(START_PATIENCE, client.wait_connected()).await {
            Err(_elapsed) => return Ok(()),
            Ok(Err(ClientError::SessionExpired)) => break,
            Ok(Err(_)) => continue,
            Ok(Ok(())) => {}
        }
        match client.close().await {
            Ok(_) => {
                tracing::info!(session = %previous.id, "ended the session of the process before");
                break;
            }
            Err(error) => tracing::debug!(%error, "the session of the process before did not end"),
        }
    }
    credentials::remove(&shared.runtime, path).await;
    Ok(())
}

/// The session's number; 0 before there is one.
pub(super) fn number(client: &Client) -> i64 {
    client.credentials().map_or(0, |credentials| credentials.id.0)
}

/// Creates the nodes that must exist, and gives the cluster's id: the one at the coordinator, else `new_id`.
///
/// # Errors
/// [`MembershipError::Refused`], [`MembershipError::Layout`], [`MembershipError::NoCluster`].
pub(super) async fn prepare(
    shared: &Shared,
    client: &Client,
    new_id: Option<&str>,
) -> Result<String, MembershipError> {
    let runtime = &shared.runtime;
    if insist(runtime, || client.exists("/")).await.map_err(MembershipError::refused("/"))?.value.is_none() {
        create_chroot(shared).await?;
    }
    let found: Vec<_> = layout::PERSISTENT_PATHS.iter().map(|path| (*path, client.exists(path))).collect();
    let mut missing = Vec::new();
    for (path, found) in found {
        if !matches!(found.await, Ok(reply) if reply.value.is_some()) {
            missing.push(path);
        }
    }
    // All at once: they are created in the order in which they are asked for, parents first.
    let created: Vec<_> =
        missing.into_iter().map(|path| (path, client.create(&NewNode::persistent(path)))).collect();
    for (path, created) in created {
        if created.await.is_err() {
            create(runtime, client, path, None).await?;
        }
    }
    create(runtime, client, layout::CONTROLLER_EPOCH, Some(b"0")).await?;
    loop {
        match insist(runtime, || client.get_data(layout::CLUSTER_ID)).await {
            Ok(reply) => {
                return Ok(layout::decode_cluster_id(&reply.value.data.unwrap_or_default())?);
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                let connect = || shared.settings.connect.clone();
                let new_id = new_id.ok_or_else(|| MembershipError::NoCluster { connect: connect() })?;
                let content = layout::encode_cluster_id(new_id);
                create(runtime, client, layout::CLUSTER_ID, Some(&content)).await?;
            }
            Err(error) => return Err(MembershipError::refused(layout::CLUSTER_ID)(error)),
        }
    }
}

/// Creates a node, unless it exists.
async fn create(
    runtime: &Runtime,
    client: &Client,
    path: &str,
    data: Option<&[u8]>,
) -> Result<(), MembershipError> {
    let mut node = NewNode::persistent(path);
    if let Some(data) = data {
        node = node.data(data);
        // Most often it exists; then a look costs less than a write that fails.
        if matches!(client.exists(path).await, Ok(reply) if reply.value.is_some()) {
            return Ok(());
        }
    }
    match insist(runtime, || client.create(&node)).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
        Err(error) => Err(MembershipError::refused(path)(error)),
    }
}

/// Creates the node that stands for the root, and those above it.
async fn create_chroot(shared: &Shared) -> Result<(), MembershipError> {
    let mut config = config(shared)?;
    let chroot = std::mem::take(&mut config.chroot);
    let client = Client::connect(&shared.runtime, config);
    for (end, _) in chroot.match_indices('/').skip(1).chain([(chroot.len(), "")]) {
        create(&shared.runtime, &client, &chroot[..end], None).await?;
    }
    if let Err(error) = client.close().await {
        tracing::debug!(%error, "a session did not end; it expires");
    }
    Ok(())
}
