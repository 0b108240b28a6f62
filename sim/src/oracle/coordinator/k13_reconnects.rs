//! K13: who comes back with a session gets that session, or the word that it has gone, and both only where it is true.

use super::model::Model;
use crate::oracle::{invariant::Invariant, judge::Judge};
use std::collections::BTreeMap;

/// What a client knew of its session before it connected.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    /// Its session, where nobody has told it that it has gone.
    pub session: Option<i64>,
    /// When its last connection ended.
    pub disconnected_ns: Option<u64>,
}

/// A client is told that it has a session.
pub(super) fn on_connected(
    judge: &mut Judge,
    model: &Model,
    ended_ns: &BTreeMap<i64, u64>,
    before: Before,
    session: i64,
) {
    let lives = model.sessions.contains_key(&session);
    judge.demand(Invariant::K13, lives || model.ended.contains_key(&session), || {
        format!("session 0x{session:x} is given to a client before any member has it")
    });
    if let Some(known) = before.session {
        judge.demand(Invariant::K13, known == session, || {
            format!("a client with session 0x{known:x} is given 0x{session:x} without a word")
        });
    }
    // The client can have asked only after its last connection ended.
    let asked_ns = before.disconnected_ns.filter(|_| before.session == Some(session));
    if let (Some(asked_ns), Some(ended_ns)) = (asked_ns, ended_ns.get(&session)) {
        judge.demand(Invariant::K13, *ended_ns >= asked_ns, || {
            format!("session 0x{session:x} goes on, though it had ended before the client came back for it")
        });
    }
}

/// A client is told that its session has gone.
pub(super) fn on_refused(judge: &mut Judge, model: &Model, session: i64) {
    judge.demand(Invariant::K13, !model.sessions.contains_key(&session), || {
        format!("a client is told that session 0x{session:x} has gone, but it lives")
    });
}

#[cfg(test)]
mod tests {
    use crate::oracle::{
        Invariant,
        coordinator::{
            ClientId, CoordinatorEvent,
            testing::{Run, SECOND},
        },
    };

    fn refused(run: &Run, session: i64) {
        run.event(CoordinatorEvent::Refused { client: ClientId(7), session });
    }

    fn expired() -> Run {
        let run = Run::new();
        run.join(7);
        run.later(10 * SECOND);
        run.found_silent(1, 7);
        run.expire(7);
        run
    }

    #[test]
    fn told_that_it_has_gone() {
        let run = expired();
        run.disconnected(7);
        refused(&run, 7);
        run.open(17);
        run.connected(7, 17);
        run.assert_legal(&[Invariant::K13]);
    }

    #[test]
    fn told_so_though_it_lives() {
        let run = Run::new();
        run.join(7);
        run.disconnected(7);
        refused(&run, 7);
        run.assert_violated(Invariant::K13);
    }

    #[test]
    fn another_without_a_word() {
        let run = Run::new();
        run.join(7);
        run.disconnected(7);
        run.open(17);
        run.connected(7, 17);
        run.assert_violated(Invariant::K13);
    }

    #[test]
    fn one_that_had_ended() {
        let run = expired();
        run.later(SECOND);
        run.disconnected(7);
        run.connected(7, 7);
        run.assert_violated(Invariant::K13);
    }

    #[test]
    fn one_that_nobody_has() {
        let run = Run::new();
        run.connected(7, 7);
        run.assert_violated(Invariant::K13);
    }

    #[test]
    fn left_on_purpose() {
        let run = Run::new();
        run.join(7);
        run.disconnected(7);
        run.oracle.client_abandons(ClientId(7));
        run.open(17);
        run.connected(7, 17);
        run.assert_legal(&[Invariant::K13]);
    }
}
