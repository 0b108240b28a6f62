//! I62 and K12: a session lives exactly as long as somebody hears of it. It is never found silent while a member that
//! can tell the leader hears it, across changes of the leader too; and silent ones are ended in time.

use super::{
    contract::{Conditions, CoordinatorContract},
    model::Session,
};
use crate::oracle::{invariant::Invariant, judge::Judge};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So close to another hearing of the same member none is remembered.
const APART_NS: u64 = 50_000_000;
/// So many hearings of one session are remembered.
const MAX_HEARINGS: usize = 1_024;

/// What is known of a session that lives.
#[derive(Debug, Default)]
struct Heard {
    /// When it began, or moved to another connection.
    since_ns: u64,
    last_ns: u64,
    /// When and by whom.
    hearings: VecDeque<(u64, u32)>,
    /// It was reported already.
    reported: bool,
}

/// The sessions that live, and what the members can know of them.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    live: BTreeMap<i64, Heard>,
    /// Since when each member is connected to the leader.
    connected_since: BTreeMap<u32, u64>,
    sound_since: Option<u64>,
    /// When each member became a leader, the last time.
    leader_since: BTreeMap<u32, u64>,
    last_leader_ns: u64,
    found_silent: BTreeSet<i64>,
}

impl Sessions {
    /// Looks at the world.
    pub fn look(&mut self, now_ns: u64, conditions: &dyn Conditions, nodes: &[u32]) {
        for node in nodes {
            if conditions.connected_to_leader(*node) {
                self.connected_since.entry(*node).or_insert(now_ns);
            } else {
                self.connected_since.remove(node);
            }
        }
        match conditions.majority_is_sound() {
            true => self.sound_since = self.sound_since.or(Some(now_ns)),
            false => self.sound_since = None,
        }
    }

    /// A member leads from now on: the others are connected to another leader, or to none.
    pub fn on_leader(&mut self, now_ns: u64, node: u32) {
        self.leader_since.insert(node, now_ns);
        self.last_leader_ns = now_ns;
        self.connected_since.clear();
    }

    pub fn on_opened(&mut self, now_ns: u64, session: i64) {
        let heard = self.live.entry(session).or_default();
        heard.since_ns = now_ns;
        heard.last_ns = heard.last_ns.max(now_ns);
    }

    pub fn on_heard(&mut self, now_ns: u64, node: u32, session: i64) {
        let Some(heard) = self.live.get_mut(&session) else { return };
        heard.last_ns = now_ns;
        let is_new = |(at, by): &(u64, u32)| *by != node || now_ns.saturating_sub(*at) >= APART_NS;
        if heard.hearings.back().is_none_or(is_new) {
            heard.hearings.push_back((now_ns, node));
            if heard.hearings.len() > MAX_HEARINGS {
                heard.hearings.pop_front();
            }
        }
    }

    /// A leader proposes to end a session. `known` is the session in the model, where it lives.
    pub fn on_found_silent(
        &mut self,
        judge: &mut Judge,
        contract: &CoordinatorContract,
        leader: u32,
        (session, timeout_ms): (i64, i32),
        known: Option<&Session>,
    ) {
        self.found_silent.insert(session);
        let (Some(heard), Some(known)) = (self.live.get(&session), known) else { return };
        let now_ns = judge.now_ns();
        // Where it has just moved, the leader may go by the timeout that it had before.
        let has_just_moved = now_ns < heard.since_ns + contract.touch_within_ns;
        let timeout_ms = if has_just_moved { timeout_ms.min(known.timeout_ms) } else { known.timeout_ms };
        let at_least_ns = contract.at_least_ns(timeout_ms);
        let name = format!("session 0x{session:x} with a timeout of {timeout_ms} ms");
        let ago = |at_ns: u64| (now_ns - at_ns) / 1_000_000;
        let leads_ns = self.leader_since.get(&leader).copied().unwrap_or(0);
        judge.demand(Invariant::I62, now_ns >= leads_ns + at_least_ns, || {
            format!("{name} is found silent by a leader that has led for only {} ms", ago(leads_ns))
        });
        let since_ns = heard.since_ns;
        judge.demand(Invariant::I62, has_just_moved || now_ns >= since_ns + at_least_ns, || {
            format!("{name} is found silent {} ms after it began or moved", ago(since_ns))
        });
        let reached_the_leader = |(at_ns, node): &&(u64, u32)| {
            let settled = |since_ns: &u64| since_ns + contract.settle_ns <= *at_ns;
            at_ns + contract.touch_within_ns <= now_ns
                && (*node == leader || self.connected_since.get(node).is_some_and(settled))
        };
        let last = heard.hearings.iter().rev().find(reached_the_leader).copied();
        if let Some((at_ns, node)) = last {
            judge.demand(Invariant::I62, at_ns + at_least_ns <= now_ns, || {
                format!("{name} is found silent, but n{node} heard it {} ms ago", ago(at_ns))
            });
        }
    }

    /// A session has ended, with so many ephemeral nodes.
    pub fn on_ended(
        &mut self,
        judge: &mut Judge,
        contract: &CoordinatorContract,
        session: i64,
        (ephemerals, expired): (usize, bool),
    ) {
        self.live.remove(&session);
        let found_silent = self.found_silent.remove(&session);
        if expired {
            judge.demand(Invariant::I62, found_silent, || {
                format!("session 0x{session:x} expires, but no leader has found it silent")
            });
            let settled = |since_ns: u64| judge.now_ns() >= since_ns + contract.election_ns;
            if self.sound_since.is_some_and(settled) {
                judge.evaluated(Invariant::K12);
            }
        }
        if ephemerals > 0 {
            judge.evaluated(Invariant::I62);
        }
    }

    /// Looks for sessions of which nobody has heard for too long.
    pub fn check_silent(
        &mut self,
        judge: &mut Judge,
        contract: &CoordinatorContract,
        known: &BTreeMap<i64, Session>,
    ) {
        let Some(sound_since) = self.sound_since else { return };
        let now_ns = judge.now_ns();
        for (session, heard) in self.live.iter_mut().filter(|(_, heard)| !heard.reported) {
            let Some(timeout_ms) = known.get(session).map(|known| known.timeout_ms) else { continue };
            let can_count_ns = (sound_since + contract.election_ns).max(self.last_leader_ns);
            let begins_ns = heard.last_ns.max(heard.since_ns).max(can_count_ns);
            let due_ns = begins_ns
                + contract.at_most_ns(timeout_ms)
                + contract.election_ns
                + contract.tick_ns
                + contract.touch_within_ns;
            if now_ns > due_ns {
                heard.reported = true;
                let silent_ms = (now_ns - heard.last_ns) / 1_000_000;
                let text = format!(
                    "session 0x{session:x} with a timeout of {timeout_ms} ms lives, nobody has heard of it for \
                     {silent_ms} ms"
                );
                judge.violated(Invariant::K12, text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        coordinator::testing::{Run, SECOND, create_mode},
    };
    use sillon_protocol::zookeeper::CreateMode;
    use std::sync::atomic::Ordering;

    /// Session 7, and ten seconds in which the second member hears it.
    fn heard() -> Run {
        let run = Run::new();
        run.later(10 * SECOND);
        run.join(7);
        for _ in 0..10 {
            run.later(SECOND);
            run.heard(2, 7);
        }
        run
    }

    #[test]
    fn found_silent_when_it_is() {
        let run = heard();
        run.write(7, &create_mode("/e", CreateMode::Ephemeral));
        run.later(6_100 * SECOND / 1_000);
        run.oracle.check_liveness();
        run.found_silent(1, 7);
        run.expire(7);
        run.assert_legal(&[Invariant::I62, Invariant::K12]);
    }

    #[test]
    fn found_silent_though_it_is_heard() {
        let run = heard();
        run.later(4 * SECOND);
        run.found_silent(1, 7);
        run.assert_violated(Invariant::I62);
    }

    #[test]
    fn whoever_heard_it_could_not_tell_the_leader() {
        let run = heard();
        *run.world.connected.lock().unwrap() = vec![1, 3];
        run.oracle.conditions_changed();
        run.later(4 * SECOND);
        run.found_silent(1, 7);
        run.assert_legal(&[]);
    }

    #[test]
    fn a_new_leader_gives_everybody_a_full_timeout() {
        let run = heard();
        run.later(4 * SECOND);
        run.elect(3, 2);
        run.later(3 * SECOND);
        run.found_silent(3, 7);
        run.assert_violated(Invariant::I62);
    }

    #[test]
    fn expired_without_having_been_found_silent() {
        let run = heard();
        run.later(60 * SECOND);
        run.expire(7);
        run.assert_violated(Invariant::I62);
    }

    #[test]
    fn silent_for_ever() {
        let run = heard();
        run.later(14 * SECOND);
        run.oracle.check_liveness();
        assert_eq!(run.oracle.violations(), []);
        run.later(2 * SECOND);
        run.oracle.check_liveness();
        run.assert_violated(Invariant::K12);
    }

    #[test]
    fn nobody_can_end_it_without_a_majority() {
        let run = heard();
        run.world.sound.store(false, Ordering::Relaxed);
        run.later(100 * SECOND);
        run.oracle.check_liveness();
        run.assert_legal(&[]);
    }
}
