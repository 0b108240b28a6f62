//! What happens when: the steps of faults that have struck or will. Owns the order; carries nothing out.

use crate::faults::{FaultKind, PlannedFault, Step};
use std::collections::BTreeMap;

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub node: u32,
    pub step: Step,
    /// For the first step of a fault: which.
    pub strikes: Option<FaultKind>,
}

/// Steps by time; those of equal time in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    queue: BTreeMap<(u64, u64), Due>,
    added: u64,
}

impl Agenda {
    /// All steps of a plan that begins at `start_ns`.
    pub fn of_plan(plan: &[PlannedFault], start_ns: u64) -> Agenda {
        let mut agenda = Agenda::default();
        for planned in plan {
            let mut strikes = Some(planned.fault.kind());
            for (after_ns, step) in planned.fault.steps() {
                let at_ns = start_ns.saturating_add(planned.at_ns).saturating_add(after_ns);
                agenda.add(at_ns, Due { node: planned.node, step, strikes: strikes.take() });
            }
        }
        agenda
    }

    pub fn add(&mut self, at_ns: u64, due: Due) {
        self.added += 1;
        self.queue.insert((at_ns, self.added), due);
    }

    /// When the next step is due.
    pub fn next_ns(&self) -> Option<u64> {
        self.queue.keys().next().map(|(at_ns, _)| *at_ns)
    }

    /// Takes the next step that is due by `now_ns`.
    pub fn take_due(&mut self, now_ns: u64) -> Option<Due> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }

    pub fn clear(&mut self) {
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_in_order_of_time_and_then_of_adding() {
        let mut agenda = Agenda::default();
        for (at_ns, step) in [(5, Step::Kill), (3, Step::Pause), (5, Step::Start), (9, Step::Mend)] {
            agenda.add(at_ns, Due { node: 0, step, strikes: None });
        }
        let mut taken = Vec::new();
        while let Some(due) = agenda.take_due(5) {
            taken.push(due.step);
        }
        assert_eq!(taken, [Step::Pause, Step::Kill, Step::Start]);
        assert_eq!(agenda.next_ns(), Some(9));
    }
}
