//! The ends of watches and of the session's events that listen. Owns no rule: what is told to whom is the session's.

use super::{
    driver::Command,
    registry::WatchId,
    session::{Notice, SessionEvent, WatchEnded, WatchedEvent},
    to_client,
};
use std::{fmt, sync::Arc};
use tokio::sync::mpsc;

/// What a watch is told, or why it ends.
pub(super) type WatchMessage = Result<Notice, WatchEnded>;

/// What both kinds of watches have.
pub(super) struct Listener {
    watch: WatchId,
    notices: mpsc::UnboundedReceiver<WatchMessage>,
    chroot: Arc<str>,
    /// Weak, so that a watch does not keep a client alive that everybody has dropped.
    commands: mpsc::WeakUnboundedSender<Command>,
    ended: Option<WatchEnded>,
}

impl Listener {
    pub(super) fn new(
        watch: WatchId,
        notices: mpsc::UnboundedReceiver<WatchMessage>,
        chroot: Arc<str>,
        commands: mpsc::WeakUnboundedSender<Command>,
    ) -> Listener {
        Listener { watch, notices, chroot, commands, ended: None }
    }

    async fn next(&mut self) -> WatchMessage {
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        // The driver is gone when the client was dropped.
        let message = self.notices.recv().await.unwrap_or(Err(WatchEnded::Closed));
        match message {
            Err(ended) => {
                self.ended = Some(ended);
                Err(ended)
            }
            Ok(Notice::Gap) => Ok(Notice::Gap),
            Ok(Notice::Changed(WatchedEvent { event_type, path })) => {
                let path = to_client(&self.chroot, &path);
                Ok(Notice::Changed(WatchedEvent { event_type, path }))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.ended.is_none()
            && let Some(commands) = self.commands.upgrade()
        {
            // Where the driver has gone, it has forgotten all.
            let _ = commands.send(Command::Forget(self.watch));
        }
    }
}

/// A watch for one event. Dropping it forgets it.
pub struct Watch(Listener);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.0.watch.0).finish()
    }
}

impl Watch {
    pub(super) fn new(listener: Listener) -> Watch {
        Watch(listener)
    }

    /// Waits for the event. Nothing is lost when this is cancelled.
    ///
    /// # Errors
    /// Where the watch has fired already, or ended without.
    pub async fn changed(&mut self) -> Result<WatchedEvent, WatchEnded> {
        loop {
            if let Notice::Changed(event) = self.0.next().await? {
                self.0.ended = Some(WatchEnded::Fired);
                return Ok(event);
            }
        }
    }
}

/// A watch that stays. What it is told waits without limit until it is asked for. Dropping it forgets it here, but the
/// server goes on telling until the watch is removed or the client has another connection.
pub struct PersistentWatch(Listener);

impl fmt::Debug for PersistentWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PersistentWatch").field(&self.0.watch.0).finish()
    }
}

impl PersistentWatch {
    pub(super) fn new(listener: Listener) -> PersistentWatch {
        PersistentWatch(listener)
    }

    /// Waits for what happens next. Nothing is lost when this is cancelled.
    ///
    /// # Errors
    /// Where the watch has ended.
    pub async fn next(&mut self) -> Result<Notice, WatchEnded> {
        self.0.next().await
    }
}

/// What happens to a session.
#[derive(Debug)]
pub struct SessionEvents(mpsc::UnboundedReceiver<SessionEvent>);

impl SessionEvents {
    pub(super) fn new(events: mpsc::UnboundedReceiver<SessionEvent>) -> SessionEvents {
        SessionEvents(events)
    }

    /// Waits for the next event; `None` once the client is dropped.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        self.0.recv().await
    }
}
