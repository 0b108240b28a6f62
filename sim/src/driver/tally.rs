//! How much happened in an ensemble and to its clients. Owns the counts; judges nothing.

use crate::oracle::coordinator::{CoordinatorEvent, Outcome};
use serde::{Deserialize, Serialize};
use sillon_coordinator::{
    command::Action,
    observe::{Observation, Role},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// How much happened in an ensemble and to its clients.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct EnsembleStatistics { $($(#[$doc])* pub $name: u64,)* }

        impl EnsembleStatistics {
            /// Adds those of another run.
            pub fn add(&mut self, other: &EnsembleStatistics) {
                $(self.$name += other.$name;)*
            }

            /// Each count with its name.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$(($text, self.$name),)*]
            }
        }
    };
}

counts! {
    /// Operations that clients began.
    operations = "begun",
    /// Operations that were done.
    done = "done",
    /// Operations that were refused.
    refused = "refused",
    /// Operations of which the client does not know.
    unknown = "unknown",
    /// Events of watches.
    watch_events = "watch events",
    /// Times that a client got a connection.
    connections = "connections",
    /// Sessions that clients closed.
    sessions_closed = "sessions closed",
    /// Sessions that clients found gone.
    sessions_refused = "sessions found gone",
    /// Sessions that the ensemble ended because they were silent, each as often as members applied it.
    sessions_expired = "expiries applied",
    /// Times that a member began to lead.
    leaders = "leaders",
    /// Snapshots that members took.
    snapshots = "snapshots",
    /// Snapshots that members got from others.
    snapshots_installed = "snapshots installed",
    /// Starts of members that read their disk to the end.
    starts = "starts",
}

/// Counts as things happen.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<EnsembleStatistics>);

impl Tally {
    fn lock(&self) -> MutexGuard<'_, EnsembleStatistics> {
        // A run has one thread; a count is never half-made.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All counts.
    pub fn statistics(&self) -> EnsembleStatistics {
        *self.lock()
    }

    /// A client did or saw something.
    pub fn client(&self, event: &CoordinatorEvent) {
        let mut counts = self.lock();
        match event {
            CoordinatorEvent::Invoked { .. } => counts.operations += 1,
            CoordinatorEvent::Completed { outcome, .. } => match outcome {
                Outcome::Ok { .. } => counts.done += 1,
                Outcome::Failed { .. } => counts.refused += 1,
                Outcome::Unknown => counts.unknown += 1,
            },
            CoordinatorEvent::WatchEvent { .. } => counts.watch_events += 1,
            CoordinatorEvent::Connected { .. } => counts.connections += 1,
            CoordinatorEvent::SessionClosed { .. } => counts.sessions_closed += 1,
            CoordinatorEvent::Refused { .. } => counts.sessions_refused += 1,
            CoordinatorEvent::Disconnected { .. }
            | CoordinatorEvent::Sent { .. }
            | CoordinatorEvent::Replied { .. } => {}
        }
    }

    /// A member told something.
    pub fn member(&self, observation: &Observation<'_>) {
        let mut counts = self.lock();
        match observation {
            Observation::Started { .. } => counts.starts += 1,
            Observation::RoleChanged { role: Role::Leader, .. } => counts.leaders += 1,
            Observation::Applied { command: Some(command), error: 0, .. } => {
                counts.sessions_expired += u64::from(matches!(command.action, Action::ExpireSession { .. }));
            }
            Observation::SnapshotTaken { .. } => counts.snapshots += 1,
            Observation::SnapshotInstalled { .. } => counts.snapshots_installed += 1,
            _ => {}
        }
    }
}
