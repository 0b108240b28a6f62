//! Following the metadata: one task that polls the controller, and one that brings the broker in line with what it says.
//!
//! What an older controller says is dropped, and metadata never goes back (I34). A controller whose port refuses
//! connections has no process any more: its node is removed at once, so that another one can be elected.

use super::{
    codec,
    election::{self, ElectionError},
    link::{self, Address},
    shared::{KnownController, Shared},
};
use crate::{
    controller::layout,
    metadata::{MetadataImage, MetadataPosition},
    observe::Observation,
    types::ControllerEpoch,
};
use sillon_client::Connection;
use sillon_coordinator::client::Multi;
use sillon_protocol::{
    ErrorCode,
    messages::{FetchMetadataRequest, FetchMetadataResponse},
};
use sillon_runtime::BoxFuture;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// How long a poll waits for news.
const POLL: Duration = Duration::from_secs(1);
/// How long its answer may take beyond that.
const POLL_PATIENCE: Duration = Duration::from_secs(3);
/// The pause before another attempt begins here, doubles ...
const FIRST_PAUSE: Duration = Duration::from_millis(20);
/// ... and ends here.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Brings the broker's partitions in line with the metadata. Called with newer and newer images, one call at a time; the
/// newest may be asked for at any time.
pub type Reconcile = Arc<dyn Fn(Arc<MetadataImage>) -> BoxFuture<'static, ()> + Send + Sync>;

/// What the two tasks have in common.
#[derive(Default)]
pub(super) struct Following {
    /// A snapshot came since the broker was brought in line last.
    snapshot: AtomicBool,
}

/// Brings the broker in line, again and again.
pub(super) async fn apply(shared: Arc<Shared>, following: Arc<Following>, reconcile: Reconcile) {
    let mut applied = MetadataPosition::default();
    // Which of the metadata is about this process, its registration tells.
    shared.until(Shared::first_epoch).await;
    loop {
        let image = shared
            .until(|shared| {
                let image = shared.image();
                (image.position != applied).then_some(image)
            })
            .await;
        let snapshot = following.snapshot.swap(false, Ordering::Relaxed);
        applied = image.position;
        reconcile(image).await;
        shared.observers.tell(|| Observation::MetadataApplied { position: applied, snapshot });
        shared.set_applied(applied);
    }
}

/// Polls the controller, whoever it is.
pub(super) async fn follow(shared: Arc<Shared>, following: Arc<Following>) {
    let mut pause = FIRST_PAUSE;
    loop {
        // Where it is this broker, it has nothing to tell before it has loaded what there is.
        let is_ready =
            |known: &KnownController| known.broker != shared.broker_id() || shared.office().is_some();
        let known = shared.until(|shared| shared.controller().filter(is_ready)).await;
        let heard = match link::address(&shared, &known).await {
            Some(address) => from(&shared, &following, &known, &address).await,
            None => false,
        };
        if heard {
            pause = FIRST_PAUSE;
        }
        // A change of the controller ends the pause.
        let other = shared.until(|shared| (shared.controller().as_ref() != Some(&known)).then_some(()));
        let _ = shared.runtime.timeout(pause, other).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Follows one controller until that fails. Gives whether anything was heard of it.
async fn from(
    shared: &Arc<Shared>,
    following: &Following,
    known: &KnownController,
    address: &Address,
) -> bool {
    let mut heard = false;
    for attempt in 0.. {
        // One that ends is followed by another at once, whose refusal says that the process is gone.
        if attempt > 1 {
            shared.runtime.sleep(FIRST_PAUSE).await;
        }
        let connection = match link::connect(shared, address).await {
            Ok(connection) => connection,
            Err(error) => {
                tracing::debug!(controller = %known.broker, %error, "cannot reach the controller");
                if link::is_refusal(&error)
                    && address.is_certain
                    && let Err(error) = remove(shared, known).await
                {
                    tracing::debug!(%error, "the node of a controller that is gone was not removed");
                }
                return heard;
            }
        };
        match poll(shared, following, known, &connection).await {
            Poll::Broken if attempt == 0 => {}
            Poll::Heard => heard = true,
            Poll::Broken | Poll::Refused => return heard,
        }
        if shared.controller().as_ref() != Some(known) {
            return heard;
        }
    }
    heard
}

/// How following over a connection ended.
enum Poll {
    /// It was broken, before anything was heard.
    Broken,
    /// It was broken, after something was heard.
    Heard,
    /// That broker is not controller, or says what makes no sense.
    Refused,
}

async fn poll(
    shared: &Arc<Shared>,
    following: &Following,
    known: &KnownController,
    connection: &Connection,
) -> Poll {
    let mut position = shared.image().position;
    let mut ended = Poll::Broken;
    // A broker that has no metadata yet asks for everything.
    if position == MetadataPosition::default() {
        position = nowhere();
    }
    loop {
        let request = FetchMetadataRequest {
            broker_id: shared.broker_id().0,
            broker_epoch: shared.broker_epoch().0,
            controller_epoch: position.controller_epoch.0,
            version: position.version,
            max_wait_ms: POLL.as_millis() as i32,
        };
        // What it says of itself has changed: an open poll would speak for the wrong registration.
        let epoch = shared.broker_epoch();
        let stale = shared.until(|shared| {
            let moved = shared.controller().as_ref() != Some(known) || shared.broker_epoch() != epoch;
            moved.then_some(())
        });
        let response = tokio::select! {
            biased;
            response = connection.send_version(0, &request, POLL + POLL_PATIENCE) => response,
            () = stale => return Poll::Heard,
        };
        let response = match response {
            Ok(response) => response,
            Err(error) => {
                tracing::debug!(controller = %known.broker, %error, "lost the controller");
                return ended;
            }
        };
        match take(shared, following, &response) {
            Some(next) => position = next,
            None => return Poll::Refused,
        }
        ended = Poll::Heard;
    }
}

/// Stands for "nothing yet".
fn nowhere() -> MetadataPosition {
    MetadataPosition { controller_epoch: ControllerEpoch(-1), version: -1 }
}

/// Takes an answer. Gives where to go on; none where there is no going on with this controller.
fn take(
    shared: &Shared,
    following: &Following,
    response: &FetchMetadataResponse,
) -> Option<MetadataPosition> {
    if response.error_code != ErrorCode::NONE.code() {
        return None;
    }
    let position = MetadataPosition {
        controller_epoch: ControllerEpoch(response.controller_epoch),
        version: response.version,
    };
    let current = shared.image();
    if position < current.position {
        tracing::warn!(%position, newest = %current.position, "an older controller speaks; it is not listened to");
        return None;
    }
    if position == current.position {
        return Some(position);
    }
    let deltas = match codec::decode(&response.payload) {
        Ok(deltas) => deltas,
        Err(error) => {
            tracing::error!(%error, "the controller's answer cannot be read");
            return None;
        }
    };
    let next = if response.is_snapshot {
        MetadataImage::default().after(&deltas, position)
    } else if position.controller_epoch == current.position.controller_epoch {
        current.after(&deltas, position)
    } else {
        return Some(nowhere());
    };
    match next {
        Ok(image) => {
            if response.is_snapshot {
                following.snapshot.store(true, Ordering::Relaxed);
            }
            shared.set_image(image);
            Some(position)
        }
        Err(error) => {
            tracing::error!(%error, "the controller's answer does not fit; everything is asked for");
            Some(nowhere())
        }
    }
}

/// Removes the node of a controller whose process is gone, unless somebody else has taken office since it was found.
async fn remove(shared: &Shared, known: &KnownController) -> Result<(), ElectionError> {
    let Some(client) = shared.client() else { return Ok(()) };
    let term = election::read_epoch(shared, &client).await?;
    let node = client.exists(layout::CONTROLLER).await?.value;
    if node.is_none_or(|stat| stat.czxid != known.czxid || stat.ephemeral_owner != known.owner) {
        return Ok(());
    }
    let multi = Multi::new()
        .check(layout::CONTROLLER_EPOCH, Some(term.epoch_version))
        .delete(layout::CONTROLLER, None);
    client.multi(&multi).await?;
    tracing::info!(controller = %known.broker, "the controller's process is gone; its node is removed");
    Ok(())
}
