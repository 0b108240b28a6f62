//! K10: the replies on a connection leave in the order of its requests.

use crate::oracle::{invariant::Invariant, judge::Judge};
use std::collections::VecDeque;

/// The requests of a connection that wait for their replies. Pings and the like, with xids below 1, do not count: they
/// have places of their own.
#[derive(Debug, Default)]
pub(super) struct Wire(VecDeque<i32>);

impl Wire {
    pub fn on_sent(&mut self, xid: i32) {
        if xid > 0 {
            self.0.push_back(xid);
        }
    }

    pub fn on_replied(&mut self, judge: &mut Judge, xid: i32) {
        if xid <= 0 {
            return;
        }
        let due = self.0.pop_front();
        judge.demand(Invariant::K10, due == Some(xid), || match due {
            Some(due) => format!("request {xid} is answered before {due}, which was sent earlier"),
            None => format!("request {xid} is answered, which was not sent or answered already"),
        });
        if due != Some(xid) {
            // One mistake is told once.
            let answered = self.0.iter().position(|sent| *sent == xid).map_or(0, |place| place + 1);
            self.0.drain(..answered);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::oracle::{Invariant, coordinator::testing::Run};

    fn with_requests() -> Run {
        let run = Run::new();
        run.join(7);
        for xid in [1, -2, 2, 3] {
            run.sent(7, xid);
        }
        run
    }

    #[test]
    fn in_order() {
        let run = with_requests();
        run.replied(7, 1, 1);
        run.replied(7, 2, 1);
        run.replied(7, -2, 1);
        run.replied(7, 3, 1);
        run.assert_legal(&[Invariant::K10]);
    }

    #[test]
    fn out_of_order() {
        let run = with_requests();
        run.replied(7, 2, 1);
        run.replied(7, 3, 1);
        run.assert_violated(Invariant::K10);
        assert_eq!(run.oracle.violations().len(), 1);
    }

    #[test]
    fn twice() {
        let run = with_requests();
        run.replied(7, 1, 1);
        run.replied(7, 1, 1);
        run.assert_violated(Invariant::K10);
    }
}
