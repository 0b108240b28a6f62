//! The loop around a member: events in, deeds out, until it is told to stop or its disk fails.
//!
//! Owns the order in which deeds are done, and the ticks. Never decides anything.

use super::{
    CoordinatorError,
    disk::{Answer, Request},
    snapshot::{PIECE_BYTES, Piece, Saved, Saving},
    start::load,
};
use crate::{
    consensus::{Persist, SnapshotMark},
    member::{Effects, Event, Member, Moment},
    metrics::{Scrape, prometheus_text},
    observe::{Observation, Observers, Role},
    peer::{Links, PeerMessage, Peers, send_snapshot},
    server::Clients,
    types::{EnsembleId, Zxid},
};
use sillon_runtime::{Monotonic, Runtime};
use std::{future::Future, pin::pin, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// How many events are taken in before their consequences are carried out.
const MAXIMUM_BATCH: usize = 512;
/// How long a leader that stops waits for another member to take over.
const HAND_OVER_PATIENCE: Duration = Duration::from_millis(500);

/// Everything that the loop needs.
pub(super) struct Looping {
    pub runtime: Runtime,
    pub member: Member,
    pub observers: Observers,
    pub tick: Duration,
    pub keep_snapshots: usize,
    pub events: mpsc::Receiver<Event>,
    pub answers: mpsc::UnboundedReceiver<Answer>,
    pub saved: mpsc::UnboundedReceiver<Saved>,
    pub saved_sender: mpsc::UnboundedSender<Saved>,
    pub scrapes: mpsc::Receiver<Scrape>,
    pub disk: mpsc::UnboundedSender<Request>,
    pub clients: Clients,
    pub peers: Peers,
    pub links: Arc<Links>,
    pub saving: Option<Saving>,
    pub next_tick: Monotonic,
    /// The last ticket that the disk task was given.
    pub asked_ticket: u64,
    /// The last ticket that is durable.
    pub durable_ticket: u64,
    /// What does not have to be durable by itself, and goes to the disk with what comes next.
    pub postponed: Option<Persist>,
}

impl Looping {
    /// Runs until `stop` completes, then hands leadership over.
    pub async fn until(mut self, stop: impl Future<Output = ()> + Send) -> Result<(), CoordinatorError> {
        let mut stop = pin!(stop);
        self.next_tick = self.runtime.now();
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                stepped = self.step() => stepped?,
            }
        }
        self.hand_over().await
    }

    async fn hand_over(&mut self) -> Result<(), CoordinatorError> {
        let deadline = self.runtime.now() + HAND_OVER_PATIENCE;
        let moment = self.moment();
        self.member.resign(moment);
        let effects = self.member.finish(moment);
        self.perform(effects).await?;
        while self.member.role() == Role::Leader && self.member.has_peers() && self.runtime.now() < deadline {
            self.step().await?;
        }
        Ok(())
    }

    fn moment(&self) -> Moment {
        Moment { now: self.runtime.now(), unix: self.runtime.unix_time() }
    }

    /// Waits for something to happen and carries out all that follows from it.
    async fn step(&mut self) -> Result<(), CoordinatorError> {
        let room = async {
            match &self.saving {
                Some(saving) => saving.pieces.reserve().await.ok().map(|_| ()),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(answer) = self.answers.recv() => self.on_answer(answer)?,
            Some(event) = self.events.recv() => self.member.on(event, self.moment()),
            Some(saved) = self.saved.recv() => self.on_saved(saved)?,
            Some(scrape) = self.scrapes.recv() => self.on_scrape(scrape),
            _ = room => {}
            () = self.runtime.sleep_until(self.next_tick) => {}
        }
        for _ in 0..MAXIMUM_BATCH {
            if let Ok(answer) = self.answers.try_recv() {
                self.on_answer(answer)?;
            } else if let Ok(event) = self.events.try_recv() {
                self.member.on(event, self.moment());
            } else {
                break;
            }
        }
        let moment = self.moment();
        if moment.now >= self.next_tick {
            self.next_tick = moment.now + self.tick;
            self.member.on(Event::Tick, moment);
        }
        self.save_a_piece();
        let effects = self.member.finish(moment);
        self.perform(effects).await
    }

    /// Gives the disk task what is to be durable. What only tells how far others are is not worth a trip to the disk:
    /// it counts as soon as all before it does. Gives the ticket that counts already, if there is one.
    fn persist(&mut self, persists: Vec<Persist>) -> Option<u64> {
        let mut counts = None;
        for persist in persists {
            if persist.must_sync || self.asked_ticket != self.durable_ticket {
                self.stop_postponing();
                self.asked_ticket = persist.ticket;
                self.ask_disk(Request::Persist(persist));
            } else {
                counts = Some(persist.ticket);
                (self.asked_ticket, self.durable_ticket) = (persist.ticket, persist.ticket);
                // One says as much as many: each holds all that those before it do.
                self.postponed = Some(persist);
            }
        }
        counts
    }

    fn stop_postponing(&mut self) {
        if let Some(postponed) = self.postponed.take() {
            self.ask_disk(Request::Persist(postponed));
        }
    }

    fn on_answer(&mut self, answer: Answer) -> Result<(), CoordinatorError> {
        match answer {
            Answer::Durable { ticket } => {
                // What was postponed is told as durable again with what follows it.
                self.durable_ticket = self.durable_ticket.max(ticket);
                self.member.on(Event::Durable { ticket }, self.moment());
                Ok(())
            }
            Answer::Failed(error) => Err(error.into()),
        }
    }

    fn on_saved(&mut self, saved: Saved) -> Result<(), CoordinatorError> {
        if let Some((mark, digest)) = saved? {
            self.observers.tell(|| Observation::SnapshotTaken { zxid: Zxid::of_index(mark.index), digest });
            tracing::info!(zxid = %Zxid::of_index(mark.index), "snapshot taken");
            self.member.on(Event::SnapshotSaved { mark }, self.moment());
            self.ask_disk(Request::Purge { keep_snapshots: self.keep_snapshots });
        }
        Ok(())
    }

    fn on_scrape(&mut self, scrape: Scrape) {
        let measurements = self.member.measurements();
        // Whoever scraped may have gone.
        let _ = scrape.send(prometheus_text(&measurements));
    }

    /// Hands a piece of the snapshot that is under way to its task, if there is room.
    fn save_a_piece(&mut self) {
        let Some(pieces) = self.saving.as_ref().map(|saving| saving.pieces.clone()) else { return };
        match pieces.try_reserve() {
            Ok(room) => match self.member.state_mut().snapshot_chunk(PIECE_BYTES) {
                Some(bytes) => room.send(Piece::Bytes(bytes)),
                None => {
                    room.send(Piece::End);
                    self.saving = None;
                }
            },
            Err(mpsc::error::TrySendError::Full(())) => {}
            // The task has failed, and has told so.
            Err(mpsc::error::TrySendError::Closed(())) => {
                self.member.state_mut().abandon_snapshot();
                self.saving = None;
            }
        }
    }

    async fn perform(&mut self, effects: Effects) -> Result<(), CoordinatorError> {
        let mut counts = self.persist(effects.persist);
        for (to, message) in effects.peers {
            if let PeerMessage::Consensus(message) = &message
                && let Some(promise) = message.promise()
            {
                self.observers.tell(|| Observation::Promised { to, term: message.term(), promise });
            }
            self.peers.send(to, message);
        }
        for send in effects.sends {
            self.clients.send(send);
        }
        for connection in effects.closes {
            self.clients.close(connection);
        }
        for send in effects.send_snapshots {
            send_snapshot(&self.links, send);
        }
        if let Some(ensemble) = effects.name_ensemble {
            self.links.name_ensemble(EnsembleId(ensemble));
            self.ask_disk(Request::Name(EnsembleId(ensemble)));
        }
        if let Some(mark) = effects.install {
            self.install(mark).await?;
        }
        counts = self.persist(effects.persist_after_install).or(counts);
        if effects.begin_snapshot && self.saving.is_none() {
            let mark = self.member.mark();
            let begun = self.member.state_mut().begin_snapshot();
            assert_eq!(begun.zxid.index(), mark.index, "a snapshot holds what was applied when it began");
            let store = self.links.snapshots.clone();
            self.saving =
                Some(Saving::begin(&self.runtime, store, (mark, begun.digest), self.saved_sender.clone()));
        }
        match counts {
            Some(ticket) => {
                let moment = self.moment();
                self.member.on(Event::Durable { ticket }, moment);
                let effects = self.member.finish(moment);
                Box::pin(self.perform(effects)).await
            }
            None => Ok(()),
        }
    }

    /// A peer's snapshot replaces the state. Nothing else happens meanwhile.
    async fn install(&mut self, mark: SnapshotMark) -> Result<(), CoordinatorError> {
        self.saving = None;
        self.stop_postponing();
        let (done, installed) = oneshot::channel();
        self.ask_disk(Request::Install { mark, done });
        if installed.await.is_err() {
            // The disk task has ended: it has told why.
            return match self.answers.recv().await {
                Some(answer) => self.on_answer(answer),
                None => Ok(()),
            };
        }
        let state = load(&self.links.snapshots, mark).await?;
        tracing::info!(zxid = %state.applied(), "brought forward by a peer's snapshot");
        let moment = self.moment();
        self.member.install(state, mark.term, moment);
        Box::pin(async {
            let effects = self.member.finish(moment);
            self.perform(effects).await
        })
        .await
    }

    /// The disk task ends only after it has told why.
    fn ask_disk(&self, request: Request) {
        let _ = self.disk.send(request);
    }
}
