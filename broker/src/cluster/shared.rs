//! What the parts of a membership have in common: who this broker is, the newest metadata, its registration, and who is
//! controller. Owns these values and whoever waits for them to change; never talks to anybody.

use super::office::Office;
use crate::{
    metadata::{Endpoint, MetadataImage, MetadataPosition},
    observe::{Observation, Observers},
    types::{BrokerEpoch, BrokerId},
};
use sillon_coordinator::client::Client;
use sillon_runtime::Runtime;
use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, RwLock},
    time::Duration,
};
use tokio::sync::Notify;

/// What a membership has to know.
#[derive(Clone, Debug)]
pub struct MembershipSettings {
    /// This broker.
    pub broker_id: BrokerId,
    /// Where others reach it, by listener.
    pub endpoints: Vec<Endpoint>,
    /// The listener that other brokers use.
    pub inter_broker_listener: String,
    /// Where this broker reaches itself: a host and a port.
    pub own_address: (String, u16),
    /// `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// The coordinator's members, as `host:port,host:port/path`.
    pub connect: String,
    /// The session timeout to ask for, in milliseconds.
    pub session_timeout_ms: u64,
    /// Where the session's number and password are kept for the next process.
    pub credentials_file: PathBuf,
    /// Whether the last stop was unclean.
    pub unclean: bool,
    /// What the controller is told at its start, should this broker be it.
    pub controller: crate::controller::ControllerSettings,
    /// How often the controller looks for leaders that are not the preferred ones; none for never.
    pub balance_interval: Option<Duration>,
}

/// The controller, as the coordinator names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownController {
    /// The broker.
    pub(super) broker: BrokerId,
    /// The transaction that made it controller.
    pub(super) czxid: i64,
    /// The session that its node goes with.
    pub(super) owner: i64,
}

/// A registration of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) broker_epoch: BrokerEpoch,
    /// Whether it said so.
    pub(super) unclean: bool,
}

struct Values {
    client: Option<Client>,
    registration: Option<Registration>,
    controller: Option<KnownController>,
    office: Option<Arc<Office>>,
    /// What the partitions have been brought in line with.
    applied: MetadataPosition,
    /// Whether the controller still has to hear that the last stop was unclean.
    unclean: bool,
    /// The first registration of this process.
    first: BrokerEpoch,
    /// The newest registration of this process that the controller has seen.
    seen: BrokerEpoch,
    /// No new registration: the broker is about to stop.
    leaving: bool,
}

/// See the module.
pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) observers: Observers,
    pub(super) settings: MembershipSettings,
    image: RwLock<Arc<MetadataImage>>,
    values: Mutex<Values>,
    /// Rung when any of the values changes.
    changed: Notify,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared(broker {})", self.settings.broker_id)
    }
}

impl Shared {
    pub(super) fn new(runtime: Runtime, observers: Observers, settings: MembershipSettings) -> Shared {
        Shared {
            values: Mutex::new(Values {
                client: None,
                registration: None,
                controller: None,
                office: None,
                applied: MetadataPosition::default(),
                unclean: settings.unclean,
                first: BrokerEpoch::NONE,
                seen: BrokerEpoch::NONE,
                leaving: false,
            }),
            runtime,
            observers,
            settings,
            image: RwLock::default(),
            changed: Notify::new(),
        }
    }

    pub(super) fn broker_id(&self) -> BrokerId {
        self.settings.broker_id
    }

    pub(super) fn image(&self) -> Arc<MetadataImage> {
        self.image.read().expect("no writer panics").clone()
    }

    /// Takes a newer image.
    pub(super) fn set_image(&self, image: MetadataImage) {
        let image = Arc::new(image);
        {
            let mut current = self.image.write().expect("no writer panics");
            assert!(image.position >= current.position, "metadata never goes back");
            *current = image.clone();
        }
        let own = image.brokers.get(&self.broker_id()).map(|broker| broker.broker_epoch);
        self.change(|values| {
            let Some(registration) = values.registration.filter(|mine| Some(mine.broker_epoch) == own) else {
                return;
            };
            values.seen = registration.broker_epoch;
            if registration.unclean {
                values.unclean = false;
            }
        });
    }

    fn values(&self) -> MutexGuard<'_, Values> {
        self.values.lock().expect("no holder panics")
    }

    fn change<T>(&self, change: impl FnOnce(&mut Values) -> T) -> T {
        let result = change(&mut self.values());
        self.changed.notify_waiters();
        result
    }

    /// Waits until `look` finds what it looks for. It is asked again whenever a value has changed.
    pub(super) async fn until<T>(&self, mut look: impl FnMut(&Shared) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look(self) {
                return found;
            }
            changed.await;
        }
    }

    pub(super) fn client(&self) -> Option<Client> {
        self.values().client.clone()
    }

    pub(super) fn set_client(&self, client: Option<Client>) {
        self.change(|values| values.client = client);
    }

    pub(super) fn registration(&self) -> Option<Registration> {
        self.values().registration
    }

    pub(super) fn broker_epoch(&self) -> BrokerEpoch {
        self.registration().map_or(BrokerEpoch::NONE, |registration| registration.broker_epoch)
    }

    pub(super) fn registered(&self, registration: Registration) {
        let Registration { broker_epoch, unclean } = registration;
        self.change(|values| {
            values.registration = Some(registration);
            if values.first == BrokerEpoch::NONE {
                values.first = broker_epoch;
            }
        });
        self.observers.tell(|| Observation::Registered { broker_epoch, unclean });
        tracing::info!(broker = %self.broker_id(), %broker_epoch, unclean, "registered");
    }

    pub(super) fn unregistered(&self) {
        if let Some(registration) = self.change(|values| values.registration.take()) {
            let broker_epoch = registration.broker_epoch;
            self.observers.tell(|| Observation::Unregistered { broker_epoch });
            tracing::info!(broker = %self.broker_id(), %broker_epoch, "not registered any more");
        }
    }

    /// The first registration of this process; none before there is one.
    pub(super) fn first_epoch(&self) -> Option<BrokerEpoch> {
        Some(self.values().first).filter(|first| *first != BrokerEpoch::NONE)
    }

    /// Whether a registration has to say that the last stop was unclean.
    pub(super) fn unclean(&self) -> bool {
        self.values().unclean
    }

    /// The newest registration of this process where the controller has seen it, else [`BrokerEpoch::NONE`].
    pub(super) fn seen_epoch(&self) -> BrokerEpoch {
        let values = self.values();
        let newest = values.registration.is_none_or(|registration| registration.broker_epoch == values.seen);
        if newest && !values.unclean { values.seen } else { BrokerEpoch::NONE }
    }

    pub(super) fn controller(&self) -> Option<KnownController> {
        self.values().controller.clone()
    }

    pub(super) fn set_controller(&self, controller: Option<KnownController>) {
        self.change(|values| values.controller = controller);
    }

    pub(super) fn office(&self) -> Option<Arc<Office>> {
        self.values().office.clone()
    }

    pub(super) fn set_office(&self, office: Arc<Office>) {
        self.change(|values| values.office = Some(office));
    }

    /// Takes the office away, if it is this one.
    pub(super) fn clear_office(&self, office: &Arc<Office>) {
        self.change(|values| {
            if values.office.as_ref().is_some_and(|current| Arc::ptr_eq(current, office)) {
                values.office = None;
            }
        });
    }

    pub(super) fn applied(&self) -> MetadataPosition {
        self.values().applied
    }

    pub(super) fn set_applied(&self, position: MetadataPosition) {
        self.change(|values| values.applied = position);
    }

    pub(super) fn leaving(&self) -> bool {
        self.values().leaving
    }

    pub(super) fn leave(&self) {
        self.change(|values| values.leaving = true);
    }
}
