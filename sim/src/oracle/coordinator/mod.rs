//! Stand-in.

mod events;
pub use events::{ClientId, CoordinatorEvent, OperationId, Outcome, Request, Response};

use super::{Clock, DiskFault, Invariant, Stop, Violation};
use sillon_coordinator::observe::Observation;
use std::{collections::BTreeMap, sync::Arc};

/// Stand-in.
pub struct CoordinatorOracle {
    _clock: Clock,
}

#[allow(missing_docs)]
impl CoordinatorOracle {
    pub fn new(clock: Clock) -> Arc<CoordinatorOracle> {
        Arc::new(CoordinatorOracle { _clock: clock })
    }
    pub fn client_event(&self, _event: CoordinatorEvent) {}
    pub fn member_observation(&self, _node: u32, _observation: &Observation<'_>) {}
    pub fn node_starting(&self, _node: u32) {}
    pub fn node_stopped(&self, _node: u32, _stop: Stop) {}
    pub fn disk_fault(&self, _node: u32, _fault: DiskFault) {}
    pub fn healed(&self) {}
    pub fn check_liveness(&self) {}
    pub fn converged(&self) -> bool {
        true
    }
    pub fn finish(&self) {}
    pub fn report(&self, _invariant: Invariant, _text: String) {}
    pub fn first_violation(&self) -> Option<Violation> {
        None
    }
    pub fn evaluations(&self) -> BTreeMap<Invariant, u64> {
        BTreeMap::new()
    }
}
