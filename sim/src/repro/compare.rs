//! Runs a bundle again, without any random generator, and compares what happens with what is written in it.

use super::Bundle;
use crate::{
    driver::{Failure, RunOutcome, Watch, run},
    world::Event,
};
use serde::Serialize;

/// What came of a replay.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The same events, the same hash, the same failure.
    Same,
    /// Something else happened.
    Different(Difference),
}

/// Where a replay first differs.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The number of the event, from 1; 0 where all events agree.
    pub event: u64,
    /// What the bundle has there.
    pub expected: String,
    /// What the replay has there.
    pub found: String,
    /// The events before, which agree: the last few.
    pub before: Vec<String>,
    /// The decision that did not fit the tape, where one did not.
    pub decision: Option<String>,
}

/// How many events that agree are shown before the first that differs.
const CONTEXT_EVENTS: usize = 5;
const NOTHING: &str = "nothing: the run has ended";

/// Runs a bundle again.
pub fn replay(bundle: &Bundle) -> (RunOutcome, Verdict) {
    let outcome = run(bundle.input(), Watch::Keep);
    let verdict = compare(bundle, &outcome);
    (outcome, verdict)
}

/// Compares a run whose events were kept with a bundle.
pub fn compare(bundle: &Bundle, outcome: &RunOutcome) -> Verdict {
    let (expected, found) = (&bundle.events, &outcome.trace);
    let decision = outcome.divergence.as_ref().map(ToString::to_string);
    let agree =
        expected.iter().zip(found).take_while(|(expected, found)| expected.chain == found.chain).count();
    if agree < expected.len().max(found.len()) {
        let line =
            |events: &[Event]| events.get(agree).map_or_else(|| NOTHING.to_string(), ToString::to_string);
        let before =
            expected[agree.saturating_sub(CONTEXT_EVENTS)..agree].iter().map(ToString::to_string).collect();
        let (expected, found) = (line(expected), line(found));
        return Verdict::Different(Difference { event: agree as u64 + 1, expected, found, before, decision });
    }
    let failed_as =
        |failure: Option<&Failure>| failure.map_or_else(|| "no failure".to_string(), ToString::to_string);
    let (wanted, got) = (failed_as(Some(&bundle.failure)), failed_as(outcome.failure.as_ref()));
    if wanted != got || bundle.hash != outcome.hash || decision.is_some() {
        let with_hash = |text: String, hash: u64| format!("{text} (hash {hash:016x})");
        return Verdict::Different(Difference {
            event: 0,
            expected: with_hash(wanted, bundle.hash),
            found: with_hash(got, outcome.hash),
            before: Vec::new(),
            decision,
        });
    }
    Verdict::Same
}
