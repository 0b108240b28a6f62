//! The trace: what happened, in order, folded into one number. Owns events and their hash; judges nothing.

use super::{NodeId, lock, timer::now_ns};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::VecDeque, fmt, sync::Mutex};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the run, from 1.
    pub sequence: u64,
    /// When, in nanoseconds of simulated time.
    pub time_ns: u64,
    /// Where; [`NodeId::WORLD`] for the world as a whole.
    pub node: NodeId,
    /// What kind of thing, such as `delivered`.
    pub kind: Cow<'static, str>,
    /// Its numbers, which are part of the hash.
    pub fields: Vec<(Cow<'static, str>, u64)>,
    /// Words for people, which are not.
    pub detail: String,
    /// The hash over this event and all before it.
    pub chain: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line(&self.node))
    }
}

impl Event {
    /// The event as a line, with this name for its machine.
    pub fn line(&self, machine: &dyn fmt::Display) -> String {
        let (sequence, at_ms, kind) = (self.sequence, self.time_ns as f64 / 1e6, &self.kind);
        let mut line = format!("{sequence:>8} {at_ms:>16.6} ms {machine:<6} {kind}");
        for (name, value) in &self.fields {
            line.push_str(&format!(" {name}={value}"));
        }
        if !self.detail.is_empty() {
            line.push(' ');
            line.push_str(&self.detail);
        }
        line
    }
}

/// What of the trace is kept in memory. The hash covers all of it in each case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// Nothing but the hash.
    #[default]
    None,
    /// The last so many events.
    Last(usize),
    /// Every event.
    All,
}

/// Is shown each event as it happens. It must not call into the world: the trace is locked.
pub type Sink = Box<dyn FnMut(&Event) + Send>;

/// The trace of a run.
pub struct Trace(Mutex<State>);

struct State {
    chain: u64,
    count: u64,
    retention: Retention,
    kept: VecDeque<Event>,
    sink: Option<Sink>,
}

impl Trace {
    pub(super) fn new(retention: Retention) -> Trace {
        let state =
            State { chain: 0xcbf2_9ce4_8422_2325, count: 0, retention, kept: VecDeque::new(), sink: None };
        Trace(Mutex::new(state))
    }

    /// Adds an event. The detail is formatted only where somebody will see it.
    pub(super) fn add(
        &self,
        node: NodeId,
        kind: &'static str,
        fields: &[(&'static str, u64)],
        detail: impl FnOnce() -> String,
    ) {
        let time_ns = now_ns();
        let state = &mut *lock(&self.0);
        let mut chain = fold(state.chain, time_ns);
        chain = fold(chain, u64::from(node.0) << 32 | fields.len() as u64);
        for word in kind.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            chain = fold(chain, u64::from_le_bytes(bytes));
        }
        for (_, value) in fields {
            chain = fold(chain, *value);
        }
        state.chain = chain;
        state.count += 1;
        if state.retention != Retention::None || state.sink.is_some() {
            let fields = fields.iter().map(|(name, value)| (Cow::Borrowed(*name), *value)).collect();
            let kind = Cow::Borrowed(kind);
            state.keep(Event { sequence: state.count, time_ns, node, kind, fields, detail: detail(), chain });
        }
    }

    /// The hash over all events so far.
    pub fn chain(&self) -> u64 {
        lock(&self.0).chain
    }

    /// How many events there were.
    pub fn count(&self) -> u64 {
        lock(&self.0).count
    }

    /// The events that were kept, oldest first.
    pub fn events(&self) -> Vec<Event> {
        lock(&self.0).kept.iter().cloned().collect()
    }

    /// Changes what is kept from now on.
    pub fn set_retention(&self, retention: Retention) {
        lock(&self.0).retention = retention;
    }

    /// Shows each further event to `sink`.
    pub fn set_sink(&self, sink: Option<Sink>) {
        // The old one may do anything when it is dropped: not under the lock.
        let old = std::mem::replace(&mut lock(&self.0).sink, sink);
        drop(old);
    }
}

impl State {
    fn keep(&mut self, event: Event) {
        if let Some(sink) = &mut self.sink {
            sink(&event);
        }
        match self.retention {
            Retention::None => {}
            Retention::All => self.kept.push_back(event),
            Retention::Last(most) => {
                self.kept.push_back(event);
                while self.kept.len() > most {
                    self.kept.pop_front();
                }
            }
        }
    }
}

/// One step of the hash: a bijection in each argument, so that no single change can be swallowed.
fn fold(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::run_seeded;

    fn chain_of(retention: Retention, value: u64) -> (u64, Vec<Event>) {
        run_seeded(1, move || async move {
            let trace = Trace::new(retention);
            for index in 0..4 {
                trace.add(NodeId(2), "step", &[("index", index), ("value", value)], || "words".into());
            }
            (trace.chain(), trace.events())
        })
        .expect("no panic")
    }

    #[test]
    fn the_hash_does_not_depend_on_what_is_kept_but_on_every_value() {
        let (hash, none) = chain_of(Retention::None, 7);
        let (same, last) = chain_of(Retention::Last(2), 7);
        let (_, all) = chain_of(Retention::All, 7);
        assert_eq!(hash, same);
        assert_eq!((none.len(), last.len(), all.len()), (0, 2, 4));
        assert_eq!(last[1], all[3]);
        assert_eq!(all[3].chain, hash);
        assert_ne!(hash, chain_of(Retention::None, 8).0);
    }
}
