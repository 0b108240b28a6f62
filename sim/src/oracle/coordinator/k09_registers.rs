//! K09: the writes of a node, and the reads that followed a sync, can be put in one order that explains what every
//! client was told, without asking which transactions the replies named.
//!
//! For nodes that only plain creates, writes (also in multis) and deletions touch, at most the first few hundred of them. The search is
//! that of Wing and Gong with the memory of Lowe.

use super::{
    events::{OperationId, Outcome, Request, Response},
    model::{Change, Operation},
};
use crate::oracle::{invariant::Invariant, judge::Judge};
use sillon_protocol::zookeeper::{CreateMode, ErrorCode, EventType, OpCode, records::open_acl};
use std::collections::{BTreeMap, BTreeSet};

/// So many calls of one node are looked at.
const MAX_CALLS: usize = 300;
/// After so many steps a search gives up, and nothing is said.
const MAX_STEPS: usize = 200_000;

/// What a call asks. Data by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create(u32),
    Set(u32, i32),
    Delete(i32),
    Read,
}

/// What a call was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It was done; the version that a write made.
    Done(Option<i32>),
    NoNode,
    Exists,
    BadVersion,
    /// The node's version, and its data where that was asked for.
    Value(i32, Option<u32>),
}

/// One call. Times are places in the order of all events.
#[derive(Clone, Copy, Debug)]
struct Call {
    start: u64,
    end: Option<u64>,
    act: Act,
    /// `None` where nobody knows.
    told: Option<Told>,
}

#[derive(Debug, Default)]
struct Register {
    calls: Vec<Call>,
    data: Vec<Option<Vec<u8>>>,
    /// It has as many calls as are looked at: those that have not ended are never known.
    is_full: bool,
}

impl Register {
    fn number(&mut self, data: &Option<Vec<u8>>) -> u32 {
        let known = self.data.iter().position(|known| known == data);
        known.unwrap_or_else(|| {
            self.data.push(data.clone());
            self.data.len() - 1
        }) as u32
    }
}

/// The nodes that are looked at.
#[derive(Debug, Default)]
pub(super) struct Registers {
    registers: BTreeMap<String, Register>,
    /// Nodes that something else touches.
    spoiled: BTreeSet<String>,
    /// Where the calls are that have not ended.
    open: BTreeMap<OperationId, Vec<(String, usize)>>,
}

impl Registers {
    /// A client asks for a write.
    pub fn on_invoked(&mut self, at: u64, operation: OperationId, request: &Request) {
        match request {
            Request::Create { mode, .. } if mode.is_sequential() => {}
            Request::Create { path, mode, acl, data, .. } => {
                if *mode != CreateMode::Persistent || *acl != open_acl() {
                    self.spoil_path(path);
                }
                self.begin(at, operation, path, |register| Act::Create(register.number(data)));
            }
            Request::SetAcl { path, .. } => self.spoil_path(path),
            Request::SetData { path, data, version } => {
                self.begin(at, operation, path, |register| Act::Set(register.number(data), *version));
            }
            Request::Delete { path, version } => self.begin(at, operation, path, |_| Act::Delete(*version)),
            Request::Multi(parts) if parts.iter().all(is_conditional_write) => {
                parts.iter().for_each(|part| self.on_invoked(at, operation, part));
            }
            _ => {}
        }
    }

    fn begin(&mut self, at: u64, operation: OperationId, path: &str, act: impl FnOnce(&mut Register) -> Act) {
        if self.spoiled.contains(path) {
            return;
        }
        let register = self.registers.entry(path.to_owned()).or_default();
        register.is_full |= register.calls.len() >= MAX_CALLS;
        if register.is_full {
            return;
        }
        self.open.entry(operation).or_default().push((path.to_owned(), register.calls.len()));
        let act = act(register);
        register.calls.push(Call { start: at, end: None, act, told: None });
    }

    /// What came of a write.
    pub fn on_completed(&mut self, at: u64, operation: OperationId, outcome: &Outcome) {
        let parts = self.open.remove(&operation).unwrap_or_default();
        let answers = match outcome {
            Outcome::Unknown => return,
            Outcome::Failed { error, .. } => vec![Err(*error)],
            Outcome::Ok { response: Response::Multi(answers), .. } => {
                // Those of checks are answers about other calls.
                let written = |answer: &&Result<Response, i32>| matches!(answer, Ok(Response::Stat(_)));
                let written: Vec<_> = answers.iter().filter(written).cloned().collect();
                if written.len() != parts.len() {
                    // None was done, which is one of the things that may have come of each.
                    return;
                }
                written
            }
            Outcome::Ok { response, .. } => vec![Ok(response.clone())],
        };
        for ((path, place), answer) in parts.into_iter().zip(answers) {
            self.end(at, &path, place, &answer);
        }
    }

    fn end(&mut self, at: u64, path: &str, place: usize, answer: &Result<Response, i32>) {
        let Some(register) = self.registers.get_mut(path).filter(|register| !register.is_full) else {
            return;
        };
        let told = match answer {
            Ok(Response::Stat(stat)) => Told::Done(Some(stat.version)),
            Ok(_) => Told::Done(None),
            Err(error) => match ErrorCode::from_number(*error) {
                // For a create it is the parent that is not there.
                Some(ErrorCode::NoNode) if !matches!(register.calls[place].act, Act::Create(_)) => {
                    Told::NoNode
                }
                Some(ErrorCode::NodeExists) => Told::Exists,
                Some(ErrorCode::BadVersion) => Told::BadVersion,
                // It was not done, which is one of the things that may have come of it.
                Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved | ErrorCode::ConnectionLoss) => {
                    return;
                }
                _ => return self.spoil_path(path),
            },
        };
        let call = &mut register.calls[place];
        (call.end, call.told) = (Some(at), Some(told));
    }

    /// A read has been answered that was sent on the same connection as a sync before it, which began at `start`.
    pub fn on_read(&mut self, (start, end): (u64, u64), request: &Request, outcome: &Outcome) {
        let Some(path) = request.path().filter(|path| !self.spoiled.contains(*path)) else { return };
        let Some(register) = self.registers.get_mut(path).filter(|register| !register.is_full) else {
            return;
        };
        let told = match outcome {
            Outcome::Ok { response: Response::Stat(stat), .. } => Told::Value(stat.version, None),
            Outcome::Ok { response: Response::Data(data, stat), .. } => {
                Told::Value(stat.version, Some(register.number(data)))
            }
            Outcome::Failed { error, .. } if *error == ErrorCode::NoNode.number() => Told::NoNode,
            _ => return,
        };
        if register.calls.len() >= MAX_CALLS {
            register.is_full = true;
            return;
        }
        register.calls.push(Call { start, end: Some(end), act: Act::Read, told: Some(told) });
    }

    /// A write is in the log, and has changed this.
    pub fn on_applied(&mut self, operation: &Operation, is_told: bool, changes: &[Change]) {
        let is_plain = match operation {
            Operation::Create(create) => {
                create.flags == CreateMode::Persistent.number() && create.code != OpCode::CreateContainer
            }
            Operation::Delete { .. } | Operation::SetData { .. } => true,
            Operation::Multi(parts) => {
                parts.iter().all(|part| matches!(part, Operation::SetData { .. } | Operation::Check { .. }))
            }
            _ => false,
        };
        if !is_plain || !is_told {
            return self.spoil(changes);
        }
        for change in changes.iter().filter(|change| change.event == EventType::NodeChildrenChanged) {
            self.spoil_path(&change.path);
        }
    }

    /// Something else has changed this.
    pub fn spoil(&mut self, changes: &[Change]) {
        for change in changes {
            self.spoil_path(&change.path);
        }
    }

    fn spoil_path(&mut self, path: &str) {
        if self.spoiled.insert(path.to_owned()) {
            self.registers.remove(path);
        }
    }

    /// Looks for the order of each node's calls.
    pub fn finish(&mut self, judge: &mut Judge) {
        self.open.clear();
        for (path, register) in std::mem::take(&mut self.registers) {
            if register.calls.iter().filter(|call| call.told.is_some()).count() < 2 {
                continue;
            }
            if let Some(holds) = Search::new(&register.calls).run() {
                judge.demand(Invariant::K09, holds, || {
                    let calls = register.calls.len();
                    format!(
                        "no order of the {calls} first calls of {path} explains what its clients were told"
                    )
                });
            }
        }
    }
}

/// Whether a part of a multi is one of those that can be taken for calls of their own.
fn is_conditional_write(request: &Request) -> bool {
    matches!(request, Request::SetData { .. } | Request::Check { .. })
}

/// The node in the search: version and data, where it exists.
type Value = Option<(i32, u32)>;
/// Which calls have their place.
type Placed = [u64; MAX_CALLS.div_ceil(64)];

/// The node after a call, where the call can have been told what it was; `None` where it cannot be its turn.
fn step(value: Value, call: &Call) -> Option<Value> {
    let fits = |version: i32| version == -1 || value.is_some_and(|(known, _)| known == version);
    let (next, due) = match (call.act, value) {
        (Act::Create(_), Some(_)) => (value, Told::Exists),
        (Act::Create(data), None) => (Some((0, data)), Told::Done(None)),
        (Act::Read, Some((version, data))) => {
            let asked = matches!(call.told, Some(Told::Value(_, Some(_))));
            (value, Told::Value(version, asked.then_some(data)))
        }
        (_, None) => (value, Told::NoNode),
        (Act::Set(_, version) | Act::Delete(version), Some(_)) if !fits(version) => (value, Told::BadVersion),
        (Act::Set(data, _), Some((version, _))) => {
            (Some((version.wrapping_add(1), data)), Told::Done(Some(version.wrapping_add(1))))
        }
        (Act::Delete(_), Some(_)) => (None, Told::Done(None)),
    };
    match call.told {
        // Of a call that changes nothing and of which nobody knows, nobody needs to know.
        None => (next != value).then_some(next),
        Some(Told::Done(None)) if matches!(due, Told::Done(_)) => Some(next),
        Some(told) => (told == due).then_some(next),
    }
}

/// A search for an order. Starts and ends of calls are a list through which a finger moves; a call that has found its
/// place is taken out.
struct Search<'a> {
    calls: &'a [Call],
    /// Each event: its call, and whether it is the end of it.
    events: Vec<(usize, bool)>,
    /// Where the start and the end of each call are.
    places: Vec<(usize, Option<usize>)>,
    next: Vec<usize>,
    previous: Vec<usize>,
}

impl Search<'_> {
    fn new(calls: &[Call]) -> Search<'_> {
        let mut events: Vec<(u64, usize, bool)> = Vec::new();
        for (number, call) in calls.iter().enumerate() {
            events.push((call.start, number, false));
            events.extend(call.end.map(|end| (end, number, true)));
        }
        events.sort_unstable();
        let mut places = vec![(0, None); calls.len()];
        for (place, (_, number, is_end)) in events.iter().enumerate() {
            // Place 0 is the head of the list.
            match is_end {
                false => places[*number].0 = place + 1,
                true => places[*number].1 = Some(place + 1),
            }
        }
        let count = events.len() + 1;
        Search {
            calls,
            events: events.into_iter().map(|(_, number, is_end)| (number, is_end)).collect(),
            places,
            next: (1..=count).collect(),
            previous: (0..count + 1).map(|place| place.saturating_sub(1)).collect(),
        }
    }

    fn take_out(&mut self, place: usize) {
        let (before, after) = (self.previous[place], self.next[place]);
        self.next[before] = after;
        self.previous[after] = before;
    }

    fn put_back(&mut self, place: usize) {
        let (before, after) = (self.previous[place], self.next[place]);
        self.next[before] = place;
        self.previous[after] = place;
    }

    /// Whether there is an order; `None` where the search gave up.
    fn run(mut self) -> Option<bool> {
        let mut value: Value = None;
        let mut placed = Placed::default();
        let mut seen: BTreeSet<(Placed, Value)> = BTreeSet::new();
        let mut trail: Vec<(usize, Value)> = Vec::new();
        let mut left = self.calls.iter().filter(|call| call.end.is_some()).count();
        let mut place = self.next[0];
        for _ in 0..MAX_STEPS {
            if left == 0 {
                return Some(true);
            }
            let event = self.events.get(place.wrapping_sub(1)).copied();
            if let Some((number, false)) = event {
                let next = step(value, &self.calls[number]);
                let mut with = placed;
                with[number / 64] |= 1 << (number % 64);
                if let Some(next) = next.filter(|next| seen.insert((with, *next))) {
                    trail.push((number, value));
                    (value, placed) = (next, with);
                    let (start, end) = self.places[number];
                    self.take_out(start);
                    if let Some(end) = end {
                        self.take_out(end);
                        left -= 1;
                    }
                    place = self.next[0];
                } else {
                    place = self.next[place];
                }
                continue;
            }
            // The end of a call that has no place yet: some earlier choice was wrong.
            let Some((number, before)) = trail.pop() else { return Some(false) };
            value = before;
            placed[number / 64] &= !(1 << (number % 64));
            let (start, end) = self.places[number];
            if let Some(end) = end {
                self.put_back(end);
                left += 1;
            }
            self.put_back(start);
            place = self.next[start];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::coordinator::testing::{Run, create, delete, get, set};

    fn call(start: u64, end: u64, act: Act, told: Told) -> Call {
        Call { start, end: Some(end), act, told: Some(told) }
    }

    fn unknown(start: u64, act: Act) -> Call {
        Call { start, end: None, act, told: None }
    }

    fn search(calls: &[Call]) -> bool {
        Search::new(calls).run().expect("so few calls are searched to the end")
    }

    const CREATED: Told = Told::Done(None);

    #[test]
    fn calls_at_the_same_time_may_change_places() {
        let create = call(0, 1, Act::Create(0), CREATED);
        let set = call(2, 6, Act::Set(1, -1), Told::Done(Some(1)));
        assert!(search(&[create, set, call(3, 4, Act::Read, Told::Value(0, Some(0)))]));
        assert!(search(&[create, set, call(3, 4, Act::Read, Told::Value(1, Some(1)))]));
        assert!(!search(&[create, set, call(7, 8, Act::Read, Told::Value(0, Some(0)))]));
    }

    #[test]
    fn new_and_then_old_is_seen() {
        let create = call(0, 1, Act::Create(0), CREATED);
        let set = call(2, 9, Act::Set(1, -1), Told::Done(Some(1)));
        let (new, old) = (Told::Value(1, Some(1)), Told::Value(0, Some(0)));
        assert!(search(&[create, set, call(3, 4, Act::Read, old), call(5, 6, Act::Read, new)]));
        assert!(!search(&[create, set, call(3, 4, Act::Read, new), call(5, 6, Act::Read, old)]));
    }

    #[test]
    fn what_nobody_knows_may_have_happened_at_any_time_or_never() {
        let create = call(0, 1, Act::Create(0), CREATED);
        let lost = unknown(2, Act::Set(1, 0));
        let old = |start| call(start, start + 1, Act::Read, Told::Value(0, Some(0)));
        let new = |start| call(start, start + 1, Act::Read, Told::Value(1, Some(1)));
        assert!(search(&[create, lost, old(3)]));
        assert!(search(&[create, lost, old(3), new(5), new(7)]));
        assert!(!search(&[create, lost, new(3), old(5)]));
        assert!(!search(&[create, unknown(9, Act::Set(1, 0)), new(3)]));
    }

    #[test]
    fn a_condition_is_won_once() {
        let create = call(0, 1, Act::Create(0), CREATED);
        let win = |start, data| call(start, 9, Act::Set(data, 0), Told::Done(Some(1)));
        let lose = call(2, 9, Act::Set(2, 0), Told::BadVersion);
        assert!(search(&[create, win(2, 1), lose]));
        assert!(!search(&[create, win(2, 1), win(3, 2)]));
        let gone = call(10, 11, Act::Delete(-1), CREATED);
        assert!(search(&[create, win(2, 1), gone, call(12, 13, Act::Read, Told::NoNode)]));
        assert!(!search(&[create, win(2, 1), call(12, 13, Act::Read, Told::NoNode)]));
    }

    #[test]
    fn many_calls_at_once() {
        let mut calls = vec![call(0, 1, Act::Create(0), CREATED)];
        for number in 1..60 {
            let start = 2 + u64::from(number) * 2;
            calls.push(call(start, start + 20, Act::Set(number, -1), Told::Done(Some(number as i32))));
            calls.push(unknown(start + 1, Act::Delete(500)));
        }
        assert!(search(&calls));
    }

    fn joined() -> Run {
        let run = Run::new();
        run.join(7);
        run.join(8);
        run
    }

    #[test]
    fn a_whole_run() {
        let run = joined();
        run.write(7, &create("/r"));
        run.write(8, &set("/r", "1"));
        run.synced(7, run.zxid.get());
        run.read(7, &get("/r"));
        run.write(8, &Request::Multi(vec![set("/r", "2"), set("/r", "3")]));
        run.synced(7, run.zxid.get());
        run.read(7, &get("/r"));
        run.write(7, &delete("/r"));
        run.assert_legal(&[Invariant::K09]);
    }

    #[test]
    fn a_run_whose_transactions_lie() {
        let run = joined();
        run.write(7, &create("/r"));
        let old = run.zxid.get();
        let invoked = run.invoke(8, &set("/r", "1"));
        let outcome = run.log(8, &set("/r", "1"));
        run.complete(invoked, outcome);
        // Both the sync and the read claim a state that is too old.
        let client = 7;
        let synced = run.invoke(client, &crate::oracle::coordinator::testing::sync());
        run.complete(synced, Outcome::Ok { zxid: old, response: Response::Nothing });
        let read = run.invoke(client, &get("/r"));
        let outcome = run.shown(&get("/r"), old);
        run.complete(read, outcome);
        run.oracle.finish();
        let found: Vec<Invariant> =
            run.oracle.violations().iter().map(|violation| violation.invariant).collect();
        assert!(found.contains(&Invariant::K09) && found.contains(&Invariant::K08), "{found:?}");
    }
}
