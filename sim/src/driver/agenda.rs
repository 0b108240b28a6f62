//! What happens when: the steps of faults that have struck or will. Owns the order; carries nothing out.

use crate::faults::{FaultKind, PlannedFault, Step};
use std::collections::BTreeMap;

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    /// An act on a machine.
    Act(Due),
    /// A fault whose machine is to be found now.
    Find(PlannedFault),
}

/// One act.
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
    queue: BTreeMap<(u64, u64), Entry>,
    added: u64,
}

impl Agenda {
    /// All steps of a plan that begins at `start_ns`.
    pub fn of_plan(plan: &[PlannedFault], start_ns: u64) -> Agenda {
        let mut agenda = Agenda::default();
        for planned in plan {
            let at_ns = start_ns.saturating_add(planned.at_ns);
            match planned.aim {
                None => agenda.add_fault(at_ns, planned.node, planned),
                Some(_) => agenda.insert(at_ns, Entry::Find(*planned)),
            }
        }
        agenda
    }

    /// All steps of a fault that strikes this machine at `at_ns`.
    pub fn add_fault(&mut self, at_ns: u64, node: u32, planned: &PlannedFault) {
        let mut strikes = Some(planned.fault.kind());
        for (after_ns, step) in planned.fault.steps() {
            self.add(at_ns.saturating_add(after_ns), Due { node, step, strikes: strikes.take() });
        }
    }

    pub fn add(&mut self, at_ns: u64, due: Due) {
        self.insert(at_ns, Entry::Act(due));
    }

    fn insert(&mut self, at_ns: u64, entry: Entry) {
        self.added += 1;
        self.queue.insert((at_ns, self.added), entry);
    }

    /// When the next step is due.
    pub fn next_ns(&self) -> Option<u64> {
        self.queue.keys().next().map(|(at_ns, _)| *at_ns)
    }

    /// Takes the next step that is due by `now_ns`.
    pub fn take_due(&mut self, now_ns: u64) -> Option<Entry> {
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
        while let Some(Entry::Act(due)) = agenda.take_due(5) {
            taken.push(due.step);
        }
        assert_eq!(taken, [Step::Pause, Step::Kill, Step::Start]);
        assert_eq!(agenda.next_ns(), Some(9));
    }

    #[test]
    fn a_fault_that_is_aimed_waits_for_its_machine() {
        use crate::faults::{Aim, Draws, FaultKind, ServerRole};
        let fault = crate::faults::some_fault(FaultKind::Crash, &mut Draws::new(1, "test"));
        let aim = Some(Aim { role: ServerRole::Leader, pick: 0 });
        let mut agenda = Agenda::of_plan(&[PlannedFault { at_ns: 4, node: 0, aim, fault }], 10);
        let Some(Entry::Find(planned)) = agenda.take_due(14) else { panic!("it is due") };
        agenda.add_fault(14, 2, &planned);
        let Some(Entry::Act(due)) = agenda.take_due(14) else { panic!("its first step is due") };
        assert_eq!((due.node, due.step, due.strikes), (2, Step::Kill, Some(FaultKind::Crash)));
        assert_eq!(agenda.next_ns(), Some(14 + fault.down_until_ns().expect("a crash ends")));
    }
}
