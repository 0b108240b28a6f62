//! The controller's ear for brokers that are gone: who polls, whose poll broke off, and who has been silent for too long.
//!
//! A broker of which a dial is refused has no process any more, and is taken out at once; nothing else that a dial comes
//! to proves anything, and the broker's session decides. A wrong guess is safe: a live broker registers again.

use super::{
    ActiveController,
    dial::{self, Dialled},
    office::Office,
    shared::Shared,
};
use crate::{
    controller::Command,
    types::{BrokerEpoch, BrokerId},
};
use sillon_runtime::Monotonic;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::mpsc;

/// A broker that has not polled for so long is dialled.
pub(super) const SILENCE: Duration = Duration::from_millis(100);
/// The pause between two dials of the same broker begins here, doubles ...
const DIAL_PAUSE: Duration = Duration::from_millis(100);
/// ... and ends here.
const LONGEST_DIAL_PAUSE: Duration = Duration::from_secs(2);

/// What is known of a broker.
struct Ear {
    /// How many of its polls are open.
    open: usize,
    /// Since when none is.
    silent_since: Monotonic,
    next_dial: Monotonic,
    pause: Duration,
    dialling: bool,
}

/// See the module.
pub(super) struct Polls {
    began: Monotonic,
    ears: Mutex<BTreeMap<BrokerId, Ear>>,
    /// Brokers whose poll broke off.
    suspects: mpsc::UnboundedSender<BrokerId>,
}

impl Polls {
    pub(super) fn new(now: Monotonic) -> (Arc<Polls>, mpsc::UnboundedReceiver<BrokerId>) {
        let (suspects, received) = mpsc::unbounded_channel();
        (Arc::new(Polls { began: now, ears: Mutex::default(), suspects }), received)
    }

    fn ears(&self) -> MutexGuard<'_, BTreeMap<BrokerId, Ear>> {
        self.ears.lock().expect("no holder panics")
    }

    fn with<T>(&self, broker: BrokerId, act: impl FnOnce(&mut Ear) -> T) -> T {
        let began = self.began;
        act(self.ears().entry(broker).or_insert(Ear {
            open: 0,
            // Who has not polled this controller yet is dialled without waiting for the silence to grow long.
            silent_since: Monotonic(began.0.saturating_sub(SILENCE.as_nanos() as u64)),
            next_dial: began,
            pause: DIAL_PAUSE,
            dialling: false,
        }))
    }

    /// Dials every registered broker that has been silent for too long.
    pub(super) fn dial_silent(self: &Arc<Self>, shared: &Arc<Shared>, office: &Arc<Office>) {
        let now = shared.runtime.now();
        let image = office.image();
        self.ears().retain(|broker, ear| ear.open > 0 || image.brokers.contains_key(broker));
        for broker in image.brokers.keys() {
            let due = self.with(*broker, |ear| {
                ear.open == 0 && now >= ear.silent_since + SILENCE && now >= ear.next_dial
            });
            if due {
                self.dial(shared, office, *broker);
            }
        }
    }

    /// Dials a broker, and has it taken out where nobody listens.
    pub(super) fn dial(self: &Arc<Self>, shared: &Arc<Shared>, office: &Arc<Office>, broker: BrokerId) {
        let image = office.image();
        let Some(registered) = image.brokers.get(&broker) else { return };
        let endpoint = registered.endpoint(&shared.settings.inter_broker_listener);
        let (Some(endpoint), true) = (endpoint, broker != shared.broker_id()) else { return };
        let now = shared.runtime.now();
        let begins = self.with(broker, |ear| {
            ear.next_dial = now + ear.pause;
            ear.pause = (ear.pause * 2).min(LONGEST_DIAL_PAUSE);
            !std::mem::replace(&mut ear.dialling, true)
        });
        if !begins {
            return;
        }
        let (host, port, broker_epoch) = (endpoint.host.clone(), endpoint.port, registered.broker_epoch);
        let (polls, office, runtime) = (self.clone(), office.clone(), shared.runtime.clone());
        // It ends by itself, after DIAL_TIMEOUT at the latest.
        shared.runtime.spawn("dial", async move {
            let dialled = dial::dial(&runtime, &host, port).await;
            polls.with(broker, |ear| ear.dialling = false);
            if dialled == Dialled::Refused {
                tracing::info!(%broker, %broker_epoch, "nobody listens there any more");
                let gone = Command::ProcessGone { broker, broker_epoch };
                if let Err(error) = office.submit(gone).await {
                    tracing::debug!(%broker, %error, "a broker that is gone was not taken out");
                }
            }
        });
    }
}

/// A poll that is open. Dropped before it was answered, it means that the broker's connection is gone.
pub(super) struct Poll {
    polls: Arc<Polls>,
    broker: BrokerId,
    answered: bool,
}

impl Poll {
    pub(super) fn begin(
        polls: &Arc<Polls>,
        now: Monotonic,
        broker: BrokerId,
        broker_epoch: BrokerEpoch,
    ) -> Option<Poll> {
        // Only a registered broker can be taken out.
        if broker_epoch == BrokerEpoch::NONE {
            return None;
        }
        polls.with(broker, |ear| {
            ear.open += 1;
            ear.silent_since = now;
            ear.next_dial = now;
            ear.pause = DIAL_PAUSE;
        });
        Some(Poll { polls: polls.clone(), broker, answered: false })
    }

    fn close(&self, now: Option<Monotonic>) {
        self.polls.with(self.broker, |ear| {
            assert!(ear.open > 0, "a poll that ends was open");
            ear.open -= 1;
            if let Some(now) = now {
                ear.silent_since = now;
            }
        });
    }

    /// The poll is answered. Polls that are not counted are none.
    pub(super) fn answered(poll: Option<Poll>, now: Monotonic) {
        if let Some(mut poll) = poll {
            poll.answered = true;
            poll.close(Some(now));
        }
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        if !self.answered {
            self.close(None);
            // Where the term has ended, nobody listens.
            let _ = self.polls.suspects.send(self.broker);
        }
    }
}
